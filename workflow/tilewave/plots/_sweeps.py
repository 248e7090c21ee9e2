"""Sweeps over N of the quantization figures: measurements beside the closed forms, case by case.

A sweep is a variant at one M and K over many N. The model takes a single number from the measurements, the time of a
wave: the median over the sweep of duration over waves. Places and heights of the steps are closed forms. Where a
kernel's tile changes with the shape, a wave counts as its tile's share of the largest tile of the sweep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd

from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots.base import BASELINE, StudyData, case_order
from tilewave.records.counters.catalogue import AVERAGE, BUSIEST, WAVES
from tilewave.theory import occupancy, quantization

Tile = tuple[int, ...]
VENDOR_TILE = ("cublas_tile_m", "cublas_tile_n")


@dataclass(frozen=True)
class Sweep:
    """A variant at one M and K: `frame` has a row for each N, ascending.

    Columns: case, n, ranks, tflops, duration (us), the same and the tile of cuBLAS (cublas_...), columns (of tiles),
    tiles, blocks, waves, work (waves of the largest tile), rounds, wave_fraction, model_ratio, ratio, model_useful,
    useful, model_active, active, cycles (of the busiest SM), counted_waves; missing values are NaN, names "".
    `model` has the model's columns at every whole N between the first and the last.
    `tile` is the largest one of the sweep.
    """

    variant: str
    kernel: str
    m: int
    k: int
    tile: Tile
    sms: int
    blocks_per_sm: int
    frame: pd.DataFrame = field(repr=False)
    model: pd.DataFrame = field(repr=False)

    def _good(self, *names: str) -> list[pd.Series[float]]:
        rows = self.frame[self.frame["ranks"]]
        return [rows[name] for name in names]

    @property
    def wave_time(self) -> float:
        """Median duration of a wave in us; NaN where nothing was timed."""
        return quantization.fitted_time(*self._good("duration", "work"))

    def errors(self, column: str = "duration") -> pd.Series[float]:
        """Return measured over predicted, less 1, row by row; NaN without a value or a rank.
        column: duration (us) or cycles, predicted by the work times one fitted number."""
        predicted = self.frame["work"] * quantization.fitted_time(*self._good(column, "work"))
        return (self.frame[column] / predicted - 1).where(self.frame["ranks"])

    def summary(self, column: str = "duration") -> quantization.PredictionError:
        """Return median and worst of these errors."""
        return quantization.prediction_error(list(self.errors(column)))

    def edges(self, column: str) -> list[tuple[float, int, int]]:
        """Return (last N before, value before, value after) of each rise of a count."""
        counts = self.frame[column].astype(int)
        points = itertools.pairwise(zip(self.frame["n"].astype(float), counts, strict=True))
        return [(n, count, more) for (n, count), (_, more) in points if more > count]


def sms_of(study: StudyData) -> int:
    return int(study.target.get("sms") or study.environment.get("sms") or 0)


def sm_limits(study: StudyData) -> occupancy.SmLimits:
    """Return the SM of the study's target; without its facts that of compute capability 9.0."""
    if limits := occupancy.SmLimits.if_known(study.environment):
        return limits
    capability = str(study.environment.get("compute_capability", "9.0"))
    return occupancy.TURING if capability.startswith("7") else occupancy.HOPPER


def blocks_per_sm_of(study: StudyData, row: Mapping[str, object]) -> int:
    """Return the blocks of an SM by the occupancy rules with the environment's limits; at least 1."""
    numbers: list[Any] = [row.get(name) for name in ("block_threads", "registers", "shared_bytes")]
    closed_form = occupancy.if_known(sm_limits(study), *numbers)
    return max(1, closed_form.blocks) if closed_form else 1


@cache
def _counts(blocks: int, sms: int, per_sm: int) -> Mapping[str, float]:
    """Return the figures that depend on the number of blocks alone, which many N of a sweep share."""
    waves = quantization.waves(blocks, sms, per_sm)
    return {
        "blocks": blocks,
        "waves": waves.count,
        "rounds": quantization.rounds_on_sms(blocks, sms),
        "wave_fraction": waves.fraction,
        "model_active": quantization.cycles_active_ratio(blocks, sms),
    }


def _area(tile: Tile) -> int:
    return math.prod(tile[:2])


def _model(
    shape: Mapping[str, int], tile: Tile, largest: Tile, sms: int, per_sm: int, blocks: int | None
) -> dict[str, float]:
    """Return the closed forms at one shape; blocks: those with work, None for one a tile."""
    tiles = quantization.tile_count(shape, tile)
    ratio = quantization.operations_ratio(shape, tile)
    counts = _counts(tiles if blocks is None else blocks, sms, per_sm)
    return {
        "columns": quantization.tiles(shape, tile)[1],
        "tiles": tiles,
        **counts,
        "work": counts["waves"] * _area(tile) / _area(largest),
        "model_ratio": ratio,
        "model_useful": 1 / ratio,
    }


