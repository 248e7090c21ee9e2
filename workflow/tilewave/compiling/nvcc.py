"""Adaptation of files written for nvcc, whose host code, headers and names NVRTC refuses.

A text with signs of nvcc is compiled unchanged first, and adapted (`adapted`) only if that fails. Code that
no device function needs is blanked out line by line, so that line numbers stay. A header in front supplies
names that nvcc takes from the C and C++ library. Headers that support NVRTC (CUTLASS, cute) stay the same.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from tilewave.basics.tables import table_beside
from tilewave.compiling import declarations as syntax
from tilewave.compiling import source
from tilewave.compiling.declarations import Declaration, Macro, Unreadable
from tilewave.kernel.includes import INCLUDE, STAND_INS, of_host

PRELUDE = "tilewave_nvcc.h"
"""Name of the header that declares the names of `TABLES` and of the C++ library."""
TABLES = table_beside(__file__)
"""Declarations of names that nvcc knows and NVRTC does not."""
SIGN = re.compile(
    r"<<<|\bmain\s*\(|\bstd::|\bcu(?:da|blas)[A-Z]\w*\s*\(|__host__|\busing\s+namespace\s+std\b"
    # A function without an annotation.
    r"|(?:\A|[;}]|^[ \t]*#[^\n]*\n)\s*(?:extern\s+)?(?:void|int|float|double|bool)\s+\w+\s*\(",
    re.MULTILINE,
)
FOREIGN_DEVICE = re.compile(r"[A-Z\d_]*(?:DEVICE|GLOBAL|KERNEL)[A-Z\d_]*")
"""Annotations of libraries whose macros are unknown here: CUTE_DEVICE, CUTLASS_HOST_DEVICE."""
KNOWS_NVRTC = "__CUDACC_RTC__"
"""The macro that a header tests to support NVRTC."""
ANSWERS = re.compile(
    rf"^[ \t]*#[ \t]*(?:ifdef[ \t]+{KNOWS_NVRTC}|(?:el)?if\b(?!.*![ \t]*defined[ \t(]*{KNOWS_NVRTC}).*{KNOWS_NVRTC})",
    re.MULTILINE,
)
"""A test of that macro in a library's headers; `GUARD` around host code does not count."""
FOR_HOST = re.compile(r"\b(?:[A-Z\d]+_HOST|__host__)\b(?!\s*__device__)")
"""An annotation of a host-only function, which NVRTC refuses."""
UNANNOTATED = "-default-device"
"""The option that makes functions without an annotation device functions, as such headers expect."""
GUARD = "put #ifndef __CUDACC_RTC__ before it and #endif after it"
PLAIN = frozenset(
    "static inline const constexpr bool char short int long unsigned signed float double size_t uint".split()
)
UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
OPTIONS: Mapping[str, str] = TABLES["options"]
KNOWN = re.compile(rf"using std :: (?:{'|'.join(TABLES['known'].split())}) ;")
"""A using-declaration of a function that NVRTC declares outside of namespaces, with which it conflicts."""
NOT_FOUND = re.compile(r'cannot open source file "([^"]+)"')
FRONT_MATTER = re.compile(r"\A\s*/\*---.*?\*/", re.DOTALL)
EVERYTHING = re.compile(rf"{syntax.TOKEN.pattern}|.", syntax.TOKEN.flags)
NAMED = 4
"""Declarations of the kernel file that a warning names; it only counts those of headers."""


def option(message: str) -> str:
    """Return the compiler option that allows what a message refuses; empty if there is none."""
    return next((flag for sign, flag in OPTIONS.items() if re.search(sign, message)), "")


@dataclass(frozen=True)
class Part:
    """A named range of lines of a file, both ends included."""

    file: str
    name: str
    first: int
    last: int

    def __str__(self) -> str:
        several = self.last > self.first
        lines = f"lines {self.first}-{self.last}" if several else f"line {self.first}"
        return f"{self.name or 'a declaration'} ({lines})"


