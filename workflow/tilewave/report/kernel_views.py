"""A kernel's page: what limits it, what to fix, its lanes and banks, its code with counters, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tilewave.basics.columns import filled
from tilewave.kernel import result
from tilewave.kernel.front_matter import Kernel, idea
from tilewave.pipeline.project import Project
from tilewave.plots.base import dtype_short, excess_percent, present, shape_label
from tilewave.report import advice, kernel_code, verdict
from tilewave.report.cells import Table, number, plural, table
from tilewave.report.kernel_code import largest_of, work_of
from tilewave.report.studies import StudyView
from tilewave.report.summary import device_name, troubles, verdict_counts
from tilewave.theory import bounds
from tilewave.theory.traffic import MATH

SHARE, SPEED = "paired_share", "tflops"
SMALL = 1 / 16
"""Work, as a share of the largest timed work, below which a shape gives no advice on tiles and waves."""
_OF_MEASURED = " (% of measured)"
"""End of the columns with the busy share of a pipe in the table of the plot *limits*."""
_ROOFS = {bounds.DATA: "l1", bounds.PORT: "l2", bounds.DRAM: "dram", bounds.ISSUE: ""}
"""The roof of each pipe in the plot *roofline*: arithmetic where none is named, and none for issue slots."""


class KernelRow:
    """A kernel in the table of kernels; sentence: the first of its page."""

    def __init__(
        self,
        kernel: Kernel,
        cases: pd.DataFrame,
        shares: Mapping[str, float],
        registers: pd.Series[float],
        excess: str,
        sentence: str,
    ) -> None:
        """Collect the cells; shares: of cuBLAS by case; registers: of each variant."""
        self.name, self.title, self.sentence = kernel.name, kernel.front.title, sentence
        self.operation, self.excess = kernel.front.operation, excess
        dtypes = dict.fromkeys(str(dtype) for dtype in cases["dtype"] if present(dtype))
        self.dtypes, self.cases = ", ".join(dtypes), number(len(cases))
        counts = dict(verdict_counts(cases))
        right = counts.get(result.CORRECT, 0)
        bad = [f"{number(counts[word])} {word}" for word in counts if verdict.wrong(word)]
        self.bad = bool(bad)
        self.verdict = ", ".join(bad) or (f"{number(right)} correct" if right else "not checked")
        timed = cases[cases["case"].isin(shares.keys())]
        work = work_of(timed)
        # At the largest size, where launch overhead no longer shows.
        largest = timed[work == work.max()].to_dict("records")
        best = max(largest, key=lambda row: shares[row["case"]], default=None)
        self.share = f"{shares[best['case']]:.1f}" if best else ""
        self.at = f"{shape_label(best)} {best['dtype']}" if best else ""
        used = [f"{size:.0f}" for size in (registers.min(), registers.max()) if size == size]
        self.registers = "–".join(dict.fromkeys(used))


def _values(records: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return the metric's value by case, for correct cases."""
    rows = records[(records["metric"] == metric) & (records["verdict"] == result.CORRECT)]
    values: dict[str, float] = rows.set_index("case")["value"].astype(float).dropna().to_dict()
    return values


@dataclass
class KernelRun:
    """The data of all kernels' pages: the run's tables, also by kernel; shares, rates and subjects by case."""

    project: Project
    target: Mapping[str, Any]
    cases: pd.DataFrame
    records: pd.DataFrame
    instructions: pd.DataFrame
    stalls: pd.DataFrame
    problems: pd.DataFrame
    environments: Mapping[str, Mapping[str, Any]]
    compiled: Mapping[str, Any]
    studies: Sequence[StudyView]
    accesses: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        """Split the run's tables."""
        kernel_of = dict(zip(self.cases["case"], self.cases["kernel"]))
        self.by_kernel: list[dict[str, pd.DataFrame]] = [
            dict(iter(rows.groupby(rows["case"].map(kernel_of)))) if len(rows) else {}
            for rows in (self.cases, self.instructions, self.stalls)
        ]
        ladders = [study.name for study in self.studies if study.plot == "ladder"]
        studies = self.project.config.studies
        self.ladder: Mapping[str, Any] = studies[ladders[0]].options if ladders else {}
        self.shares, self.rates = _values(self.records, SHARE), _values(self.records, SPEED)
        chosen = self.cases[self.cases["case"].isin(_advised_cases(self))]
        tables = self.records, self.instructions, self.compiled, self.stalls
        self.subjects = advice.subjects(self.target, chosen, *tables)
        for case, busy in _drawn_limits(self.studies).items():
            if case in self.subjects:
                self.subjects[case] = replace(self.subjects[case], busy=busy)


