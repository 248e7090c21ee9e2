"""What words mean: statuses, verdicts and sources, and the glossary that the pages link."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import markupsafe
import yaml

from tilewave.basics.paths import TEMPLATES
from tilewave.kernel import result

STATUS_WORDS: Mapping[str, str] = {
    result.OK: "the stage ended cleanly and gave its figures.",
    result.NOT_MEASURED: "this machine could not or was not to measure it; the reason says why.",
    result.FAILED_TO_COMPILE: "the compiler refused the kernel; the reason is its first message.",
    result.FAILED_TO_LAUNCH: "the driver refused the launch, so nothing ran.",
    result.INVALID_ACCESS: "the kernel touched memory that is not its own and was ended.",
    result.ASSERTION_FAILED: "an assert of the kernel's own did not hold, and ended it.",
    result.TRAPPED: "the kernel ended itself by a trap.",
    result.TIMED_OUT: "the case ran past its time limit and its process was killed.",
    result.UNSUPPORTED: "the kernel does not claim to take this shape or GPU; no fault of anyone's.",
    result.STALE: "there is a recorded figure, but of other code, another launch or method than "
    "the ones here; it is not shown.",
}
VERDICT_WORDS: Mapping[str, str] = {
    result.CORRECT: "the output agreed with the reference within the tolerance.",
    result.WRONG: "the output differed from the reference by more than the tolerance, or held NaN.",
    result.NOT_CHECKED: "no check came to a verdict, so the case does not rank.",
    result.RACE: "two threads touched the same memory with no order between them.",
    result.UNINITIALISED: "the kernel read memory that nobody had written.",
    result.BARRIER: "threads of a block did not meet at the same barrier.",
}
SOURCE_WORDS: Mapping[str, str] = {
    "counters": "Nsight Compute's hardware counters, in this run's environment.",
    "samples": "Nsight Compute's samples of what the warps did, in this run's environment.",
    "events": "run and timed in this run's environment: CUDA events on a GPU, the clock on a CPU.",
    "recorded": "a measurement of the named GPU that is shipped with the project; this run only "
    "shows it.",
    "executed": "checked and counted while a CPU executed the same machine code.",
    "model": "a closed form; nothing was run.",
}


@dataclass(frozen=True)
class GlossaryTerm:
    """A word of the glossary; ``forms`` are what it is found by in a text."""

    id: str
    term: str
    text: str
    forms: tuple[str, ...]


@functools.cache
def glossary() -> tuple[GlossaryTerm, ...]:
    """The terms, by name."""
    told = yaml.safe_load((TEMPLATES / "glossary.yaml").read_text("utf-8"))
    return tuple(
        GlossaryTerm(one["term"].replace(" ", "-"), one["term"], one["text"],
             (one["term"], *one.get("also", ())))
        for one in sorted(told, key=lambda one: str(one["term"]).lower())
    )  # fmt: skip


@functools.cache
def _forms() -> tuple[re.Pattern[str], Mapping[str, str]]:
    ids = {form: one.id for one in glossary() for form in one.forms}
    longest_first = sorted(ids, key=lambda form: (-len(form), form))
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})\b"), ids


def linked(text: str, address: str, but: str = "") -> markupsafe.Markup:
    """The text, escaped, where each term of the glossary is a link at its first use.

    address: of the glossary's page; but: a term that is not linked.
    """
    pattern, ids = _forms()
    seen = {but}

    def link(found: re.Match[str]) -> str:
        name = ids[found[0]]
        if name in seen:
            return found[0]
        seen.add(name)
        return f'<a class="term" href="{address}#{name}">{found[0]}</a>'

    return markupsafe.Markup(pattern.sub(link, str(markupsafe.escape(text))))
