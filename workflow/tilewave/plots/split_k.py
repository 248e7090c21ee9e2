"""Split-K and stream-K: what sharing a tile among blocks gains, and what its workspace costs.

A row is a shape and tile, a column a way to share its tiles. Speed-ups are over the data-parallel
kernel with the same tile, measured and as the balance of the SMs and the workspace's traffic predict
them; beside them the bytes that the workspace adds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import Field

from tilewave.counters.catalogue import L2_SECTORS
from tilewave.plots import _maps, base
from tilewave.plots import style as look
from tilewave.plots._quantization import percent
from tilewave.plots._sweeps import Resident, blocks_per_sm_of, sms_of
from tilewave.plots.base import StudyData
from tilewave.plots.options import Word
from tilewave.plots.style import Style
from tilewave.theory import quantization, roofline, splitting

READING = (
    "A row is a shape, a column the number of blocks that share a tile: the speed-up as measured, "
    "as the model has it, and what is asked of L2 besides. The best of a row is framed; below a "
    "shape stands how many tiles of which size it has."
)


class Options(Resident):
    """What the studies of this plot may set."""

    data_parallel: Word = Field("hgemm_mma", description="kernel whose blocks take a tile each")
    split_k: Word = Field(
        "hgemm_split_k", description="kernel that splits k, with the macro SPLITS"
    )
    stream_k: Word = Field("hgemm_stream_k", description="kernel that deals out chunks evenly")
    bandwidth: Word = Field(
        "l2_read",
        description="probe case whose bandwidth (TB/s) the workspace's traffic is charged with",
    )
    aim: float | None = Field(
        None, gt=0, le=1000, description="speed-up from which on a cell is bold"
    )


_KERNELS = ("data_parallel", "split_k", "stream_k")
DRAM_BYTES = "dram_bytes"
STREAM = "stream"
_STAGES = ("time",)


def bandwidth(study: StudyData) -> float:
    """TB/s of the probe that the option names; NaN where it was not measured, is not correct, or
    was measured in another environment than most of the durations."""
    wanted = Options.of(study).bandwidth
    found = base.value_of(study, "bandwidth", "time")
    if study.cases.empty or found.empty:
        return math.nan
    names, may_rank = study.cases.set_index("case")["probe_case"], set(base.ranking(study))
    timed = pd.Series(base.environment_of(study, "duration", "time"), dtype=object)
    here = timed[[name for name in timed.index if not base.present(names.get(name))]].mode()
    places = base.environment_of(study, "bandwidth", "time")
    values = [
        float(value)
        for case, value in found.items()
        if names.get(case) == wanted
        and case in may_rank
        and (here.empty or places[str(case)] == here.iloc[0])
    ]
    return values[0] if values else math.nan


def _dealing(
    row: Mapping[str, object], macros: Mapping[str, object], stream: bool, tiles: int, chunks: int
) -> splitting.Dealing:
    """How the case deals its work out, by its macros (SPLITS; JOINED and LEAST) and its grid."""
    if not stream:
        return splitting.split_k(tiles, chunks, int(str(macros.get("SPLITS", 1))))
    joined = macros.get("JOINED")
    return splitting.stream_k(
        tiles, chunks, int(float(str(row["blocks"]))),
        None if joined is None else int(str(joined)), int(str(macros.get("LEAST", 1))),
    )  # fmt: skip


def _key(row: Mapping[str, object]) -> tuple[object, ...]:
    """What two kernels must share to be compared: shape, dtype and tile."""
    return tuple(row[name] for name in ("m", "n", "k", "dtype", "tile_m", "tile_n"))


def cells(study: StudyData) -> pd.DataFrame:
    """One row a case of a splitting kernel that has its data-parallel fellow in the study.

    Columns: case, plain (the fellow's case), shape ((m, n, k)), label, tile, tiles, chunks, per_sm,
    how ("stream" or the number of splits), ranks, duration and plain_duration (us), speed_up,
    alone and waves (predicted speed-up: an SM's blocks share its throughput, or do not disturb each
    other), reduction (us), workspace, traffic (bytes, model), l2 and dram (bytes more than the
    fellow's, counted), rate (`bandwidth`). Missing values are NaN.
    """
    sms = sms_of(study)
    kernels = {role: getattr(Options.of(study), role) for role in _KERNELS}
    if study.cases.empty or sms < 1:
        return pd.DataFrame(columns=["case", "shape"])
    rows = study.cases[study.cases["tile_m"].notna() & study.cases["blocks"].notna()]
    fellows = {
        _key(row): row
        for row in rows[rows["kernel"] == kernels["data_parallel"]].to_dict("records")
    }
    duration = base.value_of(study, "duration", "time")
    environments = base.environment_of(study, "duration", "time")
    extra = {
        "l2": base.value_of(study, L2_SECTORS, "counters").map(roofline.l2_bytes),
        "dram": base.value_of(study, DRAM_BYTES, "counters"),
    }
    may_rank = set(base.ranking(study))
    rate = bandwidth(study)
    found = []
    for row in rows.to_dict("records"):
        fellow = fellows.get(_key(row))
        if row["kernel"] not in (kernels["split_k"], kernels["stream_k"]) or fellow is None:
            continue
        case, plain_case = str(row["case"]), str(fellow["case"])
        stream, macros = row["kernel"] == kernels["stream_k"], base.macros_of(row)
        shape = {name: int(row[name]) for name in "mnk"}
        tile = (int(row["tile_m"]), int(row["tile_n"]))
        step = int(row["tile_k"]) if base.present(row.get("tile_k")) else 1
        tiles, chunks = quantization.tile_count(shape, tile), -(-shape["k"] // step)
        plain = splitting.data_parallel(tiles, chunks)
        dealing = _dealing(row, macros, stream, tiles, chunks)
        per_sm = blocks_per_sm_of(study, {str(key): value for key, value in fellow.items()})
        ranks = case in may_rank and plain_case in may_rank
        own, other = duration.get(case, math.nan), duration.get(plain_case, math.nan)
        same = environments.get(case) == environments.get(plain_case)
        known = 0.0 if math.isnan(rate) else splitting.reduction_time(dealing, tile, sms, rate)
        predicted = [
            splitting.speed_up(dealing, plain, sms, places, other, known) for places in (1, per_sm)
        ]
        found.append(
            {
                "case": case, "plain": plain_case, "shape": tuple(shape.values()),
                "label": base.shape_label(row), "tile": tile, "tiles": tiles,
                "chunks": chunks, "per_sm": per_sm,
                "how": STREAM if stream else str(macros.get("SPLITS", 1)), "ranks": ranks,
                "duration": own, "plain_duration": other,
                "speed_up": other / own if ranks and same else math.nan,
                "alone": predicted[0], "waves": predicted[1],
                "reduction": known if not math.isnan(rate) else math.nan, "rate": rate,
                "workspace": splitting.workspace_bytes(dealing, tile),
                "traffic": splitting.traffic_bytes(dealing, tile),
                **{
                    name: values.get(case, math.nan) - values.get(plain_case, math.nan)
                    if ranks
                    else math.nan
                    for name, values in extra.items()
                },
            }
        )  # fmt: skip
    return pd.DataFrame(found) if found else pd.DataFrame(columns=["case", "shape"])


_COLUMNS: Mapping[str, str] = {
    "how": "splits", "tiles": "tiles", "chunks": "chunks of k", "per_sm": "blocks an SM",
    "plain_duration": "data-parallel duration (us)",
    "speed_up": "speed-up over data-parallel", "alone": "predicted (an SM's blocks share it)",
    "waves": "predicted (whole waves)", "reduction": "of this workspace traffic (us, model)",
    "workspace": "workspace (bytes)", "traffic": "workspace traffic (bytes, model)",
    "l2": "asked of L2 more than data-parallel (bytes, counted)",
    "dram": "DRAM more than data-parallel (bytes, counted)",
}  # fmt: skip


def _cells_of(table: pd.DataFrame) -> pd.DataFrame:
    """The table's rows that `cells` gave, under the names that they have there."""
    if "splits" not in table:
        return pd.DataFrame(columns=["case", "shape"])
    frame = table[table["splits"].notna()].rename(columns={v: k for k, v in _COLUMNS.items()})
    frame["label"] = [base.shape_label(row) for row in frame.to_dict("records")]
    frame["rate"] = base.derived(table)
    frame["shape"] = [tuple(map(int, sizes)) for sizes in frame[["m", "n", "k"]].to_numpy()]
    frame["tile"] = [tuple(map(int, text.split("x"))) for text in frame["tile"]]
    counts = ["tiles", "chunks", "per_sm"]
    return frame.astype(dict.fromkeys(counts, int))


def table(study: StudyData) -> pd.DataFrame:
    """One row a case; those of splitting kernels with speed-ups and bytes beside the predicted."""
    rest = base.base_table(study).set_index("case")
    frame = cells(study)
    if frame.empty:
        return rest.reset_index()
    columns = frame.set_index("case")[list(_COLUMNS)].rename(columns=_COLUMNS)
    columns.insert(0, "tile", [f"{rows}x{columns}" for rows, columns in frame["tile"]])
    timed = base.value_of(study, "duration", "time")
    rest.insert(6, "duration (us)", timed.reindex(rest.index))
    whole = rest.iloc[:, :7].join(columns).join(rest.iloc[:, 7:]).reset_index()
    return base.with_derived(whole, float(frame["rate"].iloc[0]))


# ------------------------------------------------------------------------------------------ figure


def _ways(frame: pd.DataFrame) -> list[str]:
    """The columns: the numbers of splits in order, stream-K."""
    splits = sorted({int(how) for how in frame["how"] if how != STREAM})
    return [*map(str, splits), *([STREAM] if (frame["how"] == STREAM).any() else [])]


def _map(ax: Axes, frame: pd.DataFrame, title: str, style: Style, aim: float | None) -> None:
    """A cell for each product and way to share its tiles, the products of most gain on top."""
    column, norm = _MAPS[title]
    frame = frame.assign(
        row=[f"{label}\n{tiles} of {m}×{n}" for label, tiles, (m, n) in
             zip(frame["label"], frame["tiles"], frame["tile"], strict=True)],
    )  # fmt: skip
    rows = frame.groupby("row", sort=False)["speed_up"].max().sort_values(ascending=False).index

    def told(name: str) -> pd.DataFrame:
        return frame.pivot(index="row", columns="how", values=name).reindex(rows)[_ways(frame)]

    values = told(column).astype(float)
    if column == "l2":
        values /= 1e6
    words = values.map(
        lambda value: f"{value:z.0f}".replace("-", "−") if column == "l2" else f"{value:.2f}"
    )
    _maps.draw(
        ax, values.clip(lower=norm.vmin), words, norm, style,
        told("alone").astype(float) if style.narrow and column == "speed_up" else None,
        framed=column != "l2",
    )  # fmt: skip
    for text in ax.texts:
        if aim is not None and column == "speed_up" and float(text.get_text()) >= aim:
            text.set_fontweight("bold")
    ax.set_xticklabels([way if way != STREAM else "S-K" for way in values])
    ax.set_title(title)


_MEASURED, _MODEL, _BYTES = "Speed-up", "Speed-up, model", "MB more asked of L2"
_MAPS: Mapping[str, tuple[str, Normalize]] = {
    _MEASURED: ("speed_up", LogNorm(0.5, 16)),
    _MODEL: ("alone", LogNorm(0.5, 16)),
    _BYTES: ("l2", LogNorm(1, 4000)),
}


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Speed-ups measured and predicted, and the bytes that they cost, side by side; at a narrow
    width those measured, the best that is predicted marked."""
    with look.apply(style):
        frame = _cells_of(table)
        if frame.empty or frame["speed_up"].isna().all():
            return look.empty_figure(study, style, "speed-up")
        shown = [name for name, (column, _) in _MAPS.items() if frame[column].notna().any()]
        if style.narrow:
            shown = [name for name in shown if name != _MODEL]
        rows = (6.5 if style.narrow else 7.0) * frame.groupby(["shape", "tile"]).ngroups
        down, across = (len(shown), 1) if style.narrow else (1, len(shown))
        fig = look.new_figure(style, down * (rows + 12.0))
        axes = fig.subplots(down, across, squeeze=False).ravel()
        aim = Options.of(study).aim
        for place, (ax, name) in enumerate(zip(axes, shown, strict=True)):
            _map(ax, frame, name, style, aim)
            if place and not style.narrow:
                ax.set_yticks([])
        handles = _maps.legend(style.narrow)
        if aim is not None:
            handles.append(Line2D([], [], linestyle="", label=f"bold: {aim:g} and more"))
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles],
            notes(study, frame)[: 2 if style.narrow else None], _STAGES,
        )  # fmt: skip


def _filled(row: Mapping[str, Any], sms: int) -> str:
    """How the tiles of a product fill the places of the SMs."""
    waves = quantization.waves(int(row["tiles"]), sms, int(row["per_sm"]))
    if not waves.full:
        return "where tiles are fewer than places"
    return "at full waves" if waves.efficiency == 1 else "past a full wave"


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """The largest speed-up of products with few tiles, with a tail, and with full waves."""
    known = _cells_of(table).dropna(subset=["speed_up"]) if "splits" in table else table.iloc[:0]
    best: dict[str, dict[str, Any]] = {}
    if len(known):
        for row in known.sort_values("speed_up", ascending=False).to_dict("records"):
            told = {str(key): value for key, value in row.items()}
            best.setdefault(_filled(told, sms_of(study)), told)
    parts = [f"{row['speed_up']:.2f}× {when} ({_way(row['how'])})" for when, row in best.items()]
    return f"Sharing tiles among blocks reaches {', '.join(parts)}" if parts else ""


def notes(study: StudyData, frame: pd.DataFrame) -> list[str]:
    """How the prediction is made, how far it is off, and the speed-up at the worst tail."""
    sms, rate = sms_of(study), float(frame["rate"].iloc[0])
    per_sm = sorted(set(frame["per_sm"]))
    told = [
        "Columns: blocks that share a tile, S-K is stream-K; speed-ups are over the data-parallel kernel, "
        f"bytes those more than its. {sms} SMs, {' and '.join(map(str, per_sm))} "
        f"block{'s' if per_sm != [1] else ''} an SM at a time.",
        "Model: the data-parallel duration times the chunks of the busiest SM over the data-"
        "parallel ones, "
        + (
            f"plus the workspace's bytes at {rate:.3g} TB/s, an SM having its share of them."
            if not math.isnan(rate)
            else "without the workspace's bytes (no bandwidth was measured)."
        ),
    ]
    known = frame[frame["speed_up"].notna()]
    for column, words in (("alone", "an SM's blocks share it"), ("waves", "whole waves")):
        if column == "waves" and per_sm == [1]:
            continue
        error = quantization.prediction_error(list(known["speed_up"] / known[column] - 1))
        at = known.iloc[error.place]
        told.append(
            f"Error of the model ({words}): median {percent(error.median)}, worst "
            f"{percent(error.worst)} ({at['label']}, {_way(at['how'])})."
        )
    best = known.loc[known["speed_up"].idxmax()]
    told.append(
        f"Largest speed-up: {best['speed_up']:.2f} at {best['label']} ({_way(best['how'])})."
    )
    for (rows, columns), group in known.groupby("tile", sort=False):
        tail = worst_tail(group, sms)
        if len(tail):
            top = tail.loc[tail["speed_up"].idxmax()]
            told.append(
                f"Worst tail wave of {rows}×{columns} tiles, {top['label']}: {top['tiles']} where "
                f"{sms * int(top['per_sm'])} run at a time; the best is {_way(top['how'])} at "
                f"{top['speed_up']:.2f}."
            )
    return told


def _way(how: str) -> str:
    return "stream-K" if how == STREAM else f"{how} splits"


def worst_tail(frame: pd.DataFrame, sms: int) -> pd.DataFrame:
    """The rows of the shape and tile that fill at least one wave of what the SMs hold and leave
    most of their waves' places empty; none where no product fills a wave."""
    waves = [
        quantization.waves(tiles, sms, per_sm)
        for tiles, per_sm in zip(frame["tiles"], frame["per_sm"], strict=True)
    ]
    efficiency = pd.Series(
        [found.efficiency if found.full else math.nan for found in waves], index=frame.index
    )
    return frame[efficiency == efficiency.min()] if efficiency.notna().any() else frame.iloc[:0]
