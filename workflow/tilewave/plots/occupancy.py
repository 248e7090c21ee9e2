"""Occupancy: the closed form beside the driver's answer and ncu's, and the warps needed to be fast.

The figure has multiply-adds per clock against resident warps and independent chains, from a probe: an SM needs so
many warps. The table has the occupancy of variants by theory, driver and ncu, with the resource that limits them.
A study without the probe draws its variants' warps.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import _sweeps, base
from tilewave.plots import style as look
from tilewave.plots._panels import bars, rows_mm, slanted
from tilewave.plots.base import StudyData
from tilewave.plots.style import GREY, MARKERS, PALETTE, Style
from tilewave.theory import latency, occupancy
from tilewave.theory.occupancy import Occupancy

_KEYS = (
    Line2D([], [], color=GREY, linestyle="", marker="o", label="measured"),
    Line2D([], [], color=GREY, label="model"),
)
CHAINS = "occupancy"
"""Kernel of the probe of the rate by warps and chains."""
DRIVER = "driver_blocks_per_sm"
THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
LIMITS, _COUNTED, _ANSWERS = (table_beside(__file__)[of] for of in ("limits", "launch", "answers"))
_PERCENT, _LIMITERS, _DIFFERENCES = "occupancy (%, closed form)", "limited by", "differences"
_SAME = 0.01  # percentage points by which rounding may change an occupancy
_MOST = 3  # differences that the caption spells out
_MOST_ROWS = 12


def differences(
    closed_form: Occupancy, driver: float, theoretical: float, limits: Mapping[str, float]
) -> list[str]:
    """Return answers of driver (blocks) and ncu (percent, blocks by resource) unlike the closed form; NaN is none."""
    percent, messages = 100 * closed_form.fraction, []
    if base.present(driver) and driver != closed_form.blocks:
        messages.append(f"driver: {driver:g} blocks, closed form: {closed_form.blocks}")
    if base.present(theoretical) and abs(theoretical - percent) > _SAME:
        messages.append(f"ncu: {theoretical:g} %, closed form: {percent:g} %")
    for name, blocks in limits.items():
        expected = closed_form.limits.get(name)
        # ncu divides the shared memory that the driver carved out of L1 for this launch, as little as it
        # can; the closed form divides all of it.
        fits = closed_form.blocks <= blocks <= (expected or blocks)
        carved = name == "shared memory" and fits
        if base.present(blocks) and expected not in (None, blocks) and not carved:
            messages.append(f"ncu: {name} allow {blocks:g} blocks, closed form: {expected}")
    return messages


def answers(study: StudyData) -> pd.DataFrame:
    """Return one row per case with known block and registers: the answers of theory, driver and ncu.
    Block and registers are of the compiled kernel; for a kernel without a source (cuBLAS) of its launch under ncu."""
    columns = [DRIVER, THEORETICAL, ACHIEVED, *LIMITS.values()]
    seen, sm = base.pivot(study, [*columns, *_COUNTED]), _sweeps.sm_limits(study)
    blocks = study.cases.set_index("case")[["block_threads", "registers", "shared_bytes"]]
    blocks, (threads, registers, *shared) = blocks.astype(float), _COUNTED
    launched = seen[[threads, registers]].assign(shared=seen[shared].sum(axis=1))
    unknown = blocks[["block_threads", "registers"]].isna().any(axis=1)
    blocks[unknown] = launched.set_axis(blocks.columns, axis=1)[unknown]
    blocks = blocks[(blocks["block_threads"] > 0) & blocks["registers"].notna()].fillna(0)
    lines = []
    for case, block in blocks.astype(int).iterrows():
        driver, theoretical, achieved, *allowed = seen.loc[case, columns]
        closed_form, limits = occupancy.occupancy(sm, *block), dict(zip(LIMITS, allowed))
        counts = closed_form.blocks, closed_form.warps, 100 * closed_form.fraction
        by_ncu = driver, theoretical, achieved, *allowed
        apart = "; ".join(differences(closed_form, driver, theoretical, limits))
        lines.append([case, *block, *counts, ", ".join(closed_form.limiters), *by_ncu, apart])
    return pd.DataFrame(lines or [[""]], columns=_ANSWERS if lines else ["case"])


def lanes_of(study: StudyData) -> int:
    """Return the multiply-add lanes of a scheduler of the study's target."""
    return latency.lanes_of(str(study.environment.get("compute_capability", "")))


