"""The model that picks a variant before it is measured, against numbers worked out by hand."""

import pytest

from tilewave.theory import selection
from tilewave.theory.occupancy import HOPPER
from tilewave.theory.selection import Launch

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


def test_waves_whole_and_shared():
    # 135 blocks, two on each of 132 SMs: one wave, in which one block sits on most SMs and two on
    # three of them: the fullest has both.
    three_more = Launch((256, 128, 32), 135, 2)
    assert selection.wave_count(three_more, 132) == 1
    assert selection.wave_count(three_more, 132, shared=True) == 1.0
    # 132 blocks: one each, half of what an SM holds. 300: a full wave of 264 and 36 more.
    assert selection.wave_count(Launch((256, 128, 32), 132, 2), 132, shared=True) == 0.5
    assert selection.wave_count(Launch((256, 128, 32), 300, 2), 132) == 2
    assert selection.wave_count(Launch((256, 128, 32), 300, 2), 132, shared=True) == 1.5
    # With one block an SM there is nothing to share.
    for blocks in (1, 131, 132, 133, 400):
        launch = Launch((256, 128, 32), blocks, 1)
        assert selection.wave_count(launch, 132) == selection.wave_count(launch, 132, shared=True)


def test_a_shared_wave_is_calibrated_alike():
    # SMALL at 4096^3: 4096 blocks, two an SM: 15 waves of 264 and 136, so two on some SM: 16.
    step = selection.step_time(4096.0, SQUARE, SMALL, 132, shared=True)
    assert step == 4096.0 / (16 * 128)
    shape, launch = {"m": 256, "n": 256, "k": 256}, Launch((64, 64, 32), 16, 2)
    # One wave of 8 steps, half of it: 16 blocks on 132 SMs.
    assert selection.predicted_duration(shape, launch, 132, step, shared=True) == 8.0
    assert selection.predicted_duration(shape, launch, 132, step) == 16.0


def test_pick_and_regret():
    assert selection.pick({"a": 2.0, "b": 1.0, "c": 1.0}) == "b"
    assert selection.pick({}) is None
    measured = {"a": 10.0, "b": 11.0, "c": 8.0}
    assert selection.regret(measured, "c") == 0.0
    assert selection.regret(measured, "a") == 0.25
    with pytest.raises(KeyError):
        selection.regret(measured, "d")


def test_blocks_per_sm_come_from_the_calculator():
    # 256 threads of 128 registers: 8 warps of 4096 registers, 65536 / 32768 = 2 blocks.
    launch = Launch.of((128, 128, 32), 1024, HOPPER, 256, 128, 40960)
    assert launch == Launch((128, 128, 32), 1024, 2)
    assert Launch.of((128, 128, 32), 1024, HOPPER, 256, 128, 300_000) is None


def test_largest_shape():
    shapes = [{"m": 1, "n": 1, "k": 9}, SQUARE, {"m": 8192, "n": 128, "k": 8192}]
    assert selection.largest(shapes) == SQUARE
