"""One side of a comparison: its tables, from a run's results, a recording, or kernels that are run now."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave import own_study
from tilewave import project as projects
from tilewave.commands import HERE
from tilewave.errors import UserError
from tilewave.kernels import Kernel, find_kernels, source_digest
from tilewave.processes import supervisor
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.records.tables import samples_table
from tilewave.stages import run
from tilewave.stages.pipeline import Pipeline

STAGES = ("compile", "execute", "check", "counters")
"""What is done of kernels that are run now; they are timed in turn (`in_turn`)."""
JOB_S = 60.0
"""What a pair may take to be timed, with its buffers."""
FRAMES = ("cases", "records", "samples", "instructions")
TABLES = (Path("results/tables"), Path(own_study.RESULTS) / "tables", Path("tables"), Path())
"""Where a folder may hold a run's tables."""


@dataclass(frozen=True)
class Side:
    """Tables of one side: cases, figures (``records``), raw samples, counts by instruction; environments
    by id, where they are known."""

    label: str
    cases: pd.DataFrame
    records: pd.DataFrame
    samples: pd.DataFrame
    instructions: pd.DataFrame
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def of_run(folder: Path) -> Side | None:
    """The tables that a run has left in a folder; None where there are none."""
    tables = next(
        (folder / one for one in TABLES if (folder / one / "records.parquet").is_file()), None
    )
    if tables is None:
        return None
    frames = {name: pd.read_parquet(tables / f"{name}.parquet") for name in FRAMES}
    target = tables.parent / "target.json"
    known = projects.read(target)["environments"] if target.is_file() else {}
    return Side(str(folder), **frames, environments=known)


def of_recording(folder: Path) -> Side | None:
    """What a folder of one GPU's recorded figures holds; None where it is none."""
    if not (folder / "environments.json").is_file():
        return None
    held = Recorded(folder).whole()
    results = held.results()
    figures = [
        {name: made[name] for name in ("case", "stage", "status", "verdict", "environment")}
        | figure
        for made in results
        for figure in (made["figures"] or [{"metric": ""}])
    ]
    places = pd.DataFrame(
        [{name: made[name] for name in ("case", "key", "environment", "stage")} for made in results]
    )
    long = {
        name: places.merge(held.long_table(name, set(places["key"])).to_pandas(), on="key")
        for name in ("samples", "instructions")
    }
    cases = _recorded_cases(held, results)
    return Side(str(folder), cases, pd.DataFrame(figures), **long, environments=held.environments)


