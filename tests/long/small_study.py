"""A small study, its runs in temporary folders, and their tables."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from samples import ROOT

STUDY = Path(__file__).with_name("small.yaml").read_text()
TABLES = "results/tables/records.parquet"
JOB, WORKER = ".snakemake/scripts/", "tilewave.pipeline.worker"
LIMIT_S = 300.0


class Run:
    """A run of the study in a folder, with the checkout at ``home``."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        home: Path = ROOT,
        python: str = sys.executable,
        env: dict[str, str | None] | None = None,
        **how: Any,
    ) -> None:
        command = [python, "-m", "snakemake", "--snakefile", str(home / "Snakefile"), TABLES]
        command += [*arguments, "--cores", "2", "--configfile", "small.yaml"]
        variables = {**os.environ, "PYTHONPATH": str(home / "workflow"), **(env or {})}
        self.log = Path(tempfile.mkstemp(prefix="tilewave-long-", suffix=".log")[1])
        with self.log.open("ab") as log:
            self.process = psutil.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={name: value for name, value in variables.items() if value is not None}, **how,
            )  # fmt: skip

    def children(self, text: str) -> list[psutil.Process]:
        """Return living processes of the run with this text in their command line."""
        processes = []
        for process in self.process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if text in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes

    def end(self) -> int:
        """Wait for the end, keep the ``output``, and return the exit code."""
        try:
            return int(self.process.wait(LIMIT_S))
        except psutil.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"it hung for {LIMIT_S:g} s") from None
        finally:
            self.output = self.log.read_text(errors="replace")
            self.log.unlink()

    def passed(self) -> str:
        """Assert that the run succeeds, and return its output."""
        assert self.end() == 0 and "Traceback" not in self.output, self.output[-3000:]
        return self.output


def processes_in(folder: Path) -> list[psutil.Process]:
    """Return living processes whose working folder this is."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder:
                processes.append(process)
    return processes


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Return the first true value of a condition, or None after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    return None


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the results of a run, without times."""
    paths = [folder / "results" / "tables" / f"{name}.parquet" for name in ("records", "cases")]
    records, cases = map(pd.read_parquet, paths)
    columns = ["case", "stage", "metric", "value", "status", "reason"]
    return {"records": records[columns], "cases": cases[["case", "verdict"]]}


def same(folder: Path, reference: dict[str, pd.DataFrame]) -> None:
    """Assert that a folder's tables are those of an undisturbed run."""
    for name, table in tables(folder).items():
        pd.testing.assert_frame_equal(table, reference[name])


def mount(*arguments: str) -> None:
    """Mount if that is allowed, else skip the test."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mount: {done.stderr.strip()}")


@contextlib.contextmanager
def unmounted(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
