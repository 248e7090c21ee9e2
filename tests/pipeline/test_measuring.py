"""The results that a stage takes from the store or a recording, and those that it measures. No GPU."""

from dataclasses import replace

import pandas as pd
import pytest

from samples import a_job, target
from tilewave.gpu.failure import over_limit
from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.pipeline import measuring
from tilewave.records.counters import catalogue
from tilewave.records.keys import key as content_key
from tilewave.records.recorded import Recorded, merge
from tilewave.records.store import Store
from tilewave.report import summary

HERE = "gpu1"
OLD_NCU, NEW_NCU = "2025.1.0", "2025.3.1"


def job(case="a@64", key="aa11", stage="time", provider="nvrtc", limit_s=60.0):
    return a_job(stage=stage, case=case, key=key, provider=provider, limit_s=limit_s)


def stored_result(status=result.OK, value=1.0, environment=HERE, **more):
    """Return a result of an earlier run, by default of the same case as `job`."""
    more = {"stage": "time", "case": "a@64", "key": "aa11"} | more
    figures = [{"metric": "duration", "value": value, "unit": "us"}]
    return Result(status=status, environment=environment, figures=figures, **more)


class Machine:
    """A fake measure function that remembers the cases it was given."""

    def __init__(self, status=result.OK, reason=""):
        self.cases = []
        self._ending = status, reason

    def __call__(self, waiting, finished):
        self.cases += [job.case for job in waiting]
        results = []
        for job in waiting:
            figures = [{"metric": "duration", "value": 7.0, "unit": "us"}]
            results.append(Result(job.stage, job.case, *self._ending, figures=figures))
            finished(results[-1])
        return results


@pytest.fixture
def machine():
    return Machine()


def collect(store, machine, *jobs, recorded=None, checks=None, **machine_is):
    planned = {job.case: job for job in jobs}
    sources = measuring.Sources(target(**machine_is), store, recorded)
    return measuring.collect(planned, sources, machine, checks)


def value(outcome):
    return outcome.figures[0]["value"]


def test_a_stored_result_is_reused(store, machine):
    first = collect(store, machine, job())
    again = collect(store, machine, job())
    assert machine.cases == ["a@64"]
    assert again["results"] == first["results"]
    assert first["counts"] == {"measured": 1, "reused": 0, "recorded": 0}
    assert again["counts"] == {"measured": 0, "reused": 1, "recorded": 0}
    (outcome,) = collect(store, machine, job("a@2*32"))["results"]  # another case of its key
    assert outcome.case == "a@2*32" and machine.cases == ["a@64"]


@pytest.mark.parametrize(
    ("before", "now"),
    [({}, {"key": "bb22"}), ({}, {"stage": "check"}), ({"environment": "gpu2"}, {})],
)
def test_another_key_stage_or_environment_is_measured(store, before, now, machine):
    store.put(stored_result(**before))
    collect(store, machine, job(**now))
    assert machine.cases == ["a@64"]


@pytest.mark.parametrize(("limit_s", "cases"), [(60.0, ["a@64"]), (2.0, []), (1.0, [])])
def test_a_raised_limit_measures_a_timed_out_case_again(store, limit_s, cases, machine):
    store.put(stored_result(result.TIMED_OUT, notes={"limit_s": 2}))
    (outcome,) = collect(store, machine, job(limit_s=limit_s))["results"]
    assert machine.cases == cases
    assert outcome.status == (result.OK if cases else result.TIMED_OUT)


def test_a_raised_limit_measures_what_was_refused_before(store, tmp_path):
    sources = measuring.Sources(target(), store, failed_attempts=Store(tmp_path / "failed"))
    tried = []

    def refuse(waiting, finished):
        tried.append(waiting[0].limit_s)
        return [over_limit(waiting[0], 90.0)]

    for limit_s in (2.0, 2.0, 60.0):
        (outcome,) = measuring.collect({"a@64": job(limit_s=limit_s)}, sources, refuse)["results"]
        assert outcome.status == result.NOT_MEASURED and "case_limit_s" in outcome.reason
    assert tried == [2.0, 60.0]


@pytest.mark.parametrize("stage", ["time", "counters", "execute"])
def test_a_timed_out_case_keeps_the_limit_it_had(store, stage):
    machine = Machine(result.TIMED_OUT, "no result within 2 s (case_limit_s)")
    environment = "laptop" if stage == "execute" else HERE
    for limit_s, times in ((2.0, 1), (2.0, 1), (60.0, 2)):
        collect(store, machine, job(stage=stage, limit_s=limit_s))
        assert machine.cases == ["a@64"] * times
        assert store.get(environment, stage, "aa11").notes["limit_s"] == limit_s or times == 1


