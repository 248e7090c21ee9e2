"""Facts that executing a kernel shows: tiles, sizes, sums of blocks, and the arrays of a new operation."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics.errors import HERE, UserError
from tilewave.basics.progress import say
from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import deriving, host_memory, matching, scopes, trying
from tilewave.commands.wrapping.deriving import DerivedOperation
from tilewave.commands.wrapping.guessing import WHERE, Guess, constant, tiles_of_loops
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.commands.wrapping.scopes import spelled
from tilewave.commands.wrapping.target import Target
from tilewave.execution import case
from tilewave.kernel import operations
from tilewave.kernel.expressions import Sizes, names_in
from tilewave.kernel.launches import BLOCK_LIMIT
from tilewave.kernel.operations.base import Operand, Operation
from tilewave.kernel.padding import POISON, unset
from tilewave.theory.dtypes import DTYPES, SIZES

LONGER = 4
"""Multiple of a kernel's only size at which its later blocks may write, if the first ones do not."""
WIDE, SHORT = 512, 64
"""Sizes of the trial that shows one block's tile: larger than a tile, and the terms of a sum."""
MOST_AT_ONCE = 1 << 31
"""Most elements, or multiplications, of a kernel whose sizes are constants."""
TOO_LARGE, CONSTANT = "too large to execute", "its sizes are constants of the code"
NOTHING = "it wrote nothing with the inputs that were drawn"
FIRST = "first iteration of the loop around the launch"
ELSEWHERE = "its results lie in variables of the device, which nothing judges"
PRINTS, STORES, PLACE, LETTER, RANGE, LOCAL = map(re.compile, table_beside(__file__).values())
BEGINS, SAME_BY_HALVES = "begins with", "its result is the same with blocks of half the threads"
LACKING = 0.25
"""Least part of an array that a launch leaves unwritten for want of blocks."""