def _drawn_limits(studies: Sequence[StudyView]) -> dict[str, dict[str, float]]:
    """Return the busy share of each pipe by case, as the study of limits draws it: a page says the same."""
    drawn: dict[str, dict[str, float]] = {}
    for data in (study.data for study in studies if study.data is not None):
        columns = [name for name in map(str, data.columns) if name.endswith(_OF_MEASURED)]
        if columns and "limiter" in data:
            rows = data[data["limiter"].notna()].set_index("case")[columns] / 100
            rows.columns = [name.removesuffix(_OF_MEASURED) for name in columns]
            drawn |= rows.to_dict("index")
    return drawn


def _other_roof(run: KernelRun, subject: advice.Subject) -> str:
    """Return a sentence on the case's nearest roof in the study *roofline*, if that is another than its limiter's."""
    for rows in [s.data for s in run.studies if s.plot == "roofline" and s.data is not None]:
        for row in rows[rows["variant"] == subject.case["variant"]].to_dict("records"):
            limiter, bound = subject.limiter, row["bound by"]
            if not limiter or not present(bound) or bound == _ROOFS.get(limiter, MATH):
                continue
            roof = row["lowest roof"] if bound == MATH else f"{bound.upper()} bandwidth"
            none = "" if _ROOFS.get(limiter, MATH) else f", which has no roof for {limiter},"
            share = f"{row['of the roof (%)']:.0f} %"
            return f"In the roofline{none} it reaches {share} of {roof} at {shape_label(row)}."
    return ""


def _advised_cases(run: KernelRun) -> set[str]:
    """Return each kernel's largest case with counters, and its first variant's with counted instructions.
    Not every case has all counters."""
    rows = run.records.query("stage == 'counters' and status == @result.OK")
    counted = run.cases[run.cases["case"].isin(rows["case"])]
    largest = work_of(counted).groupby(counted["kernel"]).idxmax()
    chosen = set(counted.loc[largest, "case"])
    profiled = set(run.instructions["case"]) if len(run.instructions) else set()
    for _, rows in counted[counted["case"].isin(profiled)].groupby("kernel"):
        chosen |= set(largest_of(rows, profiled)[:1])
    return chosen


def _fixes(run: KernelRun, cases: pd.DataFrame) -> list[tuple[str, advice.Finding]]:
    """Return (case, finding) for a kernel's largest profiled cases, the largest gain first.
    A shape far smaller than the largest timed one was chosen for its cost, so its tiles and waves say nothing."""
    advised = cases[cases["case"].isin(list(run.subjects))]
    work = work_of(cases).set_axis(cases["case"])
    largest = work[[case for case in cases["case"] if case in run.rates]].max()
    by_rule: dict[str, tuple[str, advice.Finding]] = {}
    for case in work[advised["case"]].sort_values(ascending=False, kind="stable").index:
        for finding in advice.for_case(run.subjects[case]):
            # NaN, the largest of nothing timed, is no limit that a shape reaches.
            if finding.rule in advice.OF_SHAPE and not work[case] >= SMALL * largest:
                continue
            _, listed = by_rule.setdefault(finding.rule, (case, finding))
            if finding.origin.line and not listed.origin.line:
                by_rule[finding.rule] = case, finding
    return sorted(by_rule.values(), key=lambda pair: -(pair[1].bound or 0.0))


def _headline(run: KernelRun, cases: pd.DataFrame) -> tuple[str, str]:
    """Return the largest case that was timed and the largest with a known limiter, a single one if possible."""
    advised = [case for case in cases["case"] if case in run.subjects and run.subjects[case].limit]
    by_case = work_of(cases).set_axis(cases["case"])
    limited, timed = (by_case[by_case.index.isin(names)] for names in (advised, [*run.shares]))
    both = [case for case in limited.index if timed.get(case) == timed.max()]
    limit = both[0] if both else str(limited.idxmax()) if len(limited) else ""
    return limit if both or timed.empty else str(timed.idxmax()), limit


def _next_rung(run: KernelRun, name: str, row: Mapping[str, Any]) -> str:
    """Return a sentence on the ladder's next row, else the fastest follower: of this dtype and shape, 1 % faster."""
    alike = run.cases[(run.cases["sizes"] == row["sizes"]) & (run.cases["dtype"] == row["dtype"])]
    shares = alike.set_index("variant")["case"].map(run.shares).dropna().sort_values()
    drawn = [variant for variant in run.ladder.get("variants", ()) if variant in shares]
    after = drawn[drawn.index(row["variant"]) + 1 :][:1] if row["variant"] in drawn else []
    followers = set(alike["variant"][alike["kernel"].isin(run.project.followers.get(name, []))])
    for rung in [*after, *(variant for variant in shares.index[::-1] if variant in followers)]:
        if shares[rung] > 1.01 * run.shares[row["case"]]:
            plain = run.ladder.get("names", {}).get(rung)
            title = f"{plain} ({rung})" if plain else rung
            return f"The next faster rung, {title}, has {shares[rung]:.1f} %."
    return ""


