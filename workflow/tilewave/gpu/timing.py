"""The time of a launch: CUDA events around graphs of launches, paired with cuBLAS.

* Buffers: sets of buffers take turns and together exceed twice the L2 cache (at most 64 sets and half of the
  free memory). The note ``cache`` is cold if they do, else warm.
* Gate: a block's launches are one CUDA graph behind a kernel that holds the stream, so no host code runs
  between the two events.
* Blocks: each takes about the time of the job's `timing` (2 ms by default). A round is variant, baseline,
  baseline, variant.
* Rounds: at least those of `timing` (5; of launches over 10 ms two), more while the spread exceeds 0.5 %, at most
  20, and at most one second (from two rounds on) or the case's limit. A GPU at its power limit never gets below
  that spread; from 8 rounds on a ratio known to 0.2 % is enough.
* Clock: each round counts the SM clock. Until the load has lasted `settled_s`, rounds before a clock change are
  dropped, and no timing ends before `steady_s`.
* Disturbance: the GPU is watched for other processes before and after the rounds (`Support.paused`). A time
  beside one, or on a GPU slowed down by heat, is marked, and the next run times the case again.

A launch's duration is the median of a block's time over its launches, its spread the interquartile range.
"""

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.gpu.blocks import Block, build, empty_us, first_launch_us, span
from tilewave.gpu.buffers import DeviceBuffer, DeviceMemory, KeptBuffers, Sets
from tilewave.gpu.cpu_kernels import time_cpu
from tilewave.gpu.cublaslt import ProductPlan, Unavailable
from tilewave.gpu.device import CudaError
from tilewave.gpu.failure import over_limit
from tilewave.gpu.launch import NvrtcKernel
from tilewave.gpu.operands import fill, scratch, sizes
from tilewave.gpu.session import Session
from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.kernel.launches import Scratch
from tilewave.kernel.result import COUNTED_CLOCK, DISTURBED, Result
from tilewave.records.counters.figures import figure

METHOD = SimpleNamespace(**table_beside(__file__))
"""How launches are timed; timing.yaml has the reasons."""

Samples = dict[str, list[float]]
Prepare = Callable[[Mapping[str, int]], Callable[[], None]]


