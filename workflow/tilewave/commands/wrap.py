"""``tilewave wrap FILE.cu``: write front matter for a kernel that was written for nvcc.
The front matter is guessed from the code and the launch, and the guess is tested on the CPU."""

import argparse
import functools
import math
import os
import re
import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewave.basics import files
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import relative
from tilewave.basics.progress import patience, say
from tilewave.basics.tables import table_beside
from tilewave.commands import execute, flags
from tilewave.commands.wrapping import (
    compiled,
    deriving,
    guessing,
    host_memory,
    matching,
    probing,
    trying,
    writing,
)
from tilewave.commands.wrapping.deriving import DerivedOperation
from tilewave.commands.wrapping.finding import bearing, read
from tilewave.commands.wrapping.guessing import C_TYPES, NEW_OPERATION, Guess
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.commands.wrapping.scopes import DTYPES
from tilewave.commands.wrapping.target import KEYS, Target
from tilewave.kernel import includes, operations, result
from tilewave.kernel.front_matter import GUESSED, INFERRED, NAME, load_kernel
from tilewave.kernel.operations.base import Operation

ALL = "all"
FAULT = "not right: "
"""Start of a note on a kernel that is correct, but not as the file launches it."""
FIRST_S = 60.0
"""Limit of the first trial in seconds, at a shape that nobody chose."""
FLAGS = ("operation", "entry", "block", "grid", "shared", "arguments", "shape")
"""Flags that hold for a single kernel."""
TEXTS = table_beside(__file__)
"""Flags that take a text: flag, metavar and help."""


def add(commands: Any) -> None:
    summary = "write front matter for a kernel that was written for nvcc"
    wrap = commands.add_parser("wrap", help=summary, description=__doc__)
    wrap.add_argument("source", type=Path, metavar="FILE", help="a .cu or .cuh file, or a cubin")
    for flag, metavar, text in TEXTS:
        wrap.add_argument(*flag.split(), metavar=metavar, help=text)
    flags.add(wrap, "wrap", "operations")
    wrap.add_argument("--yes", action="store_true", help=argparse.SUPPRESS)  # it never asks
    wrap.set_defaults(run=run, roomy=False, off="", read=read, budget=trying.BUDGET_S)


def run(options: Namespace) -> int:
    """Wrap a kernel, or each of a file. Returns 0 if all are correct or not checked, else 1."""
    return _all(options) if options.kernel == ALL else wrap_kernel(options)[0]


def wrap_kernel(options: Namespace) -> tuple[int, str]:
    """Wrap a kernel, and return the exit code and the verdict with its shape. Raises UserError."""
    try:
        return _wrap_kernel(options)
    except RecursionError:
        problem = "an expression is nested too deeply"
        remedy = "Simplify it, or give front matter"
        raise UserError.because(options.source, problem, remedy) from None


def _all(options: Namespace) -> int:
    """Wrap each kernel of the file except the reference, and print the verdicts. Raises UserError."""
    cubin = options.source.suffix == compiled.SUFFIX
    if cubin or options.output or (options.new_operation and not options.reference):
        problem = "--kernel all takes a .cu file, no -o, and --new-operation only with --reference"
        raise UserError.because(HERE, problem, "Wrap the kernels one by one with --kernel NAME")
    path = files.no_link_out(options.source).resolve()
    source, _ = read(path, flags.allow_headers(options), options.macro)
    judge = (options.reference or "").rpartition(":")[2]
    exit_status, lines = result.RIGHT, []
    for function in source.functions():
        if function.file == source.path and function.name != judge:
            try:
                changes = {**vars(options), "kernel": function.label}
                status, verdict = wrap_kernel(Namespace(**changes))
            except UserError as error:
                status, verdict = result.USAGE, str(error)
            exit_status = max(exit_status, status)
            lines.append(f"{function.label}: {verdict}")
    for line in lines:
        say(line)
    return exit_status


