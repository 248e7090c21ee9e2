"""Work and traffic: the bound of each product, and how often its operands are loaded.

Above, products with their arithmetic intensity: the rate over the limit of this GPU's measured ceilings, and
the DRAM bytes over the compulsory ones. Below, how often an element of A and B is loaded at each level:
predicted by the closed forms of tilewave.theory.traffic, and counted. The statements of the GPU-performance
document on the same shapes and its own GPU stand in the table.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.options import Count, Name, PlotOptions
from tilewave.plots.style import FAINT, GREY, INK, Style
from tilewave.records.counters.catalogue import GLOBAL_ACCESSES
from tilewave.theory import traffic
from tilewave.theory.dtypes import SIZES, product_sizes
from tilewave.theory.occupancy import WARP
from tilewave.theory.traffic import V100, Machine, WarpAccess

READING = (
    "Above, a bar is the share of its roof that a product reaches; beside it are DRAM's bytes over the bytes that must "
    "move. Below, a mark is how often the bytes of A and B are loaded: by lanes, in sectors, from L2, from DRAM. A "
    "mark on the stroke is as predicted."
)


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


class Options(PlotOptions):
    """The options of work and traffic."""

    accesses: dict[Name, Accesses] = Field(
        {},
        max_length=1000,
        description="by kernel, the places of a warp's lanes in an access to each matrix. Without them a lane "
        "accesses one element, row by row through the kernel's tile. `tile` are the outputs and the k step that "
        "share loads, where these are not the block's",
    )


BANDWIDTH = "dram_copy"
"""Probe case whose TB/s are the ceiling of device memory."""
# Claims of the GPU-performance document on its examples (its N is the reduction): FLOP per byte, which are half the
# reduction and below 1 for a matrix times a vector, and the bound of the product.
CLAIMED: Mapping[str, tuple[float, str]] = {
    "8192x8192x128": (64.0, traffic.MEMORY),
    "8192x8192x8192": (4096.0, traffic.MATH),
    "8192x1x8192": (math.nan, traffic.MEMORY),
    "1x8192x8192": (math.nan, traffic.MEMORY),
}
_STAGES = ("time", "counters")
_L2_READ, _DRAM_READ, _DRAM = "lts__t_sectors_op_read.sum", "dram__bytes_read.sum", "dram_bytes"
_COUNTED = {
    "load_requests": GLOBAL_ACCESSES.format("requests", "ld"),
    "load_sectors": GLOBAL_ACCESSES.format("sectors", "ld"),
    "store_requests": GLOBAL_ACCESSES.format("requests", "st"),
    "store_sectors": GLOBAL_ACCESSES.format("sectors", "st"),
}
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # Okabe and Ito
_BOUNDS = {traffic.MEMORY: "bound by memory", traffic.MATH: "bound by arithmetic"}
_KINDS = {
    "bound by memory": _PALETTE[4], "bound by arithmetic": _PALETTE[0], "bound not known": GREY,
    "not correct": FAINT,
}  # fmt: skip
_PREDICTED, _CLAIMED_LOADS = "predicted", "loaded by lanes, if A were loaded k times"
# Inputs whose products run at the TFLOP/s that the document states for its V100.
_V100_INPUTS = "f16"


@dataclass(frozen=True)
class Level:
    """A level at which loads are counted: name, marker, colour and place in a variant's row."""

    key: str
    label: str
    marker: str
    color: str
    offset: float = 0.0


_LEVELS = (
    Level("requested", "loaded by lanes (requests)", "D", _PALETTE[0], -0.2),
    Level("sectors", "32-byte sectors (L1)", "s", _PALETTE[5], 0.2),
    Level("l2", "read from L2", "o", _PALETTE[2]),
    Level("dram", "read from DRAM", "^", _PALETTE[1]),
)


# ------------------------------------------------------------------------------- facts of a case


def _integer(value: object) -> int:
    return int(float(str(value)))


def _products(study: StudyData) -> list[dict[str, Any]]:
    """Return the rows of the matrix products with known sizes (a symbolic shape may have none)."""
    if study.cases.empty:
        return []
    rows = study.cases[study.cases["operation"] == "matmul"].to_dict("records")
    return [
        {str(key): value for key, value in row.items()}
        for row in rows
        if all(base.present(row[d]) for d in "mnk") and str(row["dtype"]).split("_")[0] in SIZES
    ]


