"""The counters of Nsight Compute: sets, units, and how launches combine (`ncu --query-metrics` explains each).

Metric names are those of ncu on compute capability 9.0; `tilewave.gpu.ncu.profiler` skips the ones that the
installed ncu lacks for the chip.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewave.theory.dtypes import DTYPES

SUM, MAX, LAST = "sum", "max", "last"


@dataclass(frozen=True)
class Metric:
    """A counter: its unit, and how several launches of one case combine.

    ``optional``: on some chips only; others skip it without a note. ``inputs``: the dtype of the operands, if it
    counts operations of the tensor cores on these alone.
    """

    name: str
    unit: str
    combine: str = SUM
    optional: bool = False
    inputs: str = ""


def _metrics(unit: str, *names: str, combine: str = SUM) -> list[Metric]:
    return [Metric(name, unit, combine) for name in names]


SCALAR_OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
"""Pattern for ``ffma`` and the like: a dtype's letter (`Dtype.operations`), then fma, add or mul."""
SCALAR_OPS = [
    Metric(SCALAR_OP.format(DTYPES[dtype].operations + op), "inst")
    for dtype in ("f32", "f64", "f16")
    for op in ("fma", "add", "mul")
]
TENSOR = "sm__ops_path_tensor_src_{}.sum"
"""Pattern for a dtype's `Dtype.tensor_source`. A multiply-add counts 2."""
TENSOR_BY_SUM = TENSOR.format("fp16_dst_{}")
"""Pattern for f16 inputs with sums of fp16 or fp32: chips whose tensor cores are faster with an f16 sum count
the two separately."""


def _tensor(dtype: str, optional: bool = False) -> Metric:
    name = TENSOR.format(DTYPES[dtype].tensor_source)
    return Metric(name, "FLOP", optional=optional, inputs=dtype)


