"""A file's program: `main` is executed by one thread, with the kernels that it launches.

A kernel is executed with the memory that main has filled, and main again from its beginning with what the kernels
changed (`host_code`), until it ends. So a kernel has the arguments, grid and inputs of the file, and main may judge it.
"""

import contextlib
import functools
import math
import re
import struct
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics import memory
from tilewave.basics.errors import BadLaunch, UserError
from tilewave.basics.paths import relative
from tilewave.commands import execute, flags
from tilewave.commands.checking import host_code
from tilewave.commands.checking.host_code import POISON, TABLES
from tilewave.commands.wrapping import finding, scopes, writing
from tilewave.commands.wrapping.reading import Function, Parameter, Source
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Unreadable
from tilewave.execution.places import Places, by_lines, described
from tilewave.kernel import includes, result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import variant
from tilewave.pipeline import single

FILE = "tilewave_program.cu"
ROOMS, TEXT_BYTES = (1 << 25, 1 << 27), 1 << 16
"""Memory of the device, and at most; the host has four times as much, and begins with what main prints."""
SIDES = {0: 20_000_000, 512: 20_000_000, 128: 80_000_000}
"""Most that constants are, if the file's, 0, take too long -> warp instructions of main, and of a kernel."""
BUDGETS, LEAST_S = 6, 30.0
"""Seconds of all executions, in budgets of trials, and at least."""
MOST_LAUNCHES, MOST_UNKNOWN, MOST_ARGUMENTS, MOST_LINE = 12, 8, 5, 500
CONSTANT = ".nv.constant3"
"""The section of ``__constant__`` memory."""
ALL, LAST, TURNED = "all", "last", "turned"
"""How results are spoilt."""
CHUNK, NOTHING = 64, np.zeros(0, np.uint8)
ENDED = (result.UNSUPPORTED, result.TIMED_OUT)
Row = dict[str, Any]
NOWHERE: Row = {
    "kind": result.FAILED_TO_LAUNCH, "via": "", "opcode": "", "address": -1, "threads": [],
    "addresses": [], "other_line": 0, "count": 1,
}  # fmt: skip
"""A fault of a launch that has no instruction."""
Ranges = Sequence[tuple[int, int]]


class Unsuited(Exception):
    """A program that cannot be executed, and why. log: the compiler's."""

    log = ""


class TooLarge(Unsuited):
    """A program that takes too long, or too much memory."""


def _plain(kernel: str) -> str:
    """Return a kernel's name without what the compiler prints around it."""
    return kernel.partition("(")[0].split()[-1].rpartition("::")[2]


def _is_number(item: Parameter) -> bool:
    return not item.stars and {*item.type.split()} <= scopes.NUMBERS


@dataclass(frozen=True)
class ReachedLaunch:
    """A launch that main reaches. kernel: its name with its template's arguments, as the compiler prints them; values:
    the bytes of each argument; arrays: offset and bytes of each allocation; memory: of the device, uint8; symbols:
    name, offset and bytes of what main copied to variables of the device."""

    kernel: str
    file: str
    line: int
    grid: Sequence[int]
    block: Sequence[int]
    shared_bytes: int
    values: Sequence[bytes]
    arrays: Ranges
    memory: np.ndarray
    symbols: Sequence[tuple[str, int, bytes]]

    @property
    def name(self) -> str:
        return _plain(self.kernel)


@dataclass(frozen=True)
class Effect:
    """What a launch left: offset and bytes of what differs in the device's memory, the ranges that it wrote, and those
    whose order matters, in another one: their elements are different, and no partial results of blocks."""

    pieces: Sequence[tuple[int, np.ndarray]] = ()
    written: Ranges = ()
    turned: Sequence[tuple[int, np.ndarray]] = ()

    def spoilt(self, how: str) -> "Effect":
        """Return an effect with other values in all that was written, in the last elements only, or in another order."""
        last = how == LAST
        ranges = [(max(begin, end - 8) if last else begin, end) for begin, end in self.written]
        other = [(begin, np.full(end - begin, POISON, np.uint8)) for begin, end in ranges]
        return replace(self, pieces=[*self.pieces, *(self.turned if how == TURNED else other)])


