"""How long does one launch take? CUDA events around graphs of launches, paired with cuBLAS.

Habits. Buffers: R sets take turns, so that R sets exceed twice the L2 cache (at most 64 sets and
half of the free memory); notes say whether that was reached (``cache``: cold or warm). Gate: the
launches of a block are captured into one CUDA graph, enqueued behind a kernel that holds the stream,
so no Python and no host lies between the two events. Blocks: about 2 ms each, in the order
variant, baseline, baseline, variant; at least 5 such rounds and more while the spread is above
0.5 %, at most 20 rounds, one second and the case's limit. The duration of a launch is a block's time
over its launches, the figure the median over blocks, its spread the interquartile range.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tilewave.gpu import Job, Result, figure, result
from tilewave.gpu.check import host_buffers
from tilewave.gpu.clocks import Clocks
from tilewave.gpu.cpu_timing import time_cpu
from tilewave.gpu.device import Gpu, ok
from tilewave.gpu.launch import NvrtcKernel, Session
from tilewave.gpu.memory import Buffer, Memory, matrix_bytes
from tilewave.gpu.reference import STREAMS

BLOCK_US = 2000.0
MIN_ROUNDS, MAX_ROUNDS, ENOUGH_S, ENOUGH_SPREAD = 5, 20, 1.0, 0.005
MAX_SETS = 64
MAX_REPEATS = 1024
NEAR_EMPTY = 5.0
"""A launch shorter than this many empty launches is flagged."""

Prepare = Callable[[Mapping[str, int]], Callable[[], None]]


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """An NVTX range in the domain `tilewave` (nothing where nvtx is not installed)."""
    try:
        import nvtx
    except ImportError:
        yield
        return
    with nvtx.annotate(name, domain="tilewave"):
        yield


class Block:
    """A CUDA graph of `repeats` launches that take the buffer sets in turn."""

    def __init__(self, session: Session, launches: list[Callable[[], None]], repeats: int) -> None:
        from cuda.bindings import driver

        self._session, self.repeats = session, repeats
        gpu = session.gpu
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._graph = self._exec = None
        ok(driver.cuStreamBeginCapture(gpu.handle, mode))
        try:
            for index in range(repeats):
                launches[index % len(launches)]()
        finally:  # the stream must leave capture mode whatever happened
            ended = driver.cuStreamEndCapture(gpu.handle)
        self._graph = ok(ended)
        try:
            self._exec = ok(driver.cuGraphInstantiate(self._graph, 0))
            ok(driver.cuGraphUpload(self._exec, gpu.handle))
            gpu.sync()
        except BaseException:
            self.close()
            raise
        self._events = (gpu.event(), gpu.event())

    def enqueue(self) -> None:
        """Start event, graph, end event."""
        from cuda.bindings import driver

        gpu = self._session.gpu
        gpu.stream.record(self._events[0])
        ok(driver.cuGraphLaunch(self._exec, gpu.handle))
        gpu.stream.record(self._events[1])

    def us(self) -> float:
        """Time of one launch in the block that was enqueued last, once the stream is done."""
        return 1e3 * float(self._events[1] - self._events[0]) / self.repeats

    def run(self) -> float:
        """Run one block behind the gate; microseconds a launch."""
        self._session.support.gate()
        self.enqueue()
        self._session.gpu.sync()
        return self.us()

    def close(self) -> None:
        from cuda.bindings import driver

        if self._exec is not None:
            driver.cuGraphExecDestroy(self._exec)
        if self._graph is not None:
            driver.cuGraphDestroy(self._graph)
        self._exec = self._graph = None


def _repeats(us: float) -> int:
    return max(1, min(MAX_REPEATS, round(BLOCK_US / max(us, 0.1))))


def build(session: Session, launches: list[Callable[[], None]]) -> Block:
    """A block of about 2 ms: one launch is timed, then the block itself where that misled.

    Every launch function must have run once before (lazy loading is not allowed in a capture).
    """
    gpu = session.gpu
    first, last = gpu.event(), gpu.event()
    session.support.gate()
    gpu.stream.record(first)
    for launch in launches[:3]:
        launch()
    gpu.stream.record(last)
    gpu.sync()
    repeats = _repeats(1e3 * float(last - first) / len(launches[:3]))
    block = Block(session, launches, repeats)
    better = _repeats(block.run())
    if repeats != better and not 0.6 < better / repeats < 1.7:
        block.close()
        block = Block(session, launches, better)
        block.run()
    return block


def empty_us(session: Session) -> float:
    """Time of an empty kernel in the same graph form, measured once for each session."""
    known: float | None = session.__dict__.get("_empty_us")
    if known is None:
        launch = session.support.prepare_empty()
        launch()
        session.gpu.sync()
        block = Block(session, [launch], 512)
        try:
            known = float(np.median([block.run() for _ in range(5)]))
        finally:
            block.close()
        session.__dict__["_empty_us"] = known
    return known


def _fill_sets(
    session: Session, job: Job, memory: Memory
) -> tuple[list[dict[str, Buffer]], bool]:
    """Buffer sets with fresh inputs, and whether they exceed twice the L2 cache together."""
    gpu = session.gpu
    product = job["operation"] == "matmul"
    shape, dtypes = dict(job["shape"]), job["dtypes"]
    if product:
        first = {name: memory.new(name, matrix_bytes(shape, dtypes, name)) for name in "abc"}
    else:
        first, _, _ = host_buffers(memory, job)
    nbytes = max(1, sum(buffer.nbytes for buffer in first.values()))
    wanted = max(1, math.ceil(2 * gpu.l2_bytes / nbytes))
    sets = [first]
    for _ in range(max(0, min(wanted, MAX_SETS, 1 + gpu.free_bytes() // 2 // nbytes) - 1)):
        sets.append({name: memory.new(name, buffer.nbytes) for name, buffer in first.items()})
    for index, buffers in enumerate(sets):
        for name, buffer in buffers.items():
            if product:
                stream = STREAMS[name] + 16 * index
                session.support.fill(buffer, dtypes[name], int(job["seed"]), stream)
            elif index:
                buffer.copy_from(first[name])
    gpu.sync()
    return sets, len(sets) * nbytes >= 2 * gpu.l2_bytes


def _pointers(sets: list[dict[str, Buffer]]) -> list[dict[str, int]]:
    return [{name: buffer.pointer for name, buffer in one.items()} for one in sets]


def _first_launch_us(gpu: Gpu, launch: Callable[[], None]) -> float:
    first, last = gpu.event(), gpu.event()
    gpu.stream.record(first)
    launch()
    gpu.stream.record(last)
    gpu.sync()
    return 1e3 * float(last - first)


def cost_s(us: float, baseline_us: float | None) -> float:
    """Seconds that warm-up and the fewest rounds take for a launch of `us`."""
    total = 3 * us + 2 * MIN_ROUNDS * max(us, BLOCK_US)
    if baseline_us is not None:
        total += 3 * baseline_us + 2 * MIN_ROUNDS * max(baseline_us, BLOCK_US)
    return total * 1e-6


def too_dear(job: Job, predicted: float) -> Result | None:
    """A result *not measured* where the predicted seconds exceed the case's limit."""
    limit = float(job["limit_s"])
    if predicted <= limit:
        return None
    reason = f"predicted cost {predicted:.3g} s exceeds case_limit_s = {limit:g} s"
    figures = [figure("predicted_cost_s", predicted, "s")]
    return result(job, "time", "not measured", reason, figures=figures)


