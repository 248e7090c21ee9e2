"""Snakemake in a process that is forked from one with Snakemake imported.
Imports take most of the time of a dry run."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
OURS = {str(TESTS.parent / name) for name in ("workflow", "tests/support", "tools")}
"""Folders that pytest adds to the path."""
STREAMS = ("/dev/null", "out", "err")

FORKS = multiprocessing.get_context("forkserver")
# No module of Tilewave is preloaded.
FORKS.set_forkserver_preload(["snakemake.cli", "snakemake.workflow", "pandas", "pyarrow.parquet", "pydantic"])  # fmt: skip


def _main(arguments: list[str], folder: str, environment: dict[str, str], streams: str) -> None:
    for number, name in enumerate(STREAMS):
        os.dup2(os.open(os.path.join(streams, name), os.O_RDWR | os.O_CREAT, 0o600), number)
        os.set_inheritable(number, True)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = ["", *(path for path in sys.path if path and path not in OURS)]
    os.chdir(folder)
    sys.argv = ["snakemake", *arguments]
    from snakemake.cli import main

    main()


def run(arguments: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run ``snakemake`` with these arguments in a folder, like `subprocess.run`."""
    with tempfile.TemporaryDirectory() as streams:
        settings = (arguments, str(folder), dict(environment), streams)
        process = FORKS.Process(target=_main, args=settings)
        process.start()
        process.join()
        out, err = (Path(streams, name).read_text("utf-8") for name in STREAMS[1:])
        return subprocess.CompletedProcess(arguments, process.exitcode or 0, out, err)
