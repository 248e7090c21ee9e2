"""Does a kernel compute what its operation says? One case, one result with a verdict.

Matrix products are compared on the device with a float64 product of the same rounded inputs, the
other operations on the host. Outputs are poisoned (NaN) before each run, every buffer lies between
guard bands that must be intact afterwards, and a product runs with (alpha, beta) = (1, 0) and,
where the kernel takes them, with (0.75, -0.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewave import operations
from tilewave.gpu import Job, Result, figure, result
from tilewave.gpu.device import CudaError
from tilewave.gpu.launch import NvrtcKernel, Session, cpu_function, cpu_matrices
from tilewave.gpu.memory import Buffer, Memory, matrix_bytes
from tilewave.gpu.reference import STREAMS, Comparison
from tilewave.inputs import storage, to_float64, uniform
from tilewave.operations.matmul import Tolerance, tolerance

ALPHA, BETA = 0.75, -0.5  # exact in every dtype
HOST_PRODUCT = 1 << 24
"""m n k up to which the device's reference is itself compared with numpy."""

Prepared = Callable[[dict[str, int], float, float], Callable[[], None]]


@dataclass(frozen=True)
class _Run:
    """One product beside its reference."""

    alpha: float
    beta: float
    label: str
    bound: Tolerance
    found: Comparison
    typical: float  # tolerance of an element of typical size
    reason: str

    @property
    def correct(self) -> bool:
        # Written so that NaN is wrong.
        return self.found.wrong == 0 and self.found.relative_error <= self.bound.frobenius

    @property
    def badness(self) -> tuple[bool, float]:
        return not self.correct, self.found.max_error / self.typical


def check(session: Session | None, job: Job) -> Result:
    """Check one case. `session` may be None for the CPU provider.

    Raises CudaError for what the kernel did to the GPU, cublaslt.Unavailable without cuBLASLt.
    """
    if job["provider"] == "cpu":
        return _check_cpu(job)
    if session is None:
        raise ValueError("a GPU case needs a session")
    if job["operation"] == "matmul":
        return _check_product(session, job)
    return _check_on_host(session, job)


def scalars(job: Job) -> list[tuple[float, float]]:
    """The (alpha, beta) that a job is checked with."""
    names = job["arguments"] or ["alpha", "beta"]
    second = (ALPHA if "alpha" in names else 1.0, BETA if "beta" in names else 0.0)
    if job["provider"] != "nvrtc":
        second = (ALPHA, BETA)
    return [(1.0, 0.0)] + ([second] if second != (1.0, 0.0) else [])


def _implementations(
    session: Session, job: Job, close: list[Callable[[], None]]
) -> Iterator[tuple[str, Prepared]]:
    """Label and prepare function of all that must be right: one kernel, or every algorithm."""
    if job["provider"] == "nvrtc":
        kernel = NvrtcKernel(session.gpu, job)
        close.append(kernel.close)
        yield "", kernel.prepare
        return
    from tilewave.gpu.cublaslt import Plan

    plan = Plan(session.cublaslt, job["shape"], job["dtypes"], job.get("layouts", {}))
    close.append(plan.close)
    for rank, algorithm in enumerate(plan.algorithms):

        def prepare(
            pointers: dict[str, int], alpha: float, beta: float, which: bytes = algorithm
        ) -> Callable[[], None]:
            return plan.prepare(pointers, alpha, beta, which)

        yield f"algorithm {rank}", prepare


