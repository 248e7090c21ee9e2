"""A worker that checks or executes, and can plan a kernel that is the reference of another.
python -m tilewave.pipeline.worker STAGE JOBS.json --events FILE ... (as `gpu.worker`, `execution.worker`)"""

import sys
from pathlib import Path
from typing import Any

from tilewave.kernel.job import Job
from tilewave.kernel.result import EXECUTE


def _execute(file: Path, job: Job, *arguments: Any) -> Any:
    from tilewave.pipeline import reference_kernel  # few jobs need it

    return reference_kernel.outputs(file, job, *arguments)


if __name__ == "__main__":
    if EXECUTE in sys.argv[1:2]:
        from tilewave.execution.worker import start
    else:
        from tilewave.gpu.worker import start
    from tilewave.kernel.operations import kernel_reference

    kernel_reference.execute = _execute
    start()
