"""Best variant by shape: the winner of each race as a share of cuBLAS, and what the model would pick.

A race is run between all variants of one dtype at one shape (`tilewave.racing`). The model knows of
each variant its tile, its blocks and how many of them an SM holds, and one of its durations, at the
dtype's largest shape; from that it predicts the others as waves times the time of a wave
(`tilewave.theory.selection`) and picks a variant. Regret: by how much the pick is slower than the
best, both as measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, Style
from tilewave.theory import selection
from tilewave.theory.occupancy import SmLimits

READING = (
    "A row is a shape: the dot is the speed of the fastest variant in % of cuBLAS's, the diamond "
    "that of the variant which the model picks. The gap between them is what the wrong pick costs."
)
STAGE = "tune"
DURATION = "tune_duration"
BEHIND = "tune_behind"
_SIZES = ("m", "n", "k")
_MARKS: Mapping[str, Mapping[str, Any]] = {
    "pick": {"marker": "D", "color": "white", "edgecolor": INK, "s": 26, "linewidth": 0.8},
    "best": {"marker": "o", "color": "#332288", "s": 13, "linewidth": 0},
}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """One race: its own candidates and what was measured of them, in one environment.

    own, vendor: case -> microseconds, of correct cases of this project's kernels and of cuBLAS (one
    for each of its layouts). predicted, shared: case -> microseconds by the model, with whole waves
    and with a last wave whose blocks share an SM's speed (`selection.wave_count`). rows: case -> row
    of the table of cases.
    """

    dtype: str
    shape: Mapping[str, int]
    environment: str
    own: Mapping[str, float]
    vendor: Mapping[str, float]
    predicted: Mapping[str, float]
    shared: Mapping[str, float]
    rows: Mapping[str, Row]
    calibration: bool

    @property
    def ranked(self) -> list[str]:
        """The cases from fast to slow."""
        return sorted(self.own, key=lambda case: self.own[case])

    @property
    def cublas(self) -> float | None:
        """cuBLAS's time, in the layouts that suit it best; None where there is none."""
        return min(self.vendor.values(), default=None)

    @property
    def pick(self) -> str | None:
        """The model's choice."""
        return selection.pick(self.predicted)

    @property
    def regret(self) -> float | None:
        """Of that choice; None without one, and at the shape that the model was calibrated at."""
        if self.pick is None or self.calibration:
            return None
        return selection.regret(self.own, self.pick)

    @property
    def shared_regret(self) -> float | None:
        """The same where blocks share an SM's speed."""
        pick = selection.pick(self.shared)
        return None if pick is None or self.calibration else selection.regret(self.own, pick)

    @property
    def flops(self) -> float:
        return 2.0 * self.shape["m"] * self.shape["n"] * self.shape["k"]

    def share(self, case: str) -> float | None:
        """Speed of a case in percent of cuBLAS."""
        return None if self.cublas is None else 100 * self.cublas / self.own[case]


def _launch(row: Row, environment: Mapping[str, Any]) -> selection.Launch | None:
    """A case's launch as the model sees it; None where something of it is not known."""
    names = ("tile_m", "tile_n", "tile_k", "working_blocks", "block_threads", "registers")
    if not all(base.present(row.get(name)) for name in names):
        return None
    rows, columns, depth, blocks, threads, registers = (int(row[name]) for name in names)
    shared = int(row["shared_bytes"]) if base.present(row.get("shared_bytes")) else 0
    try:
        limits = SmLimits.from_environment(environment)
    except (KeyError, TypeError):
        return None
    return selection.Launch.of((rows, columns, depth), blocks, limits, threads, registers, shared)


def _times(study: StudyData) -> pd.Series[float]:
    """Microseconds of each case that was raced. One that was eliminated ran before the others had
    ended, at the clock of that moment: its time is that of the one it was eliminated for, times how
    much longer it took in the same blocks."""
    own, behind = base.value_of(study, DURATION, STAGE), base.value_of(study, BEHIND, STAGE)
    leaders, where = base.text_of(study, BEHIND), base.environment_of(study, DURATION, STAGE)

    def time(case: str, seen: tuple[str, ...] = ()) -> float:
        leader = leaders.get(case)
        if leader is None or leader in seen or where.get(leader) != where[case]:
            return float(own[case])
        return time(leader, (*seen, case)) * float(behind[case])

    return pd.Series({str(case): time(str(case)) for case in own.index}, dtype=float)


def _measured(study: StudyData) -> pd.DataFrame:
    """Cases of a known shape that were raced and are correct: their rows with duration and
    environment."""
    durations = _times(study)
    environments = base.environment_of(study, DURATION)
    cases = study.cases[study.cases["case"].isin(base.ranking(study))]
    cases = cases[cases["case"].isin(durations.index)].dropna(subset=list(_SIZES))
    return cases.assign(
        duration=cases["case"].map(durations).astype(float),
        environment=cases["case"].map(environments),
    )


