"""What a kernel's page shows of its sampled case: where its warps wait, and what Nsight Compute says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import markupsafe
import pandas as pd

from tilewave.kernel import result
from tilewave.records.counters.catalogue import SAMPLED_STATES, SAMPLES, STALL_SAMPLES
from tilewave.report.cells import number
from tilewave.report.summary import device_name

LEAST, REASONS, LINES = 0.02, 6, 3
"""Reasons are shown from this share of the samples on, at most so many, each with so many lines."""
HOT = 0.05
"""Share of the samples from which on a line or an instruction is marked."""
_MARKUP = re.compile(r"@(?P<kind>[a-z]+):(?P<rest>[^@]*)@")


@dataclass(frozen=True)
class WaitingLine:
    """A line in which warps wait for a reason, with its share of the reason's samples (%)."""

    name: str
    text: str
    share: str


@dataclass(frozen=True)
class Wait:
    """A reason for which warps wait: its share of all samples (%), and where they wait most."""

    reason: str
    meaning: str
    share: str
    places: list[WaitingLine]


@dataclass(frozen=True)
class Said:
    """A message of a rule of Nsight Compute, in its words; speedup: what it estimates."""

    title: str
    message: markupsafe.Markup
    speedup: str


@dataclass(frozen=True)
class Sampled:
    """The sampled case of a kernel; reason: why there is nothing, empty where there are samples.

    issued: share of the samples in which the warp issued its instruction (%); hot: from which share on a
    line is marked (%).
    """

    case: str
    device: str
    ncu: str
    samples: str
    issued: str
    interval: str
    reason: str
    waits: list[Wait]
    said: list[Said]
    hot: str = f"{100 * HOT:.0f}"


def plain(message: str) -> markupsafe.Markup:
    """A rule's message with its markup as links, or as the words of what it refers to."""

    def replaced(found: re.Match[str]) -> markupsafe.Markup:
        label, _, address = found["rest"].partition(":")
        if found["kind"] != "url":
            # Of a section: its name, then its words.
            return markupsafe.escape(found["rest"].rpartition(":")[2])
        if not address.startswith("https://"):  # a recording is data: no scheme that runs something
            return markupsafe.escape(label)
        link = markupsafe.Markup('<a href="{}" rel="external noreferrer">{}</a>')
        return link.format(address, label)

    made, end = markupsafe.Markup(""), 0
    for found in _MARKUP.finditer(message):
        made += markupsafe.escape(message[end : found.start()]) + replaced(found)
        end = found.end()
    return made + markupsafe.escape(message[end:])


def _said(rules: list[Mapping[str, Any]]) -> list[Said]:
    """Those messages that say something of the kernel: not those that name another section only, nor what a rule that
    failed says of itself."""
    made = []
    for one in rules:
        if one["kind"] in ("ok", "error") and not one["title"]:
            continue
        speedup = ""
        if one.get("speedup_of"):
            local = "" if one["speedup_of"] == "global" else "local "
            speedup = f"estimated {local}speedup {one['speedup']:.1f} %"
        made.append(Said(one["title"] or one["name"], plain(one["message"]), speedup))
    return made


def _places(rows: pd.DataFrame, column: str) -> list[WaitingLine]:
    """The lines with the most samples of a reason; those of no line are told as such."""
    counts = rows.groupby(["file", "line", "text"])[column].sum()
    total = counts.sum()
    return [
        WaitingLine(
            f"{file}:{line}" if line else "no known line", str(text), f"{100 * count / total:.0f}"
        )
        for (file, line, text), count in counts.nlargest(LINES).items()
        if count >= LEAST * total
    ]


def _waits(rows: pd.DataFrame, total: float) -> list[Wait]:
    columns = {STALL_SAMPLES.format(state): state for state in SAMPLED_STATES}
    sums = rows.reindex(columns=list(columns)).apply(pd.to_numeric).sum()
    sums = sums.drop(STALL_SAMPLES.format("selected"))
    return [
        Wait(
            columns[column].replace("_", " "),
            SAMPLED_STATES[columns[column]],
            f"{100 * count / total:.1f}",
            _places(rows, column),
        )
        for column, count in sums.nlargest(REASONS).items()
        if count >= LEAST * total
    ]


def view(
    document: Mapping[str, Any],
    rows: pd.DataFrame | None,
    environments: Mapping[str, Mapping[str, Any]],
) -> Sampled | None:
    """A kernel's sampled case; None where it has none.

    document: what came of it (see `Pipeline.about_kernels`); rows: its instructions' samples, with the
    columns of `Origin`.
    """
    told = document.get("sampled")
    if told is None:
        return None
    notes, facts = told["notes"], environments.get(told["environment"], {})
    rows = pd.DataFrame(columns=[SAMPLES]) if rows is None else rows
    total = float(rows[SAMPLES].sum())
    reason = "" if told["status"] == result.OK else f"{told['status']}: {told['reason']}"
    issued = pd.to_numeric(rows.get(STALL_SAMPLES.format("selected"), pd.Series(dtype=float))).sum()
    return Sampled(
        case=told["case"],
        device=device_name(facts),
        ncu=str(notes.get("ncu") or facts.get("ncu") or ""),
        samples=number(total),
        issued=f"{100 * issued / total:.1f}" if total else "",
        interval=number(notes["interval_cycles"]) if notes.get("interval_cycles") else "",
        reason=reason or ("" if total else "it ended before its first sample"),
        waits=_waits(rows, total) if total else [],
        said=_said(notes.get("rules", [])),
    )
