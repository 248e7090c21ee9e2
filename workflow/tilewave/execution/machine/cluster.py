"""Blocks of a cluster: the barrier they share, each other's shared memory, registers handed on."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import orders
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import control as ops
from tilewave.execution.machine.validity import fault

ALL = uint32(0xFFFFFFFF)


@njit
def complete(m, meeting):
    """Whether every warp of the cluster that has not ended has arrived so many times, and once more."""
    for rank in range(view.own(m)[s.BLOCKS]):
        block = view.peer(m, rank)
        for warp in range(view.control(m)[s.WARPS]):
            if view.live(block)[warp] and view.meetings(block)[warp, 0] <= meeting:
                return False
    return True


@njit
def wake(m):
    """After an arrival or an end: warps whose cluster barrier is complete can go on."""
    for rank in range(view.own(m)[s.BLOCKS]):
        block = view.peer(m, rank)
        for warp in range(view.control(m)[s.WARPS]):
            groups = view.groups(block)[warp]
            for slot in range(s.SLOTS):
                if groups[slot, 2] == s.AT_CLUSTER and complete(m, groups[slot, 3]):
                    groups[slot, 2] = s.READY


@njit
def all_landed(m):
    """A cluster has ended: did all arrivals at a block's mbarriers come before that block ended?

    Shared memory is there while its block runs (PTX ISA, "Shared State Space"). An arrival has come
    for certain where a warp of the block has seen that its phase was over, or knows that the warp that
    arrived has passed a fence since: a barrier of the cluster tells it, if its arrivals release.
    """
    control, blocks = view.control(m), view.own(m)[s.BLOCKS]
    warps = control[s.WARPS]
    for place in range(blocks * blocks * warps if control[s.RACES] else 0):
        rank, sender = place // warps // blocks, place // warps % blocks
        if rank == sender:
            continue
        block, other, warp = view.peer(m, rank), view.peer(m, sender), place % warps
        fenced = orders.shift(block, other) + orders.passed(m, orders.BLOCKS) + warp
        landed = int64(0)
        for one in range(warps):
            landed = max(landed, int64(view.known(block)[one, fenced]))
        for index in range(view.own(block)[s.MBARRIER_COUNT]):
            tick, phase, pc, lane = view.arrivals(block)[index, sender * warps + warp]
            if tick > landed and phase >= view.turned(block)[index, 1]:
                control[s.TAKEN] = view.own(other)[s.NUMBER]
                at, ended = view.mbarriers(block)[index], view.own(block)[s.NUMBER]
                fault(m, s.MAYBE_ENDED, pc, warp, uint32(1) << uint32(lane), at, ended, 0)


@njit
def cluster(m, warp, pc, mask):
    """UCGABAR_ARV and UCGABAR_WAIT, USETMAXREG."""
    row, control = view.code(m)[pc], view.control(m)
    op = row[c.OP]
    if op == ops.K_ARRIVE:
        for rank in range(view.own(m)[s.BLOCKS]):
            block = view.peer(m, rank)
            orders.bring(m, warp, block, view.gathered(block))
        control[s.TICK] += 1
        view.meetings(m)[warp, 0] += 1
        wake(m)
        return
    if op == ops.K_WAIT:
        meeting = view.meetings(m)[warp, 1]
        if not complete(m, meeting):
            control[s.PARKED] = s.AT_CLUSTER
            control[s.PARKED_FOR] = meeting
            return
        view.meetings(m)[warp, 1] = meeting + 1
        orders.learn(m, warp, view.gathered(m))
        return
    wanted, own = int64(row[c.SUB]), view.own(m)
    more = wanted - view.quota(m)[warp]
    if op == ops.K_TAKE_REGISTERS:
        if more > own[s.POOL]:
            control[s.PARKED] = s.AT_REGISTERS
            control[s.PARKED_FOR] = wanted
            return
        P = view.predicates(m)[warp]
        P[row[c.PD0]] |= ALL if row[c.PD0] > 7 else mask
    own[s.POOL] -= more
    view.quota(m)[warp] = wanted
    if op == ops.K_GIVE_REGISTERS:
        for other in range(control[s.WARPS]):
            groups = view.groups(m)[other]
            for slot in range(s.SLOTS):
                if groups[slot, 2] == s.AT_REGISTERS:
                    groups[slot, 2] = s.READY
