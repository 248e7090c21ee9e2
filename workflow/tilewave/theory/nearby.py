"""How much longer a variant takes at a shape than its costs say, from what it took at other shapes.

What the closed forms of `tilewave.theory.selection` leave out, rows that L2 gives slowly or a loop that hides less
latency than at the shapes of the fit, is alike at shapes that are alike. So the logarithms of measured over expected
times are taken for a Gaussian process (Rasmussen and Williams, 2006, equation 2.23), whose mean at a shape is a sum of
those at the others, weighed by how near they are: in octaves of m, n and k, and by the `selection.kinds` of each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Sizes = tuple[int, int, int]
"""m, n, k."""
KIND, NEAR, NOISE = 1.0, 1.0, 1.0
"""Variances, of which only the ratios matter: of what shapes of a kind have in common, of what those near each other have
besides, and of what no other shape tells. Found by trials (docs/picking.md); half and twice as much change little."""
OCTAVES = 2.0
"""How far shapes are from each other that have 0.61 of `NEAR` in common."""
UNLIKE = 0.5
"""By e to the power of so much a kind that only one of two shapes has makes them less alike."""


@dataclass(frozen=True)
class Seen:
    """What a case took over what the costs expect of it (natural logarithm), and the kinds of its shape. given: it is
    one of those that the model is told, also where it is asked for this very shape; of others it predicts."""

    sizes: Sizes
    kinds: frozenset[str]
    log: float
    given: bool


Place = tuple[Sizes, frozenset[str]]
"""Sizes and kinds of a shape."""


def _alike(some: Sequence[Place], others: Sequence[Place]) -> NDArray[np.float64]:
    """The covariance of each of some shapes and of each of others."""
    here, there = (
        np.log2(np.array([sizes for sizes, _ in side], float)) for side in (some, others)
    )
    apart = ((here[:, None] - there[None]) ** 2).sum(-1)
    unlike = np.array([[len(mine ^ theirs) for _, theirs in others] for _, mine in some])
    near = NEAR * np.exp(-apart / (2 * OCTAVES**2))
    found: NDArray[np.float64] = np.exp(-UNLIKE * unlike) * (KIND + near)
    return found


@dataclass(frozen=True)
class Nearby:
    """What a variant's cases took over what its costs expect of them."""

    seen: tuple[Seen, ...] = ()

    @functools.cached_property
    def _places(self) -> list[Place]:
        return [(one.sizes, one.kinds) for one in self.seen]

    @functools.cached_property
    def _weights(self) -> NDArray[np.float64]:
        """What each of them counts for, by how alike it and a shape are."""
        own = _alike(self._places, self._places) + NOISE * np.eye(len(self.seen))
        return np.linalg.solve(own, np.array([one.log for one in self.seen]))

    def times_more(self, sizes: Sizes, kinds: frozenset[str]) -> float:
        """The ratio to expect at a shape; 1 where nothing is known of any other."""
        others = tuple(one for one in self.seen if one.given or one.sizes != sizes)
        if len(others) < len(self.seen):
            return Nearby(others).times_more(sizes, kinds)
        if not others:
            return 1.0
        return math.exp(float(_alike([(sizes, kinds)], self._places)[0] @ self._weights))
