"""The environments that the pages name: their facts and their role in this run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from tilewave.plots.base import present
from tilewave.report import figures
from tilewave.report.cells import cell
from tilewave.report.summary import device_name

_MIB = 2**20
_NOT_SHOWN = ("id", "recorded")


class EnvironmentView(NamedTuple):
    """An environment's facts and its role in this run."""

    id: str
    name: str
    role: str
    facts: list[tuple[str, str]]


def _fact(key: str, value: Any) -> tuple[str, str]:
    label = key.replace("_", " ")
    if isinstance(value, Mapping):
        return label, ", ".join(f"{name} {v}" for name, v in sorted(value.items()) if present(v))
    if isinstance(value, (list, tuple)):
        return label, ", ".join(map(str, value))
    if key.endswith("_bytes") and isinstance(value, (int, float)):
        return label.removesuffix(" bytes"), f"{cell(value / _MIB)} MiB"
    return label, cell(value)


def environment_views(
    target: Mapping[str, Any],
    environments: Mapping[str, Mapping[str, Any]],
    records: pd.DataFrame,
) -> list[EnvironmentView]:
    """Return the environments of the target, of the figures and of this machine."""
    valued = figures.figures_of(records)
    used = {str(name) for name in valued["environment"] if present(name)}
    views = []
    for name in dict.fromkeys([target["environment"], *sorted(used), target["host"]]):
        facts = environments.get(name)
        if facts is None:
            continue
        here = name == target["host"]
        role = "this machine" if here else "recorded: another machine or another time"
        if here and target["live"]:
            role = "this machine, measured live"
        elif here and name not in used:
            role = "this machine: no value on this page was measured here"
        shown = [_fact(key, value) for key, value in facts.items()
                 if key not in _NOT_SHOWN and present(value)]  # fmt: skip
        views.append(
            EnvironmentView(name, device_name(facts), role, [fact for fact in shown if fact[1]])
        )
    return views
