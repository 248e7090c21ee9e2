"""A program's code for the host as code for the device: NVRTC compiles it behind `host_code.cuh`.

That header stands for the C++ library and CUDA's runtime. A kernel's body writes down its arguments, and a launch
its grid; what they say is read by `checking.programs`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics.files import lies_in
from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import reading
from tilewave.compiling import declarations as syntax
from tilewave.compiling import nvcc, nvrtc
from tilewave.compiling.declarations import Unreadable
from tilewave.compiling.source import TOKEN as LITERAL
from tilewave.kernel import includes

RUNTIME = Path(__file__).with_suffix(".cuh").read_text(encoding="utf-8")
TABLES: dict[str, Any] = table_beside(__file__)
PATTERNS = {name: re.compile(text, re.MULTILINE) for name, text in TABLES["patterns"].items()}
NUMBER = re.compile(r"\b\d+(?=(?:\.0*)?[fFuUlL]*\b)")
POISON = 0xCD
"""A byte of memory of the device that nothing has written: no usual number, as -1 is."""
PLACE = re.compile(
    r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): error|at line (?P<second>\d+) of (?P<in>[^\s:]+)",
    re.MULTILINE,
)
"""Where a compiler's log says that an error is, or what leads to one."""
OF_LINE = re.compile(r'#line (\d+) "(.*)"')
BEFORE_BLOCK = (")", ";", "{", "}", "else", "do", "try", ":", "const", "noexcept", "override")
MAIN = re.compile(r"\bmain\s*\(([^)]*)\)")
CALLS = ("", "count", "count, arguments")
"""What main gets, by the number of its parameters."""
MOST_BITS, MOST_TEXT, MOST_LAUNCHES, MOST_LAUNCH = 40, 1 << 19, 100, 1000
"""Limits of shifts, and of characters and launches of a program, and characters of a launch."""


@dataclass
class HostCode:
    """A program as device code, but for names that nothing declares (`declare`).

    takes_arguments: whether main takes those of a command line; whole: whether all that it calls is known."""

    code: str
    declarations: str
    members: str = ""
    takes_arguments: bool = False
    whole: bool = True

    def text(self, gap: int) -> str:
        """Return the whole text. gap: bytes between two arrays of the device."""
        head = f"{TABLES['head']}#define TW_GAP {gap}\n#define TW_POISON {POISON}\n"
        head += f"#define TW_MEMBERS {self.members}\n{RUNTIME}\n{self.declarations}"
        match = MAIN.search(self.code)
        given = match[1].strip() if match else ""
        count = 0 if given in ("", "void") else min(given.count(",") + 1, 2)
        entry = TABLES["entry"].replace("CALL", f"tw_main({CALLS[count]})")
        return f"{head}#define main tw_main\n{self.code}\n{entry}"

    def repair(self, log: str) -> bool:
        """Declare what a compiler's log misses, else take out the statements that it refuses; return whether
        anything changed."""
        if missing := PATTERNS["undefined"].search(log):
            return self._define(missing[1])
        declared = [self._declare(of["text"]) for of in nvrtc.MESSAGE.finditer(log)]
        places = dict.fromkeys((of[1] or of[4], of[2] or of[3]) for of in PLACE.finditer(log))
        repaired = declared if any(declared) else [self._take_out(*place) for place in places]
        return any(repaired)

    def _take_out(self, file: str, line: str) -> bool:
        """Take out the statement of a line, but for what `repairs` puts in its place."""
        name, number, at = "", 0, 0
        for text in self.code.splitlines(True):
            if (name, number) == (Path(file).name, int(line)):
                break
            place = OF_LINE.match(text)
            name, number = (place[2], int(place[1])) if place else (name, number + 1)
            at += len(text)
        try:
            begin, end = _statement(self.code, at, at + len(text))
        except (Unreadable, IndexError):
            return False
        gone = self.code[begin:end]
        if not gone.strip("; \n"):
            return False
        repairs = ((re.compile(of), text) for of, text in TABLES["repairs"].items())
        rest = ";" + "\n" * gone.count("\n")
        instead = next((of.sub(text, gone) for of, text in repairs if of.match(gone)), rest)
        self.code, self.whole = f"{self.code[:begin]}{instead}{self.code[end:]}", False
        return instead != gone

    def _define(self, name: str) -> bool:
        """Define a function that is only declared: it does nothing."""
        for item in syntax.declarations(self.code):
            if item.kind == "function" and item.name == name and not item.defined:
                gives = "void" not in {of.text for of in item.head[:2]}
                body = " { return tilewave::Any(); }" if gives else " {}"
                self.code, self.whole = (
                    f"{self.code[: item.end - 1]}{body}{self.code[item.end :]}",
                    False,
                )
                return True
        return False

    def _declare(self, message: str) -> bool:
        member, missing = PATTERNS["member"].search(message), nvcc.UNDEFINED.search(message)
        if member:
            self.members += f" int {member[1]};"
            return True
        if missing is None or f" {missing[1]}" in self.declarations or not missing[1].strip("_"):
            return False
        self.declarations += _declared(missing[1], self.code, len(self.declarations))
        self.whole = False
        return True


