"""What is left when a run is killed, interrupted, or its disk is full: nothing wrong, nothing lost.

    .venv/bin/python tools/crashes.py [--times 50] [--seed 1] [NAME ...]

Each try is a small study of its own, executed on the CPU, in a folder that is gone afterwards: the run is
disturbed, the lock is cleared as `make` does it, the run is repeated, and its tables must be those of a
run that nobody disturbed. Prints a table in Markdown; exit code 1 where something was wrong. What needs a
small file system mounts a tmpfs, and is left out where that is not allowed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

ROOT = Path(__file__).resolve().parent.parent
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
LIMIT_S = 300.0
SHORT_S = 15
FULL_KIB = (64, 256, 512, 1024, 2048)
FILE_BYTES = (1, 4096, 16_384, 65_536, 262_144)


class Wrong(Exception):
    """What must not be."""


class Run:
    """A run of the small study in a folder."""

    def __init__(self, folder: Path, **how: Any) -> None:
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
        command += [TABLES, "--cores", "2", "--configfile", str(folder / "small.yaml")]
        self.log = Path(tempfile.mkstemp(prefix="tilewave-crash-", suffix=".log")[1])
        with self.log.open("ab") as log:
            self.process = psutil.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, **how,
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
            code = int(self.process.wait(LIMIT_S))
        except psutil.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise Wrong(f"it hung for {LIMIT_S:g} s") from None
        finally:
            self.said = self.log.read_text(errors="replace")
            self.log.unlink()
        return code


def left(folder: Path) -> list[psutil.Process]:
    """Living processes that work in a folder."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if one.status() != psutil.STATUS_ZOMBIE and Path(one.cwd()) == folder:
                found.append(one)
    return found


