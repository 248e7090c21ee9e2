"""Two measurements of the same case agree, or one is marked, and cuBLAS has a single value."""

import json
from pathlib import Path
from unittest.mock import MagicMock

import pandas as pd
import pytest
import yaml

from samples import shipped_plan, table
from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.pipeline import rules, tables
from tilewave.pipeline.project import ROOT
from tilewave.records import agreement
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store

CASES = table("records")

SHIPPED = folders(ROOT / "resources" / "recorded")
DOUBTFUL = yaml.safe_load((ROOT / "tests" / "data" / "doubtful.yaml").read_text(encoding="utf-8"))
"""Recording -> its cases whose time another measurement contradicts, as `agreement` says."""


def figures(duration: float, clock: float = 1980.0, **more: float) -> dict[str, float]:
    return {"duration": duration, "sm_clock": clock, **more}


@pytest.mark.parametrize("duration, clock, agrees", CASES["alone over paired"])
def test_alone_over_paired(duration, clock, agrees):
    pairs = [figures(1.0, baseline_duration=us) for us in (99.0, 100.0, 180.0)]
    difference = agreement.alone_over_paired("cublas@64", figures(duration, clock), pairs)
    assert (difference is None) == agrees
    assert agreement.alone_over_paired("cublas@64", figures(duration, clock), []) is None


@pytest.mark.parametrize("duration, clock, eliminated, agrees", CASES["tuned over time"])
def test_tuned_over_time(duration, clock, eliminated, agrees):
    tuned = {"tune_duration": duration, "tune_eliminated": eliminated}
    assert (agreement.tuned_over_time("a", figures(100.0), tuned, clock) is None) == agrees


@pytest.mark.parametrize(
    "cycles, profiled_us, us, capped, agrees", CASES["counted cycles over time and clock"]
)
def test_counted_cycles_over_time_and_clock(cycles, profiled_us, us, capped, agrees):
    counted = {agreement.CYCLES: cycles, "gpu__time_duration.sum": 1e3 * profiled_us}
    assert (agreement.counted_over_timed("a", figures(us), counted, capped) is None) == agrees


def test_the_doubtful_times_of_the_shipped_recordings_are_listed():
    products = {}
    for case in shipped_plan().cases.values():
        variant = case.variant
        if case.shape is not None:
            shape = case.shape.resolve({"sms": 132})
            facts = [variant.kernel.front.operation, variant.dtypes, variant.layouts, shape]
            facts.append(variant.strides(shape))
            products[case.id] = json.dumps(facts, sort_keys=True)
    doubtful, stages = {}, ("time", result.TUNE, "counters")
    for folder in SHIPPED:
        by_stage: dict[str, list] = {}
        for outcome in Recorded(folder).results():
            if outcome.stage in stages and outcome.case in products:
                by_stage.setdefault(outcome.stage, []).append(outcome)
        doubtful[folder.name] = sorted(agreement.disagreements(by_stage, products))
    assert doubtful == {name: sorted(cases) for name, cases in DOUBTFUL.items()}


def record(case: str, metric: str, value: float, **more: object) -> dict[str, object]:
    facts = {"m": 64, "n": 64, "k": 64, "operation": "matmul", "dtype": "f32", "environment": "gpu"}
    state = {"stage": "time", "status": result.OK, "reason": "", "text": ""}
    return {"case": case, "metric": metric, "value": value, **facts, **state, **more}


def timed(case: str, duration: float, flops: float = 1e6, **more: float) -> list[dict[str, object]]:
    metrics = {"duration": duration, "duration_spread": 1.0, "tflops": flops / duration, **more}
    return [record(case, metric, value) for metric, value in metrics.items()]


def disagreement(case: str, other: str) -> agreement.Disagreement:
    return agreement.Disagreement(case, 120.0, other, 100.0, 1.2, 1.2)


def values(frame: pd.DataFrame, metric: str) -> dict[str, float]:
    rows = frame[frame["metric"] == metric]
    return dict(zip(rows["case"], rows["value"], strict=True))


