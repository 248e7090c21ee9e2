"""Best variant by shape: the winner of each race as a share of cuBLAS, and what the model would pick.

A race is run between all variants of one dtype at one shape (`tilewave.racing`). The model knows of
each variant its tile, its blocks and how many of them an SM holds, and one of its durations, at the
dtype's largest shape; from that it predicts the others as waves times the time of a wave
(`tilewave.theory.selection`) and picks a variant. Regret: by how much the pick is slower than the
best, both as measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, Style
from tilewave.theory import selection
from tilewave.theory.occupancy import SmLimits

OPTIONS: Mapping[str, str] = {}
STAGE = "tune"
DURATION = "tune_duration"
BEHIND = "tune_behind"
_SIZES = ("m", "n", "k")
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


def _vendor(group: Group) -> str:
    """The vendor's fastest variant, which says its layouts."""
    name = selection.pick(group.vendor)
    return str(group.rows[name]["variant"]) if name else ""


def table(study: StudyData) -> pd.DataFrame:
    """One row a dtype and shape; where nothing was measured with the status that says why."""
    found = groups(study)
    by_place = {(g.dtype, base.shape_label(g.shape)): g for g in found}
    eliminated = base.value_of(study, "tune_eliminated", STAGE)
    spent = base.value_of(study, "tune_spent", STAGE)
    full = base.value_of(study, "tune_full_cost", STAGE)
    states, sources = base.statuses(study, [STAGE]), base.source_of(study)
    verdicts = base.verdicts(study)
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
                "cuBLAS variant": _vendor(group),
                "cuBLAS (us)": group.cublas,
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
    return base.with_derived(pd.DataFrame(rows, columns=COLUMNS), found)


COLUMNS = [
    "dtype", "m", "n", "k", "best variant", "duration (us)", "TFLOP/s", "cuBLAS variant", "cuBLAS (us)",
    "% of cuBLAS", "runner-up", "runner-up slower by (%)", "candidates", "raced",
    "eliminated early", "GPU time spent (ms)", "GPU time without elimination (ms)",
    "the model's pick", "pick measured (us)", "pick predicted (us)", "regret of the pick (%)",
    "regret where blocks share an SM (%)", "model calibrated here", "verdict", "status", "reason", "source", "environment",
]  # fmt: skip


def _name(group: Group, case: str) -> str:
    return base.variant_label(group.rows[case], group.dtype).replace("\n", " ")


def _winner(group: Group) -> str:
    speed = base.digits(group.flops / group.own[group.ranked[0]] * 1e-6)
    return f"{_name(group, group.ranked[0])}, {speed} TFLOP/s"


def _choice(group: Group) -> str:
    """What the model picks, in a few words."""
    pick = group.pick
    if pick is None:
        return "knows none of the variants"
    if group.calibration:
        return "calibrated here"
    if pick == group.ranked[0]:
        return "the same"
    return f"{_name(group, pick)}, {100 * (group.regret or 0.0):.1f} % slower"


@dataclass(frozen=True)
class _Place:
    """A row of a panel, in lines of text from the top: where its bar is, and its texts."""

    bar: float
    top: float
    winner: list[str]
    choice: list[str]


def _places(mine: list[Group], style: Style) -> tuple[list[_Place], float]:
    """The rows of a panel and its height in lines. Wide: texts beside the bar; narrow: above it."""
    y, found = 0.0, []
    ruler = look.new_figure(style, 10)

    def broken(text: str, share: float) -> list[str]:
        """Lines of a text that has this share of the figure's width."""
        return look.wrap(ruler, text, style.small, share * style.width)

    for group in mine:
        if style.narrow:
            winner = broken(_winner(group), 0.66)
            choice = broken(f"model: {_choice(group)}", 0.66)
            lines = len(winner) + len(choice)
            found.append(_Place(y + lines + 0.45, y, winner, choice))
            y += lines + 1.4
        else:
            winner, choice = (broken(text, 0.29) for text in (_winner(group), _choice(group)))
            lines = max(len(winner), len(choice))
            found.append(_Place(y + lines / 2, y, winner, choice))
            y += lines + 0.3
    return found, y


def _bars(ax: Axes, mine: list[Group], places: list[_Place], height: float, style: Style) -> None:
    """A panel's bars: the winner's share of cuBLAS, a diamond at the pick's."""
    top = 100.0
    colors = look.kernel_colors(style, {str(r["kernel"]) for g in mine for r in g.rows.values()})
    for group, place in zip(mine, places):
        first, pick = group.ranked[0], group.pick
        share = group.share(first)
        if share is not None:
            color = colors[str(group.rows[first]["kernel"])]
            ax.barh(place.bar, share, height=0.8, color=color, linewidth=0)
            top = max(top, share)
            chosen = None if pick is None or group.calibration else group.share(pick)
            if chosen is not None:
                ax.plot(
                    [chosen], [place.bar], "D", color="white", markeredgecolor=INK, markersize=3.6
                )
        # The number stands behind the mark of cuBLAS where it would meet it.
        at = 0.0 if share is None else max(share, 100.0) if share > 65 else share
        ax.annotate(
            "no figure of cuBLAS" if share is None else f"{share:.1f} %", (at, place.bar),
            xytext=(5, 0), textcoords="offset points", va="center", ha="left",
            size=style.small, color=GREY if share is None else INK,
        )  # fmt: skip
    bars = [place.bar for place in places]
    ax.set_ylim(height, -0.2)
    ax.set_yticks(bars, [base.shape_label(group.shape) for group in mine])
    ax.tick_params(axis="y", length=0)
    ax.vlines(
        [100.0] * len(bars),
        [y - 0.5 for y in bars],
        [y + 0.5 for y in bars],
        color=INK,
        linewidth=0.9,
    )
    ax.set_xlim(0, top * 1.3)
    ax.set_xticks(list(range(0, int(top) + 1, 25 if top <= 200 else 100)))


