"""One side of a comparison: its tables, from a run's results, a recording, or kernels that are run now."""

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
from tilewave.kernel import result
from tilewave.kernel.discovery import gathered
from tilewave.kernel.front_matter import Kernel, find_kernels, source_digest
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline import kernels_study, rules
from tilewave.pipeline import project as projects
from tilewave.pipeline.pipeline import ALL, Pipeline
from tilewave.pipeline.tables import samples_table
from tilewave.records.recorded import Recorded
from tilewave.theory.occupancy import SmLimits, occupancy
from tilewave.workers import supervisor

STAGES = ("check", "counters")
"""What is done of kernels that are run now; they are timed in turn (`in_turn`)."""
JOB_S = 60.0
"""What a pair may take to be timed, with its buffers."""
FRAMES = ("cases", "records", "samples", "instructions")
OCCUPANCY = "occupancy_percent"
"""Resident warps that registers, shared memory and block size allow, of those an SM has room for."""
TABLES = (Path("results/tables"), Path(kernels_study.RESULTS) / "tables", Path("tables"), Path())
"""Where a folder may hold a run's tables."""


@dataclass(frozen=True)
class Side:
    """Tables of one side: cases, figures (``records``), raw samples, counts by instruction; environments
    by id, where they are known.

    listing: from a variant to its machine code as `sass.as_text` has it, empty where it is not known;
    texts: from it to its files by last name, none where they are not known.
    """

    label: str
    cases: pd.DataFrame
    records: pd.DataFrame
    samples: pd.DataFrame
    instructions: pd.DataFrame
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    listing: Callable[[str], str] = lambda variant: ""
    texts: Callable[[str], Mapping[str, str]] = lambda variant: {}


def with_occupancy(cases: pd.DataFrame, limits: SmLimits | None) -> pd.DataFrame:
    """The cases with the column OCCUPANCY, empty where registers or geometry are not known; limits: of an
    SM, None where they are not known."""

    def percent(threads: float, registers: float, shared: float) -> float:
        if limits is None or not (threads > 0 and registers > 0):
            return math.nan
        shared = int(shared) if shared == shared else 0
        return round(100 * occupancy(limits, int(threads), int(registers), shared).fraction, 1)

    used = cases.reindex(columns=["block_threads", "registers", "shared_bytes"])
    rows = used.apply(pd.to_numeric, errors="coerce").astype(float).to_numpy()
    return cases.assign(**{OCCUPANCY: [percent(*row) for row in rows]})


def _limits(environments: Mapping[str, Mapping[str, Any]], arch: int) -> SmLimits | None:
    """Of the GPU that one of these environments has, else of the architecture."""
    gpu = next((one for one in environments.values() if one.get("max_warps_per_sm")), None)
    try:
        return SmLimits.from_environment(gpu) if gpu else SmLimits.of(arch)
    except KeyError:
        return None


def _run_tables(folder: Path) -> Path | None:
    """Where a run has left its tables in a folder."""
    places = (folder / one for one in TABLES)
    return next((one for one in places if (one / "records.parquet").is_file()), None)


def _is_recording(folder: Path) -> bool:
    return (folder / "environments.json").is_file()


def has_figures(folder: Path) -> bool:
    """Whether a folder is one that a report ran in, or one of recorded figures."""
    return _run_tables(folder) is not None or _is_recording(folder)


def of_figures(folder: Path) -> Side:
    """What a folder holds that has figures."""
    tables = _run_tables(folder)
    return of_recording(folder) if tables is None else _of_run(folder, tables)


def _of_run(folder: Path, tables: Path) -> Side:
    frames = {name: pd.read_parquet(tables / f"{name}.parquet") for name in FRAMES}
    results = tables.parent
    target, compiled = (
        projects.read(results / name) if (results / name).is_file() else {}
        for name in ("target.json", "kernels.json")
    )
    known = target.get("environments", {})
    arch = target.get("arch", 0)
    frames["cases"] = with_occupancy(frames["cases"], _limits(known, arch))
    variants = {
        name: one for kernel in compiled.values() for name, one in kernel["variants"].items()
    }

    def listing(variant: str) -> str:
        # The document names paths from the folder that the run worked in.
        entry = variants.get(variant, {}).get(f"sm_{arch}", {})
        path = results / "cubins" / Path(*Path(entry.get("sass") or "none").parts[-2:])
        return path.read_text("utf-8") if path.is_file() else ""

    return Side(str(folder), **frames, environments=known, listing=listing)


