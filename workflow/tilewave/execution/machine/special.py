"""The special function unit (MUFU), 32 lanes at once, and special registers.

RCP, RSQ, SQRT, EX2 and LG2 of f32 are the hardware's to the last bit: see
`tilewave.execution.machine.coefficients`. The others are computed in f64 and rounded; from an H200's results
they differ by at most 1 in the last place (RCP64H, RSQ64H, of the upper word), 2^-20 (SIN, COS,
absolute) and 2^-15 (TANH, relative). Layout of ``T`` as in `tilewave.execution.machine.integer`.
"""

import math

import numpy as np
from numpy import float32, float64, int64, uint32, uint64

from tilewave.basics.bits import as_f32, as_f64, bits_f32, bits_f64, widen_f16
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import coefficients as table
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import special as ops
from tilewave.execution.machine.floating import EXPONENT, NAN32, ONE, SIGN, canonical, flushed
from tilewave.execution.machine.halves import NAN16, narrow64_bf16, narrow64_f16
from tilewave.execution.machine.integer import put64
from tilewave.execution.machine.registers import results

FIRST = int64(1 << 23)
CLOCKLO, TIMERLO = (c.SPECIAL_REGISTERS.index(name) for name in ("SR_CLOCKLO", "SR_GLOBALTIMERLO"))


@njit
def _sum(rows, row, x, drop):
    """Return C0 + C1 * x + C2 * square(x) of a row; the square without its columns below ``drop``."""
    square = int64(0)
    for i in range(17):
        if (x >> i) & 1:
            square += (((x >> (i + 1)) << (2 * i + 2)) | (int64(1) << (2 * i))) >> drop
    return rows[row, 0] + rows[row, 1] * x + rows[row, 2] * square


@njit
def _assembled(sign, field, digits):
    """Assemble a float of 24 digits; 2^24 carries into the exponent. Denormals become zeros."""
    word = (field << int64(23)) + digits - FIRST
    if word < FIRST:
        return sign
    if word >= int64(0x7F800000):
        return sign | EXPONENT
    return sign | uint32(word)


@njit
def _reciprocal(bits):
    size = bits & ~SIGN
    if size == uint32(0):
        return bits | EXPONENT
    if size == EXPONENT:
        return bits & SIGN
    row, x = int64((bits >> uint32(16)) & uint32(127)), int64(bits & uint32(0xFFFF))
    digits = _sum(table.RCP, row, x, int64(17)) >> int64(table.RCP_BITS)
    return _assembled(bits & SIGN, int64(253) - int64(size >> uint32(23)), digits)


@njit
def _root(bits, inverse):
    """Compute RSQ and SQRT: rows 0 to 63 for even exponents, 64 to 127 for odd ones."""
    if bits & ~SIGN == uint32(0):
        return bits | EXPONENT if inverse else bits
    if bits & SIGN:
        return NAN32
    if bits == EXPONENT:
        return uint32(0) if inverse else bits
    exponent = int64(bits >> uint32(23)) - int64(127)
    odd = exponent & int64(1)
    half = (exponent - odd) >> int64(1)
    row = int64((bits >> uint32(17)) & uint32(63)) + int64(64) * odd
    x = int64(bits & uint32(0x1FFFF))
    if not inverse:
        digits = _sum(table.SQRT, row, x, int64(19)) >> int64(table.SQRT_BITS)
        return _assembled(uint32(0), int64(127) + half, digits)
    digits = _sum(table.RSQ, row, x, int64(19)) >> int64(table.RSQ_BITS)
    if row == 0 and x == 0:
        digits = int64(1 << 24)
    return _assembled(uint32(0), int64(126) - half, digits)


@njit
def _power(bits):
    """Compute EX2: 23 binary digits of the fraction count."""
    value = float64(as_f32(bits))
    if value >= 128.0:
        return EXPONENT
    if value < -127.0:
        return uint32(0)
    fixed = int64(abs(value) * 8388608.0)
    if value < 0.0:
        # A negative fraction is the ones' complement of its digits.
        fixed = ~fixed if fixed & int64(0x7FFFFF) else -fixed
    row, x = (fixed >> int64(17)) & int64(63), fixed & int64(0x1FFFF)
    digits = _sum(table.EX2, row, x, int64(19)) >> int64(table.EX2_BITS)
    return _assembled(uint32(0), int64(127) + (fixed >> int64(23)), digits)


