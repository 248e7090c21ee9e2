"""The work of each rule, from documents on disk to documents on disk; the scripts only call it."""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.basics.paths import RECORDED
from tilewave.basics.progress import Progress, duration, say
from tilewave.execution import cost
from tilewave.gpu.device import CHOICE_VARIABLE, claimed
from tilewave.gpu.failure import Measure, watched
from tilewave.kernel import job as jobs
from tilewave.kernel import operations, result
from tilewave.kernel.result import Result
from tilewave.pipeline import compiling, measuring, parameters, plan, tuning, watching
from tilewave.pipeline import project as projects
from tilewave.pipeline import target as targets
from tilewave.pipeline.collecting import Tables
from tilewave.pipeline.pipeline import ALL, ON_GPU, Compiled, Pipeline, Results, part_of
from tilewave.pipeline.project import Project
from tilewave.records.agreement import Disagreement
from tilewave.records.environment import commit, probe
from tilewave.records.store import not_written, write_atomically
from tilewave.workers import supervisor

WORKER = "tilewave.pipeline.worker"
COMPILING_S = 300.0
"""Seconds allowed for compiling the interpreter, once on a machine."""
CHECKERS, CHECKER_CORES, CHECKER_BYTES = 8, 2, 16 << 30
"""Limit of workers that check on one GPU, and what each may need. Most checks keep the host busier than the GPU."""
COMPARED = ("time", result.TUNE, "counters")
"""Stages whose results are compared with each other (`records.agreement`)."""
CASE_BYTES = 16 << 20
"""The fixed cost of a check, in bytes of operands that cost as much."""
HOST_COST = 4
"""Cost of bytes that the host compares, relative to the GPU's."""


@dataclass(frozen=True)
class Run:
    """A Snakemake job: its project, the run's target, and its log file."""

    project: Project
    target: Mapping[str, Any]
    log: Path | None = None

    def pipeline(self, compiled: Sequence[Any] = (), part: str = ALL, threads: int = 1) -> Pipeline:
        """Return the pipeline of a part. compiled: paths of `compile_part`'s documents. threads: the job's cores."""
        entries: Compiled = {}
        for path in compiled:
            entries |= projects.read(Path(str(path)))
        used = {name: entries[name] for name in self.project.plan.variants} if entries else None
        return Pipeline(self.project, self.target, used, part, cores(self, threads))

    def note(self, text: str) -> None:
        """Append to the job's log."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as stream:
                stream.write(text)


@contextlib.contextmanager
def of_script(snakemake: Any) -> Iterator[Run]:
    """Load the run of a script that has the plan among its inputs.
    A user's mistake ends the job with one line and no traceback."""
    inputs = snakemake.input
    with _logged(snakemake) as log:
        parameters.mark(*parameters.folders(snakemake.config))
        plan, target = Path(str(inputs.plan)), projects.read(Path(str(inputs.target)))
        yield Run(projects.planned(snakemake.config, _where(), plan), target, log)


def _where() -> str:
    return os.environ.get("TILEWAVE_CONFIG", "config")


@contextlib.contextmanager
def _logged(snakemake: Any) -> Iterator[Path | None]:
    """Yield the path of a script's log, and write there what ended the script."""
    log = Path(str(snakemake.log[0])) if len(snakemake.log) else None
    if log is not None:
        log.unlink(missing_ok=True)
    try:
        yield log
    except SystemExit:
        raise
    except BaseException as error:
        cause = not_written(error) or _gone(error, snakemake) or error
        mistake = isinstance(cause, UserError)
        text = f"{cause}\n" if mistake else traceback.format_exc()
        if log is not None:
            with contextlib.suppress(OSError):
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("w" if mistake else "a", encoding="utf-8") as stream:
                    stream.write(text)
        if not mistake:
            raise
        say(f"Error: {cause}")
        raise SystemExit(1) from None


def _gone(error: BaseException, snakemake: Any) -> UserError | None:
    """Return the message for an input of a script that was deleted during the run; None for another error."""
    gone = [str(path) for path in snakemake.input if not Path(str(path)).exists()]
    if not isinstance(error, FileNotFoundError) or not gone:
        return None
    return UserError.because(gone[0], "it was deleted during the run", "Run again")


def make_plan(snakemake: Any) -> None:
    """Resolve every case for the target, and write both."""
    with _logged(snakemake) as log:
        project = projects.load(snakemake.config, _where())
        parameters.mark(*parameters.folders(snakemake.config))
        run = begin(project, log)
        path = Path(str(snakemake.output.plan))
        plan.write(path, run.project.plan, project.left_out, project.no_kernels)
        write(snakemake.output.target, run.target)


