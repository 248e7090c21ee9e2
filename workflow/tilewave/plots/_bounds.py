"""Bounds of a study's products: the least cycles by their counts, the limiter, and the distance to the measured cycles.

Counts are executed ones where possible: two products of whole tiles that differ in k give those of any other
(`theory.bounds.scaled`). Counts are ncu's where that does not hold (stream-K, operands that another launch
prepares) and for kernels without machine code here (cuBLAS).
"""

import functools
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from tilewave.plots import base
from tilewave.plots._ceilings import ceilings
from tilewave.plots.base import StudyData
from tilewave.records.columns import LAUNCHES
from tilewave.records.counters import catalogue, demand
from tilewave.records.counters.catalogue import AVERAGE, ELAPSED, L2_SECTORS, PIPE
from tilewave.theory import bounds, quantization, roofline
from tilewave.theory.bounds import Counts
from tilewave.theory.data_sheets import DataSheet, data_sheet
from tilewave.theory.dtypes import product_sizes
from tilewave.theory.traffic import compulsory_bytes

DATA_PIPE = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
DRAM_BYTES, _GRID = "dram_bytes", "launch__grid_size"
SM_PIPES: Mapping[str, str] = {
    bounds.ISSUE: catalogue.ISSUED.name, bounds.TENSOR: PIPE.format("tensor"), bounds.FP32: PIPE.format("fma"),
    bounds.FP64: PIPE.format("fp64"),
}  # fmt: skip
L2, L2_PROBE = "L2", "l2_read"
"""The pipe, and the probe case whose bandwidth is its rate."""
PIPES = (
    bounds.ISSUE, bounds.FP32, bounds.FP64, bounds.TENSOR, bounds.DATA, bounds.PORT, bounds.DRAM,
)  # fmt: skip
"""Pipes whose share of the measured cycles is a column."""
EXECUTED, COUNTED = "executed, scaled", "ncu"
LIMITER, RATIO, COUNTS = "limiter", "measured over bound", "counts"
_BUSIEST, _AMONG, _ALL_UNITS, _SM = "busiest by ncu", "among", "SM, L2 and DRAM", "pipes of the SM"
_LEAST, _TIME = "bound (cycles)", "bound (us at the largest clock)"
_CYCLES, _SHARE = "measured (cycles)", "{} (% of measured)"
COLUMNS = (
    COUNTS, LIMITER, _BUSIEST, _AMONG, _LEAST, _TIME, _CYCLES, RATIO, *map(_SHARE.format, PIPES),
)  # fmt: skip


def gpu_of(study: StudyData) -> DataSheet | None:
    """Return the data sheet of the GPU that timed most cases; None where it is not known."""
    timed = pd.Series(base.environment_of(study, "duration", "time"), dtype=object)
    if timed.empty:
        return None
    return data_sheet(str(study.environments.get(str(timed.mode()[0]), {}).get("gpu") or ""))


_CountsOf = Callable[[str, str], Counts | None]


def _counted(study: StudyData) -> _CountsOf:
    """Return a function of case and stage: the work that was counted there for the pipes; None where nothing was."""
    wanted = study.records["metric"].isin(demand.COUNTERS) & (study.records["status"] == "ok")
    values = {
        key: dict(zip(part["metric"], part["value"].astype(float), strict=True))
        for key, part in study.records[wanted].groupby(["case", "stage"], sort=False)
    }
    rows = study.instructions
    groups: Any = rows.groupby(["case", "stage"], sort=False).indices if "stage" in rows else {}
    rows = rows[[name for name in demand.COLUMNS if name in rows]]

    @functools.cache
    def counts_of(*key: str) -> Counts | None:
        counters = values.get(key, {})
        if catalogue.WARP_INSTRUCTIONS not in counters:
            return None
        return demand.of_launch(counters, rows.take(groups.get(key, [])).to_dict("records"))

    return counts_of


def _blocks(row: Mapping[str, Any]) -> int:
    """Return the blocks of a launch that have work; 0 where the launch is not known (cuBLAS). Persistent blocks,
    whose front matter counts tiles as blocks, count as they are: stream-K assigns parts of tiles."""
    counts = [row[name] for name in ("working_blocks", "blocks") if base.present(row[name])]
    return int(min(counts, default=0))


