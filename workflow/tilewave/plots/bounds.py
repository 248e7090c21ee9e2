"""Bounds: the least cycles of each rung by what it executes, its limiter, and how near the measured ones come.

The counts are executed ones, no GPU is asked for them: two products of whole tiles that differ in k give those
of any other (`theory.bounds.scaled`). Where that does not hold, since blocks share tiles otherwise at another
size (stream-K) or another launch prepares the operands, and of kernels that have no machine code here (cuBLAS), they
are ncu's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from pydantic import Field

from tilewave.counters.catalogue import (
    AVERAGE,
    ELAPSED,
    ISSUED,
    L2_SECTORS,
    PIPE,
    WARP_INSTRUCTIONS,
)
from tilewave.dtypes import product_sizes
from tilewave.execution import asked
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import below_dtypes, cells, listed
from tilewave.plots._rungs import in_order
from tilewave.plots.base import StudyData
from tilewave.plots.options import Count, PlotOptions, Word
from tilewave.plots.style import Style
from tilewave.records.tables import LAUNCHES
from tilewave.theory import bounds, quantization, roofline
from tilewave.theory.bounds import Bound, Counts
from tilewave.theory.data_sheets import DataSheet, data_sheet
from tilewave.theory.traffic import compulsory_bytes

READING = (
    "A dot says how many times its bound a rung takes; at 1 its limiter never waits. The cells say how much "
    "of the measured cycles each pipe needs at least: the darkest of a row is the limiter."
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    detail: Count = Field(4096, description="edge of the cubes whose pipes are shown")
    l2: Word = Field(
        "l2_read", description="probe case whose bandwidth ncu's L2 sectors are held against"
    )


OPEN_TABLE = True
DATA_PIPE = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
DRAM_BYTES = "dram_bytes"
SM_PIPES: Mapping[str, str] = {
    bounds.ISSUE: ISSUED.name, bounds.TENSOR: PIPE.format("tensor"), bounds.FP32: PIPE.format("fma"),
    bounds.FP64: PIPE.format("fp64"),
}  # fmt: skip
L2 = "L2"
SHOWN: Mapping[str, str] = {
    bounds.ISSUE: "issue", bounds.FP32: "FP32", bounds.FP64: "FP64", bounds.TENSOR: "tensor",
    bounds.DATA: "shared, L1", bounds.PORT: "L2 port", bounds.DRAM: "DRAM",
}  # fmt: skip
_STAGES = ("time", "counters")
_EXECUTED, _COUNTED = "executed, scaled", "ncu"
_OF = "{} (% of measured)"
_CYCLES, _LEAST, _RATIO = "measured (cycles)", "bound (cycles)", "measured over bound"
_LIMITER, _BUSIEST, _FROM = "limiter", "busiest by ncu", "counts"
_AMONG, _WHOLE, _SM = "among", "SM, L2 and DRAM", "pipes of the SM"
_TIME = "bound (us at the largest clock)"


def gpu_of(study: StudyData) -> DataSheet | None:
    """The data sheet of the GPU that most cases were timed on; None where it is not known."""
    timed = pd.Series(base.environment_of(study, "duration", "time"), dtype=object)
    if timed.empty:
        return None
    return data_sheet(str(study.environments.get(str(timed.mode()[0]), {}).get("gpu") or ""))


class _Counts:
    """What each case asks of the pipes, as a stage of it counted."""

    def __init__(self, study: StudyData) -> None:
        wanted = [*asked.COUNTERS, "launch__grid_size"]
        records = study.records[
            study.records["metric"].isin(wanted) & (study.records["status"] == "ok")
        ]
        self._values = {
            key: dict(zip(part["metric"], part["value"].astype(float), strict=True))
            for key, part in records.groupby(["case", "stage"], sort=False)
        }
        rows = study.instructions
        columns = [name for name in asked.COLUMNS if name in rows]
        self._rows = rows[columns]
        groups = rows.groupby(["case", "stage"], sort=False).indices if "stage" in rows else {}
        self._places: Mapping[Any, Any] = groups
        self._known: dict[tuple[str, str], Counts | None] = {}

    def blocks(self, case: str) -> int:
        """Blocks of the launch that ncu counted."""
        return int(self._values[case, "counters"]["launch__grid_size"])

    def of(self, case: str, stage: str) -> Counts | None:
        """None where the stage counted nothing of the case."""
        if (case, stage) not in self._known:
            self._known[case, stage] = self._made(case, stage)
        return self._known[case, stage]

    def _made(self, case: str, stage: str) -> Counts | None:
        values = self._values.get((case, stage), {})
        if WARP_INSTRUCTIONS not in values:
            return None
        places = self._places.get((case, stage), [])
        return asked.of_launch(values, self._rows.take(places).to_dict("records"))


def _blocks(row: Mapping[str, Any]) -> int:
    """Blocks of a launch that have work; 0 where the launch is not known (cuBLAS). Persistent ones, whose
    front matter counts tiles as such, count as they are: stream-K deals out parts of tiles."""
    known = [row[name] for name in ("working_blocks", "blocks") if base.present(row[name])]
    return int(min(known, default=0))


def _sharing(row: Mapping[str, Any]) -> float:
    """How many blocks share a tile (at least 1: a block may have several tiles)."""
    return max(1.0, _blocks(row) / _tiles(row))


def _tiles(row: Mapping[str, Any]) -> int:
    return quantization.tile_count(row, (row["tile_m"], row["tile_n"]))


_Samples = list[list[dict[str, Any]]]
"""Executed products of a variant: those of one m and n together, from small to large k, in which alone they differ."""


def _samples(study: StudyData) -> dict[str, _Samples]:
    """What was executed of each variant at more than one k."""
    executed = study.records.loc[study.records["stage"] == "execute", "case"]
    cases = study.cases[study.cases["case"].isin(executed) & study.cases["tile_m"].notna()]
    found: dict[str, _Samples] = {}
    for (variant, _, _), part in cases.groupby(["variant", "m", "n"], sort=False):
        if part["k"].nunique() > 1:
            deeper = part.sort_values("k", kind="stable").to_dict("records")
            found.setdefault(str(variant), []).append(deeper)
    return found


def _whole(row: Mapping[str, Any]) -> bool:
    """Whether a product has whole tiles only: what sticks out is executed, and whole clusters of such tiles may be, too."""
    return bool(row["m"] % row["tile_m"] == 0 and row["n"] % row["tile_n"] == 0)


def _grows(row: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """Whether all launches of a case have as many more blocks than those of another one as there are more tiles: a launch that
    copies rows has work that grows with a side of the product."""
    if not base.present(row.get(LAUNCHES)):
        return True
    here, there = json.loads(row[LAUNCHES]), json.loads(one[LAUNCHES])
    return all(
        math.prod(each["grid"]) * _tiles(one) == math.prod(other["grid"]) * _tiles(row)
        for each, other in zip(here, there, strict=True)
    )


def _small(samples: Mapping[str, _Samples]) -> set[str]:
    """The cases that are there to be scaled."""
    return {str(one["case"]) for groups in samples.values() for ones in groups for one in ones}


def _scaled(row: Mapping[str, Any], samples: _Samples, known: _Counts) -> Counts | None:
    """The counts of a case from two executed ones of the same tile; None where they do not tell them."""
    for ones in samples:
        alike = [
            (one, found)
            for one in ones
            if (found := known.of(one["case"], "execute"))
            and (one["tile_m"], one["tile_n"]) == (row["tile_m"], row["tile_n"])
            and _whole(one)
            and _grows(row, one)
            and _sharing(one) == _sharing(row)
        ]
        if alike and alike[0][0]["k"] != alike[-1][0]["k"]:
            (first, shallow), (last, deep) = alike[0], alike[-1]
            depth = (row["k"] - first["k"]) / (last["k"] - first["k"])
            return bounds.scaled(shallow, deep, depth, _tiles(row) / _tiles(first))
    return None


def _bytes(row: Mapping[str, Any]) -> float:
    """Compulsory bytes of a product: each array once."""
    return compulsory_bytes(row, *product_sizes(str(row["dtype"])))


def _busiest(
    counts: Counts, values: Mapping[str, float], gpu: DataSheet, l2: float
) -> dict[str, float]:
    """Share of its cycles that each pipe works, as ncu counted launch and cycles (1): of all SMs, the L2's
    at the measured bandwidth (TB/s) and DRAM's bytes at that of the data sheet; of the data path ncu's own
    percentage where it is recorded, which knows the conflicts of global accesses."""
    cycles = values[ELAPSED]
    needed = bounds.bound(counts, gpu, gpu.sms).pipes
    found = {
        name: needed[name] / cycles for name in SHOWN if name not in (bounds.PORT, bounds.DRAM)
    }
    seconds = cycles / gpu.clock_mhz / 1e6
    moved = roofline.l2_bytes(values[L2_SECTORS])
    if not math.isnan(values[DATA_PIPE]):
        found[bounds.DATA] = values[DATA_PIPE] / 100
    if not math.isnan(l2 + moved):
        found[L2] = moved / (l2 * 1e12) / seconds
    if not math.isnan(values[DRAM_BYTES]):
        found[bounds.DRAM] = values[DRAM_BYTES] / gpu.machine.bandwidth / seconds
    return found


def _busiest_of_sm(counts: Counts, values: Mapping[str, float], gpu: DataSheet) -> dict[str, float]:
    """The same where ncu measured an SM's pipes alone: their percentages, and of the data path, which is
    not among them, what the counts ask of it."""
    share = values[AVERAGE] / values[ELAPSED] / 100
    found = {pipe: values[name] * share for pipe, name in SM_PIPES.items()}
    needed = bounds.bound(counts, gpu, gpu.sms).pipes[bounds.DATA]
    return {**found, bounds.DATA: needed / values[ELAPSED]}


def _l2_rate(study: StudyData) -> float:
    """The measured bandwidth of the L2 in TB/s; NaN without the probe."""
    rates = base.value_of(study, "bandwidth", "time")
    name = Options.of(study).l2
    found = study.cases.loc[study.cases["probe_case"] == name, "case"]
    return float(next((rates[case] for case in found if case in rates.index), math.nan))


def _derived(study: StudyData, samples: Mapping[str, _Samples]) -> pd.DataFrame:
    """One row a case that was timed and whose counts are known: its bound and what was measured."""
    gpu, known = gpu_of(study), _Counts(study)
    small = _small(samples)
    values = base.pivot(
        study, [ELAPSED, AVERAGE, DATA_PIPE, L2_SECTORS, DRAM_BYTES, *SM_PIPES.values()], "counters"
    )
    timed, l2 = base.value_of(study, "duration", "time"), _l2_rate(study)
    rows: dict[str, dict[str, Any]] = {}
    for row in study.cases[study.cases["operation"] == "matmul"].to_dict("records"):
        case = str(row["case"])
        if gpu is None or case not in timed.index or case in small:
            continue
        counted = known.of(case, "counters")
        counts, source = None, _EXECUTED
        if base.present(row["tile_m"]):
            counts = _scaled(row, samples.get(str(row["variant"]), []), known)
        if counts is None:
            counts, source = counted, _COUNTED
        if counts is None:
            continue
        blocks = _blocks(row) or known.blocks(case)
        try:
            least: Bound = bounds.bound(counts, gpu, blocks, _bytes(row))
        except KeyError:  # a tensor instruction whose rate nobody told of this GPU
            continue
        cycles = values[ELAPSED][case]
        if math.isnan(cycles):  # at its largest clock it has no more in this time
            cycles = timed[case] * gpu.clock_mhz
        rows[case] = {
            _FROM: source, _LIMITER: least.limiter, _LEAST: least.cycles, _TIME: least.microseconds,
            _CYCLES: cycles, _RATIO: cycles / least.cycles,
            **{_OF.format(name): 100 * least.pipes[name] / cycles for name in SHOWN},
        }  # fmt: skip
        told = values.loc[case]
        if counted is not None and not math.isnan(told[ELAPSED]):
            at_work, looked = _busiest(counted, told, gpu, l2), _WHOLE
        elif told[[ELAPSED, AVERAGE, *SM_PIPES.values()]].notna().all():
            at_work, looked = _busiest_of_sm(counts, told, gpu), _SM
        else:
            continue
        rows[case] |= {_BUSIEST: max(at_work, key=at_work.__getitem__), _AMONG: looked}
    columns = [_FROM, _LIMITER, _BUSIEST, _AMONG, _LEAST, _TIME, _CYCLES, _RATIO]
    columns += [_OF.format(name) for name in SHOWN]
    return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=columns)


def table(study: StudyData) -> pd.DataFrame:
    """One row a product but for the small executed ones: its bound, its limiter, the measured cycles and
    their ratio; empty cells where nothing was counted or timed."""
    samples = _samples(study)
    found, small = _derived(study, samples), _small(samples)
    frame = base.with_columns(base.base_table(study), {name: found[name] for name in found})
    products = in_order(study)
    products = products[products["operation"] == "matmul"]["case"] if len(products) else []
    order = [case for case in products if case not in small]
    return frame.set_index("case", drop=False).loc[order].reset_index(drop=True)


def agreement(table: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """What ncu looked at -> in how many cases the limiter is what it counted as busiest, and of how many."""
    both = table[table[_LIMITER].notna() & table[_BUSIEST].notna()]
    right = (both[_LIMITER] == both[_BUSIEST]).groupby(both[_AMONG], sort=False)
    return {str(among): (int(part.sum()), len(part)) for among, part in right}


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """How near the rungs of each dtype come to their bounds, and how often the limiter is right."""
    detail = table[table["m"] == Options.of(study).detail]
    ratios = detail.groupby("dtype", sort=False)[_RATIO].median().dropna()
    if ratios.empty:
        return ""
    told = ", ".join(f"{base.dtype_short(d)} {n:.2f}" for d, n in ratios.items())
    return f"Measured over bound, median at {Options.of(study).detail}³: {told}"


def _lines(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """A row a variant at the size in detail, below a line of its own for each dtype."""
    rows = table[(table["m"] == Options.of(study).detail) & table[_RATIO].notna()]
    if rows.empty:
        return rows
    rows = rows.assign(
        label=[
            base.variant_label(row, str(row["dtype"])).replace("\n", " ")
            for row in rows.to_dict("records")
        ]
    )
    return below_dtypes(rows)


def _dots(ax: Axes, lines: pd.DataFrame, table: pd.DataFrame) -> tuple[list[Artist], list[str]]:
    """Measured over bound, a dot a size; returns the legend's entries."""
    place = {variant: at + 0.5 for at, variant in lines["variant"].dropna().items()}
    drawn = table[table["variant"].isin(place) & table[_RATIO].notna()]
    sizes = sorted(drawn["m"].unique())
    palette = dict(zip(sizes, sns.color_palette("flare", len(sizes)), strict=True))
    sns.scatterplot(
        drawn.assign(row=drawn["variant"].map(place)), x=_RATIO, y="row", hue="m", palette=palette,
        s=14, linewidth=0.3, ax=ax,
    )  # fmt: skip
    handles, names = ax.get_legend_handles_labels()
    if (legend := ax.get_legend()) is not None:
        legend.remove()
    top = max(2.0, float(drawn[_RATIO].max()) * 1.1)
    ax.set(xscale="log", xlim=(0.93, top), xlabel="measured over bound", ylabel="")
    ticks = [tick for tick in (1, 1.5, 2, 3, 5, 10, 20, 50) if tick <= top]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.axvline(1, color="black", linewidth=0.6)
    look.grid(ax, "x")
    return list(handles), [f"{float(name):.0f}³" for name in names]


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A row a variant, by dtype: its distance from the bound at each size, and its pipes at one of them."""
    with look.apply(style):
        lines = _lines(study, table)
        if lines.empty:
            return look.empty_figure(study, style, "bounds")
        fig = look.new_figure(style, (2.65 if style.narrow else 2.8) * len(lines) + 40)
        shares = lines[[_OF.format(name) for name in SHOWN]].set_axis(list(SHOWN.values()), axis=1)
        texts = shares.map(lambda n: f"{n:.0f}" if n >= 0.5 else "")
        handles: list[Artist] = []
        names: list[str] = []
        if style.narrow:
            ax = last = fig.subplots()
            texts.insert(
                0, "measured / bound", lines[_RATIO].map(lambda n: f"{n:.2f}" if n == n else "")
            )
            shares.insert(0, "measured / bound", 0.0)
        else:
            ax, last = fig.subplots(1, 2, width_ratios=[1.2, 1])
            handles, names = _dots(ax, lines, table)
        cells(last, texts, shares, style)
        listed(ax, lines, style, 0.5)
        edge = Options.of(study).detail
        last.set_title(
            f"% of the measured cycles at {edge}³",
            loc="right" if style.narrow else "left",
        )
        return look.finish(fig, study, style, handles, names, _notes(table), _STAGES)


def _notes(table: pd.DataFrame) -> list[str]:
    above, known = int((table[_RATIO] < 1).sum()), int(table[_RATIO].notna().sum())
    right = [f"{n} of {of} among {among}" for among, (n, of) in agreement(table).items()]
    scaled = int((table[_FROM] == _EXECUTED).sum())
    return [
        "Bound: what the busiest SM has to do at the rate of the pipe that needs longest. L2 port: 64 bytes a clock "
        "and SM, of what certainly crosses it. DRAM: each array once, less what L2 can hold.",
        "Measured: ncu's elapsed cycles; where it counted none, the duration at the largest clock. Counts of "
        f"{scaled} of {known} cases are executed on a CPU at two small sizes and scaled, the others ncu's.",
        f"{above} of {known} bounds lie above what was measured."
        + (f" The limiter is what ncu counted as busiest in {', '.join(right)}." if right else ""),
    ]