def groups(study: StudyData) -> list[Group]:
    """The races in the config's order, dtype by dtype; only those with a figure of an own kernel."""
    measured = _measured(study)
    found = []
    for dtype in base.dtypes_in_order(study):
        mine = measured[measured["dtype"].astype(str) == dtype]
        if mine.empty:
            continue
        # Ratios are formed in one environment: the one that most of the dtype's figures are from.
        environment = str(mine["environment"].mode().iloc[0])
        mine = mine[mine["environment"] == environment]
        facts = study.environments.get(environment, {})
        shapes: dict[tuple[int, ...], list[Row]] = {}
        for row in mine.to_dict("records"):
            shapes.setdefault(tuple(int(row[size]) for size in _SIZES), []).append(row)
        largest = selection.largest([dict(zip(_SIZES, sizes)) for sizes in shapes])
        known = shapes[tuple(largest.values())]
        whole, shared = (_step_times(known, largest, facts, how) for how in (False, True))
        for sizes, rows in shapes.items():
            shape = dict(zip(_SIZES, sizes))
            own = {str(r["case"]): float(r["duration"]) for r in rows if r["kernel"] != BASELINE}
            vendor = {str(r["case"]): float(r["duration"]) for r in rows if r["kernel"] == BASELINE}
            if own:
                found.append(
                    Group(
                        dtype,
                        shape,
                        environment,
                        own,
                        vendor,
                        dict(_predictions(rows, shape, whole, facts, False)),
                        dict(_predictions(rows, shape, shared, facts, True)),
                        {str(r["case"]): r for r in rows},
                        shape == largest,
                    )
                )
    return found


def _sms(environment: Mapping[str, Any]) -> int:
    return int(environment.get("sms") or 0)


def _step_times(
    rows: list[Row], shape: Mapping[str, int], environment: Mapping[str, Any], shared: bool
) -> dict[str, float]:
    """Variant -> microseconds of one k step of a wave, from the durations at one shape."""
    found = {}
    for row in rows:
        launch = _launch(row, environment)
        if row["kernel"] != BASELINE and launch is not None and _sms(environment):
            duration = float(row["duration"])
            found[str(row["variant"])] = selection.step_time(
                duration, shape, launch, _sms(environment), shared
            )
    return found


def _predictions(
    rows: list[Row],
    shape: Mapping[str, int],
    times: Mapping[str, float],
    environment: Mapping[str, Any],
    shared: bool,
) -> Iterator[tuple[str, float]]:
    """Case and predicted microseconds of the variants that have a step time."""
    for row in rows:
        time, launch = times.get(str(row["variant"])), _launch(row, environment)
        if time is not None and launch is not None:
            sms = _sms(environment)
            yield (
                str(row["case"]),
                selection.predicted_duration(shape, launch, sms, time, shared),
            )


