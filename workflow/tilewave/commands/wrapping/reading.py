"""The kernels of a file, and how the code of the host around it launches them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewave.compiling.declarations import (
    OPEN,
    Declaration,
    Macro,
    Token,
    Unreadable,
    angle,
    closing,
    declarations,
    line_of,
    macros,
    members,
    plain_head,
)
from tilewave.kernel import includes

SOURCES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc")
MOST_FILES, MOST_BYTES, LEVELS, CROWD = 2000, 1 << 19, 3, 200
"""How far launches and headers are looked for: files, bytes of one, folders above the kernel's; entries of
a folder that is no project's."""
OTHERS = re.compile(r"(^|/)(\.[^/]*|site-packages|node_modules)/")
"""Folders of installed packages, and hidden ones."""
QUALIFIERS = frozenset(
    "const volatile restrict __restrict__ __restrict __grid_constant__ struct typename *& &".split()
)
NUMBERS = frozenset("int unsigned size_t uint uint32_t int32_t auto long".split())
TYPED = {
    **dict.fromkeys(("char", "signed char", "unsigned char", "bool", "int8_t", "uint8_t"), "i8"),
    **dict.fromkeys(("short", "unsigned short", "int16_t", "uint16_t", "ushort"), "i16"),
    **dict.fromkeys(
        ("long", "long long", "unsigned long", "unsigned long long", "size_t", "int64_t", "uint64_t",
         "ptrdiff_t"), "i64"),
    **dict.fromkeys(("half", "__half"), "f16"), "double": "f64",
    **dict.fromkeys(("int", "unsigned", "unsigned int", "uint", "int32_t", "uint32_t", "float"), ""),
}  # fmt: skip
"""Types that a struct's member may have -> what front matter has to say of one, if anything."""
GRID = re.compile(r"grid|num_?blocks|blocks_?per|^blocks$|n_?blocks", re.IGNORECASE)


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter. type: without qualifiers and stars; stars: how many."""

    name: str
    type: str
    stars: int
    constant: bool


@dataclass(frozen=True)
class TemplateParameter:
    """kind: ``typename`` or the type of a value; default: its text, or empty."""

    kind: str
    name: str
    default: tuple[Token, ...]

    @property
    def is_type(self) -> bool:
        return self.kind in ("typename", "class")


@dataclass(frozen=True)
class Function:
    """A ``__global__`` function. bound: threads of its launch bounds, if it has them.

    parameters: instead of a struct by value its members. tree: places among these as the signature has them, of a
    struct a tuple of such.
    """

    name: str
    file: Path
    declaration: Declaration
    template: tuple[TemplateParameter, ...]
    parameters: tuple[Parameter, ...]
    bound: tuple[Token, ...]
    tree: tuple[Any, ...]

    def nested(self, words: Sequence[Any]) -> list[Any]:
        """A word for each of the parameters as front matter has them: of a struct a list of its members."""

        def of(node: Any, member: bool = True) -> Any:
            if isinstance(node, tuple):
                return [of(one) for one in node]
            typed = "" if self.parameters[node].stars else TYPED.get(self.parameters[node].type, "")
            return {typed: words[node]} if member and typed else words[node]

        return [of(node, member=False) for node in self.tree]

    def given(self, arguments: Sequence[tuple[Token, ...]]) -> list[tuple[Token, ...]]:
        """Of each of the parameters the argument of a launch; empty where a struct has it."""
        made: list[tuple[Token, ...]] = [()] * len(self.parameters)
        for node, one in zip(self.tree, arguments):
            if isinstance(node, int):
                made[node] = one
        return made

    @property
    def qualified(self) -> str:
        """The name with its namespaces; of a static function ``::name``, which NVRTC is told to keep."""
        static = any(one.text == "static" for one in plain_head(self.declaration.head))
        scoped = "::".join((*self.declaration.scope, self.name))
        return f"::{scoped}" if static and "::" not in scoped else scoped

    def mentions(self, *words: str) -> bool:
        """Whether the body has these words one behind the other."""
        texts = [one.text for one in self.declaration.body]
        return any(texts[i : i + len(words)] == list(words) for i in range(len(texts)))


@dataclass(frozen=True)
class Launch:
    """A launch as the host's code has it, each part as tokens; ``scope`` knows its names."""

    template: tuple[tuple[Token, ...], ...]
    grid: tuple[Token, ...]
    block: tuple[Token, ...]
    shared: tuple[Token, ...]
    arguments: tuple[tuple[Token, ...], ...]
    scope: Scope
    line: int


