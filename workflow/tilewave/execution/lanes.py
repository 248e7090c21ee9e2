"""The accesses to shared memory of an execution, by instruction: which to look at, and its diagram."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewave.errors import UserError
from tilewave.execution.case import Execution
from tilewave.lanes import diagram
from tilewave.lanes.layout import Layout, finding, laid_out, ranges, setting, text
from tilewave.machine.access import Access


@dataclass(frozen=True)
class Watched:
    """An instruction that accessed shared memory: where it stands, its first access and the first of
    those with the most wavefronts, and the wavefronts beyond the ideal of all of them."""

    file: str
    line: int
    opcode: str
    address: int
    first: Access
    worst: Access
    excess: int

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.opcode}"

    @property
    def layout(self) -> Layout:
        return laid_out(self.worst)

    def svg(self) -> str:
        """The worst access as a drawing."""
        return diagram.drawn(self.layout, self.name)

    def told(self) -> list[str]:
        """The same in lines of text."""
        layout = self.layout
        rows = [finding(layout), setting(layout), *text(layout)]
        return [f"{self.name}, SASS address {self.address:#06x}", *(f"  {row}" for row in rows)]


def watched(done: Execution) -> list[Watched]:
    """All instructions of a watched execution that accessed shared memory, in their order."""
    found = []
    for ran in done.ran:
        rows = {row["address"]: row for row in ran.rows(every=True)}
        for index, (first, worst) in sorted(ran.accesses.items()):
            row = rows[int(ran.program.instructions[index].address)]
            # ncu has no ideal for some copies (see `theory.wavefronts`); the excess is then their worst's.
            ideal = row["wavefronts_shared_ideal"] or row["requests_shared"] * worst.ideal
            excess = max(0, row["wavefronts_hardware"] - ideal)
            place = row["file"], row["line"], row["opcode"], row["address"]
            found.append(Watched(*place, first, worst, excess))
    return found


def most_excess(found: Iterable[Watched]) -> list[Watched]:
    """Of each line the instruction with the most excess, or wavefronts; the worst line first."""

    def badness(one: Watched) -> tuple[int, int, int]:
        return one.excess, one.worst.excess, one.worst.wavefronts

    lines: dict[tuple[str, int], Watched] = {}
    for one in found:
        place = one.file, one.line
        if place not in lines or badness(one) > badness(lines[place]):
            lines[place] = one
    return sorted(lines.values(), key=badness, reverse=True)


def at_line(found: Sequence[Watched], wanted: str, kernel: str) -> Watched:
    """The instruction to show for ``LINE`` of the kernel's file, or ``FILE:LINE`` of another one.

    Raises UserError where that line has no access to shared memory: with those that have one.
    """
    name, _, number = wanted.rpartition(":")
    lines = most_excess(found)
    for one in lines:
        if str(one.line) == number and Path(one.file).name == Path(name or kernel).name:
            return one
    files: dict[str, list[int]] = {}
    for one in lines:
        files.setdefault(Path(one.file).name, []).append(one.line)
    own = files.pop(Path(kernel).name, [])
    having = [ranges(own)] if own else []
    having += [f"{file}:{line}" for file, places in files.items() for line in sorted(places)]
    allowed = f"a line that accesses shared memory: {', '.join(having)}" if having else (
        "a kernel whose threads access shared memory"
    )  # fmt: skip
    raise UserError("command line", "--lanes", wanted, allowed)
