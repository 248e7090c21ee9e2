"""Matrix instructions of the tensor cores, one warp at a time.

Fragment layouts are those of the PTX manual (section "Matrix fragments" of mma). Products are exact.
How the hardware rounds their sum is not documented; see `accumulated`.
"""
# mypy: disable-error-code="no-untyped-def,misc,no-untyped-call"

from __future__ import annotations

from numba import njit
from numpy import float32, float64, int32, int64, uint32, uint64

from tilewave.machine.bits import as_f32, as_f64, bits_f32, bits_f64, fma_f64, widen_f16
from tilewave.machine.codes import SATURATE, TBF16, TTF32
from tilewave.machine.floating import canonical
from tilewave.machine.halves import NAN16, narrow64_f16
from tilewave.machine.integer import joined


@njit(cache=True)
def fill_halves(R, first, rows, depth, kind, out, is_b):
    """A (16 x depth) or B (depth x 8, transposed) from packed halves.

    R: the warp's registers; out: float32 (16, 16), by rows of A or columns of B.
    """
    for reg in range(rows * depth // 64):
        # A: rows alternate first, then the depth; B has eight columns only.
        row_base = 0 if is_b else 8 * (reg & 1)
        depth_base = 8 * (reg if is_b else reg >> 1)
        for lane in range(32):
            word = R[first + reg, lane]
            row, column = row_base + lane // 4, depth_base + 2 * (lane % 4)
            if kind == TBF16:
                out[row, column] = as_f32(word << uint32(16))
                out[row, column + 1] = as_f32(word & uint32(0xFFFF0000))
            else:
                out[row, column] = widen_f16(word & uint32(0xFFFF))
                out[row, column + 1] = widen_f16(word >> uint32(16))


@njit(cache=True)
def fill_words(R, first, rows, depth, out, is_b):
    """The same from tf32 words: the lower 13 bits do not count."""
    for reg in range(rows * depth // 32):
        row_base = 0 if is_b else 8 * (reg & 1)
        depth_base = 4 * (reg if is_b else reg >> 1)
        for lane in range(32):
            word = R[first + reg, lane] & uint32(0xFFFFE000)
            out[row_base + lane // 4, depth_base + lane % 4] = as_f32(word)


@njit(cache=True)
def truncated(value):
    """f32 pattern of an f64, rounded towards zero: the tensor cores do not round to nearest."""
    bits = bits_f32(float32(value))
    near = float64(as_f32(bits))
    if value - value == 0.0 and abs(near) > abs(value):
        bits -= uint32(1)
    return canonical(bits)


@njit(cache=True)
def hmma(sub, R, d, a, b, c, A, B, BT, S):
    """D = A B + C for m16n8; A, B: float32 (16, 16), BT: float64 (16, 8), S: float64 (16, 8)."""
    depth, kind, wide = sub & 255, (sub >> 8) & 255, (sub >> 16) & 1
    if kind == TTF32:
        fill_words(R, a, 16, depth, A, False)
        fill_words(R, b, 8, depth, B, True)
    else:
        fill_halves(R, a, 16, depth, kind, A, False)
        fill_halves(R, b, 8, depth, kind, B, True)
    for k in range(depth):
        for column in range(8):
            BT[k, column] = B[column, k]
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        if wide:
            S[row, column] = float64(as_f32(R[c, lane]))
            S[row, column + 1] = float64(as_f32(R[c + 1, lane]))
            S[row + 8, column] = float64(as_f32(R[c + 2, lane]))
            S[row + 8, column + 1] = float64(as_f32(R[c + 3, lane]))
        else:
            for part in range(2):
                word = R[c + part, lane]
                S[row + 8 * part, column] = float64(widen_f16(word & uint32(0xFFFF)))
                S[row + 8 * part, column + 1] = float64(widen_f16(word >> uint32(16)))
    for row in range(16):
        for k in range(depth):
            factor = float64(A[row, k])
            for column in range(8):
                S[row, column] += factor * BT[k, column]
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        if wide:
            R[d, lane] = truncated(S[row, column])
            R[d + 1, lane] = truncated(S[row, column + 1])
            R[d + 2, lane] = truncated(S[row + 8, column])
            R[d + 3, lane] = truncated(S[row + 8, column + 1])
        else:
            for part in range(2):
                low, high = S[row + 8 * part, column], S[row + 8 * part, column + 1]
                first = narrow64_f16(low) if low == low else NAN16
                second = narrow64_f16(high) if high == high else NAN16
                R[d + part, lane] = first | second << uint32(16)


@njit(cache=True)
def dmma(sub, R, d, a, b, c):
    """D = A B + C in f64, one fused multiply-add after the other along the depth."""
    depth, rows = sub & 255, sub >> 8
    halves = rows // 8
    for part in range(halves):
        for lane in range(32):
            row = lane // 4
            for side in range(2):
                column = 2 * (lane % 4) + side
                at = c + 4 * part + 2 * side
                total = as_f64(joined(R[at + 1, lane], R[at, lane]))
                for k in range(depth):
                    # register pair of A: row half first, then groups of four along the depth
                    place = a + 2 * (part + halves * (k // 4))
                    other = row * 4 + k % 4
                    x = as_f64(joined(R[place + 1, other], R[place, other]))
                    place = b + 2 * (k // 4)
                    other = column * 4 + k % 4
                    y = as_f64(joined(R[place + 1, other], R[place, other]))
                    total = fma_f64(x, y, total)
                bits = bits_f64(total)
                out = 4 * part + 2 * side
                # Kept aside: D may be C or overlap A.
                R[280 + out, lane] = uint32(bits)
                R[280 + out + 1, lane] = uint32(bits >> uint64(32))
    for word in range(4 * halves):
        for lane in range(32):
            R[d + word, lane] = R[280 + word, lane]


@njit(cache=True)
def imma(sub, flags, R, d, a, b, c):
    """D = A B + C for 8-bit integers, m16n8."""
    depth, signs = sub & 255, sub >> 8
    for part in range(2):
        for lane in range(32):
            row = lane // 4
            for side in range(2):
                column = 2 * (lane % 4) + side
                total = int64(int32(R[c + 2 * part + side, lane]))
                for k in range(depth):
                    place = a + part + 2 * (k // 16)
                    shift = uint32(8 * (k % 4))
                    other = row * 4 + (k % 16) // 4
                    x = int64((R[place, other] >> shift) & uint32(255))
                    other = column * 4 + (k % 16) // 4
                    y = int64((R[b + k // 16, other] >> shift) & uint32(255))
                    if signs & 1 and x > 127:
                        x -= 256
                    if signs & 2 and y > 127:
                        y -= 256
                    total += x * y
                if flags & SATURATE:
                    total = min(max(total, int64(-2147483648)), int64(2147483647))
                R[280 + 2 * part + side, lane] = uint32(total)
    for word in range(4):
        for lane in range(32):
            R[d + word, lane] = R[280 + word, lane]


