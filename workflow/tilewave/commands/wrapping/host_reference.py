"""Code of the host that computes what a kernel does, as the reference of the kernel's operation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import matching, writing
from tilewave.commands.wrapping.deriving import label
from tilewave.commands.wrapping.reading import (
    DTYPES,
    QUALIFIERS,
    REAL,
    WHOLE,
    Function,
    Parameter,
    Source,
    parts,
    signature,
    spelled,
)
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Declaration, Stream
from tilewave.kernel import operations
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.operations.base import Operand

NAMED = frozenset("cpu host ref reference serial sequential seq golden gold naive".split())
"""Parts of names of such functions, which come first."""
NOISE = NAMED | {"h", "d", "gpu", "dev", "device", "in", "out"}
"""Parts of a parameter's name that say on which side it is."""
ENTRY, MOST = "computed_by_the_host", 6
"""The reference's name, and the most functions that are tried."""
FOREIGN = re.compile(
    r"cuda[A-Z]\w*|cublas\w*|__global__|__device__|argv|s?rand\w*|fopen|random_device"
)
"""A word of a function that computes more than values."""
ASIDE = re.compile(
    r"(?<=[;{}])(\s*)(?:(?:std::)?(?:cout|cerr|\w*(?:print|tim(?:er?|ing)|clock|assert|puts|exit)\w*\s*\()|[^;{}()]*chrono)[^;{}]*;"
)
"""A statement that computes nothing: it prints, or takes the time."""
VECTOR = re.compile(r"(?:std :: )?vector < ([\w :]+?) > &?")
PASSED = re.compile(r"(?:const\s+)?(?:std::)?vector<([\w: ]+?)>\s*&")
"""A vector as a parameter: of a type, and of a text."""
SPAN = """
template <class T> struct tilewave_span {
    using value_type = T; T* first; long count;
    __device__ T& operator[](long i) const { return first[i]; }
    __device__ T* data() const { return first; }
    __device__ T* begin() const { return first; }
    __device__ T* end() const { return first + count; }
    __device__ unsigned long size() const { return count; }
};
"""
"""What a vector of the host is on the device."""
HALVES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <stdint.h>\n"
TABLES = table_beside(__file__)
"""What a name says that a kernel computes."""
Operands = Mapping[str, Operand]


@dataclass(frozen=True)
class Reference:
    """What a kernel may compute: a name, and the statement that does it with the kernel's parameters.

    counts: arrays whose numbers of elements it needs. item, path: a function of the host; end: where it may be called;
    exact: whether it has the kernel's parameters in their order, and a name that says what it is; alike: whether the
    rest of its name is the kernel's too.
    """

    name: str
    text: str
    counts: Sequence[str]
    item: Declaration | None = None
    path: Path = Path()
    end: int = 0
    exact: bool = False
    alike: bool = False


def references(function: Function, source: Source, operands: Operands) -> list[Reference]:
    """Return functions in the kernel's files that may compute what the kernel does, the likeliest first, and what its
    name says."""
    found = [
        (of, len(NAMED & {*_words(item.name)}))
        for path, item, end, owner in _functions(source)
        if item.name not in {"main", *function.declaration.identifiers} and item.body
        for of in [_reference(function, path, item, end, owner, operands, source.texts[path])]
        if of is not None
    ]
    found.sort(key=lambda entry: (not entry[0].exact, not entry[0].alike, -entry[1]))
    return [of for of, _ in found[:MOST]] + list(_by_name(function, operands))


def _by_name(function: Function, operands: Operands) -> Iterator[Reference]:
    """Yield what the parts of a kernel's name say that it computes."""
    arrays = [item for item in function.parameters if label(item.name) in operands]
    given = [item for item in arrays if operands[label(item.name)].stream is not None]
    written = [item for item in arrays if operands[label(item.name)].written]
    plain = all(
        item.type in DTYPES or item.type in {of.name for of in function.template} for item in arrays
    )
    if len(written) != 1 or not given or not plain or any(item.stars != 1 for item in arrays):
        return
    (output,), first, words = written, given[0].name, {*_words(function.name)}
    y, sizes = (
        output.name,
        {"x": first, "nx": f"count_{first}", "y": output.name, "ny": f"count_{output.name}"},
    )
    reals = [item.name for item in function.parameters if item.type in REAL and not item.stars]
    values = dict(zip("ab", (f"{item.name}[i]" for item in given))) | dict(zip("s", reals))
    for key, formulas in TABLES["elements"].items():
        for formula in formulas if words & {*key.split("|")} else ():
            used = [name for name in "abs" if re.search(rf"\b{name}\b", formula)]
            # A number that the formula has not would be right at one value only.
            fits = len(given) == len({*used} - {"s"}) and len(reals) == used.count("s")
            if values.keys() >= {*used} and fits:
                drawn = " ".join(f"double {name} = {values[name]};" for name in used)
                each = f"{{ {drawn} {y}[i] = {formula}; }}"
                yield Reference(
                    f"{formula} of each element",
                    f"for (long i = 0; i < count_{y}; ++i) {each}",
                    [y],
                )
    for key, codes in TABLES["wholes"].items():
        for name, code in (
            codes.items() if words & {*key.split("|")} and not (given[1:] or reals) else ()
        ):
            text = re.sub(r"\bn?[xy]\b", lambda match: sizes[match[0]], code)
            yield Reference(name, text, [first, y])


