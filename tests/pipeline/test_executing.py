"""The cases that are executed, and the places where their results replace a GPU's."""

from dataclasses import replace
from typing import Any

import pytest

from samples import a_job, planned, target, write_kernel
from tilewave.kernel import result as model
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline import executing, measuring
from tilewave.pipeline import project as projects
from tilewave.pipeline.cases import wants
from tilewave.pipeline.pipeline import Pipeline
from tilewave.pipeline.plan import resolved
from tilewave.pipeline.tables import verdicts
from tilewave.records.recorded import Recorded, merge
from tilewave.records.store import Store

CODE = "c0de"


def config(**more: Any) -> dict[str, Any]:
    blocks = [{"kernels": ["matmul_naive"], "macros": "defaults", "shapes": [64, 96]}]
    blocks += [{"kernels": ["matmul_cpu"], "macros": "defaults", "shapes": [64]}]
    study = {"plot": "correctness", "title": "-", "counters": "memory", "cases": blocks}
    return {"studies": {"one": study | more.pop("study", {})}, **more}


def compiled(project: projects.Project, cubin: str | None = "k.cubin") -> dict[str, Any]:
    entry = {"status": "ok", "reason": "", "code": CODE, "cubin": cubin}
    if cubin is None:
        entry = {"status": "not measured", "reason": "no NVRTC", "code": CODE}
    return {name: {"sm_90": entry} for name in project.plan.variants}


def load(**more: Any) -> projects.Project:
    return projects.load(config(**more), "test.yaml")


def chosen(project: projects.Project, recorded: Recorded | None = None, live: bool = False) -> Any:
    project = replace(project, plan=resolved(project.plan, target(live)))
    replaced: dict[str, list[Any]] = {}
    for stage in executing.REPLACED:
        for case, entry in planned(stage, project, compiled(project), target(live)).items():
            replaced.setdefault(case, []).append(entry)
    cases, when = list(project.plan.cases.values()), project.config.execute.when
    return executing.wanted(cases, replaced, target(live), recorded, when)


GPU_CASES = {"matmul_naive@64x64x64", "matmul_naive@96x96x96"}


def test_only_machine_code_is_executed() -> None:
    by_name = load().plan.cases
    assert not wants("execute", by_name["matmul_cpu@64x64x64"])
    assert wants("execute", by_name["matmul_naive@64x64x64"])


@pytest.mark.parametrize(
    ("when", "asks", "live", "cases"),
    [
        ("no_gpu", False, False, GPU_CASES),
        ("no_gpu", False, True, set()),
        ("no_gpu", True, True, GPU_CASES),
        ("always", False, True, GPU_CASES),
        ("never", True, False, set()),
    ],
)
def test_which_cases_are_executed(when: str, asks: bool, live: bool, cases: set[str]) -> None:
    project = load(execute={"when": when}, study={"execute": asks})
    assert chosen(project, live=live) - {"matmul_cpu@64x64x64"} == cases


def recorded_with(project: projects.Project, folder: Any, stages: tuple[str, ...]) -> Recorded:
    by_stage = [planned(stage, project, compiled(project), target(live=False)) for stage in stages]
    jobs = [jobs_of["matmul_naive@64x64x64"] for jobs_of in by_stage]
    results = [Result.of_job(job, environment="gpu1", verdict="correct") for job in jobs]
    merge(folder, results, {"gpu1": {"gpu": "NVIDIA H200"}}, {})
    return Recorded(folder)


def test_recorded_cases_are_not_executed(tmp_path: Any) -> None:
    project = load()
    full = recorded_with(project, tmp_path / "whole", ("check", "counters"))
    assert chosen(project, full) == {"matmul_naive@96x96x96"}
    half = recorded_with(project, tmp_path / "half", ("check",))
    assert chosen(project, half) == GPU_CASES


