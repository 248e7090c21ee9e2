"""Runs that are killed, interrupted or without disk space leave no wrong result and lose none.
Each try disturbs a run, clears its lock as `make` does, and repeats it. Its tables must be those of an
undisturbed run. TILEWAVE_TRIES=12 sets the number of tries."""

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

from small_study import JOB, STUDY, WORKER, Run, mount, processes_in, same, unmounted, until

TRIES = range(int(os.environ.get("TILEWAVE_TRIES", 2)))
SHORT_S = 15
FULL_KIB = (64, 256, 512, 1024, 2048)
FILE_BYTES = (1, 4096, 16_384, 65_536, 262_144)


def unlocked(folder):
    """Clear the lock of a killed run, as `make` does, and assert that no process works there."""
    command = [sys.executable, "-m", "tilewave.commands.unlock"]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)
    assert not any((folder / ".snakemake").glob("locks/*"))
    assert until(lambda: not processes_in(folder), 10), [
        process.cmdline() for process in processes_in(folder)
    ]


def completed(folder, reference):
    """Repeat the run until it succeeds, at most twice, and compare its tables with the reference."""
    unlocked(folder)
    for _ in range(2):
        run = Run(folder)
        code = run.end()
        assert "Traceback" not in run.output, run.output
        if code == 0:
            break
    assert code == 0, run.output
    same(folder, reference)
    assert not any((folder / ".snakemake").glob("locks/*"))


def victims(run, kind):
    if kind == "snakemake":
        return [run.process]
    if kind == "worker":
        return run.children(WORKER)
    jobs = run.children(JOB)
    pids = {job.pid for job in jobs}
    with contextlib.suppress(psutil.Error):
        if kind == "compiler":  # forked by the job, with its command line
            return [job for job in jobs if job.ppid() in pids and "compile" in " ".join(job.cmdline())]  # fmt: skip
        return [job for job in jobs if job.name() not in {"sh", "bash"}]
    return []


@pytest.mark.parametrize("try_", TRIES)
@pytest.mark.parametrize(
    ("kind", "number"),
    [("snakemake", 9), ("job", 9), ("worker", 9), ("compiler", 9), ("job", 15), ("worker", 15)],
)
def test_a_process_is_ended_at_a_random_moment(run_folder, reference, kind, number, try_):
    chance, run = random.Random(f"{kind} {number} {try_}"), Run(run_folder)
    if kind == "snakemake" or until(lambda: victims(run, kind)):
        most = {"snakemake": 7, "job": 3, "worker": 2.5, "compiler": 0.4}[kind]
        time.sleep(chance.uniform(0, most))
        with contextlib.suppress(psutil.Error):
            if processes := victims(run, kind):
                chance.choice(processes).send_signal(number)
    run.end()
    assert "Traceback" not in run.output, run.output
    completed(run_folder, reference)


@pytest.mark.parametrize("try_", TRIES)
@pytest.mark.parametrize(("number", "everybody"), [(2, True), (15, False), (15, True)])
def test_an_interrupted_run_ends_by_itself(run_folder, reference, number, everybody, try_):
    """The signal goes to the run alone or, like Ctrl-C, to its process group."""
    run = Run(run_folder)
    until(lambda: run.children(JOB))
    time.sleep(random.Random(f"{number} {try_}").uniform(0, 5))
    if run.process.poll() is None:
        os.killpg(run.process.pid, number) if everybody else run.process.send_signal(number)
    begun = time.monotonic()
    if run.end():
        assert time.monotonic() - begun < 20, "it took long to end"
        assert until(lambda: not processes_in(run_folder), 10), [
            process.cmdline() for process in processes_in(run_folder)
        ]
    completed(run_folder, reference)


@pytest.mark.parametrize("try_", TRIES)
def test_a_run_that_is_suspended_goes_on(run_folder, reference, try_):
    """A suspension longer than a case's limit, as a scheduler does, causes no time-out."""
    short = STUDY.replace("case_limit_s: 60", f"case_limit_s: {SHORT_S}")
    (run_folder / "small.yaml").write_text(short)
    run = Run(run_folder)
    until(lambda: run.children(WORKER))
    time.sleep(random.Random(try_).uniform(0, 3))
    stopped = [run.process, *run.process.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        time.sleep(SHORT_S + 2 if number == signal.SIGSTOP else 0)
    run.passed()
    same(run_folder, reference)


def refused(run):
    """Assert that a run that cannot write ends without a traceback of this library."""
    run.end()
    assert "workflow/tilewave" not in run.output.partition("Traceback")[2], run.output


@pytest.mark.parametrize("kib", FULL_KIB)
def test_a_disk_is_full(run_folder, reference, kib):
    mount("-o", f"size={kib}k", "-t", "tmpfs", "none", str(run_folder))
    with unmounted(run_folder):
        (run_folder / "small.yaml").write_text(STUDY)
        refused(Run(run_folder))
        mount("-o", "remount,size=256m", str(run_folder))
        completed(run_folder, reference)


@pytest.mark.parametrize("before", [False, True])
def test_a_folder_is_read_only(run_folder, reference, before):
    mount("-o", "size=256m", "-t", "tmpfs", "none", str(run_folder))
    with unmounted(run_folder):
        (run_folder / "small.yaml").write_text(STUDY)
        if before:
            Run(run_folder).end()
            shutil.rmtree(run_folder / "results")
        mount("-o", "remount,ro", str(run_folder))
        refused(Run(run_folder))
        mount("-o", "remount,rw", str(run_folder))
        completed(run_folder, reference)


@pytest.mark.parametrize("most", FILE_BYTES)
def test_files_may_be_no_larger(run_folder, reference, most):
    limits = (resource.RLIMIT_FSIZE, (most, most))
    refused(Run(run_folder, preexec_fn=lambda: resource.setrlimit(*limits)))
    completed(run_folder, reference)


@pytest.mark.parametrize("free", [8192, 12_288])
def test_the_temporary_folder_is_full(run_folder, reference, free, tmp_path_factory):
    small = tmp_path_factory.mktemp("small")
    mount("-o", "size=16k", "-t", "tmpfs", "none", str(small))
    with unmounted(small):
        (small / "full").write_bytes(bytes(16_384 - free))
        refused(Run(run_folder, env={"TMPDIR": str(small)}))
    completed(run_folder, reference)


@pytest.mark.parametrize("days", [400, -400])
def test_the_clock_is_moved(run_folder, reference, days):
    """Nothing is measured again after the times of all files have changed."""
    Run(run_folder).passed()
    for path in run_folder.rglob("*"):
        os.utime(path, (time.time() + days * 24 * 3600,) * 2)
    assert "measured" not in Run(run_folder).passed()
    completed(run_folder, reference)


def test_two_runs_at_once(run_folder, reference):
    run = Run(run_folder)
    until(lambda: run.children(JOB))
    other = Run(run_folder)
    assert other.end() and "lock" in other.output.lower(), other.output
    run.passed()
    completed(run_folder, reference)