def _sharing(row: Mapping[str, Any]) -> float:
    """Return how many blocks share a tile (at least 1: a block may have several tiles)."""
    return max(1.0, _blocks(row) / _tiles(row))


def _tiles(row: Mapping[str, Any]) -> int:
    return quantization.tile_count(row, (row["tile_m"], row["tile_n"]))


Samples = Mapping[str, list[list[dict[str, Any]]]]
"""Executed products by variant: a list for each m and n, from small to large k."""


def samples(study: StudyData) -> Samples:
    """Return the executed products of each variant that ran at more than one k."""
    executed = study.records.loc[study.records["stage"] == "execute", "case"]
    cases = study.cases[study.cases["case"].isin(executed) & study.cases["tile_m"].notna()]
    groups = cases.sort_values("k", kind="stable").groupby(["variant", "m", "n"], sort=False)
    sampled: dict[str, list[list[dict[str, Any]]]] = {}
    for (variant, *_), rows in groups:
        if rows["k"].nunique() > 1:
            sampled.setdefault(str(variant), []).append(rows.to_dict("records"))
    return sampled


def helpers(study: StudyData, sampled: Samples) -> set[str]:
    """Return the cases that only serve the bounds of others: small products to be scaled, and the probe of L2."""
    groups = [group for of_variant in sampled.values() for group in of_variant]
    probes = study.cases.loc[study.cases["probe_case"] == L2_PROBE, "kernel"]
    probed = study.cases.loc[study.cases["kernel"].isin(probes), "case"]
    return {*probed, *(str(row["case"]) for group in groups for row in group)}


def _grows(row: Mapping[str, Any], sample: Mapping[str, Any]) -> bool:
    """Return whether all launches of a case have as many more blocks than a sample's as there are more tiles.
    A launch that copies rows does not: its work grows with one side of the product."""
    if not base.present(row.get(LAUNCHES)):
        return True
    launches, sample_launches = json.loads(row[LAUNCHES]), json.loads(sample[LAUNCHES])
    return all(
        math.prod(launch["grid"]) * _tiles(sample) == math.prod(sample_launch["grid"]) * _tiles(row)
        for launch, sample_launch in zip(launches, sample_launches, strict=True)
    )


def _scaled(
    row: Mapping[str, Any], groups: list[list[dict[str, Any]]], counts_of: _CountsOf
) -> Counts | None:
    """Return the counts of a case from two executed ones of the same tile; None where they do not determine them."""
    for group in groups:
        alike = [
            (sample, executed)
            for sample in group
            if (executed := counts_of(sample["case"], "execute"))
            and (sample["tile_m"], sample["tile_n"]) == (row["tile_m"], row["tile_n"])
            # Blocks also execute a tile's part outside the product, and maybe whole clusters of such tiles.
            and sample["m"] % sample["tile_m"] == 0 == sample["n"] % sample["tile_n"]
            and _grows(row, sample)
            and _sharing(sample) == _sharing(row)
        ]
        if alike and alike[0][0]["k"] != alike[-1][0]["k"]:
            (first, shallow), (last, deep) = alike[0], alike[-1]
            depth = (row["k"] - first["k"]) / (last["k"] - first["k"])
            return bounds.scaled(shallow, deep, depth, _tiles(row) / _tiles(first))
    return None


def _busiest(
    counts: Counts, values: Mapping[str, float], gpu: DataSheet, l2: float
) -> dict[str, float]:
    """Return the share of its cycles (1) that each pipe works, from ncu's counts of launch and cycles.
    Pipes of the SM are averaged over all SMs. L2 works at its measured bandwidth (TB/s), DRAM at that of the data
    sheet. The data path has ncu's own percentage where it is recorded, which includes conflicts of global accesses."""
    cycles = values[ELAPSED]
    needed = bounds.bound(counts, gpu, gpu.sms).pipes
    shares = {key: needed[key] / cycles for key in PIPES if key not in (bounds.PORT, bounds.DRAM)}
    seconds = cycles / gpu.clock_mhz / 1e6
    moved = roofline.l2_bytes(values[L2_SECTORS])
    if not math.isnan(values[DATA_PIPE]):
        shares[bounds.DATA] = values[DATA_PIPE] / 100
    if not math.isnan(l2 + moved):
        shares[L2] = moved / (l2 * 1e12) / seconds
    if not math.isnan(values[DRAM_BYTES]):
        shares[bounds.DRAM] = values[DRAM_BYTES] / gpu.machine.bandwidth / seconds
    return shares


