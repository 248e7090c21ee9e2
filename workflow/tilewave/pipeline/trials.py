"""The judge of a kernel: an ordered list of runs with other shapes, scalars and inputs, each affordable.
A study's stage *check* has those of its operation (`Operation.runs`) at its shapes."""

from __future__ import annotations

import bisect
import itertools
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.basics.tables import table_beside
from tilewave.execution import case as executing
from tilewave.execution import cost
from tilewave.execution.case import CaseExecution
from tilewave.kernel import operations, result
from tilewave.kernel.expressions import names_in
from tilewave.kernel.inputs import DENORMAL, LARGE, SPECIAL, UNIFORM, ZERO
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.kernel.variants import Variant
from tilewave.pipeline import jobs, single
from tilewave.pipeline.cases import Case
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import Shape

JUDGE = SimpleNamespace(**table_beside(__file__))
"""How the judge chooses its trials; trials.yaml has the reasons."""
TILE, LARGEST_TILE = 32, 1 << 12
"""Tile of a dimension that no block count depends on, and the largest that is looked for."""
LONG, LONGEST, LONG_VECTOR = 2051, 4099, (1 << 20) + 3
"""Long sizes of a dimension, of the last one (k), and of a single one."""
FIXED = re.compile(r"(\w+) == (\d+)")
"""A condition that leaves one size."""
TIED = re.compile(r"(\w+) == ([A-Za-z_]\w*)")
"""A condition that two sizes are equal."""
PRODUCT = re.compile(r"(\w+) \* (\w+) % (\d+) == 0")
"""A condition that a product of two sizes is a multiple."""
POWER = re.compile(r"power_of_2\((\w+)\)")
"""A condition that a size is a power of two."""
MOST_ELEMENTS = 1 << 25
"""Elements of all operands of a trial."""
TITLES = "NaN and infinity", "denormal numbers", "large numbers", "zeros"
NAMES = dict(zip((SPECIAL, DENORMAL, LARGE, ZERO), TITLES))


