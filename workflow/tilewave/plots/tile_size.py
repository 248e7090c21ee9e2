"""Tile size: the best block tile at each shape, beside the predictions by quantization and reuse.

Every row is a shape, every column a tile, in the order in which the guide calls tiles efficient. A cell is the
tile's throughput over the best at that shape. The prediction takes one number for each tile, its throughput at
the largest product. It multiplies it by the closed-form efficiency of its tiles and waves at the shape.
"""

import math

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from tilewave.plots import _maps, base
from tilewave.plots import style as look
from tilewave.plots._sweeps import blocks_per_sm_of, sms_of
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, Style
from tilewave.records.counters.catalogue import L2_SECTORS
from tilewave.theory import quantization, roofline, tiling
from tilewave.theory.dtypes import SIZES

READING = (
    "A row is a shape, a column a tile. A number is the speed in % of the best tile of that shape, measured at the "
    "left and predicted in the middle; the best is framed. At the right is the rank correlation of each order with "
    "the measured one: 1 is the same order."
)


_STAGES = ("time",)
_PREDICTIONS = ("alone", "waves")
_ORDERS = {"guide": "guide's order, against measured", "model": "prediction, against measured"}


def _order(tile: tuple[int, int]) -> tuple[int, int, int]:
    """Return the key of the guide's order; tiles that it does not name follow by falling area."""
    rank = tiling.priority(tile)
    return (len(tiling.PRIORITY) if rank is None else rank, -tile[0] * tile[1], -tile[0])


def cells(study: StudyData) -> pd.DataFrame:
    """Return one row a case with a tile: shape, measured throughput, predictions.

    Columns: case, shape ((m, n, k)), label, tile ((rows, columns)), ranks, tflops, cublas (% of cuBLAS), share
    (of the best at the shape), useful, per_sm, alone and waves (parallel efficiency, one block an SM and as
    many as fit), intensity (FLOP/byte), l2_bytes and model_bytes, predicted_alone and predicted_waves (share of
    the best).
    """
    sms = sms_of(study)
    rows = study.cases
    if rows.empty or sms < 1:
        return pd.DataFrame(columns=["case", "shape", "tile"])
    rows = rows[(rows["kernel"] != BASELINE) & rows[["m", "n", "k"]].notna().all(axis=1)]
    rows = rows[rows["tile_m"].notna() & rows["tile_n"].notna()]
    timed = base.pivot(study, ["tflops", "percent_of_cublas"], "time")
    sectors = base.value_of(study, L2_SECTORS, "counters")
    may_rank = set(base.ranking(study))
    environments = base.environment_of(study, "tflops", "time")
    records = []
    for row in rows.to_dict("records"):
        case = str(row["case"])
        shape = {name: int(row[name]) for name in "mnk"}
        tile = (int(row["tile_m"]), int(row["tile_n"]))
        per_sm = blocks_per_sm_of(study, {str(key): value for key, value in row.items()})
        width = SIZES.get(str(row["dtype"]).partition("_")[0], 2)
        records.append(
            {
                "case": case, "shape": tuple(shape.values()), "label": base.shape_label(row),
                "tile": tile, "ranks": case in may_rank, "tflops": timed.at[case, "tflops"],
                "cublas": timed.at[case, "percent_of_cublas"],
                "environment": environments.get(case, ""),
                "useful": quantization.tile_efficiency(shape, tile), "per_sm": per_sm,
                "alone": tiling.parallel_efficiency(shape, tile, sms),
                "waves": tiling.parallel_efficiency(shape, tile, sms, per_sm),
                "intensity": tiling.intensity(tile, width),
                "l2_bytes": roofline.l2_bytes(sectors.get(case, math.nan)) if case in may_rank else math.nan,
                "model_bytes": tiling.operand_bytes(shape, tile, width)
                + width * shape["m"] * shape["n"],
            }
        )  # fmt: skip
    frame = pd.DataFrame(records)
    if frame.empty:
        return pd.DataFrame(columns=["case", "shape", "tile"])
    valid = frame["tflops"].where(frame["ranks"])
    # Ratios need one environment: at each shape that of most of its values.
    timed_in = frame[valid.notna()].groupby("shape", sort=False)["environment"]
    common = {shape: group.value_counts().index[0] for shape, group in timed_in}
    valid = valid.where(frame["environment"] == [common.get(s) for s in frame["shape"]])
    frame["share"] = valid / valid.groupby(frame["shape"]).transform("max")
    reference = reference_shape(frame.assign(valid=valid))
    for name in _PREDICTIONS:
        full = _full_rates(frame.assign(valid=valid), reference, name)
        rate = frame["tile"].map(full) * frame[name]
        frame[f"predicted_{name}"] = rate / rate.groupby(frame["shape"]).transform("max")
    return frame


