"""A series of launches as one case: planned, compiled, executed, and read from a profile."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import test_profiler as profiles

from samples import ROOT, a_job, needs_nvrtc
from tilewave import execution
from tilewave.basics import cache
from tilewave.basics.validation import of_document
from tilewave.commands import execute, outcome
from tilewave.execution import case, cost, counters, least
from tilewave.execution.lanes import captured
from tilewave.gpu import check, launch, session
from tilewave.gpu.ncu import profiler, report
from tilewave.gpu.ncu.run import NO_PERMISSION
from tilewave.kernel import result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.job import Job, read_jobs, write_jobs
from tilewave.kernel.launches import LaunchPlan, Step
from tilewave.kernel.result import Result
from tilewave.kernel.variants import variant
from tilewave.pipeline import compiling, resolving, tables
from tilewave.records import keys
from tilewave.records.counters import catalogue
from tilewave.records.environment import DRIVER_VERSION, find_ncu
from tilewave.records.recorded import Recorded, merge, merge_accesses
from tilewave.records.store import Store
from tilewave.report import kernel_code
from tilewave.theory import bounds
from tilewave.theory.data_sheets import SHORT

SERIES = ROOT / "tests" / "series"


def planned(name: str, folder: Path, *arguments: str) -> tuple[Job, Any, Any]:
    options = execute.options_of([str(SERIES / f"{name}.cu"), *arguments])
    planned_case, job, entry = execute.planned(options, folder)
    assert isinstance(job, Job), job
    return job, planned_case, entry


def variant_of(path: Path) -> Any:
    return variant(load_kernel(path), {}, path, "macros")


def changed(tmp_path: Path, old: str, new: str, name: str = "split_k") -> Path:
    text = (SERIES / f"{name}.cu").read_text()
    assert old in text
    path = tmp_path / f"{name}.cu"
    path.write_text(text.replace(old, new))
    return path


def test_each_launch_is_planned_with_its_arguments() -> None:
    plan = variant_of(SERIES / "split_k.cu").plan({"m": 33, "n": 20, "k": 50}, {})
    assert plan.series == (
        Step("partial", ("a", "b", "parts", "m", "n", "k"), (2, 3, 3), (16, 16, 1), 0, None),
        Step("reduced", ("parts", "c", 660, "alpha", "beta"), (6, 1, 1), (128, 1, 1), 0, None),
    )
    assert (plan.grid, plan.block, plan.working_blocks) == ((2, 3, 3), (16, 16, 1), 18)
    assert [(step.grid, step.series) for step in plan.steps] == [((2, 3, 3), ()), ((6, 1, 1), ())]
    assert [buffer.name for buffer in plan.scratch] == ["parts"]
    assert of_document(LaunchPlan, json.loads(json.dumps(plan, default=vars))) == plan


def test_the_entry_that_is_named_leads() -> None:
    kernel = load_kernel(SERIES / "softmax_two.cu")
    assert kernel.entries == ("statistics", "quotients")
    assert (kernel.entry, kernel.leading) == ("quotients", 1)
    plan = variant_of(SERIES / "softmax_two.cu").plan({"rows": 5, "columns": 300}, {})
    assert (plan.grid, plan.block) == ((3, 5, 1), (128, 1, 1))


def test_a_single_launch_of_a_list(tmp_path: Path) -> None:
    """A message names it if it exceeds the device; a list of one launch is a plain launch."""
    path = changed(tmp_path, "block: [128]", "block: [2048]")
    plan = variant_of(path).plan({"m": 16, "n": 16, "k": 8}, {})
    assert plan.exceeded_limit({}) == "reduced: block x = 2048 exceeds 1024"
    text = (SERIES / "split_k.cu").read_text()
    path = changed(tmp_path, text[text.index("  - entry: reduced") : text.index("---*/")], "")
    assert variant_of(path).plan({"m": 16, "n": 16, "k": 8}, {}).series == ()


def in_a_row(*steps: Step, **more: Any) -> Job:
    lead = steps[0]
    plan = LaunchPlan(lead.grid, lead.block, lead.shared_bytes, None, 1, series=steps)
    return a_job(entry=lead.entry, arguments=lead.arguments, launch=plan, **more)


ONE = Step("one", ("a", "c"), (4, 2, 1), (32, 1, 1), 0, None)
TWO = Step("two", ("c",), (1, 1, 1), (64, 1, 1), 512, None)


def test_a_job_of_a_series_is_its_launches(tmp_path: Path) -> None:
    job = in_a_row(ONE, TWO)
    steps = [(step.entry, step.arguments, step.launch.shared_bytes) for step in job.steps]
    assert steps == [("one", ("a", "c"), 0), ("two", ("c",), 512)]
    assert job.leading == 0 and replace(job, entry="two").leading == 1
    assert a_job().steps == (a_job(),) and a_job().leading == 0
    write_jobs(tmp_path / "jobs", [job])
    assert read_jobs(tmp_path / "jobs") == [job]


def test_a_key_knows_every_launch() -> None:
    steps = [(ONE, TWO), (ONE, replace(TWO, grid=(2, 1, 1))), (ONE, replace(TWO, arguments=("a",))),
             (ONE, ONE, TWO)]  # fmt: skip
    distinct = {keys.key("c", in_a_row(*launches)) for launches in steps}
    plain = replace(in_a_row(ONE, TWO), launch=replace(in_a_row(ONE).launch, series=()))
    assert len(distinct | {keys.key("c", plain)}) == len(steps) + 1


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("split_k", ("--shape", "33x20x50")),
        ("split_k", ("--shape", "33x20x50", "--macro", "SPLITS=1")),
        ("softmax_two", ("--shape", "5x300")),
        ("reduction_passes", ("--shape", "70001")),
    ],
)
def test_a_series_is_executed_right(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    job, _, _ = planned(name, tmp_path, *options)
    done = case.run(job, execution.engine())
    assert (done.result.status, done.result.verdict) == ("ok", "correct"), done.result
    assert [launch.job.entry for launch in done.ran] == [launch.entry for launch in job.steps]
    # Counters are sums over the launches, geometry is that of the leading launch.
    each, totals = [launch.values() for launch in done.ran], done.values
    counts = ("smsp__inst_executed.sum", "launch__grid_size", "smsp__thread_inst_executed.sum")
    for metric in counts:
        assert totals[metric] == sum(values[metric] for values in each)
    assert totals["launch__grid_dim_x"] == job.launch.grid[0]
    assert totals["launch__block_size"] == each[job.leading]["launch__block_size"]
    # Rows have their function and each instruction once, and their counts add up to the total.
    rows = done.rows()
    places = Counter((row["function"], row["address"]) for row in rows)
    assert set(places.values()) == {1}
    assert {function for function, _ in places} == {step.entry for step in job.steps}
    assert sum(row["executed"] for row in rows) == totals["smsp__inst_executed.sum"]
    assert {row["function"] for row in done.result.instructions} == {entry for entry, _ in places}


@needs_nvrtc
def test_two_instances_of_a_template_are_two_kernels(tmp_path: Path) -> None:
    job, planned_case, entry = planned("reduction_passes", tmp_path, "--shape", "3000")
    first, second, last = (step.entry for step in job.steps)
    assert first == second != last and job.leading == 0
    assert set(entry["symbols"]) == {"sums<BLOCK, false>", "sums<BLOCK, true>"}
    assert set(entry["symbols"]) <= set(entry["resources"])
    done = case.run(job, execution.engine())
    document = outcome.document("sm_90", planned_case, job, entry, done)
    assert [launch["grid"] for launch in document["launches"]] == [[6, 1, 1], [1, 1, 1], [1, 1, 1]]
    assert "  sums<BLOCK, true>: sm_90, grid 1 x 1 x 1, block 128" in outcome.text(document)
    # The busiest SM of each launch has one block: a sixth of the work for 6 blocks.
    each = [sum(row["executed"] for row in launch.rows(every=True)) for launch in done.ran]
    least_time = least.of_execution(done, job, SHORT["h200"])
    assert least_time is not None
    assert least_time["pipes"][bounds.ISSUE] == pytest.approx((each[0] / 6 + each[1] + each[2]) / 4)


@needs_nvrtc
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # The second launch writes past C, and the finding names it.
        ("if (at >= count) return;", "", "reduced, line"),
        ("sum += parts[split", "for (;;) sum += parts[split", "reduced, line"),
        ('"m * n", alpha, beta]', '"m * n", alpha]', "reduced: the kernel takes 5 arguments"),
        ("- entry: reduced", "- entry: missing", "entry missing"),
    ],
)
def test_an_error_of_a_later_launch_is_reported(old, new, said, tmp_path) -> None:
    options = [str(changed(tmp_path, old, new)), "--shape", "33x20x50", "--limit", "2"]
    document = execute.execute(execute.options_of(options))
    assert document["status"] in {result.NOT_MEASURED, *result.FAILURES}
    assert (document["status"] == result.FAILED_TO_COMPILE) == ("missing" in new)
    assert said in document["reason"], document["reason"]


@needs_nvrtc
def test_launches_share_a_budget() -> None:
    dtypes = {"x": "f32", "y": "f32"}
    job = in_a_row(ONE, TWO, operation="vector_add", shape={"n": 64}, dtypes=dtypes)
    alone = [cost.budget(step) for step in job.steps]
    plain = cost.budget(replace(job, launch=replace(job.launch, series=())))
    assert plain == alone[0] < cost.budget(job) < sum(alone)


def test_a_counter_that_a_launch_lacks_is_absent() -> None:
    each = [{"smsp__inst_executed.sum": 2.0, "launch__block_size": 32.0, "x": 1.0},
            {"smsp__inst_executed.sum": 3.0, "launch__block_size": 64.0}]  # fmt: skip
    assert counters.together(each, 1) == {**each[1], "smsp__inst_executed.sum": 5.0}
    assert catalogue.combined("launch__registers_per_thread", [9, 40], leading=0) == 9


@needs_nvrtc
@pytest.mark.parametrize("name", ["split_k", "reduction_passes"])
def test_a_page_shows_every_kernel_of_a_series(name: str, tmp_path: Path) -> None:
    shape = {"split_k": "33x20x50", "reduction_passes": "3000"}[name]
    job, planned_case, entry = planned(name, tmp_path, "--shape", shape)
    kernel, chosen = load_kernel(SERIES / f"{name}.cu"), planned_case.variant
    executed = replace(case.run(job, execution.engine()).result, environment="e")
    compilations = compiling.Compilations(Store(cache.folder("kernels")), None, tmp_path)
    rows = tables.instructions_table(
        [executed], None, lambda _, function: compilations.origins(chosen, entry, function)
    )
    symbols = entry["symbols"]
    for symbol in symbols.values():
        of_kernel = rows[rows["function"] == symbol]
        places = compilations.origins(chosen, entry, symbol)
        lines = [places[at].line for at in of_kernel["address"]]
        assert lines == of_kernel["line"].tolist(), symbol
    resolved = resolving.resolve(planned_case, {"device": {}, "arch": 90})
    cases = tables.cases_table([resolved], {chosen.id: {"sm_90": entry}}, "sm_90", {})
    assert resolved.launch is not None
    assert cases["scratch_bytes"][0] == sum(buffer.nbytes for buffer in resolved.launch.scratch) > 0
    document = {chosen.id: {"sm_90": {**entry, "shown": True}}}
    shown = kernel_code.listings(kernel, rows, cases["case"][0], rows.iloc[:0], document)
    assert shown is not None
    lines = shown["sass"]  # names of functions, instructions, lengths of gaps
    marks = [line for line in lines if isinstance(line, str)]
    assert marks == list(kernel.entries) == list(symbols)
    listed = sum(line[2].get("executed", 0) for line in lines if isinstance(line, tuple))
    assert listed == sum(row["executed"] for row in executed.instructions)
    views = kernel_code.variants(kernel, document, cases, {})
    for view, entry_name in zip(views.to_dict("records"), kernel.entries, strict=True):
        assert view["variant"] == f"{name}: {entry_name}"
        assert view["registers"] == entry["resources"][entry_name]["registers"]
    assert views["shared"][0] == {"split_k": 1024, "reduction_passes": 512}[name]


@needs_nvrtc
def test_drawn_accesses_are_placed_by_function(tmp_path: Path) -> None:
    job, _, entry = planned("reduction_passes", tmp_path, "--shape", "3000")
    accesses = captured.of_launches(case.launch_once(replace(job, watch=True)))
    assert {row["function"] for row in accesses} == {step.entry for step in job.steps}
    kept = tmp_path / "recorded"
    merge(kept, [], {}, {})
    plain = {name: value for name, value in accesses[0].items() if name != "function"}
    without_function = [{"case": "a@1", "key": "x", **plain}]
    placed = [{"case": "b@1", "key": "y", **row} for row in accesses]
    merge_accesses(kept, without_function + placed)
    assert Recorded(kept).accesses["y"] == json.loads(json.dumps(accesses))
    assert "function" not in Recorded(kept).accesses["x"][0]
    about = {"kernel": job.kernel, "variant": job.variant, "instruction": None}
    kernel = load_kernel(SERIES / "reduction_passes.cu")
    shown = {job.variant: {"sm_90": {**entry, "shown": True}}}
    by_case = {"b@1": {**about, "accesses": accesses}}
    drawn = kernel_code.lanes(kernel, by_case, shown, pd.DataFrame())
    lines = {f"reduction_passes.cu:{line}" for line in (25, 28, 30)}
    assert drawn and {place.split()[0] for _, place, _, _ in drawn} <= lines


def profiled(*launches: tuple[str, int]) -> list[profiles.FakeAction]:
    grids = {"one": ONE.grid, "two": TWO.grid}
    actions = []
    for name, count in launches:
        places = (0x1000 * count, 0x1000 * count + 16)
        executed = profiles.FakeMetric(count, instances=dict.fromkeys(places, count))
        figures = dict(zip(ASKED, (10 * count, count, 10.0 * count, executed), strict=True))
        sass = dict(zip(places, ("LDG.E R2, [R4] ;", "STG.E [R4], R2 ;"), strict=True))
        actions.append(profiles.FakeAction(name, figures, grid=grids[name], sass=sass))
    return actions


HITS = "lts__t_sector_hit_rate.pct"
ASKED = ["smsp__inst_executed.sum", "launch__block_size", HITS, "inst_executed"]


def counted(job: Job, actions: list[profiles.FakeAction]) -> Result:
    return report.result_of(job, actions, ASKED)


def test_a_profile_of_a_series_is_summed() -> None:
    job = in_a_row(ONE, TWO, ONE, stage="counters", source="kernels/tiled.cu")
    summed = counted(job, profiled(("one", 3), ("two", 5), ("one", 2)))
    assert summed.status == "ok", summed
    values = summed.by_metric
    assert values["smsp__inst_executed.sum"] == 100
    assert values["launch__block_size"] == 3  # of the leading launch, no sum
    assert summed.notes["kernels"] == ["one", "two", "one"]
    # Percentages of launches do not combine.
    assert HITS not in values and "l2_hit_rate" not in values
    assert counted(in_a_row(ONE, stage="counters"), profiled(("one", 3))).by_metric[HITS] == 30
    columns = ("function", "address", "opcode", "executed")
    rows = [tuple(row[column] for column in columns) for row in summed.instructions]
    code = ((0, "LDG.E", 5), (16, "STG.E", 5))
    assert rows == [(entry, *instruction) for entry in ("one", "two") for instruction in code]


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        ("one", "1 launch, the job has 2"),
        ("two one", "the kernel two where one was launched"),
        ("one two two", "3 launches, the job has 2"),
    ],
)
def test_half_a_series_is_no_result(launches: str, said: str) -> None:
    actions = profiled(*((name, 1) for name in launches.split()))
    summed = counted(in_a_row(ONE, TWO, stage="counters"), actions)
    assert summed.status == result.NOT_MEASURED and said in summed.reason


def test_launches_find_their_case() -> None:
    jobs = [in_a_row(ONE, TWO, case="x"), in_a_row(ONE, case="y"), in_a_row(TWO, ONE, case="z")]
    actions = profiled(("one", 1), ("two", 1), ("one", 1), ("two", 1), ("one", 1))
    for action, place in zip(actions, "xxyzz"):
        action.case = place
    assigned = report.assign(actions, jobs)
    assert [len(assigned[index]) for index in range(3)] == [2, 1, 2]


def test_a_series_is_enqueued_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch has its arguments and geometry; a function's limit is the largest of its launches."""
    calls: list[Any] = []
    module = type("Module", (), {"function": lambda self, entry: entry, "image": b"",
                                 "close": lambda self: calls.append("closed")})()  # fmt: skip
    for user in (launch, session):
        monkeypatch.setattr(user, "Module", lambda image: module)
    monkeypatch.setattr(launch.Path, "read_bytes", lambda self: b"")
    monkeypatch.setattr(
        launch.elf, "read",
        lambda image, entry: SimpleNamespace(parameter_sizes=(8,) * {"one": 2, "two": 1}[entry]),
    )  # fmt: skip
    monkeypatch.setattr(launch, "configuration", lambda gpu, grid, *more: (grid, *more))
    monkeypatch.setattr(launch, "handle", lambda entry: entry)
    monkeypatch.setattr(launch, "allow_shared", lambda entry, most: calls.append((entry, most)))
    monkeypatch.setattr(
        launch, "enqueue", lambda config, entry, _: calls.append((entry, config[0], config[2]))
    )
    job = in_a_row(ONE, TWO, replace(TWO, shared_bytes=64, grid=(3, 1, 1)), cubin="x")
    kernel = launch.NvrtcKernel(None, job)  # type: ignore[arg-type]
    assert calls == [("one", 0), ("two", 512)]
    kernel.prepare({"a": 1, "c": 2})()
    assert calls[2:] == [("one", (4, 2, 1), 0), ("two", (1, 1, 1), 512), ("two", (3, 1, 1), 64)]
    opened = session.Session(None)  # type: ignore[arg-type]
    assert opened.module(job) is opened.module(replace(job, shape={"m": 1}))


