"""What the page says of the whole run: troubles, statuses, sources, and whose figures these are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.report import figures, verdict
from tilewave.report.cells import plural

NAMED = 6
"""Cases of a group that are named before the rest is folded away."""
_SPOILT = tuple(word.rstrip(": ") for word in result.SPOILT)
# How bad a trouble is: the order in which the page lists them.
_SEVERITY = (
    result.WRONG,
    result.RACE,
    result.UNINITIALISED,
    result.BARRIER,
    *result.FAILURES,
    result.STALE,
    result.NOT_MEASURED,
    *_SPOILT,
    result.NOT_CHECKED,
    result.UNSUPPORTED,
)

MILD = (result.NOT_MEASURED, result.NOT_CHECKED, result.UNSUPPORTED, result.STALE)
"""What is no fault of a kernel."""


@dataclass(frozen=True)
class ReasonGroup:
    """Cases that share a status (or a verdict) and a reason."""

    word: str
    stages: str
    reason: str
    cases: list[str]

    @property
    def first(self) -> list[str]:
        return self.cases if len(self.cases) <= NAMED + 2 else self.cases[:NAMED]

    @property
    def rest(self) -> list[str]:
        return self.cases[len(self.first) :]

    @property
    def count(self) -> str:
        return plural(len(self.cases), "case")


def _pattern(reason: str) -> str:
    """A reason with its numbers taken out: those that differ only there are told together."""
    return re.sub(r"\d[\d.,]*", "#", reason)


def troubles(cases: pd.DataFrame, records: pd.DataFrame) -> list[ReasonGroup]:
    """Every case that is not ok or not correct, one group a status and reason, the worst first.

    A case is listed under each status that is not ok, with the stages that gave it, and under its
    verdict where that is not *correct* although its check ended cleanly; as *not measured* where it
    was executed because this machine's GPU did not measure it, as *disturbed* where something else
    on the machine has changed its figures, and as *doubtful* where another measurement contradicts them. Reasons that differ only in their numbers share a group, and the
    group says so.
    """
    rows = records[["case", "stage", "status", "reason"]].drop_duplicates()
    found: list[tuple[str, str, str, str]] = []
    for case, stage, status, reason in rows.itertuples(index=False, name=None):
        word, why = str(status), str(reason) if present(reason) else ""
        if word == result.OK and why.startswith(result.SPOILT):
            word, _, why = why.partition(": ")
        elif word == result.OK and why.startswith(result.INSTEAD):
            word = result.NOT_MEASURED
        if word != result.OK:
            found.append((word, why, str(stage), str(case)))
    checks = rows[rows["stage"] == "check"]
    reasons = dict(zip(checks["case"], checks["reason"]))
    clean = set(checks[checks["status"] == result.OK]["case"])
    for case, word in zip(cases["case"], cases["verdict"]):
        if verdict.wrong(word) or (word == result.NOT_CHECKED and case in clean):
            reason = reasons.get(case)
            found.append((str(word), str(reason) if present(reason) else "", "check", str(case)))
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for word, reason, stage, case in found:
        groups.setdefault((word, _pattern(reason)), []).append((reason, stage, case))
    order = {case: place for place, case in enumerate(cases["case"])}
    listed = []
    for (word, _), members in groups.items():
        reason = members[0][0]
        if any(other != reason for other, _, _ in members):
            reason += " (the numbers differ from case to case)"
        by_stage = {s: {case for _, stage, case in members if stage == s} for s in result.STAGES}
        names = sorted({case for _, _, case in members}, key=lambda case: order.get(case, -1))
        counts = {stage: len(those) for stage, those in by_stage.items() if those}
        every = set(counts.values()) == {len(names)}
        told = [stage if every else f"{stage} {count}" for stage, count in counts.items()]
        listed.append(ReasonGroup(word, ", ".join(told), reason, names))
    return sorted(listed, key=lambda group: _SEVERITY.index(group.word))


def verdict_counts(cases: pd.DataFrame) -> list[tuple[str, int]]:
    """Cases of each verdict, `correct`, `wrong` and `not checked` always."""
    counts = {str(word): int(n) for word, n in cases["verdict"].value_counts().items()}
    always = (result.CORRECT, result.WRONG, result.NOT_CHECKED)
    return [(w, counts.get(w, 0)) for w in result.VERDICTS if w in always or counts.get(w)]


@dataclass(frozen=True)
class Matrix:
    """Cases of each stage by status."""

    statuses: list[str]
    rows: list[tuple[str, list[int]]]


def status_matrix(records: pd.DataFrame) -> Matrix:
    """How many cases each stage left in each status that occurs."""
    pairs = records[["case", "stage", "status"]].drop_duplicates()
    words = [word for word in result.STATUSES if (pairs["status"] == word).any()]
    stages = [stage for stage in result.STAGES if (pairs["stage"] == stage).any()]
    rows = []
    for stage in stages:
        mine = pairs[pairs["stage"] == stage]["status"].value_counts()
        rows.append((stage, [int(mine.get(word, 0)) for word in words]))
    return Matrix(words, rows)


# ---------------------------------------------------------------------------------------- sources


@dataclass(frozen=True)
class FigureSource:
    """Figures of one source and environment."""

    source: str
    count: str
    environment: str
    device: str


def device_name(facts: Mapping[str, Any]) -> str:
    """The GPU of an environment, else its CPU."""
    return str(facts.get("gpu") or facts.get("cpu") or "unknown machine")


def sources(
    records: pd.DataFrame, environments: Mapping[str, Mapping[str, Any]]
) -> list[FigureSource]:
    """How many figures came from which source and environment."""
    valued = figures.figures_of(records)
    counts = valued[["source", "environment"]].astype(str).value_counts().to_dict()
    return [
        FigureSource(
            source,
            plural(number, "value"),
            identity,
            device_name(environments.get(identity, {})),
        )
        for (source, identity), number in sorted(counts.items())
    ]


@dataclass(frozen=True)
class Banner:
    """Whose figures the page shows, in plain words. kind: live, recorded or nothing. damaged: a line
    about each recorded file that is left out."""

    kind: str
    headline: str
    detail: str
    damaged: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The headline without its reason, for the top line of every page."""
        return self.headline.partition(" (")[0]


