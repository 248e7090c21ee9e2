"""f16 and bf16 arithmetic, two values in a register, 32 lanes at once.
A product of halves, and its sum with a third, keep enough bits that one rounding remains, as in the
hardware. `integer` gives the layout of ``T``."""

import numpy as np
from numpy import float32, float64, int32, uint32, uint64

from tilewave.basics.bits import as_f32, as_f64, bits_f32, bits_f64, narrow_f16, widen_f16
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import floating as ops
from tilewave.execution.machine.floating import better, canonical, decided
from tilewave.execution.machine.integer import combined

LOW = uint32(0xFFFF)
NAN16 = uint32(0x7FFF)
STICKY = uint64((1 << 29) - 1)


@njit(inline="always")
def widen(bits, bf16):
    """Convert a half's pattern to f32."""
    return as_f32(bits << uint32(16)) if bf16 else widen_f16(bits)


@njit
def odd(total, rest):
    """Round total + rest to odd, so that a later rounding sees the rest."""
    bits = bits_f64(total)
    if rest != 0.0 and total - total == 0.0 and not bits & uint64(1):
        bits = bits + uint64(1) if (rest > 0.0) == (total > 0.0) else bits - uint64(1)
    return as_f64(bits)


@njit
def narrow64_f16(value):
    """Round an f64 to the nearest f16 pattern."""
    bits = bits_f64(value)
    if bits & STICKY:
        bits = (bits & ~STICKY) | (STICKY + uint64(1))
    return narrow_f16(float32(as_f64(bits)))


@njit
def narrow64_bf16(value):
    """Round an f64 to the nearest bf16 pattern, denormals kept."""
    if value - value != 0.0:
        return bits_f32(float32(value)) >> uint32(16) if value == value else NAN16
    exponent = int32((bits_f64(value) >> uint64(52)) & uint64(0x7FF)) - int32(1023)
    exponent = max(exponent, int32(-126)) - int32(7)
    unit = as_f64(uint64(exponent + int32(1023)) << uint64(52))
    rounded = np.rint(value / unit) * unit
    return bits_f32(float32(rounded)) >> uint32(16)


@njit
def finished(bits, flags):
    """Apply NaN, FTZ, SAT and RELU to a result's pattern."""
    top = uint32(0x7F80) if flags & c.BF16 else uint32(0x7C00)
    unity = uint32(0x3F80) if flags & c.BF16 else uint32(0x3C00)
    nan = bits & uint32(0x7FFF) > top
    if nan:
        bits = NAN16
    if flags & c.FTZ and bits & top == uint32(0):
        bits &= uint32(0x8000)
    if flags & c.SATURATE:
        if nan or bits & uint32(0x8000):
            bits = uint32(0)
        elif bits > unity:
            bits = unity
    if flags & c.RELU and not nan and bits & uint32(0x8000):
        bits = uint32(0)
    return bits


@njit(inline="always")
def _part(word, half, flags):
    bits = (word >> uint32(16 * half)) & LOW
    if flags & c.FTZ:
        top = uint32(0x7F80) if flags & c.BF16 else uint32(0x7C00)
        if bits & top == uint32(0):
            bits &= uint32(0x8000)
    return bits


@njit
def _arithmetic(op, flags, T):
    bf16 = flags & c.BF16 != 0
    for lane in range(32):
        word = uint32(0)
        for half in range(2):
            x = float64(widen(_part(T[0, lane], half, flags), bf16))
            y = float64(widen(_part(T[1, lane], half, flags), bf16))
            z = float64(widen(_part(T[2, lane], half, flags), bf16))
            if op == ops.F_MUL:
                total, rest = x * y, float64(0)
            else:
                first, second = (x, y) if op == ops.F_ADD else (x * y, z)
                total = first + second
                part = total - first
                rest = (first - (total - part)) + (second - part)
            value = odd(total, rest)
            bits = narrow64_bf16(value) if bf16 else narrow64_f16(value)
            word |= finished(bits, flags) << uint32(16 * half)
        T[8, lane] = word


@njit
def _minmax(flags, T, p0, three):
    infinity = uint32(0x7F800000) if flags & c.BF16 else uint32(0x7C000000)
    size = uint32(0x7FFF7FFF) if flags & c.SIGN_PRODUCT else uint32(0xFFFFFFFF)
    for lane in range(32):
        on = (p0 >> uint32(lane)) & uint32(1) != uint32(0)
        word = uint32(0)
        for half in range(2):
            best = _part(T[0, lane] & size, half, flags) << uint32(16)
            for index in range(1, 3 if three else 2):
                other = _part(T[index, lane] & size, half, flags) << uint32(16)
                best = better(best, other, on, flags & c.NAN_ABS != 0, infinity)
            best >>= uint32(16)
            if flags & c.SIGN_PRODUCT and best <= infinity >> uint32(16):
                best |= ((T[0, lane] ^ T[1, lane]) >> uint32(16 * half)) & uint32(0x8000)
            word |= best << uint32(16 * half)
        T[8, lane] = word


@njit
def _compare(op, flags, T, half):
    bf16 = flags & c.BF16 != 0
    less = uint32(0)
    equal = uint32(0)
    unordered = uint32(0)
    for lane in range(32):
        x = widen(_part(T[0, lane], half, flags), bf16)
        y = widen(_part(T[1, lane], half, flags), bf16)
        less |= uint32(x < y) << uint32(lane)
        equal |= uint32(x == y) << uint32(lane)
        unordered |= uint32(x != x or y != y) << uint32(lane)
    return decided(op, less, equal, unordered)


@njit
def half(op, sub, flags, T, p0, p1):
    """Execute one f16 or bf16 instruction; returns its predicates."""
    if op == ops.F_WIDEN:
        bf16 = flags & c.BF16 != 0
        for lane in range(32):
            x, y = widen(T[0, lane] & LOW, bf16), widen(T[1, lane] & LOW, bf16)
            T[8, lane] = canonical(bits_f32(x + y))
    elif op == ops.F_COMPARE:
        low, high = _compare(sub, flags, T, 0), _compare(sub, flags, T, 1)
        if flags & c.HIGH:  # H_AND: both halves together
            return combined(flags, low & high, ~(low & high), p0)
        first, _ = combined(flags, low, ~low, p0)
        second, _ = combined(flags, high, ~high, p0)
        return first, second
    elif op == ops.F_SET:
        low, high = _compare(sub, flags, T, 0), _compare(sub, flags, T, 1)
        low, _ = combined(flags, low, ~low, p0)
        high, _ = combined(flags, high, ~high, p0)
        true = LOW
        if flags & c.TO_F32:
            true = uint32(0x3F80) if flags & c.BF16 else uint32(0x3C00)
        for lane in range(32):
            word = true if (low >> uint32(lane)) & uint32(1) else uint32(0)
            if (high >> uint32(lane)) & uint32(1):
                word |= true << uint32(16)
            T[8, lane] = word
    elif op == ops.F_MINMAX or op == ops.F_MINMAX3:
        _minmax(flags, T, p0, op == ops.F_MINMAX3)
    else:
        _arithmetic(op, flags, T)
    return uint32(0), uint32(0)
