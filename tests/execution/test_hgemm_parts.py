"""The mma.sync kernels: every tile right and without a wavefront too many, whoever comes last.

With block numbers turned round stream-K takes the path on which the last part never leaves the registers.
"""

from pathlib import Path

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels" / "ladder"
SMALL = {"TILE_M": 64, "TILE_N": 64}
TILES = [(256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The kernels, and the same with their blocks in the opposite order."""
    names = ("hgemm_split_k.cu", "hgemm_stream_k.cu", "dealing.cuh")
    return KERNELS, support.turned(KERNELS, tmp_path_factory.mktemp("turned"), *names)


@pytest.mark.parametrize(("tile_m", "tile_n"), TILES)
def test_every_tile_is_right_and_free_of_excess_wavefronts(tile_m: int, tile_n: int) -> None:
    # k is a multiple of 64: rows of both operands then begin at 128-byte lines.
    macros = {"TILE_M": tile_m, "TILE_N": tile_n}
    done = support.right(KERNELS / "hgemm_mma.cu", "256x256x192", macros)
    # Not the ideal, which Nsight Compute has as 0 for the copies that P0 guards.
    assert done.counts["shared_wavefronts"].sum() > 0
    assert not done.counts["shared_conflicts"].any()


@pytest.mark.parametrize("shape", ["129x136x104", "65x72x8", "130x64x584"])
@pytest.mark.parametrize("splits", [2, 16])
def test_split_k_does_not_depend_on_who_comes_last(folders, shape, splits):
    macros = {**SMALL, "SPLITS": splits}
    support.same_bits(support.right(one / "hgemm_split_k.cu", shape, macros) for one in folders)


# 4 blocks of 64 x 64 an SM. Tiles: 3 x 3 = 9 over 4, 8 and 12 blocks (a tail of one tile in the third
# wave; a tail of one; fewer tiles than blocks), 8 over 8 (no tail); 21 over 4 with 4 chunks each.
@pytest.mark.parametrize("joined", [1, 0, 64])
@pytest.mark.parametrize(
    ("sms", "shape"),
    [*((sms, "130x136x584") for sms in (1, 2, 3)), (2, "512x64x72"), (1, "448x136x256")],
)
def test_stream_k_does_not_depend_on_who_comes_last(folders, monkeypatch, sms, shape, joined):
    support.with_sms(monkeypatch, sms)
    macros = {**SMALL, "JOINED": joined}
    support.same_bits(support.right(one / "hgemm_stream_k.cu", shape, macros) for one in folders)