def test_samples_of_a_series_are_of_all_launches() -> None:
    job = in_a_row(*[replace(ONE, entry="tiled")] * 2, stage=result.SAMPLE)
    twice = [profiles.SampledAction(profiles.samples(), profiles.RULES) for _ in job.steps]
    sampled = report.result_of(job, twice, [])
    assert sampled.by_metric["samples"] == 24
    first = {"address": 16, "samples": 6, "stall_wait": 6, "function": "tiled"}
    assert sampled.instructions[0] == first
    twice[1] = profiles.SampledAction(profiles.instruction_counters())
    sampled = report.result_of(job, twice, [])
    assert sampled.status == result.NOT_MEASURED and "no stall samples" in sampled.reason


def test_tensor_cores_are_looked_for_in_every_launch() -> None:
    listing = "\n.text.one:\n/*0000*/ FADD R1, R1, R1 ;\n.text.two:\n/*0000*/ HMMA.16816.F32 R4 ;\n"
    for entries, used in ((("one", "two"), True), (("one",), False), (("one", "three"), None)):
        assert check.sass.on_tensor_cores(listing, *entries) is used


def measured(stage: str, job: Job, folder: Path) -> Result:
    """Run one job in a worker process, because this process must not initialise CUDA."""
    jobs, events = folder / f"{stage}.json", folder / f"{stage}.jsonl"
    events.unlink(missing_ok=True)  # a worker appends to an existing file
    write_jobs(jobs, [replace(job, stage=stage)])
    command = [sys.executable, "-m", "tilewave.gpu.worker", stage, jobs, "--events", events]
    paths = filter(None, [str(ROOT / "workflow"), os.environ.get("PYTHONPATH")])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([*map(str, command), "--cache", str(folder)], check=True, env=environ)
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    (finished,) = [event["result"] for event in lines if event["event"] == "finished"]
    return Result.of_document(finished)


