"""A kernel's stall samples in a report of Nsight Compute, and the findings of ncu's rules."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tilewave.gpu.ncu.instructions import places_of, start_of
from tilewave.records.counters import catalogue
from tilewave.records.counters.catalogue import NOT_ISSUED_SAMPLES, SAMPLES, STALL_SAMPLES, STALLS
from tilewave.records.counters.figures import figure
from tilewave.records.counters.instructions import PLACE

NOT_ISSUED = "_not_issued"
SPEEDUPS = {1: "local", 2: "global"}
"""Names of ncu_report's `SpeedupType`: of the part that the rule covers, and of the kernel."""
KINDS = {1: "ok", 2: "optimization", 3: "warning", 4: "error"}
"""Names of its `MsgType`."""


def samples_of(action: Any) -> list[dict[str, int]] | None:
    """Return the samples (`catalogue.SAMPLES`) of each instruction that has any, by address from the
    function's start. None if the report lacks samples or that start; empty if the kernel ended early."""
    start, names = start_of(action), (n for n in action.metric_names() if "." not in n)
    reasons = {name: name.removeprefix(STALLS) for name in names if name.startswith(STALLS)}
    if start is None or not reasons:
        return None
    rows: dict[int, Counter[str]] = {}
    for name, reason in reasons.items():
        metric = action.metric_by_name(name)
        waits = not reason.endswith(NOT_ISSUED)
        columns = (STALL_SAMPLES.format(reason), SAMPLES) if waits else (NOT_ISSUED_SAMPLES,)
        for address, index in places_of(metric).items():
            value = metric.value(index)
            if not catalogue.usable(value) or value <= 0 or address < start:
                continue
            row = rows.setdefault(address - start, Counter())
            row.update(dict.fromkeys(columns, int(value)))
    return [
        {"address": address, SAMPLES: row[SAMPLES], **{name: row[name] for name in sorted(row)}}
        for address, row in sorted(rows.items())
    ]


def totals(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the samples of a kernel, all and by reason, as figures."""
    sums = Counter({SAMPLES: 0})
    for row in rows:
        sums.update({name: count for name, count in row.items() if name not in PLACE})
    return [figure(name, float(sums[name]), "sample") for name in sorted(sums)]


def rules_of(action: Any) -> list[dict[str, Any]]:
    """Return the findings of ncu's rules, in ncu's words and order, with the estimated speedup (%)."""
    rules = []
    for result in action.rule_results_as_dicts():
        message = result.get("rule_message") or {}
        if not message.get("message"):
            continue
        rule = {name: result[f"{name}_identifier"] for name in ("rule", "section")}
        rule |= {"name": result["name"], "title": message["title"], "message": message["message"]}
        rule["kind"] = KINDS.get(int(message["type"]), "")
        estimate = result.get("speedup_estimation")
        if estimate and catalogue.usable(estimate["speedup"]):
            rule["speedup"] = float(estimate["speedup"])
            rule["speedup_of"] = SPEEDUPS.get(int(estimate["type"]), "")
        values = {metric["name"]: metric["value"] for metric in result.get("focus_metrics") or []}
        rule["metrics"] = {name: float(v) for name, v in values.items() if catalogue.usable(v)}
        rules.append(rule)
    return rules
