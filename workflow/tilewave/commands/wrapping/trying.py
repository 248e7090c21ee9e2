"""Trials of a guess on the CPU: the front matter that is correct, and the shapes that it takes."""

import contextlib
import copy
import functools
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewave.commands.wrapping.deriving import PITCH
from tilewave.commands.wrapping.guessing import DIVIDED, FLOORED, STEPS, Guess
from tilewave.commands.wrapping.matching import innermost, leaves, with_leading
from tilewave.compiling import nvcc
from tilewave.compiling.nvcc import UNDEFINED
from tilewave.kernel import result
from tilewave.kernel.expressions import ExpressionError, Sizes, evaluate, names_in
from tilewave.kernel.front_matter import GUESSED, INFERRED, load_kernel
from tilewave.kernel.operations.base import Operation

Shape = dict[str, int]
Front = dict[str, Any]
"""Front matter."""
Outcome = Mapping[str, Any]
Run = Callable[[Front, Shape], Outcome]
"""A function that executes front matter at a shape, and returns the document of `tilewave execute`."""
READS_C = "reads_c"
LAYOUTS = [dict.fromkeys(names, "col") for names in ("b", "a", "ab", "abc", "bc", "ac", "c")]
NEARER = 0.8
"""A change is noted if it brings a wrong product's error below this multiple of the guess's error."""
LEAST_K, UNKNOWN_K, UNKNOWN_TILE = 16, 128, 32
ENTRY = re.compile(r"entry (\S+) is none of the file's kernels, which are .*\{anonymous\}::\1\b")
"""Message for a kernel in a namespace without a name."""
BUDGET_S = 20.0
"""Seconds of all trials after the first."""
LATE: Outcome = {
    "status": result.NOT_MEASURED,
    "verdict": result.NOT_CHECKED,
    "reason": "no time was left",
}
"""The outcome of a trial that did not fit the budget: it says nothing about the kernel."""
MOST_LAUNCHED = 1 << 21
"""Most elements, or multiplications, of a trial at the sizes of the launch."""
FEW_BLOCKS, TURNS = 3, 32
"""Blocks of a trial that sums by block, or whose threads repeat a loop; their turns if each takes an element."""
BEYOND = 256
"""Size up to which a loop over vectors of a warp may not begin, and all elements belong to its remainder."""
BLOCKS = re.compile(r"ceil\((\w+(?: \* \w+)+) / (\d+)\)")
"""A side of a grid that covers a product of sizes."""
MULTIPLE = re.compile(r"\b(\w+) % (\d+) == 0")
POWER = "power_of_2({})"
FEW = 3
"""Size of a dimension that is a side of the grid."""
MOST_TILES = 256
"""Most tiles of a side, where the guessed size of a tile gave no block."""
MOST_FITTED = 1 << 20
"""Largest size that a grid which is rounded down gets to have a block."""
SEVERAL_TILES = 256
"""Least divisor of a grid that may hold several tiles, as the stride of a block does."""


def right(outcome: Outcome) -> bool:
    good = outcome["verdict"] in (result.CORRECT, result.NOT_CHECKED)
    return bool(outcome["status"] == result.OK and good)


def verdict(outcome: Outcome) -> str:
    """Return the verdict of a kernel that ran, else its status."""
    return str(outcome["verdict"] if outcome["status"] == result.OK else outcome["status"])


def size(shape: Sizes) -> str:
    return "x".join(map(str, shape.values()))


def named(shape: Sizes) -> str:
    return ", ".join(f"{name} = {side}" for name, side in shape.items())


def described(outcome: Outcome, shape: Sizes) -> str:
    return ": ".join(filter(None, (f"{verdict(outcome)} at {named(shape)}", outcome["reason"])))


