"""Best variant by shape: the winner of each tuning run as a share of cuBLAS, a row per dtype.
A tuning run (`tilewave.theory.tuning_run`) times all variants of one dtype at one shape in turn."""

from __future__ import annotations

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import BLUE, INK, Style
from tilewave.theory import tuning_run

TUNED, DURATION, BEHIND = "tune", "tune_duration", "tune_behind"
SHAPE = ("m", "n", "k")
COLUMNS: list[str] = table_beside(__file__)
TOUCHING = 1.5
"""Difference of two shares, in percent, below which their dots touch."""


def times(study: StudyData) -> pd.Series[float]:
    """Return comparable microseconds by case (`tuning_run.durations`), without leaders in another environment."""
    durations = base.value_of(study, DURATION, TUNED)
    where = base.environment_of(study, DURATION, TUNED)
    ratios, leaders = base.value_of(study, BEHIND, TUNED), base.text_of(study, BEHIND)
    here = {case: at for case, at in leaders.items() if where.get(at) == where.get(case)}
    behind = {case: (leader, float(ratios[case])) for case, leader in here.items()}
    microseconds = {str(case): float(us) for case, us in durations.items()}
    return pd.Series(tuning_run.durations(microseconds, behind), dtype=float)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per dtype and shape, with figures of the environment that most of the dtype's come from.
    Where nothing was measured, the status says why."""
    durations, environments = times(study), base.environment_of(study, DURATION, TUNED)
    costs = base.pivot(study, ["tune_eliminated", "tune_spent", "tune_full_cost"], TUNED)
    states, verdicts = base.statuses(study, [TUNED]), base.verdicts(study)
    names = base.text_of(study, "kernel_name")
    about = study.cases.assign(
        us=study.cases["case"].map(durations),
        environment=study.cases["case"].map(environments),
        kernel_name=[names.get(case, "") for case in base.case_order(study)],
        empty=study.cases["case"].map(base.value_of(study, "empty_kernel", "time")),
        source=study.cases["case"].map(base.source_of(study)),
        label=base.shape_labels(study.cases),
    )
    rows = []
    for dtype in base.dtypes_in_order(study):
        group = about[about["dtype"].astype(str) == dtype]
        tuned = group[group["case"].isin(base.ranking(study))].dropna(subset=["us", *SHAPE])
        tuned = tuned[tuned["environment"].isin(tuned["environment"].mode()[:1])]
        tuned = tuned.sort_values("us", kind="stable")
        for label, cases in group.groupby("label", sort=False):
            part = tuned[tuned["label"] == label]
            vendors = part["kernel"] == BASELINE
            vendor, variants = part[vendors], part[~vendors]
            row: dict[str, Any] = {"dtype": dtype, **{s: cases[s].iloc[0] for s in SHAPE}}
            row |= _winner(variants, vendor) if len(variants) else {}
            candidates = cases.loc[cases["kernel"] != BASELINE, "case"]
            cost = costs.loc[candidates]
            troubles = [states[case] for case in candidates if states[case].status != "ok"]
            why = next(iter(troubles), base.Missing("", "not measured", "no own variant"))
            row |= {
                "candidates": len(candidates),
                "raced": int(cost["tune_eliminated"].notna().sum()),
                "eliminated early": int((cost["tune_eliminated"] > 0).sum()),
                "GPU time spent (ms)": float(cost["tune_spent"].sum()),
                "GPU time without elimination (ms)": float(cost["tune_full_cost"].sum()),
                "verdict": verdicts[str((variants if len(variants) else cases)["case"].iloc[0])],
                "status": "ok" if len(variants) else why.status,
                "reason": "" if len(variants) else why.reason,
            }
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def _winner(variants: pd.DataFrame, vendor: pd.DataFrame) -> dict[str, object]:
    """Return the fastest variant beside the runner-up and the vendor's fastest, with layouts, kernel and the
    time of an empty kernel in its place; variants, vendor: the tuned cases from fast to slow."""
    first, second = (*variants.head(2).to_dict("records"), None)[:2]
    baseline: dict[str, Any] = next(iter(vendor.to_dict("records")), {})
    flops = 2.0 * first["m"] * first["n"] * first["k"]
    return {
        "best variant": first["variant"],
        "duration (us)": first["us"],
        "TFLOP/s": flops / first["us"] * 1e-6,
        "cuBLAS variant": baseline.get("variant", ""),
        "cuBLAS kernel": baseline.get("kernel_name", ""),
        "cuBLAS (us)": baseline.get("us"),
        "empty kernel (us)": baseline.get("empty"),
        "% of cuBLAS": 100 * baseline["us"] / first["us"] if baseline else None,
        "runner-up": second["variant"] if second else "",
        "runner-up slower by (%)": 100 * (second["us"] / first["us"] - 1) if second else None,
        "source": first["source"],
        "environment": first["environment"],
    }


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per tuning run for the page: shape, winner, and its share of cuBLAS with a bar."""
    rows = table[table["status"] == "ok"]
    shown = rows[["dtype", "best variant", "TFLOP/s", "runner-up"]]
    shown.insert(1, "shape", base.shape_labels(rows))
    return shown.assign(**{"% of cuBLAS": base.bars(rows["% of cuBLAS"], 200)})


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of the shapes at which the best variant passes cuBLAS."""
    share = table["% of cuBLAS"].astype(float).dropna()
    if share.empty:
        return ""
    return f"The best variant passes cuBLAS at {100 * (share >= 100).mean():.0f} % of the shapes"


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one row per dtype, one dot per shape."""
    rows = table.assign(share=table["% of cuBLAS"].astype(float)).dropna(subset="share")
    look.stop_if(rows.empty, "tuning run")
    fig, (ax,) = look.panels(style, [rows_mm(rows["dtype"].nunique())])
    faster = (rows["share"] >= 100).groupby(rows["dtype"], sort=False).agg(["sum", "size"])
    # Dots of close shares stand beside the middle of their row.
    close = rows.sort_values(["dtype", "share"]).groupby("dtype")["share"].diff() < TOUCHING
    turn = close.groupby((~close).cumsum()).cumcount()
    aside = turn.map(lambda place: (0.0, -0.2, 0.2, -0.1, 0.1)[place % 5]).reindex(rows.index)
    sns.scatterplot(
        x=rows["share"], y=rows["dtype"].map(list(faster.index).index) + aside, hue=rows["share"] >= 100, s=20,
        palette={True: BLUE, False: "white"}, edgecolor=BLUE, linewidth=0.9, alpha=0.7, legend=False, ax=ax,
    )  # fmt: skip
    look.rows_axis(ax, list(map(base.dtype_short, faster.index)))
    texts = [f"{n} of {of}" for n, of in faster.itertuples(index=False)]
    number, of = faster.sum()
    look.beside(ax, texts, heading=f"faster: {number} of {of}")
    ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
    shapes = f"a dot for each of {faster['size'].max()} shapes"
    ax.set(xlabel=f"speed of the fastest variant (% of cuBLAS), {shapes}", ylabel="")
    look.grid(ax, "x")
    # What elimination saved.
    columns = ["GPU time spent (ms)", "GPU time without elimination (ms)"]
    spent, full = table[columns].sum() / 1e3
    facts = {"table": table, "spent": base.digits(spent), "full": full and base.digits(full)}
    notes = filled(__file__, "best", **facts).splitlines()
    return look.finish(fig, study, style, notes=notes, stages=[TUNED])