def _busiest_of_sm(counts: Counts, values: Mapping[str, float], gpu: DataSheet) -> dict[str, float]:
    """Return the same where ncu measured an SM's pipes alone: their percentages.
    ncu does not measure the data path there: its share follows from the counts."""
    share = values[AVERAGE] / values[ELAPSED] / 100
    shares = {pipe: values[name] * share for pipe, name in SM_PIPES.items()}
    needed = bounds.bound(counts, gpu, gpu.sms).pipes[bounds.DATA]
    return {**shares, bounds.DATA: needed / values[ELAPSED]}


def by_case(study: StudyData, sampled: Samples) -> pd.DataFrame:
    """Return one row per product that was timed and whose counts are known, with COLUMNS."""
    gpu, counts_of, skipped = gpu_of(study), _counted(study), helpers(study, sampled)
    wanted = [ELAPSED, AVERAGE, DATA_PIPE, L2_SECTORS, DRAM_BYTES, _GRID, *SM_PIPES.values()]
    counters = base.pivot(study, wanted, "counters")
    timed = base.value_of(study, "duration", "time")
    rate = ceilings(study).bandwidths.get("l2", math.nan)
    rows: dict[str, dict[str, Any]] = {}
    for row in study.cases[study.cases["operation"] == "matmul"].to_dict("records"):
        case = str(row["case"])
        if gpu is None or case not in timed.index or case in skipped:
            continue
        counted, asks = counts_of(case, "counters"), None
        if base.present(row["tile_m"]):
            asks = _scaled(row, sampled.get(str(row["variant"]), []), counts_of)
        source = COUNTED if asks is None else EXECUTED
        asks = asks or counted
        if asks is None:
            continue
        try:
            moved = compulsory_bytes(row, *product_sizes(str(row["dtype"])))
            blocks = _blocks(row) or int(counters.at[case, _GRID])
            least = bounds.bound(asks, gpu, blocks, moved)
        except KeyError:  # a tensor instruction whose rate is not known of this GPU
            continue
        values = counters.loc[case]
        # Without counted cycles: the most that the largest clock allows in this time.
        counted_cycles = not math.isnan(values[ELAPSED])
        cycles = values[ELAPSED] if counted_cycles else timed[case] * gpu.clock_mhz
        rows[case] = {
            COUNTS: source, LIMITER: least.limiter, _LEAST: least.cycles, _TIME: least.microseconds,
            _CYCLES: cycles, RATIO: cycles / least.cycles,
            **{_SHARE.format(name): 100 * least.pipes[name] / cycles for name in PIPES},
        }  # fmt: skip
        if counted is not None and counted_cycles:
            shares, among = _busiest(counted, values, gpu, rate), _ALL_UNITS
        elif values[[ELAPSED, AVERAGE, *SM_PIPES.values()]].notna().all():
            shares, among = _busiest_of_sm(asks, values, gpu), _SM
        else:
            continue
        rows[case] |= {_BUSIEST: max(shares, key=shares.__getitem__), _AMONG: among}
    return pd.DataFrame.from_dict(rows, orient="index").reindex(columns=list(COLUMNS))


def agreement(table: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return, for each set of pipes that ncu measured, how often its busiest is the limiter, and of how many."""
    both = table[table[LIMITER].notna() & table[_BUSIEST].notna()]
    right = (both[LIMITER] == both[_BUSIEST]).groupby(both[_AMONG], sort=False)
    return {str(among): (int(part.sum()), len(part)) for among, part in right}
