"""``tilewave wrap FILE.cu``: front matter for a kernel that was written for nvcc."""

import argparse
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewave import execution
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import relative
from tilewave.basics.progress import say
from tilewave.commands import answers, execute, flags
from tilewave.commands.wrapping import compiled, deriving, matching, trying, writing
from tilewave.commands.wrapping.deriving import DerivedOperation
from tilewave.commands.wrapping.guessing import NEW_OPERATION, Guess, guessed, set_common_grid
from tilewave.commands.wrapping.reading import Function, Source, read
from tilewave.execution import case
from tilewave.kernel import operations, result
from tilewave.kernel.front_matter import NAME
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Operand, Operation
from tilewave.kernel.padding import POISON

ALL = "all"
FLAGS = ("operation", "entry", "block", "grid", "shared", "arguments", "shape")
"""What the command line says of one kernel."""
TEXTS = (
    ("--kernel", "NAME", "of several __global__ functions; `all` of the file"),
    ("--operation", "NAME", "what it computes; default: what the names tell, else a matrix product"),
    ("--new-operation", "NAME",
     "write an operation of this name from the kernel, into the folder of --operations"),
    ("--reference", "KERNEL",
     "a kernel of the file, or FILE.cu:KERNEL, that gives what this one must give"),
    ("--entry", "NAME<...>", "instantiation of a template: gemm<128, 8>"),
    ("--block", "X[,Y[,Z]]", "threads of a block"),
    ("--grid", "X[,Y[,Z]]", "blocks: 'ceil(n / 16), ceil(m / 16)'"),
    ("--shared", "BYTES", "of dynamic shared memory"),
    ("--dtype", None, "of the arrays, where the types do not say it: f32, f16, ..."),
    ("--arguments", "LIST", "in the kernel's order: a, b, c, m, n, k, alpha, beta"),
    ("--shape", None, "executed at these sizes only, 64x64x32; default: found by trying"),
    ("-o --output", "FILE", "a new file that includes FILE; - prints"),
)  # fmt: skip
"""Flags that take a text: as typed, what of, help."""
WIDE, SHORT = 512, 64
"""Sizes at which the tile of one block is seen: more than one has, and of a sum's terms."""
NEWER = re.compile(r"\bwgmma\.|setmaxnreg|tcgen05")