def begin(project: Project, log: Path | None = None) -> Run:
    """Return the run of a project, its cases resolved for this machine's target (`pipeline.target`)."""
    here = probe(project.config.gpu)
    other_gpus = targets.probe_others(project.config.gpu, here)
    target = targets.resolve(project.config, here, project.recorded_root, project.where, other_gpus)
    state = "measured live" if target["live"] else f"not measured live: {target['reason']}"
    say(f"Target: {target['label']} ({state})")
    for line in target["damaged"]:
        say(f"Warning: {line}")
    resolved = dataclasses.replace(project, plan=plan.resolved(project.plan, target))
    run = Run(resolved, target, log)
    run.note("".join(f"{line}\n" for line in [*target["damaged"], json.dumps(target, indent=1)]))
    return run


def write(path: str, document: Any) -> None:
    """Write a JSON document atomically."""
    write_atomically(Path(path), (json.dumps(document, indent=1) + "\n").encode())


def follow(
    project: Project, stage: str, unit: str, items: Mapping[str, float] | Sequence[str]
) -> Progress:
    """Return the progress of a job through variants, cases, kernels or studies, by their ids. items: the ids,
    with relative costs if known. An id may have more after a blank, as a variant its architecture."""
    studies: dict[str, dict[str, None]] = {}
    for case in project.plan.cases.values():
        for name in (case.id, case.variant.id, case.kernel.name):
            studies.setdefault(name, {}).update(dict.fromkeys(case.studies))
    costs = dict(items) if isinstance(items, Mapping) else dict.fromkeys(items, 1.0)
    wanted = {name: list(studies.get(name.split(" ")[0], ())) for name in costs}
    return Progress(stage, unit, wanted, costs)


def compile_part(run: Run, part: str, threads: int) -> Compiled:
    """Compile a part's missing variants (`pipeline.compiling`); return all entries by variant and architecture."""
    pipeline = run.pipeline()
    names = part_of(list(pipeline.variants), part)
    tasks = pipeline.tasks(names)
    progress = follow(run.project, "compile", "variants", [task.id for task in tasks])
    logs = run.project.results / "logs" / "compile"
    refused = 0
    for task, entry in compiling.compiled(tasks, pipeline.store, cores(run, threads)):
        line = ": ".join(filter(None, (task.id, entry["status"], entry["reason"])))
        path = logs / f"{task.variant.id}.{task.wanted}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{line}\n{entry.get('log', '')}\n", encoding="utf-8")
        run.note(f"{line}\n")
        if entry["reason"]:
            refused += 1
            say(f"  {line}")
        progress.done(task.id)
    summary = f"{len(tasks)} of {len(names)} variants in {progress.spent}"
    say(f"  compile: {summary}" + (f", {refused} refused" if refused else ""))
    return pipeline.look_up(names)


def _cache(project: Project) -> Path:
    """Return the folder of helper kernels and cuBLASLt's choices."""
    return project.store.root / "cache"


def cores(run: Run, threads: int) -> int:
    """Return the cores of a job that times nothing: all of them on a machine with a GPU."""
    return max(threads, os.cpu_count() or threads) if run.target["live"] else threads


