"""The quantization explorer: closed forms for a shape, a tile and a GPU, beside measured sweeps.

explorer.js has the closed forms of `theory.quantization` and `theory.tiling`, and tests compare both. This
module renders the page's first view, which readers without JavaScript see, and passes on the sweeps.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd

from tilewave.report.studies import StudyView
from tilewave.report.summary import device_name
from tilewave.theory import quantization, tiling

WIDTH, HEIGHT = 640, 280
LEFT, TOP, RIGHT, BOTTOM = 84, 12, 624, 232
"""The efficiency plot and its frame, in units of its SVG."""
MOST_ROWS = 24
HEADINGS = (
    "N", "tiles", "waves", "in the last wave", "last column useful", "tile efficiency",
    "wave efficiency", "efficiency",
)  # fmt: skip
"""Titles of `values`; 0 blocks in the last wave mean a full one."""
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

    @property
    def shape(self) -> dict[str, int]:
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def tile(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def waves(self) -> quantization.Waves:
        count = quantization.tile_count(self.shape, self.tile)
        return quantization.waves(count, self.sms, self.blocks)

    def efficiency(self, n: int) -> float:
        """Return tile efficiency times wave efficiency at another N, in (0, 1]."""
        shape = {**self.shape, "n": n}
        return tiling.parallel_efficiency(shape, self.tile, self.sms, self.blocks)


DEFAULT = Setting(2304, 1800, 4096, 256, 128, 132, 1)
"""First setting where a run has no sweep: a shape from the documents, on an H200."""


@dataclass(frozen=True)
class ExplorerSweep:
    """Measured points over N of one variant; `points` are (N, TFLOP/s, efficiency).

    A point's efficiency is its throughput over that of a wave without waste. The study fits one number to
    the sweep, the time of such a wave (`wave_us`).
    """

    study: str
    title: str
    variant: str
    dtype: str
    gpu: str
    source: str
    setting: Setting
    wave_us: float
    points: list[tuple[int, float, float]]

    @property
    def label(self) -> str:
        setting = self.setting
        return (
            f"{self.title}: {self.variant}, M = {setting.m}, K = {setting.k}, tile {setting.rows} × "
            f"{setting.columns}, {setting.blocks} an SM, {self.gpu}"
        )


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
            setting = Setting(
                int(m), int(group["n"].min()), int(k), rows, columns,
                int(facts["sms"]), capacity // int(facts["sms"]),
            )  # fmt: skip
            wave = float(first["duration (us, model)"] / first["waves (model)"])
            full = rows * columns * capacity / wave  # outputs a microsecond
            points = [
                (int(n), round(rate, 1), round(int(m) * n / time / full, 4))
                for n, rate, time in zip(group["n"], group["TFLOP/s"], group["duration (us)"])
            ]
            collected.append(
                ExplorerSweep(
                    study.name, study.title, str(variant), str(first["dtype"]), device_name(facts),
                    str(first["source"]), setting, round(wave, 2), sorted(points),
                )
            )  # fmt: skip
    return collected


def first_setting(sweep: ExplorerSweep | None) -> Setting:
    """Return a sweep's setting at the first measured N that begins another wave."""
    if sweep is None:
        return DEFAULT
    settings = [replace(sweep.setting, n=n) for n, _, _ in sweep.points]
    steps = (b for a, b in itertools.pairwise(settings) if b.waves.count > a.waves.count)
    return next(steps, settings[-1])


