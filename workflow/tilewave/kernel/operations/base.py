"""The base class of operations: arrays, their inputs, reference, tolerance and work, wherever a kernel runs.
A subclass has its own module, here or in a folder of the config (`operation_folders`)."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from tilewave.kernel import result
from tilewave.kernel.expressions import Sizes, evaluate
from tilewave.kernel.inputs import (
    DENORMAL,
    LARGE,
    SPECIAL,
    UNIFORM,
    storage,
    to_float64,
    uniform,
    with_kind,
)
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.operations.kernel_reference import Arrays as Arrays
from tilewave.kernel.operations.kernel_reference import Executed as Executed
from tilewave.kernel.padding import Placement, stride_names, unset
from tilewave.kernel.tolerance import JudgedOutput, Judgement, Tolerance, compare, left_dirty
from tilewave.theory.dtypes import DTYPES, SIZES


class Work(NamedTuple):
    """Floating-point operations, and bytes that must move at least once (compulsory traffic)."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Operand:
    """An array of an operation.

    extents: its dimensions by name, numbers or expressions, the outermost of a row-major array first. stream: stream of
    its random elements (`inputs.uniform`), None without values before the launch. written: whether it is an
    output. zeroed: whether it is zero before each checked launch, as memory that atomics add to."""

    extents: tuple[str | int, ...]
    stream: int | None = None
    written: bool = False
    zeroed: bool = False

    @property
    def given(self) -> bool:
        """True if it has values before a launch."""
        return self.stream is not None or self.zeroed

    def sizes(self, shape: Sizes) -> tuple[int, ...]:
        plain = (of if isinstance(of, int) else shape.get(of) for of in self.extents)
        return tuple(
            int(evaluate(str(of), shape)) if size is None else size
            for of, size in zip(self.extents, plain)
        )


@dataclass(frozen=True)
class Product:
    """A matrix product as a reference that a GPU computes: sizes, and the first element of each operand's matrix."""

    shape: Sizes
    starts: Sizes = field(default_factory=dict)