TENSOR_OPS = [
    *(_tensor(dtype) for dtype in ("f16", "bf16", "tf32", "f64")),
    *(
        Metric(TENSOR_BY_SUM.format(sum_), "FLOP", optional=True, inputs="f16")
        for sum_ in ("fp16", "fp32")
    ),
    _tensor("i8", optional=True),
]
FP8_OPS = Metric(TENSOR.format("fp8"), "FLOP", optional=True, inputs="fp8")
"""Collected for FP8 products in addition to their set, so that the keys of all others stay the same."""
AVERAGE, BUSIEST = "sm__cycles_active.avg", "sm__cycles_active.max"
# The time is that under ncu, never a figure of speed.
CYCLES = [*_metrics("cycle", AVERAGE, BUSIEST), Metric("gpu__time_duration.sum", "ns")]
ELAPSED = "sm__cycles_elapsed.max"
_ELAPSED = Metric(ELAPSED, "cycle")
WAVES = "launch__waves_per_multiprocessor"
LAUNCH = [Metric("launch__grid_size", "block"), Metric(WAVES, "wave")]
_SHARED = (f"launch__shared_mem_per_block_{part}" for part in ("static", "dynamic", "driver"))
_LIMITS = "registers shared_mem warps blocks".split()
GEOMETRY = [
    *_metrics("block", *(f"launch__grid_dim_{axis}" for axis in "xyz"), combine=LAST),
    Metric("launch__block_size", "thread", LAST),
    Metric("launch__registers_per_thread", "register", MAX),
    *_metrics("byte", *_SHARED, combine=MAX),
    *_metrics("block", *(f"launch__occupancy_limit_{name}" for name in _LIMITS), combine=LAST),
    Metric("sm__maximum_warps_per_active_cycle_pct", "%", LAST),  # theoretical occupancy
    Metric("sm__warps_active.avg.pct_of_peak_sustained_active", "%", LAST),  # achieved
]
WARP_INSTRUCTIONS = "smsp__inst_executed.sum"
# Of warps, and of threads, predicated off too.
INSTRUCTIONS = [
    *_metrics("inst", WARP_INSTRUCTIONS, "smsp__thread_inst_executed.sum"),
    _ELAPSED,
    Metric("gpc__cycles_elapsed.max", "cycle"),
]
DRAM = _metrics("byte", "dram__bytes_read.sum", "dram__bytes_write.sum")
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
BANK_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
"""Patterns for ``ld``, with ldmatrix, and ``st``. Conflicts are extra wavefronts, also after lost arbitration."""
COPY_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
"""Shared wavefronts of asynchronous copies."""
SHARED = _metrics(
    "wavefront",
    *map(SHARED_WAVEFRONTS.format, ("ld", "st")),
    *map(BANK_CONFLICTS.format, ("ld", "st")),
    COPY_WAVEFRONTS,
)
GLOBAL_ACCESSES = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
"""Pattern for ``requests`` and ``sectors``, then ``ld`` and ``st``."""
L2_SECTORS = "lts__t_sectors_srcunit_tex.sum"
"""L2 sectors asked for by the SMs."""
GLOBAL = [
    *_metrics("request", *(GLOBAL_ACCESSES.format("requests", op) for op in ("ld", "st"))),
    *_metrics("sector", *(GLOBAL_ACCESSES.format("sectors", op) for op in ("ld", "st"))),
    *_metrics("%", "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct", combine=LAST),
    *_metrics("sector", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum", L2_SECTORS),
    Metric("lts__t_sectors_srcunit_tex_lookup_hit.sum", "sector"),
]
ISSUED = Metric("smsp__issue_active.avg.pct_of_peak_sustained_active", "%", LAST)
"""Cycles in which a scheduler issued."""
# The pipes of products, and the states of a scheduler's resident warps: each figure is the mean number of
# warps in a state, divided by the share of cycles in which the scheduler issued.
PIPE = "sm__pipe_{}_cycles_active.avg.pct_of_peak_sustained_active"
PIPES = _metrics("%", *map(PIPE.format, ("tensor", "fma", "fp64")), combine=LAST)
# The busiest part of each unit, schedulers, tensor cores, and the data path of L1 and shared memory.
THROUGHPUT = [
    *_metrics(
        "%",
        *(
            f"{unit}__throughput.avg.pct_of_peak_sustained_elapsed"
            for unit in ("sm", "dram", "lts")
        ),
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        combine=LAST,
    ),
    ISSUED,
    PIPES[0],
    Metric("l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", "%", LAST),
]
STATES: dict[str, str] = {
    "selected": "issued an instruction",
    "not_selected": "could issue, another warp was chosen",
    "math_pipe_throttle": "wait for an execution pipe",
    "dispatch_stall": "wait for the dispatcher: register banks and ports",
    "wait": "wait a fixed number of cycles",
    "gmma": "wait for the tensor cores to take a wgmma",
    "barrier": "wait at a barrier, or for wgmma to end",
    "short_scoreboard": "wait for shared memory",
    "mio_throttle": "wait for a place in the queue of shared memory",
    "long_scoreboard": "wait for L1, L2 or device memory",
    "lg_throttle": "wait for a place in the queue of global memory",
    "tex_throttle": "wait for a place in the queue of the texture unit",
    "no_instruction": "wait for instructions",
    "imc_miss": "wait for a constant",
    "branch_resolving": "wait for a branch",
    "membar": "wait for a fence",
    "drain": "have ended, with stores under way",
    "sleeping": "sleep",
    "misc": "wait for something else",
}
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
WARP_STATES = [
    # A chip without wgmma has no such state.
    Metric(STALLED.format(state), "1", LAST, optional=state == "gmma")
    for state in STATES
]
# The same operations by instruction; TENSOR_OPS contains them, so they are never added to it.
TENSOR_PATH = "sm__ops_path_tensor_op_{}_src_{}_sparsity_off.sum"
TENSOR_PATHS = [
    Metric(TENSOR_PATH.format(op, DTYPES[dtype].tensor_source), "FLOP", optional=True, inputs=dtype)
    for op in ("hmma", "hgmma")
    for dtype in ("f16", "bf16", "tf32")
]

_BASIC = [*SCALAR_OPS, *TENSOR_OPS, *CYCLES, *LAUNCH, *GEOMETRY, *INSTRUCTIONS, *DRAM]
_TRAFFIC = [*_BASIC, *SHARED, *GLOBAL]
SETS: dict[str, tuple[Metric, ...]] = {
    "flops": (*SCALAR_OPS, *TENSOR_OPS, *LAUNCH),
    "cycles": (*CYCLES, *LAUNCH),
    "basic": tuple(_BASIC),
    "traffic": tuple(_TRAFFIC),
    "memory": tuple(_TRAFFIC),
    "paths": (*_TRAFFIC, *TENSOR_PATHS),
    "quantization": (*TENSOR_OPS, *CYCLES, *LAUNCH),
    "limits": (*CYCLES, _ELAPSED, *LAUNCH, *PIPES, ISSUED, *WARP_STATES),
    "full": (*_TRAFFIC, *THROUGHPUT, *TENSOR_PATHS),
}
# Counters that have a value for each instruction, and the column of the instruction table.
# `..._excess` follows from the two before it (ncu: derived__memory_l1_wavefronts_shared_excessive).
INSTRUCTION_METRICS: dict[str, str] = {
    "inst_executed": "executed",
    "thread_inst_executed": "threads_executed",
    "memory_l1_wavefronts_shared": "wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal": "wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global": "sectors_global",
    "memory_l2_theoretical_sectors_global_ideal": "sectors_global_ideal",
}
EXCESS = "wavefronts_shared_excess"
OF_INSTRUCTIONS = ("memory", "paths", "full")
"""Sets with counters of instructions: ncu patches the kernel for them, which takes most of a case's time."""
# Sections of ncu, which make the report file worth opening in Nsight Compute.
FULL = "SourceCounters SpeedOfLight LaunchStats Occupancy MemoryWorkloadAnalysis WarpStateStats"
SECTIONS = {"full": tuple(FULL.split())}
STALLS = "smsp__pcsamp_warps_issue_stalled_"
"""Prefix of a stall reason in ncu's samples of warps; samples without an issue have a suffix."""
SAMPLES, NOT_ISSUED_SAMPLES, STALL_SAMPLES = "samples", "samples_not_issued", "stall_{}"
"""Columns of an instruction's samples, and figures of a kernel's: all, those in cycles without an issue of the
scheduler, and by reason."""
SAMPLE_OF = {"no_instruction": "no_instructions", "gmma": "warpgroup_arrive"}
"""State -> its name in ncu's samples, if that differs."""
# Metrics of a sampled case. inst_executed gives the address at which the function starts.
# Without the section SourceCounters: ncu would patch every access to memory, which takes ten seconds for a
# kernel that reads single elements, and the set "memory" has its counters already.
SAMPLED = tuple(
    "inst_executed group:smsp__pcsamp_warp_stall_reasons group:smsp__pcsamp_warp_stall_reasons_not_issued".split()
)
# Sections whose rules add to our figures. Without WarpStateStats, whose rule needs SourceCounters.
SAMPLED_SECTIONS = tuple(
    "SpeedOfLight ComputeWorkloadAnalysis SchedulerStats LaunchStats Occupancy".split()
)
METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (*itertools.chain.from_iterable(SETS.values()), FP8_OPS)
}
OPTIONAL = frozenset(name for name, metric in METRICS.items() if metric.optional)


def names(metric_set: str) -> list[str]:
    """Return ncu's names of a set's metrics, in a fixed order. Raises KeyError for an unknown set."""
    return [metric.name for metric in SETS[metric_set]]


def merged(metric_sets: Iterable[str], fp8: bool = False) -> tuple[list[str], list[str]]:
    """Return metrics and sections of several sets, each once, in a fixed order; fp8: for an FP8 product."""
    chosen = [name for name in SETS if name in set(metric_sets)]
    metrics = dict.fromkeys(metric for name in chosen for metric in names(name))
    if fp8 and not metrics.keys().isdisjoint(metric.name for metric in TENSOR_OPS):
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
