"""What each claim of claims.yaml is judged by: closed forms and questions to the records.

Keys are the claims' ids. A prediction is evaluated with the target's limits, never typed in; a
measurement names the case and the metric that it reads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tilewave.machine.memory import async_copy_ideal, async_copy_wavefronts, shared_wavefronts
from tilewave.plots import base
from tilewave.plots._claims import Facts, Function, Functions, Unknown, Value, divided
from tilewave.theory import occupancy, quantization, tiling, traffic
from tilewave.theory.data_sheets import A100, RTX_4060, TENSOR_INPUTS, data_sheet
from tilewave.theory.occupancy import TURING, SmLimits

LANES = np.arange(32)
F16, F64 = 2, 8

STAGED, SWEPT = "hgemm_wmma_staged", "hgemm_wmma_staged-raster1"
TILE = (256, 128)  # of both
CUBLAS = "cublas-typef16_f32"
CUBLAS_SWEPT = "cublas-typef16_f16-bcol"  # layouts and types of the swept kernel
STAGED_ROW = 2 * (32 + 8)  # bytes from one row to the next in shared memory


# ---------------------------------------------------------------------------- shared-memory access


def _shape(m: int, n: int, k: int) -> dict[str, int]:
    return {"m": m, "n": n, "k": k}


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
    return int(shared_wavefronts(addresses, active, width, op)[0])


def _pattern(name: str) -> Functions:
    return Functions(
        predicted=lambda f: float(pattern_wavefronts(PATTERNS[name], "load")),
        measured=lambda f: f.value(f.probe("shared_access", f"load_{name}"), "wavefronts"),
    )


def _stores_like_loads(f: Facts, wavefronts: Callable[[str], float | None]) -> float | None:
    """Percent of the patterns in which a store costs what the rule says of a load."""
    counted = {name: wavefronts(name) for name in PATTERNS}
    if any(value is None for value in counted.values()):
        return None
    alike = [counted[name] == pattern_wavefronts(p, "load") for name, p in PATTERNS.items()]
    return 100 * sum(alike) / len(alike)


def _fp64_conflicts(width: int) -> float:
    """Percent of the load wavefronts of a 16 x 16 tile of doubles that are conflicts.

    width: bytes of a lane's read of A (a row, one element or two at a time); B is read 8 bytes at a
    time. A warp covers two rows of the tile.
    """
    everyone = np.ones(32, bool)
    row = LANES // 16 * 16 * F64
    a = shared_wavefronts(row, everyone, width, "load")
    b = shared_wavefronts(LANES % 16 * F64, everyone, F64, "load")
    reads = width // F64  # of B for each of A
    return float(100 * (a[1] + reads * b[1]) / (a[0] + reads * b[0]))


def _conflicts(f: Facts, variant: str) -> float | None:
    case = f.case(variant, 256)
    share = divided(
        f.value(case, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
        f.value(case, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    )
    return None if share is None else 100 * share


def _padded_ldmatrix(f: Facts) -> float:
    """Wavefronts over those without conflicts of an ldmatrix.x4 on padded rows."""
    rows = LANES % 16 * STAGED_ROW + LANES // 16 * 16
    wavefronts, conflicts = shared_wavefronts(rows, np.ones(32, bool), 16, "ldmatrix")
    return float(wavefronts / (wavefronts - conflicts))


def _padded_copies(f: Facts, k: int = 2048) -> float:
    """Wavefronts over the ideal of a warp's cp.async.cg of eight rows of 64 bytes into padded rows.

    The mean over a block's copies of a stage, whose rows begin at different banks.
    """
    everyone = np.ones(32, bool)
    counted, ideal = 0, 0
    for first in range(0, sum(TILE), 8):
        row = first + LANES // 4
        shared = row * STAGED_ROW + LANES % 4 * 16
        source = row * k * F16 + LANES % 4 * 16
        counted += int(async_copy_wavefronts(shared, source, everyone, 16, "cg"))
        ideal += int(async_copy_ideal(shared, source, everyone, 16, "cg"))
    return counted / ideal


def _over_ideal(f: Facts, opcode: str) -> float | None:
    case = f.case(STAGED, 2048)
    return divided(
        f.value(case, f"wavefronts_shared_{opcode}"),
        f.value(case, f"wavefronts_shared_ideal_{opcode}"),
    )


def _l2_misses(f: Facts, variant: str) -> float | None:
    """Sectors that L1 asked L2 for and that were not there."""
    case = f.case(variant, 4096)
    asked, hit = (
        f.value(case, f"lts__t_sectors_srcunit_tex{ending}.sum") for ending in ("", "_lookup_hit")
    )
    return None if asked is None or hit is None else asked - hit


# --------------------------------------------------------------------------- latency, loads, FLOPs


def _latency(level: str) -> Function:
    return lambda f: f.value(f.probe("latency", level), "latency")


def _naive_loads(matrix: int) -> Function:
    """How often the naive kernel loads an element of A (0) or B (1).

    Counted requests are warps' instructions, half of them for A; a row of C has n lanes in
    ceil(n / 32) warps.
    """
    m, n, k = 264, 136, 96

    def loads(f: Facts) -> float | None:
        requests = f.value(
            f.case("matmul_naive", m, n, k), "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
        )
        if requests is None:
            return None
        lanes = requests / 2 * n / -(-n // 32)
        return lanes / (m * k, k * n)[matrix]

    return loads


def _predicted_loads(matrix: int) -> Function:
    return lambda f: float(traffic.loads_per_element(_shape(264, 136, 96))[matrix])


def _requests_saved(f: Facts) -> float | None:
    return f.ratio(
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        f.case("matmul_naive", 2048), f.case("matmul_tiled-tile32", 2048),
    )  # fmt: skip


def _speedup(over: str, under: str, m: int = 4096) -> Function:
    return lambda f: f.ratio("tflops", f.case(over, m), f.case(under, m))


def _reads_of_two_outputs(f: Facts) -> float:
    """Multiply-adds for each element read from shared memory, two outputs a thread over one."""

    def for_each_read(outputs: int) -> float:
        return outputs / (outputs + 1)  # one of B, and one of A for each output

    return for_each_read(2) / for_each_read(1)


def _probe_ratio(metric: str, kernel: str, over: str, under: str) -> Function:
    return lambda f: f.ratio(metric, f.probe(kernel, over), f.probe(kernel, under))


def _only_half(inputs: frozenset[str]) -> bool:
    return inputs == {"f16"}


def _tensor_inputs(f: Facts) -> bool | None:
    known = TENSOR_INPUTS.get(str(f.environment.get("compute_capability", "")))
    return None if known is None else _only_half(known)


def _tensor_inputs_measured(f: Facts) -> bool | None:
    """Whether FP16 is the only type whose product cuBLAS computes on tensor cores."""
    counted: dict[str, bool] = {}  # by type, whether any operation was one of tensor cores
    for row in f.cases:
        if row["kernel"] == base.BASELINE and row["m"] == row["n"] == row["k"] == 4096:
            value, kind = f.value(str(row["case"]), base.COUNTED_TENSOR_FLOPS), str(row["dtype"])
            if value is not None:
                kind = kind.split("_")[0]
                counted[kind] = counted.get(kind, False) or value > 0
    used = frozenset(kind for kind, tensor in counted.items() if tensor)
    # FP16 by itself says nothing of the others.
    return _only_half(used) if used and len(counted) > 1 else None


# -------------------------------------------------------------------------------------- occupancy


def _warps(threads: int, registers: int, shared: int = 0) -> Callable[[SmLimits], float]:
    return lambda limits: float(occupancy.occupancy(limits, threads, registers, shared).warps)


def _percent(threads: int, registers: int) -> Callable[[SmLimits], float]:
    return lambda limits: 100 * occupancy.occupancy(limits, threads, registers).fraction


def _driver_warps(f: Facts, name: str, threads: int) -> float | None:
    """Warps on an SM that the driver answers for a form of the probe `tile_threads`."""
    blocks = f.value(f.probe("tile_threads", name), "driver_blocks_per_sm")
    return None if blocks is None else blocks * threads / occupancy.WARP


def _driver_percent(f: Facts) -> float | None:
    warps = _driver_warps(f, "threads_128", 128)
    return None if warps is None else 100 * warps / f.limits.max_warps


def _double_buffered_warps(f: Facts) -> float | None:
    """Warps of a kernel with 256 threads of 128 registers and 32 KB: the limit that ncu tells."""
    case = f.case("matmul_double_buffered", 2048)
    threads, registers = (
        f.value(case, "launch__block_size"), f.value(case, "launch__registers_per_thread"),
    )  # fmt: skip
    share = f.value(case, "sm__maximum_warps_per_active_cycle_pct")
    if share is None or (threads, registers) != (256, 128):
        return None
    return share / 100 * f.limits.max_warps


# --------------------------------------------------------------------------------------- roofline

SMALL, LARGE, VECTOR = (8192, 8192, 128), (8192, 8192, 8192), (8192, 1, 8192)


def _intensity(shape: tuple[int, int, int]) -> Functions:
    def measured(f: Facts) -> float | None:
        moved = f.value(f.case(CUBLAS, *shape), "dram_bytes")
        return divided(traffic.flops(_shape(*shape)), moved)

    return Functions(lambda f: traffic.intensity(_shape(*shape), F16), measured)


def _bound(shape: tuple[int, int, int], expected: str) -> Functions:
    """Whether memory or arithmetic bounds a product: by its intensity and the data sheet's balance;
    measured: by which of the data sheet's two rates it comes nearer to."""

    def predicted(f: Facts) -> bool | None:
        sheet = data_sheet(str(f.environment.get("gpu", "")))
        if sheet is None:
            return None
        return sheet.machine.bound(traffic.intensity(_shape(*shape), F16)) == expected

    def measured(f: Facts) -> bool | None:
        sheet = data_sheet(str(f.environment.get("gpu", "")))
        case = f.case(CUBLAS, *shape)
        moved, duration = f.value(case, "dram_bytes"), f.value(case, "duration")
        speed = f.value(case, "tflops")
        if sheet is None or moved is None or duration is None or speed is None:
            return None
        rate = f.together(moved / (1e-6 * duration))
        if rate is None:
            return None
        memory = rate / sheet.machine.bandwidth
        math_share = 1e12 * speed / sheet.machine.flop_rate
        return (traffic.MEMORY if memory > math_share else traffic.MATH) == expected

    return Functions(predicted, measured)


