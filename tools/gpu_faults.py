"""What a run says of faults of a GPU, and whether its other cases are right all the same.

    .venv/bin/python tools/gpu_faults.py

Kernels that end badly run beside right ones. Then, on a GPU, another process holds its memory, another one
computes on it, the worker that times is killed, and so is Nsight Compute: each in a run of its own, and a last
run must bring what these could not. Prints a table in Markdown; exit code 1 where something is not as it has to
be. Without a GPU the kernels are executed, and the rest is left out. Takes two minutes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from crashes import ROOT, Run, place, until

FRONT = """/*---
title: {name}
operation: vector_add
dtypes: {{a: f32, b: f32, c: f32}}
block: [256]
grid: ["ceil(n / 256)"]
arguments: [a, b, c, n]
---*/
#include <cassert>
{more}
extern "C" __global__ void {name}(const float* a, const float* b, float* c, int n)
{{
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    {fault}
    if (i < n) c[i] = a[i] + b[i];
}}
"""
DEEP = """
__device__ __noinline__ float deep(float x, int level)
{
    volatile float own[64];
    own[level & 63] = x;
    return level == -1 ? x : deep(own[level + 1 & 63], level + 1) + own[level & 63];
}"""
INVALID = {"invalid access"}
FAULTS: dict[str, tuple[str, str, set[str]]] = {
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
RIGHT = ("right", "right_too")
SMALL, MIDDLE, LARGE = 1 << 16, 1 << 24, 1 << 27
LEFT_BYTES = 5 << 28
"""What is left of the GPU's memory: a context and a small case, but not the 1.5 GiB of a large one."""
STUDIES: dict[str, dict[str, Any]] = {
    "kernels": {"time": True, "cases": [{"kernels": [RIGHT[0], *FAULTS, RIGHT[1]], "shapes": [SMALL]}]},
    "memory": {"cases": [{"kernels": [RIGHT[0]], "shapes": [SMALL + 1, LARGE]}]},
    "beside": {"time": True, "cases": [{"kernels": [*RIGHT], "shapes": [MIDDLE]}]},
    "killed": {"time": True, "cases": [{"kernels": [*RIGHT], "shapes": [MIDDLE + 1, MIDDLE + 2]}]},
    "counted": {"counters": "basic", "cases": [{"kernels": [*RIGHT], "shapes": [MIDDLE + 3]}]},
}  # fmt: skip
OWN = "--be"
"""Before what another process is to be: `holding` the memory, or `computing`."""


