"""A laid-out access as SVG: 32 lanes above, 32 banks below, a row for each wavefront, a number beside each
colour. Text has the colour of the page around it."""

import hashlib
from collections.abc import Iterable
from html import escape

from tilewave.execution.lanes.layout import BANKS, Cell, Layout, Row, finding, setting, text
from tilewave.execution.machine.access import LANES

WIDTH, LEFT, STEP = 760, 104, 20
LINE, ROW, TALL_ROW, WIRES, NUMBER = 17, 21, 27, 54, 13
FONT_SIZE = 10.5
"""Size of the smallest text in a drawing of WIDTH."""
# Okabe and Ito's colours that have contrast on white and on black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B58900", "#56B4E9")
BOLD = ' font-weight="700"'
MIDDLE = ' text-anchor="middle"'
PALE = ' fill-opacity=".75"'
PALER = ' fill-opacity=".4"'


def _x(column: int) -> int:
    return LEFT + STEP * column


def _colour(row: Row) -> str:
    number = row.transaction if row.merged else row.wavefront
    return COLOURS[(number - 1) % len(COLOURS)]


def _look(row: Row) -> str:
    colour = _colour(row)
    return f'fill="{colour}" fill-opacity=".25" stroke="{colour}"'


def _numbers(row: Row) -> tuple[str, ...]:
    """Return the wavefronts of a row, in lines."""
    last = row.wavefront + row.wavefronts - 1
    return (f"{row.wavefront}-", f"{last}") if row.wavefronts > 1 else (f"{row.wavefront}",)


def _text(x: float, y: float, content: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(content)}</text>'


def _depth(layout: Layout) -> int:
    return 18 + NUMBER * max((len(_numbers(row)) for row in layout.rows), default=1)


def _boxes(lanes: Iterable[int], top: int, depth: int, look: str) -> str:
    boxes = "".join(f"M{_x(lane)} {top}h{STEP - 1}v{depth}h{1 - STEP}z" for lane in lanes)
    return f'<path d="{boxes}" {look}/>'


def _lanes(layout: Layout, top: int) -> list[str]:
    """Return the lanes with their numbers, wavefronts and byte addresses."""
    access, taking_part = layout.access, set(layout.access.lanes)
    row_of = {lane: row for row in layout.rows for lane in row.lanes}
    parts = ['<g text-anchor="end">']
    depth = _depth(layout)
    for offset, label in ((13, "lane"), (13 + NUMBER, "wavefront"), (depth + 17, "byte")):
        parts.append(_text(LEFT - 8, top + offset, label))
    parts.append("</g>")
    for row in layout.rows:
        served = [lane for lane, last in row_of.items() if last is row]
        parts.append(_boxes(served, top, depth, _look(row)) if served else "")
    idle = [lane for lane in range(LANES) if lane not in row_of]
    pale = 'fill="none" stroke="currentColor" stroke-opacity=".4" stroke-dasharray="2 2"'
    parts.append(_boxes(idle, top, depth, pale) if idle else "")
    parts.append(f"<g{MIDDLE}>")
    for lane in range(LANES):
        middle = _x(lane) + (STEP - 1) / 2
        parts.append(_text(middle, top + 13, str(lane), "" if lane in taking_part else PALER))
        if lane in row_of:
            for line, number in enumerate(_numbers(row_of[lane]), 1):
                parts.append(_text(middle, top + 13 + NUMBER * line, number, BOLD))
    parts.append('</g><g text-anchor="end">')
    for lane in layout.access.lanes:
        x, y = _x(lane) + (STEP - 1) / 2 + 3, top + depth + 4
        turned = f' transform="rotate(-90 {x:g} {y})"'
        parts.append(_text(x, y, str(access.addresses[lane]), turned))
    return [*filter(None, parts), "</g>"]


def _wires(layout: Layout, top: int) -> list[str]:
    """Return a line from each lane to the middle of its banks."""
    parts = []
    for row in layout.rows:
        lines = "".join(
            f"M{_x(lane) + STEP / 2:g} {top}L{_x(cell.bank) + STEP * cell.banks / 2:g} {top + WIRES}"
            for cell in row.cells
            for lane in cell.lanes
        )
        parts.append(f'<path d="{lines}" fill="none" stroke="{_colour(row)}"/>')
    return ['<g stroke-opacity=".75">', *parts, "</g>"]


def _banks(layout: Layout, top: int) -> list[str]:
    """Return the banks' numbers; those that a transaction wants more than once are underlined."""
    parts = [_text(LEFT - 8, top, "bank", ' text-anchor="end"'), '<g text-anchor="middle">']
    contended = layout.contended()
    for bank in range(BANKS):
        bold = BOLD + ' text-decoration="underline"' if bank in contended else ""
        parts.append(_text(_x(bank) + STEP / 2, top, str(bank), bold))
    parts.append("</g>")
    return parts


