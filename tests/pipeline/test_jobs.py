"""Planning: what cannot be measured is a status with its reason before anything runs."""

import pickle
from collections import Counter
from dataclasses import replace

import pytest

from samples import FRONT, a_job, compiled, config, needs_nvrtc, planned, write_kernel
from tilewave import pipeline as stages
from tilewave.basics.errors import UserError
from tilewave.kernel import result
from tilewave.kernel.job import Probe, ProbeBuffer, read_jobs, write_jobs
from tilewave.kernel.launches import LaunchPlan, MapPlan, Scratch
from tilewave.pipeline import jobs, project, rules, sampling
from tilewave.pipeline import target as targets
from tilewave.pipeline.pipeline import ALL
from tilewave.records import keys
from tilewave.records.counters import catalogue
from tilewave.records.recorded import merge

AWAY = {"device": {}, "arch": 90}
HERE = {"device": {"sms": 132, "shared_per_block_optin": 232448, "arch": 90}, "arch": 90}


def load(folder, *blocks, **top):
    """A project of the kernels in a folder, each block with its default macros at 64."""
    blocks = [{"macros": "defaults", "shapes": [64], **one} for one in blocks]
    return project.load(config(*blocks, kernel_folders=[str(folder)], **top), "test.yaml")


def plan(folder, target, arch="sm_90", shapes=(64,), front=FRONT, **block):
    """The check of one case on a target, its kernel compiled for ``arch``."""
    write_kernel(folder, front=front)
    made = load(folder, {"kernels": ["sample"], "shapes": [] if block else list(shapes), **block})
    (made,) = planned("check", made, compiled("sample", arch=arch), target).values()
    return made


def test_a_job_is_read_as_it_was_written(tmp_path):
    maps = (MapPlan("map_a", "a", "f16", (72, 40), (64, 32), 128, 256),)
    scratch = (Scratch("arrived", 24, True),)
    launch = LaunchPlan((4, 2, 1), (32, 1, 1), 64, (16, 16, 1), 7, scratch, (2, 1, 1), maps)
    looked_at = ProbeBuffer("f32", "32 * sms", "lane", {"metric": "latency", "unit": "cycle"})
    probe = Probe({"found": looked_at}, {"WIDTH": 4}, {"index": "lane"}, {"found": 8}, {"n": 2})
    given = [
        plan(tmp_path, HERE),
        a_job(launch=launch, arguments=("a", "map_a"), shape={"n": 8}, work={"flop": 2.0}),
        a_job(operation="probe", probe=probe, device={"sms": 132}, versions=(1, 2)),
    ]
    write_jobs(tmp_path / "jobs.json", given)
    assert read_jobs(tmp_path / "jobs.json") == given
    assert pickle.loads(pickle.dumps(given)) == given


