"""Rules of the memory pipes: wavefronts of shared memory, cp.async and ldmatrix, global sectors.

Each rule is written once, as a compiled function of one warp (``warp_...``: 32 byte addresses and a
mask whose bit i is lane i), which the interpreter calls. The rules were found on an NVIDIA H200
(compute capability 9.0, Nsight Compute 2025.3.1). Each says which counter it gives and for how many
of the patterns measured; ``tests/data/truth`` holds those patterns or, of the larger sets, a part.
"""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewave.basics import bits
from tilewave.basics.jit import njit

LANES = 32
ALL = 0xFFFFFFFF
"""The mask of a warp all of whose lanes take part."""
LINE_BYTES = 128
"""Bytes of all 32 banks side by side, and of a cache line."""
SECTOR_BYTES = 32
WORD_BYTES = 4
MATRIX_BYTES, MATRIX_ROWS = 16, 8
"""Bytes of a row, and rows, of a matrix that ldmatrix loads."""

Lanes = NDArray[np.int64]
"""Numbers of a warp's lanes, (32,)."""


@njit
def _count(mask: int) -> int:
    """Number of active lanes."""
    return np.int64(bits.count_ones(np.uint32(mask)))  # type: ignore[call-arg,return-value]


# -------------------------------------------------------------------------------- shared memory


@njit
def _worst_bank(addresses: Lanes, mask: int, unit: int, turns: Lanes) -> int:
    """Largest number of distinct words that the active lanes want from one bank.

    unit: bytes of an access, at least a word. Aligned accesses of one size are equal or disjoint,
    so units stand for their words, and a unit covers the same banks whenever it covers one.
    turns: gets for each active lane how many other words of its bank come before its own.
    """
    columns = LINE_BYTES // unit
    first = bits.int64_lanes()  # of each column: the lane with the newest unit
    before = bits.int64_lanes()  # of each such lane: the lane with the unit before
    depth = bits.int64_lanes()
    for column in range(columns):
        first[column], depth[column] = -1, 0
    worst = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        place = addresses[lane] // unit
        column = place % columns
        other = first[column]
        while other >= 0 and addresses[other] // unit != place:
            other = before[other]
        if other < 0:
            before[lane] = first[column]
            first[column] = lane
            turns[lane] = depth[column]
            depth[column] += 1
            worst = max(worst, depth[column])
        else:
            turns[lane] = turns[other]
    return worst


@njit
def _agrees(addresses: Lanes, mask: int, distance: int, alone: bool) -> bool:
    """Whether each active lane i has the address of lane i xor distance.

    alone: what to say of a lane whose neighbour is not active.
    """
    for lane in range(LANES):
        if (mask >> lane) & 1:
            other = lane ^ distance
            if (mask >> other) & 1:
                if addresses[lane] != addresses[other]:
                    return False
            elif not alone:
                return False
    return True


