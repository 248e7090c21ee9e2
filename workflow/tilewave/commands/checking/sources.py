"""The kernels of a file or a folder, as `check` judges them: with front matter, or wrapped first."""

import contextlib
import functools
import io
import itertools
import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, NoKernel, UserError
from tilewave.commands import execute, flags, wrap
from tilewave.commands.checking.notes import PATTERNS, TABLES, UNKNOWN
from tilewave.commands.wrapping import (
    blocks,
    compiled,
    deriving,
    finding,
    matching,
    probing,
    recognising,
    writing,
)
from tilewave.commands.wrapping.guessing import TAKES, constant, governing
from tilewave.commands.wrapping.host_reference import Reference, judge_by, references
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.commands.wrapping.recognising import Sample
from tilewave.commands.wrapping.scopes import spelled
from tilewave.kernel import operations, result
from tilewave.kernel.discovery import gathered, reasons
from tilewave.kernel.front_matter import GUESSED, INFERRED, Kernel, load_kernel
from tilewave.kernel.launches import leaves

WRAPPING = 4
"""Budgets of the trials after `wrap`'s first one."""
UNBUILT = result.FAILED_TO_COMPILE
JUDGED = (*result.VERDICTS, *result.ENDS, result.NOT_MEASURED, UNBUILT)
"""Outcomes of trials that say something about a kernel, whose arguments are known then."""
ENDED = (*result.FINDINGS, *result.ENDS)
LATER, MOST_LATER = (result.RACE, result.UNINITIALISED), 2
"""Verdicts on a further launch of a kernel that are the launch's fault, and the most such launches."""
ZERO_HERE = "the host fills: zero here"
COMPUTES = "That the kernel computes "
GUESSES = ("--operation", "--entry", "--block", "--grid", "--shared", "--dtype", "--arguments")
"""The flags of `wrap` that replace a guess."""


ABSENT, LEFT_OUT = "absent", "not found, and left out: "
"""The folder of empty headers that stand in for missing ones, and the note on these."""
FIXED = re.compile(r"\w+ == \d+")
"""A condition that fixes a size."""


@dataclass(frozen=True)
class CheckedKernel:
    """A kernel to check. path: the user's file; notes: lines of `wrap` where it wrote the front matter;
    problem: why it could not; launched: whether the user's files launch it; judge: the name of what judges its results;
    named: whether the judge has the kernel's name and arguments; edge: where the judge finds the results wrong;
    sizes: more shapes at which it judges; judges: functions of the file that may judge; put: makes one of them the judge;
    search: yields formulas that may judge; governs: `guessing.governing`; otherwise: returns the kernel under an operation of what it touches;
    in_file: the file's names of sizes and arrays that have another one in front matter; ended, size: verdict and sizes of the
    trials of `wrap`; where: requirements on sizes that the kernel has not (`at_size`); signature: types and names of its
    parameters, if a file launches it; launches: flags of other launches that it may have,
    if none does; any_block: whether no number in its code is the size of its block; switches: what is 0 in other trials, one at a time."""

    path: Path
    name: str
    kernel: Kernel | None
    notes: Sequence[str] = ()
    problem: str = ""
    launched: bool = True
    judge: str = ""
    named: bool = False
    in_file: Mapping[str, str] = field(default_factory=dict)
    edge: str = ""
    sizes: Sequence[str] = ()
    judges: Sequence[Reference] = ()
    put: Callable[[Reference | None], str] = lambda judge: ""
    search: Callable[[Sequence[Sample]], Iterator[Reference]] | None = None
    otherwise: "Callable[[], CheckedKernel] | None" = None
    governs: Callable[[str], set[str]] = lambda line: set()
    ended: str = ""
    size: str = ""
    where: Sequence[str] = ()
    signature: str = ""
    launches: Sequence[Mapping[str, str]] = ()
    any_block: bool = False
    switches: Sequence[str] = ()

    @property
    def limits(self) -> tuple[list[str], list[str]]:
        """The requirements on sizes that `wrap` wrote: of the code, and those inferred from trials."""
        texts: tuple[list[str], list[str]] = ([], [])
        if self.kernel is not None and self.kernel.path != self.path:
            names = re.findall(r"\w+", self.kernel.marked(INFERRED).get("requires", ""))
            for name, of in self.kernel.front.requires.items():
                sizes = [f"{name} % {of} == 0"] if name != "arch" else []
                texts_of = [*map(str, of)] if name == "conditions" else sizes
                # A product with a vector has one column, or row, of which the kernel knows nothing.
                alone = {"m", "n"} - {*leaves(self.kernel.front.arguments)}
                texts_of = [of for of in texts_of if of not in {f"{size} == 1" for size in alone}]
                texts[name in names].extend(texts_of)
        return texts

    @property
    def faults(self) -> list[str]:
        """What is not right with the kernel as the file launches it."""
        return [note for note in self.notes if note.startswith(wrap.FAULT)]

    @property
    def steps(self) -> list[str]:
        """The multiples of sizes that the code takes: ``n % 4 == 0``."""
        return [of.removesuffix(TAKES).strip() for of in self.notes if of.endswith(TAKES)]

    @property
    def smaller(self) -> list[str]:
        """Constants that are smaller in the trials than in the file: ``N = 130``."""
        return [match[1] for match in map(PATTERNS["instead"].match, self.notes) if match]

    @property
    def guesses(self) -> list[str]:
        marked = self.kernel.marked(GUESSED) if self.kernel else {}
        notes = [note for note in self.notes if " is a guess" in note]
        named = {"operation"} if any(note.startswith(COMPUTES) for note in notes) else set()
        named |= {note.split(maxsplit=1)[0] for note in notes}
        return [*notes, *(f"{key} is a guess of wrap" for key in marked if key not in named)]