@dataclass(frozen=True)
class Trial:
    """A run with inputs of the judge's choice.
    name: what it tries, such as ``long k``. scalars: those of the operation if empty. kind: of the inputs
    (`kernel.inputs.KINDS`). large: judged by `Operation.judge_large`, at less cost. sms: if not the target's."""

    name: str
    sizes: Mapping[str, int]
    scalars: tuple[tuple[float, float], ...] = ()
    kind: str = UNIFORM
    large: bool = False
    sms: int = 0

    @property
    def title(self) -> str:
        return f"{self.name} at {'x'.join(map(str, self.sizes.values()))}"


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial, of stage execute. done: its execution; None if it did not run (`result.reason`)."""

    trial: Trial
    result: Result
    done: CaseExecution | None = None

    @property
    def right(self) -> bool:
        """True if it ended without a finding, and is correct or cannot be checked."""
        verdicts = (result.CORRECT, result.NOT_CHECKED)
        return self.result.status == result.OK and self.result.verdict in verdicts

    @property
    def wrong(self) -> bool:
        """True if the kernel is to blame; a trial that did not run, or is not supported, decides nothing."""
        return self.result.status in (result.OK, *result.FAILURES) and not self.right


class _Shapes:
    """Shapes that a variant takes, near given ones."""

    def __init__(self, variant: Variant, device: Mapping[str, Any]) -> None:
        self.variant, self.device = variant, device
        self.names = variant.operation.dimensions
        requires = variant.kernel.front.requires
        self.texts = [str(text) for text in requires.get("conditions", [])]
        self.sure = dict[str, int]()
        matches = [match for text in self.texts if (match := FIXED.fullmatch(text))]
        self.fixed = {match[1]: int(match[2]) for match in matches if match[1] in self.names}
        self.divisors = {
            name: variant.integer(f"requires.{name}", requires.get(name, 1), {})
            for name in self.names
        }

    def near(self, sizes: Mapping[str, int], down: bool = False) -> dict[str, int] | None:
        """Return the next shape that the variant takes, or one with larger or equal sizes or ones; None if it takes none."""
        sizes = {**sizes, **self.fixed}
        whole, steps = math.floor if down else math.ceil, self.divisors.items()
        fitting, *grown = (
            {name: max(1, whole(sizes[name] / of / many)) * of * many for name, of in steps}
            for many in (1, 2, 4, 8)
        )
        whole_blocks = dict(fitting)
        for *sides, many in PRODUCT.findall("; ".join(self.texts)):
            side = next(of for of in range(1, int(many) + 1) if of * of % int(many) == 0)
            whole_blocks |= {of: -(-fitting.get(of, 1) // side) * side for of in sides}
        for name in fitting.keys() & {*POWER.findall("; ".join(self.texts))}:
            whole_blocks[name] = 1 << whole_blocks[name].bit_length() - down
        step, tied = math.lcm(*self.divisors.values()), any(map(TIED.fullmatch, self.texts))
        equal = dict.fromkeys(self.names, -(-max(fitting.values()) // step) * step)
        subsets = itertools.product((False, True), repeat=len(self.names))
        shapes = (
            {name: 1 if single else shape[name] for name, single in zip(self.names, singles)}
            for singles in sorted(subsets, key=sum)
            for shape in ((fitting, equal) if tied else (fitting, whole_blocks, *grown, equal))
        )
        return next(filter(self.takes, shapes), None)

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the variant can be launched at a shape."""
        try:
            operands = self.variant.operation.operands.values()
            elements = sum(math.prod(operand.sizes(sizes)) for operand in operands)
            if elements > MOST_ELEMENTS or self.variant.supports(sizes, self.device):
                return False
            return not self.variant.plan(sizes, self.device).exceeded_limit(self.device)
        except UserError:
            return False

    def blocks(self, sizes: Mapping[str, int], sms: int = 0) -> int:
        """Return the blocks of all launches, on another number of SMs if one is given; 0 without a plan."""
        device = {**self.device, **({"sms": sms} if sms else {})}
        try:
            plan = self.variant.plan(sizes, device)
        except UserError:
            return 0
        return sum(step.blocks for step in plan.steps)

    def turns(self, tile: Mapping[str, int]) -> dict[str, int] | None:
        """Return a shape that has several tiles for each block on `few_sms`; its last size is that of ``tile``."""
        *grown, last = self.names
        for times in (1, 2, 4):
            sizes = {name: times * tile[name] + 1 for name in grown} | {last: tile[last]}
            shape = self.near(sizes)
            if shape and self.blocks(shape) >= 2 * self.blocks(shape, JUDGE.few_sms) > 0:
                return shape
        return None

    def tile(self, base: Mapping[str, int]) -> dict[str, int]:
        """Return the tile of a block: front matter's, else the sizes up to which there is one block along a dimension."""
        planned = self.variant.plan(base, self.device).tile if self.takes(base) else None
        stated = dict(zip(self.variant.operation.tiles, planned or ()))
        steps = {name: stated.get(name) or self._step(name, base) for name in self.names}
        tied = {name for text in filter(TIED.fullmatch, self.texts) for name in names_in(text)}
        shared = max((steps[name] for name in tied if name in steps), default=0)
        grids = (launched.grid or () for _, launched in self.variant.launched)
        sides = [names_in(side) & {*steps} for side in itertools.chain(*grids)]
        alone = {*stated}.union(*(side for side in sides if len(side) == 1)) - {*self.fixed}
        self.sure = {name: of for name, of in steps.items() if of and name in alone}
        return {name: of or shared * (name in tied) or TILE for name, of in steps.items()}

    def label(self, sizes: Mapping[str, int], below: str) -> str:
        """Return what a shape is beside the tile, as far as that is known. below: for one that is smaller along each side."""
        beside = {(sizes[name] > tile) - (sizes[name] < tile) for name, tile in self.sure.items()}
        labels = {-1: below, 0: "at the tile", 1: "above the tile"}
        return labels[beside.pop()] if len(beside) == 1 else "small"

    def _step(self, name: str, base: Mapping[str, int]) -> int:
        """Return the largest size with as few blocks as 1, or the least that has one; 0 if they do not depend on it."""
        few, sizes = self.blocks({**base, name: 1}), range(1, LARGEST_TILE + 1)
        size = bisect.bisect(sizes, few, key=lambda size: self.blocks({**base, name: size}))
        return size + (not few) if size < LARGEST_TILE else 0


def least(variant: Variant, device: Mapping[str, Any]) -> dict[str, int]:
    """Return the smallest sizes that a variant takes and that have a block, else those of a tile."""
    shapes = _Shapes(variant, device)
    ones = shapes.near(dict.fromkeys(shapes.names, 1))
    tile = shapes.tile(dict.fromkeys(shapes.names, TILE))
    return ones if ones and shapes.blocks(ones) else shapes.near(tile) or tile


def _shape(sizes: Mapping[str, int]) -> Shape:
    return Shape(tuple(sizes.items()))


