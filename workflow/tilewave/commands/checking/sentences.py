"""The sentence of a verdict."""

import itertools
import math
import re
import shlex
from collections.abc import Sequence

from tilewave.basics.paths import relative
from tilewave.commands import wrap
from tilewave.commands.checking.doubts import rests_on_guess, rounded_down
from tilewave.commands.checking.notes import PATTERNS, TABLES, UNKNOWN
from tilewave.commands.checking.sources import FIXED, UNBUILT, CheckedKernel
from tilewave.commands.checking.tried import Row, TriedCase, size_of
from tilewave.commands.wrapping import host_memory, probing, trying
from tilewave.commands.wrapping.deriving import PAST, UNSIZED
from tilewave.commands.wrapping.guessing import SAME, UNUSED, WHERE
from tilewave.commands.wrapping.matching import leaves
from tilewave.execution import case as running
from tilewave.kernel import operations, result
from tilewave.kernel.expressions import names_in
from tilewave.kernel.front_matter import GUESSED, FrontMatter
from tilewave.kernel.inputs import SPECIAL
from tilewave.pipeline import trials
from tilewave.pipeline.cases import Case
from tilewave.report.cells import plural

NOTABLE = 0.1
"""The least amount of an advice that the sentence has."""
ALLOCATED = "; the host allocates no more"
"""End of a note on an access behind an array."""
INVENTED = " (--arguments changes it)"
"""End of a note on an argument that nothing ties to others."""
GUESSING = "front matter cannot be guessed"
FLAGS = {"block": "--block", "grid": "--grid", "shared_bytes": "--shared"}
"""The sides of a launch that may be a guess, and the flags that replace it."""
JUDGED_BY = re.compile("; (?:judged by what|its reference) ")
"""Start of the end of a reason, which names a temporary file."""


def sentence(
    source: CheckedKernel, outcome: Row, decisive: TriedCase, ran: Sequence[TriedCase]
) -> str:
    code, end, case = outcome["exit_code"], decisive.outcome, decisive.case
    written = case.probe_case is None and case.kernel.path == source.path
    name = outcome["variant"] if written else source.name
    doubt, operation = f"could not tell whether {name} is right", case.kernel.front.operation
    unjudged = f"; the operation {operation} has no reference"
    problem = str(end.verdict if end.status == result.OK else end.status)
    if problem == UNBUILT and (code == result.USAGE or source.problem):
        subject = relative(source.path) if code == result.USAGE else f"{doubt}:"
        return f"{subject} {problem}: {end.reason}"
    right = [of for of in ran if of.exit_code == result.RIGHT]
    differs = f"it differs from {source.judge} " if source.judge and problem == result.WRONG else ""
    equal = list(dict.fromkeys(size_of(of.case) for of in right if differs))[:2]
    alike = [f"it is equal at {' and at '.join(equal)}"] if equal else []
    multiples = right and any("%" in of for of in itertools.chain(*source.limits))
    down = rounded_down(source, right)[1] if multiples else ""
    if code == result.NOT_RIGHT and source.faults:
        sure = PATTERNS["in_shared"].match(end.reason) and not rests_on_guess(source, decisive)
        ends = [f"{problem} at {size_of(case)}: {end.reason}"] if sure else []
        edges = all(fault.startswith(f"{wrap.FAULT}although ") for fault in source.faults)
        where = " and ".join(source.where or itertools.chain(*source.limits))
        if edges and end.verdict == result.CORRECT and where:
            ends += [f"it is right where {where}{down}{source.edge}"]
        elif edges and end.verdict == result.NOT_CHECKED and where:
            ends += [f"nothing was found where {where}"]
        ends += [f"{differs}at {size_of(case)}", *alike] if differs else []
        faults = "; ".join([*source.faults, *ends])
        faults = faults.replace(f"{running.HERE}: ", "").replace(unjudged, "")
        faults = PATTERNS["twice"].sub("", faults)
        return f"{name} is {faults}{_named(source, faults)}"
    missed = outcome["trust"]["not_reached"] if case.kernel.path != source.path else []
    lines = [str(of["line"]) for of in missed if of["file"] == source.path.name]
    idle = f"no trial executed line{'s' * (len(lines) > 1)} {', '.join(lines)}"
    if decisive.exit_code == result.RIGHT:
        text = _right(source, outcome, case, ran, down)
        ended = f"{name}{text}" + f"; {idle}" * bool(lines)
        return ended if code == result.RIGHT else f"{doubt}: {idle}; else it{text}"
    reason = end.reason.removeprefix(f"{running.HERE}: ").replace(unjudged, "")
    reason = JUDGED_BY.split(reason)[0] if source.judge else reason
    guessed = "operation" in case.kernel.marked(GUESSED)
    if end.verdict in result.FINDINGS and guessed:
        reason = PATTERNS["values"].sub("", reason)  # a guess judges no values
    reason = reason if reason.startswith(problem) else ": ".join(filter(None, (problem, reason)))
    kind = f" with {decisive.name}" if decisive.name in trials.NAMES.values() else ""
    constant = any(note.startswith(probing.CONSTANT) for note in source.notes)
    sizes = f" {size_of(case)}".rstrip() * (not (constant and guessed))
    place = f"at{sizes}{kind}: " if sizes or kind else ""
    hints = [hint for hint in outcome["hints"] if hint.startswith(running.UNALIGNED.split("{")[0])]
    at = "; ".join([place + reason, *hints, *alike])
    there = PATTERNS["wrong_at"].match(source.ended)
    if there and end.verdict == result.RACE and operation in TABLES["named"]:
        at += f"; {there[1]}, where it has no race, {there[2]} as {operation}"
    if code == result.NOT_RIGHT:
        by_name = f" as {operation} " if guessed and problem == result.WRONG else " "
        as_named = f": {differs}" if differs or not place else by_name
        whole = [size_of(entry.case) for entry in ran if entry.right_at_whole_tiles]
        at += "".join(f"; it is right at {size}" for size in whole)
        return f"{name} is not right{as_named}{at}{_named(source, at)}"
    if source.problem:
        return f"{doubt}: {_unknown(source, outcome, at, problem)}"
    if differs:
        return f"{doubt}: {differs}{at}"
    rests = f" (its front matter is guessed: {'; '.join(source.guesses)})"
    return f"{doubt}{rests if source.guesses else ''}: {at}"


