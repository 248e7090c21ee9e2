"""``tilewave check FILE|FOLDER``: say whether kernels are right, what to fix first, and how far to trust it.

The judge chooses shapes and inputs. A file without front matter is wrapped first, in a temporary folder.
Exit code 0: right; 1: not right; 2: a mistake on the command line or in a file; 3: it could not tell.
"""

import contextlib
import functools
import io
import json
import math
import re
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, NoKernel, UserError
from tilewave.basics.paths import relative
from tilewave.basics.tables import table_beside
from tilewave.commands import SCHEMA_VERSION, execute, flags, wrap
from tilewave.commands import outcome as outcomes
from tilewave.commands.wrapping import compiled, finding, matching, probing, trying, writing
from tilewave.commands.wrapping.deriving import PAST, UNSIZED
from tilewave.commands.wrapping.host_reference import Reference, judge_by, references
from tilewave.commands.wrapping.reading import Function, Source, spelled
from tilewave.execution import case as running
from tilewave.execution import least, trust
from tilewave.execution.case import CaseExecution
from tilewave.kernel import operations, result, trial
from tilewave.kernel.discovery import gathered, reasons
from tilewave.kernel.front_matter import GUESSED, INFERRED, Kernel, load_kernel
from tilewave.kernel.inputs import SPECIAL
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs, kernels_study, reference_kernel, single, tables, trials
from tilewave.pipeline.cases import Case
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import Shape
from tilewave.report import advice
from tilewave.report.cells import plural
from tilewave.theory import architectures

Row = Mapping[str, Any]
LIMIT_S = 60.0
"""Seconds for a trial; `execute.BUDGET_S` are for those of a kernel after the first."""
NOTABLE = 0.1
"""The least amount of an advice that the sentence has."""
WRAPPING = 4
"""Budgets of the trials after `wrap`'s first one."""
TABLES = table_beside(__file__)
PATTERNS = {name: re.compile(text) for name, text in TABLES["patterns"].items()}
UNKNOWN: str = TABLES["unknown"]
LINES = 5
"""Number of costly lines, and of lines that were not reached, that the text shows."""
WORST = (result.NOT_RIGHT, result.USAGE, result.UNCLEAR, result.RIGHT)
"""Exit codes, the one that decides first."""
EVEN = "even sizes"
"""The trial whose counts are shown, if the kernel takes its sizes."""
WHOLE, LEAST = "whole tiles", "one block"
"""Trials after an invalid access that may come from a guess; a fault in shared memory there has no size as its cause."""
ALLOCATED = "; the host allocates no more"
"""End of a note on an access behind an array."""
EMPTY = " of shared memory, which has 0 bytes"
"""Part of the reason of a launch without dynamic shared memory, which no size causes."""
UNJUDGED = re.compile(rf"([\dx]+): {result.NOT_CHECKED}$")
GUESSING = "front matter cannot be guessed"
UNBUILT = result.FAILED_TO_COMPILE
JUDGED = (*result.VERDICTS, *result.ENDS, result.NOT_MEASURED, UNBUILT)
"""Outcomes of trials that say something about a kernel, whose arguments are known then."""
ENDED = (*result.FINDINGS, *result.ENDS)
LATER, MOST_LATER = (result.RACE, result.UNINITIALISED), 2
"""Verdicts on a further launch of a kernel that are the launch's fault, and the most such launches."""
JUDGED_BY = "; judged by what "
"""Start of the end of a reason, which names a temporary file."""
GROSS = 0.05
"""The least relative error of a whole output that is no matter of rounding."""
COMPUTES = "That the kernel computes "
GUESSES = ("--operation", "--entry", "--block", "--grid", "--shared", "--dtype", "--arguments")
"""The flags of `wrap` that replace a guess."""


