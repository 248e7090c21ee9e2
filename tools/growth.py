"""How Tilewave grows with the number of kernels: it writes that many, plans a study of them or runs it whole,
and tells seconds and bytes as a JSON object a line. No GPU is needed.

    python tools/growth.py 10 100 1000             # the graph of jobs alone (`snakemake --dry-run`)
    python tools/growth.py 10 100 --run            # compiled, executed, and every page written

Each kernel is a vector addition with a number of its own in its code. docs/growth.md has the results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
KERNEL = """\
/*---
title: Addition {number}
operation: vector_add
dtypes: {{a: f32, b: f32, c: f32}}
macros: {{BLOCK: {blocks}}}
block: [BLOCK]
grid: ["ceil(n / BLOCK)"]
requires: {{arch: 75}}
arguments: [a, b, c, n]
---*/

// c = a + b. The branch that no launch takes makes the code another one than its neighbours'.
extern "C" __global__ void {name}(const float* a, const float* b, float* c, int n)
{{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (n < -{number}) c[i] = {number}.0f;
    if (i < n) c[i] = a[i] + b[i];
}}
"""


def write(folder: Path, kernels: int, variants: int, shapes: int) -> Path:
    """The kernels and their config in a folder; the config's path."""
    (folder / "kernels").mkdir()
    blocks = [32 * (1 + number) for number in range(variants)]
    for number in range(kernels):
        name = f"addition_{number:05d}"
        text = KERNEL.format(name=name, number=number, blocks=blocks)
        (folder / "kernels" / f"{name}.cu").write_text(text, encoding="utf-8")
    study = {
        "plot": "correctness",
        "title": "Growth",
        "question": "Is every kernel right?",
        "cases": [
            {
                "operation": "vector_add",
                "macros": "product",
                "shapes": [1000 + n for n in range(shapes)],
            }
        ],
    }
    config = {
        "kernel_folders": [str(folder / "kernels")],
        "fresh": True,
        "execute": {"when": "always"},
        "studies": {"growth": study},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def snakemake(folder: Path, config: Path, *arguments: str) -> tuple[dict[str, float], str]:
    """What a run in the folder took (``s``: wall clock, ``cpu_s``: of all its processes, ``gb``: memory of
    the largest one), and what it said.

    Raises RuntimeError where it fails.
    """
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-d", str(folder)]
    command += ["report", *arguments, "--configfile", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "CUDA_VISIBLE_DEVICES": ""}
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - begun
        said.seek(0)
        text = said.read()
    if child.returncode:
        raise RuntimeError(text)
    cost = {"s": took, "cpu_s": used.ru_utime + used.ru_stime, "gb": used.ru_maxrss / 2**20}
    return {name: round(value, 2) for name, value in cost.items()}, text


def megabytes(*paths: Path) -> float:
    """What the files of these folders hold."""
    files = [file for path in paths for file in [path, *path.rglob("*")] if file.is_file()]
    return round(sum(file.stat().st_size for file in files) / 1e6, 2)


def by_rule(text: str) -> dict[str, float]:
    """Rule -> seconds from its job's start to its end, by the times that Snakemake writes (whole ones)."""
    stamp, begun = 0.0, dict[str, float]()
    spent: dict[str, float] = {}
    for line in text.splitlines():
        if found := re.fullmatch(r"\[(.*\d\d:\d\d:\d\d.*)\]", line):
            stamp = time.mktime(time.strptime(found[1], "%a %b %d %H:%M:%S %Y"))
        elif found := re.match(r"Job (\d+): ", line):
            begun[found[1]] = stamp
        elif found := re.match(r"Finished jobid: (\d+) \(Rule: (\w+)\)", line):
            spent[found[2]] = spent.get(found[2], 0.0) + stamp - begun[found[1]]
    return spent


def measured(kernels: int, variants: int, shapes: int, run: bool, cores: int) -> dict[str, object]:
    """What a number of kernels costs."""
    with tempfile.TemporaryDirectory(prefix="tilewave-growth-") as name:
        folder = Path(name)
        config = write(folder, kernels, variants, shapes)
        told: dict[str, object] = {"kernels": kernels, "cases": kernels * variants * shapes}
        for what in ("plan", "plan_again"):
            told[what] = snakemake(folder, config, "--dry-run", "--cores", str(cores))[0]
        if run:
            told["run"], text = snakemake(folder, config, "--cores", str(cores))
            tables = folder / "results" / "tables"
            told["rules_s"] = by_rule(text)
            told |= {
                "store_mb": megabytes(folder / ".tilewave" / "compiled", folder / ".tilewave" / "results"),
                "tables_mb": megabytes(tables),
                "pages_mb": megabytes(folder / "reports"),
                "index_mb": megabytes(folder / "reports" / "index.html"),
                "kernel_page_mb": megabytes(*(folder / "reports").glob("**/addition_00000*.html")),
            }  # fmt: skip
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("kernels", type=int, nargs="+")
    parser.add_argument("--variants", type=int, default=2)
    parser.add_argument("--shapes", type=int, default=4)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--run", action="store_true", help="not the plan alone")
    asked = parser.parse_args()
    for count in asked.kernels:
        row = measured(count, asked.variants, asked.shapes, asked.run, asked.cores)
        print(json.dumps(row), flush=True)