def first_shape(guess: Guess) -> Shape:
    """Return one to three tiles a side; equal sizes would hide an argument that is another's."""
    operation, shape = guess.operation, Shape()
    if guess.shape:
        return shape_of(guess.shape, guess.front)
    sides = {str(side) for side in guess.front["grid"]}
    for name in operation.dimensions:
        tile = guess.tile[name]
        if name in operation.tiles[2:]:
            steps = 2 if tile <= UNKNOWN_K else 1
            shape[name] = max(steps * tile, LEAST_K) if tile else UNKNOWN_K
        elif name in sides:
            shape[name] = FEW
        else:
            size = tile if tile > 1 else UNKNOWN_TILE
            shape[name] = size if size >= 64 and operation.laid_out else 2 * size
            while list(shape.values()).count(shape[name]) > 1:
                shape[name] += size
    shape = shape_of(_powers(shape, guess.front), guess.front)
    largest = max(shape.values())
    grids = [guess.front["grid"], *(of["grid"] for of in guess.alternatives if guess.place)]
    while (small := _too_small(guess, shape, grids)) and max(shape.values()) < MOST_TILES * largest:
        grown = {name: 2 * side if name in small else side for name, side in shape.items()}
        shape = shape_of(grown, guess.front)
    apart = Shape()
    for name, side in shape.items():
        times = next(of for of in itertools.count(1) if of * side not in apart.values())
        apart[name] = times * side if operation.laid_out else side
    return apart if shape_of(apart, guess.front) == apart else shape


def fitted(guess: Guess, whole: bool, shape: Shape) -> Shape:
    """Return the shape with the multiples that the host demands, tiles that are sizes, and whole tiles if asked, or for a
    grid that is rounded down."""
    fits, floored = dict(shape), _too_small(guess, dict.fromkeys(shape, 1))
    passed = [*leaves(guess.front["arguments"])]
    tested = {of for at, of in enumerate(passed) if at in guess.tested}
    divided = DIVIDED.findall(" ; ".join(map(str, (*guess.front["grid"], *passed))))
    for over, under in (*divided, *guess.divided.items()):
        if {over, under} <= fits.keys() and (over not in tested or fits[over] < fits[under]):
            fits[over] += -fits[over] % fits[under]
    for name, step in ((guess.tile if whole or floored else {}) | guess.asserted).items():
        fits[name] += -fits[name] % step
        while step > 1 and list(fits.values()).count(fits[name]) > 1:
            fits[name] += step
    while floored and max(fits.values()) < MOST_FITTED and (small := _too_small(guess, fits)):
        fits |= {name: 2 * fits[name] for name in small}
    fits = _powers(fits, guess.front)
    pitches = filter(PITCH.fullmatch, fits if fits != shape else ())
    return shape_of(fits | dict.fromkeys(pitches, max(fits.values())), guess.front)


def _powers(shape: Shape, front: Front) -> Shape:
    """Return the shape with powers of two of the sizes on which the block depends: threads that meet in pairs need these."""
    powers = {name: 1 << shape[name].bit_length() - 1 for name in _of_block(front) & shape.keys()}
    return {**shape, **powers}


def _of_block(front: Front) -> set[str]:
    return {name for side in front.get("block", ()) for name in names_in(str(side))}


def threads(front: Mapping[str, Any], shape: Sizes, most: int = sys.maxsize) -> int:
    """Return the threads of a launch at a shape; 0 if its block or grid has no value, the largest number for a
    block of more than ``most``."""
    macros = {name: values[0] for name, values in front.get("macros", {}).items()}
    with contextlib.suppress(ExpressionError, TypeError):
        block, grid = (
            math.prod(int(evaluate(str(side), {**macros, **shape})) for side in front[key])
            for key in ("block", "grid")
        )
        return block * grid if block <= most else sys.maxsize
    return 0


def _too_small(guess: Guess, shape: Shape, grids: Sequence[Sequence[Any]] = ()) -> set[str]:
    """Return the sizes of a shape at which a side of a grid, the guessed one by default, has no blocks."""
    with contextlib.suppress(ExpressionError, TypeError):
        names = {**guess.macros(), **shape}
        all_sides = {str(side) for grid in grids or [guess.front["grid"]] for side in grid}
        sides = [side for side in sorted(all_sides) if evaluate(side, names) < 1]
        return {*shape} & {name for side in sides for name in names_in(side)}
    return set()


