"""What the thin scripts call: each rule's work, from documents on disk to documents on disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewave import project as projects
from tilewave import target as targets
from tilewave.environment import commit
from tilewave.errors import UserError
from tilewave.records import model
from tilewave.records.store import write_atomically
from tilewave.stages import compiling, executing, jobs, measuring, tuning

if TYPE_CHECKING:
    import pandas as pd


COMPILING_S = 300.0
"""What the interpreter may take to be compiled, once on a machine."""


@dataclass(frozen=True)
class Job:
    """One Snakemake job: its project and its log file."""

    project: projects.Project
    log: Path | None

    def note(self, text: str) -> None:
        """Append to the job's log."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as stream:
                stream.write(text)


def say(text: str) -> None:
    """Progress for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[Job]:
    """Load the project for a script; a user's mistake ends the job in one line, no traceback."""
    log = Path(str(snakemake.log[0])) if len(snakemake.log) else None
    if log is not None:
        log.unlink(missing_ok=True)
    try:
        where = os.environ.get("TILEWAVE_CONFIG", "config")
        yield Job(projects.load(snakemake.config, where, checked=True), log)
    except UserError as error:
        say(f"Error: {error}")
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"{error}\n", encoding="utf-8")
        raise SystemExit(1) from None
    except SystemExit:
        raise
    except BaseException:
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8") as stream:
                stream.write(traceback.format_exc())
        raise


def write(path: str, document: Any) -> None:
    """A JSON document, whole or not at all."""
    write_atomically(Path(path), (json.dumps(document, indent=1) + "\n").encode())


def target(job: Job) -> dict[str, Any]:
    """The target document (see `tilewave.target`)."""
    project = job.project
    here = targets.probe(project.config.gpu)
    found = targets.resolve(project.config, here, project.recorded_root, project.where)
    how = "measured live" if found["live"] else f"not live: {found['reason']}"
    say(f"Target: {found['label']} ({how})")
    job.note(json.dumps(found, indent=1) + "\n")
    return found


def _target(project: projects.Project) -> dict[str, Any]:
    found: dict[str, Any] = projects.read(project.results / "target.json")
    return found


def compile_kernel(job: Job, kernel: str, folder: str) -> dict[str, Any]:
    """Compile a kernel's variants (see `tilewave.stages.compiling`)."""
    project = job.project
    aim = _target(project)
    requests = project.plan.of_kernel(kernel)
    variants = {request.case.variant.id: request.case.variant for request in requests}
    Path(folder).mkdir(parents=True, exist_ok=True)
    document = compiling.compile_variants(
        project.kernels[kernel],
        list(variants.values()),
        project.config.architectures,
        aim["arch"],
        project.store,
        project.recorded(aim),
        Path(folder),
    )
    for name, entries in document["variants"].items():
        for arch, entry in entries.items():
            job.note(
                f"{name} {arch}: {entry['status']} {entry['reason']}\n{entry.get('log', '')}\n"
            )
            if entry["reason"]:
                say(f"  {name} {arch}: {entry['status']}: {entry['reason']}")
    return document


def interpreter(job: Job, part: int) -> dict[str, Any]:
    """Compile a part of the interpreter once, before the executions; what it is goes into a
    document."""
    from tilewave import execution

    begun = time.monotonic()
    execution.compile_part(part, job.project.store.root / "cache")
    seconds = time.monotonic() - begun
    say(f"  interpreter, part {part + 1}: ready after {seconds:.0f} s")
    return {"versions": execution.version(), "seconds": round(seconds, 1)}


def execute_kernel(job: Job, kernel: str) -> dict[str, Any]:
    """Results of executing a kernel's cases on the CPU (see `tilewave.stages.executing`)."""
    project = job.project
    aim = _target(project)
    compiled = projects.read(project.stage_path("compile", kernel))
    requests = project.plan.of_kernel(kernel)
    stage, config = executing.STAGE, project.config
    chosen = executing.wanted(requests, compiled, aim, project.recorded(aim), config)
    planned = [
        one for one in jobs.plan(stage, requests, compiled, aim, config) if one.case.id in chosen
    ]
    document = executing.collect(planned, aim, project.store, _measure(job, stage, kernel, None))
    job.note(measuring.log_lines(stage, document))
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items() if number)
    if planned:
        say(f"  {stage} {kernel}: {len(planned)} cases{': ' if counts else ''}{counts}")
    return document