def test_a_users_kernel_is_checked_here_whatever_a_recording_says(tmp_path: Any) -> None:
    """An execution of about a second decides; the source of the verdict says so. A recorded *wrong* stays."""
    write_kernel(tmp_path / "kernels", "user")
    blocks = [{"kernels": ["user"], "macros": "defaults", "shapes": [64, 2048]}]
    project = load(study={"cases": blocks}, kernel_folders=[str(tmp_path / "kernels")])
    project = replace(project, plan=resolved(project.plan, target(live=False)))
    about = project, compiled(project), target(live=False)
    jobs = {stage: planned(stage, *about) for stage in executing.REPLACED}
    recorded = [
        Result.of_job(job, environment="gpu1", verdict="correct", source="recorded:h200")
        for stage in jobs.values() for job in stage.values() if isinstance(job, Job)
    ]  # fmt: skip
    merge(tmp_path / "h200", recorded, {"gpu1": {"gpu": "NVIDIA H200"}}, {})
    assert chosen(project, Recorded(tmp_path / "h200")) == {"user@64x64x64"}
    pipeline = Pipeline(project, target(live=False), compiled(project))
    case, executions = "user@64x64x64", {}
    executions[case] = replace(execution(verdict="wrong"), case=case)
    checks = {outcome.case: outcome for outcome in recorded if outcome.stage == "check"}
    (small, large) = pipeline.collected({"execute": executions, "check": checks})["check"]
    assert (small.verdict, small.source, small.reason) == ("wrong", "executed", "found")
    assert (large.verdict, large.source) == ("correct", "recorded:h200")
    checks[case] = replace(checks[case], verdict="wrong")
    executions[case] = replace(execution(), case=case)
    (small, _) = pipeline.collected({"execute": executions, "check": checks})["check"]
    assert (small.verdict, small.source) == ("wrong", "recorded:h200")


def test_a_key_that_another_case_has_answers_nothing(tmp_path: Any) -> None:
    recorded = shipped(tmp_path)
    job = a_job(stage="check", key="aa11", limit_s=9.0)
    assert recorded.answers(replace(job, case="a@64"))
    assert not recorded.answers(replace(job, case="b@64"))


@pytest.mark.parametrize("stage", ["tune", "time"])
@pytest.mark.parametrize(("more_shapes", "expected"), [([], 64), ([96], 64), ([32, 96], 32)])
def test_of_cases_that_are_only_timed_a_variants_smallest_is_executed(stage, more_shapes, expected):
    """Executing gives no time, but it tells whether the variant is correct."""
    timed = {"kernels": ["matmul_naive"], "macros": {"REAL": ["f32", "f64"]}, "counters": "none"}
    blocks = [timed | {stage: True, "shapes": [128, 96, 64]}]
    blocks += [timed | {"macros": "defaults", "shapes": more_shapes}] if more_shapes else []
    project = load(study={"cases": blocks})
    names = executing.informative(list(resolved(project.plan, target(live=False)).cases.values()))
    first = {f"matmul_naive@{size}x{size}x{size}" for size in sorted({*more_shapes, expected})}
    assert names == first | {"matmul_naive-realf64@64x64x64"}


def executed(project: projects.Project, **more: Any) -> dict[str, Any]:
    return planned("execute", project, compiled(project, **more), target(live=False))


def test_a_case_over_its_limit_is_not_begun() -> None:
    project = load(study={"cases": [{"kernels": ["matmul_naive"], "shapes": [64, 4096]}]})
    small, large = list(executed(project).values())[:2]
    assert small.limit_s == 10.0
    assert large.status == model.NOT_MEASURED
    assert "execute: case_limit_s = 10 s" in large.reason


def test_without_a_cubin_nothing_is_executed(tmp_path: Any) -> None:
    sources = measuring.Sources(target(live=False), Store(tmp_path))
    jobs = executed(load(), cubin=None)
    (outcome, *_) = measuring.collect(jobs, sources, pytest.fail)["results"]
    assert (outcome.status, outcome.reason) == (model.NOT_MEASURED, "no NVRTC")


def test_the_key_holds_the_machines_version(monkeypatch: pytest.MonkeyPatch) -> None:
    project = load()
    before = [job.key for job in executed(project).values()]
    monkeypatch.setattr("tilewave.execution.version", lambda: [99, 99])
    assert not set(before) & {job.key for job in executed(project).values()}


FIGURES = [{"metric": "smsp__inst_executed.sum", "value": 5.0, "unit": "inst"}]
NOTES = {"check": {"figures": [{"metric": "max_error", "value": 0.1, "unit": ""}]}}


