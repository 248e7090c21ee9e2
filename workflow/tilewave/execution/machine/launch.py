"""Execute a launch: block after block, with warps that take turns.
Memory is bounded by one block and the buffers; cost is linear in the grid."""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewave.basics.columns import filled
from tilewave.basics.deadline import Deadline
from tilewave.basics.errors import BadLaunch
from tilewave.execution.machine import (
    blocks,
    capturing,
    handlers,
    lanes,
    marking,
    orders,
    overwriting,
    printing,
    spreading,
    system,
    views,
)
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine.access import Access
from tilewave.execution.machine.arguments import Buffer, Struct
from tilewave.execution.machine.bulk import PARAMETERS
from tilewave.execution.machine.findings import HINT, Explainer, Fault, explained, explained_store
from tilewave.execution.machine.integer import LOCAL_WINDOW, SHARED_WINDOW
from tilewave.execution.machine.maps import WORDS, TensorMap, encoded
from tilewave.execution.machine.program import Program
from tilewave.execution.machine.registers import PARTS
from tilewave.theory import architectures

# Device address of the first buffer: above 32 bits, so that arithmetic without the upper word fails.
ORIGIN = 0x7_0000_0000
ALIGNMENT = 512  # of a buffer
GAP = 1 << 20  # bytes after a buffer in which an access beyond it is seen, and is its own
LOCAL_FREE = 1 << 16  # bytes of local memory of a thread, where a kernel uses any
ADDRESS = 8  # bytes of a pointer
SMS = 132  # of an H200
SM_WARPS = 64  # value of %nwarpid on every architecture
LEAST_SECONDS = 0.1  # of an execution in order after one on several cores
GLIMPSE_S = 0.25  # a launch with so few seconds may not end: in order, it begins once
PAGE = 128  # bytes: unit of allocation of shared memory


@dataclass(frozen=True)
class Limits:
    """Limits of a launch: warp instructions (0: no limit), seconds (0: no limit).

    ``races`` checks accesses to shared memory. ``reverse`` runs warps and blocks from the last to the first, which
    changes nothing in a kernel without races. At most ``cores`` cores are used, which changes only the time.
    ``working``: the first blocks, which have work (0: all); their speed predicts whether the seconds suffice.
    ``filling``: what each word of shared memory holds before it is written, and, if not the default, of local memory.
    """

    instructions: int = 0
    seconds: float = 0
    races: bool = True
    reverse: bool = False
    cores: int = 1
    working: int = 0
    filling: int = 0xFFFFFFFF


@dataclass(frozen=True)
class Execution:
    """Result of a launch: counts by instruction (int64 arrays), faults, and cost.

    accesses: with ``capture``, the first access to shared memory of each instruction, by index, and the
    one with the most wavefronts. printed: the text of the first calls of printf; prints: all calls.
    touched: with ``footprint``, the bytes up to which each buffer was read, and written. hints: findings
    that make no result wrong. overwritten: contents of the read-only buffers that the launch changed.
    not_searched: sentences about races of this launch that were not searched.
    """

    faults: tuple[Fault, ...]
    counts: dict[str, np.ndarray]
    seconds: float
    blocks: int
    accesses: Mapping[int, tuple[Access, Access]] = field(default_factory=dict)
    printed: tuple[str, ...] = ()
    prints: int = 0
    touched: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    hints: tuple[Fault, ...] = ()
    overwritten: Mapping[str, np.ndarray] = field(default_factory=dict)
    not_searched: tuple[str, ...] = ()