@dataclass(frozen=True)
class Adapted:
    """A kernel's text, its headers and the header in front in a form that NVRTC accepts, with compiler
    options. left_out: the parts that were blanked out; unread: True if unbalanced braces prevented that."""

    file: str
    text: str
    headers: Mapping[str, str]
    prelude: str
    left_out: tuple[Part, ...]
    unread: bool = False
    options: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """A line that names the skipped parts; empty if there are none."""
        files = list(dict.fromkeys(part.file for part in self.left_out))
        skipped = []
        for file in files:
            parts = [str(part) for part in self.left_out if part.file == file]
            if file == self.file or len(files) == 1:
                more = [f"{len(parts) - NAMED} more"] if parts[NAMED:] else []
                skipped += [*parts[:NAMED], *more]
            else:
                skipped.append(f"{len(parts)} of {Path(file).name}")
        return f"skipped as host code: {', '.join(skipped)}" if skipped else ""

    def hint(self, line: int, message: str) -> str:
        """Return advice on a compiler error; empty if there is none."""
        missing, unknown = NOT_FOUND.search(message), UNDEFINED.search(message)
        allowing = option(message)
        if allowing:
            return f"add to the front matter: compiler: {{options: [{allowing}]}}"
        if missing:
            return (
                "it lies neither beside the kernel file nor among CUDA's headers; give --include FOLDER, "
                "or add its folder to the front matter: compiler: {include: [FOLDER]}"
            )
        if unknown:
            gone = next((part for part in self.left_out if part.name == unknown[1]), None)
            if gone:
                return f"{gone} was skipped as host code"
            code = "\n".join((self.text, *self.headers.values()))
            if re.search(rf"\btex\w+ *\( *{unknown[1]}\b", code):
                return "CUDA 12 has no texture references: take a pointer, or a texture object"
            if unknown[1].isupper():
                where = f"in the front matter, macros: {{{unknown[1]}: [VALUE]}}"
                return f"define it with --macro {unknown[1]}=VALUE, or {where}"
        return f"if line {line} is host code, {GUARD}" if self.unread else ""


@functools.lru_cache(maxsize=256)
def _shows_signs(text: str) -> bool:
    code = source.code(text)
    if SIGN.search(code) or any(re.search(rf"\b{name}\b", code) for name in TABLES["names"]):
        return True
    return any(name not in STAND_INS and bool(of_host(name)) for _, name in INCLUDE.findall(text))


def adapted(name: str, text: str, headers: Mapping[str, str], entry: str) -> Adapted | None:
    """Adapt a kernel file that shows signs of nvcc, else return None. entry: the kernel's name in front matter."""
    if not any(map(_shows_signs, (text, *headers.values()))):
        return None
    code = FRONT_MATTER.sub("", text, count=1)
    done, lines = _adapted(name, code, (*headers.items(),), entry), text[: -len(code)].count("\n")
    moved = (
        replace(of, first=of.first + lines, last=of.last + lines) if of.file == name else of
        for of in done.left_out
    )
    return replace(done, text=text.removesuffix(code) + done.text, left_out=tuple(moved))


@functools.lru_cache(maxsize=64)
def _adapted(name: str, text: str, headers: tuple[tuple[str, str], ...], entry: str) -> Adapted:
    knowing = _knowing(dict(headers))
    read = {file: header for file, header in headers if file not in knowing}
    texts = {name: text, **read}
    try:
        cut, left_out, plain, unread = *_cut(texts, frozenset(re.findall(r"\w+", entry))), False
    except Unreadable:
        cut, left_out, plain, unread = texts, (), False, True
    cut_headers = {file: cut[file] for file in read}
    options = (UNANNOTATED,) if knowing or plain else ()
    prelude = _prelude(tuple(map(source.code, cut.values())))
    return Adapted(name, cut[name], cut_headers, prelude, left_out, unread, options)