def _checkers(pipeline: Pipeline, cores: int) -> int:
    """Return how many workers may check at a time on the GPU of the target."""
    target = pipeline.target
    if not target["live"]:
        return 1
    memory = target["environments"][target["environment"]].get("memory_bytes") or 0
    return max(1, min(CHECKERS, cores // CHECKER_CORES, memory // CHECKER_BYTES))


def measure_part(
    run: Run, pipeline: Pipeline, threads: int = 1, stages: Sequence[str] = ON_GPU
) -> Results:
    """Check, time, tune, count and sample a part's cases without a result, store each at once, and return all."""
    targets.of_another_node(run.target, run.project.config.gpu, "measure")
    results: Results = {}
    with _gpu(run, pipeline) as gpu_run:
        for stage in stages:
            if stage == "time" and (early := _counted_early(pipeline)):
                _stage(gpu_run, pipeline, "counters", threads, results.get("check"), early)
            results[stage] = _stage(gpu_run, pipeline, stage, threads, results.get("check"))
            if stage in COMPARED and run.target["live"]:
                _time_doubtful_again(gpu_run, pipeline, stage, results)
    return results


def _counted_early(pipeline: Pipeline) -> list[str]:
    """Return the cases that a part with an even number counts before it times any: all but cuBLAS', without counters.
    Sessions of ncu on two GPUs slow each other down (1.4 times on two H200s), but no timing. cuBLAS waits for the
    algorithm that its timing chooses."""
    if not pipeline.target["live"] or int(pipeline.part.partition("-")[0]) % 2:
        return []
    planned, sources = pipeline.planned("counters").values(), pipeline.sources("counters")
    compiled = [job for job in planned if isinstance(job, jobs.Job) and job.provider == "nvrtc"]
    return [job.case for job in compiled if sources.find(job) is None]


@contextlib.contextmanager
def _gpu(run: Run, pipeline: Pipeline) -> Iterator[Run]:
    """Claim the first free GPU of the target's for a part."""
    target = run.target
    if not target["live"]:
        yield run
        return
    by_uuid = {target["environments"][name]["uuid"]: name for name in target["gpus"]}
    with claimed(list(by_uuid), lambda: say("  every GPU is in use: waiting")) as uuid:
        pipeline.target = {**target, "environment": by_uuid[uuid]}
        yield dataclasses.replace(run, target=pipeline.target)


def execute_part(run: Run, pipeline: Pipeline, threads: int = 1) -> dict[str, Result]:
    """Execute a part's cases on the CPU (`pipeline.executing`), and those whose accesses are drawn (`watching`)."""
    results = _stage(run, pipeline, result.EXECUTE, threads)
    config = run.project.config
    when = ("always",) if run.target["live"] else ("always", "no_gpu")
    if not config.fresh and config.execute.when in when:
        watched = watching.default_variants(watching.chosen(pipeline))
        _watch(run, pipeline, [job for job in watched if job.case in pipeline.cases], threads)
    return results


def _stage(
    run: Run,
    pipeline: Pipeline,
    stage: str,
    threads: int,
    checks: Mapping[str, Result] | None = None,
    again: Collection[str] = (),
) -> dict[str, Result]:
    """Return the results of a stage by case, after measuring what is missing."""
    workers = cores(run, threads)
    if stage == "check":
        workers = _checkers(pipeline, workers)
    doing, begun = _measure(run, stage, workers), time.monotonic()
    if run.target["live"] and stage != result.EXECUTE:
        doing = watched(doing, _number(run))
    document = pipeline.measure(stage, doing, checks, again)
    run.note(measuring.log_lines(stage, document))
    results = {outcome.case: outcome for outcome in document["results"]}
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items() if number)
    took = duration(time.monotonic() - begun)
    if results:
        say(f"  {stage}: {len(results)} cases in {took}: {counts or 'none measured'}")
    for note, then in ((result.INTERRUPTED, "measures them"), ("disturbed", "measures them again")):
        if number := sum(note in outcome.notes for outcome in results.values()):
            say(f"  {stage}: {number} cases were {note}; the next run {then}")
    if stage == result.TUNE:
        tuned, eliminated, spent, full = tuning.saved(results.values())
        if tuned:
            summary = f"{eliminated} of {tuned} eliminated early: {spent:.1f} s of GPU instead of {full:.1f} s"
            say(f"  {stage}: {summary}")
            run.note(f"{summary}\n")
    return results


def _number(run: Run) -> int:
    """Return CUDA's number of the GPU that the run measures on."""
    gpus: Mapping[str, int] = run.target.get("gpus", {})
    return gpus.get(run.target["environment"], run.project.config.gpu)


def _doubtful_here(pipeline: Pipeline, results: Results) -> list[tuple[Result, Disagreement]]:
    """Return this machine's times that another measurement contradicts, with the contradiction."""
    by_stage = {stage: list(results.get(stage, {}).values()) for stage in COMPARED}
    doubtful, gpus = pipeline.doubtful(by_stage), pipeline.target["gpus"]
    here = (outcome for outcome in by_stage["time"] if outcome.environment in gpus)
    return [(outcome, doubtful[outcome.case]) for outcome in here if outcome.case in doubtful]


def _time_doubtful_again(run: Run, pipeline: Pipeline, stage: str, results: Results) -> None:
    """Time again what the stage's results contradict. What stays doubtful is printed, and the next run tries again."""
    cases = [outcome.case for outcome, _ in _doubtful_here(pipeline, results)]
    if not cases:
        return
    say(f"  {stage}: {len(cases)} times disagree with other measurements: timing them again")
    results["time"] |= _stage(run, pipeline, "time", 1, results["check"], cases)
    for outcome, seen in _doubtful_here(pipeline, results):
        say(f"  {outcome.case}: {seen.reason}")
        run.note(f"{outcome.case}: {seen.reason}\n")
        marked = dataclasses.replace(outcome, notes={**outcome.notes, "doubtful": seen.reason})
        results["time"][outcome.case] = marked
        for store in (pipeline.store, pipeline.failed_attempts):
            store.put(marked, always=True)


def _measure(run: Run, stage: str, workers: int) -> Measure:
    """Return the function that runs a stage's jobs on this machine. workers: processes at a time, if several may run."""
    project, cache = run.project, _cache(run.project)
    log = Path(f"{run.log}.worker") if run.log else project.results / f"{stage}.log"
    log.unlink(missing_ok=True)
    os.environ[CHOICE_VARIABLE] = str(_number(run))

    def measure(waiting: list[jobs.Job], keep: Callable[[Result], None]) -> list[Result]:
        progress = follow(project, stage, "cases", {job.case: _cost(job) for job in waiting})

        def finished(outcome: Result) -> None:
            keep(outcome)
            progress.done(outcome.case)

        if stage in ("counters", result.SAMPLE):
            from tilewave.gpu.ncu import profiler

            reports = project.results / "ncu"
            return profiler.profile(
                # In this order each cubin is loaded, and its report read, once.
                sorted(waiting, key=lambda job: job.variant),
                cache=cache,
                report_path=reports / f"{_report_name(stage, waiting)}.ncu-rep",
                log_path=log,
                cores=workers,
                on_result=finished,
                note=run.note,
            )
        how: dict[str, Any] = {"log_path": log, "module": WORKER}
        if stage == result.EXECUTE:
            from tilewave import execution

            execution.prepare(lambda line: say(f"  {line}"), workers, len(waiting))
            # The machine keeps the limit itself. Building inputs, judging and compiling come on top.
            limit_s = project.config.execute.case_limit_s * 2 + COMPILING_S
            how.update(limit_s=limit_s, grace_s=COMPILING_S, on_result=finished, weight=_cost)
            # A small case shows early what is wrong.
            waiting = sorted(waiting, key=cost.predicted_s)
            return supervisor.share_jobs(stage, waiting, workers, **how)
        if stage in ("check", "time"):
            # Cases with the same inputs share buffers, and in a check the reference.
            waiting = sorted(waiting, key=_inputs)
        how["cache"] = cache
        if stage == "check" and workers > 1:
            return _checked_together(waiting, workers, finished, **how)
        if stage != "check":
            # Inputs, a warm-up and cuBLAS's choice come on top of a timing's limit.
            how["limit_s"] = project.config.timing.case_limit_s * 3 + 20
        return supervisor.run_jobs(stage, waiting, on_result=finished, **how)

    return measure


def _inputs(job: jobs.Job) -> str:
    return json.dumps([job.shape, job.dtypes])


def _checked_together(
    waiting: list[jobs.Job], workers: int, on_result: Callable[[Result], None], **options: Any
) -> list[Result]:
    """Check jobs, several at a time. Probes that report a measurement run alone. So do, once more, jobs that ran out of
    time or memory, because the others may have caused it."""

    def hindered(outcome: Result) -> bool:
        return outcome.status == result.TIMED_OUT or result.INTERRUPTED in outcome.notes

    def keep(outcome: Result) -> None:
        if not hindered(outcome):
            on_result(outcome)

    together = [job for job in waiting if not (job.probe and job.probe.reports)]

    def alike(job: jobs.Job) -> str:
        return _inputs(job) if _on_gpu(job) else job.case

    def weight(job: jobs.Job) -> float:
        return CASE_BYTES + cost.operand_bytes(job) * (1 if _on_gpu(job) else HOST_COST)

    how = {"on_result": keep, "alike": alike, "weight": weight, **options}
    outcomes = supervisor.share_jobs("check", together, workers, **how)
    again = [job for job, outcome in zip(together, outcomes, strict=True) if hindered(outcome)]
    again += [job for job in waiting if job.probe and job.probe.reports]
    alone = supervisor.run_jobs("check", again, on_result=on_result, **options)
    return [outcome for outcome in outcomes if not hindered(outcome)] + alone


def _on_gpu(job: jobs.Job) -> bool:
    """Return whether a check is judged on the GPU, by a reference that cases with the same inputs share."""
    return bool(operations.load(job.operation, job.source).products(job))


def _cost(job: jobs.Job) -> float:
    """Return a case's relative cost in its stage: seconds to execute it, 1 in other stages."""
    return cost.worker_s(job) if job.stage == result.EXECUTE else 1.0


def _report_name(stage: str, waiting: Sequence[jobs.Job]) -> str:
    """Return the name of a session's report: the kernel's, or one made of all that are profiled together."""
    names = list(dict.fromkeys(job.kernel for job in waiting))
    sampled = f"_{stage}" if stage == result.SAMPLE else ""
    if len(names) == 1:
        return names[0] + sampled
    keys = "".join(sorted(job.key for job in waiting))
    return f"{len(names)}_kernels{sampled}_{hashlib.sha256(keys.encode()).hexdigest()[:8]}"


def tables(run: Run, pipeline: Pipeline, results: Results) -> Tables:
    collected = Tables(pipeline, pipeline.collected(results))
    for stage, outcomes in collected.results.items():
        run.note(measuring.log_lines(stage, {"results": outcomes, "counts": {}}))
    return collected


def listings(pipeline: Pipeline, drawn: Mapping[str, Any]) -> set[str]:
    """Write listings of variants whose code a page shows, remove others, return these. drawn: `watching.drawn`."""
    shown = pipeline.shown(access["variant"] for access in drawn.values())
    pipeline.write_listings(shown)
    pipeline.remove_code(shown)
    return shown


def listing(run: Run, variant: str, threads: int) -> None:
    """Write the listing of one variant. Raises UserError if the plan has no such variant."""
    pipeline = run.pipeline(threads=threads)
    if variant not in pipeline.variants:
        raise UserError(run.project.where, "variant", variant, list(pipeline.variants))
    pipeline.write_listings([variant])


def _watch(run: Run, pipeline: Pipeline, wanted: list[jobs.Job], threads: int) -> None:
    watching.watch(pipeline, wanted, _measure(run, result.EXECUTE, cores(run, threads)))


def record(run: Run, pipeline: Pipeline, results: Results) -> str:
    """Merge the run's measurements into the live GPU's recording, in the run's working folder. Raises
    UserError if nothing was measured live, or at no clean commit: a recorded figure must name its code."""
    from tilewave.records import recorded as shipped

    aim = run.target
    name = re.sub(r"[^a-z0-9]+", "_", aim["label"].lower()).strip("_")
    folder = Path.cwd() / RECORDED / name
    if not aim["live"] and not folder.is_dir():
        problem = f"there is no live GPU, and no recording of {aim['label']} to add executions to"
        raise UserError.because("record", problem, "Run on a machine with a GPU", "target")
    state = commit()
    unclean = "this checkout has uncommitted changes" if state["dirty"] else ""
    if not state["commit"]:
        unclean = "this is no git checkout, and TILEWAVE_COMMIT does not name its commit"
    if unclean:
        remedy = "Commit first: recorded values name a clean commit"
        raise UserError.because("record", unclean, remedy, "git")
    collected = pipeline.collected(results)
    # The keys match this clean tree, even if the run began at another commit.
    here = {aim["host"], *aim["gpus"]}
    measured = {name: {**aim["environments"][name], **commit()} for name in here}
    kept = [
        outcome
        for stage in collected.values()
        for outcome in stage
        if outcome.environment in here
        and outcome.key
        and outcome.recordable
        # An execution that stands in for a measurement is recorded as an execution. Without a live
        # GPU only executions are added, because any machine can make them.
        and (outcome.stage == result.EXECUTE or (aim["live"] and "executed" not in outcome.notes))
    ]
    if aim["live"] and (doubtful := _doubtful_here(pipeline, results)):
        seen = "; ".join(f"{outcome.case}: {entry.reason}" for outcome, entry in doubtful)
        remedy = "Run `make report` again: it measures these cases anew"
        raise UserError.because("record", f"times disagree: {seen}", remedy, "time")
    chosen = watching.chosen(pipeline)
    _watch(run, pipeline, chosen, os.cpu_count() or 1)
    accesses = watching.document(pipeline, chosen).items()
    drawn = watching.drawn(pipeline).values()
    shown = pipeline.shown(access["variant"] for access in drawn)
    counted = {outcome.case.partition("@")[0] for outcome in kept if outcome.instructions}
    counts = shipped.merge(folder, kept, measured, *pipeline.shipped(shown, counted))
    rows = ((case, of["key"], row) for case, of in accesses for row in of["accesses"])
    keyed = ({"case": case, "key": key} | row for case, key, row in rows)
    shipped.merge_accesses(folder, keyed)
    summary = ", ".join(f"{number} {unit}" for unit, number in counts.items())
    return f"{RECORDED / name}: {summary}"