def _wrap_kernel(options: Namespace) -> tuple[int, str]:
    if options.dtype and options.dtype not in C_TYPES:
        hint = f" ({options.dtype} is {DTYPES[options.dtype]})" if options.dtype in DTYPES else ""
        raise UserError(HERE, "--dtype", options.dtype, ", ".join(sorted(C_TYPES)) + hint)
    if options.reference or options.new_operation:
        _prepare_operation(options)
    folders_of_operations = flags.use_operations(options)
    if not options.source.is_file():
        raise UserError.because(HERE, f"{options.source} is not a file", "Give a .cu file")
    folders: Sequence[Path] = ()
    kernels_of_cubin: dict[str, compiled.CompiledKernel] = {}
    path = files.no_link_out(options.source).resolve()
    if path.suffix == compiled.SUFFIX:
        source, kernels_of_cubin = compiled.read(path)
    else:
        source, folders = options.read(path, (*flags.allow_headers(options),), (*options.macro,))
        home = source.path.parent
        includes.allow([*folders, home, home.parent])
    if options.output is None and not kernels_of_cubin:
        text = source.texts[source.path]
        source.texts[source.path] = writing.without_front_matter(text) if options.force else text
        if source.texts[source.path].lstrip().startswith(writing.OPENING):
            remedy = "Name a new file with -o"
            if not options.force and writing.without_front_matter(text) != text:
                remedy += ", or write it anew with --force"
            raise UserError.because(options.source, "it has front matter", remedy)
    functions = [kernel.function for kernel in kernels_of_cubin.values()] or source.functions()
    function = replace(_function(options, functions, source.path), off=options.off)
    source = bearing(source, function.name, getattr(options, "later", 0))
    output = _output(options, source, function)
    ready = kernels_of_cubin.get(function.name)
    if ready is not None:
        options.arch, options.dtype = f"sm_{ready.arch}", options.dtype or ready.dtype
    target = Target(options, function, source, folders, ready)
    try:
        return _wrapped(target, output, folders_of_operations)
    except UserError as error:
        constants = guessing.smaller(function, source)
        if probing.TOO_LARGE not in str(error) or not constants:
            raise
    source = source.with_smaller(constants)
    same = next(of for of in source.functions() if of.label == function.label)
    smaller = Target(options, replace(same, off=function.off), source, folders, ready)
    return _wrapped(smaller, output, folders_of_operations)