def parts(found: Sequence[Token]) -> list[tuple[Token, ...]]:
    """What commas outside of brackets part; template arguments in angle brackets stay together."""
    made: list[list[Token]] = [[]]
    i = 0
    while i < len(found):
        end = i
        if found[i].text in OPEN:
            end = closing(found, i)
        elif found[i].text == "<" and i and found[i - 1].word:
            try:
                end = angle(found, i)
            except Unreadable:
                end = i
        if found[i].text == "," and end == i:
            made.append([])
        else:
            made[-1] += found[i : end + 1]
        i = end + 1
    return [tuple(one) for one in made if one]


@dataclass(frozen=True)
class Source:
    """Everything that is read: the kernel's file, its headers and the files around it."""

    path: Path
    texts: dict[Path, str]
    own: tuple[Path, ...] = ()
    """Of these the kernel's file and the headers that it includes."""

    @functools.cached_property
    def macros(self) -> dict[str, Macro]:
        found: dict[str, Macro] = {}
        for path in (*self.own, *self.texts):
            found = {**macros(self.texts[path]), **found}
        return found

    def declarations(self, word: str = "") -> Iterator[tuple[Path, Declaration]]:
        """Those of the files that hold a word, the kernel's own first."""
        for path in dict.fromkeys((*self.own, *self.texts)):
            if word in self.texts[path]:
                with contextlib.suppress(Unreadable):
                    yield from ((path, one) for one in declarations(self.texts[path]))

    def functions(self) -> list[Function]:
        """The kernels of the file, then those of headers of its own."""
        found = [
            self._with_members(function(path, one))
            for path, one in itertools.takewhile(
                lambda found: found[0] in self.own, self.declarations("__global__")
            )
            if one.defined and any(t.text == "__global__" for t in one.head)
        ]
        return sorted(found, key=lambda one: one.file != self.path)

    def _with_members(self, found: Function) -> Function:
        """A kernel with the members of structs in their place."""
        flat: list[Parameter] = []

        def laid(one: Parameter, depth: int = 0) -> Any:
            inside = self.members(one.type) if not one.stars and depth < LEVELS else ()
            if inside:
                return tuple(laid(member, depth + 1) for member in inside)
            taken = {other.name for other in (*flat, *found.parameters)} if depth else set()
            flat.append(replace(one, name=f"{one.name}_{depth}" if one.name in taken else one.name))
            return len(flat) - 1

        tree = tuple(laid(one) for one in found.parameters)
        return replace(found, parameters=tuple(flat), tree=tree)

    def members(self, kind: str) -> tuple[Parameter, ...]:
        """Of a struct by its name its members in order; none where it is not read here, or has anything but
        pointers, numbers and such structs."""
        for path, one in self.declarations(kind) if kind.isidentifier() else ():
            words = [token.text for token in one.head]
            if one.kind != "type" or kind not in one.names or "{" not in words:
                continue
            plain = {"union", "enum", "template", ":", "alignas"}.isdisjoint(
                words[: words.index("{")]
            )
            made = _members(self.texts[path], one) if plain else ()
            known = all(m.stars or m.type in TYPED or self.members(m.type) for m in made)
            return made if known else ()
        return ()

    def constant(self, name: str) -> tuple[Token, ...] | None:
        """The value of a variable outside of functions."""
        for _, one in self.declarations(name):
            if one.kind == "variable" and name in one.names:
                return next((v for at, n, v in definitions(one.head) if n == name), None)
        return None

    def plain(self, kind: str) -> str:
        """The type that a name of a type stands for: of a typedef, an alias or a macro."""
        for path in self.own:
            found = re.search(
                rf"\btypedef\s+([\w ]+?)\s+{re.escape(kind)}\s*;|\busing\s+{re.escape(kind)}\s*=\s*([\w ]+?)\s*;"
                rf"|^[ \t]*#[ \t]*define[ \t]+{re.escape(kind)}[ \t]+([\w ]+?)[ \t]*$",
                self.texts[path], re.MULTILINE,
            )  # fmt: skip
            if found:
                return str(next(filter(None, found.groups())))
        return kind

    def returned(self, name: str) -> tuple[Scope, tuple[Token, ...]] | None:
        """What a function without arguments returns at its end."""
        for _, one in self.declarations(name):
            ends = [i for i, token in enumerate(one.body) if token.text == "return"]
            if one.name == name and ends:
                return Scope(self, one.body, one.end), _until(one.body, ends[-1] + 1, ";")
        return None

    def launches(self, kernel: str) -> list[Launch]:
        """Where the host's code launches a kernel, the kernel's own file first."""
        made = (
            launch
            for path, one in self.declarations(kernel)
            for i, token in enumerate(one.body)
            if token.text == kernel
            for launch in self._launch(path, one, i)
        )
        return sorted(made, key=lambda one: not one.arguments)

    def _launch(self, path: Path, around: Declaration, place: int) -> Iterator[Launch]:
        """The launch that begins with the name at ``place``, or that follows a pointer to it."""
        body, i = around.body, place + 1
        line = line_of(self.texts[path], body[place].at)
        scope = Scope(self, body, body[place].at)
        template: tuple[tuple[Token, ...], ...] = ()
        if _chevrons(body, i, "<") is None and i < len(body) and body[i].text == "<":
            try:
                end = angle(body, i)
            except Unreadable:
                return
            template = tuple(parts(body[i + 1 : end]))
            i = end + 1
        start = _chevrons(body, i, "<")
        if start is not None:
            stop = next((j for j in range(start, len(body)) if _chevrons(body, j, ">")), None)
            if stop is None:
                return
            grid, block, shared, *_ = [*parts(body[start:stop]), (), (), ()]
            arguments = tuple(parts(body[stop + 4 : closing(body, stop + 3)]))
            yield Launch(template, grid, block, shared, arguments, scope, line)
        elif body[i].text in ";,)" and "__global__" not in {one.text for one in around.head}:
            yield from self._by_pointer(body, i, template, line)

    def _by_pointer(
        self,
        body: Sequence[Token],
        place: int,
        template: tuple[tuple[Token, ...], ...],
        line: int,
    ) -> Iterator[Launch]:
        """The first grid and block that are declared behind a mention of the kernel."""
        found: dict[str, Token] = {}
        for i in range(place, len(body) - 1):
            if body[i].text == "dim3" and body[i + 1].word:
                name = body[i + 1]
                kind = "grid" if GRID.search(name.text) else "block"
                found.setdefault(kind, name)
            if len(found) == 2:
                at = max(one.at for one in found.values()) + 1
                at = next(one.at for one in body if one.at > at and one.text == ";")
                scope = Scope(self, tuple(body), at)
                yield Launch(template, (found["grid"],), (found["block"],), (), (), scope, line)
                return


