"""Words of local memory and of scratch buffers that were written, so that a read of others is found.
A store of part of a word counts as one of the whole word. Bulk copies may read unwritten words,
because boxes are read as a whole."""

from numpy import int64, uint8, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.validity import fault

GLOBALLY, LOCALLY = range(2)  # where an unwritten word lies
MARK = uint8(1)  # of a written word of global memory
MOST_EPOCHS = 255  # blocks that a mark of local memory can tell apart


@njit
def begin_block(m):
    """Forget the local memory of the block before: its marks are of another epoch."""
    block_control = view.block_control(m)
    block_control[s.EPOCH] += 1
    if block_control[s.EPOCH] > MOST_EPOCHS:
        view.fill(view.local_written(m), uint8(0))
        block_control[s.EPOCH] = 1


@njit
def mark(marks, at, size, epoch):
    """Mark the words of some bytes as written."""
    for word in range(at >> 2, (at + size + 3) >> 2):
        marks[word] = epoch


@njit
def lacks(marks, at, size, dead, epoch):
    """Return whether a word of some bytes is unwritten; bit i of ``dead``: word i does not matter."""
    unwritten = False
    for word in range(at >> 2, (at + size + 3) >> 2):
        unwritten |= marks[word] != epoch and not (dead >> (word - (at >> 2))) & 1
    return unwritten


@njit
def note_local(m, warp, pc, mask, addresses, size, loading):
    """Note an access of lanes to their local memory; a read of unwritten words is a fault."""
    epoch, dead = uint8(view.block_control(m)[s.EPOCH]), int64(view.code(m)[pc, c.DEAD])
    marks, lanes, first = view.local_written(m), uint32(0), int64(0)
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        if not loading:
            mark(marks[32 * warp + lane], addresses[lane], size, epoch)
        elif lacks(marks[32 * warp + lane], addresses[lane], size, dead, epoch):
            first = addresses[lane] if not lanes else first
            lanes |= uint32(1) << uint32(lane)
    if lanes:
        fault(m, s.UNWRITTEN, pc, warp, lanes, first, LOCALLY, 0)


@njit
def note_global(m, warp, pc, mask, addresses, size, reads, writes):
    """Note an access of lanes to global memory; a read of unwritten scratch is a fault."""
    marks, start, dead = view.written(m), view.origin(m)[0], int64(view.code(m)[pc, c.DEAD])
    lanes, first = uint32(0), int64(0)
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        if reads and lacks(marks, addresses[lane] - start, size, dead, MARK):
            first = addresses[lane] if not lanes else first
            lanes |= uint32(1) << uint32(lane)
        if writes:
            mark(marks, addresses[lane] - start, size, MARK)
    if lanes:
        fault(m, s.UNWRITTEN, pc, warp, lanes, first, GLOBALLY, 0)
