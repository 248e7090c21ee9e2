"""Front matter of a kernel, guessed from its operation, its signature and its launch."""

import contextlib
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import constant_memory, matching, reading, scopes
from tilewave.commands.wrapping.arithmetic import Unknown, number, of_tokens, outside, plain
from tilewave.commands.wrapping.matching import Roles, leaves, unassigned, usual
from tilewave.commands.wrapping.reading import Function, Launch, Source
from tilewave.commands.wrapping.scopes import Scope, parts, spelled
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Stream, Token, Tokens, tokens
from tilewave.kernel.expressions import FUNCTIONS, ExpressionError, evaluate, names_in
from tilewave.kernel.front_matter import GUESSED
from tilewave.kernel.launches import BLOCK_LIMIT
from tilewave.kernel.operations.base import Operation
from tilewave.theory.dtypes import SIZES

TABLES = table_beside(__file__)
K_STEP, NUMBER, THREADS, TILE, HEAD, UNROLLED, FLOORED, DIVIDED = (
    re.compile(TABLES[key])
    for key in "k_step number threads tile head unrolled floored divided".split()
)
SIDE = 16
"""A side of a guessed block, and of a tile whose size nothing says."""
ASSERTED = str(TABLES["asserted"])
WARP, WARP_WIDE = 32, re.compile(r"\bmma_sync\b|\bmma\.sync|\bldmatrix\b")
FRAGMENT = re.compile(r"\bmatrix_[ab] , ([^,;]+) , ([^,;]+) , ([^,;]+) ,")
C_TYPES = {"tf32": "float", "f16in32": "float"} | {
    dtype: kind for kind, dtype in reversed(scopes.DTYPES.items())
}
STEPS = (8, 16, 32, 64)
DYNAMIC = re.compile(r"\bextern\b|\basm\b|smem_?size", re.IGNORECASE)
"""What may use dynamic shared memory."""
EPSILON, SOME, SCALE = 1e-5, 0.5, 200.0
"""Guesses for a real number without a value: for names such as eps, for others, and for what scales 1 beyond 8 bits."""
OUTPUTS = ("_c", "_out", "_output", "_y")
"""Ends of the names of numbers by which a result is divided."""
SUMMED = 10
"""Bits by which a sum of products of 8-bit numbers is usually longer than these."""
MOST_SHARED = 48 << 10
"""Most dynamic shared memory in bytes that a launch gets without an attribute."""
ATTRIBUTE, MOST_ASKED = "MaxDynamicSharedMemorySize", 200 << 10
"""The attribute, and bytes that a launch may have with it beside a small static array."""
WRITTEN = ". Write a struct as the list of its members, [m, n, k] or []"
SAME = "each of its blocks does the same, and one was executed"
UNUSED = "it does not use its parameter"
WHERE = "in all trials"
"""Start of a note on what a kernel takes: a size that is the extent of a thread's array, letters, or a device's number."""
TAKES = "is all that the code takes"
LARGE, REST, WHOLE_NUMBER = 256, 64, re.compile(r"[\dULul()*+< -]+")
"""Largest constant of a kernel that needs no smaller one, a multiple of most tiles, and how a constant is written."""
Names = dict[str, str]
ROWS = "rows"
"""The size of a kernel that nothing launches and whose blocks have a row each."""
PREFIX = "T_"
"""Prefix of a template parameter's macro, because a macro of the same name would replace the parameter."""


