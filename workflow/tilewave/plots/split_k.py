"""Split-K and stream-K: the gain of sharing a tile among blocks, and the cost of its workspace.
The table has each way to share the tiles of a shape. Speed-ups are over the data-parallel kernel with the same tile:
measured, and predicted from the balance of the SMs and the workspace's traffic, whose bytes stand beside them."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._ceilings import ceilings
from tilewave.plots._panels import rows_mm
from tilewave.plots._quantization import percent
from tilewave.plots._sweeps import blocks_per_sm_of, sms_of
from tilewave.plots.base import StudyData
from tilewave.plots.style import BLUE, INK, RED, Style
from tilewave.records.counters.catalogue import L2_SECTORS
from tilewave.theory import quantization, roofline, splitting

DATA_PARALLEL, SPLIT_K, STREAM_K = "hgemm_mma", "hgemm_split_k", "hgemm_stream_k"
"""Kernels whose blocks take a tile each, share a tile (macro SPLITS), or share all chunks evenly."""
STREAM = "stream"
_MACROS = ("SPLITS", "JOINED", "LEAST")
_STAGES = ("time",)


def bandwidth(study: StudyData) -> float:
    """Return TB/s of the L2, which give the time of the workspace's traffic; NaN without a correct probe."""
    return ceilings(study).bandwidths.get("l2", math.nan)


def _dealing(row: Mapping[str, Any], stream: bool, tiles: int, chunks: int) -> splitting.Dealing:
    """Return how the case assigns its work, by its macros (SPLITS; JOINED and LEAST) and its grid."""
    macros = {name: int(value) for name, value in base.macros_of(row).items() if name in _MACROS}
    if not stream:
        return splitting.split_k(tiles, chunks, macros.get("SPLITS", 1))
    joined, least = macros.get("JOINED"), macros.get("LEAST", 1)
    return splitting.stream_k(tiles, chunks, int(row["blocks"]), joined, least)


def _key(row: Mapping[str, object]) -> tuple[object, ...]:
    """Return the key of comparable kernels: shape, dtype and tile."""
    return tuple(row[name] for name in ("m", "n", "k", "dtype", "tile_m", "tile_n"))


