"""Loads, stores, atomics and copies of one warp: what moves, what it costs, what it breaks.

A pattern of addresses relative to its first lane costs the same wherever it stands (banks rotate,
and a base moves by multiples of the width), so each instruction remembers its last pattern, and a
copy the last of each way in which its two sides stand in a line.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from numpy import float64, int32, int64, uint8, uint16, uint32, uint64

from tilewave.machine import codes as c
from tilewave.machine import memory as rules
from tilewave.machine import state as s
from tilewave.machine import views as view
from tilewave.machine.bits import as_f32, as_f64, bits_f32, bits_f64, lowest_one, put
from tilewave.machine.compiling import njit
from tilewave.machine.families import memory as ops
from tilewave.machine.floating import NAN64, canonical, flushed
from tilewave.machine.halves import finished, narrow64_bf16, narrow64_f16, widen
from tilewave.machine.integer import LOCAL_WINDOW, SHARED_WINDOW, joined

ALL = uint32(0xFFFFFFFF)
# A shadow entry: tick << 10 | in flight << 9 | atomic << 8 | warp, or BY_COPY | number of the
# mbarrier that a bulk copy tells when it has landed.
FLYING, BY_ATOMIC, WHO = uint32(1 << 9), uint32(1 << 8), uint32(255)
BY_COPY = uint32(1 << 7)
CLOCK = uint32(10)


@njit
def fault(m, kind, row, warp, lanes, address, other, stop):
    """Note what went wrong, once for each kind and instruction."""
    count = view.control(m)[s.FAULT_COUNT]
    for index in range(count):
        if view.faults(m)[index, s.F_KIND] == kind and view.faults(m)[index, s.F_ROW] == row:
            return
    if count < s.FAULTS:
        view.faults(m)[count, s.F_KIND] = kind
        view.faults(m)[count, s.F_ROW] = row
        view.faults(m)[count, s.F_WARP] = warp
        view.faults(m)[count, s.F_LANES] = int64(lanes)
        view.faults(m)[count, s.F_ADDRESS] = address
        view.faults(m)[count, s.F_OTHER] = other
        view.faults(m)[count, s.F_BLOCK] = view.control(m)[s.TAKEN]
        view.control(m)[s.FAULT_COUNT] = count + 1
    if stop:
        view.control(m)[s.STOP] = 1


@njit
def address_lanes(m, warp, row, first, narrow, out):
    """Byte addresses of an access: register (scaled) plus uniform register plus offset."""
    R = view.registers(m)[warp]
    shift = first - c.A_REG
    base = int64(row[c.A_OFFSET + shift])
    uniform = row[c.A_UREG + shift]
    if row[c.A_UWIDE + shift]:
        base += int64(joined(view.uniforms(m)[warp, uniform + 1], view.uniforms(m)[warp, uniform]))
    else:
        base += int64(view.uniforms(m)[warp, uniform])
    register = row[c.A_REG + shift]
    if row[c.A_WIDE + shift]:
        for lane in range(32):
            out[lane] = int64(joined(R[register + 1, lane], R[register, lane])) + base
        return
    scale = row[c.A_SHIFT + shift]
    if narrow:
        for lane in range(32):
            out[lane] = ((int64(R[register, lane]) << int64(scale)) + base) & int64(0xFFFFFFFF)
        rank = view.own(m)[s.RANK]
        if narrow == 2 and rank:
            # The block's own window of the cluster's shared memory.
            for lane in range(32):
                if out[lane] >> int64(24) == rank:
                    out[lane] -= rank << int64(24)
    else:
        for lane in range(32):
            out[lane] = (int64(R[register, lane]) << int64(scale)) + base


@njit
def _wrong_lanes(addresses, mask, width, low, high):
    """Lanes outside [low, high) for accesses of ``width`` bytes, and the first such address."""
    lanes = uint32(0)
    first = int64(-1)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            at = addresses[lane]
            if at < low or at + width > high:
                lanes |= uint32(1) << uint32(lane)
                if first < 0:
                    first = at
    return lanes, first


@njit
def aligned(m, warp, pc, mask, addresses, width):
    """Whether all active addresses are multiples of the width; a fault where not."""
    mixed = int64(0)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            mixed |= addresses[lane]
    if mixed & (width - 1) == 0:
        return True
    lanes = uint32(0)
    first = int64(-1)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1) and addresses[lane] & (width - 1):
            lanes |= uint32(1) << uint32(lane)
            if first < 0:
                first = addresses[lane]
    fault(
        m, int64(s.MISALIGNED), int64(pc), int64(warp), uint32(lanes), int64(first), int64(width),
        int64(1),
    )  # fmt: skip
    return False


@njit
def inside_global(m, warp, pc, mask, addresses, width):
    """Whether every active lane stays inside one of the buffers; a fault where not."""
    low = int64(0x7FFFFFFFFFFFFFFF)
    high = int64(-0x7FFFFFFFFFFFFFFF)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            low = min(low, addresses[lane])
            high = max(high, addresses[lane])
    for index in range(len(view.ranges(m))):
        if low >= view.ranges(m)[index, 0] and high + width <= view.ranges(m)[index, 1]:
            return True
    lanes = uint32(0)
    first = int64(-1)
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        found = False
        for index in range(len(view.ranges(m))):
            at = addresses[lane]
            found = found or (
                at >= view.ranges(m)[index, 0] and at + width <= view.ranges(m)[index, 1]
            )
        if not found:
            lanes |= uint32(1) << uint32(lane)
            if first < 0:
                first = addresses[lane]
    if lanes:
        fault(
            m, int64(s.OUTSIDE_GLOBAL), int64(pc), int64(warp), uint32(lanes), int64(first),
            int64(width), int64(1),
        )  # fmt: skip
        return False
    return True


@njit
def inside_shared(m, warp, pc, mask, addresses, width, end):
    """Whether every active lane stays inside the block's shared memory; a fault where not."""
    low = int64(0x7FFFFFFFFFFFFFFF)
    high = int64(-1)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            low = min(low, addresses[lane])
            high = max(high, addresses[lane])
    base = view.control(m)[s.SHARED_BASE]
    if low >= base and high + width <= end:
        return True
    lanes, first = _wrong_lanes(addresses, mask, width, base, end)
    fault(
        m, int64(s.OUTSIDE_SHARED), int64(pc), int64(warp), uint32(lanes), int64(first), int64(width),
        int64(1),
    )  # fmt: skip
    return False