@needs_nvrtc
@pytest.mark.skipif(not DRIVER_VERSION.exists(), reason="no NVIDIA driver")
@pytest.mark.parametrize(
    ("name", "shape"),
    [("split_k", "512x384x640"), ("softmax_two", "512x1000"), ("reduction_passes", "1000003")],
)
def test_a_series_on_a_gpu(name: str, shape: str, tmp_path: Path) -> None:
    """It is checked, timed as one case, and its counters are those of the execution."""
    job, _, _ = planned(name, tmp_path, "--shape", shape, "--limit", "60")
    checked = measured("check", job, tmp_path)
    assert (checked.status, checked.verdict) == ("ok", "correct"), checked.reason
    whole, first = measured("time", job, tmp_path), measured("time", job.steps[0], tmp_path)
    assert whole.status == first.status == "ok", (whole.reason, first.reason)
    assert whole.by_metric["duration"] > first.by_metric["duration"] > 0
    if find_ncu() is None:
        pytest.skip("no Nsight Compute: checked and timed")
    collected = {
        "counters": catalogue.merged(["memory", "limits"]),
        result.SAMPLE: (catalogue.SAMPLED, catalogue.SAMPLED_SECTIONS),
    }
    jobs = [
        replace(job, stage=stage, key=stage, metrics=tuple(metrics), sections=tuple(sections))
        for stage, (metrics, sections) in collected.items()
    ]
    counted_, sampled = profiler.profile(
        jobs, cache=tmp_path, report_path=tmp_path / "a.ncu-rep", log_path=tmp_path / "log"
    )
    if NO_PERMISSION in counted_.reason:
        pytest.skip("no permission to read counters: checked and timed")
    assert counted_.status == sampled.status == "ok", (counted_, sampled.reason)
    done = case.run(job, execution.engine())
    values = counted_.by_metric
    for metric in ("smsp__inst_executed.sum", "smsp__thread_inst_executed.sum",
                   "launch__grid_size", "launch__grid_dim_x", "launch__block_size"):  # fmt: skip
        assert values[metric] == done.values[metric], metric
    assert len(counted_.notes["kernels"]) == len(job.steps)
    executed = {(row["function"], row["address"]): row["executed"] for row in done.rows()}
    for row in counted_.instructions:
        assert row["executed"] == executed[row["function"], row["address"]], row
    assert {row["function"] for row in counted_.instructions} == {step.entry for step in job.steps}
    assert {row["function"] for row in sampled.instructions} <= {step.entry for step in job.steps}