def fill_sets(session: Session, job: Job, kept: KeptBuffers) -> tuple[Sets, bool]:
    """Return buffer sets with fresh inputs, and whether they exceed twice the L2 cache together."""
    gpu, wanted = session.gpu, sizes(job)
    nbytes = max(1, sum(wanted.values()))
    enough = max(1, math.ceil(2 * gpu.l2_bytes / nbytes))

    def new_set(memory: DeviceMemory) -> dict[str, DeviceBuffer]:
        return {name: memory.new(name, size) for name, size in wanted.items()}

    def allocate(memory: DeviceMemory) -> Sets:
        first = new_set(memory)
        count = min(enough, METHOD.max_sets, 1 + gpu.free_bytes() // 2 // nbytes)
        return [first, *(new_set(memory) for _ in range(count - 1))]

    sets = kept.sets(wanted, allocate)
    host_inputs: dict[str, np.ndarray] = {}
    for index, buffers in enumerate(sets):
        fill(session, job, buffers, index=index, host_inputs=host_inputs)
    gpu.sync()
    return sets, len(sets) * nbytes >= 2 * gpu.l2_bytes


def pointers_of(sets: Sets) -> list[dict[str, int]]:
    return [{name: buffer.pointer for name, buffer in buffers.items()} for buffers in sets]


def plan_of(job: Job) -> tuple[float, int]:
    """Return the microseconds of a block and the fewest rounds."""
    return 1e3 * job.timing.block_ms, job.timing.rounds


def cost_s(job: Job, *launches_us: float) -> float:
    """Return the seconds of warm-up and the fewest rounds, for launches of this many microseconds."""
    block_us, rounds = plan_of(job)
    # Warm-up takes five launches and a block, or three launches that are blocks themselves.
    warm = sum(3 * us if us >= block_us else 5 * us + block_us for us in launches_us)
    round_us = 2 * sum(max(us, block_us) for us in launches_us)
    fewest: int = min(rounds, max(METHOD.fewest_rounds, 1 + int(1e6 * METHOD.enough_s / round_us)))
    return 1e-6 * (warm + fewest * round_us)


def time_job(session: Session | None, job: Job) -> Result:
    """Time one case. `session` may be None for the CPU provider. Raises CudaError, cublaslt.Unavailable."""
    if job.provider == "cpu":
        return time_cpu(job)
    assert session is not None
    with contextlib.ExitStack() as stack:
        return _time_on_gpu(session, job, stack)


def _time_on_gpu(session: Session, job: Job, stack: contextlib.ExitStack) -> Result:
    gpu = session.gpu
    began = time.monotonic()
    memory = stack.enter_context(DeviceMemory(gpu))
    sets, cold = fill_sets(session, job, session.kept)
    # One scratch for all sets, like a library's workspace: the launches follow each other.
    extra = {name: buffer.pointer for name, buffer in scratch(memory, job).items()}
    pointers = [addresses | extra for addresses in pointers_of(sets)]
    notes: dict[str, Any] = {"cache": "cold" if cold else "warm", "buffer_sets": len(sets)}
    clocks = session.clocks
    clocks.reset()

    prepare, prepare_rival = contestants(session, job, pointers, stack, notes)
    block_us, least_rounds = plan_of(job)
    rival: Block | None = None
    with span("warmup"):
        launches = list(map(prepare, pointers))
        launch_us = first_launch_us(session.gpu, launches[0])
        if refused := over_limit(job, cost_s(job, launch_us)):
            return refused
        launch_us = min(launch_us, first_launch_us(session.gpu, launches[-1]))
        rival_launches = list(map(prepare_rival, pointers)) if prepare_rival else []
        rival_us = [first_launch_us(session.gpu, launch) for launch in rival_launches[:1]]
        predicted = cost_s(job, launch_us, *rival_us) + METHOD.settled_s + time.monotonic() - began
        if refused := over_limit(job, predicted):
            return refused
        block = build(session.support, launches, block_us, launch_us)
        stack.callback(block.close)
        if rival_launches:
            rival_us.append(first_launch_us(session.gpu, rival_launches[-1]))
            rival = build(session.support, rival_launches, block_us, min(rival_us))
            stack.callback(rival.close)

    samples: Samples = {"duration_us": []}
    if rival is not None:
        samples["baseline_us"] = []
    paused = session.support.paused(lately=True)
    steady_s = 0.0 if launch_us < METHOD.light_us else METHOD.steady_s
    rounds, started = 0, time.monotonic()
    if launch_us >= METHOD.long_us:
        least_rounds = min(least_rounds, METHOD.fewest_rounds)
    with span("measure"):
        while rounds < max(METHOD.max_rounds, least_rounds):
            _round(session, block, rival, samples)
            spent = time.monotonic() - started
            if spent < METHOD.settled_s and clocks.moved(METHOD.moved):
                samples = {name: series[-2:] for name, series in samples.items()}
            rounds = len(samples["duration_us"]) // 2
            # Half of the limit, because the supervisor also counts set-up and the next round.
            if rounds >= METHOD.fewest_rounds and spent > min(METHOD.enough_s, job.limit_s / 2):
                break
            if spent < steady_s or rounds < least_rounds:
                continue
            if all(_spread(series) < METHOD.enough_spread for series in samples.values()):
                break
            if rounds >= METHOD.ratio_rounds and _error(samples) < METHOD.enough_error:
                break
    notes["clock"] = COUNTED_CLOCK
    notes |= {"repeats": block.repeats, "rounds": rounds, "throttle": clocks.throttle()}
    notes["alpha"], notes["beta"] = 1.0, 0.0
    paused, slowed = max(paused, session.support.paused()), clocks.slowed()
    reasons = [f"the GPU was slowed down: {slowed}"] if slowed else []
    if paused > METHOD.most_paused:
        reasons.insert(0, f"another process used this GPU, {paused:.0%} of the time")
    if reasons:
        notes["disturbed"] = "; ".join(reasons)
    return _report(session, job, samples, notes, predicted)


def contestants(
    session: Session,
    job: Job,
    pointers: list[dict[str, int]],
    stack: contextlib.ExitStack,
    notes: dict[str, Any],
) -> tuple[Prepare, Prepare | None]:
    """Return the prepare functions of the timed kernel and its partner.
    The partner is the job's rival, cuBLASLt's fastest algorithm, or for cuBLASLt itself its rank 0."""
    kernel: NvrtcKernel | None = None
    if job.provider == "nvrtc":
        kernel = NvrtcKernel(session.gpu, job, session.module(job))
        stack.callback(kernel.close)
        if job.rival is not None:
            return kernel.prepare, _rival(session, job.rival, stack, job.launch.scratch)
        if not job.baseline:
            return kernel.prepare, None

    def block_of(algorithm: bytes) -> Block:
        launches = [plan.prepare(addresses, algorithm=algorithm) for addresses in pointers]
        us = min(first_launch_us(session.gpu, launch) for launch in (launches[0], launches[-1]))
        block = build(session.support, launches, METHOD.choice_us, us)
        if us >= METHOD.choice_us:
            block.run()
        return block

    try:
        product = job.shape, job.dtypes, job.layouts, job.strides
        plan = stack.enter_context(ProductPlan(session.cublaslt, *product))
        with span("warmup"):
            fastest = plan.choose(block_of, session.cache)
    except (Unavailable, CudaError) as error:
        # Without cuBLASLt a kernel is timed alone; a lost context or a missing product is an error.
        if kernel is None or (isinstance(error, CudaError) and error.poisoned):
            raise
        notes["baseline"] = str(error)
        return kernel.prepare, None
    ranks = [rank for rank, algorithm in enumerate(plan.algorithms) if algorithm == fastest]
    notes["cublas_rank"] = ranks[0] if ranks else None
    notes["cublas_algorithms"] = len(plan.algorithms)
    notes["cublas_version"] = session.cublaslt.version
    prepare = partial(plan.prepare, algorithm=fastest)
    if kernel is not None:
        return kernel.prepare, prepare
    first = plan.algorithms[0]
    return prepare, None if first == fastest else partial(plan.prepare, algorithm=first)


def _rival(
    session: Session, job: Job, stack: contextlib.ExitStack, shared: Sequence[Scratch]
) -> Prepare:
    """Return the prepare function of the rival on the same operands, and on equal scratch buffers of
    ``shared``. A buffer at another address can be some percent faster or slower."""
    kernel = NvrtcKernel(session.gpu, job, session.module(job))
    stack.callback(kernel.close)
    memory = stack.enter_context(DeviceMemory(session.gpu))
    separate = [buffer for buffer in job.launch.scratch if buffer not in shared]
    launch = dataclasses.replace(job.launch, scratch=tuple(separate))
    buffers = scratch(memory, dataclasses.replace(job, launch=launch))
    pointers = {name: buffer.pointer for name, buffer in buffers.items()}
    return lambda addresses: kernel.prepare({**addresses, **pointers})


def _round(session: Session, block: Block, rival: Block | None, samples: Samples) -> None:
    """Time variant, baseline, baseline, variant, each behind a gate, and read the clocks meanwhile."""
    order = [block, rival, rival, block] if rival is not None else [block, block]
    for position, current in enumerate(order):
        assert current is not None
        session.support.gate()
        current.enqueue()
        if position == len(order) - 1:
            session.clocks.sample()  # the last block is running now
        session.gpu.sync()
        samples["duration_us" if current is block else "baseline_us"].append(current.us())
    session.clocks.count(session.support.sm_clock())


def _spread(series: Sequence[float]) -> float:
    low, middle, high = statistics.quantiles(series, n=4, method="inclusive")
    return (high - low) / middle


def _error(samples: Mapping[str, list[float]]) -> float:
    """Return the relative standard error of the median ratio of variant to baseline (or of the variant's time)."""
    series = [np.reshape(values, (-1, 2)).mean(axis=1) for values in samples.values()]
    ratio = series[0] / series[1] if len(series) > 1 else series[0]
    # For a normal distribution: 1.253 standard deviations, and the interquartile range is 1.349 of them.
    return 0.929 * _spread(ratio.tolist()) / math.sqrt(len(ratio))


def _report(
    session: Session, job: Job, samples: Samples, notes: dict[str, Any], predicted: float
) -> Result:
    low, duration, high = (float(x) for x in np.percentile(samples["duration_us"], (25, 50, 75)))
    figures = [
        figure("duration", duration, "us"),
        figure("duration_spread", high - low, "us"),
        figure("empty_kernel", empty_us(session.support), "us"),
        figure("predicted_cost_s", predicted, "s"),
        *session.clocks.figures(),
    ]
    operation = operations.load(job.operation, job.source)
    work = operation.work(job.shape, job.dtypes)
    flops = job.work.get("flop", 0.0) or work.flops
    moved = job.work.get("byte", 0.0) or (0 if operation.vendor else work.bytes)
    if flops:
        figures.append(figure("tflops", flops / duration * 1e-6, "TFLOP/s"))
    if moved:
        figures.append(figure("bandwidth", moved / duration * 1e-6, "TB/s"))
    series = samples.get("baseline_us")
    if job.provider == "cublaslt":
        rank0 = float(np.median(series)) if series else duration
        figures.append(figure("rank0_duration", rank0, "us"))
        if series:
            samples["rank0_us"] = samples.pop("baseline_us")
    elif series:
        baseline = float(np.median(series))
        half = len(series) // 2
        drift = 100 * (float(np.median(series[half:])) / float(np.median(series[:half])) - 1)
        figures += [
            figure("baseline_duration", baseline, "us"),
            figure("baseline_tflops", flops / baseline * 1e-6, "TFLOP/s"),
            figure("percent_of_cublas", 100 * baseline / duration, "%"),
            figure("baseline_drift", drift, "%"),
        ]
    reason = DISTURBED + notes["disturbed"] if "disturbed" in notes else ""
    return Result.of_job(job, "ok", reason, figures=figures, samples=samples, notes=notes)