def fitting(guess: Guess, front: Mapping[str, Any], shape: Shape) -> Iterator[Shape]:
    """Yield shapes with rows of one or several blocks' threads, for a kernel with a block for each row."""
    inner, operands = innermost(guess.operation), guess.operation.operands.values()
    by_rows = all(operand.extents[-1:] in ((), (inner,)) for operand in operands)
    if guess.operation.laid_out or len(shape) < 2 or len(front["block"]) > 1 or not by_rows:
        return
    block = threads({**front, "grid": []}, {})
    for many in (1, 2, 4, 8) if block else ():
        yield shape_of({**shape, inner: many * block}, front)


def shape_of(shape: Shape, front: Mapping[str, Any]) -> Shape:
    """Return the shape with what the front matter requires: equal sizes, or a number."""
    equal = dict(shape)
    for condition in 2 * front.get("requires", {}).get("conditions", []):
        names = condition.split(" == ")
        if names[0] in equal and names[-1].isdigit():
            equal[names[0]] = int(names[-1])
        if {*names} <= equal.keys():
            equal |= dict.fromkeys(names, max(equal[name] for name in names))
    return equal


def settle(guess: Guess, run: Run, shape: Shape) -> tuple[Front, Outcome]:
    """Return the front matter that is correct at a shape, else the nearest, and its outcome; tries layouts, grids."""
    operation = guess.operation

    def once(front: Front, at: Shape) -> Outcome:
        return run(_final(front, operation), shape_of(at, front))

    better: Front | None = guess.front
    while better is not None:
        front, outcome = better, once(better, shape)
        better = repaired(front, outcome["reason"], guess)
    front, outcome = _with_c(front, outcome, once, shape)
    hopeless = without_judge(guess) or outcome["status"] == result.FAILED_TO_COMPILE
    if _judged(guess, outcome) or hopeless:
        return _final(front, operation), outcome
    nearest, change_text = (_final(front, operation), outcome), ""
    for change, description in _changes(front, guess):
        changed, tried = _with_c(change, once(change, shape), once, shape)
        if tried is LATE:
            guess.notes.append("other layouts and arguments were not tried: no time was left")
            break
        named = guess.named and changed["arguments"] != front["arguments"]
        nearer = changed.get("requires") == front.get("requires") and not named
        nearer = nearer and _error(tried) < NEARER * _error(nearest[1])
        if _judged(guess, tried) or nearer:
            nearest, change_text = (_final(changed, operation), tried), description
        if _judged(guess, tried):
            guess.faults += _turned(changed, front, guess)
            break
    if "conditions" in nearest[0].get("marks", {}).get("requires", ""):
        guess.notes.append(f"requires is inferred from this failure: {described(outcome, shape)}")
    if change_text:
        effect = "correct" if _judged(guess, nearest[1]) else "less wrong"
        guess.notes.append(f"it is {effect} with {change_text}")
    return nearest


def _turned(changed: Front, front: Front, guess: Guess) -> list[str]:
    """Return the fault of a kernel that is correct with x and y of its launch the other way round."""
    sure = guess.place and not guess.unknown.keys() & {"--grid", "--block"}
    same = changed["arguments"] == front["arguments"]
    turned = sure and same and changed["grid"] == front["grid"][::-1] != front["grid"]
    only = "it is right only where both sides of its grid are equal"
    return [f"the launch in {guess.place} has x and y the other way round: {only}"] * bool(turned)


def launched(guess: Guess) -> Shape:
    """Return the sizes of the file's launch, if all are numbers and few; else an empty shape."""
    shape, sizes = guess.launched, guess.operation.dimensions
    unknown = guess.unknown.keys() - ({"--grid"} if guess.literal else set())
    complete = guess.place and not unknown and {*shape} == {*sizes}
    few = complete and 0 < math.prod(shape.values()) <= MOST_LAUNCHED
    return {name: shape[name] for name in sizes} if few else {}


def alike(guess: Guess) -> list[str]:
    """Return the conditions that sizes are equal for which the launch passes one number."""
    pairs = itertools.combinations(guess.launched.items() if guess.place else (), 2)
    return [f"{name} == {other}" for (name, side), (other, of) in pairs if side == of]


