"""The GPU's part of a tuning run (see `tilewave.theory.tuning_run`): it runs candidates, and decides nothing.

The candidates of a group compute the same product from the same buffers: sets that take turns as in
`tilewave.gpu.timing`, filled once, plus each candidate's scratch. A short block takes about SHORT_US or has
SHORT_LAUNCHES launches; a lap's block takes the time of the job's `timing`. All are graphs of launches behind a
gate. A candidate's module, graphs and scratch are freed as soon as it is eliminated.
"""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tilewave.gpu.blocks import Block, build, case_span, first_launch_us
from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.device import cuda_errors
from tilewave.gpu.failure import failure, over_limit
from tilewave.gpu.operands import scratch
from tilewave.gpu.session import Session
from tilewave.gpu.timing import contestants, cost_s, fill_sets, plan_of, pointers_of
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.records.counters.figures import figure
from tilewave.theory.tuning_run import Candidate, Outcome, Rules, TuningRun

T = TypeVar("T")
SHORT_US = 500.0
SHORT_BLOCKS = 2
SHORT_LAUNCHES = 128
"""Most launches of a short block: more launches of this length take longer to capture than to run."""
WARM_US = 50_000.0
"""Warm-up before the first candidate of a group is screened, because an idle GPU has a low clock."""
GLANCE, GLANCE_US = 2.0, 200.0
"""A single launch is imprecise. A candidate loses by one launch only if it is this many times too slow, and
longer than this many microseconds."""


class Lost(RuntimeError):
    """The CUDA context is lost, and its result reported; only a new process helps."""


@dataclass
class _Runner:
    """Resources of a candidate on the GPU during its tuning run."""

    launches: list[Callable[[], None]]
    block: Block | None = None
    launched: int = 0
    notes: dict[str, Any] = field(default_factory=dict)


class GpuTrack:
    """The runner of one group's candidates on a GPU. Raises CudaError if the buffers do not fit, Lost."""

    def __init__(
        self,
        session: Session,
        jobs: Sequence[Job],
        started: Callable[[str], None],
        failed: Callable[[Result], None],
    ) -> None:
        self._session, self._started, self._failed = session, started, failed
        self._jobs = {job.case: job for job in jobs}
        self._indices = {name: index for index, name in enumerate(self._jobs)}
        self._runners: dict[str, _Runner] = {}
        self._stacks: dict[str, contextlib.ExitStack] = {}
        self._warm_us = 0.0
        sets, cold = fill_sets(session, jobs[0], session.kept)
        self._pointers = pointers_of(sets)
        self._notes = {"cache": "cold" if cold else "warm", "buffer_sets": len(sets)}
        session.clocks.reset()

    def screen(self, name: str, worst_us: float) -> Sequence[float] | None:
        return self._safely(name, lambda: self._screen(name, worst_us))

    def lap(self, name: str) -> float | None:
        return self._safely(name, lambda: self._lap(name))

    def about(self, name: str) -> Mapping[str, Any]:
        """Return the number of `launches` of a candidate, and its notes."""
        runner = self._runners[name]
        clocks = {entry["metric"]: entry["value"] for entry in self._session.clocks.figures()}
        more = {"throttle": self._session.clocks.throttle(), **clocks}
        return {"launches": runner.launched, **self._notes, **runner.notes, **more}

    def leave(self, name: str) -> None:
        self._runners.pop(name, None)
        stack = self._stacks.pop(name, None)
        if stack is not None:
            stack.close()

    def close(self) -> None:
        for name in list(self._stacks):
            self.leave(name)

    def _safely(self, name: str, call: Callable[[], T | None]) -> T | None:
        """Return the call's value; None after its failure was reported. Raises Lost."""
        self._started(name)
        try:
            with cuda_errors(), case_span(self._jobs[name], self._indices[name]):
                return call()
        except Exception as error:
            result, usable = failure(self._jobs[name], error)
        self._failed(result)
        if not usable:
            raise Lost(result.reason)
        self.leave(name)
        return None

    def _screen(self, name: str, worst_us: float) -> list[float] | None:
        session, job = self._session, self._jobs[name]
        stack = self._stacks[name] = contextlib.ExitStack()
        memory = stack.enter_context(DeviceMemory(session.gpu))
        extra = {key: buffer.pointer for key, buffer in scratch(memory, job).items()}
        pointers = [addresses | extra for addresses in self._pointers]
        notes: dict[str, Any] = {}
        prepare, _ = contestants(session, job, pointers, stack, notes)
        runner = _Runner([prepare(addresses) for addresses in pointers], notes=notes)
        self._runners[name] = runner
        first_launch_us(session.gpu, runner.launches[0])  # also loads the code
        launch_us = first_launch_us(session.gpu, runner.launches[-1])
        runner.launched += 2
        if refused := over_limit(job, cost_s(job, launch_us)):
            self._failed(refused)
            self.leave(name)
            return None
        if launch_us > max(GLANCE * worst_us, GLANCE_US):
            notes["blocks"] = "one launch"
            return [launch_us]
        block = build(session.support, runner.launches, SHORT_US, most=SHORT_LAUNCHES)
        try:
            runner.launched += 3 + block.repeats * (1 + SHORT_BLOCKS)
            while self._warm_us < WARM_US:
                self._warm_us += block.run() * block.repeats
            return [block.run() for _ in range(SHORT_BLOCKS)]
        finally:
            block.close()

    def _lap(self, name: str) -> float:
        session, runner = self._session, self._runners[name]
        if runner.block is None:
            block_us, _ = plan_of(self._jobs[name])
            runner.block = build(session.support, runner.launches, block_us)
            self._stacks[name].callback(runner.block.close)
            runner.launched += 3 + runner.block.repeats
        runner.launched += runner.block.repeats
        session.support.gate()
        runner.block.enqueue()
        session.clocks.sample()  # while the block runs
        session.gpu.sync()
        us = runner.block.us()
        session.clocks.count(session.support.sm_clock())
        return us


