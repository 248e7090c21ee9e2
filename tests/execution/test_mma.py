"""The mma.sync kernels of f16 and f64: right at every edge, without excess, in any order of blocks.

With the last block first stream-K takes the path on which the last part stays in registers.
"""

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave.kernel import operations

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels" / "ladder"
SMALL = {"TILE_M": 64, "TILE_N": 64}
# Four teams of one by two warps, one of one by four, of 48 rows each.
TEAMS = [
    {"TILE_M": 48, "WARP_M": 48, "TEAMS": 4, "RESIDENT": 8},
    {"TILE_M": 48, "WARP_M": 48, "TEAMS": 1, "TILE_N": 128, "STAGES": 3, "RESIDENT": 12},
]
TILES = [(256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64)]


# k is a multiple of 64 for f16 and of 16 for f64: rows then begin at 128-byte lines.
@pytest.mark.parametrize(
    ("name", "shape", "macros"),
    [
        *(("hgemm_mma", "256x256x192", {"TILE_M": m, "TILE_N": n}) for m, n in TILES),
        *(("matmul_dmma_staged", "128x128x96", {"DEPTH": depth}) for depth in (8, 0)),
        *(("matmul_dmma_teams", "192x192x96", macros) for macros in TEAMS),
        ("matmul_dmma_teams", "64x64x96", {}),
    ],
)
def test_no_access_conflicts(name: str, shape: str, macros: dict[str, int]) -> None:
    # Nsight Compute's ideal is 0 for copies that P0 guards, so it is not compared.
    done = support.right(KERNELS / f"{name}.cu", shape, macros)
    assert done.counts["shared_wavefronts"].sum() > 0
    assert not done.counts["shared_conflicts"].any()


@pytest.mark.parametrize(
    ("name", "macros", "sms", "shape"),
    [
        *(
            ("hgemm_split_k", {**SMALL, "SPLITS": splits}, 100, shape)
            for splits in (2, 16)
            for shape in ("129x136x104", "65x72x8", "130x64x584")
        ),
        # 4 blocks of 64 x 64 an SM. Tiles: 3 x 3 = 9 over 4, 8 and 12 blocks (a tail of one tile in the third
        # wave; a tail of one; fewer tiles than blocks), 8 over 8 (no tail); 21 over 4 with 4 chunks each.
        *(
            ("hgemm_stream_k", {**SMALL, "JOINED": joined}, sms, shape)
            for joined in (1, 0, 64)
            for sms, shape in zip(
                (1, 2, 3, 2, 1), [*["130x136x584"] * 3, "512x64x72", "448x136x256"]
            )
        ),
        # One block an SM. One tile and many helpers, two tiles of odd sizes; 9 tiles over 4 blocks (one is shared
        # by all of them, two waves follow) and over 5 (4 owners, one helper).
        *(("matmul_dmma_stream_k", {}, sms, "300x260x180") for sms in (4, 5)),
        *(("matmul_dmma_stream_k", {}, 132, shape) for shape in ("128x128x512", "129x67x530")),
        ("matmul_dmma_stream_k", {}, 7, "65x130x1031"),
    ],
)
def test_sums_do_not_depend_on_the_last_block(monkeypatch, name, macros, sms, shape):
    support.with_sms(monkeypatch, sms)
    path, orders = KERNELS / f"{name}.cu", (False, True)
    support.same_bits(support.right(path, shape, macros, reverse=order) for order in orders)


ODD = "1x1x1 65x63x7 65x64x17 64x65x18 63x66x40 130x130x16".split()
STAGED = {**SMALL, "WARP_M": 32, "DEPTH": 8}


@pytest.mark.parametrize(
    ("name", "shape", "macros"),
    [
        *(("matmul_dmma_staged", shape, STAGED) for shape in ODD),
        *(("matmul_dmma_teams", "101x203x57", macros) for macros in TEAMS),
        *(("matmul_dmma_teams", "98x194x40", macros) for macros in TEAMS),
        # Rows that are not aligned, fewer chunks of k than blocks and teams.
        ("matmul_dmma_teams", "65x67x21", {}),
        ("matmul_cluster", "65x66x21", {"SPLITS": 2}),
        ("matmul_cluster", "65x66x21", {"SPLITS": 8, "TILE_N": 64}),
    ],
)
def test_edges_and_short_sums_are_right(name: str, shape: str, macros: dict[str, int]) -> None:
    support.right(KERNELS / f"{name}.cu", shape, macros)


# A tile that all blocks share; two tiles with a part in each block; tiles that are dealt before whole ones.
@pytest.mark.parametrize(
    ("name", "sms", "shape", "macros"),
    [
        ("matmul_two_launches", 132, "129x67x530", {}),
        ("matmul_two_launches", 3, "100x300x200", {}),
        ("matmul_two_launches", 2, "513x130x24", {}),
        ("matmul_two_launches", 132, "70x66x2200", SMALL),
        ("matmul_wgmma_two_launches", 132, "70x168x320", {}),
    ],
)
def test_parts_are_added_wherever_they_are(monkeypatch, name, sms, shape, macros) -> None:
    """The launch that adds takes alpha and beta, not the leading launch."""
    support.with_sms(monkeypatch, sms)
    done = support.right(KERNELS / f"{name}.cu", shape, macros)
    assert len(operations.load("matmul").runs(done.job)) == len(done.job.steps) == 2


def test_padding_frees_the_first_rung_of_conflicts() -> None:
    path = KERNELS / "matmul_dmma.cu"
    padded, bare = (support.execute(path, "64x64x32", {"PAD": pad}) for pad in (4, 0))
    assert padded.verdict == bare.verdict == "correct"
    conflicts, more = (done.counts["shared_conflicts"].sum() for done in (padded, bare))
    loads, same = (done.counts["shared_wavefronts"].sum() for done in (padded, bare))
    assert loads - conflicts == same - more and more > 2 * conflicts
