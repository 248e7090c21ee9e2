"""Clusters: their barrier, the shared memory of other blocks, and registers that warps hand on."""

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import exchanges, orders
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import control as ops
from tilewave.execution.machine.validity import fault

ALL = uint32(0xFFFFFFFF)


@njit
def complete(m, meeting):
    """Return whether every running warp of the cluster has arrived more than ``meeting`` times."""
    for rank in range(view.block_control(m)[s.BLOCKS]):
        block = view.peer(m, rank)
        for warp in range(view.control(m)[s.WARPS]):
            if view.live(block)[warp] and view.meetings(block)[warp, 0] <= meeting:
                return False
    return True


@njit
def wake(m):
    """Wake the warps whose cluster barrier is complete, after an arrival or an exit."""
    for rank in range(view.block_control(m)[s.BLOCKS]):
        block = view.peer(m, rank)
        for warp in range(view.control(m)[s.WARPS]):
            groups = view.groups(block)[warp]
            for slot in range(s.SLOTS):
                if groups[slot, 2] == s.AT_CLUSTER and complete(m, groups[slot, 3]):
                    groups[slot, 2] = s.READY


@njit
def all_landed(m):
    """Note arrivals at a block's mbarriers that may come after that block ended.

    Shared memory exists while its block runs (PTX ISA, "Shared State Space"). An arrival came in time
    if a warp of the block saw the end of its phase. It also did if the clock of a warp of the block
    covers a later fence of the arriving warp, as after a cluster barrier whose arrivals release.
    """
    control, blocks = view.control(m), view.block_control(m)[s.BLOCKS]
    warps = control[s.WARPS]
    for number in range(blocks * blocks * warps if control[s.RACES] else 0):
        rank, sender = number // warps // blocks, number // warps % blocks
        if rank == sender:
            continue
        block, sender_block, warp = view.peer(m, rank), view.peer(m, sender), number % warps
        fenced = orders.shift(block, sender_block) + orders.passed(m, orders.BLOCKS) + warp
        landed = int64(0)
        for observer in range(warps):
            landed = max(landed, int64(view.clocks(block)[observer, fenced]))
        for index in range(view.block_control(block)[s.MBARRIER_COUNT]):
            tick, phase, pc, lane = view.arrivals(block)[index, sender * warps + warp]
            if tick > landed and phase >= view.turned(block)[index, 1]:
                control[s.TAKEN] = view.block_control(sender_block)[s.NUMBER]
                at, ended = view.mbarriers(block)[index], view.block_control(block)[s.NUMBER]
                fault(m, s.MAYBE_ENDED, pc, warp, uint32(1) << uint32(lane), at, ended, 0)


@njit
def all_read(m):
    """Note bulk stores that may still read the shared memory of a block that has ended."""
    control = view.control(m)
    warps = control[s.WARPS]
    for number in range(view.block_control(m)[s.BLOCKS] * warps * control[s.ASYNCHRONOUS]):
        block, warp = view.peer(m, number // warps), number % warps
        actor, apart = (1 + s.BULKS) * warps + warp, view.apart(block)[warp]
        over = max(int64(view.clocks(block)[warp, actor]), apart[exchanges.READ])
        if view.last_read(block)[actor] > over:
            control[s.TAKEN] = view.block_control(block)[s.NUMBER]
            fault(m, s.STILL_READ, apart[exchanges.STORE], warp, 1, -1, 0, 0)


@njit
def cluster(m, warp, pc, mask):
    """Execute UCGABAR_ARV, UCGABAR_WAIT and USETMAXREG."""
    row, control = view.code(m)[pc], view.control(m)
    op = row[c.OP]
    if op == ops.K_ARRIVE:
        orders.publish_mbarriers(m, warp)
        for rank in range(view.block_control(m)[s.BLOCKS]):
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
    wanted, block_control = int64(row[c.SUB]), view.block_control(m)
    more = wanted - view.quota(m)[warp]
    if op == ops.K_TAKE_REGISTERS:
        if more > block_control[s.POOL]:
            control[s.PARKED] = s.AT_REGISTERS
            control[s.PARKED_FOR] = wanted
            return
        P = view.predicates(m)[warp]
        P[row[c.PD0]] |= ALL if row[c.PD0] > 7 else mask
    block_control[s.POOL] -= more
    view.quota(m)[warp] = wanted
    if op == ops.K_GIVE_REGISTERS:
        for other in range(control[s.WARPS]):
            groups = view.groups(m)[other]
            for slot in range(s.SLOTS):
                if groups[slot, 2] == s.AT_REGISTERS:
                    groups[slot, 2] = s.READY
