"""The smallest set of kernel files, on a table whose answer can be seen."""

from __future__ import annotations

import pandas as pd
import pytest

import smallest_set

SHARES = pd.DataFrame(
    {
        "first": [110.0, 96.0, 50.0, 96.0],
        "second": [90.0, 97.0, 99.0, None],
        "third": [None, 101.0, 97.0, 96.0],
        "fourth": [94.0, 102.0, 101.0, 94.0],
    },
    index=["a", "b", "c", "d"],
)


@pytest.mark.parametrize(
    ("least", "at_least", "files"),
    [
        (95, 2, ["first", "fourth"]),
        (95, 3, ["first", "fourth"]),
        (90, 3, ["first", "fourth"]),
        (97, 0, None),
    ],
)
def test_the_fewest_files_and_of_these_the_fastest(
    least: float, at_least: int, files: list[str] | None
) -> None:
    if files is None:
        with pytest.raises(SystemExit, match="No file has 97 % at d"):
            smallest_set.smallest(SHARES, least, at_least)
    else:
        assert smallest_set.smallest(SHARES, least, at_least) == files


def test_more_than_all_files_have_is_said() -> None:
    with pytest.raises(SystemExit, match="3 entries have 100 %; 4 were asked for"):
        smallest_set.smallest(SHARES, 95, 4)
