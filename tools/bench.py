"""How many thread instructions a second one core executes, for each kernel, and where time goes.

make bench                               # all of them
make bench ARGS="hgemm_wmma_staged"      # those whose names begin so
make bench ARGS="--json"
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# One core is what the figures are about; numpy and numba read these when they are loaded.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

KERNELS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("matmul_naive", "256", ()),
    ("matmul_tiled", "256", ()),
    ("matmul_tiled", "256", ("REAL=f64",)),
    ("matmul_tiled", "256", ("TILE=32",)),
    ("matmul_two_outputs", "256", ()),
    ("matmul_register", "256", ()),
    ("matmul_double_buffered", "256", ()),
    ("hgemm_wmma", "512", ()),
    ("hgemm_wmma_staged", "512", ()),
    ("hgemm_wmma_staged", "2048", ()),
    ("hgemm_wmma_staged", "2048", ("ACCUMULATE=f32",)),
    ("vector_add", "1048576", ()),
)
PARTS = 4
"""Opcodes that the table names; the document has all."""


def measure(kernel: str, shape: str, macros: Sequence[str], repeats: int) -> dict[str, Any]:
    """The best of several executions of one launch, and a further one that samples its opcodes."""
    from tilewave import execution
    from tilewave.commands import execute
    from tilewave.execution import case

    root = Path(__file__).resolve().parent.parent
    file = next((root / "kernels").glob(f"*/{kernel}.cu"))
    words = [str(file), "--shape", shape]
    for macro in macros:
        words += ["--macro", macro]
    options = execute.options_of(words)
    machine = execution.engine()
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        planned, _ = execute.planned(options, Path(folder))
        assert planned.job is not None, planned.result
        job = dataclasses.replace(planned.job, limit_s=3600.0)
        best, threads = float("inf"), 0
        for _ in range(repeats):
            one = case.launch_once(job, machine)
            best, threads = min(best, one.seconds), one.thread_instructions
        profile = case.launch_once(job, machine, profile=True).ran[0].profile
    return {
        "case": planned.case.id,
        "thread_instructions": threads,
        "seconds": best,
        "per_second": threads / best,
        "share": dict(sorted((profile or {}).items(), key=lambda item: -item[1])),
    }


def line(row: dict[str, Any]) -> str:
    """One kernel in one line."""
    parts = [f"{name} {100 * share:.0f} %" for name, share in list(row["share"].items())[:PARTS]]
    return (
        f"{row['case']:<52} {row['thread_instructions'] / 1e6:>9.1f} M {row['seconds']:>8.3f} s "
        f"{row['per_second'] / 1e6:>7.0f} M/s  {', '.join(parts)}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kernels", nargs="*", help="beginnings of kernel names; default: all")
    parser.add_argument("--repeats", type=int, default=3, help="the fastest counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    begun, rows = time.monotonic(), []
    if not options.json:
        print(
            f"{'case':<52} {'thread inst.':>11} {'time':>10} {'rate':>11}  share of time by opcode"
        )
    for kernel, shape, macros in KERNELS:
        if options.kernels and not kernel.startswith(tuple(options.kernels)):
            continue
        rows.append(measure(kernel, shape, macros, options.repeats))
        if not options.json:
            print(line(rows[-1]), flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"one core, best of {options.repeats}; {time.monotonic() - begun:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
