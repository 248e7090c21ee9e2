"""Predict the time of every recorded case that has cycles, and write the table that docs/timing.md is made from.

    python tools/predict_times.py          # after a report: reads results/, writes workflow/tilewave/plots/limits.csv
    python tools/predict_times.py --table  # prints docs/timing.md's tables from it

Half of the kernels and dtypes, by a hash, had no part in fitting constants: `half` is 1.
"""

import argparse
import hashlib
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workflow"))

from tilewave import execution
from tilewave.basics.errors import NoTime
from tilewave.execution import case as cases
from tilewave.execution.machine.compiling import compile_units
from tilewave.execution.predicted import by_line
from tilewave.kernel.job import Job
from tilewave.pipeline import project as projects
from tilewave.pipeline import rules
from tilewave.theory.data_sheets import data_sheet

TABLE = Path("workflow/tilewave/plots/limits.csv")
CYCLES = "sm__cycles_active.max"


def half_of(job: Job) -> int:
    name = f"{job.kernel} {job.dtypes.get('a') or next(iter(job.dtypes.values()), '')}"
    return hashlib.sha256(name.encode()).digest()[0] & 1


def predict(job: Job, gpu: str) -> tuple[float, str, list[tuple[str, int]]]:
    """Return cycles of the leading launch, a reason if there are none, and its lines by their stalls."""
    sheet = data_sheet(gpu)
    assert sheet is not None
    try:
        launch = cases.timed(job, sheet)[job.leading]
    except (NoTime, ValueError, MemoryError) as error:
        return float("nan"), str(error), []
    return launch.time.cycles, "", [(file, line) for file, line, _ in by_line([launch])][:3]


def run(results: Path, processes: int) -> pd.DataFrame:
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    config["output"] = {"results": str(results)}
    target = projects.read(results / "target.json")
    project = projects.planned(config, "config", results / "plan.json")
    compiled = [str(path) for path in sorted((results / "compiled").glob("*.json"))]
    pipeline = rules.Run(project, target).pipeline(compiled, threads=processes)
    records = pd.read_parquet(results / "tables" / "records.parquet")
    measured = records[records["metric"] == CYCLES].groupby("case")["value"].first()
    jobs = {
        name: job
        for name, job in pipeline.planned("counters").items()
        if isinstance(job, Job) and job.provider == "nvrtc" and name in measured.index
    }
    pipeline.provide({job.variant for job in jobs.values()})
    stalls = pd.read_parquet(results / "tables" / "stalls.parquet")
    stalls = stalls.reindex(columns=["case", "file", "line", "samples"])
    lines = stalls.groupby(["case", "file", "line"])["samples"].sum().reset_index()
    lines = lines.sort_values("samples", ascending=False).drop_duplicates("case").set_index("case")
    gpu = str(target["label"])
    execution.prepare(print, processes, len(jobs))
    compile_units(["timing"])
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(processes) as pool:
        done = pool.map(predict, jobs.values(), [gpu] * len(jobs))
        for (name, job), (cycles, reason, places) in zip(jobs.items(), done):
            most = lines.loc[name] if name in lines.index else None
            row = {
                "case": name, "code": job.code[:12], "kernel": job.kernel, "gpu": gpu,
                "dtype": job.dtypes.get("a", ""), "half": half_of(job),
                "measured": round(measured[name]), "predicted": cycles, "reason": reason or None,
            }  # fmt: skip
            if most is not None:
                wanted = (str(most["file"]) or Path(job.source).name, int(most["line"]))
                row["line"] = places.index(wanted) + 1 if wanted in places else 0
            rows.append(row)
            print(f"{len(rows)}/{len(jobs)} {name}", file=sys.stderr, end="\r")
    table = pd.DataFrame(rows).dropna(axis="columns", how="all").sort_values("case")
    return table.assign(predicted=table["predicted"].round().astype("Int64"))


def _summary(rows: pd.DataFrame) -> dict[str, Any]:
    error = (rows["predicted"] / rows["measured"] - 1).abs().fillna(np.inf)
    return {
        "cases": len(rows),
        "median": f"{100 * error.median():.1f} %",
        "within 10 %": f"{100 * (error <= 0.10).mean():.0f} %",
        "within 25 %": f"{100 * (error <= 0.25).mean():.1f} %",
    }


def show(rows: pd.DataFrame) -> None:
    for column in ("half", "dtype", "kernel"):
        table = {f"{column} {name}": _summary(part) for name, part in rows.groupby(column)}
        print(pd.DataFrame(table).T.to_string(), end="\n\n")
    rows = rows.assign(ratio=rows["predicted"] / rows["measured"])
    ranked = rows[rows["half"] == 1].assign(off=lambda part: np.log(part["ratio"]).abs())
    print(
        ranked.sort_values("off", ascending=False)
        .head(10)[["case", "measured", "ratio"]]
        .to_string()
    )
    sampled = rows.dropna(subset="line") if "line" in rows else rows[:0]
    if len(sampled):
        print(f"line with the most samples: first {(sampled['line'] == 1).sum()}, among three "
              f"{(sampled['line'] > 0).sum()}, of {len(sampled)}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--output", type=Path, default=TABLE)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        table = run(options.results, options.processes)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(options.output, index=False)
    show(pd.read_csv(options.output))