def trials(
    variant: Variant, sizes: Mapping[str, int] | None, device: Mapping[str, Any]
) -> list[Trial]:
    """Return the trials of a variant in order, without that of `_large`; none for a probe.
    The first has the operation's own runs at ``sizes``, or at a small shape if None. device: with its ``arch``."""
    operation, shapes = variant.operation, _Shapes(variant, device)
    names = operation.dimensions
    if not names:
        return []
    few = (*[3] * (len(names) - len(JUDGE.few)), *JUDGE.few)
    # A kernel whose blocks each take several tiles has no block at the smallest sizes.
    grown = (dict(zip(names, (times * size for size in few))) for times in (1, 2, 4, 8, 16))
    small: Mapping[str, int] | None = next(filter(None, map(shapes.near, grown)), None)
    tile = shapes.tile(sizes or small or dict.fromkeys(names, TILE))
    small = small or shapes.near(tile) or sizes
    if small is None:
        return [Trial("uniform numbers", tile)]  # planned, it says why it cannot run
    trials = [Trial("uniform numbers", sizes or small)]
    target = {"device": device, "arch": device["arch"]}
    case, arch = resolve(Case(variant, _shape(small)), target), f"sm_{device['arch']}"
    config = single.config(1, JUDGE.limit_s)
    job = jobs.of_case(result.EXECUTE, case, {arch: {"code": ""}}, arch, config)
    if not isinstance(job, Job):
        return trials
    if more := operation.more_runs(job):
        trials.append(Trial("other alpha and beta", small, tuple(more)))
    last = tuple(operation.runs(job)[-1:])
    options = " ".join(variant.kernel.compiler_options(variant.names))
    # A user's operation may inherit kinds of inputs from one of Tilewave's.
    shipped = operations.MODULES.file(operation.name) is None
    for kind in operation.kinds_of(job) if shipped or "kinds" in vars(type(operation)) else ():
        if kind != DENORMAL or not any(name in options for name in JUDGE.flushing):
            trials.append(Trial(NAMES[kind], small, () if kind == SPECIAL else last, kind))
    shaped = list[tuple[str, dict[str, int]]]()
    for add in (-1, 0, 1):
        around = {size: max(1, tile[size] + add) for size in names}
        if shape := shapes.near(around, down=add < 0):
            shaped.append((shapes.label(shape, "below the tile"), shape))
    if shape := shapes.near({name: tile[name] // 3 for name in names}):
        shaped.append((shapes.label(shape, "far below the tile"), shape))
    for name in reversed(names):
        long = LONG_VECTOR if len(names) == 1 else LONGEST if name == names[-1] else LONG
        if shape := shapes.near({**tile, name: long}):
            shaped.append((f"long {name}" if shape[name] >= long else "small", shape))
    takes = len(operation.runs(job)) > 1
    # Parts of a long sum may take another way to C, with and without its old contents.
    overwriting = tuple((alpha, 0.0) for alpha, beta in last if beta and takes)
    for name, shape in shaped:
        if all(shape != trial.sizes for trial in trials):
            scalars = last + overwriting if name == f"long {names[-1]}" else last
            trials.append(Trial(name, shape, scalars))
    for name, size in (("few SMs", 3 * tile[names[-1]]), (f"few SMs, long {names[-1]}", LONG // 2)):
        if turns := shapes.turns({**tile, names[-1]: size}):
            trials.append(Trial(name, turns, last, sms=JUDGE.few_sms))
    return trials


def _large(
    variant: Variant,
    device: Mapping[str, Any],
    planned: Callable[[Mapping[str, int]], Job | Result],
    rate: float,
    seconds: float,
) -> Trial | None:
    """Return the trial of the largest product that is affordable, None if none is. rate: operations a second."""
    operation, shapes = variant.operation, _Shapes(variant, device)
    most = JUDGE.affordable * rate * seconds
    for cube in JUDGE.cubes if operation.tiles else ():
        sizes = shapes.near(dict.fromkeys(operation.dimensions, cube))
        job = sizes and planned(sizes)
        if isinstance(job, Job) and sizes and operations.work(job).flops < most:
            return Trial("large product", sizes, tuple(operation.runs(job)[-1:]), large=True)
    return None


def judged(
    case: Case,
    arch: str,
    target: Mapping[str, Any],
    entry: Mapping[str, Any],
    *,
    seed: int = 1,
    limit_s: float = JUDGE.limit_s,
    budget_s: float = 5.0,
    machine: Any = None,
    done: CaseExecution | None = None,
    limiting: Variant | None = None,
    finite: bool = False,
    lenient: Sequence[str] = (),
) -> list[TrialResult]:
    """Execute the trials of a case's variant, in order; stop at the first that is not right, if it has ``finite`` inputs.

    case: its shape may be None: the judge chooses. limiting: the variant whose `requires` limits other shapes, if not
    the case's. entry: what was compiled. budget_s: seconds for all trials after the first; those that do not fit are
    *not measured*. done: the execution of the case itself, if the caller has it. lenient: see `execution.case.run`.
    """
    config = single.config(seed, limit_s)

    def planned(sizes: Mapping[str, int], sms: int = 0) -> Job | Result:
        gpu = {**target, "device": {**target["device"], **({"sms": sms} if sms else {})}}
        resolved = resolve(replace(case, shape=_shape(sizes)) if sizes else case, gpu)
        return jobs.of_case(result.EXECUTE, resolved, {arch: entry}, arch, config)

    device = {**target["device"], "arch": target["arch"]}
    sizes = case.shape.resolve(target["device"]) if case.shape else None
    waiting = trials(limiting or case.variant, sizes, device) or [Trial("the case", {})]
    outcomes: list[TrialResult] = []
    deadline, rate, longest, pace = math.inf, 0.0, 0.0, 0.0
    user_defined = operations.MODULES.file(case.kernel.front.operation) is not None
    while waiting:
        trial = waiting.pop(0)
        job = planned(trial.sizes, trial.sms)
        size, seconds = math.prod(trial.sizes.values()), deadline - time.monotonic()
        if isinstance(job, Job) and pace * size > seconds:
            reason = f"the reference would take {pace * size:.0f} s"
            outcomes.append(TrialResult(trial, Result.of_job(job, result.NOT_MEASURED, reason)))
            continue
        outcome = _tried(trial, job, seconds, machine, None if outcomes else done, lenient)
        if not outcomes:
            deadline = time.monotonic() + budget_s
        outcomes.append(outcome)
        if outcome.wrong and not (finite and trial.kind == SPECIAL):
            break
        launches = len(trial.scalars) or cost.LAUNCHES
        smallest = math.prod(outcomes[0].trial.sizes.values())
        if outcome.done and user_defined and size >= smallest:  # its reference may be slow
            judging = outcome.done.seconds - outcome.done.launched_s - JUDGE.overhead_s
            pace = max(pace, judging / size / launches)
        if isinstance(job, Job) and outcome.done and outcome.done.launched_s > longest:
            longest = outcome.done.launched_s
            rate = operations.work(job).flops * launches / longest
        if not waiting and not trial.large and trial.sizes:
            large = _large(case.variant, device, planned, rate, deadline - time.monotonic())
            waiting += [large] if large else []
    return outcomes


def _tried(
    trial: Trial,
    job: Job | Result,
    seconds: float,
    machine: Any,
    done: CaseExecution | None,
    lenient: Sequence[str],
) -> TrialResult:
    """Return the result of a trial within so many seconds. done: its execution, if there is one."""
    if not isinstance(job, Job):
        return TrialResult(trial, job)
    limited = seconds < job.limit_s
    if seconds <= 0:
        return TrialResult(trial, Result.of_job(job, result.NOT_MEASURED, "no time was left"))
    flops = operations.work(job).flops * (len(trial.scalars) or cost.LAUNCHES)
    least_s = cost.predicted_s(job, flops) / (os.cpu_count() or 1)
    limit_s = JUDGE.glimpse_s if least_s > JUDGE.hopeless * seconds else job.limit_s
    job = replace(job, limit_s=min(limit_s, seconds))
    done = done or executing.run(
        job,
        machine,
        scalars=trial.scalars,
        kind=trial.kind,
        large=trial.large,
        both_ways=bool(trial.scalars) and not trial.large,
        lenient=lenient,
    )
    outcome = done.result
    late = (result.NOT_MEASURED, *([] if cost.states_work(job) else [result.TIMED_OUT]))
    if limited and outcome.status in late:
        reason = f"it takes more than the {seconds:.1f} s that were left"
        return TrialResult(trial, replace(outcome, status=result.NOT_MEASURED, reason=reason))
    return TrialResult(trial, outcome, done)


def worst(results: Sequence[TrialResult]) -> TrialResult:
    """Return the trial that decides the verdict: the first that is wrong, else the first."""
    return next((outcome for outcome in results if outcome.wrong), results[0])


def summary(results: Sequence[TrialResult]) -> str:
    right = [outcome for outcome in results if outcome.right]
    parts = [f"{len(right)} of {len(results)} trials are right"]
    rest = [outcome for outcome in results if not outcome.right]
    parts += [f"{each.trial.title}: {each.result.verdict or each.result.status}" for each in rest]
    return "; ".join(parts)
