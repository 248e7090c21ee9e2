"""The GPU performance notes: tile and wave quantization."""

from __future__ import annotations

import itertools
import math

from tilewave.plots import base
from tilewave.plots.claims.asked import STAGED, TILE, mnk
from tilewave.plots.claims.facts import Facts, Function, Unknown
from tilewave.plots.claims.judging import Claim
from tilewave.plots.claims.performance import DOCUMENT
from tilewave.plots.claims.performance_tiles import WIDE, K, cublas_tile
from tilewave.theory import quantization
from tilewave.theory.data_sheets import A100

SWEPT = f"{STAGED}-raster1"
ROWS = 2304  # the example of wave quantization


def _sweep(f: Facts, m: int, metric: str) -> dict[int, float]:
    """A metric of the swept kernel by n, at m rows and K deep."""
    found = {}
    for row in f.cases:
        if row["variant"] == SWEPT and row["m"] == m and row["k"] == K:
            value = f.value(str(row["case"]), metric)
            if value is not None:
                found[int(row["n"])] = value
    return dict(sorted(found.items()))


def _count(n: int, m: int = ROWS) -> int:
    return quantization.tile_count(mnk(m, n, K), TILE)


def _grid(n: int) -> Function:
    return lambda f: f.value(f.case(SWEPT, ROWS, n, K), "launch__grid_size")


def _tail(f: Facts) -> float | None:
    """Blocks of the last wave as ncu counts waves: blocks less those of the full waves."""
    case = f.case(SWEPT, ROWS, 1664, K)
    blocks = f.value(case, "launch__grid_size")
    waves = f.value(case, "launch__waves_per_multiprocessor")
    if blocks is None or not waves:
        return None
    return float(round(blocks - math.floor(waves) * blocks / waves))


def _last_of_first_wave(sms: int) -> float:
    """The last n, in steps of 8, whose tiles fit one wave. Raises Unknown where none or all do."""
    sizes = range(8, 4097, 8)
    fit = [n for n in sizes if quantization.waves(_count(n), sms).count == 1]
    if len(fit) in (0, len(sizes)):
        raise Unknown(f"no wave of {sms} SMs ends at N from {sizes[0]} to {sizes[-1]}")
    return float(fit[-1])


def _longest_step(f: Facts) -> float | None:
    """The n before the largest relative rise of the duration over the sweep."""
    found = _sweep(f, ROWS, "duration")
    sizes = list(found)
    if len(sizes) < 3:
        return None
    rises = {a: found[b] / found[a] for a, b in itertools.pairwise(sizes)}
    return float(max(rises, key=lambda n: rises[n]))


def _over_boundary(metric: str) -> Function:
    """A metric just behind the end of this GPU's first wave over that at its end."""

    def quotient(f: Facts) -> float | None:
        last = int(_last_of_first_wave(f.sms))
        return f.ratio(metric, f.case(SWEPT, ROWS, last + 8, K), f.case(SWEPT, ROWS, last, K))

    return quotient


def _waves(f: Facts, m: int, n: int) -> int:
    return quantization.waves(_count(n, m), f.sms).count


def _predicted_over(f: Facts, m: int, before: int, after: int) -> float:
    """TFLOP/s after over before where a wave takes one time: useful work over waves."""
    return (after / _waves(f, m, after)) / (before / _waves(f, m, before))


def _worst_operations(f: Facts) -> float | None:
    """Counted tensor operations over those of whole tiles: the quotient furthest from 1."""
    counted = _sweep(f, WIDE, base.COUNTED_TENSOR_FLOPS)
    ratios = [v / (2.0 * _count(n, WIDE) * TILE[0] * TILE[1] * K) for n, v in counted.items()]
    return max(ratios, key=lambda ratio: abs(ratio - 1), default=None)


def _spread_of_equal_tiles(f: Facts) -> float | None:
    """Longest over shortest duration of products with equally many tiles, the worst such group."""
    groups: dict[int, list[float]] = {}
    for n, duration in _sweep(f, WIDE, "duration").items():
        groups.setdefault(_count(n, WIDE), []).append(duration)
    return max((max(g) / min(g) for g in groups.values() if len(g) > 1), default=None)


def _useful_of_last_column(f: Facts) -> float | None:
    """Percent of the second tile column that is no padding, from the counted operations."""
    counted = f.value(f.case(SWEPT, WIDE, 136, K), base.COUNTED_TENSOR_FLOPS)
    if counted is None:
        return None
    columns = counted / (2.0 * WIDE * K)  # that were computed
    return 100 * (136 - (columns - TILE[1])) / TILE[1]


