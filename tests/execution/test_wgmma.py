"""The Hopper rungs, executed: right at every edge, in each type and sum, with the same bits in any schedule."""

import re
from typing import Any

import numpy as np
import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc, shipped, table
from tilewave.execution import counters
from tilewave.kernel import operations

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels" / "ladder"
PLAIN = ["hgemm_wgmma", "hgemm_wgmma_pipeline", "hgemm_wgmma_roles", "matmul_wgmma_fit"]
PERSISTENT = [f"hgemm_wgmma_{name}" for name in ("persistent", "store", "late")]
PERSISTENT += ["matmul_wgmma_even", "matmul_wgmma_turns"]
TWO_LAUNCHES = "matmul_wgmma_two_launches"
KINDS = {"tf32": {"TYPE": "tf32"}, "i8": {"TYPE": "i8"}, "f16": {"TYPE": "f16", "TILE_N": 256}}
BARE = ["matmul_wgmma", "matmul_wgmma_late", "matmul_wgmma_even", "matmul_wgmma_fit"]
LAYOUTS = "hgemm_wgmma_layouts"  # elements are made in the order of memory: its B is another one


def of_kind(name: str, kind: str) -> dict[str, Any]:
    """Return the macros of a kind that a kernel has."""
    offered = support.kernel(KERNELS / f"{name}.cu").front.macros
    return {macro: value for macro, value in KINDS[kind].items() if macro in offered}


@pytest.mark.parametrize("kind", KINDS)
def test_all_rungs_of_other_sums_compute_the_same_bits(few: None, kind: str) -> None:
    # Whole waves of cut tiles; two chunks of bytes, which hide no stores, seven of tf32, which hide all.
    runs = []
    # The last two have partial widths, whose rows share banks.
    for name in BARE[: 2 if kind == "f16" else 4]:  # they have no sums of f16
        done = support.right(KERNELS / f"{name}.cu", "300x1064x208", of_kind(name, kind))
        runs.append(done)
        if name in BARE[2:]:
            continue
        assert not done.counts["shared_conflicts"].any(), name
        rows = counters.instruction_rows(done.program.instructions, done.counts)
        products = [row for row in rows if "GMMA" in row["opcode"]]
        lines = 16 + done.job.launch.tensor_maps[1].box[1] // 4  # of A, and of B, a product
        assert all(4 * row["wavefronts_shared"] == row["executed"] * lines for row in products)
        assert any(row["wavefronts_shared"] for row in products)
    support.same_bits(runs)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_all_rungs_compute_the_same_bits(few: None, kind: str) -> None:
    # 3 x 3 tiles of 128 x 128 or 3 x 2 of 128 x 256; the last ones are cut, and so is the last of 4 chunks.
    runs = []
    names = PLAIN + PERSISTENT
    for name in names if kind == "f16" else names[:-2]:  # NVRTC takes long for the last two
        done = support.right(KERNELS / f"{name}.cu", "300x264x200", {"TYPE": kind})
        assert not done.counts["shared_conflicts"].any(), name
        runs.append(done)
    support.same_bits(runs)


# Five tiles a block: six chunks each, more than a ring holds; one chunk, which hides nothing; four, as many
# as strips of results.
@pytest.mark.parametrize("name", [*PERSISTENT, LAYOUTS])
@pytest.mark.parametrize("shape", ["300x1064x328", "129x1544x40", "129x1544x256"])
def test_blocks_with_several_tiles(few: None, name: str, shape: str) -> None:
    support.right(KERNELS / f"{name}.cu", shape)


@pytest.mark.parametrize("name", ["hgemm_wgmma_store", "hgemm_wgmma_late"])
@pytest.mark.parametrize(
    "macros",
    [{"TILE_M": 256, "TILE_N": 128}, {"TILE_N": 128}, {"STAGES": 3, "RASTER": 64}],
    ids=lambda macros: "_".join(f"{key}{value}" for key, value in macros.items()),
)
def test_other_tiles_rings_and_orders(few: None, name: str, macros: dict[str, int]) -> None:
    support.right(KERNELS / f"{name}.cu", "520x520x328", {"TYPE": "f16", **macros})