def checked_kernels(
    options: Namespace, folder: Path, skipped: dict[str, str]
) -> Iterator[CheckedKernel]:
    """Yield the kernels of a file or folder. ``skipped`` gets files with mistakes. Raises UserError."""
    path: Path = options.path
    if not path.exists():
        raise UserError.because(HERE, f"{path} does not exist", "Give a kernel file or a folder")
    plain = [path]
    if path.is_dir():
        left_out: dict[str, UserError] = {}
        for kernel in gathered([path], left_out).values():
            if kernel.provider == "nvrtc":
                yield CheckedKernel(kernel.path, kernel.name, kernel)
        mistakes, no_kernels = reasons(left_out)
        skipped.update(mistakes)
        names = [Path(left_out[name].where_file) for name in no_kernels]
        plain = [name for name in names if name.suffix == ".cu"]
    elif path.suffix not in (compiled.SUFFIX, *TABLES["headers"]):
        with contextlib.suppress(NoKernel):
            kernel = execute.kernel_of(path)
            yield CheckedKernel(path, kernel.name, kernel)
            return
    for file in plain:
        yield from _wrapped(file, options, folder)


def _wrapped(path: Path, options: Namespace, folder: Path) -> Iterator[CheckedKernel]:
    """Yield each kernel of a file without front matter, as `wrap` writes it into a temporary folder."""
    names, functions, absent = [options.kernel], dict[str | None, Function](), list[str]()
    read = functools.cache(finding.read)
    if path.suffix != compiled.SUFFIX:
        source, _ = read(path.resolve(), (*map(Path, options.include),), (*options.macro,))
        absent = [name for name in sorted(source.missing) if ".." not in Path(name).parts]
        every = source.functions()
        functions = {item.label: item for item in every if item.file == source.path}
        here = {of for item in functions.values() for of in (None, item.name, item.label)}
        if not (functions or options.path.is_dir()) or options.kernel not in {None, *here}:
            functions = {**{item.label: item for item in every}, **functions}
        readable = any(file == source.path for file, _ in source.near.declarations())
        if not (functions or readable) and "__global__" in source.texts[source.path]:
            problem = "its kernels cannot be read: a bracket is not closed"
            raise UserError.because(path, problem, "Compile it first")
        if not functions and path == options.path:
            for file in _of_program(source):
                yield from _wrapped(file, options, folder)
        wanted = [of for of, it in functions.items() if options.kernel in (None, of, it.name)]
        names = wanted if wanted or not options.kernel else names
    parsed = flags.options_of(wrap.add, ["wrap", "--", str(path)], options.machine)
    kept = (*(flag[2:] for flag in GUESSES), "include", "operations", "macro", "off")
    plain = {**vars(parsed), **{name: getattr(options, name, None) for name in kept}}
    plain |= {"arch": execute.arch_of(options), "read": read}
    for name in absent:
        header = folder / ABSENT / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("#pragma once\n")
        plain["include"] = [*options.include, str(folder / ABSENT)]
    left_out = [f"{LEFT_OUT}{', '.join(absent)}"] * bool(absent)
    for at, name in enumerate(names):
        operations.MODULES.use(map(Path, options.operations))  # without another kernel's
        home = folder / f"{path.stem}-{at}"
        (home / "touched").mkdir(parents=True)
        stem, suffix = matching.snake((name or path.stem).partition("(")[0]), path.suffix
        # The name of trials: what they have compiled serves the kernels of the whole file.
        output = f"{writing.TRIAL}{'.yaml' if suffix == compiled.SUFFIX else '.cu'}"
        plain |= {"kernel": name, "output": str(home / output)}
        function = functions.get(name) and replace(functions[name], off=options.off)
        named = function is None or matching.named_operation(function, source) is not None
        budget = {"budget": options.budget * (WRAPPING if named else 1)}
        wrapped = CheckedKernel(path, name or path.stem, None)
        wrapped, settled = _attempt(wrapped, plain | budget)
        verdict = first = wrapped.ended
        derived = plain | {"operations": [str(home), *options.operations], "roomy": True}
        derived |= {"new_operation": f"{stem}_touched", "budget": options.budget}
        derived["output"] = str(home / "touched" / output)
        if function and not (plain["operation"] or settled):
            # A name that misleads: all results are wrong as what it says.
            guess = wrapped.kernel.front.operation if wrapped.kernel else ""
            failed = first.startswith((result.WRONG, result.INVALID_ACCESS))
            misled = failed and guess in TABLES["misleading"]
            missing = PATTERNS["derived"].match(wrapped.problem)
            named = named and not (misled or missing)
            problem = wrapped.problem if named else ""
            touched = _touched(replace(wrapped, problem=problem), function, source, derived)
            verdict = touched.ended
            late = not verdict or verdict.startswith((result.NOT_MEASURED, result.FAILED_TO_LAUNCH))
            late = late or probing.TOO_LARGE in problem
            undecided = not (late or first.startswith(JUDGED if named else UNBUILT))
            decided = undecided or verdict.startswith(result.FINDINGS)
            # The file's own function judges better than a name.
            stated = any(judge.exact and judge.item for judge in touched.judges)
            unlike = first.startswith(result.WRONG) and verdict.startswith(result.NOT_CHECKED)
            if (touched.kernel and (decided or (unlike and stated))) or not (
                touched.kernel or named
            ):
                wrapped = touched
            elif not (named or unlike):  # the sizes are those of an operation that is a guess
                wrapped = replace(wrapped, problem=PATTERNS["sides"].sub("", wrapped.problem))
            if touched.kernel and wrapped is not touched:
                wrapped = replace(wrapped, otherwise=functools.partial(replace, touched))
        elif function and not plain["operation"]:
            bare = CheckedKernel(path, wrapped.name, None)
            other = functools.partial(_touched, bare, function, source, derived)
            wrapped = replace(wrapped, otherwise=other)
        if function and wrapped.kernel and not verdict.startswith(ENDED):
            again = {"operations": [str(home), *options.operations], "budget": options.budget}
            again |= {"new_operation": f"{stem}_later", "force": True}
            faults = _later(function, source, plain | again)
            wrapped = replace(wrapped, notes=[*wrapped.notes, *faults])
        if function:
            wrapped = replace(wrapped, governs=functools.partial(governing, function, source))
            parameters = ", ".join(f"{of.type} {of.name}" for of in function.parameters)
            launched = (near := finding.bearing(source, function.name)).launches(function.name)
            switches = [] if options.off else deriving.switches(function, near)
            wrapped = replace(wrapped, signature=parameters * bool(launched), switches=switches)
            if not (launched or options.block or options.grid):
                likely = [*blocks.likely(function, source)]
                free = function.mentions("blockDim") or not blocks.SHARED.search(function.text)
                wrapped = replace(wrapped, launches=likely, any_block=free)
        notes, in_file = [*wrapped.notes, *left_out], _in_file(function, wrapped.kernel)
        yield replace(wrapped, notes=notes, in_file=in_file)


