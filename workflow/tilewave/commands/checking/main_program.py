"""A file's program: `main`, executed by one thread of the machine, and the kernels that it launches.

NVRTC compiles the host's code as device code, behind `main_program.cuh`, which stands for the C++ library and CUDA's
runtime; a kernel's body there writes down its launch. The kernels are executed with the memory that main has filled,
and main once more with what they changed, until it ends.
"""

import contextlib
import functools
import re
import struct
import textwrap
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics import memory
from tilewave.basics.errors import UserError
from tilewave.basics.paths import relative
from tilewave.basics.tables import table_beside
from tilewave.commands import execute
from tilewave.commands.wrapping import finding, writing
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.compiling import declarations as syntax
from tilewave.compiling import nvcc
from tilewave.compiling.declarations import Declaration, Unreadable
from tilewave.execution.machine.launch import ALIGNMENT, ORIGIN
from tilewave.execution.places import Places, by_lines, described, sentence
from tilewave.kernel import includes, result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import variant
from tilewave.pipeline import single

RUNTIME = Path(__file__).with_suffix(".cuh").read_text(encoding="utf-8")
TABLES: dict[str, Any] = table_beside(__file__)
PATTERNS = {name: re.compile(text, re.MULTILINE) for name, text in TABLES["patterns"].items()}
ENTRY = "tilewave_program"
DEVICE_BYTES, HOST_BYTES, TEXT_BYTES = 1 << 28, 1 << 29, 1 << 16
"""Most memory of the device and of the host, and of what main prints, at the host's beginning."""
SIDES = (0, 512, 128)
"""Most that constants are, if the file's, 0, take too long."""
MAIN_S, KERNEL_S, ALL_S = 3.0, 3.0, 20.0
SMALL = 1e-3
"""The largest difference that main may print of results that it accepts."""
MOST_QUOTED = 60
MOST_LAUNCHES, MOST_UNKNOWN, MOST_ARGUMENTS = 12, 6, 5
POISON = 0xCDCDCDCD
"""A word that nothing has written."""
MAIN = re.compile(r"\bmain\s*\(")
HELD = re.compile(r"\b\d+(?=(?:\.0*)?[fFuUlL]*\b)")
Row = dict[str, Any]


class Unsuited(Exception):
    """A program that cannot be executed, and why."""


class TooLarge(Unsuited):
    """A program that takes too long, or too much memory."""


@dataclass(frozen=True)
class Launched:
    """A launch that main reaches. values: the bytes of each argument; arrays: (offset, bytes) of each allocation of the
    device; memory: of the device, uint8."""

    kernel: str
    line: int
    grid: Sequence[int]
    block: Sequence[int]
    shared_bytes: int
    values: Sequence[bytes]
    arrays: Sequence[tuple[int, int]]
    memory: np.ndarray


@dataclass(frozen=True)
class Effect:
    """What a launch left: memory of the device, uint8, the ranges that differ, in bytes, and those that it wrote."""

    memory: np.ndarray
    ranges: Sequence[tuple[int, int]]
    written: Sequence[tuple[int, int]] = ()

    def spoilt(self, last: bool) -> "Effect":
        """Return an effect with other values in all that was written, or in the last elements only."""
        ranges = [(max(begin, end - 8) if last else begin, end) for begin, end in self.written]
        memory_ = self.memory.copy()
        for begin, end in ranges:
            memory_[begin:end] = POISON & 0xFF
        return Effect(memory_, [*self.ranges, *ranges])


@dataclass(frozen=True)
class Execution:
    """A program's execution. said: the lines that main printed at the end, with its exit code; spoilt: those
    where a kernel, by its name, leaves other values in all that it writes, or in the last elements; smaller: constants in place of the file's; sure: whether faults are the
    program's, because nothing of it was left out."""

    file: Path
    launches: Sequence[Launched]
    faults: Mapping[str, Sequence[Row]]
    said: Sequence[str] = ()
    spoilt: Callable[[str, bool], Sequence[str]] = lambda kernel, last: ()
    smaller: Sequence[str] = ()
    sure: bool = True