def _functions(source: Source) -> Iterator[tuple[Path, Declaration, int, str]]:
    """Yield functions of the host with where they may be called, and what calls a member of a class: ``Class::`` or ``Class().``."""
    for path, item in source.declarations():
        inside, scope = [(item, "")], "".join(f"{name}::" for name in item.scope)
        if item.kind == "type" and "template" not in item.identifiers:
            members = syntax.members(source.texts[path], item)
            static = (any(token.text == "static" for token in of.head) for of in members)
            inside = [
                (of, f"{item.name}{'::' if on else '().'}") for of, on in zip(members, static)
            ]
        for of, owner in inside:
            if (
                of.kind == "function"
                and of.defined
                and not any(map(FOREIGN.fullmatch, of.identifiers))
            ):
                yield path, of, item.end, scope + owner


def _words(name: str) -> list[str]:
    return [word.rstrip("0123456789") or word for word in matching.snake(name).split("_")]


def _core(name: str) -> str:
    return "".join(word for word in _words(name) if word not in NOISE) or name.lower()


def _type(item: Parameter) -> tuple[str, int]:
    """Return type and stars; all whole numbers are of one type, and all real ones; a vector is an array."""
    vector = VECTOR.fullmatch(item.type)
    if vector:
        return vector[1], 1
    kinds = {*item.type.split()} - QUALIFIERS
    whole, real = not item.stars and kinds <= WHOLE, not item.stars and kinds <= {"float", "double"}
    return "int" if whole else "float" if real else " ".join(item.type.split()), item.stars


def _reference(
    function: Function,
    path: Path,
    item: Declaration,
    end: int,
    owner: str,
    operands: Operands,
    source_text: str,
) -> Reference | None:
    """Return a call of a function with the kernel's parameters of the same types: by name, others in their order."""
    taken, head = signature(path, item), syntax.plain_head(item.head)
    optional = sum("=" in [token.text for token in of] for of in _parameters(head))
    free, given = list(function.parameters), dict[str, str]()
    arrays = {item.name: operands.get(label(item.name)) for item in function.parameters}
    written = {name for name, operand in arrays.items() if operand and operand.written}
    single = not any(_type(of)[1] for of in taken.parameters)  # a function of an element
    returns = "void" not in {token.text for token in head[: syntax.signs(head, "(")[0]]}
    for named in (True, False):
        for of in taken.parameters:
            kinds = [_type(of), *[(_type(of)[0], 1)] * single]
            wanted = (
                (kind, to) for kind in kinds for to in free
                if _type(to) == kind and (not named or _core(to.name) == _core(of.name))
                and not (kind[1] and single and to.name in written)
            )  # fmt: skip
            kind, to = next(wanted, (kinds[0], None)) if of.name not in given else (kinds[0], None)
            if to is not None:
                free.remove(to)
                given[of.name] = f"{to.name}[i]" if kind[1] and single else to.name
    missing = [of.name not in given for of in taken.parameters]
    if missing != sorted(missing) or sum(missing) > optional or not taken.parameters:
        return None
    names = [given[of.name] for of in taken.parameters if of.name in given]
    types = {of.name: of.type for of in function.parameters}
    counts, values = list[str](), list[str]()
    for of, name in zip(taken.parameters, names):
        vector = VECTOR.fullmatch(of.type) is not None
        counts += [name] * vector
        cast = f"({types[name]} {'*' * of.stars}) " if of.stars and not of.constant else ""
        values.append(
            f"tilewave_span<{types[name]}>{{{name}, count_{name}}}" if vector else cast + name
        )
    text, left = f"{owner}{item.name}({', '.join(values)})", written - {*names}
    if returns or single:
        if len(left) != 1 or not returns:
            return None
        (output,), at = left, "i" if single else "0"
        text, counts = f"{output}[{at}] = {text}", counts + [output] * single
        text = f"for (long i = 0; i < count_{output}; ++i) {text}" if single else text
    elif left:
        return None
    if not {name for name in arrays if arrays[name]} - written <= {
        name.partition("[")[0] for name in names
    }:
        return None
    same = [_type(of) for of in taken.parameters] == [_type(of) for of in function.parameters]
    words, own = {*_words(item.name)}, {*_words(function.name)}
    exact = same and bool(NAMED & words or names == [of.name for of in taken.parameters])
    alike = words - NAMED == own - matching.NEUTRAL
    line = syntax.line_of(source_text, item.start)
    name = f"the file's own {item.name} (line {line})"
    return Reference(name, text, counts, item, path, end, exact, alike)


