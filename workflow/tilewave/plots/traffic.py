"""Work and traffic: the bound of each product, and how often its operands are loaded.

The figure has how often an element of A and B is loaded at each level: predicted by the closed forms of
tilewave.theory.traffic, and counted. The table has also products with their arithmetic intensity, the rate over
the limit of this GPU's measured ceilings, and the DRAM bytes over the compulsory ones.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from tilewave.basics.tables import table_beside
from tilewave.plots import _ceilings, base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.options import Count, Name, Named, PlotOptions
from tilewave.plots.style import BLUE, GREEN, INK, PURPLE, RED, Style
from tilewave.records.counters.catalogue import GLOBAL_ACCESSES
from tilewave.theory import traffic
from tilewave.theory.dtypes import product_sizes
from tilewave.theory.occupancy import WARP
from tilewave.theory.traffic import Machine, WarpAccess


class Lanes(PlotOptions):
    """The options of a `theory.traffic.Access`."""

    rows: int = Field(1, ge=1, le=WARP)
    columns: int = Field(WARP, ge=1, le=WARP)
    vector: int = Field(1, ge=1, le=16)
    row_step: Count = 1
    column_step: Count | None = None

    @model_validator(mode="after")
    def _of_a_warp(self) -> Self:
        assert self.access  # raises ValueError if no warp can have this shape
        return self

    @property
    def access(self) -> WarpAccess:
        return WarpAccess(**self.model_dump(exclude_none=True))


class Accesses(PlotOptions):
    """The accesses of one kernel."""

    a: Lanes | None = None
    b: Lanes | None = None
    c: Lanes | None = None
    tile: tuple[Count, Count, Count] | None = None


class Options(Named):
    """The options of work and traffic."""

    accesses: dict[Name, Accesses] = Field(
        {},
        max_length=1000,
        description="by kernel, the places of a warp's lanes in an access to each matrix. Without them a lane "
        "accesses one element, row by row through the kernel's tile. `tile` are the outputs and the k step that "
        "share loads, where these are not the block's",
    )


_STAGES = ("time", "counters")
_L2_READ, _DRAM_READ, _DRAM = "lts__t_sectors_op_read.sum", "dram__bytes_read.sum", "dram_bytes"
_COUNTED = {
    "load_requests": GLOBAL_ACCESSES.format("requests", "ld"),
    "load_sectors": GLOBAL_ACCESSES.format("sectors", "ld"),
    "store_requests": GLOBAL_ACCESSES.format("requests", "st"),
    "store_sectors": GLOBAL_ACCESSES.format("sectors", "st"),
}
_LEVELS: Mapping[str, str] = {
    "requested": "loaded by lanes", "sectors": "L1 sectors", "l2": "L2, unpredicted", "dram": "read from DRAM",
}  # fmt: skip
"""The levels at which loads are counted."""
_COLORS = dict(zip(_LEVELS.values(), (GREEN, BLUE, RED, PURPLE)))
_MARKERS = dict(zip(_LEVELS.values(), "D^so"))
_STEP = 0.23
"""Distance of a row's levels."""


def _products(study: StudyData) -> pd.DataFrame:
    """Return the matrix products with known sizes (a symbolic shape may have none), by case."""
    rows = study.cases[study.cases["operation"] == "matmul"].dropna(subset=["m", "n", "k"])
    return rows.astype(dict.fromkeys("mnk", int)).set_index("case", drop=False)


def predicted(
    study: StudyData, row: Mapping[str, Any]
) -> tuple[traffic.Traffic, traffic.Traffic] | None:
    """Return loads and stores of a case by its geometry. None without a tile or where it does not fit,
    and where the closed form does not hold: layouts that are not row-major, elements of C of another size."""
    options = Options.of(study).accesses.get(str(row["kernel"]), Accesses())
    tile = options.tile or [row.get(f"tile_{d}") for d in "mnk"]
    accesses = {name: lanes.access for name, lanes in options if isinstance(lanes, Lanes)}
    if not all(base.present(size) for size in tile):
        return None
    size, out = product_sizes(str(row["dtype"]))
    if size != out or set(base.layouts_of(row).values()) != {"row"}:
        return None
    try:
        shape = {name: int(row[name]) for name in "mnk"}
        return traffic.product_traffic(shape, [int(side) for side in tile if side], accesses, size)
    except ValueError:
        return None


