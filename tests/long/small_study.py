"""A small study of its own, run in a folder that is gone afterwards, and what came of it."""

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

STUDY = """
fresh: true
execute: {when: always, case_limit_s: 60}
studies:
  small:
    plot: correctness
    title: Small
    question: Is it right?
    cases:
      - {kernels: [matmul_naive, matmul_tiled, hgemm_wmma], macros: defaults, shapes: [272x144x80, 528x528x256]}
      - {kernels: [vector_add], macros: defaults, shapes: [100000]}
"""
TABLES = "results/tables/records.parquet"
JOB, WORKER = ".snakemake/scripts/", "tilewave.pipeline.worker"
LIMIT_S = 300.0


class Run:
    """A run of the study in a folder, by the checkout at ``home``."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        home: Path = ROOT,
        python: str = sys.executable,
        env: dict[str, str | None] | None = None,
        **how: Any,
    ) -> None:
        command = [python, "-m", "snakemake", "--snakefile", str(home / "Snakefile"), TABLES]
        command += [*words, "--cores", "2", "--configfile", "small.yaml"]
        told = {**os.environ, "PYTHONPATH": str(home / "workflow"), **(env or {})}
        self.log = Path(tempfile.mkstemp(prefix="tilewave-long-", suffix=".log")[1])
        with self.log.open("ab") as log:
            self.process = psutil.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={name: one for name, one in told.items() if one is not None}, **how,
            )  # fmt: skip

    def children(self, words: str) -> list[psutil.Process]:
        """Living processes below the run that have these words in their command line."""
        found = []
        for one in self.process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if words in " ".join(one.cmdline()) and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        return found

    def end(self) -> int:
        """Exit code; what it said is kept in ``said``."""
        try:
            return int(self.process.wait(LIMIT_S))
        except psutil.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"it hung for {LIMIT_S:g} s") from None
        finally:
            self.said = self.log.read_text(errors="replace")
            self.log.unlink()

    def passed(self) -> str:
        """What it said, where it ends well."""
        assert self.end() == 0 and "Traceback" not in self.said, self.said[-3000:]
        return self.said


def left(folder: Path) -> list[psutil.Process]:
    """Living processes that work in a folder."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if one.status() != psutil.STATUS_ZOMBIE and Path(one.cwd()) == folder:
                found.append(one)
    return found


def until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What a function finds, as soon as it finds something; None where it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if made := found():
            return made
        time.sleep(0.01)
    return None


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """What a run found; nothing of its time."""
    records, cases = (
        pd.read_parquet(folder / "results" / "tables" / f"{name}.parquet")
        for name in ("records", "cases")
    )
    columns = ["case", "stage", "metric", "value", "status", "reason"]
    return {"records": records[columns], "cases": cases[["case", "verdict"]]}


def same(folder: Path, reference: dict[str, pd.DataFrame]) -> None:
    """That a folder's tables are those of a run that nobody disturbed."""
    for name, found in tables(folder).items():
        pd.testing.assert_frame_equal(found, reference[name])


def mount(*words: str) -> None:
    """Mount, where that is allowed; else the test is skipped."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mount: {done.stderr.strip()}")


@contextlib.contextmanager
def unmounted(folder: Path) -> Iterator[None]:
    """What is mounted there inside is gone behind."""
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)