def shortened(sides: Sequence[Any]) -> list[Any]:
    """Sides of a grid, block or cluster without those at the end that are 1."""
    made = list(sides)
    while len(made) > 1 and made[-1] == 1:
        made.pop()
    return made


def _chevrons(body: Sequence[Token], i: int, sign: str) -> int | None:
    """Index behind three signs next to each other from ``i`` on."""
    three = body[i : i + 3]
    near = [one.text for one in three] == [sign] * 3 and three[2].at == three[0].at + 2
    return i + 3 if near else None


def definitions(body: Sequence[Token]) -> list[tuple[int, str, tuple[Token, ...]]]:
    """(place in the text, name, value) of what is assigned or, for dim3, constructed."""
    made = []
    sides = False  # in a declaration of dim3, which may have several names
    for i, one in enumerate(body[:-1]):
        follows = body[i + 1].text
        sides = one.text == "dim3" or (sides and one.text != ";")
        if not one.word:
            continue
        before = {token.text for token in body[max(0, i - 2) : i]}
        if follows == "=" and i + 2 < len(body) and body[i + 2].text != "=":
            value = _until(body, i + 2)
        elif (follows in "({" and sides and before & {"dim3", ","}) or (
            follows == "{" and before & NUMBERS
        ):
            value = tuple(body[i + 2 : closing(body, i + 1)])
        else:
            continue
        if value and value[0].text in ("dim3", "{"):
            opening = 0 if value[0].text == "{" else 1
            value = value[opening + 1 : closing(value, opening)]
        made.append((one.at, one.text, tuple(value)))
    return made


def _until(body: Sequence[Token], start: int, ends: str = ",;") -> tuple[Token, ...]:
    i = start
    while i < len(body) and body[i].text not in ends:
        i = closing(body, i) + 1 if body[i].text in OPEN else i + 1
    return tuple(body[start:i])


@dataclass(frozen=True)
class Scope:
    """The names at a place in a function of the host."""

    source: Source
    body: tuple[Token, ...]
    at: int

    def value(self, name: str) -> tuple[Token, ...] | None:
        """What a name was set to last before this place, or outside of functions."""
        found = [value for at, one, value in definitions(self.body) if one == name and at < self.at]
        return found[-1] if found else self.source.constant(name)


