"""What an operation is: its arrays, their inputs, the reference, the tolerance, the work.

An operation is a class of this kind in a module of its own: in this package, or in a folder that the
config names (`operation_folders`). Where a kernel runs, on the GPU or executed here, is not its business.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from tilewave.kernel import result
from tilewave.kernel.inputs import storage, to_float64, uniform
from tilewave.kernel.job import Job
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.operations.kernel_reference import Arrays as Arrays
from tilewave.kernel.operations.kernel_reference import Executed as Executed
from tilewave.kernel.padding import Placement, stride_names
from tilewave.kernel.tolerance import JudgedOutput, Judgement, Tolerance, compare, left_dirty
from tilewave.theory.dtypes import DTYPES, SIZES


class Work(NamedTuple):
    """Floating-point operations, and bytes that must move at least once (compulsory traffic)."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Operand:
    """An array of an operation.

    extents: its dimensions by name, or numbers, the outermost of a row-major array first. stream: of its
    random elements (`inputs.uniform`), None where it has none before the launch. written: whether it is
    an output. zeroed: whether it is zero before each checked launch, as what atomics add to.
    """

    extents: tuple[str | int, ...]
    stream: int | None = None
    written: bool = False
    zeroed: bool = False

    @property
    def given(self) -> bool:
        """Whether it has values before a launch."""
        return self.stream is not None or self.zeroed

    def sizes(self, shape: Mapping[str, int]) -> tuple[int, ...]:
        """Its extents at a shape."""
        return tuple(
            extent if isinstance(extent, int) else shape[extent] for extent in self.extents
        )


@dataclass(frozen=True)
class Product:
    """A matrix product that is an operation's reference, for whoever computes it on a GPU: sizes, and
    the element of each operand at which its matrix begins."""

    shape: Mapping[str, int]
    starts: Mapping[str, int] = field(default_factory=dict)