@dataclass
class Guess:
    """Front matter, and what of it is uncertain.

    unknown: flag -> a suggestion for what the code does not say; notes: remarks for the user; tile: rows,
    columns and step of a block by size, 1 or 0 if unknown; values: template arguments; constant: returns the
    value of a name from the files around, or None; alternatives: other front matter that the code allows;
    shape: sizes of an earlier execution; place: that of the launch, empty without one; launched: the sizes of the
    launch, of those that are numbers; literal: the launch's grid, where it is numbers that front matter scales;
    fixed: a constant that each size seems to be, or 0;
    twin: the launched kernel whose block and grid it takes; named: whether the sizes are those of the parameters' names; tested: places of the parameters that a bounds test
    names; asserted: multiples of sizes that the host, or a loop, demands; divided: those of another size; strides: whether a loop steps over the grid; widths: elements of a guessed block along x and y, if not its threads; faults:
    what is not right with the kernel as the file launches it.

    The key `marks` of front matter has comments for other keys: what is guessed, or inferred from a trial."""

    front: dict[str, Any]
    operation: Operation
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tile: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    constant: Callable[[str], int | None] = lambda name: None
    alternatives: list[dict[str, Any]] = field(default_factory=list)
    shape: dict[str, int] = field(default_factory=dict)
    place: str = ""
    launched: dict[str, int] = field(default_factory=dict)
    literal: list[int | str] = field(default_factory=list)
    fixed: int = 0
    twin: str = ""
    named: bool = False
    tested: frozenset[int] = frozenset()
    asserted: dict[str, int] = field(default_factory=dict)
    divided: dict[str, str] = field(default_factory=dict)
    strides: bool = False
    widths: list[int | str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def mark(self, key: str) -> None:
        self.front["marks"] = {**self.front.get("marks", {}), key: GUESSED}

    def share(self, source: Source) -> None:
        """Guess so much dynamic shared memory that an unknown size hides no other fault."""
        more = not self.place or any(ATTRIBUTE in text for text in source.texts.values())
        self.front["shared_bytes"] = MOST_ASKED if more else MOST_SHARED
        self.unknown["--shared"] = str(self.front["shared_bytes"])

    def macros(self) -> dict[str, Any]:
        return {name: values[0] for name, values in self.front.get("macros", {}).items()}


@dataclass(frozen=True)
class Code:
    """A kernel and its launch; the place of a missing launch is empty."""

    function: Function
    source: Source
    launch: Launch


def _template(guess: Guess, code: Code, dtype: str, entry: str) -> tuple[str, Names, Names]:
    """Return the entry, the macros of the host's names for template arguments, and types by parameter."""
    function, scope = code.function, code.launch.scope
    macros, names, types = dict[str, list[Any]](), Names(), Names()
    arguments, missing = list[str](), list[str]()
    values = code.launch.template or _instantiated(function, code.source)
    for i, parameter in enumerate(function.template):
        value = values[i] if i < len(values) else parameter.default
        macro, kind = PREFIX + parameter.name, code.source.plain(parameter.kind)
        enumerated = not {*kind.removeprefix("std::").split()} <= {*scopes.WHOLE, "bool"}
        value = scope.literal(value) if enumerated else value
        text = "".join(token.text for token in value)
        if parameter.is_type:
            plain = text in scopes.DTYPES or "::" in text
            in_fragment = re.search(rf"matrix_[ab] ,[^;>]*\b{parameter.name}\b", function.text)
            likely = C_TYPES[dtype or ("f16" if in_fragment else "f32")]
            types[parameter.name] = text if plain else likely
            names |= {} if plain else {text: types[parameter.name]}
            arguments.append(types[parameter.name])
            if not plain and not dtype:
                note = f"type {parameter.name} is a guess: {likely} (--dtype changes it)"
                guess.notes.append(note)
            continue
        if value and (entry or not any(token.word for token in value)):
            arguments.append(text)
            guess.values[parameter.name] = number(value, scope)
            continue
        try:
            count = number(value, scope)
            if enumerated:
                arguments.append(text)
                continue
            macros[macro] = [count]
        except Unknown:
            if text in ("true", "false"):
                arguments.append(text)
                continue
            earlier = {name.removeprefix(PREFIX): str(of[0]) for name, of in macros.items()}
            earlier |= {name: str(of) for name, of in guess.values.items()}
            with contextlib.suppress(Unknown, ExpressionError):
                macros[macro] = [int(evaluate(of_tokens(parameter.default, scope, earlier)))]
                arguments.append(macro)
                names[text] = macro
                guess.notes.append(f"{parameter.name} is a guess: its default (--entry changes it)")
                guess.mark("macros")
                continue
            side = SIDE if function.mentions("threadIdx", ".", "y") else SIDE**2
            tile = TILE.fullmatch(parameter.name) and (side == SIDE or "lock" in parameter.name)
            tile = tile or "BLOCK" in parameter.name
            likely = _elsewhere(parameter.name, code.source) or side * bool(tile)
            if likely or kind == "bool":
                macros[macro] = [likely]
                guess.notes.append(f"{parameter.name} is a guess: {likely} (--entry changes it)")
                guess.mark("macros")
            else:
                missing.append(f"{parameter.kind} {parameter.name}")
                macros[macro] = [8]
        arguments.append(macro)
        if len(value) == 1 and value[0].word:
            names[value[0].text] = macro
    if missing:
        needed = ", ".join(missing)
        guess.unknown["--entry"] = f"{function.qualified}<...> with a value for {needed}"
    if macros:
        guess.front["macros"] = macros
    entry = f"{function.qualified}<{', '.join(arguments)}>" if arguments else function.qualified
    if function.overload:
        entry = f"static_cast<void (*)({function.overload})>({entry})"
    return entry, names, types


def _elsewhere(name: str, source: Source) -> int | None:
    """Return the value of a template parameter of this name at another kernel's launch, or of such a constant."""
    launches = ((of, to) for of in source.functions() for to in source.launches(of.name))
    for function, launch in launches:
        for parameter, value in zip(function.template, launch.template):
            with contextlib.suppress(Unknown):
                if parameter.name == name:
                    return number(value, launch.scope)
    return constant(source, name) or constant(source, name.upper())


def _instantiated(function: Function, source: Source) -> Sequence[Tokens]:
    """Return the arguments of an explicit instantiation in the file."""
    form = re.compile(rf"template (?!<).*?\b{function.name} < (.*?) > \(")
    heads = (spelled(item.head) for _, item in source.near.declarations(function.name))
    match = next(filter(None, map(form.match, heads)), None)
    return parts(tokens(match[1])) if match else []


def _sides(sides: Stream, launch: Launch, names: Mapping[str, str]) -> list[int | str]:
    """Translate a grid or block, from a dim3 (its name or its value) or a number. Raises Unknown."""
    if re.fullmatch(r"\( \w+ \)", spelled(sides)):  # the argument of a macro
        sides = sides[1:-1]
    name, scope = spelled(sides), launch.scope
    passed = any(of.word for of in scope.given.get(name, ()))
    if scope.caller and passed and scope.value(name) in (None, scope.passed.get(name)):
        there = {
            plain(of, scope.caller): names[at] for at, of in scope.given.items() if at in names
        } | {of: size for of, size in names.items() if of.startswith(".")}  # a struct's members
        with contextlib.suppress(Unknown):
            return _sides(scope.given[name], replace(launch, scope=scope.caller), there)
    call = re.match(r"(\w+) \(", name)
    call = call if call and syntax.closing(sides, 1) == len(sides) - 1 else None
    listed = parts(sides[2:-1]) if call else []
    if call and call[1] not in FUNCTIONS and (returned := scope.returned(call[1], len(listed))):
        inside, parameters, value = returned
        given = (f"({of_tokens(of, scope, names)})" for of in listed)
        return _sides(value, replace(launch, scope=inside), dict(zip(parameters, given)))
    groups = parts(sides[2:-1] if spelled(sides[:1]) == "dim3" else sides)
    if len(sides) == 1 and sides[0].word and sides[0].text not in names:
        values = zip("xyz", [*parts(scope.value(name) or ()), (), (), ()])
        named = [scope.value(f"{name}.{axis}") or side for axis, side in values]
        groups = [side or (Token("1", 0),) for side in named] if any(named) else groups
    texts = [of_tokens(part, launch.scope, names) for part in groups]
    if any("// 0" in text or not (names_in(text) or evaluate(text)) for text in texts):
        raise Unknown(", ".join(texts))  # a call sets the name that is 0
    return reading.shortened([int(text) if text.isdigit() else text for text in texts])


NEW_OPERATION = "--new-operation NAME (docs/operations.md)"
"""Advice for a kernel that fits no operation."""


def guessed(
    function: Function,
    source: Source,
    operation: Operation,
    dtype: str = "",
    roles: Roles = None,
    entry: str = "",
    stated: Roles = None,
) -> Guess:
    """Guess the front matter of a kernel of an operation; entry, stated: the user's instantiation, and arguments by parameter."""
    front: dict[str, Any] = {"title": _title(function.name), "operation": operation.name}
    guess = Guess(front, operation)
    guess.constant = functools.partial(constant, source)
    without = Launch((), (), (), (), (), outside(source), "")
    launch = next(iter(source.launches(function.name)), without)
    if "<" in entry:
        text = entry[entry.index("<") + 1 : entry.rindex(">")]
        launch = replace(launch, template=tuple(parts(tokens(text))))
    guess.place, code = launch.place, Code(function, source, launch)
    grid = {token.text for token in (*launch.grid, *launch.scope.literal(launch.grid))}
    taken_names = function.declaration.identifiers - {item.name for item in function.parameters}
    guess.strides = function.strides_by_grid and not grid & (taken_names - {"min"})
    instance, names, types = _template(guess, code, dtype, entry)
    names |= {name: size for name, size in (roles or {}).items() if "(" in name}
    arguments = matching.arguments_of(function.parameters, operation, stated or roles)
    unknown = unassigned(function.parameters, arguments)
    vector = matching.of_vector(function, operation)
    if vector and "k" not in arguments:
        arguments = ["k" if argument == "n" else argument for argument in arguments]
        guess.front["requires"] = {"conditions": ["n == 1", *["m == k"] * ("m" not in arguments)]}
    elif vector and {*arguments} & {*operation.dimensions} == {"k", "n"}:
        first = next(item.name for item in function.parameters if item.stars)
        if not re.search(rf"\b{first} (?!\[ \w+ \])", function.text):  # it is the vector
            guess.front["requires"] = {"conditions": ["m == 1"]}
    named = matching.indexed(function, arguments, operation, unknown)
    sides = {*named.values(), *arguments} & {*operation.dimensions}
    if named and {*named} == {*unknown} and operation.name == "matmul" and sides == {"k", "n"}:
        arguments = [named.get(item.name, of) for item, of in zip(function.parameters, arguments)]
        guess.front["requires"], unknown = {"conditions": ["m == k"]}, []
    unknown = _with_numbers(guess, code, types, arguments, unknown)
    guess.front["dtypes"] = _dtypes(guess, code, types, dtype, arguments)
    if unknown:
        missing = [item for item in function.parameters if item.name in unknown]
        typed = str(function.nested(arguments)).replace("None", "?").replace("'", "")
        suggestion = f"{typed[1:-1]}, with a value for each ? ({', '.join(unknown)})"
        if any(parameter.stars for parameter in missing):
            remedy = f"write an operation with {NEW_OPERATION}"
            suggestion += f". If {operation.name} has no such array, {remedy}"
        if any(not parameter.stars and not NUMBER.search(parameter.type) for parameter in missing):
            kinds = dict.fromkeys(item.type for item in missing if item.type.isidentifier())
            declared = {of.name for of in function.template}
            declared |= {name for _, of in source.declarations() for name in (of.name, *of.names)}
            absent = ", ".join(of for of in kinds if of not in declared and not NUMBER.search(of))
            undefined = f". No file that was read defines {absent} (--include FOLDER)"
            suggestion += undefined if absent else WRITTEN
        guess.unknown["--arguments"] = suggestion
    pairs = list(zip(function.parameters, arguments))
    taken = [(item.name, of) for item, of in pairs if of in operation.dimensions]
    tests = enumerate(function.tests(item.name) for item in function.parameters)
    guess.tested = frozenset(at for at, tested in tests if tested)
    guess.named = all(matching.dimension(name, operation) == of for name, of in taken)
    for value, argument in zip(function.launch_arguments(launch.arguments), arguments):
        with contextlib.suppress(Unknown):
            if value and argument in operation.dimensions:
                guess.launched[argument] = number(value, launch.scope)
    sizes = operation.dimensions
    single = len([argument for argument in arguments if argument in sizes]) == 1 < len(sizes)
    equal = {"conditions": [f"{size} == {after}" for size, after in itertools.pairwise(sizes)]}
    square = operation.laid_out or operation.name == "transpose"
    if single and square and not vector and guess.launched:
        guess.launched = dict.fromkeys(sizes, *guess.launched.values())
    derived = roles is not None or (sizes[1:] and not square)
    constants = {} if derived or {*arguments} & {*sizes} else _of_grid(code)
    if len(constants) == 1 and not {*constants} & function.declaration.identifiers:
        names |= dict.fromkeys(constants, matching.innermost(operation))
        guess.launched = dict.fromkeys(sizes, *constants.values())
        guess.front |= {"requires": equal} if sizes[1:] else {}
    elif square and not {matching.dimension(of, operation) for of in constants} & {*sizes}:
        guess.fixed = max(constants.values(), default=0)
    guess.notes += [f"{WHERE} {name} is {of}" for name, of in _of_device(launch).items()]
    multiples = _asserted(code, arguments, sizes)
    guess.notes += [f"{of} % {step} == 0 {TAKES}" for of, step in multiples.items()]
    guess.asserted = {of: step for of, step in multiples.items() if isinstance(step, int)}
    guess.divided = {of: step for of, step in multiples.items() if isinstance(step, str)}
    guess.front["arguments"] = function.nested(arguments)
    guess.front["entry"] = entry or instance
    _geometry(guess, code, names, arguments)
    if not guess.place and "--block" in guess.unknown:
        code = _as_twin(guess, code, names, arguments)
    threads = _threads(guess.front["block"])
    if guess.place and threads % WARP and WARP_WIDE.search(function.text):
        text = f"the launch in {guess.place} has blocks of {threads} thread{'s' * (threads > 1)}"
        guess.faults.append(f"{text}, and its matrix instructions are those of whole warps")
    if single and operation.laid_out and not vector:
        guess.front["requires"] = equal
    for alternative in matching.alternatives(function, arguments, operation):
        changed = {**guess.front, "arguments": function.nested(alternative)}
        scratch = replace(guess, front=changed, unknown={}, notes=[])
        _geometry(scratch, code, names, alternative)
        guess.alternatives.append(scratch.front)
        turned = _other_grids(scratch)[:1] if "--grid" in scratch.unknown else []
        guess.alternatives += [{**scratch.front, "grid": grid} for grid in turned]
    _add_grids(guess)
    units = {"alpha": 1.0, "beta": 0.0}
    ignored = [item.name for item in function.parameters if not function.mentions(item.name)]
    numbers = [
        units.get(argument, argument) if item.name in ignored else argument
        for item, argument in zip(function.parameters, arguments)
    ]
    if numbers != arguments:
        guess.alternatives.insert(0, {**guess.front, "arguments": function.nested(numbers)})
        guess.notes.append(f"the kernel ignores its parameters {', '.join(ignored)}")
    if len(sizes) > 1 and "requires" not in guess.front:
        guess.alternatives.append({**guess.front, "requires": equal})
    if not operation.laid_out and sizes[1:] and {*guess.front["grid"]} == {1} and guess.place:
        rows = [f"{size} == 1" for size in sizes[:1] if size not in arguments]
        single_row = {**guess.front, "requires": {"conditions": rows}}
        guess.alternatives[:0] = [single_row] if rows and "requires" not in guess.front else []
    dtypes = guess.front["dtypes"]
    converts = any("2half" in name for name in function.declaration.identifiers)
    if converts and dtypes.get("a") == dtypes.get("accumulate") == "f32":
        rounded = {"a": "f16in32", "b": "f16in32", "accumulate": "f32"}
        guess.alternatives.append({**guess.front, "dtypes": dtypes | rounded})
    _tiles(guess, code)
    for name, small in source.smaller.items():
        guess.notes.append(f"{name} = {small} is a guess: its own value is too large to execute")
        front.setdefault("compiler", {}).setdefault("constants", {})[name] = small
    for name, values in constant_memory.values(source, taken_names).items():
        first, *more = values.split(", ")
        how = f"here with {first}{', ...' * bool(more)}" if values else "zero here"
        guess.notes.append(f"{name} is __constant__ memory that the host fills: {how}")
        if values:
            front.setdefault("compiler", {}).setdefault("constants", {})[name] = values
    return guess


def _with_numbers(
    guess: Guess, code: Code, types: Mapping[str, str], arguments: list[Any], unknown: Sequence[str]
) -> list[str]:
    """Set unknown numbers from the launch, else guess real ones; return what is still unknown."""
    function, launch = code.function, code.launch
    for twin in () if launch.place else code.source.functions():
        if twin.parameters == function.parameters:  # what belongs together there does so here
            launch = next(iter(code.source.launches(twin.name)), launch)
    values = function.launch_arguments(launch.arguments)
    derived = type(guess.operation).reference is Operation.reference
    small, sizes = _requantising(function, unknown), dict[str, set[Any]]()
    dimensions = {*guess.operation.dimensions}
    partly = guess.operation.laid_out and not dimensions <= {*arguments}
    ranged = any("range" in of.name.lower() for of in function.parameters)  # it holds all inputs
    for of, argument in zip(values, arguments):
        sizes.setdefault(spelled(of), set()).add(argument)
    for at, parameter in enumerate(function.parameters):
        kind = types.get(parameter.type, parameter.type)
        missing = parameter.name in unknown and not parameter.stars
        if missing and partly and function.tests(parameter.name):
            continue  # a size, although the host passes a number here
        if missing and values[at] and {*kind.split()} <= scopes.NUMBERS:
            tied = sizes.get(spelled(values[at]), set()) & {*guess.operation.dimensions}
            if len(tied) == 1 and values[at][0].word:
                (arguments[at],) = tied  # a stride is the size that the host passes for both
                continue
            with contextlib.suppress(Unknown):
                arguments[at] = number(values[at], launch.scope)
                name = re.escape(spelled(values[at]))
                if re.search(rf"\b{name} [|&^] =", spelled(launch.scope.body)):
                    here = f"{parameter.name} is {arguments[at]} here"
                    guess.notes.append(f"{here} (--arguments changes it)")
        if missing and arguments[at] is None and function.ignores(parameter.name):
            arguments[at] = 0
            guess.notes.append(f"{UNUSED} {parameter.name}")
        real = kind == "bool" or (derived and kind in scopes.REAL)
        if missing and arguments[at] is None and real:
            try:
                if parameter.name in small and any(of.word for of in values[at]):
                    raise Unknown(parameter.name)
                value = float(evaluate(of_tokens(values[at], launch.scope, {}, real=True)))
                arguments[at] = bool(value) if kind == "bool" else value
            except (Unknown, ExpressionError, TypeError):
                lower = parameter.name.lower()
                some = 2 * SOME if ranged else SOME
                likely = EPSILON if "eps" in lower else -some if "min" in lower else some
                likely *= 1 + ("range" in lower)
                while likely in arguments[:at] and "eps" not in lower:
                    # Equal numbers make different formulas the same; a decay is below 1.
                    likely = (1 + likely) / 2 if 0 < likely < 1 else 1.5 * likely
                if "scale" in lower and _narrows(function, types):
                    likely = SCALE ** (-1 if f"/ {parameter.name} " in function.text else 1)
                arguments[at] = small.get(parameter.name, likely)
                arguments[at] = parameter.name != function.off if kind == "bool" else arguments[at]
                chosen = f"{parameter.name} is a guess: {arguments[at]}"
                guess.notes.append(f"{chosen} (--arguments changes it)")
    return unassigned(function.parameters, arguments)


def _narrows(function: Function, types: Mapping[str, str]) -> bool:
    """Return whether a kernel makes whole numbers of 8 bits of real ones."""
    kinds = {types.get(of.type, of.type): of.constant for of in function.parameters if of.stars}
    sizes = {SIZES.get(scopes.DTYPES.get(kind, "")) for kind in kinds if not kinds[kind]}
    return 1 in sizes and not scopes.REAL.isdisjoint(kinds)


def _requantising(function: Function, unknown: Sequence[str]) -> dict[str, float]:
    """Return scales with which sums of products of 8-bit numbers seldom leave 8 bits, if all arrays have these: different
    powers of two, so that products with them are exact."""
    arrays = {scopes.DTYPES.get(of.type) for of in function.parameters if of.stars}
    names = [of.name for of in function.parameters if of.type in scopes.REAL and of.name in unknown]
    if arrays != {"i8"} or not function.mentions("for"):
        return {}
    powers = [*range(2, 1 + len(names)), SUMMED - sum(range(2, 1 + len(names)))]
    divisors = {of for of in names if re.search(rf"/ {of}\b", function.text)}
    divisors |= {of for of in names if of.lower().endswith(OUTPUTS)}
    return {name: 2.0 ** (of if name in divisors else -of) for name, of in zip(names, powers)}


def constant(source: Source, name: str) -> int | None:
    """Return the value of a constant, enumerator or macro; None if unknown."""
    try:
        return number([Token(name, 0, word=True)], outside(source))
    except Unknown:
        return None


def meanings(names: list[str], source: Source) -> Iterator[tuple[str, Stream]]:
    """Yield names and what the files say of them, also those of the names therein, which the list gets."""
    for name in filter(str.isidentifier, names):
        macro, value = source.near.macros.get(name), source.near.constant(name) or ()
        value = tokens(macro.body) if macro else value
        names += dict.fromkeys(of.text for of in value if of.word and of.text not in names)
        yield name, value


def smaller(function: Function, source: Source) -> dict[str, str]:
    """Return smaller values of the large constants of a kernel, those of its block and its shared memory left out.

    They have the same rest by most tiles, the same order, and are equal where the constants are."""
    names, kept, values = [*function.declaration.identifiers], list[str](), dict[str, int]()
    for launch in source.launches(function.name):
        kept += [token.text for token in (*launch.block, *launch.scope.literal(launch.block))]
    kept += re.findall(r"\w+", " ".join(re.findall(r"__shared__ [^;]*;", function.text)))
    for listed in names, kept:
        for name, value in meanings(listed, source):
            if WHOLE_NUMBER.fullmatch(spelled(value)):
                values[name] = constant(source.near, name) or 0
    large = {of: values[of] for of in sorted({*names} - {*kept}) if values.get(of, 0) > LARGE}
    order = sorted({*large.values()})
    return {of: str((2 + order.index(many)) * REST + many % REST) for of, many in large.items()}


def governing(function: Function, source: Source, line: str) -> set[str]:
    """Return the names on which it depends where and whether the arrays of a line that are no parameters are written;
    empty if it has none, or the kernel passes one on."""
    text = HEAD.sub(lambda head: head[0].replace(";", ","), function.text)
    passed, names, around, closed = {of.name for of in function.parameters}, list[str](), [""], ""
    arrays = "|".join({*re.findall(r"\b(\w+)\s*\[", line)} - passed) or "$"
    if not re.search(rf"\b(?:{arrays}) \[", text) or re.search(rf"\b(?:{arrays}) (?!\[)", text):
        return set()
    for code, end in re.findall("([^;{}]*)([;{}])", text):
        heads = [*HEAD.findall(code), closed * (code.split()[:1] == ["else"])]
        indices = re.findall(rf"\b(?:{arrays}) ((?:\[[^\]]*\] ?)+)", code)
        if indices or re.search(r"\b(?:return|break|continue)\b", code):
            names += re.findall(r"\w+", " ".join((*indices, *heads, *around)))
        if end == "{":
            around.append(" ".join(heads))
        elif end == "}" and around[1:]:
            closed = around.pop()
    for name, _ in meanings(names, source):
        texts = re.findall(rf"\b{name} (?:[-+*/%&|^] |< < |> > )?= ([^;{{}}]*)", text)
        names += {*re.findall(r"\w+", " ".join(texts))} - {*names}
    return {*names}


def _title(name: str) -> str:
    title = " ".join(re.sub(r"(?<=[a-z\d])(?=[A-Z])|_", " ", name).split())
    return title[:1].upper() + title[1:]


def _dtypes(
    guess: Guess, code: Code, types: Mapping[str, str], dtype: str, arguments: Sequence[Any]
) -> dict[str, str]:
    function, source, operands = code.function, code.source, guess.operation.operands
    by_operand: dict[str, str] = {}
    for parameter, argument in zip(function.parameters, arguments):
        if parameter.stars and argument in operands:
            kind = types.get(parameter.type) or source.plain(parameter.type)
            plain = re.sub(r"[24]$", "", kind) if kind not in scopes.DTYPES else kind
            by_operand[str(argument)] = scopes.DTYPES.get(plain.replace("nvcuda::", ""), "")
    text = "\n".join(source.texts[path] for path in source.kernel_files)
    if not all(by_operand.values()) and not dtype:
        unknown = ", ".join(name for name, dtype_ in by_operand.items() if not dtype_)
        guess.unknown["--dtype"] = f"the type of {unknown}, such as f32 or f16"
    first = next(iter(by_operand.values()), "") or "f32"
    dtypes = {
        name: (by_operand.get(name) if operand.written or not dtype else "") or dtype or first
        for name, operand in operands.items()
    }
    if "accumulate" not in guess.operation.needs_dtypes:
        return dtypes
    if "precision::tf32" in text or ".tf32" in text:
        dtypes |= {name: "tf32" for name in "ab" if dtypes[name] == "f32"}
    accumulate = {"f16": _f16_sum(function, text), "i8": "i32", "u8": "i32"}
    accumulate |= dict.fromkeys(("bf16", "tf32", "e4m3", "e5m2"), "f32")
    return {**dtypes, "accumulate": accumulate.get(dtypes["a"], dtypes["a"])}


def _f16_sum(function: Function, code: str) -> str:
    """Return the type in which a product of f16 is summed: f16 or f32."""
    if re.search(r"f32\.f16\.f16\.f32|accumulator[^;]*\bfloat\b", code):
        return "f32"
    if re.search(r"f16\.f16\.f16\.f16|accumulator[^;]*\bhalf\b", code):
        return "f16"
    return "f32" if re.search(r"\bfloat \w+(?: \[[^;]*)? (?:=|;)", function.text) else "f16"


def _asserted(code: Code, arguments: Sequence[Any], sizes: Sequence[str]) -> dict[str, int | str]:
    """Return the multiples of sizes, numbers or other sizes, without which the host does not come to the launch, or that a kernel takes at a time,
    in a loop without a remainder or as a part that is rounded down."""
    launch, scope, multiples = code.launch, code.launch.scope, dict[str, int | str]()
    ends = {of.name: size for of, size in zip(code.function.parameters, arguments) if size in sizes}
    for at, name, step in UNROLLED.findall(code.function.text):
        if name in ends and re.search(rf"\b{at} \+ {int(step) - 1}\b", code.function.text):
            multiples[ends[name]] = int(step)
    words = re.findall(r"\w+", code.function.text)
    for name, size in ends.items():
        parts_of = re.findall(rf"(?<![-+*] )\b{name} / ([248]|16)\b", code.function.text)
        if 0 < len(parts_of) == words.count(name):
            multiples[size] = max(map(int, parts_of))
    sides = FRAGMENT.search(code.function.text)
    if sides and not code.function.mentions("__shared__"):  # fragments of arrays, which are whole
        with contextlib.suppress(Unknown):
            step = max(number(tokens(side), scope) for side in sides.groups())
            multiples |= {of: step for of in ends.values() if of not in multiples}
    text = spelled([token for token in scope.body if token.at < scope.at])
    given = zip(map(spelled, code.function.launch_arguments(launch.arguments)), arguments)
    passed = [(value, size) for value, size in given if value and size in sizes]
    for value, size in passed:
        if match := re.search(ASSERTED.format(re.escape(value)), text):
            step = str(match[match.lastindex or 0])
            with contextlib.suppress(Unknown):
                multiples[size] = dict(passed).get(step) or number(tokens(step), scope)
    return {size: step for size, step in multiples.items() if step != 1}


def _of_grid(code: Code) -> dict[str, int]:
    """Return the constants in the grid of the launch that its block does not mention."""
    launch, scope, constants = code.launch, code.launch.scope, dict[str, int]()
    skipped = {token.text for token in (*launch.block, *scope.literal(launch.block))}
    macros, stream = scope.source.macros, [*launch.grid]
    for token in itertools.islice(stream, 40):  # values of names follow
        if token.word and token.text not in skipped:
            body = macros[token.text].body if token.text in macros else ""
            value = scope.value(token.text) or tokens(body)
            stream += value
            with contextlib.suppress(Unknown):
                if not any(part.word for part in value):
                    constants[token.text] = number(value, scope)
    return constants


def _geometry(guess: Guess, code: Code, names: Mapping[str, str], arguments: Sequence[Any]) -> None:
    """Put block, grid and shared memory of the launch into the guess, else common ones."""
    function, launch, sizes = code.function, code.launch, guess.operation.dimensions
    host_names = usual(guess.operation) if not {*arguments} & {*sizes} else {}
    host_names |= {size.upper(): size for size in sizes} | {size: size for size in sizes}
    for value, argument in zip(function.launch_arguments(launch.arguments), arguments):
        while argument in sizes and any(token.word for token in value):
            host_names[plain(value, launch.scope)] = str(argument)
            local = len(value) == 1 and value[0].text not in launch.scope.passed
            value = (launch.scope.value(value[0].text) if local else None) or ()
    if function.tree != tuple(range(len(arguments))):  # members of structs
        named = {item.name: of for item, of in zip(function.parameters, arguments) if of in sizes}
        members = [name.rpartition(".")[2] for name in named]
        for name, member in zip(named, members):
            host_names[f".{member}" if members.count(member) == 1 else name] = named[name]
    host_names |= names
    alike = launch.place and function.repeats and spelled(launch.scope.literal(launch.grid)) != "1"
    if alike:
        guess.notes.append(SAME)
    grid = tuple(tokens("1")) if alike else launch.grid
    for key, sides in (("block", launch.block), ("grid", grid)):
        try:
            guess.front[key] = _sides(sides, launch, host_names) if sides else []
        except Unknown as error:
            at = f"{key} of the launch in {launch.place}"
            guess.notes.append(f"{at} has an unknown part: {error}")
        if key == "block" and not guess.front.get("block"):
            guess.front["block"] = _common_block(guess, code)
            if len(sides) == 1 and len(guess.front["block"]) == 1:
                # Grid and shared memory of the launch may use the block's name.
                host_names[sides[0].text] = str(guess.front["block"][0])
    if not guess.front.get("grid"):
        set_common_grid(guess)
    elif guess.launched and not _of_device(launch):
        scaled, literal = _by_size(guess, arguments), guess.front["grid"]
        if {*map(type, literal)} == {int}:
            guess.literal = literal
            if any("ceil" in str(side) for side in scaled):
                guess.unknown["--grid"] = ", ".join(map(str, scaled))
        guess.front["grid"] = scaled
    texts = (code.source.texts[path] for path in code.source.kernel_files)
    unused = function.mentions("__shared__") and not any(map(DYNAMIC.search, texts))
    if launch.shared and spelled(launch.shared) != "0" and unused:
        given = f"{spelled(launch.shared)} bytes of dynamic shared memory in {launch.place}"
        guess.notes.append(f"{given} are left out: no code declares them, and they hide an overrun")
    elif launch.shared and spelled(launch.shared) != "0":
        try:
            text = of_tokens(launch.shared, launch.scope, host_names)
            guess.front["shared_bytes"] = _simple(text, guess.macros())
            if guess.front["shared_bytes"] == 0:
                raise Unknown(spelled(launch.shared))  # a loop sets the name that is 0
        except Unknown as error:
            at = f"shared memory of the launch in {launch.place}"
            guess.notes.append(f"{at} has an unknown part: {error}")
            guess.share(code.source)
    elif not (launch.arguments and launch.place) and function.mentions("extern", "__shared__"):
        guess.share(code.source)


def _of_device(launch: Launch) -> dict[str, int]:
    """Return the names in the grid of a launch that the host asks the device for, and what they are in trials."""
    members = {
        of: spelled((launch.scope.value(of) or ())[-1:]) for of in launch.scope.names(launch.grid)
    }
    return {name: scopes.OF_DEVICE[of] for name, of in members.items() if of in scopes.OF_DEVICE}


def _as_twin(guess: Guess, code: Code, names: Names, arguments: Sequence[Any]) -> Code:
    """Take the geometry of the likest launched kernel that takes the same, if any; return the code with its launch."""
    function, common, likest = code.function, guess.front, 0.0

    def interface(of: Function) -> tuple[Any, ...]:
        flat = [(item.type, item.stars) for item in of.parameters]
        return flat, of.mentions("threadIdx", ".", "y"), of.template

    for twin in [of for of in code.source.functions() if interface(of) == interface(function)]:
        words = function.declaration.identifiers, twin.declaration.identifiers
        alike = len(words[0] & words[1]) / len(words[0] | words[1])
        for launch in code.source.launches(twin.name)[:1] if alike > likest else ():
            of_twin = replace(code, launch=replace(launch, place=""))
            tried = replace(guess, front={**common}, unknown={}, notes=[], launched={})
            _geometry(tried, of_twin, names, arguments)
            if not (tried.unknown.keys() - {"--shared"} or tried.notes):
                guess.front, guess.alternatives, guess.twin = tried.front, [common], twin.name
                for key in ("block", "grid"):
                    sides = ", ".join(map(str, tried.front[key]))
                    guess.unknown[f"--{key}"] = f"{sides}, as of {twin.name}"
                guess.unknown.pop("--shared", None)
                guess.unknown |= tried.unknown
                likest, code = alike, of_twin
    return code


def _by_size(guess: Guess, arguments: Sequence[Any]) -> list[int | str]:
    """Return the grid with numbers of blocks as the launch's sizes, or one that the kernel does not take, by tiles."""
    front, names = guess.front, _extents(guess.operation)[::-1]
    if "n == 1" in front.get("requires", {}).get("conditions", ()):
        names = names[1:]
    grid, block = list(front["grid"]), [*front["block"], 1, 1]
    laid_out = guess.operation.laid_out
    square = len(front["block"]) > 1 == len({*guess.launched.values()})
    threads = math.prod(of for of in (*grid, *block) if isinstance(of, int))
    each = threads in guess.launched.values()  # a thread for each element
    fixed = guess.strides or (type(guess.operation).reference is Operation.reference and not each)
    for at, blocks in enumerate(() if laid_out else grid):
        alike = [name for name in names[::-1] if guess.launched.get(name) == blocks != 1]
        grid[at] = next((name for name in alike if name not in grid), blocks)
    for at, blocks in enumerate(grid if laid_out or not fixed else ()):
        for name in (*names[at:], *names[:at]) if isinstance(blocks, int) and blocks > 1 else ():
            many = guess.launched.get(name, 0)
            tiles = [block[at], *[-(-many // (8 * blocks)) * 8] * laid_out]
            whole = [of for of in tiles if isinstance(of, int) and 0 < of <= many]
            fits = [of for of in whole if math.ceil(many / of) == blocks]
            fits = fits or whole[: square and at < 2]
            absent = laid_out and name not in {*arguments, *guess.launched}
            if absent and not any(name in names_in(str(of)) for of in grid):
                grid[at] = f"{name} // {block[at]}"
            elif fits:
                grid[at] = f"ceil({name} / {fits[0]})"
            else:
                continue
            break
    return grid


def _simple(text: str, macros: Mapping[str, Any]) -> int | str:
    """Return the value of an expression without names; an expression with names as it is."""
    if names_in(text):
        return text
    try:
        return int(evaluate(text, macros))
    except (ExpressionError, TypeError):
        return text


def _common_block(guess: Guess, code: Code) -> list[int | str]:
    function = code.function
    constants = [parameter.name for parameter in function.template if not parameter.is_type]
    names = {name: PREFIX + name for name in constants}
    names |= {name: str(value) for name, value in guess.values.items()}
    if function.bound:
        with contextlib.suppress(Unknown):
            return [_simple(of_tokens(function.bound, outside(code.source), names), {})]
    thread_counts = [names[name] for name in constants if THREADS.fullmatch(name)]
    if thread_counts:
        guess.unknown["--block"] = thread_counts[0]
        return [_simple(thread_counts[0], {})]
    block: list[int | str] = [SIDE, SIDE] if function.mentions("threadIdx", ".", "y") else [256]
    if len(block) > 1 and any("warp" in name.lower() for name in function.declaration.identifiers):
        block = [32, 8]  # a warp for each row
    common, widths = [*block], list[int | str]()
    for at, axis in enumerate("xy"[: len(block)]):
        with contextlib.suppress(Unknown):
            of_axis = (of_tokens(of, outside(code.source), names) for of in _steps(function, axis))
            width, block[at] = (_simple(of, {}) for of in of_axis)
            widths.append(width)
    if len(widths) == len(block):
        guess.widths = widths
        if _threads(block) <= BLOCK_LIMIT:
            return block
        block, guess.widths = common, widths  # a thread has several elements
    with contextlib.suppress(Unknown):
        sides = [_simple(of_tokens(of, outside(code.source), names), {}) for of in _tile(function)]
        if len(sides) == len(block) and _threads(sides) <= BLOCK_LIMIT:
            return sides
    if isinstance(block[0], int) and len(block) > 1 and block[0] > 16 and block[1] == 16:
        block[1] = 256 // block[0] or 1
    guess.unknown["--block"] = ", ".join(map(str, block))
    return block


def _threads(sides: Sequence[int | str]) -> int:
    return math.prod(side for side in sides if isinstance(side, int))


def _steps(function: Function, axis: str) -> tuple[Stream, Stream]:
    """Return the WIDTH of ``blockIdx.x * WIDTH + threadIdx.x``, and the STEP of ``i += STEP`` in ``threadIdx.x + i``, or
    WIDTH again. Raises Unknown."""
    text = _by_place(function)
    index, factor = rf"threadIdx \. {axis}(?! [*/%])", r"(?!blockDim\b)(\w+)"
    block = rf"(?:blockIdx \. {axis} \* {factor}|{factor} \* blockIdx \. {axis})"
    match = re.search(rf"{block} \+ {index}|{index} \+ {block}", text)
    if match is None:
        raise Unknown(axis)
    width = next(filter(None, match.groups()))
    turns = re.findall(rf"threadIdx \. {axis} \+ (\w+) [\])]", text)
    steps = (re.search(rf"; {name} \+ = (\w+) \)", text) for name in turns)
    return tokens(width), tokens(next((of[1] for of in steps if of), width))


def _by_place(function: Function) -> str:
    """Return a kernel's text with places of thread and block instead of the names that it has for them."""
    text = function.text
    for name, meaning in re.findall(r"\b(\w+) = ((?:threadIdx|blockIdx) \. [xyz]) [;,]", text):
        text = re.sub(rf"\b{name}\b(?! =)", meaning, text)
    return text


def _tile(function: Function) -> Iterator[Stream]:
    """Yield the sides of a shared array of which each thread of a block has an element."""
    text = _by_place(function)
    for name, sides in re.findall(r"__shared__ [\w ]+? (\w+) ((?:\[ [^\]]+ \] )+);", text):
        *rows, columns = re.findall(r"\[ ([^\]]+?)(?: \+ 1)? \]", sides)
        index = "".join(rf"\[ threadIdx \. {axis} \] " for axis in "zyx"[2 - len(rows) :])
        if len(rows) < 3 and re.search(rf"\b{name} {index}", text):
            yield from map(tokens, (columns, *reversed(rows)))
            return


def _extents(operation: Operation) -> tuple[str, ...]:
    """Return the dimensions that threads usually cover: the output's, or the input's if it has none."""
    operands = sorted(operation.operands.values(), key=lambda operand: not operand.written)
    named = (tuple(size for size in item.extents if isinstance(size, str)) for item in operands)
    return next(filter(None, named), ())


def with_block(guess: Guess, block: list[int | str]) -> None:
    """Take a block, and guess the grid anew if it is a guess."""
    guess.front["block"], guess.alternatives = block, []
    if "--grid" in guess.unknown:
        set_common_grid(guess)
        _add_grids(guess)


def _add_grids(guess: Guess) -> None:
    """Put front matter with other grids first among the alternatives, and that with fewer threads last."""
    grids = [candidate for candidate in _other_grids(guess) if candidate != guess.front["grid"]]
    guess.alternatives[:0] = [{**guess.front, "grid": grid} for grid in grids]
    guess.alternatives += [{**guess.front, "grid": grid} for grid in _wide_grids(guess)]


def set_common_grid(guess: Guess) -> None:
    """Guess a grid in which each thread has one element of the output."""
    grid = _common_grid(guess.widths or guess.front["block"], _extents(guess.operation))
    derived = type(guess.operation).reference is Operation.reference
    if derived and ROWS in {*guess.operation.dimensions} - {*leaves(guess.front["arguments"])}:
        grid = [ROWS]
    guess.front["grid"], guess.unknown["--grid"] = grid, ", ".join(map(str, grid))


def _common_grid(block: Sequence[int | str], extents: Sequence[str]) -> list[int | str]:
    if len(block) > 1 and len(extents) > 1:
        outer: list[int | str] = list(extents[-3::-1][:1])
        return [f"ceil({extents[-1]} / {block[0]})", f"ceil({extents[-2]} / {block[1]})", *outer]
    return [f"ceil({' * '.join(extents)} / {block[0]})"]


def _other_grids(guess: Guess) -> list[list[int | str]]:
    """Return more grids to try: a block, warp or thread for each row, or a size instead of a number."""
    front, extents = guess.front, _extents(guess.operation)
    grid, block = front["grid"], guess.widths or front["block"]
    if "--grid" not in guess.unknown and len(grid) == 2:
        return [grid[::-1]]
    if guess.operation.laid_out:
        return []
    if "--grid" in guess.unknown:
        grids = [_common_grid(block, extents[::-1])] if len(block) > 1 else []
        rows: list[int | str] = list(extents[:1])
        return grids if len(extents) < 2 else [*grids, rows, [f"ceil({rows[0]} / {block[-1]})"]]
    names = names_in(" + ".join(map(str, grid))) | {*leaves(front["arguments"])}
    missing = [size for size in guess.operation.dimensions if size not in names]
    if len(missing) != 1:
        return []
    sides = [i for i, side in enumerate(grid) if isinstance(side, int) and side > 1]
    return [[*grid[:i], missing[0], *grid[i + 1 :]] for i in sides]


def _wide_grids(guess: Guess) -> list[list[int | str]]:
    """Return grids for threads with several elements each, if there is no launch."""
    block, extents = guess.front["block"], _extents(guess.operation)
    if guess.operation.laid_out or "--grid" not in guess.unknown or len(block) > 1 or not extents:
        return []
    return [[f"ceil({' * '.join(extents)} / ({many} * {block[0]}))"] for many in (2, 4, 8)]


def tiles_of_loops(guess: Guess, function: Function, source: Source) -> None:
    """Put the steps of the kernel's loops into the guess, for sizes whose tile is unknown."""
    scope = Scope(source, function.declaration.body, function.declaration.end)
    names = [item.name for item in function.parameters]
    for name, size in zip(names, leaves(guess.front["arguments"])):
        step = re.search(rf"\b{name} / (\w+)|< {name} ; \w+ \+ = (\w+) \)", function.text)
        if step and guess.tile.get(size) == 1:
            with contextlib.suppress(Unknown):
                value = tokens(step[1] or step[2])
                guess.tile[size] = guess.values.get(value[0].text) or number(value, scope)


def tiles_of_grid(guess: Guess) -> None:
    """Put rows and columns of a block into the guess, from the grid."""
    macros, steps_of = guess.macros(), guess.operation.tiles[2:]
    grid = " ; ".join(map(str, guess.front["grid"]))
    for size in [name for name in guess.operation.dimensions if name not in steps_of]:
        guess.tile[size] = 1
        several = r"(?:\) // (\w+))?"
        if match := re.search(rf"\b{size} ?//? ?(\([^()]*\)|[\w.]+){several}", grid):
            with contextlib.suppress(ExpressionError, TypeError):
                guess.tile[size] = int(evaluate(f"{match[1]} * {match[2] or 1}", macros))
    if match := re.search(r"\b(\w+) \* (\w+) //? \((\w+) \* (\w+)\)", grid):
        sides = {match[at]: macros.get(match[at + 2], 0) for at in (1, 2)}
        guess.tile |= {size: side for size, side in sides.items() if size in guess.tile and side}


def _tiles(guess: Guess, code: Code) -> None:
    """Put rows, columns and step of a block into the guess, from the grid and the names."""
    function, source = code.function, code.source
    macros, steps_of = guess.macros(), guess.operation.tiles[2:]
    tiles_of_grid(guess)
    values = {**macros, **guess.values}
    steps = [int(value) for name, value in values.items() if K_STEP.fullmatch(name)]
    body = function.declaration.body
    pairs = itertools.pairwise(body)
    assigned = (token for token, after in pairs if token.word and after.text == "=")
    # A neighbour's macro of such a name says nothing about this kernel.
    macro_names = [name for name in source.near.macros if function.mentions(name)]
    for token in (*assigned, *(Token(name, 0, word=True) for name in macro_names)):
        if K_STEP.fullmatch(token.text) and not steps:
            with contextlib.suppress(Unknown):
                steps.append(number([token], Scope(source, body, function.declaration.end)))
    guess.tile |= dict.fromkeys(steps_of, max(steps) if steps else 0)
