"""Integer instructions, 32 lanes at once.

``T`` is the warp's scratch, uint32 (12, 32): rows 0 to 3 the sources, 4 to 7 the upper words of
64-bit ones, 8 and 9 the result. Predicates are bit masks over the lanes; every function returns two.
The semantics are those of the PTX instruction that each one implements; carries and the extended
comparisons were checked against Python's integers and against fixtures from an H200.
"""

from numpy import int32, int64, uint32, uint64

from tilewave.basics.bits import count_ones, leading_zeros
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import integer as ops

ALL = uint32(0xFFFFFFFF)
# Generic addresses of shared memory have this upper word, SR_SWINHI.
SHARED_WINDOW = uint32(0x7E000000)  # upper words of generic addresses
LOCAL_WINDOW = uint32(0x7D000000)
LT, EQ, LE, GT, NE, GE, TRUE = 1, 2, 3, 4, 5, 6, 15
CHUNK = uint64(0xFFFFFFFF)


@njit(inline="always")
def joined(high, low):
    """Join two 32-bit words to a 64-bit word."""
    return uint64(high) << uint64(32) | uint64(low)


@njit(inline="always")
def put64(T, lane, bits):
    """Set a result of two words."""
    T[8, lane] = uint32(bits)
    T[9, lane] = uint32(bits >> uint64(32))


@njit(inline="always")
def combined(flags, compared, inverse, pin):
    """Combine a comparison and its complement with the predicate operand."""
    if flags & c.BOOL_OR:
        return compared | pin, inverse | pin
    if flags & c.BOOL_XOR:
        return compared ^ pin, inverse ^ pin
    return compared & pin, inverse & pin


@njit(inline="always")
def _turned(word, negated, inverted):
    """Return a source with its sign: -R counts as 2^32 - R."""
    value = uint64(word)
    if negated:
        return uint64(1 << 32) - value
    return value ^ CHUNK if inverted else value


@njit
def _carries(flags, T, p0, p1):
    """Compute IADD3 with carries."""
    first = uint32(0)
    second = uint32(0)
    for lane in range(32):
        total = _turned(T[0, lane], flags & c.NEG0, flags & c.INV0)
        total += _turned(T[1, lane], flags & c.NEG1, flags & c.INV1)
        total += _turned(T[2, lane], flags & c.NEG2, flags & c.INV2)
        if flags & c.CARRY_IN:
            total += uint64((p0 >> uint32(lane)) & uint32(1))
            total += uint64((p1 >> uint32(lane)) & uint32(1))
        T[8, lane] = uint32(total)
        over = total >> uint64(32)
        first |= uint32(over >= uint64(1)) << uint32(lane)
        second |= uint32(over >= uint64(2)) << uint32(lane)
    return first, second


@njit
def _carries64(flags, T):
    first = uint32(0)
    for lane in range(32):
        a, b = joined(T[4, lane], T[0, lane]), joined(T[5, lane], T[1, lane])
        z = joined(T[6, lane], T[2, lane])
        if flags & c.NEG0:
            a = ~a + uint64(1)
        if flags & c.NEG1:
            b = ~b + uint64(1)
        if flags & c.NEG2:
            z = ~z + uint64(1)
        total = a + b + z
        put64(T, lane, total)
        first |= uint32(total < a) << uint32(lane)
    return first


@njit
def _compare(op, flags, T, pin, low):
    """Execute ISETP: 32 bits, or upper words after the comparison ``low`` of the lower ones."""
    less = uint32(0)
    equal = uint32(0)
    if flags & c.SIGNED:
        for lane in range(32):
            a, b = int32(T[0, lane]), int32(T[1, lane])
            less |= uint32(a < b) << uint32(lane)
            equal |= uint32(a == b) << uint32(lane)
    else:
        for lane in range(32):
            less |= uint32(T[0, lane] < T[1, lane]) << uint32(lane)
            equal |= uint32(T[0, lane] == T[1, lane]) << uint32(lane)
    lanes = holds(op, less, equal)
    if flags & c.EXTENDED:
        if op == EQ:
            lanes = equal & low
        elif op == NE:
            lanes = ~equal | low
        else:
            greater = ~(less | equal)
            strict = less if op in (LT, LE) else greater
            lanes = strict | (equal & low)
    return combined(flags, lanes, ~lanes, pin)


