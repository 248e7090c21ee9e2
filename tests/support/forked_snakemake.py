"""Snakemake in a process of its own that is forked from one that has it imported: importing it and what a
Snakefile needs takes most of a dry run."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
OURS = {str(TESTS.parent / name) for name in ("workflow", "tests/support", "tools")}
"""What pytest adds to the path, and a user has not."""
STREAMS = ("/dev/null", "out", "err")

FORKS = multiprocessing.get_context("forkserver")
# Nothing of Tilewave's own is among it.
FORKS.set_forkserver_preload(["snakemake.cli", "snakemake.workflow", "pandas", "pyarrow.parquet", "pydantic"])  # fmt: skip


def _main(words: list[str], folder: str, environment: dict[str, str], told: str) -> None:
    for number, name in enumerate(STREAMS):
        file = os.open(os.path.join(told, name), os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.set_inheritable(number, True)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = ["", *(one for one in sys.path if one and one not in OURS)]
    os.chdir(folder)
    sys.argv = ["snakemake", *words]
    from snakemake.cli import main

    main()


def run(words: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """As `subprocess.run` of ``snakemake`` with these words, in a folder."""
    with tempfile.TemporaryDirectory() as told:
        process = FORKS.Process(target=_main, args=(words, str(folder), dict(environment), told))
        process.start()
        process.join()
        out, err = (Path(told, name).read_text("utf-8") for name in STREAMS[1:])
        return subprocess.CompletedProcess(words, process.exitcode or 0, out, err)
