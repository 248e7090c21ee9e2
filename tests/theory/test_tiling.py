"""Data reuse and parallelism of block tiles against values worked out by hand."""

import math

import pytest

from tilewave.theory import tiling


def test_the_order_of_the_guide() -> None:
    assert [tiling.priority(t) for t in ((256, 128), (128, 256), (128, 128))] == [0, 0, 1]
    assert tiling.priority((64, 64, 32)) == 4
    assert tiling.priority((192, 128)) is None
    assert sum(len(group) for group in tiling.PRIORITY) == 8


def test_intensity_of_f16_tiles() -> None:
    # 2 * 256 * 128 FLOP a step for 384 elements of 2 bytes.
    assert tiling.intensity((256, 128), 2) == pytest.approx(65536 / 768)
    assert [tiling.intensity((64, 64), size) for size in (2, 4)] == [32.0, 16.0]
    # Within a group of equal area the squarer tile fetches less: 128x128 64, 256x64 51.2.
    assert tiling.intensity((256, 64), 2) == 51.2


def test_operands_are_fetched_once_for_each_tile_row_and_column() -> None:
    shape = {"m": 512, "n": 256, "k": 64}
    # 2 tile rows, 2 tile columns: A twice, B twice, 2 bytes each.
    assert tiling.operand_bytes(shape, (256, 128), 2) == 2 * (2 * 512 * 64 + 2 * 256 * 64)
    # One row more: a third tile row fetches B a third time.
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


def test_rank_correlation() -> None:
    assert tiling.rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert tiling.rank_correlation([1, 2, 3], [9, 4, 1]) == pytest.approx(-1.0)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    found = tiling.rank_correlation([1, 5, 5, 7], [0.1, 0.2, 0.3, 0.4])
    assert found == pytest.approx(4.5 / math.sqrt(22.5))
    assert math.isnan(tiling.rank_correlation([1], [1]))
    assert math.isnan(tiling.rank_correlation([1, 1], [1, 2]))
    with pytest.raises(ValueError):
        tiling.rank_correlation([1, 2], [1])