def unlock(folder: Path) -> None:
    """Clear what a killed run left, as `make` does."""
    command = [sys.executable, "-m", "tilewave.processes.ahead"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    locks = folder / ".snakemake" / "locks"
    if locks.is_dir() and any(locks.iterdir()):
        raise Wrong("the lock was not cleared")
    end = time.monotonic() + 10
    while left(folder):
        if time.monotonic() > end:
            raise Wrong(f"orphans: {[one.cmdline() for one in left(folder)]}")
        time.sleep(0.1)


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """What a run found; nothing of its time."""
    records, cases = (
        pd.read_parquet(folder / "results" / "tables" / f"{name}.parquet")
        for name in ("records", "cases")
    )
    columns = ["case", "stage", "metric", "value", "status", "reason"]
    return {"records": records[columns], "cases": cases[["case", "verdict"]]}


def completed(folder: Path, reference: dict[str, pd.DataFrame]) -> None:
    """The run, repeated until it is done, twice at most, has found what an undisturbed one has."""
    unlock(folder)
    for _ in range(2):
        run = Run(folder)
        code = run.end()
        if "Traceback" in run.said:
            raise Wrong(f"the next run ends in a traceback:\n{run.said}")
        if code == 0:
            break
    else:
        raise Wrong(f"the next run ends with {code}:\n{run.said}")
    for name, found in tables(folder).items():
        try:
            pd.testing.assert_frame_equal(found, reference[name])
        except AssertionError as error:
            raise Wrong(f"{name} differ: {error}") from None
    locks = folder / ".snakemake" / "locks"
    if locks.is_dir() and any(locks.iterdir()):
        raise Wrong("a lock is left")


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """An empty folder with the study."""
    folder = Path(tempfile.mkdtemp(prefix="tilewave-crash-")).resolve()
    try:
        (folder / "small.yaml").write_text(STUDY)
        yield folder
    finally:
        for one in left(folder):
            with contextlib.suppress(psutil.Error):
                one.kill()
        shutil.rmtree(folder, ignore_errors=True)


def until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What a function finds, as soon as it finds something; None where it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if made := found():
            return made
        time.sleep(0.01)
    return None


# ------------------------------------------------------------------------------------- what is done to it

JOB, WORKER = ".snakemake/scripts/", "tilewave.execution.worker"


def _victims(run: Run, kind: str) -> list[psutil.Process]:
    if kind == "snakemake":
        return [run.process]
    if kind == "worker":
        return run.children(WORKER)
    jobs = run.children(JOB)
    inner = {one.pid for one in jobs} if kind == "compiler" else set()
    with contextlib.suppress(psutil.Error):
        if kind == "compiler":  # forked by the job, with its command line
            return [
                one for one in jobs if one.ppid() in inner and "compile" in " ".join(one.cmdline())
            ]
    shells = {"sh", "bash"}
    return [one for one in jobs if one.name() not in shells] if kind == "job" else []


def kill(kind: str, number: signal.Signals, try_: int, chance: random.Random, folder: Path) -> str:
    """End one process of a run at a random moment of its life."""
    run = Run(folder)
    if kind != "snakemake" and not until(lambda: _victims(run, kind)):
        run.end()
        return "missed"
    time.sleep(chance.uniform(0, {"snakemake": 7, "job": 3, "worker": 2.5, "compiler": 0.4}[kind]))
    hit = ""
    with contextlib.suppress(psutil.Error):
        if victims := _victims(run, kind):
            chance.choice(victims).send_signal(number)
            hit = "hit"
    code = run.end()
    if "Traceback" in run.said:
        raise Wrong(f"a traceback:\n{run.said}")
    if not hit or (code == 0 and kind in ("snakemake", "job")):
        return "missed"  # it had ended by itself
    return "exit 0" if code == 0 else "another exit code"


def interrupted(
    number: signal.Signals, everybody: bool, try_: int, chance: random.Random, folder: Path
) -> str:
    """A signal to the run, or like Ctrl-C to all that the terminal has of it: it ends by itself."""
    run = Run(folder)
    until(lambda: run.children(JOB))
    time.sleep(chance.uniform(0, 5))
    if run.process.poll() is not None:
        run.end()
        return "missed"
    os.killpg(run.process.pid, number) if everybody else run.process.send_signal(number)
    begun = time.monotonic()
    code = run.end()
    if code == 0:
        return "missed"
    if time.monotonic() - begun > 20:
        raise Wrong("it took more than 20 s to end")
    if not until(lambda: not left(folder), 10):
        raise Wrong(f"orphans: {[one.cmdline() for one in left(folder)]}")
    return "ended, nothing left"


def asleep(try_: int, chance: random.Random, folder: Path) -> str:
    """All of a run is stopped for longer than a case may take, as a scheduler suspends it, and goes on."""
    (folder / "small.yaml").write_text(
        STUDY.replace("case_limit_s: 60", f"case_limit_s: {SHORT_S}")
    )
    run = Run(folder)
    until(lambda: run.children(WORKER))
    time.sleep(chance.uniform(0, 3))
    stopped = [run.process, *run.process.children(recursive=True)]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for one in stopped:
            with contextlib.suppress(psutil.Error):
                one.send_signal(number)
        time.sleep(SHORT_S + 2 if number == signal.SIGSTOP else 0)
    if run.end():
        raise Wrong(f"it did not go on:\n{run.said}")
    for name, found in tables(folder).items():
        pd.testing.assert_frame_equal(found, REFERENCE[name])
    return "it goes on, nothing timed out"


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Callable[[str], None]]:
    """The folder on a tmpfs; yields what mounts it anew with other options."""

    def mount(words: str, *more: str) -> None:
        subprocess.run(["mount", "-o", words, *more, str(folder)], check=True, capture_output=True)

    mount(options, "-t", "tmpfs", "none")
    try:
        (folder / "small.yaml").write_text(STUDY)
        yield lambda words: mount(f"remount,{words}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def refused(run: Run) -> str:
    """How a run ends that cannot write."""
    code = run.end()
    if code == 0:
        return "exit 0"
    if "workflow/tilewave" in run.said.partition("Traceback")[2]:
        raise Wrong(f"a traceback:\n{run.said}")
    if "Traceback" in run.said:
        return "Snakemake's own traceback"
    return "told in a line" if "writing it: found" in run.said else "Snakemake's own message"


def disturbed(name: str, try_: int, chance: random.Random, folder: Path) -> str:
    """The other disturbances, by name."""
    if name == "disk full":
        with mounted(folder, f"size={FULL_KIB[try_ % len(FULL_KIB)]}k") as again:
            told = refused(Run(folder))
            again("size=256m")
            completed(folder, REFERENCE)
            return told
    if name == "read-only folder":
        with mounted(folder, "size=256m") as again:
            if try_ % 2:
                Run(folder).end()
                shutil.rmtree(folder / "results")
            again("ro")
            told = refused(Run(folder))
            again("rw")
            completed(folder, REFERENCE)
            return told
    if name == "files no larger than (ulimit -f)":
        most = FILE_BYTES[try_ % len(FILE_BYTES)]

        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        return refused(Run(folder, preexec_fn=limited))
    if name == "temporary folder full":
        with tempfile.TemporaryDirectory() as small, mounted(Path(small), "size=16k"):
            (Path(small) / "full").write_bytes(bytes(8192 - 4096 * (try_ % 2)))
            return refused(Run(folder, env={**os.environ, "TMPDIR": small}))
    if name == "clock":
        Run(folder).end()
        moved = (1 if try_ % 2 else -1) * 400 * 24 * 3600
        for path in folder.rglob("*"):
            os.utime(path, (time.time() + moved,) * 2)
        run = Run(folder)
        if run.end() or "measured" in run.said:
            raise Wrong(f"measured again:\n{run.said}")
        return "nothing is measured again"
    if name == "two runs at once":
        run = Run(folder)
        until(lambda: run.children(JOB))
        other = Run(folder)
        if not other.end() or "lock" not in other.said.lower():
            raise Wrong(f"the second is not refused:\n{other.said}")
        if run.end():
            raise Wrong(f"the first fails:\n{run.said}")
        return "the second is refused"
    raise ValueError(name)


TERM, KILL = signal.SIGTERM, signal.SIGKILL
OTHERS = ("disk full", "read-only folder", "files no larger than (ulimit -f)", "temporary folder full", "clock",
          "two runs at once")  # fmt: skip
TRIES: dict[str, Callable[[int, random.Random, Path], str]] = {
    **{
        f"kill -9 of {kind}": partial(kill, kind, KILL)
        for kind in ("snakemake", "job", "worker", "compiler")
    },
    "SIGTERM to job": partial(kill, "job", TERM),
    "SIGTERM to worker": partial(kill, "worker", TERM),
    "Ctrl-C": partial(interrupted, signal.SIGINT, True),
    "SIGTERM to snakemake": partial(interrupted, TERM, False),
    "SIGTERM to all": partial(interrupted, TERM, True),
    "SIGSTOP, SIGCONT": asleep,
    **{name: partial(disturbed, name) for name in OTHERS},
}
SHARE = {
    "kill -9 of snakemake": 3,
    "kill -9 of job": 3,
    "kill -9 of worker": 4,
    "kill -9 of compiler": 2,
}
"""Of twelve kills; the rest is tried a few times each."""
FEW = 5
REFERENCE: dict[str, pd.DataFrame] = {}


def undisturbed() -> dict[str, pd.DataFrame]:
    """What the study finds."""
    with place() as folder:
        run = Run(folder)
        if run.end():
            raise SystemExit(run.said)
        return tables(folder)


def tried(name: str, number: int, chance: random.Random) -> tuple[str, str]:
    """How a try ended, and what was wrong."""
    with place() as folder:
        try:
            told = TRIES[name](number, chance, folder)
            completed(folder, REFERENCE)
            return told, ""
        except (Wrong, AssertionError) as error:
            return "**wrong**", f"{name}, try {number}: {error}"
        except subprocess.CalledProcessError as error:
            return f"not tried: {error.cmd[0]} is not allowed", ""


def tries(names: list[str], times: int) -> list[tuple[str, int]]:
    """What is tried, with the number of each try: kills by turns, so that it can be ended at any time."""
    counts = {
        name: -(-times * SHARE[name] // 12) if name in SHARE else min(FEW, times) for name in names
    }
    return sorted(
        ((name, number) for name, most in counts.items() for number in range(most)),
        key=lambda one: (one[1] / counts[one[0]], one[0]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", choices=[*TRIES, []], help="what is tried; default: all"
    )
    parser.add_argument("--times", type=int, default=50, help="how many kills, in all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    signal.signal(TERM, lambda *_: sys.exit(1))  # what it has started ends with it
    os.environ["PYTHONPATH"] = str(ROOT / "workflow")
    REFERENCE.update(undisturbed())
    counts: dict[str, dict[str, int]] = {}
    wrong = 0
    try:
        for name, number in tries(options.names or list(TRIES), options.times):
            told, why = tried(name, number, chance)
            print(f"{name}: {told}", why, file=sys.stderr, flush=True)
            mine = counts.setdefault(name, {})
            mine[told] = mine.get(told, 0) + 1
            wrong += bool(why)
    except (KeyboardInterrupt, SystemExit):
        print("ended before all was tried", file=sys.stderr)
    print("| what | tries | how it ended |\n|---|---|---|")
    for name, mine in counts.items():
        said = ", ".join(f"{number} {told}" for told, number in mine.items())
        print(f"| {name} | {sum(mine.values())} | {said} |")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
