"""Planning: what cannot be measured is a status with its reason before anything runs."""

import dataclasses
import json
import pickle
from types import SimpleNamespace

import pytest

from samples import FRONT, a_job, compiled, config, needs_nvrtc, write_kernel
from tilewave import project
from tilewave import target as targets
from tilewave.counters import catalogue
from tilewave.errors import UserError
from tilewave.jobs import Probe, ProbeBuffer, read_jobs, write_jobs
from tilewave.launches import LaunchPlan, MapPlan, Scratch
from tilewave.records import keys, model
from tilewave.records.recorded import merge
from tilewave.stages import jobs, resolving, run, sampling, work
from tilewave.stages.pipeline import Pipeline

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
    known, requests = compiled("sample", arch=arch), [*made.plan.requests.values()]
    (planned,) = jobs.plan("check", requests, known, target, made.config)
    return planned


def test_a_job_is_read_as_it_was_written(tmp_path):
    maps = (MapPlan("map_a", "a", "f16", (72, 40), (64, 32), 128, 256),)
    scratch = (Scratch("arrived", 24, True),)
    launch = LaunchPlan((4, 2, 1), (32, 1, 1), 64, (16, 16, 1), 7, scratch, (2, 1, 1), maps)
    looked_at = ProbeBuffer("f32", "32 * sms", "lane", {"metric": "latency", "unit": "cycle"})
    probe = Probe({"found": looked_at}, {"WIDTH": 4}, {"index": "lane"}, {"found": 8}, {"n": 2})
    given = [
        plan(tmp_path, HERE).job,
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
    planned = plan(tmp_path, here, front=PROBE, operation="probe")
    assert planned.job.arguments == ("out", 264, 60)
    assert planned.job.device == {"sms": 132, "l2_bytes": 60}


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
    assert one.result is None
    assert (one.job.launch.grid, one.job.shape["m"]) == ((528, 528, 1), 8448)
    assert one.case.id != other.case.id
    assert one.job.key == other.job.key


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
    made = plan(tmp_path, target, **more).result
    assert made["status"] == model.NOT_MEASURED
    assert reason in made["reason"]


def test_a_case_is_resolved_once(tmp_path, monkeypatch):
    """By whoever comes first, for all that come after it: the Snakefile, each job, the tables."""
    monkeypatch.chdir(tmp_path)
    write_kernel(tmp_path / "kernels")
    made = load(tmp_path / "kernels", {"macros": "one_at_a_time", "shapes": [64, "64 * sms", 65]})
    target = {**HERE, "live": False, "recorded": None, "host": "h", "environment": "h"}
    target |= {"label": "-", "reason": "-", "environments": {}}
    asked, resolve = [], resolving.resolve

    def counted(one, aim):
        asked.append(one.case.id)
        return resolve(one, aim)

    monkeypatch.setattr(resolving, "resolve", counted)
    first = Pipeline(made, target)
    assert first.work()["execute"] == ["sample"]
    again = Pipeline(made, target)
    again.work()
    assert again.results()["check"]
    assert again.resolved == first.resolved
    assert sorted(asked) == sorted(made.plan.requests)
    # Another device, another answer.
    other = {**target, "device": {**target["device"], "sms": 100}}
    assert Pipeline(made, other).resolved != first.resolved


def test_a_newcomer_races_all_that_race(tmp_path, monkeypatch):
    """Batches hold the kernels that have work, but for the race: it is one for all."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two", "three"):
        write_kernel(tmp_path / "kernels", name)
    block = {"kernels": ["one", "two"], "macros": "defaults", "shapes": [64]}
    data = config(block, kernel_folders=[str(tmp_path / "kernels")])
    data["studies"]["study"]["tune"] = True
    data["studies"]["other"] = {**data["studies"]["study"], "tune": False}
    data["studies"]["other"] |= {"cases": [{**block, "kernels": ["three"]}]}
    made = project.load(data, "test.yaml")
    waiting = {"check": ["two", "three"], "time": ["two", "three"], "tune": ["two"]}
    found = work._batches(made, waiting)
    assert found["check"] == {"0": ["two"], "1": ["three"]}
    assert (found["time"], found["tune"]) == ({"0": ["two", "three"]}, {"0": ["one", "two"]})


def test_one_case_of_each_own_kernel_is_sampled(tmp_path):
    """The largest of the first variant whose instructions are counted."""
    write_kernel(tmp_path)
    asked = {"memory": [64, 32], "basic": [128]}
    made = load(tmp_path, *({"shapes": sizes, "counters": one} for one, sizes in asked.items()))
    resolved = [resolving.resolve(one, HERE) for one in made.plan.requests.values()]
    (chosen,) = sampling.chosen(resolved)
    assert chosen.case.id.endswith("@64x64x64")
    known = compiled(chosen.case.variant.id)["variants"]
    (planned,) = jobs.of_stage(model.SAMPLE, [chosen], known, "sm_90", made.config)
    assert planned.job.metrics == catalogue.SAMPLED
    assert planned.job.sections == catalogue.SAMPLED_SECTIONS


def test_a_damaged_recording_is_told_before_anything_runs(tmp_path, monkeypatch, capsys):
    merge(tmp_path / "gpu", [], {}, {})
    (tmp_path / "gpu" / "compiled.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    made = project.load(config(), "test.yaml")
    work.find(dataclasses.replace(made, recorded_root=tmp_path))
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning: ")]
    assert len(told) == 1 and "gpu/compiled.json is damaged: its checksum" in told[0]


def test_of_a_cluster_every_node_gets_a_batch(tmp_path, monkeypatch):
    """What its nodes can measure was seen by the job `target`, and not by the machine that plans."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two", "three"):
        write_kernel(tmp_path / "kernels", name)
    made = load(tmp_path / "kernels", {}, fresh=True)
    alone = work.find(made)
    assert not alone.live and list(alone.batches["compile"]) == ["0"]
    made.results.mkdir(parents=True)
    node = {"id": "g", "gpu": "NVIDIA H200", "compute_capability": "9.0", **HERE["device"]}
    told = {"host": "g", "environments": {"g": node}, "machine": "m", "node": "n1"}
    (made.results / "target.json").write_text(json.dumps(told))
    assert not work.find(made).live
    shared = work.find(made, nodes=2)
    assert shared.live and "execute" not in shared.batches
    assert shared.batches["check"] == {"0": ["one", "two"], "1": ["three"]}
    assert work.find(made, decide=False).batches == shared.batches


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """A fresh project of one kernel, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    write_kernel(tmp_path / "kernels", "one")
    return load(tmp_path / "kernels", {}, fresh=True)


@needs_nvrtc
def test_a_job_that_compiles_is_told_its_tasks(tmp_path, alone):
    """One that begins again has none left."""
    made = alone
    target = targets.resolve(made.config, HERE | {"id": "here"}, tmp_path, "test.yaml")
    planned = Pipeline(made, target)
    ids = [task.id for task in planned.tasks]
    assert ids and [task.id for task in planned.tasks_of(ids)] == ids
    elsewhere = [f"{one.partition(' ')[0]} sm_80" for one in ids]
    assert planned.tasks_of(elsewhere) == planned.tasks
    batch = SimpleNamespace(batch="0")
    told = {"one": ids, "other": []}
    assert work.Work("", True, {"compile": {"0": ["one"]}}, told).compiled_in(batch) == ids
    made.results.mkdir()
    run.write(str(made.results / "target.json"), target)
    run.compile_kernels(run.Job(made, None), ["one"], 1, ids)
    assert Pipeline(made, target).tasks_of(ids) == []


@pytest.mark.parametrize("left", [{}, {"check": ["one"]}])
def test_what_a_run_leaves_is_looked_for_once(monkeypatch, alone, left):
    made = alone
    made.results.mkdir(parents=True)
    assert work.find(made).batches
    done = Pipeline(made, {**HERE, "recorded": None})
    monkeypatch.setattr(Pipeline, "work", lambda self: left)
    work.settle(done)
    monkeypatch.setattr(Pipeline, "work", lambda self: {"check": ["one"]})
    assert bool(work.find(made).batches) == bool(left)
    assert bool(work.find(made, decide=False).batches) == bool(left)


def test_another_card_than_the_targets_is_refused(monkeypatch):
    cards = {name: {"id": name, "gpu": "NVIDIA H200", "uuid": f"GPU-{name}"} for name in "ab"}
    target = {"host": "a", "environments": cards, "machine": "m", "node": "n1"}
    found = {**target, **targets._machine()}
    monkeypatch.setattr(targets, "probe", lambda gpu: cards["b"])
    targets.of_another_node(found, 0, "time")  # on the same node nobody is asked
    with pytest.raises(UserError, match=r"time: node: found 'NVIDIA H200 GPU-b on .*GPU-a of n1"):
        targets.of_another_node(target, 0, "time")
    monkeypatch.setattr(targets, "probe", lambda gpu: cards["a"])
    targets.of_another_node(target, 0, "time")