def _named(source: CheckedKernel, text: str) -> str:
    """Return the file's names of sizes and arrays that have other ones in a sentence, in parentheses."""
    there = {
        of: name
        for of, name in source.in_file.items()
        if re.search(TABLES["mentioned"].format(re.escape(of)), text)
    }
    are = "is" if len(there) == 1 else "are"
    return f" ({', '.join(there)} {are} the file's {', '.join(there.values())})" * bool(there)


def _unknown(source: CheckedKernel, outcome: Row, at: str, problem: str) -> str:
    """Return why a kernel of an unknown operation is not decided, and what its trials showed."""
    why = f"{GUESSING}: {source.problem}" if source.problem != UNKNOWN else UNKNOWN
    facts = (wrap.FAULT, UNSIZED, UNUSED, SAME, probing.NOTHING, probing.ELSEWHERE)
    notes = (note for note in source.notes if note.startswith(facts))
    faults = [note.removeprefix(wrap.FAULT) for note in notes]
    invented = [of.partition(" is a guess")[0] for of in source.guesses if INVENTED in of]
    text = f"the value of {', '.join(invented)} is Tilewave's choice (--arguments)"
    faults += [text] * bool(invented)
    if problem != result.NOT_CHECKED:
        unsure = [of.split(" is a guess")[0] for of in source.guesses]
        sides = [of for of in FLAGS if of in unsure or not (source.launched or "_" in of)]
        ours = ["inputs"] * (problem == result.INVALID_ACCESS)
        ours += [f"a {of}" if "_" not in of else "shared memory" for of in sides]
        flags = f" ({', '.join(map(FLAGS.__getitem__, sides))})" if sides else ""
        ended = "it ended " * (problem not in result.FINDINGS)
        chosen = f"with {_listed(ours)} of Tilewave's choice{flags}, {ended}" if ours else ""
        return "; ".join([why, chosen + at, *faults])
    # An array whose size nobody states may be larger than it seems.
    sure = [note for note in source.notes if ALLOCATED in note or not PAST.search(note)]
    matches = list(filter(None, map(PATTERNS["failure"].search, sure)))
    ends = [match[1] + match[2] * bool(PATTERNS["in_shared"].search(match[2])) for match in matches]
    faults += [end.replace(f": {running.HERE}", "") for end in ends]
    threads = math.prod((*outcome["counted"]["grid"], *outcome["counted"]["block"]))
    constant = any(note.startswith(probing.CONSTANT) for note in source.notes)
    sole = constant and not source.smaller
    only = ", the only size tried: that of the launch" if sole else ""
    where = at.partition(": ")[0] + " " if at.startswith("at ") else ""
    shown = f"{TABLES['searched']} {where}with {plural(threads, 'thread')}{only}"
    shown = "; but ".join(filter(None, [shown, "; ".join(faults)]))
    return f"{why}; {shown}. {TABLES['advice'].format(relative(source.path, quoted=True), shlex.quote(source.name))}"