def measure_kernel(job: Job, stage: str, kernel: str, report: str | None) -> dict[str, Any]:
    """Results of a stage for a kernel (see `tilewave.stages.measuring`)."""
    project = job.project
    aim = _target(project)
    compiled = projects.read(project.stage_path("compile", kernel))
    checks = None
    if stage != "check":
        document = projects.read(project.stage_path("check", kernel))
        checks = {made["case"]: made for made in document["results"]}
    planned = list(jobs.plan(stage, project.plan.of_kernel(kernel), compiled, aim, project.config))
    executions = None
    if stage in executing.REPLACED and kernel in project.stage_kernels(executing.STAGE):
        document = projects.read(project.stage_path(executing.STAGE, kernel))
        executions = {made["case"]: made for made in document["results"]}
    document = measuring.collect(
        planned,
        aim,
        project.recorded(aim),
        project.store,
        _measure(job, stage, kernel, report),
        checks,
        executions,
        executed_first=project.config.execute.when == "always",
    )
    job.note(measuring.log_lines(stage, document))
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items() if number)
    say(f"  {stage} {kernel}: {len(planned)} cases{': ' if counts else ''}{counts}")
    return document


def race(job: Job) -> dict[str, Any]:
    """Results of all candidates' races (see `tilewave.stages.tuning`)."""
    project = job.project
    stage, aim = tuning.STAGE, _target(project)
    kernels = project.stage_kernels(stage)
    compiled = {name: projects.read(project.stage_path("compile", name)) for name in kernels}
    checks = {
        made["case"]: made
        for name in kernels
        for made in projects.read(project.stage_path("check", name))["results"]
    }
    requests = {name: project.plan.of_kernel(name) for name in kernels}
    planned = tuning.plan(requests, compiled, checks, aim, project.config)
    measure = _measure(job, stage, "races", None)
    document = measuring.collect(
        planned,
        aim,
        project.recorded(aim),
        project.store,
        lambda waiting, finished: measure(tuning.by_group(waiting), finished),
        checks,
        again=tuning.race_again(planned, aim, project.store),
    )
    job.note(measuring.log_lines(stage, document))
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items() if number)
    raced, eliminated, spent, full = tuning.saved(document["results"])
    say(f"  {stage}: {len(planned)} candidates{': ' if counts else ''}{counts}")
    if raced:
        told = f"{eliminated} of {raced} eliminated early: {spent:.1f} s of GPU instead of {full:.1f} s"
        say(f"  {stage}: {told}")
        job.note(f"{told}\n")
    return document


def best(job: Job) -> pd.DataFrame:
    """The best variant of each shape and dtype (see `tilewave.plots.best`), from the races alone.

    Raises UserError where no study races anything.
    """
    import pandas as pd

    from tilewave.plots import best as plot
    from tilewave.records import tables as tidy
    from tilewave.report import figures

    project = job.project
    if not project.raced_studies:
        raise UserError(project.where, "studies", "no study that races", "a study with tune: true")
    aim = _target(project)
    plan = project.raced_plan
    stages = ("check", tuning.STAGE)
    compiled, results = _documents(project, plan.kernels, stages)
    verdict = tidy.verdicts(results["check"])
    cases = tidy.cases_table(plan, aim, compiled, verdict)
    flat = [made for stage in stages for made in results[stage] if made["case"] in plan.requests]
    records = tidy.records_table(cases, flat, verdict)
    none = pd.DataFrame(columns=["case"])
    return pd.concat(
        [
            plot.table(figures.of_tables(project, name, aim, cases, records, none)).assign(
                study=name
            )
            for name in plan.studies
        ],
        ignore_index=True,
    )


