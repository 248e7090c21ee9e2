"""Disturbances of a measurement (heat, other processes, drivers) are noticed, reported and measured again."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from samples import a_job, target
from tilewave.gpu import blocks, buffers, facts, reference, timing
from tilewave.gpu.clocks import Clocks
from tilewave.gpu.device import CudaError
from tilewave.gpu.failure import failure
from tilewave.gpu.reference import Support
from tilewave.kernel import result
from tilewave.pipeline import measuring
from tilewave.pipeline import target as targets
from tilewave.records.store import Store
from tilewave.report import summary, verdict

CAP, HOT = 0x04, 0x40
JOB = a_job(stage="time", key="aa11", shape={"m": 64, "n": 64, "k": 64}, dtypes=dict.fromkeys("abc", "f32"))  # fmt: skip


@pytest.fixture
def timed(monkeypatch):
    """Return a timing with these throttle reasons from NVML, and these shares of other processes, in turn."""

    def call(reasons=(0,), paused=(0.0, 0.0), clocks=(1980.0,)):
        reasons, paused, clocks = list(reasons), list(paused), list(clocks)
        nvml = SimpleNamespace(
            nvmlInit=lambda: None,
            nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
            nvmlDeviceGetCurrentClocksEventReasons=lambda handle: reasons.pop() if reasons else 0,
        )
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        nothing, ten = lambda: None, lambda: 10.0
        block = SimpleNamespace(enqueue=nothing, us=ten, close=nothing, run=ten, repeats=9)
        for name, stand_in in {
            "DeviceMemory": lambda gpu: SimpleNamespace(__enter__=None),
            "fill_sets": lambda *_: ([{}], True),
            "scratch": lambda *_: {},
            "contestants": lambda *_: (lambda pointers: None, None),
            "first_launch_us": lambda *_: 10.0,
            "build": lambda *_: block,
            "empty_us": lambda _: 1.0,
        }.items():
            monkeypatch.setattr(timing, name, stand_in)
        stack = SimpleNamespace(enter_context=lambda buffer: buffer, callback=lambda buffer: None)
        support = SimpleNamespace(gate=lambda: None, paused=lambda lately=False: paused.pop(0))
        support.sm_clock = lambda: clocks.pop(0) if len(clocks) > 1 else clocks[0]
        gpu = SimpleNamespace(sync=lambda: None)
        session = SimpleNamespace(gpu=gpu, support=support, clocks=Clocks("GPU-1"), kept=None)
        return timing._time_on_gpu(session, JOB, stack)

    return call


@pytest.mark.parametrize(
    ("how", "disturbance"),
    [
        ({}, ""),
        ({"reasons": [CAP]}, ""),  # the load causes it
        ({"paused": [0.1, 0.1]}, ""),  # a display
        ({"reasons": [0, HOT, 0]}, "the GPU was slowed down: thermal (hardware)"),
        ({"paused": [0, 0.48]}, "another process used this GPU, 48% of the time"),
    ],
)
def test_a_time_is_marked(timed, how, disturbance):
    outcome = timed(**how)
    assert outcome.status == result.OK and outcome.figures[0]["value"] == 10.0
    assert outcome.reason == (disturbance and f"disturbed: {disturbance}")
    assert outcome.transient == bool(disturbance) == (not outcome.recordable)


def test_the_watch_at_the_end_of_a_case_serves_the_next_case(monkeypatch):
    seen, support = iter([0.0, 0.5, 0.1, 0.2]), Support.__new__(Support)
    support._paused, support._watched_at = 0.0, -math.inf
    answer = SimpleNamespace(pointer=0, download=lambda dtype: np.array([1e6 * next(seen), 1e6]))
    monkeypatch.setattr(Support, "_answer", answer)
    monkeypatch.setattr(Support, "_launch", lambda *_: None)
    clock = iter([10.0, 10.5, 10.6, 10.7, 10.8, 10.9])
    monkeypatch.setattr(reference.time, "monotonic", lambda: next(clock))
    shares = [support.paused(lately=lately) for lately in (True, True, False, True, True)]
    assert shares == [0.0, 0.0, 0.5, 0.1, 0.2], "where somebody else was, they are looked for again"


def test_the_error_of_a_ratio_forgets_a_clock_that_both_share():
    clock = np.repeat(1 + 0.1 * np.random.default_rng(1).random(20), 2)
    samples = {"duration_us": list(10 * clock)}
    assert timing._error(samples) > timing.METHOD.enough_error
    assert timing._error(samples | {"baseline_us": list(9 * clock)}) < 1e-12


def test_launches_of_which_two_rounds_take_a_second_take_two(timed, monkeypatch):
    assert timed().notes["rounds"] == JOB.timing.rounds == 5
    clock = iter(0.6 * index for index in range(100))
    monkeypatch.setattr(timing.time, "monotonic", lambda: next(clock))
    assert timed().notes["rounds"] == 2
    short, long = timing.cost_s(JOB, 10.0), timing.cost_s(JOB, 300e3)
    assert short == pytest.approx(50e-6 + 11 * 2e-3)
    assert long == pytest.approx((3 + 2 * 2) * 0.3)


def test_rounds_are_those_behind_the_last_move_of_the_clock(timed, monkeypatch):
    """The clock rises from 1,440 MHz to 1,905 in steps, as on an H200 after another load."""

    def clock_of(outcome):
        return outcome.by_metric["sm_clock"]

    outcome = timed()
    assert clock_of(outcome) == 1980.0 and outcome.notes["clock"] == result.COUNTED_CLOCK
    monkeypatch.setattr(timing, "first_launch_us", lambda *_: 100.0)
    ticks = iter(0.01 * index for index in range(1000))
    monkeypatch.setattr(timing.time, "monotonic", lambda: next(ticks))
    outcome = timed(clocks=[1440.0, 1600.0, 1785.0, 1905.0])
    assert clock_of(outcome) == 1905.0 and outcome.notes["rounds"] == 5
    assert len(outcome.samples["duration_us"]) == 10
    # A load that starts at the highest clock runs until the power limit would appear.
    outcome = timed(clocks=[1980.0] * 4 + [1755.0])
    assert clock_of(outcome) == 1755.0 and outcome.notes["rounds"] == 5
    steps_of_the_limit = [1500.0, 1515.0, 1530.0, 1515.0, 1500.0, 1515.0]
    assert timed(clocks=steps_of_the_limit).notes["rounds"] in (5, 6)


def test_a_launch_as_long_as_a_block_is_a_block_and_not_timed_again(monkeypatch):
    monkeypatch.setattr(blocks, "Block", lambda support, launches, repeats: repeats)
    assert blocks.build(None, [lambda: pytest.fail("launched")], 2000.0, 2000.0) == 1


def test_a_marked_time_is_shown_and_measured_again(timed, tmp_path):
    spoilt, right = timed(reasons=[HOT]), timed()
    store, failed = Store(tmp_path / "s"), Store(tmp_path / "a")
    sources = measuring.Sources(target(), store, failed_attempts=failed)
    planned = {JOB.case: JOB}

    def measure(timed_result):
        return lambda waiting, finished: [timed_result]

    document = measuring.collect(planned, sources, measure(spoilt))
    assert "slowed down" in measuring.log_lines("time", document)
    (shown,) = measuring.collect(planned, sources)["results"]  # as the tables do
    assert shown.reason == spoilt.reason and shown.figures == spoilt.figures
    assert sources.find(JOB) is None

    row = shown.only("case", "stage", "status", "reason")
    cases = pd.DataFrame([{"case": JOB.case, "kernel": "a", "verdict": result.CORRECT}])
    records = pd.DataFrame([row | {"source": "events", "metric": "", "value": 1.0}])
    (group,) = summary.troubles(cases, summary.problems(cases, records))
    assert (group.word, group.cases) == ("disturbed", [JOB.case])
    for strict, problems in ((True, 0), ("release", 1)):
        project = SimpleNamespace(config=SimpleNamespace(strict=strict))
        assert len(verdict.of(project, cases, records).problems) == problems

    (again,) = measuring.collect(planned, sources, measure(right))["results"]
    assert again.reason == "" and sources.find(JOB) is not None


@pytest.mark.parametrize(("elsewhere", "message"), [(0, False), (100 << 30, True)])
def test_memory_that_other_processes_hold_is_no_fault_of_the_case(monkeypatch, elsewhere, message):
    driver = pytest.importorskip("cuda.bindings.driver")
    refused = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    monkeypatch.setattr(driver, "cuMemAlloc", lambda size: (refused,))
    monkeypatch.setattr(driver, "cuGetErrorString", lambda _: (driver.CUresult(0), b"no memory"))
    gpu = SimpleNamespace(free_bytes=lambda: 1 << 30, memory_bytes=(2 << 30) + elsewhere)
    with pytest.raises(CudaError) as error:
        buffers.DeviceMemory(gpu).new("a", 4 << 30)
    outcome, usable = failure(JOB, error.value)
    assert outcome.status == result.NOT_MEASURED and usable
    assert ("other processes hold about" in outcome.reason) == message == outcome.transient
    outcome, usable = failure(JOB, CudaError("CUDA_ERROR_ECC_UNCORRECTABLE"))
    assert outcome.status == result.NOT_MEASURED and outcome.transient and not usable


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"cuDriverGetVersion": (0, 12080)}, "the driver supports CUDA 12.8, NVRTC is 13.0"),
        ({"cuInit": ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",)}, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ({"cuInit": None}, "Failed to dlopen libcuda.so.1"),
    ],
)
def test_a_driver_that_is_none_is_a_machine_without_a_gpu(monkeypatch, tmp_path, broken, message):
    """The reason is one line, and no case fails for it."""
    driver = pytest.importorskip("cuda.bindings.driver")

    def answering(answer):
        if answer is None:
            raise RuntimeError("Failed to dlopen libcuda.so.1")
        first, *rest = answer
        return (first if first == 0 else driver.CUresult[first], *rest)

    for name, answer in {"cuInit": (0,), **broken}.items():
        monkeypatch.setattr(driver, name, lambda *_, answer=answer: answering(answer))
    here = facts.probe_here()
    assert here["gpu"] is None and message in here["gpu_reason"] and "\n" not in here["gpu_reason"]
    config = SimpleNamespace(target="auto", gpu=0)
    target = targets.resolve(config, here, tmp_path / "none", "test.yaml")
    assert not target["live"] and target["reason"] == here["gpu_reason"]
