"""The f64 kernels on tensor cores: right at every edge, without conflicts, and whoever comes last."""

from pathlib import Path

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels" / "ladder"
SMALL = {"TILE_M": 64, "TILE_N": 64, "WARP_M": 32}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The kernels, and the same with their blocks in the opposite order."""
    folder = tmp_path_factory.mktemp("turned")
    return KERNELS, support.turned(KERNELS, folder, "stream_k.cuh", "dmma_stream.cuh")


@pytest.mark.parametrize("depth", [8, 0])
def test_no_access_of_the_staged_kernel_conflicts(depth: int) -> None:
    # k is a multiple of 16: rows of A then begin at 128-byte lines.
    done = support.right(KERNELS / "matmul_dmma_staged.cu", "128x128x96", {"DEPTH": depth})
    assert done.counts["shared_wavefronts"].sum() > 0
    assert not done.counts["shared_conflicts"].any()


ODD = "1x1x1 65x63x7 65x64x17 64x65x18 63x66x40 130x130x16".split()


@pytest.mark.parametrize("shape", ODD)
def test_odd_sizes_edges_and_short_sums_are_right(shape: str) -> None:
    support.right(KERNELS / "matmul_dmma_staged.cu", shape, {**SMALL, "DEPTH": 8})


# Four teams of one by two warps, one of one by four.
@pytest.mark.parametrize(
    "macros",
    [{"TEAMS": 4, "RESIDENT": 8}, {"TEAMS": 1, "TILE_N": 128, "STAGES": 3, "RESIDENT": 12}],
)
def test_warps_of_48_rows_are_right_and_no_access_conflicts(macros: dict[str, int]) -> None:
    path, macros = KERNELS / "matmul_dmma_teams.cu", {**macros, "TILE_M": 48, "WARP_M": 48}
    for shape in ("101x203x57", "98x194x40"):
        support.right(path, shape, macros)
    done = support.right(path, "192x192x96", macros)
    assert not done.counts["shared_conflicts"].any()


def test_padding_frees_the_first_rung_of_conflicts() -> None:
    path = KERNELS / "matmul_dmma.cu"
    padded, bare = (support.execute(path, "64x64x32", {"PAD": pad}) for pad in (4, 0))
    assert padded.verdict == bare.verdict == "correct"
    conflicts, more = (done.counts["shared_conflicts"].sum() for done in (padded, bare))
    loads, same = (done.counts["shared_wavefronts"].sum() for done in (padded, bare))
    assert loads - conflicts == same - more and more > 2 * conflicts


# One block an SM. One tile and many helpers, two tiles of odd sizes; 9 tiles over 4 blocks (one is shared by
# all of them, two waves follow) and over 5 (4 owners, one helper).
@pytest.mark.parametrize(
    ("sms", "shape"),
    [
        *((132, "128x128x512"), (132, "129x67x530"), (7, "65x130x1031")),
        *((4, "300x260x180"), (5, "300x260x180")),
    ],
)
def test_shared_tiles_do_not_depend_on_who_comes_last(folders, monkeypatch, sms, shape):
    support.with_sms(monkeypatch, sms)
    name = "matmul_dmma_stream_k.cu"
    support.same_bits(support.right(folder / name, shape) for folder in folders)