def add(commands: Any) -> None:
    summary = "say whether kernels are right, what to fix first, and how far to trust it"
    parser = commands.add_parser("check", help=summary, description=__doc__)
    parser.add_argument("path", type=Path, metavar="FILE", help="a kernel file, or a folder")
    parser.add_argument("--kernel", help="a kernel of a file without front matter (default: all)")
    group = parser.add_argument_group("a file without front matter, see `wrap`")
    for flag, metavar, text in wrap.TEXTS:
        if flag in GUESSES:
            group.add_argument(flag, metavar=metavar, help=text)
    execute.add_variant(parser)
    execute.add_budget(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Check, print the outcome and return the exit code. Raises UserError."""
    outcome = check(options, options.machine)
    print(json.dumps(outcome, indent=1) if options.json else text(outcome))
    return int(outcome["exit_code"])


def check(options: Namespace, machine: Any = None) -> dict[str, Any]:
    """Check a file, or each kernel of a folder, and return one JSON document. Raises UserError."""
    options.operations = [str(Path(name).expanduser()) for name in flags.use_operations(options)]
    kernel_reference.execute = reference_kernel.outputs
    machine = machine or execute.engine_of(options)
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        kernels, skipped = [], dict[str, str]()
        try:
            for source in _sources(options, Path(folder), skipped):
                try:
                    kernels.append(_checked(source, options, machine))
                except UserError as error:
                    if not options.path.is_dir():
                        raise
                    skipped[source.name] = str(error)
        finally:  # the folder's operations end with it
            operations.MODULES.use(map(Path, options.operations))
    if not kernels and not skipped:
        problem = f"{options.path} has no kernel"
        raise UserError.because(HERE, problem, "Give a folder with kernel files")
    codes = [*(entry["exit_code"] for entry in kernels), *([result.USAGE] if skipped else [])]
    sentences = [entry["sentence"] for entry in kernels]
    alike = len(kernels) == 1 or (len({*sentences}) == 1 and codes[0] == result.USAGE)
    return {
        "schema_version": SCHEMA_VERSION,
        "exit_code": min(codes, key=WORST.index),
        "sentence": sentences[0] if alike else _counted(kernels, skipped),
        "kernels": kernels,
        "skipped": skipped,
    }


def _counted(kernels: Sequence[Row], skipped: Mapping[str, str]) -> str:
    """Return the number of kernels by outcome in one sentence."""
    texts = {result.RIGHT: "right", result.NOT_RIGHT: "not right", result.UNCLEAR: "not decided"}
    codes = [entry["exit_code"] for entry in kernels]
    parts = [f"{codes.count(code)} {name}" for code, name in texts.items() if code in codes]
    parts += [f"{len(skipped)} skipped"] if skipped else []
    return f"of {plural(len(kernels) + len(skipped), 'kernel')}: {', '.join(parts)}"


@dataclass(frozen=True)
class _Source:
    """A kernel to check. path: the user's file; notes: lines of `wrap` where it wrote the front matter;
    problem: why it could not; launched: whether the user's files launch it; judge: the file's own function that
    computes the same; sizes: more shapes at which it judges; judges: those that may; put: makes one of them the judge;
    named: whether the judge has the kernel's name and arguments; edge: where it finds the results wrong;
    sizes_in_file: the file's names of sizes that have another one in front matter."""

    path: Path
    name: str
    kernel: Kernel | None
    notes: Sequence[str] = ()
    problem: str = ""
    launched: bool = True
    judge: str = ""
    named: bool = False
    sizes_in_file: Mapping[str, str] = field(default_factory=dict)
    edge: str = ""
    sizes: Sequence[str] = ()
    judges: Sequence[Reference] = ()
    put: Callable[[Reference | None], str] = lambda judge: ""

    @property
    def limits(self) -> tuple[list[str], list[str]]:
        """The requirements on sizes that `wrap` wrote: of the code, and those inferred from trials."""
        texts: tuple[list[str], list[str]] = ([], [])
        if self.kernel is not None and self.kernel.path != self.path:
            names = re.findall(r"\w+", self.kernel.marked(INFERRED).get("requires", ""))
            for name, of in self.kernel.front.requires.items():
                sizes = [f"{name} % {of} == 0"] if name != "arch" else []
                texts_of = map(str, of) if name == "conditions" else sizes
                summed = r"each block sums \1 elements"
                texts[name in names].extend(PATTERNS["each"].sub(summed, text) for text in texts_of)
        return texts

    @property
    def faults(self) -> list[str]:
        """What is not right with the kernel as the file launches it."""
        return [note for note in self.notes if note.startswith(wrap.FAULT)]

    @property
    def guesses(self) -> list[str]:
        marked = self.kernel.marked(GUESSED) if self.kernel else {}
        notes = [note for note in self.notes if " is a guess" in note]
        named = {"operation"} if any(note.startswith(COMPUTES) for note in notes) else set()
        named |= {note.split(maxsplit=1)[0] for note in notes}
        return [*notes, *(f"{key} is a guess of wrap" for key in marked if key not in named)]


def _sources(options: Namespace, folder: Path, skipped: dict[str, str]) -> Iterator[_Source]:
    """Yield the kernels of a file or folder. ``skipped`` gets files with mistakes. Raises UserError."""
    path: Path = options.path
    if not path.exists():
        raise UserError.because(HERE, f"{path} does not exist", "Give a kernel file or a folder")
    plain = [path]
    if path.is_dir():
        left_out: dict[str, UserError] = {}
        for kernel in gathered([path], left_out).values():
            if kernel.provider == "nvrtc":
                yield _Source(kernel.path, kernel.name, kernel)
        mistakes, no_kernels = reasons(left_out)
        skipped.update(mistakes)
        names = [Path(left_out[name].where_file) for name in no_kernels]
        plain = [name for name in names if name.suffix == ".cu"]
    elif path.suffix not in (compiled.SUFFIX, *TABLES["headers"]):
        with contextlib.suppress(NoKernel):
            kernel = execute.kernel_of(path)
            yield _Source(path, kernel.name, kernel)
            return
    for file in plain:
        yield from _wrapped(file, options, folder)


def _wrapped(path: Path, options: Namespace, folder: Path) -> Iterator[_Source]:
    """Yield each kernel of a file without front matter, as `wrap` writes it into a temporary folder."""
    names, functions = [options.kernel], dict[str | None, Function]()
    if path.suffix != compiled.SUFFIX:
        source, _ = finding.read(path.resolve(), macros=options.macro)
        every = source.functions()
        functions = {item.name: item for item in every if item.file == source.path}
        if not (functions or options.path.is_dir()) or options.kernel not in (None, *functions):
            functions = {**{item.name: item for item in every}, **functions}
        if not functions and "__global__" in source.texts[source.path]:
            problem = "its kernels cannot be read: a bracket is not closed"
            raise UserError.because(path, problem, "Compile it first")
        names = names if options.kernel else [*functions]
    parsed = flags.options_of(wrap.add, ["wrap", "--", str(path)], options.machine)
    kept = (*(flag[2:] for flag in GUESSES), "include", "operations", "macro")
    plain = {**vars(parsed), **{name: getattr(options, name, None) for name in kept}}
    plain["arch"] = execute.arch_of(options)
    for at, name in enumerate(names):
        operations.MODULES.use(map(Path, options.operations))  # without another kernel's
        home = folder / f"{path.stem}-{at}"
        (home / "touched").mkdir(parents=True)
        stem, suffix = matching.snake(name or path.stem), path.suffix
        # The name of trials: what they have compiled serves the kernels of the whole file.
        output = f"{writing.TRIAL}{'.yaml' if suffix == compiled.SUFFIX else '.cu'}"
        plain |= {"kernel": name, "output": str(home / output)}
        function = functions.get(name)
        named = function is None or matching.named_operation(function, source) is not None
        budget = {"budget": options.budget * (WRAPPING if named else 1)}
        wrapped = _Source(path, name or path.stem, None)
        wrapped, settled, first = _attempt(wrapped, plain | budget)
        verdict = first
        if function and not (plain["operation"] or settled):
            # An operation of what the kernel touches judges no values, but races are found under it.
            folders = [str(home), *options.operations]
            derived: dict[str, Any] = {"operations": folders, "roomy": True}
            derived |= {"new_operation": f"{stem}_touched", "budget": options.budget}
            derived["output"] = str(home / "touched" / output)
            # A name that misleads: all results are wrong as what it says.
            guess = wrapped.kernel.front.operation if wrapped.kernel else ""
            misled = first.startswith(result.WRONG) and guess in TABLES["misleading"]
            missing = PATTERNS["derived"].match(wrapped.problem)
            named = named and not (misled or missing)
            problem = wrapped.problem if named else ""
            touched, _, verdict = _attempt(replace(wrapped, problem=problem), plain | derived)
            late = not verdict or verdict.startswith((result.NOT_MEASURED, result.FAILED_TO_LAUNCH))
            late = late or probing.TOO_LARGE in problem
            undecided = not (late or first.startswith(JUDGED if named else UNBUILT))
            decided = undecided or verdict.startswith(result.FINDINGS)
            unlike = first.startswith(result.WRONG) and verdict.startswith(result.NOT_CHECKED)
            if touched.kernel and (decided or unlike):
                *_, size = PATTERNS["shape"].findall("\n".join(touched.notes))
                kernel = _at(touched.kernel, size)
                given = options.grid and (options.block or function.bound)
                near = finding.bearing(source, function.name)
                launched = bool(near.launches(function.name) or given)
                problem = problem or UNKNOWN
                other = replace(touched, kernel=kernel, problem=problem, launched=launched)
                if problem == UNKNOWN and verdict.startswith(result.NOT_CHECKED):
                    other = _with_judges(other, function, near)
                # The file's own function judges better than a name.
                stated = any(judge.exact and judge.item for judge in other.judges)
                wrapped = other if decided or stated else wrapped
            elif not (touched.kernel or named):
                wrapped = touched
            elif not named:  # the sizes are those of an operation that is a guess
                wrapped = replace(wrapped, problem=PATTERNS["sides"].sub("", wrapped.problem))
        if function and wrapped.kernel and not verdict.startswith(ENDED):
            again = {"operations": [str(home), *options.operations], "budget": options.budget}
            again |= {"new_operation": f"{stem}_later", "force": True}
            faults = _later(function, source, plain | again)
            wrapped = replace(wrapped, notes=[*wrapped.notes, *faults])
        facts = [line for line in wrapped.notes if not PATTERNS["progress"].search(line)]
        yield replace(wrapped, notes=facts, sizes_in_file=_in_file(function, wrapped.kernel))


def _in_file(function: Function | None, kernel: Kernel | None) -> dict[str, str]:
    """Return the file's names of the sizes that have another one in front matter."""
    if function is None or kernel is None:
        return {}
    sizes = operations.load(kernel.front.operation).dimensions
    pairs = zip(leaves(kernel.front.arguments), (of.name for of in function.parameters))
    return {str(size): name for size, name in pairs if size in sizes and size != name.lower()}


def _later(function: Function, source: Source, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a kernel at its further launches, those that no size of an array may explain."""
    seen = set[tuple[str, ...]]()
    for at, launch in enumerate(finding.bearing(source, function.name).launches(function.name)):
        sides = (launch.grid, launch.block, launch.shared, *launch.template)
        key = tuple(spelled(launch.scope.literal(side)) for side in sides)
        if 0 < len(seen) <= MOST_LATER and key not in seen and not launch.scope.is_off:
            tried, _, end = _attempt(
                _Source(source.path, function.name, None), {**options, "later": at}
            )
            sure = end.startswith(LATER) or (
                end.startswith(ENDED) and PATTERNS["in_shared"].search(end)
            )
            if sure and not tried.guesses:
                yield f"{wrap.FAULT}as launched in {launch.place}: {PATTERNS['unjudged'].sub('', end)}"
        seen.add(key)


def _with_judges(source: _Source, function: Function, near: Source) -> _Source:
    """Let functions of the host judge a kernel of an unknown operation, those that may compute the same."""
    empty = any("the host fills: zero here" in note for note in source.notes)
    if empty or source.faults or source.kernel is None:
        return source
    judges = references(function, near, source.kernel)
    put = functools.partial(judge_by, kernel=source.kernel, function=function, source=near)
    sizes = [match[1] for match in map(UNJUDGED.match, source.notes) if match and judges]
    return replace(source, judges=judges, put=put, sizes=sizes[1:])


def _attempt(source: _Source, options: Mapping[str, Any]) -> tuple[_Source, bool, str]:
    """Wrap a kernel. Return it, whether its verdict stands, and the verdict, empty if wrap refuses it."""
    notes = io.StringIO()
    try:
        with contextlib.redirect_stderr(notes):
            code, verdict = wrap.wrap_kernel(Namespace(**options))
    except UserError as error:
        if error.key in ("--kernel", "--dtype") and error.value:
            raise
        return replace(source, problem=source.problem or str(error)), False, ""
    lines = [line.strip() for line in notes.getvalue().splitlines()]
    kernel = replace(load_kernel(Path(options["output"])), called=matching.snake(source.name))
    settled = code == result.RIGHT or verdict.startswith(result.FINDINGS)
    settled = settled or "operation" not in kernel.marked(GUESSED)
    return replace(source, kernel=kernel, notes=lines), settled, verdict


def _at(kernel: Kernel, size: str) -> Kernel:
    """Return a kernel that takes one shape only, at which `wrap` saw what it touches."""
    names = operations.load(kernel.front.operation, kernel.path).dimensions
    fixed = [f"{name} == {side}" for name, side in zip(names, size.split("x"))]
    front = kernel.front.model_copy(update={"requires": {"conditions": fixed}})
    return replace(kernel, front=front)


@dataclass(frozen=True)
class _Tried:
    """A trial with its case and the entry of what was compiled."""

    case: Case
    entry: Row
    name: str
    outcome: Result
    done: CaseExecution | None

    @property
    def exit_code(self) -> int:
        if self.case.expects(self.outcome):
            return result.RIGHT
        judged = self.case.probe_case is None
        return result.exit_code(self.outcome.status, self.outcome.verdict, judged)


def _tried(
    source: _Source, kernel: Kernel, options: Namespace, folder: Path, machine: Any
) -> Iterator[_Tried]:
    """Compile and execute the trials of a kernel. Raises UserError."""
    wrapped = kernel.path != source.path
    arch, target = execute.arch_of(options), execute.target_of(options)
    if kernel.front.operation == "probe":
        cases = [execute.probe_case(kernel, name) for name in kernel.front.cases]
    else:  # the judge chooses the shapes
        cases = [Case(execute.variant_of(kernel, options.macro))]
        trial.try_out(cases[0].variant)
    for case in cases:
        entry = single.compiled(case.variant, arch, folder)
        for outcome in trials.judged(
            case, arch, target, entry,
            seed=options.seed, limit_s=LIMIT_S, budget_s=options.budget, machine=machine, finite=wrapped,
        ):  # fmt: skip
            sizes = outcome.trial.sizes
            shaped = replace(case, shape=Shape(tuple(sizes.items()))) if sizes else case
            name = outcome.trial.name if sizes else ""
            yield _Tried(resolve(shaped, target), entry, name, outcome.result, outcome.done)
        shapes = dict[str, Shape]()
        ended = wrapped and outcome.result.status == result.INVALID_ACCESS
        if (outcome.right or ended) and case.probe_case is None:
            size = str(kernels_study.small(kernel.front.operation, ())[-1])
            shape = flags.shape(size, case.variant.operation.dimensions, "shape")
            if ended:
                fits = trying.shape_of(dict(shape.resolve({})), {"requires": kernel.front.requires})
                shape = Shape(tuple(fits.items()))
            shapes[WHOLE if ended else EVEN] = shape
        unknown, sides = bool(source.problem), (kernel.front.shared_bytes, *kernel.front.block)
        stated = source.launched and not source.guesses and all(isinstance(of, int) for of in sides)
        if ended and PATTERNS["in_shared"].match(outcome.result.reason) and (stated or not unknown):
            if unknown:  # the shape at which it was touched limits nothing
                free = replace(kernel, front=kernel.front.model_copy(update={"requires": {}}))
                case, shapes = replace(case, variant=replace(case.variant, kernel=free)), {}
            least_sizes = trials.least(case.variant, {**target["device"], "arch": target["arch"]})
            if least_sizes != outcome.trial.sizes:
                shapes[LEAST] = Shape(tuple(least_sizes.items()))
        for name, shape in shapes.items():
            sized = resolve(replace(case, shape=shape), target)
            config = single.config(options.seed, min(LIMIT_S, options.budget))
            job = jobs.of_case(result.EXECUTE, sized, {arch: entry}, arch, config)
            if isinstance(job, Job):
                done = running.run(job, machine)
                if name == LEAST and unknown:  # other inputs must end at the same byte
                    again = running.run(replace(job, seed=job.seed + 1), machine).result.reason
                    if not PATTERNS["past"].search(again) or again != done.result.reason:
                        continue
                if done.result.status not in (result.TIMED_OUT, result.NOT_MEASURED):
                    yield _Tried(sized, entry, name, done.result, done)


def _checked(source: _Source, options: Namespace, machine: Any) -> dict[str, Any]:
    """Return the document of one kernel; a mistake in its file is the verdict. Raises UserError."""
    outcome: dict[str, Any] = {"kernel": source.name, "file": relative(source.path)}
    differing = dict[str, Any]()
    for judge in source.judges:
        named = judge.exact and judge.alike and source.launched and not source.guesses
        judged = replace(source, problem="", judge=source.put(judge), judges=(), named=named)
        document = _checked(judged, options, machine)
        if document["exit_code"] in (result.RIGHT, result.NOT_RIGHT):
            return document
        if judge.exact and document.get("verdict") == result.WRONG:
            differing = differing or document
    if source.judges:
        source.put(None)
        return differing or _checked(replace(source, judges=(), sizes=()), options, machine)
    if source.kernel is None:
        reason = f"{GUESSING}: {source.problem}"
        if missing := re.match(r"(--[a-z]+) is missing", source.problem):
            path = relative(source.path, quoted=True)
            command = f"tilewave check {path} --kernel {source.name} {missing[1]} ..."
            reason = reason.replace(missing[0], f"{missing[0]} ({command})", 1)
        sentence = f"could not tell whether {source.name} is right: {reason}"
        return outcome | {"exit_code": result.UNCLEAR, "sentence": sentence, "reason": reason}
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        try:
            kernels = [source.kernel, *(_at(source.kernel, size) for size in source.sizes)]
            runs = (_tried(source, kernel, options, Path(folder), machine) for kernel in kernels)
            tried = [entry for run in runs for entry in run]
        except UserError as error:  # of guessed front matter: its file is a temporary one
            if source.kernel.path == source.path:
                raise
            problem = str(error).removeprefix(f"{error.where_file}: ")
            return _checked(replace(source, kernel=None, problem=problem), options, machine)
        return outcome | _document(source, tried, options)


def _noted(ran: Sequence[_Tried], name: str) -> list[str]:
    """Return the notes of that name of all trials, each once."""
    return list(dict.fromkeys(text for entry in ran for text in entry.outcome.notes.get(name, [])))


def _document(source: _Source, tried: Sequence[_Tried], options: Namespace) -> dict[str, Any]:
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
    if edges and edges == off and not any("ceil" in str(side) for side in kernel.front.grid):
        deciding = [of for of in deciding if of not in edges]  # the launch takes whole blocks
        text = f", but not at {_size(edges[0].case)}: {edges[0].outcome.reason}"
        source = replace(source, edge=text.partition(JUDGED_BY)[0])
    codes = [(WORST.index(entry.exit_code), _rests(source, entry)) for entry in deciding]
    decisive = deciding[codes.index(min(codes))]
    code, unclear = decisive.exit_code, decisive.exit_code != result.RIGHT and min(codes)[1]
    if source.judge and decisive.outcome.verdict == result.NOT_CHECKED:
        source = replace(source, judge="", problem=UNKNOWN)
    differs = bool(source.judge) and decisive.outcome.verdict == result.WRONG
    unclear = unclear or (differs and not (source.named and _grossly(decisive.outcome)))
    unclear = unclear and not _as_named(source, deciding)
    if _promised(source, decisive):
        code, unclear = result.NOT_RIGHT, False
    code = result.NOT_RIGHT if code == result.RIGHT and source.faults else code
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
    rows = [entry.done.rows() for entry in complete if entry.done is not None]
    outcome["trust"] = trust.of_instructions(rows, architectures.number(arch)) | {
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
    return outcome | {"sentence": _sentence(source, outcome, decisive, deciding)}


def _size(case: Case) -> str:
    return "" if case.shape is None else trying.named(case.shape.resolve({}))


def _grossly(end: Result) -> bool:
    """Return whether a result is wrong by more than other roundings or a fast function explain."""
    figures = {of["metric"]: of["value"] for of in end.notes["check"]["figures"]}
    return not figures.get("relative_error", math.nan) < GROSS


def _rests(source: _Source, tried: _Tried) -> bool:
    """Return whether a fault may come from a guess of `wrap`, or from what the compiler was not told."""
    end, kernel = tried.outcome, tried.case.kernel
    marked = dict(kernel.marked(GUESSED))
    sure = end.verdict in result.FINDINGS
    empty = EMPTY in end.reason
    if tried.name in (WHOLE, LEAST) or empty:
        typed = any(note.startswith("type ") for note in source.guesses)
        sure = sure or ((tried.name == LEAST or empty) and not typed)
        sure = sure and PATTERNS["in_shared"].match(end.reason) is not None
        partly = any(note.startswith("grid of the launch") for note in source.notes)
        for key in ("operation", *["grid"] * partly) if sure else ():
            marked.pop(key, None)
    rests, unbuilt = outcomes.rests_on(marked, end.status, end.verdict), end.status == UNBUILT
    if unbuilt and source.problem:
        rests += _undefined(source.path, end.reason)
    if not sure:
        types = "type " if unbuilt else ""
        rests += [guess for guess in source.guesses if guess.startswith(types)]
        rests += PATTERNS["unread"].findall(end.reason) if kernel.path != source.path else []
    if kernel.path != source.path and end.verdict == result.RACE and _scatters(kernel, end):
        rests.append("operation")
    return bool(rests or not (unbuilt or (source.launched and (sure or not source.problem))))


def _promised(source: _Source, decisive: _Tried) -> bool:
    """Return whether a kernel of an unknown operation fails where its own bounds test promises that it does not, or gets
    other memory from the host than it needs."""
    unjudged = decisive.outcome.verdict in (None, result.NOT_CHECKED)
    unknown = source.problem == UNKNOWN and unjudged
    sure = unknown and source.launched and not decisive.case.kernel.marked(GUESSED)
    sure = sure and not any(note.startswith(UNSIZED) for note in source.notes)
    sure = sure and any(map(PATTERNS["promised"].match, source.faults))
    return sure or any(map(PATTERNS["of_host"].search, source.faults))


def _as_named(source: _Source, deciding: Sequence[_Tried]) -> bool:
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


def _undefined(path: Path, reason: str) -> list[str]:
    """Return the macros of other files around the line of a compiler's message."""
    text, at = path.read_text("utf-8", "replace"), re.search(r":(\d+): ", reason)
    if at is None or not reason.startswith(path.name):
        return [reason]
    near = "\n".join(text.splitlines()[max(int(at[1]) - 2, 0) : int(at[1]) + 1])
    names = PATTERNS["macro"].findall(near)
    return [name for name in names if not re.search(rf"define\s+{name}\b", text)]


def _scatters(kernel: Kernel, end: Result) -> bool:
    """Return whether each race is between stores, at places that may depend on an array that wrap filled."""
    file = operations.MODULES.file(kernel.front.operation)
    filled = file is not None and "def inputs(" in file.read_text("utf-8")
    messages = [fault["message"] for fault in end.notes["faults"]]
    return filled and all(re.search(" writes? .* has written", text) for text in messages)


def _other_variants(kernel: Kernel, case: Case) -> list[str]:
    """Return a line about the macros' other values, if there are any."""
    others = [
        f"{name} {', '.join(str(value) for value in values if value != case.variant.names[name])}"
        for name, values in kernel.front.macros.items()
        if len(values) > 1 and case.probe_case is None
    ]
    return [f"other variants: {'; '.join(others)} (--macro NAME=VALUE)"] if others else []


def _counts(source: _Source, tried: _Tried, options: Namespace) -> dict[str, Any]:
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


def _sentence(source: _Source, outcome: Row, decisive: _Tried, ran: Sequence[_Tried]) -> str:
    code, end, case = outcome["exit_code"], decisive.outcome, decisive.case
    written = case.probe_case is None and case.kernel.path == source.path
    name = outcome["variant"] if written else source.name
    doubt, operation = f"could not tell whether {name} is right", case.kernel.front.operation
    unjudged = f"; the operation {operation} has no reference"
    problem = str(end.verdict if end.status == result.OK else end.status)
    if problem == UNBUILT and (code == result.USAGE or source.problem):
        subject = relative(source.path) if code == result.USAGE else f"{doubt}:"
        return f"{subject} {problem}: {end.reason}"
    if code == result.NOT_RIGHT and source.faults:
        sure = PATTERNS["in_shared"].match(end.reason) and not _rests(source, decisive)
        ends = [f"{problem} at {_size(case)}: {end.reason}"] if sure else []
        faults = "; ".join([*source.faults, *ends])
        faults = faults.replace(f"{running.HERE}: ", "").replace(unjudged, "")
        return f"{name} is {PATTERNS['twice'].sub('', faults)}{_named(source)}"
    if code == result.RIGHT:
        return name + _right(source, outcome, case, ran)
    reason = end.reason.removeprefix(f"{running.HERE}: ").replace(unjudged, "")
    reason = reason.partition(JUDGED_BY)[0] if source.judge else reason
    reason = reason if reason.startswith(problem) else ": ".join(filter(None, (problem, reason)))
    kind = f" with {decisive.name}" if decisive.name in trials.NAMES.values() else ""
    sizes = f" {_size(case)}" if case.shape else ""
    hints = [hint for hint in outcome["hints"] if hint.startswith(running.UNALIGNED.split("{")[0])]
    at = "; ".join([f"at{sizes}{kind}: {reason}", *hints])
    differs = f"it differs from {source.judge} " if source.judge and problem == result.WRONG else ""
    if code == result.NOT_RIGHT:
        by_name = "operation" in case.kernel.marked(GUESSED) and problem == result.WRONG
        as_named = f": {differs}" if differs else f" as {operation} " if by_name else " "
        return f"{name} is not right{as_named}{at}{_named(source) if sizes else ''}"
    if source.problem:
        return f"{doubt}: {_unknown(source, outcome, at, problem)}"
    if differs:
        return f"{doubt}: {differs}{at}"
    rests = f" (its front matter is guessed: {'; '.join(source.guesses)})"
    return f"{doubt}{rests if source.guesses else ''}: {at}"


def _named(source: _Source) -> str:
    """Return the file's names of sizes that have other ones in a sentence, in parentheses."""
    names = source.sizes_in_file
    are = "is" if len(names) == 1 else "are"
    return f" ({', '.join(names)} {are} the file's {', '.join(names.values())})" * bool(names)


def _unknown(source: _Source, outcome: Row, at: str, problem: str) -> str:
    """Return why a kernel of an unknown operation is not decided, and what its trials showed."""
    why = f"{GUESSING}: {source.problem}" if source.problem != UNKNOWN else UNKNOWN
    notes = (
        note for note in source.notes if note.startswith((wrap.FAULT, UNSIZED, probing.NOTHING))
    )
    faults = [note.removeprefix(wrap.FAULT) for note in notes]
    if problem != result.NOT_CHECKED:
        chosen = "" if source.launched else f"with {TABLES['chosen']} it ended "
        return "; ".join([why, chosen + at, *faults])
    # An array whose size nobody states may be larger than it seems.
    sure = [note for note in source.notes if ALLOCATED in note or not PAST.search(note)]
    matches = list(filter(None, map(PATTERNS["failure"].search, sure)))
    ends = [match[1] + match[2] * bool(PATTERNS["in_shared"].search(match[2])) for match in matches]
    faults += [end.replace(f": {running.HERE}", "") for end in ends]
    threads = math.prod((*outcome["counted"]["grid"], *outcome["counted"]["block"]))
    sole = any(note.startswith(probing.CONSTANT) for note in source.notes)
    only = ", the only size tried: that of the launch" if sole else ""
    shown = f"{TABLES['searched']} {at.partition(': ')[0]} with {plural(threads, 'thread')}{only}"
    shown = "; but ".join(filter(None, [shown, "; ".join(faults)]))
    return f"{why}; {shown}. {TABLES['advice'].format(relative(source.path, quoted=True), source.name)}"


def _right(source: _Source, outcome: Row, case: Case, ran: Sequence[_Tried]) -> str:
    """Return the rest of the sentence on a kernel that is right: where, and what to fix first."""
    front, shapes = case.kernel.front, len({entry.case.id for entry in ran})
    if case.probe_case is not None:
        return f" ran as its front matter says in {plural(shapes, 'case')}"
    equal = f": equal to {source.judge}" if source.judge else ""
    operands = operations.load(front.operation).operands.items() if source.judge else ()
    zeroed = [name for name, operand in operands if operand.zeroed]
    equal += f" where {' and '.join(zeroed)} begins with zeros" if zeroed else ""
    inputs = f"{plural(shapes, 'shape')} with {plural(len(ran), 'input')}"
    sentence = f" is right{equal} at {inputs}"
    if late := [row for row in outcome["trials"] if row["status"] == result.NOT_MEASURED]:
        sentence += f" ({plural(len(late), 'trial')} did not fit into the time)"
    failures = [match[1] for match in map(PATTERNS["failure"].search, source.notes) if match]
    failed = f" ({', '.join(failures)})" if failures else ""
    texts = zip(source.limits, ("", f", which wrap inferred from trials that failed{failed}"))
    wheres = [f"where {' and '.join(limits)}{why}" for limits, why in texts if limits]
    sentence += f", {' and '.join(wheres)}{_named(source)}" if wheres and not source.judge else ""
    named = [of.split()[0] for of in source.guesses if of.startswith(("grid ", "block "))]
    sentence += f", with a guessed {' and '.join(named)}" if named else ""
    sentence += ", as a kernel that adds to C (beta = 1)" if front.reads_c == "adds" else ""
    sentence += source.edge
    special = [row for row in outcome["trials"] if row["trial"] == trials.NAMES[SPECIAL]]
    if any(row["verdict"] == result.WRONG for row in special):
        sentence += f", but wrong with {trials.NAMES[SPECIAL]}: {special[0]['reason']}"
    notable = [fix for fix in outcome["fix"][:1] if fix["amount"] >= NOTABLE]
    return "; ".join([sentence, *map(_advice, notable)])


def _advice(fix: Row) -> str:
    ratio: str | None = TABLES["ratios"].get(fix["rule"])
    if ratio is None:
        return str(fix["sentence"])
    at = f" (line {fix['line']} of {fix['file']})" if fix["line"] else ""
    return ratio.format(1 + fix["amount"]) + at


def text(outcome: Row) -> str:
    lines = [str(outcome["sentence"])]
    if len(outcome["kernels"]) != 1 or outcome["skipped"]:
        sentences = [entry["sentence"] for entry in outcome["kernels"]]
        lines += [f"  {sentence}" for sentence in sentences if sentence not in lines]
        lines += [f"  skipped: {why}" for why in outcome["skipped"].values()]
        return "\n".join(lines)
    entry = outcome["kernels"][0]
    if "trust" not in entry or entry["exit_code"] == result.USAGE:
        return "\n".join(lines)
    lines += [f"  wrapped: {note}" for note in entry["wrapped"]]
    lines += [f"  hint: {hint}" for hint in entry["hints"]]
    for row in entry["trials"]:
        outcome_text = row["verdict"] if row["status"] == result.OK else row["status"]
        lines.append(f"  {row['case']}{', ' * bool(row['trial'])}{row['trial']}: {outcome_text}")
    if entry["exit_code"] == result.RIGHT and entry["bound"]:
        lines.append(f"  {least.sentence(entry['bound'])}")
    if entry["exit_code"] == result.RIGHT and entry["fix"]:
        lines += ["", "Fix first", *(f"  {fix['sentence']}" for fix in entry["fix"])]
    if "counted" in entry:
        costly = sorted(entry["counted"]["lines"], key=lambda row: -row["executed"])[:LINES]
        lines += ["", f"Costliest lines at {entry['counted']['case']}"]
        lines += outcomes.source_table(sorted(costly, key=lambda row: row["line"]))
    return "\n".join([*lines, "", "How far to trust this", *_trust(entry["trust"])])


def _trust(entry: Row) -> list[str]:
    """Return the lines about what was executed how, and what was not looked for."""
    compared = "" if entry["compared"] else ", by rules that were compared on sm_90 only"
    lines = [f"executed exactly{compared}: {' '.join(entry['exact'])}"] if entry["exact"] else []
    approximate = [(" ".join(row["opcodes"]), row["reason"]) for row in entry["approximate"]]
    lines += [f"executed approximately: {names} ({reason})" for names, reason in approximate]
    places = [f"{row['file']}:{row['line']}" for row in entry["not_reached"]]
    more = f" and {len(places) - LINES} more" if len(places) > LINES else ""
    if places:
        lines.append(f"not executed by any trial: {', '.join(places[:LINES])}{more}")
    for name in ("not_run", "guessed", "not_searched", "not_looked_for"):
        lines += [f"{name.replace('_', ' ')}: {row}" for row in entry[name]]
    return [f"  {line}" for line in lines]