# ---------------------------------------------------------------- who read and wrote what, when


@njit
def writer(m, entry):
    """Whose access a shadow entry is, as a place in a row of what is known."""
    who = int64(entry & WHO)
    if entry & BY_COPY:
        return 3 * view.control(m)[s.WARPS] + (who & int64(BY_COPY - uint32(1)))
    return who


@njit
def _blame(m, kind, warp, pc, mask, addresses, width, unit, other):
    """A fault at the lanes whose access covers a unit of shared memory."""
    grain = view.control(m)[s.GRAIN]
    lanes = uint32(0)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            first = addresses[lane] >> grain
            last = (addresses[lane] + width - 1) >> grain
            if first <= unit <= last:
                lanes |= uint32(1) << uint32(lane)
    fault(m, kind, int64(pc), int64(warp), uint32(lanes), int64(unit << grain), other, int64(0))


@njit
def note_read(m, warp, pc, mask, addresses, width, unit, atomic):
    """A warp reads a unit: was it written, and is the write ordered before this read?"""
    entry = view.shadow(m)[unit]
    tick = entry >> CLOCK
    now = uint32(view.control(m)[s.TICK])
    if tick < uint32(view.control(m)[s.FIRST_TICK]):
        _blame(m, int64(s.UNINITIALISED), warp, pc, mask, addresses, width, unit, int64(-1))
    elif entry & FLYING:
        _blame(m, int64(s.IN_FLIGHT), warp, pc, mask, addresses, width, unit, int64(entry & WHO))
    else:
        who = writer(m, entry)
        if who != warp and view.known(m)[warp, who] < tick and not (atomic and entry & BY_ATOMIC):
            _blame(m, int64(s.RACE), warp, pc, mask, addresses, width, unit, int64(who))
    view.reads(m)[warp, unit] = now
    view.last_read(m)[warp] = now


@njit
def note_write(m, warp, pc, mask, addresses, width, unit, mark):
    """A warp writes a unit: are the earlier reads and writes of others ordered before it?"""
    entry = view.shadow(m)[unit]
    start = uint32(view.control(m)[s.FIRST_TICK])
    tick = entry >> CLOCK
    who = writer(m, entry)
    both_atomic = entry & mark & BY_ATOMIC
    if tick >= start and not both_atomic:
        if who != warp and view.known(m)[warp, who] < tick:
            _blame(m, int64(s.RACE), warp, pc, mask, addresses, width, unit, int64(who))
        elif entry & FLYING:
            _blame(m, int64(s.IN_FLIGHT), warp, pc, mask, addresses, width, unit, int64(who))
    for other in range(view.control(m)[s.READERS]):
        if other == warp or view.known(m)[warp, other] >= view.last_read(m)[other]:
            continue
        seen = view.reads(m)[other, unit]
        if seen >= start and view.known(m)[warp, other] < seen and not both_atomic:
            _blame(m, int64(s.RACE), warp, pc, mask, addresses, width, unit, int64(other))
    view.shadow(m)[unit] = uint32(view.control(m)[s.TICK]) << CLOCK | mark | uint32(warp)


# ---------------------------------------------------------------- patterns


@njit
def first_lane(mask):
    """Index of the lowest active lane."""
    return int64(lowest_one(mask))


@njit
def _alike(m, memo, side, mask, addresses, base):
    """Whether the active addresses relative to ``base`` are the remembered ones."""
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
    """Whether the addresses relative to ``base`` are the remembered ones; remembers them."""
    same = _alike(m, memo, side, mask, addresses, base)
    if not same:
        _remember(m, memo, side, mask, addresses, base)
    return same


