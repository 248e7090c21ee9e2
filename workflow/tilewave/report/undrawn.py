"""The box in place of a figure that could not be drawn: the exception and its place.

Figures are drawn after all measurements, and their code may be a user's. A module that raises costs only its
study's figure and data. The box is not stored, so the next run draws the figure again.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from tilewave import plots
from tilewave.basics.errors import UserError
from tilewave.basics.paths import relative

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tilewave.plots.base import StudyData
    from tilewave.plots.style import Style

MOST = 400
"""The most characters of a message; the log has all."""
KEY = "undrawn"
"""Key of the reason in the study's sidecar."""


@dataclass(frozen=True)
class Undrawn:
    """A figure that could not be drawn.

    reason: the exception's type and message; place: the plot module, with the line if known; trace: the
    traceback for the log.
    """

    reason: str
    place: str
    trace: str

    @property
    def sentence(self) -> str:
        """The reason and the place."""
        return f"{self.reason} ({self.place})"

    def table(self) -> pd.DataFrame:
        """Return a table in place of the data."""
        return pd.DataFrame({"not drawn": [self.reason], "where": [self.place]})

    def draw(self, study: StudyData, style: Style) -> Figure:
        """Draw a box in place of the figure."""
        # Loading matplotlib takes long, and most users of this module do not draw.
        from tilewave.plots import style as look

        fig = look.new_figure(style, 30)
        text = f"{study.title}: not drawn. {self.sentence}"
        look.empty(fig.subplots(), text.replace("$", r"\$"), style)
        return fig


def _clean(text: str) -> str:
    """Return the text as one printable line."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    line = "".join(sign if sign.isprintable() else "?" for sign in line)
    return line if len(line) <= MOST else f"{line[:MOST]}..."


def of(error: BaseException, plot: str) -> Undrawn:
    """Describe an exception of a plot module."""
    trace = traceback.TracebackException.from_exception(error)
    user_file = plots.MODULES.file(plot)
    file = user_file or Path(plots.__file__).parent / f"{plot}.py"
    lines = [frame.lineno for frame in trace.stack if Path(frame.filename) == file]
    name = relative(file) if user_file else f"plots/{plot}.py"
    place = f"{name}, line {lines[-1]}" if lines else name
    reason = str(error) if isinstance(error, UserError) else "".join(trace.format_exception_only())
    return Undrawn(_clean(reason), place, "".join(trace.format()))


def reasons(reports: Path, studies: Iterable[str]) -> dict[str, str]:
    """Return why studies were not drawn, by study, from their sidecars."""
    reasons = {}
    for name in studies:
        path = reports / "figures" / f"{name}.json"
        document = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        if document.get(KEY):
            reasons[name] = document[KEY]
    return reasons