def banner(target: Mapping[str, Any], records: pd.DataFrame) -> Banner:
    """The headline; a machine that measured nothing must not read as if it had."""
    return replace(_banner(target, records), damaged=tuple(target.get("damaged", ())))


def _banner(target: Mapping[str, Any], records: pd.DataFrame) -> Banner:
    label, reason = target["label"], target["reason"]
    valued = figures.figures_of(records)
    from_recording = int(valued["source"].astype(str).str.startswith("recorded:").sum())
    here = int(valued["source"].isin(["counters", "samples", "events"]).sum())
    executed = int((valued["source"] == result.EXECUTED).sum())
    by_cpu = (
        f" {plural(executed, 'value')} came from executing the kernels' machine code on the CPU of "
        "this machine: they say what is right and what is counted, never how long it takes."
        if executed
        else ""
    )
    if target["live"]:
        if here:
            detail = (
                "Every value below was measured on this machine, by this run or by an earlier one "
                f"under the same content key.{by_cpu}"
            )
            return Banner("live", f"Measured live on {label}", detail)
        detail = "The GPU is there, but no stage gave a figure: see the statuses below."
        return Banner("nothing", f"Nothing was measured on {label}", detail)
    on_host = (
        f" {plural(here, 'value')} of CPU variants came from this machine, "
        f"{device_name(target['environments'].get(target['host'], {}))}."
        if here
        else ""
    )
    if target["recorded"] is None:
        headline = f"Nothing measured on a GPU ({reason}), and no recorded figures are shown"
        told = f"What needs a GPU is listed as not measured.{on_host}{by_cpu}"
        return Banner("nothing", headline, told)
    headline = f"Recorded on {label} — not measured on this machine ({reason})"
    if not from_recording and executed and not here:  # somebody's own kernels
        headline = f"Executed on a CPU, not measured on a GPU ({reason})"
        return Banner("recorded", headline, f"No recorded figure is of this code.{by_cpu}")
    if not from_recording:
        detail = f"None of the recorded figures fits the code here.{on_host}"
        return Banner("nothing", f"{headline}, and none of it fits this tree", detail + by_cpu)
    detail = (
        f"{plural(from_recording, 'value')} below were measured on {label} earlier and are shipped "
        "with the project. They are shown where their key, the content of code, launch, inputs and "
        f"method, is that of this tree.{on_host}"
    )
    return Banner("recorded", headline, detail + by_cpu)
