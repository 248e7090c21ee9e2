"""A kernel's sampled case on its page: where warps wait, and messages of Nsight Compute."""

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
"""The least share of the samples of a shown reason, the most reasons, the most lines of each."""
HOT = 0.05
"""The least share of the samples with which a line or an instruction is marked."""
_MARKUP = re.compile(r"@(?P<kind>[a-z]+):(?P<rest>[^@]*)@")


@dataclass(frozen=True)
class WaitingLine:
    """A line where warps wait; share: its part of the reason's samples (%)."""

    name: str
    text: str
    share: str


@dataclass(frozen=True)
class Wait:
    """A stall reason: its share of all samples (%), and the lines with most of them."""

    reason: str
    meaning: str
    share: str
    lines: list[WaitingLine]


@dataclass(frozen=True)
class RuleMessage:
    """A message of a rule of Nsight Compute; speedup: the rule's estimate."""

    title: str
    message: markupsafe.Markup
    speedup: str


@dataclass(frozen=True)
class Sampled:
    """The sampled case of a kernel.

    issued: share of the samples in which the warp issued its instruction (%); reason: why there are no
    samples, else empty; hot: the least share of a marked line (%).
    """

    case: str
    device: str
    ncu: str
    samples: str
    issued: str
    interval: str
    reason: str
    waits: list[Wait]
    messages: list[RuleMessage]
    hot: str = f"{100 * HOT:.0f}"


def plain(message: str) -> markupsafe.Markup:
    """Convert a rule's markup into links to https addresses and plain text."""

    def replaced(match: re.Match[str]) -> markupsafe.Markup:
        label, _, address = match["rest"].partition(":")
        if match["kind"] != "url":
            # A section has a name, then its title.
            return markupsafe.escape(match["rest"].rpartition(":")[2])
        if not address.startswith("https://"):  # a recording is untrusted: no scheme that runs code
            return markupsafe.escape(label)
        link = markupsafe.Markup('<a href="{}" rel="external noreferrer">{}</a>')
        return link.format(address, label)

    html, end = markupsafe.Markup(""), 0
    for match in _MARKUP.finditer(message):
        html += markupsafe.escape(message[end : match.start()]) + replaced(match)
        end = match.end()
    return html + markupsafe.escape(message[end:])


def _messages(rules: list[Mapping[str, Any]]) -> list[RuleMessage]:
    """Return the messages on the kernel, without references to other sections and errors of a rule."""
    messages = []
    for rule in rules:
        title = rule.get("title", "")
        if rule.get("kind") in ("ok", "error") and not title:
            continue
        speedup = ""
        if rule.get("speedup_of"):
            local = "" if rule["speedup_of"] == "global" else "local "
            speedup = f"estimated {local}speedup {rule.get('speedup') or 0:.1f} %"
        message = plain(rule.get("message", ""))
        messages.append(RuleMessage(title or rule.get("name", ""), message, speedup))
    return messages


def _worst_lines(rows: pd.DataFrame, column: str) -> list[WaitingLine]:
    """Return the lines with the most samples of a reason."""
    counts = rows.groupby(["file", "line", "text"])[column].sum()
    total = counts.sum()
    return [
        WaitingLine(
            f"{file}:{line}" if line else "unknown line", str(text), f"{100 * count / total:.0f}"
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
            _worst_lines(rows, column),
        )
        for column, count in sums.nlargest(REASONS).items()
        if count >= LEAST * total
    ]


def view(
    document: Mapping[str, Any],
    rows: pd.DataFrame | None,
    environments: Mapping[str, Mapping[str, Any]],
) -> Sampled | None:
    """Return a kernel's sampled case; None without one.

    document: the kernel's entry of `Pipeline.about_kernels`; rows: samples by instruction, with the columns
    of `Origin`.
    """
    sampled = document.get("sampled")
    if sampled is None:
        return None
    notes, facts = sampled["notes"], environments.get(sampled["environment"], {})
    rows = pd.DataFrame(columns=[SAMPLES]) if rows is None else rows
    total = float(rows[SAMPLES].sum())
    reason = "" if sampled["status"] == result.OK else f"{sampled['status']}: {sampled['reason']}"
    issued = pd.to_numeric(rows.get(STALL_SAMPLES.format("selected"), pd.Series(dtype=float))).sum()
    return Sampled(
        case=sampled["case"],
        device=device_name(facts),
        ncu=str(notes.get("ncu") or facts.get("ncu") or ""),
        samples=number(total),
        issued=f"{100 * issued / total:.1f}" if total else "",
        interval=number(notes["interval_cycles"]) if notes.get("interval_cycles") else "",
        reason=reason or ("" if total else "it ended before its first sample"),
        waits=_waits(rows, total) if total else [],
        messages=_messages(notes.get("rules", [])),
    )
