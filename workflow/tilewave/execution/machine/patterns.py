"""The cost of an access, counted from its lanes' addresses, and remembered.

A pattern of addresses relative to its first lane has one cost at all addresses: banks rotate, and a
base moves by multiples of the width. So each instruction remembers its last pattern. A copy
remembers the last one of each alignment of its two sides within a line.
"""

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.validity import aligned, first_lane, inside_shared
from tilewave.theory import wavefronts as rules

ALL = uint32(0xFFFFFFFF)


@njit
def _alike(m, memo, side, mask, addresses, base):
    """Return whether the active addresses relative to ``base`` are the remembered ones."""
    deltas = view.deltas(m)[memo, side]
    different = int64(0)
    if mask == ALL:
        for lane in range(32):
            different |= (addresses[lane] - base) ^ deltas[lane]
    else:
        for lane in range(32):
            on = -(int64(mask >> uint32(lane)) & int64(1))
            different |= ((addresses[lane] - base) & on) ^ deltas[lane]
    return different == 0


@njit
def _remember(m, memo, side, mask, addresses, base):
    """Keep the active addresses relative to ``base``, zeros for the others."""
    deltas = view.deltas(m)[memo, side]
    for lane in range(32):
        on = -(int64(mask >> uint32(lane)) & int64(1))
        deltas[lane] = (addresses[lane] - base) & on


@njit
def _same(m, memo, side, mask, addresses, base):
    """Remember the addresses relative to ``base``; return whether they were remembered already."""
    same = _alike(m, memo, side, mask, addresses, base)
    if not same:
        _remember(m, memo, side, mask, addresses, base)
    return same


# Columns of patterns: valid, mask, phase, wavefronts, transactions, ideal, attributed, units. Global
# memory: mask, valid, sectors, ideal, attributed. Shared memory again: the lowest and highest byte
# from the base, and whether the units are contiguous.
@njit
def shared_access(m, warp, pc, memo, mask, addresses, width, kind):
    """Check and count a shared access; returns the byte address that its units count from.
    Returns -1 if an address is outside or misaligned. kind: 0 load, 1 store, 2 ldmatrix or stmatrix (a
    transaction for each matrix)."""
    base = addresses[first_lane(mask)]
    phase = base & 3
    base -= phase
    p = view.patterns(m)[memo]
    control = view.control(m)
    end, dead = control[s.SHARED_END], int64(view.code(m)[pc, c.DEAD])
    if dead:
        # A dead word may lie after the last array: the GPU allocates whole pages.
        end = (end + 127) & ~int64(127)
    remembered = p[0] == 1 and p[1] == int64(mask) and p[2] == phase
    if remembered and _alike(m, memo, int64(0), mask, addresses, base):
        # Alignment and bounds relative to the base are known; check the base.
        fine = (base + phase) & (width - 1) == 0
        fine = fine and base + p[13] >= control[s.SHARED_BASE] and base + p[14] <= end
    else:
        fine = False
    if not fine:
        if not aligned(m, warp, pc, mask, addresses, width):
            return int64(-1)
        if not inside_shared(m, warp, pc, mask, addresses, width, end):
            return int64(-1)
        _remember(m, memo, int64(0), mask, addresses, base)
        p[0], p[1], p[2] = 1, int64(mask), phase
        if kind == 2:
            wavefronts, transactions = rules.warp_ldmatrix(addresses, mask)
            p[3], p[4], p[5], p[6] = wavefronts, transactions, transactions, wavefronts
        else:
            wavefronts, transactions = rules.warp_shared(addresses, mask, width, kind == 1)
            p[3], p[4] = wavefronts, transactions
            p[5] = rules.warp_shared_ideal(addresses, mask, width, kind == 1)
            p[6] = rules.warp_shared_attributed(addresses, mask, width, kind == 1)
        _collect_units(m, memo, mask, addresses, width, base, dead)
    counts = view.counts(m)[pc]
    counts[s.SHARED_REQUESTS] += 1
    counts[s.SHARED_WAVEFRONTS] += p[3]
    counts[s.SHARED_TRANSACTIONS] += p[4]
    counts[s.SHARED_CONFLICTS] += p[3] - p[4]
    counts[s.SHARED_IDEAL] += p[5]
    counts[s.SHARED_ATTRIBUTED] += p[6]
    return base


