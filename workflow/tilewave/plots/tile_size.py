"""Tile size: the best block tile at each shape, by quantization and reuse.

Every row is a shape, every column a tile, in the order in which the guide calls tiles efficient. A cell is the tile's
throughput over the best at that shape. The table has a prediction, too. It takes one number for each tile, its
throughput at the largest product, and multiplies it by the closed-form efficiency of its tiles and waves at the shape.
"""

import math
from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import heatmap, rows_mm
from tilewave.plots._sweeps import blocks_per_sm_of, sms_of
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import RED, Style
from tilewave.records.counters.catalogue import L2_SECTORS
from tilewave.theory import quantization, roofline, tiling
from tilewave.theory.dtypes import SIZES

_STAGES = ("time",)
_COLUMNS: Mapping[str, str] = table_beside(__file__)


def _order(tile: tuple[int, int]) -> tuple[int, int, int]:
    """Return the key of the guide's order; tiles that it does not name follow by falling area."""
    rank = tiling.priority(tile)
    return (len(tiling.PRIORITY) if rank is None else rank, -tile[0] * tile[1], -tile[0])


def cells(study: StudyData) -> pd.DataFrame:
    """Return one row per case with a tile: shape, measured throughput, predictions.

    Columns: case, shape ((m, n, k)), label, tile ((rows, columns)), ranks, tflops, cublas (% of cuBLAS), share (of the
    best at the shape), useful, per_sm, alone (parallel efficiency, one block an SM), intensity (FLOP/byte), l2_bytes
    and model_bytes, predicted_alone (share of the best).
    """
    sms, cases = sms_of(study), study.cases.dropna(subset=["m", "n", "k", "tile_m", "tile_n"])
    records = []
    for row in cases[(cases["kernel"] != BASELINE) & (sms > 0)].to_dict("records"):
        shape = {name: int(row[name]) for name in "mnk"}
        tile, per_sm = (int(row["tile_m"]), int(row["tile_n"])), blocks_per_sm_of(study, row)
        width = SIZES.get(str(row["dtype"]).partition("_")[0], 2)
        of_c = width * shape["m"] * shape["n"]
        records.append(
            {
                "case": row["case"], "shape": tuple(shape.values()), "label": base.shape_label(row), "tile": tile,
                "useful": quantization.tile_efficiency(shape, tile), "per_sm": per_sm,
                "alone": tiling.parallel_efficiency(shape, tile, sms),
                "intensity": tiling.intensity(tile, width),
                "model_bytes": tiling.operand_bytes(shape, tile, width) + of_c,
            }
        )  # fmt: skip
    if not records:
        return pd.DataFrame(columns=["case", "shape", "tile"])
    frame = pd.DataFrame(records)
    case, shapes = frame["case"], frame["shape"]
    frame["ranks"] = case.isin(base.ranking(study))
    for name, metric in {"tflops": "tflops", "cublas": "percent_of_cublas"}.items():
        frame[name] = case.map(base.value_of(study, metric, "time"))
    sectors = base.value_of(study, L2_SECTORS, "counters")
    frame["l2_bytes"] = case.map(sectors).where(frame["ranks"]).map(roofline.l2_bytes)
    # Ratios need one environment: at each shape that of most of its values.
    valid = frame["tflops"].where(frame["ranks"])
    places = case.map(base.environment_of(study, "tflops", "time"))
    timed_in = places[valid.notna()].groupby(shapes, sort=False)
    common = {shape: group.value_counts().index[0] for shape, group in timed_in}
    frame["valid"] = valid = valid.where(places == [common.get(shape) for shape in shapes])
    frame["share"] = valid / valid.groupby(shapes).transform("max")
    reference = reference_shape(frame)
    at_reference = frame[[shape == reference for shape in shapes]]
    # TFLOP/s of each tile on a product without quantization.
    full = dict(zip(at_reference["tile"], at_reference["valid"] / at_reference["alone"]))
    rate = frame["tile"].map(full) * frame["alone"]
    frame["predicted_alone"] = rate / rate.groupby(shapes).transform("max")
    return frame


def reference_shape(frame: pd.DataFrame) -> tuple[int, ...] | None:
    """Return the largest shape at which all tiles have a throughput; None without one."""
    tile_counts = frame[frame["valid"].notna()].groupby("shape", sort=False)["tile"].nunique()
    complete = tile_counts.index[tile_counts == frame["tile"].nunique()]
    return max(complete, key=math.prod, default=None)


