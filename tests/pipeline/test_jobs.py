"""Jobs: a case that cannot be measured has a status and a reason before anything runs."""

import contextlib
import pickle
from collections import Counter
from dataclasses import replace

import pytest

from samples import FRONT, HERE, a_job, compiled, config, needs_nvrtc, planned, write_kernel
from tilewave import pipeline as stages
from tilewave.basics.errors import UserError
from tilewave.kernel import result
from tilewave.kernel.job import Probe, ProbeBuffer, read_jobs, write_jobs
from tilewave.kernel.launches import LaunchPlan, MapPlan, Scratch, Typed
from tilewave.pipeline import cases, jobs, project, rules
from tilewave.pipeline import target as targets
from tilewave.pipeline.pipeline import ALL
from tilewave.records import keys
from tilewave.records.counters import catalogue
from tilewave.records.recorded import merge

AWAY = {"device": {}, "arch": 90}


def load(folder, *blocks, **top):
    """Return a project of the kernels in a folder, each block with its default macros at 64."""
    blocks = [{"macros": "defaults", "shapes": [64], **block} for block in blocks]
    return project.load(config(*blocks, kernel_folders=[str(folder)], **top), "test.yaml")


def plan(folder, target, arch="sm_90", shapes=(64,), front=FRONT, **block):
    """Return the check of one case on a target, its kernel compiled for ``arch``."""
    write_kernel(folder, front=front)
    loaded = load(folder, {"kernels": ["sample"], "shapes": [] if block else list(shapes), **block})
    (entry,) = planned("check", loaded, compiled("sample", arch=arch), target).values()
    return entry


def test_a_job_is_read_as_it_was_written(tmp_path):
    maps = (MapPlan("map_a", "a", "f16", (72, 40), (64, 32), 128, 256),)
    scratch, struct = (Scratch("arrived", 24, True),), ("map_a", (), Typed("i64", "k"))
    launch = LaunchPlan((4, 2, 1), (32, 1, 1), 64, (16, 16, 1), 7, scratch, (2, 1, 1), maps)
    looked_at = ProbeBuffer("f32", "32 * sms", "lane", {"metric": "latency", "unit": "cycle"})
    probe = Probe({"found": looked_at}, {"WIDTH": 4}, {"index": "lane"}, {"found": 8}, {"n": 2})
    written = [
        plan(tmp_path, HERE),
        a_job(launch=launch, arguments=("a", struct), shape={"n": 8}, work={"flop": 2.0}),
        a_job(operation="probe", probe=probe, device={"sms": 132}, versions=(1, 2)),
    ]
    write_jobs(tmp_path / "jobs.json", written)
    assert read_jobs(tmp_path / "jobs.json") == written
    assert pickle.loads(pickle.dumps(written)) == written


PROBE = """\
title: A probe with facts of the device among its arguments
operation: probe
block: [32]
grid: [1]
buffers: {out: {dtype: u32, size: 32}}
cases: {one: {}}
arguments: [out, "2 * sms", l2_bytes]
"""


def test_a_probes_arguments_may_ask_for_the_device(tmp_path):
    here = {"device": {"sms": 132, "l2_bytes": 60, "shared_per_sm": 8}, "arch": 90}
    job = plan(tmp_path, here, front=PROBE, operation="probe")
    assert job.arguments == ("out", 264, 60)
    assert job.device == {"sms": 132, "l2_bytes": 60}


def test_a_probes_key_holds_its_case_and_its_buffers():
    buffer = {"dtype": "i32", "size": 32, "expect": "lane", "report": None}
    case = {"macros": {"WIDTH": 4}, "values": {"index": "lane"}, "sizes": {}, "scalars": {"n": 2}}
    probe = Probe({"found": ProbeBuffer(**buffer)}, **case)
    parts = {
        "stage": "counters", "method_version": 1, "code": "c", "provider": "nvrtc",
        "operation": "probe", "entry": "a", "grid": [1, 1, 1], "block": [1, 1, 1],
        "shared_bytes": 0, "cluster": None, "arguments": ["found"], "shape": {}, "dtypes": {},
        "layouts": {}, "probe": {"buffers": {"found": buffer}, "case": case}, "seed": 1,
        "device": {"sms": 132}, "instruction": "LDS", "metrics": ["x.sum"], "sections": [],
        "clock_control": "none", "cache_control": "all",
    }  # fmt: skip
    job = a_job(
        stage="counters", operation="probe", probe=probe, arguments=("found",),
        device={"sms": 132}, instruction="LDS", metrics=("x.sum",),
    )  # fmt: skip
    assert keys.key("c", job) == keys.digest(parts)


def test_a_symbolic_shape_and_its_number_have_one_key(tmp_path):
    shapes = ["64 * sms"], [8448]
    symbolic, numeric = (plan(tmp_path, HERE, shapes=sizes) for sizes in shapes)
    assert (symbolic.launch.grid, symbolic.shape["m"]) == ((528, 528, 1), 8448)
    assert symbolic.case != numeric.case and symbolic.key == numeric.key


@pytest.mark.parametrize(
    ("target", "more", "reason"),
    [
        (AWAY, {"shapes": ["64 * sms"]}, "without a GPU"),
        (HERE, {"shapes": ["sms / 64"]}, "on this device"),
        (AWAY, {"front": FRONT.replace('"ceil(m / TILE)"', "sms")}, "it asks for sms"),
        (HERE, {"arch": "sm_80"}, "lacks sm_90"),
    ],
)
def test_what_cannot_be_planned_is_not_measured(tmp_path, target, more, reason):
    outcome = plan(tmp_path, target, **more)
    assert outcome.status == result.NOT_MEASURED
    assert reason in outcome.reason


