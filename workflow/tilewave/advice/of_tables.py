"""Cases out of the run's tables, as the rules take them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tilewave.advice.comparing import Compared, compared
from tilewave.advice.subject import Subject
from tilewave.records import model
from tilewave.records.tables import LAUNCHES

SAME_PRODUCT = ["operation", "dtype", "shape"]


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
        for case, rows in known[known["status"] == model.OK].groupby("case")
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


def pairs(cases: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Cases of one product of which the second may be what a rule suggests for the first: a kernel that
    follows the other's, or the same one with one macro changed."""
    for _, group in cases.groupby(SAME_PRODUCT, sort=False):
        rows = [row | {"macros": json.loads(row["macros"])} for row in group.to_dict("records")]
        for first in rows:
            for second in rows:
                same = first["kernel"] == second["kernel"]
                apart = same and sum(
                    second["macros"].get(name) != value for name, value in first["macros"].items()
                )
                if second["follows"] == first["kernel"] or apart == 1:
                    yield first["case"], second["case"]


def held(
    cases: pd.DataFrame, records: pd.DataFrame, known: Mapping[str, Subject]
) -> list[tuple[str, str, Compared]]:
    """Of each of `pairs` that was timed and counted in one environment: first case, second case, and each
    finding of the first against what the second gained.

    Where both were timed in turn with the vendor's product, their times are taken in units of its: its clock
    was that of the case, and a card that draws all of its power lowers its clock by a tenth from one minute to
    the next. known: of `subjects`.
    """
    timed = records[(records["stage"] == "time") & (records["verdict"] == model.CORRECT)]
    times = {
        metric: {row["case"]: float(row["value"]) for row in rows.to_dict("records")}
        for metric, rows in timed.groupby("metric")
        if metric in ("duration", "baseline_duration")
    }
    durations, units = times.get("duration", {}), times.get("baseline_duration", {})
    environments = dict(zip(timed["case"], timed["environment"]))
    counted_too = [case for case in durations if case in known]
    made = []
    for first, second in pairs(cases[cases["case"].isin(counted_too)]):
        same = environments[first] == environments[second]
        if not same or known[first].device != known[second].device:
            continue
        gained = 1 - durations[second] / durations[first]
        if first in units and second in units:
            gained = 1 - (1 - gained) * units[first] / units[second]
        made += [(first, second, one) for one in compared(known[first], known[second], gained)]
    return made
