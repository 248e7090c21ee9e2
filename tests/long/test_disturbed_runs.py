"""What is left when a run is killed, interrupted, or its disk is full: nothing wrong, nothing lost.

Each try is a run that is disturbed; its lock is cleared as `make` does it, the run is repeated, and its tables
must be those of a run that nobody disturbed. TILEWAVE_TRIES=12 tries each as often.
"""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from small_study import JOB, STUDY, WORKER, Run, left, mount, same, unmounted, until

TRIES = range(int(os.environ.get("TILEWAVE_TRIES", 2)))
SHORT_S = 15
FULL_KIB = (64, 256, 512, 1024, 2048)
FILE_BYTES = (1, 4096, 16_384, 65_536, 262_144)


def unlocked(folder):
    """Clear what a killed run left, as `make` does; nobody works there any more."""
    command = [sys.executable, "-m", "tilewave.commands.unlock"]
    told = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(command, cwd=folder, env=told, check=True, capture_output=True)
    assert not any((folder / ".snakemake").glob("locks/*"))
    assert until(lambda: not left(folder), 10), [one.cmdline() for one in left(folder)]


def completed(folder, reference):
    """The run, repeated until it is done, twice at most, has found what an undisturbed one has."""
    unlocked(folder)
    for _ in range(2):
        run = Run(folder)
        code = run.end()
        assert "Traceback" not in run.said, run.said
        if code == 0:
            break
    assert code == 0, run.said
    same(folder, reference)
    assert not any((folder / ".snakemake").glob("locks/*"))


def victims(run, kind):
    if kind == "snakemake":
        return [run.process]
    if kind == "worker":
        return run.children(WORKER)
    jobs = run.children(JOB)
    pids = {one.pid for one in jobs}
    with contextlib.suppress(psutil.Error):
        if kind == "compiler":  # forked by the job, with its command line
            return [one for one in jobs if one.ppid() in pids and "compile" in " ".join(one.cmdline())]  # fmt: skip
        return [one for one in jobs if one.name() not in {"sh", "bash"}]
    return []


@pytest.mark.parametrize("try_", TRIES)
@pytest.mark.parametrize(
    ("kind", "number"),
    [("snakemake", 9), ("job", 9), ("worker", 9), ("compiler", 9), ("job", 15), ("worker", 15)],
)
def test_a_process_is_ended_at_a_random_moment(place, reference, kind, number, try_):
    chance, run = random.Random(f"{kind} {number} {try_}"), Run(place)
    if kind == "snakemake" or until(lambda: victims(run, kind)):
        most = {"snakemake": 7, "job": 3, "worker": 2.5, "compiler": 0.4}[kind]
        time.sleep(chance.uniform(0, most))
        with contextlib.suppress(psutil.Error):
            if found := victims(run, kind):
                chance.choice(found).send_signal(number)
    run.end()
    assert "Traceback" not in run.said, run.said
    completed(place, reference)


@pytest.mark.parametrize("try_", TRIES)
@pytest.mark.parametrize(("number", "everybody"), [(2, True), (15, False), (15, True)])
def test_an_interrupted_run_ends_by_itself(place, reference, number, everybody, try_):
    """A signal to the run, or like Ctrl-C to all that the terminal has of it."""
    run = Run(place)
    until(lambda: run.children(JOB))
    time.sleep(random.Random(f"{number} {try_}").uniform(0, 5))
    if run.process.poll() is None:
        os.killpg(run.process.pid, number) if everybody else run.process.send_signal(number)
    begun = time.monotonic()
    if run.end():
        assert time.monotonic() - begun < 20, "it took long to end"
        assert until(lambda: not left(place), 10), [one.cmdline() for one in left(place)]
    completed(place, reference)


@pytest.mark.parametrize("try_", TRIES)
def test_a_run_that_is_suspended_goes_on(place, reference, try_):
    """For longer than a case may take, as a scheduler does it: nothing has timed out."""
    short = STUDY.replace("case_limit_s: 60", f"case_limit_s: {SHORT_S}")
    (place / "small.yaml").write_text(short)
    run = Run(place)
    until(lambda: run.children(WORKER))
    time.sleep(random.Random(try_).uniform(0, 3))
    stopped = [run.process, *run.process.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for one in stopped:
            with contextlib.suppress(psutil.Error):
                one.send_signal(number)
        time.sleep(SHORT_S + 2 if number == signal.SIGSTOP else 0)
    run.passed()
    same(place, reference)


def refused(run):
    """How a run ends that cannot write: no traceback of this library's."""
    run.end()
    assert "workflow/tilewave" not in run.said.partition("Traceback")[2], run.said


@pytest.mark.parametrize("kib", FULL_KIB)
def test_a_disk_is_full(place, reference, kib):
    mount("-o", f"size={kib}k", "-t", "tmpfs", "none", str(place))
    with unmounted(place):
        (place / "small.yaml").write_text(STUDY)
        refused(Run(place))
        mount("-o", "remount,size=256m", str(place))
        completed(place, reference)


@pytest.mark.parametrize("before", [False, True])
def test_a_folder_is_read_only(place, reference, before):
    mount("-o", "size=256m", "-t", "tmpfs", "none", str(place))
    with unmounted(place):
        (place / "small.yaml").write_text(STUDY)
        if before:
            Run(place).end()
            shutil.rmtree(place / "results")
        mount("-o", "remount,ro", str(place))
        refused(Run(place))
        mount("-o", "remount,rw", str(place))
        completed(place, reference)


@pytest.mark.parametrize("most", FILE_BYTES)
def test_files_may_be_no_larger(place, reference, most):
    refused(Run(place, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))))
    completed(place, reference)


@pytest.mark.parametrize("free", [8192, 12_288])
def test_the_temporary_folder_is_full(place, reference, free, tmp_path_factory):
    small = tmp_path_factory.mktemp("small")
    mount("-o", "size=16k", "-t", "tmpfs", "none", str(small))
    with unmounted(small):
        (small / "full").write_bytes(bytes(16_384 - free))
        refused(Run(place, env={"TMPDIR": str(small)}))
    completed(place, reference)


@pytest.mark.parametrize("days", [400, -400])
def test_the_clock_is_moved(place, reference, days):
    """That is, the times of all files: nothing is measured again."""
    Run(place).passed()
    for path in place.rglob("*"):
        os.utime(path, (time.time() + days * 24 * 3600,) * 2)
    assert "measured" not in Run(place).passed()
    completed(place, reference)


def test_two_runs_at_once(place, reference):
    run = Run(place)
    until(lambda: run.children(JOB))
    other = Run(place)
    assert other.end() and "lock" in other.said.lower(), other.said
    run.passed()
    completed(place, reference)
