"""The f64 kernels on tensor cores: right at every alignment and edge, no conflict, and sums that several
blocks share do not depend on who comes last.

The CPU executes blocks one after another in the order of their numbers. The same kernel with its block
numbers turned round meets the opposite order, in which other blocks are the last to arrive.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels"
SMALL = {"TILE_M": 64, "TILE_N": 64, "WARP_M": 32}


@pytest.mark.parametrize("depth", [16, 8, 4, 0])
def test_no_access_of_the_staged_kernel_conflicts(depth: int) -> None:
    # k is a multiple of 16: rows of A then begin at 128-byte lines.
    done = support.execute(KERNELS / "matmul_dmma_staged.cu", "128x128x96", {"DEPTH": depth})
    assert (done.verdict, done.kinds) == ("correct", []), done.reason
    assert done.counts["shared_wavefronts"].sum() > 0
    assert not done.counts["shared_conflicts"].any()


@pytest.mark.parametrize(
    "shape", ["1x1x1", "65x63x7", "65x64x17", "64x65x18", "63x66x40", "130x130x16"]
)
def test_odd_sizes_edges_and_short_sums_are_right(shape: str) -> None:
    done = support.execute(KERNELS / "matmul_dmma_staged.cu", shape, {**SMALL, "DEPTH": 8})
    assert (done.verdict, done.kinds) == ("correct", []), done.reason


def test_padding_frees_the_first_rung_of_conflicts() -> None:
    path = KERNELS / "matmul_dmma.cu"
    padded, bare = (support.execute(path, "64x64x32", {"PAD": pad}) for pad in (4, 0))
    assert padded.verdict == bare.verdict == "correct"
    loads = [
        done.counts["shared_wavefronts"].sum() - done.counts["shared_conflicts"].sum()
        for done in (padded, bare)
    ]
    assert loads[0] == loads[1]
    assert bare.counts["shared_conflicts"].sum() > 2 * padded.counts["shared_conflicts"].sum()


# One block an SM. One tile and many helpers, two tiles of odd sizes; 9 tiles over 4 blocks (one is shared by
# all of them, two waves follow) and over 5 (4 owners, one helper).
@pytest.mark.parametrize(
    ("sms", "shape"),
    [
        (132, "128x128x512"),
        (132, "129x67x530"),
        (7, "65x130x1031"),
        (4, "300x260x180"),
        (5, "300x260x180"),
    ],
)
def test_shared_tiles_do_not_depend_on_who_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sms: int, shape: str
) -> None:
    known = support.device
    monkeypatch.setattr(support, "device", lambda arch: {**known(arch), "sms": sms})
    for path in (*KERNELS.glob("*.cuh"), KERNELS / "matmul_dmma_stream_k.cu"):
        shutil.copy(path, tmp_path)
    text = (KERNELS / "stream_k.cuh").read_text(encoding="utf-8")
    assert "blockIdx.x" in text
    turned = text.replace("blockIdx.x", "(gridDim.x - 1 - blockIdx.x)")
    (tmp_path / "stream_k.cuh").write_text(turned, encoding="utf-8")
    part = (tmp_path / "dmma_stream.cuh").read_text(encoding="utf-8")
    part = part.replace("blockIdx.x", "(gridDim.x - 1 - blockIdx.x)")
    (tmp_path / "dmma_stream.cuh").write_text(part, encoding="utf-8")
    outputs = []
    for folder in (KERNELS, tmp_path):
        done = support.execute(folder / "matmul_dmma_stream_k.cu", shape, {"DEPTH": 8})
        assert (done.verdict, done.kinds) == ("correct", []), done.reason
        outputs.append(done.outputs["c"])
    assert np.array_equal(*outputs)
