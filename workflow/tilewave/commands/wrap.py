"""``tilewave wrap FILE.cu``: write front matter for a kernel that was written for nvcc.

The front matter is guessed from the code and the launch, and the guess is tested on the CPU.
"""

import argparse
import functools
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave import execution
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import relative
from tilewave.basics.progress import patience, say
from tilewave.commands import answers, execute, flags
from tilewave.commands.wrapping import compiled, deriving, matching, trying, writing
from tilewave.commands.wrapping.deriving import DerivedOperation
from tilewave.commands.wrapping.guessing import (
    NEW_OPERATION,
    Guess,
    constant,
    guessed,
    set_common_grid,
)
from tilewave.commands.wrapping.reading import Function, Source, read
from tilewave.execution import case
from tilewave.kernel import operations, result
from tilewave.kernel.front_matter import INFERRED, NAME
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Operand, Operation
from tilewave.kernel.padding import POISON
from tilewave.theory.dtypes import SIZES

ALL = "all"
FLAGS = ("operation", "entry", "block", "grid", "shared", "arguments", "shape")
"""Flags that hold for a single kernel."""
TEXTS = (
    ("--kernel", "NAME", "the __global__ function to wrap; `all` wraps each of the file"),
    ("--operation", "NAME", "what the kernel computes (default: what its name says, else matmul)"),
    ("--new-operation", "NAME",
     "write an operation of this name from the kernel, into the folder of --operations"),
    ("--reference", "KERNEL",
     "check the result against this kernel of the file, or FILE.cu:KERNEL"),
    ("--entry", "NAME<...>", "the instantiation of a template: gemm<128, 8>"),
    ("--block", "X[,Y[,Z]]", "threads in a block"),
    ("--grid", "X[,Y[,Z]]", "blocks in the grid: 'ceil(n / 16), ceil(m / 16)'"),
    ("--shared", "BYTES", "dynamic shared memory of a block"),
    ("--dtype", None, "type of the arrays, if the code does not name it: f32, f16, ..."),
    ("--arguments", "LIST", "arguments in the kernel's order: a, b, c, m, n, k, alpha, beta"),
    ("--shape", None, "execute at these sizes only, 64x64x32 (default: sizes that fit the tile)"),
    ("-o --output", "FILE", "write a new file that includes FILE; - prints the front matter"),
)  # fmt: skip
"""Flags that take a text: flag, metavar and help."""
WIDE, SHORT = 512, 64
"""Sizes of the trial that shows one block's tile: larger than a tile, and the terms of a sum."""
FEW_BLOCKS = 3
"""Blocks of the trial that shows how many elements a block sums."""
NEWER = re.compile(r"\bwgmma\.|setmaxnreg|tcgen05")


