"""A function of the host that computes what a kernel does, as the reference of the kernel's operation."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from tilewave.commands.wrapping import matching, writing
from tilewave.commands.wrapping.reading import WHOLE, Function, Parameter, Source, signature
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Declaration
from tilewave.kernel import operations
from tilewave.kernel.front_matter import Kernel

NAMED = frozenset("cpu host ref reference serial sequential golden gold naive".split())
"""Parts of names of such functions; others need the names of the kernel's parameters."""
ENTRY = "computed_by_the_host"


def candidates(function: Function, source: Source) -> Iterator[tuple[Path, Declaration]]:
    """Yield functions in the kernel's files that take what the kernel takes, in its order."""
    wanted = [(item.name, *_type(item)) for item in function.parameters]
    for path, item in source.near.declarations():
        texts = {token.text for token in item.head}
        plain = item.kind == "function" and item.body and "void" in texts and not item.scope
        launches = "<<<" in source.texts[path][item.start : item.end]
        if plain and not launches and texts.isdisjoint(("template", "__global__", "__device__")):
            taken = [(of.name, *_type(of)) for of in signature(path, item).parameters]
            named = NAMED & {*matching.snake(item.name).split("_")}
            if taken == wanted or (named and [of[1:] for of in taken] == [of[1:] for of in wanted]):
                yield path, item


def _type(item: Parameter) -> tuple[str, int]:
    """Return type and stars; all whole numbers are of one type."""
    whole = not item.stars and {*item.type.split()} <= WHOLE
    return "int" if whole else item.type, item.stars


def judge_by(
    path: Path, item: Declaration, kernel: Kernel, function: Function, source: Source
) -> str:
    """Make a function, as a kernel of one thread, the reference of a kernel's operation; return its name and line."""
    text, names = source.texts[path], ", ".join(of.name for of in function.parameters)
    head = [token.text for token in function.declaration.head]
    inside = " ".join(head).partition(f" {function.name} (")[2]
    entry = f'extern "C" __global__ void {ENTRY}({inside} {{ {item.name}({names}); }}'
    front = yaml.safe_load(kernel.text.partition(writing.OPENING)[2].partition(writing.CLOSING)[0])
    front |= {"entry": ENTRY, "block": [1], "grid": [1], "shared_bytes": 0}
    before, body, after = text[: item.start], text[item.start : item.end], text[item.end :]
    file = operations.MODULES.file(kernel.front.operation)
    code = kernel.path.with_name(f"{ENTRY}.cu")
    assert file is not None
    front |= {"requires": {}, "macros": {}}
    called = f"{writing.front_matter(front)}\n{before}__device__ {body}\n{entry}{after}"
    code.write_text(called, encoding="utf-8")
    judged = file.read_text("utf-8").replace("reference = None", f'reference = "{code}"')
    file.write_text(judged, encoding="utf-8")
    operations.written(kernel.front.operation, [file.parent])
    return f"{item.name} (line {syntax.line_of(text, item.start)})"
