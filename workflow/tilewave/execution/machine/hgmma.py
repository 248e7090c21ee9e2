"""Products of a warpgroup: each of its four warps computes its 16 rows.

Descriptors give the layout of matrices in shared memory (PTX ISA, "wgmma", matrix descriptor and strides): rows of the
depth, in 16-byte pieces of eight rows, or rows of the width with the other major order (``.tnsp``). An instruction's
operands go into fragments. Eight columns at a time are one product of a warp (`tensor`), with the same rounding. All of
the depth is added in one step, as P. Xie et al. (see there) say of both.

A product completes when it is issued, and its reads last until its group is waited for.
"""

from numpy import int32, int64, uint32, uint64

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import orders
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import tensor as ops
from tilewave.execution.machine.fp8 import fp8_product
from tilewave.execution.machine.imma import imma
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.tensor import hmma
from tilewave.execution.machine.validity import fault

PIECE = 16  # contiguous bytes: a core matrix has eight pieces
A_AT, B_AT = s.FRAGMENTS, s.FRAGMENTS + 4
RZ = 255
WIDTHS = (0, 128, 64, 32)  # of the swizzle, by the two highest bits of a descriptor


@njit
def places(descriptor, group, transposed, out):
    """Fill the addresses of the 16 pieces, 16 bytes each, of eight rows of A (or columns of B).
    With a contiguous depth, the two pieces of a row follow each other. Otherwise all eight rows of
    a piece of the depth follow each other."""
    start = int64(descriptor & uint64(0x3FFF)) << 4
    leading = int64((descriptor >> uint64(16)) & uint64(0x3FFF)) << 4
    stride = int64((descriptor >> uint64(32)) & uint64(0x3FFF)) << 4
    width = WIDTHS[int64(descriptor >> uint64(62))]
    mask = max(width // PIECE - 1, 0)  # bits that a swizzle changes
    if transposed:
        further, row = stride, width
        if width:
            together = width // PIECE
            start += group // together * leading + group % together * PIECE
        else:
            start += group * stride
            further, row = leading, PIECE
        for index in range(16):
            at = start + (index & 7) * row + (index >> 3) * further
            out[index] = at ^ ((at >> 7) & mask) << 4
        return
    start += group * stride
    row, further = width, int64(PIECE)
    if not width:
        row, further = PIECE, leading
    for index in range(16):
        at = start + (index >> 1) * row + (index & 1) * further
        out[index] = at ^ ((at >> 7) & mask) << 4


@njit
def note(m, warp, pc, out):
    """Note that a warp's products read these pieces; an unordered read is a fault."""
    control, shadow = view.control(m), view.shadow(m)
    reads = view.reads(m)[control[s.WARPS] * (1 + s.MATRICES) + warp]
    now, grain = uint32(control[s.TICK]), control[s.GRAIN]
    units = PIECE >> grain
    first = shadow[uint64(out[0] >> grain)]
    different = uint32(0)
    for index in range(16):
        unit = uint64(out[index] >> grain)
        for part in range(units):
            different |= shadow[unit + uint64(part)] ^ first
            reads[unit + uint64(part)] = now
    orders.check(m, warp, m, int64(0), pc, int64(out[0] >> grain), first, True)
    if different:
        for index in range(16):
            for part in range(units):
                unit = (out[index] >> grain) + part
                orders.check(m, warp, m, int64(0), pc, unit, shadow[unit], True)


@njit
def gather(m, warp, pc, descriptor, group, transposed, flip, low, high):
    """Load eight rows (or columns) of one instruction's depth, 32 bytes, as two fragments.
    Returns whether they are in the block's shared memory; notes a fault if not."""
    control, shared = view.control(m), view.shared(m)
    out = view.addresses(m)[0]
    places(descriptor, group, transposed, out)
    least, most = out[0], out[0]
    for index in range(16):
        least, most = min(least, out[index]), max(most, out[index])
    if least < control[s.SHARED_BASE] or most + PIECE > control[s.SHARED_END]:
        wrong = least if least < control[s.SHARED_BASE] else most
        fault(m, s.OUTSIDE_SHARED, pc, warp, 0xFFFFFFFF, wrong, PIECE, 1)
        return False
    if control[s.RACES]:
        note(m, warp, pc, out)
    if not transposed:
        for row in range(8):
            first, second = uint64(out[2 * row] >> 2), uint64(out[2 * row + 1] >> 2)
            for t in range(4):
                low[4 * row + t] = shared[first + uint64(t)] ^ flip
                high[4 * row + t] = shared[second + uint64(t)] ^ flip
        return True
    for t in range(4):
        turned(shared, out[2 * t] >> 2, out[2 * t + 1] >> 2, t, flip, low)
        turned(shared, out[8 + 2 * t] >> 2, out[9 + 2 * t] >> 2, t, flip, high)
    return True


@njit
def turned(shared, even, odd, t, flip, fragment):
    """Transpose two neighbours of the depth, eight rows each, to the t-th words of a fragment."""
    for pair in range(4):
        first, second = shared[uint64(even + pair)], shared[uint64(odd + pair)]
        low = (first & uint32(0xFFFF)) | second << uint32(16)
        fragment[8 * pair + t] = low ^ flip
        fragment[8 * pair + 4 + t] = (first >> uint32(16) | (second & uint32(0xFFFF0000))) ^ flip


@njit
def well_formed(m, warp, pc, descriptor):
    """Return whether a descriptor is supported; note a fault if not."""
    base = int64(descriptor >> uint64(49)) & 7
    if base == 0:
        return True
    fault(m, s.BAD_MATRIX, pc, warp, 0xFFFFFFFF, -1, base, 1)
    return False


@njit
def wait(m, warp, pending):
    """Wait for all but the latest ``pending`` groups of products.
    The groups belong to the warpgroup: after one warp's wait, its other three have issued them too,
    and their reads are over. Programs rely on it: one thread of a warpgroup releases a stage for all."""
    control, outstanding = view.control(m), view.outstanding(m)
    wanted = outstanding[warp, s.MATRICES, 0] - pending
    first, end = warp & ~int64(3), min((warp | 3) + 1, control[s.WARPS])
    for other in range(first, end):
        if view.live(m)[other] and outstanding[other, s.MATRICES, 0] < wanted:
            control[s.PARKED] = s.AT_PRODUCTS
            control[s.PARKED_FOR] = wanted
            return
    for other in range(first, end):
        orders.settle(m, warp, other, wanted)


@njit
def hgmma(m, warp, pc, mask):
    """Execute HGMMA, IGMMA, QGMMA, and the wait for their groups."""
    row = view.code(m)[pc]
    op, flags = row[c.OP], row[c.FLAGS]
    if op == ops.G_WAIT:
        wait(m, warp, int64(row[c.SUB]))
        return
    R, U = view.registers(m)[warp], view.uniforms(m)[warp]
    P = view.predicates(m)[warp]
    first = row[c.A_UREG]
    of_b = joined(U[first + 3], U[first + 2])
    if not well_formed(m, warp, pc, of_b):
        return
    sub = row[c.SUB]
    wide = (sub >> 16) & 1
    sign = uint32(0x80008000)
    if op == ops.G_MULTIPLY_FP8:
        sign = uint32(0x80808080)
    elif (sub >> 8) & 255 == c.T_TF32:
        sign = uint32(0x80000000)
    at = c.SOURCES + c.SOURCE_COLUMNS
    a = int64(A_AT)
    if row[at + c.KIND] == c.REGISTER:
        a = int64(row[at + c.INDEX])
    else:
        of_a = joined(U[first + 1], U[first])
        if not well_formed(m, warp, pc, of_a):
            return
        flip = sign if flags & c.NEG0 else uint32(0)
        for half in range(2):
            group = 2 * (warp & 3) + half
            low, high = R[A_AT + half], R[A_AT + 2 + half]
            if not gather(m, warp, pc, of_a, group, flags & c.INV0 != 0, flip, low, high):
                return
    scale = P[row[c.PIN0]]
    if row[c.PIN0_NOT]:
        scale = ~scale
    z, d = int64(row[c.SOURCES + c.INDEX]), int64(row[c.DST])
    if not scale & mask:
        z = int64(RZ)
    flip = sign if flags & c.NEG1 else uint32(0)
    words = 4 if wide or op == ops.G_MULTIPLY_BYTES else 2
    view.last_read(m)[view.control(m)[s.WARPS] * (1 + s.MATRICES) + warp] = uint32(
        view.control(m)[s.TICK]
    )
    for group in range(row[c.WIDTH] // 8):
        low, high = R[B_AT], R[B_AT + 1]
        if not gather(m, warp, pc, of_b, int64(group), flags & c.INV1 != 0, flip, low, high):
            return
        before = z if z == RZ else z + words * group
        if op == ops.G_MULTIPLY_BYTES:
            imma(sub, int32(0), R, d + words * group, a, int64(B_AT), before)
        elif op == ops.G_MULTIPLY_FP8:
            fp8_product(sub, R, d + words * group, a, int64(B_AT), before)
        else:
            hmma(sub, flags, R, d + words * group, a, int64(B_AT), before)
    if warp & 3 == 0:
        # ncu attributes to the four warps the lines of B, and of A if it is in shared memory. This fits the totals of
        # cuBLAS' kernels on an H200: 64x128 and 64x256 of f16 and bf16, and 64x256 of tf32 with A in registers.
        lines = int64(row[c.WIDTH] // 4)
        if a == A_AT:
            lines += 16
        view.counts(m)[pc, s.SHARED_ATTRIBUTED] += lines
        view.counts(m)[pc, s.SHARED_IDEAL] += lines
    if flags & c.HIGH:
        orders.commit(m, warp, s.MATRICES)
        for other in range(warp & ~int64(3), min((warp | 3) + 1, view.control(m)[s.WARPS])):
            groups = view.groups(m)[other]
            for slot in range(s.SLOTS):
                if groups[slot, 2] == s.AT_PRODUCTS:
                    groups[slot, 2] = s.READY
