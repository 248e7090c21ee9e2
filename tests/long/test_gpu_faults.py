"""What a run says of faults of a GPU, and whether its other cases are right all the same.

Kernels that end badly run beside right ones; without a GPU they are executed. On a GPU another process holds its
memory, another one computes on it, the worker that times is killed, and so is Nsight Compute: each in a run of its
own, which the next run completes.
"""

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
"""By kernel: functions of its own, the statement, and how its case may end."""
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
    """Write the kernels, and a config of a study; how long a check may take."""
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
    """Of each case and stage: status, reason and verdict."""
    records = pd.read_parquet(folder / "results" / "tables" / "records.parquet")
    names = ["case", "kernel", "stage", "status", "reason", "verdict"]
    return records[names].fillna("").drop_duplicates()


def wrong(found: pd.DataFrame) -> list[str]:
    """Cases that are not right, or were disturbed, in some stage."""
    return [
        f"{one.case} {one.stage}: {one.status} {one.verdict} {one.reason}"
        for one in found.itertuples()
        if (one.status, one.verdict) != ("ok", "correct") or one.reason.startswith("disturbed")
    ]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What one run says of all kernels that end badly, right ones before and behind them."""
    folder = tmp_path_factory.mktemp("kernels")
    configure(folder, "kernels", limit_s=4)
    Run(folder).passed()
    return rows(folder)


@pytest.mark.parametrize("name", FAULTS)
def test_a_kernel_that_ends_badly(ran, name):
    mine = ran[(ran["kernel"] == name) & (ran["stage"] == ("check" if LIVE else "execute"))]
    assert set(mine["status"]) <= FAULTS[name][2] and all(mine["reason"]) and len(mine)


def test_the_others_are_right(ran):
    others = ran[~ran["kernel"].isin(FAULTS)]
    assert not wrong(others if LIVE else others[others["stage"] != "time"])


@contextlib.contextmanager
def another(what):
    """While another process is that."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "workflow")])
    command = [sys.executable, "-m", "beside", what]
    told = {**os.environ, "PYTHONPATH": paths}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=told) as one:
        try:
            assert one.stdout.readline() == "ready\n"
            yield
        finally:
            one.kill()


def shot(run, words):
    """Kill a process of a run a second after it began."""
    assert until(lambda: run.process.poll() is not None or run.children(words), 120)
    time.sleep(1)
    found = run.children(words)
    for one in found:
        one.kill()
    assert found, "missed"


def touched(folder, study, hit, happens=None, during=None):
    """The cases of a run that what happens to it touches; all others are right, and so are all after the next."""
    configure(folder, study)
    with another(during) if during else contextlib.nullcontext():
        run = Run(folder)
        if happens:
            happens(run)
        run.passed()
    found = rows(folder)
    those = found.apply(hit, axis=1)
    assert not wrong(found[~those])
    Run(folder).passed()
    assert not wrong(rows(folder))
    return found[those]


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
def test_a_fault_touches_its_own_cases_alone(place, study, during, killed, status, stage, reason):
    """Another process holds the memory or computes; the worker that times, or Nsight Compute, is killed."""
    if study == "counted" and not environment.probe()["ncu"]:
        pytest.skip("no Nsight Compute")

    def hit(one):
        return one.status.startswith(status) and stage in one.stage and reason in one.reason

    happens = (lambda run: shot(run, killed)) if killed else None
    assert len(touched(place, study, hit, happens, during)) or study == "killed"


@live
def test_two_runs_at_once(tmp_path_factory):
    """One waits where the other measures."""
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
    for folder in folders:
        configure(folder, "killed")
    for run in [Run(folder) for folder in folders]:
        run.passed()
    assert not [line for folder in folders for line in wrong(rows(folder))]