def _shape(row: Mapping[str, Any]) -> dict[str, int]:
    return {d: _integer(row[d]) for d in "mnk"}


def _sizes(row: Mapping[str, Any]) -> tuple[int, int]:
    """Return bytes of an element of A and B, and of C."""
    return product_sizes(str(row["dtype"]))


def _on_v100(row: Mapping[str, Any]) -> bool:
    return str(row["dtype"]).split("_")[0] == _V100_INPUTS


def predicted(
    study: StudyData, row: Mapping[str, Any]
) -> tuple[traffic.Traffic, traffic.Traffic] | None:
    """Return loads and stores of a case by its geometry.

    None without a tile, where the tile does not fit, and where the closed form does not hold: matrices that are
    not all row-major, or elements of C of another size than those of A and B.
    """
    options = Options.of(study).accesses.get(str(row["kernel"]), Accesses())
    tile = options.tile or [row.get(f"tile_{d}") for d in "mnk"]
    accesses = {name: lanes.access for name, lanes in options if isinstance(lanes, Lanes)}
    if not all(base.present(size) for size in tile):
        return None
    size, out = _sizes(row)
    if size != out or set(base.layouts_of(row).values()) != {"row"}:
        return None
    try:
        return traffic.product_traffic(_shape(row), [_integer(t) for t in tile], accesses, size)
    except ValueError:
        return None


def _of_dtype(probe: str, dtype: str) -> bool:
    """Return whether a probe's name ends in a dtype: `fma_f32` in f32, `mma_tf32` and `mma_tf32_f32` in tf32."""
    parts = probe.split("_")
    while parts and parts[0] not in SIZES:
        parts = parts[1:]
    return "_".join(parts) in (dtype, *(f"{dtype}_{accumulate}" for accumulate in SIZES))


def _ceiling(study: StudyData, metric: str, names: Collection[str]) -> tuple[str, float]:
    """Return environment and highest value of correct, timed probes of these names; ("", NaN) without one."""
    values, ranks = base.value_of(study, metric, "time"), set(base.ranking(study))
    environments = base.environment_of(study, metric, "time")
    candidates = [
        (float(values[case]), environments[case])
        for case, probe in zip(
            study.cases["case"].astype(str), study.cases["probe_case"].astype(str), strict=True
        )
        if probe in names and case in values.index and case in ranks
    ]
    value, environment = max(candidates, default=(math.nan, ""))
    return environment, value


def machine(study: StudyData, dtype: str) -> tuple[Machine | None, str]:
    """Return this GPU's ceilings for a dtype from the study's probes, and their environment.
    (None, "") where one of the two ceilings is missing or they come from two environments."""
    probes = [str(name) for name in study.cases["probe_case"] if base.present(name)]
    peaks = [name for name in probes if _of_dtype(name, dtype)]
    first, rate = _ceiling(study, "tflops", peaks)
    second, bandwidth = _ceiling(study, "bandwidth", [BANDWIDTH])
    if not first or first != second:
        return None, ""
    return Machine(1e12 * rate, 1e12 * bandwidth), first


def _mean(shape: Mapping[str, int], of_a: float, of_b: float) -> float:
    """Return loads of an element, averaged over the elements of A and B."""
    a, b = shape["m"] * shape["k"], shape["k"] * shape["n"]
    return (a * of_a + b * of_b) / (a + b)