def reference_shape(frame: pd.DataFrame) -> tuple[int, ...] | None:
    """Return the largest shape at which all tiles have a throughput; None without one."""
    tile_counts = frame[frame["valid"].notna()].groupby("shape", sort=False)["tile"].nunique()
    complete = tile_counts.index[tile_counts == frame["tile"].nunique()]
    return max(complete, key=math.prod, default=None)


def _full_rates(
    frame: pd.DataFrame, reference: tuple[int, ...] | None, efficiency: str
) -> dict[tuple[int, int], float]:
    """Return TFLOP/s of each tile on a product without quantization, from the reference shape."""
    rows = frame[[shape == reference for shape in frame["shape"]]]
    rates = rows["valid"] / rows[efficiency]
    return dict(zip(rows["tile"], rates, strict=True))


def winners(frame: pd.DataFrame, column: str) -> dict[tuple[int, ...], tuple[int, int]]:
    """Return the tile with the highest value of a column at each shape that has any."""
    best = {}
    for shape, group in frame[frame[column].notna()].groupby("shape", sort=False):
        best[shape] = group.loc[group[column].idxmax(), "tile"]
    return best


def correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's rho at each shape of the measured throughput with the guide's order and the prediction.
    Columns `guide`, for the tiles that the guide names, and `model`."""
    by_shape = {}
    for shape, group in frame[frame["share"].notna()].groupby("shape", sort=False):
        places = [tiling.priority(tile) for tile in group["tile"]]
        named = [(-p, s) for p, s in zip(places, group["share"], strict=True) if p is not None]
        guide = tiling.rank_correlation(*map(list, zip(*named))) if named else math.nan
        both = group[group["predicted_alone"].notna()]
        model = tiling.rank_correlation(list(both["predicted_alone"]), list(both["share"]))
        by_shape[shape] = {"guide": guide, "model": model}
    return pd.DataFrame.from_dict(by_shape, orient="index", columns=["guide", "model"])


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case with a tile: throughput, share of the best, efficiencies, bytes, status."""
    base_rows = base.base_table(study).set_index("case")
    frame = cells(study)
    if frame.empty:
        return base.with_derived(base_rows.reset_index(), frame)
    best = winners(frame, "share")
    rho = correlations(frame)
    columns = pd.DataFrame(
        {
            "case": frame["case"],
            "tile": [f"{m}x{n}" for m, n in frame["tile"]],
            "TFLOP/s": frame["tflops"],
            "% of cuBLAS": frame["cublas"],
            "% of the best tile at this shape": 100 * frame["share"],
            "best tile": [best.get(s) == t for s, t in zip(frame["shape"], frame["tile"])],
            "predicted % of the best (blocks over SMs)": 100 * frame["predicted_alone"],
            "predicted % of the best (whole waves)": 100 * frame["predicted_waves"],
            "blocks an SM": frame["per_sm"],
            "tile efficiency": frame["useful"],
            "tile x wave efficiency (blocks over SMs)": frame["alone"],
            "tile x wave efficiency (whole waves)": frame["waves"],
            "FLOP for a byte of A and B": frame["intensity"],
            "bytes asked of L2 (counted)": frame["l2_bytes"],
            "bytes asked of L2 (model)": frame["model_bytes"],
            "rank correlation with the guide's order": frame["shape"].map(rho["guide"]),
            "rank correlation with the prediction": frame["shape"].map(rho["model"]),
        }
    ).set_index("case")
    joined = base_rows.iloc[:, :6].join(columns, how="inner")
    return base.with_derived(joined.join(base_rows.iloc[:, 6:]).reset_index(), frame)


# ------------------------------------------------------------------------------------------ figure


