"""The rules' subjects, from the run's tables."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.records.columns import LAUNCHES
from tilewave.records.counters import demand
from tilewave.records.counters.catalogue import WARP_INSTRUCTIONS
from tilewave.report.advice.subject import Row, Subject
from tilewave.theory import bounds
from tilewave.theory.bounds import Bound
from tilewave.theory.data_sheets import DataSheet, data_sheet


def least(
    values: Mapping[str, float], rows: Iterable[Row], gpu: DataSheet | None, case: Row
) -> Bound | None:
    """Return the least cycles of a case that is a single launch (`theory.bounds`); None if not counted or unknown.

    values: its counters; rows: its instructions; case: its row of the table of cases.
    """
    blocks = [case[name] for name in ("working_blocks", "blocks") if present(case.get(name))]
    if gpu is None or not blocks or not values.get(WARP_INSTRUCTIONS):
        return None
    try:
        return bounds.bound(demand.of_launch(values, rows), gpu, int(blocks[0]))
    except KeyError:  # an architecture without the instruction
        return None


def subjects(
    target: Mapping[str, Any],
    cases: pd.DataFrame,
    records: pd.DataFrame,
    instructions: pd.DataFrame,
    compiled: Mapping[str, Any],
    stalls: pd.DataFrame | None = None,
) -> dict[str, Subject]:
    """Return the subject of each case with counters that is a single launch.

    target: the target document; compiled: the run's document of kernels and their variants. Counters from
    an execution on the CPU count as the target GPU's.
    """

    def counted(table: pd.DataFrame) -> pd.DataFrame:
        return table[table["case"].isin(cases["case"]) & (table["stage"] == "counters")]

    facts, arch = target["environments"], f"sm_{target['arch']}"
    fallback = facts.get(target["environment"], {})
    counter_records = counted(records)
    if LAUNCHES in cases:  # no rule handles sums of several launches beside percentages of one
        cases = cases[cases[LAUNCHES].isna()]
    metrics = {
        case: (
            rows.dropna(subset="value").set_index("metric")["value"].to_dict(),
            str(rows["environment"].iloc[0]),
        )
        for case, rows in counter_records[counter_records["status"] == result.OK].groupby("case")
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
    by_case = {}
    for row in cases[cases["case"].isin(list(metrics))].to_dict("records"):
        values, environment = metrics[row["case"]]
        device = facts.get(environment, {})
        variants = compiled.get(row["kernel"], {}).get("variants", {})
        used = variants.get(row["variant"], {}).get(arch, {}).get("resources", {})
        subject = Subject(
            row,
            values,
            rows.get(row["case"], ()),
            next(iter(used.values()), {}),
            device if device.get("sms") else fallback,
            sampled.get(row["variant"], ()),
        )
        gpu = data_sheet(str(subject.device.get("gpu") or ""))
        bound = least(subject.metrics, subject.instructions, gpu, row)
        pipes = bound.pipes if bound and subject.elapsed else {}
        busy = {pipe: cycles / (subject.elapsed or 1) for pipe, cycles in pipes.items()}
        by_case[row["case"]] = replace(subject, busy=busy, least=bound)
    return by_case
