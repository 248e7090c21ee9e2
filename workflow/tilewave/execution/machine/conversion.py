"""Conversions between numbers, 32 lanes at once. Layout of ``T`` as in `tilewave.execution.machine.integer`."""

import numpy as np
from numpy import float32, float64, int32, int64, uint32, uint64

from tilewave.basics.bits import as_f32, as_f64, bits_f32, bits_f64, narrow_f16, widen_f16
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import floating
from tilewave.execution.machine.families import conversion as ops
from tilewave.execution.machine.halves import NAN16, narrow64_bf16, narrow64_f16, odd
from tilewave.execution.machine.integer import joined, put64

TWO63 = float64(9223372036854775808.0)
# Of each integer type: bits, and whether it has a sign.
WIDTHS, SIGNED = np.zeros((2, c.U4 + 1), np.int64)
for _kinds, _width in (
    ((c.U64, c.S64), 64), ((c.U32, c.S32), 32), ((c.U16, c.S16), 16), ((c.U8, c.S8), 8), ((c.U4, c.S4), 4),
):  # fmt: skip
    WIDTHS[list(_kinds)], SIGNED[_kinds[1]] = _width, 1


@njit
def narrowed(bits, mode, to):
    """Round the pattern of an f32 to a half, in any direction."""
    value = as_f32(bits)
    if value != value:
        return NAN16
    near = narrow64_bf16(float64(value)) if to == c.T_BF16 else narrow_f16(value)
    if mode == c.NEAREST:
        return near
    back = as_f32(near << uint32(16)) if to == c.T_BF16 else widen_f16(near)
    if value - value != float32(0):
        return near
    down = mode == c.DOWN or (mode == c.ZERO and value > 0)
    if back <= value if down else back >= value:
        return near
    if near & uint32(0x7FFF) == uint32(0):
        return uint32(0x8001) if down else uint32(1)
    return near + uint32(1) if (near & uint32(0x8000) != 0) == down else near - uint32(1)


@njit
def _read(T, row, lane, origin):
    """Read a float source as f64."""
    if origin == c.T_F64:
        return as_f64(joined(T[4 + row, lane], T[row, lane]))
    if origin == c.T_F16:
        return float64(widen_f16(T[row, lane] & uint32(0xFFFF)))
    if origin == c.T_BF16:
        return float64(as_f32(T[row, lane] << uint32(16)))
    return float64(as_f32(T[row, lane]))


@njit
def _write(T, lane, value, rest, to, origin, mode):
    """Write value + rest as a float of type ``to``."""
    if to == c.T_F64:
        bits = bits_f64(value)
        if value != value:
            bits |= floating.QUIET64
        put64(T, lane, bits)
        return
    near = bits_f32(float32(value))
    if mode != c.NEAREST and value - value == 0.0 and value + rest != 0.0:
        near = floating.directed32(value, rest, near, mode)
    if value != value and origin == c.T_F64:
        # The NaN of a double keeps the upper bits of its payload.
        bits = bits_f64(value) | floating.QUIET64
        sign = uint32(bits >> uint64(63))
        if to == c.T_F32:
            T[8, lane] = (
                sign << uint32(31) | floating.EXPONENT | uint32(bits << uint64(12) >> uint64(41))
            )
        elif to == c.T_F16:
            T[8, lane] = (
                sign << uint32(15) | uint32(0x7C00) | uint32(bits << uint64(12) >> uint64(54))
            )
        else:
            T[8, lane] = NAN16
    elif to == c.T_F32:
        T[8, lane] = floating.canonical(near)
    elif value != value:
        T[8, lane] = NAN16
    elif mode == c.NEAREST:
        T[8, lane] = narrow64_bf16(value) if to == c.T_BF16 else narrow64_f16(value)
    else:
        T[8, lane] = narrowed(near, mode, to)


@njit
def rounded(value, mode):
    """Round an f64 to an integer, as f64."""
    if mode == c.DOWN:
        return np.floor(value)
    if mode == c.UP:
        return np.ceil(value)
    if mode == c.ZERO:
        return np.trunc(value)
    return np.rint(value)