# Of three SMs: one wave; two of tiles of two widths; five; a wave more than need be, because it is fuller; fewer columns
# than the narrowest tile has; rows of 192 by three warpgroups.
@pytest.mark.parametrize(("shape", "height", "columns"), table("execution")["widths of tiles"])
def test_tiles_are_as_wide_as_fills_the_waves(few, shape, height, columns):
    path, macros = KERNELS / "matmul_wgmma_even.cu", {"TILE_M": height}
    support.right(path, shape, macros)
    launch = support.job(path, shape, macros).launch
    assert launch.tile is not None
    rows = -(-int(shape.split("x")[0]) // launch.tile[0])
    assert (launch.working_blocks // rows, launch.tile[1]) == tuple(columns)


# At 2304 x 1920 tiles of 128 rows leave 6 of 132 SMs without work in both waves, those of 192 none in one.
def test_rows_of_192_fill_a_wave() -> None:
    tiles = {}
    for height in (128, 192):
        plan = support.choose(KERNELS / "matmul_wgmma_even.cu", {"TILE_M": height}).plan
        launch = plan({"m": 2304, "n": 1920, "k": 4096}, {**support.device("sm_90"), "sms": 132})
        tiles[height] = launch.working_blocks, launch.tile
    assert tiles == {128: (252, (128, 144, 64)), 192: (132, (192, 176, 64))}


# Two blocks load rows of A, or columns of B, for each other: several tiles each and rings that turn; most of the second one's
# only tile, or all of it, and half of the rows outside of C.
@pytest.mark.parametrize(
    ("name", "shared"), [("matmul_wgmma_turns", {"ACROSS": 2}), ("matmul_wgmma_turns", {"DOWN": 2})]
)
def test_blocks_that_load_for_each_other(few: None, name: str, shared: dict[str, int]) -> None:
    macros = {"TYPE": "f16", "OVERLAP": 1}
    for shape in ("300x1064x712", "24x72x264"):
        pairs = support.right(KERNELS / f"{name}.cu", shape, {**macros, **shared})
        assert pairs.job.launch.cluster in [(2, 1, 1), (1, 2, 1)]
        alone = support.right(KERNELS / "matmul_wgmma_even.cu", shape, macros)
        support.same_bits([pairs, alone])


@pytest.mark.parametrize(("layout_b", "shape"), [("row", "136x456x51"), ("col", "304x520x328")])
def test_operands_that_are_not_contiguous_along_k(few: None, layout_b: str, shape: str) -> None:
    macros = {"LAYOUT_A": "col", "LAYOUT_B": layout_b, "TILE_M": 256, "TILE_N": 128}
    support.right(KERNELS / f"{LAYOUTS}.cu", shape, macros)


@pytest.mark.parametrize(
    ("name", "macros"),
    [
        *((name, {}) for name in [*PLAIN, *PERSISTENT, LAYOUTS, TWO_LAUNCHES]),
        # As many registers of sums as there may be, and old results of as many bytes.
        ("matmul_wgmma_fit", {"TYPE": "tf32"}),
        ("matmul_wgmma_fit", {"TYPE": "e4m3"}),
        ("matmul_wgmma_even", {"OVERLAP": 1}),
        ("matmul_wgmma_even", {"TYPE": "tf32", "OVERLAP": 1}),
        ("matmul_wgmma_turns", {"TYPE": "tf32", "OVERLAP": 1}),
        ("matmul_wgmma_split", {"SPLITS": 2, "TYPE": "tf32"}),
        ("matmul_dmma_teams", {}),
        *(
            (name, of_kind(name, kind))
            for kind in KINDS
            for name in BARE[: 2 if kind == "f16" else 3]
        ),
    ],
)
def test_products_are_not_serialised_and_nothing_is_spilled(name, macros):
    compiled = support.entry(support.choose(KERNELS / f"{name}.cu", macros), "sm_90")
    assert "ptxas info" in compiled["log"]
    assert not re.search(r"C75\d\d|serializ", compiled["log"])
    assert not any(used["spill_store_bytes"] for used in compiled["resources"].values())


@pytest.mark.parametrize(("name", "shape", "macros"), table("ragged_products")["wgmma"])
def test_tiles_of_other_sizes_and_shared_ones(name, shape, macros):
    support.right(KERNELS / f"{name}.cu", shape, macros)


NAMES = ("fp8_wgmma", "fp8_wgmma_promoted", "fp8_wgmma_scaled")
NAMES += ("matmul_wgmma_even", "matmul_wgmma_fit", "matmul_wgmma_turns")
RING, PROMOTED, SCALED, EVEN, FIT, TURNS = map(shipped, NAMES)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_the_same_bits_where_the_tensor_cores_sum_alone(few: None, kind: str) -> None:
    runs = []
    # Of the types the kernels share all but a macro; NVRTC takes long for the last two.
    for path in (RING, PROMOTED, FIT, EVEN, TURNS)[: 5 if kind == "e4m3" else 3]:
        alone = {"ACCUMULATE": "f22"} if path in (PROMOTED, EVEN) else {}
        macro = "A_TYPE" if path in (RING, PROMOTED) else "TYPE"
        done = support.right(path, "300x264x208", {macro: kind, **alone})
        assert not done.counts["shared_conflicts"].any()
        runs.append(done)
    support.same_bits(runs)


# More chunks than a ring holds and blocks with several tiles; a tile that is cut to the least.
@pytest.mark.parametrize(
    ("shape", "macros"),
    [
        ("300x520x656", {}),
        ("300x520x656", {"STAGES": 3}),
        ("129x776x528", {"TILE_N": 256, "ACCUMULATE": "f22", "A_TYPE": "e5m2"}),
        ("1x8x16", {"A_TYPE": "e5m2"}),
    ],
)
def test_tiles_and_sums(few: None, shape: str, macros: dict[str, object]) -> None:
    support.right(PROMOTED, shape, macros)


def test_promoted_sums_are_nearer() -> None:
    operation, errors = operations.load("matmul"), []
    for accumulate in ("f32", "f22"):
        done = support.execute(PROMOTED, "16x128x8192", {"ACCUMULATE": accumulate}, races=False)
        assert done.verdict == "correct", done.reason
        alpha, beta = operation.runs(done.job)[-1]
        want = operation.reference(done.job, operation.inputs(done.job), alpha, beta)["c"]
        output = operation.wide(done.job, "c", done.outputs["c"])
        errors.append(np.linalg.norm(output - want) / np.linalg.norm(want))
    # What rounding to bf16 takes: half a spacing, uniform, of mantissas between 1 and 2.
    assert errors[0] < 2.0e-3 and errors[1] > 1.3 * errors[0]


# Several tiles a block; a ring that comes round; one chunk that is not whole.
@pytest.mark.parametrize(
    ("shape", "macros"),
    [("300x264x656", {}), ("132x136x1040", {"STAGES": 3, "A_TYPE": "e5m2"}), ("4x8x16", {})],
)
def test_scales_of_blocks(few: None, shape: str, macros: dict[str, object]) -> None:
    done = support.right(SCALED, shape, macros)
    assert not done.counts["shared_conflicts"].any()


# Like a kernel that takes the scales of a neighbouring chunk or row.
@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
def test_wrong_scales_are_wrong(few: None, name: str) -> None:
    done = support.execute(SCALED, "132x136x528")
    operation = operations.load(done.job.operation)
    given, (alpha, beta) = operation.inputs(done.job), operation.runs(done.job)[-1]
    assert operation.judge(done.job, done.outputs, given, alpha, beta).verdict == "correct"
    given[name] = np.roll(given[name], 1)
    assert operation.judge(done.job, done.outputs, given, alpha, beta).verdict == "wrong"
