"""What the thin scripts call: each rule's work, from documents on disk to documents on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.basics.paths import RECORDED, child_environment
from tilewave.basics.progress import Progress, duration, say
from tilewave.gpu.device import CHOICE_VARIABLE, claimed
from tilewave.gpu.failure import Measure, watched
from tilewave.kernel import job as jobs
from tilewave.kernel import operations, result
from tilewave.kernel.result import Result
from tilewave.pipeline import compiling, measuring, plan, tuning, watching
from tilewave.pipeline import project as projects
from tilewave.pipeline import target as targets
from tilewave.pipeline.collecting import Tables
from tilewave.pipeline.pipeline import ALL, ON_GPU, Compiled, Pipeline, Results, part_of
from tilewave.pipeline.project import Project
from tilewave.records.agreement import Disagreement
from tilewave.records.environment import commit
from tilewave.records.store import not_written, write_atomically

WORKER = "tilewave.pipeline.worker"
COMPILING_S = 300.0
"""What the interpreter may take to be compiled, once on a machine."""
CHECKERS, CHECKER_CORES, CHECKER_BYTES = 4, 4, 16 << 30
"""Workers that check on one GPU at a time, at most, and what each may need: of most checks the host has more to do
than the GPU, and nothing is measured."""
HELD_AGAINST = ("time", result.TUNE, "counters")
"""Stages whose results are held against each other (`records.agreement`)."""
CASE_BYTES = 16 << 20
"""A check costs about as much besides as so many bytes of operands."""


@dataclass(frozen=True)
class Run:
    """One Snakemake job: its project, the target that the run is about, and its log file."""

    project: Project
    target: Mapping[str, Any]
    log: Path | None = None

    def pipeline(self, compiled: Sequence[Any] = (), part: str = ALL, threads: int = 1) -> Pipeline:
        """The cases of a part. compiled: the documents of `compile_part`; default: what is known without. threads: the
        job's cores."""
        found: Compiled = {}
        for path in compiled:
            found |= projects.read(Path(str(path)))
        known = {name: found[name] for name in self.project.plan.variants} if found else None
        return Pipeline(self.project, self.target, known, part, cores(self, threads))

    def note(self, text: str) -> None:
        """Append to the job's log."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as stream:
                stream.write(text)


@contextlib.contextmanager
def of_script(snakemake: Any) -> Iterator[Run]:
    """Load the project of a run for a script that has the plan among its inputs; a user's mistake ends the job in one
    line, no traceback."""
    given = snakemake.input
    with _told(snakemake) as log:
        plan, target = Path(str(given.plan)), projects.read(Path(str(given.target)))
        yield Run(projects.planned(snakemake.config, _where(), plan), target, log)


def _where() -> str:
    return os.environ.get("TILEWAVE_CONFIG", "config")


@contextlib.contextmanager
def _told(snakemake: Any) -> Iterator[Path | None]:
    """The log of a script, which has what ended it."""
    log = Path(str(snakemake.log[0])) if len(snakemake.log) else None
    if log is not None:
        log.unlink(missing_ok=True)
    try:
        yield log
    except SystemExit:
        raise
    except BaseException as error:
        told = not_written(error) or error
        mistake = isinstance(told, UserError)
        text = f"{told}\n" if mistake else traceback.format_exc()
        if log is not None:
            with contextlib.suppress(OSError):
                log.parent.mkdir(parents=True, exist_ok=True)
                with log.open("w" if mistake else "a", encoding="utf-8") as stream:
                    stream.write(text)
        if not mistake:
            raise
        say(f"Error: {told}")
        raise SystemExit(1) from None


def make_plan(snakemake: Any) -> None:
    """Resolve every case for the target, and write both."""
    with _told(snakemake) as log:
        project = projects.load(snakemake.config, _where())
        made = begin(project, log)
        path = Path(str(snakemake.output.plan))
        plan.write(path, made.project.plan, project.left_out, project.no_kernels)
        write(snakemake.output.target, made.target)


def begin(project: Project, log: Path | None = None) -> Run:
    """A project whose cases are resolved for this machine's target (see `tilewave.pipeline.target`)."""
    here = targets.probe(project.config.gpu)
    others = targets.probe_others(project.config.gpu, here)
    found = targets.resolve(project.config, here, project.recorded_root, project.where, others)
    how = "measured live" if found["live"] else f"not live: {found['reason']}"
    say(f"Target: {found['label']} ({how})")
    for line in found["damaged"]:
        say(f"Warning: {line}")
    resolved = dataclasses.replace(project, plan=plan.resolved(project.plan, found))
    made = Run(resolved, found, log)
    made.note("".join(f"{line}\n" for line in [*found["damaged"], json.dumps(found, indent=1)]))
    return made


