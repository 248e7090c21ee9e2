"""The FP8 rungs, executed: right at every edge, in each type and sum, and with both scales."""

import numpy as np
import pytest

import executing_support as support
from samples import needs_nvrtc, shipped
from tilewave.kernel import operations

pytestmark = needs_nvrtc

NAMES = ("fp8_wgmma", "fp8_wgmma_promoted", "fp8_wgmma_scaled")
NAMES += ("matmul_wgmma_even", "matmul_wgmma_fit", "matmul_wgmma_turns")
RING, PROMOTED, SCALED, EVEN, FIT, TURNS = map(shipped, NAMES)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_the_same_bits_where_the_tensor_cores_sum_alone(few: None, kind: str) -> None:
    runs = []
    for path in (RING, PROMOTED, EVEN, FIT, TURNS):
        alone = {"ACCUMULATE": "f22"} if path in (PROMOTED, EVEN) else {}
        own = "A_TYPE" if path in (RING, PROMOTED) else "TYPE"
        done = support.right(path, "300x264x208", {own: kind, **alone})
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
        done = support.execute(PROMOTED, "128x128x8192", {"ACCUMULATE": accumulate}, races=False)
        assert done.verdict == "correct", done.reason
        alpha, beta = operation.runs(done.job)[-1]
        want = operation.reference(done.job, operation.inputs(done.job), alpha, beta)["c"]
        found = operation.wide(done.job, "c", done.outputs["c"])
        errors.append(np.linalg.norm(found - want) / np.linalg.norm(want))
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


# As of a kernel that takes those of the chunk, or of the rows, beside its own.
@pytest.mark.parametrize("name", ["scale_a", "scale_b"])
def test_wrong_scales_are_found(few: None, name: str) -> None:
    done = support.execute(SCALED, "132x136x528")
    operation = operations.load(done.job.operation)
    given, (alpha, beta) = operation.inputs(done.job), operation.runs(done.job)[-1]
    assert operation.judge(done.job, done.outputs, given, alpha, beta).verdict == "correct"
    given[name] = np.roll(given[name], 1)
    assert operation.judge(done.job, done.outputs, given, alpha, beta).verdict == "wrong"