@dataclass(frozen=True)
class Target:
    """A kernel that is to be wrapped. folders: of headers besides its own; asking: whether somebody at the
    terminal can be asked; ready: of a cubin, what it says of the kernel."""

    options: argparse.Namespace
    function: Function
    source: Source
    folders: Sequence[Path]
    asking: bool
    ready: compiled.CompiledKernel | None

    def write(self, front: Mapping[str, Any], path: Path) -> None:
        """Write a kernel file for a trial."""
        text = writing.text(front, self.source, self.folders, path)
        path.write_text(text, encoding="utf-8")


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    wrap = commands.add_parser(
        "wrap",
        help="write front matter for a kernel that was written for nvcc, and execute it once",
    )
    wrap.add_argument("source", type=Path, metavar="FILE", help="a .cu or .cuh file, or a cubin")
    for flag, metavar, text in TEXTS:
        wrap.add_argument(*flag.split(), metavar=metavar, help=text)
    wrap.add_argument("--arch", default="sm_90", help="default: %(default)s")
    wrap.add_argument("--yes", action="store_true", help="ask nothing: what is guessed is taken")
    wrap.add_argument("--force", action="store_true", help="write over the output file")
    flags.add_operations(wrap)
    wrap.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Wrap a kernel, or each of a file; 0 where all were right when they were executed, or nothing says what would be,
    else 1. Raises UserError."""
    return _all(options) if options.kernel == ALL else _wrap_kernel(options)[0]


def _all(options: argparse.Namespace) -> int:
    """Wrap each kernel of the file but the one that judges, and say what came of each. Raises UserError."""
    of_code = options.source.suffix != compiled.SUFFIX
    if not of_code or options.output or (options.new_operation and not options.reference):
        allowed = "of a .cu file, without -o, and with --reference where there is a new operation"
        raise UserError(HERE, "--kernel", ALL, allowed)
    source, _ = read(options.source.resolve())
    judge = (options.reference or "").rpartition(":")[2]
    exit_status, lines = execute.RIGHT, []
    for function in source.functions():
        if function.file == source.path and function.name != judge:
            try:
                status, verdict = _wrap_kernel(
                    argparse.Namespace(**{**vars(options), "kernel": function.name})
                )
            except UserError as error:
                status, verdict = execute.USAGE, str(error)
            exit_status = max(exit_status, status)
            lines.append(f"{function.name}: {verdict}")
    for line in lines:
        say(line)
    return exit_status


def _wrap_kernel(options: argparse.Namespace) -> tuple[int, str]:
    """Wrap a kernel: the exit code, and the verdict with what it is about. Raises UserError."""
    if options.reference or options.new_operation:
        _prepare_operation(options)
    folders_of_operations = flags.use_operations(options)
    if not options.source.is_file():
        raise UserError(HERE, "FILE", str(options.source), "a file that exists")
    folders: Sequence[Path] = ()
    kernels_of_cubin: dict[str, compiled.CompiledKernel] = {}
    if options.source.suffix == compiled.SUFFIX:
        source, kernels_of_cubin = compiled.read(options.source.resolve())
    else:
        source, folders = read(options.source.resolve())
    if source.texts[source.path].lstrip().startswith(writing.OPENING) and options.output is None:
        raise UserError(options.source, "front matter", "there is one", "-o FILE for another one")
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
    with tempfile.TemporaryDirectory(prefix="tilewave-") as trials:
        if options.new_operation and not options.reference:
            derived, guess = _new(target, Path(trials))
        else:
            guess = _guess(target, _judged_by(options) if options.reference else _operation(target))
        _with_tile(target, guess)
        say(f"{target.function.name}: executed on the CPU to see what holds")
        front, outcome, shape = _tried(target, guess)
    for note in guess.notes:
        say(f"  {note}")
    if outcome.get("warning"):
        say(f"  {outcome['warning']}")
    text = writing.file_text(front, target.source, target.folders, output)
    size = _size(shape)
    verdict = f"{_verdict(outcome)} at {size}{_reason(outcome)}"
    say(f"  {verdict}")
    if not trying.right(outcome) and not options.shape and not _sized(front, guess.operation):
        say("  it takes no size: `--shape` says the one that it was written for, if there is one")
    plain = outcome["verdict"] == result.WRONG and not (options.operation or options.new_operation)
    if plain and operations.MODULES.file(guess.operation.name) is None:
        doubt = f"that it is a kernel of {guess.operation.name} is a guess"
        say(f"  {doubt}: --operation says another, else {NEW_OPERATION}")
    sums = (name for name, operand in guess.operation.operands.items() if operand.extents == ())
    if any(f" of {name} on" in outcome["reason"] for name in sums):
        say("  a result for each block is another operation: docs/operations.md, Sums of blocks")
    more = ""
    if derived is not None:
        operation_file = Path(folders_of_operations[0]).expanduser() / f"{derived.name}.py"
        operation_file.write_text(derived.text(), encoding="utf-8")
        operations.written(derived.name, map(Path, folders_of_operations))
        say(f"written: {relative(operation_file)}; what it touched: {_arrays(derived)}")
    file = operations.MODULES.file(guess.operation.name)
    if file is not None:
        more = f" --operations {relative(file.parent)}"
        if outcome["verdict"] == result.WRONG and not guess.operation.kernel:
            note = "an output that is added to is `zeroed`, and sums are rounded"
            say(f"  {relative(file)} says what is right: {note} (docs/operations.md)")
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
        say(f"written: {os.path.relpath(output)}; look at it, then")
        say(f"  tilewave execute {os.path.relpath(output)} --shape {size}{more}")
    return execute.RIGHT if trying.right(outcome) else execute.WRONG, verdict


def _guess(target: Target, operation: Operation, roles: Mapping[str, str] | None = None) -> Guess:
    """Front matter as the code and the command line tell it. Raises UserError."""
    options, source = target.options, target.source
    guess = guessed(target.function, source, operation, options.dtype or "", roles)
    if target.ready is not None:
        _with_facts(guess, target.ready)
    if options.entry:
        guess.front["entry"] = options.entry
        guess.unknown.pop("--entry", None)
    answers.answer(options, guess, target.asking)
    if NEWER.search("".join(source.texts[path] for path in source.kernel_files)):
        guess.front["architecture_specific"] = True
    return guess


def _with_facts(guess: Guess, ready: compiled.CompiledKernel) -> None:
    """Put what a cubin says of its kernel into the guess."""
    guess.front |= ready.front
    guess.front["arguments"] += [None] * ready.scratch
    guess.front["requires"] = {**guess.front.get("requires", {}), "arch": ready.arch}
    if "block" in ready.front:
        guess.unknown.pop("--block", None)
        if "--grid" in guess.unknown:
            set_common_grid(guess)
    if ready.dynamic:
        guess.unknown["--shared"] = "bytes of dynamic shared memory"
    guess.notes.append(f"elements are taken for {ready.dtype}, as its instructions are: --dtype")


# ------------------------------------------------------------------------ operations of one's own

FOLDER = "my_operations"
"""Where a new operation is written where no folder is named."""


def _prepare_operation(options: argparse.Namespace) -> None:
    """Let there be a folder for a new operation, and a name for it. Raises UserError."""
    options.operations = options.operations or operations.MODULES.folders() or [FOLDER]
    Path(options.operations[0]).expanduser().mkdir(parents=True, exist_ok=True)
    name = options.new_operation or matching.snake(options.reference.rpartition(":")[2])
    if not NAME.fullmatch(name):
        raise UserError(HERE, "--new-operation", name, "a-z, then a-z, 0-9 and _")
    there = (Path(options.operations[0]).expanduser() / f"{name}.py").is_file()
    if there and not options.reference and not options.force:
        allowed = "a name that no operation has, or --force"
        raise UserError(HERE, "--new-operation", name, allowed)
    options.new_operation = name


def _judged_by(options: argparse.Namespace) -> Operation:
    """The operation whose reference is the kernel that is asked for: both are written unless they are there."""
    name, folder = options.new_operation, Path(options.operations[0]).expanduser()
    if (folder / f"{name}.py").is_file():
        return operations.load(name, HERE)
    of, _, kernel = options.reference.rpartition(":")
    file = Path(of) if of else options.source
    home = Path(options.output).parent if options.output not in (None, "-") else file.parent
    suffix = ".yaml" if file.suffix == compiled.SUFFIX else ".cu"
    written = home / f"{matching.snake(kernel)}{suffix}"
    changes = {**vars(options), **dict.fromkeys(FLAGS), "source": file, "kernel": kernel}
    _wrap_kernel(argparse.Namespace(**{**changes, "reference": None, "output": str(written)}))
    path = folder / f"{name}.py"
    there = os.path.relpath(written.resolve(), folder.resolve())
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("reference = None", f'reference = "{there}"'), encoding="utf-8")
    say(f"{relative(path)}: {os.path.relpath(written)} says what is right")
    return operations.written(name, map(Path, options.operations))


def _new(target: Target, home: Path) -> tuple[DerivedOperation, Guess]:
    """An operation of what the kernel touches, in a folder for trials, and the kernel's front matter."""
    options, function, source = target.options, target.function, target.source
    derived = deriving.first(
        function, options.new_operation, source.path.name, options.arguments, options.grid
    )
    if not derived.sizes:
        allowed = "a kernel that takes a size, or one in --arguments or --grid"
        raise UserError(HERE, "--new-operation", f"{function.name} without sizes", allowed)
    if not any(deriving.trials(derived.dimensions)):
        allowed = "fewer, or expressions of fewer in --arguments"
        raise UserError(HERE, "--new-operation", f"{len(derived.sizes)} sizes", allowed)
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

    def touch(candidate: DerivedOperation, shape: dict[str, int]) -> case.Left:
        folder, path = kept(deriving.with_room(candidate, shape)), writing.trial_path(source, home)
        while True:
            target.write(guess.front, path)
            trial = _left(options, path, folder, shape, candidate.indices)
            front = trying.repaired(guess.front, trial.found, guess) if trial.fatal else None
            if front is None:
                return trial
            guess.front = front

    say(f"{function.name}: executed on the CPU to see what it touches")
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
    kept(derived)
    guess.front["grid"], guess.operation = grid, operations.load(derived.name)
    guess.unknown, guess.alternatives, guess.shape = {}, [], shape
    return derived, guess