def time_job(session: Session | None, job: Job) -> Result:
    """Time one case. `session` may be None for the CPU provider.

    Raises CudaError, and cublaslt.Unavailable for a case that is itself a cuBLASLt product.
    """
    predicted = job.get("predicted_s")
    if predicted is not None and (refused := too_dear(job, float(predicted))):
        return refused
    if job["provider"] == "cpu":
        return time_cpu(job)
    if session is None:
        raise ValueError("a GPU case needs a session")
    with contextlib.ExitStack() as stack:
        return _time_on_gpu(session, job, stack)


def _time_on_gpu(session: Session, job: Job, stack: contextlib.ExitStack) -> Result:
    gpu = session.gpu
    began = time.monotonic()
    memory = stack.enter_context(Memory(gpu))
    sets, cold = _fill_sets(session, job, memory)
    pointers = _pointers(sets)
    notes: dict[str, Any] = {"cache": "cold" if cold else "warm", "buffer_sets": len(sets)}
    clocks = stack.enter_context(contextlib.closing(Clocks(gpu.uuid)))

    main, other = _contestants(session, job, pointers, stack, notes)
    with span("warmup"):
        launches = [main(one) for one in pointers]
        launch_us = _first_launch_us(gpu, launches[0])
        if refused := too_dear(job, cost_s(launch_us, None)):
            return refused
        launch_us = min(launch_us, _first_launch_us(gpu, launches[-1]))
        # cuBLAS is at least about as fast as what it is compared with, or short anyway.
        predicted = cost_s(launch_us, launch_us if other else None) + time.monotonic() - began
        if refused := too_dear(job, predicted):
            return refused
        block = build(session, launches)
        stack.callback(block.close)
        rival: Block | None = None
        if other is not None:
            rival_launches = [other(one) for one in pointers]
            rival_launches[0]()
            gpu.sync()
            rival = build(session, rival_launches)
            stack.callback(rival.close)

    samples: dict[str, list[float]] = {"duration_us": []}
    if rival is not None:
        samples["baseline_us"] = []
    started = time.monotonic()
    with span("measure"):
        for number in range(MAX_ROUNDS):
            _round(session, block, rival, samples, clocks)
            spent = time.monotonic() - started
            # Half of the limit: the supervisor counts set-up and the next round too.
            if number + 1 >= MIN_ROUNDS and (
                spent > min(ENOUGH_S, float(job["limit_s"]) / 2)
                or all(_spread(series) < ENOUGH_SPREAD for series in samples.values())
            ):
                break
    notes |= {"repeats": block.repeats, "rounds": number + 1, "throttle": clocks.throttle()}
    notes["alpha"], notes["beta"] = 1.0, 0.0
    return _report(session, job, samples, clocks, notes, predicted)


