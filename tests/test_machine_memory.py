"""Rules of the memory pipes: against an H200's counters, and against an oracle of sets."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewave.machine import memory

TRUTH = Path(__file__).parent / "data" / "truth"
# Patterns of which the rule of cp.async gives the measured wavefronts, of all: the rest is open.
EXACT_COPIES = {
    ("cg", 16): (241, 244),
    ("ca", 4): (73, 80),
    ("ca", 8): (75, 85),
    ("ca", 16): (81, 91),
}


def rows(name: str) -> list[dict[str, str]]:
    with open(TRUTH / name, newline="") as file:
        return list(csv.DictReader(file))


def lanes(text: str) -> np.ndarray:
    return np.array(text.split(), np.int64)


def active(text: str) -> np.ndarray:
    return int(text, 16) >> np.arange(32) & 1 == 1


# -------------------------------------------------------------------------- hardware counters


def test_shared_loads_and_stores_cost_what_an_h200_counted() -> None:
    cases = rows("shared_access_h200.csv")
    assert len(cases) == 700
    for case in cases:
        found = memory.shared_wavefronts(
            lanes(case["lane_byte_address"]),
            active(case["active_mask_hex"]),
            int(case["width_bytes"]),
            case["op"],
        )
        assert [int(x) for x in found] == [int(case["wavefronts"]), int(case["bank_conflicts"])], (
            case
        )


def test_ldmatrix_costs_what_an_h200_counted() -> None:
    cases = [case for case in rows("memory_ops_h200.csv") if case["op"] == "ldmatrix"]
    assert len(cases) == 113
    for case in cases:
        count = 8 * int(case["matrices_or_bytes"])
        addresses = lanes(case["lane_shared_byte_address"])
        whole = memory.shared_wavefronts(addresses, np.arange(32) < count, 16, "ldmatrix")
        short = memory.shared_wavefronts(addresses[:count], np.ones(count, bool), 16, "ldmatrix")
        assert int(whole[0]) == int(short[0]) == int(case["shared_wavefronts"]), case
        assert int(whole[0] - whole[1]) == count // 8


def test_global_stores_touch_the_sectors_that_an_h200_counted() -> None:
    cases = [case for case in rows("memory_ops_h200.csv") if case["op"] == "global_store"]
    assert len(cases) == 90
    for case in cases:
        found = memory.global_sectors(
            lanes(case["lane_global_byte_address"]),
            active(case["active_mask_hex"]),
            int(case["matrices_or_bytes"]),
        )
        assert int(found) == int(case["global_sectors"]), case


@pytest.mark.parametrize(("cache", "width"), EXACT_COPIES)
def test_asynchronous_copies_cost_what_an_h200_counted(cache: str, width: int) -> None:
    wanted = (cache, str(width))
    cases = [r for r in rows("async_copy_h200.csv") if (r["cache"], r["width_bytes"]) == wanted]
    shared = np.array([lanes(case["lane_shared_byte_address"]) for case in cases])
    source = np.array([lanes(case["lane_global_byte_address"]) for case in cases])
    masks = np.array([active(case["active_mask_hex"]) for case in cases])
    found = memory.async_copy_wavefronts(shared, source, masks, width, cache)
    exact = found == [int(case["wavefronts"]) for case in cases]
    assert (exact.sum(), len(cases)) == EXACT_COPIES[cache, width]
    ideal = memory.async_copy_ideal(shared, source, masks, width, cache)
    assert ideal.tolist() == [int(case["ideal"]) for case in cases]


# --------------------------------------------------------------------------- the shared rule


def oracle(addresses: list[int], mask: list[bool], width: int, op: str) -> tuple[int, int]:
    """Wavefronts and conflicts, with sets and dictionaries."""
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
            wavefronts += max(len(found) for found in words.values())
    return wavefronts, wavefronts - transactions


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[int], list[bool], int, str]:
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    op = draw(st.sampled_from(["load", "store"]))
    span = draw(st.sampled_from([1, 2, 4, 16, 64, 1000]))
    elements = draw(st.lists(st.integers(0, span - 1), min_size=32, max_size=32))
    # Neighbours agree by chance in too few requests: let them, in a part of the warp or all of it.
    step = draw(st.sampled_from([0, 1, 2, 3]))
    upto = draw(st.sampled_from([8, 16, 31, 32]))
    elements = [elements[i & ~step] if i < upto else elements[i] for i in range(32)]
    mask = draw(
        st.one_of(
            st.just([True] * 32),
            st.lists(st.booleans(), min_size=32, max_size=32),
            st.lists(st.sampled_from([False] * 7 + [True]), min_size=32, max_size=32),
        )
    )
    return [element * width for element in elements], mask, width, op


@settings(max_examples=500, deadline=None)
@given(requests())
def test_the_shared_rule_is_the_oracle_s(request_: tuple[list[int], list[bool], int, str]) -> None:
    addresses, mask, width, op = request_
    found = memory.shared_wavefronts(np.array(addresses), np.array(mask), width, op)
    assert tuple(int(x) for x in found) == oracle(addresses, mask, width, op)


@settings(max_examples=200, deadline=None)
@given(requests(), st.integers(0, 7))
def test_a_shift_by_whole_lines_changes_nothing(
    request_: tuple[list[int], list[bool], int, str], count: int
) -> None:
    addresses, mask, width, op = request_
    here = memory.shared_wavefronts(np.array(addresses), np.array(mask), width, op)
    there = memory.shared_wavefronts(np.array(addresses) + 128 * count, np.array(mask), width, op)
    assert np.array_equal(here, there)


@settings(max_examples=200, deadline=None)
@given(requests())
def test_sectors_are_those_that_a_set_holds(
    request_: tuple[list[int], list[bool], int, str],
) -> None:
    addresses, mask, width, _ = request_
    found = memory.global_sectors(np.array(addresses), np.array(mask), width)
    assert int(found) == len({a // 32 for a, on in zip(addresses, mask) if on})


def test_arrays_of_any_shape_are_taken_warp_by_warp() -> None:
    generator = np.random.default_rng(3)
    addresses = generator.integers(0, 500, (3, 5, 32)) * 8
    mask = generator.random((3, 5, 32)) < 0.7
    wavefronts, conflicts = memory.shared_wavefronts(addresses, mask, 8, "load")
    assert wavefronts.shape == conflicts.shape == (3, 5)
    for i in range(3):
        for j in range(5):
            one = memory.shared_wavefronts(addresses[i, j], mask[i, j], 8, "load")
            assert [int(x) for x in one] == [wavefronts[i, j], conflicts[i, j]]
    everywhere = memory.shared_wavefronts(addresses, np.ones(32, bool), 8, "store")
    assert everywhere[0].shape == (3, 5)
    empty = memory.shared_wavefronts(np.zeros((0, 32), int), np.zeros((0, 32), bool), 4, "load")
    assert empty[0].shape == (0,)


def test_nothing_active_costs_nothing() -> None:
    none = np.zeros(32, bool)
    addresses = np.arange(32) * 16
    for op in memory.SHARED_WIDTHS:
        assert [int(x) for x in memory.shared_wavefronts(addresses, none, 16, op)] == [0, 0]
    assert int(memory.global_sectors(addresses, none, 4)) == 0
    for cache in memory.COPY_WIDTHS:
        assert int(memory.async_copy_wavefronts(addresses, addresses, none, 16, cache)) == 0
        assert int(memory.async_copy_ideal(addresses, addresses, none, 16, cache)) == 0


# ------------------------------------------------------------------------------------- errors

LANES = np.arange(32)
ALL = np.ones(32, bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: memory.shared_wavefronts(LANES, ALL, 3, "load"),
            "width is 3; allowed: 1, 2, 4, 8, 16",
        ),
        (
            lambda: memory.shared_wavefronts(LANES, ALL, 8, "ldmatrix"),
            "width is 8; allowed: 16",
        ),
        (
            lambda: memory.shared_wavefronts(LANES, ALL, 4, "copy"),
            "op is 'copy'; allowed: 'load', 'store', 'ldmatrix'",
        ),
        (
            lambda: memory.shared_wavefronts(LANES[:31], ALL[:31], 4, "load"),
            r"addresses has shape \(31,\); allowed: \(..., 32\)",
        ),
        (
            lambda: memory.shared_wavefronts(LANES[:12] * 16, ALL[:12], 16, "ldmatrix"),
            r"shape \(12,\); allowed: \(..., 8\) or \(..., 16\) or \(..., 32\)",
        ),
        (
            lambda: memory.shared_wavefronts(np.float64(1), ALL, 4, "load"),
            "dtype float64; allowed: integers",
        ),
        (
            lambda: memory.shared_wavefronts(LANES * 4, np.ones(32, int), 4, "load"),
            "active has dtype int64; allowed: bool",
        ),
        (
            lambda: memory.shared_wavefronts(LANES * 4, ALL[:16], 4, "load"),
            r"active has shape \(16,\) where addresses has \(32,\)",
        ),
        (
            lambda: memory.shared_wavefronts(LANES * 4, np.ones((2, 32), bool), 4, "load"),
            r"active has shape \(2, 32\) where addresses has \(32,\)",
        ),
        (
            lambda: memory.shared_wavefronts(LANES * 4, ALL, 8, "load"),
            r"addresses\[1\] is 4; allowed for an active lane: multiples of 8",
        ),
        (
            lambda: memory.shared_wavefronts(LANES * 4 - 8, ALL, 4, "load"),
            r"addresses\[0\] is -8; allowed",
        ),
        (
            lambda: memory.async_copy_wavefronts(LANES * 4, LANES * 4, ALL, 4, "cg"),
            "width is 4; allowed: 16",
        ),
        (
            lambda: memory.async_copy_wavefronts(LANES * 4, LANES * 4, ALL, 2, "ca"),
            "width is 2; allowed: 4, 8, 16",
        ),
        (
            lambda: memory.async_copy_wavefronts(LANES * 4, LANES * 4, ALL, 4, "cs"),
            "cache is 'cs'; allowed: 'ca', 'cg'",
        ),
        (
            lambda: memory.async_copy_wavefronts(LANES * 4, LANES * 4 + 2, ALL, 4, "ca"),
            r"global_addresses\[0\] is 2; allowed",
        ),
        (
            lambda: memory.async_copy_ideal(LANES * 4, np.zeros((2, 32), int), ALL, 4, "ca"),
            r"global_addresses has shape \(2, 32\) where shared_addresses has \(32,\)",
        ),
        (lambda: memory.global_sectors(LANES * 5, ALL, 5), "width is 5; allowed"),
    ],
)
def test_errors_say_what_was_found_and_what_is_allowed(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_addresses_of_inactive_lanes_are_not_looked_at() -> None:
    addresses = np.where(LANES < 8, LANES * 4, -3)
    found = memory.shared_wavefronts(addresses, LANES < 8, 4, "load")
    assert [int(x) for x in found] == [1, 0]