def _right(
    source: CheckedKernel, outcome: Row, case: Case, ran: Sequence[TriedCase], down: str
) -> str:
    """Return the rest of the sentence on a kernel that is right: where, and what to fix first."""
    front, shapes = case.kernel.front, len({entry.case.id for entry in ran})
    sizes = sorted((of.case.sizes for of in ran), key=lambda of: math.prod(of.values()))
    tried = [trying.size(of) for of in sizes]
    if case.probe_case is not None:
        return f" ran as its front matter says in {plural(shapes, 'case')}"
    equal = f": equal to {source.judge}" if source.judge else ""
    operands = operations.load(front.operation).operands.items() if source.judge else ()
    begins = " ".join(of for of in source.notes if probing.BEGINS in of).split()
    zeroed = [name for name, operand in operands if operand.zeroed and name not in begins]
    begin = probing.BEGINS if len(zeroed) == 1 else "begin with"
    equal += f" where {' and '.join(zeroed)} {begin} zeros" if zeroed else ""
    which = f" from {tried[0]} to {tried[-1]}" if shapes > 1 else f" ({tried[0]})"
    at = f"{plural(shapes, 'shape')}{which}" if _sizes(front) else "its one size"
    sentence = f" is right{equal} at {at} with {plural(len(ran), 'input')}"
    if late := [row for row in outcome["trials"] if row["status"] == result.NOT_MEASURED]:
        sentence += f" ({plural(len(late), 'trial')} did not fit into the time)"
    failures = [match[1] for match in map(PATTERNS["failure"].search, source.notes) if match]
    failed = f" ({', '.join(failures)})" if failures else ""
    texts = zip(source.limits, ("", f", which wrap inferred from trials that failed{failed}"))
    wheres = [f"where {' and '.join(limits)}{why}" for limits, why in texts if limits]
    if wheres and not source.judge:
        sentence += f", {' and '.join(wheres)}{_named(source, ' '.join(wheres))}"
    sentence += down.replace(": ", "; ", 1) if any("wrong" not in of for of in failures) else down
    named = [of.split()[0] for of in source.guesses if PATTERNS["guess"].match(of)]
    sentence += f", with a guessed {_listed(named)}" if named else ""
    sentence += ", as a kernel that adds to C (beta = 1)" if front.reads_c == "adds" else ""
    sentence += source.edge
    notes = [of for of in source.notes if of.startswith(WHERE)]
    multiples = (of for of in source.steps if len(names_in(of)) > 1)
    stated = [*multiples, *(of for of in source.where if not FIXED.fullmatch(of))]
    stated += [of.removeprefix(WHERE).strip() for of in notes]
    wheres = [*dict.fromkeys(stated)] if source.judge else []
    judged_where = f"where {' and '.join(wheres)}" if wheres else ""
    judged_where = "" if "right where" in source.edge else judged_where  # it says more
    past = [match[1] for match in map(PAST.search, source.notes) if match]
    written = {name for name, operand in operands if operand.written}
    if failures and source.judge and written.issuperset(past):  # an input may be larger
        sentence += f", but {' and '.join(failures)}{': right ' * bool(judged_where)}{judged_where}"
    else:
        sentence += f", {judged_where}" * bool(judged_where)
    special = [row for row in outcome["trials"] if row["trial"] == trials.NAMES[SPECIAL]]
    if any(row["verdict"] == result.WRONG for row in special):
        sentence += f", but wrong with {trials.NAMES[SPECIAL]}: {special[0]['reason']}"
    notable = [fix for fix in outcome["fix"][:1] if fix["amount"] >= NOTABLE]
    unused = [of for of in source.notes if host_memory.APART in of or of.startswith(UNUSED)]
    unused += [hint for hint in outcome["hints"] if hint.endswith(running.UNUSED)]
    return "; ".join([sentence, *unused, *map(_advice, notable)])


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _sizes(front: FrontMatter) -> set[str]:
    """Return the sizes on which a launch depends."""
    operation = operations.load(front.operation)
    extents = (extent for of in operation.operands.values() for extent in of.extents)
    texts = (*front.grid, *front.block, front.shared_bytes, *leaves(front.arguments), *extents)
    return {of for text in texts for of in re.findall(r"[^\W\d]\w*", str(text))} & {
        *operation.dimensions
    }


def _advice(fix: Row) -> str:
    ratio: str | None = TABLES["ratios"].get(fix["rule"])
    if ratio is None:
        return str(fix["sentence"])
    at = f" (line {fix['line']} of {fix['file']})" if fix["line"] else ""
    return ratio.format(1 + fix["amount"]) + at