def _contestants(
    session: Session,
    job: Job,
    pointers: list[dict[str, int]],
    stack: contextlib.ExitStack,
    notes: dict[str, Any],
) -> tuple[Prepare, Prepare | None]:
    """What is timed and what it is paired with: cuBLASLt's fastest, or for itself its rank 0."""
    from tilewave.gpu.cublaslt import Plan, Unavailable

    wants_baseline = bool(job.get("baseline")) and job["operation"] == "matmul"
    kernel: NvrtcKernel | None = None
    if job["provider"] == "nvrtc":
        kernel = NvrtcKernel(session.gpu, job)
        stack.callback(kernel.close)
        if not wants_baseline:
            return kernel.prepare, None
    try:
        plan = Plan(session.cublaslt, job["shape"], job["dtypes"], job.get("layouts", {}))
    except Unavailable as error:
        if kernel is None:
            raise
        notes["baseline"] = str(error)
        return kernel.prepare, None
    stack.callback(plan.close)

    def measure(algorithm: bytes) -> float:
        launches = [plan.prepare(one, algorithm=algorithm) for one in pointers]
        launches[0]()
        session.gpu.sync()
        block = build(session, launches)
        try:
            return min(block.run() for _ in range(3))
        finally:
            block.close()

    with span("warmup"):
        fastest = plan.choose(measure, session.cache)
    ranks = [rank for rank, algorithm in enumerate(plan.algorithms) if algorithm == fastest]
    notes["cublas_rank"] = ranks[0] if ranks else None
    notes["cublas_algorithms"] = len(plan.algorithms)
    notes["cublas_version"] = session.cublaslt.version

    def prepare(algorithm: bytes) -> Prepare:
        return lambda one: plan.prepare(one, algorithm=algorithm)

    if kernel is not None:
        return kernel.prepare, prepare(fastest)
    first = plan.algorithms[0]
    return prepare(fastest), None if first == fastest else prepare(first)


def _round(
    session: Session,
    block: Block,
    rival: Block | None,
    samples: dict[str, list[float]],
    clocks: Clocks,
) -> None:
    """Variant, baseline, baseline, variant, each behind its own gate; clocks read while they run."""
    order = [block, rival, rival, block] if rival is not None else [block, block]
    for position, one in enumerate(order):
        assert one is not None
        session.support.gate()
        one.enqueue()
        if position == len(order) - 1:
            clocks.sample()  # the last block is running now
        session.gpu.sync()
        samples["duration_us" if one is block else "baseline_us"].append(one.us())


def _spread(series: list[float]) -> float:
    """Interquartile range over median."""
    low, middle, high = np.percentile(series, (25, 50, 75))
    return float((high - low) / middle)


def _report(
    session: Session,
    job: Job,
    samples: dict[str, list[float]],
    clocks: Clocks,
    notes: dict[str, Any],
    predicted: float,
) -> Result:
    low, duration, high = (float(x) for x in np.percentile(samples["duration_us"], (25, 50, 75)))
    empty = empty_us(session)
    figures = [
        figure("duration", duration, "us"),
        figure("duration_spread", high - low, "us"),
        figure("empty_kernel", empty, "us"),
        figure("predicted_cost_s", predicted, "s"),
        *clocks.figures(),
    ]
    if duration < NEAR_EMPTY * empty:
        notes["near_empty"] = True
    operations = 2.0 * math.prod(job["shape"].values()) if job["operation"] == "matmul" else 0.0
    if operations:
        figures.append(figure("tflops", operations / duration * 1e-6, "TFLOP/s"))
    series = samples.get("baseline_us")
    if job["provider"] == "cublaslt":
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
            figure("baseline_tflops", operations / baseline * 1e-6, "TFLOP/s"),
            figure("percent_of_cublas", 100 * baseline / duration, "%"),
            figure("baseline_drift", drift, "%"),
        ]
    return result(job, "time", figures=figures, samples=samples, notes=notes)