@pytest.mark.parametrize(
    ("stage", "ncu", "cases"),
    [("counters", OLD_NCU, ["a@64"]), ("counters", NEW_NCU, []), ("time", None, [])],
)
def test_counters_of_another_ncu_are_measured_again(store, stage, ncu, cases, machine):
    store.put(stored_result(stage=stage, notes={"ncu": ncu} if ncu else {}))
    (outcome,) = collect(store, machine, job(stage=stage))["results"]
    assert machine.cases == cases
    assert outcome.notes.get("ncu") == (NEW_NCU if stage == "counters" else None)
    assert value(outcome) == (7.0 if cases else 1.0)


@pytest.mark.parametrize("status,count", [(result.NOT_MEASURED, 2), (result.INVALID_ACCESS, 1)])
def test_only_a_failure_of_the_kernel_is_kept(store, status, count):
    machine = Machine(status, "the worker was ended")
    for _ in range(2):
        document = collect(store, machine, job())
        (outcome,) = document["results"]
        assert (outcome.status, outcome.reason) == (status, "the worker was ended")
        assert document["counts"]["measured"] == 0
    assert machine.cases == ["a@64"] * count
    assert bool(store.get(HERE, "time", "aa11")) == (count == 1)


@pytest.fixture
def recorded(tmp_path):
    folder = tmp_path / "nvidia_h200"
    merge(folder, [stored_result(value=4.0)], {HERE: {"gpu": "NVIDIA H200"}}, {})
    return Recorded(folder)


@pytest.mark.parametrize("provider", ["nvrtc", "cpu"])
def test_a_recording_beats_the_store_without_a_gpu(store, recorded, provider, machine):
    for environment in (HERE, "laptop"):
        store.put(stored_result(value=9.0, environment=environment))
    document = collect(store, machine, job(provider=provider), recorded=recorded, live=False)
    (outcome,) = document["results"]
    assert (outcome.source, value(outcome)) == ("recorded:nvidia_h200", 4.0)
    assert document["counts"] == {"measured": 0, "reused": 0, "recorded": 1}
    (outcome,) = collect(store, machine, job(provider=provider), recorded=recorded)["results"]
    assert value(outcome) == 9.0
    assert machine.cases == []


@pytest.mark.parametrize("how", [{"provider": "cpu"}, {"stage": "execute"}])
def test_what_needs_no_gpu_is_measured_where_nothing_is_recorded(store, machine, how):
    for counts in ({"measured": 1, "reused": 0}, {"measured": 0, "reused": 1}):
        document = collect(store, machine, job(**how), live=False)
        (outcome,) = document["results"]
        assert (outcome.status, outcome.environment, outcome.key) == (result.OK, "laptop", "aa11")
        assert counts.items() <= document["counts"].items() and machine.cases == ["a@64"]


def test_a_result_of_a_damaged_recording_says_so(store, recorded):
    (recorded.folder / "results.parquet").write_bytes(b"")
    (outcome,) = collect(store, Machine(), job(), recorded=recorded, live=False)["results"]
    assert (outcome.status, outcome.source) == (result.NOT_MEASURED, "")
    assert outcome.reason.endswith("results.parquet of NVIDIA H200 is damaged")


def test_stale_and_missing_figures_say_why(store, recorded, machine):
    jobs = [job(), job(key="cc33"), job("new@64", "dd44"), job("a@64", stage="check")]
    about = {"recorded": recorded, "live": False}
    results = [collect(store, machine, job, **about)["results"][0] for job in jobs]
    results += collect(store, machine, job(), live=False)["results"]
    statuses = [outcome.status for outcome in results]
    assert statuses == [result.OK, result.STALE, *[result.NOT_MEASURED] * 3]
    assert "on NVIDIA H200 for other code, launch or method" in results[1].reason
    assert results[1].figures == []
    for outcome in results[2:4]:
        assert "this machine, and NVIDIA H200 has no recorded value" in outcome.reason
    assert results[4].reason == "no NVIDIA GPU on this machine"
    assert machine.cases == []


