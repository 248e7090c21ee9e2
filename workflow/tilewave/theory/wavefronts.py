"""Rules of the memory pipes: wavefronts of shared memory, cp.async and ldmatrix, global sectors.

Each rule is a compiled function of one warp (``warp_...``), which the interpreter calls. Its arguments
are 32 byte addresses and a mask whose bit i is lane i. The rules come from measurements on an NVIDIA
H200 (compute capability 9.0, Nsight Compute 2025.3.1). Each names the counter that it predicts and the
number of patterns that agree. ``tests/data/truth`` has these patterns, or a part of the larger sets.
"""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewave.basics import bits
from tilewave.basics.jit import njit

LANES = 32
ALL = 0xFFFFFFFF
"""The mask of a warp with all lanes active."""
LINE_BYTES = 128
"""Bytes of all 32 banks, and of a cache line."""
SECTOR_BYTES = 32
WORD_BYTES = 4
MATRIX_BYTES, MATRIX_ROWS = 16, 8
"""Bytes of a row, and rows, of a matrix that ldmatrix loads."""

Lanes = NDArray[np.int64]
"""Numbers of a warp's lanes, (32,)."""


@njit
def _count(mask: int) -> int:
    """Return the number of active lanes."""
    return np.int64(bits.count_ones(np.uint32(mask)))  # type: ignore[call-arg,return-value]


# -------------------------------------------------------------------------------- shared memory


@njit
def _worst_bank(addresses: Lanes, mask: int, unit: int, turns: Lanes) -> int:
    """Return the largest number of distinct words that the active lanes want from one bank.
    unit: bytes of an access, at least a word. Aligned accesses of one size are equal or disjoint, so it
    is enough to compare units. turns: receives the number of words of its bank that come before a lane's."""
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
        index = addresses[lane] // unit
        column = index % columns
        earlier = first[column]
        while earlier >= 0 and addresses[earlier] // unit != index:
            earlier = before[earlier]
        if earlier < 0:
            before[lane] = first[column]
            first[column] = lane
            turns[lane] = depth[column]
            depth[column] += 1
            worst = max(worst, depth[column])
        else:
            turns[lane] = turns[earlier]
    return worst


@njit
def _agrees(addresses: Lanes, mask: int, distance: int, alone: bool) -> bool:
    """Return whether each active lane i has the address of lane i xor distance, or ``alone`` without one."""
    for lane in range(LANES):
        if (mask >> lane) & 1:
            neighbour = lane ^ distance
            if (mask >> neighbour) & 1:
                if addresses[lane] != addresses[neighbour]:
                    return False
            elif not alone:
                return False
    return True


