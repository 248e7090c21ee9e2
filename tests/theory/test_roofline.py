"""Rooflines against numbers worked out by hand."""

import math

from tilewave.theory import roofline
from tilewave.theory.traffic import MATH


def test_bytes_of_a_tile_that_is_loaded_once() -> None:
    # A warp's 128-byte row: 4 sectors from L1, then one wavefront to store it and one to load it.
    assert roofline.l1_bytes(4, 2) == 128 + 256
    assert roofline.l2_bytes(4) == 128
    # Four sectors of a load that missed L1 are no bulk copy; six more from L2 are: 192 bytes.
    assert roofline.l1_bytes(4, 2, l2=128) == 128 + 256
    assert roofline.l1_bytes(4, 2, l2=320) == 128 + 256 + 192


def test_the_lowest_roof_names_what_it_is_made_of() -> None:
    widths = {"dram": 4.0, "l1": 30.0}
    # 60 TFLOP/s of units; 100 FLOP/byte x 4 TB/s = 400; 1 x 30 = 30.
    assert roofline.lowest_roof(60, widths, {"dram": 100, "l1": 1}) == roofline.Roof(30, "l1")
    assert roofline.lowest_roof(60, widths, {"dram": 100, "l1": 3}) == roofline.Roof(60, MATH)
    assert roofline.lowest_roof(60, widths, {"dram": 10, "l1": 3}) == roofline.Roof(40, "dram")
    assert roofline.lowest_roof(60, widths, {"dram": math.inf}) == roofline.Roof(60, MATH)
    assert roofline.lowest_roof(None, widths, {"l2": 1}) is None
