"""f32 and f64 arithmetic, 32 lanes at once: fused where the instruction fuses.
Layout of ``T`` as in `tilewave.execution.machine.integer`. A NaN result is the canonical one of the GPU,
0x7fffffff (f32) or 0xfff8000000000000 (f64): measured on an H200."""

import math

import numpy as np
from numpy import float32, float64, int32, uint32, uint64

from tilewave.basics.bits import as_f32, as_f64, bits_f32, bits_f64, fma_f32, fma_f64
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import floating as ops
from tilewave.execution.machine.integer import combined, joined, put64

ALL = uint32(0xFFFFFFFF)
SIGN = uint32(0x80000000)
EXPONENT = uint32(0x7F800000)
NAN32 = uint32(0x7FFFFFFF)
NAN_HIGH = uint32(0x7FF00000)
NAN64 = uint64(0xFFF8000000000000)
SIGN64 = uint64(1 << 63)
INFINITY64 = uint64(0x7FF0000000000000)
QUIET64 = uint64(0x0008000000000000)
ONE = uint32(0x3F800000)
LEAST = uint32(0x00800000)


@njit(inline="always")
def flushed(bits):
    """Flush a denormal to a zero of its sign."""
    return bits & SIGN if bits & EXPONENT == uint32(0) else bits


@njit(inline="always")
def canonical(bits):
    """Replace any NaN by the one that the GPU makes."""
    return NAN32 if bits & uint32(0x7FFFFFFF) > EXPONENT else bits


@njit
def next32(bits, up):
    """Return the next f32 up or down; a call of `np.nextafter` takes as long as the rest of an instruction."""
    if bits & ~SIGN == uint32(0):
        return uint32(1) if up else SIGN | uint32(1)
    return bits + uint32(1) if (bits & SIGN == uint32(0)) == up else bits - uint32(1)


@njit
def directed32(total, rest, nearest, mode):
    """Round total + rest to an f32 pattern in a direction.
    total, rest: f64 whose exact sum is the value, |rest| at most half a unit of total's last
    place; nearest: the f32 pattern nearest to total."""
    value = float64(as_f32(nearest))
    above = value > total or (value == total and rest < 0)
    below = value < total or (value == total and rest > 0)
    positive = total > 0 or (total == 0 and rest > 0)
    if mode == c.DOWN or (mode == c.ZERO and positive):
        return next32(nearest, False) if above else nearest
    return next32(nearest, True) if below else nearest


@njit
def _directed(op, flags, mode, T):
    """Execute FADD, FMUL, FFMA with RZ, RM or RP."""
    for lane in range(32):
        a, b, d = T[0, lane], T[1, lane], T[2, lane]
        if flags & c.FTZ:
            a, b, d = flushed(a), flushed(b), flushed(d)
        x, y, z = float64(as_f32(a)), float64(as_f32(b)), float64(as_f32(d))
        if op == ops.F_ADD:
            first, second = x, y
        elif op == ops.F_MUL:
            first, second = x * y, float64(0)
        else:
            first, second = x * y, z
        if op == ops.F_MUL:
            total, rest = first, float64(0)
        else:
            total = first + second
            part = total - first
            rest = (first - (total - part)) + (second - part)
        bits = bits_f32(float32(total))
        if total - total == 0.0:  # finite
            if total == 0.0 and rest == 0.0 and op != ops.F_MUL:
                same = bits_f64(first) >> uint64(63) == bits_f64(second) >> uint64(63)
                if not same:
                    bits = SIGN if mode == c.DOWN else uint32(0)
            else:
                bits = directed32(total, rest, bits, mode)
        bits = canonical(bits)
        T[8, lane] = flushed(bits) if flags & c.FTZ else bits


@njit(inline="always")
def better(a, b, least, nan, infinity):
    """Return the smaller (or larger) of two patterns; nan: whether a single NaN gives NaN."""
    first_nan, second_nan = a & ~SIGN > infinity, b & ~SIGN > infinity
    # Minus zero is below plus zero.
    x = int32(a ^ ~SIGN) if a & SIGN else int32(a)
    y = int32(b ^ ~SIGN) if b & SIGN else int32(b)
    second = (y < x) == least and x != y
    if first_nan or second_nan:
        none = nan or (first_nan and second_nan)
        return NAN32 if none else (b if first_nan else a)
    return b if second else a