class Operation:
    """An operation. Subclasses override what differs from these defaults."""

    name: ClassVar[str] = ""
    dimensions: ClassVar[tuple[str, ...]] = ()
    """Names of the sizes, in the order of a case id."""
    operands: ClassVar[Mapping[str, Operand]] = {}
    scalars: ClassVar[tuple[str, ...]] = ()
    """Those of alpha and beta that a launch may take."""
    needs_dtypes: ClassVar[tuple[str, ...]] = ()
    """Names that need a dtype in front matter."""
    laid_out: ClassVar[bool] = False
    """True if its arrays may be column-major (`layouts`)."""
    tiles: ClassVar[tuple[str, ...]] = ()
    """The dimensions of a block's `tile`."""
    vendor: ClassVar[str] = ""
    """Provider of the library that it is timed beside."""
    kernel: ClassVar[Path | None] = None
    """A kernel file that is the reference, without a method `reference`."""
    kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds of inputs that it defines besides uniform ones (`inputs.KINDS`)."""
    large: ClassVar[int | None] = None
    """The power of two of large numbers, if not nearly the largest that the dtype has."""
    specials: ClassVar[tuple[float, float]] = (math.nan, math.inf)
    """The numbers among `SPECIAL` inputs that are not finite."""
    rounded: ClassVar[bool] = False
    """True if a real output may differ from `reference` by what `kernel_reference.rounding` allows."""
    rehearsed: ClassVar[bool] = True
    """True if a launch precedes the one whose counters are collected."""

    def allowed_dtypes(self, name: str, dtypes: Mapping[str, str]) -> tuple[str, ...]:
        """Return the dtypes that ``name`` may have, given the others."""
        return tuple(DTYPES)

    def stride_names(self) -> list[str]:
        """Return the names of the strides that front matter may give, in order."""
        ranks = {name: len(operand.extents) for name, operand in self.operands.items()}
        return [stride for name, rank in ranks.items() for stride in stride_names(name, rank)]

    def placement(
        self, name: str, shape: Sizes, layouts: Mapping[str, str], strides: Sizes
    ) -> Placement:
        """Return the placement of one of `operands`, with those strides that are given."""
        extents = self.operands[name].sizes(shape)
        order: Literal["C", "F"] = "F" if self.laid_out and layouts.get(name) == "col" else "C"
        return Placement.of(name, extents, order, strides)

    def arrays(self, job: Job) -> Mapping[str, Operand]:
        return self.operands

    def outputs(self, job: Job) -> list[str]:
        return [name for name, operand in self.arrays(job).items() if operand.written]

    def dtype(self, job: Job, name: str) -> str:
        """Return the dtype of an operand. Without one in front matter it is that of the first."""
        return job.dtypes.get(name) or next(iter(job.dtypes.values()))

    def extents(self, job: Job, name: str) -> tuple[int, ...]:
        return self.arrays(job)[name].sizes(job.shape)

    def stored(self, job: Job, name: str) -> tuple[np.dtype[Any], int]:
        """Return numpy's dtype of an operand in memory, and its number of elements with padding."""
        padded = self.padded(job, name)
        count = padded.count if padded else math.prod(self.extents(job, name))
        return storage(self.dtype(job, name)), count

    def order(self, job: Job, name: str) -> Literal["C", "F"]:
        """Return numpy's name of an operand's layout."""
        return "F" if job.layouts.get(name) == "col" else "C"

    def padded(self, job: Job, name: str) -> Placement | None:
        """Return the placement of an operand that has padding; None for one without."""
        if not job.strides:
            return None
        placement = self.placement(name, job.shape, job.layouts, job.strides)
        return placement if placement.count != placement.elements else None

    def in_memory(self, job: Job, name: str, values: np.ndarray) -> np.ndarray:
        """Return an operand of `inputs` with padding, as its memory holds it."""
        padded = self.padded(job, name)
        return padded.put(values) if padded else values

    def without_padding(self, job: Job, name: str, memory: np.ndarray) -> np.ndarray:
        """Return the elements of an operand's memory without padding."""
        padded = self.padded(job, name)
        return padded.take(memory) if padded else memory

    def read_only(self, job: Job) -> list[str]:
        """Return the names of the operands that a launch must not change; none of a probe."""
        arrays = {} if job.probe else self.arrays(job)
        return [name for name, operand in arrays.items() if not operand.written]

    def changed(
        self, job: Job, read: Callable[[str], Any], before: Mapping[str, np.ndarray] | None = None
    ) -> str:
        """Return a sentence if a launch changed padding or an operand that it only reads, or left scratch not
        zero. read: returns a buffer's memory. before: that of `read_only` operands before the launch."""
        for name, memory in (before or {}).items():
            if changed := self._overwritten(job, name, memory, read(name)):
                return changed
        for name in self.outputs(job) if job.strides else ():
            if padded := self.padded(job, name):
                overwritten = padded.overwritten(read(name).view(self.stored(job, name)[0]))
                if overwritten.size:
                    plural = "s" if overwritten.size > 1 else ""
                    return (
                        f"wrote {overwritten.size} element{plural} of {name.upper()}'s padding, the first at "
                        f"element {overwritten[0]} of its memory"
                    )
        return left_dirty(job, read)

    def _overwritten(self, job: Job, name: str, before: np.ndarray, after: np.ndarray) -> str:
        """Return a sentence if an operand's memory differs, else empty. Bits are compared: NaN may be an input."""
        kind = self.stored(job, name)[0]
        sides = [memory.view(kind) for memory in (before, after)]
        if np.array_equal(sides[0].view(np.uint8), sides[1].view(np.uint8)):
            return ""
        sides = [self.without_padding(job, name, side) for side in sides]
        bits = [side.view(np.uint8).reshape(side.size, -1) for side in sides]
        different = np.flatnonzero(np.any(bits[0] != bits[1], axis=1))
        if not different.size:
            return f"wrote padding of {name.upper()}, an input"
        at = int(different[0])
        output = JudgedOutput(name, self.extents(job, name), self.order(job, name), Tolerance())
        dtype = self.dtype(job, name)
        was, is_now = (float(to_float64(side[at : at + 1], dtype)[0]) for side in sides)
        return (
            f"{output.element(at)} of this input was {was:.6g} and is {is_now:.6g} "
            f"({different.size} of {sides[0].size} elements changed)"
        )

    def wide(self, job: Job, name: str, flat: np.ndarray) -> np.ndarray:
        """Return the numbers of an operand of `inputs` in float64 and with its dimensions."""
        numbers = to_float64(flat, self.dtype(job, name))
        return numbers.reshape(self.extents(job, name), order=self.order(job, name))

    def runs(self, job: Job) -> list[tuple[float, float]]:
        """Return the (alpha, beta) of each launch of a check. The first is timed."""
        return [(1.0, 0.0)]

    def given(self, job: Job, name: str, beta: float = 0.0) -> bool:
        """Return whether an operand has values before a launch; the others are poisoned."""
        return self.arrays(job)[name].given

    def begins_as(self, job: Job, name: str) -> str:
        """Return the input that an output of a kernel in place holds before a launch; other arrays hold their own.
        It is an input of the same sizes and type, the only one that no launch takes."""
        arrays = self.arrays(job)
        taken = {leaf for step in job.steps for leaf in leaves(step.arguments)}
        taken |= {plan.of for plan in job.launch.tensor_maps}
        if job.probe or arrays[name].given or not (arrays[name].written and name in taken):
            return name
        kinds = {of: (self.extents(job, of), self.dtype(job, of)) for of in {*arrays} - taken}
        kind = self.extents(job, name), self.dtype(job, name)
        inputs = [of for of in kinds if kinds[of] == kind and not arrays[of].written]
        return inputs[0] if len(inputs) == 1 else name

    def zeroed(self, job: Job, name: str) -> bool:
        """Return whether an operand is all zeros before a launch, so that a GPU clears it itself."""
        plain = type(self).inputs is Operation.inputs and not self.padded(job, name)
        return plain and self.arrays(job)[name].zeroed

    def streamed(self, job: Job, name: str) -> int | None:
        """Return the stream of uniform numbers in an operand, which a GPU makes itself; None for other values."""
        kind = type(self)
        if kind.inputs is not Operation.inputs and kind.streamed is Operation.streamed:
            return None
        stream = self.arrays(job)[name].stream
        return stream if stream is not None and DTYPES[self.dtype(job, name)].from_bits else None

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        """Return the values of the operands that have some, in memory's dtype and order, without padding."""
        values = {}
        for name, operand in self.arrays(job).items():
            count, dtype = math.prod(self.extents(job, name)), self.dtype(job, name)
            if operand.zeroed:
                values[name] = np.zeros(count, storage(dtype))
            elif operand.stream is not None:
                narrow = dtype == "u8"  # the low bytes of 32-bit words
                drawn = uniform(job.seed, operand.stream, count, "u32" if narrow else dtype)
                values[name] = drawn.astype(storage(dtype)) if narrow else drawn
        return values

    def more_runs(self, job: Job) -> list[tuple[float, float]]:
        """Return further (alpha, beta) for a judge that tries more than `runs`."""
        return []

    def kinds_of(self, job: Job) -> list[str]:
        """Return the kinds of inputs of a job besides uniform ones; none for whole numbers."""
        arrays = [name for name, operand in self.arrays(job).items() if operand.given]
        whole = any(DTYPES[self.dtype(job, name)].whole for name in arrays)
        return [kind for kind in self.kinds if not whole and self.exponents(job, kind) is not None]

    def exponents(self, job: Job, kind: str) -> dict[str, int] | None:
        """Return the power of two that multiplies each operand's uniform numbers; None where a kind is not possible.
        Denormal numbers have the exponent of the smallest normal one, because uniform ones are below 1."""
        exponents = {}
        for name in self.arrays(job):
            low, high = DTYPES[self.dtype(job, name)].exponents
            large = high - 2 if self.large is None else self.large
            exponents[name] = {DENORMAL: low, LARGE: large}.get(kind, 0)
        return exponents

    def of_kind(self, job: Job, kind: str) -> dict[str, np.ndarray]:
        inputs = self.inputs(job)
        if kind == UNIFORM:
            return inputs
        exponents = self.exponents(job, kind) or {}
        return {
            name: with_kind(
                kind, values, self.dtype(job, name), exponents.get(name, 0), self.specials
            )
            for name, values in inputs.items()
        }

    def bound_of_kind(self, job: Job, name: str, kind: str, bound: Tolerance) -> Tolerance:
        """Return the tolerance of an output of inputs of a kind, from that of uniform ones."""
        return bound

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        """Return what each output must hold, in float64 and with its dimensions, from `inputs`."""
        raise NotImplementedError(f"{self.name} has no reference")

    def products(self, job: Job) -> Sequence[Product]:
        """Return the reference as matrix products of a, b and c; empty where it is none."""
        return ()

    def tolerance(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> Tolerance:
        """Return the tolerance of an output; by default it must be equal."""
        return Tolerance()

    def output(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> JudgedOutput:
        return JudgedOutput(
            name=name,
            extents=self.extents(job, name),
            order=self.order(job, name),
            bound=self.tolerance(job, name, alpha, beta),
            whole=DTYPES[self.dtype(job, name)].whole,
            scaled=(alpha, beta) if self.scalars else None,
            read=job.reads_c is True,
            given=self.given(job, name, beta),
        )

    def judge(
        self,
        job: Job,
        outputs: Arrays,
        given: Arrays | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        executed: Executed | None = None,
        kind: str = UNIFORM,
    ) -> Judgement:
        """Judge the outputs of a launch, with padding; the worst decides. *Not checked* without a reference.
        given: values of `of_kind`, if the caller has them. executed: executes a reference kernel."""
        given = self.of_kind(job, kind) if given is None else given
        if self.kernel is not None and executed is not None:
            bare = {at: self.without_padding(job, at, memory) for at, memory in outputs.items()}
            stated = type(self).tolerance is not Operation.tolerance
            return kernel_reference.judge(self, job, bare, given, executed, stated=stated)
        if type(self).reference is Operation.reference:
            return Judgement(result.NOT_CHECKED, f"the operation {self.name} has no reference")
        with np.errstate(invalid="ignore"):
            want = self.reference(job, given, alpha, beta)

        def output(name: str) -> JudgedOutput:
            usual = self.output(job, name, alpha, beta)
            bound = self.bound_of_kind(job, name, kind, usual.bound)
            if self.rounded:
                bound = kernel_reference.rounding(self, job, name, want[name])
            return replace(usual, bound=bound, special=kind == SPECIAL)

        def compared(name: str, wanted: np.ndarray) -> Judgement:
            got = self.without_padding(job, name, outputs[name])
            expected = wanted.ravel(order=self.order(job, name))
            if self.rounded:  # neither has a value there
                neither, pair = np.isnan(expected) & unset(got), (got, expected)
                got, expected = (np.where(neither, 0, of).astype(of.dtype) for of in pair)
            return compare(output(name), got, expected, self.dtype(job, name))

        judged = [(name, wanted) for name, wanted in want.items() if wanted is not None]
        if not judged:
            return Judgement(result.NOT_CHECKED, f"the reference of {self.name} judges no output")
        return Judgement.worst(itertools.starmap(compared, judged))

    def judge_large(
        self, job: Job, outputs: Arrays, given: Arrays, alpha: float = 1.0, beta: float = 0.0
    ) -> Judgement:
        """Judge a large output; subclasses do it at less cost than `reference`."""
        return self.judge(job, outputs, given, alpha, beta)

    def sentence(self, job: Job, runs: Sequence[tuple[float, float]], kind: str = UNIFORM) -> str:
        scaled = ", ".join(f"({alpha:g}, {beta:g})" for alpha, beta in runs if self.scalars)
        numbers = f"{kind} numbers, seed {job.seed}"
        return f"{numbers}; (alpha, beta) = {scaled}" if scaled else numbers

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        """Return operations and compulsory bytes; by default no operation, and each array moved once."""
        first = next(iter(dtypes.values()), "")
        moved = 0
        for name, operand in self.operands.items():
            passes = operand.given + operand.written
            moved += passes * math.prod(operand.sizes(shape)) * SIZES[dtypes.get(name) or first]
        return Work(0, moved)