def span(setting: Setting, sweep: ExplorerSweep | None) -> tuple[int, int]:
    """Return the first and last N of the plot: the sweep and the setting with a margin."""
    sizes = [setting.n, *([n for n, _, _ in sweep.points] if sweep else ())]
    low, high = min(sizes), max(sizes)
    room = max(setting.columns, (high - low) // 20)
    return max(1, low - room), high + room


def curve(setting: Setting, low: int, high: int) -> list[tuple[int, float]]:
    """Return (N, efficiency) at both ends of each tile column; between them it grows linearly."""
    sizes = []
    for column in range(-(-low // setting.columns), -(-high // setting.columns) + 1):
        sizes += [
            max(low, (column - 1) * setting.columns + 1),
            min(high, column * setting.columns),
        ]
    return [(n, setting.efficiency(n)) for n in sizes]


def values(setting: Setting) -> list[str]:
    """Return the closed forms at the setting's N as a row of the page's table."""
    rows, columns = quantization.tiles(setting.shape, setting.tile)
    waves = setting.waves
    shares = (
        quantization.last_column_useful(setting.shape, setting.tile),
        quantization.tile_efficiency(setting.shape, setting.tile),
        waves.efficiency,
        setting.efficiency(setting.n),
    )
    return [
        str(setting.n), f"{rows} × {columns}", str(waves.count), str(waves.tail),
        *(percent(share) for share in shares),
    ]  # fmt: skip


def percent(share: float) -> str:
    """Format a share with one decimal, half rounded up as the page's script does."""
    tenths = math.floor(1000 * share + 0.5)
    return f"{tenths // 10}.{tenths % 10} %"


def table(setting: Setting, low: int, high: int) -> list[list[str]]:
    """Return `values` at the ends of tile columns, at most MOST_ROWS."""
    sizes = list(dict.fromkeys(n for n, _ in curve(setting, low, high)))
    return [values(replace(setting, n=n)) for n in sizes[:: -(-len(sizes) // MOST_ROWS)]]


@dataclass(frozen=True)
class Plot:
    """The efficiency plot: a path, points (x, y, tooltip), ticks (position, label)."""

    path: str
    points: list[tuple[str, str, str]]
    across: list[tuple[str, str]]
    up: list[tuple[str, str]]


def plot(setting: Setting, sweep: ExplorerSweep | None) -> Plot:
    """Return the plot of the setting's efficiency against N, with the sweep's points."""
    low, high = span(setting, sweep)
    measured = sweep.points if sweep else []
    top = math.ceil(10 * max([1.0, *(share for _, _, share in measured)]) - 1e-9) / 10

    def x(n: float) -> str:
        return f"{LEFT + (RIGHT - LEFT) * (n - low) / (high - low):.1f}"

    def y(share: float) -> str:
        return f"{BOTTOM - (BOTTOM - TOP) * share / top:.1f}"

    step = 1
    while (high - low) / step > 6:
        step *= 2
    return Plot(
        "M" + "L".join(f"{x(n)} {y(share)}" for n, share in curve(setting, low, high)),
        [
            (x(n), y(share), f"N = {n}: {rate:.1f} TFLOP/s, {percent(share)}")
            for n, rate, share in measured
        ],
        [(x(n), str(n)) for n in range(-(-low // step) * step, high + 1, step)],
        [(y(share), f"{round(100 * share)} %") for share in (0, 0.25, 0.5, 0.75, 1.0)],
    )


def view(measured: Sequence[ExplorerSweep]) -> dict[str, Any]:
    """Return the template's context: setting, plot and table of the sweep with the most points, all sweeps."""
    sweep = max(measured, key=lambda candidate: len(candidate.points), default=None)
    setting = first_setting(sweep)
    work = 2 * setting.m * setting.n * setting.k / 1e9
    return {
        "setting": setting,
        "sweep": sweep,
        "plot": plot(setting, sweep),
        "headings": HEADINGS,
        "now": values(setting),
        "work": f"{work:.3f}",
        "executed": f"{quantization.operations_ratio(setting.shape, setting.tile):.3f}",
        "rows": table(setting, *span(setting, sweep)),
        "frame": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "top": TOP, "right": RIGHT,
                  "bottom": BOTTOM},
        "dtypes": sorted({candidate.dtype for candidate in measured}),
        "data": {
            "setting": asdict(setting),
            "sweeps": [{**asdict(candidate), "label": candidate.label} for candidate in measured],
        },
    }  # fmt: skip
