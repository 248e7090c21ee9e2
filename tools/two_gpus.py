"""Try a part of the study on one GPU of this machine, on two, and on two of which one is taken away.

    python tools/two_gpus.py [--only operations] [--cores N] [--folder DIR] [--runs one two lost]
                              [--whole SECONDS]

Prints the time of each run, by how much the two cards differ, and what became of the run whose second
GPU was lost: half-way through its timings its worker is killed, and from then on no process of that run
sees the device (a variable of the process says so, nothing is done to the driver). Exits with 1 where a
run fails, where nothing was taken away, or where the last run has measured less than the others.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
RUNS = {"one": "[0]", "two": "[0, 1]", "lost": "[0, 1]"}
"""What the config's `gpus` is in each."""
TOLD = re.compile(r"^  \w+: .*(cases|variants) in |GPU-|interrupted|tried again")
"""What of a run's log is told."""
WATCHED = """\
import os, sys
from pathlib import Path
run, card = Path(os.environ["TWO_GPUS_RUN"]), os.environ.get("CUDA_VISIBLE_DEVICES", "")
hidden = run / "hidden"
if hidden.exists() and hidden.read_text() == card:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
elif sys.orig_argv[1:4:2] == ["-m", "time"]:
    (run / f"times-{card}").write_text(str(os.getpid()))
"""
"""What each Python process of a run does first: who times on a GPU says so, by its id in a file that is
named after the GPU; and who would use the hidden one sees none."""


def started(folder: Path, gpus: str, asked: argparse.Namespace) -> subprocess.Popen[str]:
    """A run in a folder and with a store of its own; its output goes to ``run.log`` there."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(WATCHED)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-d", str(folder)]
    command += ["results/tables/records.parquet", "results/cards.json", "--cores", str(asked.cores)]
    command += ["--config", f"gpus={gpus}", "target=live"]
    command += [f"only={asked.only}"] if asked.only else []
    told = {**os.environ, "PYTHONPATH": path, "TWO_GPUS_RUN": str(folder)}
    with (folder / "run.log").open("w") as log:
        return subprocess.Popen(command, cwd=folder, env=told, stdout=log, stderr=log, text=True)


def kept(run: Path, identity: str) -> int:
    """Timings that a run has from the GPU of that environment."""
    return len(list((run / ".tilewave" / "results" / identity / "time").rglob("*.json")))


def take_away(run: Path, card: dict[str, Any], half: int, process: subprocess.Popen[str]) -> str:
    """Once `half` timings of a GPU are there, hide it from the run and kill the worker that times on it;
    what was done. Raises RuntimeError where the run ended before."""
    uuid, worker = card["uuid"], run / f"times-{card['uuid']}"
    while kept(run, card["id"]) < half or not worker.exists():
        if process.poll() is not None:
            raise RuntimeError(f"the run ended before {half} timings on {uuid}: nothing taken away")
        time.sleep(0.02)
    found = int(worker.read_text())
    (run / "hidden").write_text(uuid)
    try:
        os.kill(found, signal.SIGKILL)
    except ProcessLookupError:
        return f"{uuid} hidden; worker {found} had just ended"
    return f"{uuid} hidden and worker {found} killed after {kept(run, card['id'])} timings there"


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


def table(rows: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """A row for each run: its time, what that is of one GPU's, and the cases that are ok by stage."""
    made = pd.DataFrame(rows).T
    if "one" in rows:
        made.insert(1, "of one GPU", (made["seconds"] / rows["one"]["seconds"]).round(3))
    return made


def whole(one: float, two: float, seconds: float) -> str:
    """What two GPUs would take for all that takes one of them so many seconds, if what two of them could
    not share of a part, its fixed seconds, stayed the same."""
    fixed = 2 * two - one
    return (
        f"{fixed:.0f} s of the part are not shared: of {seconds:.0f} s on one GPU two would take "
        f"{(seconds + fixed) / 2:.0f} s, {(seconds + fixed) / 2 / seconds:.2f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default="operations", help="part of the study; empty for all of it"
    )
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="where the runs work; default: a temporary one")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), help="which runs")
    parser.add_argument("--whole", type=float, help="seconds of the whole study on one GPU")
    asked = parser.parse_args()
    base = (asked.folder or Path(tempfile.mkdtemp(prefix="two-gpus-"))).resolve()
    rows: dict[str, dict[str, Any]] = {}
    for name in RUNS:
        if name not in asked.runs:
            continue
        run, begun = base / name, time.monotonic()
        process = started(run, RUNS[name], asked)
        try:
            if name == "lost":
                second = target(base / "two")["cards"][1]
                half = kept(base / "two", second["id"]) // 2
                print(f"lost: {take_away(run, second, half, process)}", flush=True)
            code = process.wait()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait()
        spent = time.monotonic() - begun
        print(f"{name}: exit code {code} after {spent:.1f} s, {run / 'run.log'}")
        lines = (run / "run.log").read_text().splitlines()
        if code:
            print(*lines[-40:], sep="\n")
            return 1
        print(
            *(line for line in lines if TOLD.search(line)), told_of(run), "", sep="\n", flush=True
        )
        good = records(run).query("status == 'ok'").drop_duplicates(["case", "stage"])
        rows[name] = {"seconds": round(spent, 1), "ok": len(good), **good["stage"].value_counts()}
        print(table(rows).to_string(), flush=True)  # whoever is short of time has this
    if {"one", "two"} <= rows.keys():
        print(differences(base / "one", base / "two"))
        print("one case on each card:", (base / "two/results/cards.json").read_text())
        if asked.whole:
            print(whole(rows["one"]["seconds"], rows["two"]["seconds"], asked.whole))
    print(table(rows).to_string())
    good = {name: row["ok"] for name, row in rows.items()}
    return int("lost" in good and good["lost"] < max(good.values()))


if __name__ == "__main__":
    sys.exit(main())
