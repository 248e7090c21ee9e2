"""Accesses to shared memory as SVG: a template draws them, and this places its parts."""

import hashlib
from typing import Any

import markupsafe

from tilewave.execution.lanes.captured import Diagram
from tilewave.execution.lanes.layout import finding, ranges
from tilewave.execution.machine.access import LANES
from tilewave.report.rendering import render

LINE, ROW, TALL_ROW, WIRES, NUMBER = 17, 21, 27, 54, 13
"""Heights of a line of text, of a row with one and with two lines in its banks, of the wires, and of a number."""
FONT_SIZE = 10.5
"""Size of the smallest text in a drawing of 760 units."""
# Okabe and Ito's colours that have contrast on white and on black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B58900", "#56B4E9")


def drawn(diagram: Diagram, alone: bool = False) -> markupsafe.Markup:
    """Return a diagram as SVG, for an HTML page or as a file ``alone``, which has its own colours."""
    layout, said = diagram.layout, {"name": diagram.name, "finding": finding(diagram.layout)}
    mark = f"{diagram.name}{said['finding']}{layout.access}"
    row_of = {lane: row for row in layout.rows for lane in row.lanes}
    numbers = {lane: row.numbers for lane, row in row_of.items()}
    depth = 18 + NUMBER * max((len(row.numbers) for row in layout.rows), default=1)
    lanes_top, addresses = 3 * LINE + 10, [layout.access.addresses[n] for n in layout.access.lanes]
    wires_top = lanes_top + depth + 7 + 7 * max((len(str(at)) for at in addresses), default=1)
    top = wires_top + WIRES + 18
    rows: list[dict[str, Any]] = []
    for row in layout.rows:
        cells = (*row.cells, *row.sources)
        tall = any(len(cell.lanes) > 1 and cell.banks == 1 for cell in cells)
        number = row.transaction if row.merged else row.wavefront
        rows.append({
            "row": row, "top": top, "height": TALL_ROW if tall else ROW,
            "colour": COLOURS[(number - 1) % len(COLOURS)],
            "served": [lane for lane, last in row_of.items() if last is row],
            "first": not rows or rows[-1]["row"].transaction != row.transaction,
        })  # fmt: skip
        top += rows[-1]["height"] * (2 if row.sources else 1)
    places = {"lanes_top": lanes_top, "depth": depth, "wires_top": wires_top, "bottom": top}
    context = {
        **said, **places, "alone": alone, "banks_top": wires_top + WIRES + 12, "layout": layout, "rows": rows,
        "mark": hashlib.sha256(mark.encode()).hexdigest()[:8], "font_size": FONT_SIZE, "ranges": ranges,
        "idle": [lane for lane in range(LANES) if lane not in row_of], "numbers": numbers,
    }  # fmt: skip
    return markupsafe.Markup(render("access.svg.j2", context))
