"""The whole run on the pages: problems, statuses, sources, and the banner."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.report import figures, verdict
from tilewave.report.cells import plural

NAMED = 6
"""Cases of a group that are named before the rest is folded."""
_SPOILT = tuple(word.rstrip(": ") for word in result.SPOILT)
# The order of problems on the page, the worst first.
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
"""Statuses and verdicts that are no fault of a kernel."""


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
    """Replace a reason's numbers, so that reasons with other numbers share a group."""
    return re.sub(r"\d[\d.,]*", "#", reason)


def troubles(cases: pd.DataFrame, records: pd.DataFrame) -> list[ReasonGroup]:
    """Group the cases that are not ok or not correct by status and reason, the worst first.

    A case is listed under each status other than ok, with its stages, and under its verdict where its check
    ended but is not *correct*. It is *not measured* where it was executed because this machine's GPU did not
    measure it, *disturbed* where other work on the machine changed its figures, *doubtful* where another
    measurement contradicts them. Reasons that differ only in numbers share a group, which says so.
    """
    rows = records[["case", "stage", "status", "reason"]].drop_duplicates()
    entries: list[tuple[str, str, str, str]] = []
    for case, stage, status, reason in rows.itertuples(index=False, name=None):
        word, why = str(status), str(reason) if present(reason) else ""
        if word == result.OK and why.startswith(result.SPOILT):
            word, _, why = why.partition(": ")
        elif word == result.OK and why.startswith(result.INSTEAD):
            word = result.NOT_MEASURED
        if word != result.OK:
            entries.append((word, why, str(stage), str(case)))
    checks = rows[rows["stage"] == "check"]
    reasons = dict(zip(checks["case"], checks["reason"]))
    clean = set(checks[checks["status"] == result.OK]["case"])
    for case, word in zip(cases["case"], cases["verdict"]):
        if verdict.wrong(word) or (word == result.NOT_CHECKED and case in clean):
            reason = reasons.get(case)
            entries.append((str(word), str(reason) if present(reason) else "", "check", str(case)))
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for word, reason, stage, case in entries:
        groups.setdefault((word, _pattern(reason)), []).append((reason, stage, case))
    order = {case: index for index, case in enumerate(cases["case"])}
    listed = []
    for (word, _), members in groups.items():
        reason = members[0][0]
        if any(text != reason for text, _, _ in members):
            reason += " (the numbers differ from case to case)"
        by_stage = {s: {case for _, stage, case in members if stage == s} for s in result.STAGES}
        names = sorted({case for _, _, case in members}, key=lambda case: order.get(case, -1))
        counts = {stage: len(members) for stage, members in by_stage.items() if members}
        same = set(counts.values()) == {len(names)}
        parts = [stage if same else f"{stage} {count}" for stage, count in counts.items()]
        listed.append(ReasonGroup(word, ", ".join(parts), reason, names))
    return sorted(listed, key=lambda group: _SEVERITY.index(group.word))


def verdict_counts(cases: pd.DataFrame) -> list[tuple[str, int]]:
    """Return the number of cases by verdict, always with `correct`, `wrong` and `not checked`."""
    counts = {str(word): int(n) for word, n in cases["verdict"].value_counts().items()}
    always = (result.CORRECT, result.WRONG, result.NOT_CHECKED)
    return [(w, counts.get(w, 0)) for w in result.VERDICTS if w in always or counts.get(w)]


# ---------------------------------------------------------------------------------------- sources


@dataclass(frozen=True)
class FigureSource:
    """Number of values from one source and environment."""

    source: str
    count: str
    environment: str
    device: str


def device_name(facts: Mapping[str, Any]) -> str:
    """Return the name of an environment's GPU, else of its CPU."""
    return str(facts.get("gpu") or facts.get("cpu") or "unknown machine")


def sources(
    records: pd.DataFrame, environments: Mapping[str, Mapping[str, Any]]
) -> list[FigureSource]:
    """Count the values by source and environment."""
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
    """The source of the page's figures; kind: live, recorded or nothing; damaged: a line for each skipped
    recorded file."""

    kind: str
    headline: str
    detail: str
    damaged: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The headline without its reason, for the top line of every page."""
        return self.headline.partition(" (")[0]


def banner(target: Mapping[str, Any], records: pd.DataFrame) -> Banner:
    """Return the banner; a machine without measurements must not seem to have any."""
    label, reason = target["label"], target["reason"]
    source = figures.figures_of(records)["source"].astype(str)
    recorded = int(source.str.startswith("recorded:").sum())
    here = int(source.isin(["counters", "samples", "events"]).sum())
    executed = int((source == result.EXECUTED).sum())
    by_cpu = (
        f" {plural(executed, 'value')} come from executing the kernels' machine code on this machine's "
        "CPU. They give verdicts and counters, never times."
    ) * bool(executed)
    host = device_name(target["environments"].get(target["host"], {}))
    on_host = (
        f" {plural(here, 'value')} of CPU variants were measured on this machine, {host}."
        * bool(here)
    )
    kind, headline = "nothing", f"Recorded on {label} — not measured on this machine ({reason})"
    if target["live"] and here:
        kind, headline = "live", f"Measured live on {label}"
        detail = (
            "All values below were measured on this machine, by this run or by an earlier run "
            f"with the same content key.{by_cpu}"
        )
    elif target["live"]:
        headline = f"Nothing was measured on {label}"
        detail = "There is a GPU, but no stage gave a value. The statuses below say why."
    elif target["recorded"] is None:
        headline = f"Nothing measured on a GPU ({reason}), and no recorded figures are shown"
        detail = f"Cases that need a GPU are listed as not measured.{on_host}{by_cpu}"
    elif recorded:
        kind = "recorded"
        detail = (
            f"{plural(recorded, 'value')} below were measured earlier on {label} and are shipped with "
            "the project. A recorded value is shown only if code, launch, inputs and method are the same as "
            f"here.{on_host}{by_cpu}"
        )
    elif executed and not here:  # a user's kernels
        kind, headline = "recorded", f"Executed on a CPU, not measured on a GPU ({reason})"
        detail = f"No recorded value is of this code.{by_cpu}"
    else:
        headline = f"{headline}, and none of it fits this code"
        detail = f"No recorded value fits the code here.{on_host}{by_cpu}"
    return Banner(kind, headline, detail, tuple(target.get("damaged", ())))


def environment_views(
    target: Mapping[str, Any],
    environments: Mapping[str, Mapping[str, Any]],
    records: pd.DataFrame,
) -> list[dict[str, Any]]:
    """Return the environments of the target, of the figures and of this machine: id, name, role, facts."""
    valued = figures.figures_of(records)
    used = {str(name) for name in valued["environment"] if present(name)}
    views = []
    for name in dict.fromkeys([target["environment"], *sorted(used), target["host"]]):
        if (facts := environments.get(name)) is None:
            continue
        here = name == target["host"]
        role = "this machine" if here else "recorded: another machine or another time"
        if here and target["live"]:
            role = "this machine, measured live"
        elif here and name not in used:
            role = "this machine: no figure on this page was measured here"
        shown = {key: fact for key, fact in facts.items() if key not in ("id", "recorded")}
        views.append({"id": name, "name": device_name(facts), "role": role, "facts": shown})
    return views
