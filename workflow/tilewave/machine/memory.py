"""Rules of the memory pipes: wavefronts of shared memory, cp.async and ldmatrix, global sectors.

Each rule is written once, as a compiled function of one warp (``warp_...``: 32 byte addresses and a
mask whose bit i is lane i), which the interpreter calls. The functions without that prefix take
numpy arrays of any number of warps. The rules were found on an NVIDIA H200 (compute capability
9.0); the patterns and counters they were checked against are in ``tests/data/truth``.
"""

# mypy: disable-error-code="misc,no-untyped-call,no-any-return"

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

LANES = 32
LINE_BYTES = 128
"""Bytes of all 32 banks side by side, and of a cache line."""
SECTOR_BYTES = 32

SHARED_WIDTHS = {"load": (1, 2, 4, 8, 16), "store": (1, 2, 4, 8, 16), "ldmatrix": (16,)}
"""Bytes of a lane's access that each operation can have."""
COPY_WIDTHS = {"ca": (4, 8, 16), "cg": (16,)}
"""Bytes of a lane's copy by cache operator (PTX ISA, cp.async)."""
GLOBAL_WIDTHS = (1, 2, 4, 8, 16)


# -------------------------------------------------------------------------------- shared memory


@njit(cache=True)
def _worst_bank(addresses: NDArray[np.int64], mask: int, unit: int) -> int:
    """Largest number of distinct words that the active lanes want from one bank.

    unit: bytes of an access, at least a word. Aligned accesses of one size are equal or disjoint,
    so units stand for their words, and a unit covers the same banks whenever it covers one.
    """
    columns = LINE_BYTES // unit
    first = np.full(LANES, -1, np.int64)  # of each column: the lane with the newest unit
    before = np.empty(LANES, np.int64)  # of each such lane: the lane with the unit before
    depth = np.zeros(LANES, np.int64)
    worst = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        place = addresses[lane] // unit
        column = place % columns
        other = first[column]
        while other >= 0 and addresses[other] // unit != place:
            other = before[other]
        if other < 0:
            before[lane] = first[column]
            first[column] = lane
            depth[column] += 1
            worst = max(worst, depth[column])
    return worst


@njit(cache=True)
def _agrees(addresses: NDArray[np.int64], mask: int, distance: int) -> bool:
    """Whether each active lane i has its address in common with lane i xor distance, if active."""
    for lane in range(LANES):
        other = lane ^ distance
        both = (mask >> lane) & (mask >> other) & 1
        if both and addresses[lane] != addresses[other]:
            return False
    return True


