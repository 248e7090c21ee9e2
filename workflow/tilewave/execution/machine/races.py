"""The last reads and writes of each unit of shared memory, and whether they are ordered.
The shadow of shared memory holds who wrote a unit, and when. `views.clocks` holds up to when a warp knows the accesses
of another. An access that is not ordered after an earlier one races with it."""

from numpy import int64, uint32, uint64

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import exchanges
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.validity import fault

# A shadow entry: tick << 10 | in flight << 9 | atomic << 8 | warp, or BY_COPY | number of the
# mbarrier at which a bulk copy completes. In flight and atomic: lanes of the warp stored different values at once.
FLYING, BY_ATOMIC, WHO = uint32(1 << 9), uint32(1 << 8), uint32(255)
BY_COPY = uint32(1 << 7)
CONTESTED = FLYING | BY_ATOMIC
CLOCK = uint32(10)


@njit
def writer(m, entry):
    """Return the actor of a shadow entry, as an index of a clock."""
    who = int64(entry & WHO)
    if entry & BY_COPY:
        return 3 * view.control(m)[s.WARPS] + (who & int64(BY_COPY - uint32(1)))
    return who


@njit
def _blame(m, kind, warp, pc, mask, addresses, width, unit, other):
    """Note a fault at the lanes whose access covers a unit of shared memory."""
    grain = view.control(m)[s.GRAIN]
    lanes = uint32(0)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            first = addresses[lane] >> grain
            last = (addresses[lane] + width - 1) >> grain
            if first <= unit <= last:
                lanes |= uint32(1) << uint32(lane)
    fault(m, kind, pc, warp, lanes, unit << grain, other, 0)


@njit
def note_read(m, warp, pc, mask, addresses, width, unit, atomic):
    """Check that a warp reads a unit that was written, and that the write is ordered before."""
    entry = view.shadow(m)[unit]
    tick = entry >> CLOCK
    now = uint32(view.control(m)[s.TICK])
    if tick < uint32(view.control(m)[s.FIRST_TICK]):
        _blame(m, int64(s.UNINITIALISED), warp, pc, mask, addresses, width, unit, int64(-1))
    elif entry & FLYING:
        kind = int64(s.CONTESTED if entry & BY_ATOMIC else s.IN_FLIGHT)
        _blame(m, kind, warp, pc, mask, addresses, width, unit, int64(entry & WHO))
    else:
        who = writer(m, entry)
        if who != warp and view.clocks(m)[warp, who] < tick and not (atomic and entry & BY_ATOMIC):
            _blame(m, int64(s.RACE), warp, pc, mask, addresses, width, unit, int64(who))
    view.reads(m)[warp, unit] = now
    view.last_read(m)[warp] = now


@njit
def _keeps(m, warp, pc, mask, addresses, width, unit):
    """Return whether a store writes the bytes that a unit of shared memory already has."""
    row, grain, different = view.code(m)[pc], view.control(m)[s.GRAIN], uint32(0)
    R = view.registers(m)[warp]
    for lane in range(32):
        at, bit = addresses[lane], (mask >> uint32(lane)) & uint32(1)
        for byte in range(max(at, unit << grain), min(at + width, (unit + 1) << grain)):
            stored = R[row[c.DST] + ((byte - at) >> 2), lane] >> uint32(8 * ((byte - at) & 3))
            before = view.shared(m)[byte >> 2] >> uint32(8 * (byte & 3))
            different |= bit * ((stored ^ before) & uint32(255))
    return row[c.FAMILY] == c.STORE and different == uint32(0)


@njit
def _disagree(m, warp, row, mask, addresses, width, unit):
    """Return whether lanes of a store write different values to a byte of a unit of shared memory."""
    grain, R = view.control(m)[s.GRAIN], view.registers(m)[warp]
    for byte in range(unit << grain, (unit + 1) << grain):
        first = int64(-1)
        for lane in range(32):
            at = byte - addresses[lane]
            if (mask >> uint32(lane)) & uint32(1) and 0 <= at < width:
                word = uint32(0) if row[c.DST] == 255 else R[row[c.DST] + (at >> 2), lane]
                value = int64((word >> uint32(8 * (at & 3))) & uint32(255))
                if first >= 0 and value != first:
                    return True
                first = value
    return False


