"""Rules of the memory pipes, against an H200's counters.

``cp_async_h200.npz`` and ``shared_attributed_h200.npz`` hold what Nsight Compute 2025.3.1 gave for single instructions
on an H200: byte addresses, masks and figures (wavefronts and their ideal, then sectors and their ideal). Of the
cp.async patterns they hold all with up to four lanes and 350 others of each kind at random, of the loads and stores a
part at random. ``counted_...`` are launches of one copy each, with the hardware's shared wavefronts (see the comment on
cp.async in `memory`). ``cp_async_filled_h200.npz`` holds the like of copies some of whose lanes write zeros without
reading: about 160 of each kind at random (addresses in units of the width; ``p0``: the instruction's trailing predicate
was P0), and all launches of one copy (sectors, requests, shared wavefronts).
"""

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewave.theory import wavefronts

TRUTH = Path(__file__).parents[1] / "data" / "truth"
CACHES = [("cg", 16), ("ca", 4), ("ca", 8), ("ca", 16)]
OLDER_COPIES = {("cg", 16): 244, ("ca", 4): 80, ("ca", 8): 85, ("ca", 16): 91}
COPIES = {("cg", 16): 2257, ("ca", 4): 3066, ("ca", 8): 3050, ("ca", 16): 3076}
# Launches in which the hardware counted the attributed wavefronts, of 16.
COUNTED_COPIES = {("cg", 16): 0, ("ca", 4): 14, ("ca", 8): 12, ("ca", 16): 9}
LOADS, STORES = {4: 64, 8: 300, 16: 900}, {4: 64, 8: 64, 16: 100}
WIDTHS = ("lds", LOADS), ("sts", STORES)
ATTRIBUTED = {(op, width): count for op, of in WIDTHS for width, count in of.items()}


def rows(op: str) -> list[dict[str, str]]:
    with open(TRUTH / "memory_ops_h200.csv", newline="") as file:
        return [row for row in csv.DictReader(file) if row["op"] == op]


def lanes(text: str) -> np.ndarray:
    return np.array(text.split(), np.int64)


def attributed(name: str, kind: str) -> tuple[np.ndarray, ...]:
    """Return shared and global addresses (if any), masks and figures."""
    with np.load(TRUTH / name) as file:
        shared = file[f"{kind}_shared"].astype(np.int64)
        source = file[f"{kind}_source"].astype(np.int64) if f"{kind}_source" in file else shared
        return shared, source, file[f"{kind}_mask"].astype(np.int64), file[f"{kind}_figures"]


def equal(rows: list[Any], figures: np.ndarray) -> None:
    exact = np.array(rows) == figures
    assert exact.all(), np.argwhere(~exact)[:5]


def test_shared_loads_and_stores_cost_what_an_h200_counted() -> None:
    seen = 0
    for op, width in itertools.product(("load", "store"), (4, 8, 16)):
        addresses, _, masks, figures = attributed("shared_access_h200.npz", f"{op}{width}")
        active = masks[:, None] >> np.arange(32) & 1 == 1
        cost = wavefronts.shared_wavefronts
        equal([cost(at, on, width, op) for at, on in zip(addresses, active)], figures)
        seen += len(figures)
    assert seen == 700


def test_ldmatrix_costs_what_an_h200_counted() -> None:
    cases = rows("ldmatrix")
    assert len(cases) == 113
    for case in cases:
        count = 8 * int(case["matrices_or_bytes"])
        addresses = lanes(case["lane_shared_byte_address"])
        whole = wavefronts.shared_wavefronts(addresses, np.arange(32) < count, 16, "ldmatrix")
        every = np.ones(count, bool)
        short = wavefronts.shared_wavefronts(addresses[:count], every, 16, "ldmatrix")
        assert whole[0] == short[0] == int(case["shared_wavefronts"]), case
        assert whole[0] - whole[1] == count // 8


def test_global_stores_touch_the_sectors_that_an_h200_counted() -> None:
    cases = rows("global_store")
    assert len(cases) == 90
    for case in cases:
        access = lanes(case["lane_global_byte_address"]), int(case["active_mask_hex"], 16)
        sectors = wavefronts.warp_sectors(*access, int(case["matrices_or_bytes"]))
        assert sectors == int(case["global_sectors"]), case


@pytest.mark.parametrize(("cache", "width"), CACHES)
def test_asynchronous_copies_cost_what_an_h200_counted(cache: str, width: int) -> None:
    *given, figures = attributed("async_copy_h200.npz", f"{cache}{width}")
    assert len(figures) == OLDER_COPIES[cache, width]
    how = width, cache == "cg"
    copies = [wavefronts.warp_filled_copy(to, at, mask, mask, *how) for to, at, mask in zip(*given)]
    equal(copies, figures)


def copied(to: Any, origin: Any, mask: int, reading: int, shown: int, *how: Any) -> list[int]:
    """Return wavefronts, sectors, and the ideal of both; ``shown``: lanes that read where wavefronts are counted."""
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


LANES = np.arange(32)
ALL = np.ones(32, bool)


def test_nothing_active_costs_nothing() -> None:
    for op in ("load", "store", "ldmatrix"):
        assert wavefronts.shared_wavefronts(LANES * 16, ~ALL, 16, op) == (0, 0)
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
            wavefronts.shared_wavefronts(addresses, ALL, 4, op)


def test_addresses_of_inactive_lanes_are_not_looked_at() -> None:
    addresses = np.where(LANES < 8, LANES * 4, -3)
    cost = wavefronts.shared_wavefronts(addresses, LANES < 8, 4, "load")
    assert cost == (1, 0)