def _say(ax: Axes, lines: list[str], y: float, color: str, style: Style) -> None:
    """Lines of text from the left edge, the first one centred half a line below y."""
    for number, line in enumerate(lines):
        ax.annotate(
            line, (0, y + number + 0.5), xytext=(2, 0), textcoords="offset points", va="center",
            ha="left", size=style.small, color=color, annotation_clip=False,
        )  # fmt: skip


def _texts(axes: Sequence[Axes], places: list[_Place], height: float, style: Style) -> None:
    """Who won and whom the model picks: above the bars where the figure is narrow, else beside."""
    if style.narrow:
        for place in places:
            _say(axes[0], place.winner, place.top, INK, style)
            _say(axes[0], place.choice, place.top + len(place.winner), GREY, style)
        return
    for ax in axes[1:]:
        ax.set_axis_off()
        ax.set_ylim(height, -0.2)
        ax.set_xlim(0, 1)
    for place in places:
        for ax, lines, color in ((axes[1], place.winner, INK), (axes[2], place.choice, GREY)):
            _say(ax, lines, place.bar - len(lines) / 2, color, style)


def _notes(table: pd.DataFrame, found: list[Group]) -> list[str]:
    """How the model was calibrated, how far its picks are from the best, what elimination saved."""
    notes = []
    places: dict[str, list[str]] = {}
    for group in found:
        if group.calibration and group.pick is not None:
            places.setdefault(base.shape_label(group.shape), []).append(group.dtype)
    if places:
        where = "; ".join(f"{', '.join(dtypes)} at {shape}" for shape, dtypes in places.items())
        notes.append(
            "Model: waves times the time of a wave, that from each variant's own measured time at "
            f"the dtype's largest shape ({where}), in proportion to its steps along k."
        )
    regrets = [100 * group.regret for group in found if group.regret is not None]
    if regrets:
        right = sum(g.pick == g.ranked[0] for g in found if g.regret is not None)
        notes.append(
            f"The model picks the best variant at {right} of {len(regrets)} other shapes; its pick "
            f"is slower than the best by {statistics.median(regrets):.1f} % in the median and "
            f"{max(regrets):.1f} % at worst."
        )
        shared = [100 * group.shared_regret for group in found if group.shared_regret is not None]
        notes[-1] += (
            " With a last wave that is shorter where SMs hold fewer blocks: "
            f"{statistics.median(shared):.1f} % and {max(shared):.1f} %."
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
    """One panel a dtype, a bar a shape."""
    with look.apply(style):
        found: list[Group] = base.derived(table)
        if not found:
            return look.empty_figure(study, style, "race")
        dtypes = list(dict.fromkeys(group.dtype for group in found))
        parts = {dtype: [g for g in found if g.dtype == dtype] for dtype in dtypes}
        laid = {dtype: _places(parts[dtype], style) for dtype in dtypes}
        line = style.line * 25.4 * 0.95
        heights = [laid[dtype][1] * line for dtype in dtypes]
        columns = 1 if style.narrow else 3
        fig = look.new_figure(style, sum(heights) + 9 * len(dtypes) + 5)
        axes = fig.subplots(
            len(dtypes), columns, squeeze=False,
            gridspec_kw={"height_ratios": heights, "width_ratios": [1.1, 1, 1][:columns]},
        )  # fmt: skip
        for row, dtype in zip(axes, dtypes, strict=True):
            places, height = laid[dtype]
            _bars(row[0], parts[dtype], places, height, style)
            _texts(row, places, height, style)
            row[0].set_title(base.dtype_label(dtype))
        for ax, title in zip(axes[0][1:], ("best variant, as measured", "the model's pick")):
            ax.set_title(title)
        axes[-1][0].set_xlabel("% of cuBLAS's speed")
        handles = [
            Patch(color="#BBBBBB", label="best own variant, as measured"),
            Line2D([], [], linestyle="", marker="D", color="white", markeredgecolor=INK,
                   markersize=3.6, label="the model's pick, as measured"),
            Line2D([], [], linestyle="", marker="|", color=INK, label="cuBLAS"),
        ]  # fmt: skip
        labels = [str(handle.get_label()) for handle in handles]
        return look.finish(fig, study, style, handles, labels, _notes(table, found), [STAGE])