def function(path: Path, one: Declaration) -> Function:
    """A kernel's signature."""
    head = one.head
    template: list[TemplateParameter] = []
    if head[0].text == "template":
        for part in parts(head[2 : angle(head, 1)]):
            words = [token.text for token in part]
            cut = words.index("=") if "=" in words else len(words)
            kind = next(word for word in words if word != "const")
            template.append(TemplateParameter(kind, words[cut - 1], part[cut + 1 :]))
    places = [i for i, token in enumerate(head) if token.text == one.name]
    opening = next(i for i in reversed(places) if head[i + 1].text == "(") + 1
    given = [_parameter(part) for part in parts(head[opening + 1 : closing(head, opening)])]
    bounds = [i for i, token in enumerate(head) if token.text == "__launch_bounds__"]
    bound = parts(head[bounds[0] + 2 : closing(head, bounds[0] + 1)])[0] if bounds else ()
    tree = tuple(range(len(given)))
    return Function(one.name, path, one, tuple(template), tuple(given), bound, tree)


def _members(text: str, found: Declaration) -> tuple[Parameter, ...]:
    """A struct's members; none where one of them is no plain number or pointer."""
    made: list[Parameter] = []
    for one in members(text, found):
        words = {token.text for token in one.head}
        if one.kind in ("function", "other") or "static" in words:
            continue
        if one.kind == "type" or words & {"[", ":", "alignas"}:
            return ()
        first, *more = map(_parameter, parts([token for token in one.head if token.text != ";"]))
        made += [first, *(replace(m, type=first.type, constant=first.constant) for m in more)]
    return tuple(made)


def _parameter(part: Sequence[Token]) -> Parameter:
    words = [token.text for token in part]
    words = words[: words.index("=")] if "=" in words else words
    array = "[" in words
    words = words[: words.index("[")] if array else words
    stars = words.count("*") + array
    before = words[:-1] if stars or len(words) > 1 else words
    kind = " ".join(word for word in before if word not in QUALIFIERS and word != "*")
    return Parameter(words[-1], kind.replace(" :: ", "::"), stars, "const" in words)


def _root(path: Path) -> Path:
    """The folder that launches and headers are looked for in: of the repository, where that is near, else
    the one above the file's, unless that is full of other things."""
    near = path.parents[: LEVELS + 1]
    repository = next((one for one in near if (one / ".git").exists()), None)
    above = near[min(1, len(near) - 1)]
    crowded = above in (Path.home(), Path("/"), Path("/tmp")) or len(list(above.iterdir())) > CROWD
    return repository or (near[0] if crowded else above)


def _around(path: Path) -> list[Path]:
    """Files with code, those nearest to the kernel's first."""
    root = _root(path)
    every = (one for one in root.rglob("*") if one.suffix in SOURCES)
    own = (one for one in every if not OTHERS.search(one.relative_to(root).as_posix()))
    found = itertools.islice(own, MOST_FILES)
    files = [one for one in found if one.is_file() and one.stat().st_size <= MOST_BYTES]
    return sorted(files, key=lambda one: (one.parent != path.parent, str(one)))


def _folder(name: str, file: Path, home: Path) -> Path | None:
    """The folder of headers in which an include's name is this file; None where it is another. A name with
    `..` is one from the folder of the file that includes it."""
    parts = Path(name).parts
    if ".." in parts:
        return file.parent if Path(os.path.normpath(home / name)) == file else None
    return file.parents[len(parts) - 1] if file.parts[-len(parts) :] == parts else None


def read(path: Path) -> tuple[Source, tuple[Path, ...]]:
    """A file with what lies around it, and the folders of headers that it needs besides its own."""
    text = path.read_text(encoding="utf-8", errors="replace")
    around = _around(path)
    folders: list[Path] = []
    while True:
        found = includes.kernel_headers(text, path.parent, *folders)
        names = {
            name
            for one in (text, *found.values())
            for mark, name in includes.INCLUDE.findall(one)
            if found.get(name, includes.REFUSED) == includes.REFUSED and not includes.provided(name)
        }
        known = (None, *folders, path.resolve().parent)
        may = (_folder(name, other, path.parent) for name in sorted(names) for other in around)
        more = next((folder for folder in may if folder not in known), None)
        if more is None:
            break
        folders.append(more)
    own = {path: text}
    texts = {one: one.read_text(encoding="utf-8", errors="replace") for one in around}
    by_text = {one: where for where, one in texts.items()}
    for one in found.values():
        own.setdefault(by_text.get(one, path.parent / str(len(own))), one)
    texts = {where: one for where, one in texts.items() if where != path.resolve()}
    return Source(path, {**texts, **own}, tuple(own)), tuple(folders)
