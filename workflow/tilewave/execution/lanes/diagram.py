"""A laid-out access as SVG: 32 lanes above, 32 banks below, a row for each wavefront.

Colours stand beside numbers and never alone. Text has the colour of the page around it; a drawing
that stands by itself brings its own, for light and for dark.
"""

import hashlib
from collections.abc import Iterable
from html import escape

from tilewave.execution.lanes.layout import BANKS, Cell, Layout, Row, finding, setting, text
from tilewave.execution.machine.access import LANES

WIDTH, LEFT, STEP = 760, 104, 20
LINE, ROW, TALL_ROW, WIRES, NUMBER = 17, 21, 27, 54, 13
LETTERS = 10.5
"""Size of the smallest letters, where the drawing is WIDTH wide."""
# Okabe and Ito's colours that have contrast on white and on black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B58900", "#56B4E9")
BOLD = ' font-weight="700"'
MIDDLE = ' text-anchor="middle"'
PALE = ' fill-opacity=".75"'
PALER = ' fill-opacity=".4"'
STYLE = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)


def _x(column: int) -> int:
    return LEFT + STEP * column


def _colour(row: Row) -> str:
    number = row.transaction if row.merged else row.wavefront
    return COLOURS[(number - 1) % len(COLOURS)]


def _look(row: Row) -> str:
    colour = _colour(row)
    return f'fill="{colour}" fill-opacity=".25" stroke="{colour}"'


def _numbers(row: Row) -> tuple[str, ...]:
    """The wavefronts of a row, in lines."""
    last = row.wavefront + row.wavefronts - 1
    return (f"{row.wavefront}-", f"{last}") if row.wavefronts > 1 else (f"{row.wavefront}",)


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(words)}</text>'


def _depth(layout: Layout) -> int:
    """Height of the lanes' boxes."""
    return 18 + NUMBER * max((len(_numbers(row)) for row in layout.rows), default=1)


def _boxes(lanes: Iterable[int], top: int, depth: int, look: str) -> str:
    """Boxes of some lanes that look alike."""
    boxes = "".join(f"M{_x(lane)} {top}h{STEP - 1}v{depth}h{1 - STEP}z" for lane in lanes)
    return f'<path d="{boxes}" {look}/>'


def _lanes(layout: Layout, top: int) -> list[str]:
    """The lanes with their numbers, their wavefronts and the bytes that they ask for."""
    access, taking_part = layout.access, set(layout.access.lanes)
    row_of = {lane: row for row in layout.rows for lane in row.lanes}
    made = ['<g text-anchor="end">']
    depth = _depth(layout)
    for offset, words in ((13, "lane"), (13 + NUMBER, "wavefront"), (depth + 17, "byte")):
        made.append(_text(LEFT - 8, top + offset, words))
    made.append("</g>")
    for row in layout.rows:
        own = [lane for lane, last in row_of.items() if last is row]
        made.append(_boxes(own, top, depth, _look(row)) if own else "")
    still = [lane for lane in range(LANES) if lane not in row_of]
    pale = 'fill="none" stroke="currentColor" stroke-opacity=".4" stroke-dasharray="2 2"'
    made.append(_boxes(still, top, depth, pale) if still else "")
    made.append(f"<g{MIDDLE}>")
    for lane in range(LANES):
        middle = _x(lane) + (STEP - 1) / 2
        made.append(_text(middle, top + 13, str(lane), "" if lane in taking_part else PALER))
        if lane in row_of:
            for line, words in enumerate(_numbers(row_of[lane]), 1):
                made.append(_text(middle, top + 13 + NUMBER * line, words, BOLD))
    made.append('</g><g text-anchor="end">')
    for lane in layout.access.lanes:
        x, y = _x(lane) + (STEP - 1) / 2 + 3, top + depth + 4
        turned = f' transform="rotate(-90 {x:g} {y})"'
        made.append(_text(x, y, str(access.addresses[lane]), turned))
    return [*filter(None, made), "</g>"]


def _wires(layout: Layout, top: int) -> list[str]:
    """A line from each lane to the first of its banks, or to the middle of them."""
    made = []
    for row in layout.rows:
        lines = "".join(
            f"M{_x(lane) + STEP / 2:g} {top}L{_x(cell.bank) + STEP * cell.banks / 2:g} {top + WIRES}"
            for cell in row.cells
            for lane in cell.lanes
        )
        made.append(f'<path d="{lines}" fill="none" stroke="{_colour(row)}"/>')
    return ['<g stroke-opacity=".75">', *made, "</g>"]


def _banks(layout: Layout, top: int) -> list[str]:
    """The banks' numbers and, above those that are wanted more than once, how often."""
    made = [_text(LEFT - 8, top, "bank", ' text-anchor="end"'), '<g text-anchor="middle">']
    contended = layout.contended()
    for bank in range(BANKS):
        bold = BOLD + ' text-decoration="underline"' if bank in contended else ""
        made.append(_text(_x(bank) + STEP / 2, top, str(bank), bold))
    made.append("</g>")
    return made