def facts(study: StudyData, machines: Mapping[str, tuple[Machine | None, str]]) -> pd.DataFrame:
    """Return one row a product (index: case id): sizes, model and counters, missing values NaN or "".

    machines: `machine` of each dtype. Bytes, FLOP, FLOP per byte, TFLOP/s, us; `requested`, `sectors`, `l2` and
    `dram` are loads of an element of A and B, averaged over both, `_model` their predictions.
    """
    measured = base.pivot(study, ["tflops", "duration"], "time")
    counted = base.pivot(study, [*_COUNTED.values(), _L2_READ, _DRAM_READ, _DRAM], "counters")
    timed_in = base.environment_of(study, "tflops", "time")
    rows = []
    for row in _products(study):
        case, shape = str(row["case"]), _shape(row)
        size, out = _sizes(row)
        work, moved = traffic.flops(shape), traffic.compulsory_bytes(shape, size, out)
        inputs = size * (shape["m"] * shape["k"] + shape["k"] * shape["n"])
        ratio = traffic.intensity(shape, size, out)
        ceilings, environment = machines[str(row["dtype"])]
        claimed, claimed_bound = CLAIMED.get("x".join(map(str, shape.values())), (math.nan, ""))
        entry: dict[str, Any] = {
            "case": case, "kernel": row["kernel"], "dtype": row["dtype"], "shape": base.shape_label(row),
            "flops": work, "compulsory": moved, "intensity": ratio,
            "claimed_intensity": claimed if _on_v100(row) else math.nan,
            "claimed_bound": claimed_bound,
            "v100_bound": V100.bound(ratio) if _on_v100(row) else "",
            "tflops": measured.at[case, "tflops"], "duration": measured.at[case, "duration"],
            "dram_ratio": counted.at[case, _DRAM] / moved,
        }  # fmt: skip
        if ceilings is not None and timed_in.get(case, environment) == environment:
            entry |= {
                "balance": ceilings.balance,
                "bound": ceilings.bound(ratio),
                "attainable": 1e-12 * ceilings.attainable(ratio),
                "duration_model": 1e6 * ceilings.duration(work, moved),
            }
        loads = traffic.loads_per_element(shape)
        model = predicted(study, row)
        entry |= {name: counted.at[case, metric] for name, metric in _COUNTED.items()}
        if model is not None:
            entry |= {
                "load_requests_model": model[0].requests, "load_sectors_model": model[0].sectors,
                "store_requests_model": model[1].requests, "store_sectors_model": model[1].sectors,
                "requested_model": size * model[0].elements / inputs,
                "sectors_model": traffic.SECTOR_BYTES * model[0].sectors / inputs,
                "dram_model": 1.0,
                "requested": entry["load_requests"] / model[0].requests * size * model[0].elements / inputs,
            }  # fmt: skip
            if math.isclose(entry["requested_model"], _mean(shape, *loads)):
                entry |= {
                    "loads_a": loads[0], "loads_b": loads[1], "loads_a_claimed": shape["k"],
                    "loads_b_claimed": shape["m"], "loads_claimed": math.prod(shape.values()),
                    "requested_claimed": _mean(shape, shape["k"], shape["m"]),
                }  # fmt: skip
        entry["sectors"] = traffic.SECTOR_BYTES * entry["load_sectors"] / inputs
        entry["l2"] = traffic.SECTOR_BYTES * counted.at[case, _L2_READ] / inputs
        entry["dram"] = counted.at[case, _DRAM_READ] / inputs
        rows.append(entry)
    frame = pd.DataFrame(rows, columns=["case", *_FACTS]).set_index("case")
    text = ["bound", "claimed_bound", "v100_bound"]
    frame[text] = frame[text].astype(object).fillna("")
    share = 100 * frame["tflops"].astype(float) / frame["attainable"].astype(float)
    frame["share"] = share.where(frame.index.isin(base.ranking(study)))
    return frame


