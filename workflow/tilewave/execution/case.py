"""One job, executed: inputs as the GPU's check builds them, the machine, the judge, the counters."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave import arguments, comparison, execution, operations
from tilewave.comparison import Judgement
from tilewave.compiling import sass
from tilewave.dtypes import DTYPES
from tilewave.execution import cost, counters
from tilewave.execution.places import Places, described, sentence
from tilewave.jobs import Job
from tilewave.launches import MapPlan
from tilewave.processes import Result
from tilewave.records import model

STAGE = "execute"
POISON = 0xFF
"""Fills outputs, as on the GPU: a NaN in f64, f32, f16 and bf16, -1 in i32."""
# What a fault makes of the case: a status, or a verdict on a case that ended. In the order in which
# a reader must learn of them.
STATUSES = {
    "unsupported": model.UNSUPPORTED,
    "invalid access": model.INVALID_ACCESS,
    "timed out": model.TIMED_OUT,
}
VERDICTS = {
    "barrier": model.BARRIER,
    "race": model.RACE,
    "uninitialised read": model.UNINITIALISED,
}
SEVERITY = (*STATUSES, *VERDICTS)
HERE = "executed on the CPU"
CLOCK = re.compile(r"\bSR_(CLOCK|GLOBALTIMER)")


@dataclass
class Execution:
    """What an execution left: the result of the stage, and for the command line what it came from.

    ``program`` and ``counts`` are None where the machine did not get as far as counting. seconds: without
    loading; launched_s: of the launches alone. accesses: where it was watched, see
    `machine.launch.Execution`.
    """

    result: Result
    program: Any = None
    counts: Mapping[str, Any] | None = None
    profile: Mapping[str, float] | None = None
    places: Places | None = None
    seconds: float = 0.0
    launched_s: float = 0.0
    accesses: Mapping[int, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """A row for every instruction of the kernel, with its `Origin`."""
        if self.counts is None or self.places is None:
            return []
        rows = counters.instruction_rows(self.program.instructions, self.counts, every=True)
        return [{**row, **self.places(row["address"]).columns} for row in rows]


def poisoned(dtype: Any, count: int) -> np.ndarray:
    """An output that nobody has written."""
    kind = np.dtype(dtype)
    return np.full(count * kind.itemsize, POISON, np.uint8).view(kind)


def scratch(job: Job) -> dict[str, np.ndarray]:
    """A launch's buffers beside its operands, as the GPU's check makes them."""
    made = {}
    for one in job.launch.scratch:
        made[one.name] = poisoned(np.uint8, one.nbytes)
        if one.zeroed:
            made[one.name].fill(0)
    return made


def packed(
    machine: Any,
    job: Job,
    buffers: Mapping[str, np.ndarray],
    alpha: float,
    beta: float,
    sizes: Sequence[int] | None = None,
) -> list[Any]:
    """A job's arguments in its own order, as `gpu.launch.pack` has them.

    sizes: bytes of each parameter of the kernel, where they are known. Raises ValueError for what is
    not the kernel's (see `arguments.values`).
    """
    maps = {one.name: one for one in job.launch.tensor_maps}
    made: list[Any] = []
    for name, number in arguments.values(job, buffers, maps, alpha, beta, sizes):
        if number is not None:
            made.append(number)
        elif name in buffers:
            made.append(machine.Buffer(name, buffers[name]))
        else:
            made.append(tensor_map(machine, maps[name]))
    return made


def tensor_map(machine: Any, wanted: MapPlan) -> Any:
    """The machine's tensor map for one of a launch."""
    return machine.TensorMap(
        wanted.name,
        buffer=wanted.of,
        element=DTYPES[wanted.dtype].size,
        sizes=wanted.sizes,
        pitch=wanted.pitch,
        box=wanted.box,
        swizzle=wanted.swizzle,
    )


