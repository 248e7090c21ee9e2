"""The shared-memory accesses of a watched execution, and the access of a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewave.basics.errors import HERE, UserError
from tilewave.execution.case import CaseExecution, ExecutedLaunch
from tilewave.execution.lanes import captured
from tilewave.execution.lanes.captured import Diagram
from tilewave.execution.lanes.layout import finding, ranges, setting, text


def watched(done: CaseExecution) -> list[Diagram]:
    """Return the accesses of an execution, the most excess first. Equal patterns of a line are merged."""

    def drawn(launch: ExecutedLaunch) -> list[Diagram]:
        def line_of(address: int) -> tuple[str, int]:
            return launch.places(address).file, launch.places(address).line

        return captured.diagrams(captured.patterns(launch), line_of)

    return captured.worst_first(drawing for launch in done.ran for drawing in drawn(launch))


def text_lines(drawing: Diagram) -> list[str]:
    rows = [finding(drawing.layout), setting(drawing.layout), *text(drawing.layout)]
    return [f"{drawing.name}, SASS address {drawing.address:#06x}", *(f"  {row}" for row in rows)]


def at_line(drawings: Sequence[Diagram], wanted: str, kernel: str) -> Diagram:
    """Return the first access of ``LINE`` of the kernel's file, or of ``FILE:LINE``. Raises UserError."""
    name, _, number = wanted.rpartition(":")
    for drawing in drawings:
        if str(drawing.line) == number and Path(drawing.file).name == Path(name or kernel).name:
            return drawing
    files: dict[str, set[int]] = {}
    for drawing in drawings:
        files.setdefault(Path(drawing.file).name, set()).add(drawing.line)
    lines = files.pop(Path(kernel).name, set())
    allowed = [ranges(lines)] if lines else []
    allowed += [f"{file}:{line}" for file, numbers in files.items() for line in sorted(numbers)]
    if not allowed:
        problem = "--lanes: no thread of this kernel accesses shared memory"
        raise UserError.because(HERE, problem, "Choose another kernel, or remove --lanes")
    problem = f"--lanes: line {wanted} does not access shared memory"
    raise UserError.because(HERE, problem, f"Lines that do: {', '.join(allowed)}")