def cells(study: StudyData) -> pd.DataFrame:
    """Return one row per case of a splitting kernel whose data-parallel baseline is in the study.

    Columns: case, plain (the baseline), shape, label, tile, tiles, chunks, per_sm, how ("stream" or the number
    of splits), ranks, duration and plain_duration (us), speed_up, alone (predicted: an SM's blocks share
    its throughput), reduction (us), traffic (bytes, model), l2 and dram (bytes more, counted), rate (TB/s).
    """
    sms = sms_of(study)
    rows = study.cases[study.cases["tile_m"].notna() & study.cases["blocks"].notna() & (sms > 0)]
    baselines = {_key(row): row for row in rows[rows["kernel"] == DATA_PARALLEL].to_dict("records")}
    duration = base.value_of(study, "duration", "time")
    rate, records = bandwidth(study), []
    for row in rows[rows["kernel"].isin([SPLIT_K, STREAM_K])].to_dict("records"):
        baseline = baselines.get(_key(row))
        if baseline is None:
            continue
        stream = row["kernel"] == STREAM_K
        shape = {name: int(row[name]) for name in "mnk"}
        tile = (int(row["tile_m"]), int(row["tile_n"]))
        step = int(row["tile_k"]) if base.present(row.get("tile_k")) else 1
        tiles, chunks = quantization.tile_count(shape, tile), -(-shape["k"] // step)
        plain = splitting.data_parallel(tiles, chunks)
        dealing = _dealing(row, stream, tiles, chunks)
        per_sm = blocks_per_sm_of(study, baseline)
        plain_time = duration.get(baseline["case"], math.nan)
        reduction = splitting.reduction_time(dealing, tile, sms, rate) if rate > 0 else 0.0
        alone = splitting.speed_up(dealing, plain, sms, 1, plain_time, reduction)
        records.append(
            {
                "case": row["case"], "plain": baseline["case"], "shape": tuple(shape.values()),
                "label": base.shape_label(row), "tile": tile, "tiles": tiles, "chunks": chunks, "per_sm": per_sm,
                "how": STREAM if stream else str(base.macros_of(row).get("SPLITS", 1)), "alone": alone,
                "reduction": reduction if rate > 0 else math.nan, "rate": rate,
                "traffic": splitting.traffic_bytes(dealing, tile),
            }
        )  # fmt: skip
    frame = pd.DataFrame(records, columns=None if records else ["case", "plain", "shape"])
    case, plain_case, ranking = frame["case"], frame["plain"], base.ranking(study)
    frame["ranks"] = case.isin(ranking) & plain_case.isin(ranking)
    frame["duration"], frame["plain_duration"] = case.map(duration), plain_case.map(duration)
    places = pd.Series(base.environment_of(study, "duration", "time"), dtype=object)
    same = case.map(places) == plain_case.map(places)
    frame["speed_up"] = (frame["plain_duration"] / frame["duration"]).where(frame["ranks"] & same)
    sectors = base.value_of(study, L2_SECTORS, "counters")
    dram = base.value_of(study, "dram_bytes", "counters")
    counted = {"l2": sectors.map(roofline.l2_bytes), "dram": dram}
    for name, values in counted.items():
        frame[name] = (case.map(values) - plain_case.map(values)).where(frame["ranks"])
    return frame


_COLUMNS: Mapping[str, str] = table_beside(__file__)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case; those of splitting kernels with measured and predicted speed-ups and bytes."""
    base_rows, frame = base.base_table(study), cells(study)
    if frame.empty:
        return base.with_derived(base_rows.reset_index(drop=True), frame)
    columns = frame.set_index("case")[list(_COLUMNS)].rename(columns=_COLUMNS)
    columns.insert(0, "tile", [f"{rows}x{columns}" for rows, columns in frame["tile"]])
    timed = {"duration (us)": base.value_of(study, "duration", "time")}
    return base.with_derived(base.with_columns(base_rows, timed | dict(columns)), frame)


_LOOKS: Mapping[str, tuple[str, str]] = {"best split-K": (BLUE, "o"), "stream-K": (RED, "s")}


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the best speed-up of each kind of sharing (columns) by product, the largest first."""
    kinds = (frame["how"] == STREAM).map(dict(zip((False, True), _LOOKS)))
    rows = [
        f"{label}, {tiles} tile{'s' * (tiles > 1)} of {tile[0]}×{tile[1]}"
        for label, tiles, tile in zip(frame["label"], frame["tiles"], frame["tile"], strict=True)
    ]
    best = frame.assign(kind=kinds, row=rows).pivot_table("speed_up", "row", "kind", "max")
    order = best.max(axis=1).sort_values(ascending=False, kind="stable").index
    return best.loc[order[: look.MOST_ROWS]]


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one row per product: the speed-up of the best split-K and of stream-K."""
    frame: pd.DataFrame = base.derived(table)
    look.stop_if(frame.empty or frame["speed_up"].isna().all(), "speed-up")
    rows = _drawn(frame)
    fig, (ax,) = look.panels(style, [rows_mm(len(rows))])
    long = rows.reset_index(drop=True).melt(ignore_index=False, var_name="kind").dropna()
    sns.scatterplot(
        long.reset_index(names="place"), x="value", y="place", hue="kind", style="kind", s=24, linewidth=0,
        palette={kind: color for kind, (color, _) in _LOOKS.items()}, ax=ax, zorder=3,
        markers={kind: marker for kind, (_, marker) in _LOOKS.items()},
    )  # fmt: skip
    look.rows_axis(ax, list(rows.index))
    look.head(ax, "M×N×K, tiles of C", 0)
    look.powers_of_two(ax, [0.5, rows.max(axis=None)])
    ax.axvline(1, color=INK, linewidth=0.9)
    dtypes = base.dtypes_text(study)
    ax.set(xlabel=f"speed-up over the data-parallel kernel, {dtypes}", ylabel="")
    look.beside(ax, [f"{best:.1f}×" for best in rows.max(axis=1)], heading="best")
    look.grid(ax, "x")
    return look.finish(fig, study, style, look.entries([ax]), notes(study, frame), _STAGES)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the largest speed-up."""
    frame: pd.DataFrame = base.derived(table)
    if frame.empty or frame["speed_up"].isna().all():
        return ""
    best = frame.loc[frame["speed_up"].idxmax()]
    return f"Sharing tiles among blocks is up to {best['speed_up']:.1f} times as fast"


def notes(study: StudyData, frame: pd.DataFrame) -> list[str]:
    """Return the definition of the prediction, and its error."""
    compared = frame[frame["speed_up"].notna()]
    off = quantization.prediction_error(list(compared["speed_up"] / compared["alone"] - 1))
    worst, rate = compared.iloc[off.place], float(frame["rate"].iloc[0])
    facts = {"rate": 0 if math.isnan(rate) else rate, "worst": worst.to_dict(), "stream": STREAM}
    facts |= {"sms": sms_of(study), "off": off, "percent": percent}
    return filled(__file__, "split_k", **facts).splitlines()
