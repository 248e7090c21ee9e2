"""Stage tune without a GPU: the candidates, the events of a worker and the cost of a crash."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from fake_track import Candidate, FakeTrack
from samples import FRONT, HOPPER, a_job, config, write_kernel
from tilewave.gpu import tuning_run
from tilewave.gpu.device import CudaError
from tilewave.gpu.worker import main as worker_main
from tilewave.kernel import result
from tilewave.kernel.job import write_jobs
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs, measuring, project, tables
from tilewave.pipeline import tuning as stage
from tilewave.pipeline.cases import wants
from tilewave.pipeline.resolving import resolve
from tilewave.records.recorded import Recorded, merge
from tilewave.workers import supervisor

HERE = "gpu1"
TARGET = {
    "live": True, "environment": HERE, "host": HERE, "label": "NVIDIA H200", "reason": "", "arch": 90,
    "device": {"sms": 132, "shared_per_block_optin": 232448, "arch": 90},
    "environments": {HERE: HOPPER | {"sms": 132}},
}  # fmt: skip


def job(case, us=10.0, group="g", provider="nvrtc", **more):
    return a_job(
        Candidate, case=case, key=case, stage="tune", group=group, provider=provider,
        shape={"m": 64, "n": 64, "k": 64}, limit_s=5.0, us=us, **more,
    )  # fmt: skip


def tuned(*jobs, track=FakeTrack):
    events = []
    usable = tuning_run.run_groups(
        jobs, range(len(jobs)), lambda event, **more: events.append((event, more)), track
    )
    results = [Result.of_document(more["result"]) for event, more in events if event == "finished"]
    return usable, results, events


def values(outcome):
    return {name.removeprefix("tune_"): value for name, value in outcome.by_metric.items()}


def test_figures_of_winner_and_loser():
    usable, results, _ = tuned(job("slow", 50.0), job("fast", 10.0))
    assert usable
    slow, fast = results
    assert (slow.case, fast.case) == ("slow", "fast")
    # 2 x 64^3 operations in 10 us are 0.0524 TFLOP/s; 100 launches of it are 1 ms. The full cost is that of
    # five launches and (2 x 5 + 1) blocks of 2 ms.
    expected = {"eliminated": 0, "rounds": 5, "duration": 10.0, "tflops": 0.0524288, "spent": 1.0}
    figures = values(fast)
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert figures["full_cost"] == pytest.approx(22.05)
    assert (values(slow)["eliminated"], values(slow)["rounds"]) == (1, 0)
    notes = {"out": "screening", "compared_with": "fast", "compared_us": 10.0}
    assert notes.items() <= slow.notes.items()
    assert slow.samples == {"duration_us": [50.0, 50.0]}
    row = {"metric": "tune_behind", "value": 5.0, "unit": "1", "text": "fast"}
    assert tables._behind(slow) == [row] and tables._behind(fast) == []
    # Candidates tuned, eliminated, seconds spent, and seconds without elimination.
    savings = stage.saved([*results, Result("tune", "x", result.STALE)])
    assert savings == (2, 1, pytest.approx(1e-3 * 6.0), pytest.approx(1e-3 * (22.25 + 22.05)))


def test_groups_race_apart():
    _, results, _ = tuned(job("a", 10.0, "one"), job("b", 90.0, "two"), job("c", 50.0, "one"))
    rivals = {outcome.case: outcome.notes["compared_with"] for outcome in results}
    assert rivals == {"c": "a", "a": "a", "b": "b"}


def test_every_start_is_reported_before_the_candidate_runs():
    _, _, events = tuned(job("a"), job("b", do="fails"))
    started = [more["case"] for event, more in events if event == "started"]
    assert started[:3] == ["a", "a", "b"]  # the first one also for the buffers
    failed = next(more["result"] for _, more in events if more.get("result"))
    assert (failed["case"], failed["status"]) == ("b", "failed to launch")


def test_a_destroyed_context_ends_the_process_and_keeps_its_results():
    usable, results, _ = tuned(job("a"), job("b", 30.0), job("c", 40.0, do="poisons"))
    assert not usable
    ends = [(outcome.case, outcome.status) for outcome in results]
    assert ends == [("b", "ok"), ("c", "invalid access")]


def test_buffers_that_do_not_fit():
    full = CudaError("CUDA_ERROR_OUT_OF_MEMORY", "buffer a needs 99999 MiB, 1 free")
    usable, results, _ = tuned(job("a"), job("b"), track=MagicMock(side_effect=full))
    assert usable
    assert [outcome.status for outcome in results] == ["not measured"] * 2
    assert "buffer a" in results[0].reason


WORKER = """
import json, sys
from fake_track import Candidate, FakeTrack
from tilewave.basics.validation import of_document
from tilewave.gpu import tuning_run, worker
def run(stage, jobs, events, todo, cache):
    events.send("ready", gpu=None)
    return 0 if tuning_run.run_groups(jobs, todo, events.send, FakeTrack) else worker.POISONED
