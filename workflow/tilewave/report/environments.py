"""The environments that the pages name: their facts and their role in this run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tilewave.plots.base import present
from tilewave.report import figures
from tilewave.report.cells import cell
from tilewave.report.summary import device_name

_GIB, _MIB, _KIB = 2**30, 2**20, 2**10
# Fact of an environment -> label, divisor, unit.
FACTS: Mapping[str, tuple[str, float, str]] = {
    "gpu": ("GPU", 1, ""),
    "uuid": ("GPU's UUID", 1, ""),
    "compute_capability": ("Compute capability", 1, ""),
    "sms": ("SMs", 1, ""),
    "memory_bytes": ("Device memory", _GIB, "GiB"),
    "l2_bytes": ("L2 cache", _MIB, "MiB"),
    "shared_per_sm": ("Shared memory of an SM", _KIB, "KiB"),
    "shared_per_block_optin": ("Shared memory a block may ask for", _KIB, "KiB"),
    "sm_clock_max_mhz": ("Highest SM clock", 1, "MHz"),
    "memory_clock_max_mhz": ("Highest memory clock", 1, "MHz"),
    "power_limit_w": ("Power limit", 1, "W"),
    "driver": ("Driver", 1, ""),
    "cuda": ("CUDA of the driver", 1, ""),
    "nvrtc": ("NVRTC", 1, ""),
    "cublas": ("cuBLAS", 1, ""),
    "ncu": ("Nsight Compute", 1, ""),
    "cpu": ("CPU", 1, ""),
    "platform": ("Platform", 1, ""),
    "python": ("Python", 1, ""),
    "commit": ("Commit", 1, ""),
    "dirty": ("Changes not committed", 1, ""),
    "no_gpu": ("Why there is no GPU", 1, ""),
}
_NOT_SHOWN = ("id", "recorded")


@dataclass(frozen=True)
class EnvironmentView:
    """An environment's facts and its role in this run."""

    id: str
    name: str
    role: str
    facts: list[tuple[str, str]]


def _fact(key: str, value: Any) -> tuple[str, str]:
    label, divisor, unit = FACTS.get(key, (key.replace("_", " ").capitalize(), 1, ""))
    if isinstance(value, Mapping):
        return label, ", ".join(f"{k} {v}" for k, v in sorted(value.items()) if present(v))
    if isinstance(value, (list, tuple)):
        return label, ", ".join(map(str, value))
    if divisor != 1 and isinstance(value, (int, float)):
        value = value / divisor
    return label, cell(value) + (f" {unit}" if unit else "")


def environment_views(
    target: Mapping[str, Any],
    environments: Mapping[str, Mapping[str, Any]],
    records: pd.DataFrame,
) -> list[EnvironmentView]:
    """Return the environments of the target, of the figures and of this machine."""
    valued = figures.figures_of(records)
    used = {str(name) for name in valued["environment"] if present(name)}
    order = [target["environment"], *sorted(used), target["host"]]
    views = []
    for name in dict.fromkeys(order):
        facts = environments.get(name)
        if facts is None:
            continue
        here = name == target["host"]
        role = "this machine" if here else "recorded: another machine or another time"
        if here and target["live"]:
            role = "this machine, measured live"
        elif here and name not in used:
            role = "this machine: no figure on this page was measured here"
        keys = [key for key in FACTS if key in facts]
        keys += sorted(key for key in facts if key not in FACTS and key not in _NOT_SHOWN)
        shown = [_fact(key, facts[key]) for key in keys if present(facts[key])]
        views.append(EnvironmentView(name, device_name(facts), role, [f for f in shown if f[1]]))
    return views