def chains(study: StudyData, cycles: float | None) -> pd.DataFrame:
    """Return the probe's cases: case, ilp, warps (on an SM), model and measured (FMA per clock and SM), ranks.
    cycles: latency of the model, which is NaN without it.

    The rate is over the SM clock that was sampled meanwhile. A clock that the kernel reads would be wrong: where chains
    fill the schedulers, the warp that reads it waits for its turn while the others go on, and measures too short a time.
    """
    sms, lanes = _sweeps.sms_of(study), lanes_of(study)
    cases = study.cases[(study.cases["kernel"] == CHAINS) & (sms > 0)]
    cases = cases.dropna(subset=["block_threads", "blocks"])
    timed = base.pivot(study, ["tflops", "sm_clock"], "time").loc[cases["case"]]
    frame = pd.DataFrame({"case": cases["case"].astype(str)})
    frame["ilp"] = [int(base.macros_of(row).get("ILP", 1)) for row in cases.to_dict("records")]
    threads = cases["block_threads"].astype(int) * cases["blocks"].astype(int)
    frame["warps"] = threads // (occupancy.WARP * max(1, sms))
    frame["model"] = [
        latency.fma_per_cycle(warps, ilp, cycles, lanes=lanes) if cycles else math.nan
        for warps, ilp in zip(frame["warps"], frame["ilp"], strict=True)
    ]
    frame["measured"] = list(timed["tflops"] * 1e6 / (2 * max(1, sms) * timed["sm_clock"]))
    frame["ranks"] = frame["case"].isin(base.ranking(study))
    return frame.sort_values(["ilp", "warps"], ignore_index=True)


