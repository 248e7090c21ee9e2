"""Figures derived from a case's counters. A figure is skipped, never 0, if one of its parts is absent."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tilewave.basics.tables import table_beside
from tilewave.records.counters import catalogue
from tilewave.theory.dtypes import DTYPES


class Derived(NamedTuple):
    """A derived value; ``counter``: the counter that it renames, if any."""

    unit: str
    counter: str = ""


DERIVED = {str(name): Derived(**entry) for name, entry in table_beside(__file__).items()}


def figure(metric: str, value: float, unit: str) -> dict[str, Any]:
    return {"metric": metric, "value": float(value), "unit": unit}


def _scalar_flops(values: Mapping[str, float], dtype: str) -> float | None:
    letter = DTYPES[dtype].operations
    names = [catalogue.SCALAR_OP.format(letter + op) for op in ("fma", "add", "mul")]
    if not values.keys() >= set(names):
        return None
    fma, add, mul = (values[name] for name in names)
    return 2 * fma + add + mul


def tensor_flops(values: Mapping[str, float], operand: str = "") -> float | None:
    """Return the operations of the tensor cores over all input types; None without the count of f16 (its
    total before those by type of sum), or of the case's ``operand`` (f64 products may run on FMA units)."""
    kinds = ("f16", "bf16", "tf32", "f64", "i8", "e4m3", "e5m2")
    counters = {kind: catalogue.TENSOR.format(DTYPES[kind].tensor_source) for kind in kinds}
    fp16 = values.get(counters.pop("f16"))
    if fp16 is None:
        apart = (values.get(catalogue.TENSOR_BY_SUM.format(sum_)) for sum_ in ("fp16", "fp32"))
        counted = [part for part in apart if part is not None]
        if not counted:
            return None
        fp16 = sum(counted)
    if operand in counters and operand != "f64" and counters[operand] not in values:
        return None
    return fp16 + sum(values.get(counter, 0.0) for counter in dict.fromkeys(counters.values()))


def derived(values: Mapping[str, float], operand: str = "") -> list[dict[str, Any]]:
    """Return the figures derived from a case's counters, without those that lack a part; see `tensor_flops`."""
    named = {name: values[of.counter] for name, of in DERIVED.items() if of.counter in values}
    kinds = ("f32", "f64", "f16")
    parts = {f"counted_flops_{dtype}": _scalar_flops(values, dtype) for dtype in kinds}
    parts["counted_tensor_flops"] = tensor_flops(values, operand)
    counted = [part for part in parts.values() if part is not None]
    parts["counted_flops"] = sum(counted) if len(counted) == len(parts) else None
    read, write = values.get("dram__bytes_read.sum"), values.get("dram__bytes_write.sum")
    parts["dram_bytes"] = None if read is None or write is None else read + write
    average, highest = values.get(catalogue.AVERAGE), values.get(catalogue.BUSIEST)
    parts["cycles_active_ratio"] = None if average is None or not highest else average / highest
    counts = {name: value for name, value in (named | parts).items() if value is not None}
    return [figure(name, value, DERIVED[name].unit) for name, value in counts.items()]
