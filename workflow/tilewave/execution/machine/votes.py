"""Logic of predicates, votes of a warp, exchanges between its lanes."""

from numpy import int32, int64, uint32

from tilewave.basics.bits import lowest_one
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import votes as ops
from tilewave.execution.machine.registers import commit_predicate, pin, results, sources

ALL = uint32(0xFFFFFFFF)


@njit
def _signs(words, straight):
    """Return the lanes whose word is negative; with ``straight`` 0 the other lanes."""
    signs = uint32(0)
    for lane in range(32):
        signs |= (words[lane] >> uint32(31)) << uint32(lane)
    return signs ^ ~straight


@njit
def logic(m, warp, pc, mask):
    """Execute logic of predicates, and votes of a warp."""
    row, P = view.code(m)[pc], view.predicates(m)[warp]
    sources(m, warp, row)
    p0, p1 = pin(row, int64(c.PIN0), P), pin(row, int64(c.PIN1), P)
    p2 = pin(row, int64(c.PIN2), P)
    first, second = _logic(row, mask, view.scratch(m), P, p0, p1, p2)
    results(m, warp, row, mask, uint32(first), uint32(second))


@njit
def _logic(row, mask, T, P, p0, p1, p2):
    op, sub = row[c.OP], row[c.SUB]
    if op == ops.L_PLOP3:
        if row[c.FLAGS]:
            p0 = _signs(T[0], p0) if row[c.FLAGS] & c.NEG0 else p0
            p1 = _signs(T[1], p1) if row[c.FLAGS] & c.NEG1 else p1
            p2 = _signs(T[2], p2) if row[c.FLAGS] & c.NEG2 else p2
        first = uint32(0)
        second = uint32(0)
        for index in range(8):
            a = p0 if index & 4 else ~p0
            b = p1 if index & 2 else ~p1
            z = p2 if index & 1 else ~p2
            if (sub >> index) & 1:
                first |= a & b & z
            if (sub >> (8 + index)) & 1:
                second |= a & b & z
        return first, second
    if op == ops.L_P2R:
        bank = row[c.BANK]
        for lane in range(32):
            packed = uint32(0)
            for index in range(7):
                packed |= ((P[bank + index] >> uint32(lane)) & uint32(1)) << uint32(index)
            chosen = T[1, lane] << uint32(sub)
            T[8, lane] = (T[0, lane] & ~chosen) | ((packed << uint32(sub)) & chosen)
        return uint32(0), uint32(0)
    if op == ops.L_R2P:
        bank = row[c.BANK]
        for index in range(7):
            value = uint32(0)
            chosen = uint32(0)
            for lane in range(32):
                word = T[0, lane] >> uint32(sub)
                value |= ((word >> uint32(index)) & uint32(1)) << uint32(lane)
                chosen |= ((T[1, lane] >> uint32(index)) & uint32(1)) << uint32(lane)
            commit_predicate(P, int64(bank + index), uint32(value), uint32(mask & chosen))
        return uint32(0), uint32(0)
    if op == ops.L_VOTE:
        votes = p0 & mask
        for lane in range(32):
            T[8, lane] = votes
        if sub == 0:
            answer = votes == mask
        elif sub == 1:
            answer = votes != uint32(0)
        else:
            answer = votes == mask or votes == uint32(0)
        return (ALL if answer else uint32(0)), uint32(0)
    if op == ops.L_MATCH:
        same_all = True
        leader = lowest_one(mask)
        wide = row[c.SOURCES + c.WORDS] == 2
        for lane in range(32):
            equal = uint32(0)
            for other in range(32):
                same = T[0, lane] == T[0, other] and (not wide or T[4, lane] == T[4, other])
                if (mask >> uint32(other)) & uint32(1) and same:
                    equal |= uint32(1) << uint32(other)
            T[8, lane] = equal
            if (mask >> uint32(lane)) & uint32(1) and not (equal >> leader) & uint32(1):
                same_all = False
        if sub == 1:
            for lane in range(32):
                T[8, lane] = mask if same_all else uint32(0)
        return (ALL if same_all else uint32(0)), uint32(0)
    if op == ops.L_SCALAR:
        # R2UR that returns the lanes whose value differs from the first: a loop handles them.
        value, different = T[0, int64(lowest_one(mask))], uint32(0)
        for lane in range(32):
            different |= uint32(T[0, lane] != value) << uint32(lane)
            T[8, lane] = T[0, lane]
        if row[c.FLAGS] & c.BOOL_OR:  # in this register or in one before
            different |= P[row[c.PD0]]
        return different & mask, uint32(0)
    if op == ops.L_REDUX:
        first = T[0, int64(lowest_one(mask))]
        signed = row[c.FLAGS] & c.SIGNED
        total = int64(int32(first)) if signed else int64(first)
        for lane in range(int64(lowest_one(mask)) + 1, 32):
            if not (mask >> uint32(lane)) & uint32(1):
                continue
            number = int64(int32(T[0, lane])) if signed else int64(T[0, lane])
            if sub == 0:
                total += number
            elif sub == 1:
                total = min(total, number)
            elif sub == 2:
                total = max(total, number)
            elif sub == 3:
                total &= number
            elif sub == 4:
                total |= number
            else:
                total ^= number
        for lane in range(32):
            T[8, lane] = uint32(total)
    if op == ops.L_LEADER:
        leader = lowest_one(mask)
        for lane in range(32):
            T[8, lane] = leader
        return uint32(1) << leader, uint32(0)
    return uint32(0), uint32(0)


@njit
def exchange(op, sub, flags, T, p0, p1):
    """Execute SHFL and MOVM; return its predicates."""
    if op == ops.X_SHUFFLE:
        inside = uint32(0)
        for lane in range(32):
            value, bound = T[1, lane] & uint32(31), T[2, lane]
            clamp, segment = int64(bound & uint32(31)), int64((bound >> uint32(8)) & uint32(31))
            by = int64(value)
            highest = (lane & segment) | (clamp & ~segment & 31)
            if sub == 1:  # UP
                source = lane - by
                fine = source >= highest
            elif sub == 2:  # DOWN
                source = lane + by
                fine = source <= highest
            elif sub == 3:  # BFLY
                source = lane ^ by
                fine = source <= highest
            else:
                source = (lane & segment) | (by & ~segment & 31)
                fine = source <= highest
            T[8, lane] = T[0, source & 31 if fine else lane]
            inside |= uint32(fine) << uint32(lane)
        return inside, uint32(0)
    # MOVM.16.MT88: the transpose of an 8 x 8 matrix of halves, a row in four lanes
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        first = T[0, column * 4 + row // 2] >> uint32(16 * (row & 1))
        second = T[0, (column + 1) * 4 + row // 2] >> uint32(16 * (row & 1))
        T[8, lane] = (first & uint32(0xFFFF)) | second << uint32(16)
    return uint32(0), uint32(0)
