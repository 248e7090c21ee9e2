"""Work, traffic, reuse and rooflines against values worked out by hand, and against recorded counters."""

import math
from types import SimpleNamespace

import pytest
import yaml

import executing_support as support
from samples import needs_nvrtc, shipped, table
from tilewave.compiling import sass
from tilewave.execution import counters
from tilewave.kernel.digests import source_digest
from tilewave.kernel.discovery import find_kernels
from tilewave.kernel.variants import Variant, choices
from tilewave.pipeline.project import ROOT
from tilewave.plots.traffic import predicted
from tilewave.records.recorded import Recorded
from tilewave.theory import roofline
from tilewave.theory import traffic as t
from tilewave.theory.traffic import MATH, V100, Machine, Traffic, WarpAccess

CASES = table("theory")
CUBE = {"m": 8192, "n": 8192, "k": 8192}
THIN = {"m": 8192, "n": 8192, "k": 128}


def test_work_and_compulsory_bytes() -> None:
    shape = {"m": 2, "n": 3, "k": 5}
    assert t.flops(shape) == 60
    # A 10, B 15, C 6 elements.
    assert t.compulsory_bytes(shape, 2) == 2 * 31
    assert t.compulsory_bytes(shape, 2, 4) == 2 * 25 + 4 * 6


def test_intensities_of_the_documents_examples() -> None:
    # 2 * 8192^2 * 128 / (2 * (2 * 8192 * 128 + 8192^2)) = 128 / (1 + 2 * 128 / 8192) = 128 / 1.03125;
    # the document says 64.
    assert t.intensity(THIN, 2) == pytest.approx(128 / 1.03125)
    assert t.intensity(THIN, 2) == pytest.approx(124.1, abs=0.05)
    # A cube: N / 3 = 2730.67; the document says 4096.
    assert t.intensity(CUBE, 2) == pytest.approx(8192 / 3)
    # A vector: 8192^2 / (8192^2 + 2 * 8192) = 8192 / 8194, below 1 as the document says.
    assert t.intensity({**CUBE, "n": 1}, 2) == pytest.approx(8192 / 8194)
    # Half the reduction, the document's rule, is the limit for m = k and a long n: with 64 and 2^20,
    # 64 * 64 * 2^20 / (64 * 64 + 2 * 64 * 2^20) is 32 less 0.003 %.
    assert t.intensity({"m": 64, "n": 1 << 20, "k": 64}, 2) == pytest.approx(32, rel=1e-4)


def test_balance_and_bound() -> None:
    # 112 TFLOP/s over 0.9 TB/s.
    assert V100.balance == pytest.approx(1120 / 9)
    # 124.12 < 124.44: memory, by a hair; compared with 112, as the document does, it would be math.
    assert V100.bound(t.intensity(THIN, 2)) == t.MEMORY
    assert V100.bound(t.intensity(CUBE, 2)) == t.MATH
    assert V100.bound(V100.balance) == t.MATH
    with pytest.raises(ValueError, match="bandwidth"):
        _ = Machine(1e12, 0.0).balance


def test_attainable_and_duration() -> None:
    machine = Machine(800e12, 4e12)  # balance 200
    assert machine.attainable(0.5) == 2e12
    assert machine.attainable(200) == machine.attainable(5000) == 800e12
    # 2^40 FLOP at 800 TFLOP/s take 1374 us, 402,653,184 bytes at 4 TB/s 101 us.
    assert machine.duration(t.flops(CUBE), t.compulsory_bytes(CUBE, 2)) == 2**40 / 800e12
    # A vector of 8192: 134,250,496 bytes take 33.6 us, its 2^27 FLOP 0.2 us.
    vector = {**CUBE, "n": 1}
    assert machine.duration(t.flops(vector), t.compulsory_bytes(vector, 2)) == 134250496 / 4e12


def test_loads_of_an_element() -> None:
    shape = {"m": 256, "n": 384, "k": 128}
    # n times an element of A, m times one of B; k plays no part.
    assert t.loads_per_element(shape) == (384, 256)
    assert t.loads_per_element({**shape, "k": 7}) == (384, 256)
    # Tiles of 64 x 32: 384 / 32 and 256 / 64; an edge counts whole.
    assert t.loads_per_element(shape, (64, 32, 16)) == (12, 4)
    assert t.loads_per_element({**shape, "n": 385}, (64, 32)) == (13, 4)


# A warp of 4 x 8 threads with 4 x 4 outputs each owns 16 x 32.
STRIDED = WarpAccess(4, 8, row_step=4, column_step=4)


@pytest.mark.parametrize(
    ("rows", "columns", "access", "itemsize", "expected"),
    CASES["requests and sectors of a matrix"],
)
def test_requests_and_sectors_of_a_matrix(rows, columns, access, itemsize, expected) -> None:
    traffic = t.matrix_traffic(rows, columns, WarpAccess(**access), itemsize)
    assert traffic == Traffic(*expected)


def test_a_warp_has_32_lanes() -> None:
    for wrong in ({"rows": 2}, {"columns": 0}, {"vector": 4, "column_step": 6}):
        with pytest.raises(ValueError):
            WarpAccess(**wrong)
    assert t.row_by_row(16) == WarpAccess(2, 16)
    assert t.row_by_row(128) == WarpAccess(1, 32)


