"""The verdict on a kernel: what its trials decide, and how far a guess of `wrap` bears on it."""

import contextlib
import functools
import math
import re
import shlex
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.basics.paths import relative
from tilewave.commands import execute
from tilewave.commands import outcome as outcomes
from tilewave.commands.checking.doubts import (
    is_gross,
    is_promised,
    is_wrong_as_named,
    most_are_wrong,
    rests_on_guess,
    rounded_down,
)
from tilewave.commands.checking.notes import PATTERNS, TABLES, UNKNOWN
from tilewave.commands.checking.sentences import GUESSING, JUDGED_BY, sentence
from tilewave.commands.checking.sources import (
    FIXED,
    LEFT_OUT,
    CheckedKernel,
    at_size,
    checked_kernels,
)
from tilewave.commands.checking.tried import (
    EVEN,
    LIMIT_S,
    TriedCase,
    sampled,
    shape_of,
    size_of,
    tried_cases,
)
from tilewave.commands.wrapping import probing, trying
from tilewave.commands.wrapping.host_reference import Reference
from tilewave.commands.wrapping.recognising import CONSTANT
from tilewave.execution import least, trust
from tilewave.execution.places import sentence as sentence_of
from tilewave.kernel import result
from tilewave.kernel.expressions import Sizes
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.inputs import LARGE, SPECIAL, ZERO
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs, single, tables, trials
from tilewave.pipeline.cases import Case
from tilewave.report import advice
from tilewave.theory import architectures

SEVERAL, MANY, VAST = 4, 5, 16
"""Multiples at which a formula must be right, too: of a kernel's only size, whole blocks stay whole; of each size, more than
a block of 1024 from 256 on, and where these are few blocks, or lines are not executed."""
SHORT_S = 1.0
"""Seconds of a formula's trials, after which none at a larger shape begins."""
LAUNCHES_S, ALIKE = 20.0, 3
"""Seconds after which no further launch is tried, and the least number of blocks whose fault is one of each block."""
WORST = (result.NOT_RIGHT, result.USAGE, result.UNCLEAR, result.RIGHT)
"""Exit codes, the one that decides first."""


def verdict_on(source: CheckedKernel, options: Namespace, machine: Any) -> dict[str, Any]:
    """Return the document of one kernel; a mistake in its file is the verdict. Raises UserError."""
    outcome: dict[str, Any] = {"kernel": source.name, "file": relative(source.path)}
    differing = dict[str, Any]()
    for judge in _judges(source, options, machine):
        any_block = probing.SAME_BY_HALVES in source.notes
        unsure = [
            of for of in source.guesses if not (any_block and of.startswith(("block ", "grid ")))
        ]
        named = judge.exact and judge.alike and (source.launched or any_block) and not unsure
        judged = replace(
            source, problem="", judge=source.put(judge), judges=(), search=None, named=named
        )
        document = verdict_on(judged, options, machine)
        if document["exit_code"] in (result.RIGHT, result.NOT_RIGHT):
            return document
        ends = [of["verdict"] for of in document.get("trials", ())]
        telling = ends.count(result.CORRECT) > 1 and not any(of in judge.text for of in CONSTANT)
        if telling or (judge.exact and result.WRONG in ends):
            differing = differing or document
        wrong = [of["trial"] for of in document.get("trials", ()) if of["verdict"] == result.WRONG]
        if telling and wrong and {*wrong} == {trials.NAMES[ZERO]}:
            break  # another formula may have no value there
    if source.search:
        source.put(None)
        plain = replace(source, judges=(), search=None, sizes=())
        return differing if differing and not source.faults else verdict_on(plain, options, machine)
    if source.kernel is None:
        reason = f"{GUESSING}: {source.problem}"
        if missing := re.match(r"(--[a-z]+) is missing", source.problem):
            path = relative(source.path, quoted=True)
            command = f"tilewave check {path} --kernel {shlex.quote(source.name)} {missing[1]} ..."
            reason = reason.replace(missing[0], f"{missing[0]} ({command})", 1)
        sentence = f"could not tell whether {source.name} is right: {reason}"
        outcome |= {"exit_code": result.UNCLEAR, "sentence": sentence, "reason": reason}
        return _otherwise(source, outcome, options, machine)
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        try:
            run = functools.partial(
                tried_cases, source, options=options, folder=Path(folder), machine=machine
            )
            kernels = [source.kernel, *(at_size(source.kernel, size) for size in source.sizes)]
            begun = time.monotonic()
            tried = [entry for kernel in kernels for entry in run(kernel)]
            if source.judge:  # a shape may be too large for a formula
                tried = [of for of in tried if not _is_unsure(of)] or tried
            # Else the launch, or the kernel, leaves some out.
            whole = [*trying.floored(vars(source.kernel.front)), *source.steps]
            fits = [of for of in tried if not trying.broken(whole, of.case.sizes)]
            right = source.judge and all(entry.exit_code == result.RIGHT for entry in fits)
            if right:
                tried += _grown(source, tried, [*source.where, *whole], begun, run, options)
        except UserError as error:  # of guessed front matter: its file is a temporary one
            if source.kernel.path == source.path:
                raise
            problem = str(error).removeprefix(f"{error.where_file}: ")
            return verdict_on(replace(source, kernel=None, problem=problem), options, machine)
        outcome |= _document(source, tried, options)
    return _otherwise(source, outcome, options, machine)


