"""Occupancy: the closed form beside the driver's answer and ncu's, and the warps needed to be fast.

The figure has multiply-adds per clock against resident warps and independent chains, from a probe: an SM needs so
many warps. The table has the occupancy of variants by theory, driver and ncu, with the resource that limits them,
and the article's two blocks. A study without the probe draws its variants' warps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave.plots import _sweeps, base
from tilewave.plots import style as look
from tilewave.plots._panels import bars, rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.style import GREY, MARKERS, PALETTE, Style
from tilewave.theory import latency, occupancy
from tilewave.theory.occupancy import TURING, Occupancy

READING = (
    "Up is the rate of an SM, right the warps that it holds; a line is a number of independent chains in a thread. Points "
    "are measured, lines the model at each number of warps. Warps that the four schedulers "
    "cannot share evenly, such as 6, are slower. Chains as fast as fewer ones are in the table alone."
)
_KEYS = (
    Line2D([], [], color=GREY, linestyle="", marker="o", label="measured"),
    Line2D([], [], color=GREY, label="model"),
)
CHAINS = "occupancy"
"""Kernel of the probe of the rate by warps and chains."""
DRIVER = "driver_blocks_per_sm"
THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
LIMITS: Mapping[str, str] = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
_COUNTED = {
    "threads": "launch__block_size",
    "registers": "launch__registers_per_thread",
    "static": "launch__shared_mem_per_block_static",
    "dynamic": "launch__shared_mem_per_block_dynamic",
}
_SAME = 0.01  # percentage points by which rounding may change an occupancy
_MOST = 3  # differences that the caption spells out
_EXAMPLES = ((128, 180, 0), (256, 128, 32768))  # the article's blocks: threads, registers, bytes
_MOST_ROWS = 12


@dataclass(frozen=True)
class OccupancyRow:
    """A case with the answers of theory, driver and ncu; None for an answer that is missing.
    Blocks are of one SM; ``theoretical`` and ``achieved`` are ncu's, in percent."""

    case: str
    variant: str
    kernel: str
    threads: int
    registers: int
    shared: int
    closed_form: Occupancy
    driver: int | None
    theoretical: float | None
    achieved: float | None
    limits: Mapping[str, int]

    @property
    def percent(self) -> float:
        return 100 * self.closed_form.fraction

    @property
    def differences(self) -> list[str]:
        """The answers of driver and ncu that differ from the closed form."""
        messages = []
        if self.driver is not None and self.driver != self.closed_form.blocks:
            messages.append(f"driver: {self.driver} blocks, closed form: {self.closed_form.blocks}")
        if self.theoretical is not None and not abs(self.theoretical - self.percent) <= _SAME:
            messages.append(f"ncu: {self.theoretical:g} %, closed form: {self.percent:g} %")
        for name, blocks in self.limits.items():
            expected = self.closed_form.limits.get(name)
            # ncu divides the shared memory that the driver carved out of L1 for this launch, as little as it
            # can; the closed form divides all of it.
            fits = self.closed_form.blocks <= blocks <= (expected or blocks)
            carved = name == "shared memory" and fits
            if expected is not None and blocks != expected and not carved:
                messages.append(f"ncu: {name} allow {blocks} blocks, closed form: {expected}")
        return messages


def _whole(value: object) -> int | None:
    return int(float(str(value))) if base.present(value) else None


def rows(study: StudyData) -> list[OccupancyRow]:
    """Return one row per case with known block and registers, in the config's order.
    They are of the compiled kernel; for a kernel without a source (cuBLAS) of its launch under ncu."""
    wanted = [DRIVER, THEORETICAL, ACHIEVED, *LIMITS.values(), *_COUNTED.values()]
    values, limits = base.pivot(study, wanted), _sweeps.sm_limits(study)
    occupancy_rows = []
    for about, seen in zip(study.cases.to_dict("records"), values.to_dict("records"), strict=True):
        counted = {name: _whole(seen[metric]) for name, metric in _COUNTED.items()}
        threads, registers = _whole(about["block_threads"]), _whole(about["registers"])
        shared = _whole(about["shared_bytes"])
        if threads is None or registers is None:
            threads, registers = counted["threads"], counted["registers"]
            shared = (counted["static"] or 0) + (counted["dynamic"] or 0)
        if not threads or registers is None:
            continue
        answers = {name: _whole(seen[metric]) for name, metric in LIMITS.items()}
        occupancy_rows.append(
            OccupancyRow(
                str(about["case"]), str(about["variant"]), str(about["kernel"]),
                threads, registers, shared or 0,
                occupancy.occupancy(limits, threads, registers, shared or 0),
                _whole(seen[DRIVER]), _number(seen[THEORETICAL]), _number(seen[ACHIEVED]),
                {name: blocks for name, blocks in answers.items() if blocks is not None},
            )
        )  # fmt: skip
    return occupancy_rows