def as_launched(guess: Guess, shape: Shape) -> None:
    """Take the launch's grid of numbers, which is right or wrong at the launch's sizes only."""
    sides = [f"{name} == {side}" for name, side in shape.items()]
    guess.front |= {"grid": guess.literal, "requires": {"conditions": sides}}
    guess.unknown.pop("--grid", None)
    guess.front.get("marks", {}).pop("grid", None)
    guess.notes[:] = [note for note in guess.notes if not re.search("--grid| with grid ", note)]
    guess.notes.append(f"the launch in {guess.place} has a fixed grid: it takes {named(shape)}")
    guess.alternatives.clear()


def at_its_sizes(guess: Guess, run: Run, front: Front) -> None:
    """Execute a correct kernel at the sizes of the file's launch too, with its grid of numbers if it has one."""
    shape = launched(guess)
    if not shape:
        return
    if guess.literal:  # then the grid is no guess
        marks = {key: of for key, of in front.get("marks", {}).items() if key != "grid"}
        front = {**front, "grid": guess.literal, "marks": marks}
    at = f"at {named(shape)}, the size of the launch in {guess.place}"
    _blame(guess, run(front, shape), at)


def _blame(guess: Guess, outcome: Outcome, at: str) -> None:
    if outcome["status"] in result.ENDS or outcome["verdict"] in (result.WRONG, *result.FINDINGS):
        guess.faults.append(f"{at}: {verdict(outcome)}: {outcome['reason']}")


