"""Operations: each rung's share of its baseline at each size, a panel for each operation and dtype.

The baseline is the vendor's product, timed in turn, where it exists (`pipeline.tables.paired_shares`), else the
copy with the nearest number of bytes. A share of a copy compares rates: bytes that must move over time.
"""

from __future__ import annotations

import math

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import names_beside, stacked, titled
from tilewave.plots._rungs import order
from tilewave.plots.base import StudyData
from tilewave.plots.ladder import HIGH, LOW, SHARE
from tilewave.plots.style import GREY, INK, MARKERS, Style

READING = (
    "A panel is an operation, a line one of its rungs. Up is its share of the baseline, right are the bytes that it "
    "must move. At 100 % it is as fast as cuBLAS, or as a copy of as many bytes where memory is the bound."
)


REFERENCE = "copy"
"""Operation that is the baseline without a vendor's product."""
_STAGES = ("time", "counters")
_SHARE, _LOW, _HIGH = "% of the baseline", "lower quartile (%)", "upper quartile (%)"
_BYTES, _RATE = "bytes that must move", "bandwidth (TB/s)"
_BASELINE_BYTES = "bytes of the baseline"
_LADDER = "ladder"
_VENDOR = "cuBLAS"
_EXCESS = "excess wavefronts (%)"


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case, in the order of the rungs: bytes, rates, baseline, share of it, excess wavefronts.

    Shares have quartiles where both were timed in turn. Excess wavefronts are those over the need of the data
    (%).
    """
    about = study.cases.set_index("case")
    columns = {
        _BYTES: about["byte"].astype(float),
        "duration (us)": base.value_of(study, "duration", "time"),
        _RATE: base.value_of(study, "bandwidth", "time"),
        "TFLOP/s": base.value_of(study, "tflops", "time"),
        "baseline TFLOP/s": base.value_of(study, "baseline_tflops", "time"),
        _SHARE: base.value_of(study, SHARE, "time"),
        _LOW: base.value_of(study, LOW, "time"),
        _HIGH: base.value_of(study, HIGH, "time"),
        _EXCESS: base.excess_percent(study.instructions),
    }
    frame = base.with_columns(base.base_table(study), columns).set_index("case", drop=False)
    frame.insert(1, "operation", about["operation"])
    frame.insert(2, _LADDER, _ladders(frame))
    baseline = _copies(study, frame)
    beside = frame[_SHARE].notna()
    baseline_figures = frame[[_BYTES, _RATE]].reindex(baseline).set_index(frame.index)
    at = list(frame.columns).index(_SHARE)
    frame.insert(at, "baseline", baseline.mask(beside, _VENDOR))
    frame.insert(at + 1, _BASELINE_BYTES, baseline_figures[_BYTES].mask(beside, frame[_BYTES]))
    frame[_SHARE] = frame[_SHARE].fillna(100 * frame[_RATE] / baseline_figures[_RATE])
    rungs = {_LADDER: list(dict.fromkeys(frame[_LADDER])), "kernel": order(study.cases)}
    rungs["variant"] = list(dict.fromkeys(frame["variant"]))
    keys = frame.assign(**{name: frame[name].map(of.index) for name, of in rungs.items()})
    sorted_index = keys.sort_values([*rungs, _BYTES], kind="stable").index
    return frame.loc[sorted_index].reset_index(drop=True)


def _ladders(frame: pd.DataFrame) -> pd.Series[str]:
    """Return the ladder of each row: its operation, with the dtype where the operation has several."""
    names = frame["operation"].map(base.operation_label)
    several = frame.groupby("operation")["dtype"].transform("nunique") > 1
    return names.mask(several, names + " " + frame["dtype"].map(base.dtype_label))


def _copies(study: StudyData, frame: pd.DataFrame) -> pd.Series[str]:
    """Return for each case the correct copy of the same environment with the nearest bytes; "" without one."""
    where = base.environment_of(study, "bandwidth", "time")
    copies = frame[(frame["operation"] == REFERENCE) & frame.index.isin(base.ranking(study))]
    copies = copies[copies[_RATE].notna() & (copies[_BYTES] > 0)]
    nearest = {}
    for case, row in frame.iterrows():
        near = [copy for copy in copies.index if where.get(str(copy)) == where.get(str(case), "")]
        distances = {copy: abs(math.log(copies[_BYTES][copy] / row[_BYTES])) for copy in near}
        nearest[case] = min(distances, key=distances.__getitem__, default="")
    return pd.Series(nearest, index=frame.index, dtype=object)


def _rows(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rungs that rank: without baselines and cases that are not correct."""
    rows = table[(table["verdict"] == "correct") & table[_SHARE].notna()]
    rows = rows[~rows["kernel"].isin(base.vendors(study))]
    return rows[rows["operation"] != REFERENCE]


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of a copy's speed that the best rungs reach at the largest size."""
    rows = _rows(study, table)
    rows = rows[rows["baseline"] != _VENDOR]
    if rows.empty:
        return ""
    largest = rows[rows[_BYTES] == rows.groupby(_LADDER)[_BYTES].transform("max")]
    best = largest.groupby(_LADDER, sort=False)[_SHARE].max()
    return f"Best rungs of {', '.join(best.index)} reach at least {best.min():.0f} % of a {REFERENCE} at the largest size"