# Columns of `facts` and, where the table shows them, their names there.
_FACTS: Mapping[str, str] = {
    "kernel": "", "dtype": "", "shape": "",
    "flops": "2mnk (FLOP)",
    "compulsory": "compulsory (byte)",
    "intensity": "intensity (FLOP/byte)",
    "claimed_intensity": "intensity claimed by the GPU-performance document (FLOP/byte)",
    "v100_bound": "bound on the document's V100 (model)",
    "claimed_bound": "bound claimed by the document",
    "balance": "balance of this GPU (FLOP/byte, measured ceilings)",
    "bound": "bound on this GPU (model)",
    "duration_model": "least duration (us, model)",
    "duration": "duration (us)",
    "attainable": "attainable (TFLOP/s, model)",
    "tflops": "TFLOP/s",
    "share": "TFLOP/s / attainable (%)",
    "dram_ratio": "DRAM bytes / compulsory (counted)",
    "loads_a": "loads of an element of A without reuse (model, and the lecture)",
    "loads_a_claimed": "loads of an element of A claimed by the multiplication document",
    "loads_b": "loads of an element of B without reuse (model, and the lecture)",
    "loads_b_claimed": "loads of an element of B claimed by the multiplication document",
    "loads_claimed": "loads of an element of either, claimed by the multiplication document",
    "load_requests_model": "load requests (model)", "load_requests": "load requests (counted)",
    "load_sectors_model": "load sectors (model)", "load_sectors": "load sectors (counted)",
    "store_requests_model": "store requests (model)", "store_requests": "store requests (counted)",
    "store_sectors_model": "store sectors (model)", "store_sectors": "store sectors (counted)",
    "requested_claimed": "loads of an element of A and B, as the multiplication document has those of A",
    "requested_model": "loads of an element of A and B, asked for by lanes (model)",
    "requested": "loads of an element of A and B, asked for by lanes (counted)",
    "sectors_model": "bytes of load sectors / bytes of A and B (model)",
    "sectors": "bytes of load sectors / bytes of A and B (counted)",
    "l2": "bytes read from L2 / bytes of A and B (counted)",
    "dram_model": "",
    "dram": "bytes read from DRAM / bytes of A and B (counted)",
}  # fmt: skip


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a product: predicted and measured side by side, and the claims on its shape."""
    machines = {dtype: machine(study, dtype) for dtype in base.dtypes_in_order(study)}
    frame = facts(study, machines)
    base_rows = base.base_table(study)
    base_rows = base_rows[base_rows.index.isin(frame.index)]
    columns = {label: frame[name] for name, label in _FACTS.items() if label}
    joined = base.with_columns(base_rows, columns)
    return base.with_derived(joined, frame.join(joined.set_index("case")[["variant", "verdict"]]))


# -------------------------------------------------------------------------------------- drawing


def _rows_of(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the products under the roof, and those whose loads are drawn.
    Under the roof stand the shapes of the baseline in this study, and those of claims."""
    claimed = [
        base.shape_label(dict(zip("mnk", shape.split("x"), strict=True))) for shape in CLAIMED
    ]
    above = (
        frame["shape"]
        .isin([*frame.loc[frame["kernel"] == BASELINE, "shape"], *claimed])
        .to_numpy(dtype=bool)
    )
    below = frame["requested_model"].notna().to_numpy(dtype=bool) & ~above
    return frame[above], frame[below]


def _products_panel(ax: Axes, frame: pd.DataFrame, column: str, style: Style) -> None:
    """Draw a bar for each product, coloured by its bound; a case that is not correct is grey."""
    kinds = frame["bound"].map(_BOUNDS).fillna("bound not known")
    frame = frame.assign(kind=kinds.where(frame["verdict"] == "correct", "not correct"))
    frame["row"] = [
        f"{row['kernel']} {row['shape']}\n{row['intensity']:.4g} FLOP/byte"
        for row in frame.to_dict("records")
    ]
    values, unit = frame[column].astype(float), " %" if column == "share" else "×"
    bars = ax.barh(
        range(len(frame)), values, height=0.6, color=frame["kind"].map(_KINDS), edgecolor=GREY,
        linewidth=0.4, label=list(frame["kind"]),
    )  # fmt: skip
    labels = ["" if math.isnan(value) else base.digits(value) + unit for value in values]
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    ax.bar_label(bars, labels, padding=2, size=style.small, bbox=box)
    look.rows_axis(ax, list(frame["row"]))
    ax.axvline(100.0 if column == "share" else 1.0, color=look.MODEL, linewidth=1.0)
    ax.set_xlim(0, (1.9 if style.narrow else 1.3) * max([1.0, *values.dropna()]))
    ax.set_xlabel("% of attainable" if column == "share" else "/ compulsory")
    look.grid(ax, "x")


def _claims_differ(row: Mapping[Any, Any]) -> bool:
    """Return whether the multiplication document claims another number of loads than the model."""
    claim = float(row["requested_claimed"])
    return not math.isnan(claim) and not math.isclose(claim, float(row["requested_model"]))