@njit
def note_write(m, warp, pc, mask, addresses, width, unit, mark):
    """Check that earlier reads, and writes of another value, are ordered before a warp's write."""
    entry = view.shadow(m)[unit]
    start = uint32(view.control(m)[s.FIRST_TICK])
    tick = entry >> CLOCK
    who = writer(m, entry)
    both_atomic, kept = entry & mark & BY_ATOMIC, False
    apart = view.apart(m)[warp]
    if apart[exchanges.READ] and not int64(mask) & ~apart[exchanges.KNOWING]:
        exchanges.share(m, warp)
    if tick >= start and not both_atomic:
        if who != warp and view.clocks(m)[warp, who] < tick:
            kept = not (entry | mark) & (FLYING | BY_ATOMIC | BY_COPY)
            kept = kept and _keeps(m, warp, pc, mask, addresses, width, unit)
            if not kept:
                _blame(m, int64(s.RACE), warp, pc, mask, addresses, width, unit, int64(who))
        elif entry & CONTESTED == FLYING:
            _blame(m, int64(s.IN_FLIGHT), warp, pc, mask, addresses, width, unit, int64(who))
    for other in range(view.control(m)[s.READERS]):
        if other == warp or view.clocks(m)[warp, other] >= view.last_read(m)[other]:
            continue
        seen = view.reads(m)[other, unit]
        if seen >= start and view.clocks(m)[warp, other] < seen and not both_atomic:
            _blame(m, int64(s.RACE), warp, pc, mask, addresses, width, unit, int64(other))
    if not kept:  # a race of another value with the first writer must show
        view.shadow(m)[unit] = uint32(view.control(m)[s.TICK]) << CLOCK | mark | uint32(warp)


@njit
def _all_ordered(m, warp, start, count):
    """Return whether no unordered write touched a run of units."""
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
        if _all_ordered(m, warp, start, p[7]):
            for index in range(p[7]):
                reads[uint64(start + index)] = now
            return
    start = base >> grain
    first_tick = uint32(view.control(m)[s.FIRST_TICK])
    clock, shadow, touched = view.clocks(m)[warp], view.shadow(m), view.touched(m)[memo]
    me = int64(warp)
    for index in range(p[7]):
        unit = start + touched[index]
        entry = shadow[unit]
        tick = entry >> CLOCK
        who = writer(m, entry)
        fine = tick >= first_tick and not entry & FLYING
        if not (fine and (who == me or clock[who] >= tick)):
            note_read(m, warp, pc, mask, addresses, width, unit, int64(0))
        reads[unit] = now


@njit
def note_writes(m, warp, pc, memo, mask, addresses, width, base, mark):
    """Note a write of every unit of the remembered pattern."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    view.unfenced(m)[warp] |= uint32(mask)
    start = base >> control[s.GRAIN]
    touched, shadow, clock = view.touched(m)[memo], view.shadow(m), view.clocks(m)[warp]
    count = view.patterns(m)[memo, 7]
    first_tick = uint32(control[s.FIRST_TICK])
    entry_now = uint32(uint32(control[s.TICK]) << CLOCK | mark | uint32(warp))
    # Two quick tests: no unordered write and no unordered read of these units.
    strange = False
    me = uint32(warp)
    safe = view.safe(m)[warp]
    for index in range(count):
        entry = shadow[uint64(start + touched[index])]
        tick = entry >> CLOCK
        same_warp = entry & WHO == me
        odd = entry & (FLYING | BY_COPY) != uint32(0)
        strange |= tick >= first_tick and (odd or (tick > safe and not same_warp))
    for other in range(control[s.READERS]):
        if other == warp or clock[other] >= view.last_read(m)[other]:
            continue
        limit = max(clock[other], first_tick - uint32(1))
        seen = view.reads(m)[other]
        for index in range(count):
            strange |= seen[uint64(start + touched[index])] > limit
    if strange:
        for index in range(count):
            note_write(m, warp, pc, mask, addresses, width, start + touched[index], mark)
    else:
        for index in range(count):
            shadow[uint64(start + touched[index])] = entry_now
    row = view.code(m)[pc]
    if row[c.FAMILY] == c.STORE and not row[c.FLAGS] & c.STRONG:
        number = int64(0)
        for lane in range(32):
            number += (int64(mask) >> lane) & 1
        if number * width > count << control[s.GRAIN]:
            for index in range(count):
                unit = start + touched[index]
                if _disagree(m, warp, row, mask, addresses, width, unit):
                    shadow[uint64(unit)] |= CONTESTED


@njit
def note_updates(m, warp, pc, memo, mask, addresses, width, base, writes):
    """Note an atomic access of every unit: atomics do not race with each other."""
    if not view.control(m)[s.RACES]:
        return
    if writes:
        view.unfenced(m)[warp] |= uint32(mask)
    start = base >> view.control(m)[s.GRAIN]
    for index in range(view.patterns(m)[memo, 7]):
        unit = start + view.touched(m)[memo, index]
        note_read(m, warp, pc, mask, addresses, width, unit, int64(1))
        if writes:
            note_write(m, warp, pc, mask, addresses, width, unit, BY_ATOMIC)
