"""Which counters Nsight Compute is asked for, what they mean, and the figures derived from them.

Metric names are ncu's own, as on compute capability 9.0; `tilewave.gpu.profiler` leaves out the
ones that the installed ncu does not know for the chip. A derived figure is left out, never 0, where
one of its parts is absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SUM, MAX, LAST = "sum", "max", "last"


@dataclass(frozen=True)
class Metric:
    """A counter: its unit, what it means in a line, how several launches of one case combine.

    ``optional`` metrics exist on some chips only and are left out there without a note.
    """

    name: str
    unit: str
    meaning: str
    combine: str = SUM
    optional: bool = False


def _thread_op(op: str, words: str) -> Metric:
    name = f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
    return Metric(name, "inst", f"{words}, one for each thread that was not predicated off")


SCALAR_OPS = [
    _thread_op("ffma", "f32 fused multiply-adds"),
    _thread_op("fadd", "f32 additions"),
    _thread_op("fmul", "f32 multiplications"),
    _thread_op("dfma", "f64 fused multiply-adds"),
    _thread_op("dadd", "f64 additions"),
    _thread_op("dmul", "f64 multiplications"),
    _thread_op("hfma", "f16 fused multiply-adds"),
    _thread_op("hadd", "f16 additions"),
    _thread_op("hmul", "f16 multiplications"),
]
_TENSOR = "operations on the tensor cores (2 for a multiply-add) with"
TENSOR_OPS = [
    Metric("sm__ops_path_tensor_src_fp16.sum", "FLOP", f"{_TENSOR} f16 inputs"),
    Metric("sm__ops_path_tensor_src_bf16_dst_fp32.sum", "FLOP", f"{_TENSOR} bf16 inputs"),
    Metric("sm__ops_path_tensor_src_tf32_dst_fp32.sum", "FLOP", f"{_TENSOR} tf32 inputs"),
    Metric("sm__ops_path_tensor_src_fp64.sum", "FLOP", f"{_TENSOR} f64 inputs"),
    # Chips whose tensor cores are faster with an f16 sum count the two kinds of sum apart.
    Metric(
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
        "FLOP",
        f"{_TENSOR} f16 inputs and sums",
        optional=True,
    ),
    Metric(
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "FLOP",
        f"{_TENSOR} f16 inputs and f32 sums",
        optional=True,
    ),
    Metric("sm__ops_path_tensor_src_int8.sum", "FLOP", f"{_TENSOR} i8 inputs", optional=True),
]
CYCLES = [
    Metric("sm__cycles_active.avg", "cycle", "cycles with a warp on an SM, mean over SMs"),
    Metric("sm__cycles_active.max", "cycle", "cycles with a warp on an SM, busiest SM"),
    Metric("gpu__time_duration.sum", "ns", "time under ncu; never a figure of speed"),
]
ELAPSED = Metric("sm__cycles_elapsed.max", "cycle", "SM clock cycles from start to end", SUM)
LAUNCH = [
    Metric("launch__grid_size", "block", "blocks launched"),
    Metric("launch__waves_per_multiprocessor", "wave", "blocks over the blocks that fit at once"),
]
GEOMETRY = [
    Metric("launch__grid_dim_x", "block", "grid in x", LAST),
    Metric("launch__grid_dim_y", "block", "grid in y", LAST),
    Metric("launch__grid_dim_z", "block", "grid in z", LAST),
    Metric("launch__block_size", "thread", "threads of a block", LAST),
    Metric("launch__registers_per_thread", "register", "registers of a thread", MAX),
    Metric("launch__shared_mem_per_block_static", "byte", "shared memory declared", MAX),
    Metric("launch__shared_mem_per_block_dynamic", "byte", "shared memory of the launch", MAX),
    Metric("launch__shared_mem_per_block_driver", "byte", "shared memory the driver keeps", MAX),
    Metric("launch__occupancy_limit_registers", "block", "blocks an SM's registers hold", LAST),
    Metric("launch__occupancy_limit_shared_mem", "block", "blocks its shared memory holds", LAST),
    Metric("launch__occupancy_limit_warps", "block", "blocks its warp slots hold", LAST),
    Metric("launch__occupancy_limit_blocks", "block", "blocks its block slots hold", LAST),
    Metric("sm__maximum_warps_per_active_cycle_pct", "%", "theoretical occupancy", LAST),
    Metric("sm__warps_active.avg.pct_of_peak_sustained_active", "%", "achieved occupancy", LAST),
]
INSTRUCTIONS = [
    Metric("smsp__inst_executed.sum", "inst", "instructions, one for each warp"),
    Metric(
        "smsp__thread_inst_executed.sum",
        "inst",
        "instructions, one for each thread, predicated off too",
    ),
    ELAPSED,
    Metric("gpc__cycles_elapsed.max", "cycle", "GPC clock cycles from start to end", SUM),
]
DRAM = [
    Metric("dram__bytes_read.sum", "byte", "bytes read from device memory"),
    Metric("dram__bytes_write.sum", "byte", "bytes written to device memory"),
]
SHARED = [
    Metric(
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "wavefront",
        "wavefronts of shared loads, ldmatrix among them",
    ),
    Metric(
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "wavefront",
        "wavefronts of shared stores",
    ),
    Metric(
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "wavefront",
        "extra wavefronts of shared loads: bank conflicts and lost arbitration",
    ),
    Metric(
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "wavefront",
        "extra wavefronts of shared stores: bank conflicts and lost arbitration",
    ),
    Metric(
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
        "wavefront",
        "shared wavefronts of asynchronous copies",
    ),
]
GLOBAL = [
    Metric("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "request", "global load requests"),
    Metric("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "request", "global store requests"),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "sectors of global loads"),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sector", "sectors of global stores"),
    Metric("l1tex__t_sector_hit_rate.pct", "%", "L1 sectors found, of those looked up", LAST),
    Metric("lts__t_sector_hit_rate.pct", "%", "L2 sectors found, of those looked up", LAST),
    Metric("lts__t_sectors_op_read.sum", "sector", "L2 sectors read"),
    Metric("lts__t_sectors_op_write.sum", "sector", "L2 sectors written"),
    Metric("lts__t_sectors_srcunit_tex.sum", "sector", "L2 sectors asked for by the SMs"),
    Metric(
        "lts__t_sectors_srcunit_tex_lookup_hit.sum", "sector", "of these, the sectors found in L2"
    ),
]
ISSUED = Metric(
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "%",
    "cycles in which a scheduler issued",
    LAST,
)
THROUGHPUT = [
    Metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "busiest part of the SM", LAST),
    Metric("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "busiest part of DRAM", LAST),
    Metric(
        "lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "busiest part of the L2", LAST
    ),
    Metric(
        "l1tex__throughput.avg.pct_of_peak_sustained_active", "%", "busiest part of the L1", LAST
    ),
    ISSUED,
    Metric(
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "%",
        "cycles in which the tensor cores worked",
        LAST,
    ),
    Metric(
        "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
        "%",
        "wavefronts of the L1's data pipe, of the most it can take",
        LAST,
    ),
]
# The units that do the products, and what the resident warps of a scheduler wait for: each figure is the
# mean number of warps in a state, divided by the share of cycles in which the scheduler issued.
PIPE = "sm__pipe_{}_cycles_active.avg.pct_of_peak_sustained_active"
PIPES = [
    Metric(
        PIPE.format(pipe),
        "%",
        f"cycles in which the {words} worked, of those with a warp on the SM",
        LAST,
    )
    for pipe, words in (
        ("tensor", "tensor cores"),
        ("fma", "FMA units"),
        ("fp64", "f64 units"),
    )
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
    Metric(STALLED.format(state), "1", f"warps that {words}", LAST, optional=state == "gmma")
    for state, words in STATES.items()
]
# The same sums by instruction; contained in TENSOR_OPS, so never added to them.
TENSOR_PATHS = [
    Metric(
        f"sm__ops_path_tensor_op_{op}_src_{src}_sparsity_off.sum",
        "FLOP",
        f"of these, {op.upper()} instructions with {src.split('_')[0]} inputs",
        optional=True,
    )
    for op in ("hmma", "hgmma")
    for src in ("fp16", "bf16_dst_fp32", "tf32_dst_fp32")
]

_BASIC = [*SCALAR_OPS, *TENSOR_OPS, *CYCLES, *LAUNCH, *GEOMETRY, *INSTRUCTIONS, *DRAM]
SETS: dict[str, tuple[Metric, ...]] = {
    "flops": (*SCALAR_OPS, *TENSOR_OPS, *LAUNCH),
    "basic": tuple(_BASIC),
    "memory": (*_BASIC, *SHARED, *GLOBAL),
    "quantization": (*TENSOR_OPS, *CYCLES, *LAUNCH),
    "limits": (*CYCLES, ELAPSED, *LAUNCH, *PIPES, ISSUED, *WARP_STATES),
    "full": (*_BASIC, *SHARED, *GLOBAL, *THROUGHPUT, *TENSOR_PATHS),
}
# Sections of ncu: SourceCounters brings the counters of each instruction; the others make the
# report file worth opening in Nsight Compute.
SECTIONS: dict[str, tuple[str, ...]] = {
    "flops": (),
    "basic": (),
    "memory": ("SourceCounters",),
    "quantization": (),
    "limits": (),
    "full": (
        "SourceCounters",
        "SpeedOfLight",
        "LaunchStats",
        "Occupancy",
        "MemoryWorkloadAnalysis",
        "WarpStateStats",
    ),
}
METRICS: dict[str, Metric] = {metric.name: metric for names in SETS.values() for metric in names}

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

# Figures computed here, with unit and meaning, for the documentation.
DERIVED: dict[str, tuple[str, str]] = {
    "counted_flops": ("FLOP", "floating-point operations counted, scalar and tensor"),
    "counted_flops_f32": ("FLOP", "2 ffma + fadd + fmul"),
    "counted_flops_f64": ("FLOP", "2 dfma + dadd + dmul"),
    "counted_flops_f16": ("FLOP", "2 hfma + hadd + hmul"),
    "counted_tensor_flops": ("FLOP", "operations on the tensor cores, all input types"),
    "shared_wavefronts_load": ("wavefront", "wavefronts of shared loads, ldmatrix among them"),
    "shared_wavefronts_store": ("wavefront", "wavefronts of shared stores"),
    "bank_conflicts_load": ("wavefront", "the conflict counter of loads"),
    "bank_conflicts_store": ("wavefront", "the conflict counter of stores"),
    "dram_bytes": ("byte", "bytes read from and written to device memory"),
    "l2_hit_rate": ("%", "L2 sectors found, of those looked up"),
    "l1_hit_rate": ("%", "L1 sectors found, of those looked up"),
    "cycles_active_ratio": ("1", "sm__cycles_active, average over maximum"),
    "wavefronts_shared": ("wavefront", "shared wavefronts of all instructions"),
    "wavefronts_shared_ideal": ("wavefront", "the same without conflicts"),
    "wavefronts_shared_excess": ("wavefront", "the first less the second"),
    "wavefronts_shared_<KIND>": ("wavefront", "of one kind of instruction: LDS, STS, LDSM, ..."),
    "wavefronts_shared_ideal_<KIND>": ("wavefront", "the same without conflicts"),
    "wavefronts_shared_excess_<KIND>": ("wavefront", "the first less the second"),
}

RENAMED = {
    "shared_wavefronts_load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_wavefronts_store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "bank_conflicts_load": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "bank_conflicts_store": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l2_hit_rate": "lts__t_sector_hit_rate.pct",
    "l1_hit_rate": "l1tex__t_sector_hit_rate.pct",
}
SHARED_KINDS = re.compile(r"^(LDSM|LDGSTS|LDS|STSM|STS|ATOMS|REDS|UTMALDG|UBLKCP)\b")


def names(metric_set: str) -> list[str]:
    """ncu metric names of a set, in a fixed order.

    Raises KeyError for a set that does not exist.
    """
    return [metric.name for metric in SETS[metric_set]]


def sections(metric_set: str) -> list[str]:
    """ncu sections of a set."""
    return list(SECTIONS[metric_set])


def merged(metric_sets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Metrics and sections of several sets together, each once, in a fixed order."""
    chosen = [name for name in SETS if name in set(metric_sets)]
    metrics = dict.fromkeys(metric for name in chosen for metric in names(name))
    return list(metrics), list(dict.fromkeys(one for name in chosen for one in SECTIONS[name]))


