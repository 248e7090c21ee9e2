"""Loads and stores of one warp, matrices (LDSM, STSM) among them: what moves."""

from numpy import int32, int64, uint8, uint16, uint32, uint64

from tilewave.basics.bits import put
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import exchanges, validity, written
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.patterns import global_pattern, shared_access
from tilewave.execution.machine.races import BY_COPY, CLOCK, note_reads, note_updates, note_writes

ALL = uint32(0xFFFFFFFF)


@njit
def _narrow_load(words, byte, width):
    """Load 1 or 2 bytes at a byte offset; a negative width extends the sign."""
    word = words[byte >> 2] >> uint32(8 * (byte & 3))
    if width == 1:
        return word & uint32(0xFF)
    if width == 2:
        return word & uint32(0xFFFF)
    if width == -1:
        return uint32(int32(word << uint32(24)) >> int32(24))
    return uint32(int32(word << uint32(16)) >> int32(16))


@njit
def _narrow_store(words, byte, width, value):
    if width == 1:
        put(words, byte, uint8(value))
    else:
        put(words, byte, uint16(value))


@njit
def _lane(R, d, lane, words, at, width, loading):
    """Move one lane's bytes from memory to registers d and on, or back."""
    if abs(width) < 4:
        if loading:
            R[d, lane] = _narrow_load(words, at, width)
        else:
            _narrow_store(words, at, width, R[d, lane])
        return
    for part in range(width // 4):
        if loading:
            R[d + part, lane] = words[(at >> 2) + part]
        else:  # the zero rows after the registers let RZ store zeros of any width
            words[(at >> 2) + part] = R[d + part, lane]


@njit
def _gather(R, d, words, addresses, origin, width, mask):
    """Read ``width`` bytes a lane into registers d and on."""
    if mask == ALL and width >= 4:
        for part in range(width // 4):
            for lane in range(32):
                R[d + part, lane] = words[uint64((addresses[lane] - origin) >> 2) + uint64(part)]
        return
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            _lane(R, d, lane, words, addresses[lane] - origin, width, True)


@njit
def _scatter(R, s, words, addresses, origin, width, mask):
    """Write ``width`` bytes a lane from registers s and on, lowest lane first."""
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            _lane(R, s, lane, words, addresses[lane] - origin, width, False)


@njit
def load(m, warp, pc, mask):
    """Execute LD, LDG, LDS, LDL and the loads from constant banks."""
    row = view.code(m)[pc]
    if row[c.OP] == c.CONST_BANK:
        _load_constant(m, warp, pc, row, mask)
    else:
        _moved(m, warp, pc, row, mask, True)


@njit
def store(m, warp, pc, mask):
    """Execute ST, STG, STS, STL."""
    _moved(m, warp, pc, view.code(m)[pc], mask, False)


@njit
def _moved(m, warp, pc, row, mask, loading):
    """Load or store at the lanes' addresses, in whichever space each lies."""
    space, addresses = row[c.OP], view.addresses(m)[0]
    narrow = int64(2 if space == c.SHARED else space == c.LOCAL)
    validity.address_lanes(m, warp, row, int64(c.A_REG), narrow, addresses)
    in_shared, in_local = uint32(0), uint32(0)
    if space == c.LOCAL:
        in_local = mask
    elif space == c.SHARED:
        in_shared = mask
    elif space == c.GENERIC:
        in_shared = uint32(validity.shared_lanes(m, mask, addresses))
        in_local = uint32(validity.local_lanes(mask, addresses))
    if in_shared:
        _shared(m, warp, pc, row, in_shared, loading)
    if in_local:
        _local(m, warp, pc, row, in_local, loading)
    mask = uint32(mask & ~(in_shared | in_local))
    if space == c.GENERIC:
        mask = _elsewhere(m, warp, pc, row, mask, addresses, loading)
    if mask:
        _global(m, warp, pc, row, mask, loading)


@njit
def _shared(m, warp, pc, row, mask, loading):
    addresses, width, memo = view.addresses(m)[0], int64(row[c.WIDTH]), int64(row[c.MEMO])
    size = abs(width)
    base = shared_access(m, warp, pc, memo, uint32(mask), addresses, size, int64(not loading))
    if base < 0:
        return
    exchanges.note(m, warp, pc, row, mask, addresses, size, int64(loading))
    if not loading:
        note_writes(m, warp, pc, memo, mask, addresses, size, base, uint32(0))
    elif row[c.FLAGS] & c.MAY_TEST and _tested(m, warp, mask, addresses):
        pass
    elif row[c.FLAGS] & c.POPC:  # the load of a compare-and-swap loop
        note_updates(m, warp, pc, memo, mask, addresses, size, base, int64(0))
    else:
        note_reads(m, warp, pc, memo, mask, addresses, size, base)
    _between(m, warp, row, view.shared(m), int64(0), mask, loading)


@njit
def _global(m, warp, pc, row, mask, loading):
    addresses, size = view.addresses(m)[0], abs(int64(row[c.WIDTH]))
    if not validity.inside_global(m, warp, pc, mask, addresses, size):
        return
    if validity.aligned(m, warp, pc, mask, addresses, size):
        exchanges.note(m, warp, pc, row, mask, addresses, size, int64(loading))
        global_pattern(m, pc, row[c.MEMO], mask, addresses, size)
        if len(view.written(m)) > 1:
            written.note_global(m, warp, pc, mask, addresses, size, loading, not loading)
        _between(m, warp, row, view.memory(m), view.origin(m)[0], mask, loading)


@njit
def _between(m, warp, row, words, origin, mask, loading):
    """Move data between memory at the lanes' addresses and their registers."""
    addresses, width, d = view.addresses(m)[0], int64(row[c.WIDTH]), row[c.DST]
    if not loading:
        _scatter(view.registers(m)[warp], d, words, addresses, origin, width, mask)
    elif d != 255:
        _gather(view.registers(m)[warp], d, words, addresses, origin, width, mask)


@njit
def _load_constant(m, warp, pc, row, mask):
    addresses = view.addresses(m)[0]
    validity.address_lanes(m, warp, row, int64(c.A_REG), int64(1), addresses)
    width, d = int64(row[c.WIDTH]), row[c.DST]
    bank = view.constants(m)[row[c.BANK]]
    end = int64(4 * len(bank))
    size = abs(width)
    lanes, first = validity.wrong_lanes(addresses, mask, size, int64(0), end)
    if lanes:
        validity.fault(m, s.OUTSIDE_CONSTANT, pc, warp, lanes, first, size, 1)
        return
    if row[c.DST_UNIFORM]:
        at = addresses[validity.first_lane(mask)]
        if size < 4:
            view.uniforms(m)[warp, d] = _narrow_load(bank, at, width)
        else:
            for part in range(width // 4):
                view.uniforms(m)[warp, d + part] = bank[(at >> 2) + part]
        return
    _gather(view.registers(m)[warp], d, bank, addresses, int64(0), width, mask)


@njit
def _local(m, warp, pc, row, mask, loading):
    """Load or store in local memory, a private array for every thread."""
    addresses = view.addresses(m)[0]
    width, d = int64(row[c.WIDTH]), row[c.DST]
    size = abs(width)
    if not validity.aligned(m, warp, pc, mask, addresses, size):
        return
    lanes, first = validity.wrong_lanes(
        addresses, mask, size, int64(0), view.control(m)[s.LOCAL_BYTES]
    )
    if lanes:
        validity.fault(m, s.OUTSIDE_LOCAL, pc, warp, lanes, first, size, 1)
        return
    if view.control(m)[s.RACES]:
        written.note_local(m, warp, pc, mask, addresses, size, loading)
    R = view.registers(m)[warp]
    words = view.local(m)[32 * warp : 32 * warp + 32]
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            _lane(R, d, lane, words[lane], addresses[lane], width, loading)


@njit
def _elsewhere(m, warp, pc, row, mask, addresses, loading):
    """Access other blocks of the cluster, unchecked; return the lanes that do not."""
    lanes = validity.away(m, mask, addresses)
    width, d, R = int64(row[c.WIDTH]), row[c.DST], view.registers(m)[warp]
    size = abs(width)
    control = view.control(m)
    for lane in range(32):
        if not (lanes >> uint32(lane)) & uint32(1):
            continue
        where = view.peer(m, (addresses[lane] >> int64(24)) & int64(0xFF))
        at = addresses[lane] & int64(0xFFFFFF)
        if not validity.inside_block(m, warp, pc, lanes, at, size, size):
            return uint32(0)
        if not loading or d != 255:
            _lane(R, d, lane, view.shared(where), at, width, loading)
        if not loading and control[s.RACES]:
            mark = uint32(control[s.TICK]) << CLOCK | BY_COPY | uint32(s.ELSEWHERE)
            for unit in range(at >> control[s.GRAIN], ((at + size - 1) >> control[s.GRAIN]) + 1):
                view.shadow(where)[unit] = mark
    return mask & ~lanes


@njit
def _tested(m, warp, mask, addresses):
    """Return whether a load tests an mbarrier (sm_80), and learn what its last phase brought.
    The warp then learns what the last finished phase brought."""
    address = addresses[validity.first_lane(mask)] & ~int64(7)
    for index in range(view.block_control(m)[s.MBARRIER_COUNT]):
        if view.mbarriers(m)[index] == address:
            exchanges.met(m, warp)
            clock, brought = view.clocks(m)[warp], view.phases(m)[s.MBARRIERS + index]
            for actor in range(view.control(m)[s.CLUSTER_ACTORS]):
                clock[actor] = max(clock[actor], brought[actor])
            return True
    return False


@njit
def matrix(m, warp, pc, mask):
    """Execute LDSM and STSM: lanes 8i to 8i + 7 give the row addresses of matrix i."""
    row = view.code(m)[pc]
    R = view.registers(m)[warp]
    count, d = row[c.WIDTH], row[c.DST]
    addresses = view.addresses(m)[0]
    validity.address_lanes(m, warp, row, int64(c.A_REG), int64(2), addresses)
    used = uint32(mask if count == 4 else mask & uint32((1 << (8 * count)) - 1))
    if not used:
        return
    memo = row[c.MEMO]
    is_store = row[c.OP] == 1
    base = shared_access(m, warp, pc, int64(memo), used, addresses, int64(16), int64(2))
    if base < 0:
        return
    exchanges.note(m, warp, pc, row, used, addresses, int64(16), int64(not is_store))
    if is_store:
        note_writes(m, warp, pc, int64(memo), uint32(used), addresses, int64(16), base, uint32(0))
    else:
        note_reads(m, warp, pc, int64(memo), uint32(used), addresses, int64(16), base)
    shared = view.shared(m)
    for index in range(count):
        if row[c.FLAGS] & c.TRANSPOSED:
            for lane in range(32):
                column = lane // 4
                low, high = 2 * (lane % 4), 2 * (lane % 4) + 1
                first = addresses[8 * index + low] + 2 * column
                second = addresses[8 * index + high] + 2 * column
                if is_store:
                    _narrow_store(shared, first, 2, R[d + index, lane] & uint32(0xFFFF))
                    _narrow_store(shared, second, 2, R[d + index, lane] >> uint32(16))
                else:
                    upper = _narrow_load(shared, second, 2) << uint32(16)
                    R[d + index, lane] = _narrow_load(shared, first, 2) | upper
        else:
            for lane in range(32):
                at = uint64(addresses[8 * index + lane // 4] >> 2) + uint64(lane % 4)
                if is_store:
                    shared[at] = R[d + index, lane]
                else:
                    R[d + index, lane] = shared[at]
