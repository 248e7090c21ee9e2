"""Waves cured: the speed against N of kernels that lose at a partly filled last wave, and of those that do
not. Stream-K divides the last wave along k; even tiles change their width with N."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tilewave.plots import _sweeps, base
from tilewave.plots import style as look
from tilewave.plots._panels import names_beside
from tilewave.plots._quantization import STAGES, axis_of_n, boundaries, drawn, drops, name_of, notes
from tilewave.plots._quantization import Options as Options
from tilewave.plots._rungs import MOST
from tilewave.plots._sweeps import Sweep
from tilewave.plots.base import StudyData
from tilewave.plots.style import MARKERS, PALETTE, Style

table = _sweeps.table


def _names(study: StudyData, table: pd.DataFrame) -> dict[str, Sweep]:
    """Return the drawn sweeps by their names in the figure."""
    return {name_of(study, sweep): sweep for sweep in drawn(study, base.derived(table), MOST)}


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the largest loss past a full wave of the kernel that loses least."""
    sweeps = _names(study, table)
    if len(sweeps) < 2:
        return ""
    first, *_ = sweeps.values()
    losses = {name: _loss(first, sweep) for name, sweep in sweeps.items()}
    name = min(losses, key=losses.__getitem__)
    return f"{name[0].upper()}{name[1:]} lose at most {100 * losses[name]:.0f} % from a full wave to the next N"


def _loss(first: Sweep, sweep: Sweep) -> float:
    """Return the largest share of a kernel's speed that is lost past a full wave of the first kernel."""
    rates = sweep.frame.set_index("n")["tflops"]
    past = [(n, behind) for _, n, behind in drops(first, "waves") if behind in rates and n in rates]
    return max(0.0, max((1 - rates[behind] / rates[n] for n, behind in past), default=1.0))


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a line a kernel: its speed over N, with its name."""
    sweeps = _names(study, table)
    look.stop_if(not sweeps, "sweep")
    first, *_ = sweeps.values()
    tall = 60.0
    fig, (ax,) = look.panels(style, [tall])
    frames = [sweep.frame[sweep.frame["ranks"]].assign(name=name) for name, sweep in sweeps.items()]
    points = pd.concat(frames).dropna(subset="tflops")
    colors = dict(zip(sweeps, PALETTE))
    sns.lineplot(
        points, x="n", y="tflops", hue="name", style="name", palette=colors, dashes=False, errorbar=None,
        markers=dict(zip(sweeps, MARKERS)), markersize=3.5, markeredgewidth=0, estimator=None, legend=False, ax=ax,
    )  # fmt: skip
    boundaries(ax, first, "waves", "" if style.narrow else f" with {next(iter(sweeps))}")
    axis_of_n(ax, study, first, 3 if style.narrow else 6)
    ax.set(ylabel="TFLOP/s", ylim=(0, 1.08 * points["tflops"].max()))
    last = points.sort_values("n").drop_duplicates("name", keep="last")
    losses = last["name"].map({name: _loss(first, sweep) for name, sweep in sweeps.items()})
    texts = last["name"] + losses.map(": −{:.0%}".format).str.replace("%", " %")
    ends = zip(last["n"], last["tflops"], texts, last["name"].map(colors), strict=True)
    look.head(ax, "largest drop\nfrom a dashed line\nto the next N")
    names_beside(ax, list(ends), tall - 14, style)
    return look.finish(fig, study, style, notes=notes(list(sweeps.values())), stages=STAGES)
