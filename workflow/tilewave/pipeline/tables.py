"""Tidy tables: one row per value, sample, instruction or case."""

import functools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from tilewave.basics.tables import table_beside
from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.kernel import operations, result
from tilewave.kernel.result import Result
from tilewave.pipeline.cases import Builds, Case
from tilewave.records.agreement import IN_ITS_TUNING_RUN, Disagreement
from tilewave.records.columns import LAUNCHES
from tilewave.records.counters import kernel_names
from tilewave.records.measured import INSTRUCTIONS, instruction_rows, sample_rows
from tilewave.records.recorded import Recorded

COLUMNS: Mapping[str, list[str]] = table_beside(__file__)
RECORD_COLUMNS, CASE_COLUMNS, PLACE = (COLUMNS[name] for name in ("records", "cases", "place"))
EMPTY = float("nan")
BEHIND = "tune_behind"
KERNEL_NAME = "kernel_name"
"""Metric whose record is text: the kernels that ncu saw a case launch, in order."""


def verdicts(checks: Iterable[Result], executions: Iterable[Result] = ()) -> dict[str, str]:
    """Return each case's verdict: its check's, or `not checked` if the check gave none.
    A finding of the execution (race, uninitialised read, barrier) replaces `correct` and `not checked`."""
    by_case = {outcome.case: outcome.verdict or result.NOT_CHECKED for outcome in checks}
    for outcome in executions:
        acquitted = by_case.get(outcome.case) in (result.CORRECT, result.NOT_CHECKED)
        if outcome.verdict in result.FINDINGS and acquitted:
            by_case[outcome.case] = outcome.verdict
    return by_case


