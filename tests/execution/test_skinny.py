"""The rungs for few tiles: blocks without a part of k do no harm."""

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave import execution
from tilewave.execution import case
from tilewave.kernel import operations

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels" / "ladder"


# A tile that all blocks share; two tiles with a part in each block; tiles that are dealt before whole ones.
@pytest.mark.parametrize(
    ("name", "sms", "shape", "macros"),
    [
        ("matmul_two_launches", 132, "129x67x530", {}),
        ("matmul_two_launches", 3, "100x300x200", {}),
        ("matmul_two_launches", 2, "513x130x24", {}),
        ("matmul_two_launches", 132, "70x66x2200", {"TILE_M": 64, "TILE_N": 64}),
        ("matmul_wgmma_two_launches", 132, "70x168x320", {}),
    ],
)
def test_parts_are_added_wherever_they_are(monkeypatch, name, sms, shape, macros) -> None:
    support.with_sms(monkeypatch, sms)
    job = support.job(KERNELS / f"{name}.cu", shape, macros)
    # The launch that adds takes alpha and beta, not the leading launch.
    assert len(operations.load("matmul").runs(job)) == 2
    done = case.run(job, execution.engine()).result
    assert (done.status, done.verdict) == ("ok", "correct"), done
