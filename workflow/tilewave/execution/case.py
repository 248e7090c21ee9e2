"""Execution of one job: inputs as in the GPU's check, the machine, the judge, the counters."""

import functools
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave import execution
from tilewave.basics import memory
from tilewave.compiling import sass
from tilewave.execution import cost, counters
from tilewave.execution.buffers import (
    blank,
    cluster_and_memory,
    operands,
    packed,
    patterns_of,
    scratch,
    zeros,
)
from tilewave.execution.places import SHOWN, Places, by_lines, described, in_short, sentence
from tilewave.kernel import operations
from tilewave.kernel import result as model
from tilewave.kernel.inputs import UNIFORM
from tilewave.kernel.job import Job
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.result import Result
from tilewave.kernel.tolerance import Judgement
from tilewave.records.counters.instructions import of_launches
from tilewave.theory import architectures
from tilewave.theory.data_sheets import DataSheet

# A fault gives the case a status or, where the case ended, a verdict. The most severe come first.
STATUSES = (model.UNSUPPORTED, *model.ENDS)
OVERWRITTEN = "overwritten input"
LENIENT = (model.CORRECT, model.NOT_CHECKED)
"""Verdicts beside which a read of unwritten memory may be a hint (`run`), which ends with `UNUSED`."""
UNUSED = ", but no output depends on it"
UNWRITTEN = re.compile(" of (?:shared|the thread's local) memory, which nothing")
FILLINGS = (0xFFFFFFFF, 0x7B7B7B7B, 0xFBFBFBFB)
"""Contents of unwritten memory: the default (NaN, -1), and large numbers of either sign, of any type."""
VERDICTS = (model.BARRIER, OVERWRITTEN, model.RACE, model.UNINITIALISED)
SEVERITY = (*STATUSES, *VERDICTS)
HERE = "executed on the CPU"
UNALIGNED = "an array in shared memory is declared with an alignment of {} bytes, and the memory begins at byte {} on sm_{}"
FILLED_BYTES = 64 << 20
"""The largest operands that are drawn as a whole for a prediction."""
CLOCK = re.compile(r"\bSR_(CLOCK|GLOBALTIMER)")
STORES = re.compile(r"ST(?:G|\b)|RED|ATOM(?!S)|SU|UBLK|UTMA|CALL|BPT")
"""Instructions by which a kernel may change what is not its own."""
ADDRESSES = "c[0x4]"
"""The constant bank with the addresses of the module's variables; a kernel that does not read it has none."""


@dataclass(frozen=True)
class ExecutedLaunch:
    """A launch as the machine executed it (`execution.machine.launch.Execution`)."""

    job: Job
    program: Any
    places: Places
    done: Any

    @property
    def counts(self) -> Mapping[str, Any]:
        counts: Mapping[str, Any] = self.done.counts
        return counts

    @property
    def opcodes(self) -> list[str]:
        return [str(instruction.opcode) for instruction in self.program.instructions]

    @property
    def accesses(self) -> Mapping[int, Any]:
        """The worst access of each instruction of a watched launch."""
        return getattr(self.done, "accesses", {})

    def values(self) -> dict[str, float]:
        launch, image = self.job.launch, self.program.image
        return counters.values(
            self.opcodes,
            self.counts,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            arch=image.arch,
            registers=image.registers,
            static_shared=architectures.of(image.arch).declared(image.shared_size),
        )

    def rows(self, every: bool = False) -> list[dict[str, Any]]:
        """Return rows of the instructions that are kept, or of ``every`` one, with its `Origin`."""
        rows = counters.instruction_rows(self.program.instructions, self.counts, every)
        return [{**row, **vars(self.places(row["address"]))} for row in rows] if every else rows


def _rows(ran: Sequence[ExecutedLaunch], every: bool = False) -> list[dict[str, Any]]:
    functions = [launch.job.entry for launch in ran]
    return of_launches(functions, [launch.rows(every) for launch in ran]) if ran else []


