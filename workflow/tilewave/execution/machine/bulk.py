"""Bulk copies (TMA): one thread copies a whole box or contiguous bytes.

A copy completes when it is issued. `orders` checks that readers wait for its mbarrier, and that writers of its source
wait for its group. Boxes have one to five dimensions. A row, the first dimension, is contiguous; the rows follow each
other in shared memory, the second dimension's first. A swizzle xors bits 4 and on of a byte's address with bits 7 and
on: one, two or three of them for 32, 64 and 128 bytes. Elements outside the array are read as zeros, which count as
arrived bytes, and are not written (PTX ISA, "Tensors"). Only a load may begin before the array.
"""

from numpy import int32, int64, uint8, uint32, uint64

from tilewave.basics.bits import put
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import maps, orders, validity, written
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import copies as ops
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.mbarrier import block_of, landed, met, number

PARAMETERS = 0x6_0000_0000  # generic address of the kernel's parameters
BOX_ALIGNMENT = 128  # of a box in shared memory, bytes
PIECE = 16  # bytes that a swizzle keeps together
NOWHERE = (int64(0), int64(0), int64(0), int64(0), int64(0))  # coordinates of no box
OFFSET = int64(0xFFFFFF)  # a shared address within its block


@njit
def swizzled(address, width):
    """Apply a swizzle of ``width`` bytes to a shared address."""
    if width == 128:
        return address ^ ((address >> 7) & 7) << 4
    if width == 64:
        return address ^ ((address >> 7) & 3) << 4
    if width == 32:
        return address ^ ((address >> 7) & 1) << 4
    return address


@njit
def map_word(m, address, word):
    """Return a word of a tensor map in the parameters or in global memory; -1 if it is in neither."""
    at = address + 8 * word - PARAMETERS
    bank = view.constants(m)[0]
    if 0 <= at < 4 * (len(bank) - 1) - view.block_control(m)[s.PARAMETERS_AT]:
        at = (at + view.block_control(m)[s.PARAMETERS_AT]) >> 2
        return int64(joined(bank[at + 1], bank[at]))
    at = address + 8 * word
    for index in range(len(view.ranges(m))):
        if view.ranges(m)[index, 0] <= at and at + 8 <= view.ranges(m)[index, 1]:
            at = (at - view.origin(m)[0]) >> 2
            return int64(joined(view.memory(m)[at + 1], view.memory(m)[at]))
    return int64(-1)


@njit
def get_byte(words, at):
    return (words[at >> 2] >> uint32(8 * (at & 3))) & uint32(0xFF)


@njit
def move_piece(target, to, source, origin, count):
    """Copy contiguous bytes."""
    if (to | origin | count) & 3 == 0:
        first, second = uint64(to >> 2), uint64(origin >> 2)
        for word in range(count >> 2):
            target[first + uint64(word)] = source[second + uint64(word)]
        return
    for byte in range(count):
        put(target, to + byte, uint8(get_byte(source, origin + byte)))


@njit
def sealed(m, address):
    """Return whether an unchanged tensor map lies at an address."""
    seal = uint64(maps.MARK)
    for word in range(maps.ADDRESS, maps.SEALED):
        seal = (seal ^ uint64(map_word(m, address, word))) * uint64(maps.MIXER)
    return seal == uint64(map_word(m, address, maps.SEAL))


@njit
def size_along(m, address, axis):
    return (map_word(m, address, maps.DIMENSIONS + axis) & int64(0xFFFFFFFF)) + 1


@njit
def count_along(m, address, axis):
    """Return the elements of a box along a dimension."""
    return ((map_word(m, address, maps.DIMENSIONS + axis) >> 32) & int64(0xFF)) + 1


@njit
def step_along(m, address, axis):
    return map_word(m, address, maps.DIMENSIONS + axis) >> 40


@njit
def rank_of(m, address):
    return map_word(m, address, maps.SHAPE) & int64(0xFF)


@njit
def element_of(m, address):
    """Return the bytes of an element."""
    return (map_word(m, address, maps.SHAPE) >> 8) & int64(0xFF)


@njit
def rows_of(m, address):
    rows = int64(1)
    for axis in range(1, rank_of(m, address)):
        rows *= count_along(m, address, axis)
    return rows


