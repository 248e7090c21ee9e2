"""Accesses as plain data, and as what can be drawn of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tilewave.execution.lanes.layout import Layout, laid_out
from tilewave.execution.machine.access import LANES, Access

LINE_BYTES = 128


def patterns(done: Any) -> list[dict[str, Any]]:
    """Return the worst access of each instruction of a watched launch, in the order of the code.
    Instructions of one opcode whose lanes access the same banks share a row; ``sass`` has their addresses."""
    merged: dict[Any, dict[str, Any]] = {}
    for index, (_, worst) in sorted(done.accesses.items()):
        instruction = done.program.instructions[index]
        alike = str(instruction.opcode), worst.kind, worst.width, worst.mask, worst.reading
        row = merged.setdefault(
            (*alike, _shifted(worst.addresses, worst.mask), _shifted(worst.sources, worst.reading)),
            {"sass": [], "opcode": str(instruction.opcode), **asdict(worst)},
        )
        row["sass"].append(int(instruction.address))
    return list(merged.values())


def of_launches(ran: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the `patterns` of a case's launches. With several launches each row has its ``function``."""
    if len(ran) == 1:
        return patterns(ran[0])
    return [{**row, "function": launch.job.entry} for launch in ran for row in patterns(launch)]


def _shifted(addresses: Sequence[int], mask: int) -> tuple[int, ...]:
    """Return the active lanes' addresses, moved by whole lines so that the first is in line 0; banks stay."""
    on = [addresses[lane] for lane in range(LANES) if mask >> lane & 1]
    return tuple(at - on[0] // LINE_BYTES * LINE_BYTES for at in on)


@dataclass(frozen=True)
class Diagram:
    """An access that can be drawn, with the line of its instruction."""

    file: str
    line: int
    opcode: str
    address: int
    layout: Layout

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.opcode}"


def diagrams(
    rows: Iterable[Mapping[str, Any]], line_of: Callable[[int], tuple[str, int]]
) -> list[Diagram]:
    """Return the drawings of a case's `patterns`, the most excess first. line_of: file and line of a SASS
    address. A pattern has one drawing for each of its lines, named by its first instruction there."""
    drawings = []
    for row in rows:
        laid = laid_out(_access(row))
        lines: dict[tuple[str, int], int] = {}
        for address in row["sass"]:
            lines.setdefault(line_of(address), address)
        drawings += [
            Diagram(file, line, str(row["opcode"]), address, laid)
            for (file, line), address in lines.items()
        ]
    return worst_first(drawings)


def are_patterns(rows: Any) -> bool:
    """Return whether data that may be wrong can be drawn by `diagrams`."""
    try:
        diagrams(rows, lambda address: ("", address))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return True


def worst_first(drawings: Iterable[Diagram]) -> list[Diagram]:

    def rank(drawing: Diagram) -> tuple[int, int, int]:
        access = drawing.layout.access
        return -access.excess, -access.wavefronts, drawing.address

    return sorted(drawings, key=rank)


def _access(row: Mapping[str, Any]) -> Access:
    cells: dict[str, Any] = {column.name: row[column.name] for column in fields(Access)}
    lists = {name: tuple(cell) for name, cell in cells.items() if isinstance(cell, list)}
    return Access(**cells | lists)
