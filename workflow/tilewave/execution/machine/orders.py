"""Order of accesses by vector clocks, also of asynchronous accesses.

A clock (`state.State.clocks`) has an entry for each actor of a block, in this order:

* its W warps;
* the products of each warp's warpgroup, which read shared memory until they are waited for;
* the bulk stores of each warp, which also read it;
* each mbarrier, for the copies that complete at it;
* all ordinary stores of other blocks, whose order is not checked;
* for each warp, the time of its writes that have passed a fence between the generic and the
  asynchronous proxy (PTX ISA, "Memory Consistency Model", proxies);
* for each warp, the time of its accesses that have passed a fence for other blocks (MEMBAR).

In a cluster the actors of the block itself come first, then those of the next ranks.

An access of an actor is ordered before another access if the clock behind that one holds a tick of
the actor that is not earlier. Barriers, mbarriers and waits for a group merge clocks.
"""

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import exchanges
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.races import BY_ATOMIC, BY_COPY, CLOCK, FLYING, writer
from tilewave.execution.machine.validity import fault

PROXIES, BLOCKS = int64(0), int64(1)  # kinds of fences: between the proxies, for other blocks
NOTHING = uint32(0xFFFFFFFF)  # no shadow entry: none is both atomic and in flight


def actors(warps: int) -> int:
    """Return the actors of one block: the length of its part of a clock."""
    return 5 * warps + s.MBARRIERS + 1


@njit
def shift(m, other):
    """Return where the actors of another block of the cluster begin in clocks of this one."""
    away = view.block_control(other)[s.RANK] - view.block_control(m)[s.RANK]
    blocks = view.block_control(m)[s.BLOCKS]
    return (away + blocks) % blocks * view.control(m)[s.ACTORS]


@njit
def bring(m, warp, other, row):
    """Merge a warp's clock, and the current tick, into a clock of a block of the cluster."""
    control = view.control(m)
    exchanges.share(m, warp)
    size, clock = control[s.ACTORS], view.clocks(m)[warp]
    blocks = view.block_control(m)[s.BLOCKS]
    away = (view.block_control(m)[s.RANK] - view.block_control(other)[s.RANK] + blocks) % blocks
    for block in range(blocks):
        to = (block + away) % blocks * size
        for actor in range(size):
            row[to + actor] = max(row[to + actor], clock[block * size + actor])
    row[away * size + warp] = uint32(control[s.TICK])


@njit
def learn(m, warp, row):
    """Merge a clock of a block into a warp's clock; its lanes wait for each other's arrivals, too."""
    exchanges.met(m, warp)
    clock = view.clocks(m)[warp]
    for actor in range(view.control(m)[s.CLUSTER_ACTORS]):
        clock[actor] = max(clock[actor], row[actor])


@njit
def passed(m, kind):
    """Return where a clock keeps up to when each warp's accesses have passed a fence of a kind."""
    return (3 + kind) * view.control(m)[s.WARPS] + s.MBARRIERS + 1


@njit
def fence(m, warp, kind):
    """Execute a fence of a kind: all accesses that the warp's clock covers have passed it."""
    control = view.control(m)
    if not control[s.ASYNCHRONOUS]:
        return
    clock, fenced = view.clocks(m)[warp], passed(m, kind)
    for other in range(control[s.WARPS]):
        clock[fenced + other] = max(clock[fenced + other], clock[other])
    clock[fenced + warp] = uint32(control[s.TICK])
    control[s.TICK] += 1


@njit
def fence_proxies(m, warp, mask):
    """Execute a fence between the proxies, which only the writes of its own threads pass.
    NVIDIA's guide has each writer execute it before the barrier. It counts for a warp when all lanes
    that wrote shared memory have executed one."""
    control, apart, lanes = view.control(m), view.apart(m)[warp], view.unfenced(m)[warp]
    view.unfenced(m)[warp] &= ~uint32(mask)
    if control[s.ASYNCHRONOUS]:
        clock, fenced = view.clocks(m)[warp], passed(m, PROXIES) + warp
        if not apart[exchanges.FENCED]:
            apart[exchanges.BEFORE] = int64(clock[fenced])
        apart[exchanges.FENCED] |= int64(lanes & uint32(mask))
        if not lanes & ~uint32(mask):
            clock[fenced] = uint32(control[s.TICK])
            control[s.TICK] += 1
    publish_mbarriers(m, warp)


@njit
def publish_mbarriers(m, warp):
    """Execute a fence for bulk copies of the mbarriers whose initialisation the warp's clock covers."""
    for index in range(view.block_control(m)[s.MBARRIER_COUNT]):
        if not view.turned(m)[index, 2]:
            entry = view.shadow(m)[view.mbarriers(m)[index] >> view.control(m)[s.GRAIN]]
            who = writer(m, entry)
            view.turned(m)[index, 2] = who == warp or view.clocks(m)[warp, who] >= entry >> CLOCK


@njit
def release(m, outside):
    """Execute a fence of a block: strong accesses then show what came before, see `marking`."""
    control, block = view.control(m), view.block_control(view.peer(m, int64(0)))
    block[s.FENCED_INSIDE] = control[s.PASSED] + control[s.TICK]
    if outside:
        block[s.FENCED] = block[s.FENCED_INSIDE]
    control[s.TICK] += 1


# ---------------------------------------------------------------- groups of products and stores


@njit
def commit(m, warp, kind):
    """Commit a warp's operations of a kind since the last commit as a group."""
    groups = view.outstanding(m)[warp, kind]
    groups[1 + groups[0] % s.GROUPS_KEPT] = view.control(m)[s.TICK]
    groups[0] += 1
    view.control(m)[s.TICK] += 1