@njit
def _compare64(op, flags, T, pin):
    less = uint32(0)
    equal = uint32(0)
    for lane in range(32):
        a, b = joined(T[4, lane], T[0, lane]), joined(T[5, lane], T[1, lane])
        smaller = int64(a) < int64(b) if flags & c.SIGNED else a < b
        less |= uint32(smaller) << uint32(lane)
        equal |= uint32(a == b) << uint32(lane)
    lanes = holds(op, less, equal)
    return combined(flags, lanes, ~lanes, pin)


@njit(inline="always")
def holds(op, less, equal):
    """Return the lanes for which a comparison holds; op indexes codes.COMPARISONS."""
    if op == LT:
        return less
    if op == EQ:
        return equal
    if op == LE:
        return less | equal
    if op == GT:
        return ~(less | equal)
    if op == NE:
        return ~equal
    if op == GE:
        return ~less
    return ALL if op == TRUE else uint32(0)


@njit
def _lut(table, T):
    """Execute LOP3: bit i of the table answers a << 2 | b << 1 | c = i."""
    m0, m1 = uint32(-(table & 1)), uint32(-((table >> 1) & 1))
    m2, m3 = uint32(-((table >> 2) & 1)), uint32(-((table >> 3) & 1))
    m4, m5 = uint32(-((table >> 4) & 1)), uint32(-((table >> 5) & 1))
    m6, m7 = uint32(-((table >> 6) & 1)), uint32(-((table >> 7) & 1))
    lanes = uint32(0)
    for lane in range(32):
        a, b, c = T[0, lane], T[1, lane], T[2, lane]
        high = (b & ((c & m7) | (~c & m6))) | (~b & ((c & m5) | (~c & m4)))
        low = (b & ((c & m3) | (~c & m2))) | (~b & ((c & m1) | (~c & m0)))
        value = (a & high) | (~a & low)
        T[8, lane] = value
        lanes |= uint32(value != uint32(0)) << uint32(lane)
    return lanes


@njit
def _funnel(left, flags, T):
    """Execute SHF: shift {high, low} and take 32 bits; amounts clamp, with W they wrap."""
    wide = flags & c.UNSIGNED64
    for lane in range(32):
        low, amount, high = T[0, lane], T[1, lane], T[2, lane]
        limit = uint32(64) if wide else uint32(32)
        if flags & c.WRAP:
            amount &= limit - uint32(1)
        elif amount > limit:
            amount = limit
        value = joined(high, low)
        by = uint64(amount)
        if left:
            shifted = value << by if by < uint64(64) else uint64(0)
        elif flags & c.SIGNED:
            shifted = uint64(int64(value) >> int64(min(by, uint64(63))))
        else:
            shifted = value >> by if by < uint64(64) else uint64(0)
        T[8, lane] = uint32(shifted >> uint64(32)) if flags & c.HIGH else uint32(shifted)


@njit
def _multiply_wide(op, flags, T, p0):
    """Execute IMAD.WIDE and IMAD.HI: a * b + {c_high, c_low} + carry, in 64 bits."""
    carry = uint32(0)
    for lane in range(32):
        if flags & c.SIGNED:
            product = uint64(int64(int32(T[0, lane])) * int64(int32(T[1, lane])))
        else:
            product = uint64(T[0, lane]) * uint64(T[1, lane])
        addend = joined(T[6, lane], T[2, lane])
        total = product + addend
        over = total < addend
        if flags & c.CARRY_IN:
            more = total + uint64((p0 >> uint32(lane)) & uint32(1))
            over = over or more < total
            total = more
        carry |= uint32(over) << uint32(lane)
        if op == ops.MUL_ADD_WIDE:
            put64(T, lane, total)
        else:
            T[8, lane] = uint32(total >> uint64(32))
    return carry