# Columns of patterns: valid, mask, phase, wavefronts, transactions, ideal, attributed, units; for
# global memory mask, valid, sectors, ideal, attributed; of shared memory again the lowest and
# highest byte from the base, and whether the units follow each other without a gap.
@njit
def shared_access(m, warp, pc, memo, mask, addresses, width, kind):
    """Check and count a shared access; returns the byte address that its units count from.

    -1 where an address is outside or misaligned. kind: 0 load, 1 store, 2 ldmatrix (and stmatrix:
    one transaction for each matrix).
    """
    base = addresses[first_lane(mask)]
    phase = base & 3
    base -= phase
    p = view.patterns(m)[memo]
    control = view.control(m)
    end, dead = control[s.SHARED_END], int64(view.code(m)[pc, c.DEAD])
    if dead:
        # A word that nobody reads may lie behind the last array: the card hands out whole pages.
        end = (end + 127) & ~int64(127)
    known = p[0] == 1 and p[1] == int64(mask) and p[2] == phase
    if known and _alike(m, memo, int64(0), mask, addresses, base):
        # What was in order relative to the base is so where the base is.
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
    """The distinct units that an access touches, relative to its base, dead words left out."""
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
            known = False
            for index in range(count):
                if touched[index] == unit:
                    known = True
                    break
            if not known and count < limit:
                touched[count] = unit
                count += 1
    p = view.patterns(m)[memo]
    p[7], p[13], p[14] = count, low, high
    p[15] = int64(((high - 1) >> grain) - (low >> grain) + 1 == count)


@njit
def _all_known(m, warp, start, count):
    """Whether a run of units was written by nobody else since the warp last heard of everybody."""
    shadow = view.shadow(m)
    first = uint32(view.control(m)[s.FIRST_TICK])
    last = view.safe(m)[warp]
    strange = uint32(0)
    for index in range(count):
        entry = shadow[uint64(start + index)]
        tick = entry >> CLOCK
        strange |= uint32(tick < first) | uint32(tick > last) | (entry & (FLYING | BY_COPY))
    return strange == uint32(0)


@njit
def note_reads(m, warp, pc, memo, mask, addresses, width, base):
    """Note a read of every unit of the remembered pattern."""
    if not view.control(m)[s.RACES]:
        return
    p = view.patterns(m)[memo]
    grain = view.control(m)[s.GRAIN]
    now = uint32(view.control(m)[s.TICK])
    reads = view.reads(m)[warp]
    view.last_read(m)[warp] = now
    if p[15]:
        start = (base + p[13]) >> grain
        if _all_known(m, warp, start, p[7]):
            for index in range(p[7]):
                reads[uint64(start + index)] = now
            return
    start = base >> grain
    first_tick = uint32(view.control(m)[s.FIRST_TICK])
    known, shadow, touched = view.known(m)[warp], view.shadow(m), view.touched(m)[memo]
    me = int64(warp)
    for index in range(p[7]):
        unit = start + touched[index]
        entry = shadow[unit]
        tick = entry >> CLOCK
        who = writer(m, entry)
        fine = tick >= first_tick and not entry & FLYING
        if not (fine and (who == me or known[who] >= tick)):
            note_read(m, warp, pc, mask, addresses, width, unit, int64(0))
        reads[unit] = now