def figure(metric: str, value: float, unit: str) -> dict[str, Any]:
    """A figure of a result document."""
    return {"metric": metric, "value": float(value), "unit": unit}


def usable(value: object) -> bool:
    """Whether a counter's value is a number that may be recorded (no text, NaN or infinity)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def combined(name: str, values: Sequence[float]) -> float:
    """One value for the launches of a case: a sum, the largest or the last."""
    how = METRICS[name].combine if name in METRICS else LAST
    if how == SUM:
        return float(sum(values))
    return float(max(values)) if how == MAX else float(values[-1])


def _scalar_flops(values: Mapping[str, float], letter: str) -> float | None:
    parts = [
        values.get(f"smsp__sass_thread_inst_executed_op_{letter}{op}_pred_on.sum")
        for op in ("fma", "add", "mul")
    ]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return 2 * known[0] + known[1] + known[2]


TENSOR_COUNTER = {"bf16": "bf16_dst_fp32", "tf32": "tf32_dst_fp32", "f64": "fp64", "i8": "int8"}


def tensor_flops(values: Mapping[str, float], operand: str = "") -> float | None:
    """Operations of the tensor cores over all input types.

    None without the count of f16 inputs, which every chip with tensor cores has, or without that of
    the case's own inputs (``operand``: f16, bf16, tf32, i8; an f64 product may run on the FMA units
    of a chip that has no such counter). Types that the chip does not count add nothing. A chip
    counts f16 inputs together or apart by the type of the sum; the total is taken where there is
    one.
    """
    prefix = "sm__ops_path_tensor_src_"
    fp16 = values.get(f"{prefix}fp16.sum")
    if fp16 is None:
        apart = [values.get(f"{prefix}fp16_dst_{dst}.sum") for dst in ("fp16", "fp32")]
        known = [part for part in apart if part is not None]
        if not known:
            return None
        fp16 = sum(known)
    if operand in ("bf16", "tf32", "i8") and f"{prefix}{TENSOR_COUNTER[operand]}.sum" not in values:
        return None
    return fp16 + sum(values.get(f"{prefix}{part}.sum", 0.0) for part in TENSOR_COUNTER.values())


def derived(values: Mapping[str, float], operand: str = "") -> list[dict[str, Any]]:
    """Figures that follow from a case's counters; those with an absent part are left out.

    operand: dtype of the case's inputs, see `tensor_flops`.
    """
    made = [
        figure(name, values[source], DERIVED[name][0])
        for name, source in RENAMED.items()
        if source in values
    ]
    scalars = {
        f"counted_flops_{dtype}": _scalar_flops(values, letter)
        for dtype, letter in (("f32", "f"), ("f64", "d"), ("f16", "h"))
    }
    tensor = tensor_flops(values, operand)
    parts = {**scalars, "counted_tensor_flops": tensor}
    made += [figure(name, part, "FLOP") for name, part in parts.items() if part is not None]
    known = [part for part in parts.values() if part is not None]
    if len(known) == len(parts):
        made.append(figure("counted_flops", sum(known), "FLOP"))
    read, write = values.get("dram__bytes_read.sum"), values.get("dram__bytes_write.sum")
    if read is not None and write is not None:
        made.append(figure("dram_bytes", read + write, "byte"))
    average, highest = values.get("sm__cycles_active.avg"), values.get("sm__cycles_active.max")
    if average is not None and highest:
        made.append(figure("cycles_active_ratio", average / highest, "1"))
    return made


def instruction_kind(opcode: str) -> str:
    """The part of an opcode that names a kind of shared-memory instruction: LDS of LDS.64."""
    found = SHARED_KINDS.match(opcode)
    return found.group(1) if found else opcode.split(".")[0]


def instruction_totals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Shared wavefronts, ideal and excess, of all instructions and of each kind that has any.

    Empty where no instruction has both counters.
    """
    totals: dict[str, list[float]] = {}
    for row in rows:
        found, ideal = row.get("wavefronts_shared"), row.get("wavefronts_shared_ideal")
        if found is None or ideal is None:
            continue
        for kind in ("", f"_{instruction_kind(str(row['opcode']))}"):
            total = totals.setdefault(kind, [0.0, 0.0])
            total[0] += found
            total[1] += ideal
    made = []
    for kind, (found, ideal) in totals.items():
        if kind and not found and not ideal:
            continue
        made.append(figure(f"wavefronts_shared{kind}", found, "wavefront"))
        made.append(figure(f"wavefronts_shared_ideal{kind}", ideal, "wavefront"))
        made.append(figure(f"wavefronts_shared_excess{kind}", found - ideal, "wavefront"))
    return made