def verdict_with(
    changed: Mapping[str, str], source: CheckedKernel, options: Namespace, machine: Any, home: Path
) -> dict[str, Any]:
    """Wrap a kernel again with changed options, in a folder of its own, and return its document; empty if there is none.
    Raises UserError."""
    facts = {**vars(options), **changed, "path": source.path, "kernel": source.name}
    again, document = Namespace(**facts), dict[str, Any]()
    for kernel in checked_kernels(again, home, {}):
        document = verdict_on(kernel, again, machine)
    return document


def otherwise_launched(
    document: dict[str, Any], source: CheckedKernel, options: Namespace, machine: Any, home: Path
) -> dict[str, Any]:
    """Try other launches of an undecided kernel that no file launches. Return the document of one with which it is right, or
    the given one, which says not right if each block has the same race."""
    begun, tries = time.monotonic(), {"": document}
    ended = document.get("verdict") == result.NOT_CHECKED and source.any_block
    ended = ended or probing.SAME_BY_HALVES in source.notes  # then no block tells more
    for at, sides in enumerate(() if ended else source.launches):
        if time.monotonic() - begun > LAUNCHES_S:
            break
        flags = " ".join(f"--{key} {shlex.quote(of)}" for key, of in sides.items())
        with contextlib.suppress(UserError):
            tried = verdict_with(sides, source, options, machine, home / f"{source.name}-{at}")
            if tried.get("exit_code") == result.RIGHT:
                launch = f" is right with {flags} (Tilewave's choice)"
                return tried | {"sentence": tried["sentence"].replace(" is right", launch, 1)}
            tries |= {flags: tried} if tried else {}
    in_shared = PATTERNS["in_shared"].match
    faults = [  # those that no grid can cause
        {(of["kind"], of["line"]): of for of in tried["findings"] if in_shared(of["message"])}
        for tried in tries.values()
        if tried.get("verdict") in (result.RACE, result.UNINITIALISED)
    ]
    always = set.intersection(*map(set, faults)) if ALIKE <= len(faults) == len(tries) else set()
    if always and source.any_block:
        fault = next(of for key, of in faults[0].items() if key in always)
        text = f"{source.name} is not right with any block that was tried: {sentence_of(fault)}"
        document |= {"exit_code": result.NOT_RIGHT, "sentence": text}
    return document


