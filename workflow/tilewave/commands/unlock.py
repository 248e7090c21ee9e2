"""Clear the lock that a killed Snakemake run left in this folder.

A lock is cleared only if no living run of this folder can hold it. Jobs that outlived their run
(``kill -9`` spares them) are ended first, so that two processes never write the same output. Only
processes of this machine are seen: on a shared file system, run this on the machine of the killed run."""

import contextlib
import shutil
import sys
from pathlib import Path

import psutil


def processes(folder: Path) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Return the living Snakemake runs of ``folder``, and the jobs there whose run is dead."""
    # A shell that runs this command may name snakemake, too.
    ancestry = {psutil.Process().pid, *(parent.pid for parent in psutil.Process().parents())}
    runs, jobs = [], []
    for process in psutil.process_iter(["cmdline", "cwd"]):  # None where it belongs to another user
        arguments = process.info["cmdline"] or []
        if process.pid in ancestry or process.info["cwd"] != str(folder):
            continue
        if any(Path(argument).name == "snakemake" for argument in arguments):
            runs.append(process)
        elif any(argument.startswith(f"{folder}/.snakemake/scripts/") for argument in arguments):
            jobs.append(process)
    alive = {run.pid for run in runs}
    return runs, [job for job in jobs if not alive & _parents(job)]


def _parents(process: psutil.Process) -> set[int]:
    with contextlib.suppress(psutil.Error):
        return {parent.pid for parent in process.parents()}
    return set()


def end(jobs: list[psutil.Process]) -> None:
    """End jobs and their children: SIGTERM first, SIGKILL five seconds later."""
    family = []
    for job in jobs:
        with contextlib.suppress(psutil.NoSuchProcess):
            # The job first: else it takes its worker's end for a fault of the kernel.
            family += [job, *job.children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, survivors = psutil.wait_procs(family, timeout=5)
    for process in survivors:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(survivors, timeout=5)


def unlock(folder: Path) -> int:
    """Clear the folder's lock. Returns 0 if the folder is free now, 1 if a living run holds it."""
    folder = folder.resolve()
    locks = folder / ".snakemake" / "locks"
    if not locks.is_dir() or not any(locks.iterdir()):
        return 0
    runs, orphans = processes(folder)
    if runs:
        pids = ", ".join(str(run.pid) for run in runs)
        print(f"Error: process {pids} runs Snakemake in {folder}. Wait for it", file=sys.stderr)
        return 1
    if orphans:
        print(f"Ending {len(orphans)} jobs of a killed run", file=sys.stderr)
        end(orphans)
    print("Clearing the lock of a killed run", file=sys.stderr)
    # This is all that `snakemake --unlock` does, which would read the whole workflow first.
    shutil.rmtree(locks)
    return 0


if __name__ == "__main__":
    sys.exit(unlock(Path.cwd()))
