"""The check of a kernel's output: on the device where the reference consists of matrix products, else on the
host. Outputs are poisoned (NaN) before each launch; every buffer's guard bands must be intact after it."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.compiling import sass
from tilewave.gpu.buffers import DeviceBuffer, DeviceMemory
from tilewave.gpu.cpu_kernels import cpu_arrays, cpu_function
from tilewave.gpu.cublaslt import ProductPlan
from tilewave.gpu.device import CudaError
from tilewave.gpu.launch import NvrtcKernel
from tilewave.gpu.operands import fill, gather, scratch, sizes, without_padding
from tilewave.gpu.session import Session
from tilewave.kernel import operations, tolerance
from tilewave.kernel.inputs import storage, to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.operations.base import Product
from tilewave.kernel.operations.matmul import may_use_tensor_cores
from tilewave.kernel.result import Result
from tilewave.kernel.tolerance import Judgement
from tilewave.records.counters.figures import figure
from tilewave.theory.dtypes import DTYPES

HOST_PRODUCT = 1 << 24
"""Largest m n k for which the device's reference is compared with numpy."""

COMPARED = 1 << 28
"""Largest operand, in bytes, that is copied to see whether a launch changes it."""

Prepared = Callable[[dict[str, int], float, float], Callable[[], None]]
Buffers = dict[str, DeviceBuffer]
Scalars = tuple[float, float]
"""alpha and beta of a launch."""


def check(session: Session | None, job: Job) -> Result:
    """Check one case: launch with every (alpha, beta) of the operation, and judge the outputs.
    `session` may be None for the CPU provider. Raises CudaError, cublaslt.Unavailable."""
    if job.provider == "cpu":
        return _check_cpu(job)
    assert session is not None
    operation = operations.load(job.operation, job.source)
    if job.provider == "nvrtc" and may_use_tensor_cores(job.dtypes):
        entries = [step.entry for step in job.steps]
        job = replace(job, tensor_cores=_on_tensor_cores(job.cubin, *entries))
    judgements: list[Judgement] = []
    figures: list[dict[str, Any]] = []
    with DeviceMemory(session.gpu) as memory, contextlib.ExitStack() as stack:
        wanted = sizes(job)
        inputs = [name for name in operation.read_only(job) if wanted[name] <= COMPARED]
        kept = {f"{name} before": wanted[name] for name in inputs}
        allocated = session.kept.of_sizes(wanted | kept)
        arrays = {name: allocated[name] for name in wanted}
        copies = [(arrays[name], allocated[copy]) for name, copy in zip(inputs, kept)]
        rewritten = {name: buffer for name, buffer in arrays.items() if name not in inputs}
        for buffer in arrays.values():
            buffer.set_guards()
        dense = without_padding(memory, job, arrays)
        buffers = arrays | scratch(memory, job)
        pointers = {name: buffer.pointer for name, buffer in buffers.items()}
        for label, prepare in _implementations(session, job, stack, figures):
            for scalars in operation.runs(job):
                fill(session, job, rewritten if judgements else arrays, scalars[1])
                for buffer, copy in [] if judgements else copies:  # equal after each later launch
                    copy.copy_from(buffer)
                gather(job, arrays, dense)
                judge = _judge(session, job, arrays, dense, scalars, label)
                prepare(pointers, *scalars)()
                before: dict[str, np.ndarray] = {}
                if not session.support.unharmed(buffers.values(), copies):
                    bands = (buffer.broken_guard() for buffer in buffers.values())
                    if broken := "; ".join(filter(None, bands)):
                        return Result.of_job(job, "invalid access", broken, verdict="wrong")
                    before = {buffer.name: _bytes(copy) for buffer, copy in copies}
                if changed := operation.changed(job, lambda name: _bytes(buffers[name]), before):
                    return Result.of_job(job, "ok", changed, verdict="wrong")
                judgements.append(judge())
    return _result(job, judgements, figures)


def _implementations(
    session: Session, job: Job, stack: contextlib.ExitStack, figures: list[dict[str, Any]]
) -> Iterator[tuple[str, Prepared]]:
    """Yield label and prepare function of each implementation: one kernel, or every algorithm."""
    if job.provider == "nvrtc":
        kernel = NvrtcKernel(session.gpu, job)
        stack.callback(kernel.close)
        figures.append(figure("driver_blocks_per_sm", kernel.blocks_per_sm(), "block"))
        yield "", kernel.prepare
        return
    plan = stack.enter_context(ProductPlan(session.cublaslt, job.shape, job.dtypes, job.layouts))
    for rank, algorithm in enumerate(plan.algorithms):
        yield f"algorithm {rank}", functools.partial(plan.prepare, algorithm=algorithm)


@functools.cache
def _on_tensor_cores(cubin: str, *entries: str) -> bool | None:
    return sass.on_tensor_cores(sass.of_cubin(Path(cubin)), *entries)


