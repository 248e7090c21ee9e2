"""Atomics: lane after lane, in shared or global memory."""

from numpy import float64, int32, int64, uint32, uint64

from tilewave.basics.bits import as_f32, as_f64, bits_f32, bits_f64
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import exchanges, validity, written
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.families import memory as ops
from tilewave.execution.machine.floating import NAN64, canonical, flushed
from tilewave.execution.machine.halves import finished, narrow64_bf16, narrow64_f16, widen
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.patterns import global_pattern, shared_access
from tilewave.execution.machine.races import note_updates
from tilewave.execution.machine.registers import commit_predicate, sources


@njit
def _half_sums(old, new, bf16):
    word = uint32(0)
    flags = c.BF16 if bf16 else 0
    for part in range(2):
        x = float64(widen((old >> uint32(16 * part)) & uint32(0xFFFF), bf16))
        y = float64(widen((new >> uint32(16 * part)) & uint32(0xFFFF), bf16))
        bits = narrow64_bf16(x + y) if bf16 else narrow64_f16(x + y)
        word |= finished(bits, flags) << uint32(16 * part)
    return word


@njit
def _combined(op, kind, old, new, compare, flush):
    """Return the value that an atomic stores; 64-bit patterns."""
    if op == ops.A_EXCH:
        return new
    if op == ops.A_CAS:
        return new if old == compare else old
    if kind == c.T_F32:
        first, second = uint32(old), uint32(new)
        if flush:
            first, second = flushed(first), flushed(second)
        total = canonical(bits_f32(as_f32(first) + as_f32(second)))
        return uint64(flushed(total) if flush else total)
    if kind == c.T_F64:
        # A NaN stays as it is, not even quieted (measured on an H200).
        for operand in (new, old):
            if operand & uint64(0x7FFFFFFFFFFFFFFF) > uint64(0x7FF0000000000000):
                return operand
        total = bits_f64(as_f64(old) + as_f64(new))
        nan = total & uint64(0x7FFFFFFFFFFFFFFF) > uint64(0x7FF0000000000000)
        return NAN64 if nan else total
    if kind == c.T_F16 or kind == c.T_BF16:
        return uint64(_half_sums(uint32(old), uint32(new), kind == c.T_BF16))
    if op == ops.A_ADD:
        return old + new
    if op == ops.A_AND:
        return old & new
    if op == ops.A_OR:
        return old | new
    if op == ops.A_XOR:
        return old ^ new
    if op == ops.A_INC:
        return uint64(0) if old >= new else old + uint64(1)
    if op == ops.A_DEC:
        return new if old == uint64(0) or old > new else old - uint64(1)
    if kind == c.S32:
        x, y = int64(int32(uint32(old))), int64(int32(uint32(new)))
        smaller = x < y
    elif kind == c.S64:
        smaller = int64(old) < int64(new)
    else:
        smaller = old < new
    return old if smaller == (op == ops.A_MIN) else new


@njit
def _wide_atomic(m, row, warp, lane, data, at):
    """Execute one lane's atomic of several words; return whether it stored."""
    R, words, d = view.registers(m)[warp], row[c.DST_WORDS], row[c.DST]
    kind, returns = row[c.SUB] & 255, row[c.SUB] >> 16
    source = row[c.SOURCES + c.INDEX]
    swap = row[c.OP] == ops.A_CAS
    new = row[c.SOURCES + c.SOURCE_COLUMNS + c.INDEX] if swap else source
    same = True
    for part in range(words):
        same = same and data[at + part] == R[source + part, lane]
    for part in range(words):
        old, operand = data[at + part], R[new + part, lane]
        if row[c.OP] == ops.A_EXCH or (swap and same):
            data[at + part] = operand
        elif not swap:
            data[at + part] = uint32(
                _combined(
                    row[c.OP], kind, uint64(old), uint64(operand), uint64(0), row[c.FLAGS] & c.FTZ
                )
            )
        if returns and d != 255:
            R[d + part, lane] = old
    return same or not swap


@njit
def atomic(m, warp, pc, mask):
    """Execute ATOM, ATOMG, ATOMS, RED; the predicate says which lanes stored their values."""
    row, P = view.code(m)[pc], view.predicates(m)[warp]
    sources(m, warp, row)
    fine = _atomic(m, warp, pc, mask, view.scratch(m))
    commit_predicate(P, int64(row[c.PD0]), uint32(fine), mask)


