"""A side of a comparison: its tables, from a run's results, a recording, or kernels run now."""

import io
import math
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.basics.errors import HERE, UserError
from tilewave.compiling import origins
from tilewave.execution import least
from tilewave.kernel import includes, result
from tilewave.kernel.digests import source_digest
from tilewave.kernel.discovery import find_kernels, gathered
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline import kernels_study, rules
from tilewave.pipeline import project as projects
from tilewave.pipeline.pipeline import ALL, Pipeline
from tilewave.pipeline.tables import samples_table
from tilewave.records.recorded import Recorded
from tilewave.theory.data_sheets import DataSheet
from tilewave.theory.occupancy import SmLimits, occupancy
from tilewave.workers import supervisor

STAGES = ("check", "counters")
"""Stages of kernels that are run now; `in_turn` times them."""
JOB_S = 60.0
"""Time limit in seconds for timing a pair, with its buffers."""
FRAMES = ("cases", "records", "samples", "instructions")
OCCUPANCY = "occupancy_percent"
"""Column with the occupancy that registers, shared memory and block size allow."""
TABLES = (Path("results/tables"), Path(kernels_study.RESULTS) / "tables", Path("tables"), Path())
"""Subfolders that may hold a run's tables."""


@dataclass(frozen=True)
class Side:
    """Tables of a side.

    samples: raw samples; instructions: counts by instruction; environments: by id, where known; listing:
    returns a variant's machine code as from `sass.as_text`, empty where unknown; texts: returns a variant's
    source files by last name, empty where unknown; gpu: the GPU of least times.
    """

    label: str
    cases: pd.DataFrame
    records: pd.DataFrame
    samples: pd.DataFrame
    instructions: pd.DataFrame
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    listing: Callable[[str], str] = lambda variant: ""
    texts: Callable[[str], Mapping[str, str]] = lambda variant: {}
    gpu: DataSheet | None = None


def with_occupancy(cases: pd.DataFrame, limits: SmLimits | None) -> pd.DataFrame:
    """Return the cases with the column OCCUPANCY, empty where registers, geometry or limits are unknown."""

    def percent(threads: float, registers: float, shared: float) -> float:
        if limits is None or not (threads > 0 and registers > 0):
            return math.nan
        shared = int(shared) if shared == shared else 0
        return round(100 * occupancy(limits, int(threads), int(registers), shared).fraction, 1)

    used = cases.reindex(columns=["block_threads", "registers", "shared_bytes"])
    rows = used.apply(pd.to_numeric, errors="coerce").astype(float).to_numpy()
    return cases.assign(**{OCCUPANCY: [percent(*row) for row in rows]})


def _limits(environments: Mapping[str, Mapping[str, Any]], arch: int) -> SmLimits | None:
    """Return the limits of the environments' GPU, else of the architecture."""
    gpu = next((facts for facts in environments.values() if facts.get("max_warps_per_sm")), None)
    try:
        return SmLimits.from_environment(gpu) if gpu else SmLimits.of(arch)
    except KeyError:
        return None


def _run_tables(folder: Path) -> Path | None:
    """Return the folder of a run's tables inside a folder."""
    folders = (folder / tables for tables in TABLES)
    return next((tables for tables in folders if (tables / "records.parquet").is_file()), None)


def _is_recording(folder: Path) -> bool:
    return (folder / "environments.json").is_file()


def has_figures(folder: Path) -> bool:
    """Return whether a folder holds a report's results or recorded values."""
    return _run_tables(folder) is not None or _is_recording(folder)


def of_figures(folder: Path) -> Side:
    """Return the side of a folder with a report's results or recorded values."""
    tables = _run_tables(folder)
    return of_recording(folder) if tables is None else _of_run(folder, tables)


def _of_run(folder: Path, tables: Path) -> Side:
    frames = {name: pd.read_parquet(tables / f"{name}.parquet") for name in FRAMES}
    results = tables.parent
    target, compiled = (
        projects.read(results / name) if (results / name).is_file() else {}
        for name in ("target.json", "kernels.json")
    )
    environments = target.get("environments", {})
    arch = target.get("arch", 0)
    frames["cases"] = with_occupancy(frames["cases"], _limits(environments, arch))
    variants = {
        name: archs for kernel in compiled.values() for name, archs in kernel["variants"].items()
    }

    def listing(variant: str) -> str:
        # The document's paths are relative to the folder of the run.
        entry = variants.get(variant, {}).get(f"sm_{arch}", {})
        path = results / "cubins" / Path(*Path(entry.get("sass") or "none").parts[-2:])
        return path.read_text("utf-8") if path.is_file() else ""

    gpu = least.gpu_of(arch, str(target.get("label")))
    return Side(str(folder), **frames, environments=environments, listing=listing, gpu=gpu)


def of_recording(folder: Path) -> Side:
    """Return the side of a folder with one GPU's recorded values."""
    recording = Recorded(folder).undamaged()
    results = recording.results()
    figures = [
        record.only("case", "stage", "status", "verdict", "environment") | figure
        for record in results
        for figure in (record.figures or [{"metric": ""}])
    ]
    keys = pd.DataFrame([record.only("case", "key", "environment", "stage") for record in results])
    long = {
        name: keys.merge(recording.long_table(name, set(keys["key"])).to_pandas(), on="key")
        for name in ("samples", "instructions")
    }
    environment = recording.environments.get(recording.main_environment, {})
    cases = with_occupancy(_recorded_cases(recording, results), _limits({"": environment}, 0))
    arch = f"sm_{environment.get('arch', '')}"

    def listing(variant: str) -> str:
        stored = recording.listing(recording.compiled.get(f"{variant}.{arch}", {}).get("key", ""))
        return stored[0] if stored else ""

    return Side(
        str(folder), cases, pd.DataFrame(figures), **long, environments=recording.environments,
        listing=listing,
    )  # fmt: skip