def _cell(cell: Cell, row: Row, top: int, height: int) -> list[str]:
    """Lanes in their banks: the first one's number, and how many others there are."""
    several = len(cell.lanes) > 1
    dashes = ' stroke-dasharray="4 2"' if row.waits else ""
    thick = ' stroke-width="2"' if several and not row.merged else ""
    x, width = _x(cell.bank) + 1, STEP * cell.banks - 2
    made = [
        f'<rect x="{x}" y="{top + 1}" width="{width}" height="{height - 3}" '
        f"{_look(row)}{dashes}{thick}/>"
    ]
    middle = x + width / 2
    first, others = str(cell.lanes[0]), f"+{len(cell.lanes) - 1}"
    if several and cell.banks == 1:
        made.append(_text(middle, top + 11.5, first, MIDDLE))
        made.append(_text(middle, top + 21.5, others, MIDDLE))
    else:
        words = f"{first} {others}" if several else first
        made.append(_text(middle, top + height / 2 + 3, words, MIDDLE))
    return made


def _strip(cells: Iterable[Cell], row: Row, words: str, top: int, height: int) -> list[str]:
    """A row of banks with what stands in them."""
    made = [
        f'<path d="M{LEFT} {top + height - 0.5:g}H{_x(BANKS)}" stroke="currentColor" '
        'stroke-opacity=".15"/>',
        _text(4, top + height / 2 + 3, words, BOLD if row.waits else ""),
    ]
    for cell in cells:
        made += _cell(cell, row, top, height)
    return made


def _row(row: Row, first: bool, top: int, height: int) -> list[str]:
    """A wavefront: its number, what it is, and its lanes in their banks."""
    if row.merged:
        strips = {"cache": row.sources, "shared": row.cells} if row.sources else {"": row.cells}
        made = []
        for place, (side, cells) in enumerate(strips.items()):
            words = f"{row.transaction}: {side} banks" if side else f"transaction {row.transaction}"
            made += _strip(cells, row, words, top + place * height, height)
        return made
    words = "conflict" if row.waits else f"transaction {row.transaction}" if first else ""
    y = top + height / 2 - 0.5
    return [
        *_strip(row.cells, row, words, top, height),
        f'<circle cx="{LEFT - 10}" cy="{y:g}" r="8" {_look(row)}/>',
        _text(LEFT - 10, y + 3.5, str(row.wavefront), MIDDLE + BOLD),
    ]


def _legend(layout: Layout) -> list[str]:
    """What the marks mean that occur, in lines."""
    told = ["A row is a wavefront; a number in it is a lane."]
    if layout.access.kind == "bypass":
        told[0] += (
            " It moves what goes alike from one line of global memory to one of shared memory."
        )
    if any(row.merged for row in layout.rows):
        told = [
            "Lanes read from banks of the cache and write to banks of shared memory. "
            "+n: as many more lanes in that bank.",
            "A transaction takes as many wavefronts as one of its lanes has lanes, itself included, "
            "in either of its banks.",
        ]
    elif any(len(cell.lanes) > 1 for row in layout.rows for cell in row.cells):
        told[0] += " +n: as many more lanes get the same word (broadcast)."
    conflict = "Dashed: waited for a bank (conflict). " if any(r.waits for r in layout.rows) else ""
    if layout.contended():
        told.append(f"{conflict}Underlined: banks that a transaction wants more than once.")
    return told


def drawn(layout: Layout, name: str, standalone: bool = True) -> str:
    """A layout as SVG. name: whose access it is, as the title says it.

    ``standalone`` for a file of its own; else for a place in an HTML page, whose colour it takes.
    """
    said = f"{name}: {finding(layout)}"
    told = f"{setting(layout)}. " + ". ".join(text(layout))
    mark = hashlib.sha256(f"{said}{told}{layout.access}".encode()).hexdigest()[:8]
    body = [
        f'<g font-size="14" font-weight="700">{_text(4, LINE, name)}</g>',
        f'<g font-size="12">{_text(4, 2 * LINE, finding(layout))}',
        _text(4, 3 * LINE, setting(layout), PALE) + "</g>",
    ]
    top = 3 * LINE + 10
    body += _lanes(layout, top)
    longest = max(
        (len(str(layout.access.addresses[lane])) for lane in layout.access.lanes), default=1
    )
    top += _depth(layout) + 7 + 7 * longest
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
    for words in _legend(layout):
        top += LINE
        body.append(_text(4, top, words, PALE))
    own = (' xmlns="http://www.w3.org/2000/svg"', STYLE) if standalone else ("", "")
    head = (
        f'<svg{own[0]} viewBox="0 0 {WIDTH} {top + 8}" role="img" '
        f'aria-labelledby="lanes-{mark} lanes-{mark}-text" font-family="system-ui,sans-serif" '
        f'font-size="{LETTERS}" fill="currentColor"><title id="lanes-{mark}">{escape(said)}</title>'
        f'<desc id="lanes-{mark}-text">{escape(told)}</desc>{own[1]}'
    )
    return "\n".join([head, *body, "</svg>"]) + "\n"