def new_operation(
    target: Target, home: Path, tile: bool = False, sides: Sequence[str] = (), drawing: bool = False
) -> tuple[DerivedOperation, Guess]:
    """Derive an operation from what the kernel touches, and guess the kernel's front matter. Raises UserError.
    tile: at sizes of whole tiles; sides: at sizes that are equal by these conditions; drawing: with the host's
    values of whole numbers, also where none is negative."""
    options, function = target.options, target.function
    if not any(parameter.stars for parameter in function.parameters):
        classes = [
            f"{of.name} ({of.type.replace(' ', '')})"
            for of in function.parameters
            if not {*of.type.split()} <= {*scopes.NUMBERS, *scopes.REAL, "bool"}
        ]
        problem = f"{', '.join(classes)}: of class type, whose members it cannot set"
        problem = problem if classes else f"{function.name} takes no array"
        raise UserError.because(HERE, problem, "Write its front matter")
    if PRINTS.search(function.text) and not STORES.search(function.text):
        problem = f"{function.name} prints, and writes no array"
        raise UserError.because(HERE, problem, "There is nothing to compare")
    elsewhere = _stores_elsewhere(function, target.source)
    if all(of.constant for of in function.parameters if of.stars) and not elsewhere:
        problem = f"{function.name} writes none of the arrays that it takes"
        raise UserError.because(HERE, problem, "There is nothing to compare")
    named = options.new_operation, target.source, options.arguments, options.grid
    derived = deriving.first(function, *named)
    if elsewhere:  # an operation has an output
        every = {name: replace(of, written=True) for name, of in derived.operands.items()}
        derived = replace(derived, operands=every)
    arrays = {item.name: deriving.label(item.name) for item in function.parameters if item.stars}
    roles = {**derived.sizes, **arrays, **derived.roles}
    guess = target.guess(derived.operation(), roles)
    tiles_of_loops(guess, function, target.source)
    guess.front |= {"requires": {"conditions": [*sides]}} if sides else {}
    if not any(deriving.trials(derived.dimensions)):
        problem = f"{function.name} has {len(derived.sizes)} sizes, too many to derive an operation"
        raise UserError.because(HERE, problem, "Give --arguments with fewer names of sizes")
    dtypes = guess.front["dtypes"]
    whole = {name for name, of in dtypes.items() if DTYPES[of].whole and SIZES[of] >= 4}
    places = PLACE.findall(function.text)
    whole |= {at for name, at in arrays.items() if name in places and dtypes[at] in ("f32", "f64")}
    inputs = [name for name, of in derived.operands.items() if of.stream is not None]
    letter = None if RANGE.search(function.text) else LETTER.search(function.text)
    drawn = (ord(letter[1]), 10 if letter[1] == "0" else 26) if letter else (0, 0)
    guess.notes += [
        f"{WHERE} {of} {BEGINS} {value:g}" for of, (value, _) in derived.letters.items()
    ]
    characters = [name for name in inputs if letter and SIZES[dtypes[name]] == 1]
    texts: dict[str, tuple[float, int]] = dict.fromkeys(characters, drawn)
    flags = {deriving.label(of.name) for of in function.parameters if of.type == "bool"}
    texts |= dict.fromkeys(flags.intersection(inputs), (0, 2))
    ends = f"'{chr(drawn[0])}' to '{chr(sum(drawn) - 1)}'" if letter else ""
    guess.notes += [f"{WHERE} {name} holds {ends}" for name in texts if name not in flags]
    chosen = deriving.modes(function).items()
    guess.notes += [f"{WHERE} {name} is '{letter}'" for name, letter in chosen]
    guess.notes += [f"{WHERE} {of} is {value}" for of, value in deriving.fixed(function).items()]
    for name, array in deriving.sought(function).items():
        if array in inputs and DTYPES[dtypes[array]].whole:
            texts[array] = deriving.AMONG
            guess.notes.append(f"{WHERE} {name} is {deriving.SOUGHT}")
    for launch in target.source.launches(function.name)[:1]:
        for item, value in zip(function.parameters, function.launch_arguments(launch.arguments)):
            name, role = deriving.label(item.name), derived.roles.get(item.name, "")
            if role.isdigit() and spelled(value) in {of.counter for of in launch.scope.around}:
                plain = f"{WHERE} {item.name} is {role}"
                guess.notes[:] = [of for of in guess.notes if of != plain]
                guess.notes.append(f"{plain}, as in the {FIRST}")
            of_host = host_memory.drawn(launch, value) if name in {*inputs} - {*texts} else None
            if of_host and DTYPES[dtypes[name]].whole and (drawing or of_host[0] < 0):
                texts[name] = of_host
                first, count = of_host
                guess.notes.append(f"{WHERE} {name} holds {first} to {first + count - 1}")
    indices = tuple(name for name in inputs if name in whole and name not in texts)
    derived = replace(derived, indices=indices, letters={**texts, **derived.letters})
    counter = itertools.count()

    def keep(candidate: DerivedOperation) -> None:
        folder = home / str(next(counter))
        folder.mkdir(parents=True)
        (folder / f"{candidate.name}.py").write_text(candidate.text(), encoding="utf-8")
        operations.written(candidate.name, [folder])

    def touch(candidate: DerivedOperation, shape: dict[str, int]) -> case.UnjudgedRun:
        least, most = 0, deriving.SOME
        while deriving.room(shape) <= deriving.LIMIT:
            many, all_room = (deriving.room(shape, least, of) for of in (most, deriving.MOST))
            held = {name: replace(of, extents=(many,)) for name, of in candidate.operands.items()}
            keep(replace(candidate, operands=held))
            trial = target.trial(guess.front, shape, candidate.indices, all_room)
            if trial.fatal and (front := trying.repaired(guess.front, trial.problem, guess)):
                guess.front = front
            elif trial.fatal and many < all_room and not deriving.ROOMLESS.match(trial.problem):
                most = deriving.MOST
            elif derived.sizes.keys() != {""} or not deriving.PAST.search(trial.problem):
                return trial
            elif least == deriving.LIMIT:
                problem = f"it takes no size, touches more than {many} elements, and is {TOO_LARGE}"
                raise UserError.because(HERE, problem, "Check a copy with smaller constants")
            else:
                least = 2 * least or deriving.MOST
        return case.UnjudgedRun({}, TOO_LARGE, True)

    say(f"{function.name}: executing it on the CPU to see what it touches")
    grids = [guess.front["grid"]]
    if "--grid" in guess.unknown and not options.grid:
        grids += [front["grid"] for front in guess.alternatives]
    numbers = [item.name for item in function.parameters if item.name in derived.sizes]
    aligned, best, wrote = not all(map(function.tests, numbers)), -2, False
    best_shape = dict[str, int]()
    tries = itertools.product((1, LONGER) if not derived.dimensions[1:] else (1,), grids)
    for times, grid in tries:
        sole = function.mentions("blockIdx") and best_shape and _blocks(guess, best_shape) == 1
        if wrote and not sole and (best == len(derived.operands) or times > 1):
            break
        guess.front["grid"] = grid
        threads = functools.partial(trying.threads, guess.front, most=BLOCK_LIMIT)
        fit = functools.partial(trying.fitted, guess, tile)
        given = derived.dimensions, threads, aligned, fit
        more = " * ".join(f"({side})" for side in grid), deriving.sums_of(function, derived.sizes)
        parts = dict.fromkeys(guess.divided.values(), False)
        parts |= deriving.parts_of(function, derived.sizes)
        shapes = functools.partial(deriving.trials, *given, times=times, parts=parts)
        about = derived, dtypes, touch, shapes, aligned, options.roomy, *more
        settled = deriving.settled(*about)
        if settled[2] < 0 and (filled := _filled(target, derived.sizes)):
            guess.front["requires"] = {"conditions": filled}
            guess.notes += [f"{WHERE} {of}" for of in filled]
            settled = deriving.settled(*about)
        writes = any(of.written for of in settled[0].operands.values())
        if settled[2] > best or (times > 1 and writes and (sole or not wrote)):
            best, wrote, best_settled, best_grid = settled[2], writes, settled, grid
            best_shape = settled[1]
    derived, shape, _, notes, sure = best_settled
    if not sure:  # what is outside of an array is a guess
        guess.tested = frozenset()
    if notes:  # another shape has other sizes
        guess.notes += notes
        sides = [f"{name} == {side}" for name, side in shape.items()]
        guess.front["requires"], guess.launched = {"conditions": sides}, {}
    if not wrote:
        constant = {deriving.label(of.name): of.constant for of in function.parameters}
        outputs = {
            name: replace(of, written=elsewhere or not constant[name])
            for name, of in derived.operands.items()
        }
        derived = replace(derived, operands=outputs)
        if not any(of.written for of in outputs.values()):
            problem = f"{function.name} writes no array at {trying.size(shape)}"
            remedy = "Give numbers that belong together as --arguments"
            raise UserError.because(HERE, problem, remedy)
        guess.notes.append(ELSEWHERE if elsewhere else f"{NOTHING} at {trying.named(shape)}")
        text = target.source.texts[function.file]
        is_plain = "#" not in text[function.declaration.start : function.declaration.end]
        pointers = [of.name for of in function.parameters if of.stars]
        unused = [name for name in pointers if not function.mentions(name)]
        if is_plain and unused and not elsewhere and not touch(derived, shape).stores:
            guess.faults.append(f"it stores nothing, and does not use {', '.join(unused)}")
    guess.front["grid"] = best_grid
    for at, note in enumerate(guess.notes):
        if note.startswith("grid is a guess"):
            sides = ", ".join(map(str, best_grid))
            guess.notes[at] = f"grid is a guess: {sides} (--grid changes it)"
    if guess.unknown.keys() & {"--grid", "--block"}:
        many = trying.threads({**guess.front, "grid": []}, {}) * ("--block" not in guess.unknown)
        sure = all(of.has_sure_block for of in target.source.launches(function.name)[:1])
        if guess.place and many > BLOCK_LIMIT and sure:
            guess.faults.append(f"a block of {many} threads in {guess.place} exceeds {BLOCK_LIMIT}")
        guess.place = ""  # nothing is said about the launch
    if guess.front.get("marks") and _independent(guess, functools.partial(touch, derived, shape)):
        guess.front["marks"] = {}
        guess.notes.append(SAME_BY_HALVES)
    if derived.loose and len(derived.sizes) > 1:
        sizes = ", ".join(derived.loose)
        guess.notes.append(f"{sizes} is a guess: any size (--arguments changes it)")
        guess.mark("arguments")
    keep(derived)
    guess.operation = operations.load(derived.name)
    guess.unknown, guess.alternatives, guess.shape = {}, [], shape
    return derived, guess


