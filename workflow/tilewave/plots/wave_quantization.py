"""Wave quantization: what a partly filled last wave costs, against N in small steps.

The GPU runs as many blocks at a time as its SMs hold; one block more starts a wave in which most
SMs wait. The duration steps at those N only, not at every tile boundary, and the SMs' active
cycles, average over maximum, show how long the others waited.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import _quantization, _sweeps
from tilewave.plots._quantization import Options as Options
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

HEADLINE = True
READING = (
    "Against N: above the speed, below how evenly the SMs work, the average over the most active "
    "cycles. Past a dashed line a new wave begins and both fall, because SMs idle in its tail; "
    "points are measured, the line is the model."
)
_ORDER = ("tflops", "active")


def table(study: StudyData) -> pd.DataFrame:
    """One row a case of a sweep, measured beside predicted."""
    return _sweeps.table(study)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """What the worst boundary costs each kernel, in a sentence; "" where nothing was timed."""
    return _quantization.takeaway(study, table, "waves")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A column of panels for each sweep; wave boundaries are numbered."""
    return _quantization.draw(study, table, style, "waves", _ORDER)