@pytest.mark.parametrize("dtypes", [{}, {"a": "e4m3", "b": "e5m2"}])
def test_counters_of_more_answer_who_asks_for_less(tmp_path, store, dtypes):
    def asking(*sets):
        metrics, sections = map(tuple, catalogue.merged(sets, fp8=bool(dtypes)))
        more = {"metrics": metrics, "sections": sections, "dtypes": dtypes}
        template = a_job(stage="counters", code="c0de", **more)
        return replace(template, key=content_key("c0de", template))

    folder = tmp_path / "nvidia_h200"
    counted = stored_result(value=4.0, stage="counters", key=asking("flops", "memory").key)
    merge(folder, [counted], {HERE: {"gpu": "NVIDIA H200"}}, {})
    metric_sets = [["flops", "traffic"], ["memory"], ["flops", "memory"], ["full"], ["limits"]]
    jobs = [asking(*sets) for sets in metric_sets]
    assert len({job.key for job in jobs}) == len(jobs)
    here = {"recorded": Recorded(folder), "live": False}
    queries = (*jobs, replace(jobs[0], code="other"))
    statuses = [collect(store, Machine(), job, **here)["results"][0].status for job in queries]
    assert statuses == [*[result.OK] * 3, *[result.STALE] * 3]


def test_a_live_stage_says_why_it_shows_what_was_executed(store):
    """If ncu lost the counters, the figures are an execution's, and status, log and page say why."""
    figures = [{"metric": "smsp__inst_executed.sum", "value": 8.0, "unit": ""}]
    about = {"key": "ex", "environment": "laptop", "source": result.EXECUTED, "figures": figures}
    execution = Result("execute", "a@64", result.OK, **about)
    counters = replace(job(stage="counters"), metrics=("smsp__inst_executed.sum",))
    lost = "the report has the kernel b where a was launched"
    (outcome,) = collect(store, Machine(result.NOT_MEASURED, lost), counters)["results"]
    how = {"live": True, "prefer_execution": False}
    outcome = measuring.with_execution(counters, outcome, execution, **how)
    assert (outcome.status, outcome.source) == (result.OK, result.EXECUTED)
    assert outcome.reason.startswith(result.INSTEAD) and outcome.reason.endswith(lost)
    assert lost in measuring.log_lines("counters", {"results": [outcome], "counts": {}})
    row = outcome.only("case", "stage", "status", "reason")
    cases = pd.DataFrame([{"case": "a@64", "verdict": result.CORRECT}])
    (group,) = summary.troubles(cases, summary.problems(cases, pd.DataFrame([row])))
    assert (group.word, group.cases) == (result.NOT_MEASURED, ["a@64"]) and lost in group.reason


@pytest.mark.parametrize("interrupted", [True, False])
def test_what_was_interrupted_is_tried_again(tmp_path, store, interrupted, machine):
    """Until then it says why it has no figure; what this machine cannot do is not tried again."""
    sources = measuring.Sources(target(), store, failed_attempts=Store(tmp_path / "attempts"))
    planned = {"a@64": job()}
    reason = "the worker was ended by SIGKILL, twice"

    def killed(waiting, finished):
        notes = {"interrupted": "was ended by SIGKILL"} if interrupted else {}
        finished(Result("time", "a@64", result.NOT_MEASURED, reason, notes=notes))
        return []

    measuring.collect(planned, sources, killed)
    (outcome,) = measuring.collect(planned, sources)["results"]
    assert (outcome.status, outcome.reason) == (result.NOT_MEASURED, reason)
    assert (sources.find(job()) is None) == interrupted
    (outcome,) = measuring.collect(planned, sources, machine)["results"]
    assert outcome.status == (result.OK if interrupted else result.NOT_MEASURED)


def test_cases_of_one_key_are_measured_once(store, machine):
    document = collect(store, machine, job("a@2*32"), job("b@64", "bb22"), job("a@64"))
    assert machine.cases == ["a@2*32", "b@64"]
    assert [outcome.case for outcome in document["results"]] == ["a@2*32", "b@64", "a@64"]
    assert [outcome.key for outcome in document["results"]] == ["aa11", "bb22", "aa11"]
    assert document["counts"] == {"measured": 2, "reused": 1, "recorded": 0}


def test_a_failed_check_stops_the_later_stages(store, machine):
    check = Result("check", "a@64", result.TIMED_OUT, "too long")
    (outcome,) = collect(store, machine, job(), checks={"a@64": check})["results"]
    assert (outcome.status, outcome.reason) == (result.TIMED_OUT, "too long")
    assert machine.cases == []
