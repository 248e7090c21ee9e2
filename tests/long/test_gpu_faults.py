"""Faults of a GPU have a status and a reason, and the other cases of the run are right.
Kernels with faults run beside right ones; without a GPU the CPU executes them. On a GPU another process occupies its
memory or computes, and the worker or Nsight Compute is killed. Each is a separate run, which the next one completes."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from live_gpu import live
from samples import DATA, ROOT
from small_study import Run, until
from tilewave.records import environment

DEEP = (DATA / "deep.cuh").read_text()
INVALID = {"invalid access"}
FAULTS = {
    "illegal_address": ("", "if (i == 40) c[1ll << 38] = 1;", INVALID),
    "misaligned_address": ("", "if (i == 40) *(double*)(c + 41) = 1;", INVALID),
    "stack_overflow": (DEEP, "if (i == 40) c[40] = deep(a[40], n);", INVALID),
    "failed_assertion": ("", 'assert(i != 40 && "not the fortieth");', {"assertion failed"}),
    # The driver has one word for a trap and an illegal instruction.
    "trap": ("", "if (i == 40) __trap();", {"trap", *INVALID}),
    "endless_loop": (
        "", 'while (i < n) asm volatile("" ::: "memory");', {"timed out", "not measured"},
    ),
}  # fmt: skip
"""By kernel: its functions, the statement, and the statuses that its case may have."""
RIGHT = ["right", "right_too"]
SMALL, MIDDLE, LARGE = 1 << 16, 1 << 24, 1 << 27
STUDIES = {
    "kernels": {"time": True, "cases": [{"kernels": [RIGHT[0], *FAULTS, RIGHT[1]], "shapes": [SMALL]}]},
    "memory": {"cases": [{"kernels": RIGHT[:1], "shapes": [SMALL + 1, LARGE]}]},
    "beside": {"time": True, "cases": [{"kernels": RIGHT, "shapes": [MIDDLE]}]},
    "killed": {"time": True, "cases": [{"kernels": RIGHT, "shapes": [MIDDLE + 1, MIDDLE + 2]}]},
    "counted": {"counters": "basic", "cases": [{"kernels": RIGHT, "shapes": [MIDDLE + 3]}]},
}  # fmt: skip
LIVE = environment.has_gpu(environment.fingerprint())


def configure(folder: Path, study: str, limit_s: int = 20) -> None:
    """Write the kernels and a config of a study with this limit for a check."""
    (folder / "faulty").mkdir(exist_ok=True)
    for name in (*RIGHT, *FAULTS):
        more, fault, _ = FAULTS.get(name, ("", "", set()))
        text = (DATA / "faulty.cu").read_text().replace("NAME", name)
        text = text.replace("MORE", more).replace("FAULT", fault)
        (folder / "faulty" / f"{name}.cu").write_text(text)
    config = {
        "fresh": True,
        "kernel_folders": ["faulty"],
        "check": {"case_limit_s": limit_s},
        "execute": {"when": "no_gpu", "case_limit_s": 5},
        "studies": {study: {"plot": "correctness", "title": study, **STUDIES[study]}},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def rows(folder: Path) -> pd.DataFrame:
    """Return status, reason and verdict of each case and stage."""
    records = pd.read_parquet(folder / "results" / "tables" / "records.parquet")
    names = ["case", "kernel", "stage", "status", "reason", "verdict"]
    return records[names].fillna("").drop_duplicates()


def wrong(results: pd.DataFrame) -> list[str]:
    """Return cases that are not right, or were disturbed, in any stage."""
    return [
        f"{row.case} {row.stage}: {row.status} {row.verdict} {row.reason}"
        for row in results.itertuples()
        if (row.status, row.verdict) != ("ok", "correct") or row.reason.startswith("disturbed")
    ]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The results of a run of all kernels with faults, between right ones."""
    folder = tmp_path_factory.mktemp("kernels")
    configure(folder, "kernels", limit_s=4)
    Run(folder).passed()
    return rows(folder)


@pytest.mark.parametrize("name", FAULTS)
def test_a_kernel_that_ends_badly(ran, name):
    cases = ran[(ran["kernel"] == name) & (ran["stage"] == ("check" if LIVE else "execute"))]
    assert set(cases["status"]) <= FAULTS[name][2] and all(cases["reason"]) and len(cases)


def test_the_other_kernels_are_right(ran):
    right = ran[~ran["kernel"].isin(FAULTS)]
    assert not wrong(right if LIVE else right[right["stage"] != "time"])


@contextlib.contextmanager
def another_process(activity):
    """Run the module `beside` meanwhile."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "workflow")])
    command = [sys.executable, "-m", "beside", activity]
    variables = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


def shot(run, text):
    """Kill processes of a run a second after their start."""
    assert until(lambda: run.process.poll() is not None or run.children(text), 120)
    time.sleep(1)
    processes = run.children(text)
    for process in processes:
        process.kill()
    assert processes, "missed"


def touched(folder, study, hit, happens=None, during=None):
    """Disturb a run and return its disturbed cases.
    The rest is right, and all cases are right after the next run."""
    configure(folder, study)
    with another_process(during) if during else contextlib.nullcontext():
        run = Run(folder)
        if happens:
            happens(run)
        run.passed()
    results = rows(folder)
    hits = results.apply(hit, axis=1)
    assert not wrong(results[~hits])
    Run(folder).passed()
    assert not wrong(rows(folder))
    return results[hits]


@live
@pytest.mark.parametrize(
    ("study", "during", "killed", "status", "stage", "reason"),
    [
        ("memory", "holding", "", "not measured", "", "OUT_OF_MEMORY"),
        ("beside", "computing", "", "", "time", "disturbed"),
        ("killed", None, "tilewave.gpu.worker time", "not measured", "", ""),
        ("counted", None, "--nvtx-include", "", "counters", "SIGKILL"),
    ],
)
def test_a_fault_touches_only_its_cases(run_folder, study, during, killed, status, stage, reason):
    """Another process occupies the memory or computes; the worker that times, or Nsight Compute, is killed."""
    if study == "counted" and not environment.probe()["ncu"]:
        pytest.skip("no Nsight Compute")

    def hit(row):
        return row.status.startswith(status) and stage in row.stage and reason in row.reason

    happens = (lambda run: shot(run, killed)) if killed else None
    assert len(touched(run_folder, study, hit, happens, during)) or study == "killed"


@live
def test_two_runs_at_once(tmp_path_factory):
    """A run waits while the other measures."""
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for folder in folders:
        configure(folder, "killed")
    for run in [Run(folder) for folder in folders]:
        run.passed()
    assert not [line for folder in folders for line in wrong(rows(folder))]