def configure(folder: Path, *studies: str, limit_s: int = 20) -> None:
    """Write the kernels, and a config of these studies; how long a check may take."""
    for name in (*RIGHT, *FAULTS):
        more, fault, _ = FAULTS.get(name, ("", "", set()))
        path = folder / "faulty" / f"{name}.cu"
        path.parent.mkdir(exist_ok=True)
        path.write_text(FRONT.format(name=name, more=more, fault=fault))
    plain = {"plot": "correctness", "question": "Is it right?"}
    config = {
        "fresh": True,
        "kernel_folders": ["faulty"],
        "check": {"case_limit_s": limit_s},
        "execute": {"when": "no_gpu", "case_limit_s": 5},
        "studies": {name: {**plain, "title": name, **STUDIES[name]} for name in studies},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def be(what: str) -> None:
    """Hold the GPU's memory, or compute on it, for as long as the process lives that started this one."""
    from tilewave.gpu.buffers import Memory
    from tilewave.gpu.device import open_gpu
    from tilewave.gpu.session import Session
    from tilewave.processes.lifetime import die_with_parent

    die_with_parent()
    session = Session(open_gpu())
    gpu = session.gpu
    if what == "holding":
        Memory(gpu).new("held", gpu.free_bytes() - LEFT_BYTES, guarded=False)
    print("ready", flush=True)
    while True:
        if what == "holding":
            signal.pause()
        session.support.gate(40_000_000)  # 20 ms
        gpu.sync()


@contextlib.contextmanager
def another(what: str) -> Iterator[None]:
    """While another process is that."""
    command = [sys.executable, str(Path(__file__).resolve()), OWN, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        if one.stdout.readline() != "ready\n":
            raise SystemExit(f"no process that is {what}")
        try:
            yield
        finally:
            one.kill()


def shot(run: Run, words: str) -> bool:
    """Kill a process of a run a second after it began; whether there was one."""
    if not until(lambda: run.process.poll() is not None or run.children(words), 120):
        return False
    time.sleep(1)
    found = run.children(words)
    for one in found:
        one.kill()
    return bool(found)


def rows(folder: Path) -> pd.DataFrame:
    """Of each case and stage: status, reason and verdict."""
    tables = folder / "results" / "tables"
    records = pd.read_parquet(tables / "records.parquet")
    names = ["case", "kernel", "stage", "status", "reason", "verdict"]
    return records[names].fillna("").drop_duplicates()


def wrong(found: pd.DataFrame, but: Callable[[pd.Series], bool] = lambda one: False) -> list[str]:
    """Cases that are not right, or were disturbed, in some stage; ``but`` those that may be."""
    return [
        f"{one.case} {one.stage}: {one.status} {one.verdict} {one.reason}"
        for _, one in found.iterrows()
        if not but(one)
        and ((one.status, one.verdict) != ("ok", "correct") or one.reason.startswith("disturbed"))
    ]  # fmt: skip


class Table:
    """The rows, printed as they come, and what was not as it has to be."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        print("| fault | what the run says | exit code | the other cases |\n|---|---|---|---|")

    def add(self, fault: str, said: str, good: bool, code: int, others: list[str]) -> None:
        told = "right" if not others else "**wrong**"
        print(f"| {fault} | {'' if good else '**wrong** '}{said} | {code} | {told} |", flush=True)
        self.wrong += others + ([] if good else [f"{fault}: {said}"])


def of_kernels(folder: Path, table: Table, live: bool) -> None:
    """One run of all that end badly, right ones before and behind them."""
    configure(folder, "kernels", limit_s=4)
    run = Run(folder)
    code = run.end()
    if code:
        raise SystemExit(run.said)
    found = rows(folder)
    others = wrong(found, lambda one: one.kernel in FAULTS)
    if not live:  # nothing is timed
        others = [one for one in others if " time: " not in one]
    first = found[found["stage"] == ("check" if live else "execute")].set_index("kernel")
    for name, (_, _, allowed) in FAULTS.items():
        status, reason = first.loc[name, "status"], first.loc[name, "reason"]
        said = f"*{status}*: {reason}"
        table.add(f"kernel: {name.replace('_', ' ')}", said, status in allowed, code, others)


def of_the_rest(folder: Path, table: Table, counting: bool) -> None:
    """What happens to a run from outside; then a run to which nothing happens. counting: whether Nsight Compute
    may count here."""

    def tried(
        fault: str,
        study: str,
        happens: Callable[[Run], bool] | str,
        hit: Callable[[pd.Series], bool],
        needed: bool = True,
    ) -> None:
        configure(folder, study)
        with another(happens) if isinstance(happens, str) else contextlib.nullcontext():
            run = Run(folder)
            done = isinstance(happens, str) or happens(run)
            code = run.end()
        found = rows(folder)
        touched = found[found.apply(hit, axis=1)]
        said = "; ".join(f"*{one.status}*: {one.reason}" for _, one in touched.head(1).iterrows())
        said = said or (
            f"nothing is missing; {_line(run.said, 'tried again')}" if done else "missed"
        )
        good = done and (len(touched) > 0 or not needed)
        table.add(fault, said, good, code, wrong(found, hit))

    def without_figure(one: pd.Series) -> bool:
        return bool(one.status == "not measured")

    tried("memory held by another process", "memory", "holding",
          lambda one: one.status == "not measured" and "OUT_OF_MEMORY" in one.reason)  # fmt: skip
    tried("another process computes", "beside", "computing",
          lambda one: one.stage == "time" and one.reason.startswith("disturbed"))  # fmt: skip
    tried("kill -9 of the worker that times", "killed",
          lambda run: shot(run, "tilewave.gpu.worker time"), without_figure, needed=False)  # fmt: skip
    if counting:
        tried("kill -9 of Nsight Compute", "counted", lambda run: shot(run, "--nvtx-include"),
              lambda one: one.stage == "counters" and "SIGKILL" in one.reason)  # fmt: skip
    left_out = {"kernels", *([] if counting else ["counted"])}
    configure(folder, *[name for name in STUDIES if name not in left_out])
    run = Run(folder)
    code, others = run.end(), wrong(rows(folder))
    table.add(
        "none: the next run of all these",
        _line(run.said, "measured") or "-",
        not code,
        code,
        others,
    )


def of_two_runs(table: Table) -> None:
    """Two runs at a time, in folders of their own: one waits where the other measures."""
    with place() as one, place() as other:
        folders = one, other
        for folder in folders:
            configure(folder, "killed")
        runs = [Run(folder) for folder in folders]
        codes = [run.end() for run in runs]
        others = [line for folder in folders for line in wrong(rows(folder))]
    told = f"{len(others)} of their results are not right, or disturbed"
    table.add("two runs at once on one GPU", told, not any(codes), max(codes), others)


def _line(said: str, word: str) -> str:
    """The last line of what a run said that has a word in it."""
    return next((line.strip() for line in reversed(said.splitlines()) if word in line), "")


def main() -> int:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "workflow"), before]))
    sys.path.insert(0, str(ROOT / "workflow"))
    if OWN in sys.argv:
        be(sys.argv[-1])
    from tilewave import environment

    here = environment.probe()
    live = bool(here["gpu"])
    print(here["gpu"] or f"no GPU: {here['gpu_reason']}", file=sys.stderr)
    with place() as folder:
        table = Table()
        of_kernels(folder, table, live)
        if live:
            of_the_rest(folder, table, bool(here["ncu"]))
            of_two_runs(table)
    print("\n".join(table.wrong), file=sys.stderr)
    return bool(table.wrong)


if __name__ == "__main__":
    sys.exit(main())