def of_recording(folder: Path) -> Side:
    """What a folder of one GPU's recorded figures holds."""
    held = Recorded(folder).whole()
    results = held.results()
    figures = [
        made.only("case", "stage", "status", "verdict", "environment") | figure
        for made in results
        for figure in (made.figures or [{"metric": ""}])
    ]
    places = pd.DataFrame([made.only("case", "key", "environment", "stage") for made in results])
    long = {
        name: places.merge(held.long_table(name, set(places["key"])).to_pandas(), on="key")
        for name in ("samples", "instructions")
    }
    environment = held.environments.get(held.main_environment, {})
    cases = with_occupancy(_recorded_cases(held, results), _limits({"": environment}, 0))
    arch = f"sm_{environment.get('arch', '')}"

    def listing(variant: str) -> str:
        found = held.listing(held.compiled.get(f"{variant}.{arch}", {}).get("key", ""))
        return found[0] if found else ""

    return Side(
        str(folder), cases, pd.DataFrame(figures), **long, environments=held.environments,
        listing=listing,
    )  # fmt: skip


GEOMETRY = {
    "launch__block_size": "block_threads",
    "launch__shared_mem_per_block_static": "shared_bytes",
    "launch__shared_mem_per_block_dynamic": "shared_bytes",
}
"""What Nsight Compute says of a launch, and the column of the cases that it adds up to."""


def _recorded_cases(held: Recorded, results: Iterable[Result]) -> pd.DataFrame:
    """Verdict and resources of each recorded case."""
    used = {name.rpartition(".")[0]: entry for name, entry in held.compiled.items()}
    rows: dict[str, dict[str, Any]] = {}
    for made in results:
        row = rows.setdefault(made.case, {"case": made.case, "verdict": result.NOT_CHECKED})
        if made.stage == "check":
            row["verdict"] = made.verdict or result.NOT_CHECKED
        entry = used.get(made.case.partition("@")[0], {})
        resources = entry.get("resources", {}).get(entry.get("symbol"), {})
        row |= {
            "registers": resources.get("registers"),
            "spill_bytes": resources.get("spill_store_bytes"),
        }
        for figure in made.figures if made.stage == "counters" else ():
            if column := GEOMETRY.get(figure["metric"]):
                row[column] = row.get(column, 0) + figure["value"]
    return pd.DataFrame(list(rows.values()))


# ------------------------------------------------------------------------------------- kernels, run now


def revision(name: str, folders: Sequence[str], where: Path) -> list[Path]:
    """The folders of kernels as a git revision of this checkout has them, written below ``where`` with the
    folders of headers that their front matter names.

    Raises UserError where git does not know the revision, or it has no such folder.
    """
    asked = "a revision of the checkout that this folder lies in"
    top = os.fsdecode(_git(name, asked, "rev-parse", "--show-toplevel")).strip()

    def written(folder: str) -> Path:
        said = f"a revision that holds {folder}"
        packed = _git(name, said, "-C", top, "archive", "--format=tar", name, "--", folder)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(where, filter="data")
        return where / folder

    found = [written(os.path.relpath(os.path.realpath(folder), top)) for folder in folders]
    try:
        kernels = find_kernels(found, {})
    except UserError as error:  # nobody knows the folder that it was written to
        place, allowed = (
            told.replace(f"{where}{os.sep}", f"{name}:")
            for told in (error.where_file, error.allowed)
        )
        raise UserError(place, error.key, error.found, allowed) from error
    for kernel in kernels.values():
        for named in kernel.folders[1:]:
            folder = Path(os.path.normpath(named))
            if folder.is_relative_to(where) and not folder.exists():
                written(str(folder.relative_to(where)))
    return found


