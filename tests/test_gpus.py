"""Several GPUs of one machine: who measures what, and what happens where one is busy or lost."""

import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import types

import pandas as pd
import pytest
import yaml

import gpu_machine
from gpu_machine import UUIDS
from samples import FRONT, ROOT, a_job, config, write_kernel
from tilewave import environment, project
from tilewave import target as targets
from tilewave.cases import wants
from tilewave.config import parse
from tilewave.errors import UserError
from tilewave.gpu import cards, device
from tilewave.processes import supervisor
from tilewave.records.store import Store
from tilewave.report import environments, figures
from tilewave.stages import dealing, run, work
from tilewave.stages.measuring import Sources
from tilewave.stages.pipeline import Pipeline


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Two GPUs, their locks in a folder of their own; what was said."""
    monkeypatch.setenv("TILEWAVE_FAKE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(environment, "_asked", lambda *how: gpu_machine.environments())
    monkeypatch.setattr(device, "SHARED", tmp_path)
    monkeypatch.setattr(cards, "condition", lambda uuid: "")
    monkeypatch.setattr(cards, "WAIT_S", 0.05)
    monkeypatch.setattr(cards, "POLL_S", 0.01)
    return tmp_path


def probed(gpus):
    return cards.probe(parse(config(gpus=gpus), "test.yaml"), "test.yaml")


def test_all_or_a_list(machine, monkeypatch):
    found = probed("all")
    assert [one["uuid"] for one in found["taking_part"]] == list(UUIDS)
    assert all(one["cards"] == list(UUIDS) for one in found["taking_part"])
    assert len({one["id"] for one in found["taking_part"]}) == 2
    assert [one["uuid"] for one in probed(["GPU-b", 0, "1"])["taking_part"]] == [UUIDS[1], UUIDS[0]]
    (alone,) = probed([1])["taking_part"]
    assert "cards" not in alone
    for wrong in (2, "GPU-c", "GPU-"):
        with pytest.raises(UserError, match=r"test.yaml: gpus: .*0: GPU-aaaa"):
            probed([wrong])
    assert probed(None).keys() == gpu_machine.environments()[0].keys()


@pytest.mark.parametrize(
    ("facts", "why"), [({"gpu": "NVIDIA H200 MIG 1g.18gb"}, "a slice"), ({"sms": 114}, "not")]
)
def test_a_slice_or_another_kind_is_left_out(machine, monkeypatch, facts, why):
    seen = gpu_machine.environments()
    monkeypatch.setattr(environment, "_asked", lambda *how: [seen[0], seen[1] | facts])
    found = probed("all")
    assert [one["uuid"] for one in found["taking_part"]] == [UUIDS[0]]
    assert why in found["left_out"][UUIDS[1]]


def a_project(folder, **more):
    for name in "abcd":
        write_kernel(folder / "kernels", name, front=FRONT)
    cases = [{"kernels": list("abcd"), "macros": "one_at_a_time", "shapes": [32, 64]}]
    data = config(*cases, kernel_folders=[str(folder / "kernels")], **more)
    data["studies"]["study"] |= {"time": True, "tune": True}
    return data, project.load(data, "test.yaml")


def test_a_kernel_is_one_cards_in_every_stage(tmp_path):
    _, made = a_project(tmp_path)
    place, races = dealing.dealt(made.plan, 2)
    assert (place, races) == dealing.dealt(made.plan, 2)
    assert sorted(place.values()) == [0, 0, 1, 1] and races in (0, 1)
    waiting = {"compile": list("abcd"), "check": list("abcd"), "time": list("abcd"), "tune": ["a"]}
    batches = work._batches(made, waiting, cards=2)
    assert batches["tune"] == {str(races): list("abcd")}
    assert batches["compile"] == {"0": list("abcd")}
    dealt = work.Work("", True, batches, UUIDS)
    for stage in ("check", "time"):
        for batch, kernels in batches[stage].items():
            assert {UUIDS[place[name]] for name in kernels} == {dealt.card(batch)}
    asked = {name: slot(types.SimpleNamespace(batch="1")) for name, slot in dealt.asked.items()}
    assert asked == {"gpu0": 0, "gpu1": 1}
    assert dealt.card("2") == "" and dealt.card("5") == ""
    host = types.SimpleNamespace(batch="2")
    assert [slot(host) for slot in dealt.asked.values()] == [1, 1]
    assert [slot(host) for slot in dealt.asked_of_cards.values()] == [0, 0]
    assert work.Work("", True, batches).asked == {} and work.Work("", True, batches).card("1") == ""


@pytest.fixture(scope="module")
def shipped():
    """The plan of the shipped config."""
    asked = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    return project.load(asked, "config/config.yaml").plan


def test_cards_get_as_much(shipped):
    """Seconds of the shipped study, as its stages took on an H200; what numpy judges takes long."""
    place, races = dealing.dealt(shipped, 2)
    loads, sampled = [0.0, 0.0], set()
    for one in shipped.requests.values():
        name, stages = one.case.variant.kernel.name, ("check", "time", "counters")
        if place[name] < 2:
            loads[place[name]] += dealing.cost_s(one, stages)
            loads[races] += dealing.cost_s(one, ("tune",))
        if wants("sample", one):
            sampled.add(name)
    for name in sampled:
        loads[place[name]] += dealing.SAMPLED_S
    assert max(loads) < 1.01 * min(loads)
    checks = {
        name: dealing.cost_s(shipped.requests[name], ("check",))
        for name in ("copy@67108864", "hgemm_wgmma@8192x8192x8192")
    }
    assert list(checks.values()) == pytest.approx([1.35, 0.0063], rel=0.02)


def measured(folder, jobs, order=UUIDS, stage="check"):
    """Results by case, what was said, and the workers' lines."""
    said, kept = [], []

    def run(waiting, keep):
        supervisor.run_jobs(
            stage, waiting, module="gpu_machine", on_result=keep, log_path=folder / "log"
        )

    known = {uuid: f"e{n}" for n, uuid in enumerate(order)}
    made = cards.measured(known, jobs, kept.append, run, said.append)
    assert sorted(one["case"] for one in kept) == [job.case for job in jobs]
    lines = (folder / "workers").read_text().splitlines() if (folder / "workers").exists() else []
    return {one["case"]: one for one in made}, said, [json.loads(line) for line in lines]


