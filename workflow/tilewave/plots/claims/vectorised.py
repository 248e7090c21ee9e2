"""The article on vectorised shared-memory access."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilewave.plots.claims.asked import shared_over_l1
from tilewave.plots.claims.facts import Facts
from tilewave.plots.claims.judging import Claim
from tilewave.plots.claims.warp import LANES, rules

DOCUMENT = "Vectorised shared-memory article"

Pattern = tuple[int, Callable[[int], int], Callable[[int], bool]]


def _all(_: int) -> bool:
    return True


# The article's accesses: bytes of a lane, the lane's element, whether it takes part.
PATTERNS: Mapping[str, Pattern] = {
    "32_permuted": (4, lambda i: (5 * i + 3) % 32, _all),
    "32_broadcast": (4, lambda i: i // 4, _all),
    "32_conflict": (4, lambda i: 32 * (i % 4) + 6 * (i // 8), _all),
    "64_one_half": (8, lambda i: i, lambda i: i < 16),
    "64_two_halves": (8, lambda i: 15 if i == 16 else i, lambda i: i < 15 or i == 16),
    "64_pairs": (8, lambda i: i // 2, _all),
    "64_mixed": (8, lambda i: i // 2 if i < 16 else i // 4 * 4 + i % 2, _all),
    "64_halves_equal": (8, lambda i: i % 16, _all),
    "128_two_halves": (16, lambda i: 4, lambda i: i in (15, 16)),
    "128_one_half": (16, lambda i: 4, lambda i: i in (0, 15)),
    "128_pairs": (16, lambda i: i // 8 * 2 + i % 8 // 2 % 2, _all),
    "128_mixed": (16, lambda i: i // 8 * 2 + (i % 8 // 2 % 2 if i < 16 else i % 2), _all),
    "128_conflict": (16, lambda i: i // 16 * 4 + i % 16 // 8 + i % 8 // 4 * 8, _all),
    "128_mixed_conflict": (
        16,
        lambda i: i // 16 * 4 + i % 16 // 8 * 8 + 2 * (i % 4 // 2 if i < 16 else i % 2),
        _all,
    ),
}
SAME_ADDRESS: Pattern = (16, lambda i: 0, _all)


def pattern_wavefronts(pattern: Pattern, op: str) -> int:
    """Wavefronts of one warp's access by the transaction rule; op: "load" or "store"."""
    width, element, takes_part = pattern
    addresses = np.array([width * element(int(i)) for i in LANES])
    active = np.array([takes_part(int(i)) for i in LANES])
    return int(rules().shared_wavefronts(addresses, active, width, op)[0])


def _stores_like_loads(f: Facts, wavefronts: Callable[[str], float | None]) -> float | None:
    """Percent of the patterns in which a store costs what the rule says of a load."""
    counted = {name: wavefronts(name) for name in PATTERNS}
    if any(value is None for value in counted.values()):
        return None
    alike = [counted[name] == pattern_wavefronts(p, "load") for name, p in PATTERNS.items()]
    return 100 * sum(alike) / len(alike)


def _access(name: str, section: str, text: str, wavefronts: int) -> Claim:
    bits = name.partition("_")[0]
    return Claim(
        f"access_{name}", DOCUMENT, section, f"{bits}-bit accesses, wavefronts", f"{bits}-bit: {text}",
        wavefronts, "wavefronts",
        predicted=lambda f: float(pattern_wavefronts(PATTERNS[name], "load")),
        measured=lambda f: f.value(f.probe("shared_access", f"load_{name}"), "wavefronts"),
    )  # fmt: skip


CLAIMS = [
    _access("32_permuted", "shared-memory model", "a permutation of 32 words takes 1 wavefront", 1),
    _access("32_broadcast", "shared-memory model", "lanes that share words take 1", 1),
    _access("32_conflict", "shared-memory model", "four words in one bank take 4", 4),
    _access("64_one_half", "64-bit accesses, case 1", "one active half-warp takes 1 wavefront", 1),
    _access("64_two_halves", "64-bit accesses, case 2", "the same elements over two half-warps take 2", 2),
    _access("64_pairs", "64-bit accesses, case 3", "lanes in equal pairs merge both half-warps and take 1", 1),
    _access("64_mixed", "64-bit accesses, case 4", "half-warps that are equal in different ways do not merge and take 2", 2),
    _access("64_halves_equal", "64-bit accesses, case 5", "two half-warps that read the same do not merge and take 2", 2),
    _access("128_two_halves", "128-bit accesses, case 1", "one lane in each half-warp takes 2 wavefronts", 2),
    _access("128_one_half", "128-bit accesses, case 2", "two equal lanes of one half-warp take 1", 1),
    _access("128_pairs", "128-bit accesses, case 3", "lanes in equal pairs merge the quarters and take 2", 2),
    _access("128_mixed", "128-bit accesses, case 4", "half-warps that are equal in different ways take 4", 4),
    _access("128_conflict", "128-bit accesses, case 5", "merged quarters that meet in a bank take 4", 4),
    _access("128_mixed_conflict", "128-bit accesses, case 6", "case 4 with other elements takes 4 as well", 4),
    Claim(
        "access_same_address", DOCUMENT, "128-bit accesses", "128-bit, one address",
        "32 lanes that read the same 128 bits take 2 wavefronts",
        2, "wavefronts", basis="theory",
        predicted=lambda f: float(pattern_wavefronts(SAME_ADDRESS, "load")),
    ),
    Claim(
        "access_stores", DOCUMENT, "64-bit accesses", "Stores cost as loads",
        "The rules are for accesses, so a store costs what a load does",
        100, "% of 14 patterns", tolerance=0.01,
        predicted=lambda f: _stores_like_loads(
            f, lambda name: pattern_wavefronts(PATTERNS[name], "store")
        ),
        measured=lambda f: _stores_like_loads(
            f, lambda name: f.value(f.probe("shared_access", f"store_{name}"), "wavefronts")
        ),
    ),
    Claim(
        "shared_near_l1", DOCUMENT, "introduction", "Shared memory similar to L1",
        "Shared memory and the L1 cache have similar latency",
        1, "times, latency", tolerance=0.5,
        measured=shared_over_l1,
    ),
]  # fmt: skip
