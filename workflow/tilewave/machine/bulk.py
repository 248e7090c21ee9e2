"""Copies that one thread starts for a whole box or a run of bytes: TMA.

A copy does all of its work when it is issued, in whatever order that leaves: `orders` knows that
who reads what it wrote has to wait for its mbarrier, and who overwrites what it reads for its group.
Boxes: rows lie behind each other in shared memory; with a swizzle, bits 4 and on of a byte's address
are xored with bits 7 and on (one, two or three of them for 32, 64 and 128 bytes). Elements outside
the matrix are read as zeros, which count as bytes that have come, and are not written (PTX ISA,
"Tensors").
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from numpy import int32, int64, uint8, uint32, uint64

from tilewave.machine import orders
from tilewave.machine import views as view
from tilewave.machine.accesses import fault
from tilewave.machine.bits import put
from tilewave.machine.codes import (
    A_UREG,
    BANK,
    G_UREG,
    OP,
    SUB,
    Y_BYTES_IN,
    Y_BYTES_OUT,
    Y_COMMIT,
    Y_FENCE,
    Y_LOAD,
    Y_STORE,
)
from tilewave.machine.compiling import njit
from tilewave.machine.integer import joined
from tilewave.machine.maps import (
    ADDRESS,
    BOX_X,
    BOX_Y,
    ELEMENT,
    MARK,
    PITCH,
    SIZE_X,
    SIZE_Y,
    SWIZZLE,
    WORDS,
)
from tilewave.machine.mbarrier import block_of, inside, landed, met, number
from tilewave.machine.state import (
    BAD_SIZE,
    BLOCKS,
    BULKS,
    NO_BLOCK,
    NO_MAP,
    OUTSIDE_GLOBAL,
    PARAMETERS_AT,
    RANK,
)

PARAMETERS = 0x6_0000_0000  # generic address of the kernel's parameters
BOX_ALIGNMENT = 128  # of a box in shared memory, bytes
PIECE = 16  # bytes that stay together in a swizzle
OFFSET = int64(0xFFFFFF)  # a shared address within its block


@njit
def swizzled(address, width):
    """Where the byte of a shared address lies with a swizzle of so many bytes."""
    if width == 128:
        return address ^ ((address >> 7) & 7) << 4
    if width == 64:
        return address ^ ((address >> 7) & 3) << 4
    if width == 32:
        return address ^ ((address >> 7) & 1) << 4
    return address


@njit
def map_word(m, address, which):
    """A word of a tensor map, in the parameters or in global memory (-1 where it is in neither)."""
    at = address + 8 * which - PARAMETERS
    bank = view.constants(m)[0]
    if 0 <= at < 4 * (len(bank) - 1) - view.own(m)[PARAMETERS_AT]:
        at = (at + view.own(m)[PARAMETERS_AT]) >> 2
        return int64(joined(bank[at + 1], bank[at]))
    at = address + 8 * which
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
    """Copy bytes that lie behind each other."""
    if (to | origin | count) & 3 == 0:
        first, second = uint64(to >> 2), uint64(origin >> 2)
        for word in range(count >> 2):
            target[first + uint64(word)] = source[second + uint64(word)]
        return
    for byte in range(count):
        put(target, to + byte, uint8(get_byte(source, origin + byte)))


@njit
def box(m, where, address, x, y, offset, storing):
    """Move a box between global memory and the shared memory of a block."""
    element = map_word(m, address, ELEMENT)
    size_x, size_y = map_word(m, address, SIZE_X), map_word(m, address, SIZE_Y)
    pitch, width = map_word(m, address, PITCH), map_word(m, address, SWIZZLE)
    inner, rows = map_word(m, address, BOX_X) * element, map_word(m, address, BOX_Y)
    memory, shared = view.memory(m), view.shared(where)
    start = map_word(m, address, ADDRESS) - view.origin(m)[0]
    end = size_x * element
    for row in range(rows):
        there = 0 <= y + row < size_y
        line = start + (y + row) * pitch
        for piece in range(0, inner, PIECE):
            to = swizzled(offset + row * inner + piece, width)
            first = x * element + piece  # bytes from the row's begin
            low, high = max(first, 0), min(first + PIECE, end)
            if not there or low >= high:
                if not storing:
                    at = uint64(to >> 2)
                    for word in range(4):
                        shared[at + uint64(word)] = uint32(0)
                continue
            if storing:
                move_piece(memory, line + low, shared, to + low - first, high - low)
                continue
            if high - low < PIECE:
                at = uint64(to >> 2)
                for word in range(4):
                    shared[at + uint64(word)] = uint32(0)
            move_piece(shared, to + low - first, memory, line + low, high - low)


@njit
def receivers(m, warp, pc, mask, offset):
    """Blocks of the cluster that a multicast goes to, as bits; a fault where one is not there."""
    if mask >> view.own(m)[BLOCKS]:
        fault(
            m, int64(NO_BLOCK), int64(pc), int64(warp), uint32(1), int64(offset), int64(mask),
            int64(1),
        )  # fmt: skip
        return int64(0)
    return mask


@njit
def deliver(m, warp, pc, ranks, offset, size, telling, source, x, y, tensor):
    """Write a box, or ``size`` bytes, to the same place of each block, and tell its mbarrier."""
    for rank in range(view.own(m)[BLOCKS]):
        if not (ranks >> rank) & 1:
            continue
        where = view.peer(m, rank)
        met(m, warp, where, pc, uint32(1), telling)
        index = number(m, warp, pc, where, telling)
        orders.asynchronous_write(m, warp, where, pc, offset, size, index)
        if tensor:
            box(m, where, source, x, y, offset, False)
        else:
            origin = source - view.origin(m)[0]
            move_piece(view.shared(where), offset, view.memory(m), origin, size)
        landed(m, warp, where, pc, telling, size)


@njit
def tensor_copy(m, warp, pc, row, mask):
    """UTMALDG and UTMASTG of two dimensions."""
    U = view.uniforms(m)[warp]
    first, second = row[A_UREG], row[G_UREG]
    storing = row[OP] == Y_STORE
    lanes = mask & -mask
    address = int64(joined(U[second + 1], U[second]))
    if map_word(m, address, 0) != MARK:
        fault(m, int64(NO_MAP), int64(pc), int64(warp), lanes, address, int64(8 * WORDS), int64(1))
        return
    size = map_word(m, address, BOX_X) * map_word(m, address, ELEMENT) * map_word(m, address, BOX_Y)
    place = int64(U[first])
    coordinates = first + 1 if storing else first + 2
    x, y = int64(int32(U[coordinates])), int64(int32(U[coordinates + 1]))
    where, known = block_of(m, warp, pc, lanes, place)
    offset = place & OFFSET
    if not known or not inside(m, warp, pc, lanes, offset, size, int64(BOX_ALIGNMENT)):
        return
    if storing:
        orders.asynchronous_read(m, warp, pc, offset, size, BULKS)
        box(m, where, address, x, y, offset, True)
        return
    telling = int64(U[first + 1]) & OFFSET
    if not inside(m, warp, pc, lanes, telling, int64(8), int64(8)):
        return
    ranks = int64(1) << view.own(where)[RANK]
    if row[BANK] >= 0:  # multicast
        ranks = receivers(m, warp, pc, int64(U[row[BANK]] >> uint32(16)), offset)
    deliver(m, warp, pc, ranks, offset, size, telling, address, x, y, True)


@njit
def bytes_copy(m, warp, pc, row, mask):
    """UBLKCP between global and shared memory: a run of bytes."""
    U = view.uniforms(m)[warp]
    first, second = row[A_UREG], row[G_UREG]
    lanes = mask & -mask
    counted = U[row[SUB]]
    size = int64(counted & uint32(0xFFFF)) << 4
    incoming = row[OP] == Y_BYTES_IN
    outside = int64(joined(U[second + 1], U[second]))
    if not incoming:
        outside = int64(joined(U[first + 1], U[first]))
    place = int64(U[first] if incoming else U[second])
    where, known = block_of(m, warp, pc, lanes, place)
    offset = place & OFFSET
    if not known or not inside(m, warp, pc, lanes, offset, size, int64(PIECE)):
        return
    found = size == 0
    for index in range(len(view.ranges(m))):
        low, high = view.ranges(m)[index, 0], view.ranges(m)[index, 1]
        found = found or (outside >= low and outside + size <= high)
    if not found or outside & (PIECE - 1):
        kind = int64(BAD_SIZE) if found else int64(OUTSIDE_GLOBAL)
        fault(m, kind, int64(pc), int64(warp), lanes, outside, size, int64(1))
        return
    if not incoming:
        orders.asynchronous_read(m, warp, pc, offset, size, BULKS)
        origin = outside - view.origin(m)[0]
        move_piece(view.memory(m), origin, view.shared(m), offset, size)
        return
    telling = int64(U[first + 1]) & OFFSET
    if not inside(m, warp, pc, lanes, telling, int64(8), int64(8)):
        return
    ranks = int64(1) << view.own(where)[RANK]
    if row[BANK] >= 0:
        ranks = receivers(m, warp, pc, int64(counted >> uint32(16)), offset)
    deliver(m, warp, pc, ranks, offset, size, telling, outside, int64(0), int64(0), False)


@njit
def bulk(m, warp, pc, mask):
    """Bulk copies, their groups, and the fence between the proxies: once for a warp."""
    row = view.code(m)[pc]
    op = row[OP]
    if op == Y_FENCE:
        orders.fence(m, warp)
    elif op == Y_COMMIT:
        orders.commit(m, warp, BULKS)
    elif op == Y_LOAD or op == Y_STORE:
        tensor_copy(m, warp, pc, row, mask)
    elif op == Y_BYTES_IN or op == Y_BYTES_OUT:
        bytes_copy(m, warp, pc, row, mask)
