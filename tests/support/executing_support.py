"""Execution of a kernel file with a shape and macros on the CPU, judged as the GPU's check does."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

import keeping
from samples import ROOT, config
from tilewave import execution
from tilewave.compiling.sass import of_cubin as listing
from tilewave.execution.buffers import cluster_and_memory, operands, packed, scratch
from tilewave.execution.case import OVERWRITTEN
from tilewave.execution.places import Places
from tilewave.kernel import operations, result, tolerance
from tilewave.kernel.front_matter import Kernel, load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.trial import TRIAL_DEVICE
from tilewave.kernel.variants import Variant, variant
from tilewave.pipeline import compiling, jobs
from tilewave.pipeline.cases import Case
from tilewave.pipeline.config import Config
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import Shape, expand_shapes
from tilewave.records.store import Store
from tilewave.theory import architectures

if TYPE_CHECKING:
    from tilewave.execution.machine.program import Program

FAULTS = ROOT / "tests" / "faults"
FOREIGN = ROOT / "tests" / "foreign"
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90")
SEED = 1
LIMIT_S = 20.0
CONFIG = Config.model_validate(config(seed=SEED, execute={"case_limit_s": 3600}))

Counts = Mapping[str, np.ndarray]
Macros = Mapping[str, Any] | None


@dataclass
class Executed:
    """An executed case: outputs of the last launch; counts and faults of the first launch or of one with faults."""

    verdict: str
    reason: str
    faults: tuple[Any, ...]
    counts: Counts
    outputs: dict[str, np.ndarray]
    program: Any
    job: Job
    seconds: float

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(fault.kind for fault in self.faults))


def device(arch: str) -> dict[str, Any]:
    """Return the facts of a device of that architecture for expressions of front matter."""
    number = architectures.number(arch)
    shared = architectures.of(number).shared_per_block
    return {**TRIAL_DEVICE, "arch": number, "shared_per_block_optin": shared}


@functools.cache
def kernel(path: Path) -> Kernel:
    return load_kernel(path)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tilewave-executed-")


@functools.cache
def _entry(path: Path, macros: tuple[tuple[str, Any], ...], arch: str) -> dict[str, Any]:
    chosen, store = Variant(kernel(path), macros), Store(ROOT / ".tilewave")
    folder = Path(_folder().name) / path.parent.as_posix().strip("/").replace("/", "-")
    compilations = compiling.Compilations(store, None, folder)
    if compilations.missing_cubin(chosen, arch):
        task = compiling.Task(chosen, arch)
        if not keeping.restored(task, store):
            compiling.compile_now(task, store, listing_of=keeping.of_file)
    document = compilations.provide(chosen, arch)
    assert document and document["status"] == result.OK, f"{chosen.id} for {arch}: {document}"
    return document


def entry(chosen: Variant, arch: str) -> dict[str, Any]:
    """Return a variant's compilation: the compiler's log, resources, the cubin's path."""
    return _entry(chosen.kernel.path, chosen.macros, arch)


def is_compiled(chosen: Variant, arch: str) -> bool:
    """Return whether this checkout's store has the variant's cubin."""
    compilations = compiling.Compilations(Store(ROOT / ".tilewave"), None, Path(_folder().name))
    return not compilations.missing_cubin(chosen, arch)


def compiled(chosen: Variant, arch: str) -> Path:
    """Return the cubin's path; its listing is beside it."""
    return Path(entry(chosen, arch)["cubin"])


def choose(path: Path, macros: Mapping[str, Any] | None = None) -> Variant:
    return variant(kernel(path), dict(macros or {}), path, "macros")


def shape_of(chosen: Variant, text: Any) -> Shape | None:
    """Return the shape that ``64x32x16`` or 1000 stands for; None for a probe."""
    operation = operations.load(chosen.kernel.front.operation)
    if not operation.dimensions:
        return None
    return next(iter(expand_shapes([text], operation.dimensions, chosen.kernel.path, "shape")))


def job(path: Path, case: Any, macros: Mapping[str, Any] | None = None, arch: str = "sm_90") -> Job:
    """Return the job of a shape, or of a probe's case with its macros, as the stages plan it."""
    front = kernel(path).front
    probe = front.cases[case] if front.operation == "probe" else None
    chosen = choose(path, {**(probe.macros if probe else {}), **(macros or {})})
    case_ = Case(chosen, shape_of(chosen, case), case if probe else None)
    resolved = resolve(case_, {"device": device(arch), "arch": architectures.number(arch)})
    planned = jobs.of_case(result.EXECUTE, resolved, {arch: entry(chosen, arch)}, arch, CONFIG)
    assert isinstance(planned, Job), planned
    # A test may set macros that the case lacks.
    if about := planned.probe:
        about = replace(about, macros={**chosen.names, **about.macros})
    return replace(planned, probe=about, limit_s=LIMIT_S)