@njit
def _limits(kind):
    """Return the smallest and largest value of an integer type narrower than 64 bits."""
    end = int64(1) << WIDTHS[kind]
    return (-end >> 1, (end >> 1) - 1) if SIGNED[kind] else (int64(0), end - 1)


@njit
def _to_integer(value, to, origin):
    """Convert with saturation; the result for NaN depends on the types (measured on an H200)."""
    if value != value:
        top = uint64(1) << uint64(WIDTHS[to] - 1)
        return top if WIDTHS[to] == 64 or origin == c.T_F64 else uint64(0)
    if to == c.U64:
        if value <= 0:
            return uint64(0)
        if value >= 2 * TWO63:
            return ~uint64(0)
        if value >= TWO63:
            return uint64(int64(value - TWO63)) + (uint64(1) << uint64(63))
        return uint64(int64(value))
    if to == c.S64:
        if value >= TWO63:
            return (uint64(1) << uint64(63)) - uint64(1)
        if value < -TWO63:
            return uint64(1) << uint64(63)
        return uint64(int64(value))
    low, high = _limits(to)
    if value <= float64(low):
        return uint64(low)
    if value >= float64(high):
        return uint64(high)
    return uint64(int64(value))


@njit
def _integer_source(T, lane, kind):
    """Read an integer source as int64; U64 above int64 wraps to negative numbers."""
    if kind == c.U64 or kind == c.S64:
        return int64(joined(T[4, lane], T[0, lane]))
    unused = uint32(32 - WIDTHS[kind])
    low = uint32(T[0, lane] << unused)
    return int64(int32(low) >> int32(unused)) if SIGNED[kind] else int64(low >> unused)


@njit
def _to_fp8(value, to):
    """Round to the nearest fp8; saturate at its largest number."""
    if value != value:
        return uint32(0x7F)
    digits, least = (3, -6) if to == c.T_E4M3 else (2, -14)
    top = 448.0 if to == c.T_E4M3 else 57344.0
    sign = uint32(0x80) if bits_f64(value) >> uint64(63) else uint32(0)
    size = abs(value)
    if size >= top:
        return sign | (uint32(0x7E) if to == c.T_E4M3 else uint32(0x7B))
    exponent = int64(bits_f64(size) >> uint64(52)) - int64(1023)
    exponent = max(exponent, int64(least))
    unit = as_f64(uint64(exponent - int64(digits) + int64(1023)) << uint64(52))
    # The mantissa in units, with the exponent above it: a carry enters the exponent.
    steps = int64(np.rint(size / unit)) + ((exponent - int64(least)) << int64(digits))
    return sign | uint32(steps)


@njit
def _from_fp8(byte, origin):
    """Convert an fp8 to a pattern of f16."""
    sign = (byte & uint32(0x80)) << uint32(8)
    if origin == c.T_E5M2:
        bits = byte << uint32(8)
        return NAN16 if bits & uint32(0x7FFF) > uint32(0x7C00) else bits
    size = byte & uint32(0x7F)
    if size == uint32(0x7F):
        return NAN16
    # An f16 whose exponent is 8 too small; the multiplication corrects it.
    return sign | narrow_f16(widen_f16(size << uint32(7)) * float32(256))


@njit
def _narrow_kinds(op, mode, to, origin, flags, T):
    """Execute conversions to TF32, and to and from fp8."""
    for lane in range(32):
        word = T[0, lane]
        if op == ops.C_TF32:
            word = floating.flushed(word) if flags & c.FTZ else word
            if word & floating.EXPONENT == floating.EXPONENT:
                word = floating.canonical(word) & uint32(0xFFFFE000)
            elif mode == c.ZERO:
                word &= uint32(0xFFFFE000)
            else:
                word = (word + uint32(0xFFF) + ((word >> uint32(13)) & uint32(1))) & uint32(
                    0xFFFFE000
                )
            if flags & c.RELU and word & uint32(0x80000000):
                word = uint32(0)
            T[8, lane] = word
            continue
        packed = uint32(0)
        for part in range(2):
            if op == ops.C_FROM_FP8:
                bits = _from_fp8((word >> uint32(8 * part)) & uint32(255), origin)
                if flags & c.RELU and bits != NAN16 and bits & uint32(0x8000):
                    bits = uint32(0)
                packed |= bits << uint32(16 * part)
                continue
            if origin == c.T_F16:
                value = float64(widen_f16((word >> uint32(16 * part)) & uint32(0xFFFF)))
            else:
                bits = T[1 - part, lane]
                value = float64(as_f32(floating.flushed(bits) if flags & c.FTZ else bits))
            bits = _to_fp8(value, to)
            if flags & c.RELU and bits & uint32(0x80):
                bits = uint32(0)
            packed |= bits << uint32(8 * part)
        if op == ops.C_TO_FP8:  # another pair follows this one
            packed |= T[1 if origin == c.T_F16 else 2, lane] << uint32(16)
        T[8, lane] = packed