def _panel(ax: Axes, rows: pd.DataFrame, tall: float, style: Style) -> None:
    """Draw a ladder's rungs, from the first in light to the last in dark, each named at its end."""
    names = list(dict.fromkeys(rows["variant"]))
    ax.axhline(100, color=INK, linewidth=0.9, zorder=1)
    spread = rows[rows[_LOW].notna()]
    ax.vlines(spread[_BYTES], spread[_LOW], spread[_HIGH], color=GREY, linewidth=0.9, zorder=2)
    sns.lineplot(
        rows, x=_BYTES, y=_SHARE, hue="variant", hue_order=names, style="variant", style_order=names,
        palette=sns.color_palette("crest", len(names)).as_hex(), dashes=False, linewidth=0.9,
        markers=[MARKERS[at % len(MARKERS)] for at in range(len(names))], markersize=4,
        markeredgewidth=0, estimator=None, legend=False, ax=ax, zorder=3,
    )  # fmt: skip
    last = rows.sort_values([_BYTES, _SHARE]).drop_duplicates("variant", keep="last")
    last["name"] = [
        f"{base.variant_label(row, row['dtype'])} {row[_SHARE]:.0f} %".replace("\n", " ")
        for row in last.to_dict("records")
    ]
    ends = last[[_BYTES, _SHARE, "name"]].assign(bold=False)
    names_beside(ax, list(ends.itertuples(index=False, name=None)), tall, style)
    titled(ax, str(rows[_LADDER].iloc[0]), _reference_text(last.iloc[-1]), style)
    ax.set(xlabel="", ylabel="")
    look.grid(ax)


def _reference_text(row: pd.Series) -> str:  # type: ignore[type-arg]
    """Return the rate behind 100 % at a row's size."""
    if row["baseline"] == _VENDOR:
        return f"100 %: {_VENDOR}, {base.digits(row['baseline TFLOP/s'])} TFLOP/s"
    return f"100 %: {100 * row[_RATE] / row[_SHARE]:.2f} TB/s"


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a panel a ladder, a line a rung, its sizes in bytes from left to right."""
    with look.apply(style):
        rows = _rows(study, table)
        if rows.empty:
            return look.empty_figure(study, style, "share of a baseline")
        parts = dict(iter(rows.groupby(_LADDER, sort=False)))
        heights = {name: max(16.0, 3.1 * part["variant"].nunique()) for name, part in parts.items()}
        fig, columns = stacked(style, heights)
        least, most = rows[_BYTES].min(), rows[_BYTES].max()
        for column in columns:
            for name, ax in column.items():
                ax.set(xscale="log", xlim=(least / 1.6, most * 1.6))
                ax.set_ylim(0, 1.08 * max(100.0, rows[_SHARE].max()))
                look.decades(ax.xaxis, (least, most), 1e6)
                _panel(ax, parts[name], heights[name], style)
                ax.tick_params(labelbottom=name == list(column)[-1])
            ax.set_xlabel("MB that must move")
        return look.finish(fig, study, style, notes=_notes(rows), stages=_STAGES)


def _notes(rows: pd.DataFrame) -> list[str]:
    """Return the baselines of the shares."""
    notes = ["Up: % of the baseline. The rate of 100 % at the largest size is beside the name."]
    if (rows["baseline"] != _VENDOR).any():
        notes.append(
            f"Without a vendor's product the baseline is the {REFERENCE} with the nearest bytes; the table names it."
        )
    return notes