def machine(study: StudyData, dtype: str) -> tuple[Machine | None, str]:
    """Return this GPU's ceilings for a dtype from the probes, and their environment; (None, "") if one is missing."""
    limits = _ceilings.ceilings(study)
    peaks = [peak.tflops for peak in limits.peaks if peak.dtype == dtype]
    if not peaks or "dram" not in limits.bandwidths:
        return None, ""
    ceilings = Machine(1e12 * max(peaks), 1e12 * limits.bandwidths["dram"])
    return ceilings, _ceilings.environment_here(study)


def _models(study: StudyData, products: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted requests, sectors and elements of loads and stores by case; NaN without a prediction."""
    kinds = ("requests", "sectors", "elements")
    names = [f"{op}_{kind}" for op in ("load", "store") for kind in kinds]
    models = [predicted(study, row) or [[math.nan] * 3] * 2 for row in products.to_dict("records")]
    values = [[*loads, *stores] for loads, stores in models]
    return pd.DataFrame(values, products.index, names, float)


def facts(study: StudyData, machines: Mapping[str, tuple[Machine | None, str]]) -> pd.DataFrame:
    """Return one row per product (index: case id): sizes, model and counters, missing values NaN or "".
    machines: `machine` of each dtype. Bytes, FLOP, FLOP per byte, TFLOP/s, us; `requested`, `sectors`, `l2` and
    `dram` are loads of an element of A and B, averaged over both, `_model` their predictions."""
    products = _products(study)
    dtypes, m, n, k = (products[name] for name in ("dtype", "m", "n", "k"))
    sizes = [dtypes.map(lambda name, at=at: product_sizes(str(name))[at]) for at in (0, 1)]
    inputs = sizes[0] * (m * k + k * n)
    metrics = {**_COUNTED, "l2": _L2_READ, "dram": _DRAM_READ, "moved": _DRAM}
    counted = base.pivot(study, list(metrics.values()), "counters").set_axis(list(metrics), axis=1)
    frame = products[["kernel", "dtype"]].assign(shape=base.shape_labels(products))
    frame = frame.join(base.pivot(study, ["tflops", "duration"], "time")).join(counted[[*_COUNTED]])
    counted = counted.loc[frame.index]
    frame["flops"] = traffic.flops(products)
    frame["compulsory"] = moved = traffic.compulsory_bytes(products, sizes[0], sizes[1])
    frame["intensity"] = ratio = frame["flops"] / moved
    frame["dram_ratio"] = counted["moved"] / moved
    limits = ["balance", "bound", "attainable", "duration_model"]
    frame[limits] = math.nan, "", math.nan, math.nan
    timed_in = base.environment_of(study, "tflops", "time")
    for case, dtype in dtypes.items():
        ceilings, environment = machines[str(dtype)]
        if ceilings is not None and timed_in.get(str(case), environment) == environment:
            least = ceilings.duration(frame.at[case, "flops"], moved[case])
            attainable = 1e-12 * ceilings.attainable(ratio[case])
            about = ceilings.balance, ceilings.bound(ratio[case]), attainable, 1e6 * least
            frame.loc[case, limits] = about
    model = _models(study, products)
    frame = frame.join(model.add_suffix("_model"))
    by_lanes = sizes[0] * model["load_elements"] / inputs
    frame["requested_model"] = by_lanes
    frame["requested"] = frame["load_requests"] / model["load_requests"] * by_lanes
    frame["sectors_model"] = traffic.SECTOR_BYTES * model["load_sectors"] / inputs
    frame["dram_model"] = by_lanes.where(by_lanes.isna(), 1.0)
    frame["sectors"] = traffic.SECTOR_BYTES * frame["load_sectors"] / inputs
    frame["l2"] = traffic.SECTOR_BYTES * counted["l2"] / inputs
    frame["dram"] = counted["dram"] / inputs
    share = 100 * frame["tflops"].astype(float) / frame["attainable"].astype(float)
    frame["share"] = share.where(frame.index.isin(base.ranking(study)))
    return frame


# Columns of `facts` and, where the table shows them, their names there.
_FACTS: Mapping[str, str] = table_beside(__file__)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per product: predicted and measured side by side."""
    frame = facts(study, {dtype: machine(study, dtype) for dtype in base.dtypes_in_order(study)})
    base_rows = base.base_table(study)
    base_rows = base_rows[base_rows.index.isin(frame.index)]
    columns = {label: frame[name] for name, label in _FACTS.items() if label}
    joined = base.with_columns(base_rows, columns)
    return base.with_derived(joined, frame.join(joined.set_index("case")[["variant", "verdict"]]))


def _drawn(study: StudyData, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the variants whose loads are drawn, all at the shape of most variants, with their `label`."""
    planned = frame[frame["requested_model"].notna()]
    often = planned.groupby("shape", sort=False)["variant"].nunique()
    rows = planned[planned["shape"].isin(often.nlargest(1).index)]
    rows = rows[rows["requested"].notna() & (rows["verdict"] == "correct")].head(look.MOST_ROWS)
    return rows.assign(label=[base.plain_label(study, row) for row in rows.to_dict("records")])


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one row per variant: how often its operands are loaded at each level, and the predictions."""
    rows = _drawn(study, base.derived(table))
    look.stop_if(rows.empty, "traffic")
    fig, (ax,) = look.panels(style, [min(95.0, 11 * len(rows) + 18)])
    columns = [*_LEVELS, *map("{}_model".format, _LEVELS)]
    counts = rows.reset_index(drop=True).reindex(columns=columns)
    for at, (level, name) in enumerate(_LEVELS.items()):
        places, strokes = counts.index + _STEP * (at - 1.5), f"{level}_model"
        for column, color, mark, size, wide in (
            (level, _COLORS[name], _MARKERS[name], 18, 0.0), (strokes, INK, "|", 40, 1.0),
        ):  # fmt: skip
            sns.scatterplot(
                x=counts[column].astype(float), y=places, color=color, marker=mark, s=size,
                linewidth=wide, label="predicted" if column == strokes else name, ax=ax,
            )  # fmt: skip
    look.powers_of_two(ax, [0.5, *counts[[*_LEVELS]].stack()], 5 if style.narrow else 13)
    look.rows_axis(ax, list(rows["label"]))
    for place in range(1, len(rows)):
        ax.axhline(place - 0.5, color="#CCCCCC", linewidth=0.5)
    loads = rows["requested"].astype(float)
    fewer = (loads.max() / loads).map("{:.0f}×".format)
    heading = f"fewer ◆ than\n{rows['label'].iloc[int(loads.argmax())]}"
    look.beside(ax, fewer, [GREEN] * len(rows), heading)
    dtype, shape = rows[["dtype", "shape"]].iloc[0]
    case = f"{base.dtype_short(dtype)}, {shape}"
    ax.set(ylabel="", xlabel=f"bytes loaded / bytes of A and B, {case}")
    look.grid(ax, "x")
    handles = sorted(look.entries([ax]), key=lambda entry: entry.get_label() == "predicted")
    lanes = f"Loads by lanes are requests × {WARP} lanes × elements of a lane."
    notes = [f"{shape} (m×n×k); beta is 0, so C is written and not read. {lanes}"]
    return look.finish(fig, study, style, handles, notes, _STAGES, [_agreement(rows)])


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how much less often the last variant loads an element than the first."""
    if table.empty:
        return ""
    loads = _drawn(study, base.derived(table))["requested"].astype(float)
    if len(loads) < 2 or loads.min() == loads.max():
        return ""
    times = loads.max() / loads.min()
    return f"Tiling loads an element of A and B up to {times:.0f} times less often"


def _agreement(frame: pd.DataFrame) -> str:
    """Return how many counted requests and sectors are the predicted ones, in a sentence."""
    ratios = (frame[name] / frame[f"{name}_model"] for name in _COUNTED)
    off = pd.concat([(ratio - 1).astype(float).abs() for ratio in ratios]).dropna()
    if off.empty:
        return "No counted requests or sectors to compare with the prediction."
    worst = f"; the worst is {base.digits(100 * off.max())} % off" if off.any() else ""
    same = f"{(off == 0).sum()} of {len(off)} counts"
    return f"{same} of requests and sectors are as predicted{worst}."