def _knowing(headers: Mapping[str, str]) -> set[str]:
    """Return headers of libraries (first folders) that support NVRTC and those they include, but no host-only ones."""
    libraries = {name.split("/")[0] for name, text in headers.items() if ANSWERS.search(text)}
    knowing = [name for name in headers if name.split("/")[0] in libraries]
    for member in knowing:  # the list grows meanwhile
        knowing += dict.fromkeys(
            name
            for _, name in INCLUDE.findall(headers[member])
            if name in headers and name not in knowing
        )
    plain = {name for name in knowing if not FOR_HOST.search(source.code(headers[name]))}
    return plain | {name for name in knowing if KNOWS_NVRTC in headers[name]}


def _prelude(codes: tuple[str, ...]) -> str:
    """Return the header in front of these texts without comments; empty if they need none."""
    code = "\n".join(codes)
    words = {*re.findall(r"(?<!::)\b\w+", code)}
    patterns = (name for name in TABLES["names"] if name in words or not name.isidentifier())
    names = [name for name in patterns if re.search(rf"(?<!::)\b{name}\b", code)]
    declared = r"#\s*define\s+{0}\b|\busing\s+{0}\s*="
    lines = [TABLES["names"][name] for name in names if not re.search(declared.format(name), code)]
    named = "using namespace std" in code
    of_std, space = TABLES["of_std"].items(), "" if named else "std::"
    lines += [line for name, line in of_std if re.search(rf"\b{space}{name}\b", code)]
    hosts = re.findall(r"using namespace (Eigen|cv|std::\w+)\b", code)
    lines += [f"namespace {name} {{}}" for name in hosts]
    if "std::" in code or named:
        included = {name for _, name in INCLUDE.findall(code)}
        standard = (name for name in TABLES["standard"].split() if name in included)
        lines += [f"#include <cuda/std/{name}>" for name in standard]
        lines += ["namespace cuda { namespace std {} }"]
        lines += ["namespace std { using namespace ::cuda::std; }"]
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


@dataclass(frozen=True)
class _Piece:
    """A declaration of a file; ``cuts``: the host functions among a type's members."""

    file: str
    declaration: Declaration
    device: bool
    cuts: tuple[Declaration, ...]

    @functools.cached_property
    def identifiers(self) -> frozenset[str]:
        return frozenset(
            token.text
            for token in (*self.declaration.head, *self.declaration.body)
            if token.word and not any(cut.start <= token.at < cut.end for cut in self.cuts)
        )


def _device_marks(defined: Mapping[str, Macro]) -> frozenset[str]:
    """Return the annotations of device code, and the macros that contain one."""
    marks, before = set(syntax.DEVICE_KEYWORDS), 0
    while len(marks) != before:
        before = len(marks)
        marks |= {name for name, macro in defined.items() if macro.identifiers & marks}
    return frozenset(marks)


def _pieces(texts: Mapping[str, str], defined: Mapping[str, Macro]) -> list[_Piece]:
    device = _device_marks(defined)

    def marked(names: Iterable[str]) -> bool:
        return any(
            name in device or (name not in defined and FOREIGN_DEVICE.fullmatch(name))
            for name in names
        )

    def of_host_only(declaration: Declaration) -> bool:
        names = {token.text for token in declaration.head if token.word}
        constant = names & (syntax.CONSTANT_KEYWORDS | {"default", "delete"})
        return declaration.kind == "function" and not marked(names) and not constant

    pieces = []
    for file, text in texts.items():
        for declaration in syntax.declarations(text):
            names = {token.text for token in declaration.head if token.word} - {*declaration.names}
            inside = syntax.members(text, declaration) if declaration.kind == "type" else ()
            cuts = tuple(member for member in inside if of_host_only(member))
            functor = declaration.kind == "type" and "thrust" in names  # its base is empty
            pieces.append(_Piece(file, declaration, marked(names) and not functor, cuts))
    return pieces