def read_jobs(path):
    return [of_document(Candidate, entry) for entry in json.loads(path.read_bytes())]
worker.run, worker.read_jobs = run, read_jobs
sys.exit(worker.main())
"""


@pytest.fixture
def supervised(tmp_path, monkeypatch):
    (tmp_path / "tuning_worker.py").write_text(WORKER)
    here = os.path.join(os.path.dirname(__file__), os.pardir, "support")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{here}", prepend=os.pathsep)
    diary = tmp_path / "diary"
    diary.touch()

    def call(*jobs):
        seen = []
        jobs = [replace(candidate, diary=str(diary)) for candidate in jobs]
        about = {"module": "tuning_worker", "on_result": seen.append, "limit_s": 20.0}
        results = supervisor.run_jobs("tune", jobs, **about)
        return results, [outcome.case for outcome in seen], diary.read_text().split()

    return call


def test_a_crash_costs_one_candidate(supervised):
    jobs = [job("best", 10.0), job("slow", 50.0), job("bad", 60.0, do="kills"), job("late", 70.0)]
    results, order, screened = supervised(*jobs)
    assert [outcome.status for outcome in results] == ["ok", "ok", "invalid access", "ok"]
    assert results[2].reason == "the worker was ended by SIGSEGV"
    # A candidate that was eliminated before the crash is kept, and does not run again.
    assert order[:2] == ["slow", "bad"]
    assert screened == ["best", "slow", "best", "late"]
    assert results[3].notes["compared_with"] == "best"


def test_a_crash_in_a_lap(supervised):
    jobs = [job("best", 10.0), job("bad", 10.1, do="kills in a lap"), job("slow", 50.0)]
    results, _, _ = supervised(*jobs)
    assert [outcome.status for outcome in results] == ["ok", "invalid access", "ok"]
    assert values(results[0])["rounds"] == 5


def test_the_worker_itself_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWAVE_GPU", "99")
    write_jobs(tmp_path / "jobs.json", [a_job(case="a"), a_job(case="b")])
    events = tmp_path / "events.jsonl"
    arguments = ["tune", str(tmp_path / "jobs.json"), "--events", str(events), "--done", "1"]
    assert worker_main(arguments) == 87
    assert "no usable GPU" in json.loads(events.read_text().splitlines()[-1])["reason"]


@pytest.fixture
def track(monkeypatch):
    """A GpuTrack on a fake session; launches and blocks take the time of their job."""
    seen = SimpleNamespace(started=[], failed=[], blocks=[])

    def contestants(session, job, pointers, stack, notes):
        assert job.baseline is False
        if job.do == "unavailable":
            raise CudaError("CUBLAS_STATUS_NOT_SUPPORTED", "no algorithm")
        return (lambda launch: job), None

    def first_launch_us(gpu, launch):
        if launch.do == "poisons":
            raise CudaError("CUDA_ERROR_ILLEGAL_ADDRESS", "illegal")
        return launch.us

    def build(support, launches, block_us, most=1024):
        us = launches[0].us
        block = MagicMock(repeats=min(most, max(1, round(block_us / us))))
        block.run.return_value = block.us.return_value = us
        seen.blocks.append(block)
        return block

    for name, fake in {
        "DeviceMemory": MagicMock(),
        "fill_sets": lambda *_: ([{}, {}], True),
        "pointers_of": lambda sets: [{"a": 1}, {"a": 2}],
        "contestants": contestants,
        "first_launch_us": first_launch_us,
        "build": build,
    }.items():
        monkeypatch.setattr(tuning_run, name, fake)
    session = MagicMock(kept=None)
    session.support.sm_clock.return_value = 1980.0
    session.clocks.throttle.return_value, session.clocks.figures.return_value = "", []
    session.clocks.count = float

    def open_track(*jobs):
        return tuning_run.GpuTrack(session, jobs, seen.started.append, seen.failed.append), seen

    return open_track


def test_a_short_block_and_a_lap(track):
    gpu, seen = track(job("a", 100.0))
    assert gpu.screen("a", float("inf")) == [100.0, 100.0]
    assert seen.blocks[0].repeats == 5 and seen.blocks[0].close.called  # 500 us
    assert gpu.lap("a") == gpu.lap("a") == 100.0
    assert [block.repeats for block in seen.blocks] == [5, 20]  # 2 ms, built once
    # 2 launches, 3 + 5 + 2 x 5 in the short block, 3 + 20 + 2 x 20 in the laps'.
    assert gpu.about("a")["launches"] == 2 + 18 + 63
    gpu.leave("a")
    assert seen.blocks[1].close.called


def test_one_launch_is_enough_where_it_is_far_too_slow(track):
    gpu, seen = track(job("a", 5000.0), job("b", 100.0), job("c", 1e6))
    assert gpu.screen("a", 1000.0) == [5000.0]
    assert seen.blocks == [] and gpu.about("a")["blocks"] == "one launch"
    # Twenty times too slow, but a launch that short is mostly the way to the GPU.
    assert gpu.screen("b", 5.0) == [100.0, 100.0]
    assert len(seen.blocks) == 1
    # A candidate that would take too long is not measured.
    assert gpu.screen("c", float("inf")) is None
    (outcome,) = seen.failed
    assert outcome.status == "not measured" and "exceeds case_limit_s = 5 s" in outcome.reason


def test_errors_of_a_candidate(track):
    gpu, seen = track(job("a", do="unavailable"), job("b", do="poisons"))
    assert gpu.screen("a", 1.0) is None
    with pytest.raises(tuning_run.Lost):
        gpu.screen("b", 1.0)
    assert [outcome.status for outcome in seen.failed] == ["unsupported", "invalid access"]
    assert seen.started == ["a", "b"]
    gpu.close()


def planned(folder, *names, target=TARGET, verdict=result.CORRECT, status=result.OK):
    """Return jobs of these kernels at 64 and 96, each with its TILE variants."""
    for name in names:
        write_kernel(folder, name, front=FRONT)
    block = {"kernels": list(names), "macros": {"TILE": [16, 32]}, "shapes": [64, 96]}
    data = config(block, kernel_folders=[str(folder)])
    data["studies"]["study"]["tune"] = True
    loaded = project.load(data, "test.yaml")
    compiled = {}
    for name in names:
        entry = {
            "status": result.OK, "reason": "", "code": name, "cubin": "x",
            "resources": {name: {"registers": 32, "static_shared_bytes": 64}},
        }  # fmt: skip
        variants = [key for key, kind in loaded.plan.variants.items() if kind.kernel.name == name]
        compiled |= {key: {"sm_90": entry} for key in variants}
    checks = {case: Result("check", case, status, verdict=verdict) for case in loaded.plan.cases}
    resolved = {case: resolve(unresolved, target) for case, unresolved in loaded.plan.cases.items()}
    waiting = jobs.of_stage("tune", resolved.values(), compiled, "sm_90", loaded.config)
    return stage.plan(waiting, checks)


def test_candidates_of_all_kernels_share_a_group(tmp_path):
    candidates = planned(tmp_path, "one", "two")
    groups = {}
    for case, candidate in candidates.items():
        groups.setdefault(candidate.group, []).append(case)
    assert sorted(map(len, groups.values())) == [4, 4]
    waiting = [job("a", group="x"), job("b", group="y"), job("c", group="x")]
    assert [candidate.case for candidate in stage.by_group(waiting)] == ["a", "c", "b"]
    # A rival does not change a key.
    both = {case: candidate.key for case, candidate in candidates.items()}
    alone = {case: candidate.key for case, candidate in planned(tmp_path, "one").items()}
    assert alone.items() <= both.items()


@pytest.mark.parametrize("verdict", [result.WRONG, result.NOT_CHECKED])
def test_only_correct_cases_race(tmp_path, verdict):
    candidates = planned(tmp_path, "one", verdict=verdict)
    assert {candidate.status for candidate in candidates.values()} == {result.NOT_MEASURED}
    assert all(verdict in candidate.reason for candidate in candidates.values())


def measured(store, candidates, slow=()):
    """Run the stage with a fake measure function, and return the cases that it was given."""
    cases = []

    def measure(waiting, finished):
        cases.extend(candidate.case for candidate in waiting)
        for candidate in waiting:
            notes = {"out": "screening" if candidate.case in slow else ""}
            finished(Result("tune", candidate.case, notes=notes, status=result.OK))
        return []

    again = stage.repeated(candidates.values(), TARGET, store)
    sources = measuring.Sources(TARGET, store, remeasured=again)
    document = measuring.collect(candidates, sources, measure)
    assert all(outcome.status == result.OK for outcome in document["results"])
    return cases


def test_a_newcomer_meets_those_that_reached_the_end(tmp_path, store):
    first = planned(tmp_path / "k", "one")
    slow = {"one-tile32@64x64x64"}
    assert len(measured(store, first, slow)) == 4
    assert measured(store, first) == []
    cases = set(measured(store, planned(tmp_path / "k", "one", "two"), slow))
    assert cases == set(planned(tmp_path / "k", "one", "two")) - slow


def test_recorded_races_are_taken_without_a_gpu(tmp_path, store):
    """They keep their samples and rivals; a new kernel makes none of them stale."""
    first = planned(tmp_path / "k", "one")
    measured(store, first)
    figures = [{"metric": "tune_duration", "value": 7.0, "unit": "us"}]
    more = {"figures": figures, "samples": {"duration_us": [7.0, 7.1]}}
    stored = [store.get(HERE, "tune", candidate.key) for candidate in first.values()]
    recorded = [replace(outcome, **more) for outcome in stored]
    assert all(outcome.recordable for outcome in recorded)
    merge(tmp_path / "nvidia_h200", recorded, {HERE: {"gpu": "NVIDIA H200"}}, {})
    away = {**TARGET, "live": False, "host": "laptop", "reason": "no NVIDIA GPU"}
    both = planned(tmp_path / "k", "one", "two")
    sources = measuring.Sources(away, store, Recorded(tmp_path / "nvidia_h200"))
    document = measuring.collect(both, sources, lambda *_: [], {})
    states = {outcome.case.split("@")[0].split("-")[0]: outcome for outcome in document["results"]}
    assert states["one"].source == "recorded:nvidia_h200"
    assert values(states["one"]) == {"duration": 7.0} and "out" in states["one"].notes
    assert states["two"].status == result.NOT_MEASURED
    assert document["counts"]["recorded"] == 4


def test_without_a_gpu_nothing_races_again(tmp_path, store):
    candidates, away = planned(tmp_path, "one"), {**TARGET, "live": False}
    assert not stage.repeated(candidates.values(), away, store)


def loaded(block, **study):
    data = config({"macros": "defaults", "shapes": [64], **block})
    data["studies"]["study"] |= study
    return project.load(data, "test.yaml")


def test_host_kernels_do_not_race():
    block = {"kernels": ["matmul_cpu", "matmul_naive"]}
    for more, tuned in (({}, ["matmul_naive"]), ({"tune": False}, [])):
        cases = loaded({**block, **more}, tune=True).plan.cases.values()
        assert [case.kernel.name for case in cases if wants("tune", case)] == tuned


def test_a_block_may_keep_or_leave_out_some_kernels():
    everything = loaded({}).plan.kernels
    assert loaded({"providers": ["cublaslt"]}).plan.kernels == ["cublas"]
    remaining = loaded({"without": ["matmul_naive"]}).plan.kernels
    assert remaining == [name for name in everything if name != "matmul_naive"] != everything