@dataclass(frozen=True)
class CaseExecution:
    """The outcome of an execution: the stage's result and, for the command line, its sources.
    ran: launches of the first run, which ncu would count; empty where none was counted. seconds: without loading.
    launched_s: of the launches alone; a lower bound where they were stopped."""

    result: Result
    ran: Sequence[ExecutedLaunch] = ()
    seconds: float = 0.0
    launched_s: float = 0.0
    values: dict[str, float] = field(default_factory=dict)

    @property
    def printed(self) -> list[str]:
        """The texts of the first calls of printf."""
        return [text for launch in self.ran for text in getattr(launch.done, "printed", ())]

    @property
    def prints(self) -> int:
        return sum(getattr(launch.done, "prints", 0) for launch in self.ran)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for every instruction of the kernels, with its `Origin`."""
        return _rows(self.ran, every=True)


class _Case:
    """A job on its way through the machine."""

    def __init__(self, job: Job, machine: Any) -> None:
        self.machine = machine
        self.spent = 0.0
        self.faults: list[dict[str, Any]] = []
        self.hints: dict[str, None] = {}
        # Contents of read-only operands after a launch.
        self.overwritten: dict[str, np.ndarray] = {}
        self.not_searched: dict[str, None] = {}
        self.ran: list[ExecutedLaunch] = []  # of the first run, which ncu would count
        self.runs = self.instructions = self.footprint = 0
        self.slow = self.both_ways = False
        self.filling = FILLINGS[0]
        self.results: list[bytes] | None = None  # outputs of each launch, if they are to be kept
        self._listing = sass.of_cubin(Path(job.cubin))
        self.operation = operations.load(job.operation, job.source)
        entries = dict.fromkeys(step.entry for step in job.steps)
        self.job = replace(job, tensor_cores=sass.on_tensor_cores(self._listing, *entries))
        self.entry = job.entry  # of the kernel that loads or runs
        source = Path(job.source)
        about = self._listing, job.include
        self.places = {entry: Places(source, entry, *about) for entry in entries}
        self.programs: dict[str, Any] = {}
        # The module's variables live as long as it is loaded, as on a GPU.
        self.variables: dict[str, np.ndarray] = {}

    # Scratch lives as long as the module, too. It is allocated when it is needed: within the limit of memory.
    @functools.cached_property
    def scratch(self) -> dict[str, np.ndarray]:
        """Scratch buffers by name."""
        return scratch(self.job)

    @functools.cached_property
    def written(self) -> dict[str, np.ndarray]:
        """Marks of the words of scratch that may be read, by buffer; none for buffers of zeros."""
        searched = (buffer for buffer in self.job.launch.scratch if not buffer.zeroed)
        return {of.name: np.zeros(-(-of.nbytes // 4), np.uint8) for of in searched}

    def load(self) -> None:
        """Load the programs of all kernels that are launched."""
        cubin = Path(self.job.cubin).read_bytes()
        for entry in self.places:
            self.entry = entry
            program = self.programs[entry] = self.machine.load(cubin, entry, self._listing)
            image = program.image
            alignment, start = image.shared_alignment, architectures.of(image.arch).shared_start
            if start % alignment:
                self.hints[UNALIGNED.format(alignment, start, image.arch)] = None
            if any(ADDRESSES in instruction.text for instruction in program.instructions):
                for name, data in image.globals_.items():
                    self.variables.setdefault(name, np.frombuffer(bytearray(data), np.uint8))

    def launch(
        self, buffers: Mapping[str, np.ndarray], alpha: float = 1.0, beta: float = 0.0
    ) -> bool:
        """Execute the case's launches once. Return whether their results can be judged."""
        self.runs += 1
        budget = cost.budget(self.job)
        for step in self.job.steps:
            # The machine takes 0 for no limit.
            executed = self._step(step, buffers, alpha, beta, max(budget, 1))
            if executed is None:
                return False
            budget -= executed
        return True

    def launched(
        self, job: Job, buffers: Mapping[str, np.ndarray], alpha: float, beta: float
    ) -> dict[str, Any]:
        """Return what the machine needs of a launch besides its program."""
        sizes = self.programs[job.entry].image.parameter_sizes
        return {
            "grid": job.launch.grid,
            "block": job.launch.block,
            "arguments": packed(self.machine, job, buffers, alpha, beta, sizes, self.written),
            "shared_bytes": job.launch.shared_bytes,
            **cluster_and_memory(self.machine, job, buffers, self.written, self.variables),
            **({"sms": job.device["sms"]} if job.device.get("sms") else {}),
        }

    def _step(
        self, job: Job, buffers: Mapping[str, np.ndarray], alpha: float, beta: float, most: int
    ) -> int | None:
        """Execute one launch with at most so many warp instructions.
        Return their number, or None if the results cannot be judged."""
        self.entry = job.entry
        program, places = self.programs[job.entry], self.places[job.entry]
        seconds = max(job.limit_s - self.spent, 0.1)  # compiling the interpreter does not count
        working = job.launch.working_blocks if job.entry == self.job.entry else 0
        way: dict[str, Any] = {"reverse": self.both_ways and self.runs % 2 == 0}
        way |= {"filling": self.filling} if self.filling != FILLINGS[0] else {}
        limits = self.machine.Limits(most, seconds, working=working, **way)
        how = {"capture": job.watch and self.runs == 1, "footprint": self.footprint}
        how |= self.launched(job, buffers, alpha, beta)
        done = self.machine.execute(program, limits=limits, **how)
        self.spent += float(done.seconds)
        if self.runs == 1:
            self.ran.append(ExecutedLaunch(job, program, places, done))
        self.instructions += int(np.sum(done.counts["threads_executed"]))
        executed = int(np.sum(done.counts["executed"]))
        # The clock ended it: the CPU is slow, the kernel need not be endless.
        self.slow = executed < most
        faults = [described(fault, program.instructions, places) for fault in done.faults]
        if job.probe:  # its buffers are declared neither way
            faults = [fault for fault in faults if fault["kind"] != OVERWRITTEN]
        else:
            self.overwritten.update(getattr(done, "overwritten", {}))
        self.faults = by_lines([*self.faults, *faults])
        self.not_searched.update(dict.fromkeys(getattr(done, "not_searched", ())))
        for hint in getattr(done, "hints", ()):
            self.hints[sentence(described(hint, program.instructions, places))] = None
        ended = any(fault["kind"] in (*STATUSES, "barrier") for fault in faults)
        return None if ended else executed

    def buffers(self, inputs: Mapping[str, np.ndarray], beta: float) -> dict[str, np.ndarray]:
        return operands(self.operation, self.job, inputs, beta) | self.scratch

    def judged(self, scalars: Sequence[tuple[float, float]], kind: str, large: bool) -> Judgement:
        """Launch with each (alpha, beta), and judge the results (see `run`).
        A kernel with memory that outlives a launch is launched twice at least."""
        job, operation = self.job, self.operation
        inputs, judgements = operation.of_kind(job, kind), []
        reference = functools.partial(kernel_reference.executed, machine=self.machine)
        if len(scalars) == 1 and (self.scratch or self.variables):
            scalars = 2 * list(scalars)
        for alpha, beta in scalars:
            buffers = self.buffers(inputs, beta)
            if not self.launch(buffers, alpha, beta):
                return Judgement(model.NOT_CHECKED)
            before = {name: buffers[name] for name in self.overwritten}
            if changed := operation.changed(job, {**buffers, **self.overwritten}.get, before):
                return Judgement(model.WRONG, changed)
            outputs = {name: buffers[name] for name in operation.outputs(job)}
            if self.results is not None:
                self.results += [array.tobytes() for array in outputs.values()]
            if large:
                judgements.append(operation.judge_large(job, outputs, inputs, alpha, beta))
                continue
            more: dict[str, Any] = {} if kind == UNIFORM else {"kind": kind}
            judgements.append(operation.judge(job, outputs, inputs, alpha, beta, reference, **more))
        return self._timeless(Judgement.worst(judgements))

    def forgive(self, *about: Any) -> None:
        """Make hints of reads of unwritten shared or local memory, if there is no other and no output depends on it."""
        instructions, faults, first = self.instructions, self.faults, list[bytes]()
        for filling in (None, *FILLINGS):
            if filling is not None:
                self.filling, self.results = filling, []
                self.judged(*about)
                first = first or self.results
            kinds = {UNWRITTEN.search(of["message"]) and of["kind"] for of in self.faults}
            if kinds != {model.UNINITIALISED}:
                return
            if filling is not None and not (first and self.results == first):
                self.faults = faults  # each read is counted once
                return
        self.instructions = instructions
        lines = dict.fromkeys(f"line {of['line']} of {of['file']}" for of in self.faults)
        self.hints[f"{model.UNINITIALISED} at {' and '.join(lines)}{UNUSED}"] = None
        self.faults = []

    def _timeless(self, judgement: Judgement) -> Judgement:
        """Remove figures that the kernel read from a clock, which the machine lacks. The verdict stays."""
        code = [line for program in self.programs.values() for line in program.instructions]
        if not any(CLOCK.search(str(line.text)) for line in code):
            return judgement
        buffers = self.job.probe.buffers.values() if self.job.probe else ()
        reported = {buffer.report["metric"] for buffer in buffers if buffer.report}
        kept = [figure for figure in judgement.figures if figure["metric"] not in reported]
        note = "the kernel reads a clock, so a time that it reports needs a GPU"
        return replace(judgement, figures=kept, notes={**judgement.notes, "clock": note})