# What Nsight Compute attributes to a probe's one instruction, and the unit.
BY_INSTRUCTION: dict[str, tuple[str, str]] = {
    "wavefronts_by_instruction": ("wavefronts_shared", "wavefront"),
    "ideal_by_instruction": ("wavefronts_shared_ideal", "wavefront"),
}
LOADS, STORES = ("LDS", "LDSM"), ("STS", "STSM")  # what the op_ld and op_st counters count


def probe_instruction(
    rows: Sequence[Mapping[str, Any]], prefix: str
) -> tuple[list[Mapping[str, Any]], str]:
    """The probe's own instruction among a kernel's, and a note where it is not exactly one.

    An instruction whose opcode is the prefix itself comes before those that only begin with it
    (``STS`` must not find ``STS.64``); instructions that no warp executed do not count.
    """
    ran = [row for row in rows if row.get("executed") != 0]
    exact = [row for row in ran if row["opcode"] == prefix]
    chosen = exact or [row for row in ran if str(row["opcode"]).startswith(prefix + ".")]
    if len(chosen) == 1:
        return chosen, ""
    if not chosen:
        return [], f"no instruction {prefix} was executed"
    places = ", ".join(f"{row['address']:#x}" for row in chosen)
    return [], f"{len(chosen)} instructions are {prefix} (at {places}): which is the probe's?"