@njit
def transaction_lanes(addresses: Lanes, mask: int, width: int, is_store: bool) -> int:
    """Lanes of each transaction of a shared load or store (`warp_shared`)."""
    unit = max(width, WORD_BYTES)
    lanes = min(LANES, LINE_BYTES // unit)
    wide = not is_store and unit > WORD_BYTES
    if wide and (_agrees(addresses, mask, 1, True) or _agrees(addresses, mask, 2, True)):
        lanes *= 2
    return lanes


@njit
def warp_turns(addresses: Lanes, mask: int, unit: int, lanes: int, turns: Lanes) -> tuple[int, int]:
    """Wavefronts and transactions of a request that is split after every so many lanes.

    turns: int64 (32,), gets for each active lane the wavefront of its transaction that serves it,
    counted from 0.
    """
    wavefronts = 0
    transactions = 0
    for begin in range(0, LANES, lanes):
        part = mask & (((1 << lanes) - 1) << begin)
        if part:
            wavefronts += _worst_bank(addresses, part, unit, turns)
            transactions += 1
    return wavefronts, transactions


@njit
def warp_shared(addresses: Lanes, mask: int, width: int, is_store: bool) -> tuple[int, int]:
    """Wavefronts and transactions of a warp's shared load or store of ``width`` bytes a lane.

    A request is split into transactions: the whole warp for up to 4 bytes, half-warps for 8,
    quarter-warps for 16. Two neighbouring ones of a load merge (8 bytes: both halves; 16: the
    quarters of each half) where all active lanes of the warp agree with lane i xor 1, or all with
    lane i xor 2. A transaction costs the largest number of distinct words in one bank, and nothing
    without an active lane. Conflicts are wavefronts less transactions.

    Source: the counters ``l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st}`` and
    ``l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{ld,st}`` of one launch for each pattern;
    700 of the 700 in ``shared_access_h200.csv``.
    """
    lanes = transaction_lanes(addresses, mask, width, is_store)
    return warp_turns(addresses, mask, max(width, WORD_BYTES), lanes, bits.int64_lanes())


@njit
def _attributed_load(addresses: Lanes, mask: int, width: int) -> int:
    """Wavefronts that Nsight Compute attributes to a load of 8 or 16 bytes a lane."""
    lanes = LINE_BYTES // width
    turns = bits.int64_lanes()
    count = 0
    same = True
    seen = np.int64(-1)
    for lane in range(LANES):
        if (mask >> lane) & 1:
            same = same and (count == 0 or addresses[lane] == seen)
            seen = addresses[lane]
            count += 1
    if same:
        return (count + 2 * lanes - 1) // (2 * lanes)
    wavefronts = 0
    for begin in range(0, LANES, 2 * lanes):
        both = mask & (((1 << 2 * lanes) - 1) << begin)
        # In all groups but the last what counts for a lane without a neighbour is lane 31's state.
        last = begin + 2 * lanes == LANES
        merged = both != 0 and (
            (not last and not (mask >> (LANES - 1)) & 1)
            or _agrees(addresses, both, 1, last)
            or _agrees(addresses, both, 2, last)
        )
        if merged and _worst_bank(addresses, both, width, turns) == 1:
            wavefronts += 1
            continue
        lower = both & (((1 << lanes) - 1) << begin)
        for part in (lower, both & ~lower):
            if part:
                wavefronts += _worst_bank(addresses, part, width, turns)
    return wavefronts


@njit
def warp_shared_attributed(addresses: Lanes, mask: int, width: int, is_store: bool) -> int:
    """Wavefronts that Nsight Compute attributes to the instruction: a model of its own.

    As the hardware (`warp_shared`), but two transactions of a load merge only where one wavefront
    is enough for both, and each half-warp of a 16-byte load is judged by itself. Lanes of a load
    that all read one address take one wavefront for each 256 bytes. The first half-warp of a
    16-byte load has an oddity: where lane 31 is active, a lane whose neighbour is not active
    prevents merging, and where lane 31 is not active, no address is compared at all.

    Source: ``memory_l1_wavefronts_shared`` of Nsight Compute 2025.3.1 for each instruction. Exact
    for 384 of 384, 1,024 of 1,024 and 2,048 of 2,048 loads of 4, 8 and 16 bytes, and for 384, 384
    and 640 stores, all of them; ldmatrix is attributed what `warp_ldmatrix` says.
    """
    if not is_store and width > WORD_BYTES:
        return _attributed_load(addresses, mask, width)
    return warp_shared(addresses, mask, width, is_store)[0]


@njit
def warp_shared_ideal(addresses: Lanes, mask: int, width: int, is_store: bool) -> int:
    """Wavefronts of a shared load or store that Nsight Compute would take for free of conflicts.

    The bytes of the active lanes in lines of 128, or what is attributed where that is less.
    Source: ``memory_l1_wavefronts_shared_ideal``, as exact as `warp_shared_attributed`.
    """
    unit = max(width, WORD_BYTES)
    lines = (_count(mask) * unit + LINE_BYTES - 1) // LINE_BYTES
    return min(lines, warp_shared_attributed(addresses, mask, width, is_store))


@njit
def warp_ldmatrix(addresses: Lanes, mask: int) -> tuple[int, int]:
    """Wavefronts and transactions of ldmatrix: one transaction for each 8x8 matrix.

    addresses: of 32 rows, eight for each matrix; mask: the rows that count. ``.x1`` is 0xff, ``.x2``
    0xffff, ``.x4`` 0xffffffff; ``.trans`` makes no difference. Source: the shared load wavefronts
    of 113 of 113 launches in ``memory_ops_h200.csv``; attributed in 768 of 768 instructions (16
    of which the compiler had put in another order).
    """
    return warp_turns(addresses, mask, MATRIX_BYTES, MATRIX_ROWS, bits.int64_lanes())


# --------------------------------------------------------------------------------------- cp.async
#
# What follows is what Nsight Compute 2025.3.1 attributes to an LDGSTS instruction: a model that it
# evaluates on the addresses. The figures are ``memory_l1_wavefronts_shared``, ``..._ideal`` and
# ``memory_l2_theoretical_sectors_global``, ``..._ideal`` of some 6,700 patterns for each width and
# cache operator (``cp_async_h200.npz`` holds a part of them) and of 500 older ones
# (``async_copy_h200.csv``, the first two only). Every rule below gives all of them exactly.
# Nsight Compute has no figures (it says 0) for an LDGSTS.BYPASS that is guarded by predicate P0:
# 40 of 128 instructions in each launch, exactly those. They were left out.
#
# Lanes may also write zeros without reading (a source size of 0, or the ignore-src predicate; in
# SASS a trailing predicate): `warp_filled_copy`, from another 3,840 patterns. There too Nsight
# Compute has a fault: it takes a predicate P0 at the end of an LDGSTS.BYPASS for false, so its
# wavefronts, not its sectors, are those of a copy in which no lane reads (599 of 599).
#
# The hardware's wavefronts are close to it for .ca and not comparable for .cg. The counter
# l1tex__data_pipe_lsu_wavefronts_mem_shared less the same with _op_misc, of one launch for each of
# 64 patterns, was the attributed figure in 14, 12 and 9 of 16 for .ca with 4, 8 and 16 bytes (never
# more than 4 off, sums of 69, 64 and 89 against 74, 69 and 88), and 0 in 16 of 16 for .cg. In 376
# other launches with .cg it was what a 16-byte store of the lanes that write zeros costs (hence 0
# where all read) in all but one.


@njit
def warp_through_cache(
    shared: Lanes,
    source: Lanes,
    mask: int,
    reading: int,
    width: int,
    rivals: NDArray[np.uint32],
) -> int:
    """Wavefronts of cp.async.ca (LDGSTS), 4, 8 or 16 bytes a lane.

    Every lane moves its words from banks of the cache to banks of shared memory, and nothing is
    shared. The warp, halves of it for 8 bytes and quarters for 16, costs as much as the lane with
    the most rivals: the number of lanes, itself included, that have their source bank or their
    shared bank in common with it. Lanes that do not read have no source bank. Exact for 20,096 of
    20,096 where all lanes read, and for 1,664 of 1,664 others.

    rivals: uint32 (32,), gets for each active lane those lanes as a mask.
    """
    shift = 2 if width == 4 else 3 if width == 8 else 4
    columns = LINE_BYTES >> shift
    readers = bits.uint32_lanes()  # of each source bank: its lanes
    writers = bits.uint32_lanes()
    wavefronts = 0
    for begin in range(0, LANES, columns):
        for bank in range(columns):
            readers[bank] = writers[bank] = 0
        for lane in range(begin, begin + columns):
            if (mask >> lane) & 1:
                bit = np.uint32(1 << lane)
                if (reading >> lane) & 1:
                    readers[(source[lane] >> shift) & (columns - 1)] |= bit
                writers[(shared[lane] >> shift) & (columns - 1)] |= bit
        worst = 0
        for lane in range(begin, begin + columns):
            if (mask >> lane) & 1:
                rivals[lane] = writers[(shared[lane] >> shift) & (columns - 1)]
                if (reading >> lane) & 1:
                    rivals[lane] |= readers[(source[lane] >> shift) & (columns - 1)]
                worst = max(worst, _count(rivals[lane]))
        wavefronts += worst
    return wavefronts


@njit
def first_writers(shared: Lanes, mask: int) -> int:
    """Lanes less those that write the 16 bytes that a lower lane writes as well."""
    lanes = 0
    for lane in range(LANES):
        if (mask >> lane) & 1:
            fresh = 1
            for other in range(lane):
                if (mask >> other) & 1 and shared[other] >> 4 == shared[lane] >> 4:
                    fresh = 0
            lanes |= fresh << lane
    return lanes


@njit
def warp_bypass(shared: Lanes, source: Lanes, lanes: int, turns: Lanes) -> int:
    """Wavefronts of cp.async.cg (LDGSTS.BYPASS), 16 bytes a lane, no two to the same place.

    Of lanes that write the same 16 bytes only the first one counts (`first_writers`), which the
    caller sees to. They go in rounds: in a round each
    16 bytes of the source are written once to low and once to high halves of sectors in a shared
    line, for the highest waiting lane. Within a round, what goes from one global sector to one
    shared sector moves together where the two halves differ in origin. Such pieces share a
    wavefront where they have the round, the global line, the shared line and the way of the halves
    in common, and all of them or none change between even and odd sectors. Exact for 4,752 of
    4,752, and for 244 of the 244 older ones.

    turns: int64 (32,), gets for each of these lanes the wavefront that moves its bytes, from 0.
    """
    place = bits.int64_lanes()  # of each write, in units of 16 bytes
    writer = bits.int64_lanes()
    origin, turn = bits.int64_lanes(), bits.int64_lanes()
    writes = 0
    for lane in range(LANES):
        if (lanes >> lane) & 1:
            place[writes], origin[writes] = shared[lane] >> 4, source[lane] >> 4
            writer[writes] = lane
            writes += 1
    for i in range(writes):
        turn[i] = 0
        for j in range(i + 1, writes):
            # & ~6: the same line and half, whichever sector
            if origin[j] == origin[i] and (place[j] ^ place[i]) & ~6 == 0:
                turn[i] += 1
    # Of each wavefront what its pieces have in common: form, lines of the source and shared ones.
    forms, sources, lines = bits.int64_lanes(), bits.int64_lanes(), bits.int64_lanes()
    wavefronts = 0
    for i in range(writes):
        # Where the low and the high half come from: 0 nowhere, else 1 + the source's half.
        low, high = 1 + (origin[i] & 1), 0
        if place[i] & 1:
            low, high = high, low
        with_low = False
        other = i
        for j in range(writes):
            if place[j] == place[i] ^ 1 and origin[j] == origin[i] ^ 1 and turn[j] == turn[i]:
                if place[i] & 1:
                    with_low = True
                else:
                    high = 1 + (origin[j] & 1)
                    other = j
        if with_low:
            continue
        parity = (origin[i] ^ place[i]) >> 1 & 1
        form = ((turn[i] * 3 + low) * 3 + high) * 2 + parity
        turn_of = wavefronts
        for k in range(wavefronts):
            same = sources[k] == origin[i] >> 3 and lines[k] == place[i] >> 3
            if forms[k] == form and same:
                turn_of = k
                break
        if turn_of == wavefronts:
            forms[wavefronts], sources[wavefronts] = form, origin[i] >> 3
            lines[wavefronts] = place[i] >> 3
            wavefronts += 1
        turns[writer[i]] = turns[writer[other]] = turn_of
    return wavefronts


@njit
def warp_filled_copy(
    shared: Lanes,
    source: Lanes,
    mask: int,
    reading: int,
    width: int,
    bypass: bool,
) -> tuple[int, int]:
    """Wavefronts of a cp.async, some of whose lanes write zeros, and their ideal.

    mask: lanes that write; reading: those of them that also read. With ``.cg`` and a lane that does
    not read, the whole warp is counted as with ``.ca``, and on top of that the lanes that read and
    are the first to write their place. Exact for all of 3,632 patterns: 1,664 of ``.ca`` with 4, 8
    and 16 bytes, 1,369 of ``.cg`` and, with nobody reading, the 599 of a trailing P0.
    """
    every = (_count(mask) * width + LINE_BYTES - 1) // LINE_BYTES
    if not bypass:
        rivals = bits.uint32_lanes()
        return warp_through_cache(shared, source, mask, reading, width, rivals), every
    lanes = first_writers(shared, mask) & reading
    wavefronts = warp_bypass(shared, source, lanes, bits.int64_lanes())
    ideal = (_count(lanes) * width + LINE_BYTES - 1) // LINE_BYTES
    if mask & ~reading:
        rivals = bits.uint32_lanes()
        wavefronts += warp_through_cache(shared, source, mask, reading, width, rivals)
        ideal += every
    return wavefronts, ideal


@njit
def warp_async_copy_sectors(
    shared: Lanes, source: Lanes, mask: int, width: int, bypass: bool
) -> int:
    """Sectors of global memory that Nsight Compute attributes to a cp.async.

    mask: the lanes that read; others of the warp do not matter (exact for 3,632 of 3,632 with and
    without such). With ``.ca`` the distinct ones. With ``.cg`` one for each 16 bytes that are
    written, or for two of them that fill a shared sector from the two halves of one global sector.
    """
    if not bypass:
        return warp_sectors(source, mask, width)
    lanes = first_writers(shared, mask)
    sectors = 0
    for lane in range(LANES):
        if (lanes >> lane) & 1:
            sectors += 1
            for other in range(lane):
                if (
                    (lanes >> other) & 1
                    and shared[other] >> 4 == shared[lane] >> 4 ^ 1
                    and source[other] >> 4 == source[lane] >> 4 ^ 1
                ):
                    sectors -= 1
    return sectors


@njit
def warp_async_copy_sectors_counted(
    shared: Lanes, source: Lanes, mask: int, width: int, bypass: bool
) -> int:
    """Sectors of a cp.async that the hardware counts; none, and no request, where no lane reads.

    mask: the lanes that read. With ``.ca`` the distinct sectors. With ``.cg`` one for each shared
    sector and global line that it is filled from. Of lanes that write the same 16 bytes one
    counts: of those whose lines are in the warp, the line with the highest lane wins.

    Source: ``l1tex__t_sectors_pipe_lsu_mem_global_op_ld`` of single launches. 50 of 50 with ``.ca``
    (16 bytes); with ``.cg`` 285 of 285 where no two lanes write the same place, else 87 of 91.
    ``..._t_requests_...``, 0 or 1: 426 of 426.
    """
    if not bypass:
        return warp_sectors(source, mask, width)
    last = bits.int64_lanes()  # of each lane: the highest lane that reads from its line
    for lane in range(LANES):
        if (mask >> lane) & 1:
            last[lane] = lane
            for other in range(lane):
                if (mask >> other) & 1 and source[other] >> 7 == source[lane] >> 7:
                    last[other] = lane
    seen, lines = bits.int64_lanes(), bits.int64_lanes()
    sectors = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        counts = True
        for other in range(LANES):
            if (mask >> other) & 1 and shared[other] >> 4 == shared[lane] >> 4:
                counts = counts and last[other] <= last[lane]
        for k in range(sectors):
            if seen[k] == shared[lane] >> 5 and lines[k] == source[lane] >> 7:
                counts = False
        if counts:
            seen[sectors], lines[sectors] = shared[lane] >> 5, source[lane] >> 7
            sectors += 1
    return sectors


@njit
def warp_async_copy_sectors_ideal(
    shared: Lanes, source: Lanes, mask: int, width: int, bypass: bool
) -> int:
    """Sectors that Nsight Compute would take for a well-formed cp.async; mask: lanes that read."""
    if bypass:
        count = _count(first_writers(shared, mask))
        return (count * width + SECTOR_BYTES - 1) // SECTOR_BYTES
    return warp_sectors_ideal(source, mask, width)


# ----------------------------------------------------------------------------------------- global


@njit
def warp_sectors(addresses: Lanes, mask: int, width: int) -> int:
    """Distinct 32-byte sectors that a warp's aligned accesses of ``width`` bytes touch.

    Source: ``l1tex__t_sectors_pipe_lsu_mem_global_op_st`` for 90 of 90 stores in
    ``memory_ops_h200.csv``, and ``memory_l2_theoretical_sectors_global`` for 20,096 of 20,096
    cp.async.ca.
    """
    held = bits.int64_places()  # open addressing
    for place in range(2 * LANES):
        held[place] = -1
    sectors = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        sector = addresses[lane] // SECTOR_BYTES
        place = sector % (2 * LANES)
        while held[place] >= 0 and held[place] != sector:
            place = (place + 1) % (2 * LANES)
        if held[place] < 0:
            held[place] = sector
            sectors += 1
    return sectors


@njit
def warp_sectors_ideal(addresses: Lanes, mask: int, width: int) -> int:
    """Sectors that Nsight Compute would take for a well-formed global access.

    The bytes of the active lanes in sectors, or the distinct sectors where they are fewer. Source:
    ``memory_l2_theoretical_sectors_global_ideal``, 20,096 of 20,096 cp.async.ca; not checked for
    other accesses.
    """
    needed = (_count(mask) * width + SECTOR_BYTES - 1) // SECTOR_BYTES
    return min(needed, warp_sectors(addresses, mask, width))


# ------------------------------------------------------------------------------- without a compiler


def mask_of(active: NDArray[np.bool_]) -> int:
    """The lanes that are active, lane i as bit i."""
    return sum(1 << int(lane) for lane in np.flatnonzero(active))


def shared_wavefronts(
    addresses: ArrayLike, active: NDArray[np.bool_], width: int, op: str
) -> tuple[int, int]:
    """Wavefronts of a warp's request to shared memory, and how many of them are bank conflicts.

    addresses: byte addresses of the lanes, multiples of width where they are active; for ``ldmatrix`` of
    rows, eight for each matrix, and a matrix none of whose rows is active is not read. op: ``"load"``,
    ``"store"`` or ``"ldmatrix"``. Raises ValueError for anything else.
    """
    places, mask = np.where(active, addresses, 0).astype(np.int64), mask_of(active)
    wrong = places[(places < 0) | (places % width != 0)]
    if op not in ("load", "store", "ldmatrix") or len(wrong):
        raise ValueError(
            f"{op} of {width} bytes at {wrong.tolist()}; allowed: multiples of {width}"
        )
    if op == "ldmatrix":
        wavefronts, transactions = warp_ldmatrix(places, mask)
    else:
        wavefronts, transactions = warp_shared(places, mask, width, op == "store")
    return wavefronts, wavefronts - transactions
