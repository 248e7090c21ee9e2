"""Who knows of whose accesses where some of them are asynchronous.

A row of what is known (`state.State.known`) has an entry for each actor of a block: its W warps;
the products of their warpgroups, which read shared memory until somebody waits for them; their bulk
stores, which read it too; each mbarrier, for the copies that tell it when they have landed; one for
all ordinary stores of other blocks, whose order is not looked at; for each warp up to when its writes
have passed a fence between the generic and the asynchronous proxy (PTX ISA, "Memory Consistency
Model", proxies); and for each warp up to when what it did has passed a fence for other blocks (MEMBAR).
In a cluster the actors of the block itself come first, those of the next one by rank follow.

An access of an actor is in order where the one who comes after it knows a tick of the actor that
is not before it. Barriers, mbarriers and waits for a group hand this knowledge on.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.races import BY_COPY, CLOCK, FLYING, writer
from tilewave.execution.machine.validity import fault

PROXIES, BLOCKS = int64(0), int64(1)  # kinds of fences: between the proxies, for other blocks
NOTHING = uint32(0xFFFFFFFF)  # no shadow entry: nobody is both atomic and a copy in flight


def actors(warps: int) -> int:
    """Entries of one block in a row of what is known."""
    return 5 * warps + s.MBARRIERS + 1


@njit
def shift(m, other):
    """Where the actors of another block of the cluster begin in rows of this one."""
    away = view.own(other)[s.RANK] - view.own(m)[s.RANK]
    blocks = view.own(m)[s.BLOCKS]
    return (away + blocks) % blocks * view.control(m)[s.ACTORS]


@njit
def bring(m, warp, other, row):
    """Add what a warp knows, and what it did itself, to a row of a block of the cluster."""
    control = view.control(m)
    size, known = control[s.ACTORS], view.known(m)[warp]
    blocks = view.own(m)[s.BLOCKS]
    away = (view.own(m)[s.RANK] - view.own(other)[s.RANK] + blocks) % blocks
    for block in range(blocks):
        to = (block + away) % blocks * size
        for actor in range(size):
            row[to + actor] = max(row[to + actor], known[block * size + actor])
    row[away * size + warp] = uint32(control[s.TICK])


@njit
def learn(m, warp, row):
    """A warp gets to know what a row of its block holds."""
    known = view.known(m)[warp]
    for actor in range(view.control(m)[s.KNOWLEDGE]):
        known[actor] = max(known[actor], row[actor])


@njit
def passed(m, kind):
    """Where a row tells up to when each warp's accesses have passed a fence of a kind."""
    return (3 + kind) * view.control(m)[s.WARPS] + s.MBARRIERS + 1


@njit
def fence(m, warp, kind):
    """What the warp knows of has passed a fence of a kind, its own accesses too."""
    control = view.control(m)
    if not control[s.ASYNCHRONOUS]:
        return
    known, fenced = view.known(m)[warp], passed(m, kind)
    for other in range(control[s.WARPS]):
        known[fenced + other] = max(known[fenced + other], known[other])
    known[fenced + warp] = uint32(control[s.TICK])
    control[s.TICK] += 1


# ---------------------------------------------------------------- groups of products and stores


@njit
def commit(m, warp, kind):
    """What a warp issued of a kind since the last time is a group now."""
    groups = view.outstanding(m)[warp, kind]
    groups[1 + groups[0] % s.GROUPS_KEPT] = view.control(m)[s.TICK]
    groups[0] += 1
    view.control(m)[s.TICK] += 1


@njit
def settle(m, warp, other, kind, count):
    """A warp knows that the first ``count`` groups of another, or of itself, have done their reads."""
    control, groups = view.control(m), view.outstanding(m)[other, kind]
    if count > groups[0] - s.GROUPS_KEPT and count > 0:
        actor = (1 + kind) * control[s.WARPS] + other
        known = view.known(m)[warp]
        known[actor] = max(known[actor], uint32(groups[1 + (count - 1) % s.GROUPS_KEPT]))


@njit
def waited(m, warp, pending):
    """A warp has waited for all but its latest ``pending`` groups of bulk copies."""
    if view.control(m)[s.ASYNCHRONOUS]:
        settle(m, warp, warp, int64(s.BULKS), view.outstanding(m)[warp, s.BULKS, 0] - pending)


# ---------------------------------------------------------------- asynchronous accesses


@njit
def _blame(m, kind, pc, warp, unit, other):
    address = int64(unit) << view.control(m)[s.GRAIN]
    fault(m, kind, pc, warp, 1, address, other, 0)


@njit
def check(m, warp, where, shifted, pc, unit, entry, reading):
    """Whether a unit's last write is in order before an asynchronous access that a warp issues.

    ``where``: the table of the block whose memory it is; ``shifted``: its place in rows of ``m``.
    """
    control = view.control(m)
    tick = entry >> CLOCK
    if tick < uint32(control[s.FIRST_TICK]):
        if reading:
            _blame(m, s.UNINITIALISED, pc, warp, unit, -1)
        return
    who = writer(where, entry)
    if entry & FLYING:
        _blame(m, s.IN_FLIGHT, pc, warp, unit, who)
        return
    known = view.known(m)[warp]
    if known[shifted + who] < tick and not (shifted == 0 and who == warp):
        _blame(m, s.RACE, pc, warp, unit, who)
    elif not entry & BY_COPY and known[shifted + passed(m, PROXIES) + who] < tick:
        _blame(m, s.UNFENCED, pc, warp, unit, who)


@njit
def asynchronous_read(m, warp, pc, first, size, kind):
    """A product or bulk store of a warp (``kind``) reads bytes of shared memory from now on."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    reader = (1 + kind) * control[s.WARPS] + warp
    now = uint32(control[s.TICK])
    view.last_read(m)[reader] = now
    shadow, reads = view.shadow(m), view.reads(m)[reader]
    before = NOTHING
    for unit in range(first >> control[s.GRAIN], ((first + size - 1) >> control[s.GRAIN]) + 1):
        entry = shadow[unit]
        if entry != before:
            check(m, warp, m, int64(0), pc, int64(unit), entry, True)
            before = entry
        reads[unit] = now


@njit
def asynchronous_write(m, warp, where, pc, first, size, mbarrier):
    """A copy that a warp issues writes bytes of a block's shared memory, and will tell an mbarrier
    of that block (by its number there)."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    shifted = shift(m, where)
    known = view.known(m)[warp]
    shadow = view.shadow(where)
    start, end = first >> control[s.GRAIN], ((first + size - 1) >> control[s.GRAIN]) + 1
    mark = uint32(control[s.TICK]) << CLOCK | BY_COPY | uint32(mbarrier)
    for reader in range(control[s.READERS]):
        seen = known[shifted + reader]
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