@njit
def row_at(m, address, at, row):
    """Return the byte offset of a box's row in the array; -1 if the row is outside."""
    line = int64(0)
    for axis in range(1, rank_of(m, address)):
        many = count_along(m, address, axis)
        position = at[axis] + row % many * step_along(m, address, axis)
        row //= many
        if position < 0 or position >= size_along(m, address, axis):
            return int64(-1)
        line += position * map_word(m, address, maps.STRIDES + axis)
    return line


@njit
def box(m, where, address, at, offset, storing):
    """Move a box, from coordinates ``at`` on, between global memory and a block's shared memory."""
    element, width = element_of(m, address), map_word(m, address, maps.SHAPE) >> 16
    inner = count_along(m, address, 0) * element
    memory, shared = view.memory(m), view.shared(where)
    start = map_word(m, address, maps.ADDRESS) - view.origin(m)[0]
    end = size_along(m, address, 0) * element
    for row in range(rows_of(m, address)):
        line = row_at(m, address, at, row)
        for piece in range(0, inner, PIECE):
            to = swizzled(offset + row * inner + piece, width)
            first = at[0] * element + piece  # bytes from the beginning of the row
            low, high = max(first, 0), min(first + PIECE, end)
            if not storing and (line < 0 or high - low < PIECE):
                word = uint64(to >> 2)
                for index in range(4):
                    shared[word + uint64(index)] = uint32(0)
            if line < 0 or low >= high:
                continue
            begin = start + line + low
            if storing:
                move_piece(memory, begin, shared, to + low - first, high - low)
                if len(view.written(m)) > 1:
                    written.mark(view.written(m), begin, high - low, written.MARK)
            else:
                move_piece(shared, to + low - first, memory, begin, high - low)


@njit
def receivers(m, warp, pc, mask, offset):
    """Return the blocks that receive a multicast, as bits; note a fault if one does not exist."""
    if mask >> view.block_control(m)[s.BLOCKS]:
        validity.fault(m, s.NO_BLOCK, pc, warp, 1, offset, mask, 1)
        return int64(0)
    return mask


@njit
def deliver(m, warp, pc, ranks, offset, size, telling, source, at, tensor):
    """Write a box, or ``size`` bytes, to the same place of each block, for its mbarrier."""
    for rank in range(view.block_control(m)[s.BLOCKS]):
        if not (ranks >> rank) & 1:
            continue
        where = view.peer(m, rank)
        met(m, warp, where, pc, uint32(1), telling)
        index = number(m, warp, pc, where, telling)
        orders.check_published(m, warp, where, pc, index)
        orders.asynchronous_write(m, warp, where, pc, offset, size, index)
        if tensor:
            box(m, where, source, at, offset, False)
        else:
            origin = source - view.origin(m)[0]
            move_piece(view.shared(where), offset, view.memory(m), origin, size)
        landed(m, warp, where, pc, telling, size)


@njit
def coordinate(U, begin, axis, rank):
    """Return a box's coordinate along an axis; 0 if the copy has fewer dimensions."""
    return int64(int32(U[begin + axis])) if axis < rank else int64(0)


@njit
def coordinates(U, row):
    """Return the five coordinates at which the box of a tensor copy begins."""
    rank, begin = row[c.SUB], row[c.A_UREG] + (1 if row[c.OP] == ops.Y_STORE else 2)
    return (
        coordinate(U, begin, 0, rank),
        coordinate(U, begin, 1, rank),
        coordinate(U, begin, 2, rank),
        coordinate(U, begin, 3, rank),
        coordinate(U, begin, 4, rank),
    )


@njit
def begins_before(m, warp, pc, lanes, at):
    """Note a fault and return True if a stored box begins before its array.
    Seen on an H200 for one to three dimensions; PTX does not document it. A store after the end writes nothing."""
    for axis in range(len(at)):
        if at[axis] < 0:
            validity.fault(m, s.BEFORE_ARRAY, pc, warp, lanes, axis, at[axis], 1)
            return True
    return False


@njit
def begins_within_piece(m, warp, pc, lanes, along):
    """Note a fault and return True if a box begins within a 16-byte piece of its row.
    Seen on an H100 for loads, stores and prefetches of elements of 1, 2 and 4 bytes, with every
    swizzle; PTX does not document it."""
    if along % PIECE == 0:
        return False
    validity.fault(m, s.WITHIN_PIECE, pc, warp, lanes, 0, along, 1)
    return True


