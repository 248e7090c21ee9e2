"""The FP8 rungs, executed: right at the edges of tiles and of k, where a block has several tiles, in each type
and sum, and with both scales."""

import numpy as np
import pytest

import executing_support as support
from samples import ROOT
from tilewave import operations
from tilewave.compiling import nvrtc

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available() or "NVRTC")

RING, PROMOTED = (ROOT / "kernels" / f"{name}.cu" for name in ("fp8_wgmma", "fp8_wgmma_promoted"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of three SMs, so that a small product has several tiles for each."""
    known = support.device
    monkeypatch.setattr(support, "device", lambda arch: {**known(arch), "sms": 3})


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_the_same_bits_where_the_tensor_cores_sum_alone(few: None, kind: str) -> None:
    outputs = []
    for path, macros in ((RING, {}), (PROMOTED, {"ACCUMULATE": "f22"})):
        done = support.execute(path, "300x264x208", {"A_TYPE": kind, **macros})
        assert (done.verdict, done.kinds) == ("correct", []), done.reason
        assert not done.counts["shared_conflicts"].any()
        outputs.append(done.outputs["c"])
    assert np.array_equal(*outputs)


# More chunks than a ring holds and blocks with several tiles; a tile that is cut to the least.
@pytest.mark.parametrize(
    ("shape", "macros"),
    [
        ("300x520x656", {}),
        ("300x520x656", {"TILE_N": 192, "CLUSTER": 2, "STAGES": 3}),
        ("129x776x528", {"TILE_N": 256, "ACCUMULATE": "f22", "CLUSTER": 2, "A_TYPE": "e5m2"}),
        ("1x8x16", {"STAGES": 6, "A_TYPE": "e5m2", "RASTER": 1024}),
    ],
)
def test_tiles_sums_and_clusters(few: None, shape: str, macros: dict[str, object]) -> None:
    done = support.execute(PROMOTED, shape, macros)
    assert (done.verdict, done.kinds) == ("correct", []), done.reason


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