def _statement(text: str, at: int, end: int) -> tuple[int, int]:
    """Return begin and end of the innermost statement or function of which a part lies between two positions."""
    stream, i, first = syntax.tokens(text), 0, 0
    while i < len(stream):
        token, head = stream[i].text, stream[first:i]
        if token not in (*syntax.OPEN, ";", "}"):
            i += 1
            continue
        close = syntax.closing(stream, i) if token in syntax.OPEN else i
        while token == "{" and stream[first].text == "if" and stream[close + 1].text == "else":
            close = next((k for k in range(close, len(stream)) if stream[k].text == "{"), close)
            close = syntax.closing(stream, close)
        opens = token == "{" and (head[-1:] or stream[i - 1 : i])[0].text in BEFORE_BLOCK
        opens |= token == "{" and any(
            of.text in (*syntax.TYPES, "namespace", "extern") for of in head
        )
        if opens and stream[i].at < at < stream[close].at:
            close = i  # into the block
        elif (opens or token == ";") and first < i and stream[close].at >= at:
            return (stream[first].at, stream[close].end) if stream[first].at < end else (at, at)
        i = close + 1
        first = i if opens or token in ";}" else first
    return at, at


def of_text(text: str) -> HostCode:
    """Return a program's text (`whole_text`) as device code. Raises Unreadable."""
    code = _as_device_code(text)
    words = {*re.findall(r"\w+", code)}
    using = "".join(f"using std::{of}; " for of in TABLES["of_std"].split() if of in words)
    using += "namespace chrono = std::chrono; " * ("chrono" in words)
    code = PATTERNS["std"].sub(using, code, count=1)
    for pattern, instead in TABLES["instead"].items():
        code = re.sub(pattern, instead, code)
    names = {name or declared for name, declared in PATTERNS["renamed"].findall(RUNTIME)}
    lines = [f"#define {name} tw_{name}" for name in sorted(names & words)]
    lines += [
        line
        for name, line in nvcc.TABLES["names"].items()
        if name in words and not line.startswith("#include")
    ]
    foreign = [of for of in sorted(words) if PATTERNS["libraries"].fullmatch(of)]
    stubs = "".join(_declared(name, code, at) for at, name in enumerate(foreign, 1))
    reads = {*TABLES["reading"].split()}.intersection(re.findall(r"\w+", code))
    whole = not (foreign or reads)
    return HostCode(code, "\n".join([*lines, stubs]), "", "argv" in words, whole)


def _declared(name: str, code: str, value: int) -> str:
    """Return a declaration of a name, by its uses: a value, a function or a type."""
    called = re.search(rf"\b{name}\s*\(", code)
    if name.isupper():  # a macro, as those around calls of CUDA's runtime
        if called:
            return f"#define {name}(...) ((void) 0, ##__VA_ARGS__)\n"
        return f"#define {name} {0 if name.endswith('SUCCESS') else value}\n"
    if called:
        return f"template <class... A> TW tilewave::Any {name}(A&&...) {{ return {{}}; }}\n"
    typed = re.search(rf"\b{name}[\s*&]+\w", code)
    return f"typedef int {name};\n" if typed else f"__device__ tilewave::Any {name};\n"


