"""The layout of an access to shared memory: the lanes and banks of each wavefront.
The rule that counts wavefronts assigns the lanes to them (`theory.wavefronts`)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tilewave.execution.machine.access import LANES, Access

BANKS, BANK_BYTES = 32, 4


@dataclass(frozen=True)
class Cell:
    """Lanes that access the same banks, ``banks`` of them from ``bank`` on."""

    bank: int
    banks: int
    lanes: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A wavefront or, for a copy through the cache, all wavefronts of a transaction, which have no order.
    transaction, wavefront: from 1; with several wavefronts that of the first. wavefronts: their number. waits: whether
    words waited for a bank. cells: lanes by banks of shared memory. sources: lanes by the banks of the cache they read."""

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
        """True if the lanes are not assigned to single wavefronts."""
        return bool(self.sources) or self.wavefronts > 1

    @property
    def numbers(self) -> tuple[str, ...]:
        """The wavefronts, in lines."""
        last = self.wavefront + self.wavefronts - 1
        return (f"{self.wavefront}-", f"{last}") if self.wavefronts > 1 else (f"{self.wavefront}",)


@dataclass(frozen=True)
class Layout:
    access: Access
    rows: tuple[Row, ...]

    @property
    def wavefronts(self) -> int:
        return sum(row.wavefronts for row in self.rows)

    @property
    def transactions(self) -> int:
        return len({row.transaction for row in self.rows})

    def contended(self) -> dict[int, int]:
        """Return the most words that a transaction wants from each bank, where that is more than one.
        For a copy through the cache they are lanes. A copy that bypasses it has none: banks do not count."""
        wanted: Counter[tuple[int, int]] = Counter()
        for row in self.rows if self.access.kind != "bypass" else ():
            for cell in row.cells:
                for bank in range(cell.bank, cell.bank + cell.banks):
                    wanted[row.transaction, bank] += len(cell.lanes) if row.merged else 1
        most: dict[int, int] = {}
        for (_, bank), count in sorted(wanted.items()):
            if count > 1:
                most[bank] = max(most.get(bank, 0), count)
        return most


def laid_out(access: Access) -> Layout:
    rows: list[Row] = []
    turns = {lane: access.turns[lane] for lane in access.lanes if access.turns[lane] >= 0}
    # The order of a copy that bypasses the cache spans the whole access.
    size = LANES if access.kind == "bypass" else access.transaction
    wavefront, transaction = 1, 0
    for begin in range(0, LANES, size):
        ordered = {lane: turn for lane, turn in turns.items() if begin <= lane < begin + size}
        transaction += bool(ordered)
        for turn in range(max(ordered.values(), default=-1) + 1):
            chosen = [lane for lane in ordered if ordered[lane] == turn]
            waits = turn > 0 and access.kind != "bypass"
            cells = _cells(chosen, access.addresses, access.width)
            rows.append(Row(transaction, wavefront, 1, waits, cells))
            wavefront += 1
    for begin in range(0, LANES, access.transaction):
        part = [lane for lane in access.lanes if begin <= lane < begin + access.transaction]
        rivals = {lane: access.rivals[lane] for lane in part if access.rivals[lane]}
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
    """Return lanes grouped by the bytes that they want, or ``by_bank``."""
    banks = max(1, width // BANK_BYTES)
    groups: dict[int, list[int]] = {}
    for lane in lanes:
        unit = addresses[lane] // (banks * BANK_BYTES)
        groups.setdefault(unit % (BANKS // banks) if by_bank else unit, []).append(lane)
    cells = [Cell(unit * banks % BANKS, banks, tuple(group)) for unit, group in groups.items()]
    return tuple(sorted(cells, key=lambda cell: (cell.bank, cell.lanes)))


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in order as ``0-7, 12``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def finding(layout: Layout) -> str:
    """Return the cost of an access and its cause, in a sentence."""
    sentence = f"{layout.wavefronts:,} wavefront{'' if layout.wavefronts == 1 else 's'}"
    waiting = sum(row.wavefronts - row.merged for row in layout.rows if row.waits)
    if layout.access.excess:
        sentence += f" where {layout.access.ideal} would do"
    elif not waiting:
        return f"{sentence}, no excess"
    else:
        sentence += f", no excess, {waiting} of them for conflicts"
    if any(row.merged for row in layout.rows if row.waits):
        most = max(row.wavefronts for row in layout.rows)
        return f"{sentence}: {most} lanes of a transaction have a bank in common"
    if contended := layout.contended():
        most = max(contended.values())
        banks = [bank for bank, count in contended.items() if count == most]
        several = f"each of {len(banks)} banks" if len(banks) > 1 else f"bank {banks[0]}"
        sentence += f": {most} words lie in {several}"
    return sentence