def _number(value: Any) -> float | None:
    return float(value) if base.present(value) else None


def lanes_of(study: StudyData) -> int:
    """Return the multiply-add lanes of a scheduler of the study's target."""
    return latency.lanes_of(str(study.environment.get("compute_capability", "")))


def chains(study: StudyData, cycles: float | None) -> pd.DataFrame:
    """Return the probe's cases: case, ilp, warps (on an SM), model and measured (FMA per clock and SM), ranks.
    cycles: latency of the model, which is NaN without it."""
    may_rank = set(base.ranking(study))
    sms = int(study.target.get("sms") or 0)
    rates = _fma_per_cycle(study, sms)
    points = []
    for about in study.cases.to_dict("records"):
        macros = base.macros_of(about)
        sized = base.present(about["block_threads"]) and base.present(about["blocks"])
        if about["kernel"] != CHAINS or not sized or sms < 1:
            continue
        warps = int(about["block_threads"]) * int(about["blocks"]) // (occupancy.WARP * sms)
        ilp = int(macros.get("ILP", 1))
        model = math.nan
        if cycles is not None:
            model = latency.fma_per_cycle(warps, ilp, cycles, lanes=lanes_of(study))
        case = str(about["case"])
        points.append((case, ilp, warps, model, rates.get(case, math.nan), case in may_rank))
    columns = ["case", "ilp", "warps", "model", "measured", "ranks"]
    return pd.DataFrame(points, columns=columns).sort_values(["ilp", "warps"], ignore_index=True)


def _fma_per_cycle(study: StudyData, sms: int) -> pd.Series[float]:
    """Return FMA per clock and SM of each timed case, at the SM clock that was sampled meanwhile.

    A clock that the kernel reads would be wrong: where chains fill the schedulers, the warp that reads it waits
    for its turn while the others go on, and measures too short a time.
    """
    timed = base.pivot(study, ["tflops", "sm_clock"], "time")
    return timed["tflops"] * 1e6 / (2 * max(1, sms) * timed["sm_clock"])


def register_latency(study: StudyData) -> float | None:
    """Return the cycles from a multiply-add to one that needs its result, from the latency probe."""
    probes = study.cases.loc[study.cases["probe_case"] == "register", "case"]
    measured = base.value_of(study, "latency")
    latencies = measured[measured.index.isin(probes) & measured.index.isin(base.ranking(study))]
    return float(latencies.iloc[0]) if len(latencies) else None