def _grown(
    source: CheckedKernel,
    tried: Sequence[TriedCase],
    multiples: Sequence[str],
    begun: float,
    run: Callable[[Kernel], Iterable[TriedCase]],
    options: Namespace,
) -> list[TriedCase]:
    """Return the trials of a formula at other shapes: the least, larger ones, and vast ones if blocks are few, or lines
    are not executed."""
    assert source.kernel is not None
    least, vast, grown = _least(source, multiples), _larger(source, VAST), list[TriedCase]()
    owed = _is_owed(source.kernel, tried, options)
    for size in [*least, *_larger(source, MANY), *vast]:
        limit_s = SEVERAL * options.budget if owed or size in least else SHORT_S
        if time.monotonic() - begun < limit_s and (owed or size not in vast):
            entries = run(at_size(source.kernel, size))
            grown += [entry for entry in entries if _is_sure(entry.outcome)]
            owed = _is_owed(source.kernel, [*tried, *grown], options)
    return grown


def _is_owed(kernel: Kernel, tried: Sequence[TriedCase], options: Namespace) -> bool:
    """Return whether no trial has many blocks, or many lines are not executed."""
    few = all(_is_few(kernel, of.case.sizes) for of in tried)
    return few or bool(_trust(tried, options)["idle"])


def _otherwise(
    source: CheckedKernel, outcome: dict[str, Any], options: Namespace, machine: Any
) -> dict[str, Any]:
    """Return an unclear outcome, or that under the operation of what the kernel touches, if it is clear."""
    if source.otherwise is None or outcome["exit_code"] != result.UNCLEAR:
        return outcome
    touched = replace(source.otherwise(), in_file=source.in_file, governs=source.governs)
    tried = verdict_on(touched, options, machine)
    ended = tried["exit_code"] == result.NOT_RIGHT and tried.get("verdict") != result.WRONG
    return tried if tried["exit_code"] == result.RIGHT or ended else outcome


