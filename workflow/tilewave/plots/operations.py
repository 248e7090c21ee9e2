"""Operations: each rung's share of its baseline at the smallest and at the largest size. The baseline is the
vendor's product, timed in turn, else the copy with the nearest bytes: a share of its rate."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import dot_handles, dots, rows_mm
from tilewave.plots._rungs import order
from tilewave.plots.base import StudyData
from tilewave.plots.options import Named
from tilewave.plots.style import INK, Style

Options = Named
REFERENCE = "copy"
"""Operation that is the baseline without a vendor's product."""
_STAGES = ("time", "counters")
_SHARE, _BYTES, _RATE = "% of the baseline", "bytes that must move", "bandwidth (TB/s)"
_BASELINE_BYTES = "bytes of the baseline"
_LADDER = "ladder"
_VENDOR = "cuBLAS"


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case, in the order of the rungs: bytes, rates, baseline, share of it with quartiles
    where both were timed in turn, and the excess of all shared-memory wavefronts (%)."""
    about = study.cases.set_index("case")
    moved, excess = about["byte"].astype(float), base.excess_percent(study.instructions)
    frame = base.table_of(study, table_beside(__file__), bytes=moved, excess=excess)
    frame = frame.set_index("case", drop=False)
    frame.insert(1, "operation", about["operation"])
    names = frame["operation"].map(base.operation_label)
    several = frame.groupby("operation")["dtype"].transform("nunique") > 1
    ladders = names.mask(several, names + " " + frame["dtype"].map(base.dtype_label))
    frame.insert(2, _LADDER, ladders)
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
    names = ", ".join(best.index)
    return f"Best rungs of {names} reach at least {best.min():.0f} % of a {REFERENCE}'s speed at the largest size"


_SMALL, _LARGE = "smallest size", "largest size"


def _drawn(study: StudyData, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rungs that are drawn, in the first dtype of each operation: `label` and both shares."""
    rows = rows[rows["dtype"] == rows.groupby("operation")["dtype"].transform("first")]
    sizes = rows.groupby("operation")[_BYTES]
    small = rows[rows[_BYTES] == sizes.transform("min")].drop_duplicates("variant")
    large = rows[rows[_BYTES] == sizes.transform("max")].drop_duplicates("variant")
    large = large[: look.MOST_ROWS]
    labels = [
        f"{base.operation_label(row['operation'])}: {base.plain_label(study, row)}"
        for row in large.to_dict("records")
    ]
    smallest = large["variant"].map(small.set_index("variant")[_SHARE])
    return large.assign(label=labels, **{_SMALL: smallest, _LARGE: large[_SHARE]})


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one row per rung with the first baseline: its share of it at the smallest and at the largest size."""
    rows = _rows(study, table)
    look.stop_if(rows.empty, "share of a baseline")
    of_vendor = rows["baseline"] == _VENDOR
    drawn = _drawn(study, rows[of_vendor == of_vendor.iloc[0]])
    fig, (ax,) = look.panels(style, [rows_mm(len(drawn))])
    dots(ax, drawn, [_SMALL, _LARGE], texts=drawn[_LARGE].map("{:.0f} %".format), heading=_LARGE)
    ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
    right = 1.05 * max(100.0, float(drawn[[_SMALL, _LARGE]].max(axis=None)))
    unit = _VENDOR if of_vendor.iloc[0] else f"a {REFERENCE} of as many bytes"
    ax.set(xlim=(-2, right), xlabel=f"speed (% of {unit})")
    sizes = rows[rows["variant"].isin(drawn["variant"])].groupby("operation", sort=False)[_BYTES]
    handles = dot_handles(f"smallest: {_sizes(sizes.min())}", f"largest: {_sizes(sizes.max())}")
    return look.finish(fig, study, style, handles, _notes(rows), _STAGES)


def _sizes(sizes: pd.Series[float]) -> str:
    """Return the bytes of operations as text: `softmax 537 MB; reduction 268 MB`; equal ones once."""
    texts = sizes.map(lambda size: f"{base.compact(size)}B")
    parts = {text: ", ".join(part.index) for text, part in texts.groupby(texts, sort=False)}
    named = [f"{base.operation_label(names)} {text}" for text, names in parts.items()]
    return "; ".join(named) if len(parts) > 1 else ", ".join(map(str, parts))


def _notes(rows: pd.DataFrame) -> list[str]:
    """Return the baselines of the shares."""
    of_vendor = rows["baseline"] == _VENDOR
    other = of_vendor != of_vendor.iloc[0]
    sizes = map(base.compact, rows.loc[~other, _BYTES].agg(["min", "max"]))
    facts = {"vendor": of_vendor.iloc[0] and _VENDOR, "sizes": sizes, "copy": REFERENCE}
    names = dict.fromkeys(rows.loc[other, _LADDER])
    return filled(__file__, "operations", names=names, **facts).splitlines()
