"""The data of a figure, and the questions that every figure asks of it.

All values come from the tidy table (one row per value of a case). No figure ranks a case whose verdict is not
*correct*; all that is missing is listed with its status and reason; ratios need records of one environment.

A module's `table` derives a study's values once; `draw` takes them from its columns (`column`). Data for the
drawing alone go with the frame (`with_derived`, `derived`), not into the CSV.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import markupsafe
import pandas as pd

from tilewave.basics.tables import table_beside
from tilewave.kernel.result import SPOILT
from tilewave.plots.options import Named
from tilewave.theory.dtypes import HEADINGS

BASELINE = "cublas"
"""Name of the vendor baseline's kernel: the reference line of every comparison."""

TABLES: Mapping[str, list[str]] = table_beside(__file__)
CASE_COLUMNS, INSTRUCTION_COLUMNS = TABLES["cases"], TABLES["instructions"]
_VERDICT_ORDER, _STATUS_ORDER = TABLES["verdicts"], TABLES["statuses"]


@dataclass(frozen=True)
class StudyData:
    """A study's question, its cases in the config's order, and their records.

    cases: one row per case, columns CASE_COLUMNS (sizes in elements, shared_bytes in bytes; flop and byte
        are the least work of its operation: operations to compute, bytes to move).
    records: the tidy table filtered to the cases, columns `pipeline.tables.RECORD_COLUMNS`.
    instructions: one row per SASS instruction of a case, columns INSTRUCTION_COLUMNS.
    environments: environment id -> environment.
    target: label ("NVIDIA H200"), live (bool), sms (int), environment (id).
    takeaway: the finding in one sentence, as the plot module's `takeaway` gives it; "" without one.
    """

    name: str
    title: str
    question: str
    options: Mapping[str, Any]
    cases: pd.DataFrame
    records: pd.DataFrame
    instructions: pd.DataFrame
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    takeaway: str = ""

    @property
    def environment(self) -> Mapping[str, Any]:
        """Known facts of the target's environment."""
        return self.environments.get(str(self.target.get("environment", "")), {})

    @cached_property
    def ok_values(self) -> Mapping[str, list[tuple[str, str, float, str]]]:
        """Case, stage, value and environment of the records that are ok and have a value, by metric."""
        rows = self.records[(self.records["status"] == "ok") & self.records["value"].notna()]
        columns = [rows[name].tolist() for name in ("case", "stage", "value", "environment")]
        by_metric: dict[str, list[tuple[str, str, float, str]]] = {}
        for metric, *row in zip(rows["metric"].tolist(), *columns):
            by_metric.setdefault(metric, []).append(tuple(row))
        return by_metric

    @cached_property
    def states(self) -> list[tuple[str, str, Any, Any, Any]]:
        """Case, stage, status, reason and verdict of the records, each combination once."""
        rows = self.records[["case", "stage", "status", "reason", "verdict"]].drop_duplicates()
        return list(rows.itertuples(index=False, name=None))


@dataclass(frozen=True)
class Missing:
    """A case that cannot be drawn or ranked, and the reason."""

    case: str
    status: str
    reason: str


def present(value: object) -> bool:
    """Return whether a table's cell has a value (None, NaN and "" are none)."""
    if value is None or value == "":
        return False
    return not (isinstance(value, float) and math.isnan(value))


def vendors(study: StudyData) -> set[str]:
    """Return the kernels of a vendor's library, the baselines of all others."""
    cases = study.cases
    if "provider" not in cases:
        return {BASELINE}
    return {BASELINE, *cases.loc[cases["provider"] == "cublaslt", "kernel"]}


def case_order(study: StudyData) -> list[str]:
    """Return the case ids in the config's order."""
    return [str(case) for case in study.cases["case"]]


def _ok_rows(study: StudyData, metric: str, stage: str | None) -> dict[str, tuple[float, str]]:
    """Return value and environment of one metric by case, in the config's order."""
    rows = study.ok_values.get(metric, [])
    last = {case: (value, at) for case, where, value, at in rows if stage in (None, where)}
    return {case: last[case] for case in case_order(study) if case in last}


def value_of(study: StudyData, metric: str, stage: str | None = None) -> pd.Series[float]:
    """Return the values of one metric by case, in the config's order; cases without an ok value are absent.
    stage: "check", "time", "counters", or None for any stage that gives the metric."""
    rows = _ok_rows(study, metric, stage)
    index = pd.Index(list(rows), dtype=study.records["case"].dtype)
    return pd.Series([value for value, _ in rows.values()], index, float, metric)