@needs_nvrtc
def test_cases_and_jobs_are_made_once_in_a_run(alone, monkeypatch):
    """Only the plan resolves a case, and each stage makes one job of it."""
    write_kernel(alone / "kernels")
    loaded = load(alone / "kernels", {"macros": "one_at_a_time", "shapes": [64, 65]}, fresh=True)
    resolved, job_counts = Counter(), Counter()

    def resolve(case, target, original=stages.plan.resolve):
        resolved[case.id] += 1
        return original(case, target)

    def of_case(stage, case, *arguments, original=jobs.of_case):
        job_counts[stage, case.id] += 1
        return original(stage, case, *arguments)

    monkeypatch.setattr(stages.plan, "resolve", resolve)
    monkeypatch.setattr(jobs, "of_case", of_case)
    begun = rules.begin(loaded)
    path = alone / "plan.json"
    stages.plan.write(path, begun.project.plan, {}, {})
    data = loaded.config.model_dump(mode="json", by_alias=True)
    run = replace(begun, project=project.planned(data, "test.yaml", path))
    assert run.project.plan == begun.project.plan
    rules.write("compiled.json", rules.compile_part(run, ALL, 1))
    pipeline = run.pipeline(["compiled.json"])
    results = rules.measure_part(run, pipeline)
    results[result.EXECUTE] = rules.execute_part(run, pipeline)
    tables = rules.tables(run, pipeline, results).all()
    assert set(tables["cases"]["verdict"]) == {"correct"}
    assert set(resolved) == set(loaded.plan.cases) and set(resolved.values()) == {1}
    assert {n for (stage, _), n in job_counts.items() if stage in ("time", "counters")} <= {1}


def test_what_is_compared_stays_in_one_part(alone):
    for name in ("one", "two"):
        write_kernel(alone / "kernels", name)
    block = {"kernels": ["one", "two"], "macros": "each_dtype", "shapes": [64, 96, 128]}
    run = rules.begin(load(alone / "kernels", block))
    parts = [run.pipeline(part=f"{n}-of-2").cases for n in (1, 2)]
    assert sorted(case for part in parts for case in part) == sorted(run.project.plan.cases)
    assert [len(part) for part in parts] == [6, 6]
    groups = [{(case.variant.dtype, case.shape.id) for case in part.values()} for part in parts]
    assert not groups[0] & groups[1]


@needs_nvrtc
def test_the_second_part_counts_before_it_times(alone, monkeypatch):
    """Two GPUs then seldom run ncu at a time, which slows both down."""
    write_kernel(alone / "kernels")
    run = rules.begin(load(alone / "kernels", {"shapes": [64, 96], "counters": "basic"}))
    rules.write("compiled.json", rules.compile_part(run, ALL, 1))
    orders: list[list[str]] = []
    monkeypatch.setattr(rules, "_gpu", lambda run, pipeline: contextlib.nullcontext(run))
    monkeypatch.setattr(
        rules, "_stage", lambda run, pipeline, stage, *more: orders[-1].append(stage) or {}
    )
    for part in ("1-of-2", "2-of-2"):
        orders.append([])
        pipeline = run.pipeline(["compiled.json"], part)
        pipeline.target["live"] = True
        rules.measure_part(run, pipeline, stages=("check", "time", "counters"))
    assert orders == [["check", "time", "counters"], ["check", "counters", "time", "counters"]]


def test_a_single_case_of_each_kernel_is_sampled(tmp_path):
    """It is the largest case of the first variant with counted instructions."""
    write_kernel(tmp_path)
    shapes = {"memory": [64, 32], "basic": [128]}
    blocks = [{"shapes": sizes, "counters": metrics} for metrics, sizes in shapes.items()]
    loaded = load(tmp_path, *blocks)
    resolved = stages.plan.resolved(loaded.plan, HERE)
    (chosen,) = cases.sampled(resolved.cases.values())
    assert chosen.id.endswith("@64x64x64")
    entries = compiled(chosen.variant.id)
    (job,) = jobs.of_stage(result.SAMPLE, [chosen], entries, "sm_90", loaded.config).values()
    assert job.metrics == catalogue.SAMPLED
    assert job.sections == catalogue.SAMPLED_SECTIONS


def test_the_plan_warns_of_a_damaged_recording(alone, capsys):
    merge(alone / "gpu", [], {}, {})
    (alone / "gpu" / "compiled.json").write_text("{}")
    rules.begin(replace(project.load(config(), "test.yaml"), recorded_root=alone))
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "Warning: " in line)
    assert "gpu/compiled.json is damaged: its checksum" in warning


def test_another_card_than_the_targets_is_refused(monkeypatch):
    cards = {name: {"id": name, "gpu": "NVIDIA H200", "uuid": f"GPU-{name}"} for name in "ab"}
    target = {"host": "a", "environments": cards, "machine": "m", "node": "n1"}
    same_node = {**target, **targets._machine()}
    monkeypatch.setattr(targets, "probe", lambda gpu: cards["b"])
    targets.of_another_node(same_node, 0, "time")  # on the same node the driver is not asked
    with pytest.raises(UserError, match=r"time: node .* has NVIDIA H200 GPU-b, .*GPU-a.*n1"):
        targets.of_another_node(target, 0, "time")
    monkeypatch.setattr(targets, "probe", lambda gpu: cards["a"])
    targets.of_another_node(target, 0, "time")