def _needless(pieces: list[_Piece], defined: Mapping[str, Macro], roots: Set[str]) -> set[int]:
    """Return the indices of the pieces that are no device code and that no device code needs."""
    kernels = {piece.declaration.name for piece in pieces if piece.device}

    def stays(piece: _Piece) -> bool:
        declaration = piece.declaration
        first, other = declaration.head[0].text, declaration.kind == "other"
        instantiation = first == "template" and other
        return (
            piece.device
            or _is_number(declaration)
            or (other and first in ("using", "namespace", "asm") and not declaration.names)
            or (instantiation and bool(declaration.identifiers & kernels))
        )

    new = {i for i, piece in enumerate(pieces) if stays(piece)}
    rest = {i: piece.declaration for i, piece in enumerate(pieces)}
    named, called = set(roots), set(roots)
    while new:
        for i in new:
            del rest[i]
            named |= pieces[i].identifiers
            called |= pieces[i].declaration.called
        for name in named & defined.keys():
            named |= defined[name].identifiers
            called |= defined[name].identifiers
        new = {i for i, declaration in rest.items() if _needed(declaration, named, called)}
    gone = {name for declaration in rest.values() for name in declaration.names}
    asserts = {i for i, declaration in rest.items() if declaration.head[0].text == "static_assert"}
    heads = (" ".join(token.text for token in piece.declaration.head) for piece in pieces)
    declared = {i for i, head in enumerate(heads) if KNOWN.fullmatch(head)}
    return declared | {i for i in rest if i not in asserts or pieces[i].identifiers & gone}


def _is_number(declaration: Declaration) -> bool:
    """Return whether it is a constant of a plain type, which needs no host code."""
    before = [token.text for token in declaration.head]
    names = before[: before.index("=")] if "=" in before else []
    constant = bool({"const", "constexpr"} & set(names)) and not {"(", "::"} & set(before)
    return declaration.kind == "variable" and constant and PLAIN.issuperset(names[:-1])


def _needed(declaration: Declaration, named: set[str], called: set[str]) -> bool:
    """Return whether device code with these names needs a declaration: of the host's, NVRTC takes only constants."""
    variable = declaration.kind == "variable"
    keywords = syntax.CONSTANT_KEYWORDS | ({"const", "concept"} if variable else set())
    if declaration.kind == "function":
        return declaration.name in called and any(of.text in keywords for of in declaration.head)
    fixed = bool(declaration.identifiers & keywords)
    return (fixed or not variable) and not named.isdisjoint(declaration.names)


def _cut(
    texts: Mapping[str, str], roots: Set[str]
) -> tuple[dict[str, str], tuple[Part, ...], bool]:
    """Return texts without host code, skipped parts, and whether a constexpr function is left. Raises Unreadable."""
    defined: dict[str, Macro] = {}
    for text in texts.values():
        defined = {**syntax.macros(text), **defined}
    pieces = _pieces(texts, defined)
    needless = _needless(pieces, defined, roots)
    cut, left_out = dict(texts), []
    for i, piece in enumerate(pieces):
        text = texts[piece.file]
        for declaration in (piece.declaration,) if i in needless else piece.cuts:
            lines = [syntax.line_of(text, at) for at in (declaration.start, declaration.end - 1)]
            left_out.append(Part(piece.file, declaration.name, *lines))
            start, end, text = declaration.start, declaration.end, cut[piece.file]
            cut[piece.file] = text[:start] + _blanked(text[start:end]) + text[end:]
    functions = {i for i, piece in enumerate(pieces) if piece.declaration.kind == "function"}
    plain = any(not pieces[i].device for i in functions - needless)
    return cut, tuple(left_out), plain


@functools.lru_cache(maxsize=1024)
def _blanked(text: str) -> str:
    """Blank a text, without ends of lines and preprocessor lines."""

    def blank(match: re.Match[str]) -> str:
        return match["directive"] or re.sub(r"[^\r\n]", " ", match[0])

    return EVERYTHING.sub(blank, text)
