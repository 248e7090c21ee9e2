"""An access to shared memory laid out: wavefront after wavefront, the lanes that each serves and the
banks that they stand in.

Which wavefront serves which lane comes from the rule that counts wavefronts (`theory.wavefronts`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tilewave.execution.machine.access import LANES, Access

BANKS, BANK_BYTES = 32, 4


@dataclass(frozen=True)
class Cell:
    """What lanes want from some banks, from ``bank`` on; of one word where all want the same bytes."""

    bank: int
    banks: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One wavefront or, of a copy through the cache, those of one transaction, which have no order.

    transaction, wavefront: its number and its (first) wavefront's, from 1. wavefronts: how many it
    stands for. waits: whether its words had to wait for a bank. cells: lanes by the banks of shared
    memory; sources: of a copy through the cache, by the banks that they read from.
    """

    transaction: int
    wavefront: int
    wavefronts: int
    waits: bool
    cells: tuple[Cell, ...]
    sources: tuple[Cell, ...] = ()

    @property
    def lanes(self) -> list[int]:
        return sorted(lane for cell in self.cells for lane in cell.lanes)

    @property
    def merged(self) -> bool:
        """Whether it stands for wavefronts whose lanes are not told apart."""
        return bool(self.sources) or self.wavefronts > 1


@dataclass(frozen=True)
class Layout:
    """An access and its rows in order."""

    access: Access
    rows: tuple[Row, ...]

    @property
    def wavefronts(self) -> int:
        return sum(row.wavefronts for row in self.rows)

    @property
    def transactions(self) -> int:
        return len({row.transaction for row in self.rows})

    def contended(self) -> dict[int, int]:
        """Bank -> the most words that one transaction wants from it, where that is more than one; of
        a copy through the cache the most lanes, which share nothing.

        None of a copy that bypasses the cache, whose wavefronts do not come from banks.
        """
        wanted: dict[tuple[int, int], int] = {}
        for row in self.rows if self.access.kind != "bypass" else ():
            for cell in row.cells:
                for bank in range(cell.bank, cell.bank + cell.banks):
                    place = row.transaction, bank
                    wanted[place] = wanted.get(place, 0) + (len(cell.lanes) if row.merged else 1)
        found: dict[int, int] = {}
        for (_, bank), count in sorted(wanted.items()):
            if count > 1:
                found[bank] = max(found.get(bank, 0), count)
        return found


def laid_out(access: Access) -> Layout:
    """The rows of an access."""
    rows: list[Row] = []
    turns = {lane: access.turns[lane] for lane in access.lanes if access.turns[lane] >= 0}
    # The order of a copy that bypasses the cache is one of the whole access.
    size = LANES if access.kind == "bypass" else access.transaction
    wavefront, transaction = 1, 0
    for begin in range(0, LANES, size):
        part = {lane: turn for lane, turn in turns.items() if begin <= lane < begin + size}
        transaction += bool(part)
        for turn in range(max(part.values(), default=-1) + 1):
            chosen = [lane for lane in part if part[lane] == turn]
            waits = turn > 0 and access.kind != "bypass"
            cells = _cells(chosen, access.addresses, access.width)
            rows.append(Row(transaction, wavefront, 1, waits, cells))
            wavefront += 1
    for begin in range(0, LANES, access.transaction):
        rivals = {
            lane: access.rivals[lane]
            for lane in access.lanes
            if access.rivals[lane] and begin <= lane < begin + access.transaction
        }
        if not rivals:
            continue
        transaction += 1
        count = max(mask.bit_count() for mask in rivals.values())
        reading = [lane for lane in rivals if access.reading >> lane & 1]
        cells = _cells(rivals, access.addresses, access.width, by_bank=True)
        sources = _cells(reading, access.sources, access.width, by_bank=True)
        rows.append(Row(transaction, wavefront, count, count > 1, cells, sources))
        wavefront += count
    return Layout(access, tuple(rows))


def _cells(
    lanes: Iterable[int], addresses: tuple[int, ...], width: int, by_bank: bool = False
) -> tuple[Cell, ...]:
    """Lanes by the bytes that they want, or ``by_bank``, whichever bytes of it."""
    banks = max(1, width // BANK_BYTES)
    places: dict[int, list[int]] = {}
    for lane in lanes:
        place = addresses[lane] // (banks * BANK_BYTES)
        places.setdefault(place % (BANKS // banks) if by_bank else place, []).append(lane)
    cells = [Cell(place * banks % BANKS, banks, tuple(chosen)) for place, chosen in places.items()]
    return tuple(sorted(cells, key=lambda cell: (cell.bank, cell.lanes)))


def ranges(numbers: Iterable[int]) -> str:
    """``0-7, 12`` of numbers in order."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def _banks(cells: Iterable[Cell]) -> list[int]:
    return [bank for cell in cells for bank in range(cell.bank, cell.bank + cell.banks)]


def _named(what: str, numbers: Iterable[int]) -> str:
    known = set(numbers)
    return f"{what}{'s' if len(known) > 1 else ''} {ranges(known)}"


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def finding(layout: Layout) -> str:
    """What an access costs and why, in a sentence."""
    told = plural(layout.wavefronts, "wavefront")
    waiting = sum(row.wavefronts - row.merged for row in layout.rows if row.waits)
    if layout.access.excess:
        told += f" where {layout.access.ideal} would do"
    elif not waiting:
        return f"{told}, none too many"
    else:
        told += f", as many as the ideal, {waiting} of them for conflicts"
    if any(row.merged for row in layout.rows if row.waits):
        most = max(row.wavefronts for row in layout.rows)
        return f"{told}: {most} lanes of a transaction have a bank in common"
    if contended := layout.contended():
        most = max(contended.values())
        banks = [bank for bank, count in contended.items() if count == most]
        several = f"each of {len(banks)} banks" if len(banks) > 1 else f"bank {banks[0]}"
        told += f": {most} words lie in {several}"
    return told


def setting(layout: Layout) -> str:
    """Whose access it is, and how it is split."""
    access = layout.access
    what = {"matrix": "row addresses of matrices, 16 bytes each"}.get(
        access.kind, f"{plural(len(layout.access.lanes), 'lane')} of {plural(access.width, 'byte')}"
    )
    return (
        f"warp {access.warp} of block {access.block}, {what}, "
        f"{plural(layout.transactions, 'transaction')}"
    )


def text(layout: Layout) -> list[str]:
    """The rows of a layout, a line each."""
    lines = []
    for row in layout.rows:
        last = row.wavefront + row.wavefronts - 1
        number = f"{row.wavefront}-{last}" if last > row.wavefront else f"{row.wavefront}"
        head = f"wavefront{'s' if row.wavefronts > 1 else ''} {number}"
        origin = f"{_named('cache bank', _banks(row.sources))} to " if row.sources else ""
        line = (
            f"{head:<16} transaction {row.transaction}: {_named('lane', row.lanes)}, "
            f"{origin}{_named('bank', _banks(row.cells))}"
        )
        shared = max(len(cell.lanes) for cell in row.cells)
        if row.merged and row.wavefronts > 1:
            line += "; lanes with a bank in common take turns"
        elif shared > 1:
            line += f"; up to {shared} lanes get one word"
        lines.append(line + ("; waited for a bank" if row.waits and not row.merged else ""))
    return lines
