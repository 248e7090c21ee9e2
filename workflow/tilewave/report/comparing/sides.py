"""The two sides of a comparison: kernels of folders or git revisions, which run now."""

import functools
import io
import math
import os
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.basics.errors import HERE, UserError
from tilewave.execution import least, predicted
from tilewave.kernel import includes, result
from tilewave.kernel.digests import source_digest
from tilewave.kernel.discovery import find_kernels, gathered, reasons
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.job import Job
from tilewave.pipeline import kernels_study, rules
from tilewave.pipeline import project as projects
from tilewave.pipeline.pipeline import ALL, Pipeline
from tilewave.pipeline.tables import samples_table
from tilewave.report.cells import plural
from tilewave.report.comparing.changes import OCCUPANCY, Comparison, Side
from tilewave.theory.occupancy import SmLimits, if_known
from tilewave.workers import supervisor

BETWEEN = re.compile(r"(.+?)\.\.(?!/)(.*)")
"""Two revisions A..B; `../folder` is a path."""
STAGES = ("check", "counters")
"""Stages of kernels that are run now; `_in_turn` times them."""
JOB_S = 60.0
"""Time limit in seconds for timing a pair, with its buffers."""


def compared(
    before: str,
    after: str | None,
    work: Path,
    folders: Sequence[str],
    shapes: Sequence[str] = (),
    operations: Sequence[str] = (),
    all_of_them: bool = False,
) -> Comparison:
    """Compare two folders, files or git revisions.

    before: also ``A..B`` without an ``after``; after: None for the working tree; work: a folder for intermediate files;
    folders: to take from a revision; shapes: as for `tilewave report --shapes`; operations: folders of user-defined
    operations; all_of_them: also compare kernels whose code does not differ. Raises UserError.
    """
    between = None if Path(before).expanduser().exists() else BETWEEN.fullmatch(before)
    if between and after is not None:
        problem = f"{before} names both sides already, and {after} is a third"
        raise UserError.because(HERE, problem, "Name A..B, or A and B", "B")
    if between:
        before, after = between[1], between[2] or "HEAD"
    sides = {
        label: _SideFiles(name, folders, work / str(label))
        for label, name in enumerate((before, after))
    }
    skipped = list((sides[0].skipped | sides[1].skipped).values())  # the same reason once
    if not sides[0].kernels and not sides[1].kernels:
        problem = f"neither side has a kernel: {plural(len(skipped), 'file')} skipped"
        remedy = "Name folders or files of kernels"
        remedy = f"Correct the first: {skipped[0]}" if skipped else remedy
        raise UserError.because(HERE, problem, remedy, "A, B")
    names, gone, new = changed(sides[0].kernels, sides[1].kernels, all_of_them)
    labels = [name or "the working tree" for name in (before, after)]
    tables, in_turn = [Side(label) for label in labels], pd.DataFrame()
    if names:
        runs = [
            of_kernels(label, files.folders, names, shapes, work / f"run-{number}", operations)
            for label, (number, files) in zip(labels, sides.items())
        ]
        tables, in_turn = [side for side, _ in runs], _in_turn(*runs)
    broken = [sides[1].skipped[name] for name in sides[1].mistakes if name in sides[0].kernels]
    return Comparison(tables[0], tables[1], gone, new, in_turn, skipped, broken)


class _SideFiles:
    """A side's kernels; skipped: reasons by name of a kernel; mistakes: names of files with mistakes."""

    def __init__(self, name: str | None, folders: Sequence[str], where: Path) -> None:
        """Find the kernels; name: a folder, file or revision. Raises UserError."""
        self.folders = [Path(folder) for folder in folders]
        if name is not None:
            path = Path(name).expanduser()
            self.folders = [path] if path.exists() else revision(name, folders, where)
        skipped = dict[str, UserError]()
        self.kernels, self.mistakes = gathered(self.folders, skipped), list(reasons(skipped)[0])
        # The user does not know the temporary folder that a revision was written to.
        files, folder = skipped.items(), f"{where}{os.sep}"
        self.skipped = {file: str(why).replace(folder, f"{name}:") for file, why in files}


def with_occupancy(cases: pd.DataFrame, limits: SmLimits | None) -> pd.DataFrame:
    """Return the cases with the column OCCUPANCY, empty where registers, geometry or limits are unknown."""
    used = cases.reindex(columns=["block_threads", "registers", "shared_bytes"])
    rows = used.apply(pd.to_numeric, errors="coerce").astype(float).to_numpy()
    residents = [if_known(limits, *row) for row in rows]
    percent = [round(100 * each.fraction, 1) if each else math.nan for each in residents]
    return cases.assign(**{OCCUPANCY: percent})


def _limits(environments: Mapping[str, Mapping[str, Any]], arch: int) -> SmLimits | None:
    """Return the limits of the environments' GPU, else of the architecture."""
    gpu = next((facts for facts in environments.values() if facts.get("max_warps_per_sm")), None)
    try:
        return SmLimits.from_environment(gpu) if gpu else SmLimits.of(arch)
    except KeyError:
        return None


