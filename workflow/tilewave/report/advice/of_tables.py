"""Cases out of the run's tables, as the rules take them."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from tilewave.kernel import result
from tilewave.records.columns import LAUNCHES
from tilewave.report.advice.subject import Subject


def subjects(
    target: Mapping[str, Any],
    cases: pd.DataFrame,
    records: pd.DataFrame,
    instructions: pd.DataFrame,
    compiled: Mapping[str, Any],
    stalls: pd.DataFrame | None = None,
) -> dict[str, Subject]:
    """By case, what the rules look at; of those of ``cases`` that are one launch and whose counters are
    known.

    target: the target document; compiled: the run's document of kernels and their variants. Counters that
    were executed here have no GPU of their own, and are taken as the target's.
    """

    def counted(table: pd.DataFrame) -> pd.DataFrame:
        return table[table["case"].isin(cases["case"]) & (table["stage"] == "counters")]

    facts, arch = target["environments"], f"sm_{target['arch']}"
    fallback = facts.get(target["environment"], {})
    known = counted(records)
    if LAUNCHES in cases:  # sums beside percentages of one launch: no rule is made for that
        cases = cases[cases[LAUNCHES].isna()]
    metrics = {
        case: (dict(zip(rows["metric"], rows["value"])), str(rows["environment"].iloc[0]))
        for case, rows in known[known["status"] == result.OK].groupby("case")
    }
    rows = {}
    if len(instructions):
        rows = {
            case: part.to_dict("records") for case, part in counted(instructions).groupby("case")
        }
    sampled: dict[str, Any] = {}
    if stalls is not None and len(stalls):
        variants = stalls["case"].str.partition("@")[0]
        sampled = {name: part.to_dict("records") for name, part in stalls.groupby(variants)}
    found = {}
    for row in cases[cases["case"].isin(list(metrics))].to_dict("records"):
        values, environment = metrics[row["case"]]
        device = facts.get(environment, {})
        variants = compiled.get(row["kernel"], {}).get("variants", {})
        used = variants.get(row["variant"], {}).get(arch, {}).get("resources", {})
        found[row["case"]] = Subject(
            row,
            values,
            rows.get(row["case"], ()),
            next(iter(used.values()), {}),
            device if device.get("sms") else fallback,
            sampled.get(row["variant"], ()),
        )
    return found
