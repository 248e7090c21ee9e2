"""A function of the host that computes what a kernel does, as the reference of its operation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import constant_memory, matching, reading, scopes, writing
from tilewave.commands.wrapping.deriving import label
from tilewave.commands.wrapping.reading import Function, Parameter, Source
from tilewave.commands.wrapping.scopes import spelled
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Declaration
from tilewave.kernel import operations
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.operations.base import Operand
from tilewave.kernel.operations.formulas import ANGLES

TABLES = table_beside(__file__)
NAMED, NOISE, JUDGING = (frozenset(TABLES[key].split()) for key in ("named", "noise", "judging"))
FOREIGN, ASIDE, VECTOR, PASSED = (
    re.compile(TABLES[key]) for key in ("foreign", "aside", "vector", "passed")
)
ROUNDING = re.compile(r"\b(?:l?l?round|l?rint|nearbyint)f?\s*\(|\+ 0\.5f?\b")
JUDGED = re.compile(r" reference = .*(?:\n    kinds, .*)?(?:\n    rounds = .*)?")
LARGE = 3
"""The power of two of other inputs than those by which a formula was found."""
ENTRY, MOST = "computed_by_the_host", 6
"""The reference's name, and the most functions of the host that are tried."""
Operands = Mapping[str, Operand]


@dataclass(frozen=True)
class Reference:
    """What a kernel may compute: a name, and the statement that does it with the kernel's parameters, or, without a function
    of the host (item), the expression of `formulas.computed`.

    counts: arrays whose numbers of elements it needs; path: of the function; exact: whether it has the
    kernel's parameters in their order; alike: whether it has the kernel's name, too."""

    name: str
    text: str
    counts: Sequence[str]
    item: Declaration | None = None
    path: Path = Path()
    exact: bool = False
    alike: bool = False


def references(function: Function, source: Source, kernel: Kernel) -> list[Reference]:
    """Return the functions of a kernel's files that may compute what it does, the likeliest first."""
    operands = operations.load(kernel.front.operation).operands
    launches = rf"\b{function.name}\b[^;{{}}]*<<<"
    names = (of.name for of in function.template)
    types = dict(zip(names, re.findall(r"[\w:]+", kernel.entry)[1:]))
    typed = (replace(of, type=types.get(of.type, of.type)) for of in function.parameters)
    function = replace(function, parameters=tuple(typed))
    constants = constant_memory.parameters(source, kernel.front.compiler.constants)
    calls = [
        call
        for path, item in source.declarations()
        if path in source.kernel_files or re.search(launches, source.texts[path])
        if item.kind == "function" and item.body and item.name not in function.text.split()
        if "<<<" not in source.texts[path][item.start : item.end]
        if not (item.scope or any(map(FOREIGN.fullmatch, item.identifiers)))
        if JUDGING.isdisjoint(words_of(item.name))
        for call in _calls(function, source, path, item, operands, constants)
    ]
    calls.sort(key=lambda of: (not of.exact, not of.alike, NAMED.isdisjoint(words_of(of.name))))
    return calls[:MOST]


def words_of(name: str) -> list[str]:
    return [word.rstrip("0123456789") or word for word in re.split("[_ ]", matching.snake(name))]


def _core(name: str) -> str:
    return "".join(word for word in words_of(name) if word not in NAMED | NOISE) or name.lower()


def _type(item: Parameter) -> tuple[str, int]:
    """Return type and stars; all whole numbers are of one type, and all real ones; a vector is an array."""
    if vector := VECTOR.fullmatch(item.type):
        return vector[1], 1
    kinds = {*item.type.split()} - reading.QUALIFIERS
    real = "float" if kinds <= {"float", "double"} else item.type
    return item.type if item.stars else "int" if kinds <= scopes.WHOLE else real, item.stars