GEOMETRY = {
    "launch__block_size": "block_threads",
    "launch__shared_mem_per_block_static": "shared_bytes",
    "launch__shared_mem_per_block_dynamic": "shared_bytes",
}
"""Launch metrics of Nsight Compute, and the column of the cases that each adds to."""


def _recorded_cases(recording: Recorded, results: Iterable[Result]) -> pd.DataFrame:
    """Return verdict and resources of each recorded case."""
    used = {name.rpartition(".")[0]: entry for name, entry in recording.compiled.items()}
    rows: dict[str, dict[str, Any]] = {}
    for record in results:
        row = rows.setdefault(record.case, {"case": record.case, "verdict": result.NOT_CHECKED})
        if record.stage == "check":
            row["verdict"] = record.verdict or result.NOT_CHECKED
        entry = used.get(record.case.partition("@")[0], {})
        resources = entry.get("resources", {}).get(entry.get("symbol"), {})
        row |= {
            "registers": resources.get("registers"),
            "spill_bytes": resources.get("spill_store_bytes"),
        }
        for figure in record.figures if record.stage == "counters" else ():
            if column := GEOMETRY.get(figure["metric"]):
                row[column] = row.get(column, 0) + figure["value"]
    return pd.DataFrame(list(rows.values()))


# ------------------------------------------------------------------------------------- kernels, run now


def revision(name: str, folders: Sequence[str], where: Path) -> list[Path]:
    """Write the folders of kernels of a git revision below ``where``, and return their paths.

    Folders of headers that front matter names are written, too. Raises UserError where git does not know
    the revision or the revision lacks a folder.
    """
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
    """Return the names of kernels that differ, of those only before, and of those only after.

    A kernel differs where its text or that of one of its headers does. all_of_them: return all kernels that
    both sides have as differing.
    """
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
    blocks = kernels_study.blocks(
        kernels, lambda kind: kernels_study.small(kind, shapes), macros="each_dtype"
    )
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


@dataclass(frozen=True)
class Kernels:
    """A side that is run now, and the pipeline with its jobs."""

    side: Side
    pipeline: Pipeline


def of_kernels(
    label: str,
    folders: Sequence[Path],
    names: Sequence[str],
    shapes: Sequence[str],
    work: Path,
    operation_folders: Sequence[str] = (),
) -> Kernels:
    """Compile kernels and execute them, or check and count them where there is a GPU.

    shapes: as for `tilewave report --shapes`; work: a folder for intermediate files, in which the side's
    listings stay. Raises UserError for mistakes in the kernels and for shapes that fit no kernel.
    """
    kernels = [kernel for name, kernel in gathered(folders, {}).items() if name in names]
    config = _config(folders, kernels, work, shapes, operation_folders)
    cores = os.cpu_count() or 1
    run = rules.begin(projects.load(config, HERE, ladder=False))
    rules.write(str(work / "target.json"), run.target)
    compiled = rules.compile_part(run, ALL, cores)
    pipeline = Pipeline(run.project, run.target, compiled, cores=cores)
    results = rules.measure_part(run, pipeline, cores, STAGES)
    results[result.EXECUTE] = rules.execute_part(run, pipeline, cores)
    frames = rules.tables(run, pipeline, results).all()
    # Kernels are timed in turn or not at all: recorded times of one side are not compared.
    recorded = frames["records"]["source"].astype(str).str.startswith("recorded:")
    frames["records"] = frames["records"][~recorded | (frames["records"]["stage"] != "time")]
    environments = run.target["environments"]
    limits = _limits(environments, run.target["arch"])
    frames["cases"] = with_occupancy(frames["cases"], limits)

    def listing(variant: str) -> str:
        entry = pipeline.compiled.get(variant, {}).get(pipeline.arch)
        text = entry and pipeline.compilations.listing(pipeline.variants[variant], entry)
        return text or ""

    def texts(variant: str) -> Mapping[str, str]:
        kernel = pipeline.variants[variant].kernel
        return origins.by_last_name(origins.kernel_texts(kernel))

    side = Side(
        label, **{name: frames[name] for name in FRAMES}, environments=environments, listing=listing,
        texts=texts, gpu=least.gpu_of(run.target["arch"], str(run.target["label"])),
    )  # fmt: skip
    return Kernels(side, pipeline)


def in_turn(before: Kernels, after: Kernels) -> pd.DataFrame:
    """Time both sides' kernels in turn (after, before, before, after) in one process.

    Returns samples of the cases that are correct on both sides, as `pipeline.tables.samples_table`:
    ``duration_us`` is of after, ``baseline_us`` of before. Empty without a GPU.
    """
    if not after.pipeline.target["live"]:
        return pd.DataFrame()
    correct = [
        set(run.side.cases.query("verdict == @result.CORRECT")["case"]) for run in (before, after)
    ]
    rivals, jobs = before.pipeline.planned("time"), []
    for case, job in after.pipeline.planned("time").items():
        rival = rivals.get(case)
        if not (isinstance(job, Job) and isinstance(rival, Job)):
            continue
        if not all(case in cases for cases in correct):
            continue
        before.pipeline.provide([rival.variant])
        after.pipeline.provide([job.variant])
        jobs.append(replace(job, rival=rival, baseline=False))
    store = after.pipeline.store
    samples = supervisor.run_jobs("time", jobs, cache=store.root / "cache", limit_s=JOB_S)
    return samples_table(samples, None)


def empty(label: str) -> Side:
    """Return a side without cases."""
    no_rows = pd.DataFrame()
    return Side(label, pd.DataFrame(columns=["case", "verdict"]), no_rows, no_rows, no_rows)