def speed(study: StudyData) -> pd.Series[float]:
    """Return TFLOP/s of each timed case, at one clock where paired with cuBLAS (`pipeline.tables.with_cublas`)."""
    measured = value_of(study, "tflops", "time")
    return value_of(study, "even_tflops", "time").reindex(measured.index).fillna(measured)


def environment_of(study: StudyData, metric: str, stage: str | None = None) -> dict[str, str]:
    """Return the environment id of each case's value of that metric."""
    return {case: str(at) for case, (_, at) in _ok_rows(study, metric, stage).items()}


def text_of(study: StudyData, metric: str) -> dict[str, str]:
    """Return the text of one metric by case, e.g. `kernel_name`; cases without one are absent."""
    rows = study.records.reindex(columns=["case", "metric", "status", "text"])
    rows = rows[(rows["metric"] == metric) & (rows["status"] == "ok")]
    pairs = zip(rows["case"], rows["text"], strict=True)
    return {str(case): str(text) for case, text in pairs if present(text)}


def pivot(study: StudyData, metrics: Sequence[str], stage: str | None = None) -> pd.DataFrame:
    """Return one row per case (index: case id, all cases, config order), one column a metric; gaps are NaN."""
    columns = {metric: value_of(study, metric, stage) for metric in metrics}
    return pd.DataFrame(columns, index=pd.Index(case_order(study), name="case"))


def verdicts(study: StudyData) -> dict[str, str]:
    """Return the verdict of each case: the worst that any stage's row gives, else *not checked*."""
    places = {name: place for place, name in enumerate(_VERDICT_ORDER)}
    by_case: dict[str, list[str]] = {case: [] for case in case_order(study)}
    for case, *_, verdict in study.states:
        if case in by_case and present(verdict):
            by_case[case].append(str(verdict))
    return {
        case: min(names, key=lambda name: (places.get(name, -1), name), default="not checked")
        for case, names in by_case.items()
    }


def statuses(study: StudyData, stages: Iterable[str] | None = None) -> dict[str, Missing]:
    """Return the worst status of each case over all stages, or over the named ones, with its reason."""
    wanted = None if stages is None else set(stages)
    places = {status: place for place, status in enumerate(_STATUS_ORDER)}

    def severity(state: Missing) -> tuple[int, bool]:
        return places.get(state.status, -1), not state.reason.startswith(SPOILT)

    worst: dict[str, Missing] = {}
    for case, stage, status, reason, _ in study.states:
        if present(status) and (wanted is None or stage in wanted):
            state = Missing(case, str(status), str(reason) if present(reason) else "")
            worst[case] = min(worst.get(case, state), state, key=severity)
    no_record = "there is no record of this case"
    return {
        case: worst.get(case) or Missing(case, "not measured", no_record)
        for case in case_order(study)
    }


def ranking(study: StudyData) -> list[str]:
    """Return the cases that may rank: those whose verdict is *correct*."""
    return [case for case, verdict in verdicts(study).items() if verdict == "correct"]


def missing_cases(study: StudyData, stages: Iterable[str] | None = None) -> list[Missing]:
    """Return every case that is not correct, not ok or was disturbed, once, in the config's order:
    by its status where that is not ok, else by its verdict, which a failed check does not give."""
    listed = []
    by_verdict = verdicts(study)
    wanted = None if stages is None else {"check", *stages}
    for case, state in statuses(study, wanted).items():
        if state.status != "ok":
            listed.append(state)
        elif by_verdict[case] != "correct":
            listed.append(Missing(case, by_verdict[case], ""))
        elif state.reason.startswith(SPOILT):
            listed.append(Missing(case, *state.reason.split(": ", 1)))
    return listed


def source_of(study: StudyData) -> dict[str, str]:
    """Return the sources of each case's values, joined, for a table's column."""
    pairs = study.records.loc[study.records["value"].notna(), ["case", "source"]].drop_duplicates()
    pairs = pairs[pairs["source"].map(present).astype(bool)].sort_values("source")
    sources = pairs.groupby("case")["source"].agg(", ".join).to_dict()
    return {case: sources.get(case, "") for case in case_order(study)}


def flops(study: StudyData) -> pd.Series[float]:
    """Return the operations that each case must compute: 2 m n k of a product; NaN for probes."""
    return study.cases.set_index("case")["flop"].astype(float).rename("flops")


COUNTED_FLOPS = "counted_flops"
COUNTED_TENSOR_FLOPS = "counted_tensor_flops"