def _of_program(source: Source) -> list[Path]:
    """Return the files with the kernels of a program whose file has none: each is the only one with a function that it calls."""
    texts = {file: text for file, text in source.texts.items() if "__global__" in text}
    around = replace(source, texts=texts, kernel_files=())
    declared = (of for file, of in source.near.declarations() if file == source.path)
    called, files = {of for item in declared for of in item.identifiers}, dict[str, set[Path]]()
    for file, item in around.declarations():
        if item.name in called - {"main"} and item.kind == "function" and item.defined:
            files.setdefault(item.name, set()).add(file)
    sole = (file for of in files.values() for file in of if len(of) == 1 and file.suffix == ".cu")
    return list({file.stem: file for file in sole}.values())


def _touched(
    source: CheckedKernel, function: Function, file: Source, options: Mapping[str, Any]
) -> CheckedKernel:
    """Return a kernel under an operation of what it touches, which judges no values but finds races."""
    touched, _ = _attempt(source, options)
    if touched.kernel is None:
        return touched
    near = finding.bearing(file, function.name)
    given = options["grid"] and (options["block"] or function.bound)
    launched = bool(near.launches(function.name) or given)
    kernel, problem = at_size(touched.kernel, touched.size), source.problem or UNKNOWN
    constants = kernel.front.compiler.constants
    near = near.with_smaller({of: constants[of] for of in constants if constant(near, of)})
    where = [*itertools.chain(*touched.limits)]
    touched = replace(touched, kernel=kernel, problem=problem, launched=launched, where=where)
    if touched.ended.startswith(result.NOT_CHECKED):
        touched = _with_judges(touched, function, near)
    return touched