PROBE = """\
title: A probe that is told the device
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
    one, other = plan(tmp_path, HERE, shapes=["64 * sms"]), plan(tmp_path, HERE, shapes=[8448])
    assert (one.launch.grid, one.shape["m"]) == ((528, 528, 1), 8448)
    assert one.case != other.case and one.key == other.key


@pytest.mark.parametrize(
    ("target", "more", "reason"),
    [
        (AWAY, {"shapes": ["64 * sms"]}, "without a GPU"),
        (HERE, {"shapes": ["sms / 64"]}, "on this device"),
        (AWAY, {"front": FRONT.replace('"ceil(m / TILE)"', "sms")}, "it asks for sms"),
        (HERE, {"arch": "sm_80"}, "leaves out sm_90"),
    ],
)
def test_what_cannot_be_planned_is_not_measured(tmp_path, target, more, reason):
    made = plan(tmp_path, target, **more)
    assert made.status == result.NOT_MEASURED
    assert reason in made.reason


@needs_nvrtc
def test_each_thing_is_made_once_in_a_run(tmp_path, monkeypatch):
    """A case is resolved by the plan alone, and each stage makes one job of it."""
    monkeypatch.chdir(tmp_path)
    write_kernel(tmp_path / "kernels")
    made = load(tmp_path / "kernels", {"macros": "one_at_a_time", "shapes": [64, 65]}, fresh=True)
    resolved, jobs_made = Counter(), Counter()

    def resolve(case, target, original=stages.plan.resolve):
        resolved[case.id] += 1
        return original(case, target)

    def of_case(stage, case, *given, original=jobs.of_case):
        jobs_made[stage, case.id] += 1
        return original(stage, case, *given)

    monkeypatch.setattr(stages.plan, "resolve", resolve)
    monkeypatch.setattr(jobs, "of_case", of_case)
    begun = rules.begin(made)
    path = tmp_path / "plan.json"
    stages.plan.write(path, begun.project.plan, {}, {})
    data = made.config.model_dump(mode="json", by_alias=True)
    run = replace(begun, project=project.planned(data, "test.yaml", path))
    assert run.project.plan == begun.project.plan
    rules.write("compiled.json", rules.compile_part(run, ALL, 1))
    pipeline = run.pipeline(["compiled.json"])
    found = rules.measure_part(run, pipeline)
    found[result.EXECUTE] = rules.execute_part(run, pipeline)
    tables = rules.tables(run, pipeline, found).all()
    assert set(tables["cases"]["verdict"]) == {"correct"}
    assert set(resolved) == set(made.plan.cases) and set(resolved.values()) == {1}
    assert {n for (stage, _), n in jobs_made.items() if stage in ("time", "counters")} <= {1}


def test_what_is_compared_stays_in_one_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        write_kernel(tmp_path / "kernels", name)
    block = {"kernels": ["one", "two"], "macros": "each_dtype", "shapes": [64, 96, 128]}
    run = rules.begin(load(tmp_path / "kernels", block))
    parts = [run.pipeline(part=f"{n}-of-2").cases for n in (1, 2)]
    assert sorted(case for part in parts for case in part) == sorted(run.project.plan.cases)
    assert [len(part) for part in parts] == [6, 6]
    groups = [{(case.variant.dtype, case.shape.id) for case in part.values()} for part in parts]
    assert not groups[0] & groups[1]


def test_one_case_of_each_own_kernel_is_sampled(tmp_path):
    """The largest of the first variant whose instructions are counted."""
    write_kernel(tmp_path)
    asked = {"memory": [64, 32], "basic": [128]}
    made = load(tmp_path, *({"shapes": sizes, "counters": one} for one, sizes in asked.items()))
    resolved = stages.plan.resolved(made.plan, HERE)
    (chosen,) = sampling.chosen(resolved.cases.values())
    assert chosen.id.endswith("@64x64x64")
    known = compiled(chosen.variant.id)
    (job,) = jobs.of_stage(result.SAMPLE, [chosen], known, "sm_90", made.config).values()
    assert job.metrics == catalogue.SAMPLED
    assert job.sections == catalogue.SAMPLED_SECTIONS


def test_a_damaged_recording_is_told_by_the_plan(tmp_path, monkeypatch, capsys):
    merge(tmp_path / "gpu", [], {}, {})
    (tmp_path / "gpu" / "compiled.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    made = project.load(config(), "test.yaml")
    rules.begin(replace(made, recorded_root=tmp_path))
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "Warning: " in line)
    assert "gpu/compiled.json is damaged: its checksum" in told


def test_another_card_than_the_targets_is_refused(monkeypatch):
    cards = {name: {"id": name, "gpu": "NVIDIA H200", "uuid": f"GPU-{name}"} for name in "ab"}
    target = {"host": "a", "environments": cards, "machine": "m", "node": "n1"}
    found = {**target, **targets._machine()}
    monkeypatch.setattr(targets, "probe", lambda gpu: cards["b"])
    targets.of_another_node(found, 0, "time")  # on the same node nobody is asked
    with pytest.raises(UserError, match=r"time: node is 'NVIDIA H200 GPU-b on .*GPU-a of n1"):
        targets.of_another_node(target, 0, "time")
    monkeypatch.setattr(targets, "probe", lambda gpu: cards["a"])
    targets.of_another_node(target, 0, "time")