def _left(
    options: argparse.Namespace,
    path: Path,
    folder: Path,
    shape: Mapping[str, int],
    indices: Sequence[str] = (),
) -> case.Left:
    """Execute a file with front matter once and see what it leaves. indices: arrays that hold the largest one."""
    arguments = [str(path), "--shape", _size(shape), "--arch", options.arch]
    try:
        _, job, _ = execute.planned(execute.options_of(arguments), folder)
    except UserError as error:  # a grid that has no value at these sizes
        return case.Left({}, str(error), True)
    if not isinstance(job, Job):
        return case.Left({}, job.reason, True)
    inputs = operations.load(job.operation).inputs(job)
    for name in indices:
        inputs[name][:1] = min(shape.values()) - 1
    machine = options.machine or execution.engine(processes=2)
    return case.left_by(job, inputs, machine, footprint=True)


def _with_tile(target: Target, guess: Guess) -> None:
    """Grids of the tile that one block writes, where a product's grid is told by nothing."""
    (written, *more) = [
        name for name, operand in guess.operation.operands.items() if operand.written
    ]
    extents = guess.operation.operands[written].extents
    if "--grid" not in guess.unknown or target.options.grid or more or guess.operation.tiles == ():
        return
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        path = writing.trial_path(target.source, Path(folder))
        target.write({**guess.front, "grid": [1], "requires": {}}, path)
        shape = dict.fromkeys(guess.operation.dimensions, WIDE)
        shape |= dict.fromkeys(guess.operation.tiles[2:], SHORT)
        trial = _left(target.options, path, Path(folder), shape)
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
    guess.notes.append(f"a block writes {sides[0]} x {sides[1]} of {written}: so is the grid")