def _judge(
    session: Session, job: Job, arrays: Buffers, dense: Buffers, scalars: Scalars, label: str
) -> Callable[[], Judgement]:
    """Return a function that judges the next launch's outputs from the present operands. dense: without padding."""
    operation = operations.load(job.operation, job.source)
    if products := operation.products(job):
        want = _reference(session, job, products, dense, scalars)

        def compare() -> Judgement:
            gather(job, arrays, dense)
            return _compare(session, job, dense["c"], want, scalars, label)

        return compare

    # Copying them back is faster than generating them again.
    given = {name: of for name, of in dense.items() if operation.given(job, name, scalars[1])}
    inputs = {name: of.download(operation.stored(job, name)[0]) for name, of in given.items()}

    def judge() -> Judgement:
        outputs = {
            name: arrays[name].download(operation.stored(job, name)[0])
            for name in operation.outputs(job)
        }
        return operation.judge(job, outputs, inputs, *scalars, kernel_reference.executed)

    return judge


def _bytes(buffer: DeviceBuffer) -> np.ndarray:
    return buffer.download(np.dtype(np.uint8))


def _reference(
    session: Session, job: Job, products: Sequence[Product], arrays: Buffers, scalars: Scalars
) -> DeviceBuffer:
    """Return the float64 products, computed once for the same inputs; small ones are checked with numpy."""
    operation, dtypes, layouts = operations.load(job.operation, job.source), job.dtypes, job.layouts
    used = {name: (dtypes[name], layouts.get(name, "row")) for name in arrays}
    if not scalars[1]:
        used["c"] = ("", used["c"][1])
    key = (job.operation, *sorted(job.shape.items()), *used.items(), job.seed, *scalars)
    widths = {name: DTYPES[dtypes[name]].size for name in arrays}

    def compute(out: int) -> None:
        for product in products:
            starts = {name: product.starts.get(name, 0) * width for name, width in widths.items()}
            pointers = {name: arrays[name].pointer + start for name, start in starts.items()}
            begin = out + 8 * product.starts.get("c", 0)
            session.support.multiply(begin, pointers, product.shape, dtypes, layouts, *scalars)

    count = math.prod(operation.extents(job, "c"))
    want, fresh = session.support.reference(key, count, compute)
    if fresh and math.prod(job.shape.values()) <= HOST_PRODUCT:
        host = operation.reference(job, operation.inputs(job), *scalars)["c"]
        flat = host.ravel(order=operation.order(job, "c"))
        error = np.abs(want.download(np.dtype(np.float64)) - flat)
        bound = 1e-14 * (1 + job.shape["k"])
        if not bool(np.all(error <= bound)):
            detail = f"by {np.max(error):.3g}, allowed {bound:.3g}"
            problem = f"the device's float64 product differs from numpy's {detail}"
            raise CudaError("REFERENCE_ERROR", problem)
    return want


def _compare(
    session: Session, job: Job, got: DeviceBuffer, want: DeviceBuffer, scalars: Scalars, label: str
) -> Judgement:
    dtype = job.dtypes["c"]
    output = operations.load(job.operation, job.source).output(job, "c", *scalars)
    bound = output.bound
    limits = bound.relative_out, bound.absolute, output.least_norm
    comparison = session.support.compare(got, dtype, want, *limits)
    value = expected = math.nan
    if comparison.wrong:
        value = float(to_float64(got.item(storage(dtype), comparison.first), dtype)[0])
        expected = float(want.item(np.dtype(np.float64), comparison.first).view(np.float64)[0])
    return tolerance.judged(output, comparison, value, expected, label)


def _result(
    job: Job, judgements: list[Judgement], measured: Sequence[dict[str, Any]] = ()
) -> Result:
    """Return the result of the launch with the largest error relative to its tolerance."""
    worst, operation = Judgement.worst(judgements), operations.load(job.operation, job.source)
    notes = {"inputs": operation.sentence(job, operation.runs(job)), **worst.notes}
    figures, verdict = [*worst.figures, *measured], worst.verdict
    return Result.of_job(job, "ok", worst.reason, verdict=verdict, figures=figures, notes=notes)


def _check_cpu(job: Job) -> Result:
    operation = operations.load(job.operation, job.source)
    function = cpu_function(job.source, job.entry)
    judgements = []
    for alpha, beta in operation.runs(job):
        inputs = operation.inputs(job)
        arrays = cpu_arrays(job, {name: data.copy() for name, data in inputs.items()})
        for name in arrays:
            if not operation.given(job, name, beta):
                arrays[name].fill(np.nan)
        function(*arrays.values(), alpha, beta)
        after = {name: of.ravel(order=operation.order(job, name)) for name, of in arrays.items()}
        before = {name: inputs[name] for name in operation.read_only(job)}
        if changed := operation.changed(job, after.get, before):
            return Result.of_job(job, "ok", changed, verdict="wrong")
        outputs = {name: after[name] for name in operation.outputs(job)}
        judge = operation.judge
        judgements.append(judge(job, outputs, inputs, alpha, beta, kernel_reference.executed))
    return _result(job, judgements)