def _as_device_code(text: str) -> str:
    for item in reversed(syntax.declarations(text)):
        if item.kind == "function" and "__global__" in item.identifiers and item.body:
            brace = text.index("{", item.head[-1].end)
            names = (of.name for of in reading.signature(Path(), item).parameters)
            given = "".join(f", {name}" for name in names if name)
            lines = "\n" * text.count("\n", brace, item.end)
            body = f"{{ tilewave::launched(__PRETTY_FUNCTION__{given}); {lines}}}"
            text = f"{text[:brace]}{body}{text[item.end :]}"
        elif item.name == "main" and item.body:
            text = f"{text[: item.end - 1]}return 0; }}{text[item.end :]}"
    text = re.sub(r"< ?< ?<(?=[^;{}]{0,1000}?> ?> ?>)", "<<<", text)
    parts, at = list[str](), 0
    while (begin := text.find("<<<", at)) >= 0:
        close = re.compile(r"> ?> ?>\s*(?=\()").search(text, begin, begin + MOST_LAUNCH)
        if close is None or ";" in text[begin : close.start()]:  # in a text
            parts.append(text[at : begin + 3])
            at = begin + 3
            continue
        if len(parts) > 3 * MOST_LAUNCHES:
            raise Unreadable(f"it has more than {MOST_LAUNCHES} launches")
        how = f", tilewave::configured(__FILE__, __LINE__, {text[begin + 3 : close.start()]})"
        end = _end(text, close.end())
        parts += [text[at:begin], text[close.end() : end], how]
        at = end
    return "".join([*parts, text[at:]])


def _end(text: str, at: int) -> int:
    """Return the end of what the bracket at a position begins."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if depth == 0:
            return end + 1
    raise Unreadable("a bracket is not closed")


def whole_text(files: Sequence[Path], folders: Sequence[Path]) -> str:
    """Return files without comments, with their own headers in place of their includes, each once."""
    seen = set[Path]()

    def of(file: Path) -> str:
        seen.add(file)
        lines = file.read_text("utf-8-sig", "replace").splitlines()
        for at, line in enumerate(lines):
            if match := includes.INCLUDE.match(line):
                places = (place / match[2] for place in (file.parent, *folders))
                header = next((place.resolve() for place in places if place.is_file()), None)
                if header is not None and lies_in(header, [file.parent, *folders]):
                    inner = "" if header in seen else of(header)
                    back = f'#line {at + 2} "{file.name}"'
                    lines[at] = f'#line 1 "{header.name}"\n{inner}\n{back}'
                elif not PATTERNS["headers"].search(match[2]):
                    lines[at] = ""
        return "\n".join(lines)

    every = "\n".join(f'#line 1 "{file.name}"\n{of(file)}' for file in files if file not in seen)
    text = LITERAL.sub(_without_comment, every)
    if len(text) > MOST_TEXT:
        raise Unreadable(f"it has more than {MOST_TEXT} characters")
    return f"{text}\n"


def _without_comment(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n") or " " if match["comment"] else match[0]


def smaller(text: str, most: int) -> tuple[str, list[str]]:
    """Return a text whose constants are at most so large, wherever their values stand, and with few rounds of a
    measurement; and the constants that changed, ``N = 128``."""
    values, places, notes = dict[str, str](), dict[tuple[int, int], str](), list[str]()
    for match in PATTERNS["constant"].finditer(text):
        name, value = match[1] or match[2], 1
        for factor in match[3].replace("'", "").split("*"):
            number, _, shift = factor.partition("<<")
            value *= int(number) << min(int(shift or 0), MOST_BITS)
        side = value
        while side > most:
            side = -(-side // 2)
        if PATTERNS["rounds"].search(name):
            places[match.span(3)] = str(min(value, 2))
        elif side < value and not PATTERNS["kept"].search(name):
            values |= {match[3]: str(side)} if match[3].isdigit() else {}
            places[match.span(3)] = str(side)
            notes.append(f"{name} = {side}")
    for (start, end), changed in sorted(places.items(), reverse=True):
        text = f"{text[:start]}{changed}{text[end:]}"
    return NUMBER.sub(lambda of: values.get(of[0], of[0]), text), notes
