"""Tile quantization: what the tiles at the edge cost, against N in small steps.

One column more than a whole number of tiles starts a new tile column that costs as much as a full
one: the duration steps, the throughput drops, and the tensor cores execute more operations than
2 m n k, by exactly the tiles' waste.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import _quantization, _sweeps
from tilewave.plots._quantization import Options as Options
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

READING = (
    "Against N: above the speed, below 2mnk over the operations of whole tiles. Past a dotted line "
    "a new column of tiles begins and both fall, by its tile waste; points are measured, the line "
    "is the model."
)
_ORDER = ("tflops", "useful")


def table(study: StudyData) -> pd.DataFrame:
    """One row a case of a sweep, measured beside predicted."""
    return _sweeps.table(study)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """What the worst boundary costs each kernel, in a sentence; "" where nothing was timed."""
    return _quantization.takeaway(study, table, "columns")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A column of panels for each sweep; tile boundaries are numbered."""
    return _quantization.draw(study, table, style, "columns", _ORDER)