def _recorded_cases(held: Recorded, results: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Verdict and resources of each recorded case."""
    used = {name.rpartition(".")[0]: entry for name, entry in held.compiled.items()}
    rows: dict[str, dict[str, Any]] = {}
    for made in results:
        row = rows.setdefault(made["case"], {"case": made["case"], "verdict": model.NOT_CHECKED})
        if made["stage"] == "check":
            row["verdict"] = made["verdict"] or model.NOT_CHECKED
        entry = used.get(made["case"].partition("@")[0], {})
        resources = entry.get("resources", {}).get(entry.get("symbol"), {})
        row |= {
            "registers": resources.get("registers"),
            "spill_bytes": resources.get("spill_store_bytes"),
        }
    return pd.DataFrame(list(rows.values()))


# ------------------------------------------------------------------------------------- kernels, run now


def revision(name: str, folders: Sequence[str], where: Path) -> list[Path]:
    """The folders of kernels as a git revision of this checkout has them, written below ``where``.

    Raises UserError where git does not know the revision, or it has no such folder.
    """
    found = []
    for folder in folders:
        command = ["git", "archive", "--format=tar", name, "--", folder]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
            allowed = f"a revision that holds {folder}; git says: {said[0]}"
            raise UserError(HERE, "revision", name, allowed)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(where, filter="data")
        found.append(where / folder)
    return found


def changed(
    before: Sequence[Path], after: Sequence[Path], all_of_them: bool = False
) -> tuple[list[str], list[str], list[str]]:
    """Names of kernels whose text, or that of a header of their own, differs, or of all of them; of those
    that only the first folders have; of those that only the second have."""
    one, other = find_kernels(before), find_kernels(after)
    both = [name for name in one if name in other]
    if not all_of_them:
        both = [name for name in both if source_digest(one[name]) != source_digest(other[name])]
    gone, new = (
        [name for name in one if name not in other],
        [name for name in other if name not in one],
    )
    return both, gone, new


def _config(
    folders: Sequence[Path], kernels: Sequence[Kernel], results: Path, shapes: Sequence[str]
) -> dict[str, Any]:
    """A config that checks, counts and, on a GPU, times these kernels."""
    blocks = own_study.blocks(
        kernels, lambda kind: own_study.small(kind, shapes), macros="each_dtype"
    )
    study = {
        "plot": "correctness", "title": "Compare", "question": "What has changed?",
        "time": True, "counters": "memory", "cases": blocks,
    }  # fmt: skip
    return {
        "kernel_folders": [str(folder) for folder in folders],
        "output": {"results": str(results), "reports": str(results / "reports")},
        "execute": {"when": "always", "case_limit_s": 20},
        "studies": {"compare": study},
    }


@dataclass(frozen=True)
class Kernels:
    """A side that is run now, and what knows its jobs."""

    side: Side
    pipeline: Pipeline


def of_kernels(
    label: str,
    folders: Sequence[Path],
    names: Sequence[str],
    shapes: Sequence[str],
    work: Path,
) -> Kernels:
    """Kernels of these folders, compiled and executed now, or checked and counted where there is a GPU.

    shapes: as of `tilewave report --shapes`; work: a folder for what is written on the way. Raises
    UserError for mistakes in the kernels and for shapes that fit none of them.
    """
    kernels = [one for name, one in find_kernels(folders).items() if name in names]
    config = _config(folders, kernels, work, shapes)
    cores = os.cpu_count() or 1
    job = run.Job(projects.load(config, HERE), None)
    target = run.target(job)
    run.write(str(work / "target.json"), target)
    for stage in STAGES:
        # What a stage found decides what the next has to do.
        todo = Pipeline(job.project, target).work().get(stage, [])
        if todo and stage == "compile":
            run.compile_kernels(job, todo, cores)
        elif todo:
            run.measure(job, stage, todo, cores)
    frames, _ = run.tables(job)
    side = Side(
        label, **{name: frames[name] for name in FRAMES}, environments=target["environments"]
    )
    return Kernels(side, Pipeline(job.project, target))


def in_turn(before: Kernels, after: Kernels) -> pd.DataFrame:
    """Samples of each case of which both sides gave a right result, the two kernels timed in turn (after,
    before, before, after) in one process, as `records.tables.samples_table` has them: ``duration_us`` is of
    after, ``baseline_us`` of before. Empty without a GPU."""
    if not after.pipeline.target["live"]:
        return pd.DataFrame()
    right = [
        set(one.side.cases.query("verdict == @model.CORRECT")["case"]) for one in (before, after)
    ]
    rivals = {one.case.id: one for one in before.pipeline.planned("time")}
    jobs = []
    for planned in after.pipeline.planned("time"):
        rival = rivals.get(planned.case.id)
        if rival is None or rival.job is None or planned.job is None:
            continue
        if not all(planned.case.id in cases for cases in right):
            continue
        for side, case in ((before, rival.case), (after, planned.case)):
            side.pipeline.compilations.provide(case.variant, side.pipeline.arch)
        jobs.append(replace(planned.job, rival=rival.job, baseline=False))
    store = after.pipeline.store
    made = supervisor.run_jobs("time", jobs, cache=store.root / "cache", limit_s=JOB_S)
    return samples_table(made, None)


def nothing(label: str) -> Side:
    """A side of which nothing had to be run."""
    none = pd.DataFrame()
    return Side(label, pd.DataFrame(columns=["case", "verdict"]), none, none, none)