class Parts(NamedTuple):
    """The parts of the table: `rows`, `chains`, and the cycles of `register_latency`."""

    rows: list[OccupancyRow]
    chains: pd.DataFrame
    cycles: float | None


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case with all three answers, then the article's two blocks on two GPUs."""
    base_rows = base.base_table(study).reset_index(drop=True)
    cycles = register_latency(study)
    parts = Parts(rows(study), chains(study, cycles), cycles)
    lines = [
        {
            "case": row.case,
            **_answer(row.threads, row.registers, row.shared, row.closed_form),
            "blocks on an SM (driver)": row.driver,
            "occupancy (%, ncu, theoretical)": row.theoretical,
            "occupancy (%, ncu, achieved)": row.achieved,
            **{f"blocks by {name} (ncu)": row.limits.get(name) for name in LIMITS},
            "differences": "; ".join(row.differences),
        }
        for row in parts.rows
    ]
    cells = pd.DataFrame(lines or [{"case": ""}])
    rate = parts.chains.set_index("case")
    frame = base_rows.iloc[:, :4].merge(cells, on="case", how="left")
    frame["FMA per clock and SM (model)"] = frame["case"].map(rate["model"])
    frame["FMA per clock and SM (measured)"] = frame["case"].map(rate["measured"])
    frame["TFLOP/s"] = frame["case"].map(base.value_of(study, "tflops", "time"))
    frame = frame.join(base_rows.iloc[:, 4:])
    examples: list[dict[str, Any]] = []
    if frame.empty:
        return base.with_derived(frame, parts)
    for gpu, limits in (("Turing", TURING), ("this GPU", _sweeps.sm_limits(study))):
        for threads, registers, shared in _EXAMPLES:
            closed_form = occupancy.occupancy(limits, threads, registers, shared)
            examples.append(
                {
                    "case": f"article: {threads} threads of {registers} registers on {gpu}",
                    **_answer(threads, registers, shared, closed_form), "source": "model",
                }
            )  # fmt: skip
    joined = pd.concat([frame, pd.DataFrame(examples)], ignore_index=True)
    return base.with_derived(joined, parts)


def _answer(threads: int, registers: int, shared: int, closed_form: Occupancy) -> dict[str, Any]:
    return {
        "threads of a block": threads,
        "registers of a thread": registers,
        "shared memory of a block (byte)": shared,
        "blocks on an SM (closed form)": closed_form.blocks,
        "warps on an SM (closed form)": closed_form.warps,
        "occupancy (%, closed form)": 100 * closed_form.fraction,
        "limited by": ", ".join(closed_form.limiters),
    }


# ------------------------------------------------------------------------------------------ panels


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the warps that keep an SM busy, each with one chain of dependent multiply-adds."""
    cycles, chains = base.derived(table).cycles, base.derived(table).chains
    if cycles is None or chains.empty:
        return ""
    warps = latency.warps_to_hide(cycles, 1, lanes=lanes_of(study))
    return f"An SM needs {warps:.0f} warps of dependent multiply-adds to stay busy"


def _agreed(rows: Sequence[OccupancyRow]) -> tuple[int, int]:
    """Return the number of cases in which driver and ncu agree with the closed form, and of those with an answer."""
    answered = [row for row in rows if row.driver is not None or row.theoretical is not None]
    return sum(not row.differences for row in answered), len(answered)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw the rate against warps, a line a number of chains; without the probe one bar per variant: its warps."""
    with look.apply(style):
        study = _on_gpu(study)
        derived = base.derived(table)
        chains, probes = derived.chains, study.cases["case"][study.cases["operation"] == "probe"]
        variants = {row.variant: row for row in derived.rows if row.case not in set(probes)}
        fewest = sorted(variants.items(), key=lambda item: item[1].closed_form.warps)
        rows = dict(fewest[:_MOST_ROWS])
        good = chains[chains["ranks"].astype(bool) & chains["measured"].notna()]
        if good.empty and not rows:
            return look.empty_figure(study, style, "occupancy")
        checks = _checks(table, lanes_of(study))
        if good.empty:
            fig, (ax,) = look.panels(style, [rows_mm(len(rows))])
            shares = [row.percent for row in rows.values()]
            forms = [row.closed_form for row in rows.values()]
            limiters = [", ".join(form.limiters) or "nothing fits" for form in forms]
            pairs = zip(limiters, forms)
            bars(
                ax, list(rows), shares, ["all slots" if f.fraction == 1 else of for of, f in pairs]
            )
            ax.set(xlim=(0, 100), xlabel="occupancy (%)")
            return look.finish(fig, study, style, checks=checks)
        fig, (ax,) = look.panels(style, [68.0])
        good = _apart(good)
        names = {ilp: f"{ilp} chain{'s' * (ilp > 1)}" for ilp in map(int, good["ilp"].unique())}
        good, colors = good.assign(name=good["ilp"].map(names)), dict(zip(names.values(), PALETTE))
        if (cycles := base.derived(table).cycles) is not None:
            most, lanes = int(good["warps"].max()), lanes_of(study)
            for ilp, name in names.items():
                counts = range(1, most + 1)
                rates = [latency.fma_per_cycle(n, ilp, cycles, lanes=lanes) for n in counts]
                sns.lineplot(x=counts, y=rates, color=colors[name], linewidth=0.9, ax=ax)
        sns.scatterplot(
            good, x="warps", y="measured", hue="name", style="name", palette=colors, s=20, linewidth=0, ax=ax,
            markers=dict(zip(colors, MARKERS)), zorder=3, legend=False,
        )  # fmt: skip
        peak = latency.SCHEDULERS * lanes_of(study)
        ax.axhline(peak, color=GREY, linewidth=0.6, linestyle=":")
        left = ax.get_yaxis_transform()
        look.write(ax, f"peak {peak}", (0, peak), (2, 1), xycoords=left, va="bottom", color=GREY)
        look.powers_of_two(ax, good["warps"])
        if not style.narrow:
            ax.set_xticks(good["warps"].unique())
        look.powers_of_two(ax, (4, peak), axis="y")
        ax.set_ylim(bottom=0.65 * good["measured"].min())
        ax.set_xlabel("warps on an SM, with chains of dependent multiply-adds")
        ax.set_ylabel("multiply-adds per SM and cycle")
        look.grid(ax, "y")
        for place, (name, line) in enumerate(good.groupby("name")):
            first = line.iloc[0]
            rate = first["measured"] / first["warps"]
            at = (1.35 if place % 2 else 1.15) * first["warps"]
            ax.text(
                at, 0.88 * at * rate, name, color=colors[name], size=style.small, va="top", rotation_mode="anchor",
                rotation=math.degrees(math.atan(rate)), transform_rotates_text=True,
            )  # fmt: skip
        if cycles is not None:
            warps = round(latency.warps_to_hide(cycles, 1, lanes=lanes_of(study)))
            ax.axvline(warps, color=GREY, linewidth=0.7, linestyle="--", zorder=0)
            name, bottom = f"1 chain: {warps} warps keep an SM busy", ax.get_xaxis_transform()
            look.write(ax, name, (warps, 0.03), (-4, 0), xycoords=bottom, ha="right")
        return look.finish(fig, study, style, _KEYS, checks=checks)


