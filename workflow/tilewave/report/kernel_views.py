"""A kernel's page: idea, speed beside its neighbour rungs, studies, advice, and code (`kernel_code`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import escape

from tilewave.compiling import origins
from tilewave.kernel import result
from tilewave.kernel.front_matter import Kernel, idea
from tilewave.pipeline.project import Project
from tilewave.plots.base import BASELINE, excess_percent, shape_label
from tilewave.report import advice, kernel_code, kernel_samples, verdict
from tilewave.report.advice import Subject, of_tables
from tilewave.report.cells import Table, cell, number, plural, table
from tilewave.report.figures import content_key
from tilewave.report.kernel_code import Change, LanesOf, Listing, VariantView, largest_of, work_of
from tilewave.report.kernel_samples import Sampled
from tilewave.report.studies import StudyView
from tilewave.report.summary import MILD, ReasonGroup, troubles, verdict_counts

SHARE, SPEED = "paired_share", "tflops"
SHOWN_ROWS = 12
"""The most rows of a study's table on a kernel's page; the CSV has all."""


@dataclass(frozen=True)
class KernelRow:
    """A kernel in the index's table."""

    name: str
    title: str
    operation: str
    dtypes: str
    cases: str
    verdict: str
    bad: bool
    share: str
    at: str
    registers: str
    excess: str
    advice: str = ""
    """The finding with the largest bound that names a line."""


@dataclass(frozen=True)
class InStudy:
    """A kernel's rows in a study's table; finding: a placeholder for `with_findings`."""

    name: str
    title: str
    finding: str
    table: Table | None


@dataclass(frozen=True)
class Advised:
    """A finding of a rule; bound: the most that a fix can save (%)."""

    rule: str
    sentence: str
    where: str
    text: str
    case: str
    bound: str


@dataclass(frozen=True)
class Series:
    """The kernels that a case launches in a row, and the leading kernel."""

    entries: list[str]
    leading: str


@dataclass(frozen=True)
class KernelView:
    """All data of a kernel's page."""

    name: str
    file: str
    title: str
    follows: str
    next: list[str]
    operation: str
    provider: str
    idea: list[str]
    launches: Series | None
    cases: str
    verdicts: list[tuple[str, int]]
    failures: list[ReasonGroup]
    row: KernelRow
    speed: Table | None
    studies: list[InStudy]
    variants: list[VariantView]
    change: Change | None
    profiles: list[str]
    listings: list[Listing]
    lanes: list[LanesOf]
    advised: bool
    advice: list[Advised]
    sampled: Sampled | None


# --------------------------------------------------------------------------------------------- speed