def test_cublas_has_the_median_of_its_pairings():
    """The ratio of speeds at the same clock is that of their shares."""
    rows, pairs = timed("cublas", 124.0, rank0_duration=124.0), [("fast", 90.0, 99.0)]
    pairs += [("slow", 200.0, 100.0), ("hot", 130.0, 110.0), ("elsewhere", 50.0, 100.0)]
    for case, duration, baseline in pairs:
        rows += timed(case, duration, baseline_duration=baseline)
    products = dict.fromkeys(("cublas", "fast", "slow", "hot"), "row") | {"elsewhere": "col"}
    table = tables.with_cublas(pd.DataFrame(rows), products, {})
    assert values(table, "duration")["cublas"] == 100.0
    assert values(table, "duration_spread")["cublas"] == pytest.approx(104.5 - 99.5 + 0.5)
    assert values(table, "tflops")["cublas"] == 1e4
    assert values(table, tables.OWN_DURATION) == {"cublas": 124.0}
    even = values(table, tables.EVEN_TFLOPS)
    assert even["cublas"] == 1e4
    for case, share in (("fast", 1.1), ("slow", 0.5), ("hot", 110 / 130), ("elsewhere", 2.0)):
        assert even[case] == pytest.approx(share * even["cublas"])
    assert values(table, "duration")["fast"] == 90.0, "what was measured stays"


def test_times_without_cublas_stay_as_they_are():
    rows = pd.DataFrame(timed("host", 120.0))
    assert tables.with_cublas(rows, {}, {}).equals(rows)


def test_a_doubtful_time_serves_as_no_reference_and_is_marked():
    rows = [row for case in ("raced", "alone") for row in timed(case, 120.0, rank0_duration=120.0)]
    others = dict.fromkeys(("raced", "own"), agreement.IN_ITS_TUNING_RUN) | {"alone": "under ncu"}
    doubtful = {case: disagreement(case, other) for case, other in others.items()}
    table = tables.with_cublas(pd.DataFrame([*rows, *timed("own", 120.0)]), {}, doubtful)
    duration = values(table, "duration")
    assert duration["raced"] == 100.0 and pd.isna(duration["alone"]) and duration["own"] == 120.0
    assert values(table, tables.OWN_DURATION) == {"raced": 120.0, "alone": 120.0}
    reasons = dict(zip(table["case"], table["reason"], strict=True))
    marked = {case: reason.startswith(result.DOUBTFUL) for case, reason in reasons.items()}
    assert marked == {"raced": False, "alone": True, "own": True} and reasons["raced"] == ""


class Live:
    """A pipeline with a contradicted time, until it is timed again; `stays`: also after that."""

    def __init__(self, tmp_path: Path, stays: bool) -> None:
        self.target = {"environment": "gpu", "live": True, "gpus": {"gpu": 0}}
        self.store, self.failed_attempts = Store(tmp_path / "store"), Store(tmp_path / "attempts")
        self.stays, self.timed_again = stays, False

    def doubtful(self, results):
        if self.timed_again and not self.stays:
            return {}
        return {outcome.case: disagreement(outcome.case, "paired") for outcome in results["time"]}

    def measure(self, stage, doing, checks, again):
        assert stage == "time" and list(again) == ["cublas@64"]
        self.timed_again = True
        return {"results": [], "counts": {}}


@pytest.mark.parametrize("stays", [False, True])
def test_a_doubtful_time_of_this_gpu_is_timed_again(tmp_path, monkeypatch, capsys, stays):
    """A time that stays doubtful is reported, and the next run measures it."""
    monkeypatch.setattr(rules, "_measure", lambda *_: None)
    monkeypatch.setattr(rules, "watched", lambda doing, gpu: doing)
    live = Live(tmp_path, stays)
    measured = Result("time", "cublas@64", result.OK, key="k1", environment="gpu")
    recorded = Result("time", "elsewhere", result.OK, key="k2", environment="other")
    stages = {"check": {}, "time": {outcome.case: outcome for outcome in (measured, recorded)}}
    rules._time_doubtful_again(MagicMock(), live, "time", stages)
    assert live.timed_again
    log = capsys.readouterr().err
    assert "1 times disagree" in log and ("doubtful: 120 us timed" in log) == stays
    kept = live.store.get("gpu", "time", "k1")
    assert (kept is not None and kept.transient) == stays
