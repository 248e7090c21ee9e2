"""Does a kernel compute what its operation says? One case, one result with a verdict.

Matrix products are compared on the device with a float64 product of the same rounded inputs, the
other operations on the host. Outputs are poisoned (NaN) before each run, every buffer lies between
guard bands that must be intact afterwards, and a product runs with (alpha, beta) = (1, 0) and,
where the kernel takes them, with (0.75, -0.5), or (2, -1) where sums are whole numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave import comparison, operations
from tilewave.comparison import STREAMS, Run, scalars
from tilewave.compiling import sass
from tilewave.counters.figures import figure
from tilewave.gpu.buffers import Buffer, Memory, matrix_bytes, scratch
from tilewave.gpu.device import CudaError
from tilewave.gpu.launch import NvrtcKernel, Session, cpu_function, cpu_matrices
from tilewave.inputs import storage, to_float64
from tilewave.jobs import Job
from tilewave.operations.matmul import may_use_tensor_cores
from tilewave.processes import Result, result

HOST_PRODUCT = 1 << 24
"""m n k up to which the device's reference is itself compared with numpy."""

Prepared = Callable[[dict[str, int], float, float], Callable[[], None]]


def check(session: Session | None, job: Job) -> Result:
    """Check one case. `session` may be None for the CPU provider.

    Raises CudaError for what the kernel did to the GPU, cublaslt.Unavailable without cuBLASLt.
    """
    if job.provider == "cpu":
        return _check_cpu(job)
    if session is None:
        raise ValueError("a GPU case needs a session")
    if job.operation == "matmul":
        return _check_product(session, job)
    return _check_on_host(session, job)


def _implementations(
    session: Session, job: Job, close: list[Callable[[], None]], figures: list[dict[str, Any]]
) -> Iterator[tuple[str, Prepared]]:
    """Label and prepare function of all that must be right: one kernel, or every algorithm.

    What is known of a kernel before it runs is appended to ``figures``.
    """
    if job.provider == "nvrtc":
        kernel = NvrtcKernel(session.gpu, job)
        close.append(kernel.close)
        figures.append(_fitting(kernel))
        yield "", kernel.prepare
        return
    from tilewave.gpu.cublaslt import Plan

    plan = Plan(session.cublaslt, job.shape, job.dtypes, job.layouts)
    close.append(plan.close)
    for rank, algorithm in enumerate(plan.algorithms):

        def prepare(
            pointers: dict[str, int], alpha: float, beta: float, which: bytes = algorithm
        ) -> Callable[[], None]:
            return plan.prepare(pointers, alpha, beta, which)

        yield f"algorithm {rank}", prepare


def _fitting(kernel: NvrtcKernel) -> dict[str, Any]:
    return figure("driver_blocks_per_sm", kernel.blocks_per_sm(), "block")


@functools.cache
def _on_tensor_cores(cubin: str, entry: str) -> bool | None:
    return sass.on_tensor_cores(sass.of_cubin(Path(cubin)), entry)


