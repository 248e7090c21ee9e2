"""A killed run's lock is cleared; a living run's lock is not touched."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from samples import ROOT, until
from tilewave.commands import unlock

SLEEP = "import time; time.sleep(120)"
# Like the workflow, it asks for all cores, which `snakemake --unlock` alone does not know.
SNAKEFILE = """
rule a:
    output: "done"
    threads: workflow.cores
    script: "job.py"
"""
JOB = f'open("started", "w").close()\n{SLEEP}\n'


@pytest.fixture
def folder(tmp_path):
    locks = tmp_path / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("report\n")
    return tmp_path


@pytest.fixture
def start():
    """Start processes that end with the test."""
    started = []

    def begin(command, folder, **more):
        started.append(subprocess.Popen(command, cwd=folder, **more))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def locked(folder):
    locks = folder / ".snakemake" / "locks"
    return locks.is_dir() and any(locks.iterdir())


def test_living_run_keeps_its_lock(folder, start, capsys):
    assert unlock.unlock(folder.parent) == 0 and capsys.readouterr() == ("", "")  # no lock
    run = start([sys.executable, "-c", SLEEP, "snakemake", "--cores", "1"], folder)
    until(lambda: "snakemake" in psutil.Process(run.pid).cmdline())
    assert unlock.unlock(folder) == 1
    message = capsys.readouterr().err
    assert str(run.pid) in message and message.count("\n") == 1
    assert locked(folder) and run.poll() is None


@pytest.mark.parametrize("arguments", [["snakemake"], ["other"]])
def test_run_elsewhere_and_other_programs_do_not_count(folder, start, arguments, tmp_path_factory):
    work_folder = tmp_path_factory.mktemp("elsewhere") if arguments == ["snakemake"] else folder
    process = start([sys.executable, "-c", SLEEP, *arguments], work_folder)
    until(lambda: arguments[0] in psutil.Process(process.pid).cmdline())
    assert unlock.processes(folder) == ([], [])
    assert process.poll() is None


def test_killed_run(tmp_path, start, capfd):
    """kill -9 leaves a lock and a job that still runs: both go, and the next run may begin."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "job.py").write_text(JOB)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = start([sys.executable, "-m", "snakemake", "--cores", "1", "a"], tmp_path, **quiet)
    until((tmp_path / "started").exists)
    assert unlock.unlock(tmp_path) == 1
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    _, (orphan,) = unlock.processes(tmp_path)
    assert locked(tmp_path)
    assert unlock.unlock(tmp_path) == 0
    assert not locked(tmp_path)
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    assert "Clearing the lock" in capfd.readouterr().err


def test_command_that_names_snakemake_itself_does_not_count(folder):
    """make runs the helper in a shell whose command line may name snakemake, too."""
    (folder / "Snakefile").write_text("rule a:\n    output: 'done'\n    shell: 'touch done'\n")
    helper = f"{sys.executable} -m tilewave.commands.unlock && echo free # snakemake"
    how = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}}
    done = subprocess.run(["sh", "-c", helper], stdout=subprocess.PIPE, text=True, **how)
    assert done.stdout.endswith("free\n")
    assert not locked(folder)