def _arrays(derived: DerivedOperation) -> str:
    """``x (rows, columns)``, and so on."""
    return "; ".join(
        f"{name} ({', '.join(map(str, operand.extents))})" + (" written" if operand.written else "")
        for name, operand in derived.operands.items()
    )


def _sized(front: Mapping[str, Any], operation: Operation) -> bool:
    """Whether any argument tells the kernel a size."""
    arguments = " ".join(map(str, front["arguments"]))
    return any(re.search(rf"\b{size}\b", arguments) for size in operation.dimensions)


def _size(shape: Mapping[str, int]) -> str:
    return "x".join(map(str, shape.values()))


def _verdict(outcome: Mapping[str, Any]) -> str:
    """The verdict of what ran, else the status."""
    return str(outcome["verdict"] if outcome["status"] == result.OK else outcome["status"])


def _reason(outcome: Mapping[str, Any]) -> str:
    return f": {outcome['reason']}" if outcome["reason"] else ""


def _function(
    options: argparse.Namespace, functions: Sequence[Function], path: Path, asking: bool
) -> Function:
    by_name = {function.name: function for function in functions[::-1]}
    if not by_name:
        raise UserError(options.source, "kernels", "none", "a file with a __global__ function")
    names_in_file = [function.name for function in functions if function.file == path]
    names = names_in_file if names_in_file and options.kernel is None else list(by_name)
    name = options.kernel or (names[0] if len(names) == 1 else None)
    if name is None and asking:
        name = answers.ask(f"kernel ({', '.join(names)})", names[0])
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
        raise UserError(HERE, "--operation", name, f"{', '.join(names)}; else {NEW_OPERATION}")
    if name not in names:
        raise UserError(HERE, "--operation", name, names)
    return operations.load(name)


def _output(options: argparse.Namespace, source: Source, function: Function) -> Path | None:
    """Where the text goes: the file itself where it can be a kernel file; None prints it."""
    if options.output == "-":
        return None
    suffix = ".yaml" if source.path.suffix == compiled.SUFFIX else ".cu"
    if options.output is not None:
        path = Path(options.output).resolve()
        if path.suffix != suffix or not NAME.fullmatch(path.stem):
            raise UserError(HERE, "-o", options.output, f"NAME{suffix}: a-z, then a-z, 0-9 and _")
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
        raise UserError(HERE, "-o", str(path), "a file that does not exist, or --force")
    return path


def _tried(target: Target, guess: Guess) -> tuple[dict[str, Any], Mapping[str, Any], trying.Shape]:
    options, source = target.options, target.source
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        path = writing.trial_path(source, Path(folder))

        def once(front: dict[str, Any], shape: trying.Shape) -> Mapping[str, Any]:
            size_text = _size(shape)
            target.write({**front, "requires": {}}, path)
            arguments = [str(path), "--shape", size_text, "--arch", options.arch]
            try:
                outcome = execute.execute(execute.options_of(arguments), options.machine)
            except UserError as error:
                if error.where_file != str(path):
                    raise
                allowed = f"{error.allowed}; a flag says another"
                raise UserError(source.path, error.key, error.found, allowed) from error
            say(f"  {size_text}: {_verdict(outcome)}")
            return outcome

        if options.shape:
            sizes = [int(size) for size in re.findall(r"\d+", options.shape)]
            names = guess.operation.dimensions
            if len(sizes) not in (1, len(names)):
                raise UserError(HERE, "--shape", options.shape, f"sizes as {'x'.join(names)}")
            shape = dict(zip(names, sizes * len(names) if len(sizes) == 1 else sizes))
            return *trying.settle(guess, once, shape), shape
        shape = trying.first_shape(guess)
        front, outcome = trying.settle(guess, once, shape)
        more_shapes = deriving.trials(guess.operation.dimensions) if guess.operation.kernel else ()
        first_outcome, first_size = outcome, _size(shape)
        for trial_shape in (
            () if outcome["verdict"] in (result.CORRECT, *result.FINDINGS) else more_shapes
        ):
            retried_front, retried = trying.settle(guess, once, trial_shape)
            judged = retried["status"] == result.OK and retried["verdict"] != result.NOT_CHECKED
            if judged and (outcome["verdict"] == result.NOT_CHECKED or trying.right(retried)):
                shape, front, outcome = trial_shape, retried_front, retried
            if trying.right(outcome) and outcome["verdict"] == result.CORRECT:
                break
        if outcome is not first_outcome and _verdict(first_outcome) != result.NOT_CHECKED:
            guess.notes.append(
                f"at {first_size}: {_verdict(first_outcome)}{_reason(first_outcome)}"
            )
        shape = trying.shape_of(shape, front)
        if trying.right(outcome):
            requires = trying.limits(guess, front, once, shape)
            front = {**front, "requires": requires} if requires else front
        return front, outcome, shape