def excess_percent(instructions: pd.DataFrame) -> pd.Series[float]:
    """Return the share of its shared-memory wavefronts that is excess (%) by case, for cases that have any."""
    ideal, excess = "wavefronts_shared_ideal", "wavefronts_shared_excess"
    sums = instructions[[ideal, excess]].apply(pd.to_numeric).groupby(instructions["case"]).sum()
    percent = 100 * sums[excess] / sums.sum(axis=1).where(sums[ideal] > 0)
    return percent.dropna().astype(float)


def over_2mnk(study: StudyData, metric: str) -> pd.Series[float]:
    """Return counted operations over the needed ones, 2 m n k of a product, by case that needs any (1)."""
    counted = value_of(study, metric, "counters")
    needed = flops(study).reindex(counted.index)
    return (counted / needed.where(needed > 0)).dropna()


def _of_json(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    text = row.get(name)
    return dict(json.loads(text)) if isinstance(text, str) and text else {}


def macros_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case's macros from the table's JSON."""
    return _of_json(row, "macros")


def layouts_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a product's layouts from the table's JSON; the default is row-major."""
    return {"a": "row", "b": "row", "c": "row", **_of_json(row, "layouts")}


def number(value: float) -> str:
    """Return a size without a needless decimal point."""
    return f"{value:g}" if value != int(value) else str(int(value))


def sizes_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return a case's sizes by dimension, in the operation's order, from the table's JSON; {} without any."""
    return _of_json(row, "sizes")


def shape_label(row: Mapping[str, Any]) -> str:
    """Return sizes in the operation's order with multiplication signs, `N³` for three equal, or a probe's case."""
    if present(row.get("probe_case")):
        return str(row["probe_case"])
    sizes: list[Any] = list(sizes_of(row).values()) or [row.get(d) for d in ("m", "n", "k")]
    numbers = [number(float(s)) for s in sizes if s is not None and present(s)]
    cube = len(numbers) == 3 and len(set(numbers)) == 1
    return f"{numbers[0]}³" if cube else "×".join(numbers)


def shape_labels(rows: pd.DataFrame) -> pd.Series[Any]:
    return pd.Series(list(map(shape_label, rows.to_dict("records"))), rows.index, dtype=object)


def common_shapes(cases: pd.DataFrame) -> dict[str, str]:
    """Return the label of each operation's most frequent shape (the first of several); probes have none."""
    cases = cases[cases["operation"] != "probe"]
    labels = shape_labels(cases).groupby(cases["operation"], sort=False)
    return {str(name): part.groupby(part, sort=False).size().idxmax() for name, part in labels}


def shapes_text(cases: pd.DataFrame) -> str:
    """Return the common shapes as text; a single operation is not named."""
    shapes = common_shapes(cases)
    if len(shapes) == 1:
        return next(iter(shapes.values()))
    return ", ".join(f"{operation_label(name)} {label}" for name, label in shapes.items())


def uncommon_shapes(cases: pd.DataFrame) -> dict[str, str]:
    """Return the label of each case whose shape is not its operation's common one, else ""."""
    labels, usual = shape_labels(cases), cases["operation"].map(common_shapes(cases))
    return dict(zip(cases["case"].astype(str), labels.mask(labels == usual, ""), strict=True))


def operation_label(operation: object) -> str:
    """Return an operation's name as text: `batched matmul`."""
    return str(operation).replace("_", " ")


def variant_label(row: Mapping[str, Any], dtype: str | None = None) -> str:
    """Return the kernel and the macros that differ from the default.
    If `dtype` is given, macro values that only repeat it are skipped."""
    kernel, variant = str(row["kernel"]), str(row["variant"])
    tokens = [t for t in variant.removeprefix(kernel).split("-") if t]
    if dtype is not None:
        pattern = "|".join(sorted({*dtype.split("_"), dtype}, key=len, reverse=True))
        tokens = [t for t in tokens if not re.fullmatch(rf"[a-z_]+({pattern})", t)]
    return " ".join([kernel, *tokens])


def plain_label(study: StudyData, row: Mapping[str, Any]) -> str:
    """Return the plain name of a variant that the option `names` gives, else its `variant_label`; cuBLAS has one."""
    if row["kernel"] == BASELINE:
        return "cuBLAS"
    return Named.of(study).names.get(str(row["variant"]), variant_label(row, str(row["dtype"])))


def dtype_label(dtype: object) -> str:
    """Return the dtype as a panel's title names it."""
    return HEADINGS.get(str(dtype), str(dtype)) if present(dtype) else "no dtype"


def dtype_short(dtype: object) -> str:
    """Return the short name of a dtype: FP32, BF16; with its sum where others have the same operands."""
    operands, _, sum_type = dtype_label(dtype).partition(", ")
    alike = [heading for heading in HEADINGS.values() if heading.partition(", ")[0] == operands]
    return f"{operands} ({sum_type.replace('accumulate', 'sum')})" if len(alike) > 1 else operands


def operand_dtype(dtype: object) -> str:
    """Return the short name of a dtype without its sum: FP16."""
    return dtype_short(dtype).partition(" (")[0]


def rate_notes(study: StudyData) -> list[str]:
    """Return the note that a figure of rates needs for integer products."""
    if "i8" not in dtypes_in_order(study):
        return []
    return ["For INT8, TFLOP/s are TOP/s: 2mnk integer operations."]


def dtypes_in_order(study: StudyData) -> list[str]:
    """Return the dtypes of the cases, in the config's order."""
    return list(dict.fromkeys(str(dtype) for dtype in study.cases["dtype"] if present(dtype)))


def dtypes_text(study: StudyData) -> str:
    """Return the short names of the dtypes of the cases: FP16, BF16."""
    return ", ".join(dict.fromkeys(map(operand_dtype, dtypes_in_order(study))))


def digits(value: float) -> str:
    """Return a figure with three significant digits, never in exponents: 685, 36.3, 4.00, 0.130."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def compact(value: float) -> str:
    """Return a count in a few characters: 5.90 M, 12.3 k, 64."""
    for scale, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {sign}"
    return f"{value:.3g}"


def bars(values: pd.Series[float], most: float = 100.0) -> pd.Series[Any]:
    """Return values with a small bar before each, for a page's table; "" without a value."""
    meter = markupsafe.Markup('<meter aria-hidden="true" max="{:g}" value="{:g}"></meter> {}')
    cells = [
        meter.format(most, min(value, most), digits(value)) if present(value) else ""
        for value in values
    ]
    return pd.Series(cells, values.index, dtype=object)  # a column of strings would lose the markup


def base_table(study: StudyData) -> pd.DataFrame:
    """Return the columns with which every table starts and ends: case, variant, dtype, sizes ... status.
    Sizes are m, n, k and the other dimensions of its operations."""
    columns = ["case", "kernel", "variant", "dtype", "m", "n", "k"]
    frame = study.cases.reindex(columns=columns).set_index("case", drop=False)
    sizes = [sizes_of(row) for row in study.cases.to_dict("records")]
    for name in dict.fromkeys(itertools.chain(*sizes)):
        if name not in columns:
            frame[name] = [float(dimensions.get(name, math.nan)) for dimensions in sizes]
    state = statuses(study)
    frame["verdict"] = pd.Series(verdicts(study), dtype=object).reindex(frame.index)
    frame["status"] = pd.Series({c: s.status for c, s in state.items()}, dtype=object)
    frame["reason"] = pd.Series({c: s.reason for c, s in state.items()}, dtype=object)
    frame["source"] = pd.Series(source_of(study), dtype=object).reindex(frame.index)
    return frame


def columns(
    study: StudyData, named: Mapping[str, str], **derived: pd.Series[Any]
) -> dict[str, pd.Series[Any]]:
    """Return columns (by case) of a table's YAML: title -> a derived value or a metric, `time/tflops` of one stage."""
    values = {}
    for title, name in named.items():
        stage, _, metric = name.rpartition("/")
        values[title] = derived[name] if name in derived else value_of(study, metric, stage or None)
    return values


def table_of(study: StudyData, named: Mapping[str, str], **derived: pd.Series[Any]) -> pd.DataFrame:
    """Return the base table with these `columns`."""
    return with_columns(base_table(study), columns(study, named, **derived))


def with_columns(frame: pd.DataFrame, columns: Mapping[str, pd.Series[float]]) -> pd.DataFrame:
    """Put value columns (by case) between a base table's shape and its verdict."""
    at = frame.columns.get_loc("verdict")
    assert isinstance(at, int)
    for offset, (name, values) in enumerate(columns.items()):
        frame.insert(at + offset, name, values.reindex(frame.index))
    return frame.reset_index(drop=True)


def column(table: pd.DataFrame, name: str) -> pd.Series[float]:
    """Return a table's column by case, without empty cells and rows that are no case."""
    values = table.set_index("case")[name]
    return values[values.notna()]


def with_derived(table: pd.DataFrame, value: Any) -> pd.DataFrame:
    """Attach data for `draw` to the table: derived once, in no CSV.
    pandas copies and compares a frame's `attrs` whenever rows are selected or frames are joined. A function it copies as it is."""
    table.attrs["derived"] = lambda: value
    return table


def derived(table: pd.DataFrame) -> Any:
    """Return the data that `with_derived` attached to the table."""
    return table.attrs["derived"]()
