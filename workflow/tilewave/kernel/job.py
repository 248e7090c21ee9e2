"""Jobs: one stage of a case, with all that it needs. `pipeline.jobs` makes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tilewave.basics.validation import of_document
from tilewave.kernel.expressions import Expression, evaluate
from tilewave.kernel.launches import Argument, LaunchPlan, Provider


@dataclass(frozen=True)
class BlockTiming:
    """Milliseconds of a block of launches, and the least number of rounds of blocks."""

    block_ms: float
    rounds: int


@dataclass(frozen=True)
class ProbeBuffer:
    """A probe's buffer. expect: expression for its elements afterwards; report: metric and unit of its figure."""

    dtype: str
    size: Expression
    expect: Expression | None = None
    report: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Probe:
    """A probe's buffers, and the expressions of its case for their elements and sizes, for scalar arguments
    and macros. All expressions may use the macros."""

    buffers: Mapping[str, ProbeBuffer]
    macros: Mapping[str, Expression] = field(default_factory=dict)
    values: Mapping[str, Expression] = field(default_factory=dict)
    sizes: Mapping[str, Expression] = field(default_factory=dict)
    scalars: Mapping[str, Expression] = field(default_factory=dict)

    @property
    def reports(self) -> bool:
        """True if its buffers hold a measurement, which other work on the GPU would disturb."""
        return any(buffer.report for buffer in self.buffers.values())

    def names(self, *scopes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the names for its expressions: these scopes, the case's macros and its scalars."""
        names = {name: scope[name] for scope in (*scopes, self.macros) for name in scope}
        for name, text in self.scalars.items():
            names[name] = evaluate(text, names)
        return names

    def document(self) -> dict[str, Any]:
        """Return the probe as a job's key has it."""
        case = {name: value for name, value in vars(self).items() if name != "buffers"}
        return {"buffers": self.buffers, "case": case}


@dataclass(frozen=True)
class Job:
    """A stage of a case, as a worker gets it in JSON (`write_jobs`, `read_jobs`).

    stage: one of `kernel.result.STAGES`. entry: the kernel's symbol, or the Python function's name. Of several
    launches, entry and arguments are those of the leading one (see `steps`). arguments: names of buffers, tensor maps,
    sizes, scalars, alpha and beta, numbers, and None for null pointers, in the kernel's order. clock_control,
    cache_control: options of ncu. key: see `records.keys`. code: digest of the cubin's code, or of a host kernel's
    source. cubin: its path, empty where nothing was compiled; no_cubin then holds the reason."""

    stage: str
    case: str
    kernel: str
    variant: str
    provider: Provider
    operation: str
    source: str
    entry: str
    arguments: tuple[Argument, ...]
    shape: Mapping[str, int]
    dtypes: Mapping[str, str]
    layouts: Mapping[str, str]  # of a product
    seed: int
    launch: LaunchPlan
    limit_s: float
    timing: BlockTiming
    clock_control: str
    cache_control: str
    key: str = ""
    code: str = ""
    cubin: str = ""
    no_cubin: str = ""
    # Device attributes that arguments or a probe's expressions use; the instruction of a probe that is counted.
    probe: Probe | None = None
    device: Mapping[str, Any] = field(default_factory=dict)
    instruction: str | None = None
    # Stage time: whether it is paired with cuBLAS, or with another kernel of the same operands; a probe's
    # operations and bytes.
    baseline: bool = False
    rival: Job | None = None
    work: Mapping[str, float] = field(default_factory=dict)
    # Stage tune: its tuning run.
    group: str = ""
    # Stage counters: ncu's metrics and sections.
    metrics: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    # Folders of its headers besides the kernel file's folder, for the lines of code.
    include: tuple[str, ...] = ()
    # Of the stage execute: `execution.version`, and whether accesses to shared memory are kept.
    versions: tuple[int, ...] = ()
    watch: bool = False
    operation_code: str = ""  # digest of the file of a user's operation
    # Strides of operands in elements, by name (`lda`), where front matter gives them.
    strides: Mapping[str, int] = field(default_factory=dict)
    # Of a product: whether it reads C even where beta is 0; "adds" if its beta is 1.
    reads_c: bool | str = False
    # Of a product that is judged: whether its code has instructions of the tensor cores, where known.
    tensor_cores: bool | None = None

    @property
    def steps(self) -> tuple[Self, ...]:
        """Launches of the case in their order, each as a job of one launch."""
        return tuple(
            replace(self, entry=step.entry, arguments=step.arguments, launch=launch)
            for step, launch in zip(self.launch.series, self.launch.steps)
        ) or (self,)

    @property
    def leading(self) -> int:
        """Index of the leading launch among the `steps`. Figures that are no sum are its figures."""
        return next(at for at, step in enumerate(self.steps) if step.entry == self.entry)

    @property
    def numbers(self) -> dict[str, Expression]:
        """Sizes and a probe's scalars: whole numbers that an argument may be."""
        if self.probe is None:
            return dict(self.shape)
        names = self.probe.names(self.device)
        return {**self.shape, **{name: names[name] for name in self.probe.scalars}}


def write_jobs(path: Path, jobs: Iterable[Job]) -> None:
    path.write_text(json.dumps(list(jobs), default=vars), encoding="utf-8")


def read_jobs(path: Path) -> list[Job]:
    return [of_document(Job, document) for document in json.loads(path.read_bytes())]