def _vendor(study: StudyData, cases: pd.Series[str]) -> pd.DataFrame:
    """Return cuBLAS's figures by case: the paired, else those of its correct case of equal sizes, dtype and layouts."""
    rows = study.cases.to_dict("records")
    keys = [str([row["m"], row["n"], row["k"], row["dtype"], base.layouts_of(row)]) for row in rows]
    products = pd.Series(keys, case_order(study), dtype=object)
    values = base.pivot(study, ["tflops", "duration"], "time")
    values = values.join(base.pivot(study, VENDOR_TILE, "counters"))
    values["cublas_ratio"] = base.over_2mnk(study, base.COUNTED_TENSOR_FLOPS)
    values["cublas_kernel"] = pd.Series(base.text_of(study, "kernel_name"), dtype=object)
    vendors = study.cases.loc[study.cases["kernel"] == BASELINE, "case"]
    vendor_rows = values[values.index.isin(vendors) & values.index.isin(base.ranking(study))]
    vendor_rows = vendor_rows.set_axis(products[vendor_rows.index]).groupby(level=0).last()
    beside = vendor_rows.reindex(products[cases]).set_axis(pd.Index(cases))
    paired = base.pivot(study, ["baseline_tflops", "baseline_duration"], "time").loc[beside.index]
    paired_too = paired["baseline_tflops"].notna()
    for name in ("tflops", "duration"):
        beside[f"cublas_{name}"] = beside[name].mask(paired_too, paired[f"baseline_{name}"])
    return beside.drop(columns=["tflops", "duration"]).fillna({"cublas_kernel": ""})


def sweeps(study: StudyData) -> list[Sweep]:
    """Return the study's sweeps in the config's order. Cases without a tile are skipped. cuBLAS stands beside the
    others: its paired figure, else its own case of the shape."""
    sms, all_sweeps = sms_of(study), []
    tiled = study.cases.dropna(subset=["m", "n", "k", "tile_m", "tile_n"])
    tiled = tiled[(tiled["kernel"] != BASELINE) & (sms > 0)]
    measured = base.pivot(study, ["tflops", "duration"], "time").loc[tiled["case"]]
    measured = measured.join(_vendor(study, tiled["case"]))
    counted = base.pivot(study, [WAVES, AVERAGE, BUSIEST])
    measured["cycles"], measured["counted_waves"] = counted[BUSIEST], counted[WAVES]
    measured["active"] = counted[AVERAGE] / counted[BUSIEST]
    measured["ratio"] = base.over_2mnk(study, base.COUNTED_TENSOR_FLOPS)
    measured["useful"] = 1 / measured["ratio"]
    measured["ranks"] = measured.index.isin(base.ranking(study))
    for (variant, m, k), group in tiled.groupby(["variant", "m", "k"], sort=False):
        head = group.iloc[0].to_dict()
        sides = [name for name in ("tile_m", "tile_n", "tile_k") if name in group]
        tiles = {
            str(row["case"]): tuple(int(row[name]) for name in sides if base.present(row[name]))
            for row in group.to_dict("records")
        }
        largest, alike = max(tiles.values(), key=_area), len({*tiles.values()}) == 1
        per_sm = blocks_per_sm_of(study, head)
        rows = []
        for row in group.to_dict("records"):
            case, n = str(row["case"]), int(row["n"])
            shape, tile = {"m": int(m), "n": n, "k": int(k)}, tiles[case]
            blocks = int(row["working_blocks"]) if base.present(row["working_blocks"]) else None
            pair = [*map(int, measured.loc[case, [*VENDOR_TILE]].dropna())]
            form = _model(shape, tile, largest, sms, per_sm, blocks)
            rows.append(
                {
                    "case": case, "n": n, **form,
                    "cublas_tile_ratio": quantization.operations_ratio(shape, pair) if pair else math.nan,
                }
            )  # fmt: skip
        frame = pd.DataFrame(rows).join(measured, on="case").sort_values("n", ignore_index=True)
        model = frame[["n", *form]]
        if alike and (frame["blocks"] == frame["tiles"]).all():
            sizes = range(int(frame["n"].min()), int(frame["n"].max()) + 1)
            shapes = [{"m": int(m), "n": n, "k": int(k)} for n in sizes]
            forms = [_model(shape, largest, largest, sms, per_sm, None) for shape in shapes]
            model = pd.DataFrame(forms).assign(n=sizes)
        about = str(variant), str(head["kernel"]), int(m), int(k)
        all_sweeps.append(Sweep(*about, largest, sms, per_sm, frame, model))
    return all_sweeps


_COLUMNS: Mapping[str, str] = table_beside(__file__)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case of a sweep: measured and predicted values, then the status."""
    base_rows, all_sweeps, parts = base.base_table(study), sweeps(study), []
    for sweep in all_sweeps:
        summary = sweep.summary()
        part = sweep.frame.assign(
            model_duration=sweep.frame["work"] * sweep.wave_time,
            error=100 * sweep.errors(),
            median=100 * summary.median,
            worst=100 * summary.worst,
            cycles_error=100 * sweep.errors("cycles"),
        )
        parts.append(part.set_index("case")[list(_COLUMNS)].rename(columns=_COLUMNS))
    if not parts:
        return base.with_derived(base_rows.reset_index(drop=True), all_sweeps)
    columns = pd.concat(parts)
    base_rows = base_rows[base_rows.index.isin(columns.index)]
    return base.with_derived(base.with_columns(base_rows, dict(columns)), all_sweeps)
