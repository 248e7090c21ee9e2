"""Tile and wave quantization, data reuse and parallelism of tiles against values worked out by hand."""

import math

import pytest

from tilewave.theory import quantization as q
from tilewave.theory import tiling

TILE = (256, 128, 32)


def test_eight_columns_too_many_leave_a_column_of_6_percent() -> None:
    shape = {"m": 27648, "n": 136, "k": 4096}
    assert q.last_column_useful(shape, TILE) == 0.0625
    assert q.last_column_useful({**shape, "n": 128}, TILE) == 1.0
    assert q.tile_efficiency(shape, TILE) == 136 / 256
    assert q.operations_ratio(shape, TILE) == pytest.approx(256 / 136)
    # k is padded to the tile's k step, if any.
    shape = {"m": 256, "n": 128, "k": 40}
    assert q.operations_ratio(shape, TILE) == pytest.approx(64 / 40)
    assert q.operations_ratio(shape, TILE[:2]) == 1.0


def test_tail_of_nine_on_108_sms() -> None:
    split = q.waves(q.tile_count({"m": 2304, "n": 1664}, TILE), 108)
    assert (split.blocks, split.full, split.tail, split.count) == (117, 1, 9, 2)
    assert split.efficiency == pytest.approx(117 / 216)
    assert split.fraction == pytest.approx(117 / 108)
    assert q.cycles_active_ratio(117, 108) == pytest.approx(117 / 216)


def test_edges_on_132_sms() -> None:
    shape = {"m": 2304, "n": 1, "k": 4096}
    for n, tiles, on_132, on_108 in ((1536, 108, 1, 1), (1664, 117, 1, 2), (1920, 135, 2, 2)):
        count = q.tile_count({**shape, "n": n}, TILE)
        assert count == tiles
        assert (q.waves(count, 132).count, q.waves(count, 108).count) == (on_132, on_108)
    # Several blocks an SM: 264 slots; 133 blocks are one wave, but one SM has two of them.
    for blocks, waves, rounds in ((133, 1, 2), (264, 1, 2), (265, 2, 3), (300, 2, 3)):
        assert q.waves(blocks, 132, 2).count == waves
        assert q.rounds_on_sms(blocks, 132) == rounds
    assert q.cycles_active_ratio(300, 132) == pytest.approx(300 / 396)


def test_sizes_must_be_positive() -> None:
    for bad in (lambda: q.waves(0, 132), lambda: q.tiles({"m": 0, "n": 1}, TILE)):
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(ValueError):
        q.cycles_active_ratio(0, 4)


def test_a_fitted_number_and_its_errors() -> None:
    durations, counts = [100.0, 104.0, 190.0, math.nan], [1, 1, 2, 2]
    assert q.fitted_time(durations, counts) == 100.0
    errors = [d / (c * 100.0) - 1 for d, c in zip(durations, counts, strict=True)]
    error = q.prediction_error(errors)
    assert (error.median, error.worst) == pytest.approx((0.04, -0.05))
    assert (error.place, error.count) == (2, 3)
    assert math.isnan(q.fitted_time([], []))
    nothing = q.prediction_error([math.nan])
    assert math.isnan(nothing.median) and (nothing.place, nothing.count) == (-1, 0)


def test_the_order_of_the_guide() -> None:
    assert [tiling.priority(t) for t in ((256, 128), (128, 256), (128, 128))] == [0, 0, 1]
    assert tiling.priority((64, 64, 32)) == 4
    assert tiling.priority((192, 128)) is None
    assert sum(len(group) for group in tiling.PRIORITY) == 8


def test_intensity_of_f16_tiles() -> None:
    # 2 * 256 * 128 FLOP a step for 384 elements of 2 bytes.
    assert tiling.intensity((256, 128), 2) == pytest.approx(65536 / 768)
    assert [tiling.intensity((64, 64), size) for size in (2, 4)] == [32.0, 16.0]
    # Of tiles with equal area the squarer one loads less: 128x128 64, 256x64 51.2.
    assert tiling.intensity((256, 64), 2) == 51.2


def test_operands_are_loaded_once_for_each_tile_row_and_column() -> None:
    shape = {"m": 512, "n": 256, "k": 64}
    # 2 tile rows, 2 tile columns: A twice, B twice, 2 bytes each.
    assert tiling.operand_bytes(shape, (256, 128), 2) == 2 * (2 * 512 * 64 + 2 * 256 * 64)
    # Another row: a third tile row loads B a third time.
    assert tiling.operand_bytes({**shape, "m": 513}, (256, 128), 2) == 2 * 64 * (513 * 2 + 256 * 3)


def test_efficiency_of_tiles_and_waves_together() -> None:
    shape = {"m": 2304, "n": 1664, "k": 4096}  # 9 x 13 tiles, on 108 SMs two waves
    assert tiling.parallel_efficiency(shape, (256, 128), 108) == pytest.approx(117 / 216)
    # 136 columns: 256 are computed, and 2 x 108 tiles fill two waves of 108.
    shape = {"m": 27648, "n": 136, "k": 4096}
    assert tiling.parallel_efficiency(shape, (256, 128), 108, 2) == pytest.approx(136 / 256)
    shape = {"m": 256, "n": 256, "k": 4096}
    assert tiling.parallel_efficiency(shape, (256, 128), 132) == pytest.approx(2 / 132)
    assert tiling.parallel_efficiency(shape, (64, 64), 132, 4) == pytest.approx(16 / 528)