@njit
def convert(op, sub, flags, T):
    to, origin, mode = sub & 255, (sub >> 8) & 255, sub >> 16
    if op == ops.C_TF32 or op == ops.C_TO_FP8 or op == ops.C_FROM_FP8:
        _narrow_kinds(op, mode, to, origin, flags, T)
        return
    if op == ops.C_PACK:
        for lane in range(32):
            word = uint32(0)
            for part in range(2):
                bits = narrowed(floating.canonical(T[1 - part, lane]), mode, to)
                if flags & c.RELU and bits != NAN16 and bits & uint32(0x8000):
                    bits = uint32(0)
                word |= bits << uint32(16 * part)
            T[8, lane] = word
        return
    for lane in range(32):
        if op == ops.C_F2F or op == ops.C_ROUND or op == ops.C_F2I:
            value = _read(T, 0, lane, origin)
            if flags & c.FTZ and origin == c.T_F32:
                value = float64(as_f32(floating.flushed(T[0, lane])))
            if op == ops.C_F2I:
                result = _to_integer(rounded(value, mode), to, origin)
                put64(T, lane, result)
                continue
            if op == ops.C_ROUND:
                value = rounded(value, mode) if value - value == 0.0 else value
                _write(T, lane, value, 0.0, to, origin, c.NEAREST)
                continue
            _write(T, lane, value, 0.0, to, origin, mode)
            if flags & c.FTZ and to == c.T_F32:
                T[8, lane] = floating.flushed(T[8, lane])
            if flags & c.SATURATE and to == c.T_F32:
                single = as_f32(T[8, lane])
                if not single > float32(0):
                    T[8, lane] = uint32(0)
                elif single > float32(1):
                    T[8, lane] = floating.ONE
        elif op == ops.C_I2F:
            number = _integer_source(T, lane, origin)
            value = float64(uint64(number)) if origin == c.U64 else float64(number)
            # A float64 of 2^62 or more is a multiple of 512.
            whole = int64(value) if abs(value) < TWO63 / 2 else int64(value / 4) << 2
            rest = float64(int64(uint64(number) - uint64(whole)))
            if mode == c.NEAREST and to == c.T_F32:
                value = odd(value, rest)  # f64 alone would round twice
            if to == c.T_F64 and mode != c.NEAREST and rest != 0.0:
                down = mode == c.DOWN or (mode == c.ZERO and value > 0)
                if down == (rest < 0):
                    value = np.nextafter(value, -np.inf if down else np.inf)
            _write(T, lane, value, rest, to, origin, mode)
        elif op == ops.C_I2I:
            low, high = _limits(to)
            number = _integer_source(T, lane, origin)
            if flags & c.SATURATE:
                number = min(max(number, low), high)
            T[8, lane] = uint32(number)
        elif op == ops.C_PACK_INT:
            low, high = _limits(to)
            word = uint32(0)
            width = uint32(8) if to == c.S8 or to == c.U8 else uint32(16)
            if to == c.S4 or to == c.U4:
                width = uint32(4)
            for part in range(2):
                source = T[1 - part, lane]
                number = int64(int32(source)) if origin == c.S32 else int64(source)
                if origin == c.T_F32:
                    value = as_f32(floating.flushed(source) if flags & c.FTZ else source)
                    number = int64(_to_integer(rounded(float64(value), mode), to, origin))
                number = min(max(number, low), high)
                word |= (uint32(number) & ((uint32(1) << width) - uint32(1))) << (
                    width * uint32(part)
                )
            if width < uint32(16):
                word |= T[2, lane] << (width * uint32(2))
            T[8, lane] = word
