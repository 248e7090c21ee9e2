"""Work and traffic: the bound of each product, and how often its operands are loaded.

The figure has how often an element of A and B is loaded at each level: predicted by the closed forms of
tilewave.theory.traffic, and counted. The table has also products with their arithmetic intensity, the rate over
the limit of this GPU's measured ceilings, the DRAM bytes over the compulsory ones, and the statements of the
GPU-performance document on the same shapes and its GPU.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, Self

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.options import Count, Name, Named, PlotOptions
from tilewave.plots.style import BLUE, GREEN, INK, PURPLE, RED, Style
from tilewave.records.counters.catalogue import GLOBAL_ACCESSES
from tilewave.theory import traffic
from tilewave.theory.dtypes import SIZES, product_sizes
from tilewave.theory.occupancy import WARP
from tilewave.theory.traffic import V100, Machine, WarpAccess

READING = (
    "A row is a kernel. A mark counts how often the bytes of A and B are loaded at one level: by the lanes, in sectors of "
    "L1, from L2, from DRAM. A mark on a stroke is as predicted."
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


class Options(Named):
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
# Inputs whose products run at the TFLOP/s that the document states for its V100.
_V100_INPUTS = "f16"


_LEVELS: Mapping[str, str] = {
    "requested": "loaded by lanes", "sectors": "L1 sectors", "l2": "L2, unpredicted", "dram": "read from DRAM",
}  # fmt: skip
"""The levels at which loads are counted."""
_COLORS = dict(zip(_LEVELS.values(), (GREEN, BLUE, RED, PURPLE)))
_MARKERS = dict(zip(_LEVELS.values(), "D^so"))
_STEP = 0.23
"""Distance of a row's levels."""
_MOST = 12
"""The most rows of the figure."""


# ------------------------------------------------------------------------------- facts of a case


def _integer(value: object) -> int:
    return int(float(str(value)))


def _products(study: StudyData) -> list[dict[str, Any]]:
    """Return the rows of the matrix products with known sizes (a symbolic shape may have none)."""
    if study.cases.empty:
        return []
    return [
        row
        for row in study.cases[study.cases["operation"] == "matmul"].to_dict("records")
        if all(base.present(row[d]) for d in "mnk") and str(row["dtype"]).split("_")[0] in SIZES
    ]


def _shape(row: Mapping[str, Any]) -> dict[str, int]:
    return {d: _integer(row[d]) for d in "mnk"}


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
    size, out = product_sizes(str(row["dtype"]))
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
    """Return one row per product (index: case id): sizes, model and counters, missing values NaN or "".

    machines: `machine` of each dtype. Bytes, FLOP, FLOP per byte, TFLOP/s, us; `requested`, `sectors`, `l2` and
    `dram` are loads of an element of A and B, averaged over both, `_model` their predictions.
    """
    measured = base.pivot(study, ["tflops", "duration"], "time")
    counted = base.pivot(study, [*_COUNTED.values(), _L2_READ, _DRAM_READ, _DRAM], "counters")
    timed_in = base.environment_of(study, "tflops", "time")
    rows = []
    for row in _products(study):
        case, shape = str(row["case"]), _shape(row)
        size, out = product_sizes(str(row["dtype"]))
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
_FACTS: Mapping[str, str] = table_beside(__file__)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per product: predicted and measured side by side, and the claims on its shape."""
    machines = {dtype: machine(study, dtype) for dtype in base.dtypes_in_order(study)}
    frame = facts(study, machines)
    base_rows = base.base_table(study)
    base_rows = base_rows[base_rows.index.isin(frame.index)]
    columns = {label: frame[name] for name, label in _FACTS.items() if label}
    joined = base.with_columns(base_rows, columns)
    return base.with_derived(joined, frame.join(joined.set_index("case")[["variant", "verdict"]]))


# -------------------------------------------------------------------------------------- drawing


def _drawn(study: StudyData, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the variants whose loads are drawn, all at the shape of most variants, with their `label`."""
    planned = frame[frame["requested_model"].notna()]
    often = planned.groupby("shape", sort=False)["variant"].nunique()
    rows = planned[planned["shape"].isin(often.nlargest(1).index)]
    rows = rows[rows["requested"].notna() & (rows["verdict"] == "correct")].head(_MOST)
    labels = [base.plain_label(study, row) for row in rows.to_dict("records")]
    return rows.assign(label=labels)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one row per variant: how often its operands are loaded at each level, and the predictions."""
    with look.apply(style):
        rows = _drawn(study, base.derived(table))
        if rows.empty:
            return look.empty_figure(study, style, "traffic")
        fig, (ax,) = look.panels(style, [min(95.0, 11 * len(rows) + 18)])
        counts = rows.reset_index(drop=True).reindex(
            columns=[*_LEVELS, *map("{}_model".format, _LEVELS)]
        )
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
        return look.finish(fig, study, style, handles, _notes(rows), _STAGES, [_agreement(rows)])


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


def _notes(rows: pd.DataFrame) -> list[str]:
    """Return the shape and the meaning of a load by lanes."""
    shapes = ", ".join(dict.fromkeys(rows["shape"]))
    return [
        f"{shapes} (m×n×k); beta is 0, so C is written and not read. Loads by lanes are requests × {WARP} lanes × elements "
        "of a lane."
    ]
