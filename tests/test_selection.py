"""The model that picks a variant before it is measured, against numbers worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tilewave.theory import calibration, selection
from tilewave.theory.calibration import Case
from tilewave.theory.occupancy import HOPPER
from tilewave.theory.selection import Costs, Launch

SQUARE = {"m": 4096, "n": 4096, "k": 4096}
BIG = Launch((128, 128, 32), 1024, 1)  # 32 x 32 tiles
SMALL = Launch((64, 64, 32), 4096, 2)  # 64 x 64 tiles


def test_steps_along_k():
    assert selection.steps(4096, 32) == 128
    assert selection.steps(4097, 32) == 129
    with pytest.raises(ValueError, match="k = 0"):
        selection.steps(0, 32)


def test_steps_of_a_block():
    assert selection.block_steps(SQUARE, BIG) == 128
    # Four parts along k: 4096 blocks for 1024 tiles of 128 steps.
    assert selection.block_steps(SQUARE, Launch((128, 128, 32), 4096, 1)) == 32
    # 132 blocks stay and share 1024 x 128 steps: 992.97 each, so some have 993.
    assert selection.block_steps(SQUARE, Launch((128, 128, 32), 132, 1)) == 993
    with pytest.raises(ValueError, match="blocks"):
        selection.block_steps(SQUARE, Launch((128, 128, 32), 0, 1))


def test_loads_of_whole_waves():
    # 1024 blocks on 128 places: 8 waves x 128 x 128 steps x 256 x 32 elements.
    assert selection.loads(SQUARE, BIG, 128) == 8 * 128 * 128 * 256 * 32 == 1_073_741_824
    # On 132 SMs the eighth wave is not full, and its idle places count: 8 x 132.
    assert selection.loads(SQUARE, BIG, 132) == 8 * 132 * 128 * 256 * 32
    # 4096 blocks on 264 places: 16 waves; half the tile's side loads about twice as much.
    assert selection.loads(SQUARE, SMALL, 132) == 16 * 264 * 128 * 128 * 32


def test_small_shapes_turn_the_order_round():
    """256^3: four 128x128 tiles keep four SMs busy, sixteen 64x64 tiles load less in their wave."""
    shape = {"m": 256, "n": 256, "k": 256}
    big = selection.loads(shape, Launch((128, 128, 32), 4, 1), 132)
    small = selection.loads(shape, Launch((64, 64, 32), 16, 1), 132)
    assert big == 132 * 8 * 256 * 32
    assert small == 132 * 8 * 128 * 32


def test_a_step_is_calibrated_and_used():
    # 8 waves x 128 steps took 2048 us: 2 us a step.
    step = selection.step_time(2048.0, SQUARE, BIG, 132)
    assert step == 2.0
    # 2304 x 1920 x 4096: 18 x 15 = 270 tiles, 3 waves of 132; 128 steps: 768 us.
    shape, launch = {"m": 2304, "n": 1920, "k": 4096}, Launch((128, 128, 32), 270, 1)
    assert selection.predicted_duration(shape, launch, 132, step) == 768.0
    # At its own shape the calibration comes back.
    assert selection.predicted_duration(SQUARE, BIG, 132, step) == 2048.0
    with pytest.raises(ValueError, match="positive"):
        selection.step_time(0.0, SQUARE, BIG, 132)


def test_fewer_blocks_than_keep_an_sm_busy_take_as_long_as_that_many():
    # Five blocks where four fit: four, then one, which waits as if there were two.
    assert selection.full_loads(5, 4, 2.0) == 4 + 2
    assert selection.full_loads(3, 4, 2.0) == 3
    assert selection.full_loads(8, 4, 1.0) == 8
    assert selection.full_loads(1, 1, 1.0) == 1


def test_tiles_and_their_parts():
    assert selection.parts_of_tiles(264, 132) == (2, 1)  # two whole tiles a block
    assert selection.parts_of_tiles(16, 64) == (1, 4)  # split-K by four
    # Stream-K: 132 equal pieces of a row of 198 tiles cut 131 of them once more.
    pieces, parts = selection.parts_of_tiles(198, 132)
    assert (pieces, parts) == (2.5, pytest.approx(330 / 198))
    with pytest.raises(ValueError, match="0 blocks"):
        selection.parts_of_tiles(1, 0)


def test_work_of_a_launch():
    # 270 tiles, two on an SM at a time: three on the busiest, of which the last is alone. 128 steps.
    shape, launch = {"m": 2304, "n": 1920, "k": 4096}, Launch((128, 128, 32), 270, 2)
    assert selection.work(shape, launch, 132, 1.5) == (
        1, 3.5, 3.5 * 128, pytest.approx(270 / 132), pytest.approx(270 * 128 / 132), 0, 0
    )  # fmt: skip
    # 512x512x8192, 16 tiles of 128 x 128 in eight parts each: a block an SM, 32 steps of 256.
    shape, split = {"m": 512, "n": 512, "k": 8192}, Launch((128, 128, 32), 128, 1)
    assert selection.work(shape, split, 132, 1.0) == (
        1, 1, 32, pytest.approx(16 / 132), pytest.approx(16 * 256 / 132),
        pytest.approx(8 * 128 * 128 * 1e-6), 0,
    )  # fmt: skip
    # Rows of 1922 halves begin inside of 16 bytes, those of as many doubles do not.
    shape, launch = {"m": 2304, "n": 1922, "k": 4096}, replace(launch, blocks=288)
    ragged = [selection.work(shape, launch, 132, 1.5, 0.0, (size, size))[-1] for size in (2, 8)]
    assert ragged == [3.5, 0]


def test_what_a_launch_spends_its_time_on():
    costs = Costs((2.0, 1.0, 0.5, 4.0, 0.25, 10.0, 0.0))
    shape, split = {"m": 512, "n": 512, "k": 8192}, Launch((128, 128, 32), 128, 1)
    spent = costs.spent(shape, split, 132)
    assert list(spent) == list(selection.COSTS)
    assert spent[selection.STEPS] == 16 and spent[selection.PARTS] == pytest.approx(1.31072)
    assert costs.duration(shape, split, 132) == pytest.approx(
        2 + 1 + 16 + 4 * 16 / 132 + 0.25 * 31.030 + 1.31072, abs=1e-3
    )


def test_costs_come_back_from_cases_that_they_made():
    """Cases of a kernel with stream-K, made from its costs; with noise none is wrong by a tenth."""
    known = Costs((2.0, 1.5, 0.5, 1.0, 0.2, 12.0, 0.7), elements=(2, 2))
    cases = []
    for m, n, k in calibration.SHAPES:
        shape = {"m": m, "n": n, "k": k}
        tiles = -(-m // 128) * -(-n // 128)
        launch = Launch((128, 128, 32), min(132, tiles * 4), 1)
        cases.append(Case((m, n, k), launch, known.duration(shape, launch, 132)))
    found = calibration.costs({"": cases}, 132, (2, 2)).get("")
    assert found is not None
    assert found.each == pytest.approx(known.each, rel=1e-6) and found.saturating == 1
    assert not calibration.costs({"": cases[:2]}, 132, (2, 2))
    # Noise of 3 % leaves no negative cost, and no prediction far off.
    noisy = [replace(one, us=one.us * (1 + 0.03 * (-1) ** i)) for i, one in enumerate(cases)]
    again = calibration.costs({"": noisy}, 132, (2, 2)).get("")
    assert again is not None and min(again.each) >= 0
    shape, launch = {"m": 2048, "n": 2048, "k": 2048}, Launch((128, 128, 32), 132, 1)
    assert again.duration(shape, launch, 132) == pytest.approx(
        known.duration(shape, launch, 132), rel=0.1
    )


def test_what_full_gpus_cannot_tell_apart_is_shared():
    """Of cases that all fill the SMs, half of a step's time at least stays where the others are idle."""
    full = Costs((0.0, 0.0, 0.0, 0.0, 0.4, 0.0, 0.0))
    cases = [
        Case((m, m, k), launch, full.duration({"m": m, "n": m, "k": k}, launch, 132))
        for m, k in ((8320, 1024), (8320, 4096), (16768, 2048), (16768, 8192))
        for launch in [Launch((128, 128, 32), (m // 128) ** 2, 1)]
    ]
    found = calibration.costs({"": cases}, 132).get("")
    assert found is not None
    alone = found.duration({"m": 128, "n": 128, "k": 32768}, Launch((128, 128, 32), 1, 1), 132)
    assert 0.19 * 1024 < alone < 0.4 * 1024


def test_blocks_that_keep_an_sm_busy_are_found():
    known = Costs((2.0, 0.0, 0.5, 0.0, 0.1, 0.0, 0.0), 2.0)
    cases = [
        Case(sizes, launch, known.duration(dict(zip("mnk", sizes)), launch, 132))
        for sizes in calibration.SHAPES
        for launch in [Launch((64, 64, 32), -(-sizes[0] // 64) * -(-sizes[1] // 64), 4)]
    ]
    found = calibration.costs({"": cases}, 132).get("")
    assert found is not None and found.saturating == 2
    assert found.each == pytest.approx(known.each, abs=1e-6)


def test_least_squares_without_negative_numbers():
    rows = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    x, error = calibration.least_squares(rows, np.array([3.0, 5.0, 7.0]))
    assert x == pytest.approx([1, 2]) and error == pytest.approx(0)
    # A line that falls below zero at its beginning: only the slope is left, 14 x / 14 x^2.
    x, _ = calibration.least_squares(rows, np.array([0.0, 2.0, 4.0]))
    assert x == pytest.approx([0, 16 / 14])
    x, error = calibration.least_squares(rows, np.array([-1.0, -1.0, -1.0]))
    assert list(x) == [0, 0] and error == 3


def test_pick_and_regret():
    assert selection.pick({"a": 2.0, "b": 1.0, "c": 1.0}) == "b"
    assert selection.pick({}) is None
    measured = {"a": 10.0, "b": 11.0, "c": 8.0}
    assert selection.regret(measured, "c") == 0.0
    assert selection.regret(measured, "a") == 0.25
    with pytest.raises(KeyError):
        selection.regret(measured, "d")


def test_a_launch_as_the_model_sees_it():
    # 256 threads of 128 registers: 8 warps of 4096 registers, 65536 / 32768 = 2 blocks.
    def of(grid: int, working: int, scratch: int, shared: int = 40960) -> Launch | None:
        return Launch.of(SQUARE, (128, 128, 32), grid, working, scratch, HOPPER, 256, 128, shared)

    assert of(1024, 1024, 0) == Launch((128, 128, 32), 1024, 2)
    assert of(1, 1, 0, shared=300_000) is None
    sums = 4 * 128 * 128
    for grid, working, scratch, blocks in (
        (132, 132, 0, 1024),  # goes from tile to tile: it has no place for parts
        (132, 1024, 0, 1024),
        (132, 132, 4096, 1024),  # nor in a few counters
        (132, 132, sums, 132),  # stream-K
        (132, 1024, sums, 132),
        (4096, 4096, 4 * sums, 4096),  # split-K
        (4096, 4096, 0, 4096),  # the same by atomic adds
        (1040, 1024, 0, 1024),  # 16 blocks without work
        (1040, 1040, 0, 1040),  # tiles of two sizes
    ):
        found = of(grid, working, scratch)
        assert found is not None and found.blocks == blocks
        assert found.tiles(SQUARE) == (1040 if blocks == 1040 else 1024)


def test_a_step_of_a_narrower_tile_takes_less_where_the_tile_follows_the_shape():
    wide, narrow = (Launch((128, columns, 64), 132, 1) for columns in (256, 64))
    each = Costs((0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0), unit=selection.step_size(wide.tile))
    took = [
        each.duration({"m": 128, "n": 132 * one.tile[1], "k": 640}, one, 132)
        for one in (wide, narrow)
    ]
    assert took == [10, pytest.approx(10 * 70 * 192 / (128 * 256))]


def test_few_cases_are_helped_out_by_the_kernels_other_variants():
    """Launch and ends of tiles cannot be told apart by cases of one block an SM: one takes them as its kernel does."""
    known = Costs((2.0, 1.5, 0.5, 1.0, 0.2, 0.0, 0.0))

    def took(sizes: tuple[int, int, int]) -> Case:
        blocks = -(-sizes[0] // 128) * -(-sizes[1] // 128)
        launch = Launch((128, 128, 32), blocks, 1)
        return Case(sizes, launch, known.duration(dict(zip("mnk", sizes)), launch, 132))

    many = [took(sizes) for sizes in calibration.USUAL]
    few = [took((1024, 1024, k)) for k in (512, 2048, 8192)]
    alone = calibration.costs({"few": few}, 132)["few"]
    beside = calibration.costs({"few": few, "many": many}, 132)["few"]
    assert beside.each == pytest.approx(known.each, abs=0.01)
    shape, launch = {"m": 4096, "n": 4096, "k": 64}, Launch((128, 128, 32), 1024, 1)
    wanted = known.duration(shape, launch, 132)
    assert beside.duration(shape, launch, 132) == pytest.approx(wanted, rel=0.01)
    assert abs(alone.duration(shape, launch, 132) / wanted - 1) > 0.1


@pytest.mark.parametrize(
    ("n", "k", "elements", "kinds"),
    [
        (1000, 1024, (2, 2), ()),
        (1004, 1024, (2, 2), (selection.RAGGED,)),
        (1000, 1040, (1, 4), (selection.LINES,)),  # bytes, whose sums have 32 bits
        (1000, 1000, (1, 4), (selection.PIECES,)),
        (1001, 1000, (8, 8), (selection.LINES, selection.RAGGED)),
        (32, 1000, (8, 8), (selection.LINES, selection.NARROW)),
        (1001, 1001, (0, 0), ()),
    ],
)
def test_kinds(n, k, elements, kinds):
    assert selection.kinds({"m": 64, "n": n, "k": k}, elements) == kinds


def test_what_a_kind_of_shape_takes_more_is_no_part_of_the_fit():
    """It is told at shapes of the kind, the nearer the more, and a little at others."""
    known = Costs((2.0, 1.0, 0.5, 1.0, 0.2, 0.0, 0.0))
    cases = []
    for m, n, k in calibration.SHAPES:
        shape, blocks = {"m": m, "n": n, "k": k}, -(-m // 128) * -(-n // 128)
        launch = Launch((128, 128, 32), blocks, 1)
        more = 1.5 if (m, n, k) in calibration.SPECIAL else 1.0
        cases.append(Case((m, n, k), launch, more * known.duration(shape, launch, 132)))
    found = calibration.costs({"": cases}, 132, (2, 2)).get("")
    assert found is not None and found.each == pytest.approx(known.each, abs=1e-6)
    launch = Launch((128, 128, 32), 64, 1)
    near, far, other = (
        {"m": m, "n": n, "k": k}
        for m, n, k in ((4104, 4104, 1000), (200, 200, 40), (4096, 4096, 1024))
    )
    assert 1.5 > found.times_more(near) > found.times_more(far) > 1.1
    assert 1.0 < found.times_more(other) < 1.1
    for shape in (near, far, other):
        expected = found.times_more(shape) * known.duration(shape, launch, 132)
        assert found.duration(shape, launch, 132) == pytest.approx(expected)
        assert sum(found.spent(shape, launch, 132).values()) == found.duration(shape, launch, 132)
    plain = [one for one in cases if one.sizes not in calibration.SPECIAL]
    usual = calibration.costs({"": plain}, 132, (2, 2)).get("")
    assert usual is not None and usual.times_more(near) == pytest.approx(1)


def test_clusters_reach_fewer_sms():
    """Sixteen clusters of eight are a second round where there is room for fifteen."""
    shape, each = {"m": 1024, "n": 2048, "k": 64}, Costs((0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0))
    took = [
        each.duration(shape, Launch((128, 128, 64), 128, 1, cluster=blocks), 132)
        for blocks in (1, 2, 4, 8)
    ]
    assert took == [1, 1, 2, 2]
    reached = [
        Launch((128, 128, 64), 1, 1, cluster=blocks).reached(132) // blocks
        for blocks in range(1, 17)
    ]
    assert reached == [132, 66, 39, 30, 22, 17, 15, 15, 9, *[7] * 7]
    assert (
        Launch((128, 128, 64), 1, 2, cluster=4).reached(132) == 124
    )  # groups have two places an SM
    fifteen = Launch((128, 128, 64), 120, 1, cluster=8)
    assert each.duration({"m": 1024, "n": 1920, "k": 64}, fifteen, 132) == fifteen.waves(132) == 1
    assert replace(fifteen, beside=8).waves(132) == 16 / 15
    assert Launch((128, 128, 64), 1, 1, cluster=8).reached(1) == 1


def test_the_busiest_sm_has_more_than_its_share():
    """Where three blocks fit some SM has three once there are more than three for two SMs; clusters of small blocks lie by two."""
    three = [Launch((96, 64, 16), blocks, 3).busiest(132) for blocks in (132, 176, 210, 330, 528)]
    assert three == [1, 2, 3, 3, 4]
    four = [Launch((96, 64, 16), blocks, 4).busiest(132) for blocks in (132, 176, 210, 330, 528)]
    assert four == [1, 2, 2, 3, 4]
    assert Launch((64, 64, 8), 4, 1, cluster=2).busiest(1) == 2  # a GPU that holds no pair

    def busiest(blocks: int, cluster: int, threads: int, shared: int) -> int:
        grid, shape = cluster * blocks, {"m": 64, "n": 64 * blocks, "k": 512}
        found = Launch.of(
            shape, (64, 64, 8), grid, grid, 0, HOPPER, threads, 128, shared, cluster=cluster
        )
        assert found is not None and found.blocks == grid
        return found.busiest(132)

    small = 36 * 1024  # six blocks an SM
    assert [busiest(clusters, 2, 64, small) for clusters in (64, 132, 133, 264)] == [2, 2, 4, 4]
    assert [busiest(clusters, 2, 128, small) for clusters in (64, 132, 133, 264)] == [1, 2, 3, 4]
    # 39 clusters of three pairs lie beside each other, 79 below each other by two.
    assert [busiest(clusters, 6, 64, small) for clusters in (39, 40, 79, 80)] == [2, 4, 4, 6]


def test_blocks_beside_and_parts_that_another_launch_adds():
    """A block without a tile keeps its place in a cluster; parts that a launch of its own adds are an equal share for each SM."""
    shape = {"m": 1024, "n": 4096, "k": 512}

    def made(grid: int, working: int, scratch: int = 0, **more: int) -> Launch:
        found = Launch.of(
            shape, (128, 128, 32), grid, working, scratch, HOPPER, 256, 128, 0, **more
        )
        assert found is not None
        return found

    assert made(264, 256, cluster=2).beside == 8 and made(264, 256).beside == 0
    assert made(512, 512, cluster=2).beside == 0  # halves of tiles
    # two parts of each tile, and of those beside C's edge
    parts = made(528, 512, 2 * 256 * 4 * 128 * 128, cluster=2, added_by_all=True)
    assert (parts.blocks, parts.beside) == (512, 16)
    one = Launch((128, 128, 32), 132, 1, beside=132)
    assert selection.work(shape, one, 132, 1.0)[1] > 1.0
    split = made(1024, 1024, 4 * 1024 * 128 * 128)
    all_add = made(1024, 1024, 4 * 1024 * 128 * 128, added_by_all=True)
    assert selection.work(shape, split, 132, 1.0)[-2] == pytest.approx(1e-6 * 4 * 2 * 128 * 128)
    assert selection.work(shape, all_add, 132, 1.0)[-2] == pytest.approx(
        1e-6 * 1024 / 132 * 128 * 128
    )
    copied = made(256, 256, copied=4_000_000 * 132)
    assert selection.work(shape, copied, 132, 1.0)[-2] == pytest.approx(1.0)