def revision(name: str, folders: Sequence[str], where: Path) -> list[Path]:
    """Write the folders of kernels of a git revision, and their headers', below ``where``, and return their
    paths. Raises UserError where git does not know the revision or the revision lacks a folder."""
    remedy = "Name a revision of the checkout that contains the current folder"
    top = os.fsdecode(_git(name, remedy, "rev-parse", "--show-toplevel")).strip()
    options = "rev-parse", "--verify", "--end-of-options"  # a name is no option: `--output=FILE`
    commit = _git(name, remedy, *options, name).decode().strip()

    def written(folder: str) -> Path:
        remedy = f"Name a revision that contains {folder}"
        packed = _git(name, remedy, "-C", top, "archive", "--format=tar", commit, "--", folder)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(where, filter="data")
        return where / folder

    includes.allow([where])
    paths = [written(os.path.relpath(os.path.realpath(folder), top)) for folder in folders]
    try:
        kernels = find_kernels(paths, {})
    except UserError as error:  # the user does not know the temporary folder
        moved = error.moved(error.where_file.replace(f"{where}{os.sep}", f"{name}:"))
        moved.args = (str(moved).replace(f"{where}{os.sep}", f"{name}:"),)
        raise moved from error
    for kernel in kernels.values():
        for include in kernel.folders[1:]:
            folder = Path(os.path.normpath(include))
            if folder.is_relative_to(where) and not folder.exists():
                written(str(folder.relative_to(where)))
    return paths


def _git(revision: str, remedy: str, *arguments: str) -> bytes:
    """Return git's output. Raises UserError where git fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
        problem = f"git cannot read revision {revision}: {lines[0].removeprefix('fatal: ')}"
        raise UserError.because(HERE, problem, remedy, "revision")
    return done.stdout


def changed(
    before: Mapping[str, Kernel], after: Mapping[str, Kernel], all_of_them: bool = False
) -> tuple[list[str], list[str], list[str]]:
    """Return the names of kernels that differ in text or headers, of those only before, and of those only
    after. all_of_them: return all kernels that both sides have as differing."""
    both = [name for name in before if name in after]
    if not all_of_them:
        both = [name for name in both if source_digest(before[name]) != source_digest(after[name])]
    gone = [name for name in before if name not in after]
    return both, gone, [name for name in after if name not in before]


def _config(
    folders: Sequence[Path],
    kernels: Sequence[Kernel],
    results: Path,
    shapes: Sequence[str],
    operation_folders: Sequence[str],
) -> dict[str, Any]:
    """Return a config that checks, counts and, on a GPU, times these kernels."""
    small = functools.partial(kernels_study.small, shapes=shapes)
    blocks = kernels_study.blocks(kernels, small, macros="each_dtype")
    study = {
        "plot": "correctness", "title": "Compare", "question": "What has changed?",
        "time": True, "counters": "memory", "cases": blocks,
    }  # fmt: skip
    return {
        "kernel_folders": [str(folder) for folder in folders],
        "operation_folders": list(operation_folders),
        "output": {"results": str(results), "reports": f"{results}-reports"},
        "execute": {"when": "always", "case_limit_s": 20},
        "studies": {"compare": study},
    }


def of_kernels(
    label: str,
    folders: Sequence[Path],
    names: Sequence[str],
    shapes: Sequence[str],
    work: Path,
    operation_folders: Sequence[str] = (),
) -> tuple[Side, Pipeline]:
    """Compile kernels and execute them, or check and count them where there is a GPU. shapes: as of `tilewave
    report`; work: a folder for files. Raises UserError for mistakes and for shapes that fit no kernel."""
    kernels = [kernel for name, kernel in gathered(folders, {}).items() if name in names]
    config = _config(folders, kernels, work, shapes, operation_folders)
    cores = os.cpu_count() or 1
    run = rules.begin(projects.load(config, HERE, ladder=False))
    rules.write(str(work / "target.json"), run.target)
    pipeline = Pipeline(run.project, run.target, rules.compile_part(run, ALL, cores), cores=cores)
    results = rules.measure_part(run, pipeline, cores, STAGES)
    results[result.EXECUTE] = rules.execute_part(run, pipeline, cores)
    frames = rules.tables(run, pipeline, results).all()
    limits = _limits(run.target["environments"], run.target["arch"])
    frames["cases"] = with_occupancy(frames["cases"], limits)
    gpu = least.gpu_of(run.target["arch"], str(run.target["label"]))
    planned = {} if gpu is None or run.target["live"] else pipeline.planned("counters")
    jobs = [job for job in planned.values() if isinstance(job, Job) and job.cubin]
    pipeline.provide({job.variant for job in jobs})
    times = {job.case: predicted.of_case(job, gpu) or {} for job in jobs if gpu is not None}
    side = Side(
        label, frames["cases"], frames["instructions"],
        {name: row["microseconds"] for name, row in times.items() if "microseconds" in row},
    )  # fmt: skip
    return side, pipeline


def _in_turn(before: tuple[Side, Pipeline], after: tuple[Side, Pipeline]) -> pd.DataFrame:
    """Time both sides' kernels in turn (after, before, before, after) in one process; return samples of cases
    correct on both: ``duration_us`` is of after, ``baseline_us`` of before. Empty without a GPU."""
    (old, old_pipeline), (new, pipeline) = before, after
    if not pipeline.target["live"]:
        return pd.DataFrame()
    sides = (side.cases.query("verdict == @result.CORRECT") for side in (old, new))
    correct = set.intersection(*(set(cases["case"]) for cases in sides))
    rivals, jobs = old_pipeline.planned("time"), []
    for case, job in pipeline.planned("time").items():
        rival = rivals.get(case)
        if not (isinstance(job, Job) and isinstance(rival, Job) and case in correct):
            continue
        old_pipeline.provide([rival.variant])
        pipeline.provide([job.variant])
        jobs.append(replace(job, rival=rival, baseline=False))
    cache = pipeline.store.root / "cache"
    samples = supervisor.run_jobs("time", jobs, cache=cache, limit_s=JOB_S)
    return samples_table(samples, None)
