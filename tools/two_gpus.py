"""Try a part of the study on one GPU of this machine, on two, and on two of which one is taken away.

    python tools/two_gpus.py [--only operations] [--cores N] [--folder DIR]

Prints the time of each run, by how much the two cards differ, and what became of the run whose second
GPU was lost: its worker is killed under a timing, and from then on no process of that run sees the
device (a variable of the process says so, nothing is done to the driver). Exits with 1 where a run
fails, or where the last one has measured less than the others.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
HIDING = """\
import os
from pathlib import Path
flag = Path(os.environ["TWO_GPUS_HIDDEN"])
if flag.exists() and os.environ.get("CUDA_VISIBLE_DEVICES") == flag.read_text():
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
"""


def started(folder: Path, gpus: str, asked: argparse.Namespace) -> subprocess.Popen[str]:
    """A run in a folder and with a store of its own; its output goes to ``run.log`` there."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(HIDING)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-d", str(folder)]
    command += ["results/tables/records.parquet", "results/cards.json", "--cores", str(asked.cores)]
    command += ["--config", f"only={asked.only}", f"gpus={gpus}", "target=live"]
    told = {**os.environ, "PYTHONPATH": path, "TWO_GPUS_HIDDEN": str(folder / "hidden")}
    with (folder / "run.log").open("w") as log:
        return subprocess.Popen(command, cwd=folder, env=told, stdout=log, stderr=log, text=True)


def worker_of(run: Path, uuid: str) -> int | None:
    """The process that times on that GPU for that run, None where there is none."""
    marks = (f"CUDA_VISIBLE_DEVICES={uuid}", f"TWO_GPUS_HIDDEN={run / 'hidden'}")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if {"tilewave.gpu.worker", "time"} <= set(words) and set(marks) <= set(variables):
            return int(entry.name)
    return None


def take_away(run: Path, uuid: str, process: subprocess.Popen[str]) -> str:
    """Hide a GPU from a run and kill the worker that times on it; what was done."""
    while process.poll() is None:
        found = worker_of(run, uuid)
        events = next((run / "results").glob("logs/time-*.log.worker"), None)
        if found is None or events is None:
            time.sleep(0.05)
            continue
        time.sleep(3)  # CUDA starts, the first cases are timed
        (run / "hidden").write_text(uuid)
        try:
            os.kill(found, signal.SIGKILL)
        except ProcessLookupError:
            (run / "hidden").unlink()
            continue
        return f"worker {found} killed, {uuid} hidden"
    return "no worker timed there: nothing was taken away"


def records(run: Path) -> pd.DataFrame:
    return pd.read_parquet(run / "results" / "tables" / "records.parquet")


def told_of(run: Path) -> str:
    """How many cases each card gave, by stage, and how many have no figure."""
    cases = records(run).drop_duplicates(["case", "stage"])
    cases = cases[cases["stage"] != "execute"]
    names = {one["id"]: one["uuid"][:12] for one in target(run)["cards"]}
    where = cases["environment"].map(names).fillna("no GPU")
    return str(pd.crosstab(where, [cases["stage"], cases["status"]]).to_string())


def target(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "results" / "target.json").read_text())
    return found


def differences(one: Path, two: Path) -> str:
    """The largest differences of times and shares between the first card and each of two."""
    lines = []
    first = target(one)["environment"]
    for metric in ("duration", "bandwidth", "tflops", "paired_share"):
        left, right = (
            frame[(frame["metric"] == metric) & (frame["stage"] == "time")].set_index("case")
            for frame in (records(one), records(two))
        )
        both = left.merge(right, on="case", suffixes=("", "_two"))
        ratio = 100 * (both["value_two"] / both["value"] - 1)
        for other, mine in ratio.groupby(both["environment_two"]):
            which = "the same card again" if other == first else "the other card"
            worst = mine.abs().idxmax()
            lines.append(
                f"{metric}, {which}: median {mine.median():+.2f} %, largest {mine[worst]:+.2f} % "
                f"({worst}), {len(mine)} cases"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="operations", help="part of the study")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="where the runs work; default: a temporary one")
    asked = parser.parse_args()
    base = (asked.folder or Path(tempfile.mkdtemp(prefix="two-gpus-"))).resolve()
    seconds: dict[str, float] = {}
    good: dict[str, int] = {}
    for name, gpus in (("one", "[0]"), ("two", "[0, 1]"), ("lost", "[0, 1]")):
        run, begun = base / name, time.monotonic()
        process = started(run, gpus, asked)
        try:
            if name == "lost":
                second = target(base / "two")["cards"][1]["uuid"]
                print(f"{name}: {take_away(run, second, process)}")
            code = process.wait()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()
        seconds[name] = time.monotonic() - begun
        print(f"{name}: exit code {code} after {seconds[name]:.1f} s, {run / 'run.log'}")
        if code:
            print((run / "run.log").read_text()[-4000:])
            return 1
        rows = records(run)
        good[name] = len(rows[rows["status"] == "ok"].drop_duplicates(["case", "stage"]))
        print(f"{told_of(run)}\n")
    print(f"two GPUs take {seconds['two'] / seconds['one']:.2f} of one GPU's time")
    print(differences(base / "one", base / "two"))
    print("one case on each card:", (base / "two/results/cards.json").read_text())
    lines = (base / "lost/run.log").read_text().splitlines()
    print("lost:", *(line for line in lines if "GPU-" in line or "interrupted" in line), sep="\n  ")
    print(f"ok: {good['one']} on one, {good['two']} on two, {good['lost']} with one lost")
    return int(good["lost"] < min(good["one"], good["two"]))


if __name__ == "__main__":
    sys.exit(main())
