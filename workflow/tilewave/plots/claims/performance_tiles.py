"""The GPU performance notes: which tiles are good, and which cuBLAS takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tilewave.plots import base
from tilewave.plots.claims.asked import CUBLAS, F16, LARGE
from tilewave.plots.claims.facts import Facts, Function, divided
from tilewave.plots.claims.judging import Claim
from tilewave.plots.claims.performance import DOCUMENT
from tilewave.theory import tiling

WIDE, K = 27648, 4096  # the example of tile quantization
CUBLAS_SWEPT = "cublas-typef16_f16-bcol"  # layouts and types of the swept kernel
LONG = (256, 256, 16384)  # few outputs and a long sum for each
PRIORITY = tuple(group[0] for group in tiling.PRIORITY)
"""The document's order of tiles; a tile and its transpose are one."""


def _by_tile(f: Facts, m: int) -> dict[tuple[int, int], float]:
    """TFLOP/s by tile (longer side first, the faster of the two) of the kernel with most tiles."""
    kernels: dict[str, dict[tuple[int, int], list[str]]] = {}
    for row in f.cases:
        sizes = [row["m"], row["n"], row["k"], row["tile_m"], row["tile_n"]]
        if row["kernel"] == base.BASELINE or not all(base.present(s) for s in sizes):
            continue
        if [int(s) for s in sizes[:3]] == [m, m, m]:
            one, other = int(row["tile_m"]), int(row["tile_n"])
            tiles = kernels.setdefault(str(row["kernel"]), {})
            tiles.setdefault((max(one, other), min(one, other)), []).append(str(row["case"]))
    tiles = max(kernels.values(), key=len, default={})
    if not set(PRIORITY) <= set(tiles):
        f.lack(f"no kernel with each of the {len(PRIORITY)} tiles at {m} is among the cases")
        return {}
    speeds = {t: [f.value(c, "tflops") for c in cases] for t, cases in tiles.items()}
    return {t: max(v for v in s if v) for t, s in speeds.items() if any(s)}


def _tile_share(m: int, tile: tuple[int, int], of: Callable[[Iterator[float]], float]) -> Function:
    def share(f: Facts) -> float | None:
        speeds = _by_tile(f, m)
        known = [speeds.get(t) for t in PRIORITY]
        if any(speed is None for speed in known):
            return None
        return divided(speeds[tile], of(iter(v for v in known if v)))

    return share


def _reuse(tile: tuple[int, int]) -> float:
    """FLOP for each byte that a block of this tile loads."""
    return tiling.intensity(tile, F16)


def _reuse_share(tile: tuple[int, int], of: Callable[[Iterator[float]], float]) -> Function:
    return lambda f: _reuse(tile) / of(_reuse(t) for t in PRIORITY)


def _in_order(speeds: Mapping[tuple[int, int], float], tolerance: float) -> float | None:
    """Percent of the pairs of tiles in which the one of higher priority is not slower."""
    if not set(PRIORITY) <= set(speeds):
        return None
    pairs = [(a, b) for i, a in enumerate(PRIORITY) for b in PRIORITY[i + 1 :]]
    good = [speeds[a] >= (1 - tolerance) * speeds[b] for a, b in pairs]
    return 100 * sum(good) / len(good)


def cublas_tile(f: Facts, shape: tuple[int, int, int]) -> tuple[float, float] | None:
    swept = shape[0] == WIDE
    case = f.case(CUBLAS_SWEPT if swept else CUBLAS, *shape)
    high, wide = f.value(case, "cublas_tile_m"), f.value(case, "cublas_tile_n")
    return None if high is None or wide is None else (high, wide)


def _cublas_large_tile(f: Facts) -> bool | None:
    tile = cublas_tile(f, LARGE)
    return None if tile is None else sorted(tile) == [128, 256]


def _cublas_tiles(f: Facts) -> float | None:
    """How many tiles cuBLAS takes over a large product, two of few columns and one of a long K."""
    shapes = (LARGE, (WIDE, 128, K), (WIDE, 136, K), LONG)
    tiles = [cublas_tile(f, shape) for shape in shapes]
    return None if None in tiles else float(len(set(tiles)))


def _no_split(f: Facts) -> bool | None:
    """Whether cuBLAS leaves K whole where m and n are small and k is large, by its kernels' names."""
    names = f.text(f.case(CUBLAS, *LONG), "kernel_name")
    if names is None:
        return None
    return not any(word in names.lower() for word in ("splitk", "split_k", "streamk", "stream_k"))


CLAIMS = [
    Claim(
        "tile_best", DOCUMENT, "3.2, tile sizes", "256×128 the best large tile",
        "256 x 128 is the most efficient tile of a large product",
        1, "of the best", tolerance=0.05,
        predicted=_reuse_share((256, 128), max), measured=_tile_share(8192, (256, 128), max),
    ),
    Claim(
        "tile_worst", DOCUMENT, "3.2, tile sizes", "64×64 the worst large tile",
        "64 x 64 is the least efficient tile of a large product",
        1, "of the worst", tolerance=0.05,
        predicted=_reuse_share((64, 64), min), measured=_tile_share(8192, (64, 64), min),
    ),
    Claim(
        "tile_order", DOCUMENT, "3.2, tile sizes", "Order of the tiles",
        "The efficiency falls from 256 x 128 over 128 x 128, 256 x 64 and 128 x 64 to 64 x 64",
        100, "% of the pairs", tolerance=0.01,
        predicted=lambda f: _in_order({t: _reuse(t) for t in PRIORITY}, 0.0),
        measured=lambda f: _in_order(_by_tile(f, 8192), 0.05),
    ),
    Claim(
        "tile_small", DOCUMENT, "3.2, tile sizes", "64×64 the best small tile",
        "A small product wants small tiles (64 x 64 the best at 512)",
        1, "of the best", tolerance=0.05,
        measured=_tile_share(512, (64, 64), max),
    ),
    Claim(
        "cublas_large_tile", DOCUMENT, "3.2, tile sizes", "cuBLAS takes 256×128",
        "cuBLAS takes tiles of 256 x 128 for large products",
        True,
        measured=_cublas_large_tile,
    ),
    Claim(
        "cublas_tiles", DOCUMENT, "3.2, tile sizes", "cuBLAS' tiles",
        "cuBLAS chooses its tile by the sizes of the product",
        1, "tiles at four shapes", relation="more than",
        measured=_cublas_tiles,
    ),
    Claim(
        "split_k_off", DOCUMENT, "3.4", "cuBLAS does not split K",
        "The library does not split K unless asked, even where M and N are small and K is large",
        True,
        measured=_no_split,
    ),
]  # fmt: skip