def _measure(job: Job, stage: str, kernel: str, report: str | None) -> measuring.Measure:
    """How the jobs of a stage are run on this machine."""
    project = job.project
    cache = project.store.root / "cache"
    log = Path(f"{job.log}.worker") if job.log else project.results / f"{stage}-{kernel}.log"
    log.unlink(missing_ok=True)
    os.environ["TILEWAVE_GPU"] = str(project.config.gpu)

    def measure(
        waiting: list[dict[str, Any]], finished: Callable[[dict[str, Any]], None]
    ) -> list[dict[str, Any]]:
        doing = "executing" if stage == executing.STAGE else "measuring"
        say(f"  {stage} {kernel}: {doing} {len(waiting)} cases")
        if stage == "counters":
            from tilewave.gpu import profiler

            return profiler.profile(
                waiting,
                cache=cache,
                report_path=Path(str(report)),
                log_path=log,
                on_result=finished,
            )
        from tilewave.processes import supervisor

        if stage == executing.STAGE:
            # The machine keeps to the limit itself; building inputs, judging and compiling what no
            # earlier case needed come on top.
            return supervisor.run_jobs(
                stage,
                waiting,
                cache=cache,
                limit_s=project.config.execute.case_limit_s * 2 + COMPILING_S,
                grace_s=COMPILING_S,
                on_result=finished,
                log_path=log,
                module="tilewave.execution.worker",
            )
        # A timing that keeps to its limit still needs inputs, a warm-up and cuBLAS's choice.
        limit_s = None if stage == "check" else project.config.timing.case_limit_s * 3 + 20
        return supervisor.run_jobs(
            stage, waiting, cache=cache, limit_s=limit_s, on_result=finished, log_path=log
        )

    return measure


def _documents(
    project: projects.Project,
    kernels: Sequence[str] | None = None,
    stages: Sequence[str] = model.STAGES,
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Compiled documents by kernel, and all results by stage; of these kernels, else of all."""
    names = project.plan.kernels if kernels is None else kernels
    compiled = {name: projects.read(project.stage_path("compile", name)) for name in names}
    results = {
        stage: [
            made
            for path in project.stage_documents(stage, names)
            for made in projects.read(path)["results"]
        ]
        for stage in stages
    }
    return compiled, results


def tables(job: Job) -> dict[str, pd.DataFrame]:
    """The tidy tables of the run: cases, records, samples, instructions."""
    from tilewave.records import tables as tidy

    project = job.project
    aim = _target(project)
    recorded = project.recorded(aim)
    compiled, results = _documents(project)
    verdict = tidy.verdicts(results["check"], results["execute"])
    flat = [made for stage in results.values() for made in stage]
    cases = tidy.cases_table(project.plan, aim, compiled, verdict)
    samples = tidy.samples_table(results["time"] + results["tune"], recorded)
    return {
        "cases": cases,
        "records": tidy.paired_shares(tidy.records_table(cases, flat, verdict), samples),
        "samples": samples,
        "instructions": tidy.instructions_table(
            project.plan, results["counters"] + results["execute"], recorded, compiled
        ),
    }


def _clean_tree() -> str:
    """Empty where the tree is a clean commit; else what is not."""
    done = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"],
        capture_output=True,
        text=True,
        cwd=projects.ROOT,
    )
    if done.returncode:
        named = os.environ.get("TILEWAVE_COMMIT")
        return "" if named else "no git checkout, and TILEWAVE_COMMIT does not name its commit"
    return "the tree has changes that are not committed" if done.stdout.strip() else ""


def record(job: Job) -> str:
    """Merge the run's measurements into the recorded folder of the live GPU.

    Raises UserError where nothing was measured live or the tree is not a clean commit: a recorded
    figure must say which code it came from.
    """
    from tilewave.records import recorded as shipped

    project = job.project
    aim = _target(project)
    if not aim["live"]:
        raise UserError("record", "target", aim["label"], "a run measured on a live GPU")
    unclean = _clean_tree()
    if unclean:
        raise UserError("record", "git", unclean, "a clean commit that the figures can name")
    compiled, results = _documents(project)
    # The keys match this clean tree, whatever commit the run began at.
    measured = {**aim["environments"][aim["host"]], **commit()}
    kept = [
        made
        for stage in results.values()
        for made in stage
        if made["environment"]
        and made["key"]
        and model.recordable(made)
        # What a CPU executes can be had on any machine, at the version of its own tree.
        and made["stage"] != "execute"
        and "executed" not in made["notes"]
    ]
    small = {
        f"{variant}.{arch}": {
            name: entry[name]
            for name in ("source_sha256", "sha256", "code", "resources", "options", "nvrtc")
            if name in entry
        }
        for document in compiled.values()
        for variant, entries in document["variants"].items()
        for arch, entry in entries.items()
        if entry["status"] == "ok"
    }
    name = re.sub(r"[^a-z0-9]+", "_", aim["label"].lower()).strip("_")
    counts = shipped.merge(project.recorded_root / name, kept, {aim["host"]: measured}, small)
    words = ", ".join(f"{number} {what}" for what, number in counts.items())
    return f"resources/recorded/{name}: {words}"
