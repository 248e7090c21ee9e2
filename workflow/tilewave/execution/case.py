"""One job, executed: inputs as the GPU's check builds them, the machine, the judge, the counters."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave import execution
from tilewave.compiling import sass
from tilewave.execution import cost, counters
from tilewave.execution.places import Places, described, sentence
from tilewave.kernel import arguments, operations
from tilewave.kernel import result as model
from tilewave.kernel.job import Job
from tilewave.kernel.launches import MapPlan, leaves
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.operations.base import Operation
from tilewave.kernel.padding import POISON
from tilewave.kernel.result import Result
from tilewave.kernel.tolerance import Judgement
from tilewave.records.counters.instructions import of_launches
from tilewave.theory import architectures
from tilewave.theory.dtypes import DTYPES

# What a fault makes of the case: a status, or a verdict on a case that ended. In the order in which
# a reader must learn of them.
STATUSES = {
    "unsupported": model.UNSUPPORTED,
    "invalid access": model.INVALID_ACCESS,
    "assertion failed": model.ASSERTION_FAILED,
    "trap": model.TRAPPED,
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


@dataclass(frozen=True)
class Ran:
    """One launch as the machine executed it.

    done: see `execution.machine.launch.Execution`.
    """

    job: Job
    program: Any
    places: Places
    done: Any

    @property
    def counts(self) -> Mapping[str, Any]:
        counts: Mapping[str, Any] = self.done.counts
        return counts

    @property
    def words(self) -> list[str]:
        """The opcode of each instruction."""
        return [str(one.opcode) for one in self.program.instructions]

    @property
    def accesses(self) -> Mapping[int, Any]:
        """By instruction, where it was watched."""
        return getattr(self.done, "accesses", {})

    def values(self) -> dict[str, float]:
        """Counter -> value."""
        launch, image = self.job.launch, self.program.image
        return counters.values(
            self.words,
            self.counts,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            arch=image.arch,
            registers=image.registers,
            static_shared=architectures.of(image.arch).declared(image.shared_size),
        )

    def rows(self, every: bool = False) -> list[dict[str, Any]]:
        """Rows of its instructions; with ``every`` one of each, with its `Origin`."""
        rows = counters.instruction_rows(self.program.instructions, self.counts, every)
        return [{**row, **self.places(row["address"]).columns} for row in rows] if every else rows


def _rows(ran: Sequence[Ran], every: bool = False) -> list[dict[str, Any]]:
    functions = [one.job.entry for one in ran]
    return of_launches(functions, [one.rows(every) for one in ran]) if ran else []


@dataclass(frozen=True)
class CaseExecution:
    """What an execution left: the result of the stage, and for the command line what it came from.

    ran: the launches of the first run, the one that ncu would count; empty where the machine did not get
    as far as counting. seconds: without loading; launched_s: of the launches alone, at least where
    they were given up.
    """

    result: Result
    ran: Sequence[Ran] = ()
    seconds: float = 0.0
    launched_s: float = 0.0
    values: dict[str, float] = field(default_factory=dict)

    @property
    def printed(self) -> list[str]:
        """Texts of the first calls of printf."""
        return [text for one in self.ran for text in getattr(one.done, "printed", ())]

    @property
    def prints(self) -> int:
        """How many calls of printf there were."""
        return sum(getattr(one.done, "prints", 0) for one in self.ran)

    def rows(self) -> list[dict[str, Any]]:
        """A row for every instruction of the kernels, with its `Origin`."""
        return _rows(self.ran, every=True)


def poisoned(dtype: Any, count: int) -> np.ndarray:
    """An output that nobody has written."""
    kind = np.dtype(dtype)
    return np.full(count * kind.itemsize, POISON, np.uint8).view(kind)


def operands(
    operation: Operation, job: Job, given: Mapping[str, np.ndarray], beta: float
) -> dict[str, np.ndarray]:
    """Operands as they are before a launch with this beta, from the operation's `inputs`; those that it
    only reads are no copies, and stay as they are."""
    made = {}
    for name, operand in operation.arrays(job).items():
        if not operation.given(job, name, beta):
            made[name] = poisoned(*operation.stored(job, name))
            continue
        held = operation.in_memory(job, name, given[name])
        made[name] = np.array(held) if operand.written else held.view()
        made[name].flags.writeable = operand.written
    return made


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

    def one(name: str, number: Any) -> Any:
        if number is not None:
            return number
        if name in buffers:
            return machine.Buffer(name, buffers[name])
        return tensor_map(machine, maps[name])

    return [
        machine.Struct(given.size, tuple((at, one(*member)) for at, member in given.members))
        if isinstance(given, arguments.StructLayout)
        else one(*given)
        for given in arguments.values(job, buffers, maps, alpha, beta, sizes)
    ]


def tensor_map(machine: Any, wanted: MapPlan) -> Any:
    """The machine's tensor map for one of a launch."""
    return machine.TensorMap(
        wanted.name,
        buffer=wanted.of,
        element=DTYPES[wanted.dtype].size,
        sizes=wanted.sizes,
        strides=wanted.pitches,
        box=wanted.box,
        swizzle=wanted.swizzle,
        element_strides=wanted.steps,
    )


