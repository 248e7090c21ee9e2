"""What a variant takes more at a shape, from what it took at others: worked out by hand."""

from __future__ import annotations

import math

import pytest

from tilewave.theory.nearby import KIND, NEAR, NOISE, OCTAVES, UNLIKE, Nearby, Seen

HERE, FAR = (1024, 1024, 1024), (1 << 40, 1024, 1024)
NONE, RAGGED = frozenset[str](), frozenset({"ragged"})
OF_ONE = KIND + NEAR + NOISE


def seen(sizes: tuple[int, int, int], kinds: frozenset[str] = NONE, given: bool = False) -> Seen:
    return Seen(sizes, kinds, math.log(2), given)


@pytest.mark.parametrize(
    ("told", "weight"),
    [
        ([], 0),
        ([seen(HERE)], 0),  # it predicts
        ([seen(HERE, given=True)], (KIND + NEAR) / OF_ONE),
        ([seen(FAR)], KIND / OF_ONE),
        ([seen((1024, 4096, 1024))], (KIND + NEAR * math.exp(-4 / (2 * OCTAVES**2))) / OF_ONE),
        ([seen(FAR, RAGGED)], KIND * math.exp(-UNLIKE) / OF_ONE),
    ],
)
def test_of_one_case(told: list[Seen], weight: float) -> None:
    assert Nearby(tuple(told)).times_more(HERE, NONE) == pytest.approx(2**weight)


def test_many_cases_of_a_kind_outweigh_their_noise() -> None:
    told = [seen((1 << 20 * place, 1, 1), RAGGED) for place in range(1, 40)]
    share = 39 * KIND / (NEAR + NOISE + 39 * KIND)
    assert Nearby(tuple(told)).times_more(HERE, RAGGED) == pytest.approx(2**share)
    assert Nearby(tuple(told)).times_more(HERE, NONE) == pytest.approx(
        2 ** (share * math.exp(-UNLIKE))
    )