def _cell(cell: Cell, row: Row, top: int, height: int) -> list[str]:
    """Return the lanes in their banks: the first one's number, and the count of the rest."""
    several = len(cell.lanes) > 1
    dashes = ' stroke-dasharray="4 2"' if row.waits else ""
    thick = ' stroke-width="2"' if several and not row.merged else ""
    x, width = _x(cell.bank) + 1, STEP * cell.banks - 2
    box = f'x="{x}" y="{top + 1}" width="{width}" height="{height - 3}"'
    parts = [f"<rect {box} {_look(row)}{dashes}{thick}/>"]
    middle = x + width / 2
    first, rest = str(cell.lanes[0]), f"+{len(cell.lanes) - 1}"
    if several and cell.banks == 1:
        parts.append(_text(middle, top + 11.5, first, MIDDLE))
        parts.append(_text(middle, top + 21.5, rest, MIDDLE))
    else:
        label = f"{first} {rest}" if several else first
        parts.append(_text(middle, top + height / 2 + 3, label, MIDDLE))
    return parts


def _strip(cells: Iterable[Cell], row: Row, label: str, top: int, height: int) -> list[str]:
    """Return a labelled row of banks with the lanes in them."""
    parts = [
        f'<path d="M{LEFT} {top + height - 0.5:g}H{_x(BANKS)}" stroke="currentColor" '
        'stroke-opacity=".15"/>',
        _text(4, top + height / 2 + 3, label, BOLD if row.waits else ""),
    ]
    for cell in cells:
        parts += _cell(cell, row, top, height)
    return parts


def _row(row: Row, first: bool, top: int, height: int) -> list[str]:
    """Return a wavefront: its number, its label, and its lanes in their banks."""
    if row.merged:
        strips = {"cache": row.sources, "shared": row.cells} if row.sources else {"": row.cells}
        parts = []
        for index, (side, cells) in enumerate(strips.items()):
            label = f"{row.transaction}: {side} banks" if side else f"transaction {row.transaction}"
            parts += _strip(cells, row, label, top + index * height, height)
        return parts
    label = "conflict" if row.waits else f"transaction {row.transaction}" if first else ""
    y = top + height / 2 - 0.5
    return [
        *_strip(row.cells, row, label, top, height),
        f'<circle cx="{LEFT - 10}" cy="{y:g}" r="8" {_look(row)}/>',
        _text(LEFT - 10, y + 3.5, str(row.wavefront), MIDDLE + BOLD),
    ]


def _legend(layout: Layout) -> list[str]:
    """Return lines that explain the marks of this drawing."""
    lines = ["A row is a wavefront; a number in it is a lane."]
    if layout.access.kind == "bypass":
        lines[0] += " It moves data from one line of global memory to one line of shared memory."
    if any(row.merged for row in layout.rows):
        lines = [
            "Lanes read from banks of the cache and write to banks of shared memory. "
            "+n: n more lanes in that bank.",
            "Each lane counts the lanes, itself included, that share one of its banks. "
            "The largest count is the number of wavefronts.",
        ]
    elif any(len(cell.lanes) > 1 for row in layout.rows for cell in row.cells):
        lines[0] += " +n: n more lanes get the same word (broadcast)."
    conflict = "Dashed: waited for a bank (conflict). " if any(r.waits for r in layout.rows) else ""
    if layout.contended():
        lines.append(f"{conflict}Underlined: banks that a transaction wants more than once.")
    return lines


def drawn(layout: Layout, name: str) -> str:
    """Return a layout as SVG, for an HTML page. name: the access, for the title."""
    title = f"{name}: {finding(layout)}"
    description = f"{setting(layout)}. " + ". ".join(text(layout))
    mark = hashlib.sha256(f"{title}{description}{layout.access}".encode()).hexdigest()[:8]
    body = [
        f'<g font-size="14" font-weight="700">{_text(4, LINE, name)}</g>',
        f'<g font-size="12">{_text(4, 2 * LINE, finding(layout))}',
        _text(4, 3 * LINE, setting(layout), PALE) + "</g>",
    ]
    top = 3 * LINE + 10
    body += _lanes(layout, top)
    addresses = (layout.access.addresses[lane] for lane in layout.access.lanes)
    top += _depth(layout) + 7 + 7 * max((len(str(at)) for at in addresses), default=1)
    body += _wires(layout, top)
    top += WIRES + 12
    body += _banks(layout, top)
    top += 6
    previous = 0
    for row in layout.rows:
        cells = (*row.cells, *row.sources)
        height = TALL_ROW if any(len(c.lanes) > 1 and c.banks == 1 for c in cells) else ROW
        body += _row(row, row.transaction != previous, top, height)
        previous = row.transaction
        top += height * (2 if row.sources else 1)
    for line in _legend(layout):
        top += LINE
        body.append(_text(4, top, line, PALE))
    head = (
        f'<svg viewBox="0 0 {WIDTH} {top + 8}" role="img" '
        f'aria-labelledby="lanes-{mark} lanes-{mark}-text" font-family="system-ui,sans-serif" '
        f'font-size="{FONT_SIZE}" fill="currentColor"><title id="lanes-{mark}">{escape(title)}</title>'
        f'<desc id="lanes-{mark}-text">{escape(description)}</desc>'
    )
    return "\n".join([head, *body, "</svg>"]) + "\n"