def _shapes(study: StudyData) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Dtype, shape's label and cases, in the config's order."""
    for dtype in base.dtypes_in_order(study):
        mine = study.cases[study.cases["dtype"].astype(str) == dtype]
        labels = pd.Series([base.shape_label(r) for r in mine.to_dict("records")], mine.index)
        for label in dict.fromkeys(labels):
            yield dtype, label, mine[labels == label]


def _vendor(
    group: Group, kernels: Mapping[str, str], empty: Mapping[str, float]
) -> dict[str, object]:
    """The vendor's fastest variant, which says its layouts, what it launches, and the time of an empty
    kernel in its place."""
    name = selection.pick(group.vendor) or ""
    return {
        "cuBLAS variant": str(group.rows[name]["variant"]) if name else "",
        "cuBLAS kernel": kernels.get(name, ""),
        "cuBLAS (us)": group.cublas,
        "empty kernel (us)": empty.get(name),
    }


def table(study: StudyData) -> pd.DataFrame:
    """One row a dtype and shape; where nothing was measured with the status that says why."""
    found = groups(study)
    by_place = {(g.dtype, base.shape_label(g.shape)): g for g in found}
    eliminated = base.value_of(study, "tune_eliminated", STAGE)
    spent = base.value_of(study, "tune_spent", STAGE)
    full = base.value_of(study, "tune_full_cost", STAGE)
    states, sources = base.statuses(study, [STAGE]), base.source_of(study)
    verdicts = base.verdicts(study)
    kernels = base.text_of(study, "kernel_name")
    empty = base.value_of(study, "empty_kernel", "time").to_dict()
    rows = []
    for dtype, label, cases in _shapes(study):
        own = cases[cases["kernel"] != BASELINE]["case"].astype(str).tolist()
        row: dict[str, Any] = {"dtype": dtype, **{s: cases[s].iloc[0] for s in _SIZES}}
        group = by_place.get((dtype, label))
        if group is not None:
            first, second = group.ranked[0], next(iter(group.ranked[1:]), None)
            pick = group.pick
            best = group.own[first]
            row |= {
                "best variant": group.rows[first]["variant"],
                "duration (us)": best,
                "TFLOP/s": group.flops / best * 1e-6,
                **_vendor(group, kernels, empty),
                "% of cuBLAS": group.share(first),
                "runner-up": group.rows[second]["variant"] if second else "",
                "runner-up slower by (%)": 100 * (group.own[second] / best - 1) if second else None,
                "the model's pick": group.rows[pick]["variant"] if pick else "",
                "pick measured (us)": group.own[pick] if pick else None,
                "pick predicted (us)": group.predicted[pick] if pick else None,
                "regret of the pick (%)": None if group.regret is None else 100 * group.regret,
                "regret where blocks share an SM (%)": None
                if group.shared_regret is None
                else 100 * group.shared_regret,
                "model calibrated here": group.calibration,
                "source": sources.get(first, ""),
                "environment": group.environment,
            }
        troubles = [states[case] for case in own if states[case].status != "ok"]
        row |= {
            "candidates": len(own),
            "raced": int(eliminated.index.isin(own).sum()),
            "eliminated early": int((eliminated[eliminated.index.isin(own)] > 0).sum()),
            "GPU time spent (ms)": float(spent[spent.index.isin(own)].sum()),
            "GPU time without elimination (ms)": float(full[full.index.isin(own)].sum()),
            "verdict": verdicts[group.ranked[0] if group else str(cases["case"].iloc[0])],
            "status": "ok" if group else (troubles[0].status if troubles else "not measured"),
            "reason": "" if group else (troubles[0].reason if troubles else "no own variant"),
        }
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = [
    "dtype", "m", "n", "k", "best variant", "duration (us)", "TFLOP/s", "cuBLAS variant", "cuBLAS kernel",
    "cuBLAS (us)", "empty kernel (us)", "% of cuBLAS", "runner-up", "runner-up slower by (%)", "candidates", "raced",
    "eliminated early", "GPU time spent (ms)", "GPU time without elimination (ms)",
    "the model's pick", "pick measured (us)", "pick predicted (us)", "regret of the pick (%)",
    "regret where blocks share an SM (%)", "model calibrated here", "verdict", "status", "reason", "source", "environment",
]  # fmt: skip


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Where own variants pass cuBLAS, where they are furthest from it, and what the model's picks keep."""
    share = table["% of cuBLAS"].astype(float).dropna()
    if share.empty:
        return ""
    worst = table.loc[share.idxmin()].to_dict()
    told = (
        f"The best variant passes cuBLAS at {(share >= 100).sum()} of {len(share)} shapes, at worst it has "
        f"{share.min():.0f} % ({base.dtype_short(worst['dtype'])}, {base.shape_label(worst)})"
    )
    kept = _kept(table, "regret of the pick (%)")
    return told + (
        f"; the model's pick has {kept.median():.0f} % of its speed in the median"
        if len(kept)
        else ""
    )


def _kept(table: pd.DataFrame, regret: str) -> pd.Series[float]:
    """Percent of the best variant's speed that the pick reaches, where it is a prediction."""
    return 100 / (1 + table[regret].astype(float).dropna() / 100)


def _lines(table: pd.DataFrame) -> pd.DataFrame:
    """The races as the figure lists them, below a line for each dtype: `label`, percent of cuBLAS of the
    best variant (`best`) and of the pick (`pick`), and what stands beside them."""
    blocks = []
    for dtype, races in table[table["status"] == "ok"].groupby("dtype", sort=False):
        best = races["% of cuBLAS"].astype(float)
        kept = _kept(races, "regret of the pick (%)")
        told = races.to_dict("records")
        lines = pd.DataFrame(
            {
                "label": [base.shape_label(row) for row in told],
                "best": best,
                "pick": kept.reindex(races.index) / 100 * best,
                "winner": [_name(row["best variant"], dtype) for row in told],
                "choice": [_choice(row, kept.get(at)) for at, row in zip(races.index, told)],
                "% of cuBLAS": [f"{one:.1f}" if one == one else "–" for one in best],
                "TFLOP/s": [base.digits(one) for one in races["TFLOP/s"].astype(float)],
            }
        )
        blocks += [pd.DataFrame([{"label": base.dtype_short(dtype)}]), lines]
    return pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame()


def _name(variant: str, dtype: object) -> str:
    """A variant without the macros that only repeat its dtype."""
    row = {"kernel": variant.partition("-")[0], "variant": variant}
    return base.variant_label(row, str(dtype)).replace("\n", " ")


