"""The quantization explorer: measured sweeps for the page, whose script has the closed forms.

explorer.js has the closed forms of `theory.quantization` and `theory.tiling`, and tests compare both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from tilewave.report.studies import StudyView
from tilewave.report.summary import device_name

_COLUMNS = ("blocks / capacity", "blocks with work", "waves (model)", "duration (us, model)")


@dataclass(frozen=True)
class Setting:
    """A product, the output tile of a block, and the GPU; sizes in elements."""

    m: int
    n: int
    k: int
    rows: int
    columns: int
    sms: int
    blocks: int


DEFAULT = Setting(2304, 1800, 4096, 256, 128, 132, 1)
"""First setting where a run has no sweep: a shape from the documents, on an H200."""


@dataclass(frozen=True)
class ExplorerSweep:
    """Measured points over N of one variant; `points` are (N, TFLOP/s, efficiency).

    A point's efficiency is its throughput over that of a wave without waste. The study fits one number to
    the sweep, the time of such a wave (`wave_us`).
    """

    study: str
    label: str
    dtype: str
    gpu: str
    source: str
    setting: Setting
    wave_us: float
    points: list[tuple[int, float, float]]


def sweeps(
    shown: Sequence[StudyView],
    cases: pd.DataFrame,
    records: pd.DataFrame,
    environments: Mapping[str, Mapping[str, Any]],
) -> list[ExplorerSweep]:
    """Return the sweeps over N in the studies' tables with model and measured durations, correct cases only."""
    timed = records[(records["stage"] == "time") & records["value"].notna()]
    environment_of = dict(zip(timed["case"].astype(str), timed["environment"].astype(str)))
    tiles = cases.set_index("case")[["tile_m", "tile_n"]]
    collected = []
    for study in shown:
        data = study.data
        if data is None or not set(_COLUMNS) <= set(data.columns):
            continue
        good = data[(data["verdict"] == "correct") & data["duration (us)"].notna()]
        good = good[good["case"].isin(environment_of) & good["case"].isin(tiles.index)]
        for (variant, m, k), group in good.groupby(["variant", "m", "k"], sort=False):
            first = group.iloc[0]
            facts = environments[environment_of[str(first["case"])]]
            capacity = round(first["blocks with work"] / first["blocks / capacity"])
            rows, columns = (int(size) for size in tiles.loc[first["case"]])
            blocks, n = capacity // int(facts["sms"]), int(group["n"].min())
            setting = Setting(int(m), n, int(k), rows, columns, int(facts["sms"]), blocks)
            wave = float(first["duration (us, model)"] / first["waves (model)"])
            full = rows * columns * capacity / wave  # outputs a microsecond
            points = [
                (int(n), round(rate, 1), round(int(m) * n / time / full, 4))
                for n, rate, time in zip(group["n"], group["TFLOP/s"], group["duration (us)"])
            ]
            gpu = device_name(facts)
            label = (
                f"{study.title}: {variant}, M = {m:.0f}, K = {k:.0f}, tile {rows} × {columns}, "
                f"{blocks} an SM, {gpu}"
            )
            collected.append(
                ExplorerSweep(
                    study.name, label, str(first["dtype"]), gpu, str(first["source"]), setting,
                    round(wave, 2), sorted(points),
                )
            )  # fmt: skip
    return collected


def view(measured: Sequence[ExplorerSweep]) -> dict[str, Any]:
    """Return the template's context; the first setting is that of the sweep with the most points."""
    sweep = max(measured, key=lambda candidate: len(candidate.points), default=None)
    setting = asdict(sweep.setting if sweep else DEFAULT)
    return {
        "setting": setting,
        "sweep": sweep,
        "dtypes": sorted({candidate.dtype for candidate in measured}),
        "data": {"setting": setting, "sweeps": [asdict(candidate) for candidate in measured]},
    }