def _judges(source: CheckedKernel, options: Namespace, machine: Any) -> Iterator[Reference]:
    """Yield what may judge a kernel of an unknown operation: the host's functions, then formulas with its values."""
    yield from source.judges
    if source.search and source.kernel:
        sides = shape_of(source.kernel)
        whole = ["x".join(map(str, sides.values())), *source.sizes]
        whole += [str(SEVERAL * of) for of in sides.values()] if len(sides) == 1 else []
        for part, times in ((1, 1), (2, 1), (16, 1), (1, 2)):  # those that are not too large
            sides_of = ([str(int(of) // part or 1) for of in size.split("x")] for size in whole)
            kernels = [at_size(source.kernel, "x".join(of)) for of in sides_of]
            if samples := [
                of for kernel in kernels for of in sampled(kernel, options, machine, times)
            ]:
                yield from source.search(samples)
                return


def _larger(source: CheckedKernel, times: int) -> list[str]:
    """Return larger shapes than those at which a formula was right: many blocks, and other ratios of two sizes."""
    assert source.kernel is not None
    sides = shape_of(source.kernel)
    if any(map(FIXED.fullmatch, source.where)):
        return []
    bound = any("==" in of and "%" not in of for of in source.where)
    grown = [[*sides]] if bound else [[name] for name in sides]
    return [trying.size(sides | {name: sides[name] * times for name in of}) for of in grown]


def _least(source: CheckedKernel, multiples: Sequence[str]) -> list[str]:
    """Return shapes with the least of each size that must be a multiple, at which a tile reaches over both edges."""
    sides = shape_of(source.kernel) if source.kernel else {}
    steps = re.findall(r"(\w+) % (\d+) == 0", " ".join(multiples))
    less = ({name: int(step)} for name, step in steps if int(step) < sides.get(name, 0))
    return [trying.size(sides | of) for of in less]


def _is_unsure(tried: TriedCase) -> bool:
    """Return whether a formula did not judge a trial, or its rounding of large inputs may be another one."""
    rounding = tried.name == trials.NAMES[LARGE] and not is_gross(tried.outcome)
    wrong = tried.outcome.verdict == result.WRONG
    return tried.outcome.verdict == result.NOT_CHECKED or (wrong and rounding)


def _is_few(kernel: Kernel, sizes: Sizes) -> bool:
    return trying.threads({**vars(kernel.front), "block": []}, sizes) < trying.FEW_BLOCKS


def _trust(tried: Sequence[TriedCase], options: Namespace) -> dict[str, Any]:
    """Return how the instructions of the trials that were completed were executed."""
    complete = (of.done for of in tried if of.done and of.outcome.status == result.OK)
    number = architectures.number(execute.arch_of(options))
    return trust.of_instructions([of.rows() for of in complete], number)


def _is_sure(end: Result) -> bool:
    """Return whether a formula judged a larger shape: grid and extents there follow from smaller ones, and may end early."""
    wrong = end.verdict == result.WRONG and not PATTERNS["unwritten"].search(end.reason)
    return end.verdict == result.CORRECT or wrong


def _noted(ran: Sequence[TriedCase], name: str) -> list[str]:
    """Return the notes of that name of all trials, each once."""
    return list(dict.fromkeys(text for entry in ran for text in entry.outcome.notes.get(name, [])))


def _document(
    source: CheckedKernel, tried: Sequence[TriedCase], options: Namespace
) -> dict[str, Any]:
    kernel = tried[0].case.kernel
    ran = [entry for entry in tried if entry.done is not None]
    # A trial that did not fit the budget, or the kernel, decides nothing where others are right.
    deciding = [entry for entry in ran if entry.outcome.status != result.NOT_MEASURED] or tried
    if kernel.path != source.path:  # its file does not say what it computes from infinity
        special = (trials.NAMES[SPECIAL], result.WRONG)
        finite = [item for item in deciding if (item.name, item.outcome.verdict) != special]
        deciding = finite or deciding
    off = [of for of in deciding if source.judge and of.outcome.verdict == result.WRONG]
    edges = [of for of in off if of.case.id != deciding[0].case.id]
    whole = trying.floored(vars(kernel.front))
    edges.sort(key=lambda of: bool(trying.broken(whole, of.case.sizes)))
    sides = [math.prod(of.case.sizes.values()) for of in (*edges, deciding[0])]
    least = max(sides) == sides[-1]  # a tile reaches over both edges
    up = any(map(trying.rounded_up, kernel.front.grid)) and not least
    up = up and not all(trying.broken(source.steps, of.case.sizes) for of in edges)
    right = [of for of in deciding if of not in edges]  # the launch takes whole blocks
    where, why = rounded_down(source, right, edges) if edges and right else ("", "")
    few = where or not any(most_are_wrong(of.outcome.reason) for of in edges)
    if edges and len(edges) == len(off) and few and not up:
        deciding = right
        text = f", but not at {size_of(edges[0].case)}: {edges[0].outcome.reason}"
        text = (JUDGED_BY.split(text) if "expected nan" not in text else text.split(": "))[0]
        text = f", right where {where}{why}" if where else text
        source = replace(source, edge=text)
    proven = any(entry.right_at_whole_tiles for entry in deciding)
    proven = proven and source.launched and any(map(trying.rounded_up, kernel.front.grid))
    codes = [
        (WORST.index(entry.exit_code), rests_on_guess(source, entry, proven)) for entry in deciding
    ]
    decisive = deciding[codes.index(min(codes))]
    code, unclear = decisive.exit_code, decisive.exit_code != result.RIGHT and min(codes)[1]
    if source.judge and decisive.outcome.verdict == result.NOT_CHECKED:
        source = replace(source, judge="", problem=UNKNOWN)
    differs = bool(source.judge) and decisive.outcome.verdict == result.WRONG
    unclear = unclear or (differs and not (source.named and is_gross(decisive.outcome)))
    unclear = unclear and not is_wrong_as_named(source, deciding)
    unlaunched = decisive.outcome.status == result.UNSUPPORTED and source.faults
    if unlaunched or is_promised(source, decisive):
        code, unclear = result.NOT_RIGHT, False
    code = result.NOT_RIGHT if code == result.RIGHT and source.faults else code
    trusted, limits = _trust(ran, options), any(map(PATTERNS["failure"].search, source.notes))
    idle = trusted["idle"] and kernel.path != source.path and not limits
    unclear = unclear or (code == result.RIGHT and idle)
    arch = execute.arch_of(options)
    outcome = {
        "exit_code": result.UNCLEAR if unclear else code,
        "variant": decisive.case.variant.id,
        "arch": arch,
        "code": decisive.entry.get("code", ""),
        **decisive.outcome.only("status", "reason", "verdict"),
        "trials": [outcomes.trial_row(entry.name, entry.outcome) for entry in tried],
        "findings": [fault for entry in ran for fault in entry.outcome.notes.get("faults", [])],
        "hints": _noted(ran, "hints"),
        "wrapped": list(source.notes),
        "bound": None,
        "fix": [],
    }
    complete = [entry for entry in ran if entry.outcome.status == result.OK]
    outcome["trust"] = trusted | {
        "not_run": [
            f"{entry.name or entry.case.id}: {entry.outcome.reason}"
            for entry in tried
            if entry.done is None or entry.outcome.status == result.NOT_MEASURED
        ],
        "guessed": source.guesses,
        "not_searched": _noted(ran, "not_searched"),
        "not_looked_for": [*trust.NOT_LOOKED_FOR, *_other_variants(kernel, decisive.case)],
    }
    if complete:
        largest = max(complete, key=lambda entry: entry.outcome.notes.get("thread_instructions", 0))
        outcome |= _counts(source, complete[-1] if complete[-1].name == EVEN else largest, options)
    smaller = ", ".join(source.smaller)
    smaller = f" (with smaller constants than the file's: {smaller})" if smaller else ""
    unbuilt = decisive.outcome.status == result.FAILED_TO_COMPILE
    absent = "; ".join(of for of in source.notes if unbuilt and of.startswith(LEFT_OUT))
    text = f"{sentence(source, outcome, decisive, deciding)}{smaller}"
    text = trials.POWER.sub(r"\1 is a power of 2", text)
    return outcome | {"sentence": f"{text} ({absent})" if absent else text}


def _other_variants(kernel: Kernel, case: Case) -> list[str]:
    """Return a line about the macros' other values, if there are any."""
    others = [
        f"{name} {', '.join(str(value) for value in values if value != case.variant.names[name])}"
        for name, values in kernel.front.macros.items()
        if len(values) > 1 and case.probe_case is None
    ]
    return [f"other variants: {'; '.join(others)} (--macro NAME=VALUE)"] if others else []


def _counts(source: CheckedKernel, tried: TriedCase, options: Namespace) -> dict[str, Any]:
    """Return counts by line, the least time and the advice for an executed case."""
    assert tried.done is not None
    arch, target = execute.arch_of(options), execute.target_of(options)
    gpu, config = execute.gpu_of(options), single.config(options.seed, LIMIT_S)
    job = jobs.of_case(result.EXECUTE, tried.case, {arch: tried.entry}, arch, config)
    counted = outcomes.document(arch, tried.case, job, tried.entry, tried.done)
    # A file that was wrapped is a header of the temporary file.
    lines = counted["headers"].pop(source.path.name, counted["lines"])
    row = tables.case_row(tried.case, tried.entry)
    resources = tried.entry.get("resources", {}).get(tried.case.kernel.entry, {})
    device, rows = target["device"], counted["instructions"]
    subject = advice.Subject(row, counted["counters"], rows, resources, device)
    findings = advice.for_case(subject) if len(tried.done.ran) == 1 else []
    findings = [finding for finding in findings if finding.rule not in TABLES["of_shapes"]]
    bound = least.of_execution(tried.done, job, gpu) if isinstance(job, Job) and gpu else None
    return {
        "counted": {name: counted[name] for name in TABLES["counted"]}
        | {"lines": [row for row in lines if row["executed"]]},
        "bound": bound,
        "fix": [
            {"rule": finding.rule, "sentence": finding.sentence, "amount": round(finding.amount, 4),
             "file": finding.origin.file, "line": finding.origin.line}
            for finding in findings
        ],
    }  # fmt: skip