def _choice(row: Row, kept: float | None) -> str:
    """What the model picks and how much of the best variant's speed that is, in a few words."""
    pick = row["the model's pick"]
    if not base.present(pick):
        return "knows none of the variants"
    if row["model calibrated here"]:
        return "calibrated here"
    if pick == row["best variant"]:
        return "the same"
    return f"{kept:.0f} %: {_name(pick, row['dtype'])}"


def _dots(ax: Axes, lines: pd.DataFrame) -> None:
    """Percent of cuBLAS in each line: the best variant, the model's pick, a line between them."""
    ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
    ax.hlines(lines.index, lines["pick"], lines["best"], color=GREY, linewidth=0.8, zorder=1)
    rows = lines.assign(row=lines.index)
    for kind, look_of in _MARKS.items():
        sns.scatterplot(rows, x=kind, y="row", ax=ax, legend=False, zorder=3, **look_of)
    ax.set(xlabel="% of cuBLAS's speed", ylabel="")
    look.rows_axis(ax, list(lines["label"]))
    for label, best in zip(ax.get_yticklabels(), lines["TFLOP/s"], strict=True):
        label.set_fontweight("normal" if base.present(best) else "bold")
    ax.set_xlim(0, 1.07 * max(100.0, float(lines["best"].fillna(0).max())))
    look.grid(ax)


def _column(
    ax: Axes, title: str, texts: pd.Series[Any], style: Style, right: bool, grey: bool = False
) -> None:
    """Texts in the lines of the figure, from the left edge of an axes or up to its right one."""
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(len(texts) - 0.5, -0.5))
    how: dict[str, Any] = {"x": float(right), "ha": "right" if right else "left", "va": "center"}
    ax.text(y=-0.9, s=title, size=0.8 * style.font_size, weight="bold", **how)
    for y, text in enumerate(texts):
        if base.present(text):
            ax.text(y=y, s=text, size=0.8 * style.font_size, color=GREY if grey else INK, **how)


def _notes(table: pd.DataFrame) -> list[str]:
    """How the model was calibrated, how far its picks are from the best, what elimination saved."""
    notes = []
    calibrated = table[table["model calibrated here"].eq(True) & (table["the model's pick"] != "")]
    if len(calibrated):
        told = calibrated.to_dict("records")
        where = [f"{base.dtype_short(row['dtype'])} {base.shape_label(row)}" for row in told]
        notes.append(
            "Model: waves times the time of a wave, that from each variant's own measured time at "
            f"the dtype's largest shape ({', '.join(where)}), in proportion to its steps along k."
        )
    kept = _kept(table, "regret of the pick (%)")
    if len(kept):
        right = (table["the model's pick"] == table["best variant"])[kept.index].sum()
        notes.append(
            f"The model picks the best variant at {right} of {len(kept)} other shapes; its pick has "
            f"{kept.median():.1f} % of the best one's speed in the median and {kept.min():.1f} % at worst."
        )
        shared = _kept(table, "regret where blocks share an SM (%)")
        if len(shared):
            notes[-1] += (
                " With a last wave that is shorter where SMs hold fewer blocks: "
                f"{shared.median():.1f} % and {shared.min():.1f} %."
            )
    spent = table["GPU time spent (ms)"].sum() / 1e3
    full = table["GPU time without elimination (ms)"].sum() / 1e3
    if full:
        notes.append(
            f"{table['eliminated early'].sum()} of {table['raced'].sum()} candidates were "
            f"eliminated early: {base.digits(spent)} s of launches on the GPU, where measuring "
            f"each to the end takes {base.digits(full)} s."
        )
    return notes


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A line a shape, by dtype: the best variant and the model's pick; what they are in words beside,
    where the figure is narrow only the best variant."""
    with look.apply(style):
        lines = _lines(table)
        if lines.empty:
            return look.empty_figure(study, style, "race")
        fig = look.new_figure(style, (3.2 if style.narrow else 3.5) * len(lines) + 13)
        if style.narrow:
            ax, winner = fig.subplots(1, 2, width_ratios=[1, 2.7])
        else:
            ax, *numbers, winner, choice = fig.subplots(
                1, 5, width_ratios=[1.0, 0.38, 0.28, 1.2, 1.35]
            )
            for other, name in zip(numbers, ("% of cuBLAS", "TFLOP/s"), strict=True):
                _column(other, name, lines[name], style, right=True)
            title = "the model's pick, % of the best"
            _column(choice, title, lines["choice"], style, right=False, grey=True)
        _dots(ax, lines)
        _column(winner, "best variant", lines["winner"], style, right=False)
        handles = [
            *(ax.scatter([], [], **_MARKS[kind]) for kind in _MARKS),
            Line2D([], [], color=INK, linewidth=0.9),
        ]
        labels = ["the model's pick", "best own variant", "cuBLAS"]
        return look.finish(fig, study, style, handles, labels, _notes(table), [STAGE])