@njit
def _atomic(m, warp, pc, mask, T):
    """Execute an atomic lane after lane. Sources are in T: value, or compare and value.
    Returns the lanes that stored: all, except those of a compare-and-swap that read another value."""
    row = view.code(m)[pc]
    space = (row[c.SUB] >> 8) & 255
    addresses = view.addresses(m)[0]
    validity.address_lanes(m, warp, row, int64(c.A_REG), int64(2 * (space == c.SHARED)), addresses)
    if space == c.SHARED:
        return _atomic_in(m, warp, pc, mask, T, int64(1))
    fine = mask
    if space == c.GENERIC:
        inner = uint32(validity.shared_lanes(m, mask, addresses))
        if inner and row[c.PD0] != 7 and row[c.OP] != ops.A_CAS:
            # The predicate tells that the address is shared, where this atomic cannot run.
            fine &= ~inner
        elif inner:
            fine &= ~inner | _atomic_in(m, warp, pc, inner, T, int64(1))
        mask = uint32(mask & ~inner)
        if validity.away(m, mask, addresses):
            validity.fault(m, s.NOT_KNOWN, pc, warp, mask, -1, 0, 1)
            return fine
    if mask:
        fine &= ~mask | _atomic_in(m, warp, pc, mask, T, int64(0))
    return uint32(fine)


@njit
def _atomic_in(m, warp, pc, mask, T, in_shared):
    row = view.code(m)[pc]
    R = view.registers(m)[warp]
    kind, returns = row[c.SUB] & 255, row[c.SUB] >> 16
    words, width, memo = row[c.DST_WORDS], int64(row[c.WIDTH]), row[c.MEMO]
    addresses = view.addresses(m)[0]
    if in_shared:
        base = shared_access(m, warp, pc, int64(memo), uint32(mask), addresses, width, int64(1))
        if base < 0:
            return mask
        note_updates(m, warp, pc, int64(memo), mask, addresses, width, base, int64(1))
    else:
        if not validity.inside_global(m, warp, pc, mask, addresses, width):
            return mask
        if not validity.aligned(m, warp, pc, mask, addresses, width):
            return mask
        global_pattern(m, pc, memo, mask, addresses, width)
        if len(view.written(m)) > 1:
            reads = row[c.OP] != ops.A_EXCH
            written.note_global(m, warp, pc, mask, addresses, width, reads, True)
    if returns:
        exchanges.met(m, warp)
    op, d = row[c.OP], row[c.DST]
    data = view.shared(m) if in_shared else view.memory(m)
    start_at = int64(0) if in_shared else view.origin(m)[0]
    fine = mask
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        at = (addresses[lane] - start_at) >> 2
        if row[c.FLAGS] & c.PAIRS or words > 2:
            if not _wide_atomic(m, row, warp, lane, data, at):
                fine &= ~(uint32(1) << uint32(lane))
            continue
        old = uint64(data[at])
        if words == 2:
            old = joined(data[at + 1], data[at])
        first = joined(T[4, lane], T[0, lane]) if words == 2 else uint64(T[0, lane])
        if op == ops.A_CAS:
            new = joined(T[5, lane], T[1, lane]) if words == 2 else uint64(T[1, lane])
            result = _combined(op, kind, old, new, first, row[c.FLAGS] & c.FTZ)
            if old != first:
                fine &= ~(uint32(1) << uint32(lane))
        else:
            if row[c.FLAGS] & c.POPC:
                first = uint64(1)
            result = _combined(op, kind, old, first, uint64(0), row[c.FLAGS] & c.FTZ)
        data[at] = uint32(result)
        if words == 2:
            data[at + 1] = uint32(result >> uint64(32))
        if returns and d != 255:
            if row[c.FLAGS] & c.SATURATE:  # CAST: whether it swapped
                R[d, lane] = uint32(old == first)
                if words == 2:
                    R[d + 1, lane] = uint32(0)
                continue
            R[d, lane] = uint32(old)
            if words == 2:
                R[d + 1, lane] = uint32(old >> uint64(32))
    return fine