def _wrapped(target: Target, output: Path | None, folders: Sequence[str]) -> tuple[int, str]:
    options = target.options
    derived: DerivedOperation | None = None
    maps = [item.name for item in target.function.parameters if "CUtensorMap" in item.type]
    if maps:
        problem = f"{target.function.name} takes tensor maps ({', '.join(maps)})"
        remedy = "Write its front matter by hand: docs/front_matter.md, `tensor_maps`"
        raise UserError.because(HERE, f"{problem}, which wrap does not guess", remedy)
    items, members = target.function.parameters, target.source.members
    held = {of.name: [of.stars, *(it.stars for it in members(of.type))] for of in items if of.stars}
    if pointers := [name for name, stars in held.items() if sum(stars) > 1]:
        problem = f"pointers in memory cannot be filled ({', '.join(pointers)})"
        raise UserError.because(HERE, problem, "Check a kernel that takes the arrays themselves")
    with tempfile.TemporaryDirectory(prefix="tilewave-") as trials:
        if options.new_operation and not options.reference:
            derived, guess = probing.new_operation(target, Path(trials))
        else:
            guess = target.guess(_judged_by(options) if options.reference else _operation(target))
        dimensions, fixed_shape = guess.operation.dimensions, None
        if options.shape:
            fixed_shape = dict(flags.shape(options.shape, dimensions, "--shape").resolve({}))
        probing.with_tile(target, guess)
        for launch in target.source.launches(target.function.name)[:1]:
            arguments = matching.leaves(guess.front["arguments"])
            multiples = host_memory.padded(target.function, launch, arguments)
            if sizes := {of: step for of, step in multiples.items() if of in dimensions}:
                guess.front["requires"] = sizes | guess.front.get("requires", {})
                guess.asserted |= sizes
        say(f"{target.function.name}: executing it on the CPU to check the guesses")
        front, outcome, shape = _tried(target, guess, fixed_shape)
        if derived and "" in derived.sizes and outcome["status"] == result.NOT_MEASURED:
            raise probing.too_large(shape)
        if derived and outcome["status"] == result.INVALID_ACCESS:
            drawn = probing.new_operation(target, Path(trials) / "drawn", drawing=True)
            if drawn[0].letters and trying.right((tried := _tried(target, drawn[1], None))[1]):
                (derived, guess), (front, outcome, shape) = drawn, tried
        off = {name: of for name, of in guess.tile.items() if derived and shape[name] % of}
        if off and (guess.place or options.grid) and not trying.right(outcome):
            by_tile, whole = probing.new_operation(target, Path(trials) / "whole", tile=True)
            tried, failure = _tried(target, whole, None), trying.described(outcome, shape)
            surely = outcome["verdict"] in result.FINDINGS and trying.right(tried[1])
            promises = [trying.promised(name, guess, front, off, failure) for name in off]
            guess.faults = next(filter(None, promises), []) if surely else []
            if tried[1]["status"] in (result.OK, *result.ENDS) and not guess.faults:
                whole.notes.append(f"{' and '.join(off)}: whole tiles, because of {failure}")
                derived, guess, (front, outcome, shape) = by_tile, whole, tried
        if derived and not (trying.right(outcome) or guess.faults) and trying.alike(guess):
            by_side, square = probing.new_operation(
                target, Path(trials) / "square", sides=trying.alike(guess)
            )
            tried, failure = _tried(target, square, None), trying.described(outcome, shape)
            if trying.right(tried[1]):
                square.notes.append(f"requires is inferred from this failure: {failure}")
                derived, guess, (front, outcome, shape) = by_side, square, tried
        if outcome["verdict"] in (result.WRONG, result.NOT_CHECKED) and not guess.faults:
            guess.faults += probing.unwritten(target, guess, front, shape)
    operation, numbers = guess.operation, all(isinstance(side, int) for side in front["block"])
    refused = outcome["status"] == result.UNSUPPORTED and "block" in outcome["reason"]
    launches = target.source.launches(target.function.name)[:1]
    refused &= numbers and not options.block and all(of.has_sure_block for of in launches)
    if refused and guess.place and "--block" not in guess.unknown:
        guess.faults.append(f"as launched in {guess.place}: {outcome['reason']}")
    if derived is not None:
        tests, inferred = target.function.tests, "inferred from this failure: "
        tested = {of for name, of in derived.sizes.items() if tests(name)} - {*guess.asserted}
        free = derived.loose or derived.dimensions[1:] or "//" in str(guess.front["grid"])
        failures = [of.partition(inferred)[2] for of in guess.notes if inferred in of]
        for failure in [trying.described(outcome, shape), *failures] if guess.place else []:
            if not guess.faults and derived.exceeds(failure, {*()} if free else tested):
                guess.faults.append(failure)
        guess.faults = [_overruns(derived, fault) for fault in guess.faults]
        guess.notes = [_overruns(derived, note) for note in guess.notes]
    sized = probing.sized(target.function, front, operation)
    if outcome["verdict"] in result.FINDINGS and not sized:
        sides = [f"{name} == {side}" for name, side in shape.items()]  # no other is known to fit
        front["requires"] = {**front.get("requires", {}), "conditions": sides}
        front["marks"] = {**front.get("marks", {}), "requires": f"{INFERRED}: conditions"}
    if outcome["status"] == result.INVALID_ACCESS and _stated(target, guess):
        front.get("marks", {}).pop("operation", None)
    text = writing.text(front, target.source, target.folders, output)
    verdict, right = trying.described(outcome, shape), trying.right(outcome)
    file, wrong = operations.MODULES.file(operation.name), outcome["verdict"] == result.WRONG
    faults = [f"{FAULT}{fault}" for fault in guess.faults]
    for launch in target.source.launches(target.function.name)[:1]:
        faults += [f"{FAULT}{fault}" for fault in host_memory.faults(target.function, launch)]
        faults += host_memory.together(target.function, launch)
    notes = [*guess.notes, outcome.get("warning"), verdict, *faults]
    if not right and not options.shape and not probing.sized(target.function, front, operation):
        path = relative(target.source.path, quoted=True)
        command = f"tilewave wrap {path} --kernel {target.function.name}"
        notes.append(f"The kernel takes no size. If it has a fixed one: {command} --shape SIZES")
    if wrong and "operation" in front.get("marks", {}) and file is None:
        doubt = f"That the kernel computes {operation.name} is a guess"
        notes.append(f"{doubt}. Name another --operation, or write one with {NEW_OPERATION}.")
    sums = (name for name, operand in operation.operands.items() if operand.extents == ())
    if any(f") of {name}, which has" in outcome["reason"] for name in sums):
        notes.append("If each block gives a sum, see docs/operations.md, Sums of blocks.")
    for note in filter(None, notes):
        say(f"  {note}")
    if derived is not None:
        operation_file = Path(folders[0]).expanduser() / f"{derived.name}.py"
        files.no_link_out(operation_file).write_text(derived.text(), encoding="utf-8")
        operations.written(derived.name, map(Path, folders))
        arrays = [
            f"{name} ({', '.join(map(str, operand.extents))}){' written' * operand.written}"
            for name, operand in derived.operands.items()
        ]
        say(f"Written: {relative(operation_file)}. The kernel touched {'; '.join(arrays)}")
    file = operations.MODULES.file(operation.name)
    command = "" if file is None else f" --operations {relative(file.parent)}"
    if file is not None and wrong and not operation.kernel:
        note = "Mark an output of atomics as `zeroed`, and allow for the rounding of sums"
        say(f"  {relative(file)} defines what is correct. {note} (docs/operations.md).")
    if output is None:
        flags.show(text)
    else:
        output.write_text(text, encoding="utf-8")
        path, names = os.path.relpath(output), load_kernel(output).front.compiler.include
        for folder in (output.parent / name for name in names):
            if not files.lies_in(folder, [output.parent]):
                command += f" --include {os.path.relpath(folder)}"
        say(f"Written: {path}. Read it, then run")
        say(f"  tilewave execute {path} --shape {trying.size(shape)}{command}")
    return result.RIGHT if right else result.NOT_RIGHT, verdict