class Operation:
    """One operation. What most have in common is here; each says what is its own."""

    name: ClassVar[str] = ""
    dimensions: ClassVar[tuple[str, ...]] = ()
    """Names of the sizes, in the order of a case id."""
    operands: ClassVar[Mapping[str, Operand]] = {}
    scalars: ClassVar[tuple[str, ...]] = ()
    """Of alpha and beta those that a launch may take."""
    needs_dtypes: ClassVar[tuple[str, ...]] = ()
    """What front matter must give a dtype."""
    laid_out: ClassVar[bool] = False
    """Whether its arrays may be column-major (`layouts`)."""
    tiles: ClassVar[tuple[str, ...]] = ()
    """The dimensions that a block's `tile` is of."""
    vendor: ClassVar[str] = ""
    """Provider of the library that it is timed beside."""
    kernel: ClassVar[Path | None] = None
    """A kernel file that is the reference, where no `reference` is."""
    rehearsed: ClassVar[bool] = True
    """Whether a launch goes before the one whose counters are collected."""

    def allowed_dtypes(self, name: str, dtypes: Mapping[str, str]) -> tuple[str, ...]:
        """What `dtypes` may say of one that it needs, beside the others."""
        return tuple(DTYPES)

    # ------------------------------------------------------------------------------------- its arrays

    def stride_names(self) -> list[str]:
        """Names of the strides that front matter may give, in order."""
        ranks = {name: len(operand.extents) for name, operand in self.operands.items()}
        return [word for name, rank in ranks.items() for word in stride_names(name, rank)]

    def placement(
        self,
        name: str,
        shape: Mapping[str, int],
        layouts: Mapping[str, str],
        strides: Mapping[str, int],
    ) -> Placement:
        """Where the elements of one of `operands` lie, with those strides that are given."""
        extents = self.operands[name].sizes(shape)
        order: Literal["C", "F"] = "F" if self.laid_out and layouts.get(name) == "col" else "C"
        return Placement.of(name, extents, order, strides)

    def arrays(self, job: Job) -> Mapping[str, Operand]:
        """The operands of a job."""
        return self.operands

    def outputs(self, job: Job) -> list[str]:
        """The operands that a launch writes."""
        return [name for name, operand in self.arrays(job).items() if operand.written]

    def dtype(self, job: Job, name: str) -> str:
        """Dtype of an operand; one that front matter does not list has that of the first."""
        return job.dtypes.get(name) or next(iter(job.dtypes.values()))

    def extents(self, job: Job, name: str) -> tuple[int, ...]:
        """Sizes of an operand."""
        return self.arrays(job)[name].sizes(job.shape)

    def stored(self, job: Job, name: str) -> tuple[np.dtype[Any], int]:
        """numpy's dtype of an operand in memory, and its elements, padding and all."""
        padded = self.padded(job, name)
        count = padded.count if padded else math.prod(self.extents(job, name))
        return storage(self.dtype(job, name)), count

    def order(self, job: Job, name: str) -> Literal["C", "F"]:
        """numpy's word for an operand's layout."""
        return "F" if job.layouts.get(name) == "col" else "C"

    def padded(self, job: Job, name: str) -> Placement | None:
        """Where an operand's elements lie among padding; None where it has none."""
        if not job.strides:
            return None
        placement = self.placement(name, job.shape, job.layouts, job.strides)
        return placement if placement.count != placement.elements else None

    def in_memory(self, job: Job, name: str, values: np.ndarray) -> np.ndarray:
        """An operand of `inputs` as its memory holds it, with its padding."""
        padded = self.padded(job, name)
        return padded.put(values) if padded else values

    def without_padding(self, job: Job, name: str, memory: np.ndarray) -> np.ndarray:
        """The elements of an operand's memory, one behind the other."""
        padded = self.padded(job, name)
        return padded.take(memory) if padded else memory

    def changed(self, job: Job, read: Callable[[str], np.ndarray]) -> str:
        """Empty where a launch left alone what is not its to change, else a sentence: its outputs'
        padding, and scratch that must be zero. ``read`` gives a buffer's memory."""
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

    def wide(self, job: Job, name: str, flat: np.ndarray) -> np.ndarray:
        """The numbers of an operand of `inputs` in float64 and with its dimensions."""
        numbers = to_float64(flat, self.dtype(job, name))
        return numbers.reshape(self.extents(job, name), order=self.order(job, name))

    # ------------------------------------------------------------------------------------- its inputs

    def runs(self, job: Job) -> list[tuple[float, float]]:
        """The (alpha, beta) that a job is checked with, one launch each; the first is timed."""
        return [(1.0, 0.0)]

    def given(self, job: Job, name: str, beta: float = 0.0) -> bool:
        """Whether an operand has values before a launch; the others are poisoned."""
        return self.arrays(job)[name].given

    def streamed(self, job: Job, name: str) -> int | None:
        """The stream of uniform numbers that an operand holds, which a GPU makes itself; None where
        its values are others, as all are of an operation with `inputs` of its own."""
        kind = type(self)
        if kind.inputs is not Operation.inputs and kind.streamed is Operation.streamed:
            return None
        stream = self.arrays(job)[name].stream
        return stream if stream is not None and DTYPES[self.dtype(job, name)].made else None

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        """Values of the operands that may have some, of memory's dtype and one behind the other in
        memory's order: padding is none of them."""
        values = {}
        for name, operand in self.arrays(job).items():
            count, dtype = math.prod(self.extents(job, name)), self.dtype(job, name)
            if operand.zeroed:
                values[name] = np.zeros(count, storage(dtype))
            elif operand.stream is not None:
                of_words = dtype == "u8"
                drawn = uniform(job.seed, operand.stream, count, "u32" if of_words else dtype)
                values[name] = drawn.astype(storage(dtype)) if of_words else drawn
        return values

    # ---------------------------------------------------------------------------------- what is right

    def reference(
        self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0
    ) -> dict[str, np.ndarray]:
        """What each output must hold, in float64 and with its dimensions, from `inputs`."""
        raise NotImplementedError(f"{self.name} has no reference")

    def products(self, job: Job) -> Sequence[Product]:
        """The reference as matrix products of a, b and c; empty where it is something else."""
        return ()

    def tolerance(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> Tolerance:
        """How far an output may be from its reference; by default it must be equal."""
        return Tolerance()

    def output(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> JudgedOutput:
        """An output as it is judged."""
        return JudgedOutput(
            name=name,
            extents=self.extents(job, name),
            order=self.order(job, name),
            bound=self.tolerance(job, name, alpha, beta),
            whole=DTYPES[self.dtype(job, name)].whole,
            scaled=(alpha, beta) if self.scalars else None,
            read=job.reads_c,
        )

    def judge(
        self,
        job: Job,
        outputs: Arrays,
        given: Arrays | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        executed: Executed | None = None,
    ) -> Judgement:
        """Verdict on the outputs of a launch, which are as their memory holds them, padding and all.

        given: of `inputs`, where the caller has them. executed: of a reference that is a kernel. The output
        that is farthest off speaks; *not checked* where nothing says what is right.
        """
        given = self.inputs(job) if given is None else given
        if self.kernel is not None and executed is not None:
            bare = {
                name: self.without_padding(job, name, memory) for name, memory in outputs.items()
            }
            stated = type(self).tolerance is not Operation.tolerance
            return kernel_reference.judge(self, job, bare, given, executed, stated=stated)
        if type(self).reference is Operation.reference:
            return Judgement(result.NOT_CHECKED, f"nothing says what {self.name} must give")
        want = self.reference(job, given, alpha, beta)
        return Judgement.worst(
            compare(
                self.output(job, name, alpha, beta),
                self.without_padding(job, name, outputs[name]),
                wanted.ravel(order=self.order(job, name)),
                self.dtype(job, name),
            )
            for name, wanted in want.items()
        )

    # --------------------------------------------------------------------------------------- its work

    def work(self, shape: Mapping[str, int], dtypes: Mapping[str, str], beta: float = 0) -> Work:
        """Operations and compulsory bytes; by default none, and each array moved once."""
        first = next(iter(dtypes.values()), "")
        moved = 0
        for name, operand in self.operands.items():
            passes = operand.given + operand.written
            moved += passes * math.prod(operand.sizes(shape)) * SIZES[dtypes.get(name) or first]
        return Work(0, moved)