@njit
def read_until(m, other, kind, count):
    """Return the tick of a warp's first ``count`` groups; 0 for none."""
    groups = view.outstanding(m)[other, kind]
    kept = count > 0 and count > groups[0] - s.GROUPS_KEPT
    return groups[1 + (count - 1) % s.GROUPS_KEPT] if kept else int64(0)


@njit
def settle(m, warp, other, count):
    """Update a warp's clock: the first ``count`` groups of products of a warp have done their reads."""
    actor = (1 + s.MATRICES) * view.control(m)[s.WARPS] + other
    clock = view.clocks(m)[warp]
    clock[actor] = max(clock[actor], uint32(read_until(m, other, int64(s.MATRICES), count)))


@njit
def waited(m, warp, mask, pending):
    """Wait with some lanes for all but the warp's latest ``pending`` groups of bulk copies."""
    if view.control(m)[s.ASYNCHRONOUS]:
        apart, count = view.apart(m)[warp], view.outstanding(m)[warp, s.BULKS, 0] - pending
        tick = read_until(m, warp, int64(s.BULKS), count)
        apart[exchanges.READ] = max(apart[exchanges.READ], tick)
        apart[exchanges.KNOWING] = int64(mask)
        if not view.live(m)[warp] & ~mask:
            exchanges.share(m, warp)


# ---------------------------------------------------------------- asynchronous accesses


@njit
def _blame(m, kind, pc, warp, unit, other):
    address = int64(unit) << view.control(m)[s.GRAIN]
    fault(m, kind, pc, warp, 1, address, other, 0)


@njit
def check(m, warp, where, shifted, pc, unit, entry, reading):
    """Check that a unit's last write is ordered before a warp's asynchronous access.
    ``where``: the table of the block that has the memory; ``shifted``: its place in clocks of ``m``."""
    control = view.control(m)
    tick = entry >> CLOCK
    if tick < uint32(control[s.FIRST_TICK]):
        if reading:
            _blame(m, s.UNINITIALISED, pc, warp, unit, -1)
        return
    who = writer(where, entry)
    if entry & FLYING:
        _blame(m, s.CONTESTED if entry & BY_ATOMIC else s.IN_FLIGHT, pc, warp, unit, who)
        return
    clock = view.clocks(m)[warp]
    if clock[shifted + who] < tick and not (shifted == 0 and who == warp):
        _blame(m, s.RACE, pc, warp, unit, who)
    elif not entry & BY_COPY and clock[shifted + passed(m, PROXIES) + who] < tick:
        _blame(m, s.UNFENCED, pc, warp, unit, who)


@njit
def check_published(m, warp, where, pc, index):
    """Check that a block's mbarrier passed a fence between its initialisation and a bulk copy.
    With a barrier between them it is a hint only: NVIDIA's cuda::memcpy_async has no fence there."""
    control, offset = view.control(m), view.mbarriers(where)[index]
    entry = view.shadow(where)[offset >> control[s.GRAIN]]
    initialised = entry >> CLOCK >= uint32(control[s.FIRST_TICK])
    if control[s.RACES] and initialised and not view.turned(where)[index, 2]:
        who = writer(where, entry)
        ordered = view.clocks(m)[warp, shift(m, where) + who] >= entry >> CLOCK
        fault(m, s.BARRIER_ONLY if ordered else s.UNPUBLISHED, pc, warp, 1, offset, who, 0)


@njit
def asynchronous_read(m, warp, pc, lanes, first, size):
    """Note that a bulk store of some lanes of a warp reads shared memory from now on."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    reader = (1 + s.BULKS) * control[s.WARPS] + warp
    now = uint32(control[s.TICK])
    apart, unmet = view.apart(m)[warp], int64(-1)
    apart[exchanges.STORE] = pc
    joined = not apart[exchanges.FENCED] & ~int64(lanes)
    view.last_read(m)[reader] = now
    shadow, reads = view.shadow(m), view.reads(m)[reader]
    before = NOTHING
    for unit in range(first >> control[s.GRAIN], ((first + size - 1) >> control[s.GRAIN]) + 1):
        entry = shadow[unit]
        if entry != before:
            check(m, warp, m, int64(0), pc, int64(unit), entry, True)
            before = entry
            if not joined and entry >> CLOCK > apart[exchanges.BEFORE] and writer(m, entry) == warp:
                unmet = int64(unit)
        reads[unit] = now
    if unmet >= 0:
        _blame(m, s.LANES_APART, pc, warp, unmet, warp)


@njit
def asynchronous_write(m, warp, where, pc, first, size, mbarrier):
    """Note that a warp's copy writes a block's shared memory; it completes at mbarrier number ``mbarrier``."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    shifted = shift(m, where)
    exchanges.share(m, warp)
    clock = view.clocks(m)[warp]
    shadow = view.shadow(where)
    start, end = first >> control[s.GRAIN], ((first + size - 1) >> control[s.GRAIN]) + 1
    mark = uint32(control[s.TICK]) << CLOCK | BY_COPY | uint32(mbarrier)
    for reader in range(control[s.READERS]):
        seen = clock[shifted + reader]
        if (shifted == 0 and reader == warp) or seen >= view.last_read(where)[reader]:
            continue
        reads = view.reads(where)[reader]
        limit = max(seen, uint32(control[s.FIRST_TICK] - 1))
        latest = uint32(0)
        for unit in range(start, end):
            latest = max(latest, reads[unit])
        if latest > limit:
            for unit in range(start, end):
                if reads[unit] > limit:
                    _blame(m, s.RACE, pc, warp, unit, reader)
                    break
    before = NOTHING
    for unit in range(start, end):
        entry = shadow[unit]
        if entry != before:
            check(m, warp, where, shifted, pc, int64(unit), entry, False)
            before = entry
        shadow[unit] = mark
