"""Closed forms for the claims' expressions, beside those of theory/: a warp's accesses, tiles, sweeps."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewave.kernel import expressions
from tilewave.theory import tiling
from tilewave.theory.quantization import tile_count

LANE = np.arange(32)


class NoValue(Exception):
    """A question of an expression that neither target nor records answer."""


def shape(m: int, n: int, k: int) -> dict[str, int]:
    return {"m": m, "n": n, "k": k}


def product(variant: str, m: int, n: int, k: int) -> str:
    """Return the name of a variant's case at a shape."""
    return f"{variant}@{m}x{n}x{k}"


def area(tile: Iterable[float]) -> float:
    return math.prod(tile)


def _access(pattern: Sequence[Any], op: str) -> tuple[int, int]:
    from tilewave.theory import wavefronts as rules  # its import of numba takes long

    width = pattern[0] // 8
    names, functions = {"lane": LANE}, {"where": np.where}
    element, active = (
        np.broadcast_to(expressions.evaluate(part, names, functions), 32)
        for part in (*pattern[1:], True)[:2]
    )
    return rules.shared_wavefronts(width * element, active, width, op)


def wavefronts(pattern: Sequence[Any], op: str = "load") -> int:
    """Return the wavefronts of a warp's access to shared memory. pattern: bits of a lane, its element of that size,
    and the active lanes (default: all); the last two are arrays, or expressions over `lane`."""
    return _access(pattern, op)[0]


def conflicts(pattern: Sequence[Any], op: str = "load") -> int:
    """Return the wavefronts of the same access that are bank conflicts."""
    return _access(pattern, op)[1]


def copies_over_ideal(rows: int, padded: int, pitch: int) -> float:
    """Return wavefronts over the ideal of cp.async.cg, whose warps copy eight rows of 64 bytes of a tile.
    Rows begin `pitch` bytes apart in global memory and `padded` bytes apart in shared memory, at different banks."""
    from tilewave.theory import wavefronts as rules

    if padded % 16 or pitch % 16:
        raise ValueError(f"rows are {padded} and {pitch} bytes apart; allowed: multiples of 16")
    counted, ideal = 0, 0
    for first in range(0, rows, 8):
        row, along = first + LANE // 4, LANE % 4 * 16
        places = row * padded + along, row * pitch + along
        counts = rules.warp_filled_copy(*places, rules.ALL, rules.ALL, 16, True)
        counted, ideal = counted + counts[0], ideal + counts[1]
    return counted / ideal


def tile_reuse() -> list[float]:
    """Return FLOP for each byte that a block loads, by tile in the order of PRIORITY."""
    return [tiling.intensity(group[0], 2) for group in tiling.PRIORITY]


def percent_in_order(speeds: Sequence[float], tolerance: float) -> float:
    """Return percent of the pairs in which the first is not slower than the second."""
    pairs = list(itertools.combinations(speeds, 2))
    return 100 * sum(a >= (1 - tolerance) * b for a, b in pairs) / len(pairs)


def last_of_first_wave(sms: int, m: int, tile: Sequence[int]) -> int:
    """Return the last n, in steps of 8, whose tiles fit one wave. Raises NoValue where none or all do."""
    sizes = range(8, 4097, 8)
    fit = [n for n in sizes if tile_count({"m": m, "n": n}, tile) <= sms]
    if len(fit) in (0, len(sizes)):
        raise NoValue(f"no wave of {sms} SMs ends at N from {sizes[0]} to {sizes[-1]}")
    return fit[-1]


def furthest_from_1(ratios: Iterable[float]) -> float:
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def before_longest_step(durations: Mapping[int, float]) -> int:
    """Return the n before the largest relative rise of the duration over a sweep."""
    if len(durations) < 3:
        raise NoValue("the sweep has fewer than three sizes")
    return max(itertools.pairwise(durations), key=lambda n: durations[n[1]] / durations[n[0]])[0]


def spread_at_equal_tiles(durations: Mapping[int, float], m: int, tile: Sequence[int]) -> float:
    """Return longest over shortest duration of products with equally many tiles, in the worst such group."""
    groups: dict[int, list[float]] = {}
    for n, duration in durations.items():
        groups.setdefault(tile_count({"m": m, "n": n}, tile), []).append(duration)
    return max(max(group) / min(group) for group in groups.values())