def _predicted_operations(f: Facts) -> float:
    """Operations over 2mnk of a product with an output a thread, at the measured shape."""
    return quantization.operations_ratio(_shape(4096, 4096, 4096), (1, 1, 1))


def _counted_flops(f: Facts) -> float | None:
    case = f.case("matmul_naive", 4096)
    return divided(f.value(case, base.COUNTED_FLOPS), traffic.flops(_shape(4096, 4096, 4096)))


def _megabytes(f: Facts) -> float | None:
    moved = f.value(f.case(CUBLAS, *LARGE), "dram_bytes")
    return None if moved is None else moved / 1e6


# ----------------------------------------------------------------------------------- quantization

WIDE, K = 27648, 4096  # the tile example
ROWS = 2304  # the wave example


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
    return quantization.tile_count(_shape(m, n, K), TILE)


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


# ------------------------------------------------------------------------------- tiles, cuBLAS

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


def _cublas_tile(f: Facts, shape: tuple[int, int, int]) -> tuple[float, float] | None:
    swept = shape[0] == WIDE
    case = f.case(CUBLAS_SWEPT if swept else CUBLAS, *shape)
    high, wide = f.value(case, "cublas_tile_m"), f.value(case, "cublas_tile_n")
    return None if high is None or wide is None else (high, wide)