def _values(records: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return the metric's value by case, for correct cases."""
    rows = records[(records["metric"] == metric) & (records["verdict"] == result.CORRECT)]
    rows = rows[rows["value"].notna()]
    return dict(zip(rows["case"].astype(str), rows["value"].astype(float)))


def speed(
    names: Sequence[str],
    cases: pd.DataFrame,
    shares: Mapping[str, float],
    rates: Mapping[str, float],
    most: int = 8,
) -> Table | None:
    """Return a table of share of cuBLAS and TFLOP/s: rows are timed variants, columns shapes by work.

    The shapes are the ``most`` ones at which the most variants were timed.
    """
    timed = cases[cases["kernel"].isin(names) & cases["case"].isin(rates.keys())]
    timed = timed[timed["kernel"] != BASELINE]
    if not len(timed):
        return None
    timed = timed.assign(
        shape=[shape_label(row) for row in timed.to_dict("records")],
        work=work_of(timed),
        text=[
            "\u00a0· ".join(
                [*([f"{shares[case]:.1f}\u00a0%"] if case in shares else []), cell(rates[case])]
            )
            for case in timed["case"]
        ],
    )
    counted = timed.groupby("shape", sort=False).agg(
        n=("variant", "nunique"), work=("work", "first")
    )
    wanted = counted.nlargest(most, ["n", "work"]).sort_values("work").index
    shown = timed[timed["shape"].isin(wanted)].pivot_table(
        index=["kernel", "dtype", "variant"],
        columns="shape",
        values="text",
        aggfunc="first",
        sort=False,
    )
    order = {name: at for at, name in enumerate(names)}
    shown = shown.reindex(columns=wanted).reset_index()
    shown = shown.sort_values("kernel", key=lambda column: column.map(order), kind="stable")
    return table(shown.fillna("").rename_axis(columns=None).drop(columns="kernel"))


# ---------------------------------------------------------------------------------------- all of it


def _row(
    kernel: Kernel,
    cases: pd.DataFrame,
    shares: Mapping[str, float],
    variants: Sequence[VariantView],
    excess: str,
    advice: Sequence[Advised],
) -> KernelRow:
    counts = [(word, count) for word, count in verdict_counts(cases) if count]
    bad = [f"{number(count)} {word}" for word, count in counts if word not in
           (result.CORRECT, result.NOT_CHECKED)]  # fmt: skip
    right = sum(count for word, count in counts if word == result.CORRECT)
    timed = cases[cases["case"].isin(shares.keys())]
    work = work_of(timed)
    # At the largest size, where launch overhead no longer shows.
    largest = timed[work == work.max()].to_dict("records")
    best = max(largest, key=lambda row: shares[row["case"]], default=None)
    registers = [int(variant.registers) for variant in variants if variant.registers]
    low, high = (min(registers), max(registers)) if registers else (0, 0)
    dtypes = dict.fromkeys(str(dtype) for dtype in cases["dtype"] if dtype and dtype == dtype)
    return KernelRow(
        name=kernel.name,
        title=kernel.front.title,
        operation=kernel.front.operation,
        dtypes=", ".join(dtypes),
        cases=number(len(cases)),
        verdict=", ".join(bad) or (f"{number(right)} correct" if right else "not checked"),
        bad=bool(bad),
        share=f"{shares[best['case']]:.1f}" if best else "",
        at=f"{shape_label(best)} {best['dtype']}" if best else "",
        registers="" if not registers else str(low) if low == high else f"{low}–{high}",
        excess=excess,
        advice=next((finding.sentence for finding in advice if finding.where), ""),
    )


def _in_studies(name: str, shown: Sequence[StudyView]) -> list[InStudy]:
    entries = []
    for study in shown:
        if name not in study.kernels:
            continue
        data, kernel_rows = study.data, None
        if data is not None and "kernel" in data:
            rows = data[data["kernel"] == name].dropna(axis=1, how="all")
            kernel_rows = table(rows.head(SHOWN_ROWS)) if len(rows) else None
        entries.append(InStudy(study.name, study.title, f"\ue000{study.name}\ue001", kernel_rows))
    return entries


_FINDING = re.compile("\ue000(.*?)\ue001")


def with_findings(page: str, studies: Sequence[StudyView]) -> str:
    """Insert the studies' takeaways, which any kernel can change, so that stored pages lack them."""
    sentences = {study.name: str(escape(study.takeaway or study.question)) for study in studies}
    return _FINDING.sub(lambda match: sentences.get(match[1], match[0]), page)


@dataclass(frozen=True)
class KernelRun:
    """The data of all kernels' pages.

    drawn: rows of figures by study and kernel; compiled: variants and profiles by kernel; shares, rates,
    subjects, accesses: by case.
    """

    project: Project
    cases: pd.DataFrame
    cases_by_kernel: Mapping[str, pd.DataFrame]
    drawn: Mapping[str, Mapping[str, pd.DataFrame]]
    instructions: Mapping[str, pd.DataFrame]
    stalls: Mapping[str, pd.DataFrame]
    environments: Mapping[str, Mapping[str, Any]]
    compiled: Mapping[str, Any]
    studies: Sequence[StudyView]
    profiles: Mapping[str, list[str]]
    records: Mapping[str, pd.DataFrame]
    shares: Mapping[str, float]
    rates: Mapping[str, float]
    subjects: Mapping[str, Subject]
    accesses: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(
        cls,
        project: Project,
        target: Mapping[str, Any],
        frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame],
        environments: Mapping[str, Mapping[str, Any]],
        compiled: Mapping[str, Any],
        studies: Sequence[StudyView],
        accesses: Mapping[str, Mapping[str, Any]],
        reports: Path,
    ) -> KernelRun:
        """Split the run's tables by kernel; frames: cases, records, instructions and stalls."""
        cases, records, instructions, stalls = frames
        kernel_of = dict(zip(cases["case"], cases["kernel"]))

        def by_kernel(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
            return dict(iter(rows.groupby(rows["case"].map(kernel_of)))) if len(rows) else {}

        chosen = cases[cases["case"].isin(_advised_cases(cases, records, instructions))]
        return cls(
            project, cases, _parted(cases), {study.name: _parted(study.data) for study in studies},
            by_kernel(instructions), by_kernel(stalls),
            environments, compiled, studies,
            {name: kernel_code.profiles(project, compiled.get(name, {}), reports)
             for name in project.plan.kernels},
            by_kernel(records),
            _values(records, SHARE), _values(records, SPEED),
            of_tables.subjects(target, chosen, records, instructions, compiled, stalls), accesses,
        )  # fmt: skip


def _parted(rows: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    return dict(iter(rows.groupby("kernel"))) if rows is not None and "kernel" in rows else {}


def _advised_cases(
    cases: pd.DataFrame, records: pd.DataFrame, instructions: pd.DataFrame
) -> set[str]:
    """Return each kernel's largest case with counters, and its first variant's with counted instructions.

    Not every case has all counters.
    """
    rows = records[(records["stage"] == "counters") & (records["status"] == result.OK)]
    counted = cases[cases["case"].isin(set(rows["case"]))]
    work = work_of(counted)
    chosen = {str(counted.loc[at, "case"]) for at in work.groupby(counted["kernel"]).idxmax()}
    profiled = set(instructions["case"]) if len(instructions) else set()
    for _, rows in counted[counted["case"].isin(profiled)].groupby("kernel"):
        chosen |= set(largest_of(rows, profiled)[:1])
    return chosen


def _advice(run: KernelRun, cases: pd.DataFrame) -> list[Advised]:
    """Return the findings on a kernel's largest profiled cases."""
    advised = cases[cases["case"].isin(list(run.subjects))]
    chosen = advised.loc[work_of(advised).sort_values(ascending=False, kind="stable").index, "case"]
    by_rule: dict[str, tuple[str, advice.Finding]] = {}
    for case in chosen:  # the larger case goes first
        for finding in advice.for_case(run.subjects[case]):
            by_rule.setdefault(finding.rule, (case, finding))
    order = sorted(by_rule.values(), key=lambda pair: -(pair[1].bound or 0.0))
    return [
        Advised(
            finding.rule,
            finding.sentence,
            f"{finding.origin.file}:{finding.origin.line}" if finding.origin.line else "",
            finding.origin.text,
            case.removeprefix(f"{cases['kernel'].iloc[0]}@"),
            "" if finding.bound is None else f"{100 * finding.bound:.1f}",
        )
        for case, finding in order
    ]


RECORD_KEYS = [
    "case", "stage", "metric", "value", "text", "status", "reason", "verdict", "key", "environment",
]  # fmt: skip
"""Columns of a record that a kernel's page depends on."""


def key(run: KernelRun, name: str, about: Any) -> str:
    """Return the digest of all that a kernel's page depends on.

    These are code and results of the kernel and its neighbour rungs, the studies that show it, and
    ``about``, which is the same for all kernels.
    """
    project, kernel = run.project, run.project.kernels[name]
    shown = [study for study in run.studies if name in study.kernels]
    titles = [(study.name, study.title) for study in shown]
    near = [name, *filter(None, [kernel.front.follows]), *project.followers.get(name, [])]
    near = [rung for rung in near if rung in project.plan.kernels]
    texts = [origins.kernel_texts(project.kernels[rung]) for rung in near]
    accesses = {case: access for case, access in run.accesses.items() if access["kernel"] == name}
    documents = [run.compiled.get(rung) for rung in near]
    parts = [about, titles, near, texts, accesses, documents, run.profiles.get(name)]
    records = [run.records[rung] for rung in near if rung in run.records]
    # Instructions have many rows: their keys and sums stand for them.
    rows = [tables[name] for tables in (run.instructions, run.stalls) if name in tables]
    parts += [
        [len(part), sorted(set(part["key"])), part.sum(numeric_only=True).to_dict()]
        for part in rows
    ]
    # Without unused environments: this machine's says whether the tree has uncommitted changes.
    used = {str(at) for part in records for at in part["environment"].unique()}
    used.add((run.compiled.get(name, {}).get("sampled") or {}).get("environment", ""))
    parts.append({at: facts for at, facts in run.environments.items() if at in used})
    frames = [run.cases_by_kernel[rung] for rung in near if rung in run.cases_by_kernel]
    frames += [part[RECORD_KEYS] for part in records]
    frames += [run.drawn[study.name][name] for study in shown if name in run.drawn[study.name]]
    # Small tables are hashed ten times faster as text.
    parts += [repr([list(frame.columns), frame.to_numpy().tolist()]) for frame in frames]
    return content_key(parts, ())


def view(run: KernelRun, name: str) -> KernelView:
    """Return the data of a kernel's page."""
    project, cases = run.project, run.cases_by_kernel[name]
    kernel = project.kernels[name]
    document = run.compiled.get(name, {})
    built = document.get("variants", {})
    instructions = run.instructions.get(name, pd.DataFrame())
    with_code = kernel.provider == "nvrtc"
    gpu = next((facts for facts in run.environments.values() if facts.get("gpu")), {})
    compiled_variants = kernel_code.variants(kernel, built, cases, gpu) if with_code else []
    stalls = run.stalls.get(name)
    annotations = kernel_code.listings(kernel, cases, instructions, stalls, run.environments, built)
    follows = kernel.front.follows or ""
    follows = follows if follows in project.plan.kernels else ""
    after = project.followers.get(name, [])
    neighbours = [rung for rung in (follows, name, *after) if rung]
    first = annotations[0].case if annotations else ""
    excess_by_case = excess_percent(instructions[instructions["case"] == first]) if first else {}
    excess = f"{excess_by_case[first]:.1f}" if first in excess_by_case else ""
    records = run.records.get(name)
    groups = [] if records is None else troubles(cases, verdict.unplanned(cases, records))
    advised = _advice(run, cases)
    return KernelView(
        name=name,
        file=kernel.path.name,
        title=kernel.front.title,
        follows=follows,
        next=after,
        operation=kernel.front.operation,
        provider=kernel.front.cubin or kernel.provider,
        idea=idea(kernel),
        launches=Series([entry for entry, _ in kernel.launches], kernel.entry)
        if len(kernel.launches) > 1
        else None,
        cases=plural(len(cases), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(cases) if count],
        failures=[group for group in groups if group.word not in MILD],
        row=_row(kernel, cases, run.shares, compiled_variants, excess, advised),
        speed=speed(neighbours, run.cases, run.shares, run.rates) if with_code else None,
        studies=_in_studies(name, run.studies),
        variants=compiled_variants,
        change=kernel_code.change(kernel, project.kernels[follows], run.compiled)
        if follows
        else None,
        profiles=run.profiles.get(name, []),
        listings=annotations,
        lanes=kernel_code.lanes(kernel, run.accesses, built),
        advised=bool(set(cases["case"]) & set(run.subjects)),
        advice=advised,
        sampled=kernel_samples.view(document, stalls, run.environments),
    )
