"""Accesses as they are kept, and what a page shows of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tilewave.execution.lanes import diagram
from tilewave.execution.lanes.layout import Layout, laid_out
from tilewave.execution.machine.access import LANES, Access

LINE_BYTES = 128


def patterns(done: Any) -> list[dict[str, Any]]:
    """The worst accesses of a watched launch's instructions as plain data: one for those of the same opcode whose
    lanes stand alike, with the SASS addresses of them all (``sass``), in the order of the code."""
    found: dict[Any, dict[str, Any]] = {}
    for index, (_, worst) in sorted(done.accesses.items()):
        one = done.program.instructions[index]
        alike = str(one.opcode), worst.kind, worst.width, worst.mask, worst.reading
        row = found.setdefault(
            (*alike, _shifted(worst.addresses, worst.mask), _shifted(worst.sources, worst.reading)),
            {"sass": [], "opcode": str(one.opcode), **asdict(worst)},
        )
        row["sass"].append(int(one.address))
    return list(found.values())


def of_launches(ran: Sequence[Any]) -> list[dict[str, Any]]:
    """`patterns` of a case's launches; of several each row has its ``function``."""
    if len(ran) == 1:
        return patterns(ran[0])
    return [{**row, "function": one.job.entry} for one in ran for row in patterns(one)]


def _shifted(addresses: Sequence[int], mask: int) -> tuple[int, ...]:
    """Addresses of active lanes as if the first one were in the first line: banks stay the same."""
    on = [addresses[lane] for lane in range(LANES) if mask >> lane & 1]
    return tuple(at - on[0] // LINE_BYTES * LINE_BYTES for at in on)


@dataclass(frozen=True)
class Diagram:
    """An access that can be drawn, and where its instruction stands."""

    file: str
    line: int
    opcode: str
    address: int
    layout: Layout

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.opcode}"

    def svg(self, standalone: bool = True) -> str:
        """See `diagram.drawn`."""
        return diagram.drawn(self.layout, self.name, standalone)


def diagrams(
    rows: Iterable[Mapping[str, Any]], place: Callable[[int], tuple[str, int]]
) -> list[Diagram]:
    """The drawings of a case's `patterns`, the most excess first.

    place: from a SASS address to its file and line; a pattern is drawn once for each line that has
    it, named by its first instruction there.
    """
    made = []
    for row in rows:
        laid = laid_out(_access(row))
        lines: dict[tuple[str, int], int] = {}
        for address in row["sass"]:
            lines.setdefault(place(address), address)
        made += [
            Diagram(file, line, str(row["opcode"]), address, laid)
            for (file, line), address in lines.items()
        ]
    return worst_first(made)


def worst_first(found: Iterable[Diagram]) -> list[Diagram]:
    """Drawings, the most excess first."""

    def place(one: Diagram) -> tuple[int, int, int]:
        access = one.layout.access
        return -access.excess, -access.wavefronts, one.address

    return sorted(found, key=place)


def _access(row: Mapping[str, Any]) -> Access:
    given: dict[str, Any] = {}
    for one in fields(Access):
        value = row[one.name]
        given[one.name] = tuple(value) if isinstance(value, list) else value
    return Access(**given)