def _cublas_large_tile(f: Facts) -> bool | None:
    tile = _cublas_tile(f, LARGE)
    return None if tile is None else sorted(tile) == [128, 256]


def _cublas_tiles(f: Facts) -> float | None:
    """How many tiles cuBLAS takes over a large product, two of few columns and one of a long K."""
    shapes = (LARGE, (WIDE, 128, K), (WIDE, 136, K), LONG)
    tiles = [_cublas_tile(f, shape) for shape in shapes]
    return None if None in tiles else float(len(set(tiles)))


def _cublas_shrinks(f: Facts) -> float | None:
    """Area of cuBLAS' tile just behind a tile boundary over that before it."""
    before, after = (_cublas_tile(f, (WIDE, n, K)) for n in (128, 136))
    if before is None or after is None:
        return None
    return after[0] * after[1] / (before[0] * before[1])


def _no_split(f: Facts) -> bool | None:
    """Whether cuBLAS leaves K whole where m and n are small and k is large, by its kernels' names."""
    names = f.text(f.case(CUBLAS, *LONG), "kernel_name")
    if names is None:
        return None
    return not any(word in names.lower() for word in ("splitk", "split_k", "streamk", "stream_k"))


# -------------------------------------------------------------------------------------- alignment

ALIGNED = {"m": 4096, "n": 4096, "k": 4096}


