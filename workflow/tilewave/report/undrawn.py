"""What stands in the place of a figure that could not be drawn: what was raised, and where.

A figure is drawn after everything was measured, and its code may be a user's: one that raises costs its own
study's figure and data, and nothing else of the report. It is not kept, so that the next run tries again.
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
"""Letters of a message that are shown; the log has all."""
KEY = "undrawn"
"""Of the sidecar of such a study."""


@dataclass(frozen=True)
class Undrawn:
    """reason: the exception's type and message. place: the plot module, with the line where it is known.
    trace: the traceback, for the log."""

    reason: str
    place: str
    trace: str

    @property
    def sentence(self) -> str:
        """The reason and the place."""
        return f"{self.reason} ({self.place})"

    def table(self) -> pd.DataFrame:
        """In the place of the data."""
        return pd.DataFrame({"not drawn": [self.reason], "where": [self.place]})

    def draw(self, study: StudyData, style: Style) -> Figure:
        """In the place of the figure."""
        # Who only asks which figures were not drawn need not wait for matplotlib.
        from tilewave.plots import style as look

        fig = look.new_figure(style, 30)
        text = f"{study.title}: not drawn. {self.sentence}"
        look.empty(fig.subplots(), text.replace("$", r"\$"), style)
        return fig


def _clean(text: str) -> str:
    """One line that any file can hold."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    line = "".join(sign if sign.isprintable() else "?" for sign in line)
    return line if len(line) <= MOST else f"{line[:MOST]}..."


def of(error: BaseException, plot: str) -> Undrawn:
    """What a plot module raised."""
    told = traceback.TracebackException.from_exception(error)
    theirs = plots.MODULES.file(plot)
    file = theirs or Path(plots.__file__).parent / f"{plot}.py"
    lines = [one.lineno for one in told.stack if Path(one.filename) == file]
    name = relative(file) if theirs else f"plots/{plot}.py"
    place = f"{name}, line {lines[-1]}" if lines else name
    reason = str(error) if isinstance(error, UserError) else "".join(told.format_exception_only())
    return Undrawn(_clean(reason), place, "".join(told.format()))


def found(reports: Path, studies: Iterable[str]) -> dict[str, str]:
    """Those of a report's studies that were not drawn, with the reason, as their sidecars say."""
    sidecars = {name: reports / "figures" / f"{name}.json" for name in studies}
    told = {
        name: json.loads(path.read_text("utf-8")).get(KEY, "")
        for name, path in sidecars.items()
        if path.is_file()
    }
    return {name: reason for name, reason in told.items() if reason}