def _git(revision: str, allowed: str, *words: str) -> bytes:
    """What git answers. Raises UserError where it knows no such revision."""
    done = subprocess.run(["git", *words], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
        raise UserError(HERE, "revision", revision, f"{allowed}; git says: {said[0]}")
    return done.stdout


def changed(
    one: Mapping[str, Kernel], other: Mapping[str, Kernel], all_of_them: bool = False
) -> tuple[list[str], list[str], list[str]]:
    """Names of kernels whose text, or that of a header of their own, differs, or of all of them; of those
    that only the first side has; of those that only the second has."""
    both = [name for name in one if name in other]
    if not all_of_them:
        both = [name for name in both if source_digest(one[name]) != source_digest(other[name])]
    gone = [name for name in one if name not in other]
    return both, gone, [name for name in other if name not in one]


def _config(
    folders: Sequence[Path],
    kernels: Sequence[Kernel],
    results: Path,
    shapes: Sequence[str],
    operation_folders: Sequence[str],
) -> dict[str, Any]:
    """A config that checks, counts and, on a GPU, times these kernels."""
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
    """A side that is run now, and what knows its jobs."""

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
    """Kernels of these folders, compiled and executed now, or checked and counted where there is a GPU.

    shapes: as of `tilewave report --shapes`; work: a folder for what is written on the way, which the
    side's listings stay in. Raises UserError for mistakes in the kernels and for shapes that fit none of
    them.
    """
    kernels = [one for name, one in gathered(folders, {}).items() if name in names]
    config = _config(folders, kernels, work, shapes, operation_folders)
    cores = os.cpu_count() or 1
    run = rules.begin(projects.load(config, HERE, ladder=False))
    rules.write(str(work / "target.json"), run.target)
    known = rules.compile_part(run, ALL, cores)
    pipeline = Pipeline(run.project, run.target, known, cores=cores)
    found = rules.measure_part(run, pipeline, cores, STAGES)
    found[result.EXECUTE] = rules.execute_part(run, pipeline, cores)
    frames = rules.tables(run, pipeline, found).all()
    # Kernels are timed in turn or not at all: what a recording knows of one side's times is not compared.
    recorded = frames["records"]["source"].astype(str).str.startswith("recorded:")
    frames["records"] = frames["records"][~recorded | (frames["records"]["stage"] != "time")]
    environments = run.target["environments"]
    limits = _limits(environments, run.target["arch"])
    frames["cases"] = with_occupancy(frames["cases"], limits)

    def listing(variant: str) -> str:
        entry = pipeline.compiled.get(variant, {}).get(pipeline.arch)
        known = entry and pipeline.compilations.listing(pipeline.variants[variant], entry)
        return known or ""

    def texts(variant: str) -> Mapping[str, str]:
        kernel = pipeline.variants[variant].kernel
        return origins.by_last_name(origins.kernel_texts(kernel))

    side = Side(
        label, **{name: frames[name] for name in FRAMES}, environments=environments, listing=listing,
        texts=texts,
    )  # fmt: skip
    return Kernels(side, pipeline)


def in_turn(before: Kernels, after: Kernels) -> pd.DataFrame:
    """Samples of each case of which both sides gave a right result, the two kernels timed in turn (after,
    before, before, after) in one process, as `pipeline.tables.samples_table` has them: ``duration_us`` is of
    after, ``baseline_us`` of before. Empty without a GPU."""
    if not after.pipeline.target["live"]:
        return pd.DataFrame()
    right = [
        set(one.side.cases.query("verdict == @result.CORRECT")["case"]) for one in (before, after)
    ]
    rivals, jobs = before.pipeline.planned("time"), []
    for case, job in after.pipeline.planned("time").items():
        rival = rivals.get(case)
        if not (isinstance(job, Job) and isinstance(rival, Job)):
            continue
        if not all(case in cases for cases in right):
            continue
        before.pipeline.provide([rival.variant])
        after.pipeline.provide([job.variant])
        jobs.append(replace(job, rival=rival, baseline=False))
    store = after.pipeline.store
    made = supervisor.run_jobs("time", jobs, cache=store.root / "cache", limit_s=JOB_S)
    return samples_table(made, None)


def nothing(label: str) -> Side:
    """A side of which nothing had to be run."""
    none = pd.DataFrame()
    return Side(label, pd.DataFrame(columns=["case", "verdict"]), none, none, none)
