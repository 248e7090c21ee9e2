"""Requests to shared memory, for callers without a compiler."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewave.theory import wavefronts as rules


def shared_wavefronts(
    addresses: ArrayLike, active: NDArray[np.bool_], width: int, op: str
) -> tuple[int, int]:
    """Return the wavefronts of a warp's request to shared memory, and how many are bank conflicts.

    addresses: byte addresses of the lanes, multiples of width where they are active. For ``ldmatrix`` they
    are those of rows, eight for each matrix; a matrix without an active row is not read. op: ``"load"``,
    ``"store"`` or ``"ldmatrix"``. Raises ValueError for other arguments.
    """
    checked, mask = np.where(active, addresses, 0).astype(np.int64), rules.mask_of(active)
    wrong = checked[(checked < 0) | (checked % width != 0)]
    if op not in ("load", "store", "ldmatrix") or len(wrong):
        raise ValueError(
            f"{op} of {width} bytes at {wrong.tolist()}; allowed: multiples of {width}"
        )
    if op == "ldmatrix":
        wavefronts, transactions = rules.warp_ldmatrix(checked, mask)
    else:
        wavefronts, transactions = rules.warp_shared(checked, mask, width, op == "store")
    return wavefronts, wavefronts - transactions
