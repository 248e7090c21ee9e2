"""The trials of a kernel that `check` judges by."""

import re
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewave.commands import execute, flags
from tilewave.commands.checking.notes import PATTERNS
from tilewave.commands.checking.sources import CheckedKernel
from tilewave.commands.wrapping import trying
from tilewave.commands.wrapping.recognising import Sample
from tilewave.execution import case as running
from tilewave.execution.case import CaseExecution
from tilewave.kernel import operations, result, trial
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs, kernels_study, single, trials
from tilewave.pipeline.cases import Case
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import Shape

Row = Mapping[str, Any]
LIMIT_S = 60.0
"""Seconds for a trial; `execute.BUDGET_S` are for those of a kernel after the first."""
MOST_SAMPLED = 1 << 18
"""Most elements of the inputs by which a kernel is recognised."""
EVEN = "even sizes"
"""The trial whose counts are shown, if the kernel takes its sizes."""
WHOLE, LEAST = "whole tiles", "one block"
"""Trials after an invalid access that may come from a guess; a fault in shared memory there has no size as its cause."""


@dataclass(frozen=True)
class TriedCase:
    """A trial with its case and the entry of what was compiled."""

    case: Case
    entry: Row
    name: str
    outcome: Result
    done: CaseExecution | None

    @property
    def right_at_whole_tiles(self) -> bool:
        return (self.name, self.outcome.verdict) == (WHOLE, result.CORRECT)

    @property
    def exit_code(self) -> int:
        if self.case.expects(self.outcome):
            return result.RIGHT
        judged = self.case.probe_case is None
        return result.exit_code(self.outcome.status, self.outcome.verdict, judged)


def tried_cases(
    source: CheckedKernel, kernel: Kernel, options: Namespace, folder: Path, machine: Any
) -> Iterator[TriedCase]:
    """Compile and execute the trials of a kernel. Raises UserError."""
    wrapped = kernel.path != source.path
    arch, target = execute.arch_of(options), execute.target_of(options)
    # A formula, which is a guess, may say wrong.
    lenient = (*running.LENIENT, *[result.WRONG] * bool(source.judge))
    if kernel.front.operation == "probe":
        cases = [execute.probe_case(kernel, name) for name in kernel.front.cases]
    else:  # the judge chooses the shapes
        cases = [Case(execute.variant_of(kernel, options.macro))]
        trial.try_out(cases[0].variant)
    for case in cases:
        entry = single.compiled(case.variant, arch, folder)
        for outcome in trials.judged(
            case, arch, target, entry,
            seed=options.seed, limit_s=LIMIT_S, budget_s=options.budget, machine=machine, finite=wrapped, lenient=lenient,
        ):  # fmt: skip
            sizes = outcome.trial.sizes
            shaped = replace(case, shape=Shape(tuple(sizes.items()))) if sizes else case
            name = outcome.trial.name if sizes else ""
            yield TriedCase(resolve(shaped, target), entry, name, outcome.result, outcome.done)
        shapes = dict[str, Shape]()
        ended = wrapped and outcome.result.status == result.INVALID_ACCESS
        if (outcome.right or ended) and case.probe_case is None:
            size = str(kernels_study.small(kernel.front.operation, ())[-1])
            shape = flags.shape(size, case.variant.operation.dimensions, "shape")
            if ended:
                fits = trying.shape_of(dict(shape.resolve({})), {"requires": kernel.front.requires})
                shape = Shape(tuple(fits.items()))
            shapes[WHOLE if ended else EVEN] = shape
        unknown, sides = bool(source.problem), (kernel.front.shared_bytes, *kernel.front.block)
        stated = source.launched and not source.guesses and all(isinstance(of, int) for of in sides)
        if ended and PATTERNS["in_shared"].match(outcome.result.reason) and (stated or not unknown):
            if unknown:  # the shape at which it was touched limits nothing
                free = replace(kernel, front=kernel.front.model_copy(update={"requires": {}}))
                case, shapes = replace(case, variant=replace(case.variant, kernel=free)), {}
            least_sizes = trials.least(case.variant, {**target["device"], "arch": target["arch"]})
            if least_sizes != outcome.trial.sizes:
                shapes[LEAST] = Shape(tuple(least_sizes.items()))
        for name, shape in shapes.items():
            sized = resolve(replace(case, shape=shape), target)
            config = single.config(options.seed, min(LIMIT_S, options.budget))
            job = jobs.of_case(result.EXECUTE, sized, {arch: entry}, arch, config)
            if isinstance(job, Job):
                done = running.run(job, machine, lenient=lenient)
                if name == LEAST and unknown:  # other inputs must end at the same byte
                    again = running.run(replace(job, seed=job.seed + 1), machine).result.reason
                    if not PATTERNS["past"].search(again) or again != done.result.reason:
                        continue
                if done.result.status not in (result.TIMED_OUT, result.NOT_MEASURED):
                    yield TriedCase(sized, entry, name, done.result, done)


def shape_of(kernel: Kernel) -> dict[str, int]:
    """Return the only shape that a kernel takes (`sources.at_size`)."""
    sides = (text.split(" == ") for text in kernel.front.requires["conditions"])
    return {name: int(side) for name, side in sides}


def sampled(kernel: Kernel, options: Namespace, machine: Any, times: int) -> Iterator[Sample]:
    """Yield what a kernel that takes one shape gives for uniform inputs, if it ends without a fault. Raises UserError."""
    arch, target = execute.arch_of(options), execute.target_of(options)
    shape = Shape(tuple(shape_of(kernel).items()))
    case = resolve(Case(execute.variant_of(kernel, options.macro), shape=shape), target)
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        entry = single.compiled(case.variant, arch, Path(folder))
        config = single.config(options.seed, LIMIT_S)
        job = jobs.of_case(result.EXECUTE, case, {arch: entry}, arch, config)
        if isinstance(job, Job):
            given = operations.load(job.operation).inputs(job)
            small = sum(array.size for array in given.values()) <= times * MOST_SAMPLED
            run = running.run_unjudged(job, given, machine) if small else None
            if run and not run.problem:
                yield Sample(job, given, run.buffers)


def size_of(case: Case) -> str:
    """Return the sizes of a case by name; none of a kernel that takes none, whose operation says what it touched."""
    front, sizes = case.kernel.front, dict(case.shape.resolve({})) if case.shape else {}
    taken = re.findall(r"\w+", f"{front.arguments} {front.grid} {front.block} {front.shared_bytes}")
    derived = operations.MODULES.file(front.operation) is not None and front.grid
    return "" if derived and [*sizes] == ["n"] and "n" not in taken else trying.named(sizes)


def undefined(path: Path, reason: str) -> list[str]:
    """Return the macros of other files around the line of a compiler's message."""
    text, at = path.read_text("utf-8", "replace"), re.search(r":(\d+): ", reason)
    if at is None or not reason.startswith(path.name):
        return [reason]
    near = "\n".join(text.splitlines()[max(int(at[1]) - 2, 0) : int(at[1]) + 1])
    names = PATTERNS["macro"].findall(near)
    return [name for name in names if not re.search(rf"define\s+{name}\b", text)]