def _worst(faults: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the most severe kind of fault, and a sentence about it."""
    if not faults:
        return "", ""
    first = min(faults, key=lambda fault: SEVERITY.index(fault["kind"]))
    further = [in_short(fault) for fault in faults if fault is not first]
    rest = [f"{len(further) - SHOWN} further findings"] if len(further) > SHOWN else []
    return str(first["kind"]), "; ".join([sentence(first), *further[:SHOWN], *rest])


def _named(opcode: str, address: int, places: Places) -> str:
    """Return an opcode that the machine does not know, with its line and address."""
    where = f" (SASS address {address:#06x})" if address >= 0 else ""
    return f"{opcode} at {places.at(address)}{where}"


def _unsupported(error: Any, places: Places) -> str:
    detail = getattr(error, "detail", "")
    instruction = _named(error.opcode, int(getattr(error, "address", -1)), places)
    return instruction + (f": {detail}" if detail else "")


def run(
    job: Job,
    machine: Any = None,
    *,
    scalars: Sequence[tuple[float, float]] = (),
    kind: str = UNIFORM,
    large: bool = False,
    both_ways: bool = False,
    lenient: Sequence[str] = (),
) -> CaseExecution:
    """Execute a job of stage execute; there is a result whatever the kernel does.

    scalars: (alpha, beta) of each launch; default: those of the operation. kind: of the inputs (`inputs.KINDS`).
    large: judge by `Operation.judge_large`. both_ways: every second launch executes the last block and warp first.
    lenient: verdicts with which reads of unwritten shared or local memory, if no output depends on them, are hints.
    A watched job has `ExecutedLaunch.accesses`.
    """
    machine = machine or execution.engine()
    case = _Case(job, machine)
    case.both_ways = both_ways
    try:
        with memory.limited(least=cost.operand_bytes(job, 1 if job.watch else cost.MARKED)):
            case.load()
            begun = time.monotonic()
            scalars = scalars or case.operation.runs(case.job)
            judged = case.judged(scalars, kind, large)
            if case.faults and judged.verdict in lenient:
                case.forgive(scalars, kind, large)
    except MemoryError:
        return CaseExecution(Result.of_job(job, model.NOT_MEASURED, f"{HERE}: {memory.exceeded()}"))
    except machine.Unsupported as error:
        reason = _unsupported(error, case.places[case.entry])
        return CaseExecution(Result.of_job(job, model.UNSUPPORTED, reason))
    except (machine.BadLaunch, ValueError) as error:
        kernel = f"{case.entry}: " if job.launch.series else ""
        reason = f"{HERE}: {kernel}{error}"
        return CaseExecution(Result.of_job(job, model.FAILED_TO_LAUNCH, reason))
    seconds = time.monotonic() - begun
    had = case.operation.sentence(case.job, scalars, kind)
    notes = {
        "check": {"figures": judged.figures, **judged.notes, "inputs": had},
        "inputs": had,
        "faults": case.faults,
        **({"hints": list(case.hints)} if case.hints else {}),
        "not_searched": list(case.not_searched),
        "seconds": round(seconds, 3),
        "thread_instructions": case.instructions,
        "versions": list(job.versions),
    }
    verdict, reason = judged.verdict, judged.reason
    kind, message = _worst(case.faults)
    status = kind if kind in STATUSES else model.OK
    if kind == "unsupported":
        first = next(fault for fault in case.faults if fault["kind"] == kind)
        message = _named(first["opcode"], first["address"], case.places[first["kernel"]])
        return CaseExecution(Result.of_job(job, status, message, notes=notes))
    if kind == "timed out" and case.slow:
        status = model.NOT_MEASURED
        early = case.spent < 0.9 * job.limit_s
        message = (
            f"{'would not end' if early else 'did not end'} within {job.limit_s:g} s (execute: case_limit_s)"
            f"{f', stopped after {case.spent:.1f} s' if early else ''}; {message}"
        )
        case.spent = max(case.spent, job.limit_s)  # at least
    if kind:
        verdict = model.WRONG if kind == OVERWRITTEN else kind if kind in VERDICTS else verdict
        reason = f"{HERE}: {message}" + (f"; {reason}" if reason else "")
    values: dict[str, float] = {}
    more: dict[str, Any] = {}
    if status == model.OK:
        more = {"source": model.EXECUTED, "verdict": verdict}
    # Counts of a launch that a barrier ended are incomplete.
    if status == model.OK and kind != "barrier":
        values = counters.together([launch.values() for launch in case.ran], job.leading)
        rows = _rows(case.ran)
        more["instructions"] = rows
        more["figures"] = counters.figures(values, rows, job.dtypes.get("a", ""))
    result = Result.of_job(job, status, reason, notes=notes, **more)
    return CaseExecution(result, case.ran, seconds, case.spent, values)


def classes(execution_: CaseExecution) -> list[dict[str, Any]]:
    """Return the warp and thread instructions of each class."""
    return counters.by_class([(launch.opcodes, launch.counts) for launch in execution_.ran])


def launch_once(job: Job, machine: Any = None) -> Sequence[ExecutedLaunch]:
    """Execute a job's launches once, unjudged. Raises the machine's errors."""
    case = _Case(job, machine or execution.engine())
    with memory.limited():
        case.load()
        case.launch(case.buffers(case.operation.inputs(job), 1.0))
    return case.ran


@dataclass(frozen=True)
class TimedLaunch:
    """A launch with its predicted time (`execution.machine.timing.Time`)."""

    program: Any
    places: Places
    time: Any


def timed(job: Job, gpu: DataSheet, machine: Any = None) -> list[TimedLaunch]:
    """Predict the time of each launch of a case, from one block of each. Operands of more than `FILLED_BYTES`
    repeat smaller ones, those of a product are zeros. Raises NoTime, and the machine's errors."""
    case = _Case(job, machine or execution.engine())
    case.load()
    case.written.clear()  # nothing is searched here
    operation, launches = case.operation, []
    filled = cost.operand_bytes(job) <= FILLED_BYTES
    buffers, patterns = zeros(operation, job), {}
    if filled:
        buffers = operands(operation, job, operation.inputs(job), 0.0, blank)
    elif sys.platform == "linux" and not job.layouts:  # no product's time depends on values
        patterns = patterns_of(operation, job)
    buffers |= {buffer.name: blank("u1", buffer.nbytes) for buffer in job.launch.scratch}
    for step in case.job.steps:
        program, footprint = case.programs[step.entry], sum(a.nbytes for a in buffers.values())
        launch = case.launched(step, buffers, 1.0, 0.0)
        predicted = case.machine.predicted(program, gpu, footprint, **launch, patterns=patterns)
        launches.append(TimedLaunch(program, case.places[step.entry], predicted))
    return launches


@dataclass(frozen=True)
class UnjudgedRun:
    """The memory after a job's launches. problem: the worst fault or error, a sentence; fatal: whether it
    ended the launch; touched: with ``footprint``, the ends (bytes) of the first launch's reads and writes; stores:
    whether its code has an instruction that may change memory."""

    buffers: Mapping[str, np.ndarray]
    problem: str = ""
    fatal: bool = False
    touched: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    stores: bool = True


def run_unjudged(
    job: Job, inputs: Mapping[str, np.ndarray], machine: Any = None, footprint: int = 0
) -> UnjudgedRun:
    """Execute a job's launches once, with these inputs. Faults and errors become `UnjudgedRun.problem`."""
    machine = machine or execution.engine()
    case = _Case(job, machine)
    case.footprint = footprint
    buffers: dict[str, np.ndarray] = {}
    try:
        with memory.limited():
            buffers |= case.buffers(inputs, 0.0)
            case.load()
            ended = case.launch(buffers)
    except MemoryError:
        return UnjudgedRun(buffers, memory.exceeded(), True)
    except machine.Unsupported as error:
        return UnjudgedRun(buffers, _unsupported(error, case.places[case.entry]), True)
    except (machine.BadLaunch, ValueError) as error:
        return UnjudgedRun(buffers, str(error), True)
    (first, *_), problem = case.ran, _worst(case.faults)[1]
    stores = any(map(STORES.match, first.opcodes))
    return UnjudgedRun(buffers, problem, not ended, first.done.touched, stores)