def _check_product(session: Session, job: Job) -> Result:
    if job.provider == "nvrtc" and may_use_tensor_cores(job.dtypes):
        job = replace(job, tensor_cores=_on_tensor_cores(job.cubin, job.entry))
    gpu, support, dtypes = session.gpu, session.support, job.dtypes
    runs: list[Run] = []
    figures: list[dict[str, Any]] = []
    close: list[Callable[[], None]] = []
    with Memory(gpu) as memory:
        sizes = {name: matrix_bytes(job, name) for name in "abc"}
        matrices = session.kept.sets(
            sizes, lambda kept: [{name: kept.new(name, sizes[name]) for name in sizes}]
        )[0]
        for buffer in matrices.values():
            buffer.set_guards()
        buffers = matrices | scratch(memory, job)
        pointers = {name: buffer.pointer for name, buffer in buffers.items()}
        for name in ("a", "b"):
            support.fill(buffers[name], dtypes[name], job.seed, STREAMS[name])
        try:
            for label, prepare in _implementations(session, job, close, figures):
                for alpha, beta in scalars(job):
                    if beta or job.reads_c:
                        support.fill(buffers["c"], dtypes["c"], job.seed, STREAMS["c"])
                    want = _reference(session, job, pointers, alpha, beta)
                    if not (beta or job.reads_c):
                        buffers["c"].poison()
                    prepare(pointers, alpha, beta)()
                    gpu.sync()
                    if broken := _broken_guards(buffers):
                        return result(job, "check", "invalid access", broken, verdict="wrong")
                    if dirty := comparison.left_dirty(job, lambda name: _bytes(buffers[name])):
                        return result(job, "check", "ok", dirty, verdict="wrong")
                    runs.append(_compare(session, job, buffers["c"], want, alpha, beta, label))
        finally:
            for function in close:
                function()
    more = {"algorithms_checked": len(runs) // len(scalars(job))}
    return _verdict(job, runs, more, figures)


def _bytes(buffer: Buffer) -> np.ndarray:
    return buffer.download(np.dtype(np.uint8))


def _broken_guards(buffers: dict[str, Buffer]) -> str:
    return "; ".join(filter(None, (buffer.broken_guard() for buffer in buffers.values())))


def _reference(
    session: Session, job: Job, pointers: dict[str, int], alpha: float, beta: float
) -> Buffer:
    """The float64 product, computed once for the same inputs; small ones are themselves checked."""
    shape, dtypes, layouts = job.shape, job.dtypes, job.layouts
    used = {name: (dtypes[name], layouts.get(name, "row")) for name in "abc"}
    if not beta:
        used["c"] = ("", used["c"][1])
    key = (*sorted(shape.items()), *used.items(), job.seed, alpha, beta)
    want, fresh = session.support.product(key, pointers, shape, dtypes, layouts, alpha, beta)
    if fresh and math.prod(shape.values()) <= HOST_PRODUCT:
        matrices = {name: comparison.matrix(job, name) for name in STREAMS}
        host = comparison.reference(job, matrices, alpha, beta)
        error = np.abs(want.download(np.dtype(np.float64)) - host.ravel(comparison.order(job, "c")))
        bound = 1e-14 * (1 + shape["k"])
        if not bool(np.all(error <= bound)):
            raise CudaError(
                "REFERENCE_ERROR",
                f"the device's float64 product differs from numpy's by {np.max(error):.3g}, "
                f"allowed {bound:.3g}",
            )
    return want


def _compare(
    session: Session,
    job: Job,
    got: Buffer,
    want: Buffer,
    alpha: float,
    beta: float,
    label: str,
) -> Run:
    dtype, least = job.dtypes["c"], comparison.least_norm(job.shape, alpha)
    bound = comparison.bound(job, alpha, beta)
    found = session.support.compare(got, dtype, want, bound.relative_out, bound.absolute, least)
    value = expected = math.nan
    if found.wrong:
        value = float(to_float64(got.item(storage(dtype), found.first), dtype)[0])
        expected = float(want.item(np.dtype(np.float64), found.first).view(np.float64)[0])
    return comparison.judged(job, found, alpha, beta, value, expected, label)


def _verdict(
    job: Job, runs: list[Run], more: dict[str, Any], known: Sequence[dict[str, Any]] = ()
) -> Result:
    """The result of the run that came nearest to its tolerance, or went farthest past it."""
    run = comparison.worst(runs)
    verdict, figures, notes = comparison.verdict(run)
    figures = [*figures, *known]
    return result(
        job, "check", "ok", run.reason, verdict=verdict, figures=figures, notes=more | notes
    )


def host_buffers(
    memory: Memory, job: Job
) -> tuple[dict[str, Buffer], dict[str, np.ndarray], dict[str, tuple[np.dtype, int]]]:
    """Buffers of an operation with host data, its inputs, and its outputs' dtype and size."""
    operation = operations.load(job.operation, job.source)
    given: dict[str, np.ndarray] = operation.inputs(job)
    produced: dict[str, tuple[np.dtype, int]] = {
        name: (np.dtype(dtype), int(size)) for name, (dtype, size) in operation.outputs(job).items()
    }
    sizes = {name: dtype.itemsize * size for name, (dtype, size) in produced.items()}
    sizes |= {name: data.nbytes for name, data in given.items()}
    buffers = {name: memory.new(name, nbytes) for name, nbytes in sizes.items()}
    for name, buffer in buffers.items():
        if name in given:
            buffer.upload(given[name])
        else:
            buffer.poison()
    return buffers, given, produced


def _check_on_host(session: Session, job: Job) -> Result:
    operation = operations.load(job.operation, job.source)
    kernel = NvrtcKernel(session.gpu, job)
    try:
        fitting = _fitting(kernel)
        with Memory(session.gpu) as memory:
            buffers, _, produced = host_buffers(memory, job)
            kernel.prepare({name: buffer.pointer for name, buffer in buffers.items()})()
            session.gpu.sync()
            if broken := _broken_guards(buffers):
                return result(job, "check", "invalid access", broken, verdict="wrong")
            outputs = {name: buffers[name].download(dtype) for name, (dtype, _) in produced.items()}
    finally:
        kernel.close()
    verdict, reason, figures = operation.judge(job, outputs)
    return result(job, "check", "ok", reason, verdict=verdict, figures=[*figures, fitting])


def _check_cpu(job: Job) -> Result:
    """A CPU baseline against numpy's float64 product."""
    function = cpu_function(job)
    runs = []
    for alpha, beta in scalars(job):
        matrices = cpu_matrices(job, job.shape)
        want = alpha * (matrices["a"].astype(np.float64) @ matrices["b"].astype(np.float64))
        if beta:
            want += beta * matrices["c"]
        else:
            matrices["c"].fill(np.nan)
        function(matrices["a"], matrices["b"], matrices["c"], alpha, beta)
        flat = matrices["c"].ravel(comparison.order(job, "c"))
        runs.append(comparison.compare(job, flat, want, alpha, beta))
    return _verdict(job, runs, {})
