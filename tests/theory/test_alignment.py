"""Alignment against values worked out by hand."""

import pytest

from tilewave.theory import alignment as al
from tilewave.theory.dtypes import SIZES as BYTES

SIZES = {4096: 4096, 4095: 1, 4094: 2, 4092: 4, 4088: 8, 4080: 16, 4064: 32, 4032: 64, 3968: 128}


def test_alignment_is_the_power_of_two_that_divides() -> None:
    assert {size: al.alignment(size) for size in SIZES} == SIZES
    assert al.alignment(1) == 1 and al.alignment(96) == 32
    for size in (0, -8):
        with pytest.raises(ValueError, match="positive"):
            al.alignment(size)


@pytest.mark.parametrize(
    ("a", "b", "along"),
    [
        ("row", "row", {"a": "k", "b": "n", "c": "n"}),
        ("row", "col", {"a": "k", "b": "k", "c": "n"}),
        ("col", "row", {"a": "m", "b": "n", "c": "n"}),
        ("col", "col", {"a": "m", "b": "k", "c": "n"}),
    ],
)
def test_the_fastest_varying_dimension(a: str, b: str, along: dict[str, str]) -> None:
    assert al.contiguous({"a": a, "b": b, "c": "row"}) == along
    assert al.contiguous({"a": a, "b": b}) == along


def test_every_layout_leaves_a_dimension_that_only_counts_rows() -> None:
    assert al.operands_along("m", {}) == ()
    assert al.operands_along("n", {}) == ("b", "c")
    assert al.operands_along("k", {"b": "col"}) == ("a", "b")
    assert al.operands_along("k", {"a": "col"}) == ()
    assert al.operands_along("m", {"c": "col"}) == ("c",)
    with pytest.raises(ValueError, match=r"layout of b: found 'rows', allowed: row, col"):
        al.contiguous({"b": "rows"})


def test_recommended_multiples_are_16_and_128_bytes() -> None:
    assert [recommended for recommended, _ in al.RECOMMENDED.values()] == [8, 16, 4, 2]
    for dtype, multiples in al.RECOMMENDED.items():
        assert [multiple * BYTES[dtype] for multiple in multiples] == [16, 128]