@njit
def _collect_units(m, memo, mask, addresses, width, base, dead):
    """Collect the distinct units that an access touches, relative to its base, without dead words."""
    grain = view.control(m)[s.GRAIN]
    touched = view.touched(m)[memo]
    count = 0
    limit = len(touched)
    low, high = int64(1 << 40), int64(-(1 << 40))
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        low = min(low, addresses[lane] - base)
        high = max(high, addresses[lane] + width - base)
        first = (addresses[lane] - base) >> grain
        last = (addresses[lane] + width - 1 - base) >> grain
        for unit in range(first, last + 1):
            if (dead >> (((unit << grain) - (addresses[lane] - base)) >> 2)) & 1:
                continue
            listed = False
            for index in range(count):
                if touched[index] == unit:
                    listed = True
                    break
            if not listed and count < limit:
                touched[count] = unit
                count += 1
    p = view.patterns(m)[memo]
    p[7], p[13], p[14] = count, low, high
    p[15] = int64(((high - 1) >> grain) - (low >> grain) + 1 == count)


@njit
def global_pattern(m, pc, memo, mask, addresses, width):
    """Count a global access."""
    base = addresses[first_lane(mask)]
    phase = base & 31
    base -= phase
    same = _same(m, int64(memo), int64(1), uint32(mask), addresses, base)
    p = view.patterns(m)[memo]
    if not (same and p[8] == int64(mask) and p[9] == 1):
        p[8], p[9] = int64(mask), 1
        p[10] = rules.warp_sectors(addresses, mask, width)
        p[11] = rules.warp_sectors_ideal(addresses, mask, width)
    counts = view.counts(m)[pc]
    counts[s.GLOBAL_REQUESTS] += 1
    counts[s.GLOBAL_SECTORS] += p[10]
    counts[s.GLOBAL_ATTRIBUTED] += p[10]
    counts[s.GLOBAL_SECTORS_IDEAL] += p[11]


@njit
def count_copy(m, pc, memo, mask, reading, to, origin, width, bypass):
    """Count a copy: columns as in `shared_access`, with the lanes that read as the ninth."""
    row = view.code(m)[pc]
    base = to[first_lane(mask)]
    same = _same(m, int64(memo), int64(0), uint32(mask), to, base)
    start = int64(0)
    if reading:
        # The source addresses of the other lanes do not matter.
        start = origin[first_lane(reading)]
        same = _same(m, int64(memo), int64(1), uint32(reading), origin, start) and same
    p = view.patterns(m)[memo]
    # The cost also depends on both sides' offset within a line.
    phase = (base & 127) | (start & 127) << 8
    remembered = same and p[0] == 1 and p[1] == int64(mask) and p[2] == phase
    if not (remembered and p[8] == int64(reading)):
        p[0], p[1], p[2], p[8] = 1, int64(mask), phase, int64(reading)
        p[3], p[5] = rules.warp_filled_copy(to, origin, mask, reading, width, bypass)
        p[4], p[6] = p[5], p[3]
        p[10] = p[11] = p[12] = 0
        if reading:
            p[10] = rules.warp_async_copy_sectors_counted(to, origin, reading, width, bypass)
            p[11] = rules.warp_async_copy_sectors_ideal(to, origin, reading, width, bypass)
            p[12] = rules.warp_async_copy_sectors(to, origin, reading, width, bypass)
        if bypass and row[c.GUARD] == 0 and not row[c.GUARD_NOT]:
            # Nsight Compute takes P0 for false.
            p[4] = p[6] = p[11] = p[12] = 0
        elif bypass and row[c.FLAGS] & c.ZERO_FILL and row[c.PIN0] == 0 and not row[c.PIN0_NOT]:
            p[6], p[4] = rules.warp_filled_copy(to, origin, mask, uint32(0), width, bypass)  # type: ignore[arg-type]
        _collect_units(m, memo, mask, to, width, base, int64(0))
    counts = view.counts(m)[pc]
    counts[s.SHARED_REQUESTS] += 1
    counts[s.SHARED_WAVEFRONTS] += p[3]
    counts[s.SHARED_TRANSACTIONS] += p[5]
    counts[s.SHARED_CONFLICTS] += p[3] - p[5]
    counts[s.SHARED_IDEAL] += p[4]
    counts[s.SHARED_ATTRIBUTED] += p[6]
    if reading:
        counts[s.GLOBAL_REQUESTS] += 1
        counts[s.GLOBAL_SECTORS] += p[10]
        counts[s.GLOBAL_ATTRIBUTED] += p[12]
        counts[s.GLOBAL_SECTORS_IDEAL] += p[11]