def _overruns(derived: DerivedOperation, fault: str) -> str:
    """Say of a fault behind an array's end that the host allocates no more, if it does."""
    return f"{fault}; the host allocates no more" if derived.exceeds(fault) else fault


def _stated(target: Target, guess: Guess) -> bool:
    """Return whether the file says that a kernel is a product of one size, and how it is launched."""
    function, sizes = target.function, guess.operation.dimensions
    derived = deriving.first(function, "", target.source, None, None)
    launched = guess.place and not (guess.unknown or derived.roles or derived.loose)
    single = sum(argument in sizes for argument in matching.leaves(guess.front["arguments"])) == 1
    return bool(launched and single and re.search("matmul|gemm", function.name.lower()))


FOLDER = "my_operations"
"""The default folder of a new operation."""


def _prepare_operation(options: Namespace) -> None:
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


def _judged_by(options: Namespace) -> Operation:
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
    here = _parameters(options.source, options.kernel)
    if options.arguments and _parameters(source_file, kernel) == here:
        changes["arguments"] = options.arguments
    _wrap_kernel(Namespace(**{**changes, "reference": None, "output": str(written)}))
    path = folder / f"{name}.py"
    there = os.path.relpath(written.resolve(), folder.resolve())
    text = path.read_text("utf-8").replace("reference = None", f'reference = "{there}"')
    files.no_link_out(path).write_text(text, "utf-8")
    say(f"{relative(path)}: {os.path.relpath(written)} is the reference")
    return operations.written(name, map(Path, options.operations))


def _parameters(path: Path, kernel: str) -> list[str]:
    """Return the names of a kernel's parameters; none of an unknown kernel's."""
    functions = read(path.resolve())[0].functions() if path.suffix != compiled.SUFFIX else []
    wanted = (function.parameters for function in functions if function.name == kernel)
    return [parameter.name for parameter in next(wanted, ())]


def _function(options: Namespace, functions: Sequence[Function], path: Path) -> Function:
    by_name = {label: of for of in functions[::-1] for label in (of.name, of.label)}
    if not by_name:
        raise UserError.because(options.source, "no __global__ function", "Give another file")
    names_in_file = [function.label for function in functions if function.file == path]
    names = names_in_file if names_in_file and not options.kernel else list(by_name)
    name = options.kernel or (names[0] if len(names) == 1 else None)
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
    if name is None:
        problem = f"the name {target.function.name} does not say what the kernel computes"
        remedy = f"Choose --operation NAME ({', '.join(names)}), or write one with {NEW_OPERATION}"
        raise UserError.because(HERE, problem, remedy)
    if name not in names:
        raise UserError(HERE, "--operation", name, names)
    return operations.load(name)


def _output(options: Namespace, source: Source, function: Function) -> Path | None:
    """Return the file to write: the kernel's file if it can be a kernel file; None to print."""
    if options.output == "-":
        return None
    suffix = ".yaml" if source.path.suffix == compiled.SUFFIX else ".cu"
    if options.output is not None:
        path = files.no_link_out(Path(options.output)).resolve()
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
    if files.no_link_out(path).exists() and not options.force:
        remedy = "Choose another file with -o, or overwrite it with --force"
        raise UserError.because(HERE, f"{relative(path)} exists already", remedy)
    return path