@njit
def _minmax(flags, T, p0, three):
    size = ~SIGN if flags & c.SIGN_PRODUCT else ALL
    for lane in range(32):
        on = (p0 >> uint32(lane)) & uint32(1) != uint32(0)
        best = T[0, lane] & size
        if flags & c.FTZ:
            best = flushed(best)
        for index in range(1, 3 if three else 2):
            other = T[index, lane] & size
            if flags & c.FTZ:
                other = flushed(other)
            best = better(best, other, on, flags & c.NAN_ABS != 0, EXPONENT)
        if flags & c.SIGN_PRODUCT and best <= EXPONENT:
            best |= (T[0, lane] ^ T[1, lane]) & SIGN
        T[8, lane] = best


@njit(inline="always")
def decided(op, less, equal, unordered):
    """Return the lanes for which a float comparison holds; op indexes codes.COMPARISONS."""
    greater = ~(less | equal | unordered)
    lanes = uint32(0)
    if op & 1:
        lanes |= less
    if op & 2:
        lanes |= equal
    if op & 4:
        lanes |= greater
    if op & 8:
        lanes |= unordered
    return lanes


@njit
def _compare(op, flags, T, pin):
    less = uint32(0)
    equal = uint32(0)
    unordered = uint32(0)
    for lane in range(32):
        a, b = T[0, lane], T[1, lane]
        if flags & c.FTZ:
            a, b = flushed(a), flushed(b)
        x, y = as_f32(a), as_f32(b)
        less |= uint32(x < y) << uint32(lane)
        equal |= uint32(x == y) << uint32(lane)
        unordered |= uint32(x != x or y != y) << uint32(lane)
    lanes = decided(op, less, equal, unordered)
    return combined(flags, lanes, ~lanes, pin)


@njit
def _check(T):
    """Return the lanes whose quotient a / b needs the slow path (FCHK).

    The fast path is right if the operands and all of its steps stay in the normal range; a zero would
    lose its sign. The hardware's exact limit was not measured: both paths give the same results but
    execute different numbers of instructions.
    """
    slow = uint32(0)
    for lane in range(32):
        a = int32((T[0, lane] >> uint32(23)) & uint32(255))
        b = int32((T[1, lane] >> uint32(23)) & uint32(255))
        outside = b == 0 or b >= 253 or a < 24 or a == 255 or a - b >= 126 or a - b <= -126
        slow |= uint32(outside) << uint32(lane)
    return slow


@njit
def single(op, sub, flags, T, p0, p1):
    """Execute one f32 instruction; returns its predicates."""
    if flags & c.PAIRS:
        _arithmetic(op, sub, flags, T)
        for lane in range(32):
            T[9, lane] = T[8, lane]
            for slot in range(3):
                T[slot, lane] = T[4 + slot, lane]
        _arithmetic(op, sub, flags, T)
        for lane in range(32):
            T[8, lane], T[9, lane] = T[9, lane], T[8, lane]
    elif op == ops.F_COMPARE:
        return _compare(sub, flags, T, p0)
    elif op == ops.F_CHECK:
        lanes = _check(T)
        return lanes, ~lanes
    elif op == ops.F_MINMAX or op == ops.F_MINMAX3:
        _minmax(flags, T, p0, op == ops.F_MINMAX3)
    elif op == ops.F_SET:
        lanes, _ = _compare(sub, flags, T, p0)
        true = ONE if flags & c.TO_F32 else uint32(0xFFFFFFFF)
        for lane in range(32):
            T[8, lane] = true if (lanes >> uint32(lane)) & uint32(1) else uint32(0)
    else:
        _arithmetic(op, sub, flags, T)
    return uint32(0), uint32(0)


@njit
def _flush_tiny(op, T):
    """Apply FTZ before rounding: what rounds up to the least normal number is flushed."""
    for lane in range(32):
        if T[8, lane] & ~SIGN != LEAST:
            continue
        x, y = float64(as_f32(flushed(T[0, lane]))), float64(as_f32(flushed(T[1, lane])))
        z = float64(as_f32(flushed(T[2, lane]))) if op == ops.F_FMA else 0.0
        product = x * y
        total = product + z
        part = total - product
        rest = (product - (total - part)) + (z - part)
        size = abs(total)
        if size < 2.0**-126 or (
            size == 2.0**-126 and rest != 0.0 and (rest < 0.0) == (total > 0.0)
        ):
            T[8, lane] &= SIGN


