"""A kernel's page: its idea, its speed beside the rungs next to it, what the studies say of it, what to
fix, and its code (see `kernel_code`)."""

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
"""Rows of a study's table on a kernel's page; the study's page and the CSV have the others."""


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
    """What its rules find at a line of it, the largest bound first."""


@dataclass(frozen=True)
class InStudy:
    """What a study's table says of a kernel. finding: a mark, for `with_findings`."""

    name: str
    title: str
    finding: str
    table: Table | None


@dataclass(frozen=True)
class Advised:
    """A finding of a rule: what, how much, where, and what mending it can save at most."""

    rule: str
    sentence: str
    where: str
    text: str
    case: str
    bound: str


@dataclass(frozen=True)
class Series:
    """The kernels that a case launches in a row, and the one that leads."""

    entries: list[str]
    leading: str


@dataclass(frozen=True)
class KernelView:
    """One kernel: all that its page says."""

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
    """Value by case, of the cases that are correct."""
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
    """One row a variant that was timed, of these kernels in order; a column a shape, from little work
    to much: share of cuBLAS and TFLOP/s. The shapes are those that most of the first kernel's variants
    were timed at."""
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
    found = timed[timed["shape"].isin(wanted)].pivot_table(
        index=["kernel", "dtype", "variant"],
        columns="shape",
        values="text",
        aggfunc="first",
        sort=False,
    )
    place = {name: at for at, name in enumerate(names)}
    found = found.reindex(columns=wanted).reset_index()
    found = found.sort_values("kernel", key=lambda column: column.map(place), kind="stable")
    return table(found.fillna("").rename_axis(columns=None).drop(columns="kernel"))


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
    # At its largest size, where a launch's own time no longer shows.
    largest = timed[work == work.max()].to_dict("records")
    best = max(largest, key=lambda row: shares[row["case"]], default=None)
    registers = [int(one.registers) for one in variants if one.registers]
    low, high = (min(registers), max(registers)) if registers else (0, 0)
    dtypes = dict.fromkeys(str(one) for one in cases["dtype"] if one and one == one)
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
        advice=next((one.sentence for one in advice if one.where), ""),
    )


def _in_studies(name: str, shown: Sequence[StudyView]) -> list[InStudy]:
    found = []
    for study in shown:
        if name not in study.kernels:
            continue
        data, mine = study.data, None
        if data is not None and "kernel" in data:
            rows = data[data["kernel"] == name].dropna(axis=1, how="all")
            mine = table(rows.head(SHOWN_ROWS)) if len(rows) else None
        found.append(InStudy(study.name, study.title, f"\ue000{study.name}\ue001", mine))
    return found


_FINDING = re.compile("\ue000(.*?)\ue001")


def with_findings(page: str, studies: Sequence[StudyView]) -> str:
    """A kernel's page with what its studies found, of which any kernel can change a word: the page is
    kept without."""
    told = {one.name: str(escape(one.takeaway or one.question)) for one in studies}
    return _FINDING.sub(lambda found: told.get(found[1], found[0]), page)


