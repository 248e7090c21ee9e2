"""Ceilings of a roofline: the rates of units and memory levels that probes measured."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from tilewave.plots import base
from tilewave.plots.base import StudyData

BANDWIDTHS: Mapping[str, str] = {"dram": "dram_copy", "l2": "l2_read", "l1": "shared_read"}
"""Level -> the probe case whose bandwidth is its ceiling."""
UNITS: Mapping[str, str] = {
    "fma": "FMA", "mma": "mma.sync", "mma_small": "mma.sync 8x8x4", "wgmma": "wgmma",
}  # fmt: skip


@dataclass(frozen=True)
class Peak:
    """A measured peak of arithmetic: TFLOP/s of one unit for one dtype."""

    dtype: str
    unit: str
    tflops: float

    @property
    def label(self) -> str:
        return f"{base.dtype_short(self.dtype)} {UNITS.get(self.unit, self.unit)}"


@dataclass(frozen=True)
class Ceilings:
    """The rates that probes reached: TB/s by level, peaks from the highest on, and the probes without a record."""

    bandwidths: Mapping[str, float]
    peaks: tuple[Peak, ...]
    absent: tuple[str, ...]

    def of(self, dtype: str) -> list[Peak]:
        """Return the peaks of a dtype, the highest first; for FP8 with f32 sums those of its instruction."""
        names = dtype, _instruction_dtype(dtype)
        return [replace(peak, dtype=dtype) for peak in self.peaks if peak.dtype in names]


def _instruction_dtype(dtype: str) -> str:
    """Return the dtype of the instruction: FP8 kernels with f32 sums add up the tensor cores' own sums now and then."""
    return f"{dtype.removesuffix('_f32')}_f22"


def environment_here(study: StudyData) -> str:
    """Return the environment of the ceilings that are drawn: the one in which most kernels were timed.
    If no probe ran there, return that of another card of the same kind. No ratio is formed with it."""
    kernels = set(kernels_of(study)["case"])
    timed = base.environment_of(study, "duration", "time")
    used = pd.Series([name for case, name in timed.items() if case in kernels], dtype=object)
    rates = (base.environment_of(study, metric, "time") for metric in ("tflops", "bandwidth"))
    roofs = [name for rate in rates for case, name in rate.items() if case not in kernels]
    if used.empty:
        return ""
    order = [str(name) for name in used.value_counts(sort=True).index]
    kind = _kind(study, order[0])
    twins = pd.Series([name for name in roofs if kind and _kind(study, name) == kind], dtype=object)
    nearest = [*(name for name in order if name in roofs), *twins.mode()[:1], order[0]]
    return str(nearest[0])


def _kind(study: StudyData, environment: str) -> str:
    """Return the GPU's name, which all cards of a kind share."""
    return str(study.environments.get(environment, {}).get("gpu") or "")


def kernels_of(study: StudyData) -> pd.DataFrame:
    """Return the cases under the ceilings: all but the probes."""
    return study.cases[study.cases["operation"] != "probe"]


def ceilings(study: StudyData) -> Ceilings:
    """Return the probes' rates in one environment; a probe that is not *correct* is no ceiling."""
    probes = study.cases[study.cases["operation"] == "probe"]
    environment, may_rank = environment_here(study), set(base.ranking(study))

    def usable(metric: str) -> dict[str, float]:
        where = base.environment_of(study, metric, "time")
        values = base.value_of(study, metric, "time").items()
        here = ((str(case), float(value)) for case, value in values if case in may_rank)
        return {case: value for case, value in here if environment in ("", where[case])}

    rates, widths = (probes["case"].map(usable(metric)) for metric in ("tflops", "bandwidth"))
    wanted = set(kernels_of(study)["dtype"])
    of_dtype = probes["dtype"].isin(wanted | {_instruction_dtype(str(dtype)) for dtype in wanted})
    of_memory = probes["probe_case"].isin(BANDWIDTHS.values())
    by_probe = dict(zip(probes["probe_case"], widths))
    reached = {level: by_probe.get(name, 0.0) for level, name in BANDWIDTHS.items()}
    bandwidths = {level: width for level, width in reached.items() if width > 0}
    peaks = []
    timed = probes.assign(rate=rates)[widths.isna() & rates.notna() & of_dtype]
    for row in timed.to_dict("records"):
        unit = base.macros_of(row).get("UNIT") or str(row["kernel"]).rpartition("_")[2]
        peaks.append(Peak(str(row["dtype"]), str(unit), row["rate"]))
    peaks.sort(key=lambda peak: -peak.tflops)
    silent = probes[widths.isna() & rates.isna() & (of_memory | of_dtype)]
    absent = [*(silent["kernel"] + " " + silent["probe_case"])]
    absent += [probe for probe in BANDWIDTHS.values() if probe not in set(probes["probe_case"])]
    return Ceilings(bandwidths, tuple(peaks), tuple(absent))