def _blocks(guess: Guess, shape: Mapping[str, int]) -> int:
    return trying.threads({**guess.front, "block": []}, shape)


def _stores_elsewhere(function: Function, source: Source) -> bool:
    """Return whether a kernel names a variable of the device, which may hold its results."""
    names = function.declaration.identifiers
    variables = (
        of for _, of in source.near.declarations() if of.kind == "variable" and names & {*of.names}
    )
    return any("__device__" in {token.text for token in of.head} for of in variables)


def _filled(target: Target, sizes: Mapping[str, str]) -> list[str]:
    """Return sizes that end loops which fill a thread's array, and its number of elements: ``d == 64``."""
    text, conditions = target.function.text, list[str]()
    for array, extent in LOCAL.findall(text):
        for name in sizes:
            uses = rf"\b(\w+) = 0 ; \1 < {re.escape(name)} ; [^;]*?\b{array} \[ \1 \]"
            side = int(extent) if extent.isdigit() else constant(target.source.near, extent)
            if side and name and re.search(uses, text):
                conditions.append(f"{sizes[name]} == {side}")
    return list({of.partition(" ")[0]: of for of in conditions}.values())


def _independent(guess: Guess, touch: Callable[[], case.UnjudgedRun]) -> bool:
    """Return whether a kernel gives the same with blocks of half the threads, so that a guess may judge."""
    front, runs = guess.front, [touch()]
    (width, *rest), (side, *sides) = front["block"], front["grid"]
    block = [max(int(width) // 2, 1), *rest] if str(width).isdigit() else front["block"]
    for grid in (front["grid"], [f"2 * ({side})", *sides]):
        guess.front = {**front, "block": block, "grid": grid}
        runs.append(touch())
    guess.front = front
    memory = [run.buffers.items() if not run.problem else () for run in runs]
    first, *halved = ({name: held.tobytes() for name, held in items} for items in memory)
    return bool(first) and first in halved


def with_tile(target: Target, guess: Guess) -> None:
    """Guess the grid of an unlaunched product from the tile that one block writes."""
    operands = guess.operation.operands
    (written, *more_outputs) = [name for name, operand in operands.items() if operand.written]
    extents = operands[written].extents
    has_grid = "--grid" not in guess.unknown or target.options.grid or guess.literal or guess.twin
    taken = sized(target.function, guess.front, guess.operation)
    if has_grid or more_outputs or guess.operation.tiles == () or not taken:
        return
    shape = dict.fromkeys(guess.operation.dimensions, WIDE)
    shape |= dict.fromkeys(guess.operation.tiles[2:], SHORT)
    shape = trying.shape_of(shape, guess.front)
    trial = target.trial({**guess.front, "grid": [1]}, shape)
    if trial.fatal or len(extents) != 2:
        return
    memory = trial.buffers[written]
    wrote = memory.view(np.uint8).reshape(*Operand(extents).sizes(shape), -1) != POISON
    sides = [int(wrote.any(axis=2).any(axis=1 - at).sum()) for at in range(2)]
    if 0 in sides or sides == [WIDE, WIDE]:
        return
    rows, columns = (f"ceil({size} / {side})" for size, side in zip(extents, sides))
    guess.front["grid"] = [columns, rows]
    grids = [[rows, columns], [f"{rows} * {columns}"]]
    if sides[0] == 1 and not target.function.mentions("blockIdx.y"):
        guess.front["grid"] = [f"ceil({' * '.join(map(str, extents))} / {sides[1]})"]
    if shape[str(extents[1])] == 1:
        guess.front["grid"], grids = [rows], []
    guess.alternatives[:0] = [{**guess.front, "grid": list(grid)} for grid in grids]
    guess.tile |= dict(zip(map(str, extents), sides))
    guess.notes[:] = [note for note in guess.notes if not note.startswith("grid is a guess")]
    guess.notes.append(f"a block writes {sides[0]} x {sides[1]} of {written}: hence the grid")


def unwritten(target: Target, guess: Guess, front: Mapping[str, Any], shape: Sizes) -> list[str]:
    """Return the fault of a launch without blocks for many elements that another grid writes, with all others but no more."""
    launches, sides = target.source.launches(target.function.name), [*map(str, front["grid"])]
    once = len(launches) == 1 and not launches[0].scope.around and guess.place
    sure = once and not (guess.unknown or "arguments" in front.get("marks", {}))
    fixed = [of for of in sides if not names_in(of) and of != "1"]
    outputs = [name for name, of in guess.operation.operands.items() if of.written]
    operand, size = guess.operation.operands[outputs[0]], SIZES[front["dtypes"][outputs[0]]]
    begun = operand.given and not guess.operation.laid_out
    if fixed or begun or not sure or trying.broken(trying.floored(front), shape):
        return []

    def blank(grid: Sequence[str]) -> np.ndarray | None:
        run = target.trial({**front, "grid": grid, trying.READS_C: False}, shape)
        return None if run.fatal else unset(run.buffers[outputs[0]].view(f"V{size}")).nonzero()[0]

    every, missing = f"2 * ({') * ('.join(sides)})", blank(sides)
    if missing is None or missing.size < max(LACKING * math.prod(operand.sizes(shape)), 1):
        return []
    others = map(blank, (sides[::-1], [every], ["1", every][: len(sides)]))
    if not any(of is not None and not of.size for of in others):
        return []
    text = f"elements {missing[0]} to {missing[-1]} of {outputs[0]} are never written"
    launch = f"under the launch in {guess.place}, whose grid has too few blocks"
    return [f"{text} {launch}, at {trying.named(shape)}"]


def sized(function: Function, front: Mapping[str, Any], operation: Operation) -> bool:
    """Return whether the kernel takes a size, and its code, if there is any, mentions it."""
    given, unread = zip(function.parameters, matching.leaves(front["arguments"])), not function.text
    used = [of for item, of in given if unread or function.mentions(item.name.partition(".")[0])]
    return any(re.search(rf"\b{size}\b", " ".join(used)) for size in operation.dimensions)


def too_large(shape: trying.Shape) -> UserError:
    problem = f"its sizes are constants, and {TOO_LARGE}: {trying.size(shape)}"
    return UserError.because(HERE, problem, "Check a copy with smaller constants")


def constant_shape(target: Target, guess: Guess) -> trying.Shape | None:
    """Return constant sizes of a kernel that takes none, else None; sizes that it does not take become conditions."""
    operation, sides, source = guess.operation, trying.Shape(), target.source
    for name in sorted(target.function.declaration.identifiers):
        dimension, side = matching.dimension(name, operation), constant(source.near, name)
        if side and dimension in operation.dimensions:
            sides.setdefault(dimension, side)
    taken = [*matching.leaves(guess.front["arguments"])]
    if sized(target.function, guess.front, operation):
        fixed = [f"{name} == {side}" for name, side in sides.items() if name not in taken]
        if fixed and not operation.laid_out and "requires" not in guess.front:
            guess.front["requires"] = {"conditions": fixed}
        return None
    for dimension in operation.dimensions if sides else ():
        sides[dimension] = sides.get(dimension) or constant(source.near, dimension.upper()) or 0
    sides = {name: side for name, side in sides.items() if side}
    if len(sides) == 1 and (operation.laid_out or operation.name == "transpose"):
        sides = dict.fromkeys(operation.dimensions, *sides.values())
    if {*taken} & {*operation.dimensions}:  # which the kernel ignores, perhaps for constants
        values = {constant(source.near, of) for of in target.function.declaration.identifiers}
        sides = {of: side for of, side in guess.launched.items() if side in values} | sides
    elif not sides and guess.fixed:
        sides = dict.fromkeys(operation.dimensions, guess.fixed)
    if len(sides) < len(operation.dimensions):
        return None
    shape = {name: sides[name] for name in operation.dimensions}
    if math.prod(shape.values()) > MOST_AT_ONCE:
        raise too_large(shape)
    guess.front["requires"] = {"conditions": [f"{name} == {side}" for name, side in shape.items()]}
    guess.notes.append(f"{CONSTANT}: {trying.size(shape)}")
    letters = operation.laid_out and not {*taken} & {*shape} and max(map(len, shape)) == 1
    for names in itertools.permutations(shape) if letters else ():  # other meanings of them
        named = str.maketrans("".join(shape), "".join(names))
        grid = [str(side).translate(named) for side in guess.front["grid"]]
        texts = [f"{name.translate(named)} == {side}" for name, side in shape.items()]
        guess.alternatives += [{**guess.front, "grid": grid, "requires": {"conditions": texts}}]
    if guess.literal and shape == guess.launched:
        trying.as_launched(guess, shape)
    return shape