def _calls(
    function: Function,
    source: Source,
    path: Path,
    item: Declaration,
    operands: Operands,
    constants: Sequence[Parameter],
) -> Iterator[Reference]:
    """Yield the call of a function with the kernel's parameters of the same types: by name, others in their order."""
    taken, head = reading.signature(path, item).parameters, syntax.plain_head(item.head)
    opening = syntax.signs(head, "(")[0]
    arrays = {of.name: operands.get(label(of.name)) for of in function.parameters}
    needed = {name for name, operand in arrays.items() if operand}
    written = {name for name, operand in arrays.items() if operand and operand.written}
    free, given = [*function.parameters, *constants], dict[str, Parameter]()
    for by in range(3):
        for of in taken:
            fit = [to for to in free if _type(to) == _type(of)]
            by_name = [to for to in fit if _core(to.name) == _core(of.name)]
            by_side = [to for to in fit if of.constant == (to.name not in written)]
            to = next(iter((by_name, by_side, fit)[by]), None)
            if to and of.name not in given:
                free.remove(to)
                given[of.name] = to
    missing, counts, values = [of.name not in given for of in taken], list[str](), list[str]()
    for of, to in ((of, given[of.name]) for of in taken if of.name in given):
        vector = VECTOR.fullmatch(of.type) is not None
        counts += [to.name] * (vector and to not in constants)
        changed = to in constants or (of.stars and not of.constant)
        cast = f"({to.type} {'*' * to.stars}) " if changed else ""
        count = f"sizeof {to.name} / sizeof({to.type})" if to in constants else f"count_{to.name}"
        span = f"tilewave_span<{to.type}>{{({to.type} *) {to.name}, {count}}}"
        values.append(span if vector else cast + to.name)
    names = {of.name for of in given.values()}
    text, left = f"{item.name}({', '.join(values)})", sorted(written - names)
    if "void" not in (token.text for token in head[:opening]) and len(left) == 1:
        text, left = f"{left.pop()}[0] = {text}", []
    defaults = spelled(head[opening:]).count(" = ")
    whole = missing == sorted(missing) and sum(missing) <= defaults
    if not given or left or not whole or not needed - written <= names:
        return
    plain = {name: of for name, of in given.items() if of not in constants}
    types = [_type(of) for of in taken if given.get(of.name) not in constants]
    same = types == [_type(of) for of in function.parameters]
    words, line = {*words_of(item.name)}, syntax.line_of(source.texts[path], item.start)
    same = same and not (words - NAMED).isdisjoint(words_of(function.name))
    exact = same and bool(NAMED & words or [*plain] == [of.name for of in plain.values()])
    telling = {*matching.snake(function.name).split("_")} - matching.NEUTRAL
    alike = words - NAMED == {*words_of("_".join(telling))} - matching.NEUTRAL
    name = f"the file's own {item.name} (line {line})"
    yield Reference(name, text, counts, item, path, exact, alike)


def judge_by(of: Reference | None, kernel: Kernel, function: Function, source: Source) -> str:
    """Make a reference, as a kernel of one thread, that of a kernel's operation, or take it back; return its name."""
    file, code = operations.MODULES.file(kernel.front.operation), "None"
    assert file is not None
    if of is not None and of.item is None:
        grows = "recurrent" in of.text  # beyond what its type holds
        code = of.text + f'\n    kinds, large = ("large", "zero"), {LARGE}' * (not grows)
    elif of is not None:
        path = kernel.path.with_name(f"{ENTRY}.cu")
        path.write_text(_code(of, kernel, function, source), encoding="utf-8")
        code = f'"{path}"'
    item = of and of.item
    match = of and item and ROUNDING.search(source.texts[of.path], item.start, item.end)
    code += f"\n    rounds, turned = {bool(match)}, {of is not None and ANGLES in of.text}"
    judged = JUDGED.sub(lambda _: f" reference = {code}", file.read_text("utf-8"))
    file.write_text(judged, encoding="utf-8")
    operations.written(kernel.front.operation, [file.parent])
    return f"{of.name}{' within 1' * bool(match)}" if of else ""


def _code(of: Reference, kernel: Kernel, function: Function, source: Source) -> str:
    """Return the text of a kernel file that computes a reference."""
    head = " ".join(token.text for token in function.declaration.head)
    inside, counts = head.partition(f" {function.name} (")[2], list(dict.fromkeys(of.counts))
    inside = ", ".join([inside.rstrip(" )"), *(f"long count_{name}" for name in counts)])
    front = yaml.safe_load(kernel.text.partition(writing.OPENING)[2].partition(writing.CLOSING)[0])
    front |= {"entry": ENTRY, "block": [1], "grid": [1], "shared_bytes": 0, "requires": {}}
    entry, template = f"__global__ void {ENTRY}({inside}) {{ {of.text}; }}\n", ""
    if function.template:
        start = function.declaration.head
        template = spelled(start[: syntax.angle(start, 1) + 1])
        front["entry"] += kernel.entry[kernel.entry.index("<") :]
    else:
        front["macros"], template = {}, 'extern "C"'
    operands = operations.load(kernel.front.operation).operands
    sizes = [" * ".join(map(str, operands[label(name)].extents)) or "1" for name in counts]
    front["arguments"] = [*front["arguments"], *sizes]
    text = f"{TABLES['headers']}{template} {entry}"
    if of.item is not None:
        text = ASIDE.sub(lambda of: re.sub(r"\S", " ", of[0]), source.texts[of.path])
        end = of.item.end
        text = _on_device(f"{text[:end]}\n{template} {entry}{text[end:]}", of.item)
        text = TABLES["span"] + PASSED.sub(r"tilewave_span<\1>", text) if counts else text
    return f"{writing.front_matter(front)}\n{text}"


def _on_device(text: str, item: Declaration) -> str:
    """Return a text with a function and those that it calls as functions of the device."""
    needed, marked = {*re.findall(r"(\w+)\s*[(<]", text[item.start : item.end])}, {item.start: item}
    items = [of for of in syntax.declarations(text) if of.kind == "function" and of.name != "main"]
    while more := [of for of in items if of.start not in marked and of.name in needed]:
        marked |= {of.start: of for of in more}
        needed = needed.union(*(of.called for of in more))
    for start, of in sorted(marked.items(), reverse=True):
        if of.identifiers.isdisjoint(("__global__", "__device__")):
            template = of.head[0].text == "template"
            start = of.head[syntax.angle(of.head, 1) + 1].at if template else start
            text = f"{text[:start]}__device__ {text[start:]}"
    return text