def _cublas_shrinks(f: Facts) -> float | None:
    """Area of cuBLAS' tile just behind a tile boundary over that before it."""
    before, after = (cublas_tile(f, (WIDE, n, K)) for n in (128, 136))
    if before is None or after is None:
        return None
    return after[0] * after[1] / (before[0] * before[1])


CLAIMS = [
    Claim(
        "tiles_192", DOCUMENT, "3.4, tile quantization", "Tiles of 192×192",
        "192 x 192 outputs take four tiles of 128 x 128",
        4, "tiles", basis="theory",
        predicted=lambda f: float(quantization.tile_count(mnk(192, 192, 1), (128, 128))),
    ),
    Claim(
        "tile_useful", DOCUMENT, "3.4, tile quantization", "Useful share, N = 136",
        "N from 128 to 136 starts a tile column of which 6.25 % is useful",
        6.25, "%", tolerance=0.001, basis="theory",
        predicted=lambda f: 100 * quantization.last_column_useful(mnk(WIDE, 136, K), TILE),
        measured=_useful_of_last_column,
    ),
    Claim(
        "tile_operations", DOCUMENT, "3.4, tile quantization",
        "Operations of partly filled tiles",
        "Every tile costs the same number of operations, full or not",
        1, "of whole tiles'", tolerance=0.001,
        predicted=lambda f: 1.0, measured=_worst_operations,
    ),
    Claim(
        "tile_drop", DOCUMENT, "3.4, tile quantization", "Throughput, N 128 to 136",
        "The throughput drops where a tile column begins (N = 136)",
        1, "times", relation="less than", tolerance=0.05,
        predicted=lambda f: _predicted_over(f, WIDE, 128, 136),
        measured=lambda f: f.ratio("tflops", f.case(SWEPT, WIDE, 136, K), f.case(SWEPT, WIDE, 128, K)),
    ),
    Claim(
        "tile_duration", DOCUMENT, "3.4, tile quantization", "Duration at equal tiles",
        "The duration stays the same while the number of tiles does",
        1, "longest / shortest", tolerance=0.05,
        predicted=lambda f: 1.0, measured=_spread_of_equal_tiles,
    ),
    Claim(
        "cublas_small_tile", DOCUMENT, "3.4, tile quantization", "cuBLAS takes smaller tiles",
        "cuBLAS takes smaller tiles where large ones would be wasted (N = 136 against 128)",
        1, "times, area of the tile", relation="less than",
        measured=_cublas_shrinks,
    ),
    Claim(
        "wave_108", DOCUMENT, "3.4, wave quantization", "Blocks at N = 1536",
        "M = 2304, N = 1536 are 108 thread blocks of 256 x 128",
        108, "blocks", basis="theory",
        predicted=lambda f: float(_count(1536)), measured=_grid(1536),
    ),
    Claim(
        "wave_117", DOCUMENT, "3.4, wave quantization", "Blocks at N = 1664",
        "M = 2304, N = 1664 are 117 thread blocks",
        117, "blocks", basis="theory",
        predicted=lambda f: float(_count(1664)), measured=_grid(1664),
    ),
    Claim(
        "wave_tail", DOCUMENT, "3.4, wave quantization", "Last wave of 117 blocks",
        "117 blocks leave a last wave of 9",
        9, "blocks", basis="theory", place="on 108 SMs (A100)",
        predicted=lambda f: float(quantization.waves(_count(1664), f.sms).tail), measured=_tail,
        elsewhere=lambda f: float(quantization.waves(_count(1664), A100.sms).tail),
    ),
    Claim(
        "wave_position", DOCUMENT, "3.4, wave quantization", "End of the first wave",
        "M = 2304 fills its first wave at N = 1536",
        1536, "N", tolerance=0.01, place="on 108 SMs (A100)",
        predicted=lambda f: _last_of_first_wave(f.sms), measured=_longest_step,
        elsewhere=lambda f: _last_of_first_wave(A100.sms),
    ),
    Claim(
        "wave_drop", DOCUMENT, "3.4, wave quantization", "Throughput behind a wave",
        "The throughput drops where a wave begins",
        1, "times", relation="less than", tolerance=0.05,
        predicted=lambda f: _predicted_over(
            f, ROWS, int(_last_of_first_wave(f.sms)), int(_last_of_first_wave(f.sms)) + 8
        ),
        measured=_over_boundary("tflops"),
    ),
    Claim(
        "wave_longer", DOCUMENT, "3.4, wave quantization", "Duration behind a wave",
        "A tail wave adds to the duration",
        1, "times", relation="more than", tolerance=0.05,
        predicted=lambda f: _waves(f, ROWS, int(_last_of_first_wave(f.sms)) + 8)
        / _waves(f, ROWS, int(_last_of_first_wave(f.sms))),
        measured=_over_boundary("duration"),
    ),
]  # fmt: skip