def case_row(case: Case, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a case before it runs. entry: its variant's, compiled for the target, or empty."""
    launch, variant = case.launch, case.variant
    front = variant.kernel.front
    row: dict[str, Any] = dict.fromkeys(CASE_COLUMNS)
    row |= {
        "ends": result.OK,
        "finds": "",
        "case": case.id,
        "kernel": variant.kernel.name,
        "variant": variant.id,
        "title": front.title,
        "follows": front.follows,
        "provider": variant.kernel.provider,
        "macros": json.dumps(variant.names),
        "layouts": json.dumps(variant.layouts) if front.operation == "matmul" else "",
        "operation": front.operation,
        "dtype": variant.dtype,
        "probe_case": case.probe_case,
        "shape": case.shape.id if case.shape else "",
        "studies": json.dumps(case.studies),
    }
    if case.probe_case is not None:
        probe = front.cases[case.probe_case]
        row |= {"expect": json.dumps(probe.expect), "claimed": json.dumps(probe.claimed)}
        row |= {"ends": probe.status, "finds": probe.finds}
        row |= {"instruction": probe.instruction, "note": probe.note}
    resources = entry.get("resources", {}).get(variant.kernel.entry, {})
    row |= {name: resources.get(name) for name in ("registers", "static_shared_bytes")}
    row["spill_bytes"] = resources.get("spill_store_bytes")
    row |= {name: value for name, value in case.sizes.items() if name in row}
    row["sizes"] = json.dumps(case.sizes)
    if case.sizes and front.operation != "probe":
        operation = operations.load(front.operation, variant.kernel.path)
        row["flop"], row["byte"] = operation.work(case.sizes, variant.dtypes)
    if launch is not None and variant.kernel.provider == "nvrtc":
        row |= {
            "grid": json.dumps(launch.grid),
            "blocks": launch.blocks,
            "working_blocks": launch.working_blocks,
            "cluster_blocks": launch.cluster_blocks,
            "block_threads": math.prod(launch.block),
            "shared_bytes": (row["static_shared_bytes"] or 0) + launch.shared_bytes,
            "scratch_bytes": launch.scratch_bytes,
        }
        if launch.series:
            row[LAUNCHES] = json.dumps(_launches(case, entry))
        if launch.tile:
            row |= dict(zip(("tile_m", "tile_n", "tile_k"), launch.tile))
    return row


def _launches(case: Case, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    assert case.launch is not None
    resources = entry.get("resources", {})
    used = [resources.get(step.entry, {}) for step in case.launch.series]
    return [
        {
            "entry": step.entry,
            "grid": step.grid,
            "block_threads": math.prod(step.block),
            "registers": uses.get("registers"),
            "shared_bytes": uses.get("static_shared_bytes", 0) + step.shared_bytes,
        }
        for step, uses in zip(case.launch.series, used)
    ]


def cases_table(
    cases: Iterable[Case], compiled: Mapping[str, Builds], arch: str, verdict: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row per case, in config order. compiled: by variant and architecture. arch: the target's."""
    rows = []
    for case in cases:
        row = case_row(case, compiled[case.variant.id].get(arch) or {})
        row["verdict"] = verdict.get(case.id, result.NOT_CHECKED)
        rows.append(row)
    several = [LAUNCHES] if any(LAUNCHES in row for row in rows) else []
    return pd.DataFrame(rows, columns=[*CASE_COLUMNS, *several])


def _behind(outcome: Result) -> list[dict[str, Any]]:
    """Return the ratio of an eliminated candidate's time to its rival's, in the same laps or screening.
    `text` names the rival. Later laps run at another clock, so only this ratio ranks the candidate."""
    figures, notes = outcome.by_metric, outcome.notes
    if not figures.get("tune_eliminated") or not notes.get("compared_us"):
        return []
    ratio = figures["tune_duration"] / notes["compared_us"]
    return [{"metric": BEHIND, "value": ratio, "unit": "1", "text": str(notes["compared_with"])}]


def records_table(
    cases: pd.DataFrame, results: Iterable[Result], verdict: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row per value; a result without values has one row with status and reason."""
    by_case = cases.set_index("case")
    named = [name for name in RECORD_COLUMNS if name in by_case.columns and name != "verdict"]
    facts = by_case[named].to_dict("index")
    ends = dict(zip(by_case.index, by_case["ends"], strict=True))
    finds = dict(zip(by_case.index, by_case["finds"], strict=True))
    vendors = (by_case["provider"] == "cublaslt").to_dict()
    rows = []
    for outcome in results:
        planned = outcome.status != result.OK and outcome.status == ends[outcome.case]
        if planned or (outcome.verdict and outcome.verdict == finds[outcome.case]):
            outcome = replace(outcome, reason=f"{outcome.reason}, as its kernel file says it does")
        base = {
            **facts[outcome.case],
            **outcome.only("case", "stage", "status", "reason", "key", "source", "environment"),
            "verdict": verdict.get(outcome.case, result.NOT_CHECKED),
        }
        metric = result.INTERRUPTED if result.INTERRUPTED in outcome.notes else ""
        figures = outcome.figures or [{"metric": metric, "value": EMPTY, "unit": ""}]
        if (tolerance := outcome.notes.get("relative_tolerance")) is not None:
            of_result = {"metric": "relative_tolerance", "value": float(tolerance), "unit": ""}
            figures = [*figures, of_result]
        rows += [base | {"text": ""} | figure for figure in figures]
        if outcome.status == result.OK and outcome.stage == "tune":
            rows += [base | row for row in _behind(outcome)]
        names = outcome.notes.get("kernels")
        if outcome.status == result.OK and names:
            text = "; ".join(dict.fromkeys(names))
            rows.append(base | {"metric": KERNEL_NAME, "value": EMPTY, "unit": "", "text": text})
            tile = kernel_names.tile_of(text) if vendors[outcome.case] else None
            rows += [
                base | {"metric": metric, "value": float(size), "unit": "element", "text": ""}
                for metric, size in zip(("cublas_tile_m", "cublas_tile_n"), tile or ())
            ]
    return pd.DataFrame(rows, columns=RECORD_COLUMNS)


def _long(
    results: Sequence[Result], rows: list[dict[str, Any]], name: str, recorded: Recorded | None
) -> pd.DataFrame:
    """Return long rows of the run's results and of the recording, repeated for each case with their key."""
    places = pd.DataFrame([row.only(*PLACE) for row in results if row.key], columns=PLACE)
    frames = [pd.DataFrame(rows)]
    if recorded is not None:
        taken = places["source"].str.startswith("recorded:")
        keys = set(places["key"][taken]) if len(places) else set()
        frames.append(recorded.long_table(name, keys).to_pandas())
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        return pd.DataFrame(columns=["case", "key"])
    return places.merge(pd.concat(frames, ignore_index=True), on="key", how="inner")


def samples_table(results: Sequence[Result], recorded: Recorded | None) -> pd.DataFrame:
    """Return raw samples: case, key, environment, source, series, index, value (microseconds)."""
    return _long(results, sample_rows(results), "samples", recorded)


# Metric -> its percentile of the shares.
PAIRED = {"paired_share_low": 25, "paired_share": 50, "paired_share_high": 75}
QUARTILES = ("paired_share_low", "paired_share_high")


def paired_shares(records: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """Add median and quartiles of each product's share of cuBLAS (%), and both speeds at this share.
    Each sample is divided by cuBLAS' sample beside it, because a moving clock moves both. ``paired_tflops`` and
    ``paired_baseline_tflops`` are medians over the pairs between the quartiles: their ratio is this share, too."""
    rows = records[(records["metric"] == "percent_of_cublas") & (records["stage"] == "time")]
    if rows.empty or not len(samples):
        return records
    timed = samples[samples["stage"].eq("time") & samples["case"].isin(rows["case"])]
    pairs = timed.pivot_table(index=["case", "index"], columns="series", values="value")
    if not {"duration_us", "baseline_us"} <= set(pairs.columns):
        return records
    share = (100 * pairs["baseline_us"] / pairs["duration_us"]).dropna()
    limits = {
        metric: share.groupby(level="case").quantile(percentile / 100)
        for metric, percentile in PAIRED.items()
    }
    more = [rows.assign(metric=metric, value=rows["case"].map(us)) for metric, us in limits.items()]
    low, high = (share.index.get_level_values("case").map(limits[name]) for name in QUARTILES)
    middle = pairs.reindex(share.index)[(share >= low) & (share <= high)].groupby(level="case")
    shares = pd.concat([*more, *_paired_speeds(records, middle.median())])
    return pd.concat([records, shares[shares["value"].notna()]], ignore_index=True)


def _paired_speeds(records: pd.DataFrame, paired_us: pd.DataFrame) -> list[pd.DataFrame]:
    """Return records of the speeds of cases and of cuBLAS beside them. paired_us: by case."""
    timed = records[records["stage"] == "time"]
    speeds = timed[timed["metric"] == "tflops"]
    duration = timed[timed["metric"] == "duration"].set_index("case")["value"].astype(float)
    if speeds.empty:
        return []
    flops = speeds["value"] * speeds["case"].map(duration)
    names = {"duration_us": "paired_tflops", "baseline_us": "paired_baseline_tflops"}
    return [
        speeds.assign(metric=metric, value=flops / speeds["case"].map(paired_us[series]))
        for series, metric in names.items()
    ]


OWN_DURATION = "own_duration"
"""Microseconds of cuBLAS' case by itself, if `with_cublas` replaces its time."""
EVEN_TFLOPS = "even_tflops"
"""TFLOP/s of a product at the clock of cuBLAS' usual time at its shape: its share of cuBLAS times cuBLAS' usual
speed. They compare variants that were timed at different moments as their shares do."""


def with_cublas(
    records: pd.DataFrame, products: Mapping[str, Hashable], doubtful: Mapping[str, Disagreement]
) -> pd.DataFrame:
    """Give each product one value of cuBLAS, add speeds at one clock, and mark doubtful times.

    cuBLAS' ``duration``, ``duration_spread`` and ``tflops`` become median (and interquartile range) of the pairings
    of the same product (`agreement.disagreements`). A doubtful time without a pairing becomes its tuning run's, whose
    laps all candidates share, or none. `OWN_DURATION`: cuBLAS' time alone. Paired rows, and cuBLAS, get `EVEN_TFLOPS`.
    """
    timed = records[(records["stage"] == "time") & (records["status"] == result.OK)]
    if timed.empty:
        return records
    wide = timed.pivot_table(index="case", columns="metric", values="value", sort=False)
    if "duration" not in wide:
        return records
    facts = timed.drop_duplicates("case").set_index("case").reindex(wide.index)
    product = pd.Series({case: products.get(case) for case in wide.index}, dtype=object)
    wide["product"] = [(*pair,) for pair in zip(facts["environment"], product)]
    sizes = facts[["environment", "operation", "dtype", "m", "n", "k"]].astype(object)
    wide["place"] = list(sizes.where(sizes.notna(), None).itertuples(index=False, name=None))
    none = pd.Series(EMPTY, wide.index)
    paired = wide.get("baseline_duration", none).dropna()
    vendor = wide[wide.get("rank0_duration", none).notna()]
    if paired.empty and vendor.empty and not doubtful:
        return records
    flops = wide.get("tflops", none) * wide["duration"]

    by_product = paired.groupby(wide["product"])
    runs = [(case, time) for case, time in doubtful.items() if time.other == IN_ITS_TUNING_RUN]
    tuned = {case: time.other_us for case, time in runs}
    us = vendor["product"].map(by_product.median()).fillna(vendor.index.to_series().map(tuned))
    spread = vendor["product"].map(by_product.quantile(0.75) - by_product.quantile(0.25))
    replaced = us.index[us.notna() | us.index.isin(list(doubtful))]
    values = {"duration": us, "duration_spread": spread, "tflops": flops.reindex(us.index) / us}
    records = records.copy()
    of_vendor = records["case"].isin(replaced) & (records["stage"] == "time")
    alone = records[of_vendor & (records["metric"] == "duration")].assign(metric=OWN_DURATION)
    for metric, value in values.items():
        rows = of_vendor & (records["metric"] == metric)
        records.loc[rows, "value"] = records.loc[rows, "case"].map(value)

    usual = flops / wide["place"].map(paired.groupby(wide["place"]).median())
    share = (paired / wide["duration"]).reindex(wide.index)
    even = (usual * share).fillna(usual.reindex(vendor.index))
    rows = records[(records["metric"] == "tflops") & (records["stage"] == "time")]
    rows = rows.assign(metric=EVEN_TFLOPS, value=rows["case"].map(even))
    complete = pd.concat([records, alone, rows[rows["value"].notna()]], ignore_index=True)

    settled = us.dropna().index
    reasons = {case: time.reason for case, time in doubtful.items() if case not in settled}
    marked = complete["case"].isin(reasons) & (complete["stage"] == "time")
    complete.loc[marked, "reason"] = complete.loc[marked, "case"].map(reasons)
    return complete


Origins = Callable[[str, str], Mapping[int, Origin]]
"""Variant and function (empty if it has one launch) -> address -> source line of the instruction."""


def instructions_table(
    results: Sequence[Result],
    recorded: Recorded | None,
    origins_of: Origins,
    name: str = INSTRUCTIONS,
) -> pd.DataFrame:
    """Return counters by instruction, or samples for the table ``stalls``, each with its `Origin`."""
    table = _long(results, instruction_rows(results, name), name, recorded)
    if not len(table):
        return table
    functions = table.get("function", pd.Series("", table.index)).fillna("")
    origins_of = functools.cache(origins_of)
    variants = table["case"].str.partition("@")[0]
    places = zip(variants.tolist(), functions.tolist(), table["address"].tolist())
    origins = [origins_of(*code).get(address, NOWHERE) for *code, address in places]
    columns = {name: [getattr(origin, name) for origin in origins] for name in vars(NOWHERE)}
    return table.assign(**columns)