def launches(work: Job) -> list[tuple[dict[str, np.ndarray], float, float]]:
    """Return buffers, alpha and beta of each launch of a check; a product runs with and without beta."""
    operation, runs = operations.load(work.operation), []
    for alpha, beta in operation.runs(work):
        buffers = operands(operation, work, operation.inputs(work), beta)
        runs.append((buffers | scratch(work), alpha, beta))
    return runs


def judge(work: Job, runs: list[tuple[dict[str, np.ndarray], float, float]]) -> tuple[str, str]:
    """Return the verdict on the buffers after the launches, and its reason."""
    operation, judged = operations.load(work.operation), []
    for buffers, alpha, beta in runs:
        if changed := operation.changed(work, buffers.__getitem__):
            return "wrong", changed
        outputs = {name: buffers[name] for name in operation.outputs(work)}
        judged.append(operation.judge(work, outputs, None, alpha, beta))
    worst = tolerance.Judgement.worst(judged)
    return worst.verdict, worst.reason


@functools.lru_cache(maxsize=32)
def program_of(cubin: Path, entry: str) -> Program:
    """Return a decoded kernel of a job's cubin."""
    from tilewave.execution.machine import program

    return program.load(cubin.read_bytes(), entry, listing(cubin))


def execute(
    path: Path, case: Any, macros: Macros = None, arch: str = "sm_90", **limits: Any
) -> Executed:
    """Compile, execute and judge a case; ``limits`` go to the machine's `Limits`. No launch follows a fault."""
    from tilewave.execution.machine import launch

    work, limits = job(path, case, macros, arch), {"seconds": LIMIT_S, **limits}
    loaded = program_of(Path(work.cubin), work.entry)
    runs = launches(work)
    first: Any = None
    seconds = 0.0
    steps = [(index, step) for index in range(len(runs)) for step in work.steps]
    for index, step in steps:
        buffers, alpha, beta = runs[index]
        step_program = program_of(Path(work.cubin), step.entry)
        sizes, plan = step_program.image.parameter_sizes, step.launch
        given = packed(execution.engine(), step, buffers, alpha, beta, sizes)
        how = {"shared_bytes": plan.shared_bytes, "limits": launch.Limits(**limits)}
        how |= cluster_and_memory(execution.engine(), step, buffers)
        done = launch.execute(step_program, plan.grid, plan.block, given, **how)
        if work.probe:  # its buffers are declared neither way
            done = replace(done, faults=[f for f in done.faults if f.kind != OVERWRITTEN])
        seconds += done.seconds
        if first is None or done.faults:
            first = done
        if done.faults:
            runs = runs[: index + 1]
            break
    outcome, faults = judge(work, runs), tuple(first.faults)
    return Executed(*outcome, faults, first.counts, runs[-1][0], loaded, work, seconds)


def right(
    path: Path, case: Any, macros: Macros = None, arch: str = "sm_90", **limits: Any
) -> Executed:
    """Execute a case, and assert that it is correct and without faults."""
    done = execute(path, case, macros, arch, **limits)
    outcome = done.verdict, done.kinds
    assert outcome == ("correct", []), f"{done.job.case} for {arch}: {outcome}: {done.reason}"
    return done


def same_bits(runs: Iterable[Executed]) -> None:
    """Assert that the products of these executions have the same bits."""
    first, *rest = (done.outputs["c"] for done in runs)
    assert rest and all(np.array_equal(product, first) for product in rest)


def with_sms(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Give front matter a device of so many SMs."""
    plain = device
    monkeypatch.setattr(f"{__name__}.device", lambda arch: {**plain(arch), "sms": number})


@functools.cache
def expectations() -> tuple[dict[str, Any], ...]:
    """Return the entries of faults/_expected.yaml with all keys, and `hangs`: a GPU never ends the kernel."""
    text = (FAULTS / "_expected.yaml").read_text(encoding="utf-8")
    defaults = {"macros": {}, "lines": "// BUG", "also": []}
    entries = [{**defaults, **entry} for entry in yaml.safe_load(text)]
    return tuple({**entry, "hangs": entry["gpu"] == "hangs"} for entry in entries)


def name_of(entry: Mapping[str, Any]) -> str:
    """Return the kernel and macros of an expectation, joined by hyphens."""
    return "-".join([entry["kernel"], *(str(value) for value in entry["macros"].values())])


def marked(path: Path, mark: str) -> set[int]:
    """Return the numbers of the lines with ``mark`` in a file."""
    rows = path.read_text(encoding="utf-8").splitlines()
    return {number for number, row in enumerate(rows, 1) if mark in row}


def line_of(done: Executed, fault: Any) -> int:
    """Return the line of a fault in the kernel file, or 0."""
    if fault.index < 0:
        return 0
    address = done.program.instructions[fault.index].address
    job = done.job
    return _places(Path(job.cubin), Path(job.source), job.entry)(address).kernel_line


@functools.cache
def _places(cubin: Path, source: Path, entry: str) -> Places:
    return Places(source, entry, listing(cubin))