def probe_figures(
    prefix: str, rows: Sequence[Mapping[str, Any]], values: Mapping[str, float]
) -> tuple[list[dict[str, Any]], str]:
    """Counts of a probe's own instruction, and a note where they cannot be told.

    The hardware counts wavefronts and conflicts of all loads, and of all stores, of a kernel
    (``values``): where the probe is the only executed instruction of its side, that count is its
    own and is taken. What Nsight Compute attributes to the instruction's address stands beside it
    as ``wavefronts_by_instruction``: on compute capability 9.0 it comes from a model that differs
    from the counter for some 128-bit loads (measured with kernels/shared_access.cu).
    """
    chosen, note = probe_instruction(rows, prefix)
    if not chosen:
        return [], note
    made = []
    for name, (column, unit) in BY_INSTRUCTION.items():
        if chosen[0].get(column) is not None:
            made.append(figure(name, float(chosen[0][column]), unit))
    side, kinds = ("store", STORES) if prefix.startswith("STS") else ("load", LOADS)
    ran = [row for row in rows if row.get("executed") != 0]
    alone = [row for row in ran if instruction_kind(str(row["opcode"])) in kinds]
    if len(alone) > 1:
        return made, f"{len(alone)} instructions share the hardware's {side} counter"
    for name, source in (("wavefronts", "shared_wavefronts"), ("bank_conflicts", "bank_conflicts")):
        counter = RENAMED[f"{source}_{side}"]
        if counter in values:
            made.append(figure(name, values[counter], "wavefront"))
    return made, note


def table() -> list[dict[str, str]]:
    """All metrics for the documentation: metric, unit, meaning, sets."""
    rows = [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "meaning": metric.meaning,
            "sets": ", ".join(name for name, members in SETS.items() if metric in members),
        }
        for metric in METRICS.values()
    ]
    rows += [
        {"metric": name, "unit": unit, "meaning": meaning, "sets": "derived"}
        for name, (unit, meaning) in DERIVED.items()
    ]
    return rows