def some_jobs(number=4, **more):
    return [a_job(case=f"k@{i}", key=f"{i:02x}", **more) for i in range(number)]


def test_what_a_lost_gpu_leaves_goes_to_the_next(machine):
    (machine / f"lose-{UUIDS[0]}").touch()
    found, said, _ = measured(machine, some_jobs())
    assert [one["status"] for one in found.values()] == ["ok"] * 4
    assert [one["environment"] for one in found.values()] == ["e0", "e1", "e1", "e1"]
    assert [one["notes"]["on"] for one in found.values()] == [UUIDS[0], *[UUIDS[1]] * 3]
    assert said == [f"{UUIDS[0]} is lost: no usable GPU: CUDA_ERROR_NO_DEVICE; 3 cases are left"]
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_race_is_run_again_as_a_whole(machine):
    (machine / f"lose-{UUIDS[0]}").touch()
    jobs = [a_job(case=f"k@{i}", key=f"{i:02x}", group=str(i // 2)) for i in range(4)]
    found, _, _ = measured(machine, jobs)
    assert {one["environment"] for one in found.values()} == {"e1"}


def test_with_no_gpu_left_the_next_run_tries_again(machine):
    for uuid in UUIDS:
        (machine / f"lose-{uuid}").touch()
    found, _, _ = measured(machine, some_jobs())
    lost = [one for one in found.values() if one["status"] == "not measured"]
    assert len(lost) == 2
    assert all(uuid in lost[0]["reason"] for uuid in UUIDS)
    assert lost[0]["notes"]["interrupted"] and lost[0]["environment"] == ""


def test_a_case_that_fails_by_itself_is_no_lost_gpu(machine, monkeypatch):
    (machine / f"lose-{UUIDS[0]}").touch()
    whole = gpu_machine.environments()
    monkeypatch.setattr(environment, "_asked", lambda *how: whole)
    found, said, _ = measured(machine, some_jobs(2))
    assert [one["status"] for one in found.values()] == ["ok", "invalid access"]
    assert {one["environment"] for one in found.values()} == {"e0"} and not said


def test_a_busy_gpu_is_waited_for_then_left_out(machine, monkeypatch):
    busy = itertools.chain(["is busy: 80 %"] * 2, itertools.repeat(""))
    monkeypatch.setattr(cards, "condition", lambda uuid: next(busy))
    found, said, _ = measured(machine, some_jobs(1))
    assert found["k@0"]["environment"] == "e0" and "waiting" in said[0]
    monkeypatch.setattr(cards, "condition", lambda uuid: "is busy" if uuid == UUIDS[0] else "")
    found, said, _ = measured(machine, some_jobs(1))
    assert found["k@0"]["environment"] == "e1" and "is busy, for 0.05 s" in said[-1]


@pytest.mark.parametrize(
    ("used", "memory", "reasons", "told"),
    [
        (0, 0.1, 0x01, ""),
        (80, 0.1, 0, "is busy: 80 % of the time (1 processes)"),
        (0, 0.9, 0, "is busy: 90% of its memory is taken (1 processes)"),
        (0, 0.1, 0x40, "is slowed down: thermal (hardware)"),
    ],
)
def test_the_condition_of_a_gpu(monkeypatch, used, memory, reasons, told):
    class NVMLError(Exception):
        pass

    nvml = types.SimpleNamespace(
        NVMLError=NVMLError,
        NVMLError_GpuIsLost=type("Lost", (NVMLError,), {}),
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetMemoryInfo=lambda one: types.SimpleNamespace(used=memory, total=1.0),
        nvmlDeviceGetUtilizationRates=lambda one: types.SimpleNamespace(gpu=used),
        nvmlDeviceGetCurrentClocksEventReasons=lambda one: reasons,
        nvmlDeviceGetComputeRunningProcesses=lambda one: [1],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert cards.condition(UUIDS[0]) == told

    def lost(uuid):
        raise nvml.NVMLError_GpuIsLost

    nvml.nvmlDeviceGetHandleByUUID = lost
    assert cards.condition(UUIDS[0]) == cards.LOST


def aim(machine):
    made = parse(config(gpus="all"), "test.yaml")
    return targets.resolve(made, cards.probe(made, ""), machine / "none", "test.yaml")


def test_a_result_of_any_card_is_known(machine):
    target, store, job = aim(machine), Store(machine / "store"), some_jobs(1)[0]
    second = target["cards"][1]["id"]
    made = {**cards.result(job, "check"), "environment": second, "verdict": "correct"}
    store.put(made)
    assert Sources(target, store).find(job)["environment"] == second
    assert Sources({**target, "cards": target["cards"][:1]}, store).find(job) is None


def test_cards_of_one_run_are_one_place_for_ratios(machine):
    known = aim(machine)["environments"]
    one, two = known
    frame = pd.DataFrame({"environment": [one, two, "else"]})
    assert list(figures._one_place(frame, known)["environment"]) == [one, one, "else"]


def test_the_page_says_by_how_much_they_differ(machine):
    target = aim(machine)
    rows = [
        {"uuid": one["uuid"], "environment": one["id"], "case": "k@64", "status": "ok", "reason": "",
         "figures": {"paired_share": 90.0 + place, "tflops": 100.0}}
        for place, one in enumerate(target["cards"])
    ]  # fmt: skip
    view = environments.cards_view(target, rows)
    assert view.told.startswith("Measured on 2 NVIDIA H200s")
    assert "% of cuBLAS by 1.1 %, TFLOP/s by 0 %" in view.told
    assert [row[0] for row in view.rows] == list(UUIDS)
    assert environments.cards_view({**target, "cards": target["cards"][:1]}, rows) is None


def test_stages_on_two_gpus_of_which_one_is_lost(machine, monkeypatch):
    """What a lost card leaves has the other one's environment, and the comparison says which is gone."""
    monkeypatch.chdir(machine)
    how = {**supervisor.run_jobs.__kwdefaults__, "module": "gpu_machine"}
    monkeypatch.setattr(supervisor.run_jobs, "__kwdefaults__", how)
    _, made = a_project(machine, gpus="all")
    target = aim(machine)
    (machine / "results").mkdir()
    run.write("results/target.json", target)
    job = run.Job(made, machine / "job.log")
    # The job is told its tasks; one that begins again has none left.
    planned = Pipeline(made, target, ["a"])
    ids = [task.id for task in planned.tasks]
    assert ids and [task.id for task in planned.tasks_of(ids)] == ids
    elsewhere = [f"{one.partition(' ')[0]} sm_80" for one in ids]
    assert planned.tasks_of(elsewhere) == planned.tasks
    assert (
        work.Work("", True, {"compile": {"0": ["a"]}}, (), {"a": ids, "b": []}).compiled_in(
            types.SimpleNamespace(batch="0")
        )
        == ids
    )
    with monkeypatch.context() as patch:
        # Instead of a process that compiles what a GPU's checks ask for, which takes seconds and which no one here does.
        patch.setattr(sys, "executable", "true")
        run.compile_kernels(job, ["a"], 2, ids)
    assert Pipeline(made, target, ["a"]).tasks_of(ids) == []
    (machine / f"lose-{UUIDS[1]}").touch()
    run.measure(job, "check", ["a"], card=UUIDS[1])
    run.measure(job, "time", ["a"], card=UUIDS[1])
    one, other = (card["id"] for card in target["cards"])
    known = Pipeline(made, target, ["a"]).results(("check", "time"))
    cases = [made["case"] for made in known["check"]]
    assert len(cases) == 6
    assert [made["environment"] for made in known["check"]].count(one) == 5
    assert {made["environment"] for made in known["time"]} == {one}
    rows = run.compare_cards(job)
    assert [row["status"] for row in rows] == ["ok", "not measured"]
    assert rows[0]["figures"]["paired_share"] == 50.0
    assert UUIDS[1] in rows[1]["reason"] and other == rows[1]["environment"]


def graph(tmp_path, *words, **config):
    """What Snakemake would do, in words, on two GPUs."""
    data, _ = a_project(tmp_path, target="live", **config)
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(data))
    (tmp_path / "sitecustomize.py").write_text("import gpu_machine\ngpu_machine.pretend()\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "tests"), str(ROOT / "workflow")])
    found = {**os.environ, "PYTHONPATH": path, "TILEWAVE_FAKE": str(tmp_path)}
    found.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "-d", str(tmp_path),
               *words, "--configfile", "test.yaml", "--cores", "4", "--resources", "gpu=1"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, env=found, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_graph_has_a_slot_for_each_gpu(tmp_path):
    drawn = graph(tmp_path, "report", "-n", gpus="all")
    for told in ("Check a, c", "Check b, d", "Time a, c", "Time b, d", "Time one case on each GPU"):
        assert told in drawn


@pytest.mark.parametrize("config", [{}, {"gpus": "all"}])
def test_what_is_executed_runs_beside_the_counters(tmp_path, config):
    """It waits until all is timed, of several GPUs on these alone."""
    drawn = graph(tmp_path, "report", "--dag", execute={"when": "always"}, **config)
    rules = dict(re.findall(r'(\d+)\[label = "(\w+)', drawn))
    edges = {(rules[a], rules[b]) for a, b in re.findall(r"(\d+) -> (\d+)", drawn)}
    assert ("time", "execute") in edges


def test_every_second_gpu_counts_before_it_times(shipped):
    """Sessions of Nsight Compute are slower beside another's; cuBLAS is timed before it is counted."""
    each = {"0": ["a"], "1": ["b"], "2": ["c"]}
    stages = {"time": each, "counters": each, "sample": each}
    dealt = work.Work("of", True, stages, UUIDS)
    assert not dealt.counts_first("2")  # the host's
    assert dealt.before_times("0") == [] and dealt.before_counts("sample", "0") == ["of/time-0.txt"]
    assert dealt.before_times("1") == ["of/counters-1.txt", "of/sample-1.txt"]
    assert dealt.before_counts("counters", "1") == []
    assert work.Work("of", True, stages).before_counts("counters", "1") == ["of/time-1.txt"]
    place, _ = dealing.dealt(shipped, 2)
    assert {place["cublas"], place["cublas_batched"]} == {0}
    three = work.Work("of", True, stages | {"time": each | {"3": ["d"]}}, [*UUIDS, "GPU-c"])
    assert list(map(three.counts_first, "0123")) == [False, True, False, False]


def test_a_race_waits_for_no_counters(shipped):
    races = [dealing.dealt(shipped, number)[1] for number in (1, 2, 3, 4)]
    assert not any(map(dealing.counts_first, races))


def test_the_hosts_own_code_is_timed_behind_what_is_executed():
    """It takes all GPUs' slots, so it comes last: what is executed does not wait for it."""
    times = {"0": ["a"], "1": ["b"], "2": ["c"]}
    dealt = work.Work("batches", True, {"time": times, "execute": {"0": ["a"]}}, UUIDS)
    assert [batch for batch in times if dealt.is_hosts(batch)] == ["2"]
    assert dealt.timed_by_cards() == ["batches/time-0.txt", "batches/time-1.txt"]
    alone = work.Work("batches", True, {"time": times})
    assert not any(map(alone.is_hosts, times)) and alone.timed_by_cards() == alone.done("time")


def test_a_run_is_watched(tmp_path):
    """tools/two_gpus.py: who times says so, and does not see the GPU once it is hidden."""
    place = importlib.util.spec_from_file_location("two_gpus", ROOT / "tools" / "two_gpus.py")
    tool = importlib.util.module_from_spec(place)
    place.loader.exec_module(tool)
    (tmp_path / "sitecustomize.py").write_text(tool.WATCHED)
    (tmp_path / "seen.py").write_text("import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    told = {"PYTHONPATH": str(tmp_path), "TWO_GPUS_RUN": str(tmp_path)}

    def seen(stage, uuid=UUIDS[0]):
        run = [sys.executable, "-m", "seen", stage]
        env = {**os.environ, **told, "CUDA_VISIBLE_DEVICES": uuid}
        return subprocess.run(run, env=env, capture_output=True, text=True).stdout.strip()

    mine = tmp_path / f"times-{UUIDS[0]}"
    assert seen("check") == UUIDS[0] and not mine.exists()
    assert seen("time") == UUIDS[0] and mine.read_text().isdigit()
    mine.unlink()
    (tmp_path / "hidden").write_text(UUIDS[0])
    assert seen("time") == "-1" and not mine.exists()
    assert seen("time", UUIDS[1]) == UUIDS[1]