def winners(frame: pd.DataFrame, column: str) -> dict[tuple[int, ...], tuple[int, int]]:
    """Return the tile with the highest value of a column at each shape that has any."""
    best = frame.dropna(subset=column).groupby("shape", sort=False)[column].idxmax()
    return dict(frame.loc[best, ["shape", "tile"]].itertuples(index=False, name=None))


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case with a tile: throughput, share of the best, efficiencies, bytes, status."""
    base_rows, frame = base.base_table(study), cells(study)
    if frame.empty:
        return base.with_derived(base_rows.reset_index(drop=True), frame)
    best, shapes = winners(frame, "share"), frame["shape"]
    columns = frame.assign(
        name=[f"{m}x{n}" for m, n in frame["tile"]],
        best=[best.get(shape) == tile for shape, tile in zip(shapes, frame["tile"])],
        **{name: 100 * frame[name] for name in ("share", "predicted_alone")},
    )
    columns = columns.set_index("case")[list(_COLUMNS)].rename(columns=_COLUMNS)
    joined = base.with_columns(base_rows.loc[columns.index], dict(columns))
    return base.with_derived(joined, frame)


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a cell for each shape and tile with its share of the best tile's speed."""
    frame: pd.DataFrame = base.derived(table)
    look.stop_if(frame.empty or frame["share"].isna().all(), "throughput of a tile")
    labels = list(dict.fromkeys(frame["label"]))
    if len(labels) > look.MOST_ROWS:
        labels.remove(frame["label"][frame["shape"].map(math.prod).idxmax()])
    shown = labels[: look.MOST_ROWS]
    tiles = sorted(dict.fromkeys(frame["tile"]), key=_order)[:8]
    values = 100 * frame.pivot(index="label", columns="tile", values="share").loc[shown, tiles]
    values.columns = [f"{m}×{n}" for m, n in tiles]
    fig, (ax,) = look.panels(style, [rows_mm(len(shown)) + (14 if style.narrow else 4)])
    texts = values.map(lambda value: f"{value:.0f}" if base.present(value) else "–")
    frames = heatmap(ax, values, texts, PowerNorm(2, 0.0, 160))
    picks = frame.loc[_picked(frame), ["label", "tile"]]
    picks = picks[picks["label"].isin(shown) & picks["tile"].isin(tiles)]
    across, down, marker, size = (0.5, 0.86, "^", 8) if style.narrow else (0.85, 0.5, "<", 20)
    sns.scatterplot(
        x=picks["tile"].map(tiles.index) + across, y=picks["label"].map(shown.index) + down,
        color=RED, marker=marker, s=size, linewidth=0, label="picked by the prediction", ax=ax,
    )  # fmt: skip
    kernels = dict.fromkeys(study.cases["kernel"][study.cases["case"].isin(frame["case"])])
    tiled = f"tile (rows×columns) of {', '.join(kernels)}, {base.dtypes_text(study)}"
    ax.set(xlabel=f"{tiled}: speed in % of the best tile", ylabel="m×n×k")
    handles = [frames, *look.entries([ax])]
    if style.narrow:
        ax.tick_params(axis="x", labelrotation=90)
    return look.finish(fig, study, style, handles, notes(study, frame), _STAGES)


def _picked(frame: pd.DataFrame) -> list[int]:
    """Return the row of each shape whose tile has the best prediction; the reference shape does not count."""
    reference = reference_shape(frame)
    predicted = frame.dropna(subset=["share", "predicted_alone"]) if reference else frame.iloc[:0]
    predicted = predicted[predicted["shape"].map(lambda shape: shape != reference).astype(bool)]
    return list(predicted.groupby("shape", sort=False)["predicted_alone"].idxmax())


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of the best speed that a tile picked by the prediction keeps."""
    frame: pd.DataFrame = base.derived(table)
    kept = math.nan if frame.empty else float(frame.loc[_picked(frame), "share"].min())
    if math.isnan(kept):
        return ""
    return f"A tile picked by the prediction keeps at least {100 * kept:.0f} % of the best tile's speed"


def notes(study: StudyData, frame: pd.DataFrame) -> list[str]:
    """Return how to read the columns, the definition of the prediction, and the bytes requested from L2."""
    traffic = (frame["l2_bytes"] / frame["model_bytes"]).dropna()
    facts = {"sms": sms_of(study), "reference": reference_shape(frame), "traffic": traffic}
    return filled(__file__, "tile_size", **facts).splitlines()