def _parameters(item: Declaration) -> list[str]:
    """Return the names of a function's parameters."""
    names, name, depth, default = list[str](), "", 0, False
    start = next(at for at, token in enumerate(item.head) if token.text == item.name)
    for token in item.head[start + 1 :]:
        depth += (token.text in "([{<") - (token.text in ")]}>")
        if depth == 0:
            break
        if depth == 1 and token.text == ",":
            names, name, default = [*names, name], "", False
        default = default or (depth == 1 and token.text == "=")
        name = token.text if depth == 1 and token.word and not default else name
    return [of for of in (*names, name) if of not in ("", "void")]


def _end(text: str, at: int) -> int:
    """Return the end of what the bracket at a position begins."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if depth == 0:
            return end + 1
    raise Unreadable("a bracket is not closed")


def _as_device_code(text: str) -> str:
    """Return a file's text with kernels that write down their launches. Raises Unreadable."""
    for item in reversed(syntax.declarations(text)):
        if item.kind == "function" and "__global__" in item.identifiers and item.body:
            brace = text.index("{", item.head[-1].end)
            given = "".join(f", {name}" for name in _parameters(item))
            lines = "\n" * text.count("\n", brace, item.end)
            body = f"{{ tilewave::launched(__PRETTY_FUNCTION__{given}); {lines}}}"
            text = f"{text[:brace]}{body}{text[item.end :]}"
    text = re.sub(r"<\s*<\s*<(?=[^;{}]*>\s*>\s*>)", "<<<", text)
    text = re.sub(r">\s*>\s*>(?=\s*\()", ">>>", text)
    parts, at = list[str](), 0
    while (begin := text.find("<<<", at)) >= 0:
        close = text.find(">>>", begin)
        opening = re.compile(r"\s*\(").match(text, close + 3)
        if close < 0 or opening is None:
            raise Unreadable("a launch")
        end = _end(text, opening.end() - 1)
        how = f", tilewave::configured(__LINE__, {text[begin + 3 : close]})"
        parts += [text[at:begin], text[opening.end() - 1 : end], how]
        at = end
    text = "".join([*parts, text[at:]])
    text = re.sub(r"\b(?:__launch_bounds__\s*\([^()]*\)|__host__|__forceinline__)", "", text)
    text = re.sub(r"\b(?:__global__|__constant__|__managed__)(?!\w)", "__device__", text)
    return re.sub(r"\bcudaMemcpyToSymbol\s*\(\s*&?", "cudaMemcpyToSymbol(", text)


def _one_text(path: Path, folders: Sequence[Path]) -> str:
    """Return a file with its own headers in place of their includes, each once."""
    seen = set[Path]()

    def of(file: Path) -> str:
        seen.add(file)
        lines = file.read_text("utf-8-sig", "replace").splitlines()
        for at, line in enumerate(lines):
            if match := includes.INCLUDE.match(line):
                places = (place / match[2] for place in (file.parent, path.parent, *folders))
                header = next((place.resolve() for place in places if place.is_file()), None)
                if header is not None:
                    inner = "" if header in seen else of(header)
                    back = f'#line {at + 2} "{file.name}"'
                    lines[at] = f'#line 1 "{header.name}"\n{inner}\n{back}'
                elif not PATTERNS["headers"].search(match[2]):
                    lines[at] = ""
        return "\n".join(lines)

    return f'#line 1 "{path.name}"\n{of(path)}\n'