@dataclass(frozen=True)
class Target:
    """A kernel to wrap. folders: of headers, besides the kernel's; asking: whether a user at the terminal
    answers questions; ready: the kernel's facts from a cubin."""

    options: argparse.Namespace
    function: Function
    source: Source
    folders: Sequence[Path]
    asking: bool
    ready: compiled.CompiledKernel | None

    def write(self, front: Mapping[str, Any], path: Path, shape: Mapping[str, int]) -> None:
        """Write a kernel file for a trial at a shape, which its expressions are checked with."""
        marks = {**front.get("marks", {}), "requires": f"{INFERRED}: {', '.join(shape)}"}
        front = {**front, "requires": shape, "marks": marks}
        text = writing.text(front, self.source, self.folders, path)
        path.write_text(text, encoding="utf-8")


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    summary = "write front matter for a kernel that was written for nvcc"
    wrap = commands.add_parser("wrap", help=summary, description=__doc__)
    wrap.add_argument("source", type=Path, metavar="FILE", help="a .cu or .cuh file, or a cubin")
    for flag, metavar, text in TEXTS:
        wrap.add_argument(*flag.split(), metavar=metavar, help=text)
    wrap.add_argument(
        "--include", action="append", default=[], type=Path, metavar="FOLDER",
        help="a folder of headers (repeatable)",
    )  # fmt: skip
    wrap.add_argument("--arch", default="sm_90", help="architecture (default: %(default)s)")
    wrap.add_argument("--yes", action="store_true", help="ask nothing: take every guess")
    wrap.add_argument("--force", action="store_true", help="overwrite the output file")
    flags.add_operations(wrap)
    wrap.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Wrap a kernel, or each of a file. Returns 0 if all are correct or not checked, else 1."""
    return _all(options) if options.kernel == ALL else _wrap_kernel(options)[0]


def _all(options: argparse.Namespace) -> int:
    """Wrap each kernel of the file except the reference, and print the verdicts. Raises UserError."""
    cubin = options.source.suffix == compiled.SUFFIX
    if cubin or options.output or (options.new_operation and not options.reference):
        problem = "--kernel all takes a .cu file, no -o, and --new-operation only with --reference"
        raise UserError.because(HERE, problem, "Wrap the kernels one by one with --kernel NAME")
    source, _ = read(options.source.resolve(), options.include)
    judge = (options.reference or "").rpartition(":")[2]
    exit_status, lines = result.RIGHT, []
    for function in source.functions():
        if function.file == source.path and function.name != judge:
            try:
                changes = {**vars(options), "kernel": function.name}
                status, verdict = _wrap_kernel(argparse.Namespace(**changes))
            except UserError as error:
                status, verdict = result.USAGE, str(error)
            exit_status = max(exit_status, status)
            lines.append(f"{function.name}: {verdict}")
    for line in lines:
        say(line)
    return exit_status


def _wrap_kernel(options: argparse.Namespace) -> tuple[int, str]:
    """Wrap a kernel, and return the exit code and the verdict with its shape. Raises UserError."""
    if options.reference or options.new_operation:
        _prepare_operation(options)
    folders_of_operations = flags.use_operations(options)
    if not options.source.is_file():
        raise UserError.because(HERE, f"{options.source} is not a file", "Give a .cu file")
    folders: Sequence[Path] = ()
    kernels_of_cubin: dict[str, compiled.CompiledKernel] = {}
    if options.source.suffix == compiled.SUFFIX:
        source, kernels_of_cubin = compiled.read(options.source.resolve())
    else:
        source, folders = read(options.source.resolve(), options.include)
    if options.output is None and not kernels_of_cubin:
        text = source.texts[source.path]
        source.texts[source.path] = writing.without_front_matter(text) if options.force else text
        if source.texts[source.path].lstrip().startswith(writing.OPENING):
            remedy = "Name a new file with -o"
            if not options.force and writing.without_front_matter(text) != text:
                remedy += ", or write it anew with --force"
            raise UserError.because(options.source, "it has front matter", remedy)
    asking = sys.stdin.isatty() and not options.yes
    functions = [kernel.function for kernel in kernels_of_cubin.values()] or source.functions()
    function = _function(options, functions, source.path, asking)
    output = _output(options, source, function)
    ready = kernels_of_cubin.get(function.name)
    if ready is not None:
        options.arch, options.dtype = f"sm_{ready.arch}", options.dtype or ready.dtype
    target = Target(options, function, source, folders, asking, ready)
    return _wrapped(target, output, folders_of_operations)


def _wrapped(
    target: Target, output: Path | None, folders_of_operations: Sequence[str]
) -> tuple[int, str]:
    options = target.options
    derived: DerivedOperation | None = None
    maps = [item.name for item in target.function.parameters if "CUtensorMap" in item.type]
    if maps:
        problem = f"{target.function.name} takes tensor maps ({', '.join(maps)})"
        remedy = "Write its front matter by hand: docs/front_matter.md, `tensor_maps`"
        raise UserError.because(HERE, f"{problem}, which wrap does not guess", remedy)
    with tempfile.TemporaryDirectory(prefix="tilewave-") as trials:
        if options.new_operation and not options.reference:
            derived, guess = _new(target, Path(trials))
        else:
            guess = _guess(target, _judged_by(options) if options.reference else _operation(target))
        fixed_shape = _fixed_shape(options, guess.operation)
        _with_tile(target, guess)
        say(f"{target.function.name}: executing it on the CPU to check the guesses")
        front, outcome, shape = _tried(target, guess, fixed_shape)
        if not (trying.right(outcome) or options.operation or options.shape):
            by_block = _sums_of_blocks(target, guess, Path(trials))
            retried = _tried(target, by_block, by_block.shape) if by_block else None
            if by_block and retried and trying.right(retried[1]):
                guess, (front, outcome, shape) = by_block, retried
    for note in guess.notes:
        say(f"  {note}")
    if outcome.get("warning"):
        say(f"  {outcome['warning']}")
    text = writing.file_text(front, target.source, target.folders, output)
    verdict = trying.described(outcome, shape)
    say(f"  {verdict}")
    if not trying.right(outcome) and not options.shape and not _sized(front, guess.operation):
        say("  The kernel takes no size. If it was written for a fixed one, give it with --shape.")
    guessed_operation = "operation" in front.get("marks", {})
    if (
        guessed_operation
        and outcome["verdict"] == result.WRONG
        and operations.MODULES.file(guess.operation.name) is None
    ):
        doubt = f"That the kernel computes {guess.operation.name} is a guess"
        say(f"  {doubt}. Name another --operation, or write one with {NEW_OPERATION}.")
    sums = (name for name, operand in guess.operation.operands.items() if operand.extents == ())
    if any(f") of {name}, which has" in outcome["reason"] for name in sums):
        say("  If each block gives a sum, see docs/operations.md, Sums of blocks.")
    operations_flag = ""
    if derived is not None:
        operation_file = Path(folders_of_operations[0]).expanduser() / f"{derived.name}.py"
        operation_file.write_text(derived.text(), encoding="utf-8")
        operations.written(derived.name, map(Path, folders_of_operations))
        say(f"Written: {relative(operation_file)}. The kernel touched {_arrays(derived)}")
    file = operations.MODULES.file(guess.operation.name)
    if file is not None:
        operations_flag = f" --operations {relative(file.parent)}"
        if outcome["verdict"] == result.WRONG and not guess.operation.kernel:
            note = "Mark an output of atomics as `zeroed`, and allow for the rounding of sums"
            say(f"  {relative(file)} defines what is correct. {note} (docs/operations.md).")
    if output is None:
        flags.show(text)
    else:
        output.write_text(text, encoding="utf-8")
        say(f"Written: {os.path.relpath(output)}. Read it, then run")
        say(
            f"  tilewave execute {os.path.relpath(output)} --shape {trying.size(shape)}{operations_flag}"
        )
    return result.RIGHT if trying.right(outcome) else result.NOT_RIGHT, verdict


def _guess(target: Target, operation: Operation, roles: matching.Roles = None) -> Guess:
    """Guess front matter from the code and the command line. Raises UserError."""
    options, source = target.options, target.source
    entry = options.entry or ""
    guess = guessed(target.function, source, operation, options.dtype or "", roles, entry)
    if target.ready is not None:
        _with_facts(guess, target.ready)
    if entry:
        guess.unknown.pop("--entry", None)
    if not (options.operation or options.new_operation):
        guess.mark("operation")
    answers.answer(options, guess, target.asking)
    if NEWER.search("".join(source.texts[path] for path in source.kernel_files)):
        guess.front["architecture_specific"] = True
    return guess


def _with_facts(guess: Guess, ready: compiled.CompiledKernel) -> None:
    """Put the facts of a cubin into the guess."""
    guess.front |= ready.front
    guess.front["arguments"] += [None] * ready.scratch
    guess.front["requires"] = {**guess.front.get("requires", {}), "arch": ready.arch}
    if "block" in ready.front:
        guess.unknown.pop("--block", None)
        if "--grid" in guess.unknown:
            set_common_grid(guess)
    if ready.dynamic:
        guess.unknown["--shared"] = "bytes of dynamic shared memory"
    guess.notes.append(f"the arrays are {ready.dtype}, by its instructions (--dtype changes it)")


FOLDER = "my_operations"
"""The default folder of a new operation."""


def _prepare_operation(options: argparse.Namespace) -> None:
    """Make the folder of a new operation, and set its name. Raises UserError."""
    options.operations = options.operations or operations.MODULES.folders() or [FOLDER]
    folder = Path(options.operations[0]).expanduser()
    name = options.new_operation or matching.snake(options.reference.rpartition(":")[2])
    if not NAME.fullmatch(name):
        allowed = "a name of a-z, 0-9 and _ that begins with a letter"
        raise UserError(HERE, "--new-operation", name, allowed)
    if (folder / f"{name}.py").is_file() and not options.reference and not options.force:
        remedy = "Choose a name that no operation has, or overwrite it with --force"
        raise UserError.because(HERE, f"the operation {name} exists already", remedy)
    folder.mkdir(parents=True, exist_ok=True)
    options.new_operation = name


def _judged_by(options: argparse.Namespace) -> Operation:
    """Return the operation whose reference is the kernel of --reference; write both if missing."""
    name, folder = options.new_operation, Path(options.operations[0]).expanduser()
    if (folder / f"{name}.py").is_file():
        return operations.load(name, HERE)
    file_name, _, kernel = options.reference.rpartition(":")
    source_file = Path(file_name) if file_name else options.source
    home = Path(options.output).parent if options.output not in (None, "-") else source_file.parent
    suffix = ".yaml" if source_file.suffix == compiled.SUFFIX else ".cu"
    written = home / f"{matching.snake(kernel)}{suffix}"
    changes = {**vars(options), **dict.fromkeys(FLAGS), "source": source_file, "kernel": kernel}
    if options.arguments and _parameters(source_file, kernel) == _parameters(
        options.source, options.kernel
    ):
        changes["arguments"] = options.arguments
    _wrap_kernel(argparse.Namespace(**{**changes, "reference": None, "output": str(written)}))
    path = folder / f"{name}.py"
    there = os.path.relpath(written.resolve(), folder.resolve())
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("reference = None", f'reference = "{there}"'), encoding="utf-8")
    say(f"{relative(path)}: {os.path.relpath(written)} is the reference")
    return operations.written(name, map(Path, options.operations))


def _parameters(path: Path, kernel: str) -> list[str]:
    """Return the names of a kernel's parameters; none of an unknown kernel's."""
    functions = read(path.resolve())[0].functions() if path.suffix != compiled.SUFFIX else []
    parameters = [function.parameters for function in functions if function.name == kernel]
    return [parameter.name for parameter in parameters[0]] if parameters else []


def _new(target: Target, home: Path) -> tuple[DerivedOperation, Guess]:
    """Derive an operation from what the kernel touches, and guess the kernel's front matter."""
    options, function, source = target.options, target.function, target.source
    derived = deriving.first(
        function, options.new_operation, source.path.name, options.arguments, options.grid
    )
    if not derived.sizes:
        remedy = "Name a size in --arguments or --grid"
        raise UserError.because(HERE, f"no parameter of {function.name} is a size", remedy)
    if not any(deriving.trials(derived.dimensions)):
        problem = f"{function.name} has {len(derived.sizes)} sizes, too many to derive an operation"
        raise UserError.because(HERE, problem, "Give --arguments with fewer names of sizes")
    roles = {**derived.sizes, **{name: name for name in derived.operands}}
    guess = _guess(target, derived.operation(), roles)
    dtypes = guess.front["dtypes"]
    derived = deriving.with_indices(derived, dtypes)
    numbers = itertools.count()

    def kept(candidate: DerivedOperation) -> Path:
        folder = home / str(next(numbers))
        folder.mkdir()
        (folder / f"{candidate.name}.py").write_text(candidate.text(), encoding="utf-8")
        operations.written(candidate.name, [folder])
        return folder

    def touch(candidate: DerivedOperation, shape: dict[str, int]) -> case.UnjudgedRun:
        folder, path = kept(deriving.with_room(candidate, shape)), writing.trial_path(source, home)
        while True:
            target.write(guess.front, path, shape)
            trial = _trial(options, path, folder, shape, candidate.indices)
            front = trying.repaired(guess.front, trial.problem, guess) if trial.fatal else None
            if front is None:
                return trial
            guess.front = front

    say(f"{function.name}: executing it on the CPU to see what it touches")
    grids = [guess.front["grid"]]
    if "--grid" in guess.unknown and not options.grid:
        grids += [front["grid"] for front in guess.alternatives]
    best = -2
    for grid in grids:
        if best == len(derived.operands):
            break
        guess.front["grid"] = grid
        candidate, shape, exact = deriving.settled(derived, dtypes, touch)
        if exact > best:
            best, best_candidate = exact, (candidate, shape, grid)
    derived, shape, grid = best_candidate
    guess.front["grid"] = grid
    if guess.front.get("marks") and _independent(guess, functools.partial(touch, derived, shape)):
        guess.front["marks"] = {}
        guess.notes.append("its result is the same with blocks of half the threads")
    kept(derived)
    guess.operation = operations.load(derived.name)
    guess.unknown, guess.alternatives, guess.shape = {}, [], shape
    return derived, guess