@njit
def _shift_add(op, shift, flags, T, p0):
    """Execute LEA: (a << k) + b; LEA.HI: the upper word of {c, a} << k, plus b."""
    carry = uint32(0)
    for lane in range(32):
        a = T[0, lane]
        if op == ops.SHIFT_ADD:
            part = uint64(uint32(uint64(a) << uint64(shift)))
            if flags & c.NEG0:  # -0 has a carry: nothing was borrowed
                part = uint64(1 << 32) - part
        else:
            top = uint32(int32(a) >> int32(31)) if flags & c.SIGNED else T[2, lane]
            pair = joined(top, a)
            if flags & c.NEG0:
                pair = ~pair + uint64(1)
            part = uint64(uint32((pair << uint64(shift)) >> uint64(32)))
        if flags & c.INV0:
            part ^= CHUNK
        total = part + _turned(T[1, lane], flags & c.NEG1, flags & c.INV1)
        if flags & c.CARRY_IN:
            total += uint64((p0 >> uint32(lane)) & uint32(1))
        T[8, lane] = uint32(total)
        carry |= uint32(total >> uint64(32) != uint64(0)) << uint32(lane)
    return carry


@njit
def _permute(mode, T):
    """Execute PRMT: nibbles of b choose bytes of {c, a}; bit 3 of a nibble copies the byte's sign."""
    for lane in range(32):
        pair = joined(T[2, lane], T[0, lane])
        choice = T[1, lane]
        result = uint32(0)
        n = choice & uint32(3)
        for byte in range(4):
            pick = uint32(0)
            if mode == 0:
                pick = (choice >> uint32(4 * byte)) & uint32(15)
            elif mode == 1:  # F4E
                pick = n + uint32(byte)
            elif mode == 2:  # B4E
                pick = (n - uint32(byte)) & uint32(7)
            elif mode == 3:  # RC8
                pick = n
            elif mode == 4:  # ECL
                pick = max(n, uint32(byte))
            elif mode == 5:  # ECR
                pick = min(n, uint32(byte))
            else:  # RC16
                pick = uint32((n & uint32(1)) * uint32(2) + uint32(byte & 1))
            value = uint32(pair >> uint64(8 * (pick & uint32(7)))) & uint32(255)
            if mode == 0 and pick & uint32(8):
                value = uint32(255) if value & uint32(128) else uint32(0)
            result |= value << uint32(8 * byte)
        T[8, lane] = result


@njit
def _piece(word, at, width, negated, signed):
    """Return a number inside a word, its sign applied in its own width."""
    ones = (int64(1) << width) - int64(1)
    value = (int64(word) >> at) & ones
    if negated:
        value = -value & ones
    if signed and value >> (width - int64(1)):
        value -= ones + int64(1)
    return value