@dataclass(frozen=True)
class ProgramRun:
    """A program that was executed. said: the lines that main printed, and its exit code; spoilt: those where a kernel
    leaves other values (`Effect.spoilt`); smaller: constants in place of the file's;
    whole: whether all that it calls is known, and main needs no arguments; filled: whether any input is not zero; without:
    kernels that take numbers only, and no variable of the device."""

    launches: Sequence[ReachedLaunch]
    faults: Mapping[str, Sequence[Row]]
    said: Sequence[str]
    spoilt: Callable[[str, str], Sequence[str]]
    smaller: Sequence[str] = ()
    whole: bool = True
    filled: bool = True
    without: Set[str] = frozenset()


@dataclass(frozen=True)
class _Setting:
    """What all executions of a program need."""

    path: Path
    source: Source
    folders: Sequence[Path]
    options: Namespace
    machine: Any
    end: float
    most: int = 0

    @property
    def macros(self) -> list[tuple[str, str, str]]:
        """The command line's macros, each ``NAME``, ``=`` and its value."""
        return [definition.partition("=") for definition in self.options.macro]

    def loaded(self, file: Path) -> tuple[Any, Places]:
        """Compile and load a kernel file. Raises Unsuited."""
        kernel = variant(load_kernel(file), {}, file, "macros")
        entry = single.compiled(kernel, execute.arch_of(self.options), file.parent)
        if "cubin" not in entry:
            refused = Unsuited(entry["reason"])
            refused.log = entry.get("log", "")
            raise refused
        listing = Path(entry["sass"]).read_text(encoding="utf-8")
        cubin, symbol = Path(entry["cubin"]).read_bytes(), entry["symbol"]
        places = Places(file, symbol, listing, tuple(map(str, kernel.kernel.folders)))
        return self.machine.load(cubin, symbol, listing), places

    def execute(
        self, program: Any, grid: Any, block: Any, values: Any, races: bool = True, **how: Any
    ) -> Any:
        """Execute a launch. Raises Unsuited, and BadLaunch."""
        left = max(self.end - time.monotonic(), 0.1)
        limits = self.machine.Limits(self.most, left, races=races)
        try:
            with memory.limited():
                done = self.machine.execute(program, grid, block, values, limits=limits, **how)
        except MemoryError as error:
            raise TooLarge from error
        except BadLaunch:
            raise
        except (self.machine.Unsupported, ValueError) as error:
            raise Unsuited(str(error)) from error
        for fault in done.faults:
            if fault.kind in ENDED:
                raise (TooLarge if fault.kind == ENDED[1] else Unsuited)(fault.message)
        return done