def repeated(guess: Guess, run: Run, front: Front, shape: Shape) -> None:
    """Execute a correct kernel with a loop over the grid so that its threads repeat it, if the launch bounds the grid."""
    width, *rest = front["grid"]
    bounded = str(width).startswith("min(") or (isinstance(width, int) and width > FEW_BLOCKS)
    elements = TURNS * FEW_BLOCKS * threads({**front, "grid": []}, {})
    passed = str(width) in leaves(front["arguments"])
    if passed or not (guess.place and guess.strides and bounded and elements):
        return
    if len(shape) == 1:
        shape = {name: -(-elements // side) * side for name, side in shape.items()}
    at = f"where a thread repeats the loop over the grid, as at {named(shape)} in {FEW_BLOCKS} blocks"
    _blame(guess, run({**front, "grid": [FEW_BLOCKS, *rest]}, shape), at)


def without_judge(guess: Guess) -> bool:
    """Return whether the reference is a kernel that rests on a guess, which judges nobody."""
    kernel = guess.operation.kernel
    return kernel is not None and bool(load_kernel(kernel).marked(GUESSED))


def _error(outcome: Outcome) -> float:
    return float(outcome.get("check", {}).get("relative_error", math.inf))


def _with_c(front: Front, outcome: Outcome, once: Run, shape: Shape) -> tuple[Front, Outcome]:
    """Allow C to be read with beta = 0, or to be added to, if that was the fault, and try again."""
    if right(outcome) or READS_C not in outcome["reason"]:
        return front, outcome
    allowed = {**front, READS_C: True}
    outcome, added = once(allowed, shape), {**front, READS_C: "adds"}
    if not right(outcome) and _error(outcome) < NEARER and right(adds := once(added, shape)):
        return added, adds
    return allowed, outcome


def repaired(front: Front, message: str, guess: Guess) -> Front | None:
    """Add the macro or option that a message of the compiler asks for; None if unknown."""
    if ENTRY.search(message):
        return {**front, "entry": f"::{front['entry']}"}
    unknown, option = UNDEFINED.search(message), nvcc.option(message)
    compiler = front.get("compiler", {})
    options = compiler.get("options", [])
    if option and option not in options:
        guess.notes.append(f"the compiler needs {option}")
        return {**front, "compiler": {**compiler, "options": [*options, option]}}
    macros = front.get("macros", {})
    value = guess.constant(unknown[1]) if unknown and unknown[1] not in macros else None
    if unknown is None or value is None:
        return None
    guess.notes.append(f"{unknown[1]} is defined in another file, and becomes a macro")
    return {**front, "macros": {**macros, unknown[1]: [value]}}


def _final(front: Mapping[str, Any], operation: Operation) -> Front:
    """Replace leading dimensions in the arguments by sizes, according to the layouts."""
    final = copy.deepcopy(dict(front))
    final["arguments"] = with_leading(final["arguments"], final.get("layouts", {}), operation)
    return final


def _changes(front: Mapping[str, Any], guess: Guess) -> Iterator[tuple[Front, str]]:
    for alternative in guess.alternatives:
        keys = ("arguments", "grid", "block", "requires", "dtypes")
        changed = [of for of in keys if of in alternative and alternative[of] != front.get(of)]
        description = "; ".join(f"{key} {_shown(alternative[key])}" for key in changed)
        # Elements that the old grid did not write seemed to be read; a new grid may write them.
        dropped = READS_C if "grid" in changed else ""
        kept = {key: value for key, value in front.items() if key != dropped}
        if "requires" in changed:
            kept["marks"] = {**front.get("marks", {}), "requires": f"{INFERRED}: conditions"}
        yield {**kept, **{key: alternative[key] for key in changed}}, description
    for layouts in LAYOUTS if guess.operation.laid_out else ():
        description = ", ".join(f"{name} column-major" for name in layouts)
        yield {**front, "layouts": dict(layouts)}, description
    if "--grid" in guess.unknown and len(front["grid"]) == 2 and guess.operation.laid_out:
        grid = [str(side).translate(str.maketrans("mn", "nm")) for side in front["grid"]]
        yield {**front, "grid": grid}, "the rows of C along x"
    if front["dtypes"].get("accumulate") == "f32" and front["dtypes"]["a"] == "f16":
        yield {**front, "dtypes": {**front["dtypes"], "accumulate": "f16"}}, "sums in f16"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        pairs = value.items()
        return "; ".join(_shown(of) if isinstance(of, list) else f"{key} {of}" for key, of in pairs)
    return ", ".join(map(str, value))


def limits(guess: Guess, front: Front, run: Run, shape: Shape) -> Front:
    """Try other shapes, and return ``requires``: the multiples that the sizes must be."""
    judged, sizes = functools.partial(_judged, guess), guess.operation.dimensions
    steps = {name: int(front.get("requires", {}).get(name, 1)) for name in shape}  # of padded sizes
    rest = {of: int(step) - 1 for of, step in MULTIPLE.findall("; ".join(floored(front)))}
    ragged = {name: side + max(steps[name], rest.get(name, 0)) for name, side in shape.items()}
    ragged |= {of: ragged[of] + -ragged[of] % ragged[by] for of, by in guess.divided.items()}
    ragged = shape_of(ragged, front)
    fixed = [name for name, side in ragged.items() if side == shape[name]]
    requires: Front = dict(front.get("requires", {}))
    texts = requires.get("conditions", []) if "requires" in front.get("marks", {}) else []
    if texts:
        needed = [text for text in texts if not judged(run(front, _apart(text, texts, shape)))]
        requires["conditions"] = needed
        if not needed:  # only the first shape was too small
            del requires["conditions"]
            front |= {"requires": requires, "marks": {**front["marks"]}}
            del front["marks"]["requires"]
            return limits(guess, front, run, {**shape, sizes[0]: 2 * max(shape.values())})
        apart = guess.named and {*sizes} <= {*leaves(front["arguments"])}
        if apart and guess.place and not guess.unknown.keys() & {"--grid", "--block"}:
            where = " and ".join(needed)
            guess.faults.append(f"it takes {', '.join(sizes)}, but is right only where {where}")
    outcome = run(front, ragged)
    far = judged(outcome) and outcome["verdict"] == result.NOT_CHECKED
    if outcome is LATE or (judged(outcome) and not far):
        return requires
    if "conditions" in requires and not (fixed or far):
        front, tied = {**front, "requires": dict(requires)}, set[str]()
        for name in [of for of in leaves(front["arguments"]) if of in sizes] or sizes[:1]:
            limit = {} if name in tied else _limit_of(name, guess, front, run, shape)
            tied |= {of for of, side in _resized(shape, name, 0, front).items() if not side}
            requires["conditions"] = [*requires["conditions"], *limit.pop("conditions", [])]
            requires |= limit
        guess.faults += promised(name, guess, front, requires, described(outcome, ragged))
        return requires
    conditions: list[str] = list(requires.get("conditions", []))
    failed_shape, failures = ragged, 0
    for at, name in enumerate(sizes):
        side = max(-(-BEYOND // shape[name]), 1) * shape[name] if far else shape[name]
        base = _resized(shape, name, side, front)
        longer = _resized(base, name, side + steps[name], front)
        if name in {*fixed, *guess.divided} or any(
            longer[of] != base[of] for of in sizes[at + 1 :]
        ):
            continue  # another size that must equal it tells
        if far and (side == shape[name] or PITCH.fullmatch(name) or len(shape) == 1):
            continue
        alone = outcome if len(shape) == 1 else run(front, longer)
        if not judged(alone) and alone is not LATE and (not far or judged(run(front, base))):
            if not failures:
                outcome, failed_shape = alone, longer
            failures += 1
            limit = _limit_of(name, guess, front, run, base)
            if far and limit.get("conditions", [POWER.format(name)]) != [POWER.format(name)]:
                continue
            guess.faults += promised(name, guess, front, limit, described(alone, longer))
            conditions += limit.pop("conditions", [])
            requires |= limit
    conditions += [] if far else _of_products(guess, front, run, shape, requires)
    conditions += [] if guess.asserted else _of_whole_blocks(guess, front, run, shape, requires)
    if conditions:
        requires["conditions"] = conditions
    if far and not failures:
        return requires
    for name in guess.operation.tiles[2:]:
        step = requires.get(name, 0)
        multiples = [many * step for many in (1, 2, 3, 4) if step]
        shapes = ((side, _resized(shape, name, side, front)) for side in multiples)
        least = next((side for side, of in shapes if judged(run(front, of))), step)
        if least > step:
            requires["conditions"] = [f"{name} >= {least}"]
    text = described(outcome, failed_shape)
    guess.notes.append(f"requires is inferred from this failure: {text}")
    return requires


def _apart(condition: str, conditions: Sequence[str], shape: Shape) -> Shape:
    """Return a shape that breaks one of the conditions that sizes are equal, and no other."""
    all_names, names = " ".join(conditions).split(), condition.split(" == ")
    alone = next((name for name in names if all_names.count(name) == 1), names[0])
    return {**shape, alone: 2 * shape[alone]} if alone in shape else shape


def rounded_up(side: Any) -> bool:
    """Return whether a side of a grid has a block for the last elements, too."""
    return "ceil" in str(side) and ") //" not in str(side)


def floored(front: Mapping[str, Any]) -> dict[str, str]:
    """Return where the grid, which is rounded down, leaves nothing out, with its text: ``n % 64 == 0``."""
    wheres, macros = dict[str, str](), {of: each[0] for of, each in front.get("macros", {}).items()}
    sides = [of for of in map(str, front["grid"]) if not FLOORED.sub("", of).strip(" *()")]
    for over, under in FLOORED.findall(" ; ".join(sides)):
        with contextlib.suppress(ExpressionError, TypeError):
            step = int(evaluate(under, macros))
            wheres[f"{over} % {step} == 0"] = f"{over} / {step}"
    return wheres


def broken(conditions: Iterable[str], shape: Sizes) -> list[str]:
    """Return the conditions that a shape does not meet."""
    return [of for of in conditions if names_in(of) <= shape.keys() and not evaluate(of, shape)]


def _of_products(guess: Guess, front: Front, run: Run, shape: Shape, limit: Front) -> list[str]:
    """Return the conditions of `floored` on products of sizes, those beside which the kernel is not right."""
    conditions, steps = list[str](), {name: int(limit.get(name, 1)) for name in shape}
    for text in floored(front):
        names = names_in(text) if names_in(text) <= shape.keys() else set()
        beside = ({**shape, **{of: many * steps[of] for of in names}} for many in range(1, BEYOND))
        off = (of for of in beside if names and broken([text], of) and not _too_small(guess, of))
        other = next(off, None) if len(names) > 1 else None
        if other and not _judged(guess, run(front, shape_of(other, front))):
            conditions.append(text)
    return conditions


def _of_whole_blocks(guess: Guess, front: Front, run: Run, shape: Shape, limit: Front) -> list[str]:
    """Return the condition that a product of sizes fills its blocks, in place of multiples that each of them must be."""
    for over, under in BLOCKS.findall(" ; ".join(map(str, front["grid"]))):
        names = [name for name in over.split(" * ") if int(limit.get(name, 1)) > 1]
        many = math.prod(shape.get(name, 1) for name in over.split(" * "))
        fills = (many // shape[name] * int(limit[name]) % int(under) == 0 for name in names)
        others = [name for name in over.split(" * ") if name not in names]
        odd = {name: shape[name] + 1 for name in names} | dict.fromkeys(others[:1], int(under))
        alone = others and names and {*others} <= shape.keys()
        if all(fills) and (names[1:] or (alone and _judged(guess, run(front, {**shape, **odd})))):
            for name in names:
                del limit[name]
            return [f"{over} % {under} == 0"]
    return []


def promised(name: str, guess: Guess, front: Front, limit: Sizes, failure: str) -> list[str]:
    """Return the failure at an edge as a fault, if the kernel has a bounds test of the size or the launch rounds it up;
    an assertion says itself what the kernel takes."""
    tested = [of for at, of in enumerate(leaves(front["arguments"])) if at in guess.tested]
    up = any(name in names_in(str(side)) for side in filter(rounded_up, front["grid"]))
    guessed = guess.faults or guess.unknown.keys() & {"--grid", "--block"}
    # A constant size that the launch divides is right or wrong as it is.
    down = any(name in names_in(side) for side in map(str, front["grid"]) if "//" in side)
    up = up and bool(guess.place) and name not in guess.asserted
    step = int(limit.get(name, 0))
    stated = failure.startswith(result.ASSERTION_FAILED)
    if guessed or stated or not step or not (name in tested or up):
        return []
    asserted = guess.asserted.get(name, 1) % step == 0 < step - 1
    if guess.launched.get(name, 1 - asserted) % step == 0 and (down or asserted):
        return []
    launch = f"the launch in {guess.place} rounds {name} up to whole blocks"
    promise = f"it has a bounds test of {name}" if name in tested else launch
    return [f"although {promise}, the outcome is {failure}"]


def _judged(guess: Guess, outcome: Outcome) -> bool:
    """Return whether the outcome is correct; not checked counts only without a reference kernel."""
    checked = guess.operation.kernel is None or outcome["verdict"] == result.CORRECT
    return right(outcome) and checked


def _resized(shape: Shape, name: str, side: int, front: Front) -> Shape:
    """Return a shape with another size, and those that must equal it."""
    other = shape_of({**shape, name: 1 + max(shape.values())}, front)
    return {**shape, **{of: side for of in shape if other[of] == other[name]}}


def _limit_of(name: str, guess: Guess, front: Front, run: Run, shape: Shape) -> Front:
    """Return the least multiple that a size must be, a power of two below the tile, or its remainder."""

    def holds(size: int) -> bool:
        return _judged(guess, run(front, _resized(shape, name, size, front)))

    tile = guess.tile[name]
    if not guess.operation.laid_out:
        step = tile if tile > 1 else STEPS[-1]
        if not holds(shape[name] + step):
            parts = (2, 3) if name in _of_block(front) else ()
            held = [holds(shape[name] * part // 4) for part in parts]  # a formula may judge there
            power = held == [True, False] and shape == _powers(shape, front)
            return {"conditions": [POWER.format(name) if power else f"{name} == {shape[name]}"]}
        while step % 2 == 0 and holds(shape[name] + step // 2):
            step //= 2
        if step == shape[name] and step & (step - 1) == 0 and not holds(3 * step):
            return {"conditions": [POWER.format(name)]}
        if rest := shape[name] % step:
            return {"conditions": [f"{name} % {step} == {rest}"]}
        return {name: step}
    if tile > 1:
        while tile >= SEVERAL_TILES and tile % 2 == 0 and holds(tile // 2):
            tile //= 2
        return {name: next((step for step in (tile, 2 * tile, 4 * tile) if holds(3 * step)), tile)}
    steps = sorted({*STEPS, guess.asserted.get(name, STEPS[0])})
    return {name: next((step for step in steps if holds(3 * step)), shape[name])}