def _largest(step: int) -> int:
    """The largest size below 4096 that is a multiple of `step` and of no larger power of two."""
    return 4096 - step


def _gain(kind: str, better: int, worse: int, along: str = "n") -> Function:
    """TFLOP/s of cuBLAS where one dimension is a multiple of `better` over those of `worse`.

    along: the dimension, contiguous in one of the matrices at least; the others are 4096. Sizes
    differ by less than 2 % and take as many tiles.
    """

    def ratio(f: Facts) -> float | None:
        shapes = [ALIGNED | {along: _largest(step)} for step in (better, worse)]
        over, under = (f.case(f"cublas-type{kind}", **shape) for shape in shapes)
        return f.ratio("tflops", over, under)

    return ratio


def _tensor_any(f: Facts) -> bool | None:
    case = f.case(CUBLAS, **ALIGNED | {"n": _largest(1)})
    counted = f.value(case, base.COUNTED_TENSOR_FLOPS)
    return None if counted is None else counted > 0


# ----------------------------------------------------------------------------------------- others


def _barriers(*names: str) -> Function:
    """Whether all these cases of the barrier probe ended and were right."""

    def all_well(f: Facts) -> bool | None:
        ended = [f.ended_well(f.probe("barrier_divergent", name)) for name in names]
        return None if None in ended else all(ended)

    return all_well


def _not(function: Function) -> Function:
    def opposite(f: Facts) -> Value | None:
        value = function(f)
        return None if value is None else not value

    return opposite


def _shared_kb(f: Facts) -> float | None:
    shared = f.fact("shared_per_sm")
    return None if shared is None else shared / 1024


def _similar(f: Facts) -> float | None:
    return f.ratio("latency", f.probe("latency", "shared"), f.probe("latency", "l1"))