def execution(status: str = model.OK, verdict: str | None = model.CORRECT, **more: Any) -> Any:
    more = {"reason": "found", "figures": FIGURES if status == "ok" else []} | more
    more |= {"key": "e1", "environment": "laptop", "notes": NOTES}
    return Result("execute", "a@64", status, verdict=verdict, **more)


def stage_result(
    stage: str, outcome: Any, tmp_path: Any, recorded: Any = None, live: bool = False,
    first: bool = False, status: str = model.OK,
) -> Result:  # fmt: skip
    """Return the result of a stage for an executed case."""
    job = a_job(stage=stage, key="aa11", limit_s=9.0, metrics=("smsp__inst_executed.sum",))

    def measure(waiting: Any, finished: Any) -> Any:
        return [Result(stage, job.case, status, "no permission") for job in waiting]

    sources = measuring.Sources(target(live), Store(tmp_path / "store"), recorded)
    (result,) = measuring.collect({"a@64": job}, sources, measure)["results"]
    return measuring.with_execution(job, result, outcome, live, first) if outcome else result


@pytest.mark.parametrize("stage", ["check", "counters"])
def test_where_nothing_is_recorded_the_execution_speaks(stage: str, tmp_path: Any) -> None:
    result = stage_result(stage, execution(), tmp_path)
    assert (result.stage, result.status, result.source) == (stage, "ok", "executed")
    assert (result.key, result.environment) == ("aa11", "laptop")


def shipped(folder: Any, key: str = "aa11") -> Recorded:
    check = Result("check", "a@64", "ok", key=key, environment="gpu1", verdict="correct")
    merge(folder / "nvidia_h200", [check], {"gpu1": {"gpu": "NVIDIA H200"}}, {})
    return Recorded(folder / "nvidia_h200")


def test_a_recorded_figure_comes_first_unless_the_config_executes_always(tmp_path: Any) -> None:
    wrong, recorded = execution(verdict="wrong"), shipped(tmp_path)
    result = stage_result("check", wrong, tmp_path, recorded)
    assert (result.source, result.verdict) == ("recorded:nvidia_h200", "correct")
    result = stage_result("check", wrong, tmp_path, recorded, first=True)
    assert (result.source, result.verdict) == ("executed", "wrong")
    unknown = execution(model.UNSUPPORTED, None)
    result = stage_result("check", unknown, tmp_path, recorded, first=True)
    assert result.source == "recorded:nvidia_h200"


@pytest.mark.parametrize("status", [model.UNSUPPORTED, model.NOT_MEASURED])
def test_stale_stays_stale_where_the_execution_says_nothing(status: str, tmp_path: Any) -> None:
    stale = shipped(tmp_path, "other")
    executed = execution(status, None, reason="HGMMA at line 2")
    result = stage_result("check", executed, tmp_path, stale)
    assert result.status == model.STALE and result.reason.endswith("; HGMMA at line 2")
    assert stage_result("check", execution(), tmp_path, stale).source == "executed"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(model.UNSUPPORTED, "HGMMA"), (model.NOT_MEASURED, "no NVIDIA GPU on this machine; HGMMA")],
)
def test_why_nothing_was_executed_is_said(status: str, reason: str, tmp_path: Any) -> None:
    result = stage_result("counters", execution(status, None, reason="HGMMA"), tmp_path)
    assert (result.status, result.reason) == (status, reason)


def test_on_a_live_gpu_measured_figures_stay(tmp_path: Any) -> None:
    assert stage_result("check", execution(verdict="wrong"), tmp_path, live=True).source == "events"
    result = stage_result("counters", execution(), tmp_path, live=True, status=model.NOT_MEASURED)
    assert result.source == "executed"
    result = stage_result("counters", None, tmp_path, live=True, status=model.NOT_MEASURED)
    assert result.reason == "no permission"


def test_a_race_is_a_race_though_the_result_was_right() -> None:
    check = [Result("check", case, "ok", verdict=model.CORRECT) for case in ("a", "b")]
    findings = {"a": model.RACE, "b": model.WRONG}
    executions = [Result("execute", case, "ok", verdict=ends) for case, ends in findings.items()]
    assert verdicts(check, executions) == {"a": model.RACE, "b": model.CORRECT}