def _check_product(session: Session, job: Job) -> Result:
    gpu, support = session.gpu, session.support
    shape, dtypes = dict(job["shape"]), job["dtypes"]
    runs: list[_Run] = []
    close: list[Callable[[], None]] = []
    with Memory(gpu) as memory:
        buffers = {
            name: memory.new(name, matrix_bytes(shape, dtypes, name)) for name in ("a", "b", "c")
        }
        pointers = {name: buffer.pointer for name, buffer in buffers.items()}
        for name in ("a", "b"):
            support.fill(buffers[name], dtypes[name], int(job["seed"]), STREAMS[name])
        try:
            for label, prepare in _implementations(session, job, close):
                for alpha, beta in scalars(job):
                    if beta:
                        support.fill(buffers["c"], dtypes["c"], int(job["seed"]), STREAMS["c"])
                    want = _reference(session, job, pointers, alpha, beta)
                    if not beta:
                        buffers["c"].poison()
                    prepare(pointers, alpha, beta)()
                    gpu.sync()
                    if broken := _broken_guards(buffers):
                        return result(job, "check", "invalid access", broken, verdict="wrong")
                    runs.append(_compare(session, job, buffers["c"], want, alpha, beta, label))
        finally:
            for function in close:
                function()
    worst = max(runs, key=lambda run: run.badness)
    return _verdict(job, worst, {"algorithms_checked": len(runs) // len(scalars(job))})


def _broken_guards(buffers: dict[str, Buffer]) -> str:
    return "; ".join(filter(None, (buffer.broken_guard() for buffer in buffers.values())))


def _reference(
    session: Session, job: Job, pointers: dict[str, int], alpha: float, beta: float
) -> Buffer:
    """The float64 product, computed once for the same inputs; small ones are themselves checked."""
    shape, dtypes, layouts = dict(job["shape"]), job["dtypes"], dict(job.get("layouts", {}))
    used = {name: (dtypes[name], layouts.get(name, "row")) for name in "abc"}
    if not beta:
        used["c"] = ("", used["c"][1])
    key = (*sorted(shape.items()), *used.items(), int(job["seed"]), alpha, beta)
    want, fresh = session.support.product(key, pointers, shape, dtypes, layouts, alpha, beta)
    if fresh and math.prod(shape.values()) <= HOST_PRODUCT:
        host = _host_reference(job, alpha, beta)
        order: Any = "F" if layouts.get("c") == "col" else "C"
        error = np.abs(want.download(np.dtype(np.float64)) - host.ravel(order))
        bound = 1e-14 * (1 + shape["k"])
        if not bool(np.all(error <= bound)):
            raise CudaError(
                "REFERENCE_ERROR",
                f"the device's float64 product differs from numpy's by {np.max(error):.3g}, "
                f"allowed {bound:.3g}",
            )
    return want


def _host_reference(job: Job, alpha: float, beta: float) -> np.ndarray:
    shape = job["shape"]
    matrices = {}
    for name, sizes in (("a", "mk"), ("b", "kn"), ("c", "mn")):
        rows, columns = (int(shape[size]) for size in sizes)
        dtype = job["dtypes"][name]
        data = uniform(int(job["seed"]), STREAMS[name], rows * columns, dtype)
        order: Any = "F" if job.get("layouts", {}).get(name) == "col" else "C"
        matrices[name] = to_float64(data, dtype).reshape((rows, columns), order=order)
    product = alpha * (matrices["a"] @ matrices["b"])
    return product + beta * matrices["c"] if beta else product


def _typical(shape: dict[str, int], alpha: float) -> float:
    """Standard deviation of an element of alpha A B for inputs with variance 1/3."""
    return abs(alpha) * math.sqrt(shape["k"]) / 3


def _compare(
    session: Session,
    job: Job,
    got: Buffer,
    want: Buffer,
    alpha: float,
    beta: float,
    label: str,
) -> _Run:
    shape, dtype = dict(job["shape"]), job["dtypes"]["c"]
    bound = tolerance(job["dtypes"], int(shape["k"]), alpha, beta)
    typical = _typical(shape, alpha)
    count = shape["m"] * shape["n"]
    found = session.support.compare(
        got, dtype, want, bound.relative_out, bound.absolute, math.sqrt(count) * typical
    )
    reason = ""
    if found.wrong:
        value = to_float64(got.item(storage(dtype), found.first), dtype)[0]
        expected = want.item(np.dtype(np.float64), found.first).view(np.float64)[0]
        column_major = job.get("layouts", {}).get("c") == "col"
        second, first = divmod(found.first, shape["m"] if column_major else shape["n"])
        row, column = (first, second) if column_major else (second, first)
        unwritten = " (never written)" if math.isnan(value) and not beta else ""
        reason = (
            f"{found.wrong} of {count} elements are wrong with alpha = {alpha:g}, beta = {beta:g}; "
            f"C[{row}, {column}] is {value:.6g}{unwritten}, expected {expected:.6g}"
        )
    elif not found.relative_error <= bound.frobenius:
        reason = (
            f"relative error {found.relative_error:.3g} of the whole product (Frobenius) with "
            f"alpha = {alpha:g}, beta = {beta:g} exceeds {bound.frobenius:.3g}"
        )
    if reason and label:
        reason = f"{label}: {reason}"
    tolerated = bound.absolute + bound.relative_out * typical
    return _Run(alpha, beta, label, bound, found, tolerated, reason)


def _verdict(job: Job, worst: _Run, notes: dict[str, Any]) -> Result:
    """The result of the run that came nearest to its tolerance, or went farthest past it."""
    figures = [
        figure("max_error", worst.found.max_error, ""),
        figure("tolerance", worst.typical, ""),
        figure("relative_error", worst.found.relative_error, ""),
    ]
    notes |= {
        "alpha": worst.alpha,
        "beta": worst.beta,
        "wrong_elements": worst.found.wrong,
        "relative_tolerance": worst.bound.frobenius,
    }
    verdict = "correct" if worst.correct else "wrong"
    return result(job, "check", "ok", worst.reason, verdict=verdict, figures=figures, notes=notes)


def host_buffers(
    memory: Memory, job: Job
) -> tuple[dict[str, Buffer], dict[str, np.ndarray], dict[str, tuple[np.dtype, int]]]:
    """Buffers of an operation with host data, its inputs, and its outputs' dtype and size."""
    operation = operations.load(job["operation"], job.get("source", "job"))
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
    operation = operations.load(job["operation"], job.get("source", "job"))
    kernel = NvrtcKernel(session.gpu, job)
    try:
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
    return result(job, "check", "ok", reason, verdict=verdict, figures=list(figures))


def _check_cpu(job: Job) -> Result:
    """A CPU baseline against numpy's float64 product."""
    shape = {name: int(size) for name, size in job["shape"].items()}
    function = cpu_function(job)
    runs = []
    for alpha, beta in scalars(job):
        matrices = cpu_matrices(job, shape)
        want = alpha * (matrices["a"].astype(np.float64) @ matrices["b"].astype(np.float64))
        if beta:
            want += beta * matrices["c"]
        else:
            matrices["c"].fill(np.nan)
        function(matrices["a"], matrices["b"], matrices["c"], alpha, beta)
        bound = tolerance(job["dtypes"], shape["k"], alpha, beta)
        error = np.abs(matrices["c"].astype(np.float64) - want)
        bad = ~(error <= bound.absolute + bound.relative_out * np.abs(want))
        typical = _typical(shape, alpha)
        norm = max(float(np.linalg.norm(want)), math.sqrt(want.size) * typical)
        wrong, first = int(bad.sum()), int(np.argmax(bad)) if bad.any() else -1
        relative = float(np.linalg.norm(np.nan_to_num(error))) / norm
        found = Comparison(float(np.nanmax(error, initial=0.0)), relative, wrong, first)
        reason = f"{wrong} of {want.size} elements are wrong" if wrong else ""
        if not wrong and not relative <= bound.frobenius:
            reason = f"relative error {relative:.3g} (Frobenius) exceeds {bound.frobenius:.3g}"
        tolerated = bound.absolute + bound.relative_out * typical
        runs.append(_Run(alpha, beta, "", bound, found, tolerated, reason))
    return _verdict(job, max(runs, key=lambda run: run.badness), {})