def write(path: str, document: Any) -> None:
    """A JSON document, whole or not at all."""
    write_atomically(Path(path), (json.dumps(document, indent=1) + "\n").encode())


def follow(
    project: Project, what: str, unit: str, items: Mapping[str, float] | Sequence[str]
) -> Progress:
    """The progress of a job through variants, cases or kernels by their ids, or through studies.

    items: with what each costs beside the others, where that is known; behind a blank an id may say
    more (of a variant an architecture).
    """
    studies: dict[str, dict[str, None]] = {}
    for case in project.plan.cases.values():
        for name in (case.id, case.variant.id, case.kernel.name):
            studies.setdefault(name, {}).update(dict.fromkeys(case.studies))
    costs = dict(items) if isinstance(items, Mapping) else dict.fromkeys(items, 1.0)
    wanted = {name: list(studies.get(name.split(" ")[0], ())) for name in costs}
    return Progress(what, unit, wanted, costs)


def compile_part(run: Run, part: str, given: int) -> Compiled:
    """Compile what is missing of the variants of a part (see `tilewave.pipeline.compiling`).

    Returns what is known of them, by variant and architecture.
    """
    pipeline = run.pipeline()
    names = part_of(list(pipeline.variants), part)
    tasks = pipeline.tasks(names)
    progress = follow(run.project, "compile", "variants", [task.id for task in tasks])
    logs = run.project.results / "logs" / "compile"
    refused = 0

    def done(task: compiling.Task, made: compiling.Entry) -> None:
        nonlocal refused
        told = f"{task.id}: {made['status']} {made['reason']}"
        path = logs / f"{task.variant.id}.{task.wanted}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{told}\n{made.get('log', '')}\n", encoding="utf-8")
        run.note(f"{told}\n")
        if made["reason"]:
            refused += 1
            say(f"  {told}")
        progress.done(task.id)

    with _helpers_compiled(pipeline, tasks):
        compiling.compile_all(tasks, pipeline.store, cores(run, given), done, pipeline.recording)
    words = f"{len(tasks)} of {len(names)} variants in {progress.spent}"
    say(f"  compile: {words}" + (f", {refused} refused" if refused else ""))
    return pipeline.known(names)


@contextlib.contextmanager
def _helpers_compiled(pipeline: Pipeline, tasks: Sequence[compiling.Task]) -> Iterator[None]:
    """Beside other kernels those that the GPU's checks need, which take as long as the dearest of these."""
    if not pipeline.target["live"] or not tasks:
        yield
        return
    arguments = [pipeline.arch, str(_cache(pipeline.project))]
    command = [sys.executable, "-m", "tilewave.gpu.reference", *arguments]
    quiet = subprocess.DEVNULL  # what is wrong with them, the checks tell
    with subprocess.Popen(command, env=child_environment(), stdout=quiet, stderr=quiet):
        yield


def _cache(project: Project) -> Path:
    """Where helper kernels and cuBLASLt's choices are kept."""
    return project.store.root / "cache"


def cores(run: Run, given: int) -> int:
    """The cores that a job may use in which nothing is timed: beside a GPU all of them."""
    return max(given, os.cpu_count() or given) if run.target["live"] else given


