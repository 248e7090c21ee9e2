"""Blocks of a cluster: the barrier they share, each other's shared memory, registers handed on."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from numpy import int64, uint32

from tilewave.machine import orders
from tilewave.machine import views as view
from tilewave.machine.codes import (
    K_ARRIVE,
    K_GIVE_REGISTERS,
    K_TAKE_REGISTERS,
    K_WAIT,
    OP,
    PD0,
    SUB,
)
from tilewave.machine.compiling import njit
from tilewave.machine.state import (
    AT_CLUSTER,
    AT_REGISTERS,
    BLOCKS,
    PARKED,
    PARKED_FOR,
    POOL,
    READY,
    SLOTS,
    TICK,
    WARPS,
)

ALL = uint32(0xFFFFFFFF)


@njit
def complete(m, meeting):
    """Whether every warp of the cluster that has not ended has arrived so many times, and once more."""
    for rank in range(view.own(m)[BLOCKS]):
        block = view.peer(m, rank)
        for warp in range(view.control(m)[WARPS]):
            if view.live(block)[warp] and view.meetings(block)[warp, 0] <= meeting:
                return False
    return True


@njit
def wake(m):
    """After an arrival or an end: warps whose cluster barrier is complete can go on."""
    for rank in range(view.own(m)[BLOCKS]):
        block = view.peer(m, rank)
        for warp in range(view.control(m)[WARPS]):
            groups = view.groups(block)[warp]
            for slot in range(SLOTS):
                if groups[slot, 2] == AT_CLUSTER and complete(m, groups[slot, 3]):
                    groups[slot, 2] = READY


@njit
def cluster(m, warp, pc, mask):
    """UCGABAR_ARV and UCGABAR_WAIT, USETMAXREG."""
    row, control = view.code(m)[pc], view.control(m)
    op = row[OP]
    if op == K_ARRIVE:
        for rank in range(view.own(m)[BLOCKS]):
            block = view.peer(m, rank)
            orders.bring(m, warp, block, view.gathered(block))
        control[TICK] += 1
        view.meetings(m)[warp, 0] += 1
        wake(m)
        return
    if op == K_WAIT:
        meeting = view.meetings(m)[warp, 1]
        if not complete(m, meeting):
            control[PARKED] = AT_CLUSTER
            control[PARKED_FOR] = meeting
            return
        view.meetings(m)[warp, 1] = meeting + 1
        orders.learn(m, warp, view.gathered(m))
        return
    wanted, own = int64(row[SUB]), view.own(m)
    more = wanted - view.quota(m)[warp]
    if op == K_TAKE_REGISTERS:
        if more > own[POOL]:
            control[PARKED] = AT_REGISTERS
            control[PARKED_FOR] = wanted
            return
        P = view.predicates(m)[warp]
        P[row[PD0]] |= ALL if row[PD0] > 7 else mask
    own[POOL] -= more
    view.quota(m)[warp] = wanted
    if op == K_GIVE_REGISTERS:
        for other in range(control[WARPS]):
            groups = view.groups(m)[other]
            for slot in range(SLOTS):
                if groups[slot, 2] == AT_REGISTERS:
                    groups[slot, 2] = READY
