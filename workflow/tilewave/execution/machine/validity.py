"""Addresses of an access's lanes, their bounds and alignment, and the faults that follow."""

from numpy import int64, uint32

from tilewave.basics.bits import lowest_one
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.integer import LOCAL_WINDOW, SHARED_WINDOW, joined


@njit(inline="always")
def fault(m, kind, row, warp, lanes, address, other, stop):
    """Note a fault, once for each kind and instruction; stop: whether it ends the launch."""
    collision(
        m,
        int64(kind),
        int64(row),
        int64(warp),
        uint32(lanes),
        int64(address),
        int64(other),
        int64(stop),
        int64(-1),
    )


@njit
def collision(m, kind, row, warp, lanes, address, other, stop, other_row):
    """Note a fault, once for each kind and both instructions; count how often it came."""
    count = view.control(m)[s.FAULT_COUNT]
    for index in range(count):
        noted = view.faults(m)[index]
        if noted[s.F_KIND] == kind and noted[s.F_ROW] == row and noted[s.F_OTHER_ROW] == other_row:
            noted[s.F_COUNT] += 1
            return
    if count < s.FAULTS:
        view.faults(m)[count, s.F_KIND] = kind
        view.faults(m)[count, s.F_ROW] = row
        view.faults(m)[count, s.F_WARP] = warp
        view.faults(m)[count, s.F_LANES] = int64(lanes)
        view.faults(m)[count, s.F_ADDRESS] = address
        view.faults(m)[count, s.F_OTHER] = other
        view.faults(m)[count, s.F_BLOCK] = view.control(m)[s.TAKEN]
        view.faults(m)[count, s.F_OTHER_ROW] = other_row
        view.faults(m)[count, s.F_COUNT] = 1
        view.control(m)[s.FAULT_COUNT] = count + 1
    if stop:
        view.control(m)[s.STOP] = 1


@njit
def address_lanes(m, warp, row, first, narrow, out):
    """Compute byte addresses of an access: scaled register, uniform register and offset."""
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
        rank = view.block_control(m)[s.RANK]
        if narrow == 2 and rank:
            # The block's own window of the cluster's shared memory.
            for lane in range(32):
                if out[lane] >> int64(24) == rank:
                    out[lane] -= rank << int64(24)
    else:
        for lane in range(32):
            out[lane] = (int64(R[register, lane]) << int64(scale)) + base


@njit
def first_lane(mask):
    """Return the index of the lowest active lane."""
    return int64(lowest_one(mask))


@njit
def wrong_lanes(addresses, mask, width, low, high):
    """Return lanes whose ``width`` bytes leave [low, high), and the first such address."""
    lanes = uint32(0)
    first = int64(-1)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            at = addresses[lane]
            if at < low or at + width > high:
                if not lanes:
                    first = at
                lanes |= uint32(1) << uint32(lane)
    return lanes, first


@njit
def ends(mask, addresses, width):
    """Return the lowest byte that active lanes access, and the one after the highest."""
    low, high = int64(0x7FFFFFFFFFFFFFFF), int64(0)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            low, high = min(low, addresses[lane]), max(high, addresses[lane] + width)
    return low, high


@njit
def aligned(m, warp, pc, mask, addresses, width):
    """Return whether all active addresses are multiples of the width; note a fault if not."""
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
            if not lanes:
                first = addresses[lane]
            lanes |= uint32(1) << uint32(lane)
    fault(m, s.MISALIGNED, pc, warp, lanes, first, width, 1)
    return False


@njit
def inside_global(m, warp, pc, mask, addresses, width):
    """Return whether every active lane stays inside one of the buffers; note a fault if not."""
    low, high = ends(mask, addresses, width)
    for index in range(len(view.ranges(m))):
        if low >= view.ranges(m)[index, 0] and high <= view.ranges(m)[index, 1]:
            return True
    lanes = uint32(0)
    first = int64(-1)
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        in_buffer = False
        for index in range(len(view.ranges(m))):
            at = addresses[lane]
            in_buffer = in_buffer or (
                at >= view.ranges(m)[index, 0] and at + width <= view.ranges(m)[index, 1]
            )
        if not in_buffer:
            if not lanes:
                first = addresses[lane]
            lanes |= uint32(1) << uint32(lane)
    if lanes:
        fault(m, s.OUTSIDE_GLOBAL, pc, warp, lanes, first, width, 1)
        return False
    return True


@njit
def inside_shared(m, warp, pc, mask, addresses, width, end):
    """Return whether active lanes stay inside the block's shared memory; note a fault if not."""
    low, high = ends(mask, addresses, width)
    base = view.control(m)[s.SHARED_BASE]
    if low >= base and high <= end:
        return True
    lanes, first = wrong_lanes(addresses, mask, width, base, end)
    fault(m, s.OUTSIDE_SHARED, pc, warp, lanes, first, width, 1)
    return False


@njit
def inside_block(m, warp, pc, lanes, offset, width, aligned):
    """Return whether these bytes are in shared memory and aligned; note a fault if not."""
    control = view.control(m)
    kind = int64(-1)
    if offset < control[s.SHARED_BASE] or offset + width > control[s.SHARED_END]:
        kind = int64(s.OUTSIDE_SHARED)
    elif offset & (aligned - 1):
        kind = int64(s.MISALIGNED)
        width = aligned
    if kind < 0:
        return True
    fault(m, kind, pc, warp, lanes, offset, width, 1)
    return False


@njit
def shared_lanes(m, mask, addresses):
    """Return lanes with a generic address in the shared window; make their addresses shared."""
    lanes = uint32(0)
    rank, blocks = view.block_control(m)[s.RANK], view.block_control(m)[s.BLOCKS]
    for lane in range(32):
        on = (mask >> uint32(lane)) & uint32(1)
        if on and addresses[lane] >> int64(32) == int64(SHARED_WINDOW):
            inner = addresses[lane] & int64(0xFFFFFFFF)
            if inner >> int64(24) == rank:
                inner -= rank << int64(24)
            elif inner >> int64(24) < blocks:
                continue  # in another block
            lanes |= uint32(1) << uint32(lane)
            addresses[lane] = inner
    return lanes


@njit
def local_lanes(mask, addresses):
    """Return lanes with a generic address in local memory; make their addresses local."""
    lanes = uint32(0)
    for lane in range(32):
        on = (mask >> uint32(lane)) & uint32(1)
        if on and addresses[lane] >> int64(32) == int64(LOCAL_WINDOW):
            addresses[lane] &= int64(0xFFFFFFFF)
            lanes |= uint32(1) << uint32(lane)
    return lanes


@njit
def away(m, mask, addresses):
    """Return lanes whose generic address is in the shared memory of another block of the cluster."""
    lanes = uint32(0)
    if view.block_control(m)[s.BLOCKS] > 1:
        for lane in range(32):
            if addresses[lane] >> int64(32) == int64(SHARED_WINDOW):
                lanes |= uint32(1) << uint32(lane)
    return lanes & mask