@njit
def note_writes(m, warp, pc, memo, mask, addresses, width, base, mark):
    """Note a write of every unit of the remembered pattern."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    start = base >> control[s.GRAIN]
    touched, shadow, known = view.touched(m)[memo], view.shadow(m), view.known(m)[warp]
    count = view.patterns(m)[memo, 7]
    first_tick = uint32(control[s.FIRST_TICK])
    entry_now = uint32(uint32(control[s.TICK]) << CLOCK | mark | uint32(warp))
    # Two quick looks: nobody else wrote these units unheard of, and nobody read them unheard of.
    strange = False
    me = uint32(warp)
    safe = view.safe(m)[warp]
    for index in range(count):
        entry = shadow[uint64(start + touched[index])]
        tick = entry >> CLOCK
        mine = entry & WHO == me
        odd = entry & (FLYING | BY_COPY) != uint32(0)
        strange |= tick >= first_tick and (odd or (tick > safe and not mine))
    for other in range(control[s.READERS]):
        if other == warp or known[other] >= view.last_read(m)[other]:
            continue
        limit = max(known[other], first_tick - uint32(1))
        seen = view.reads(m)[other]
        for index in range(count):
            strange |= seen[uint64(start + touched[index])] > limit
    if strange:
        for index in range(count):
            note_write(m, warp, pc, mask, addresses, width, start + touched[index], mark)
        return
    for index in range(count):
        shadow[uint64(start + touched[index])] = entry_now


@njit
def note_updates(m, warp, pc, memo, mask, addresses, width, base, writes):
    """Note an atomic access of every unit: atomics do not race with each other."""
    if not view.control(m)[s.RACES]:
        return
    start = base >> view.control(m)[s.GRAIN]
    for index in range(view.patterns(m)[memo, 7]):
        unit = start + view.touched(m)[memo, index]
        note_read(m, warp, pc, mask, addresses, width, unit, int64(1))
        if writes:
            note_write(m, warp, pc, mask, addresses, width, unit, BY_ATOMIC)


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


# ---------------------------------------------------------------- moving data


@njit
def _narrow_load(words, byte, width):
    """1 or 2 bytes at a byte offset; a negative width extends the sign."""
    word = words[byte >> 2] >> uint32(8 * (byte & 3))
    if width == 1:
        return word & uint32(0xFF)
    if width == 2:
        return word & uint32(0xFFFF)
    if width == -1:
        return uint32(int32(word << uint32(24)) >> int32(24))
    return uint32(int32(word << uint32(16)) >> int32(16))


@njit
def _narrow_store(words, byte, width, value):
    if width == 1:
        put(words, byte, uint8(value))
    else:
        put(words, byte, uint16(value))


@njit
def _gather(R, d, words, addresses, origin, width, mask):
    """Read ``width`` bytes a lane into registers d and on."""
    if abs(width) < 4:
        for lane in range(32):
            if (mask >> uint32(lane)) & uint32(1):
                R[d, lane] = _narrow_load(words, addresses[lane] - origin, width)
        return
    count = width // 4
    if mask == ALL:
        for part in range(count):
            for lane in range(32):
                R[d + part, lane] = words[uint64((addresses[lane] - origin) >> 2) + uint64(part)]
        return
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            at = (addresses[lane] - origin) >> 2
            for part in range(count):
                R[d + part, lane] = words[at + part]


@njit
def _scatter(R, s, words, addresses, origin, width, mask):
    """Write ``width`` bytes a lane from registers s and on, lowest lane first."""
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        if width < 4:
            _narrow_store(words, addresses[lane] - origin, width, R[s, lane])
            continue
        at = (addresses[lane] - origin) >> 2
        for part in range(width // 4):
            # The zero register is one row: RZ stores zeros of any width.
            words[at + part] = R[s + part, lane]


@njit
def shared_lanes(m, mask, addresses):
    """Lanes whose generic address lies in the shared window; their addresses become shared ones."""
    lanes = uint32(0)
    rank, blocks = view.own(m)[s.RANK], view.own(m)[s.BLOCKS]
    for lane in range(32):
        on = (mask >> uint32(lane)) & uint32(1)
        if on and addresses[lane] >> int64(32) == int64(SHARED_WINDOW):
            inner = addresses[lane] & int64(0xFFFFFFFF)
            if inner >> int64(24) == rank:
                inner -= rank << int64(24)
            elif inner >> int64(24) < blocks:
                continue  # another block's
            lanes |= uint32(1) << uint32(lane)
            addresses[lane] = inner
    return lanes


@njit
def local_lanes(mask, addresses):
    """Lanes whose generic address lies in local memory; their addresses become local ones."""
    lanes = uint32(0)
    for lane in range(32):
        on = (mask >> uint32(lane)) & uint32(1)
        if on and addresses[lane] >> int64(32) == int64(LOCAL_WINDOW):
            addresses[lane] &= int64(0xFFFFFFFF)
            lanes |= uint32(1) << uint32(lane)
    return lanes


@njit
def away(m, mask, addresses):
    """Lanes whose generic address lies in the shared memory of another block of the cluster."""
    lanes = uint32(0)
    if view.own(m)[s.BLOCKS] > 1:
        for lane in range(32):
            if addresses[lane] >> int64(32) == int64(SHARED_WINDOW):
                lanes |= uint32(1) << uint32(lane)
    return lanes & mask


@njit
def _elsewhere(m, warp, pc, row, mask, addresses, loading):
    """Load from, or store to, other blocks of the cluster; returns the lanes that do neither.

    Whether such accesses are in order is not looked at, nor what they cost.
    """
    lanes = away(m, mask, addresses)
    width, d, R = int64(row[c.WIDTH]), row[c.DST], view.registers(m)[warp]
    size = abs(width)
    control = view.control(m)
    for lane in range(32):
        if not (lanes >> uint32(lane)) & uint32(1):
            continue
        where = view.peer(m, (addresses[lane] >> int64(24)) & int64(0xFF))
        at = addresses[lane] & int64(0xFFFFFF)
        kind = int64(-1)
        if at < control[s.SHARED_BASE] or at + size > control[s.SHARED_END]:
            kind = int64(s.OUTSIDE_SHARED)
        elif at & (size - 1):
            kind = int64(s.MISALIGNED)
        if kind >= 0:
            fault(m, kind, int64(pc), int64(warp), lanes, int64(at), int64(size), int64(1))
            return uint32(0)
        words = view.shared(where)
        if size < 4:
            if not loading:
                _narrow_store(words, at, width, R[d, lane])
            elif d != 255:
                R[d, lane] = _narrow_load(words, at, width)
        else:
            for part in range(size // 4):
                if not loading:
                    words[(at >> 2) + part] = R[d + part, lane]
                elif d != 255:
                    R[d + part, lane] = words[(at >> 2) + part]
        if not loading and control[s.RACES]:
            mark = uint32(control[s.TICK]) << CLOCK | BY_COPY | uint32(s.ELSEWHERE)
            for unit in range(at >> control[s.GRAIN], ((at + size - 1) >> control[s.GRAIN]) + 1):
                view.shadow(where)[unit] = mark
    return mask & ~lanes


@njit
def load(m, warp, pc, mask):
    """LD, LDG, LDS, LDL and the loads from constant banks."""
    row = view.code(m)[pc]
    space = row[c.OP]
    addresses = view.addresses(m)[0]
    if space == c.CONST_BANK:
        _load_constant(m, warp, pc, row, mask)
        return
    narrow = int64(2 if space == c.SHARED else space == c.LOCAL)
    address_lanes(m, warp, row, int64(c.A_REG), narrow, addresses)
    if space == c.LOCAL:
        _local(m, warp, pc, row, mask, int64(1))
        return
    if space == c.SHARED:
        _load_shared(m, warp, pc, row, mask)
        return
    if space == c.GENERIC:
        inner = uint32(shared_lanes(m, mask, addresses))
        if inner:
            _load_shared(m, warp, pc, row, inner)
        own = uint32(local_lanes(mask, addresses))
        if own:
            _local(m, warp, pc, row, own, int64(1))
        mask = uint32(mask & ~(inner | own))
        mask = _elsewhere(m, warp, pc, row, mask, addresses, True)
    if mask:
        _load_global(m, warp, pc, row, mask)


@njit
def _tested(m, warp, mask, addresses):
    """Whether a load looks at an mbarrier, as code of sm_80 does; what its last phase brought is known
    from then on."""
    place = addresses[first_lane(mask)] & ~int64(7)
    for index in range(view.own(m)[s.MBARRIER_COUNT]):
        if view.mbarriers(m)[index] == place:
            known, brought = view.known(m)[warp], view.phases(m)[s.MBARRIERS + index]
            for actor in range(view.control(m)[s.KNOWLEDGE]):
                known[actor] = max(known[actor], brought[actor])
            return True
    return False


@njit
def _load_shared(m, warp, pc, row, mask):
    addresses, width, d = view.addresses(m)[0], int64(row[c.WIDTH]), row[c.DST]
    size = abs(width)
    memo = row[c.MEMO]
    base = shared_access(m, warp, pc, int64(memo), uint32(mask), addresses, size, int64(0))
    if base < 0:
        return
    if row[c.FLAGS] & c.MAY_TEST and _tested(m, warp, mask, addresses):
        pass
    elif row[c.FLAGS] & c.POPC:  # the load of a compare-and-swap loop
        note_updates(m, warp, pc, int64(memo), mask, addresses, size, base, int64(0))
    else:
        note_reads(m, warp, pc, int64(memo), mask, addresses, size, base)
    if d != 255:
        _gather(view.registers(m)[warp], d, view.shared(m), addresses, int64(0), width, mask)


@njit
def _load_global(m, warp, pc, row, mask):
    addresses, width, d = view.addresses(m)[0], int64(row[c.WIDTH]), row[c.DST]
    size = abs(width)
    if not aligned(m, warp, pc, mask, addresses, size):
        return
    if not inside_global(m, warp, pc, mask, addresses, size):
        return
    global_pattern(m, pc, row[c.MEMO], mask, addresses, size)
    if d != 255:
        origin = view.origin(m)[0]
        _gather(view.registers(m)[warp], d, view.memory(m), addresses, origin, width, mask)


@njit
def _load_constant(m, warp, pc, row, mask):
    addresses = view.addresses(m)[0]
    address_lanes(m, warp, row, int64(c.A_REG), int64(1), addresses)
    width, d = int64(row[c.WIDTH]), row[c.DST]
    bank = view.constants(m)[row[c.BANK]]
    end = int64(4 * len(bank))
    size = abs(width)
    lanes, first = _wrong_lanes(addresses, mask, size, int64(0), end)
    if lanes:
        fault(
            m, int64(s.OUTSIDE_CONSTANT), int64(pc), int64(warp), uint32(lanes), int64(first),
            int64(size), int64(1),
        )  # fmt: skip
        return
    if row[c.DST_UNIFORM]:
        at = addresses[first_lane(mask)]
        if size < 4:
            view.uniforms(m)[warp, d] = _narrow_load(bank, at, width)
        else:
            for part in range(width // 4):
                view.uniforms(m)[warp, d + part] = bank[(at >> 2) + part]
        return
    _gather(view.registers(m)[warp], d, bank, addresses, int64(0), width, mask)


@njit
def _local(m, warp, pc, row, mask, is_load):
    """Local memory: a private array for every thread."""
    addresses = view.addresses(m)[0]
    width, d = int64(row[c.WIDTH]), row[c.DST]
    size = abs(width)
    if not aligned(m, warp, pc, mask, addresses, size):
        return
    lanes, first = _wrong_lanes(addresses, mask, size, int64(0), view.control(m)[s.LOCAL_BYTES])
    if lanes:
        fault(
            m, int64(s.OUTSIDE_LOCAL), int64(pc), int64(warp), uint32(lanes), int64(first),
            int64(size), int64(1),
        )  # fmt: skip
        return
    R = view.registers(m)[warp]
    words = view.local(m)[32 * warp : 32 * warp + 32]
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        at = addresses[lane]
        if size < 4:
            if is_load:
                R[d, lane] = _narrow_load(words[lane], at, width)
            else:
                _narrow_store(words[lane], at, width, R[d, lane])
            continue
        for part in range(size // 4):
            if is_load:
                R[d + part, lane] = words[lane, (at >> 2) + part]
            else:
                words[lane, (at >> 2) + part] = R[d + part, lane]


@njit
def store(m, warp, pc, mask):
    """ST, STG, STS, STL."""
    row = view.code(m)[pc]
    space = row[c.OP]
    addresses = view.addresses(m)[0]
    narrow = int64(2 if space == c.SHARED else space == c.LOCAL)
    address_lanes(m, warp, row, int64(c.A_REG), narrow, addresses)
    if space == c.LOCAL:
        _local(m, warp, pc, row, mask, int64(0))
        return
    if space == c.SHARED:
        _store_shared(m, warp, pc, row, mask)
        return
    if space == c.GENERIC:
        inner = uint32(shared_lanes(m, mask, addresses))
        if inner:
            _store_shared(m, warp, pc, row, inner)
        own = uint32(local_lanes(mask, addresses))
        if own:
            _local(m, warp, pc, row, own, int64(0))
        mask = uint32(mask & ~(inner | own))
        mask = _elsewhere(m, warp, pc, row, mask, addresses, False)
    if mask:
        _store_global(m, warp, pc, row, mask)


@njit
def _store_shared(m, warp, pc, row, mask):
    addresses, width, memo = view.addresses(m)[0], int64(row[c.WIDTH]), row[c.MEMO]
    base = shared_access(m, warp, pc, int64(memo), uint32(mask), addresses, width, int64(1))
    if base < 0:
        return
    note_writes(m, warp, pc, int64(memo), mask, addresses, width, base, uint32(0))
    _scatter(view.registers(m)[warp], row[c.DST], view.shared(m), addresses, int64(0), width, mask)


@njit
def _store_global(m, warp, pc, row, mask):
    addresses, width = view.addresses(m)[0], int64(row[c.WIDTH])
    if not aligned(m, warp, pc, mask, addresses, width):
        return
    if not inside_global(m, warp, pc, mask, addresses, width):
        return
    global_pattern(m, pc, row[c.MEMO], mask, addresses, width)
    origin = view.origin(m)[0]
    _scatter(view.registers(m)[warp], row[c.DST], view.memory(m), addresses, origin, width, mask)


@njit
def matrix(m, warp, pc, mask):
    """LDSM and STSM: lanes 8i to 8i + 7 give the row addresses of matrix i."""
    row = view.code(m)[pc]
    R = view.registers(m)[warp]
    count, d = row[c.WIDTH], row[c.DST]
    addresses = view.addresses(m)[0]
    address_lanes(m, warp, row, int64(c.A_REG), int64(2), addresses)
    used = uint32(mask if count == 4 else mask & uint32((1 << (8 * count)) - 1))
    if not used:
        return
    memo = row[c.MEMO]
    is_store = row[c.OP] == 1
    base = shared_access(m, warp, pc, int64(memo), used, addresses, int64(16), int64(2))
    if base < 0:
        return
    if is_store:
        note_writes(m, warp, pc, int64(memo), uint32(used), addresses, int64(16), base, uint32(0))
    else:
        note_reads(m, warp, pc, int64(memo), uint32(used), addresses, int64(16), base)
    shared = view.shared(m)
    for index in range(count):
        if row[c.FLAGS] & c.TRANSPOSED:
            for lane in range(32):
                column = lane // 4
                low, high = 2 * (lane % 4), 2 * (lane % 4) + 1
                first = addresses[8 * index + low] + 2 * column
                second = addresses[8 * index + high] + 2 * column
                if is_store:
                    _narrow_store(shared, first, 2, R[d + index, lane] & uint32(0xFFFF))
                    _narrow_store(shared, second, 2, R[d + index, lane] >> uint32(16))
                else:
                    upper = _narrow_load(shared, second, 2) << uint32(16)
                    R[d + index, lane] = _narrow_load(shared, first, 2) | upper
        else:
            for lane in range(32):
                at = uint64(addresses[8 * index + lane // 4] >> 2) + uint64(lane % 4)
                if is_store:
                    shared[at] = R[d + index, lane]
                else:
                    R[d + index, lane] = shared[at]


# ---------------------------------------------------------------- asynchronous copies


@njit
def copy(m, warp, pc, mask, keep):
    """LDGSTS: read now, but write to shared memory only when the warp waits for it.

    keep: lanes that copy; the others of the mask write zeros. Whoever touches the destination
    before that wait is caught by the shadow.
    """
    row = view.code(m)[pc]
    width = int64(row[c.WIDTH])
    to, origin = view.addresses(m)[0], view.addresses(m)[1]
    address_lanes(m, warp, row, int64(c.A_REG), int64(2), to)
    address_lanes(m, warp, row, int64(c.G_REG), int64(0), origin)
    reading = uint32(mask & keep if row[c.FLAGS] & c.ZERO_FILL else mask)
    zeros = view.zeros(m)
    for lane in range(32):
        zeros[lane] = 0
    if row[c.FLAGS] & c.HIGH:
        for lane in range(32):
            zeros[lane] = origin[lane] & (width - 1)
            origin[lane] -= zeros[lane]
    if not aligned(m, warp, pc, mask, to, width):
        return
    end = view.control(m)[s.SHARED_END]
    if not inside_shared(m, warp, pc, mask, to, width, end):
        return
    if reading:
        if not aligned(m, warp, pc, reading, origin, width):
            return
        if not inside_global(m, warp, pc, reading, origin, width):
            return
    lane = first_lane(mask)
    memo = row[c.MEMO] + ((to[lane] >> 6) & 1) + 2 * ((origin[lane] >> 6) & 1)
    _count_copy(m, pc, memo, mask, reading, to, origin, width, row[c.FLAGS] & c.BYPASS != 0)
    base = to[first_lane(mask)] & ~int64(3)
    note_writes(m, warp, pc, int64(memo), mask, to, width, base, FLYING)
    first, following = view.queued(m)[warp, 0], view.queued(m)[warp, 1]
    if following - first >= s.QUEUE:
        fault(
            m, int64(s.QUEUE_FULL), int64(pc), int64(warp), uint32(mask), int64(-1), int64(s.QUEUE),
            int64(1),
        )  # fmt: skip
        return
    slot = following % s.QUEUE
    view.stamps(m)[warp, slot, 0] = view.queued(m)[warp, 2]
    view.stamps(m)[warp, slot, 1] = width
    entry = view.queue(m)[warp, slot]
    start = view.origin(m)[0]
    for lane in range(32):
        entry[0, lane] = ALL
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        entry[0, lane] = uint32(to[lane])
        read = (reading >> uint32(lane)) & uint32(1)
        at = (origin[lane] - start) >> 2
        for part in range(width // 4):
            entry[1 + part, lane] = view.memory(m)[at + part] if read else uint32(0)
        for byte in range(width - zeros[lane], width):
            entry[1 + (byte >> 2), lane] &= ~(uint32(0xFF) << uint32(8 * (byte & 3)))
    view.queued(m)[warp, 1] = following + 1


@njit
def _count_copy(m, pc, memo, mask, reading, to, origin, width, bypass):
    """Count a copy: columns as in `shared_access`, with the lanes that read as the ninth."""
    row = view.code(m)[pc]
    base = to[first_lane(mask)]
    same = _same(m, int64(memo), int64(0), uint32(mask), to, base)
    start = int64(0)
    if reading:
        # Where the others would have read from does not matter.
        start = origin[first_lane(reading)]
        same = _same(m, int64(memo), int64(1), uint32(reading), origin, start) and same
    p = view.patterns(m)[memo]
    # Where both sides stand within a line decides, not only how they step.
    phase = (base & 127) | (start & 127) << 8
    known = same and p[0] == 1 and p[1] == int64(mask) and p[2] == phase
    if not (known and p[8] == int64(reading)):
        p[0], p[1], p[2], p[8] = 1, int64(mask), phase, int64(reading)
        p[3], p[5] = rules.warp_filled_copy(to, origin, mask, reading, width, bypass)
        p[4], p[6] = p[5], p[3]
        p[10] = p[11] = p[12] = 0
        if reading:
            p[10] = rules.warp_async_copy_sectors_counted(to, origin, reading, width, bypass)
            p[11] = rules.warp_async_copy_sectors_ideal(to, origin, reading, width, bypass)
            p[12] = rules.warp_async_copy_sectors(to, origin, reading, width, bypass)
        if bypass and row[c.GUARD] == 0 and not row[c.GUARD_NOT]:
            # Nsight Compute takes P0 for false (see the comment on cp.async in `memory`).
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


@njit
def land(m, warp, pending):
    """Write the copies of all but the latest ``pending`` committed groups."""
    limit = view.queued(m)[warp, 2] - pending
    grain = view.control(m)[s.GRAIN]
    entry_mark = uint32(view.control(m)[s.TICK]) << CLOCK | uint32(warp)
    while view.queued(m)[warp, 0] < view.queued(m)[warp, 1]:
        slot = view.queued(m)[warp, 0] % s.QUEUE
        if view.stamps(m)[warp, slot, 0] >= limit:
            return
        width = view.stamps(m)[warp, slot, 1]
        entry = view.queue(m)[warp, slot]
        for lane in range(32):
            if entry[0, lane] == ALL:
                continue
            at = int64(entry[0, lane])
            for part in range(width // 4):
                view.shared(m)[(at >> 2) + part] = entry[1 + part, lane]
            if view.control(m)[s.RACES]:
                for unit in range(at >> grain, ((at + width - 1) >> grain) + 1):
                    view.shadow(m)[unit] = entry_mark
        view.queued(m)[warp, 0] += 1


# ---------------------------------------------------------------- atomics


@njit
def _half_sums(old, new, bf16):
    word = uint32(0)
    flags = c.BF16 if bf16 else 0
    for part in range(2):
        x = float64(widen((old >> uint32(16 * part)) & uint32(0xFFFF), bf16))
        y = float64(widen((new >> uint32(16 * part)) & uint32(0xFFFF), bf16))
        bits = narrow64_bf16(x + y) if bf16 else narrow64_f16(x + y)
        word |= finished(bits, flags) << uint32(16 * part)
    return word


@njit
def _combined(op, kind, old, new, compare, flush):
    """What an atomic leaves behind; 64-bit patterns."""
    if op == ops.A_EXCH:
        return new
    if op == ops.A_CAS:
        return new if old == compare else old
    if kind == c.T_F32:
        first, second = uint32(old), uint32(new)
        if flush:
            first, second = flushed(first), flushed(second)
        total = canonical(bits_f32(as_f32(first) + as_f32(second)))
        return uint64(flushed(total) if flush else total)
    if kind == c.T_F64:
        # A NaN stays as it is, not even quieted (measured on an H200).
        for operand in (new, old):
            if operand & uint64(0x7FFFFFFFFFFFFFFF) > uint64(0x7FF0000000000000):
                return operand
        total = bits_f64(as_f64(old) + as_f64(new))
        nan = total & uint64(0x7FFFFFFFFFFFFFFF) > uint64(0x7FF0000000000000)
        return NAN64 if nan else total
    if kind == c.T_F16 or kind == c.T_BF16:
        return uint64(_half_sums(uint32(old), uint32(new), kind == c.T_BF16))
    if op == ops.A_ADD:
        return old + new
    if op == ops.A_AND:
        return old & new
    if op == ops.A_OR:
        return old | new
    if op == ops.A_XOR:
        return old ^ new
    if op == ops.A_INC:
        return uint64(0) if old >= new else old + uint64(1)
    if op == ops.A_DEC:
        return new if old == uint64(0) or old > new else old - uint64(1)
    if kind == c.S32:
        x, y = int64(int32(uint32(old))), int64(int32(uint32(new)))
        smaller = x < y
    elif kind == c.S64:
        smaller = int64(old) < int64(new)
    else:
        smaller = old < new
    return old if smaller == (op == ops.A_MIN) else new


@njit
def _wide_atomic(m, row, warp, lane, data, at):
    """One lane's atomic of several words: numbers side by side, or 16 bytes as one. Returns whether it
    did what it came for."""
    R, words, d = view.registers(m)[warp], row[c.DST_WORDS], row[c.DST]
    kind, returns = row[c.SUB] & 255, row[c.SUB] >> 16
    given = row[c.SOURCES + c.INDEX]
    swap = row[c.OP] == ops.A_CAS
    new = row[c.SOURCES + c.SOURCE_COLUMNS + c.INDEX] if swap else given
    same = True
    for part in range(words):
        same = same and data[at + part] == R[given + part, lane]
    for part in range(words):
        old, other = data[at + part], R[new + part, lane]
        if row[c.OP] == ops.A_EXCH or (swap and same):
            data[at + part] = other
        elif not swap:
            data[at + part] = uint32(
                _combined(
                    row[c.OP], kind, uint64(old), uint64(other), uint64(0), row[c.FLAGS] & c.FTZ
                )
            )
        if returns and d != 255:
            R[d + part, lane] = old
    return same or not swap


@njit
def atomic(m, warp, pc, mask, T):
    """ATOM, ATOMG, ATOMS, RED: lane after lane. Sources are in T: value, or compare and value.

    Returns the lanes that did what they came for: all, but for a compare-and-swap that found
    another value.
    """
    row = view.code(m)[pc]
    space = (row[c.SUB] >> 8) & 255
    addresses = view.addresses(m)[0]
    address_lanes(m, warp, row, int64(c.A_REG), int64(2 * (space == c.SHARED)), addresses)
    if space == c.SHARED:
        return _atomic_in(m, warp, pc, mask, T, int64(1))
    fine = mask
    if space == c.GENERIC:
        inner = uint32(shared_lanes(m, mask, addresses))
        if inner and row[c.PD0] != 7 and row[c.OP] != ops.A_CAS:
            # It asks whether it found its place: shared memory cannot do this one.
            fine &= ~inner
        elif inner:
            fine &= ~inner | _atomic_in(m, warp, pc, inner, T, int64(1))
        mask = uint32(mask & ~inner)
        if away(m, mask, addresses):
            fault(
                m, int64(s.NOT_KNOWN), int64(pc), int64(warp), uint32(mask), int64(-1), int64(0),
                int64(1),
            )  # fmt: skip
            return fine
    if mask:
        fine &= ~mask | _atomic_in(m, warp, pc, mask, T, int64(0))
    return uint32(fine)


@njit
def _atomic_in(m, warp, pc, mask, T, in_shared):
    row = view.code(m)[pc]
    R = view.registers(m)[warp]
    kind, returns = row[c.SUB] & 255, row[c.SUB] >> 16
    words, width, memo = row[c.DST_WORDS], int64(row[c.WIDTH]), row[c.MEMO]
    addresses = view.addresses(m)[0]
    if in_shared:
        base = shared_access(m, warp, pc, int64(memo), uint32(mask), addresses, width, int64(1))
        if base < 0:
            return mask
        note_updates(m, warp, pc, int64(memo), mask, addresses, width, base, int64(1))
    else:
        if not aligned(m, warp, pc, mask, addresses, width):
            return mask
        if not inside_global(m, warp, pc, mask, addresses, width):
            return mask
        global_pattern(m, pc, memo, mask, addresses, width)
    op, d = row[c.OP], row[c.DST]
    data = view.shared(m) if in_shared else view.memory(m)
    start_at = int64(0) if in_shared else view.origin(m)[0]
    fine = mask
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        at = (addresses[lane] - start_at) >> 2
        if row[c.FLAGS] & c.PAIRS or words > 2:
            if not _wide_atomic(m, row, warp, lane, data, at):
                fine &= ~(uint32(1) << uint32(lane))
            continue
        old = uint64(data[at])
        if words == 2:
            old = joined(data[at + 1], data[at])
        first = joined(T[4, lane], T[0, lane]) if words == 2 else uint64(T[0, lane])
        if op == ops.A_CAS:
            new = joined(T[5, lane], T[1, lane]) if words == 2 else uint64(T[1, lane])
            result = _combined(op, kind, old, new, first, row[c.FLAGS] & c.FTZ)
            if old != first:
                fine &= ~(uint32(1) << uint32(lane))
        else:
            if row[c.FLAGS] & c.POPC:
                first = uint64(1)
            result = _combined(op, kind, old, first, uint64(0), row[c.FLAGS] & c.FTZ)
        data[at] = uint32(result)
        if words == 2:
            data[at + 1] = uint32(result >> uint64(32))
        if returns and d != 255:
            if row[c.FLAGS] & c.SATURATE:  # CAST: whether it swapped
                R[d, lane] = uint32(old == first)
                if words == 2:
                    R[d + 1, lane] = uint32(0)
                continue
            R[d, lane] = uint32(old)
            if words == 2:
                R[d + 1, lane] = uint32(old >> uint64(32))
    return fine