def _in_file(function: Function | None, kernel: Kernel | None) -> dict[str, str]:
    """Return the file's names of the sizes and arrays that have another one in front matter."""
    if function is None or kernel is None:
        return {}
    operation = operations.load(kernel.front.operation)
    named = {*operation.dimensions, *operation.operands}
    pairs = zip(leaves(kernel.front.arguments), (of.name for of in function.parameters))
    return {str(of): name for of, name in pairs if of in named and of.lower() != name.lower()}


def _later(function: Function, source: Source, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a kernel at its further launches, those that no size of an array may explain."""
    seen = set[tuple[str, ...]]()
    for at, launch in enumerate(finding.bearing(source, function.name).launches(function.name)):
        sides = (launch.grid, launch.block, launch.shared, *launch.template)
        key = tuple(spelled(launch.scope.literal(side)) for side in sides)
        if 0 < len(seen) <= MOST_LATER and key not in seen and not launch.scope.is_off:
            bare = CheckedKernel(source.path, function.name, None)
            tried, _ = _attempt(bare, {**options, "later": at})
            end = tried.ended
            sure = end.startswith(LATER) or (
                end.startswith(ENDED) and PATTERNS["in_shared"].search(end)
            )
            if sure and not tried.guesses:
                yield f"{wrap.FAULT}as launched in {launch.place}: {PATTERNS['unjudged'].sub('', end)}"
        seen.add(key)


def _with_judges(source: CheckedKernel, function: Function, near: Source) -> CheckedKernel:
    """Let functions of the host judge a kernel of an unknown operation, those that may compute the same."""
    empty = any(
        of in note
        for note in source.notes
        for of in (ZERO_HERE, probing.NOTHING, probing.ELSEWHERE)
    )
    if empty or source.kernel is None:
        return source
    judges = references(function, near, source.kernel)
    facts: Any = {"function": function, "source": near, "kernel": source.kernel}
    put = functools.partial(judge_by, **facts)
    sizes = [match[1] for match in map(PATTERNS["unchecked"].match, source.notes) if match]
    search = functools.partial(recognising.recognised, **facts)
    return replace(source, judges=judges, put=put, search=search, sizes=sizes[1:])


def _attempt(source: CheckedKernel, options: Mapping[str, Any]) -> tuple[CheckedKernel, bool]:
    """Wrap a kernel. Return it with its verdict, empty if wrap refuses it, and whether that stands."""
    notes = io.StringIO()
    try:
        with contextlib.redirect_stderr(notes):
            code, verdict = wrap.wrap_kernel(Namespace(**options))
    except UserError as error:
        if error.key in ("--kernel", "--dtype") and error.value:
            raise
        operations.MODULES.use(map(Path, options["operations"]))  # without those of its trials
        return replace(source, problem=source.problem or str(error), ended=""), False
    lines = [line.strip() for line in notes.getvalue().splitlines()]
    facts = [line for line in lines if not PATTERNS["progress"].search(line)]
    *_, size = ["", *PATTERNS["shape"].findall(notes.getvalue())]
    bare, _, _ = source.name.partition("(")
    kernel = replace(load_kernel(Path(options["output"])), called=matching.snake(bare))
    settled = code == result.RIGHT or verdict.startswith(result.FINDINGS)
    settled = settled or "operation" not in kernel.marked(GUESSED)
    return replace(source, kernel=kernel, notes=facts, ended=verdict, size=size), settled


def at_size(kernel: Kernel, size: str) -> Kernel:
    """Return a kernel that takes one shape only, at which `wrap` saw what it touches."""
    names = operations.load(kernel.front.operation, kernel.path).dimensions
    fixed = [f"{name} == {side}" for name, side in zip(names, size.split("x"))]
    front = kernel.front.model_copy(update={"requires": {"conditions": fixed}})
    return replace(kernel, front=front)