class _Program:
    """A program at one choice of constants. text: with other ones than the file's, else empty."""

    def __init__(self, setting: _Setting, code: host_code.HostCode, text: str, home: Path) -> None:
        self.setting, self.code, self.text, self.home, self.count = setting, code, text, home, 1
        self.room, self.storing = ROOMS[0], set[str]()
        self.kernels: dict[str, tuple[Any, Places, dict[str, np.ndarray], Function]] = {}
        file = home / FILE
        for _ in range(MOST_UNKNOWN):
            file.write_text(code.text(setting.machine.gap), encoding="utf-8")
            try:
                self.main, _places = setting.loaded(file)
                return
            except Unsuited as error:
                if not code.repair(f"{error}\n{error.log}"):
                    raise
        raise Unsuited("it calls too much that is unknown")

    def run(self) -> ProgramRun:
        """Execute main and what it launches. Raises Unsuited."""
        launches, effects, faults = list[ReachedLaunch](), list[Effect](), dict[str, list[Row]]()
        filled = False
        while True:
            launch, said = self._main(effects)
            if launch is None and not launches and self.code.takes_arguments:
                self.count += 1
                if self.count <= MOST_ARGUMENTS:
                    continue
            if launch is None or len(launches) == MOST_LAUNCHES:
                break
            effect, ended = self._kernel(launch)
            filled |= bool(((launch.memory != 0) & (launch.memory != POISON)).any())
            launches.append(replace(launch, memory=NOTHING))
            effects.append(effect)
            faults.setdefault(launch.name, []).extend(ended)

        @functools.cache
        def spoilt(kernel: str, how: str) -> Sequence[str]:
            pairs = [(launch.name == kernel, of) for launch, of in zip(launches, effects)]
            if how == TURNED and not any(its and of.turned for its, of in pairs):
                raise Unsuited("its results have no order")
            kept, begun = list[Effect](), False
            for its, effect in pairs:
                begun |= its
                following = self._main(kept)[0] if begun and not its else None
                kept.append(self._kernel(following)[0] if following else effect)
                kept[-1] = effect.spoilt(how) if its else kept[-1]
            return self._main(kept)[1]

        whole = self.code.whole and self.count == 1
        taken = {name: of[3].parameters for name, of in self.kernels.items()}
        without = {_plain(name) for name, of in taken.items() if all(map(_is_number, of))}
        without -= self.storing
        return ProgramRun(launches, faults, said, spoilt, (), whole, filled, without)

    def _main(self, effects: Sequence[Effect]) -> tuple[ReachedLaunch | None, list[str]]:
        """Execute main with the effects of its first launches. Return the next launch, or what it printed to its end."""
        machine, runs, data = self.setting.machine, list[int](), list[np.ndarray]()
        every = [(at, *piece) for at, effect in enumerate(effects) for piece in effect.pieces]
        at = 32 * (1 + len(every))
        for number, begin, piece in every:
            runs += [number, begin, piece.size, at]
            data.append(np.resize(piece, -(-piece.size // 16) * 16))
            at += data[-1].size
        again = bool(effects) and not effects[-1].pieces
        words = np.array([len(effects), again, len(every), 0, *runs], np.uint64)
        device, host = np.zeros(self.room, np.uint8), np.zeros(4 * self.room, np.uint8)
        table = np.concatenate([words.view("u1"), *data])
        arrays = {"device": device, "host": host, "effects": table}
        values = [machine.Buffer(*of) for of in arrays.items()]
        values += [np.uint64(device.size), np.uint64(host.size), np.int32(self.count)]
        done = self.setting.execute(self.main, (1, 1, 1), (1, 1, 1), values, races=False)
        if done.faults:
            raise Unsuited(done.faults[0].message)
        if done.prints > len(done.printed):
            raise Unsuited("main allocates or launches too often")
        printed = "".join(done.printed)
        if printed.endswith("~memory\n"):
            if self.room == ROOMS[1]:
                raise TooLarge
            self.room = ROOMS[1]
            return self._main(effects)
        return _read(printed, device, host)

    def _kernel(self, launch: ReachedLaunch) -> tuple[Effect, list[Row]]:
        """Execute a launch; return its effect and its faults. Raises Unsuited."""
        if launch.kernel not in self.kernels:
            self.kernels[launch.kernel] = self._compiled(launch)
        program, places, variables, function = self.kernels[launch.kernel]
        for name, at, data in launch.symbols:
            section, begin = program.image.symbols.get(name, ("", 0))
            if section not in variables:
                raise Unsuited(f"{name} is no variable of the device")
            variables[section][begin + at : begin + at + len(data)] = np.frombuffer(data, "u1")
        if (bank := variables.get(CONSTANT)) is not None:
            constants = {**program.image.constants, 3: bank.tobytes()}
            program = replace(program, image=replace(program.image, constants=constants))
        words = [int.from_bytes(of, "little") if len(of) == 8 else 0 for of in launch.values]
        offsets = [word - self.setting.machine.first_address for word in words]
        if any(self.room <= at < 6 * self.room for at in offsets):
            raise Unsuited("a kernel takes memory of the host")
        names = dict(zip(reversed(offsets), (of.name for of in reversed(function.parameters))))
        buffers, machine = list[Any](), self.setting.machine
        for at, size in launch.arrays:
            whole = launch.memory[at : at + -(-size // 4) * 4].view(np.uint32)
            written = (whole != 0x01010101 * POISON).astype(np.uint8)
            array = launch.memory[at : at + size].copy()
            typed = array if size % 4 else array.view(np.uint32)
            buffers.append(
                machine.Buffer(names.get(at, f"array {len(buffers) + 1}"), typed, written)
            )
        values = [np.frombuffer(value, np.uint8) for value in launch.values]
        more = [machine.Buffer(*of) for of in variables.items() if of[0] != CONSTANT and of[1].size]
        about = {"kernel": launch.name, "file": launch.file, "line": launch.line}
        try:
            done = self.setting.execute(
                program, launch.grid, launch.block, values, shared_bytes=launch.shared_bytes,
                memory=[*buffers, *more], footprint=1,
            )  # fmt: skip
        except BadLaunch as error:
            return Effect(), [{**NOWHERE, **about, "message": str(error)}]
        if any(done.touched.get(of.name, (0, 0))[1] for of in more):
            self.storing.add(launch.name)
        after, wrote = launch.memory.copy(), list[tuple[int, int]]()
        turned = list[tuple[int, np.ndarray]]()
        for (at, size), buffer in zip(launch.arrays, buffers):
            after[at : at + size] = buffer.array.view(np.uint8)
            end = min(size, -(-done.touched[buffer.name][1] // 4) * 4)
            wrote += [(at, at + end)] if end else []
            numbers = after[at : at + end // 4 * 4].view(np.uint32)
            several = numbers.size != math.prod(launch.grid) or function.adds(buffer.name)
            if several and numbers.size and np.ptp(numbers):
                turned.append((at, np.roll(numbers, 1).view(np.uint8)))
        faults = [described(of, program.instructions, places) for of in done.faults]
        by_name = {of.name: of for of in self.setting.source.texts}
        for fault in faults if self.text else ():  # they lie in a copy with other constants
            file = Path(fault["file"])
            fault["file"] = relative(by_name.get(file.name, file))
        chunks = np.flatnonzero((launch.memory != after).reshape(-1, CHUNK).any(1))
        ends = np.split(chunks, np.flatnonzero(np.diff(chunks) > 1) + 1) if len(chunks) else []
        changed = ((CHUNK * int(of[0]), CHUNK * int(of[-1] + 1)) for of in ends)
        pieces = [(begin, after[begin:end].copy()) for begin, end in changed]
        return Effect(pieces, wrote, turned), by_lines(faults)

    def _compiled(
        self, launch: ReachedLaunch
    ) -> tuple[Any, Places, dict[str, np.ndarray], Function]:
        source = self.setting.source
        function = next((of for of in source.functions() if of.name == launch.name), None)
        if function is None:
            raise Unsuited(f"{launch.name} is in no file that was read")
        template = re.findall(r"\w+ = (.+?)(?=(?:[,;] \w+ = )|\]$)", launch.kernel)
        entry = function.qualified + (f"<{', '.join(template)}>" if template else "")
        home = self.home / str(len(self.kernels))
        home.mkdir()
        file = home / f"{writing.TRIAL}.cu"
        macros = {name: [value or 1] for name, _, value in self.setting.macros}
        front = {**TABLES["kernel"], "entry": entry, "macros": macros}
        text = writing.text(front, source, self.setting.folders, file)
        if self.text:
            (home / self.setting.path.name).write_text(self.text, encoding="utf-8")
            text = f'{text.partition("#include")[0]}#include "{self.setting.path.name}"\n'
        file.write_text(text, encoding="utf-8")
        program, places = self.setting.loaded(file)
        image = program.image
        held = {**image.globals_}
        if 3 in image.constants:
            held[CONSTANT] = image.constants[3]
        variables = {of: np.frombuffer(bytearray(data), np.uint8) for of, data in held.items()}
        return program, places, variables, function


def _read(
    printed: str, device: np.ndarray, host: np.ndarray
) -> tuple[ReachedLaunch | None, list[str]]:
    """Read what main wrote down: its last launch, or the lines that it printed. Raises Unsuited."""
    arrays, values, symbols = list[tuple[int, int]](), list[bytes](), list[tuple[str, int, bytes]]()
    launch, name = None, ""
    records = iter(printed.split("~")[1:])
    for record in records:
        kind, _, rest = record.rstrip("\n").partition(" ")
        if kind == "array":
            at, size = map(int, rest.split())
            arrays.append((at, size))
        elif kind == "kernel":
            name, values = rest, []
        elif kind == "value":
            words = [int(next(records), 16) for _ in range(-(-int(rest) // 8))]
            values.append(struct.pack(f"<{len(words)}Q", *words)[: int(rest)])
        elif kind == "symbol":
            at, size, offset = map(int, next(records).split())
            symbols.append((rest, offset, host[at : at + size].tobytes()))
        elif kind == "launch":
            *numbers, file = rest.split(maxsplit=8)
            line, *sides = map(int, numbers)
            end = max((at + size for at, size in arrays), default=0)
            held = device[: -(-end // CHUNK) * CHUNK].copy()
            grid, block, shared = sides[:3], sides[3:6], sides[6]
            about = grid, block, shared, values, [*arrays], held, [*symbols]
            launch = ReachedLaunch(name, file, line, *about)
        elif kind == "end":
            text = host[:TEXT_BYTES].tobytes().partition(b"\0")[0].decode("utf-8", "replace")
            return None, [*(line[:MOST_LINE] for line in text.splitlines()), f"exit code {rest}"]
    if launch is None:
        raise Unsuited("main ended early")
    return launch, []


def executions(path: Path, options: Namespace, machine: Any, home: Path) -> Iterator[ProgramRun]:
    """Yield executions of a file's program, with smaller constants if it takes too long. Raises Unsuited."""
    end = time.monotonic() + max(BUDGETS * options.budget, LEAST_S)
    given = (*flags.allow_headers(options),)
    source, folders = finding.read(path.resolve(), given, (*options.macro,))
    files = _files(source)
    includes.allow([*(file.parent for file in files), *folders])
    setting = _Setting(files[0], source, folders, options, machine, end)
    text = "".join(f"#define {name} {value or 1}\n" for name, _, value in setting.macros)
    try:
        text += host_code.whole_text(files, folders)
    except Unreadable as error:
        raise Unsuited(str(error)) from error
    for side, most in SIDES.items():
        chosen, notes = host_code.smaller(text, side) if side else (text, [])
        if side and not notes:
            continue
        place = home / str(side)
        place.mkdir()
        with contextlib.suppress(TooLarge):
            try:
                code = host_code.of_text(chosen)
                at_side = replace(setting, most=most)
                ran = _Program(at_side, code, chosen if side else "", place).run()
            except (Unreadable, UserError, ValueError) as error:
                raise Unsuited(str(error)) from error
            yield replace(ran, smaller=notes)


def _files(source: Source) -> list[Path]:
    """Return the file with main that launches a file's kernels: it, or one that includes it, or one that calls a function
    of it, and then both. Raises Unsuited."""
    path, text = source.path, source.texts[source.path]
    mains = [of for of in (path, *source.texts) if host_code.MAIN.search(source.texts[of])]
    if not mains:
        raise Unsuited("no main")
    launching = "|".join(
        of.name for of in syntax.declarations(text) if "<<<" in text[of.start : of.end]
    )
    for file in mains:
        if file == path or f'{path.name}"' in source.texts[file]:
            return [file]
        if launching and re.search(rf"\b(?:{launching})\s*\(", source.texts[file]):
            return [file, path]
    raise Unsuited("no main")
