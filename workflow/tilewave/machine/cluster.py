"""Blocks of a cluster: the barrier they share, each other's shared memory, registers handed on."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from numpy import int64, uint32

from tilewave.machine import codes as c
from tilewave.machine import orders
from tilewave.machine import state as s
from tilewave.machine import views as view
from tilewave.machine.compiling import njit
from tilewave.machine.families import control as ops

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
