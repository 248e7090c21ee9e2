"""What the claims' expressions ask a study: its records and its target's limits."""

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
    "A100": data_sheets.A100,
    "RTX_4060": data_sheets.RTX_4060,
    "TENSOR_INPUTS": data_sheets.TENSOR_INPUTS,
}
FUNCTIONS: dict[str, Any] = {"any": any, "len": len, "round": round, "sum": sum}
for module in (traffic, quantization, occupancy, forms):
    FUNCTIONS |= dict(inspect.getmembers(module, inspect.isfunction))


def known(value: T | None, otherwise: str) -> T:
    """What was found. Raises Missing where that is nothing."""
    if not base.present(value):
        raise NoValue(otherwise)
    return cast(T, value)


class Facts:
    """A study's records and its target's limits. Expressions call the public methods; each raises Missing where
    it has no answer; `target` has names that they may use.

    A case is named as in the report, `variant@264x136x96` (`variant@4096` for a cube) or `kernel@probe's
    case`; the figures of one that is not *correct* are not given. Each question is written down: `read` has
    what was found, `sources` whence, `missing` what was not, `places` the environments of what a GPU gave.
    """

    def __init__(self, study: StudyData) -> None:
        self._study, about = study, study.environment
        self.target = {
            "sms": int(study.target.get("sms") or about.get("sms") or 0) or None,
            "limits": occupancy.SmLimits.if_known(about) or occupancy.HOPPER,
            "sheet": data_sheets.data_sheet(str(about.get("gpu", ""))),
            "tensor_inputs": data_sheets.TENSOR_INPUTS.get(
                str(about.get("compute_capability", ""))
            ),
        }
        columns = ["case", "metric", "value", "text", "source", "environment"]
        rows = study.records[study.records["status"] == "ok"].reindex(columns=columns)
        # Of several the last one counts.
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
        self.places: set[str] = set()

    def fact(self, name: str) -> float:
        """A fact that the target's driver told."""
        value = known(self._study.environment.get(name), f"the environment does not tell {name}")
        self._found(f"{name} of the environment", "environment")
        return float(value)

    def _found(self, what: str, source: object) -> None:
        self.read[what] = None
        if base.present(source):
            self.sources[str(source)] = None

    def _case(self, name: str) -> str:
        return str(known(self._rows.get(name), f"{name} is no case of the study")["case"])

    def _record(self, metric: str, name: str, column: str) -> Any:
        case = self._case(name)
        lacking, state = f"no {metric} of {case}", self._states[case]
        if state.status != "ok":
            lacking += f" ({': '.join(filter(None, (state.status, state.reason)))})"
        found: Any = known(self._records.get((case, metric)), lacking)
        if self._verdicts[case] != "correct":
            raise NoValue(f"{case} is {self._verdicts[case]}")
        if found.source != EXECUTED:  # what was executed may stand beside the counts of any GPU
            self.places.add(str(found.environment))
        self._found(f"{metric} of {case}", found.source)
        return known(getattr(found, column), lacking)

    def value(self, metric: str, case: str) -> float:
        """A metric of a case."""
        return float(self._record(metric, case, "value"))

    def text(self, metric: str, case: str) -> str:
        """A metric that is text, such as the names of the kernels that ran."""
        return str(self._record(metric, case, "text"))

    def ratio(self, metric: str, over: str, under: str) -> float:
        """A metric of one case over that of another."""
        return self.value(metric, over) / self.value(metric, under)

    def _values(self, metric: str, names: Iterable[str]) -> dict[str, float]:
        """A metric of those cases that have it."""
        found = {}
        for name in names:
            try:
                found[name] = self.value(metric, name)
            except NoValue as error:
                self.missing.append(str(error))
        return found

    def all_end_well(self, *names: str) -> bool:
        """Whether these cases all ran to their end and were right."""
        wells = []
        for case in map(self._case, names):
            state = self._states[case]
            if state.status in ("not measured", "stale", "unsupported"):
                raise NoValue(f"{case} was not run ({state.reason or state.status})")
            for source in self._study.records.query("case == @case")["source"].unique():
                self._found(f"verdict of {case}", source)
            wells.append(state.status == "ok" and self._verdicts[case] == "correct")
        return all(wells)

    def nearer_roof(self, case: str, machine: traffic.Machine) -> str:
        """Which of a machine's two rates a product comes nearer to: "memory" or "math"."""
        moved, duration = self.value("dram_bytes", case), 1e-6 * self.value("duration", case)
        flop_rate = 1e12 * self.value("tflops", case)
        nearer = moved / duration / machine.bandwidth > flop_rate / machine.flop_rate
        return traffic.MEMORY if nearer else traffic.MATH

    def cublas_tile(self, case: str) -> tuple[float, float]:
        return self.value("cublas_tile_m", case), self.value("cublas_tile_n", case)

    def sweep(self, metric: str, variant: str, m: int, k: int) -> dict[int, float]:
        """A metric of a variant by n, at m rows and k deep."""
        rows = [row for row in self._rows.values() if row["variant"] == variant]
        sizes = sorted(int(row["n"]) for row in rows if (row["m"], row["k"]) == (m, k))
        names = {product(variant, m, n, k): n for n in sizes}
        found = {names[name]: value for name, value in self._values(metric, names).items()}
        return known(found or None, f"no sweep of {variant}")

    def speeds(self, groups: Iterable[Iterable[str]], m: int) -> list[float]:
        """TFLOP/s at m cubed of the fastest variant of each group."""
        found = [self._values("tflops", [f"{one}@{m}" for one in group]) for group in groups]
        return [known(max(group.values(), default=None), "one has no tflops") for group in found]

    def tensor_types(self, m: int) -> set[str]:
        """The types whose product at m cubed cuBLAS computes on tensor cores."""
        rows = {name: row for name, row in self._rows.items() if name.endswith(f"@{m}")}
        names = [name for name, row in rows.items() if row["kernel"] == base.BASELINE]
        counted: dict[str, list[float]] = {}
        for name, value in self._values(base.COUNTED_TENSOR_FLOPS, names).items():
            counted.setdefault(rows[name]["dtype"].split("_")[0], []).append(value)
        used = {dtype for dtype, values in counted.items() if any(values)}
        if not used or len(counted) < 2:
            raise NoValue("one type by itself says nothing of the others")
        self.places.clear()  # whether tensor cores worked at all is the same on each card of a recording
        return used


def evaluate(facts: Facts, text: expressions.Expression, names: Mapping[str, Any]) -> Any:
    """The value of an expression; `facts` begin anew. Raises Missing and ExpressionError."""
    for asked in (facts.read, facts.sources, facts.missing, facts.places):
        asked.clear()
    for name in expressions.names_in(text) & facts.target.keys():
        known(facts.target[name], f"the target does not tell {name}")
    own = {name: getattr(facts, name) for name in vars(Facts) if not name.startswith("_")}
    try:
        every = {**NAMES, **facts.target, **names}
        return expressions.evaluate(text, every, {**FUNCTIONS, **own})
    except expressions.ExpressionError as error:
        if isinstance(error.__cause__, ZeroDivisionError):
            raise NoValue("it would be divided by 0") from None
        if isinstance(error.__cause__, NoValue):
            raise error.__cause__ from None
        raise