def test_products_at_64() -> None:
    cube = {"m": 64, "n": 64, "k": 64}
    # Naive: a warp's 32 outputs need, for each of 64 k, A's element (1 sector) and 32 of B (4 sectors):
    # 128 warps x 64 x 2 requests and x 5 sectors. 128 stores of 4 sectors.
    loads, stores = t.product_traffic(cube, (1, 32, 1), {"a": WarpAccess(1, 1)}, 4)
    assert loads == Traffic(16384, 40960, 16384 * 32)
    assert (stores.requests, stores.sectors) == (128, 512)
    # 2 n m k loads by lanes.
    assert loads.elements == 2 * 64**3
    # Tiles of 16: each matrix (512 sectors, 128 requests of 2 rows x 16) is loaded 4 times.
    loads, _ = t.product_traffic(cube, (16, 16, 16), {}, 4)
    assert loads == Traffic(1024, 4096, 2 * 4 * 4096)
    # Twice the tile, half of everything.
    half, _ = t.product_traffic(cube, (32, 32, 32), {}, 4)
    assert (half.requests * 2, half.sectors * 2) == (loads.requests, loads.sectors)


def test_pieces_must_divide_the_tile() -> None:
    with pytest.raises(ValueError, match="16 x 8"):
        t.product_traffic(CUBE, (24, 32, 8), {"a": WarpAccess(16, 2, 4)}, 4)


H200 = ROOT / "resources" / "recorded" / "nvidia_h200"
CONFIG = ROOT / "config" / "config.yaml"
COUNTERS = {
    f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum": (index, what)
    for index, op in enumerate(("ld", "st"))
    for what in ("requests", "sectors")
}

OPTIONS = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["studies"]["traffic"]["options"]
STUDY = SimpleNamespace(options=OPTIONS)
"""The part of a StudyData that a prediction needs."""
LADDER = (
    "matmul_naive", "matmul_tiled", "matmul_two_outputs", "matmul_register",
    "matmul_double_buffered",
)  # fmt: skip


def _counted() -> list[tuple[str, dict[str, float]]]:
    """Return recorded counters of unchanged kernels whose accesses are known."""
    kernels = find_kernels([ROOT / "kernels"])
    recorded = Recorded(H200)
    counted = []
    for result in recorded.results():
        name = result.case.partition("-")[0].partition("@")[0]
        if result.stage != "counters" or name not in LADDER or result.status != "ok":
            continue
        old = recorded.compiled.get(f"{result.case.partition('@')[0]}.sm_90", {})
        if old.get("source_sha256") != source_digest(kernels[name]):
            continue
        values = {figure["metric"]: figure["value"] for figure in result.figures}
        if set(values) >= set(COUNTERS):
            counted.append((result.case, values))
    return counted


def _assert_predicted(variant: Variant, sizes: str, values: dict[str, float]) -> None:
    shape = dict(zip("mnk", map(int, sizes.split("x")), strict=True))
    tile = variant.plan(shape, {}).tile
    assert tile is not None
    row = {
        "kernel": variant.kernel.name, "dtype": variant.dtype, **shape,
        **dict(zip(("tile_m", "tile_n", "tile_k"), tile, strict=True)),
    }  # fmt: skip
    model = predicted(STUDY, row)  # type: ignore[arg-type]
    assert model is not None
    for metric, (index, what) in COUNTERS.items():
        assert getattr(model[index], what) == values[metric], (variant.id, sizes, metric)


def test_recorded_counters_are_the_predicted_ones() -> None:
    kernels = find_kernels([ROOT / "kernels"])
    products = [choices(kernels[name], "product", CONFIG, "") for name in LADDER]
    variants = {variant.id: variant for product in products for variant in product}
    counted = _counted()
    if not counted:
        pytest.skip("the kernels have changed since their counters were recorded")
    for case, values in counted:
        name, _, sizes = case.partition("@")
        _assert_predicted(variants[name], sizes, values)


@needs_nvrtc
@pytest.mark.skipif(sass.disassembler() is None, reason="no nvdisasm")
@pytest.mark.parametrize(("kernel", "macros", "sizes"), CASES["executed products"])
def test_executing_counts_the_predicted_numbers(kernel, macros, sizes) -> None:
    """The prediction holds for executed cases whose shapes no tile divides."""
    path = shipped(kernel)
    done = support.execute(path, sizes, macros)
    assert done.verdict == "correct"
    names = [str(instruction.opcode) for instruction in done.program.instructions]
    launch = done.job.launch
    totals = counters.values(names, done.counts, grid=launch.grid, block=launch.block)
    _assert_predicted(support.choose(path, macros), sizes, totals)


def test_bytes_of_a_tile_that_is_loaded_once() -> None:
    # A warp's 128-byte row: 4 sectors from L1, then one wavefront to store it and one to load it.
    assert roofline.l1_bytes(4, 2) == 128 + 256
    assert roofline.l2_bytes(4) == 128
    # Four sectors of a load that missed L1 are no bulk copy; six more from L2 are: 192 bytes.
    assert roofline.l1_bytes(4, 2, l2=128) == 128 + 256
    assert roofline.l1_bytes(4, 2, l2=320) == 128 + 256 + 192
    # Sectors of copies that bypass L1 do not use its data path.
    assert roofline.l1_bytes(4, 2, l2=320, bypassing=3) == 32 + 256 + 192


def test_the_lowest_roof_names_its_cause() -> None:
    widths = {"dram": 4.0, "l1": 30.0}
    # 60 TFLOP/s of units; 100 FLOP/byte x 4 TB/s = 400; 1 x 30 = 30.
    assert roofline.lowest_roof(60, widths, {"dram": 100, "l1": 1}) == (30, "l1")
    assert roofline.lowest_roof(60, widths, {"dram": 100, "l1": 3}) == (60, MATH)
    assert roofline.lowest_roof(60, widths, {"dram": 10, "l1": 3}) == (40, "dram")
    assert roofline.lowest_roof(60, widths, {"dram": math.inf}) == (60, MATH)
    assert roofline.lowest_roof(None, widths, {"l2": 1}) is None
