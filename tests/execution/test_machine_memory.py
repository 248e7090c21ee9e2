"""Rules of the memory pipes: against an H200's counters, and against oracles of sets.

``cp_async_h200.npz`` and ``shared_attributed_h200.npz`` hold what Nsight Compute 2025.3.1 gave for
single instructions on an H200: byte addresses, masks and figures (wavefronts and their ideal, then
sectors and their ideal). Of the cp.async patterns they hold all with up to four lanes and 350 others
of each kind at random, of the loads and stores a part at random. ``counted_...`` are launches of one
copy each, with the hardware's shared wavefronts (see the comment on cp.async in `memory`).
``cp_async_filled_h200.npz`` holds the like of copies some of whose lanes write zeros without
reading: about 160 of each kind at random (addresses in units of the width; ``p0``: the instruction's
trailing predicate was P0), and all launches of one copy (sectors, requests, shared wavefronts).
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from tilewave.theory import shared_requests, wavefronts

TRUTH = Path(__file__).parents[1] / "data" / "truth"
CACHES = [("cg", 16), ("ca", 4), ("ca", 8), ("ca", 16)]
OLDER_COPIES = {("cg", 16): 244, ("ca", 4): 80, ("ca", 8): 85, ("ca", 16): 91}
COPIES = {("cg", 16): 2257, ("ca", 4): 3066, ("ca", 8): 3050, ("ca", 16): 3076}
# Launches in which the hardware counted the attributed wavefronts, of 16.
COUNTED_COPIES = {("cg", 16): 0, ("ca", 4): 14, ("ca", 8): 12, ("ca", 16): 9}
LOADS, STORES = {4: 64, 8: 300, 16: 900}, {4: 64, 8: 64, 16: 100}
WIDTHS = ("lds", LOADS), ("sts", STORES)
ATTRIBUTED = {(op, width): count for op, of in WIDTHS for width, count in of.items()}


def rows(name: str) -> list[dict[str, str]]:
    with open(TRUTH / name, newline="") as file:
        return list(csv.DictReader(file))


def lanes(text: str) -> np.ndarray:
    return np.array(text.split(), np.int64)


def mask_of(case: dict[str, str]) -> int:
    return int(case["active_mask_hex"], 16)


def equal(rows: list[list[int]], figures: np.ndarray) -> None:
    exact = np.array(rows) == figures
    assert exact.all(), np.argwhere(~exact)[:5]


def test_shared_loads_and_stores_cost_what_an_h200_counted() -> None:
    cases = rows("shared_access_h200.csv")
    assert len(cases) == 700
    for case in cases:
        active = mask_of(case) >> np.arange(32) & 1 == 1
        given = lanes(case["lane_byte_address"]), active, int(case["width_bytes"]), case["op"]
        figures = int(case["wavefronts"]), int(case["bank_conflicts"])
        assert shared_requests.shared_wavefronts(*given) == figures, case


def test_ldmatrix_costs_what_an_h200_counted() -> None:
    cases = [case for case in rows("memory_ops_h200.csv") if case["op"] == "ldmatrix"]
    assert len(cases) == 113
    for case in cases:
        count = 8 * int(case["matrices_or_bytes"])
        addresses = lanes(case["lane_shared_byte_address"])
        whole = shared_requests.shared_wavefronts(addresses, np.arange(32) < count, 16, "ldmatrix")
        every = np.ones(count, bool)
        short = shared_requests.shared_wavefronts(addresses[:count], every, 16, "ldmatrix")
        assert whole[0] == short[0] == int(case["shared_wavefronts"]), case
        assert whole[0] - whole[1] == count // 8


def test_global_stores_touch_the_sectors_that_an_h200_counted() -> None:
    cases = [case for case in rows("memory_ops_h200.csv") if case["op"] == "global_store"]
    assert len(cases) == 90
    for case in cases:
        access = lanes(case["lane_global_byte_address"]), mask_of(case)
        sectors = wavefronts.warp_sectors(*access, int(case["matrices_or_bytes"]))
        assert sectors == int(case["global_sectors"]), case


@pytest.mark.parametrize(("cache", "width"), CACHES)
def test_asynchronous_copies_cost_what_an_h200_counted(cache: str, width: int) -> None:
    wanted = (cache, str(width))
    cases = [r for r in rows("async_copy_h200.csv") if (r["cache"], r["width_bytes"]) == wanted]
    assert len(cases) == OLDER_COPIES[cache, width]
    for case in cases:
        shared, source = (lanes(case[f"lane_{side}_byte_address"]) for side in ("shared", "global"))
        mask = mask_of(case)
        cost = wavefronts.warp_filled_copy(shared, source, mask, mask, width, cache == "cg")
        assert cost == (int(case["wavefronts"]), int(case["ideal"])), case


def attributed(name: str, kind: str) -> tuple[np.ndarray, ...]:
    """Return shared and global addresses (if any), masks and figures."""
    with np.load(TRUTH / name) as file:
        shared = file[f"{kind}_shared"].astype(np.int64)
        source = file[f"{kind}_source"].astype(np.int64) if f"{kind}_source" in file else shared
        return shared, source, file[f"{kind}_mask"].astype(np.int64), file[f"{kind}_figures"]


def copied(to: Any, origin: Any, mask: int, reading: int, shown: int, *how: Any) -> list[int]:
    """Return wavefronts, sectors, and the ideal of both; ``shown``: lanes that read where
    wavefronts are counted.
    """
    return [
        *wavefronts.warp_filled_copy(to, origin, mask, shown, *how),
        wavefronts.warp_async_copy_sectors(to, origin, reading, *how),
        wavefronts.warp_async_copy_sectors_ideal(to, origin, reading, *how),
    ]


@pytest.mark.parametrize(("cache", "width"), CACHES)
def test_copies_are_attributed_what_nsight_compute_says(cache: str, width: int) -> None:
    *given, figures = attributed("cp_async_h200.npz", f"{cache}{width}")
    assert len(figures) == COPIES[cache, width]
    how = width, cache == "cg"
    equal([copied(to, at, mask, mask, mask, *how) for to, at, mask in zip(*given)], figures)


@pytest.mark.parametrize(("cache", "width"), CACHES)
def test_hardware_counts_mostly_what_is_attributed_to_ca(cache: str, width: int) -> None:
    """The hardware counts nothing for cg."""
    *given, counted = attributed("cp_async_h200.npz", f"counted_{cache}{width}")
    how = width, cache == "cg"
    copies = [wavefronts.warp_filled_copy(to, at, mask, mask, *how) for to, at, mask in zip(*given)]
    modelled = np.array(copies)[:, 0]
    assert len(counted) == 16
    assert (modelled == counted[:, 0]).sum() == COUNTED_COPIES[cache, width]
    assert not counted.any() if cache == "cg" else np.abs(modelled - counted[:, 0]).max() <= 4


FILLED = {("cg", 16): 159, ("ca", 4): 160, ("ca", 8): 160, ("ca", 16): 160}


def filled(name: str, width: int) -> dict[str, np.ndarray]:
    """Return addresses in bytes, masks, lanes that read and figures."""
    tables = {}
    with np.load(TRUTH / "cp_async_filled_h200.npz") as file:
        for key in file:
            of, _, what = key.rpartition("_")
            if of == name:
                scale = width if what in ("shared", "source") else 1
                tables[what] = file[key].astype(np.int64) * scale
    return tables


@pytest.mark.parametrize(("cache", "width"), CACHES)
def test_copies_that_fill_are_attributed_what_nsight_compute_says(cache: str, width: int) -> None:
    table = filled(f"{cache}{width}", width)
    assert len(table["figures"]) == FILLED[cache, width]
    # Nsight Compute takes a trailing P0 for false where it counts wavefronts.
    table["shown"] = np.where(table["p0"], 0, table["reading"])
    copies = zip(*(table[key] for key in ("shared", "source", "mask", "reading", "shown")))
    equal([copied(*copy, width, cache == "cg") for copy in copies], table["figures"])


@pytest.mark.parametrize("cache,launches,exact,waves", [("cg", 376, 372, 375), ("ca", 50, 50, 31)])
def test_hardware_counts_sectors_of_lanes_that_read(cache, launches, exact, waves) -> None:
    table = filled(f"counted_{cache}16", 16)
    sectors, requests, waved = table["figures"].T
    assert len(sectors) == launches
    assert np.array_equal(requests, table["reading"] != 0)
    counted, stored, apart = [], [], []
    given = (table[key] for key in ("shared", "source", "mask", "reading"))
    for to, origin, mask, reading in zip(*given):
        how = to, origin, reading, 16, cache == "cg"
        counted.append(wavefronts.warp_async_copy_sectors_counted(*how))
        zeros = wavefronts.warp_shared(to, mask & ~reading, 16, True)[0]
        copied = wavefronts.warp_filled_copy(to, origin, reading, reading, 16, False)[0]
        stored.append(zeros + (0 if cache == "cg" else copied))
        lanes = [lane for lane in range(32) if reading >> lane & 1]
        apart.append(len({int(to[lane]) for lane in lanes}) == len(lanes))
    right = np.array(counted) == sectors
    assert right.sum() == exact
    assert right[np.array(apart)].all()
    assert (np.array(stored) == waved).sum() == waves


def test_a_row_of_64_bytes_at_a_stride_of_80_fills_20_shared_sectors() -> None:
    lane, every = np.arange(32), 0xFFFFFFFF
    to, origin = lane // 4 * 80 + lane % 4 * 16, lane // 4 * 512 + lane % 4 * 16
    assert wavefronts.warp_async_copy_sectors_counted(to, origin, every, 16, True) == 20
    assert wavefronts.warp_async_copy_sectors_counted(to, origin, every, 16, False) == 16
    assert wavefronts.warp_async_copy_sectors_counted(to, origin, 0, 16, True) == 0
    assert wavefronts.warp_filled_copy(to, origin, every, every, 16, True) == (15, 4)


@pytest.mark.parametrize(("op", "width"), ATTRIBUTED)
def test_loads_and_stores_are_attributed_what_nsight_compute_says(op: str, width: int) -> None:
    addresses, _, masks, figures = attributed("shared_attributed_h200.npz", f"{op}{width}")
    assert len(figures) == ATTRIBUTED[op, width]
    rules = wavefronts.warp_shared_attributed, wavefronts.warp_shared_ideal
    accesses = [(row, mask, width, op == "sts") for row, mask in zip(addresses, masks)]
    equal([[rule(*access) for rule in rules] for access in accesses], figures)


def oracle(addresses: list[int], mask: list[bool], width: int, op: str) -> tuple[int, int]:
    """Count wavefronts and conflicts, with sets and dictionaries."""
    size = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    if op == "load" and width >= 8:

        def neighbours_agree(step: int) -> bool:
            pairs = [(i, i ^ step) for i in range(32) if mask[i] and mask[i ^ step]]
            return all(addresses[i] == addresses[j] for i, j in pairs)

        if neighbours_agree(1) or neighbours_agree(2):
            size *= 2
    wavefronts = transactions = 0
    for begin in range(0, 32, size):
        words = defaultdict(set)
        for lane in range(begin, begin + size):
            if mask[lane]:
                for byte in range(addresses[lane], addresses[lane] + width):
                    words[byte // 4 % 32].add(byte // 4)
        if words:
            transactions += 1
            wavefronts += max(len(distinct) for distinct in words.values())
    return wavefronts, wavefronts - transactions


RARELY = st.sampled_from([False] * 7 + [True])


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], list[bool], int, str]:
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    op = draw(st.sampled_from(["load", "store"]))
    span = draw(st.sampled_from([1, 2, 4, 16, 64, 1000]))
    elements = draw(st.lists(st.integers(0, span - 1), min_size=32, max_size=32))
    # Random neighbours rarely agree: make them agree in a part of the warp or all of it.
    step = draw(st.sampled_from([0, 1, 2, 3]))
    upto = draw(st.sampled_from([8, 16, 31, 32]))
    elements = [elements[i & ~step] if i < upto else elements[i] for i in range(32)]
    masks = [st.lists(lane_flag, min_size=32, max_size=32) for lane_flag in (st.booleans(), RARELY)]
    mask = draw(st.one_of(st.just([True] * 32), *masks))
    return [element * width for element in elements], mask, width, op


@settings(max_examples=500, deadline=None)
@given(requests(), st.integers(0, 7))
def test_the_shared_rule_is_the_oracle_s(request_, lines):
    """A shift by whole lines of 128 bytes changes nothing."""
    addresses, mask, width, op = request_
    moved = np.array(addresses) + 128 * lines
    cost = shared_requests.shared_wavefronts(moved, np.array(mask), width, op)
    assert cost == oracle(addresses, mask, width, op)
    sectors = {address // 32 for address, on in zip(addresses, mask) if on}
    assert wavefronts.warp_sectors(moved, wavefronts.mask_of(np.array(mask)), width) == len(sectors)


def copy_oracle(
    shared: list[int], source: list[int], mask: list[bool], width: int, cache: str
) -> tuple[int, int]:
    """Count wavefronts and sectors of cp.async, with sets and dictionaries."""
    on = [lane for lane in range(32) if mask[lane]]
    if cache == "ca":
        groups = defaultdict(list)
        for lane in on:
            groups[lane * width // 128].append((source[lane] % 128, shared[lane] % 128))
        wavefronts = sum(
            max(sum(a[0] == b[0] or a[1] == b[1] for b in group) for a in group)
            for group in groups.values()
        )
        return wavefronts, len({source[lane] // 32 for lane in on})
    first: dict[int, int] = {}
    for lane in on:
        first.setdefault(shared[lane] // 16, lane)
    rounds: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, lane in sorted(first.items(), key=lambda item: -item[1]):
        rounds[source[lane] // 16, place // 8, place % 2].append(place)
    turn = {place: at for places in rounds.values() for at, place in enumerate(places)}
    origin = {place: source[lane] // 16 for place, lane in first.items()}
    pieces, moves = set(), set()
    for place in first:
        pair = [p for p in (place & ~1, place | 1) if p in first]
        ends = [origin[p] for p in pair]
        if len(pair) < 2 or ends[0] ^ ends[1] != 1:
            moves.add((place,))
            pair = [place]
        else:
            moves.add(tuple(pair))
            if turn[pair[0]] != turn[pair[1]]:
                pair = [place]
        change = (origin[place] ^ place) // 2 % 2
        way = tuple((p % 2, origin[p] % 2) for p in pair)
        pieces.add((turn[place], origin[place] // 8, place // 8, change, way))
    return len(pieces), len(moves)


@st.composite
def copies(draw: st.DrawFn) -> tuple[list[int], list[int], list[bool], int, str]:
    cache, width = draw(st.sampled_from(CACHES))

    def side() -> list[int]:
        span = draw(st.sampled_from([1, 2, 4, 8, 16, 32, 40, 64, 1000]))
        if span >= 32 and draw(st.booleans()):
            base = draw(st.integers(0, span))
            return [(base + x) * width for x in draw(st.permutations(range(32)))]
        elements = draw(st.lists(st.integers(0, span - 1), min_size=32, max_size=32))
        return [element * width for element in elements]

    mask = draw(st.one_of(st.just([True] * 32), st.lists(st.booleans(), min_size=32, max_size=32)))
    return side(), side(), mask, width, cache


@settings(max_examples=500, deadline=None)
@given(copies())
def test_the_copy_rules_are_the_oracle_s(copy):
    shared, source, mask, width, cache = copy
    places, bits = (np.array(shared), np.array(source)), wavefronts.mask_of(np.array(mask))
    wavefronts_, _ = wavefronts.warp_filled_copy(*places, bits, bits, width, cache == "cg")
    sectors = wavefronts.warp_async_copy_sectors(*places, bits, width, cache == "cg")
    assert (wavefronts_, sectors) == copy_oracle(*copy)


def test_masks_of_either_type_are_taken_from_compiled_code() -> None:
    generator = np.random.default_rng(5)
    shared = generator.integers(0, 64, (50, 32)) * 16
    source = generator.integers(0, 64, (50, 32)) * 16
    masks = generator.integers(0, 1 << 32, 50)
    wide = every_rule(shared, source, masks.astype(np.int64))
    assert wide.shape == (50, 12)
    assert np.array_equal(wide, every_rule(shared, source, masks.astype(np.uint32)))


@njit
def every_rule(shared, source, masks):
    out = np.empty((len(masks), 12), np.int64)
    for i in range(len(masks)):
        to, origin, mask = shared[i], source[i], masks[i]
        out[i, 0] = wavefronts.warp_shared(to, mask, 16, False)[0]
        out[i, 1] = wavefronts.warp_shared_attributed(to, mask, 16, False)
        out[i, 2] = wavefronts.warp_shared_ideal(to, mask, 8, False)
        out[i, 3] = wavefronts.warp_ldmatrix(to, mask)[0]
        for bypass in range(2):
            at = 4 + 4 * bypass
            pair = wavefronts.warp_filled_copy(to, origin, mask, mask, 16, bypass == 1)
            out[i, at], out[i, at + 1] = pair
            copy = to, origin, mask, 16, bypass == 1
            out[i, at + 2] = wavefronts.warp_async_copy_sectors(*copy)
            out[i, at + 3] = wavefronts.warp_async_copy_sectors_ideal(*copy)
    return out


LANES = np.arange(32)
ALL = np.ones(32, bool)


def test_nothing_active_costs_nothing() -> None:
    for op in ("load", "store", "ldmatrix"):
        assert shared_requests.shared_wavefronts(LANES * 16, ~ALL, 16, op) == (0, 0)
    assert wavefronts.warp_sectors(LANES * 16, 0, 4) == 0
    for bypass in (False, True):
        assert wavefronts.warp_filled_copy(LANES * 16, LANES * 16, 0, 0, 16, bypass) == (0, 0)


def test_errors_say_what_was_found_and_what_is_allowed() -> None:
    for addresses, op, message in (
        (LANES, "load", "1, 2, 3, 5"),
        (LANES * 4 - 8, "load", "-8, -4"),
        (LANES * 4, "copy", "copy of 4"),
    ):
        with pytest.raises(ValueError, match=f"{message}.*; allowed: multiples of 4"):
            shared_requests.shared_wavefronts(addresses, ALL, 4, op)


def test_addresses_of_inactive_lanes_are_not_looked_at() -> None:
    addresses = np.where(LANES < 8, LANES * 4, -3)
    cost = shared_requests.shared_wavefronts(addresses, LANES < 8, 4, "load")
    assert cost == (1, 0)