def _smaller(text: str, most: int) -> tuple[str, list[str]]:
    """Return a text whose constants are at most so large, wherever their values stand, with few rounds; and which."""
    values, rounds, notes = dict[str, str](), dict[tuple[int, int], str](), list[str]()
    for match in PATTERNS["constant"].finditer(text):
        name, value = match[1] or match[2], 1
        for factor in re.split(r"\s*\*\s*", match[3]):
            number, _, shift = factor.partition("<<")
            value *= int(number) << min(int(shift or 0), 40)
        side = value
        while side > most:
            side = -(-side // 2)
        if PATTERNS["rounds"].search(name):
            rounds[match.span(3)] = str(min(value, 2))
        elif side < value and not PATTERNS["kept"].search(name):
            values |= {str(value): str(side)} if match[3] == str(value) else {}
            rounds[match.span(3)] = str(side)
            notes.append(f"{name} = {side}")
    for (start, end), side in sorted(rounds.items(), reverse=True):
        text = f"{text[:start]}{side}{text[end:]}"
    return HELD.sub(lambda of: values.get(of[0], of[0]), text), notes


def _stub(name: str, code: str) -> str:
    """Return a declaration of what nothing declares, by its uses: a value, a function or a type."""
    if name.isupper():
        return f"__device__ const int {name} = 0;\n"
    if re.search(rf"\b{name}\s*\(", code):
        return f"template <class... A> TW tilewave::Any {name}(A&&...) {{ return {{}}; }}\n"
    typed = re.search(rf"\b{name}\s+\w", code)
    return f"typedef int {name};\n" if typed else f"__device__ tilewave::Any {name};\n"


class _Program:
    """A program at one choice of constants, compiled."""

    def __init__(
        self, path: Path, text: str, changed: bool, about: "_About", home: Path
    ) -> None:
        self.path, self.about, self.home, self.count = path, about, home, 1
        self.sure = not changed
        self.text = text if changed else ""
        self.kernels: dict[str, tuple[Any, Places, Any, Function]] = {}
        code = _as_device_code(text)
        words = {*re.findall(r"\w+", code)}
        using = "".join(f"using std::{name}; " for name in TABLES["of_std"].split() if name in words)
        code = re.sub(r"\busing\s+namespace\s+std\s*;", using, code, count=1)
        code = re.sub(r"\busing\s+namespace\s+std\s*;", "", code)
        names = {one or other for one, other in PATTERNS["renamed"].findall(RUNTIME)}
        given = "".join(f"#define {name} tw_{name}\n" for name in sorted(names & words))
        taken = re.search(r"\bmain\s*\(([^)]*)\)", code)
        count = 0 if not taken or taken[1].strip() in ("", "void") else taken[1].count(",") + 1
        call = f"tw_main({('', 'count', 'count, arguments')[min(count, 2)]})"
        limits = (line for name, line in nvcc.TABLES["names"].items() if name in words)
        stubs = "".join(f"{of}\n" for of in limits if "#include" not in of and " uint;" not in of)
        foreign = [of for of in sorted(words) if PATTERNS["libraries"].fullmatch(of)]
        stubs += "".join(_stub(name, code) for name in foreign)
        self.sure = self.sure and not foreign
        self.argv, members, file = count == 2, "", home / f"{ENTRY}.cu"
        for _ in range(MOST_UNKNOWN):
            head = f"{TABLES['head']}#define TW_MEMBERS {members}\n{RUNTIME}\n{given}"
            end = TABLES["entry"].replace("CALL", call)
            file.write_text(f"{head}#define main tw_main\n{stubs}{code}\n{end}", encoding="utf-8")
            self.main, problem, _, _ = self._loaded(file, home)
            if self.main is not None:
                return
            if member := PATTERNS["member"].search(problem):
                members += f" int {member[1]};"
                continue
            missing = PATTERNS["undefined"].search(problem)
            if missing is None or f" {missing[1]}" in stubs:
                break
            stubs += _stub(missing[1], code)
            self.sure = False
        raise Unsuited(problem)

    def _loaded(self, file: Path, home: Path) -> tuple[Any, str, Any, str]:
        kernel = variant(load_kernel(file), {}, file, "macros")
        entry = single.compiled(kernel, execute.arch_of(self.about.options), home)
        if "cubin" not in entry:
            return None, str(entry["reason"]), kernel, ""
        listing = Path(entry["sass"]).read_text(encoding="utf-8")
        cubin = Path(entry["cubin"]).read_bytes()
        return self.about.machine.load(cubin, entry["symbol"], listing), entry["symbol"], kernel, listing

    def executed(self, effects: Sequence[Effect]) -> tuple[Launched | None, list[str]]:
        """Execute main with the effects of its first launches. Return the next launch, or None and the lines that
        main printed. Raises Unsuited."""
        machine, runs, data = self.about.machine, list[int](), list[np.ndarray]()
        total = sum(len(effect.ranges) for effect in effects)
        at = 32 + 32 * total
        for number, effect in enumerate(effects):
            for begin, end in effect.ranges:
                runs += [number, begin, end - begin, at]
                data.append(effect.memory[begin:end])
                at += end - begin
        again = bool(effects) and not effects[-1].ranges
        words = np.array([len(effects), again, total, 0, *runs], np.uint64)
        table = np.concatenate([words.view(np.uint8), *data])
        device, host = np.zeros(DEVICE_BYTES, np.uint8), np.zeros(HOST_BYTES, np.uint8)
        given = [
            machine.Buffer("device", device), np.uint64(device.size), machine.Buffer("host", host),
            np.uint64(host.size), machine.Buffer("effects", table), np.int32(self.count),
        ]  # fmt: skip
        done = self.about.execute(self.main, (1, 1, 1), (1, 1, 1), given, MAIN_S, races=False)
        records = "".join(done.printed).split("~")[1:]
        if "memory\n" in records or any(of.kind == "timed out" for of in done.faults):
            raise TooLarge("main")
        if done.faults:
            raise Unsuited(f"main: {done.faults[0].message}")
        return _read(records, device, host)

    def kernel(self, launch: Launched) -> tuple[Effect, list[Row]]:
        """Execute a launch; return its effect and faults. Raises Unsuited."""
        machine = self.about.machine
        if launch.kernel not in self.kernels:
            self.kernels[launch.kernel] = self._compiled(launch)
        program, places, variables, function = self.kernels[launch.kernel]
        words = [int.from_bytes(of, "little") if len(of) == 8 else -1 for of in launch.values]
        offsets = [word - ORIGIN - ALIGNMENT for word in words]
        if any(DEVICE_BYTES <= at < 2 * DEVICE_BYTES + HOST_BYTES for at in offsets):
            raise Unsuited("a kernel takes memory of the host")
        names = dict(zip(reversed(offsets), reversed(_parameters(function.declaration))))
        after, buffers = launch.memory.copy(), list[Any]()
        for at, size in launch.arrays:
            array = launch.memory[at : at + size].copy()
            whole = launch.memory[at : at + -(-size // 4) * 4].view(np.uint32)
            written = (whole != POISON).astype(np.uint8)
            buffers.append(machine.Buffer(names.get(at, f"array {len(buffers) + 1}"), array, written))
        given = [np.frombuffer(value, np.uint8) for value in launch.values]
        sides = launch.grid, launch.block, given, KERNEL_S
        more = [machine.Buffer(name, data) for name, data in variables.items() if data.size]
        done = self.about.execute(
            program, *sides, shared_bytes=launch.shared_bytes, memory=[*buffers, *more], footprint=1
        )
        if any(of.kind == "timed out" for of in done.faults):
            raise TooLarge(launch.kernel)
        for (at, size), buffer in zip(launch.arrays, buffers):
            after[at : at + size] = buffer.array
        written = [(at, at + min(size, done.touched.get(of.name, (0, 0))[1])) for (at, size), of in zip(launch.arrays, buffers)]
        faults = [described(of, program.instructions, places) for of in done.faults]
        for fault in faults:
            if Path(fault["file"]).name == self.path.name:  # it may have other constants
                fault["file"] = relative(self.path)
        lines = np.flatnonzero((launch.memory != after).reshape(-1, 64).any(1))
        ends = np.split(lines, np.flatnonzero(np.diff(lines) > 1) + 1) if len(lines) else []
        ranges = [(int(of[0]) * 64, int(of[-1]) * 64 + 64) for of in ends]
        return Effect(after, ranges, [of for of in written if of[0] < of[1]]), by_lines(faults)

    def _compiled(self, launch: Launched) -> tuple[Any, Places, Any, Function]:
        head, _, given = launch.kernel.partition(" [with ")
        name = head.partition("(")[0].split()[-1].rpartition("::")[2]
        named = (of for of in self.about.source.functions() if of.name == name)
        function = next(named, None)
        if function is None:
            raise Unsuited(f"{name} is in no file that was read")
        values = re.findall(r"\w+ = (.+?)(?=(?:[,;] \w+ = )|\]$)", given)
        entry = f"{function.qualified}<{', '.join(values)}>" if values else function.qualified
        home = self.home / str(len(self.kernels))
        home.mkdir()
        file = home / f"{writing.TRIAL}.cu"
        text = writing.text({**TABLES["kernel"], "entry": entry}, self.about.source, self.about.folders, file)
        if self.text:  # with other constants than the file
            (home / self.path.name).write_text(self.text, encoding="utf-8")
            text = f'{text.partition("#include")[0]}#include "{self.path.name}"\n'
        file.write_text(text, encoding="utf-8")
        program, symbol, kernel, listing = self._loaded(file, home)
        if program is None:
            raise Unsuited(f"{entry}: {symbol}")
        places = Places(file, symbol, listing, tuple(map(str, kernel.kernel.folders)))
        globals_ = program.image.globals_.items()
        variables = {of: np.frombuffer(bytearray(data), np.uint8) for of, data in globals_}
        return program, places, variables, function


def _read(
    records: Sequence[str], device: np.ndarray, host: np.ndarray
) -> tuple[Launched | None, list[str]]:
    """Read what main wrote down: its last launch, or the lines that it printed. Raises Unsuited."""
    arrays, values, name = list[tuple[int, int]](), list[bytes](), ""
    launch: Launched | None = None
    stream: Iterator[str] = iter(of.rstrip("\n") for of in records)
    for record in stream:
        kind, _, rest = record.partition(" ")
        if kind == "array":
            at, size = map(int, rest.split())
            arrays.append((at, size))
        elif kind == "kernel":
            name, values = rest, []
        elif kind == "value":
            size = int(rest)
            words = [int(next(stream), 16) for _ in range(-(-size // 8))]
            values.append(struct.pack(f"<{len(words)}Q", *words)[:size])
        elif kind == "symbol":
            raise Unsuited("variables of the device")
        elif kind == "launch":
            line, *sides = map(int, rest.split())
            end = max((at + size for at, size in arrays), default=0)
            memory_ = device[: -(-end // 512) * 512].copy()
            about = sides[:3], sides[3:6], sides[6], tuple(values), tuple(arrays), memory_
            launch = Launched(name, line, *about)
        elif kind == "end":
            text = host[:TEXT_BYTES].tobytes().partition(b"\0")[0].decode("utf-8", "replace")
            return None, [*text.splitlines(), f"exit code {rest}"]
    if launch is None:
        raise Unsuited("main ended early")
    return launch, []


@dataclass(frozen=True)
class _About:
    """What all executions of a program need."""

    source: Any
    folders: Sequence[Path]
    options: Namespace
    machine: Any

    def execute(self, program: Any, grid: Any, block: Any, given: Any, seconds: float, races: bool = True, **how: Any) -> Any:
        """Execute a launch. Raises Unsuited."""
        limits = self.machine.Limits(0, seconds, races=races)
        try:
            with memory.limited():
                return self.machine.execute(program, grid, block, given, limits=limits, **how)
        except MemoryError as error:
            raise TooLarge("memory") from error
        except (self.machine.BadLaunch, self.machine.Unsupported, ValueError) as error:
            raise Unsuited(str(error)) from error


def executions(path: Path, options: Namespace, machine: Any, home: Path) -> Iterator[Execution]:
    """Yield the executions of the program of a file, with ever smaller constants if it takes too long. Raises Unsuited."""
    begun = time.monotonic()
    source, folders = finding.read(path.resolve(), (), (*options.macro,))
    path = _main_file(source)
    text = _one_text(path, folders)
    includes.allow([path.parent, *folders])
    about = _About(source, folders, options, machine)
    for side in SIDES:
        chosen, notes = _smaller(text, side) if side else (text, [])
        if side and not notes:
            continue
        place = home / f"at-{side}"
        place.mkdir()
        try:
            program = _Program(path, chosen, bool(side), about, place)
            yield replace(_run(program, begun), file=path, smaller=notes, sure=program.sure)
        except TooLarge:
            if time.monotonic() - begun > ALL_S:
                raise
        except (Unreadable, StopIteration, UserError) as error:
            raise Unsuited(str(error)) from error


def _main_file(source: Source) -> Path:
    """Return the file with main that launches kernels: this one, or one that includes it. Raises Unsuited."""
    others = [of for of, text in source.texts.items() if f'{source.path.name}"' in text]
    for file in (source.path, *others):
        if MAIN.search(source.texts[file]):
            return file
    raise Unsuited("no main")


def _run(program: _Program, begun: float) -> Execution:
    launches, effects, faults = list[Launched](), list[Effect](), dict[str, list[Row]]()
    while True:
        launch, said = program.executed(effects)
        if launch is None and not launches and program.argv and program.count < MOST_ARGUMENTS:
            program.count += 1
            continue
        if launch is None:
            break
        if len(launches) == MOST_LAUNCHES or time.monotonic() - begun > ALL_S:
            return Execution(program.path, launches, faults)
        effect, ended = program.kernel(launch)
        launches.append(launch)
        effects.append(effect)
        faults.setdefault(_name(launch), []).extend(ended)

    @functools.cache
    def spoilt(kernel: str, last: bool) -> Sequence[str]:
        pairs = zip(launches, effects)
        kept = [of.spoilt(last) if _name(launch) == kernel else of for launch, of in pairs]
        return program.executed(kept)[1]

    return Execution(program.path, launches, faults, said, spoilt)


def _name(launch: Launched) -> str:
    return launch.kernel.partition("(")[0].split()[-1].rpartition("::")[2]


class Programs:
    """What the programs of files say of their kernels, each executed once."""

    def __init__(self, options: Namespace, machine: Any, home: Path) -> None:
        self.options, self.machine, self.home = options, machine, home
        self.runs: dict[Path, list[Execution]] = {}

    def of(self, path: Path) -> list[Execution]:
        if path not in self.runs:
            self.runs[path], home = [], self.home / f"program-{len(self.runs)}"
            home.mkdir()
            with contextlib.suppress(Unsuited):
                for ran in executions(path, self.options, self.machine, home):
                    self.runs[path].append(ran)
                    if not (ran.smaller and any(ran.faults.values())):
                        break
        return self.runs[path]

    def judged(self, document: Row, path: Path) -> Row:
        """Return the document of a kernel that is not decided, with what its file's program says of it."""
        name, runs = document["kernel"], self.of(path)
        ended = [(ran, [of for of in ran.launches if _name(of) == name]) for ran in runs]
        ended = [(ran, launches) for ran, launches in ended if launches]
        if not ended:
            return document
        ran, launches = ended[-1]
        where = f"as {ran.file.name} launches it in line {launches[0].line}"
        smaller = f" (with smaller constants than the file's: {', '.join(ran.smaller)})" if ran.smaller else ""
        every = [{(of["kind"], of["line"]) for of in ran.faults[name]} for ran, _ in ended]
        common = set.intersection(*every)
        faults = [of for of in ran.faults[name] if (of["kind"], of["line"]) in common]
        if faults and (ran.sure or (ran.smaller and len(ended) > 1)):
            text = f"{name} is not right, {where}: {sentence(faults[0])}{smaller}"
            return document | {"exit_code": result.NOT_RIGHT, "sentence": text, "findings": faults}
        if any(every):
            return document
        accepts = _accepts(ran, name, last=False)
        if accepts and (all_ := _accepts(ran, name, last=True)):
            text = f"{name} is right, {where}: {all_}{smaller}"
            return document | {"exit_code": result.RIGHT, "sentence": text}
        own = [of for of in ran.said if PATTERNS["fails"].search(of) and not _is_small(of)]
        also = f"; {accepts}, but not in the last ones" if accepts else ""
        also = f"; main prints {_quoted(own[0])}" if own and ran.sure and not accepts else also
        text = f"{document['sentence']}; {where}, no race, uninitialised read or invalid access was found{smaller}{also}"
        return document | {"sentence": text}


def _is_small(line: str) -> bool:
    """Return whether a line names a difference that is small."""
    numbers = PATTERNS["difference"].findall(line)
    return bool(numbers) and all(abs(float(of)) <= SMALL for of in numbers)


def _accepts(ran: Execution, name: str, last: bool) -> str:
    """Return how main accepts what a kernel computes, and not other values, in all or the last elements; else empty."""
    try:
        other = ran.spoilt(name, last) if ran.said else ()
    except Unsuited:
        return ""
    here = [*(Counter(ran.said) - Counter(other)).elements()]
    there = [*(Counter(other) - Counter(ran.said)).elements()]
    good = [of for of in here if PATTERNS["passes"].search(of) or _is_small(of)]
    bad = [of for of in there if PATTERNS["fails"].search(of)]
    if any(PATTERNS["fails"].search(of) and not _is_small(of) for of in here):
        return ""
    if not (good or bad) or any(map(_is_small, there)):
        return ""
    printed = f"prints {_quoted(good[-1])}" if good else "ends"
    spoilt = "the last elements" if last else "its results"
    return f"main {printed}, and {_quoted((bad or there or ['nothing'])[0])} with other values in {spoilt}"


def _quoted(line: str) -> str:
    return repr(textwrap.shorten(line, MOST_QUOTED))