@njit
def _arithmetic(op, sub, flags, T):
    """Execute FADD, FMUL, FFMA."""
    if sub != c.NEAREST:
        _directed(op, flags, sub, T)
    else:
        if flags & c.FTZ:
            for row in range(3):
                for lane in range(32):
                    T[row, lane] = flushed(T[row, lane])
        if op == ops.F_ADD:
            for lane in range(32):
                T[8, lane] = canonical(bits_f32(as_f32(T[0, lane]) + as_f32(T[1, lane])))
        elif op == ops.F_MUL:
            for lane in range(32):
                T[8, lane] = canonical(bits_f32(as_f32(T[0, lane]) * as_f32(T[1, lane])))
        else:
            for lane in range(32):
                value = fma_f32(as_f32(T[0, lane]), as_f32(T[1, lane]), as_f32(T[2, lane]))
                T[8, lane] = canonical(bits_f32(value))
        if flags & c.FTZ:
            for lane in range(32):
                T[8, lane] = flushed(T[8, lane])
    if flags & c.FTZ and op != ops.F_ADD:
        _flush_tiny(op, T)
    if flags & c.SATURATE:
        for lane in range(32):
            value = as_f32(T[8, lane])
            # A NaN saturates to zero.
            if not value > float32(0):
                T[8, lane] = uint32(0)
            elif value > float32(1):
                T[8, lane] = ONE


# ---------------------------------------------------------------- f64


@njit(inline="always")
def _wide(T, row, lane):
    return as_f64(joined(T[4 + row, lane], T[row, lane]))


@njit
def _sign(flags, negate, positive, high, low):
    """Apply a source's sign; a NaN keeps its own."""
    keep = SIGN if flags & positive else uint32(0)
    flip = SIGN if flags & negate else uint32(0)
    for lane in range(32):
        word = high[lane]
        size = word & ~SIGN
        number = size < NAN_HIGH or (size == NAN_HIGH and low[lane] == uint32(0))
        high[lane] = (word & ~keep) ^ flip if number else word


@njit
def _nans(count, T):
    """Return the result of NaN sources: the last one, quieted. Without one, the GPU's own NaN."""
    for lane in range(32):
        if (T[9, lane] & ~SIGN) <= NAN_HIGH and not (
            (T[9, lane] & ~SIGN) == NAN_HIGH and T[8, lane] != uint32(0)
        ):
            continue
        bits = NAN64
        for row in range(count):
            word = joined(T[4 + row, lane], T[row, lane])
            if word & ~SIGN64 > INFINITY64:
                bits = word | QUIET64
        put64(T, lane, bits)


@njit
def _left_out(x, y, z, near):
    """Return the sign of x * y + z - near, for finite numbers; exact."""
    if x == 0.0 or y == 0.0:
        return z - near
    (first, ex), (second, ey), (third, ez) = math.frexp(x), math.frexp(y), math.frexp(z)
    top = ex + ey
    if z != 0.0:
        top = max(top, ez)
    # Scale by the larger term; a term far below it matters only by its sign.
    first = math.ldexp(first, max(ex + ey - top, -200))
    a = first * second
    b = fma_f64(first, second, -a)
    c = math.ldexp(third, max(ez - top, -200))
    d = math.ldexp(-near, -top)
    # Sums and their errors, until none overlap (Ogita, Rump and Oishi, "Accurate sum and dot product").
    for _ in range(4):
        total = a + b
        part = total - a
        a, b = (a - (total - part)) + (b - part), total
        total = b + c
        part = total - b
        b, c = (b - (total - part)) + (c - part), total
        total = c + d
        part = total - c
        c, d = (c - (total - part)) + (d - part), total
    if d != 0.0:
        return d
    if c != 0.0:
        return c
    return b if b != 0.0 else a