def _independent(guess: Guess, touch: Callable[[], case.UnjudgedRun]) -> bool:
    """Return whether a kernel gives the same with blocks of half the threads, so that a guess may judge."""
    front = guess.front
    trials = [touch()]
    block = (
        [max(int(front["block"][0]) // 2, 1), *front["block"][1:]]
        if str(front["block"][0]).isdigit()
        else front["block"]
    )
    for grid in (front["grid"], [f"2 * ({front['grid'][0]})", *front["grid"][1:]]):
        guess.front = {**front, "block": block, "grid": grid}
        trials.append(touch())
    guess.front = front
    first, *others = (trial.buffers if not trial.fatal else None for trial in trials)
    return any(
        first
        and other
        and all(
            np.array_equal(memory.view(np.uint8), other[name].view(np.uint8))
            for name, memory in first.items()
        )
        for other in others
    )


def _trial(
    options: argparse.Namespace,
    path: Path,
    folder: Path,
    shape: Mapping[str, int],
    indices: Sequence[str] = (),
) -> case.UnjudgedRun:
    """Execute a kernel file once, and return its buffers; ``indices`` begin with the largest index."""
    arguments = [str(path), "--shape", trying.size(shape), "--arch", options.arch]
    try:
        _, job, _ = execute.planned(execute.options_of(arguments), folder)
    except UserError as error:  # a grid that has no value at these sizes
        return case.UnjudgedRun({}, str(error), True)
    if not isinstance(job, Job):
        return case.UnjudgedRun({}, job.reason, True)
    inputs = operations.load(job.operation).inputs(job)
    for name in indices:
        inputs[name][:1] = min(shape.values()) - 1
    machine = options.machine or execution.engine(processes=2)
    return case.run_unjudged(job, inputs, machine, footprint=True)


def _with_tile(target: Target, guess: Guess) -> None:
    """Guess the grid of an unlaunched product from the tile that one block writes."""
    operands = guess.operation.operands
    (written, *more_outputs) = [name for name, operand in operands.items() if operand.written]
    extents = operands[written].extents
    has_grid = "--grid" not in guess.unknown or target.options.grid
    if has_grid or more_outputs or guess.operation.tiles == ():
        return
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        path = writing.trial_path(target.source, Path(folder))
        shape = dict.fromkeys(guess.operation.dimensions, WIDE)
        shape |= dict.fromkeys(guess.operation.tiles[2:], SHORT)
        shape = trying.shape_of(shape, guess.front)
        target.write({**guess.front, "grid": [1]}, path, shape)
        trial = _trial(target.options, path, Path(folder), shape)
    if trial.fatal or len(extents) != 2:
        return
    memory = trial.buffers[written]
    wrote = memory.view(np.uint8).reshape(*Operand(extents).sizes(shape), -1) != POISON
    sides = [int(wrote.any(axis=2).any(axis=1 - at).sum()) for at in range(2)]
    if 0 in sides or sides == [WIDE, WIDE]:
        return
    rows, columns = (f"ceil({size} / {side})" for size, side in zip(extents, sides))
    grids = [[columns, rows], [rows, columns], [f"{rows} * {columns}"]]
    guess.front["grid"] = grids[0]
    guess.alternatives[:0] = [{**guess.front, "grid": grid} for grid in grids[1:]]
    guess.tile |= dict(zip(map(str, extents), sides))
    guess.notes[:] = [note for note in guess.notes if not note.startswith("grid is a guess")]
    guess.notes.append(f"a block writes {sides[0]} x {sides[1]} of {written}: hence the grid")


def _sums_of_blocks(target: Target, guess: Guess, home: Path) -> Guess | None:
    """Guess that a reduction leaves a sum for each block; None where it touches no rows of equal length."""
    options = target.options
    if guess.operation.name != "reduction" or options.grid or options.arguments:
        return None
    meanings = {"x": "x", "total": "sums", "n": "blocks * each"}
    arguments = zip(target.function.parameters, guess.front["arguments"])
    roles = {item.name: meanings.get(str(argument), "") for item, argument in arguments}
    by_block = _guess(target, operations.load("block_sums"), roles)
    by_block.front |= {"grid": ["blocks"], "block": guess.front["block"]}
    by_block.front["marks"] = {"requires": f"{INFERRED}: conditions"}
    by_block.notes[:] = [note for note in by_block.notes if not note.startswith("grid")]
    by_block.alternatives, shape = [], {"blocks": FEW_BLOCKS, "each": WIDE * SHORT}
    path = writing.trial_path(target.source, home)
    target.write(by_block.front, path, shape)
    trial = _trial(options, path, home, shape)
    end = max(trial.touched.get("x", (0, 0))) // SIZES[by_block.front["dtypes"]["x"]]
    if trial.fatal or not end or end % FEW_BLOCKS:
        return None
    by_block.shape = {**shape, "each": end // FEW_BLOCKS}
    by_block.front["requires"] = {"conditions": [f"each == {end // FEW_BLOCKS}"]}
    by_block.notes.append("each block leaves a sum: the operation is block_sums, a block a row")
    return by_block


def _arrays(derived: DerivedOperation) -> str:
    """Return the arrays of an operation as text: ``x (rows, columns); y (rows) written``."""
    return "; ".join(
        f"{name} ({', '.join(map(str, operand.extents))})" + (" written" if operand.written else "")
        for name, operand in derived.operands.items()
    )


def _sized(front: Mapping[str, Any], operation: Operation) -> bool:
    """Return whether the kernel takes a size."""
    arguments = " ".join(map(str, front["arguments"]))
    return any(re.search(rf"\b{size}\b", arguments) for size in operation.dimensions)


def _constant_shape(target: Target, guess: Guess) -> trying.Shape | None:
    """Return the sizes of a kernel that takes none, from the constants of its code; None without them."""
    operation, sides, source = guess.operation, trying.Shape(), target.source
    if _sized(guess.front, operation):
        return None
    near = replace(source, texts={path: source.texts[path] for path in source.kernel_files})
    for name in sorted(target.function.declaration.identifiers):
        dimension, side = matching.dimension(name, operation), constant(near, name)
        if side and dimension in operation.dimensions:
            sides.setdefault(dimension, side)
    for dimension in operation.dimensions if sides else ():
        sides[dimension] = sides.get(dimension) or constant(near, dimension.upper()) or 0
    sides = {name: side for name, side in sides.items() if side}
    if len(sides) == 1 and operation.laid_out:
        sides = dict.fromkeys(operation.dimensions, *sides.values())
    if not sides and len(operation.dimensions) == 1:
        sides = _touched(target, guess)
    if len(sides) < len(operation.dimensions):
        return None
    shape = {name: sides[name] for name in operation.dimensions}
    guess.front["requires"] = {"conditions": [f"{name} == {side}" for name, side in shape.items()]}
    guess.notes.append(f"its sizes are constants of the code: {trying.size(shape)}")
    return shape


def _touched(target: Target, guess: Guess) -> trying.Shape:
    """Return the size of an operation with one, from what a grid of numbers reads; empty if unknown."""
    (name,) = guess.operation.dimensions
    if any(not str(side).isdigit() for side in guess.front["grid"]):
        return {}
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        path = writing.trial_path(target.source, Path(folder))
        shape = {name: deriving.MOST}
        target.write(guess.front, path, shape)
        trial = _trial(target.options, path, Path(folder), shape)
    dtypes = guess.front["dtypes"]
    ends = [max(ends) // SIZES[dtypes[operand]] for operand, ends in trial.touched.items()]
    return {} if trial.fatal or not any(ends) else {name: max(ends)}


def _function(
    options: argparse.Namespace, functions: Sequence[Function], path: Path, asking: bool
) -> Function:
    by_name = {function.name: function for function in functions[::-1]}
    if not by_name:
        raise UserError.because(options.source, "no __global__ function", "Give another file")
    names_in_file = [function.name for function in functions if function.file == path]
    names = names_in_file if names_in_file and options.kernel is None else list(by_name)
    name = options.kernel or (names[0] if len(names) == 1 else None)
    if name is None and asking:
        name = answers.ask(f"kernel ({', '.join(names)})", names[0])
    if name is None:
        remedy = f"Choose one with --kernel NAME, or --kernel all: {', '.join(sorted(names))}"
        raise UserError.because(options.source, f"it has {len(names)} kernels", remedy)
    if name not in names:
        raise UserError(HERE, "--kernel", name, names)
    return by_name[name]


def _operation(target: Target) -> Operation:
    name: str | None = target.options.operation
    if not name and (operation := matching.operation_of(target.function, target.source)):
        return operation
    names = [name for name in operations.names() if name != "probe"]
    if name is None and target.asking:
        name = answers.ask(f"operation ({', '.join(names)})", "copy")
    if name is None:
        problem = f"the name {target.function.name} does not say what the kernel computes"
        remedy = f"Choose --operation NAME ({', '.join(names)}), or write one with {NEW_OPERATION}"
        raise UserError.because(HERE, problem, remedy)
    if name not in names:
        raise UserError(HERE, "--operation", name, names)
    return operations.load(name)


def _output(options: argparse.Namespace, source: Source, function: Function) -> Path | None:
    """Return the file to write: the kernel's file if it can be a kernel file; None to print."""
    if options.output == "-":
        return None
    suffix = ".yaml" if source.path.suffix == compiled.SUFFIX else ".cu"
    if options.output is not None:
        path = Path(options.output).resolve()
        if path.suffix != suffix or not NAME.fullmatch(path.stem):
            allowed = f"NAME{suffix}, where NAME is of a-z, 0-9 and _ and begins with a letter"
            raise UserError(HERE, "-o", options.output, allowed)
        if suffix == ".yaml" and path.parent != source.path.parent:
            raise UserError(HERE, "-o", options.output, "a file in the cubin's folder")
    elif (
        source.path.suffix == ".cu"
        and NAME.fullmatch(source.path.stem)
        and [function.file for function in source.functions()].count(source.path) == 1
    ):
        return source.path
    else:
        stem = source.path.stem
        of_file = suffix == ".yaml" and NAME.fullmatch(stem)
        path = source.path.parent / f"{stem if of_file else matching.snake(function.name)}{suffix}"
    if path.exists() and not options.force:
        remedy = "Choose another file with -o, or overwrite it with --force"
        raise UserError.because(HERE, f"{relative(path)} exists already", remedy)
    return path


def _fixed_shape(options: argparse.Namespace, operation: Operation) -> trying.Shape | None:
    """Return the shape of --shape, if it is given. Raises UserError."""
    if not options.shape:
        return None
    sizes, names = [int(size) for size in re.findall(r"\d+", options.shape)], operation.dimensions
    if len(sizes) not in (1, len(names)):
        raise UserError(HERE, "--shape", options.shape, flags.sizes_of(names))
    return dict(zip(names, sizes * len(names) if len(sizes) == 1 else sizes))


def _tried(
    target: Target, guess: Guess, shape: trying.Shape | None
) -> tuple[dict[str, Any], Mapping[str, Any], trying.Shape]:
    """Execute the guess and its alternatives at a shape, or at several if None; return the best."""
    options, source = target.options, target.source
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        path = writing.trial_path(source, Path(folder))

        def once(front: dict[str, Any], shape: trying.Shape) -> Mapping[str, Any]:
            target.write(front, path, shape)
            arguments = [str(path), "--shape", trying.size(shape), "--arch", options.arch]
            try:
                with patience(f"  {trying.size(shape)}: executing"):
                    outcome = execute.execute(execute.options_of(arguments), options.machine)
            except UserError as error:
                if not error.where_file.startswith(str(path)):
                    raise
                problem = str(error).removeprefix(f"{error.where_file}: ")
                key = error.key.partition(".")[0]
                flag = next((flag for flag, name in answers.KEYS.items() if name == key), "a flag")
                remedy = f"{flag.capitalize()} of `tilewave wrap` changes it"
                raise UserError.because(relative(source.path), problem, remedy) from error
            say(f"  {trying.size(shape)}: {trying.verdict(outcome)}")
            return outcome

        def settled(shape: trying.Shape) -> tuple[dict[str, Any], Mapping[str, Any]]:
            front, outcome = trying.settle(guess, once, shape)
            if trying.right(outcome):  # then the operation is no guess
                front.get("marks", {}).pop("operation", None)
            return front, outcome

        shape = shape or _constant_shape(target, guess)
        if shape or trying.without_judge(guess):
            shape = shape or trying.first_shape(guess)
            return *settled(shape), shape
        shape = first_shape = trying.first_shape(guess)
        front, outcome = settled(shape)
        first_outcome = outcome
        decided = outcome["verdict"] in (result.CORRECT, *result.FINDINGS)
        shapes = [] if trying.right(outcome) else list(trying.fitting(guess, front, shape))
        if guess.operation.kernel and not decided:
            shapes += deriving.trials(guess.operation.dimensions)
        for trial_shape in shapes:
            notes = list(guess.notes)
            retried_front, retried = settled(trial_shape)
            judged = retried["status"] == result.OK and retried["verdict"] != result.NOT_CHECKED
            if judged and (outcome["verdict"] == result.NOT_CHECKED or trying.right(retried)):
                shape, front, outcome = trial_shape, retried_front, retried
            else:
                guess.notes[:] = notes
            if trying.right(outcome) and outcome["verdict"] == result.CORRECT:
                break
        if outcome is not first_outcome and trying.verdict(first_outcome) != result.NOT_CHECKED:
            guess.notes.append(trying.described(first_outcome, first_shape))
        shape = trying.shape_of(shape, front)
        if trying.right(outcome):
            requires, inferred = trying.limits(guess, front, once, shape), front.get("requires", {})
            names = [name for name in requires if requires[name] != inferred.get(name)]
            front = {**front, "requires": requires} if requires else front
            if names:
                if "requires" in front.get("marks", {}) and "conditions" not in names:
                    names.insert(0, "conditions")
                mark = f"{INFERRED}: {', '.join(names)}"
                front["marks"] = {**front.get("marks", {}), "requires": mark}
        return front, outcome, shape