def beside_arguments(machine: Any, job: Job, buffers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a launch needs besides its arguments: the cluster, and the buffers to which only a tensor
    map leads."""
    more: dict[str, Any] = {}
    if job.launch.cluster:
        more["cluster"] = job.launch.cluster
    if maps := job.launch.tensor_maps:
        names = {one.of for one in maps} - set(job.arguments)
        more["memory"] = [machine.Buffer(name, buffers[name]) for name in sorted(names)]
    return more


class _Case:
    """A job on its way through the machine."""

    def __init__(self, job: Job, machine: Any, profile: bool) -> None:
        self.machine, self.profile = machine, profile
        self.spent = 0.0
        self.faults: list[dict[str, Any]] = []
        self.done: Any = None  # of the first launch, the one that ncu would count
        self.instructions = 0
        self.slow = False
        cubin = Path(job.cubin)
        text = sass.of_cubin(cubin)
        self.places = Places(Path(job.source), job.entry, text, job.include)
        self.program = machine.load(cubin.read_bytes(), job.entry, text)
        self.operation = operations.load(job.operation, job.source)
        self.job = replace(job, tensor_cores=sass.on_tensor_cores(text, job.entry))

    def launch(
        self, buffers: Mapping[str, np.ndarray], alpha: float = 1.0, beta: float = 0.0
    ) -> bool:
        """Execute once; whether what it computed can be judged."""
        job = self.job
        left = job.limit_s - self.spent  # compiling the interpreter is not the case's
        more: dict[str, Any] = {"profile": True} if self.profile else {}
        if job.watch and self.done is None:
            more["capture"] = True
        more |= beside_arguments(self.machine, job, buffers)
        done = self.machine.execute(
            self.program,
            grid=job.launch.grid,
            block=job.launch.block,
            arguments=packed(
                self.machine, job, buffers, alpha, beta, self.program.image.parameter_sizes
            ),
            shared_bytes=job.launch.shared_bytes,
            limits=self.machine.Limits(instructions=cost.budget(job), seconds=max(left, 0.1)),
            **more,
        )
        self.spent += float(done.seconds)
        if self.done is None:
            self.done = done
        self.instructions += int(np.sum(done.counts["threads_executed"]))
        # Ended by the clock: the CPU is slow, which is no fault of the kernel's.
        self.slow = int(np.sum(done.counts["executed"])) < cost.budget(job)
        found = [described(one, self.program.instructions, self.places) for one in done.faults]
        self.faults += [one for one in found if one not in self.faults]
        return not any(one["kind"] in STATUSES or one["kind"] == "barrier" for one in found)

    def once(self) -> None:
        """One launch, unjudged."""
        self.launch(self.buffers(self.operation.inputs(self.job), 1.0))

    def buffers(self, given: Mapping[str, np.ndarray], beta: float) -> dict[str, np.ndarray]:
        """Operands as they are before a launch with this beta, and the launch's scratch; those that the
        operation only reads are no copies, and stay as they are."""
        job, made = self.job, {}
        for name, operand in self.operation.arrays(job).items():
            if self.operation.given(job, name, beta):
                made[name] = np.array(given[name]) if operand.written else given[name].view()
                made[name].flags.writeable = operand.written
            else:
                made[name] = poisoned(*self.operation.stored(job, name))
        return made | scratch(job)

    def judged(self) -> Judgement:
        """Launch with every (alpha, beta) of the operation, and judge what came of it."""
        job, operation = self.job, self.operation
        given, found = operation.inputs(job), []
        for alpha, beta in operation.runs(job):
            buffers = self.buffers(given, beta)
            if not self.launch(buffers, alpha, beta):
                return Judgement(model.NOT_CHECKED)
            if dirty := comparison.left_dirty(job, buffers.__getitem__):
                return Judgement(model.WRONG, dirty)
            outputs = {name: buffers[name] for name in operation.outputs(job)}
            found.append(operation.judge(job, outputs, given, alpha, beta))
        return self._timeless(Judgement.worst(found))

    def _timeless(self, one: Judgement) -> Judgement:
        """Without figures from a clock, of a machine that has no time: the verdict stands."""
        if not any(CLOCK.search(str(line.text)) for line in self.program.instructions):
            return one
        known = self.job.probe.buffers.values() if self.job.probe else ()
        reported = {buffer.report["metric"] for buffer in known if buffer.report}
        kept = [figure for figure in one.figures if figure["metric"] not in reported]
        told = "the kernel reads a clock: what it reports needs a GPU"
        return replace(one, figures=kept, notes={**one.notes, "clock": told})

    def counted(self) -> dict[str, float]:
        """Counter -> value of the first launch."""
        job, image = self.job, self.program.image
        return counters.values(
            [str(one.opcode) for one in self.program.instructions],
            self.done.counts,
            grid=job.launch.grid,
            block=job.launch.block,
            shared_bytes=job.launch.shared_bytes,
            arch=image.arch,
            registers=image.registers,
            static_shared=image.shared_size - image.shared_base,
        )


def _result(job: Job, status: str, reason: str = "", **more: Any) -> Result:
    return model.result(STAGE, job.case, status, reason, key=job.key, **more)


def _worst(faults: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The kind that decides, and a sentence about it."""
    if not faults:
        return "", ""
    first = min(faults, key=lambda one: SEVERITY.index(one["kind"]))
    more = f"; {len(faults) - 1} further findings" if len(faults) > 1 else ""
    return str(first["kind"]), sentence(first) + more


def _named(opcode: str, address: int, places: Places) -> str:
    """An instruction that the machine does not know, and where it stands."""
    where = f" (SASS address {address:#06x})" if address >= 0 else ""
    return f"{opcode} at {places.at(address)}{where}"


def _unsupported(job: Job, error: Any, places: Places | None = None) -> str:
    if places is None:
        places = Places(Path(job.source), job.entry, sass.of_cubin(Path(job.cubin)), job.include)
    detail = getattr(error, "detail", "")
    told = _named(error.opcode, int(getattr(error, "address", -1)), places)
    return told + (f": {detail}" if detail else "")


def run(job: Job, machine: Any = None, profile: bool = False) -> Execution:
    """Execute a job; whatever the kernel does, there is a result.

    job: of stage execute; one that is watched has `Execution.accesses`. machine: see
    `execution.engine`. profile: sample where the time goes (`Execution.profile`).
    """
    machine = machine or execution.engine()
    try:
        case = _Case(job, machine, profile)
    except machine.Unsupported as error:
        return Execution(_result(job, model.UNSUPPORTED, _unsupported(job, error)))
    begun = time.monotonic()
    try:
        judged = case.judged()
    except machine.Unsupported as error:
        told = _unsupported(job, error, case.places)
        return Execution(_result(job, model.UNSUPPORTED, told), case.program, places=case.places)
    except (machine.BadLaunch, ValueError) as error:
        failed = _result(job, model.FAILED_TO_LAUNCH, f"{HERE}: {error}")
        return Execution(failed, case.program, places=case.places)
    seconds = time.monotonic() - begun
    notes = {
        "check": {"figures": judged.figures, **judged.notes},
        "faults": case.faults,
        "seconds": round(seconds, 3),
        "thread_instructions": case.instructions,
        "versions": list(job.versions),
    }
    verdict, reason = judged.verdict, judged.reason
    kind, told = _worst(case.faults)
    status = STATUSES.get(kind, model.OK)
    if kind == "unsupported":
        first = next(one for one in case.faults if one["kind"] == kind)
        told = _named(first["opcode"], first["address"], case.places)
        return Execution(_result(job, status, told, notes=notes), case.program, places=case.places)
    if kind == "timed out" and case.slow:
        status = model.NOT_MEASURED
        told = f"not done within {job.limit_s:g} s (execute: case_limit_s); {told}"
    if kind:
        verdict = VERDICTS.get(kind, verdict)
        reason = f"{HERE}: {told}" + (f"; {reason}" if reason else "")
    made = Execution(
        _result(job, status, reason, verdict=verdict if status == model.OK else None, notes=notes),
        case.program,
        case.done.counts,
        getattr(case.done, "profile", None),
        case.places,
        seconds,
        case.spent,
        getattr(case.done, "accesses", {}),
    )
    if status == model.OK:
        made.result["source"] = model.EXECUTED
    if status != model.OK or kind == "barrier":
        return made  # it did not run to its end: what was counted until then is no figure
    made.values = case.counted()
    rows = counters.instruction_rows(case.program.instructions, case.done.counts)
    made.result["instructions"] = rows
    made.result["figures"] = counters.figures(made.values, rows, job.dtypes.get("a", ""))
    return made


def classes(execution_: Execution) -> list[dict[str, Any]]:
    """Warp and thread instructions by class."""
    if execution_.counts is None:
        return []
    words = [str(one.opcode) for one in execution_.program.instructions]
    return counters.by_class(words, execution_.counts)


@dataclass(frozen=True)
class Launch:
    """One launch by itself: seconds in the machine, the share of each class where sampled, and the
    accesses of each instruction of the program where it was watched."""

    seconds: float
    thread_instructions: int
    profile: Mapping[str, float] | None
    program: Any
    accesses: Mapping[int, Any]


def launch_once(job: Job, machine: Any = None, profile: bool = False) -> Launch:
    """Execute a job's kernel once, unjudged. Raises what the machine raises."""
    one = _Case(job, machine or execution.engine(), profile)
    one.once()
    sampled = getattr(one.done, "profile", None)
    accesses = getattr(one.done, "accesses", {})
    return Launch(float(one.done.seconds), one.instructions, sampled, one.program, accesses)
