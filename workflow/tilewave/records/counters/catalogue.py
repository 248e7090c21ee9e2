"""The counters of Nsight Compute: sets, units, and how launches combine (`ncu --query-metrics` explains
each). Names are those on compute capability 9.0; `gpu.ncu.profiler` skips what ncu lacks for the chip."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewave.basics.tables import table_beside

SUM, MAX, LAST = "sum", "max", "last"


@dataclass(frozen=True)
class Metric:
    """A counter: its unit, and how several launches of one case combine. ``optional``: other chips skip it
    silently. ``inputs``: the dtype of the operands, if it counts tensor operations on these alone."""

    name: str
    unit: str
    combine: str = SUM
    optional: bool = False
    inputs: str = ""


SCALAR_OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
"""Pattern for ``ffma`` and the like: a dtype's letter (`Dtype.operations`), then fma, add or mul."""
TENSOR = "sm__ops_path_tensor_src_{}.sum"
"""Pattern for a dtype's `Dtype.tensor_source`. A multiply-add counts 2."""
TENSOR_BY_SUM = TENSOR.format("fp16_dst_{}")
"""Pattern for f16 inputs with sums of fp16 or fp32."""
FP8_OPS = Metric(TENSOR.format("fp8"), "FLOP", optional=True, inputs="fp8")
"""Collected for FP8 products in addition to their set, so that the keys of all others stay the same."""
TENSOR_PATH = "sm__ops_path_tensor_op_{}_src_{}_sparsity_off.sum"
AVERAGE, BUSIEST = "sm__cycles_active.avg", "sm__cycles_active.max"
ELAPSED = "sm__cycles_elapsed.max"
WAVES = "launch__waves_per_multiprocessor"
WARP_INSTRUCTIONS = "smsp__inst_executed.sum"
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
BANK_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
"""Patterns for ``ld``, with ldmatrix, and ``st``. Conflicts are extra wavefronts, also after lost arbitration."""
COPY_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
"""Shared wavefronts of asynchronous copies."""
GLOBAL_ACCESSES = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
"""Pattern for ``requests`` and ``sectors``, then ``ld`` and ``st``."""
L2_SECTORS = "lts__t_sectors_srcunit_tex.sum"
"""L2 sectors asked for by the SMs."""
PIPE = "sm__pipe_{}_cycles_active.avg.pct_of_peak_sustained_active"
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

TABLES = table_beside(__file__)
STATES: dict[str, str] = TABLES["states"]
SAMPLE_OF: dict[str, str] = TABLES["sample_of"]
INSTRUCTION_METRICS: dict[str, str] = TABLES["of_instructions"]
SECTIONS: dict[str, list[str]] = TABLES["sections"]
SAMPLED, SAMPLED_SECTIONS = tuple(TABLES["sampled"]), tuple(TABLES["sampled_sections"])
"""Metrics and sections of a sampled case."""

GROUPS: dict[str, list[Metric]] = {
    group: [Metric(name, **entry) for entry in entries for name in entry.pop("names")]
    for group, entries in TABLES["groups"].items()
}
# A chip without wgmma has no such state.
GROUPS["warp states"] = [Metric(STALLED.format(s), "1", LAST, optional=s == "gmma") for s in STATES]
ISSUED = GROUPS["issued"][0]
"""Cycles in which a scheduler issued."""
SETS: dict[str, tuple[Metric, ...]] = {
    name: tuple(metric for group in groups for metric in GROUPS[group])
    for name, groups in TABLES["sets"].items()
}
EXCESS = "wavefronts_shared_excess"
OF_INSTRUCTIONS = ("memory", "paths", "full")
"""Sets with counters of instructions: ncu patches the kernel for them, which takes most of a case's time."""
STALLS = "smsp__pcsamp_warps_issue_stalled_"
"""Prefix of a stall reason in ncu's samples of warps; samples without an issue have a suffix."""
SAMPLES, NOT_ISSUED_SAMPLES, STALL_SAMPLES = "samples", "samples_not_issued", "stall_{}"
"""Columns of an instruction's samples, figures of a kernel's: all, in cycles without an issue, and by reason."""
_ALL = (*itertools.chain.from_iterable(SETS.values()), FP8_OPS)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
OPTIONAL = frozenset(name for name, metric in METRICS.items() if metric.optional)


def names(metric_set: str) -> list[str]:
    """Return ncu's names of a set's metrics, in a fixed order. Raises KeyError for an unknown set."""
    return [metric.name for metric in SETS[metric_set]]


def merged(metric_sets: Iterable[str], fp8: bool = False) -> tuple[list[str], list[str]]:
    """Return metrics and sections of several sets, each once, in a fixed order; fp8: for an FP8 product."""
    chosen = [name for name in SETS if name in set(metric_sets)]
    metrics = dict.fromkeys(metric for name in chosen for metric in names(name))
    if fp8 and not metrics.keys().isdisjoint(metric.name for metric in GROUPS["tensor"]):
        metrics[FP8_OPS.name] = None
    if not set(OF_INSTRUCTIONS).isdisjoint(chosen):
        metrics |= dict.fromkeys(INSTRUCTION_METRICS)
    sections = dict.fromkeys(section for name in chosen for section in SECTIONS.get(name, ()))
    return list(metrics), list(sections)


def of_launches(metrics: Iterable[str]) -> list[str]:
    """Return those of a case's metrics that have one value a launch."""
    return [name for name in metrics if name not in INSTRUCTION_METRICS]


def of_instructions(metrics: Iterable[str]) -> bool:
    """Return whether a case needs counters of each instruction."""
    return any(name in INSTRUCTION_METRICS for name in metrics)


def usable(value: object) -> bool:
    """Return whether a counter's value is a finite number (no text, NaN or infinity)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def single_launch(name: str) -> bool:
    """Return whether a metric is a share or mean over one launch: neither a sum nor geometry, which has no roll-up."""
    how = METRICS[name].combine if name in METRICS else LAST
    return how == LAST and "." in name


def combined(name: str, values: Sequence[float], leading: int | None = None) -> float:
    """Combine the values of a case's launches: the sum, or for other metrics the value of the leading launch.
    If that is unknown, as for a library's kernels, the largest or the last value counts."""
    how = METRICS[name].combine if name in METRICS else LAST
    if how == SUM:
        return float(sum(values))
    if leading is not None:
        return float(values[leading])
    return float(max(values)) if how == MAX else float(values[-1])
