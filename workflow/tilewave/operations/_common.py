"""What the operations share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tilewave.dtypes import SIZES

Judgement = tuple[str, str, list[dict[str, Any]]]
CORRECT, WRONG, NOT_CHECKED = "correct", "wrong", "not checked"


class Work(NamedTuple):
    """Floating-point operations, and bytes that must move at least once (compulsory traffic)."""

    flops: int
    bytes: int


def element_bytes(dtypes: Mapping[str, str], name: str) -> int:
    """Bytes of one element of an operand; an operand not listed has the dtype of the first."""
    return SIZES[dtypes.get(name) or next(iter(dtypes.values()))]


def first_difference(name: str, found: np.ndarray, expected: np.ndarray) -> tuple[int, str] | None:
    """Index and sentence of the first element that differs, None where all agree.

    Two equal numbers agree; a NaN agrees with nothing (it may be the poison of an element that was
    never written).
    """
    if found.shape != expected.shape:
        return 0, f"{name} has {found.size} elements, expected {expected.size}"
    differs = ~(found == expected)
    if not differs.any():
        return None
    index = int(np.argmax(differs))
    count = int(differs.sum())
    return index, (
        f"{name}[{index}] is {found[index].item()!r}, expected {expected[index].item()!r} "
        f"({count} of {found.size} elements differ)"
    )


def compare(name: str, found: np.ndarray, expected: np.ndarray) -> Judgement:
    """Judgement of one output that must be equal, element by element.

    Figures: ``wrong_elements`` (element) and ``max_error`` (the dtype's own unit), which is left
    out where an element is not a finite number.
    """
    difference = first_difference(name, found, expected)
    figures: list[dict[str, Any]] = []
    if found.shape == expected.shape and found.size:
        with np.errstate(all="ignore"):
            error = float(np.max(np.abs(found.astype(np.float64) - expected.astype(np.float64))))
        if np.isfinite(error):
            figures.append({"metric": "max_error", "value": error, "unit": ""})
        wrong = int((~(found == expected)).sum())
        figures.append({"metric": "wrong_elements", "value": float(wrong), "unit": "element"})
    if difference is None:
        return CORRECT, "", figures
    return WRONG, difference[1], figures