@dataclass(frozen=True)
class KernelRun:
    """What the pages of all kernels are made from: the run's tables, the document of variants and
    profiles by kernel, the studies, and what was timed, by case.

    own_cases: by kernel. drawn: by study and kernel, what is drawn of it.
    """

    project: Project
    cases: pd.DataFrame
    own_cases: Mapping[str, pd.DataFrame]
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
        """frames: cases, records, instructions and stalls."""
        cases, records, instructions, stalls = frames
        kernel_of = dict(zip(cases["case"], cases["kernel"]))

        def by_kernel(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
            return dict(iter(rows.groupby(rows["case"].map(kernel_of)))) if len(rows) else {}

        telling = cases[cases["case"].isin(_telling(cases, records, instructions))]
        return cls(
            project, cases, _parted(cases), {one.name: _parted(one.data) for one in studies},
            by_kernel(instructions), by_kernel(stalls),
            environments, compiled, studies,
            {name: kernel_code.profiles(project, compiled.get(name, {}), reports)
             for name in project.plan.kernels},
            by_kernel(records),
            _values(records, SHARE), _values(records, SPEED),
            of_tables.subjects(target, telling, records, instructions, compiled, stalls), accesses,
        )  # fmt: skip


def _parted(rows: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    return dict(iter(rows.groupby("kernel"))) if rows is not None and "kernel" in rows else {}


def _telling(cases: pd.DataFrame, records: pd.DataFrame, instructions: pd.DataFrame) -> set[str]:
    """Of each kernel the case with the most work whose counters are known, and the one of its first
    variant whose instructions were counted: not every case has all counters."""
    rows = records[(records["stage"] == "counters") & (records["status"] == result.OK)]
    known = cases[cases["case"].isin(set(rows["case"]))]
    work = work_of(known)
    chosen = {str(known.loc[at, "case"]) for at in work.groupby(known["kernel"]).idxmax()}
    profiled = set(instructions["case"]) if len(instructions) else set()
    for _, mine in known[known["case"].isin(profiled)].groupby("kernel"):
        chosen |= set(largest_of(mine, profiled)[:1])
    return chosen


def _advice(run: KernelRun, cases: pd.DataFrame) -> list[Advised]:
    """What the rules find of a kernel's telling cases."""
    known = cases[cases["case"].isin(list(run.subjects))]
    chosen = known.loc[work_of(known).sort_values(ascending=False, kind="stable").index, "case"]
    found = [(case, one) for case in chosen for one in advice.for_case(run.subjects[case])]
    by_rule: dict[str, tuple[str, advice.Finding]] = {}
    for case, one in found:  # the larger case says it where both do
        by_rule.setdefault(one.rule, (case, one))
    order = sorted(by_rule.values(), key=lambda pair: -(pair[1].bound or 0.0))
    return [
        Advised(
            one.rule,
            one.sentence,
            f"{one.origin.file}:{one.origin.line}" if one.origin.line else "",
            one.origin.text,
            case.removeprefix(f"{cases['kernel'].iloc[0]}@"),
            "" if one.bound is None else f"{100 * one.bound:.1f}",
        )
        for case, one in order
    ]


TELLING = [
    "case", "stage", "metric", "value", "text", "status", "reason", "verdict", "key", "environment",
]  # fmt: skip
"""What of a record may change while its case stays."""


def key(run: KernelRun, name: str, about: Any) -> str:
    """Digest of all that decides what the pages say of a kernel: its code and results, those of the
    rungs next to it, which studies show it, and ``about``, what is the same for all of them."""
    project, kernel = run.project, run.project.kernels[name]
    shown = [one for one in run.studies if name in one.kernels]
    told = [(one.name, one.title) for one in shown]
    near = [name, *filter(None, [kernel.front.follows]), *project.followers.get(name, [])]
    near = [one for one in near if one in project.plan.kernels]
    texts = [origins.kernel_texts(project.kernels[other]) for other in near]
    own = {case: one for case, one in run.accesses.items() if one["kernel"] == name}
    documents = [run.compiled.get(one) for one in near]
    parts = [about, told, near, texts, own, documents, run.profiles.get(name)]
    records = [run.records[one] for one in near if one in run.records]
    # Of rows of instructions, of which there are many, whose they are and what they come to.
    rows = [one[name] for one in (run.instructions, run.stalls) if name in one]
    parts += [
        [len(one), sorted(set(one["key"])), one.sum(numeric_only=True).to_dict()] for one in rows
    ]
    # Not this machine's, where it shows nothing of it: that one tells whether the tree was changed.
    used = {str(known) for one in records for known in one["environment"].unique()}
    used.add((run.compiled.get(name, {}).get("sampled") or {}).get("environment", ""))
    parts.append({one: facts for one, facts in run.environments.items() if one in used})
    frames = [run.own_cases[one] for one in near if one in run.own_cases]
    frames += [one[TELLING] for one in records]
    frames += [run.drawn[one.name][name] for one in shown if name in run.drawn[one.name]]
    # Few rows each: as text they are hashed ten times faster than as tables.
    parts += [repr([list(one.columns), one.to_numpy().tolist()]) for one in frames]
    return content_key(parts, ())


def view(run: KernelRun, name: str) -> KernelView:
    """What the pages say of a kernel of the plan."""
    project, cases = run.project, run.cases
    kernel = project.kernels[name]
    mine = run.own_cases[name]
    document = run.compiled.get(name, {})
    built = document.get("variants", {})
    own = run.instructions.get(name, pd.DataFrame())
    with_code = kernel.provider == "nvrtc"
    gpu = next((one for one in run.environments.values() if one.get("gpu")), {})
    compiled_variants = kernel_code.variants(kernel, built, mine, gpu) if with_code else []
    stalls = run.stalls.get(name)
    annotations = kernel_code.listings(kernel, mine, own, stalls, run.environments, built)
    follows = kernel.front.follows or ""
    follows = follows if follows in project.plan.kernels else ""
    after = project.followers.get(name, [])
    neighbours = [one for one in (follows, name, *after) if one]
    first = annotations[0].case if annotations else ""
    found = excess_percent(own[own["case"] == first]) if first else {}
    excess = f"{found[first]:.1f}" if first in found else ""
    known = run.records.get(name)
    groups = [] if known is None else troubles(mine, verdict.unplanned(mine, known))
    advised = _advice(run, mine)
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
        cases=plural(len(mine), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(mine) if count],
        failures=[one for one in groups if one.word not in MILD],
        row=_row(kernel, mine, run.shares, compiled_variants, excess, advised),
        speed=speed(neighbours, cases, run.shares, run.rates) if with_code else None,
        studies=_in_studies(name, run.studies),
        variants=compiled_variants,
        change=kernel_code.change(kernel, project.kernels[follows], run.compiled)
        if follows
        else None,
        profiles=run.profiles.get(name, []),
        listings=annotations,
        lanes=kernel_code.lanes(kernel, run.accesses, built),
        advised=bool(set(mine["case"]) & set(run.subjects)),
        advice=advised,
        sampled=kernel_samples.view(document, stalls, run.environments),
    )