FUNCTIONS: dict[str, Functions] = {
    # Matrix multiplication notes
    "fp64_no_conflicts": Functions(
        lambda f: _fp64_conflicts(16), lambda f: _conflicts(f, "matmul_tiled-realf64")
    ),
    "fp64_no_conflicts_scalar": Functions(
        lambda f: _fp64_conflicts(8), lambda f: _conflicts(f, "matmul_tiled-realf64-scalar_a1")
    ),
    "loads_a_notes": Functions(_predicted_loads(0), _naive_loads(0)),
    "loads_b_notes": Functions(_predicted_loads(1), _naive_loads(1)),
    "loads_each_notes": Functions(_predicted_loads(0), _naive_loads(0)),
    "latency_hundreds": Functions(measured=_latency("dram")),
    "two_outputs": Functions(
        _reads_of_two_outputs, _speedup("matmul_two_outputs", "matmul_tiled-tile32")
    ),
    "wide_loads": Functions(measured=_speedup("matmul_register", "matmul_two_outputs")),
    "double_buffer": Functions(measured=_speedup("matmul_double_buffered", "matmul_register")),
    "warps_128x180": Functions(
        lambda f: _warps(128, 180)(f.limits), lambda f: _driver_warps(f, "threads_128", 128)
    ),
    "occupancy_128x180": Functions(
        lambda f: _percent(128, 180)(f.limits), _driver_percent,
        lambda f: _percent(128, 180)(TURING),
    ),
    "warps_256x128": Functions(
        lambda f: _warps(256, 128, 32768)(f.limits), _double_buffered_warps
    ),
    "threads_256": Functions(
        measured=_probe_ratio("tflops", "tile_threads", "threads_256", "threads_128")
    ),
    "tensor_half_only": Functions(
        _tensor_inputs, _tensor_inputs_measured, lambda f: _only_half(TENSOR_INPUTS["7.0"])
    ),
    # CUDA matrix multiplication lecture
    "loads_a_lecture": Functions(_predicted_loads(0), _naive_loads(0)),
    "loads_b_lecture": Functions(_predicted_loads(1), _naive_loads(1)),
    "latency_register": Functions(measured=_latency("register")),
    "latency_shared": Functions(measured=_latency("shared")),
    "latency_constant": Functions(measured=_latency("constant")),
    "latency_global": Functions(measured=_latency("dram")),
    "shared_like_cache": Functions(measured=_similar),
    "shared_small": Functions(
        lambda f: f.limits.shared / 1024, _shared_kb, lambda f: TURING.shared / 1024
    ),
    "tiles_save_loads": Functions(
        lambda f: float(traffic.loads_per_element(_shape(2048, 2048, 2048))[0]
                        / traffic.loads_per_element(_shape(2048, 2048, 2048), (32, 32))[0]),
        _requests_saved,
    ),
    "barrier_reachable": Functions(measured=_barriers("one_warps_part", "one_lanes_part")),
    "barrier_everyone": Functions(measured=_not(_barriers("one_warps_part", "one_lanes_part"))),
    "barrier_each_side": Functions(
        measured=_barriers("two_warps_all", "two_lanes_all"), elsewhere=_barriers("two_warps_all")
    ),
    # GPU performance notes
    "flop_count": Functions(_predicted_operations, _counted_flops),
    "bytes_moved": Functions(
        lambda f: traffic.compulsory_bytes(_shape(*LARGE), F16) / 1e6, _megabytes
    ),
    "balance_v100": Functions(lambda f: traffic.V100.balance),
    "balance_used": Functions(lambda f: traffic.V100.balance),
    "intensity_small": _intensity(SMALL),
    "intensity_large": _intensity(LARGE),
    "intensity_vector": _intensity(VECTOR),
    "bound_small": _bound(SMALL, traffic.MEMORY),
    "bound_large": _bound(LARGE, traffic.MATH),
    "bound_vector": _bound(VECTOR, traffic.MEMORY),
    "align_f16_gain": Functions(measured=_gain("f16_f32", 8, 1)),
    "align_i8_gain": Functions(measured=_gain("i8-bcol", 16, 4, "k")),
    "align_tf32_gain": Functions(measured=_gain("tf32", 4, 1)),
    "align_f64_gain": Functions(measured=_gain("f64", 2, 1)),
    "align_f16_64": Functions(measured=_gain("f16_f32", 64, 8)),
    "align_second_best": Functions(measured=_gain("f16_f32", 4, 1)),
    "align_contiguous_only": Functions(measured=_gain("f16_f32", 1, 8, "m")),
    "tensor_any_alignment": Functions(measured=_tensor_any),
    "tile_best": Functions(_reuse_share((256, 128), max), _tile_share(8192, (256, 128), max)),
    "tile_worst": Functions(_reuse_share((64, 64), min), _tile_share(8192, (64, 64), min)),
    "tile_order": Functions(
        lambda f: _in_order({t: _reuse(t) for t in PRIORITY}, 0.0),
        lambda f: _in_order(_by_tile(f, 8192), 0.05),
    ),
    "tile_small": Functions(measured=_tile_share(512, (64, 64), max)),
    "cublas_large_tile": Functions(measured=_cublas_large_tile),
    "cublas_small_tile": Functions(measured=_cublas_shrinks),
    "cublas_tiles": Functions(measured=_cublas_tiles),
    "split_k_off": Functions(measured=_no_split),
    "tiles_192": Functions(
        lambda f: float(quantization.tile_count(_shape(192, 192, 1), (128, 128)))
    ),
    "tile_useful": Functions(
        lambda f: 100 * quantization.last_column_useful(_shape(WIDE, 136, K), TILE),
        _useful_of_last_column,
    ),
    "tile_operations": Functions(lambda f: 1.0, _worst_operations),
    "tile_duration": Functions(lambda f: 1.0, _spread_of_equal_tiles),
    "tile_drop": Functions(
        lambda f: _predicted_over(f, WIDE, 128, 136),
        lambda f: f.ratio("tflops", f.case(SWEPT, WIDE, 136, K), f.case(SWEPT, WIDE, 128, K)),
    ),
    "wave_108": Functions(lambda f: float(_count(1536)), _grid(1536)),
    "wave_117": Functions(lambda f: float(_count(1664)), _grid(1664)),
    "wave_tail": Functions(
        lambda f: float(quantization.waves(_count(1664), f.sms).tail), _tail,
        lambda f: float(quantization.waves(_count(1664), A100.sms).tail),
    ),
    "wave_position": Functions(
        lambda f: _last_of_first_wave(f.sms), _longest_step,
        lambda f: _last_of_first_wave(A100.sms),
    ),
    "wave_drop": Functions(
        lambda f: _predicted_over(
            f, ROWS, int(_last_of_first_wave(f.sms)), int(_last_of_first_wave(f.sms)) + 8
        ),
        _over_boundary("tflops"),
    ),
    "wave_longer": Functions(
        lambda f: _waves(f, ROWS, int(_last_of_first_wave(f.sms)) + 8)
        / _waves(f, ROWS, int(_last_of_first_wave(f.sms))),
        _over_boundary("duration"),
    ),
    # Vectorised shared-memory article
    **{f"access_{name}": _pattern(name) for name in PATTERNS},
    "access_same_address": Functions(
        lambda f: float(pattern_wavefronts(SAME_ADDRESS, "load"))
    ),
    "access_stores": Functions(
        lambda f: _stores_like_loads(
            f, lambda name: pattern_wavefronts(PATTERNS[name], "store")
        ),
        lambda f: _stores_like_loads(
            f, lambda name: f.value(f.probe("shared_access", f"store_{name}"), "wavefronts")
        ),
    ),
    "shared_near_l1": Functions(measured=_similar),
    # Tensor-core HGEMM article
    "ca_evicts": Functions(
        measured=lambda f: f.ratio(
            "dram__bytes_read.sum",
            f.case("hgemm_wmma_staged-copyca", 4096), f.case(STAGED, 4096),
        )
    ),
    "ca_misses": Functions(
        measured=lambda f: f.together(
            divided(_l2_misses(f, "hgemm_wmma_staged-copyca"), _l2_misses(f, STAGED))
        )
    ),
    "padding_reads": Functions(_padded_ldmatrix, lambda f: _over_ideal(f, "LDSM")),
    "padding_copies": Functions(_padded_copies, lambda f: _over_ideal(f, "LDGSTS")),
    "padding_gain": Functions(measured=_speedup(STAGED, "hgemm_wmma_staged-skew0")),
    "three_stages": Functions(measured=_speedup(STAGED, "hgemm_wmma_staged-stages2")),
    "shared_bytes": Functions(
        measured=lambda f: f.value(f.case(STAGED, 2048), "launch__shared_mem_per_block_dynamic")
    ),
    "rate_4060": Functions(lambda f: RTX_4060.machine.flop_rate / 1e12),
    "share_of_cublas": Functions(
        measured=lambda f: f.value(f.case(STAGED, 4096), "percent_of_cublas")
    ),
}  # fmt: skip
