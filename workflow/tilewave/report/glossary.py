"""The glossary that the pages link, and the meanings of statuses, verdicts and sources."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import markupsafe
import yaml

from tilewave.basics.paths import TEMPLATES
from tilewave.kernel import result

STATUS_WORDS: Mapping[str, str] = {
    result.OK: "the stage finished and gave its values.",
    result.NOT_MEASURED: "this machine could not measure the case or was not set to; the reason says why.",
    result.FAILED_TO_COMPILE: "the compiler rejected the kernel; the reason is its first message.",
    result.FAILED_TO_LAUNCH: "the driver rejected the launch, so nothing ran.",
    result.INVALID_ACCESS: "the kernel accessed memory outside its buffers and was stopped.",
    result.ASSERTION_FAILED: "an assert in the kernel failed and stopped it.",
    result.TRAPPED: "the kernel stopped itself with a trap.",
    result.TIMED_OUT: "the case exceeded its time limit and its process was killed.",
    result.UNSUPPORTED: "the kernel does not support this shape or GPU. This is not an error.",
    result.STALE: "a recorded value exists, but its code, launch or method differs from the current "
    "one, so it is not shown.",
}
VERDICT_WORDS: Mapping[str, str] = {
    result.CORRECT: "the output agrees with the reference within the tolerance, for the inputs of the "
    "case's check; `tilewave check` tries others.",
    result.WRONG: "the output differs from the reference by more than the tolerance, or contains NaN, or the kernel "
    "changed an input.",
    result.NOT_CHECKED: "no check gave a verdict, so the case does not rank.",
    result.RACE: "two threads accessed the same memory without an order between them.",
    result.UNINITIALISED: "the kernel read memory that was never written.",
    result.BARRIER: "threads of a block did not reach the same barrier.",
}
SOURCE_WORDS: Mapping[str, str] = {
    "counters": "Nsight Compute's hardware counters, in this run's environment.",
    "samples": "Nsight Compute's samples of the warps' states, in this run's environment.",
    "events": "times from this run's environment: CUDA events on a GPU, the clock on a CPU.",
    "recorded": "a measurement on the named GPU that is shipped with the project; this run only "
    "shows it.",
    "executed": "checks and counters from executing the same machine code on a CPU.",
    "model": "computed by a closed form.",
}


@dataclass(frozen=True)
class GlossaryTerm:
    """A term of the glossary; forms: its spellings in a text."""

    id: str
    term: str
    text: str
    forms: tuple[str, ...]


@functools.cache
def terms() -> tuple[GlossaryTerm, ...]:
    """Return the terms, sorted by name."""
    entries = yaml.safe_load((TEMPLATES / "glossary.yaml").read_text("utf-8"))
    return tuple(
        GlossaryTerm(entry["term"].replace(" ", "-"), entry["term"], entry["text"],
             (entry["term"], *entry.get("also", ())))
        for entry in sorted(entries, key=lambda entry: str(entry["term"]).lower())
    )  # fmt: skip


@functools.cache
def _forms() -> tuple[re.Pattern[str], Mapping[str, str]]:
    ids = {form: term.id for term in terms() for form in term.forms}
    longest_first = sorted(ids, key=lambda form: (-len(form), form))
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})\b"), ids


def linked(text: str, address: str, but: str = "") -> markupsafe.Markup:
    """Escape the text and link the first use of each term.

    address: the glossary's page; but: a term that is not linked.
    """
    pattern, ids = _forms()
    seen = {but}

    def link(match: re.Match[str]) -> str:
        name = ids[match[0]]
        if name in seen:
            return match[0]
        seen.add(name)
        return f'<a class="term" href="{address}#{name}">{match[0]}</a>'

    return markupsafe.Markup(pattern.sub(link, str(markupsafe.escape(text))))
