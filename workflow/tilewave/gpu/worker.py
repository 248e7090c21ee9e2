"""The worker process, which alone uses the GPU: it runs jobs of one stage and reports each at once.

    python -m tilewave.gpu.worker STAGE JOBS.json --events FILE [--cache DIR] [--start N] [--done N,N]

STAGE is check, time, tune or counters; FILE: see `workers.events`.

Exit code 0: all jobs ran; POISONED: the last finished job destroyed the CUDA context, so the other jobs
need a new process; UNUSABLE: see the event "failed". It prints nothing to standard output and error.

In the stage counters each job is launched once inside the NVTX range `measure` of the domain `tilewave`, in the order
of the list, with nothing else in that range. In all stages a range of the domain `tilewave-job` is around each case:
its name, with the index as payload and the stage as category. A cuBLASLt product may be several kernels.

In the stage tune the jobs of one `group` are timed against each other: "started" names the running candidate and comes
many times, "finished" comes in the order in which they are dropped. After a crash --done has later jobs with a result.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from tilewave.basics.lifetime import die_with_parent
from tilewave.gpu.blocks import case_span, span
from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.check import check
from tilewave.gpu.cublaslt import ProductPlan
from tilewave.gpu.device import CudaError, cuda_errors, gpu_lock, open_gpu
from tilewave.gpu.failure import failure
from tilewave.gpu.launch import NvrtcKernel
from tilewave.gpu.operands import fill, scratch, sizes
from tilewave.gpu.session import Session
from tilewave.gpu.timing import time_job
from tilewave.gpu.tuning_run import GpuTrack, run_groups
from tilewave.kernel import operations
from tilewave.kernel.job import Job, read_jobs
from tilewave.kernel.result import Result
from tilewave.workers.events import Events

POISONED = 86
UNUSABLE = 87


def _count(session: Session | None, job: Job, index: int) -> Result:
    """Launch a job once for Nsight Compute."""
    if session is None:
        return Result.of_job(job, "unsupported", "CPU code has no GPU counters")
    gpu = session.gpu
    with contextlib.ExitStack() as stack:
        memory = stack.enter_context(DeviceMemory(gpu))
        buffers = dict(session.kept.of_sizes(sizes(job)))
        fill(session, job, buffers)
        buffers |= scratch(memory, job)
        pointers = {name: buffer.pointer for name, buffer in buffers.items()}
        if job.provider == "cublaslt":
            product = ProductPlan(session.cublaslt, job.shape, job.dtypes, job.layouts)
            plan = stack.enter_context(product)
            launch = plan.prepare(pointers, algorithm=plan.remembered(session.cache))
        else:
            kernel = NvrtcKernel(gpu, job, session.module(job))
            stack.callback(kernel.close)
            launch = kernel.prepare(pointers)
        if operations.load(job.operation, job.source).rehearsed:
            with span("warmup"):
                launch()
        gpu.sync()
        with span("measure"):
            launch()
            gpu.sync()
    return Result.of_job(job, notes={"order": index})


def run_job(stage: str, session: Session | None, job: Job, index: int) -> tuple[Result, bool]:
    """Return a job's result, also after an error, and whether the process can continue."""
    try:
        with cuda_errors():
            if stage == "check":
                return check(session, job), True
            if stage == "time":
                return time_job(session, job), True
            return _count(session, job, index), True
    except Exception as error:
        return failure(job, error)


def _still_alive(session: Session) -> bool:
    try:
        session.gpu.sync()
    except CudaError:
        return False
    return True


def run(
    stage: str, jobs: Sequence[Job], events: Events, todo: Sequence[int], cache: Path | None
) -> int:
    """Run the jobs with the indices ``todo``. Return the exit code."""
    waiting = [jobs[index] for index in todo]
    with contextlib.ExitStack() as stack:
        session: Session | None = None
        if any(job.provider != "cpu" for job in waiting):
            try:
                gpu, announce = open_gpu(), partial(events.send, "waiting")
                stack.enter_context(gpu_lock(gpu.uuid, announce, shared=stage == "check"))
                session = Session(gpu, cache)
                _ = session.support  # loaded in advance, so that its time counts for no case
                if any(job.provider == "cublaslt" or job.baseline for job in waiting):
                    with contextlib.suppress(Exception):
                        _ = session.cublaslt
            except Exception as error:  # the run continues with results that hold the reason
                events.send("failed", status="not measured", reason=f"no usable GPU: {error}")
                return UNUSABLE
        events.send("ready", gpu=session.gpu.uuid if session else None)
        if stage == "tune" and session is not None:
            track = partial(GpuTrack, session)
            if not run_groups(jobs, todo, events.send, track) or not _still_alive(session):
                return POISONED
            todo = ()
        for index in todo:
            job = jobs[index]
            events.send("started", index=index, case=job.case)
            job_session = None if job.provider == "cpu" else session
            with case_span(job, index) if job_session else contextlib.nullcontext():
                result, usable = run_job(stage, job_session, job, index)
            events.send("finished", index=index, case=job.case, result=result.document())
            if not usable or (job_session is not None and not _still_alive(job_session)):
                events.send("poisoned", index=index)
                return POISONED
        if session is not None:
            session.close()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worker process with these arguments."""
    parser = argparse.ArgumentParser(prog="tilewave.gpu.worker")
    parser.add_argument("stage", choices=["check", "time", "tune", "counters"])
    parser.add_argument("jobs", type=Path, help="a JSON list of jobs")
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="folder for helper code and cuBLASLt's choices")
    parser.add_argument("--start", type=int, default=0, help="index of the first job to run")
    parser.add_argument("--done", default="", help="later indices that have their result")
    options = parser.parse_args(arguments)
    done = {int(word) for word in options.done.split(",") if word}
    jobs = read_jobs(options.jobs)
    todo = [index for index in range(options.start, len(jobs)) if index not in done]
    return run(options.stage, jobs, Events(options.events), todo, options.cache)


def start() -> NoReturn:
    """Run as a separate process, and exit."""
    die_with_parent(started_by_thread="counters" in sys.argv[1:2])
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == POISONED:
        # Destructors would call into the destroyed context.
        import os

        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    start()
