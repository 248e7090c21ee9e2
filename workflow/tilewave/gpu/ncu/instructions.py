"""Counters of single instructions in a report of Nsight Compute."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tilewave.records.counters import catalogue
from tilewave.records.counters.catalogue import INSTRUCTION_METRICS
from tilewave.records.counters.instructions import KEPT, with_excess

Code = dict[int, dict[str, Any] | None]
"""Opcode and SASS of a function's instructions, by distance from the first; None for one without a row."""


def _instruction(action: Any, address: int) -> dict[str, Any] | None:
    """Return the opcode with modifiers, and the SASS: ``LDS.64`` of ``@!P0 LDS.64 R2, [R4]``; None without a row."""
    sass = " ".join(str(action.sass_by_pc(address) or "").split()).rstrip(" ;")
    words = [word for word in sass.split() if not word.startswith("@")]
    opcode = words[0].rstrip(",") if words else ""
    return {"opcode": opcode, "sass": sass} if KEPT.match(opcode) else None


def value_of(action: Any, name: str) -> Any:
    """Return a launch's value of a metric; None if it has none."""
    metric = action.metric_by_name(name)
    if metric is None:
        return None
    try:
        return metric.value()
    except (KeyError, TypeError, RuntimeError):  # a kind that this ncu_report cannot convert
        return None


def places_of(metric: Any) -> dict[int, int]:
    """Return absolute address -> index of its value in a metric; empty for a metric without addresses."""
    if metric is None or not metric.num_instances():
        return {}
    ids = metric.correlation_ids()
    return {} if ids is None else {int(ids.as_uint64(i)): i for i in range(metric.num_instances())}


def _values_by_address(action: Any) -> dict[str, tuple[Any, dict[int, int]]]:
    """Return column of `INSTRUCTION_METRICS` -> metric, and the index of each address's value."""
    metrics = {column: action.metric_by_name(name) for name, column in INSTRUCTION_METRICS.items()}
    return {name: (metric, at) for name, metric in metrics.items() if (at := places_of(metric))}


def start_of(action: Any) -> int | None:
    """Return the absolute address of a kernel's first instruction, the lowest with a counter; None without any."""
    return next(_addresses(_values_by_address(action)), None)


def _addresses(metrics: Mapping[str, tuple[Any, dict[int, int]]]) -> Iterator[int]:
    """Yield the addresses from the first usable value on; each value costs a call into the report."""

    def unusable(address: int) -> bool:
        values = (metric.value(at[address]) for metric, at in metrics.values() if address in at)
        return not any(map(catalogue.usable, values))

    addresses = sorted(set().union(*(places for _, places in metrics.values())))
    return itertools.dropwhile(unusable, addresses)


def instructions_of(action: Any, code: Code | None = None) -> list[dict[str, Any]]:
    """Return a kernel's counters of single memory, barrier and tensor instructions, by address.

    Rows: address (bytes from the function's first instruction), opcode, sass and the columns of
    `INSTRUCTION_METRICS`, with ``wavefronts_shared_excess``. Counters without a value are absent. code: instructions of
    the same cubin from earlier launches; new ones are added. ncu_report disassembles for each request (0.12 ms, nine
    tenths of the time), so each instruction is requested once, and values are read for rows only.
    """
    metrics = _values_by_address(action)

    def counters(address: int) -> dict[str, int]:
        row = {}
        for column, (metric, places) in metrics.items():
            if address in places and catalogue.usable(value := metric.value(places[address])):
                row[column] = int(value)
        return row

    code = {} if code is None else code
    addresses, rows = list(_addresses(metrics)), []
    for address in addresses:
        offset = address - addresses[0]
        if code.get(offset, {}) is None or not (counted := counters(address)):
            continue
        if offset not in code:
            code[offset] = _instruction(action, address)
        if instruction := code[offset]:
            rows.append(with_excess({"address": offset, **instruction, **counted}))
    return rows
