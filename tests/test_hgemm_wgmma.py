"""The Hopper rungs, executed: right at the edges of tiles and of k, where a block has several tiles, and with
the same bits whoever schedules them."""

import re

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave.errors import UserError

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels"
PLAIN = [
    "hgemm_wgmma",
    "hgemm_wgmma_pipeline",
    "hgemm_wgmma_roles",
    "matmul_wgmma_fit",
    "matmul_wgmma_tall",
]
PERSISTENT = [
    "hgemm_wgmma_persistent",
    "hgemm_wgmma_store",
    "hgemm_wgmma_cluster",
    "hgemm_wgmma_late",
    "matmul_wgmma_even",
    "matmul_wgmma_turns",
]
TWO_LAUNCHES = "matmul_wgmma_two_launches"
WORDS = KERNELS / "matmul_wgmma_words.cu"
LAYOUTS = "hgemm_wgmma_layouts"  # elements are made in the order of memory: its B is another one


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_all_rungs_compute_the_same_bits(few: None, kind: str) -> None:
    # 3 x 3 tiles of 128 x 128 or 3 x 2 of 128 x 256; the last ones are cut, and so is the last of 4 chunks.
    runs = []
    for name in PLAIN + PERSISTENT:
        done = support.right(KERNELS / f"{name}.cu", "300x264x200", {"TYPE": kind})
        assert not done.counts["shared_conflicts"].any(), name
        runs.append(done)
    # Rows of 80 results are no whole lines: eight lanes that read them lie across two.
    runs.append(support.right(KERNELS / "matmul_wgmma_shared.cu", "300x264x200", {"TYPE": kind}))
    support.same_bits(runs)


# Five tiles a block: six chunks each, more than a ring holds; one chunk, which hides nothing; four, as many
# as strips of results.
@pytest.mark.parametrize("name", [*PERSISTENT, LAYOUTS])
@pytest.mark.parametrize("shape", ["300x1064x328", "129x1544x40", "129x1544x256"])
def test_blocks_with_several_tiles(few: None, name: str, shape: str) -> None:
    support.right(KERNELS / f"{name}.cu", shape, {"TYPE": "bf16"})


@pytest.mark.parametrize("name", ["hgemm_wgmma_cluster", "hgemm_wgmma_late"])
@pytest.mark.parametrize(
    "macros",
    [{"TILE_M": 256, "TILE_N": 128}, {"TILE_N": 128}, {"STAGES": 3}, {"RASTER": 64}],
    ids=lambda macros: "_".join(f"{key}{value}" for key, value in macros.items()),
)
def test_other_tiles_rings_and_orders(few: None, name: str, macros: dict[str, int]) -> None:
    support.right(KERNELS / f"{name}.cu", "520x520x328", {"TYPE": "f16", **macros})


