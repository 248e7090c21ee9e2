"""The process that executes a list of jobs and reports each at once (see `workers.events`).

    python -m tilewave.execution.worker execute JOBS.json --events FILE [--start N]

It is a separate process so that a crash of the interpreter, or a lack of memory, costs one case.
"""

import argparse
import functools
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

# Each worker has one core. numpy reads these when it is loaded. Without them each worker would start a
# thread for each core, and the last digit of a sum would depend on their number.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from tilewave import execution  # noqa: E402
from tilewave.basics import memory  # noqa: E402
from tilewave.basics.lifetime import die_with_parent  # noqa: E402
from tilewave.execution import case  # noqa: E402
from tilewave.execution.lanes import captured  # noqa: E402
from tilewave.kernel.job import Job, read_jobs  # noqa: E402
from tilewave.kernel.result import EXECUTE, NOT_MEASURED, Result  # noqa: E402
from tilewave.workers.events import Events  # noqa: E402


def run_job(job: Job, machine: Any) -> Result:
    """Return a job's result, whatever happens."""
    try:
        if job.watch:
            kept = captured.of_launches(case.launch_once(job, machine))
            return Result.of_job(job, accesses=kept)
        return case.run(job, machine).result
    except MemoryError:
        reason = f"{case.HERE}: {memory.exceeded()}"
    except Exception as error:
        traceback.print_exc()
        text = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        reason = f"{case.HERE}: {text.splitlines()[0]}"
    return Result.of_job(job, NOT_MEASURED, reason)


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute the jobs that the command line names."""
    parser = argparse.ArgumentParser(prog="tilewave.execution.worker")
    parser.add_argument("stage", choices=[EXECUTE])
    parser.add_argument("jobs", type=Path, help="a JSON list of jobs")
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--start", type=int, default=0, help="index of the first job to run")
    options = parser.parse_args(arguments)
    jobs = read_jobs(options.jobs)
    events = Events(options.events)
    waiting = functools.partial(events.send, "waiting")
    execution.warm_up(waiting)
    machine = execution.engine(waiting)
    gc.freeze()  # numba's objects stay, so no collection has to visit them
    events.send("ready", gpu=None)
    for index in range(options.start, len(jobs)):
        events.send("started", index=index, case=jobs[index].case)
        result = run_job(jobs[index], machine)
        events.send("finished", index=index, case=jobs[index].case, result=result.document())
    return 0


def start() -> NoReturn:
    """Run as a separate process."""
    die_with_parent()
    sys.exit(main())


if __name__ == "__main__":
    start()