@njit(cache=True)
def warp_shared(
    addresses: NDArray[np.int64], mask: int, width: int, is_store: bool
) -> tuple[int, int]:
    """Wavefronts and transactions of a warp's shared load or store of ``width`` bytes a lane.

    A request is split into transactions: the whole warp for up to 4 bytes, half-warps for 8,
    quarter-warps for 16. Two neighbouring ones of a load merge (8 bytes: both halves; 16: the
    quarters of each half) where all active lanes of the warp agree with lane i xor 1, or all with
    lane i xor 2. A transaction costs the largest number of distinct words in one bank, and nothing
    without an active lane. Conflicts are wavefronts less transactions.
    """
    unit = max(width, 4)
    lanes = min(LANES, LINE_BYTES // unit)
    if not is_store and unit > 4 and (_agrees(addresses, mask, 1) or _agrees(addresses, mask, 2)):
        lanes *= 2
    wavefronts = 0
    transactions = 0
    for begin in range(0, LANES, lanes):
        part = mask & (((1 << lanes) - 1) << begin)
        if part:
            wavefronts += _worst_bank(addresses, part, unit)
            transactions += 1
    return wavefronts, transactions


@njit(cache=True)
def warp_shared_ideal(addresses: NDArray[np.int64], mask: int, width: int, is_store: bool) -> int:
    """Wavefronts of a shared load or store that Nsight Compute would take for free of conflicts.

    The bytes of the active lanes in lines of 128; half of that for loads of 8 and 16 bytes whose
    transactions merge. TODO: some 16-byte loads differ.
    """
    count = 0
    for lane in range(LANES):
        count += (mask >> lane) & 1
    unit = max(width, 4)
    line = LINE_BYTES
    if not is_store and unit > 4 and (_agrees(addresses, mask, 1) or _agrees(addresses, mask, 2)):
        line *= 2
    return (count * unit + line - 1) // line


@njit(cache=True)
def warp_shared_attributed(
    addresses: NDArray[np.int64], mask: int, width: int, is_store: bool
) -> int:
    """Wavefronts that Nsight Compute attributes to the instruction: a model of its own.

    TODO: differs from the hardware for some 16-byte loads.
    """
    return warp_shared(addresses, mask, width, is_store)[0]


@njit(cache=True)
def warp_ldmatrix(addresses: NDArray[np.int64], mask: int) -> tuple[int, int]:
    """Wavefronts and transactions of ldmatrix: one transaction for each 8x8 matrix.

    addresses: of 32 rows, eight for each matrix; mask: the rows that count. ``.x1`` is 0xff, ``.x2``
    0xffff, ``.x4`` 0xffffffff; ``.trans`` makes no difference.
    """
    wavefronts = 0
    transactions = 0
    for begin in range(0, LANES, 8):
        part = mask & (0xFF << begin)
        if part:
            wavefronts += _worst_bank(addresses, part, 16)
            transactions += 1
    return wavefronts, transactions


# --------------------------------------------------------------------------------------- cp.async


@njit(cache=True)
def _bypass(shared: NDArray[np.int64], source: NDArray[np.int64], mask: int) -> int:
    """Wavefronts of cp.async.cg (LDGSTS.BYPASS), 16 bytes a lane.

    Of lanes that write the same 16 bytes the first one counts. What goes from one global sector to
    one shared sector moves together, unless one half of it is wanted twice. Such pieces share a
    wavefront where they have the global line, the shared line and the way of the halves in common,
    and all of them or none change between even and odd sectors.
    """
    origin = np.empty(LANES, np.int64)  # global sector of each piece
    target = np.empty(LANES, np.int64)  # shared sector
    # Where its halves come from, a digit of base 3 each, 0 for none: 1 + source half of the low one,
    # 3 times that of the high one.
    form = np.empty(LANES, np.int64)
    pieces = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        place = shared[lane] // 16
        taken = False
        for other in range(lane):
            if (mask >> other) & 1 and shared[other] // 16 == place:
                taken = True
        if taken:
            continue
        half = source[lane] // 16 % 2
        mine, others = (1, 3) if place % 2 == 0 else (3, 1)
        joined = False
        for i in range(pieces):
            if (
                origin[i] == source[lane] // SECTOR_BYTES
                and target[i] == place // 2
                and form[i] == (2 - half) * others
            ):
                form[i] += (1 + half) * mine
                joined = True
        if not joined:
            origin[pieces] = source[lane] // SECTOR_BYTES
            target[pieces] = place // 2
            form[pieces] = (1 + half) * mine
            pieces += 1
    wavefronts = 0
    for i in range(pieces):
        fresh = True
        for j in range(i):
            if (
                origin[i] // 4 == origin[j] // 4
                and target[i] // 4 == target[j] // 4
                and form[i] == form[j]
                and (origin[i] ^ target[i]) % 2 == (origin[j] ^ target[j]) % 2
            ):
                fresh = False
        if fresh:
            wavefronts += 1
    return wavefronts


@njit(cache=True)
def _through_cache(
    shared: NDArray[np.int64], source: NDArray[np.int64], mask: int, width: int
) -> int:
    """Wavefronts of cp.async.ca (LDGSTS), 4, 8 or 16 bytes a lane.

    Every lane moves its words from banks of the cache to banks of shared memory; nothing is shared.
    The warp (halves of it for 8 bytes, quarters for 16) goes in rounds. In a round the last waiting
    lane on each shared bank is let through, and of those the first one on each source bank.
    """
    columns = LINE_BYTES // width
    lanes = LANES * 4 // width
    rounds = 0
    for begin in range(0, LANES, lanes):
        waiting = mask & (((1 << lanes) - 1) << begin)
        while waiting:
            chosen = 0
            used = 0
            for lane in range(begin + lanes - 1, begin - 1, -1):
                column = 1 << (shared[lane] // width % columns)
                if (waiting >> lane) & 1 and not used & column:
                    used |= column
                    chosen |= 1 << lane
            used = 0
            for lane in range(begin, begin + lanes):
                column = 1 << (source[lane] // width % columns)
                if (chosen >> lane) & 1 and not used & column:
                    used |= column
                    waiting &= ~(1 << lane)
            rounds += 1
    return rounds


@njit(cache=True)
def warp_async_copy(
    shared: NDArray[np.int64], source: NDArray[np.int64], mask: int, width: int, bypass: bool
) -> int:
    """Wavefronts of a warp's cp.async. source: global addresses; bypass: ``.cg`` instead of ``.ca``."""
    if bypass:
        return _bypass(shared, source, mask)
    return _through_cache(shared, source, mask, width)


@njit(cache=True)
def warp_async_copy_ideal(shared: NDArray[np.int64], mask: int, width: int, bypass: bool) -> int:
    """Wavefronts of a cp.async that Nsight Compute would take for free of conflicts.

    The bytes of the active lanes in lines; with ``.cg`` lanes that write the same place count once.
    """
    count = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        fresh = 1
        if bypass:
            for other in range(lane):
                if (mask >> other) & 1 and shared[other] == shared[lane]:
                    fresh = 0
        count += fresh
    return (count * width + LINE_BYTES - 1) // LINE_BYTES


# ----------------------------------------------------------------------------------------- global


@njit(cache=True)
def warp_sectors(addresses: NDArray[np.int64], mask: int, width: int) -> int:
    """Distinct 32-byte sectors that a warp's aligned accesses of ``width`` bytes touch."""
    held = np.full(2 * LANES, -1, np.int64)  # open addressing
    sectors = 0
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        sector = addresses[lane] // SECTOR_BYTES
        place = sector % (2 * LANES)
        while held[place] >= 0 and held[place] != sector:
            place = (place + 1) % (2 * LANES)
        if held[place] < 0:
            held[place] = sector
            sectors += 1
    return sectors


# --------------------------------------------------------------------------------------- arrays


@njit(cache=True)
def _shared_rows(
    addresses: NDArray[np.int64], masks: NDArray[np.int64], width: int, kind: int
) -> NDArray[np.int64]:
    out = np.empty((2, len(masks)), np.int64)
    for i in range(len(masks)):
        if kind == 2:
            out[0, i], out[1, i] = warp_ldmatrix(addresses[i], masks[i])
        else:
            out[0, i], out[1, i] = warp_shared(addresses[i], masks[i], width, kind == 1)
    return out


@njit(cache=True)
def _copy_rows(
    shared: NDArray[np.int64],
    source: NDArray[np.int64],
    masks: NDArray[np.int64],
    width: int,
    bypass: bool,
) -> NDArray[np.int64]:
    out = np.empty((2, len(masks)), np.int64)
    for i in range(len(masks)):
        out[0, i] = warp_async_copy(shared[i], source[i], masks[i], width, bypass)
        out[1, i] = warp_async_copy_ideal(shared[i], masks[i], width, bypass)
    return out


@njit(cache=True)
def _sector_rows(
    addresses: NDArray[np.int64], masks: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    out = np.empty(len(masks), np.int64)
    for i in range(len(masks)):
        out[i] = warp_sectors(addresses[i], masks[i], width)
    return out


def _allowed(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed or isinstance(value, bool):
        listed = ", ".join(repr(item) for item in allowed)
        raise ValueError(f"{name} is {value!r}; allowed: {listed}")


def _warps(
    name: str,
    addresses: ArrayLike,
    active: ArrayLike,
    width: int,
    lanes: tuple[int, ...] = (LANES,),
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[int, ...]]:
    """Addresses as rows of 32, masks, and the shape without the lanes. Raises ValueError."""
    given, on = np.asarray(addresses), np.asarray(active)
    if given.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {given.dtype}; allowed: integers, in bytes")
    if on.dtype != np.bool_:
        raise ValueError(f"active has dtype {on.dtype}; allowed: bool")
    if not given.ndim or given.shape[-1] not in lanes:
        listed = " or ".join(f"(..., {count})" for count in lanes)
        raise ValueError(f"{name} has shape {given.shape}; allowed: {listed}")
    if on.shape[-1:] != given.shape[-1:]:
        raise ValueError(f"active has shape {on.shape} where {name} has {given.shape}")
    try:
        on = np.broadcast_to(on, given.shape)
    except ValueError:
        raise ValueError(f"active has shape {on.shape} where {name} has {given.shape}") from None
    wanted = np.where(on, given, 0).astype(np.int64)
    wrong = np.argwhere((wanted < 0) | (wanted % width != 0))
    if len(wrong):
        place = tuple(int(index) for index in wrong[0])
        raise ValueError(
            f"{name}{list(place)} is {int(wanted[place])}; "
            f"allowed for an active lane: multiples of {width}, not negative"
        )
    count = given.shape[-1]
    rows = np.zeros((wanted.size // count, LANES), np.int64)
    rows[:, :count] = wanted.reshape(-1, count)
    bits = np.left_shift(np.int64(1), np.arange(count, dtype=np.int64))
    masks = (on.reshape(-1, count) * bits).sum(1, dtype=np.int64)
    return rows, masks, given.shape[:-1]


def shared_wavefronts(
    addresses: ArrayLike, active: ArrayLike, width: int, op: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Wavefronts of shared-memory requests, and how many of them are bank conflicts.

    Parameters
    ----------
    addresses
        Integers (..., 32): shared byte addresses of a warp's lanes. Those of inactive lanes are
        not looked at. For ``ldmatrix`` row addresses: (..., 8), (..., 16) or (..., 32), eight for
        each matrix.
    active
        bool, of the same shape or one that broadcasts to it. For ``ldmatrix`` the rows that count:
        a matrix none of whose rows is active is not read, so ``.x1`` may also be given as 32
        addresses of which the first eight are active.
    width
        Bytes of a lane's access: 1, 2, 4, 8 or 16; 16 for ``ldmatrix``.
    op
        ``"load"``, ``"store"`` or ``"ldmatrix"``.

    Returns
    -------
    Wavefronts and bank conflicts (wavefronts less transactions), int64 arrays of shape (...).

    Raises ValueError for anything else, and for an active address that is not a multiple of width.
    See `warp_shared` for the rule.
    """
    _allowed("op", op, tuple(SHARED_WIDTHS))
    _allowed("width", width, SHARED_WIDTHS[op])
    lanes = (8, 16, LANES) if op == "ldmatrix" else (LANES,)
    rows, masks, shape = _warps("addresses", addresses, active, width, lanes)
    kind = {"load": 0, "store": 1, "ldmatrix": 2}[op]
    wavefronts, transactions = _shared_rows(rows, masks, width, kind)
    return wavefronts.reshape(shape), (wavefronts - transactions).reshape(shape)


def _copies(
    shared_addresses: ArrayLike,
    global_addresses: ArrayLike,
    active: ArrayLike,
    width: int,
    cache: str,
) -> NDArray[np.int64]:
    _allowed("cache", cache, tuple(COPY_WIDTHS))
    _allowed("width", width, COPY_WIDTHS[cache])
    shared, masks, shape = _warps("shared_addresses", shared_addresses, active, width)
    source, _, other = _warps("global_addresses", global_addresses, active, width)
    if shape != other:
        raise ValueError(
            f"global_addresses has shape {(*other, LANES)} "
            f"where shared_addresses has {(*shape, LANES)}"
        )
    return _copy_rows(shared, source, masks, width, cache == "cg").reshape(2, *shape)


def async_copy_wavefronts(
    shared_addresses: ArrayLike,
    global_addresses: ArrayLike,
    active: ArrayLike,
    width: int,
    cache: str,
) -> NDArray[np.int64]:
    """Shared wavefronts of cp.async (LDGSTS).

    Addresses in bytes, integers (..., 32); active bool (..., 32). cache: ``"ca"`` with width 4, 8
    or 16 or ``"cg"`` with width 16. Returns int64 of shape (...). Only the places of the addresses
    within and among 128-byte lines matter, so global addresses may count from the start of any
    buffer that is aligned to a line. Raises ValueError for anything else.
    """
    return _copies(shared_addresses, global_addresses, active, width, cache)[0]


def async_copy_ideal(
    shared_addresses: ArrayLike,
    global_addresses: ArrayLike,
    active: ArrayLike,
    width: int,
    cache: str,
) -> NDArray[np.int64]:
    """What Nsight Compute calls the ideal wavefronts of cp.async; parameters as before."""
    return _copies(shared_addresses, global_addresses, active, width, cache)[1]


def global_sectors(addresses: ArrayLike, active: ArrayLike, width: int) -> NDArray[np.int64]:
    """Distinct 32-byte sectors of a warp's global loads or stores.

    Addresses in bytes, integers (..., 32); active bool (..., 32); width 1, 2, 4, 8 or 16. Returns
    int64 of shape (...). Raises ValueError for anything else.
    """
    _allowed("width", width, GLOBAL_WIDTHS)
    rows, masks, shape = _warps("addresses", addresses, active, width)
    return _sector_rows(rows, masks, width).reshape(shape)