def register_latency(study: StudyData) -> float | None:
    """Return the cycles from a multiply-add to one that needs its result, from the latency probe."""
    probes = study.cases.loc[study.cases["probe_case"] == "register", "case"]
    measured = base.value_of(study, "latency")
    latencies = measured[measured.index.isin(probes) & measured.index.isin(base.ranking(study))]
    return float(latencies.iloc[0]) if len(latencies) else None


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case with all three answers."""
    base_rows = base.base_table(study).reset_index(drop=True)
    cycles = register_latency(study)
    points = chains(study, cycles)
    frame = base_rows.iloc[:, :4].merge(answers(study), on="case", how="left")
    for name in ("model", "measured"):
        frame[f"FMA per clock and SM ({name})"] = frame["case"].map(points.set_index("case")[name])
    frame["TFLOP/s"] = frame["case"].map(base.value_of(study, "tflops", "time"))
    frame = frame.join(base_rows.iloc[:, 4:])
    return base.with_derived(frame, (points, cycles))


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the warps that keep an SM busy, each with one chain of dependent multiply-adds."""
    chains, cycles = base.derived(table)
    if cycles is None or chains.empty:
        return ""
    warps = latency.warps_to_hide(cycles, 1, lanes=lanes_of(study))
    return f"An SM needs {warps:.0f} warps of dependent multiply-adds to stay busy"


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw the rate against warps, a line a number of chains; without the probe one bar per variant: its warps."""
    study = _on_gpu(study)
    chains, cycles = base.derived(table)
    if table.empty:
        return look.empty_figure(study, style, "occupancy")
    products = study.cases.loc[study.cases["operation"] != "probe", "case"]
    rows = table[table["case"].isin(products)].dropna(subset=_PERCENT)
    rows = rows.drop_duplicates("variant").sort_values(_PERCENT, kind="stable")[:_MOST_ROWS]
    good = chains[chains["ranks"].astype(bool) & chains["measured"].notna()]
    checks = _checks(table)
    if good.empty and rows.empty:
        return look.empty_figure(study, style, "occupancy")
    if good.empty:
        fig, (ax,) = look.panels(style, [rows_mm(len(rows))])
        limiters = rows[_LIMITERS].replace("", "nothing fits")
        texts = limiters.mask(rows[_PERCENT] == 100, "all slots")
        bars(ax, list(rows["variant"]), list(rows[_PERCENT]), list(texts))
        ax.set(xlim=(0, 100), xlabel="occupancy (%)")
        return look.finish(fig, study, style, checks=checks)
    fig, (ax,) = look.panels(style, [68.0])
    _rates(ax, _apart(good), cycles, lanes_of(study), style)
    return look.finish(fig, study, style, _KEYS, checks=checks)


def _rates(ax: Axes, good: pd.DataFrame, cycles: float | None, lanes: int, style: Style) -> None:
    """Draw the measured rates as points, the model's as lines, and the number of warps that keep an SM busy."""
    names = {ilp: f"{ilp} chain{'s' * (ilp > 1)}" for ilp in map(int, good["ilp"].unique())}
    good, colors = good.assign(name=good["ilp"].map(names)), dict(zip(names.values(), PALETTE))
    counts = range(1, int(good["warps"].max()) + 1)
    for ilp, name in names.items() if cycles is not None else ():
        rates = [latency.fma_per_cycle(n, ilp, cycles or 0, lanes=lanes) for n in counts]
        sns.lineplot(x=counts, y=rates, color=colors[name], linewidth=0.9, ax=ax)
    sns.scatterplot(
        good, x="warps", y="measured", hue="name", style="name", palette=colors, s=20, linewidth=0, ax=ax,
        markers=dict(zip(colors, MARKERS)), zorder=3, legend=False,
    )  # fmt: skip
    peak = latency.SCHEDULERS * lanes
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
    firsts = good.drop_duplicates("name").sort_values("name").to_dict("records")
    for place, first in enumerate(firsts):
        name, rate = first["name"], first["measured"] / first["warps"]
        at = (1.35 if place % 2 else 1.15) * first["warps"]
        slanted(ax, name, (at, 0.88), rate, style, color=colors[name], va="top")
    if cycles is not None:
        warps = round(latency.warps_to_hide(cycles, 1, lanes=lanes))
        ax.axvline(warps, color=GREY, linewidth=0.7, linestyle="--", zorder=0)
        name, bottom = f"1 chain: {warps} warps keep an SM busy", ax.get_xaxis_transform()
        look.write(ax, name, (warps, 0.03), (-4, 0), xycoords=bottom, ha="right")


def _apart(chains: pd.DataFrame) -> pd.DataFrame:
    """Return the chains without those as fast as fewer ones, which would hide them."""
    rates = chains.pivot_table("measured", "warps", "ilp")
    kept = [n for n in rates if not any((rates[n] / rates[m] < 1.03).all() for m in rates if m < n)]
    return chains[chains["ilp"].isin(kept)]


def _on_gpu(study: StudyData) -> StudyData:
    """Return the study without products that a CPU computes, which have no occupancy."""
    providers = study.cases.reindex(columns=["provider"])["provider"]
    return replace(study, cases=study.cases[providers != "cpu"])


def _checks(table: pd.DataFrame) -> list[str]:
    """Return different answers, and the error of the rate's model."""
    chains, cycles = base.derived(table)
    columns = ["blocks on an SM (driver)", "occupancy (%, ncu, theoretical)"]
    rows = table.reindex(columns=["case", _DIFFERENCES, *columns]).fillna({_DIFFERENCES: ""})
    answered, differ = rows[columns].notna().any(axis=1).sum(), rows[rows[_DIFFERENCES] != ""]
    texts = list(differ["case"] + ": " + differ[_DIFFERENCES] + ".")
    good = chains[chains["ranks"].astype(bool)].dropna(subset=["measured", "model"])
    off = 100 * (good["measured"] / good["model"] - 1).abs()
    facts = {"answered": answered, "differ": texts, "most": _MOST, "cycles": cycles, "off": off}
    return filled(__file__, "occupancy", **facts).splitlines()