def _apart(chains: pd.DataFrame) -> pd.DataFrame:
    """Return the chains without those as fast as fewer ones, which would hide them."""
    rates = chains.pivot_table("measured", "warps", "ilp")
    kept = [n for n in rates if not any((rates[n] / rates[m] < 1.03).all() for m in rates if m < n)]
    return chains[chains["ilp"].isin(kept)]


def _on_gpu(study: StudyData) -> StudyData:
    """Return the study without products that a CPU computes, which have no occupancy."""
    if "provider" not in study.cases:
        return study
    return replace(study, cases=study.cases[study.cases["provider"] != "cpu"])


def _checks(table: pd.DataFrame, lanes: int) -> list[str]:
    """Return different answers, the error of the rate's model, and the warps that keep an SM busy."""
    parts: Parts = base.derived(table)
    differ = [row for row in parts.rows if row.differences]
    agreed, answered = _agreed(parts.rows)
    notes = (
        [f"Driver and ncu give the closed form's occupancy in {agreed} of {answered} cases."]
        if answered
        else []
    )
    notes += [f"{row.case}: {'; '.join(row.differences)}." for row in differ[:_MOST]]
    if len(differ) > _MOST:
        notes.append(f"The table has {len(differ) - _MOST} more such cases.")
    good = parts.chains[parts.chains["ranks"].astype(bool)].dropna(subset=["measured", "model"])
    if len(good):
        off = 100 * (good["measured"] / good["model"] - 1).abs()
        notes.append(
            f"With {parts.cycles:.2f} cycles for a multiply-add, the model of the rate is off by "
            f"{off.median():.1f} % (median), {off.max():.1f} % (worst)."
        )
    if parts.cycles is not None and len(parts.chains):
        few, many = parts.chains["ilp"].min(), parts.chains["ilp"].max()
        least, most = (latency.warps_to_hide(parts.cycles, n, lanes=lanes) for n in (many, few))
        notes.append(
            f"An SM needs {most:.0f} warps to stay busy at ILP {few}, {least:.0f} at ILP {many}."
        )
    return notes
