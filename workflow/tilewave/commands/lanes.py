"""``tilewave execute --lanes LINE``: draw the line's worst access to shared memory, lane by lane and bank by bank."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tilewave.basics.errors import HERE, UserError
from tilewave.execution.case import CaseExecution
from tilewave.execution.lanes.captured import Diagram, diagrams, patterns, worst_first
from tilewave.execution.lanes.layout import finding
from tilewave.records.store import write_atomically
from tilewave.report import accesses


def at_line(drawings: list[Diagram], wanted: str, kernel: str) -> Diagram:
    """Return the first access of ``LINE`` of the kernel's file, or of ``FILE:LINE``. Raises UserError."""
    file, _, number = wanted.rpartition(":")
    places = {(Path(each.file).name, each.line): each for each in reversed(drawings)}
    for (name, line), drawing in places.items():
        if (name, str(line)) == (Path(file or kernel).name, number):
            return drawing
    if not places:
        problem = "--lanes: no thread of this kernel accesses shared memory"
        raise UserError.because(HERE, problem, "Choose another kernel, or remove --lanes")
    problem = f"--lanes: line {wanted} does not access shared memory"
    lines = sorted(places, key=lambda place: (place[0] != Path(kernel).name, place))
    names = [f"{line}" if name == Path(kernel).name else f"{name}:{line}" for name, line in lines]
    raise UserError.because(HERE, problem, f"Lines that do: {', '.join(names)}")


def drawn(done: CaseExecution, wanted: str, kernel: Path, output: Path | None) -> dict[str, Any]:
    """Write the diagram of a watched execution; return its path and its lines of text. Raises UserError."""
    drawings: list[Diagram] = []
    for launch in done.ran:
        origins = {row["address"]: (row["file"], row["line"]) for row in launch.rows(every=True)}
        drawings += diagrams(patterns(launch), origins.__getitem__)
    drawing = at_line(worst_first(drawings), wanted, kernel.name)
    path = output or Path(f"{kernel.stem}_line_{wanted.replace(':', '_')}.svg")
    svg = accesses.drawn(drawing, alone=True)
    write_atomically(path, svg.encode())
    _, description = ElementTree.fromstring(svg)[:2]
    head = f"{drawing.name}, SASS address {drawing.address:#06x}"
    rows = [finding(drawing.layout), *str(description.text).split(". ")]
    return {"file": str(path), "text": [head, *(f"  {row}" for row in rows)]}
