"""A worker that checks or executes, and can plan a kernel that is the reference of another (`execution.another`).

python -m tilewave.stages.worker STAGE JOBS.json --events FILE ...    as of `gpu.worker` and `execution.worker`
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilewave.jobs import Job
from tilewave.records.model import EXECUTE


def _reference(file: Path, job: Job, folder: Path) -> Job:
    from tilewave.stages import single  # few jobs need it

    return single.reference(file, job, folder)


if __name__ == "__main__":
    if EXECUTE in sys.argv[1:2]:
        from tilewave.execution.worker import start
    else:
        from tilewave.gpu.worker import start
    from tilewave.execution import another

    another.plan = _reference
    start()