def _reuse(ax: Axes, frame: pd.DataFrame, style: Style) -> None:
    """Draw a row for each variant on one logarithmic axis: counters are marks, predictions ticks."""
    usual = str(frame["shape"].mode()[0])
    labels, points = [], []
    for index, row in enumerate(frame.to_dict("records")):
        label = base.variant_label(row, str(row["dtype"])).replace("\n", " ")
        labels.append(label if row["shape"] == usual else f"{label}\n{row['shape']}")
        for level in _LEVELS:
            point = {"place": index + level.offset, "level": level.label}
            points.append({**point, "kind": "counted", "loads": row[level.key]})
            points.append({**point, "kind": _PREDICTED, "loads": row.get(f"{level.key}_model")})
        if _claims_differ(row):
            point = {"place": index + _LEVELS[0].offset, "level": ""}
            points.append({**point, "kind": _CLAIMED_LOADS, "loads": row["requested_claimed"]})
    tidy = pd.DataFrame(points).astype({"loads": float}).dropna(subset="loads")
    sns.scatterplot(
        tidy[tidy["kind"] == "counted"], x="loads", y="place", hue="level", style="level",
        palette={level.label: level.color for level in _LEVELS}, s=22, linewidth=0.3, ax=ax,
        markers={level.label: level.marker for level in _LEVELS}, zorder=4,
        hue_order=[level.label for level in _LEVELS],
    )  # fmt: skip
    for kind, marker, size in ((_PREDICTED, "|", 70), (_CLAIMED_LOADS, "x", 16)):
        if (tidy["kind"] == kind).any():
            sns.scatterplot(tidy[tidy["kind"] == kind], x="loads", y="place", marker=marker, s=size,
                            color=INK, linewidth=1.0, label=kind, zorder=5, ax=ax)  # fmt: skip
    most = 6 if style.narrow else 13
    look.powers_of_two(ax, [0.5, *tidy["loads"]], most)
    ax.set_xlim(0.6 * min(tidy["loads"].min(), 1.0), 1.7 * tidy["loads"].max())
    look.rows_axis(ax, labels)
    ax.set(ylabel="", xlabel="bytes / bytes of A and B")
    ax.set_title(f"Loads of an element, {usual}")
    look.grid(ax, "x")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw rate and moved bytes over their limits, and below them the loads at each level."""
    with look.apply(style):
        frame = base.derived(table)
        shown = ["tflops", "dram_ratio", "requested", "sectors", "dram"]
        if frame.empty or not bool(frame[shown].notna().any(axis=None)):
            return look.empty_figure(study, style, "traffic")
        above, below = _rows_of(frame)
        parts = {"above": 7.0 * len(above) + 14.0, "below": 6.0 * len(below) + 14.0}
        parts = {name: mm for name, mm in parts.items() if len(above if name == "above" else below)}
        fig = look.new_figure(style, sum(parts.values()))
        grid = fig.add_gridspec(len(parts), 2, height_ratios=list(parts.values()))
        if len(above):
            axes = [fig.add_subplot(grid[0, 0])]
            axes.append(fig.add_subplot(grid[0, 1], sharey=axes[0]))
            for ax, column in zip(axes, ("share", "dram_ratio"), strict=True):
                _products_panel(ax, above, column, style)
            axes[1].tick_params(axis="y", labelleft=False)
            axes[0].set_title("Rate")
            axes[1].set_title("DRAM bytes")
        if len(below):
            _reuse(fig.add_subplot(grid[len(parts) - 1, :]), below, style)
        return look.finish(fig, study, style, look.entries(fig.axes), _notes(above, below), _STAGES)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the least share of the attainable rate that the baseline reaches."""
    reached = table.loc[table["kernel"] == BASELINE, _FACTS["share"]] if len(table) else table
    reached = reached.astype(float).dropna()
    return f"cuBLAS reaches at least {reached.min():.0f} % of its roof" if len(reached) else ""


def _agreement(frame: pd.DataFrame) -> str:
    """Return how many counted requests and sectors are the predicted ones, in a sentence."""
    off = pd.concat(
        [(frame[name] / frame[f"{name}_model"] - 1).astype(float).abs() for name in _COUNTED]
    )
    off = off.dropna()
    if off.empty:
        return "No counted requests or sectors to compare with the prediction."
    worst = f"; the worst is {base.digits(100 * off.max())} % off" if off.any() else ""
    return (
        f"{(off == 0).sum()} of {len(off)} counts of requests and sectors are as predicted{worst}."
    )


def _notes(above: pd.DataFrame, below: pd.DataFrame) -> list[str]:
    notes = ["Shapes are m×n×k; beta is 0, so C is written and not read."]
    if len(above) and above["attainable"].isna().all():
        notes.append("No ceiling of this GPU is measured, so no share is formed.")
    if len(below):
        notes.append(
            f"Loads by lanes are requests × {WARP} lanes × elements of a lane. A is loaded k times in the multiplication "
            f"document, n times in the lecture. {_agreement(below)}"
        )
    return notes