def _pivoted(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a column by shape and tile, in the order of the rows and of the guide."""
    shapes = list(dict.fromkeys(frame["label"]))
    tiles = sorted(dict.fromkeys(frame["tile"]), key=_order)
    return frame.pivot(index="label", columns="tile", values=column).reindex(shapes)[tiles]


def _map(ax: Axes, frame: pd.DataFrame, column: str, style: Style, marked: bool = False) -> None:
    """Draw a cell for each shape and tile with its percentage, and a cross for a case without one.
    The best has a frame; marked: the predicted best has a mark."""
    values = _pivoted(frame, column).astype(float)
    texts = values.map(lambda value: f"{100 * value:.0f}")
    picks = _pivoted(frame, "predicted_alone").astype(float) if marked else None
    _maps.draw(ax, values, texts, PowerNorm(2, 0.0, 1.25), style, picks)
    missing = _pivoted(frame, "case").notna().to_numpy() & values.isna().to_numpy()
    for y, x in zip(*np.nonzero(missing), strict=True):
        ax.text(x + 0.5, y + 0.5, "×", ha="center", va="center", size=style.small, color=GREY)
    tiles = list(values)
    for x in range(1, len(tiles)):
        if tiling.priority(tiles[x]) != tiling.priority(tiles[x - 1]):
            ax.axvline(x, color=GREY, linewidth=0.6)
    reuse = dict(zip(frame["tile"], frame["intensity"], strict=True))
    ax.set_xticks(np.arange(len(tiles)) + 0.5, [f"{m}×{n}  {reuse[m, n]:.0f}" for m, n in tiles])
    ax.tick_params(axis="x", labelrotation=90)


def _best_tiles(ax: Axes, frame: pd.DataFrame) -> None:
    """Write the best tile's TFLOP/s and its share of cuBLAS at the right of the measured map."""
    ranked = frame[frame["share"] == 1.0].drop_duplicates("label").set_index("label")
    labels = list(dict.fromkeys(frame["label"]))
    texts = ranked["tflops"].map(base.digits) + ranked["cublas"].map(" ({:.0f} %)".format)
    look.beside(ax, texts.reindex(labels).fillna(""), middle=0.5)


def _correlation(ax: Axes, frame: pd.DataFrame, style: Style) -> None:
    rho = correlations(frame).reindex(list(dict.fromkeys(frame["shape"])))
    rho = rho.rename(columns=_ORDERS).assign(place=np.arange(len(rho)) + 0.5)
    sns.scatterplot(
        rho.melt("place", var_name="order", value_name="rho").dropna(), x="rho", y="place",
        hue="order", style="order", palette=dict(zip(_ORDERS.values(), (INK, GREY), strict=True)), s=16,
        markers=dict(zip(_ORDERS.values(), "sD", strict=True)), ax=ax,
    )  # fmt: skip
    ax.axvline(0.0, color=GREY, linewidth=0.6)
    ax.set(xlim=(-1.12, 1.12), ylim=(len(rho), 0), xticks=[-1, 0, 1], yticks=[], ylabel="")
    ax.set_xlabel("Spearman's ρ", size=style.small)
    ax.spines["left"].set_visible(False)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw measured and predicted maps side by side, and the agreement of two orders with the measured one.
    A narrow figure has the measured map alone, with the predicted best marked."""
    with look.apply(style):
        frame: pd.DataFrame = base.derived(table)
        if frame.empty or frame["share"].isna().all():
            return look.empty_figure(study, style, "throughput of a tile")
        fig = look.new_figure(style, 4.6 * frame["label"].nunique() + 28)
        if style.narrow:
            axes = [fig.subplots()]
        else:
            axes = list(fig.subplots(1, 3, gridspec_kw={"width_ratios": [8, 8, 3]}))
            _map(axes[1], frame, "predicted_alone", style)
            axes[1].set_yticks([])
            _correlation(axes[2], frame, style)
        _map(axes[0], frame, "share", style, marked=style.narrow)
        _best_tiles(axes[0], frame)
        titles = ("Measured, % of the best", "Predicted, % of the best", "Agreement")
        for ax, title in zip(axes, titles):
            ax.set_title(title)
        handles = [*_maps.legend(style.narrow), *look.entries(axes[2:])]
        return look.finish(fig, study, style, handles, notes(study, frame), _STAGES)


def _kept(frame: pd.DataFrame) -> float:
    """Return the least share of the best tile's speed that the tile with the best prediction keeps.
    The reference shape does not count; NaN without a prediction."""
    reference = reference_shape(frame.assign(valid=frame["tflops"].where(frame["ranks"])))
    predicted = frame.dropna(subset=["share", "predicted_alone"])
    predicted = predicted[predicted["shape"].map(lambda shape: shape != reference).astype(bool)]
    picked = predicted.groupby("shape", sort=False)["predicted_alone"].idxmax()
    return float(predicted.loc[picked, "share"].min()) if reference else math.nan


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of the best speed that a tile picked by the prediction keeps."""
    frame: pd.DataFrame = base.derived(table)
    kept = math.nan if frame.empty else _kept(frame)
    if math.isnan(kept):
        return ""
    return f"A tile picked by its blocks over SMs keeps at least {100 * kept:.0f} % of the best tile's speed"


def notes(study: StudyData, frame: pd.DataFrame) -> list[str]:
    """Return how to read the columns, the definition of the prediction, and the bytes requested from L2."""
    reference = reference_shape(frame.assign(valid=frame["tflops"].where(frame["ranks"])))
    traffic = (frame["l2_bytes"] / frame["model_bytes"]).dropna()
    lines = [
        f"{sms_of(study)} SMs. Columns: tiles in the order of NVIDIA's guide, lines between its groups, with their FLOP "
        "for a byte of A and B. At the right of a row: TFLOP/s of the best tile and its share of cuBLAS."
    ]
    if reference:
        shape = "×".join(map(str, reference))
        lines.append(f"Predicted: throughput at {shape} times tile and wave efficiency.")
    if len(traffic):
        lines.append(
            f"Bytes requested from L2 over predicted ones: median {traffic.median():.3g}, {traffic.min():.3g} to "
            f"{traffic.max():.3g}."
        )
    return lines