# Of three SMs: one wave; two of tiles of two widths; five; a wave more than need be, because it is fuller; fewer columns
# than the narrowest tile has; rows of 192 by three warpgroups, and of 256 by two.
@pytest.mark.parametrize(
    ("shape", "height", "columns"),
    [
        ("300x136x72", 128, (1, 136)),
        ("129x392x264", 128, (3, 136)),
        ("520x520x40", 128, (3, 176)),
        ("129x256x2048", 128, (3, 88)),
        ("8x8x8", 128, (1, 64)),
        ("600x488x136", 192, (3, 168)),
        ("600x200x328", 256, (2, 104)),
    ],
)
def test_tiles_are_as_wide_as_fills_the_waves(
    few: None, shape: str, height: int, columns: tuple[int, int]
) -> None:
    path, macros = KERNELS / "matmul_wgmma_even.cu", {"TILE_M": height}
    support.right(path, shape, macros)
    launch = support.job(path, shape, macros).launch
    assert launch.tile is not None
    rows = -(-int(shape.split("x")[0]) // launch.tile[0])
    assert (launch.working_blocks // rows, launch.tile[1]) == columns


# At 2304 x 1920 tiles of 128 rows leave 6 of 132 SMs without work in both waves, those of 192 none in one.
def test_rows_of_192_fill_a_wave() -> None:
    tiles = {}
    for height in (128, 192):
        plan = support.choose(KERNELS / "matmul_wgmma_even.cu", {"TILE_M": height}).plan
        launch = plan({"m": 2304, "n": 1920, "k": 4096}, {**support.device("sm_90"), "sms": 132})
        tiles[height] = launch.working_blocks, launch.tile
    assert tiles == {128: (252, (128, 144, 64)), 192: (132, (192, 176, 64))}


# The last of three tile rows has one of two boxes of A in it, of which one warpgroup has work; a row of the second box;
# results of four bytes, in more strips than a stage has room for, and more chunks than the ring has stages; one and two
# of three boxes.
@pytest.mark.parametrize(
    ("kind", "height", "shape", "columns"),
    [
        ("f16", 256, "640x336x192", (2, 168)),
        ("bf16", 256, "385x72x328", (1, 72)),
        ("tf32", 256, "129x568x200", (3, 192)),
        ("i8", 256, "384x200x144", (3, 80)),
        ("f16", 192, "200x568x328", (3, 192)),
        ("tf32", 192, "265x104x164", (1, 104)),
    ],
)
def test_tall_tiles_of_whose_rows_some_are_outside(
    few: None, kind: str, height: int, shape: str, columns: tuple[int, int]
) -> None:
    path = KERNELS / "matmul_wgmma_tall.cu"
    tall = support.right(path, shape, {"TYPE": kind, "TILE_M": height})
    rows = -(-int(shape.split("x")[0]) // height)
    assert tall.job.launch.tile is not None
    assert (tall.job.launch.working_blocks // rows, tall.job.launch.tile[1]) == columns
    support.same_bits(
        [tall, support.right(KERNELS / "matmul_wgmma_even.cu", shape, {"TYPE": kind})]
    )


# Two blocks load rows of A, or columns of B, for each other: several tiles each and rings that turn; most of the second one's
# only tile, or all of it, and half of the rows outside of C.
@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("matmul_wgmma_tall", {"ACROSS": 2}),
        ("matmul_wgmma_tall", {"ACROSS": 2, "TILE_M": 192}),
        ("matmul_wgmma_turns", {"ACROSS": 2}),
        ("matmul_wgmma_turns", {"DOWN": 2}),
        (TWO_LAUNCHES, {"DOWN": 2}),
        (TWO_LAUNCHES, {"DOWN": 2, "TURNED": 1}),
        (TWO_LAUNCHES, {"WARPGROUPS": 2, "TILE_N": 64, "ACROSS": 2}),
    ],
)
def test_blocks_that_load_for_each_other(few: None, name: str, shared: dict[str, int]) -> None:
    macros = {"TYPE": "f16", "OVERLAP": 1}
    for shape in ("300x1064x712", "24x72x264"):
        pairs = support.right(KERNELS / f"{name}.cu", shape, {**macros, **shared})
        assert pairs.job.launch.cluster in [(2, 1, 1), (1, 2, 1)]
        alone = support.right(KERNELS / "matmul_wgmma_even.cu", shape, macros)
        support.same_bits([pairs, alone])


# At 1408 x 3456 two waves of tiles of 128 rows are one of 256, at 2304 x 2048 one of 192.
@pytest.mark.parametrize(
    ("m", "n", "tile"), [(1408, 3456, (256, 160, 64)), (2304, 2048, (192, 192, 64))]
)
def test_one_wave_of_tall_tiles(m: int, n: int, tile: tuple[int, int, int]) -> None:
    plan = support.choose(KERNELS / "matmul_wgmma_tall.cu", {"TILE_M": tile[0]}).plan
    launch = plan({"m": m, "n": n, "k": 4096}, {**support.device("sm_90"), "sms": 132})
    assert (launch.working_blocks, launch.tile) == (132, tile)


# Rows that begin anywhere; less than a chunk; several chunks, several stretches of a row.
@pytest.mark.parametrize(
    ("kind", "shape", "macros"),
    [
        ("f16", "77x101x133", {}),
        ("bf16", "130x129x71", {"WARPGROUPS": 1, "TILE_N": 64}),
        ("tf32", "15x67x1", {}),
        ("i8", "129x65x1127", {"WARPGROUPS": 1}),
        ("e5m2", "200x131x257", {"TILE_N": 64}),
    ],
)
def test_rows_that_are_copied_first(kind: str, shape: str, macros: dict[str, int]) -> None:
    path = KERNELS / "matmul_wgmma_padded.cu"
    done = support.right(path, shape, {"TYPE": kind, **macros})
    assert not done.counts["shared_conflicts"].any()


# Rows that begin at words, or at pairs of them: pieces of more chunks than a ring holds; blocks without any chunk; a row
# of the second tile and a column of it.
@pytest.mark.parametrize(
    ("kind", "shape", "macros"),
    [
        (
            "bf16",
            "67x75x1542",
            {"SPLITS": 4, "WARPGROUPS": 1, "TILE_N": 64, "WIDTH": 4, "ROOM": 80},
        ),
        (
            "tf32",
            "65x67x77",
            {"SPLITS": 8, "WARPGROUPS": 1, "TILE_N": 64, "WIDTH": 4, "OVERLAP": 1},
        ),
        ("i8", "129x65x1128", {"TILE_N": 64}),
        ("e4m3", "65x193x516", {"SPLITS": 2, "WARPGROUPS": 1, "TILE_N": 192, "WIDTH": 4}),
    ],
)
def test_rows_that_threads_copy(kind: str, shape: str, macros: dict[str, int]) -> None:
    done = support.right(WORDS, shape, {"TYPE": kind, **macros})
    assert not done.counts["shared_conflicts"].any()


# Parts of more chunks than a ring holds; each chunk a part; the second tile has a row, or columns, alone.
@pytest.mark.parametrize(
    ("kind", "shape", "macros"),
    [
        ("bf16", "520x1032x1542", {"WIDTH": 4}),
        ("tf32", "65x130x77", {"WARPGROUPS": 1, "WIDTH": 4, "OVERLAP": 1}),
        ("i8", "129x65x1128", {"TILE_N": 64}),
        ("e4m3", "65x193x516", {"WARPGROUPS": 1, "TILE_N": 192, "WIDTH": 4}),
    ],
)
def test_rows_that_threads_copy_in_pieces(kind: str, shape: str, macros: dict[str, int]) -> None:
    path = KERNELS / "matmul_wgmma_words_two_launches.cu"
    done = support.right(path, shape, {"TYPE": kind, **macros})
    assert not done.counts["shared_conflicts"].any()


# More chunks than a ring holds.
def test_sums_are_the_same_whoever_copies_rows() -> None:
    paths = WORDS, KERNELS / "matmul_wgmma_padded.cu"
    support.same_bits([support.right(path, "130x131x332") for path in paths])


@pytest.mark.parametrize(
    ("k", "width", "why"),
    [
        (264, 8, "needs k * size(TYPE) % (2 * WIDTH) != 0 (k = 264, TYPE = f16, WIDTH = 8)"),
        (132, 4, "needs k * size(TYPE) % (2 * WIDTH) != 0 (k = 132, TYPE = f16, WIDTH = 4)"),
        (130, 8, "k = 130 is not a multiple of 4"),
        (133, 4, "k = 133 is not a multiple of 2"),
    ],
)
def test_rows_that_others_copy_faster_or_no_thread_can(k: int, width: int, why: str) -> None:
    chosen = support.choose(WORDS, {"WIDTH": width})
    assert chosen.supports({"m": 72, "n": 72, "k": k}, support.device("sm_90")) == why


# wgmma of bytes comes by 16 columns, and only turned ones are stored by eight.
@pytest.mark.parametrize("macros", [{"TYPE": "i8", "TURNED": 1}, {"TYPE": "f16"}])
def test_tiles_of_88_are_turned_and_not_of_bytes(macros: dict[str, int | str]) -> None:
    with pytest.raises(UserError, match="TILE_N % 16 == 0 or"):
        support.choose(KERNELS / "matmul_wgmma_shared.cu", {"TILE_N": 88, **macros})


@pytest.mark.parametrize(("layout_b", "shape"), [("row", "136x456x51"), ("col", "304x520x328")])
def test_operands_that_are_not_contiguous_along_k(few: None, layout_b: str, shape: str) -> None:
    macros = {"LAYOUT_A": "col", "LAYOUT_B": layout_b, "TILE_M": 256, "TILE_N": 128}
    support.right(KERNELS / f"{LAYOUTS}.cu", shape, macros)


@pytest.mark.parametrize(
    ("name", "macros"),
    [
        *(
            (name, {})
            for name in [*PLAIN, *PERSISTENT, LAYOUTS, TWO_LAUNCHES, "matmul_wgmma_shared"]
        ),
        # As many registers of sums as there may be, and old results of as many bytes.
        ("matmul_wgmma_fit", {"TYPE": "tf32", "TILE_N": 256}),
        ("matmul_wgmma_fit", {"TYPE": "tf32", "WARPGROUPS": 3, "TILE_N": 176}),
        ("matmul_wgmma_fit", {"TYPE": "e4m3", "ROOM": 108}),
        ("matmul_wgmma_even", {"OVERLAP": 1}),
        ("matmul_wgmma_even", {"TYPE": "tf32", "OVERLAP": 1}),
        ("matmul_wgmma_tall", {"TYPE": "tf32", "OVERLAP": 1}),
        ("matmul_wgmma_tall", {"TYPE": "tf32", "TILE_M": 192, "OVERLAP": 1}),
        ("matmul_wgmma_turns", {"TYPE": "tf32", "OVERLAP": 1}),
        ("matmul_wgmma_padded", {}),
        ("matmul_wgmma_words", {}),
        (TWO_LAUNCHES, {"WARPGROUPS": 1, "TILE_N": 256}),
        ("matmul_wgmma_split", {"SPLITS": 2, "TILE_N": 192, "TURNED": 1}),
    ],
)
def test_products_are_not_serialised_and_nothing_is_spilled(
    name: str, macros: dict[str, int | str]
) -> None:
    made = support.entry(support.choose(KERNELS / f"{name}.cu", macros), "sm_90")
    assert "ptxas info" in made["log"]
    assert not re.search(r"C75\d\d|serializ", made["log"])
    assert not any(one["spill_store_bytes"] for one in made["resources"].values())


# Wider tiles than a power of two, cut in both directions; blocks without any chunk of k; rows that are not aligned; more
# chunks than a ring holds.
@pytest.mark.parametrize(
    ("name", "shape", "macros"),
    [
        ("matmul_wgmma_fit", "200x360x72", {"WARPGROUPS": 3, "TILE_N": 176}),
        (
            "matmul_wgmma_split",
            "72x72x200",
            {"SPLITS": 8, "WARPGROUPS": 1, "TILE_N": 64, "ROOM": 72},
        ),
        # Blocks outside of C that load for others; parts of a tile that are no multiple of the swizzle; fewer rows than
        # a tile has, of which the others are zeros.
        ("matmul_wgmma_shared", "200x168x528", {}),
        ("matmul_wgmma_shared", "129x136x2064", {"TYPE": "e4m3", "DOWN": 2, "ACROSS": 1}),
        ("matmul_wgmma_fit", "20x72x584", {"WARPGROUPS": 1, "TILE_N": 32}),
        ("matmul_wgmma_split", "20x72x2056", {"WARPGROUPS": 1, "TILE_N": 64, "STAGES": 16}),
        (TWO_LAUNCHES, "129x136x2056", {}),
        (TWO_LAUNCHES, "72x72x200", {"WARPGROUPS": 2, "TILE_N": 64, "OVERLAP": 1}),
        (TWO_LAUNCHES, "72x264x200", {"WARPGROUPS": 1, "TILE_N": 256}),
        # Pairs of blocks that load for each other, the second of the last pair for the first alone.
        (TWO_LAUNCHES, "136x72x584", {"WARPGROUPS": 1, "TILE_N": 64, "DOWN": 2}),
        (TWO_LAUNCHES, "72x136x592", {"TYPE": "e5m2", "WARPGROUPS": 1, "TILE_N": 64, "ACROSS": 2}),
        (TWO_LAUNCHES, "136x72x336", {"TYPE": "i8", "TILE_N": 64, "ACROSS": 2, "TURNED": 1}),
        (TWO_LAUNCHES, "101x264x200", {"TILE_N": 96, "DOWN": 2, "TURNED": 1}),
        (TWO_LAUNCHES, "165x76x136", {"TYPE": "tf32", "TILE_N": 160, "SPLITS": 2, "TURNED": 1}),
        # Rows and columns that change places, their results by stmatrix or one by one.
        ("matmul_wgmma_shared", "130x264x136", {"DOWN": 2, "TILE_N": 96, "TURNED": 1}),
        (
            "matmul_wgmma_shared",
            "72x200x208",
            {"TYPE": "i8", "DOWN": 2, "WARPGROUPS": 1, "TILE_N": 80, "TURNED": 1},
        ),
        ("matmul_wgmma_shared", "140x264x272", {"TYPE": "e4m3", "TILE_N": 88, "TURNED": 1}),
        # Shares of a tile's rows of C: unequal ones, of whole pairs of matrices or not, or of eight rows.
        ("matmul_wgmma_split", "72x136x200", {"SPLITS": 3, "TILE_N": 64, "TURNED": 1}),
        (
            "matmul_wgmma_split",
            "69x76x136",
            {"TYPE": "tf32", "SPLITS": 2, "WARPGROUPS": 1, "TILE_N": 64, "TURNED": 1},
        ),
        (
            "matmul_wgmma_split",
            "100x132x400",
            {"TYPE": "i8", "SPLITS": 5, "TILE_N": 96, "TURNED": 1},
        ),
        (
            "matmul_wgmma_split",
            "41x72x272",
            {"TYPE": "e4m3", "SPLITS": 4, "WARPGROUPS": 1, "TILE_N": 32, "TURNED": 1},
        ),
        # B row-major, as either operand of wgmma, in panels that end within a chunk and beyond C.
        ("matmul_wgmma_fit", "72x136x200", {"WARPGROUPS": 1, "TILE_N": 64, "LAYOUT_B": "row"}),
        (
            "matmul_wgmma_shared",
            "72x264x136",
            {"DOWN": 2, "ACROSS": 1, "TILE_N": 128, "LAYOUT_B": "row"},
        ),
        (
            "matmul_wgmma_shared",
            "200x264x136",
            {"TYPE": "bf16", "ACROSS": 1, "TILE_N": 176, "TURNED": 1, "LAYOUT_B": "row"},
        ),
        (
            "matmul_wgmma_shared",
            "200x280x136",
            {"DOWN": 2, "ACROSS": 1, "TILE_N": 88, "TURNED": 1, "LAYOUT_B": "row"},
        ),
        # Its panels shared by k, of which a chunk may have none for some.
        (
            "matmul_wgmma_shared",
            "200x136x136",
            {"WARPGROUPS": 1, "ACROSS": 4, "DOWN": 2, "TILE_N": 88, "TURNED": 1, "LAYOUT_B": "row"},
        ),
        (
            "matmul_wgmma_shared",
            "264x136x72",
            {"WARPGROUPS": 1, "ACROSS": 2, "TILE_N": 64, "LAYOUT_B": "row"},
        ),
        (
            TWO_LAUNCHES,
            "200x136x528",
            {"TYPE": "bf16", "TILE_N": 96, "ACROSS": 2, "TURNED": 1, "LAYOUT_B": "row"},
        ),
        (TWO_LAUNCHES, "200x136x528", {"TILE_N": 64, "DOWN": 2, "LAYOUT_B": "row"}),
        (TWO_LAUNCHES, "72x176x1040", {"WARPGROUPS": 3, "TILE_N": 64, "TURNED": 1, "OVERLAP": 1}),
        (TWO_LAUNCHES, "200x80x1040", {"TYPE": "e4m3", "WARPGROUPS": 3, "TILE_N": 160}),
        # Rows of C that begin anywhere.
        ("matmul_wgmma_fit", "72x75x136", {"WARPGROUPS": 1, "TILE_N": 64}),
        ("matmul_wgmma_fit", "72x77x136", {"TYPE": "tf32"}),
        ("matmul_wgmma_split", "72x75x208", {"TYPE": "i8", "SPLITS": 5}),
        (TWO_LAUNCHES, "72x75x264", {}),
        ("matmul_wgmma_shared", "72x75x200", {"DOWN": 2, "ACROSS": 1}),
        ("matmul_wgmma_padded", "67x75x517", {"WARPGROUPS": 1, "TILE_N": 64, "SPLITS": 4}),
        (
            "matmul_wgmma_padded",
            "9x75x1029",
            {"WARPGROUPS": 1, "TILE_N": 128, "SPLITS": 8, "OVERLAP": 1},
        ),
        ("matmul_mma_shifted", "67x75x149", {"TILE_M": 32, "OVERLAP": 1}),
        ("matmul_mma_shifted", "67x75x549", {"SPLITS": 8, "OVERLAP": 1}),
        ("matmul_mma_shifted", "5x7x33", {"SPLITS": 8, "TYPE": "i8"}),  # more pieces than chunks
        ("matmul_mma_shifted_two_launches", "67x75x1149", {"OVERLAP": 1}),
        ("matmul_mma_shifted_two_launches", "33x5x4097", {"TYPE": "tf32", "TILE_M": 32}),
        (
            "matmul_mma_shifted_two_launches",
            "150x67x73",
            {"TYPE": "i8", "TILE_M": 128, "STAGES": 4},
        ),
        # Of other types: results of 32 bits, whole numbers, chunks of 128.
        ("matmul_wgmma_fit", "200x360x80", {"TYPE": "tf32", "WARPGROUPS": 3, "TILE_N": 176}),
        ("matmul_wgmma_split", "200x136x528", {"TYPE": "i8", "SPLITS": 5}),
        (TWO_LAUNCHES, "129x136x2064", {"TYPE": "i8"}),
        (TWO_LAUNCHES, "129x209x336", {"WARPGROUPS": 2, "TILE_N": 208}),
        (TWO_LAUNCHES, "72x72x208", {"TYPE": "e5m2", "WARPGROUPS": 2, "TILE_N": 160}),
        ("matmul_cluster", "65x67x53", {"SPLITS": 16, "TILE_N": 64}),
        ("matmul_cluster", "65x68x53", {"SPLITS": 3, "TILE_M": 64, "TILE_N": 64}),
        ("matmul_dmma_cluster", "65x67x53", {"SPLITS": 8}),
        ("matmul_dmma_two_launches", "130x33x517", {"TEAMS": 1, "TILE_M": 128, "TILE_N": 32}),
        (
            "matmul_dmma_two_launches",
            "33x70x2064",
            {"TEAMS": 8, "TILE_M": 32, "TILE_N": 32, "STAGES": 3},
        ),
    ],
)
def test_tiles_of_other_sizes_and_shared_ones(
    name: str, shape: str, macros: dict[str, int]
) -> None:
    support.right(KERNELS / f"{name}.cu", shape, macros)