def _checkers(pipeline: Pipeline, cores: int) -> int:
    """How many workers may check at a time on the GPU that is measured on."""
    target = pipeline.target
    if not target["live"]:
        return 1
    memory = target["environments"][target["environment"]].get("memory_bytes") or 0
    return max(1, min(CHECKERS, cores // CHECKER_CORES, memory // CHECKER_BYTES))


def measure_part(
    run: Run, pipeline: Pipeline, given: int = 1, stages: Sequence[str] = ON_GPU
) -> Results:
    """Check, time, race, count and sample what of a part's cases nobody knows; the results go into the store.

    Returns the results of these stages.
    """
    targets.of_another_node(run.target, run.project.config.gpu, "measure")
    found: Results = {}
    with _gpu(run, pipeline) as mine:
        for stage in stages:
            found[stage] = _stage(mine, pipeline, stage, given, found.get("check"))
            if stage in HELD_AGAINST and run.target["live"]:
                _time_doubtful_again(mine, pipeline, stage, found)
    return found


@contextlib.contextmanager
def _gpu(run: Run, pipeline: Pipeline) -> Iterator[Run]:
    """Claim a GPU for a part: the first of the target's that no other part measures on."""
    target = run.target
    if not target["live"]:
        yield run
        return
    by_uuid = {target["environments"][name]["uuid"]: name for name in target["gpus"]}
    with claimed(list(by_uuid), lambda: say("  every GPU is measured on: waiting")) as uuid:
        pipeline.target = {**target, "environment": by_uuid[uuid]}
        yield dataclasses.replace(run, target=pipeline.target)


def race(run: Run, pipeline: Pipeline, given: int = 1) -> Results:
    """Check and race the candidates of the studies that race."""
    with _gpu(run, pipeline) as mine:
        checks = _stage(mine, pipeline, "check", given)
        return {"check": checks, result.TUNE: _stage(mine, pipeline, result.TUNE, given, checks)}


def execute_part(run: Run, pipeline: Pipeline, given: int = 1) -> dict[str, Result]:
    """Execute on the CPU what of a part is to be executed (see `tilewave.pipeline.executing`), and the cases of which
    pages draw the accesses to shared memory (see `tilewave.pipeline.watching`)."""
    made = _stage(run, pipeline, result.EXECUTE, given)
    config = run.project.config
    if not config.fresh and (
        config.execute.when == "always"
        or (config.execute.when == "no_gpu" and not run.target["live"])
    ):
        watched = watching.foremost(watching.chosen(pipeline))
        _watch(run, pipeline, [job for job in watched if job.case in pipeline.cases], given)
    return made


def _stage(
    run: Run,
    pipeline: Pipeline,
    stage: str,
    given: int,
    checks: Mapping[str, Result] | None = None,
    again: Collection[str] = (),
) -> dict[str, Result]:
    """The results of a stage by case, after measuring what is missing."""
    workers = cores(run, given)
    if stage == "check":
        workers = _checkers(pipeline, workers)
    doing, begun = _measure(run, stage, workers), time.monotonic()
    if run.target["live"] and stage != result.EXECUTE:
        doing = watched(doing, _number(run))
    document = pipeline.measure(stage, doing, checks, again)
    run.note(measuring.log_lines(stage, document))
    results = {made.case: made for made in document["results"]}
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items() if number)
    took = duration(time.monotonic() - begun)
    if results:
        say(f"  {stage}: {len(results)} cases in {took}{': ' if counts else ''}{counts}")
    for word, then in (("interrupted", "measures them"), ("disturbed", "measures them again")):
        if number := sum(word in made.notes for made in results.values()):
            say(f"  {stage}: {number} cases were {word}; the next run {then}")
    if stage == result.TUNE:
        raced, eliminated, spent, full = tuning.saved(results.values())
        if raced:
            told = f"{eliminated} of {raced} eliminated early: {spent:.1f} s of GPU instead of {full:.1f} s"
            say(f"  {stage}: {told}")
            run.note(f"{told}\n")
    return results


def _number(run: Run) -> int:
    """CUDA's number of the GPU that the run measures on."""
    gpus: Mapping[str, int] = run.target.get("gpus", {})
    return gpus.get(run.target["environment"], run.project.config.gpu)


def _doubtful_here(pipeline: Pipeline, found: Results) -> list[tuple[Result, Disagreement]]:
    """The times of this machine that another measurement contradicts, with what it says."""
    results = {stage: list(found.get(stage, {}).values()) for stage in HELD_AGAINST}
    doubtful = pipeline.doubtful(results)
    return [
        (made, doubtful[made.case])
        for made in results["time"]
        if made.case in doubtful and made.environment in pipeline.target["gpus"]
    ]


def _time_doubtful_again(run: Run, pipeline: Pipeline, stage: str, found: Results) -> None:
    """Time once more what the stage's results contradict. What stays doubtful is said, and left to the next run."""
    cases = [made.case for made, _ in _doubtful_here(pipeline, found)]
    if not cases:
        return
    say(f"  {stage}: {len(cases)} times disagree with other measurements: timed again")
    found["time"] |= _stage(run, pipeline, "time", 1, found["check"], cases)
    for made, seen in _doubtful_here(pipeline, found):
        say(f"  {made.case}: {seen.reason}")
        run.note(f"{made.case}: {seen.reason}\n")
        marked = dataclasses.replace(made, notes={**made.notes, "doubtful": seen.reason})
        found["time"][made.case] = marked
        for place in (pipeline.store, pipeline.attempts):
            place.put(marked, always=True)


def _measure(run: Run, stage: str, workers: int) -> Measure:
    """How the jobs of a stage are run on this machine. workers: processes at a time, where several may run."""
    project = run.project
    cache = _cache(project)
    log = Path(f"{run.log}.worker") if run.log else project.results / f"{stage}.log"
    log.unlink(missing_ok=True)
    os.environ[CHOICE_VARIABLE] = str(_number(run))

    def measure(waiting: list[jobs.Job], keep: Callable[[Result], None]) -> list[Result]:
        progress = follow(project, stage, "cases", {one.case: _cost(one) for one in waiting})

        def finished(made: Result) -> None:
            keep(made)
            progress.done(made.case)

        if stage in ("counters", result.SAMPLE):
            from tilewave.gpu.ncu import profiler

            reports = project.results / "ncu"
            return profiler.profile(
                # Launches of one cubin follow each other: it is loaded, and its report read, once.
                sorted(waiting, key=lambda job: job.variant),
                cache=cache,
                report_path=reports / f"{_report_name(stage, waiting)}.ncu-rep",
                log_path=log,
                cores=workers,
                on_result=finished,
                note=run.note,
            )
        from tilewave.workers import supervisor

        if stage == result.EXECUTE:
            from tilewave import execution
            from tilewave.execution import cost

            execution.prepare(lambda line: say(f"  {line}"), workers)
            # The machine keeps to the limit itself; building inputs, judging and compiling what no
            # earlier case needed come on top.
            return supervisor.share_jobs(
                stage,
                sorted(waiting, key=cost.predicted_s),  # a small case tells of the large ones
                workers,
                limit_s=project.config.execute.case_limit_s * 2 + COMPILING_S,
                grace_s=COMPILING_S,
                on_result=finished,
                log_path=log,
                module=WORKER,
                weight=_cost,
            )
        if stage in ("check", "time"):
            # Cases of the same inputs share buffers, and in a check the reference.
            waiting = sorted(waiting, key=_inputs)
        if stage == "check" and workers > 1:
            how = {"cache": cache, "log_path": log, "module": WORKER}
            return _checked_together(waiting, workers, finished, **how)
        # A timing that keeps to its limit still needs inputs, a warm-up and cuBLAS's choice.
        limit_s = None if stage == "check" else project.config.timing.case_limit_s * 3 + 20
        return supervisor.run_jobs(
            stage,
            waiting,
            cache=cache,
            limit_s=limit_s,
            on_result=finished,
            log_path=log,
            module=WORKER,
        )

    return measure


def _inputs(job: jobs.Job) -> str:
    return json.dumps([job.shape, job.dtypes])


def _checked_together(
    waiting: list[jobs.Job],
    workers: int,
    on_result: Callable[[Result], None],
    **how: Any,
) -> list[Result]:
    """Check jobs, several at a time; what has no result because of the others perhaps, out of time or memory, once
    more alone."""
    from tilewave.workers import supervisor

    def hindered(made: Result) -> bool:
        return made.status == result.TIMED_OUT or "interrupted" in made.notes

    def told(made: Result) -> None:
        if not hindered(made):
            on_result(made)

    made = supervisor.share_jobs(
        "check",
        waiting,
        workers,
        on_result=told,
        alike=_inputs,
        weight=_checked_bytes,
        **how,
    )
    again = [job for job, one in zip(waiting, made, strict=True) if hindered(one)]
    alone = supervisor.run_jobs("check", again, on_result=on_result, **how)
    return [one for one in made if not hindered(one)] + alone


def _checked_bytes(job: jobs.Job) -> float:
    """What a check costs beside others: its operands are made, read and compared."""
    operation = operations.load(job.operation, job.source)
    stored = (operation.stored(job, name) for name in operation.arrays(job))
    return CASE_BYTES + sum(dtype.itemsize * count for dtype, count in stored)


def _cost(job: jobs.Job) -> float:
    """What a case costs beside others of its stage: to execute it, seconds about; else 1."""
    if job.stage != result.EXECUTE:
        return 1.0
    from tilewave.execution import cost

    return cost.worker_s(job)


def _report_name(stage: str, waiting: Sequence[jobs.Job]) -> str:
    """Of a session's reports: the kernel's, or one that says what was profiled together."""
    names = list(dict.fromkeys(job.kernel for job in waiting))
    sampled = f"_{stage}" if stage == result.SAMPLE else ""
    if len(names) == 1:
        return names[0] + sampled
    keys = "".join(sorted(job.key for job in waiting))
    return f"{len(names)}_kernels{sampled}_{hashlib.sha256(keys.encode()).hexdigest()[:8]}"


def tables(run: Run, pipeline: Pipeline, found: Results) -> Tables:
    """The tidy tables of what all parts found."""
    made = Tables(pipeline, pipeline.collected(found))
    for stage, results in made.results.items():
        run.note(measuring.log_lines(stage, {"results": results, "counts": {}}))
    return made


def listings(pipeline: Pipeline, drawn: Mapping[str, Any]) -> set[str]:
    """Write the listings of the variants whose code a page shows, and remove those that a stage needed of others.

    drawn: of `watching.drawn`. Returns the variants.
    """
    shown = pipeline.shown(one["variant"] for one in drawn.values())
    pipeline.write_listings(shown)
    pipeline.remove_code(shown)
    return shown


def listing(run: Run, variant: str, given: int) -> None:
    """Write the listing of one variant. Raises UserError where it is none, or nobody knows its code."""
    pipeline = run.pipeline(threads=given)
    if variant not in pipeline.variants:
        raise UserError(run.project.where, "variant", variant, list(pipeline.variants))
    pipeline.write_listings([variant])


def _watch(run: Run, pipeline: Pipeline, wanted: list[jobs.Job], given: int) -> None:
    watching.watch(pipeline, wanted, _measure(run, result.EXECUTE, cores(run, given)))


def _clean_tree() -> str:
    """Empty where the tree is a clean commit; else what is not."""
    told = commit()
    if not told["commit"]:
        return "no git checkout, and TILEWAVE_COMMIT does not name its commit"
    return "the tree has changes that are not committed" if told["dirty"] else ""


def record(run: Run, pipeline: Pipeline, found: Results) -> str:
    """Merge the run's measurements into the recorded folder of the live GPU, in the folder that the
    run works in.

    Raises UserError where nothing was measured live or the tree is not a clean commit: a recorded
    figure must say which code it came from.
    """
    from tilewave.records import recorded as shipped

    aim = run.target
    name = re.sub(r"[^a-z0-9]+", "_", aim["label"].lower()).strip("_")
    folder = Path.cwd() / RECORDED / name
    if not aim["live"] and not folder.is_dir():
        raise UserError("record", "target", aim["label"], "a live GPU, or one recorded here")
    unclean = _clean_tree()
    if unclean:
        raise UserError("record", "git", unclean, "a clean commit that the figures can name")
    results = pipeline.collected(found)
    # The keys match this clean tree, whatever commit the run began at.
    here = {aim["host"], *aim["gpus"]}
    measured = {name: {**aim["environments"][name], **commit()} for name in here}
    kept = [
        made
        for stage in results.values()
        for made in stage
        if made.environment in here
        and made.key
        and made.recordable
        # What stands in for a measurement is an execution's, and recorded as that; a machine that
        # shows another one's figures adds nothing but executions, which any machine can make.
        and (made.stage == result.EXECUTE or (aim["live"] and "executed" not in made.notes))
    ]
    if aim["live"] and (doubtful := _doubtful_here(pipeline, found)):
        seen = "; ".join(f"{made.case}: {one.reason}" for made, one in doubtful)
        again = "times that agree: `make report` measures these cases again"
        raise UserError("record", "time", seen, again)
    watched = watching.chosen(pipeline)
    _watch(run, pipeline, watched, os.cpu_count() or 1)
    told = watching.document(pipeline, watched)
    drawn = watching.drawn(pipeline).values()
    shown = pipeline.shown(one["variant"] for one in drawn)
    counted = {made.case.partition("@")[0] for made in kept if made.instructions}
    counts = shipped.merge(folder, kept, measured, *pipeline.shipped(shown, counted))
    shipped.merge_accesses(
        folder,
        [
            {"case": case, "key": one["key"], **row}
            for case, one in told.items()
            for row in one["accesses"]
        ],
    )
    words = ", ".join(f"{number} {what}" for what, number in counts.items())
    return f"{RECORDED / name}: {words}"