@njit
def _dot(width, high, sub, T):
    """Execute IDP: c plus the sum of products of pieces of this width with bytes, the upper ones if ``high``."""
    for lane in range(32):
        total = int64(T[2, lane])
        for piece in range(32 // width):
            x = _piece(T[0, lane], width * piece, width, 0, sub & 1)
            y = _piece(T[1, lane], 8 * (piece + high), int64(8), 0, sub & 2)
            total += x * y
        T[8, lane] = uint32(total)


@njit
def _rare(op, flags, T, p0):
    """Execute one-source instructions and minima."""
    for lane in range(32):
        a, b, d = T[0, lane], T[1, lane], T[2, lane]
        on = (p0 >> uint32(lane)) & uint32(1) != uint32(0)
        result = uint32(0)
        if op == ops.ABSOLUTE:
            result = ~a + uint32(1) if int32(a) < 0 else a
        elif op == ops.REVERSE:
            for bit in range(32):
                result |= ((a >> uint32(bit)) & uint32(1)) << uint32(31 - bit)
        elif op == ops.COUNT_ONES:
            result = count_ones(a)
        elif op == ops.FIND_ONE:
            if flags & c.SIGNED and int32(a) < 0:
                a = ~a
            zeros = leading_zeros(a)
            if a == uint32(0):
                result = ALL
            else:
                result = zeros if flags & c.SHIFT_AMOUNT else uint32(31) - zeros
        elif op == ops.MASK:
            # BMSK: b ones from bit a on
            if flags & c.WRAP:
                a &= uint32(31)
                b &= uint32(31)
            ones = (uint64(1) << uint64(b)) - uint64(1) if b < uint32(32) else CHUNK
            result = uint32(ones << uint64(a)) if a < uint32(32) else uint32(0)
        elif op == ops.EXTEND:
            # SGXT: the low b bits, with their sign or with zeros above
            if flags & c.WRAP:
                b &= uint32(31)
            if b >= uint32(32):
                result = a
            elif b == uint32(0):
                result = uint32(0)
            elif flags & c.SIGNED:
                result = uint32(int32(a << (uint32(32) - b)) >> int32(uint32(32) - b))
            else:
                result = a & uint32((uint64(1) << uint64(b)) - uint64(1))
        elif op == ops.ABS_DIFF:
            if flags & c.SIGNED:
                difference = int64(int32(a)) - int64(int32(b))
            else:
                difference = int64(a) - int64(b)
            result = uint32(abs(difference)) + d
        else:  # MINMAX, ADD_MINMAX, MINMAX3: a predicate says whether it is the minimum
            if op == ops.ADD_MINMAX:
                a = uint32(a + b)
                b = d
            if flags & c.SIGNED:
                x, y = int64(int32(a)), int64(int32(b))
            else:
                x, y = int64(a), int64(b)
            best = min(x, y) if on else max(x, y)
            if op == ops.MINMAX3:
                z = int64(int32(d)) if flags & c.SIGNED else int64(d)
                best = min(best, z) if on else max(best, z)
            if flags & c.RELU and best < 0:
                best = int64(0)
            result = uint32(best)
        T[8, lane] = result


@njit
def _packed(what, width, flags, T, p0):
    """Execute an operation on two or four numbers a word.

    Returns the lanes where the lowest and the highest number come from the first source.

    Sums wrap in the numbers' width before they are compared.
    """
    signed = flags & c.SIGNED != 0
    chosen = uint32(0)
    chosen_low = uint32(0)
    ones = (int64(1) << width) - int64(1)
    for lane in range(32):
        least = (p0 >> uint32(lane)) & uint32(1) != uint32(0)
        word = int64(0)
        total = int64(T[2, lane])
        for at in range(0, 32, width):
            a = _piece(T[0, lane], at, width, flags & c.NEG0, signed)
            b = _piece(T[1, lane], at, width, flags & c.NEG1, signed)
            z = _piece(T[2, lane], at, width, flags & c.NEG2, signed)
            if what == ops.P_ADD or what == ops.P_ADD_MINMAX:
                a = _piece(uint32((a + b) & ones), int64(0), width, 0, signed)
                b = z
            if what == ops.P_ABS_DIFF or what == ops.P_SUM_ABS_DIFF:
                a = abs(a - b)
                total += a
            elif what != ops.P_ADD:
                first = a <= b if least else a >= b
                if at == 0:
                    chosen_low |= uint32(first) << uint32(lane)
                if at + width == 32:
                    chosen |= uint32(first) << uint32(lane)
                a = a if first else b
                if what == ops.P_MINMAX3:
                    a = min(a, z) if least else max(a, z)
                if flags & c.RELU:
                    a = max(a, int64(0))
            word |= (a & ones) << at
        T[8, lane] = uint32(total) if what == ops.P_SUM_ABS_DIFF else uint32(word)
    return chosen_low, chosen


@njit
def _saturating(T):
    """Return a sum that saturates at the limits of int32."""
    for lane in range(32):
        total = int64(int32(T[0, lane])) + int64(int32(T[1, lane]))
        T[8, lane] = uint32(min(max(total, int64(-0x80000000)), int64(0x7FFFFFFF)))


@njit
def integer(op, sub, flags, T, p0, p1):
    """Execute one integer instruction; returns its predicates."""
    if op == ops.MOVE:
        for lane in range(32):
            T[8, lane] = T[0, lane]
        for lane in range(32):
            T[9, lane] = T[4, lane]
    elif op == ops.MUL_ADD:
        for lane in range(32):
            T[8, lane] = T[0, lane] * T[1, lane] + T[2, lane]
        if flags & c.CARRY_IN:
            for lane in range(32):
                T[8, lane] += (p0 >> uint32(lane)) & uint32(1)
    elif op == ops.ADD3:
        return _carries(flags, T, p0, p1)
    elif op == ops.ADD2:
        for lane in range(32):
            T[8, lane] = T[0, lane] + T[1, lane]
    elif op == ops.ADD_SATURATED:
        _saturating(T)
    elif op == ops.LUT3:
        lanes = _lut(sub, T)
        return (lanes | p0 if flags & c.BOOL_OR else lanes & p0), uint32(0)
    elif op == ops.COMPARE:
        return _compare(sub, flags, T, p0, p1)
    elif op in (ops.MUL_ADD_WIDE, ops.MUL_ADD_HIGH):
        return _multiply_wide(op, flags, T, p0), uint32(0)
    elif op in (ops.SHIFT_ADD, ops.SHIFT_ADD_HIGH):
        return _shift_add(op, sub, flags, T, p0), uint32(0)
    elif op == ops.FUNNEL:
        _funnel(sub, flags, T)
    elif op in (ops.SELECT, ops.FLOAT_SELECT):
        for lane in range(32):
            on = (p0 >> uint32(lane)) & uint32(1) != uint32(0)
            T[8, lane] = T[0, lane] if on else T[1, lane]
            T[9, lane] = T[4, lane] if on else T[5, lane]
        if flags & c.FTZ:
            for lane in range(32):
                if T[8, lane] & uint32(0x7F800000) == uint32(0):
                    T[8, lane] &= uint32(0x80000000)
    elif op == ops.ADD64:
        for lane in range(32):
            total = joined(T[4, lane], T[0, lane]) + joined(T[5, lane], T[1, lane])
            put64(T, lane, total)
    elif op == ops.ADD3_WIDE:
        return _carries64(flags, T), uint32(0)
    elif op == ops.MINMAX_WIDE:
        for lane in range(32):
            a, b = joined(T[4, lane], T[0, lane]), joined(T[5, lane], T[1, lane])
            smaller = int64(a) < int64(b) if flags & c.SIGNED else a < b
            first = smaller == ((p0 >> uint32(lane)) & uint32(1) != uint32(0))
            T[8, lane], T[9, lane] = T[0 if first else 1, lane], T[4 if first else 5, lane]
    elif op == ops.COMPARE64:
        return _compare64(sub, flags, T, p0)
    elif op == ops.PERMUTE:
        _permute(sub, T)
    elif op == ops.PACKED:
        return _packed(sub >> 8, int64(sub & 255), flags, T, p0)
    elif op == ops.SPACE_OF:
        shared, local = uint32(0), uint32(0)
        for lane in range(32):
            shared |= uint32(T[4, lane] == SHARED_WINDOW) << uint32(lane)
            local |= uint32(T[4, lane] == LOCAL_WINDOW) << uint32(lane)
        for lane in range(32):
            T[8, lane] = uint32(0)
        if sub == 0:
            return ~(shared | local), uint32(0)
        if sub == 1:
            return shared, uint32(0)
        return (local if sub == 2 else uint32(0)), uint32(0)
    elif op == ops.DOT4:
        _dot(int64(8), int64(0), sub, T)
    elif op == ops.DOT2:
        _dot(int64(16), int64(2 if flags & c.HIGH else 0), sub, T)
    else:
        _rare(op, flags, T, p0)
    return uint32(0), uint32(0)