@njit
def transaction_lanes(addresses: Lanes, mask: int, width: int, is_store: bool) -> int:
    """Return the number of lanes of a transaction of a shared load or store (`warp_shared`)."""
    unit = max(width, WORD_BYTES)
    lanes = min(LANES, LINE_BYTES // unit)
    wide = not is_store and unit > WORD_BYTES
    if wide and (_agrees(addresses, mask, 1, True) or _agrees(addresses, mask, 2, True)):
        lanes *= 2
    return lanes


@njit
def warp_turns(addresses: Lanes, mask: int, unit: int, lanes: int, turns: Lanes) -> tuple[int, int]:
    """Return the wavefronts and transactions of a request that is split after every so many lanes.
    turns: receives the wavefront of its transaction that serves each active lane, from 0."""
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
    """Return the wavefronts and transactions of a warp's shared load or store of ``width`` bytes a lane.

    A request is split into transactions: the whole warp for up to 4 bytes, half-warps for 8, quarter-warps for 16. Two
    neighbouring transactions of a load merge (8 bytes: both halves; 16: the quarters of each half) if all active lanes
    of the warp agree with lane i xor 1, or all with lane i xor 2. A transaction costs the largest number of distinct
    words in one bank. One without an active lane costs nothing. Conflicts are wavefronts less transactions.

    Source: the counters ``l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st}`` and
    ``l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{ld,st}`` of one launch for each pattern;
    700 of the 700 in ``shared_access_h200.npz``.
    """
    lanes = transaction_lanes(addresses, mask, width, is_store)
    return warp_turns(addresses, mask, max(width, WORD_BYTES), lanes, bits.int64_lanes())


@njit
def _attributed_load(addresses: Lanes, mask: int, width: int) -> int:
    """Return the wavefronts that Nsight Compute attributes to a load of 8 or 16 bytes a lane."""
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
        # Except in the last group, lane 31's state decides for lanes without a neighbour.
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
    """Return the wavefronts that Nsight Compute's model attributes to the instruction.

    It differs from the hardware (`warp_shared`): two transactions of a load merge only if one wavefront is enough
    for both, and each half-warp of a 16-byte load is judged separately. Lanes of a load that all read one address
    take one wavefront for each 256 bytes. The first half-warp of a 16-byte load is odd: if lane 31 is active, a lane
    whose neighbour is not active prevents merging; if it is not, no address is compared.

    Source: ``memory_l1_wavefronts_shared`` of Nsight Compute 2025.3.1 for each instruction. Exact for 384 of 384,
    1,024 of 1,024 and 2,048 of 2,048 loads of 4, 8 and 16 bytes, and for 384, 384 and 640 stores, all of them.
    """
    if not is_store and width > WORD_BYTES:
        return _attributed_load(addresses, mask, width)
    return warp_shared(addresses, mask, width, is_store)[0]


@njit
def warp_shared_ideal(addresses: Lanes, mask: int, width: int, is_store: bool) -> int:
    """Return the wavefronts that a shared load or store has without conflicts, by Nsight Compute's model.
    They are the bytes of the active lanes in lines of 128, but at most the attributed wavefronts.
    Source: ``memory_l1_wavefronts_shared_ideal``, as exact as `warp_shared_attributed`."""
    unit = max(width, WORD_BYTES)
    lines = (_count(mask) * unit + LINE_BYTES - 1) // LINE_BYTES
    return min(lines, warp_shared_attributed(addresses, mask, width, is_store))


@njit
def warp_ldmatrix(addresses: Lanes, mask: int) -> tuple[int, int]:
    """Return the wavefronts and transactions of ldmatrix: one transaction for each 8x8 matrix.

    addresses: of 32 rows, eight for each matrix. mask: the rows that count. ``.x1`` is 0xff, ``.x2`` 0xffff, ``.x4``
    0xffffffff; ``.trans`` makes no difference. Source: the shared load wavefronts of 113 of 113 launches in
    ``memory_ops_h200.csv``; the attributed ones of 768 of 768 instructions (16 of which the compiler had reordered).
    """
    return warp_turns(addresses, mask, MATRIX_BYTES, MATRIX_ROWS, bits.int64_lanes())


# --------------------------------------------------------------------------------------- cp.async
#
# These rules reproduce what Nsight Compute 2025.3.1 attributes to an LDGSTS instruction: a model that it
# evaluates on the addresses. The figures are ``memory_l1_wavefronts_shared``, ``..._ideal`` and
# ``memory_l2_theoretical_sectors_global``, ``..._ideal`` of some 6,700 patterns for each width and cache
# operator (``cp_async_h200.npz`` has a part of them) and of 500 older ones (``async_copy_h200.npz``, the
# first two only). Every rule below gives all of them exactly. Nsight Compute has no figures (it shows 0)
# for an LDGSTS.BYPASS that predicate P0 guards: 40 of 128 instructions in each launch. They were skipped.
#
# Lanes may also write zeros without reading (a source size of 0, or the ignore-src predicate; in SASS a
# trailing predicate): `warp_filled_copy`, from another 3,840 patterns. Nsight Compute has a bug there: it
# takes a predicate P0 at the end of an LDGSTS.BYPASS for false. Its wavefronts, not its sectors, are then
# those of a copy in which no lane reads (599 of 599).
#
# The hardware's wavefronts are close to the model for .ca and not comparable for .cg. The hardware's
# figure is l1tex__data_pipe_lsu_wavefronts_mem_shared less its _op_misc, of one launch for each of 64
# patterns. For .ca with 4, 8 and 16 bytes it equals the model in 14, 12 and 9 of 16 (at most 4 off, sums
# of 69, 64 and 89 against 74, 69 and 88). For .cg it is 0 in 16 of 16. In all but one of 376 other
# launches with .cg it is the cost of a 16-byte store of the lanes that write zeros (so 0 if all read).


@njit
def warp_through_cache(
    shared: Lanes, source: Lanes, mask: int, reading: int, width: int, rivals: NDArray[np.uint32]
) -> int:
    """Return the wavefronts of cp.async.ca (LDGSTS), 4, 8 or 16 bytes a lane.

    Every lane moves its words from banks of the cache to banks of shared memory, and no word is shared. A lane's rivals
    are the lanes, itself included, with the same source bank or the same shared bank. A transaction (the warp; a half
    for 8 bytes, a quarter for 16) costs the largest number of rivals. Lanes that do not read have no source bank. Exact
    for 20,096 of 20,096 patterns in which all lanes read, and for 1,664 of 1,664 others.

    rivals: uint32 (32,), receives the rivals of each active lane as a mask.
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
    """Return the active lanes without those that write the same 16 bytes as a lower lane."""
    lanes = 0
    for lane in range(LANES):
        if (mask >> lane) & 1:
            first = 1
            for lower in range(lane):
                if (mask >> lower) & 1 and shared[lower] >> 4 == shared[lane] >> 4:
                    first = 0
            lanes |= first << lane
    return lanes


@njit
def warp_bypass(shared: Lanes, source: Lanes, lanes: int, turns: Lanes) -> int:
    """Return the wavefronts of cp.async.cg (LDGSTS.BYPASS), 16 bytes a lane, no two to the same address.

    The caller removes all but the first of lanes that write the same 16 bytes (`first_writers`). Lanes go
    in rounds. In a round, for the highest waiting lane, each 16 bytes of the source are written once to
    low and once to high halves of sectors in a shared line. Within a round, bytes from one global sector
    to one shared sector move together if the two halves differ in origin. Such pieces share a wavefront
    if they have the same round, global line, shared line and assignment of halves, and if all of them or
    none change between even and odd sectors. Exact for 4,752 of 4,752, and for 244 of the 244 older ones.

    turns: int64 (32,), receives the wavefront that moves the bytes of each of these lanes, from 0.
    """
    target = bits.int64_lanes()  # of each write, in units of 16 bytes
    writer = bits.int64_lanes()
    origin, turn = bits.int64_lanes(), bits.int64_lanes()
    writes = 0
    for lane in range(LANES):
        if (lanes >> lane) & 1:
            target[writes], origin[writes] = shared[lane] >> 4, source[lane] >> 4
            writer[writes] = lane
            writes += 1
    for i in range(writes):
        turn[i] = 0
        for j in range(i + 1, writes):
            # & ~6: the same line and half, in any sector
            if origin[j] == origin[i] and (target[j] ^ target[i]) & ~6 == 0:
                turn[i] += 1
    # Common properties of each wavefront's pieces: form, lines of the source, shared lines.
    forms, sources, lines = bits.int64_lanes(), bits.int64_lanes(), bits.int64_lanes()
    wavefronts = 0
    for i in range(writes):
        # Origins of the low and the high half: 0 for none, else 1 + the source's half.
        low, high = 1 + (origin[i] & 1), 0
        if target[i] & 1:
            low, high = high, low
        with_low = False
        partner = i
        for j in range(writes):
            if target[j] == target[i] ^ 1 and origin[j] == origin[i] ^ 1 and turn[j] == turn[i]:
                if target[i] & 1:
                    with_low = True
                else:
                    high = 1 + (origin[j] & 1)
                    partner = j
        if with_low:
            continue
        parity = (origin[i] ^ target[i]) >> 1 & 1
        form = ((turn[i] * 3 + low) * 3 + high) * 2 + parity
        turn_of = wavefronts
        for k in range(wavefronts):
            same = sources[k] == origin[i] >> 3 and lines[k] == target[i] >> 3
            if forms[k] == form and same:
                turn_of = k
                break
        if turn_of == wavefronts:
            forms[wavefronts], sources[wavefronts] = form, origin[i] >> 3
            lines[wavefronts] = target[i] >> 3
            wavefronts += 1
        turns[writer[i]] = turns[writer[partner]] = turn_of
    return wavefronts


@njit
def warp_filled_copy(
    shared: Lanes, source: Lanes, mask: int, reading: int, width: int, bypass: bool
) -> tuple[int, int]:
    """Return the wavefronts of a cp.async, some of whose lanes write zeros, and their ideal.

    mask: lanes that write. reading: lanes of them that also read. With ``.cg`` and a lane that does not
    read, the whole warp counts as with ``.ca``. The lanes that read and are the first to write their
    address count in addition. Exact for all of 3,632 patterns: 1,664 of ``.ca`` with 4, 8 and 16 bytes,
    1,369 of ``.cg`` and, without a lane that reads, the 599 of a trailing P0.
    """
    full_ideal = (_count(mask) * width + LINE_BYTES - 1) // LINE_BYTES
    if not bypass:
        rivals = bits.uint32_lanes()
        return warp_through_cache(shared, source, mask, reading, width, rivals), full_ideal
    lanes = first_writers(shared, mask) & reading
    wavefronts = warp_bypass(shared, source, lanes, bits.int64_lanes())
    ideal = (_count(lanes) * width + LINE_BYTES - 1) // LINE_BYTES
    if mask & ~reading:
        rivals = bits.uint32_lanes()
        wavefronts += warp_through_cache(shared, source, mask, reading, width, rivals)
        ideal += full_ideal
    return wavefronts, ideal


@njit
def warp_async_copy_sectors(
    shared: Lanes, source: Lanes, mask: int, width: int, bypass: bool
) -> int:
    """Return the sectors of global memory that Nsight Compute attributes to a cp.async.

    mask: the lanes that read; the rest of the warp does not matter (exact for 3,632 of 3,632 with and
    without such lanes). With ``.ca`` they are the distinct sectors. With ``.cg`` there is one for each 16
    bytes that are written. Two that fill a shared sector from the two halves of a global sector count once.
    """
    if not bypass:
        return warp_sectors(source, mask, width)
    lanes = first_writers(shared, mask)
    sectors = 0
    for lane in range(LANES):
        if (lanes >> lane) & 1:
            sectors += 1
            for lower in range(lane):
                if (
                    (lanes >> lower) & 1
                    and shared[lower] >> 4 == shared[lane] >> 4 ^ 1
                    and source[lower] >> 4 == source[lane] >> 4 ^ 1
                ):
                    sectors -= 1
    return sectors


@njit
def warp_async_copy_sectors_counted(
    shared: Lanes, source: Lanes, mask: int, width: int, bypass: bool
) -> int:
    """Return the sectors of a cp.async that the hardware counts; 0, and no request, if no lane reads.

    mask: the lanes that read. With ``.ca`` they are the distinct sectors. With ``.cg`` there is one for each
    shared sector and global line that fills it. Of lanes that write the same 16 bytes one counts: that of
    the global line with the highest lane.

    Source: ``l1tex__t_sectors_pipe_lsu_mem_global_op_ld`` of single launches. 50 of 50 with ``.ca`` (16
    bytes). With ``.cg`` 285 of 285 where no two lanes write the same address, else 87 of 91.
    ``..._t_requests_...``, 0 or 1: 426 of 426.
    """
    if not bypass:
        return warp_sectors(source, mask, width)
    last = bits.int64_lanes()  # of each lane: the highest lane that reads from its line
    for lane in range(LANES):
        if (mask >> lane) & 1:
            last[lane] = lane
            for rival in range(lane):
                if (mask >> rival) & 1 and source[rival] >> 7 == source[lane] >> 7:
                    last[rival] = lane
    seen, lines = bits.int64_lanes(), bits.int64_lanes()
    sectors = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        counts = True
        for rival in range(LANES):
            if (mask >> rival) & 1 and shared[rival] >> 4 == shared[lane] >> 4:
                counts = counts and last[rival] <= last[lane]
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
    """Return the sectors that Nsight Compute takes as ideal for a cp.async."""
    if bypass:
        count = _count(first_writers(shared, mask))
        return (count * width + SECTOR_BYTES - 1) // SECTOR_BYTES
    return warp_sectors_ideal(source, mask, width)


# ----------------------------------------------------------------------------------------- global


@njit
def warp_sectors(addresses: Lanes, mask: int, width: int) -> int:
    """Return the distinct 32-byte sectors that a warp's aligned accesses of ``width`` bytes touch.
    Source: ``l1tex__t_sectors_pipe_lsu_mem_global_op_st`` for 90 of 90 stores in ``memory_ops_h200.csv``, and
    ``memory_l2_theoretical_sectors_global`` for 20,096 of 20,096 cp.async.ca."""
    slots = bits.int64_places()  # open addressing
    for slot in range(2 * LANES):
        slots[slot] = -1
    sectors = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        sector = addresses[lane] // SECTOR_BYTES
        slot = sector % (2 * LANES)
        while slots[slot] >= 0 and slots[slot] != sector:
            slot = (slot + 1) % (2 * LANES)
        if slots[slot] < 0:
            slots[slot] = sector
            sectors += 1
    return sectors


@njit
def warp_sectors_ideal(addresses: Lanes, mask: int, width: int) -> int:
    """Return the sectors that Nsight Compute takes as ideal for a global access.
    They are the bytes of the active lanes in sectors, but at most the distinct sectors. Source:
    ``memory_l2_theoretical_sectors_global_ideal``, 20,096 of 20,096 cp.async.ca; not checked for other accesses."""
    needed = (_count(mask) * width + SECTOR_BYTES - 1) // SECTOR_BYTES
    return min(needed, warp_sectors(addresses, mask, width))


# ------------------------------------------------------------------------------- without a compiler


def shared_wavefronts(
    addresses: ArrayLike, active: NDArray[np.bool_], width: int, op: str
) -> tuple[int, int]:
    """Return the wavefronts of a warp's request to shared memory, and how many are bank conflicts.

    addresses: byte addresses of the lanes, multiples of width where they are active. For ``ldmatrix`` they
    are those of rows, eight for each matrix; a matrix without an active row is not read. op: ``"load"``,
    ``"store"`` or ``"ldmatrix"``. Raises ValueError for other arguments.
    """
    checked = np.where(active, addresses, 0).astype(np.int64)
    mask = sum(1 << int(lane) for lane in np.flatnonzero(active))
    wrong = checked[(checked < 0) | (checked % width != 0)]
    if op not in ("load", "store", "ldmatrix") or len(wrong):
        at = f"{op} of {width} bytes at {wrong.tolist()}"
        raise ValueError(f"{at}; allowed: multiples of {width}")
    if op == "ldmatrix":
        wavefronts, transactions = warp_ldmatrix(checked, mask)
    else:
        wavefronts, transactions = warp_shared(checked, mask, width, op == "store")
    return wavefronts, wavefronts - transactions