def _layout(buffers: Sequence[Buffer], room: int = 0) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Lay out all buffers in one memory, with room for so many items: its words, the buffers' ranges, their offsets."""
    ranges, starts, at = [], [], ALIGNMENT
    for buffer in buffers:
        if not buffer.array.flags.c_contiguous:
            raise BadLaunch(f"buffer {buffer.name} is not C-contiguous; pass a contiguous copy")
        size = buffer.array.nbytes
        starts.append(at)
        ranges.append((ORIGIN + at, ORIGIN + at + size))
        at += -(-max(size, room * buffer.array.itemsize) // ALIGNMENT) * ALIGNMENT + GAP
    memory = np.zeros(at // 4, np.uint32)
    view = memory.view(np.uint8)
    end = 0
    for start, buffer in zip(starts, buffers):
        view[end : min(start, end + 2 * ALIGNMENT)] = 0xFF
        end = start + buffer.array.nbytes
        if _filled(buffer.array):  # pages of zeros stay untouched
            view[start:end] = _bytes(buffer.array)
    view[end : end + 2 * ALIGNMENT] = 0xFF
    return memory, np.array(ranges, np.int64).reshape(-1, 2), starts


def _written(buffers: Sequence[Buffer], starts: Sequence[int], words: int) -> np.ndarray:
    """Return for each word of memory whether it may be read; a single item if all may."""
    watched = [(buffer.written, at // 4) for buffer, at in zip(buffers, starts)]
    written = np.ones(words if any(marks is not None for marks, _ in watched) else 1, np.uint8)
    for marks, first in watched:
        if marks is not None:
            written[first : first + len(marks)] = marks
    return written


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _filled(array: np.ndarray) -> bool:
    data = _bytes(array)
    many = data.size // 8 * 8
    return bool(data[:many].view(np.uint64).any() or data[many:].any())


def _equal(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether two arrays have the same bytes; eight are compared at once."""
    many = before.size // 8 * 8
    first = np.array_equal(before[:many].view(np.uint64), after[:many].view(np.uint64))
    return first and np.array_equal(before[many:], after[many:])


def _encoded(wanted: TensorMap, buffers: Sequence[Buffer], starts: Sequence[int]) -> bytes:
    """Encode a tensor map of one of these buffers. Raises BadLaunch if its buffer is missing."""
    for buffer, start in zip(buffers, starts):
        if buffer.name == wanted.buffer:
            return encoded(wanted, ORIGIN + start, buffer.array.nbytes)
    raise BadLaunch(f"tensor map {wanted.name} needs buffer {wanted.buffer}, which is missing")


def _placed(
    parameters: Sequence[tuple[int, int]], arguments: Sequence[Any]
) -> Iterator[tuple[int, int | None, Any]]:
    """Yield each argument with its offset and size in the parameters; size None if unknown.
    A struct yields its members. Raises BadLaunch for a struct of another size."""
    for (offset, size), argument in zip(parameters, arguments):
        if not isinstance(argument, Struct):
            yield offset, size, argument
            continue
        if argument.size != size:
            takes = f"the kernel takes an argument of {size} bytes"
            raise BadLaunch(f"{takes}, not a struct of {argument.size}")
        yield from ((offset + at, None, member) for at, member in argument.members)


def _parameters(
    program: Program,
    arguments: Sequence[Any],
    buffers: Sequence[Buffer],
    starts: Sequence[int],
    bank: np.ndarray,
) -> None:
    """Write the arguments into constant bank 0. buffers: the arguments first, tensor maps by name."""
    image = program.image
    if len(arguments) != len(image.parameters):
        takes = f"{image.entry} takes {len(image.parameters)} arguments"
        raise BadLaunch(f"{takes}, but got {len(arguments)}")
    addresses = iter(starts)
    places = {buffer.name: start for buffer, start in zip(buffers, starts)}
    view = bank.view(np.uint8)
    for offset, size, argument in _placed(image.parameters, arguments):
        if isinstance(argument, Buffer):
            data = np.uint64(ORIGIN + next(addresses)).tobytes()
        elif isinstance(argument, TensorMap) and size == ADDRESS:
            data = np.uint64(ORIGIN + places[argument.name]).tobytes()
        elif isinstance(argument, TensorMap):
            data = _encoded(argument, buffers, starts)
        else:
            data = np.asarray(argument).tobytes()
        if size not in (None, len(data)):
            raise BadLaunch(f"{image.entry} takes an argument of {size} bytes, not {len(data)}")
        at = image.parameter_base + offset
        view[at : at + len(data)] = np.frombuffer(data, np.uint8)


# Constants of sm_90 that ptxas' code for special registers reads: whether there are clusters, their
# size, its reciprocals as f32, the grid in clusters, blocks of a cluster, address of the parameters.
CLUSTERED, CLUSTER_SIZE, CLUSTER_RECIPROCAL, CLUSTERS = 0x140, 0x144, 0x150, 0x15C
CLUSTER_BLOCKS, PARAMETER_ADDRESS = 0x188, 0x198


def _constants(
    program: Program,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Any],
    buffers: Sequence[Buffer],
    starts: Sequence[int],
    cluster: Sequence[int],
) -> np.ndarray:
    """Build all constant banks as words: uint32 (5, words)."""
    image = program.image
    size = max(0x1000, *(len(data) for data in image.constants.values())) + 64
    banks = np.zeros((5, -(-size // 4)), np.uint32)
    for number, data in image.constants.items():
        banks[number].view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
    bank, row = banks[0], architectures.of(image.arch)
    bank[row.windows_at // 4 :][:4] = 0, SHARED_WINDOW, 0, LOCAL_WINDOW
    bank[row.block_at // 4 :][:3] = block
    bank[row.grid_at // 4 :][:3] = grid
    if row.cluster_constants:
        bank[CLUSTERED // 4] = int(np.prod(cluster)) > 1
        bank[CLUSTER_SIZE // 4 :][:3] = cluster
        bank[CLUSTER_RECIPROCAL // 4 :][:3] = (1 / np.array(cluster, np.float32)).view(np.uint32)
        bank[CLUSTERS // 4 :][:3] = np.array(grid) // np.array(cluster)
        bank[CLUSTER_BLOCKS // 4] = int(np.prod(cluster))
        bank[PARAMETER_ADDRESS // 4 :][:2] = PARAMETERS & 0xFFFFFFFF, PARAMETERS >> 32
    _parameters(program, arguments, buffers, starts, banks[0])
    return banks


def _point(program: Program, places: Mapping[str, int], banks: np.ndarray) -> None:
    """Write into bank 4 the addresses of the module's variables and of the system's functions."""
    for offset, section, inner in program.image.pointers:
        if section in places:
            address = places[section] + inner
            banks[4, offset // 4] = address & 0xFFFFFFFF
            banks[4, offset // 4 + 1] = address >> 32
    for offset, name in program.image.calls:
        banks[4, offset // 4] = system.FIRST + system.BYTES * program.system_calls.index(name)


def _stack_top(program: Program, banks: np.ndarray, size: int) -> None:
    """Write the top of the stack where the first load of R1 from a constant reads it."""
    for row in program.rows:
        # MOV or LDC; up to sm_89 IMAD.MOV, a product with a third source.
        if row[c.FAMILY] == c.INTEGER and row[c.DST] == 1 and not row[c.DST_UNIFORM]:
            for at in range(c.SOURCES, c.COLUMNS, c.SOURCE_COLUMNS):
                if row[at + c.KIND] == c.CONSTANT and row[at + c.INDEX] == 0:
                    banks[0, row[at + c.VALUE] // 4] = size
            return


def _resolved(program: Program, banks: np.ndarray) -> np.ndarray:
    """Return rows with every fixed constant replaced by its value: a launch does not change them."""
    rows = program.rows.copy()
    for slot in range(4):
        at = c.SOURCES + slot * c.SOURCE_COLUMNS
        chosen = np.flatnonzero(rows[:, at + c.KIND] == c.CONSTANT)
        if not len(chosen):
            continue
        bank, offset = rows[chosen, at + c.INDEX], rows[chosen, at + c.VALUE] // 4
        inside = offset + 1 < banks.shape[1]
        offset = np.where(inside, offset, 0)
        words = [banks[bank, offset], banks[bank, offset + 1]]
        for word, value, keep, flip in (
            (0, c.VALUE, c.AND, c.XOR),
            (1, c.VALUE_HIGH, c.AND_HIGH, c.XOR_HIGH),
        ):
            raw = words[word]
            if word == 0:
                swizzle = rows[chosen, at + c.SWIZZLE]
                shift, mask, factor = PARTS[np.where(swizzle == c.SWAPPED, c.WHOLE, swizzle)].T
                turned = raw >> 16 | raw << 16
                raw = np.where(swizzle == c.SWAPPED, turned, (raw >> shift & mask) * factor)
            masks = rows[chosen][:, [at + keep, at + flip]].astype(np.uint32, casting="unsafe")
            done = (raw & masks[:, 0]) ^ masks[:, 1]
            rows[chosen, at + value] = done.view(np.int32)
        # Two's complement over both words of a 64-bit constant.
        add = rows[chosen, at + c.ADD].astype(bool)
        low = rows[chosen, at + c.VALUE].view(np.uint32)
        carried = add & (low == 0xFFFFFFFF)
        rows[chosen, at + c.VALUE] = (low + add.astype(np.uint32)).view(np.int32)
        high = rows[chosen, at + c.VALUE_HIGH].view(np.uint32)
        rows[chosen, at + c.VALUE_HIGH] = (high + carried.astype(np.uint32)).view(np.int32)
        rows[chosen, at + c.SWIZZLE] = c.WHOLE
        rows[chosen, at + c.KIND] = c.VALUE_KIND
    return rows


def _identity(
    warps: int, grid: Sequence[int], block: Sequence[int], shared_size: int
) -> np.ndarray:
    """Return special registers that are fixed while a block runs: uint32 (warps, names, 32)."""
    names = c.SPECIAL_REGISTERS
    out = np.zeros((warps, len(names), 32), np.uint32)
    lane = np.arange(32)
    linear = np.arange(warps * 32).reshape(warps, 32)
    x, y = linear % block[0], linear // block[0] % block[1]
    z = linear // (block[0] * block[1])
    fixed: dict[str, Any] = {
        "SR_TID.X": x, "SR_TID.Y": y, "SR_TID.Z": z, "SR_LANEID": lane,
        "SR_TID": x | y << 16 | z << 26,
        "SR_NTID.X": block[0], "SR_NTID.Y": block[1], "SR_NTID.Z": block[2],
        "SR_NCTAID.X": grid[0], "SR_NCTAID.Y": grid[1], "SR_NCTAID.Z": grid[2],
        "SR_EQMASK": 1 << lane, "SR_LTMASK": (1 << lane) - 1, "SR_LEMASK": (2 << lane) - 1,
        "SR_GTMASK": 0xFFFFFFFF & ~((2 << lane) - 1), "SR_GEMASK": 0xFFFFFFFF & ~((1 << lane) - 1),
        "SR_SWINHI": SHARED_WINDOW, "SR_SMEMSZ": shared_size,
        "SR_WARPID": np.arange(warps)[:, None],
        # A single SM runs the block: warp number, and warps that fit.
        "SR_VIRTID": np.arange(warps)[:, None] << 8, "SR_VIRTCFG": SM_WARPS << 8,
    }  # fmt: skip
    for name, value in fixed.items():
        out[:, names.index(name)] = np.asarray(value).astype(np.uint32)
    return out


def state_of(
    program: Program,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Any],
    shared_bytes: int,
    limits: Limits,
    cluster: Sequence[int] = (1, 1, 1),
    memory: Sequence[Buffer] = (),
    sms: int = SMS,
    room: int = 0,
) -> tuple[s.State, list[tuple[int, Buffer]]]:
    """Build the state of a block; also return all buffers with their offsets, the arguments first."""
    image = program.image
    threads = int(np.prod(block))
    if not 0 < threads <= 1024 or min(*grid, *block) < 1:
        allowed = "a block has 1 to 1024 threads, a grid 1 or more blocks"
        raise BadLaunch(f"block is {block}, grid is {grid}; {allowed}")
    warps = -(-threads // 32)
    placed = list(_placed(image.parameters, arguments))
    buffers = [argument for _, _, argument in placed if isinstance(argument, Buffer)]
    taken = {buffer.name for buffer in buffers}
    in_memory = {buffer.name: buffer for buffer in memory}
    buffers += [buffer for buffer in memory if buffer.name not in taken | image.globals_.keys()]
    resident = (of for _, size, of in placed if isinstance(of, TensorMap) and size == ADDRESS)
    pointed = {argument.name: argument for argument in resident}
    buffers += [Buffer(name, np.zeros(WORDS, np.uint64)) for name in pointed]
    variables = [
        in_memory.get(name) or Buffer(name, np.frombuffer(bytearray(data), np.uint8))
        for name, data in image.globals_.items()
        if data
    ]
    words, ranges, starts = _layout([*buffers, *variables], room)
    for buffer, start in zip(buffers, starts):
        if buffer.name in pointed:
            data = np.frombuffer(_encoded(pointed[buffer.name], buffers, starts), np.uint32)
            words[start // 4 : start // 4 + len(data)] = data
    banks = _constants(program, grid, block, arguments, buffers, starts, cluster)
    banks[0, architectures.of(image.arch).sms_at // 4] = sms
    stack = bool(image.stack_size) or _accesses(program.rows, c.LOCAL).any()
    _stack_top(program, banks, LOCAL_FREE if stack else 0)
    places = {buffer.name: ORIGIN + at for buffer, at in zip(variables, starts[len(buffers) :])}
    buffers += variables
    _point(program, places, banks)
    rows = _resolved(program, banks)
    written = _written(buffers, starts, len(words))
    memos = s.rows_with_memos(rows)
    lanes.prepare(rows)
    shared_base = architectures.of(image.arch).shared_start
    shared_size = max(image.shared_size, shared_base) + shared_bytes
    # A kernel that accesses parts of shared words needs a shadow entry for every byte.
    pieces = np.abs(rows[:, c.WIDTH]) < 4
    narrow = bool((_accesses(rows, c.SHARED, c.GENERIC) & pieces).any())
    units = ((shared_size + PAGE) >> (0 if narrow else 2)) + 16
    # Local memory ends at the top of the stack; the kernel's variables lie just below it.
    local_words = LOCAL_FREE // 4 if stack else 4
    control = np.zeros(s.CONTROL_SIZE, np.int64)
    control[[s.WARPS, s.SHARED_BASE, s.SHARED_END]] = warps, shared_base, shared_size
    control[s.LOCAL_BYTES] = 4 * local_words
    control[[s.GRAIN, s.RACES]] = 0 if narrow else 2, limits.races
    control[s.TICK] = 1
    control[[s.REVERSED, s.FILLING]] = limits.reverse, limits.filling
    control[[s.QUANTUM, s.SMS]] = 4096, sms
    together = int(np.prod(cluster))
    asynchronous = together > 1 or bool(np.any(np.isin(rows[:, c.FAMILY], ASYNCHRONOUS)))
    actors = orders.actors(warps) if asynchronous else warps
    cluster_actors = together * actors
    readers = 3 * warps if asynchronous else warps
    control[[s.ASYNCHRONOUS, s.ACTORS, s.CLUSTER_ACTORS]] = asynchronous, actors, cluster_actors
    control[s.READERS] = readers
    block_control = np.zeros(s.BLOCK_CONTROL_SIZE, np.int64)
    block_control[[s.BLOCKS, s.PARAMETERS_AT]] = together, image.parameter_base
    block_control[s.REGISTERS_AT_FIRST] = image.registers
    sizes = {
        "warps": warps, "threads": 32 * warps, "instructions": len(rows), "memos": memos + 1,
        "units": units, "readers": readers, "units that are read": units if limits.races else 1,
        "units of an access": 512 if narrow else s.PATTERN, "local words": local_words,
        "actors of the cluster": cluster_actors, "phases": 2 * s.MBARRIERS if asynchronous else 1,
        "copies": s.QUEUE if c.COPY in rows[:, c.FAMILY] else 1, "blocks": together,
        "warps of the cluster": together * warps,
        "calls of printf": s.PRINTS if program.prints else 1,
    }  # fmt: skip
    state = s.allocated(
        sizes,
        code=rows,
        shared=np.full(shared_size // 4 + PAGE // 4 + 8, 0xFFFFFFFF, np.uint32),
        memory=words,
        written=written,
        ranges=ranges,
        origin=np.array([ORIGIN], np.int64),
        constants=banks,
        identity=_identity(warps, grid, block, shared_size),
        control=control,
        handlers=handlers.addresses(sorted(set(rows[:, c.FAMILY].tolist()))),
        block_control=block_control,
    )
    return state, list(zip(starts, buffers))


# Families in a loop that polls a flag.
POLLING = (c.INTEGER, c.LOGIC, c.LANES, c.SPECIAL, c.LOAD, c.CONTROL)


def _contexts(program: Program, states: Sequence[s.State]) -> blocks.Contexts:
    family, space = program.rows[:, c.FAMILY], program.rows[:, c.OP]
    loads = (family == c.LOAD) & np.isin(space, (c.GLOBAL, c.GENERIC))
    return blocks.Contexts(states, np.isin(family, POLLING), loads)


ASYNCHRONOUS = (c.HGMMA, c.MBARRIER, c.BULK, c.CLUSTER)


def cluster_of(first: s.State, together: int) -> list[s.State]:
    """Return the blocks of a cluster by rank; ``first`` is rank 0."""
    states = [first]
    for _ in range(1, together):
        copies = {name: getattr(first, name).copy() for name in blocks.BLOCK_ARRAYS}
        states.append(first._replace(**copies))
    for rank, state in enumerate(states):
        state.block_control[s.RANK] = rank
        state.identity[:, c.SPECIAL_REGISTERS.index("SR_CgaCtaId")] = rank
    return states


def _read_only(state: s.State, buffers: Sequence[tuple[int, Buffer]]) -> list[bool]:
    fixed = [not buffer.array.flags.writeable for _, buffer in buffers]
    return fixed + [False] * (len(state.ranges) - len(fixed))


def _accesses(rows: np.ndarray, *spaces: int) -> np.ndarray:
    """Return which rows load from, or store to, one of these spaces."""
    moves: np.ndarray = np.isin(rows[:, c.FAMILY], (c.LOAD, c.STORE))
    return moves & np.isin(rows[:, c.OP], spaces)


def _not_searched(program: Program, together: int, noted: bool, full: bool) -> tuple[str, ...]:
    """Return sentences about races that such a launch may have and no search finds.
    noted: whether accesses to global memory were searched; full: whether there are more findings than are kept."""
    rows = program.rows
    atomics = rows[rows[:, c.FAMILY] == c.ATOMIC]
    outside = atomics[atomics[:, c.SUB] >> 8 & 255 != c.SHARED]
    strong = np.any(rows[_accesses(rows, c.GLOBAL, c.GENERIC), c.FLAGS] & c.STRONG)
    facts = {
        "noted": noted, "full": full, "kept": s.FAULTS, "together": together, "strong": strong,
        "sums": np.all(np.isin(outside[:, c.OP], marking.SUMS)), "copies": c.COPY in rows[:, c.FAMILY],
    }  # fmt: skip
    return tuple(filled(__file__, "launch", **facts).splitlines())


def execute(
    program: Program,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Any],
    *,
    shared_bytes: int = 0,
    limits: Limits | None = None,
    cluster: Sequence[int] | None = None,
    memory: Sequence[Buffer] = (),
    capture: bool = False,
    footprint: int = 0,
    sms: int = SMS,
) -> Execution:
    """Execute a launch of ``grid`` blocks of ``block`` threads (x, y, z).

    arguments: `Buffer`, `TensorMap` (by value or by address, as the kernel takes it), numpy scalars or
    a `Struct` of them, in the kernel's order. The launch changes buffers in place, except read-only
    arrays. memory: buffers of tensor maps that are no arguments, and the module's variables by the name of
    their section, if they live longer than the launch. sms: SMs of the GPU. shared_bytes: dynamic shared memory.
    cluster: blocks of a cluster (x, y, z). Raises BadLaunch for a launch that no GPU accepts.
    ``capture`` records accesses to shared memory, ``footprint`` how far each buffer was read and written: there is room
    for so many items before the next buffer.
    """
    limits = limits or Limits()
    cluster = tuple(cluster or (1, 1, 1))
    if min(cluster) < 1 or any(blocks_ % size for blocks_, size in zip(grid, cluster)):
        raise BadLaunch(f"grid {grid} is not a multiple of the cluster {cluster}")
    together = int(np.prod(cluster))
    clusters, threads = int(np.prod(grid)) // together, int(np.prod(block))

    def prepared() -> tuple[s.State, list[tuple[int, Buffer]]]:
        how = shared_bytes, limits, cluster, memory, sms, footprint
        return state_of(program, grid, block, arguments, *how)

    state, buffers = prepared()
    states, done, seconds = [state], 0, 0.0
    seconds_left = limits.seconds
    cores = min(limits.cores, clusters // spreading.LEAST)
    alone = capture or footprint or limits.reverse or 0 < limits.seconds < GLIMPSE_S
    if cores > 1 and not alone and spreading.independent(program):
        started, limit = time.perf_counter(), Deadline.after(limits.seconds)
        done = spreading.run(
            state, functools.partial(cluster_of, together=together), _read_only(state, buffers), cores,
            grid, cluster, threads, limits.instructions, limit, limits.working,
        )  # fmt: skip
        seconds = time.perf_counter() - started - limit.slept()
        if not done:  # if several cores exceeded the time, one core would, too
            seconds_left = LEAST_SECONDS if limit.over else limits.seconds - seconds
            state, buffers = prepared()
    book = capturing.Book(program) if capture else None
    if book is not None:
        state = book.watching(state)
    marks = None
    fixed = _read_only(state, buffers)
    watched = limits.races and not capture
    if footprint or (watched and not done):
        watching = [False] * len(fixed) if footprint else fixed
        marks = marking.Marks(state, watching, faulting=not footprint)  # must outlive the state
        state = marks.watching(state)
    allowed = limits.seconds and max(seconds_left, LEAST_SECONDS)
    kept = []

    def in_order(first: s.State) -> tuple[list[s.State], int, float]:
        """Execute all blocks; return the states of a cluster, the finished blocks and the seconds."""
        states = cluster_of(first, together)
        started, limit = time.perf_counter(), Deadline.after(allowed)
        tables = views.tables(states)
        kept.append(tables)  # they hold each other's addresses
        finished = blocks.run_grid(
            tables[0], tuple(grid), threads, clusters * together, limits.instructions,
            limit, limits.reverse, cluster, _contexts(program, states), limits.working,
        )  # fmt: skip
        return states, finished, time.perf_counter() - started - limit.slept()

    if not done:
        states, done, spent = in_order(state)
        seconds += spent
    printed, prints = printing.printed(state)
    view = state.memory.view(np.uint8)
    after = {buffer.name: view[at : at + buffer.array.nbytes] for at, buffer in buffers}
    overwritten = {
        buffer.name: after[buffer.name].view(buffer.array.dtype).copy()
        for read_only, (_, buffer) in zip(fixed, buffers)
        if read_only and not _equal(_bytes(buffer.array), after[buffer.name])
    }
    names = [(ORIGIN + start, buffer) for start, buffer in buffers]
    of_launch: dict[str, Any] = {"grid": tuple(grid), "block": tuple(block), "buffers": names}
    explainer = functools.partial(Explainer, program, **of_launch)
    more: tuple[Fault, ...] = ()
    changed = overwritten or (marks is not None and marks.changed_fixed)
    if changed and not (capture or footprint or state.control[s.STOP]):
        if watched and not state.control[s.FAULT_COUNT]:  # now with accesses to read-only buffers
            fresh = prepared()[0]
            marks = marking.Marks(fresh, [False] * len(fixed))
            more = explained(explainer(states=in_order(marks.watching(fresh))[0]))
        for start, buffer in names:
            if buffer.name in overwritten:
                differs = _bytes(buffer.array) != after[buffer.name]
                watch = overwriting.Watch(start + int(np.argmax(differs)) - ORIGIN)
                again = in_order(watch.watching(prepared()[0]))[0]
                more += explained_store(explainer(states=again), watch.note)
    for start, buffer in buffers:
        if buffer.array.flags.writeable:
            _bytes(buffer.array)[:] = after[buffer.name]
        if buffer.written is not None:
            buffer.written[:] = state.written[start // 4 : start // 4 + len(buffer.written)]
    accesses = book.accesses() if book is not None else {}
    faults = explained(explainer(states=states)) + more
    counts = {name: state.counts[:, index] for index, name in enumerate(s.COUNTS)}
    touched = {buffer.name: marks.ends(start) for start, buffer in buffers if marks and footprint}
    hints = tuple(fault for fault in faults if fault.kind == HINT)
    faults = tuple(fault for fault in faults if fault.kind != HINT)
    full, noted = (
        int(state.control[s.FAULT_COUNT]) == s.FAULTS,
        limits.races and not (capture or footprint),
    )
    return Execution(
        faults, counts, seconds, done, accesses, printed, prints, touched, hints, overwritten,
        _not_searched(program, together, noted, full),
    )  # fmt: skip