@njit
def _logarithm(bits):
    """Compute LG2: exponent and fraction in one fixed-point sum, cut to 24 digits."""
    if bits & ~SIGN == uint32(0):
        return SIGN | EXPONENT
    if bits & SIGN:
        return NAN32
    if bits == EXPONENT:
        return bits
    if bits == ONE:
        return uint32(0)
    row, x = int64((bits >> uint32(17)) & uint32(63)), int64(bits & uint32(0x1FFFF))
    total = (int64(bits >> uint32(23)) - int64(127)) << int64(table.LG2_BITS)
    total = (total + _sum(table.LG2, row, x, int64(19))) >> int64(2)
    # A negative sum is a ones' complement.
    size = total if total >= 0 else ~total
    cut = bits_f64(float64(size)) & ~uint64((1 << 29) - 1)
    result = float32(as_f64(cut) * 2.0**-36)
    return bits_f32(-result if total < 0 else result)


@njit
def _upper(op, bits):
    """Compute RCP64H and RSQ64H: the upper word of a double's."""
    if bits & uint32(0x7FF00000) == uint32(0):
        bits &= SIGN
    value = as_f64(uint64(bits) << uint64(32))
    if value == 0.0:
        result = math.copysign(np.inf, value)
    elif op == ops.M_RCP64H:
        result = 1.0 / value
    else:
        result = 1.0 / math.sqrt(value) if value > 0.0 else np.nan
    if result != result:
        return NAN32
    word = uint32(bits_f64(result) >> uint64(32))
    return word & SIGN if word & uint32(0x7FF00000) == uint32(0) else word


@njit
def _wave(op, x):
    """Compute SIN and COS of an argument in turns."""
    if x - x != 0.0:
        return np.nan
    turn = (x - np.rint(x)) * (2.0 * math.pi)
    return math.sin(turn) if op == ops.M_SIN else math.cos(turn)


@njit
def _half(op, flags, bits):
    """Compute EX2 and TANH of a half."""
    if flags & c.HIGH:
        x = float64(widen_f16(bits & uint32(0xFFFF)))
    else:
        x = float64(as_f32(bits << uint32(16)))
    if op == ops.M_TANH:
        result = math.tanh(x)
    elif abs(x) > 2000.0:
        result = np.inf if x > 0.0 else 0.0
    else:
        result = 2.0**x
    if result != result:
        return NAN16
    return narrow64_f16(result) if flags & c.HIGH else narrow64_bf16(result)


@njit
def _single(op, bits):
    """Compute a function of one f32."""
    if bits & ~SIGN > EXPONENT:
        return NAN32
    if op == ops.M_TANH:
        return bits_f32(float32(math.tanh(float64(as_f32(bits)))))
    bits = flushed(bits)
    if op == ops.M_RCP:
        return _reciprocal(bits)
    if op == ops.M_EX2:
        return _power(bits)
    if op == ops.M_RSQ or op == ops.M_SQRT:
        return _root(bits, op == ops.M_RSQ)
    if op == ops.M_LG2:
        return _logarithm(bits)
    return flushed(canonical(bits_f32(float32(_wave(op, float64(as_f32(bits)))))))


@njit
def special(op, sub, flags, T):
    """Execute one MUFU."""
    op = int64(op)
    for lane in range(32):
        if op == ops.M_RCP64H or op == ops.M_RSQ64H:
            T[8, lane] = _upper(op, T[0, lane])
        elif flags & (c.HIGH | c.BF16):
            T[8, lane] = _half(op, int64(flags), T[0, lane])
        else:
            T[8, lane] = _single(op, T[0, lane])


@njit
def special_register(m, warp, pc, mask):
    """Execute S2R and CS2R."""
    row, T = view.code(m)[pc], view.scratch(m)
    register = row[c.SUB]
    if register == CLOCKLO or register == TIMERLO:
        now = uint64(view.control(m)[s.NOW])
        for lane in range(32):
            put64(T, lane, now)
    else:
        for lane in range(32):
            put64(T, lane, uint64(view.identity(m)[warp, register, lane]))
    results(m, warp, row, mask, uint32(0), uint32(0))
