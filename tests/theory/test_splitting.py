"""Split-K and stream-K against values worked out by hand."""

import pytest

from tilewave.theory import splitting as s

SMS = 132
CHUNKS = 64  # k = 4096 in steps of 64


def test_a_tile_too_many() -> None:
    plain = s.data_parallel(133, CHUNKS)
    assert s.critical_chunks(plain, SMS) == 2 * 64
    # 266 blocks of 32 chunks are three waves; 532 of 16 are five, 1064 of 8 nine.
    critical = {n: s.critical_chunks(s.split_k(133, CHUNKS, n), SMS) for n in (2, 4, 8, 16)}
    assert critical == {2: 96, 4: 80, 8: 72, 16: 17 * 4}
    assert s.speed_up(s.split_k(133, CHUNKS, 2), plain, SMS) == pytest.approx(4 / 3)
    # 133 x 64 = 8512 chunks on 132 SMs: 64.5 each.
    stream = s.stream_k(133, CHUNKS, SMS)
    assert (stream.blocks, stream.longest) == (132, 65)
    assert s.speed_up(stream, plain, SMS) == pytest.approx(128 / 65)


def test_a_full_wave_gains_nothing() -> None:
    plain = s.data_parallel(132, CHUNKS)
    stream = s.stream_k(132, CHUNKS, SMS)
    assert (stream.longest, stream.parts, stream.shared, stream.read) == (64, 0, 0, 0)
    assert s.speed_up(stream, plain, SMS) == 1.0
    split = s.split_k(132, CHUNKS, 2)
    assert s.speed_up(split, plain, SMS) == 1.0
    # The parts must be written and read all the same: 100 us become 125.
    assert s.speed_up(split, plain, SMS, duration=100.0, reduction=25.0) == pytest.approx(0.8)


def test_blocks_of_an_sm_that_do_not_disturb_each_other() -> None:
    # 264 slots: 133 tiles are one wave, 265 are two.
    assert s.critical_chunks(s.data_parallel(133, CHUNKS), SMS, 2) == 64
    assert s.critical_chunks(s.data_parallel(265, CHUNKS), SMS, 2) == 128
    assert s.critical_chunks(s.stream_k(265, CHUNKS, 264), SMS, 2) == 65
    assert s.critical_chunks(s.stream_k(265, CHUNKS, 264), SMS) == 130


def test_few_tiles_and_a_long_k() -> None:
    # 4 tiles of 256 chunks; 16 parts each are 64 blocks of 16 chunks, still one wave.
    split = s.split_k(4, 256, 16)
    assert (split.blocks, split.longest, split.parts, split.read) == (64, 16, 64, 60)
    assert s.speed_up(split, s.data_parallel(4, 256), SMS) == 16.0
    assert s.split_k(4, 3, 16) == s.Dealing(12, 1, 12, 4), "no more parts than chunks"
    assert s.split_k(4, 1, 16) == s.data_parallel(4, 1)


def test_parts_of_stream_k() -> None:
    # 3 tiles of 4 chunks on 2 blocks: 0-5 and 6-11; tile 1 (4-7) is cut at 6.
    assert s.stream_k(3, 4, 2) == s.Dealing(2, 6, 2, 1, 1)
    # On 5 blocks, which begin at 0, 3, 6, 8, 10: cuts at 3 (tile 0), 6 (1) and 10 (2).
    assert s.stream_k(3, 4, 5) == s.Dealing(5, 3, 6, 3, 3)
    # On 8, at 0, 2, 4, 6, 8, 9, 10, 11: tiles 0 and 1 are cut once, tile 2 three times.
    assert s.stream_k(3, 4, 8) == s.Dealing(8, 2, 8, 3, 3)
    assert (s.stream_k(3, 4, 8).written, s.stream_k(3, 4, 8).read) == (5, 5)
    assert s.stream_k(1, 4, 100) == s.Dealing(100, 1, 4, 1, 1), "96 blocks have no chunk"
    assert s.stream_k(1, 4, 100, least=2) == s.Dealing(100, 2, 2, 1, 1)


def test_full_waves_that_are_dealt_tile_by_tile() -> None:
    # 5 tiles of 4 chunks on 2 blocks: two waves and a half, 10 chunks each however dealt out.
    for joined in (None, 0, 1, 64):
        assert s.stream_k(5, 4, 2, joined).longest == 10
    # With no wave joined, the last tile alone is halved; with one, 6 chunks each of tiles 0 to 2.
    assert s.stream_k(5, 4, 2, 0) == s.Dealing(2, 10, 2, 1, 1)
    assert s.stream_k(5, 4, 2, 1) == s.Dealing(2, 10, 2, 1, 1)
    assert s.stream_k(4, 4, 2, 1) == s.Dealing(2, 8), "full waves are left alone"


def test_bytes_and_time_of_the_workspace() -> None:
    tile = (128, 128, 64)  # 65,536 bytes of sums
    split = s.split_k(133, CHUNKS, 2)
    assert (split.written, split.read) == (266, 133)
    assert s.traffic_bytes(split, tile) == (266 + 133) * 65536
    # All SMs write and read: 26.15 MB at 4 TB/s.
    assert s.reduction_time(split, tile, SMS, 4.0) == pytest.approx(399 * 65536 / 4e6)
    # One tile in two parts: written by 2 SMs and read by 1, each at 1/132 of 4 TB/s.
    split_time = s.reduction_time(s.split_k(1, CHUNKS, 2), tile, SMS, 4.0)
    assert split_time == pytest.approx(65536 / 4e6 * (2 * 66 + 132))
    assert s.reduction_time(s.data_parallel(1, 1), tile, SMS, 4.0) == 0.0


def test_counts_must_be_positive() -> None:
    timed = s.split_k(1, 2, 2), (1, 1), 1, 0.0
    wrong = (s.data_parallel, (0, 1)), (s.split_k, (1, 1, 0)), (s.stream_k, (1, 0, 1))
    for call, given in (*wrong, (s.reduction_time, timed)):
        with pytest.raises(ValueError):
            call(*given)
