"""The accesses to shared memory of a watched execution, and the one that is shown of a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.execution.case import CaseExecution, Ran
from tilewave.execution.lanes import captured
from tilewave.execution.lanes.captured import Diagram
from tilewave.execution.lanes.layout import finding, ranges, setting, text


def watched(done: CaseExecution) -> list[Diagram]:
    """The accesses of an execution, the most excess first; of those that stand alike in a line one."""

    def drawn(ran: Ran) -> list[Diagram]:
        def place(address: int) -> tuple[str, int]:
            return ran.places(address).file, ran.places(address).line

        return captured.diagrams(captured.patterns(ran), place)

    return captured.worst_first(one for ran in done.ran for one in drawn(ran))


def told(one: Diagram) -> list[str]:
    """A drawing in lines of text."""
    rows = [finding(one.layout), setting(one.layout), *text(one.layout)]
    return [f"{one.name}, SASS address {one.address:#06x}", *(f"  {row}" for row in rows)]


def at_line(found: Sequence[Diagram], wanted: str, kernel: str) -> Diagram:
    """The first access of ``LINE`` of the kernel's file, or ``FILE:LINE`` of another one.

    Raises UserError where that line has no access to shared memory: with those that have one.
    """
    name, _, number = wanted.rpartition(":")
    for one in found:
        if str(one.line) == number and Path(one.file).name == Path(name or kernel).name:
            return one
    files: dict[str, set[int]] = {}
    for one in found:
        files.setdefault(Path(one.file).name, set()).add(one.line)
    own = files.pop(Path(kernel).name, set())
    having = [ranges(own)] if own else []
    having += [f"{file}:{line}" for file, places in files.items() for line in sorted(places)]
    allowed = f"a line that accesses shared memory: {', '.join(having)}" if having else (
        "a kernel whose threads access shared memory"
    )  # fmt: skip
    raise UserError("command line", "--lanes", wanted, allowed)