def _tried(
    target: Target, guess: Guess, shape: trying.Shape | None
) -> tuple[dict[str, Any], Mapping[str, Any], trying.Shape]:
    """Execute the guess and its alternatives at a shape, or at several if None; return the best."""
    options, source, deadline = target.options, target.source, math.inf
    skipped: list[trying.Shape] = []
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        path = writing.trial_path(source, Path(folder))

        def once(front: dict[str, Any], shape: trying.Shape, of: str = "") -> Mapping[str, Any]:
            nonlocal deadline
            left = deadline - time.monotonic()
            if left <= 0:
                skipped.append(shape)
                return trying.LATE
            arguments = target.write(front, path, shape)
            first_s = options.budget if options.new_operation else FIRST_S
            limit_s = min(left, execute.LIMIT_S if options.shape else first_s)
            arguments += ["--limit", str(limit_s), "--budget", "0"]
            try:
                with patience(f"  {trying.size(shape)}: executing"):
                    trial = execute.options_of(arguments, options.machine)
                    outcome = execute.execute(trial, timed=False)
            except UserError as error:
                if not error.where_file.startswith(str(path)):
                    raise
                problem = str(error).removeprefix(f"{error.where_file}: ")
                if deadline < math.inf:  # sizes of a later trial have no launch
                    return {**trying.LATE, "status": result.FAILED_TO_LAUNCH, "reason": problem}
                key = error.key.partition(".")[0]
                names = [f"{flag} changes it" for flag, name in KEYS.items() if name == key]
                remedy = next(iter(names), "Name another --operation, or write its front matter")
                raise UserError.because(relative(source.path), problem, remedy) from error
            deadline = min(deadline, time.monotonic() + options.budget)
            late = outcome["status"] in (result.TIMED_OUT, result.NOT_MEASURED)
            if late and limit_s in (left, options.budget):
                skipped.append(shape)
                return trying.LATE
            say(f"  {trying.size(shape)}{of}: {trying.verdict(outcome)}")
            return {**outcome, "reason": outcome["reason"].replace(f"{path}: ", "")}

        def settled(shape: trying.Shape) -> tuple[dict[str, Any], Mapping[str, Any]]:
            front, outcome = trying.settle(guess, once, shape)
            if trying.right(outcome):  # then the operation is no guess
                front.get("marks", {}).pop("operation", None)
            return front, outcome

        fixed = None if shape else probing.constant_shape(target, guess)
        shape = shape or fixed
        if shape or trying.without_judge(guess):
            shape = shape or trying.first_shape(guess)
            front, outcome = settled(shape)
            if fixed and not options.new_operation and outcome["status"] == result.NOT_MEASURED:
                raise probing.too_large(fixed)
            return front, outcome, trying.shape_of(shape, front)
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
        if guess.literal and not trying.right(outcome) and (launched := trying.launched(guess)):
            trying.as_launched(guess, launched)
            return *settled(launched), launched
        if outcome is not first_outcome and trying.verdict(first_outcome) != result.NOT_CHECKED:
            guess.notes.append(trying.described(first_outcome, first_shape))
        shape = trying.shape_of(shape, front)
        if trying.right(outcome):
            if front["grid"] != guess.front["grid"]:  # its tiles decide what the sizes must be
                guess.front["grid"] = front["grid"]
                guessing.tiles_of_grid(guess)
            requires, inferred = trying.limits(guess, front, once, shape), front.get("requires", {})
            names = [name for name in requires if requires[name] != inferred.get(name)]
            front = {**front, "requires": requires} if requires or "requires" in front else front
            if names:
                if "requires" in front.get("marks", {}) and "conditions" not in names:
                    names.insert(0, "conditions")
                mark = f"{INFERRED}: {', '.join(names)}"
                front["marks"] = {**front.get("marks", {}), "requires": mark}
            if skipped:  # another size may need a limit
                front["marks"] = {**front.get("marks", {}), "requires": GUESSED}
            trying.at_its_sizes(guess, once, front)
            in_few = functools.partial(once, of=f" in {trying.FEW_BLOCKS} blocks")
            trying.repeated(guess, in_few, front, shape)
        return front, outcome, shape
