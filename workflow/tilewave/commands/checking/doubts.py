"""How far a verdict rests on a guess, on a name, or on what the file promises."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.commands import outcome as outcomes
from tilewave.commands.checking.notes import PATTERNS, TABLES, UNKNOWN
from tilewave.commands.checking.sources import COMPUTES, UNBUILT, CheckedKernel
from tilewave.commands.checking.tried import LEAST, WHOLE, TriedCase, undefined
from tilewave.commands.wrapping import matching, trying
from tilewave.commands.wrapping.deriving import UNSIZED
from tilewave.execution.case import UNWRITTEN
from tilewave.kernel import operations, result
from tilewave.kernel.expressions import Sizes
from tilewave.kernel.front_matter import GUESSED, Kernel
from tilewave.kernel.result import Result

GROSS = 0.01
"""The least relative error of a whole output that is no matter of rounding."""


def is_gross(end: Result) -> bool:
    """Return whether a result is wrong by more than other roundings or a fast function explain."""
    figures = {of["metric"]: of["value"] for of in end.notes["check"]["figures"]}
    return not figures.get("relative_error", math.nan) < GROSS


def rests_on_guess(source: CheckedKernel, tried: TriedCase, proven: bool = False) -> bool:
    """Return whether a fault may come from a guess of `wrap`, or from what the compiler was not told. proven: another
    trial has the values of the guessed operation."""
    end, kernel = tried.outcome, tried.case.kernel
    if source.named and end.verdict == result.WRONG:  # no guess bears on it
        return False
    marked = dict(kernel.marked(GUESSED))
    sure = end.verdict in result.FINDINGS
    empty = PATTERNS["empty"].search(end.reason) is not None
    if tried.name in (WHOLE, LEAST) or empty:
        typed = any(note.startswith("type ") for note in source.guesses)
        sure = sure or ((tried.name == LEAST or empty) and not typed)
        sure = sure and PATTERNS["in_shared"].match(end.reason) is not None
        partly = any(note.startswith("grid of the launch") for note in source.notes)
        for key in ("operation", *["grid"] * (partly or empty), *["block"] * empty) if sure else ():
            marked.pop(key, None)
    if proven:
        marked.pop("operation", None)
    in_block = _lies_in_block(source, tried)
    for key in ("operation", "grid", "block") if in_block else ():
        marked.pop(key, None)
    rests, unbuilt = outcomes.rests_on(marked, end.status, end.verdict), end.status == UNBUILT
    if unbuilt and source.problem:
        rests += undefined(source.path, end.reason)
    if not (sure or in_block) or (source.smaller and _explained(source, end)):
        syntax = PATTERNS["syntax"].search(end.reason)
        types = ("no guess" if syntax else "type ") if unbuilt else ""
        guesses = (of for of in source.guesses if not (proven and of.startswith("operation ")))
        rests += [guess for guess in guesses if guess.startswith(types)]
        rests += PATTERNS["unread"].findall(end.reason) if kernel.path != source.path else []
    if kernel.path != source.path and end.verdict == result.RACE and _scatters(kernel, end):
        rests.append("operation")
    sure = source.launched and (sure or not source.problem)
    return bool(rests or not (unbuilt or sure or in_block))


def _lies_in_block(source: CheckedKernel, tried: TriedCase) -> bool:
    """Return whether a fault of a kernel that is not launched is one of a block's threads, whatever the grid: in shared
    memory, of one with one size that states its block, between threads of a warp, of one that takes any block, or of the
    first thread, before an array."""
    end, case = tried.outcome, tried.case
    sides = {note.split(" is a guess")[0] for note in source.guesses} - {"grid", "operation"}
    inside = (
        end.verdict in (result.RACE, result.UNINITIALISED) and " of shared memory" in end.reason
    )
    in_warp = end.verdict == result.RACE and " of the same warp " in end.reason
    in_warp = in_warp and "blockDim" in source.path.read_text("utf-8", "replace")
    few = len(case.sizes) <= 1
    first = few and PATTERNS["first"].search(end.reason) and not _has_own_inputs(case.kernel)
    return not source.launched and bool(in_warp or first or (inside and few and not sides))


def rounded_down(
    source: CheckedKernel, right: Sequence[TriedCase], off: Sequence[TriedCase] = ()
) -> tuple[str, str]:
    """Return the limits of a kernel as a condition, and as a reason the grid that is rounded down, if one is. Limits come
    from the grid, from the code, and from the shapes that are ``right`` and ``off``; both texts are empty if a shape that
    is right breaks them, or one that is off meets them."""
    kernel = right[0].case.kernel
    sure = source.launched and "grid" not in kernel.marked(GUESSED)
    grid = trying.floored(vars(kernel.front)) if sure else {}
    texts = {**dict.fromkeys(source.steps if off else [], ""), **grid}
    rest = [of.case.sizes for of in off if not trying.broken(texts, of.case.sizes)]
    texts |= dict.fromkeys(_steps([of.case.sizes for of in right], rest), "")
    unmet = {of for entry in right for of in trying.broken(texts, entry.case.sizes)}
    broken = {of for entry in off for of in trying.broken(texts, entry.case.sizes)}
    needed = {of: text for of, text in texts.items() if of not in unmet and (text or of in broken)}
    if not needed or not all(trying.broken(needed, entry.case.sizes) for entry in off):
        return "", ""
    sides = " x ".join(filter(None, needed.values()))
    return " and ".join(needed), f": its grid, {sides}, is rounded down" if sides else ""


def _steps(right: Sequence[Sizes], off: Sequence[Sizes]) -> list[str]:
    """Return of which multiples the sizes are at which a kernel is right, but not those at which it is not: powers of two
    that at least two different sizes have."""
    steps = list[str]()
    for name in off[0] if off else ():
        power, step = [trying.POWER.format(name)], math.gcd(*(of[name] for of in right))
        step &= -step
        if len({of[name] for of in right}) < 2:
            continue
        if not any(trying.broken(power, of) for of in right):
            steps += power * all(trying.broken(power, of) for of in off)
        elif any(of[name] % step for of in off) and all(of[name] > step for of in off):
            steps.append(f"{name} % {step} == 0")
    return steps


def _explained(source: CheckedKernel, end: Result) -> bool:
    """Return whether smaller constants may be why memory of a block or a thread is read before anything writes it."""
    faults, smaller = end.notes["faults"], {of.split()[0] for of in source.smaller}
    inside = [
        Path(of["file"]).name == source.path.name and UNWRITTEN.search(of["message"])
        for of in faults
    ]
    if end.verdict != result.UNINITIALISED or not all(inside):
        return True
    lines = source.path.read_text("utf-8", "replace").splitlines()
    names = [source.governs(lines[of["line"] - 1]) for of in faults]
    return any(not of or smaller & of for of in names)


def is_promised(source: CheckedKernel, decisive: TriedCase) -> bool:
    """Return whether a kernel of an unknown operation fails where its own bounds test promises that it does not, or gets
    other memory from the host than it needs."""
    unjudged = decisive.outcome.verdict in (None, result.NOT_CHECKED)
    unknown = source.problem == UNKNOWN and unjudged
    sure = unknown and source.launched and not decisive.case.kernel.marked(GUESSED)
    sure = sure and not any(note.startswith(UNSIZED) for note in source.notes)
    sure = sure and any(map(PATTERNS["promised"].match, source.faults))
    return sure or any(map(PATTERNS["of_host"].search, source.faults))


def is_wrong_as_named(source: CheckedKernel, deciding: Sequence[TriedCase]) -> bool:
    """Return whether each element of each trial is wrong, and the kernel's name says what it computes and no more."""
    kernel, words = deciding[0].case.kernel, {*matching.snake(source.name).split("_")}
    wanted = {*kernel.front.operation.split("_")}
    named = wanted <= words <= wanted | matching.NEUTRAL
    named = named and kernel.front.operation in TABLES["named"]
    sole = [*kernel.marked(GUESSED)] == ["operation"]
    sole = sole and all(note.startswith((COMPUTES, "operation ")) for note in source.guesses)
    ends = [entry.outcome for entry in deciding]
    wrong = all(of.verdict == result.WRONG and PATTERNS["every"].search(of.reason) for of in ends)
    return named and sole and wrong


def most_are_wrong(reason: str) -> bool:
    """Return whether more than half of the results are wrong, and all were written."""
    share = re.search(r"\b(\d+) of (\d+) elements are wrong", reason)
    return bool(
        share and 2 * int(share[1]) > int(share[2]) and not PATTERNS["unwritten"].search(reason)
    )


def is_mostly_wrong(document: Mapping[str, Any]) -> bool:
    """Return whether a kernel is not decided because most of its results are wrong as what its name says."""
    unclear = document["exit_code"] == result.UNCLEAR and document.get("verdict") == result.WRONG
    return unclear and most_are_wrong(document.get("reason", ""))


def _scatters(kernel: Kernel, end: Result) -> bool:
    """Return whether each race is between stores, at places that may depend on an array that wrap filled."""
    messages = [fault["message"] for fault in end.notes["faults"]]
    return _has_own_inputs(kernel) and all(
        re.search(" writes? .* has written", text) for text in messages
    )


def _has_own_inputs(kernel: Kernel) -> bool:
    """Return whether wrap fills an array with numbers that may be places."""
    file = operations.MODULES.file(kernel.front.operation)
    return file is not None and "def inputs(" in file.read_text("utf-8")
