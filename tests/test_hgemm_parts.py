"""The mma.sync kernels: every tile right and without a wavefront too many; sums that several blocks
share are the same whoever comes last.

The CPU executes blocks one after another in the order of their numbers. The same kernel with its block
numbers turned round meets the opposite order, in which other blocks are the last to arrive: stream-K
then takes the path on which the last part never leaves the registers.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels"
SMALL = {"TILE_M": 64, "TILE_N": 64}
TILES = [(256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64)]


@pytest.fixture(scope="module")
def turned(tmp_path_factory) -> Path:
    """A folder of the same kernels, block numbers turned round."""
    folder = tmp_path_factory.mktemp("turned")
    for path in KERNELS.glob("*.cuh"):
        shutil.copy(path, folder)
    for name in ("hgemm_split_k.cu", "hgemm_stream_k.cu", "dealing.cuh"):
        text = (KERNELS / name).read_text(encoding="utf-8")
        assert "blockIdx.x" in text
        (folder / name).write_text(text.replace("blockIdx.x", "(gridDim.x - 1 - blockIdx.x)"))
    return folder


@pytest.mark.parametrize(("tile_m", "tile_n"), TILES)
def test_every_tile_is_right_and_free_of_excess_wavefronts(tile_m: int, tile_n: int) -> None:
    # k is a multiple of 64: rows of both operands then begin at 128-byte lines.
    macros = {"TILE_M": tile_m, "TILE_N": tile_n}
    done = support.execute(KERNELS / "hgemm_mma.cu", "256x256x192", macros)
    assert (done.verdict, done.kinds) == ("correct", []), done.reason
    # Not the ideal, which Nsight Compute has as 0 for the copies that P0 guards.
    assert done.counts["shared_wavefronts"].sum() > 0
    assert not done.counts["shared_conflicts"].any()


@pytest.mark.parametrize("shape", ["129x136x104", "65x72x8", "130x64x584"])
@pytest.mark.parametrize("splits", [2, 16])
def test_split_k_does_not_depend_on_who_comes_last(turned: Path, shape: str, splits: int) -> None:
    macros = {**SMALL, "SPLITS": splits}
    outputs = []
    for folder in (KERNELS, turned):
        done = support.execute(folder / "hgemm_split_k.cu", shape, macros)
        assert (done.verdict, done.kinds) == ("correct", []), done.reason
        outputs.append(done.outputs["c"])
    assert np.array_equal(*outputs)


# 4 blocks of 64 x 64 an SM. Tiles: 3 x 3 = 9 over 4, 8 and 12 blocks (a tail of one tile in the third
# wave; a tail of one; fewer tiles than blocks), 8 over 8 (no tail); 21 over 4 with 4 chunks each.
@pytest.mark.parametrize("joined", [1, 0, 64])
@pytest.mark.parametrize(
    ("sms", "shape"),
    [
        (1, "130x136x584"),
        (2, "130x136x584"),
        (3, "130x136x584"),
        (2, "512x64x72"),
        (1, "448x136x256"),
    ],
)
def test_stream_k_does_not_depend_on_who_comes_last(
    turned: Path, monkeypatch: pytest.MonkeyPatch, sms: int, shape: str, joined: int
) -> None:
    known = support.device
    monkeypatch.setattr(support, "device", lambda arch: {**known(arch), "sms": sms})
    macros = {**SMALL, "JOINED": joined}
    outputs = []
    for folder in (KERNELS, turned):
        done = support.execute(folder / "hgemm_stream_k.cu", shape, macros)
        assert (done.verdict, done.kinds) == ("correct", []), done.reason
        outputs.append(done.outputs["c"])
    assert np.array_equal(*outputs)