def _parameters(head: Stream) -> list[Stream]:
    opening = syntax.signs(head, "(")[0]
    return [*parts(head[opening + 1 : syntax.closing(head, opening)])]


def judge_by(
    reference: Reference | None, kernel: Kernel, function: Function, source: Source
) -> str:
    """Make a reference, as a kernel of one thread, that of a kernel's operation; return its name and line.
    Without one the operation has none."""
    file = operations.MODULES.file(kernel.front.operation)
    assert file is not None
    code = _written(reference, kernel, function, source) if reference else None
    named = "None" if code is None else f'"{code}"'
    judged = re.sub(r"reference = .*", f"reference = {named}", file.read_text("utf-8"))
    file.write_text(judged, encoding="utf-8")
    operations.written(kernel.front.operation, [file.parent])
    return reference.name if reference else ""


def _written(reference: Reference, kernel: Kernel, function: Function, source: Source) -> Path:
    """Write a reference as a kernel file, and return it."""
    item = reference.item
    head = function.declaration.head
    at = next(
        i for i, token in enumerate(head) if (token.text, head[i + 1].text) == (function.name, "(")
    )
    template = spelled(head[: syntax.angle(head, 1) + 1]) if head[0].text == "template" else ""
    inside = spelled(head[at + 2 : syntax.closing(head, at + 1)])
    counts = list(dict.fromkeys(reference.counts))  # of no struct's members
    inside = ", ".join([inside, *(f"long count_{name}" for name in counts)])
    entry = f"{template}__global__ void {ENTRY}({inside}) {{ {reference.text}; }}"
    front = yaml.safe_load(kernel.text.partition(writing.OPENING)[2].partition(writing.CLOSING)[0])
    front |= {"entry": ENTRY, "block": [1], "grid": [1], "shared_bytes": 0, "requires": {}}
    if template:
        front["entry"] += kernel.entry[kernel.entry.index("<") :]
        front["entry"] = "::".join([*(item.scope if item else ()), front["entry"]])
    else:
        front["macros"], entry = {}, f'extern "C" {entry}'
    operands = operations.load(kernel.front.operation).operands
    sizes = [" * ".join(map(str, operands[label(name)].extents)) or "1" for name in counts]
    front["arguments"] = [*front["arguments"], *sizes]
    code = kernel.path.with_name(f"{ENTRY}.cu")
    if item is None:
        marked = f"{HALVES}{entry}\n"
    else:
        text = ASIDE.sub(_blank, source.texts[reference.path])
        marked = _on_device(f"{text[: reference.end]}\n{entry}\n{text[reference.end :]}", item)
        marked = SPAN + PASSED.sub(r"tilewave_span<\1>", marked) if counts else marked
    code.write_text(f"{writing.front_matter(front)}\n{marked}", encoding="utf-8")
    return code


def _blank(match: re.Match[str]) -> str:
    return match[1] + re.sub(r"\S", " ", match[0][len(match[1]) :])


def _on_device(text: str, item: Declaration) -> str:
    """Return a text with a function and those that it calls as functions of the device."""
    needed, marked = {*re.findall(r"\w+", text[item.start : item.end])}, {item.start: item}
    items = [of for of in syntax.declarations(text) if of.kind == "function" and of.name != "main"]
    while more := [of for of in items if of.start not in marked and of.name in needed]:
        marked |= {of.start: of for of in more}
        needed = needed.union(*(of.identifiers for of in more))
    for _, of in sorted(marked.items(), reverse=True):
        if of.identifiers.isdisjoint(("__global__", "__device__")):
            template = of.head[0].text == "template"
            start = of.head[syntax.angle(of.head, 1) + 1].at if template else of.start
            text = f"{text[:start]}__device__ {text[start:]}"
    return text