def sentence(
    run: KernelRun, name: str, case: str, limited: str, fixes: Sequence[tuple[str, advice.Finding]]
) -> str:
    """Return the page's first sentences: share of cuBLAS, limiter, first fix, next rung; empty without data."""
    if not case:
        return ""
    about = run.by_kernel[0][name].drop_duplicates("case").set_index("case", drop=False)
    rows, shares = about.to_dict("index"), run.shares
    dtype = rows[case]["dtype"]
    profiled, first = next((pair for pair in fixes if pair[1].bound), ("", None))
    facts = {
        "case": case, "limited": limited, "profiled": profiled, "first": first, "shares": shares,
        "at": {name: shape_label(row) for name, row in rows.items()},
        "dtype": dtype_short(dtype) if present(dtype) else "", "waited": advice.WAITED,
        "limit": run.subjects[limited].limit if limited else "",
        "roof": _other_roof(run, run.subjects[limited]) if limited else "",
        "place": advice.place(first.origin) if first else "",
        "next": _next_rung(run, name, rows[case]) if case in shares else "",
    }  # fmt: skip
    return " ".join(filter(None, filled(__file__, "kernel_views", **facts).splitlines()))


def _fix_table(name: str, fixes: Sequence[tuple[str, advice.Finding]]) -> Table | None:
    rows = list[dict[str, Any]]()
    for case, finding in fixes:
        saved = None if finding.bound is None else max(1, round(100 * finding.bound))
        at = case.removeprefix(f"{name}@")
        at += f" (samples: {finding.sampled})" if finding.sampled else ""
        row = {"saves at most (%)": saved, "what": finding.rule, "finding": finding.sentence}
        rows.append(row | {"line": advice.place(finding.origin), "case": at})
    return table(pd.DataFrame(rows)) if rows else None


def view(run: KernelRun, name: str) -> tuple[KernelRow, dict[str, Any]]:
    """Return a kernel's row in the table of kernels, and the data of its page."""
    project, kernel = run.project, run.project.kernels[name]
    cases, instructions, stalls = (rows.get(name, pd.DataFrame()) for rows in run.by_kernel)
    built = run.compiled.get(name, {}).get("variants", {})
    with_code = kernel.provider == "nvrtc"
    gpu = next((facts for facts in run.environments.values() if facts.get("gpu")), {})
    variants = kernel_code.variants(kernel, built, cases, gpu) if with_code else pd.DataFrame()
    headline, limited = _headline(run, cases)
    profiled = largest_of(cases, instructions["case"]) if len(instructions) else []
    counted = next((case for case in (headline, limited, *profiled) if case in profiled), "")
    rows = instructions[instructions["case"] == counted] if counted else pd.DataFrame()
    excess = excess_percent(rows) if counted else {}
    follows = kernel.front.follows if kernel.front.follows in project.plan.kernels else None
    fixes = _fixes(run, cases)
    first = sentence(run, name, headline, limited, fixes)
    registers = pd.to_numeric(variants.get("registers", pd.Series(dtype=float))).dropna()
    percent = f"{excess[counted]:.1f}" if counted in excess else ""
    code = kernel_code.listings(kernel, instructions, counted, stalls, built) if counted else None
    if code:
        code["device"] = device_name(run.environments.get(code["environment"], {}))
    return KernelRow(kernel, cases, run.shares, registers, percent, first), {
        "kernel": kernel,
        "sentence": first,
        "follows": follows,
        "next": project.followers.get(name, []),
        "idea": idea(kernel),
        "cases": plural(len(cases), "case"),
        "verdicts": verdict_counts(cases),
        "failures": [group for group in troubles(cases, run.problems) if not group.mild],
        "studies": [(s.name, s.title) for s in run.studies if name in s.kernels],
        "variants": None if variants.empty else table(variants),
        "change": kernel_code.change(kernel, project.kernels[follows]) if follows else None,
        "code": code,
        "lanes": kernel_code.lanes(kernel, run.accesses, built, rows),
        "advised": bool(set(cases["case"]) & set(run.subjects)),
        "fixes": _fix_table(name, fixes),
    }