@njit
def directed64(op, mode, x, y, z):
    """Compute DADD, DMUL, DFMA with RZ, RM or RP: round to nearest, then correct the error."""
    if op == ops.F_ADD:
        near, z, y = x + y, y, 1.0
    elif op == ops.F_MUL:
        near, z = x * y, 0.0
    else:
        near = fma_f64(x, y, z)
    bits = bits_f64(near)
    finite = x - x == 0.0 and y - y == 0.0 and z - z == 0.0
    if not finite:
        return bits
    rest = -near if near - near != 0.0 else _left_out(x, y, z, near)
    if rest == 0.0:
        if near == 0.0 and op != ops.F_MUL:
            first = bits_f64(x) ^ bits_f64(y)
            if (first ^ bits_f64(z)) & SIGN64:
                return SIGN64 if mode == c.DOWN else uint64(0)
        return bits
    down = mode == c.DOWN
    if mode == c.ZERO:
        if near == 0.0:
            return bits
        down = near > 0.0
    if down:
        return bits_f64(np.nextafter(near, -np.inf)) if rest < 0 else bits
    return bits_f64(np.nextafter(near, np.inf)) if rest > 0 else bits


@njit
def _choose(least, T):
    """Return the lanes where the first source wins DSETP.MIN or .MAX, and where both are NaN."""
    chosen = uint32(0)
    neither = uint32(0)
    for lane in range(32):
        x, y = _wide(T, 0, lane), _wide(T, 1, lane)
        if x != x or y != y:
            first = y != y and x == x
            neither |= uint32(x != x and y != y) << uint32(lane)
        elif x == y:
            first = (T[4, lane] >> uint32(31) != uint32(0)) == least
        else:
            first = (x < y) == least
        chosen |= uint32(first) << uint32(lane)
    return chosen, neither


@njit
def double(op, sub, flags, T, p0, p1):
    """Execute one f64 instruction; returns its predicates."""
    if flags & (c.NEG0 | c.INV0):
        _sign(flags, c.NEG0, c.INV0, T[4], T[0])
    if flags & (c.NEG1 | c.INV1):
        _sign(flags, c.NEG1, c.INV1, T[5], T[1])
    if flags & (c.NEG2 | c.INV2):
        _sign(flags, c.NEG2, c.INV2, T[6], T[2])
    if op == ops.F_COMPARE:
        less = uint32(0)
        equal = uint32(0)
        unordered = uint32(0)
        for lane in range(32):
            x, y = _wide(T, 0, lane), _wide(T, 1, lane)
            less |= uint32(x < y) << uint32(lane)
            equal |= uint32(x == y) << uint32(lane)
            unordered |= uint32(x != x or y != y) << uint32(lane)
        lanes = decided(sub, less, equal, unordered)
        return combined(flags, lanes, ~lanes, p0)
    if op == ops.F_CHOOSE:
        return _choose(sub != 0, T)
    if op == ops.F_MINMAX:
        for lane in range(32):
            on = (p0 >> uint32(lane)) & uint32(1) != uint32(0)
            x, y = _wide(T, 0, lane), _wide(T, 1, lane)
            if x != x or y != y:
                first = x == x
            elif x == y:
                first = (T[4, lane] >> uint32(31) != uint32(0)) == on
            else:
                first = (x < y) == on
            put64(T, lane, bits_f64(x if first else y))
    elif sub != c.NEAREST:
        for lane in range(32):
            x, y, z = _wide(T, 0, lane), _wide(T, 1, lane), _wide(T, 2, lane)
            put64(T, lane, directed64(op, sub, x, y, z))
    elif op == ops.F_FMA:
        for lane in range(32):
            x, y, z = _wide(T, 0, lane), _wide(T, 1, lane), _wide(T, 2, lane)
            put64(T, lane, bits_f64(fma_f64(x, y, z)))
    elif op == ops.F_ADD:
        for lane in range(32):
            put64(T, lane, bits_f64(_wide(T, 0, lane) + _wide(T, 1, lane)))
    else:
        for lane in range(32):
            put64(T, lane, bits_f64(_wide(T, 0, lane) * _wide(T, 1, lane)))
    if _any_nan(T):
        _nans(3 if op == ops.F_FMA else 2, T)
    return uint32(0), uint32(0)


@njit
def _any_nan(T):
    worst = uint32(0)
    for lane in range(32):
        worst = max(worst, T[9, lane] & ~SIGN)
    return worst >= NAN_HIGH
