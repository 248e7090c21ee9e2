"""Names and functions for the claims' expressions: a study's records and its target's limits."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from tilewave.kernel import expressions
from tilewave.kernel.result import EXECUTED
from tilewave.plots import base
from tilewave.plots.base import StudyData
from tilewave.plots.claims import forms
from tilewave.plots.claims.forms import NoValue, product
from tilewave.theory import data_sheets, occupancy, quantization, traffic

T = TypeVar("T")
NAMES: dict[str, Any] = {
    "none": None,
    "lane": forms.LANE,
    "TURING": occupancy.TURING,
    "V100": traffic.V100,
    "A100": data_sheets.SHORT["a100"],
    "RTX_4060": data_sheets.SHORT["rtx4060"],
    "TENSOR_INPUTS": data_sheets.TENSOR_INPUTS,
}
FUNCTIONS: dict[str, Any] = {"any": any, "len": len, "round": round, "sum": sum}
for module in (traffic, quantization, occupancy, forms):
    FUNCTIONS |= dict(inspect.getmembers(module, inspect.isfunction))


def required(value: T | None, otherwise: str) -> T:
    """Return the value. Raises NoValue where it is missing."""
    if not base.present(value):
        raise NoValue(otherwise)
    return cast(T, value)


class Facts:
    """A study's records and its target's limits.

    Expressions call the public methods, which raise NoValue where they have no answer; `target` has names that
    expressions may use. A case is named as in the report, `variant@264x136x96` (`variant@4096` for a cube) or
    `kernel@probe's case`. Figures of a case that is not *correct* are not given.

    Each question is logged: `read` has the figures, `sources` their sources, `missing` those without a value,
    `environments` those of figures from a GPU.
    """

    def __init__(self, study: StudyData) -> None:
        self._study, about = study, study.environment
        self.target = {
            "sms": int(study.target.get("sms") or about.get("sms") or 0) or None,
            "limits": occupancy.SmLimits.if_known(about) or occupancy.HOPPER,
            "sheet": data_sheets.data_sheet(str(about.get("gpu", ""))),
            "tensor_inputs": data_sheets.TENSOR_INPUTS.get(str(about.get("compute_capability"))),
        }
        columns = ["case", "metric", "value", "text", "source", "environment"]
        rows = study.records[study.records["status"] == "ok"].reindex(columns=columns)
        # The last of several records counts.
        self._records = {(row.case, row.metric): row for row in rows.itertuples(index=False)}
        self._verdicts, self._states = base.verdicts(study), base.statuses(study)
        self._rows: dict[str, Mapping[str, Any]] = {}
        for row in study.cases.to_dict("records"):
            names = [f"{row['kernel']}@{row['probe_case']}"]
            if base.present(row["m"]):
                sizes = [int(row[d]) for d in ("m", "n", "k")]
                names = [product(row["variant"], *sizes)]
                names += [f"{row['variant']}@{sizes[0]}"] if len(set(sizes)) == 1 else []
            for name in names:
                self._rows.setdefault(name, row)
        self.read: dict[str, None] = {}
        self.sources: dict[str, None] = {}
        self.missing: list[str] = []
        self.environments: set[str] = set()

    def fact(self, name: str) -> float:
        """Return a fact of the target's driver."""
        value = required(self._study.environment.get(name), f"the environment has no {name}")
        self._note(f"{name} of the environment", "environment")
        return float(value)

    def _note(self, what: str, source: object) -> None:
        self.read[what] = None
        if base.present(source):
            self.sources[str(source)] = None

    def _case(self, name: str) -> str:
        return str(required(self._rows.get(name), f"{name} is no case of the study")["case"])

    def _record(self, metric: str, name: str, column: str) -> Any:
        case = self._case(name)
        lacking, state = f"no {metric} of {case}", self._states[case]
        if state.status != "ok":
            lacking += f" ({': '.join(filter(None, (state.status, state.reason)))})"
        record: Any = required(self._records.get((case, metric)), lacking)
        if self._verdicts[case] != "correct":
            raise NoValue(f"{case} is {self._verdicts[case]}")
        if record.source != EXECUTED:  # executed counts may stand beside those of any GPU
            self.environments.add(str(record.environment))
        self._note(f"{metric} of {case}", record.source)
        return required(getattr(record, column), lacking)

    def value(self, metric: str, case: str) -> float:
        return float(self._record(metric, case, "value"))

    def text(self, metric: str, case: str) -> str:
        """Return a metric that is text, such as the names of the kernels that ran."""
        return str(self._record(metric, case, "text"))

    def ratio(self, metric: str, over: str, under: str) -> float:
        """Return a metric of one case over that of another."""
        return self.value(metric, over) / self.value(metric, under)

    def _values(self, metric: str, names: Iterable[str]) -> dict[str, float]:
        """Return a metric of those cases that have it."""
        values = {}
        for name in names:
            try:
                values[name] = self.value(metric, name)
            except NoValue as error:
                self.missing.append(str(error))
        return values

    def all_end_well(self, *names: str) -> bool:
        """Return whether these cases all ran to their end and were right."""
        wells = []
        for case in map(self._case, names):
            state = self._states[case]
            if state.status in ("not measured", "stale", "unsupported"):
                raise NoValue(f"{case} was not run ({state.reason or state.status})")
            for source in self._study.records.query("case == @case")["source"].unique():
                self._note(f"verdict of {case}", source)
            wells.append(state.status == "ok" and self._verdicts[case] == "correct")
        return all(wells)

    def nearer_roof(self, case: str, machine: traffic.Machine) -> str:
        """Return the rate of a machine that a product is nearer to: "memory" or "math"."""
        moved, duration = self.value("dram_bytes", case), 1e-6 * self.value("duration", case)
        flop_rate = 1e12 * self.value("tflops", case)
        nearer = moved / duration / machine.bandwidth > flop_rate / machine.flop_rate
        return traffic.MEMORY if nearer else traffic.MATH

    def cublas_tile(self, case: str) -> tuple[float, float]:
        return self.value("cublas_tile_m", case), self.value("cublas_tile_n", case)

    def sweep(self, metric: str, variant: str, m: int, k: int) -> dict[int, float]:
        """Return a metric of a variant by n, at m rows and k deep."""
        rows = [row for row in self._rows.values() if row["variant"] == variant]
        sizes = sorted(int(row["n"]) for row in rows if (row["m"], row["k"]) == (m, k))
        names = {product(variant, m, n, k): n for n in sizes}
        by_size = {names[name]: value for name, value in self._values(metric, names).items()}
        return required(by_size or None, f"no sweep of {variant}")

    def speeds(self, groups: Iterable[Iterable[str]], m: int) -> list[float]:
        """Return TFLOP/s at m cubed of the fastest variant of each group."""
        speeds = [self._values("tflops", [f"{name}@{m}" for name in group]) for group in groups]
        best = [max(group.values(), default=None) for group in speeds]
        return [required(speed, "a group has no tflops") for speed in best]

    def tensor_types(self, m: int) -> set[str]:
        """Return the types whose product at m cubed cuBLAS computes on tensor cores."""
        rows = {name: row for name, row in self._rows.items() if name.endswith(f"@{m}")}
        names = [name for name, row in rows.items() if row["kernel"] == base.BASELINE]
        counted: dict[str, list[float]] = {}
        for name, value in self._values(base.COUNTED_TENSOR_FLOPS, names).items():
            counted.setdefault(rows[name]["dtype"].split("_")[0], []).append(value)
        used = {dtype for dtype, values in counted.items() if any(values)}
        if not used or len(counted) < 2:
            raise NoValue("cuBLAS was counted for fewer than two types")
        self.environments.clear()  # use of tensor cores is the same on each card of a recording
        return used


def evaluate(facts: Facts, text: expressions.Expression, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression, with the log of `facts` cleared first. Raises NoValue and ExpressionError."""
    for log in (facts.read, facts.sources, facts.missing, facts.environments):
        log.clear()
    for name in expressions.names_in(text) & facts.target.keys():
        required(facts.target[name], f"the target has no {name}")
    methods = {name: getattr(facts, name) for name in vars(Facts) if not name.startswith("_")}
    try:
        all_names = {**NAMES, **facts.target, **names}
        return expressions.evaluate(text, all_names, {**FUNCTIONS, **methods})
    except expressions.ExpressionError as error:
        if isinstance(error.__cause__, ZeroDivisionError):
            raise NoValue("its divisor is 0") from None
        if isinstance(error.__cause__, NoValue):
            raise error.__cause__ from None
        raise