@njit
def tensor_copy(m, warp, pc, row, mask):
    """Execute UTMALDG and UTMASTG."""
    U = view.uniforms(m)[warp]
    first, second = row[c.A_UREG], row[c.G_UREG]
    storing = row[c.OP] == ops.Y_STORE
    lanes = mask & -mask
    address = int64(joined(U[second + 1], U[second]))
    if not sealed(m, address):
        validity.fault(m, s.NO_MAP, pc, warp, lanes, address, 8 * maps.WORDS, 1)
        return
    rank = rank_of(m, address)
    if rank != row[c.SUB]:
        validity.fault(m, s.BAD_RANK, pc, warp, lanes, address, rank, 1)
        return
    size = rows_of(m, address) * count_along(m, address, 0) * element_of(m, address)
    shared = int64(U[first])
    at = coordinates(U, row)
    where, exists = block_of(m, warp, pc, lanes, shared)
    offset = shared & OFFSET
    if not exists or not validity.inside_block(
        m, warp, pc, lanes, offset, size, int64(BOX_ALIGNMENT)
    ):
        return
    if begins_within_piece(m, warp, pc, lanes, at[0] * element_of(m, address)):
        return
    if storing:
        if begins_before(m, warp, pc, lanes, at):
            return
        orders.asynchronous_read(m, warp, pc, lanes, offset, size)
        box(m, where, address, at, offset, True)
        return
    telling = int64(U[first + 1]) & OFFSET
    if not validity.inside_block(m, warp, pc, lanes, telling, int64(8), int64(8)):
        return
    ranks = int64(1) << view.block_control(where)[s.RANK]
    if row[c.BANK] >= 0:  # multicast
        ranks = receivers(m, warp, pc, int64(U[row[c.BANK]] >> uint32(16)), offset)
    deliver(m, warp, pc, ranks, offset, size, telling, address, at, True)


@njit
def bytes_copy(m, warp, pc, row, mask):
    """Execute UBLKCP: copy contiguous bytes between global and shared memory."""
    U = view.uniforms(m)[warp]
    first, second = row[c.A_UREG], row[c.G_UREG]
    lanes = mask & -mask
    counted = U[row[c.SUB]]
    size = int64(counted & uint32(0xFFFF)) << 4
    incoming = row[c.OP] == ops.Y_BYTES_IN
    outside = int64(joined(U[second + 1], U[second]))
    if not incoming:
        outside = int64(joined(U[first + 1], U[first]))
    shared = int64(U[first] if incoming else U[second])
    where, exists = block_of(m, warp, pc, lanes, shared)
    offset = shared & OFFSET
    if not exists or not validity.inside_block(m, warp, pc, lanes, offset, size, int64(PIECE)):
        return
    in_buffer = size == 0
    for index in range(len(view.ranges(m))):
        low, high = view.ranges(m)[index, 0], view.ranges(m)[index, 1]
        in_buffer = in_buffer or (outside >= low and outside + size <= high)
    if not in_buffer or outside & (PIECE - 1):
        kind = int64(s.BAD_SIZE) if in_buffer else int64(s.OUTSIDE_GLOBAL)
        validity.fault(m, kind, pc, warp, lanes, outside, size, 1)
        return
    if not incoming:
        orders.asynchronous_read(m, warp, pc, lanes, offset, size)
        origin = outside - view.origin(m)[0]
        move_piece(view.memory(m), origin, view.shared(m), offset, size)
        if len(view.written(m)) > 1:
            written.mark(view.written(m), origin, size, written.MARK)
        return
    telling = int64(U[first + 1]) & OFFSET
    if not validity.inside_block(m, warp, pc, lanes, telling, int64(8), int64(8)):
        return
    ranks = int64(1) << view.block_control(where)[s.RANK]
    if row[c.BANK] >= 0:
        ranks = receivers(m, warp, pc, int64(counted >> uint32(16)), offset)
    deliver(m, warp, pc, ranks, offset, size, telling, outside, NOWHERE, False)


@njit
def bulk(m, warp, pc, mask):
    """Execute bulk copies, their groups and the proxy fence, once for a warp."""
    row = view.code(m)[pc]
    op = row[c.OP]
    if op == ops.Y_FENCE:
        orders.fence_proxies(m, warp, mask)
    elif op == ops.Y_COMMIT:
        orders.commit(m, warp, s.BULKS)
    elif op == ops.Y_LOAD or op == ops.Y_STORE:
        tensor_copy(m, warp, pc, row, mask)
    elif op == ops.Y_BYTES_IN or op == ops.Y_BYTES_OUT:
        bytes_copy(m, warp, pc, row, mask)