def beside_arguments(machine: Any, job: Job, buffers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a launch needs besides its arguments: the cluster, and the buffers to which only a tensor
    map leads."""
    more: dict[str, Any] = {}
    if job.launch.cluster:
        more["cluster"] = job.launch.cluster
    if maps := job.launch.tensor_maps:
        names = {one.of for one in maps} - set(leaves(job.arguments))
        more["memory"] = [machine.Buffer(name, buffers[name]) for name in sorted(names)]
    return more


class _Case:
    """A job on its way through the machine."""

    def __init__(self, job: Job, machine: Any) -> None:
        self.machine = machine
        self.spent = 0.0
        self.faults: list[dict[str, Any]] = []
        self.ran: list[Ran] = []  # of the first run, the one that ncu would count
        self.runs = 0
        self.instructions = 0
        self.slow = self.footprint = False
        self._listing = sass.of_cubin(Path(job.cubin))
        self.operation = operations.load(job.operation, job.source)
        entries = dict.fromkeys(one.entry for one in job.steps)
        self.job = replace(job, tensor_cores=sass.on_tensor_cores(self._listing, *entries))
        self.entry = job.entry  # of the kernel that is looked at
        self.places = {entry: self._places(entry) for entry in entries}
        self.programs: dict[str, Any] = {}

    def _places(self, entry: str) -> Places:
        job = self.job
        return Places(Path(job.source), entry, self._listing, job.include)

    def load(self) -> None:
        """The programs of all kernels that are launched."""
        image = Path(self.job.cubin).read_bytes()
        for entry in self.places:
            self.entry = entry
            self.programs[entry] = self.machine.load(image, entry, self._listing)

    def launch(
        self, buffers: Mapping[str, np.ndarray], alpha: float = 1.0, beta: float = 0.0
    ) -> bool:
        """Execute the case's launches once; whether what they computed can be judged."""
        self.runs += 1
        left = cost.budget(self.job)
        for step in self.job.steps:
            # None left is no limit to the machine.
            executed = self._step(step, buffers, alpha, beta, max(left, 1))
            if executed is None:
                return False
            left -= executed
        return True

    def _step(
        self, job: Job, buffers: Mapping[str, np.ndarray], alpha: float, beta: float, most: int
    ) -> int | None:
        """Execute one launch with at most so many warp instructions: how many there were, or None where
        what it computed cannot be judged."""
        self.entry = job.entry
        program, places = self.programs[job.entry], self.places[job.entry]
        left = job.limit_s - self.spent  # compiling the interpreter is not the case's
        more: dict[str, Any] = {}
        if job.watch and self.runs == 1:
            more["capture"] = True
        if self.footprint:
            more["footprint"] = True
        more |= beside_arguments(self.machine, job, buffers)
        working = job.launch.working_blocks if job.entry == self.job.entry else 0
        done = self.machine.execute(
            program,
            grid=job.launch.grid,
            block=job.launch.block,
            arguments=packed(
                self.machine, job, buffers, alpha, beta, program.image.parameter_sizes
            ),
            shared_bytes=job.launch.shared_bytes,
            limits=self.machine.Limits(instructions=most, seconds=max(left, 0.1), working=working),
            **more,
        )
        self.spent += float(done.seconds)
        if self.runs == 1:
            self.ran.append(Ran(job, program, places, done))
        self.instructions += int(np.sum(done.counts["threads_executed"]))
        executed = int(np.sum(done.counts["executed"]))
        # Ended by the clock: the CPU is slow, which is no fault of the kernel's.
        self.slow = executed < most
        found = [described(one, program.instructions, places) for one in done.faults]
        self.faults += [one for one in found if one not in self.faults]
        if any(one["kind"] in STATUSES or one["kind"] == "barrier" for one in found):
            return None
        return executed

    def buffers(self, given: Mapping[str, np.ndarray], beta: float) -> dict[str, np.ndarray]:
        """What memory holds before a launch with this beta."""
        return operands(self.operation, self.job, given, beta) | scratch(self.job)

    def judged(self) -> Judgement:
        """Launch with every (alpha, beta) of the operation, and judge what came of it."""
        job, operation = self.job, self.operation
        given, found = operation.inputs(job), []
        for alpha, beta in operation.runs(job):
            buffers = self.buffers(given, beta)
            if not self.launch(buffers, alpha, beta):
                return Judgement(model.NOT_CHECKED)
            if changed := operation.changed(job, buffers.__getitem__):
                return Judgement(model.WRONG, changed)
            outputs = {name: buffers[name] for name in operation.outputs(job)}
            found.append(operation.judge(job, outputs, given, alpha, beta, self._another))
        return self._timeless(Judgement.worst(found))

    def _another(self, file: Path, job: Job, given: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        """See `base.Executed`."""
        return kernel_reference.executed(file, job, given, self.machine)

    def _timeless(self, one: Judgement) -> Judgement:
        """Without figures from a clock, of a machine that has no time: the verdict stands."""
        code = [line for one in self.programs.values() for line in one.instructions]
        if not any(CLOCK.search(str(line.text)) for line in code):
            return one
        known = self.job.probe.buffers.values() if self.job.probe else ()
        reported = {buffer.report["metric"] for buffer in known if buffer.report}
        kept = [figure for figure in one.figures if figure["metric"] not in reported]
        told = "the kernel reads a clock: what it reports needs a GPU"
        return replace(one, figures=kept, notes={**one.notes, "clock": told})

    def counted(self) -> dict[str, float]:
        """Counter -> value of the first run."""
        return counters.together([one.values() for one in self.ran], self.job.leading)


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


def _unsupported(error: Any, places: Places) -> str:
    detail = getattr(error, "detail", "")
    told = _named(error.opcode, int(getattr(error, "address", -1)), places)
    return told + (f": {detail}" if detail else "")


def run(job: Job, machine: Any = None) -> CaseExecution:
    """Execute a job; whatever the kernel does, there is a result.

    job: of stage execute; one that is watched has `Ran.accesses`. machine: see `execution.engine`.
    """
    machine = machine or execution.engine()
    case = _Case(job, machine)
    try:
        case.load()
        begun = time.monotonic()
        judged = case.judged()
    except machine.Unsupported as error:
        told = _unsupported(error, case.places[case.entry])
        return CaseExecution(Result.of_job(job, model.UNSUPPORTED, told))
    except (machine.BadLaunch, ValueError) as error:
        of = f"{case.entry}: " if job.launch.series else ""
        return CaseExecution(Result.of_job(job, model.FAILED_TO_LAUNCH, f"{HERE}: {of}{error}"))
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
        told = _named(first["opcode"], first["address"], case.places[first["kernel"]])
        return CaseExecution(Result.of_job(job, status, told, notes=notes))
    if kind == "timed out" and case.slow:
        status = model.NOT_MEASURED
        early = case.spent < 0.9 * job.limit_s
        told = (
            f"{'would not be' if early else 'not'} done within {job.limit_s:g} s (execute: case_limit_s)"
            f"{f', given up after {case.spent:.1f} s' if early else ''}; {told}"
        )
        case.spent = max(case.spent, job.limit_s)  # at least
    if kind:
        verdict = VERDICTS.get(kind, verdict)
        reason = f"{HERE}: {told}" + (f"; {reason}" if reason else "")
    values: dict[str, float] = {}
    more: dict[str, Any] = {}
    if status == model.OK:
        more = {"source": model.EXECUTED, "verdict": verdict}
    # What was counted until a barrier ended it is no figure.
    if status == model.OK and kind != "barrier":
        values, rows = case.counted(), _rows(case.ran)
        more["instructions"] = rows
        more["figures"] = counters.figures(values, rows, job.dtypes.get("a", ""))
    made = Result.of_job(job, status, reason, notes=notes, **more)
    return CaseExecution(made, case.ran, seconds, case.spent, values)


def classes(execution_: CaseExecution) -> list[dict[str, Any]]:
    """Warp and thread instructions by class."""
    return counters.by_class([(one.words, one.counts) for one in execution_.ran])


def launch_once(job: Job, machine: Any = None) -> Sequence[Ran]:
    """What a job's launches did, executed once, unjudged. Raises what the machine raises."""
    one = _Case(job, machine or execution.engine())
    one.load()
    one.launch(one.buffers(one.operation.inputs(job), 1.0))
    return one.ran


@dataclass(frozen=True)
class Left:
    """What a job's launches leave, unjudged. buffers: memory; found: a sentence about the worst that was found,
    or about what stopped it, else empty; fatal: whether that one ended the launch; touched: where asked for, of
    each buffer the bytes up to which the first launch reads and writes it."""

    buffers: Mapping[str, np.ndarray]
    found: str = ""
    fatal: bool = False
    touched: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def left_by(
    job: Job, given: Mapping[str, np.ndarray], machine: Any = None, footprint: bool = False
) -> Left:
    """Execute a job's launches once, with these inputs."""
    machine = machine or execution.engine()
    one = _Case(job, machine)
    one.footprint = footprint
    buffers = operands(one.operation, job, given, 0.0) | scratch(job)
    try:
        one.load()
        ended = one.launch(buffers)
    except machine.Unsupported as error:
        return Left(buffers, _unsupported(error, one.places[one.entry]), True)
    except (machine.BadLaunch, ValueError) as error:
        return Left(buffers, str(error), True)
    return Left(buffers, _worst(one.faults)[1], not ended, one.ran[0].done.touched)