Opened = Callable[[Sequence[Job], Callable[[str], None], Callable[[Result], None]], GpuTrack]
"""A function that opens a track from a group's jobs, `started(case)` and `failed(result)`."""


def reported(job: Job, outcome: Outcome, about: Mapping[str, Any]) -> Result:
    """Return the result of a candidate whose part in the run has ended. tune_spent: ms of GPU time of its
    launches. tune_full_cost: of all rounds, without elimination and without a paired kernel."""
    low, duration, high = (float(x) for x in np.percentile(outcome.samples, (25, 50, 75)))
    operations = 2.0 * math.prod(job.shape.values())
    notes = {key: value for key, value in about.items() if key != "launches"}
    notes |= {"out": outcome.out, "compared_with": outcome.leader}
    notes |= {"compared_us": outcome.leader_us, "alpha": 1.0, "beta": 0.0}
    figures = [
        figure("tune_duration", duration, "us"),
        figure("tune_spread", high - low, "us"),
        figure("tune_tflops", operations / duration * 1e-6, "TFLOP/s"),
        figure("tune_rounds", outcome.laps, "round"),
        figure("tune_eliminated", float(bool(outcome.out)), "1"),
        figure("tune_spent", 1e-3 * duration * int(about["launches"]), "ms"),
        figure("tune_full_cost", 1e3 * cost_s(job, duration), "ms"),
    ]
    samples = {"duration_us": list(outcome.samples)}
    return Result.of_job(job, figures=figures, samples=samples, notes=notes)


def run_groups(
    jobs: Sequence[Job], todo: Sequence[int], send: Callable[..., None], open_track: Opened
) -> bool:
    """Tune the jobs with the indices ``todo``, group by group. Return whether the process can continue."""
    groups: dict[str, list[int]] = {}
    for index in todo:
        groups.setdefault(jobs[index].group, []).append(index)
    for members in groups.values():
        try:
            _run_group([jobs[index] for index in members], members, send, open_track)
        except Lost:
            return False
    return True


def _run_group(
    group: Sequence[Job], indices: Sequence[int], send: Callable[..., None], open_track: Opened
) -> None:
    indices_by_case = {job.case: index for job, index in zip(group, indices)}
    by_case = {job.case: job for job in group}

    def started(case: str) -> None:
        send("started", index=indices_by_case[case], case=case)

    def finished(result: Result) -> None:
        case = result.case
        send("finished", index=indices_by_case[case], case=case, result=result.document())

    started(group[0].case)  # a crash while the buffers are filled counts for this case
    try:
        with cuda_errors():
            track = open_track(group, started, finished)
    except Exception as error:
        outcomes = [failure(job, error) for job in group]
        for result, _ in outcomes:
            finished(result)
        if not all(usable for _, usable in outcomes):
            raise Lost(str(error)) from error
        return

    def finish(outcome: Outcome) -> None:
        finished(reported(by_case[outcome.name], outcome, track.about(outcome.name)))
        track.leave(outcome.name)

    _, laps = plan_of(group[0])
    leagues = ("vendor" if job.provider == "cublaslt" else "own" for job in group)
    try:
        TuningRun(list(map(Candidate, by_case, leagues)), track, finish, Rules(laps)).run()
    finally:
        track.close()
