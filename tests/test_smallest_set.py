"""The smallest set of kernel files, on a table with an obvious answer."""

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


@pytest.mark.parametrize(("least", "at_least"), [(95, 2), (95, 3), (90, 3)])
def test_the_fewest_files_and_of_these_the_fastest(least: float, at_least: int) -> None:
    assert smallest_set.smallest(SHARES, least, at_least) == ["first", "fourth"]


def test_more_than_all_files_have_is_said() -> None:
    with pytest.raises(SystemExit, match="3 entries have 100 %; 4 were asked for"):
        smallest_set.smallest(SHARES, 95, 4)
    with pytest.raises(SystemExit, match="No file has 97 % at d"):
        smallest_set.smallest(SHARES, 97, 0)
