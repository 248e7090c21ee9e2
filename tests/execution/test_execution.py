"""A job becomes an execution: arguments, counters by ncu's names, faults as statuses and verdicts."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import fake_machine
from fake_machine import CODE, WARPS, Fault, Machine
from samples import ROOT, a_job
from tilewave.basics.tables import table_beside
from tilewave.compiling import sass
from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.execution import case, cost, counters, results, worker
from tilewave.execution.machine import families
from tilewave.execution.places import Places
from tilewave.kernel import result
from tilewave.kernel.job import Job, Probe, ProbeBuffer, write_jobs
from tilewave.kernel.launches import LaunchPlan
from tilewave.kernel.result import Result
from tilewave.records.counters import catalogue
from tilewave.records.recorded import Recorded
from tilewave.theory import opcodes

WORDS = [text.split()[0] for _, text in CODE]
SOURCE = "// one\n// two\n// three\n"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A product of an invented kernel, with its cubin and listing beside it."""
    source = tmp_path / "fake.cu"
    source.write_text(SOURCE)
    cubin = tmp_path / "fake.sm_90.cubin"
    cubin.write_bytes(b"ELF")
    cubin.with_suffix(".sass").write_text(fake_machine.listing("fake", "fake.cu"))
    return a_job(
        stage="execute", case="fake@33x17x9", kernel="fake", variant="fake", key="k1",
        cubin=str(cubin), source=str(source), entry="fake", arguments=Machine.names,
        shape={"m": 33, "n": 17, "k": 9}, dtypes=dict.fromkeys(("a", "b", "c", "accumulate"), "f32"),
        launch=LaunchPlan((2, 3, 1), (16, 16, 1), 64, None, 6), limit_s=10.0, versions=(1, 1),
    )  # fmt: skip


def ran(job: Job, **machine: Any) -> Result:
    """Return the result of a job on a fake machine, on a laptop."""
    return replace(case.run(job, Machine(**machine)).result, environment="laptop")


def test_no_base_has_two_classes() -> None:
    with pytest.raises(ValueError, match="IMAD is registered twice"):
        families.opcode("IMAD")(lambda form: None)
    entries = chain(*table_beside(opcodes.__file__).values())
    assert len(opcodes.OPCODES) == sum(len(entry["names"].split()) for entry in entries)
    traits = {*chain(*(opcode.traits for opcode in opcodes.OPCODES.values()))}
    assert traits == {*get_args(opcodes.Trait)}
    assert opcodes.class_of("IMAD.WIDE.U32.X") == "integer and logic"
    assert opcodes.class_of("WHAT.EVER") == opcodes.OTHER


def test_every_recorded_opcode_has_a_class() -> None:
    recorded = Recorded(ROOT / "resources" / "recorded" / "nvidia_h200")
    keys = sorted(entry["key"] for entry in recorded.compiled.values() if "key" in entry)[:40]
    listings = [listing[0] for key in keys if (listing := recorded.listing(key))]
    names = {instruction.opcode for listing in listings for instruction in sass.parse(listing)}
    assert names and {word for word in names if opcodes.class_of(word) == opcodes.OTHER} == set()


def test_counters_have_ncus_names_and_sums() -> None:
    totals = counters.values(
        WORDS, fake_machine.counts(), grid=[2, 3, 1], block=[16, 16, 1], shared_bytes=64,
        registers=40, static_shared=4096,
    )  # fmt: skip
    each_warp = {
        "smsp__inst_executed.sum": len(CODE),
        "smsp__thread_inst_executed.sum": 32 * len(CODE),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 4,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 1,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 2,
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum": 15,
        # Asynchronous copies are global loads, too.
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 2,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 24,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 4,
        # An HFMA2 that only loads a constant is counted, and once for its two halves.
        "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum": 32,
        "sm__ops_path_tensor_src_fp16.sum": 4096,
        "sm__ops_path_tensor_op_hmma_src_fp16_sparsity_off.sum": 4096,
    }
    assert {name: totals[name] / WARPS for name in each_warp} == each_warp
    assert "sm__ops_path_tensor_src_fp16_dst_fp32.sum" not in totals
    assert totals["launch__grid_size"] == 6 and totals["launch__block_size"] == 256
    assert totals["launch__shared_mem_per_block_static"] == 4096
    assert set(totals) <= set(catalogue.METRICS)
    # Where the chip counts them so, f16 products have two counters, by sum.
    totals = counters.values(WORDS, fake_machine.counts(), arch=86, grid=[1], block=[128])
    assert totals["sm__ops_path_tensor_src_fp16_dst_fp32.sum"] == 4096 * WARPS
    assert totals["sm__ops_path_tensor_src_fp16_dst_fp16.sum"] == 0


def test_unknown_counts_are_skipped_and_never_zero() -> None:
    names = [*WORDS[:5], "FFMA2", "IGMMA.64x128x32.S8.S8", *WORDS[7:]]
    totals = counters.values(names, fake_machine.counts(), grid=[1], block=[32])
    assert not any("tensor" in name for name in totals)
    assert "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" not in totals
    assert totals["smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"] == 0
    assert "counted_flops" not in {figure["metric"] for figure in counters.figures(totals, [])}


def test_predicated_off_instructions_do_no_operations() -> None:
    numbers = fake_machine.counts()
    numbers["threads_on"] = np.zeros_like(numbers["threads_on"])
    names = [*WORDS[:6], "HGMMA.64x8x16", *WORDS[7:]]
    totals = counters.values(names, numbers, grid=[1], block=[32])
    assert totals["smsp__thread_inst_executed.sum"] > 0
    assert totals["sm__ops_path_tensor_src_fp16.sum"] == 0


def test_rows_are_those_of_a_profile(job: Job) -> None:
    rows = {row["opcode"]: row for row in ran(job).instructions}
    assert list(rows) == [*WORDS[:5], "HMMA.16816.F32", "STG.E"]
    load = rows["LDS.128"]
    assert load["address"] == 0x30
    # ncu's attributed wavefronts and the hardware's have two names.
    assert load["wavefronts_shared"] == 3 * WARPS and load["wavefronts_hardware"] == 4 * WARPS
    assert load["wavefronts_shared_excess"] == WARPS
    assert "wavefronts_shared" not in rows["LDG.E"] and "sectors_global" not in load
    assert rows["LDG.E"]["sectors_global"] == 4 * WARPS
    assert "wavefronts_shared" not in rows["HMMA.16816.F32"]
    all_rows = case.run(job, Machine()).rows()
    assert len(all_rows) == len(CODE)
    (load,) = [row for row in all_rows if row["opcode"] == "LDS.128"]
    origin = {"file": "fake.cu", "line": 2, "text": "// two", "via": "", "kernel_line": 2}
    assert origin.items() <= load.items()


def test_a_product_is_checked_with_both_scalings(job: Job) -> None:
    machine = Machine()
    outcome = case.run(job, machine).result
    assert (outcome.status, outcome.verdict, outcome.source) == ("ok", "correct", "executed")
    scaled = [tuple(float(x) for x in call["arguments"][-2:]) for call in machine.calls]
    assert scaled == [(1.0, 0.0), (0.75, -0.5)]
    call = machine.calls[0]
    assert call["limits"].working == 6
    assert (call["grid"], call["block"], call["shared_bytes"]) == ((2, 3, 1), (16, 16, 1), 64)
    kinds = [type(value).__name__ for value in call["arguments"]]
    assert kinds == ["Buffer"] * 3 + ["int32"] * 3 + ["float32"] * 2
    check = {figure["metric"]: figure["value"] for figure in outcome.notes["check"]["figures"]}
    assert 0 < check["max_error"] < check["tolerance"]
    assert outcome.notes["thread_instructions"] == 2 * 32 * WARPS * len(CODE)
    assert outcome.by_metric["wavefronts_shared_LDS"] == 3 * WARPS


def test_c_is_poisoned_where_beta_is_zero(job: Job) -> None:
    seen = []

    def act(call: Any) -> None:
        seen.append(call["arguments"][2].array.copy())
        if call["arguments"][-1]:
            fake_machine.product(call)

    outcome = ran(job, act=act)
    assert np.isnan(seen[0]).all() and np.isfinite(seen[1]).all()
    assert outcome.verdict == "wrong"
    assert "C[0, 0] is nan (never written)" in outcome.reason


@pytest.mark.parametrize(
    ("kind", "status", "verdict"),
    [
        ("invalid access", result.INVALID_ACCESS, None),
        ("assertion failed", result.ASSERTION_FAILED, None),
        ("trap", result.TRAPPED, None),
        ("timed out", result.TIMED_OUT, None),
        ("unsupported", result.UNSUPPORTED, None),
        ("race", result.OK, result.RACE),
        ("uninitialised read", result.OK, result.UNINITIALISED),
        ("barrier", result.OK, result.BARRIER),
    ],
)
def test_faults_become_statuses_and_verdicts(job, kind, status, verdict):
    outcome = ran(job, faults=(Fault(kind),), endless=True)
    assert (outcome.status, outcome.verdict) == (status, verdict)
    if kind == "unsupported":
        assert outcome.reason.startswith("STS at line 2 of ")
        return
    for part in (
        "executed on the CPU", kind, "both touch it", "fake, line 2 of", "fake.cu", "SASS address 0x0020",
        "threads (33, 0, 0), (1, 0, 0) of block (0, 0, 0)", "address 0x410",
    ):  # fmt: skip
        assert part in outcome.reason, outcome.reason
    (fault,) = outcome.notes["faults"]
    assert (fault["kernel"], fault["line"], fault["address"]) == ("fake", 2, 0x20)
    assert fault["threads"][0] == {"block": [0, 0, 0], "thread": [33, 0, 0]}
    json.dumps(outcome.document())
    counted = kind in ("race", "uninitialised read")
    assert bool(outcome.figures) == counted == bool(outcome.instructions)


def test_the_worst_fault_decides(job: Job) -> None:
    faults = (Fault("uninitialised read"), Fault("race", 3), Fault("invalid access", 4))
    outcome = ran(job, faults=faults)
    assert outcome.status == result.INVALID_ACCESS
    assert "; uninitialised read at line 2 of " in outcome.reason
    assert "; race at line 2 of " in outcome.reason
    assert len(outcome.notes["faults"]) == 3


def test_each_pair_of_lines_that_race_is_reported_once(job: Job) -> None:
    faults = tuple(Fault("race", at, other=by, count=3) for at, by in ((5, 2), (2, 5), (0, 5)))
    outcome = ran(job, faults=faults)
    assert [fault["count"] for fault in outcome.notes["faults"]] == [12, 6]
    assert "and line 3 (6 times)" in outcome.reason and outcome.notes["not_searched"] == []


def test_an_unknown_instruction_is_named_with_its_line(job: Job) -> None:
    outcome = ran(job, refuses=fake_machine.Unsupported("HGMMA.64x128x16.F32.BF16", 0x50))
    assert outcome.status == result.UNSUPPORTED
    assert outcome.reason.startswith("HGMMA.64x128x16.F32.BF16 at line 3 of ")
    assert "fake.cu (SASS address 0x0050)" in outcome.reason


def test_a_bad_launch_fails_to_launch(job: Job) -> None:
    outcome = ran(job, refuses=fake_machine.BadLaunch("1025 threads"))
    assert (outcome.status, outcome.verdict) == (result.FAILED_TO_LAUNCH, None)
    outcome = ran(replace(job, arguments=("a", "b", "x")))
    assert outcome.status == result.FAILED_TO_LAUNCH
    assert "argument 'x' is none of a, b, c" in outcome.reason


def probe(job: Job, **more: Any) -> Job:
    buffers = {
        "index": ProbeBuffer("i32", 32),
        "errors": ProbeBuffer("i32", 32, expect=0),
        "cycles": ProbeBuffer("f32", 1, report={"metric": "latency", "unit": "cycle"}),
    }
    about = Probe(buffers, values={"index": "lane"}, scalars={"n": 32})
    given = {"dtypes": {}, "instruction": "LDS", **more}
    return replace(
        job, operation="probe", shape={}, arguments=("index", "errors", "cycles", "n"),
        probe=about, case="fake@one", **given,
    )  # fmt: skip


def probed(call: Any) -> None:
    given = dict(zip(["index", "errors", "cycles", "n"], call["arguments"]))
    given["errors"].array[:] = given["index"].array != np.arange(32)
    given["cycles"].array[:] = 7


def test_a_probe_is_judged_by_its_buffers(job, monkeypatch):
    """The machine has no clock, so its cycles are no figure."""
    outcome = ran(probe(job), act=probed)
    (figure,) = outcome.notes["check"]["figures"]
    assert outcome.verdict == "correct"
    assert figure == {"metric": "latency", "value": 7.0, "unit": "cycle"}
    monkeypatch.setattr(fake_machine, "CODE", [*CODE[:-1], (0x90, "CS2R R2, SR_CLOCKLO")])
    outcome = ran(probe(job), act=probed)
    assert outcome.verdict == "correct"
    assert outcome.notes["check"]["figures"] == []
    assert "needs a GPU" in outcome.notes["check"]["clock"]


def test_a_check_from_an_execution(job: Job) -> None:
    check = results.of_stage(replace(job, stage="check", key="c1"), ran(job))
    assert (check.stage, check.key, check.source) == ("check", "c1", "executed")
    assert (check.status, check.verdict, check.environment) == ("ok", "correct", "laptop")
    assert set(check.by_metric) == {"max_error", "tolerance", "relative_error"}
    assert check.notes["executed"] == "k1"


def counters_job(job: Job, sets: list[str], **more: Any) -> Job:
    names, sections = map(tuple, catalogue.merged(sets))
    return replace(job, stage="counters", key="m1", metrics=names, sections=sections, **more)


def test_an_execution_gives_the_counters_of_the_metric_sets(job: Job) -> None:
    outcome = ran(job)
    few = results.of_stage(counters_job(job, ["quantization"]), outcome)
    assert few.source == "executed" and not few.instructions
    assert "smsp__inst_executed.sum" not in few.by_metric
    assert few.by_metric["counted_tensor_flops"] == 4096 * WARPS
    assert "sm__cycles_active.avg" not in few.by_metric
    more = results.of_stage(counters_job(job, ["memory"]), outcome)
    assert more.instructions == outcome.instructions
    assert more.by_metric["wavefronts_shared_excess_LDGSTS"] == 11 * WARPS
    assert more.by_metric["shared_wavefronts_load"] == 4 * WARPS
    assert not {name for name in more.by_metric if "cycles" in name or "dram" in name}


def test_a_probes_instruction_is_counted(job: Job) -> None:
    counting = counters_job(probe(job), ["memory"], instruction="LDS.128")
    figures = results.of_stage(counting, ran(probe(job), act=probed)).by_metric
    assert figures["wavefronts"] == 4 * WARPS and figures["bank_conflicts"] == 2 * WARPS
    assert figures["wavefronts_by_instruction"] == 3 * WARPS


def test_a_slow_cpu_is_no_fault_of_the_kernels(job: Job) -> None:
    outcome = ran(job, faults=(Fault("timed out"),))
    assert outcome.status == result.NOT_MEASURED
    assert "within 10 s (execute: case_limit_s), stopped after 0.5 s" in outcome.reason


def test_an_endless_product_is_stopped_long_before_a_slow_one(job: Job) -> None:
    """The budget is far above the need of a product, and far below the limit in seconds."""
    least = 2 * 33 * 17 * 9 * 2 / 32
    assert 20 * least < cost.budget(job) < 1e8
    assert cost.budget(probe(job)) == 5e7


@pytest.mark.parametrize("kind", ["invalid access", "timed out"])
def test_a_failure_has_the_same_status_in_both_stages(job: Job, kind: str) -> None:
    outcome = ran(job, faults=(Fault(kind),), endless=True)
    for stage_job in (replace(job, stage="check"), counters_job(job, ["memory"])):
        failure = results.of_stage(stage_job, outcome)
        assert (failure.status, failure.source, failure.figures) == (kind, "", [])
        assert "executed on the CPU" in failure.reason


def test_counters_of_a_kernel_that_never_met_its_barrier_are_none(job: Job) -> None:
    outcome = ran(job, faults=(Fault("barrier"),))
    assert results.of_stage(replace(job, stage="check"), outcome).verdict == result.BARRIER
    counted = results.of_stage(counters_job(job, ["memory"]), outcome)
    assert (counted.status, counted.figures) == (result.NOT_MEASURED, [])


def test_the_worker_gives_a_result_for_whatever_happens(job, monkeypatch, tmp_path):
    def bad(call: Any) -> None:
        if call["arguments"][3] == 34:
            raise RuntimeError("the interpreter lost its way")
        fake_machine.product(call)

    monkeypatch.setattr("tilewave.execution.engine", lambda *_: Machine(act=bad))
    monkeypatch.setattr("tilewave.execution.warm_up", lambda *_: None)
    other = replace(job, case="fake@34x17x9", shape={"m": 34, "n": 17, "k": 9})
    write_jobs(tmp_path / "jobs.json", [job, other])
    events = tmp_path / "events"
    code = worker.main(["execute", str(tmp_path / "jobs.json"), "--events", str(events)])
    sent = [json.loads(line) for line in events.read_text().splitlines()]
    assert code == 0
    assert [event["event"] for event in sent] == ["ready", *["started", "finished"] * 2]
    assert sent[2]["result"]["verdict"] == "correct"
    assert sent[4]["result"]["status"] == result.NOT_MEASURED
    assert "RuntimeError: the interpreter lost its way" in sent[4]["result"]["reason"]


def test_cost_grows_with_the_work(job: Job) -> None:
    small = cost.predicted_s(job)
    large = cost.predicted_s(replace(job, shape={"m": 4096, "n": 4096, "k": 4096}))
    assert small < 0.01 < 100 < large
    tensor = {**job.dtypes, "a": "f16", "b": "f16"}
    shape = {"m": 2048, "n": 2048, "k": 2048}
    assert cost.predicted_s(replace(job, shape=shape, dtypes=tensor)) < 10
    assert cost.predicted_s(probe(job)) == 0
    # A probe that counts its work: 6e9 operations at 6e8 a second.
    assert cost.predicted_s(probe(job, dtypes={"a": "f32"}), 6e9) == 10


def test_places_have_the_lines_of_the_kernel_file(tmp_path: Path) -> None:
    source = tmp_path / "fake.cu"
    source.write_text(SOURCE)
    places = Places(source, "fake", fake_machine.listing("fake", "fake.cu", 1, 0, 3))
    assert places(0x50) == Origin("fake.cu", 3, "// three", "", 3) and places(0x999) == NOWHERE
    assert places.at(0x50).startswith("line 3 of ")
    other = Places(source, "other", fake_machine.listing("fake", "fake.cu"))
    assert other(0x50) == NOWHERE and other.at(0x50) == other.name


def test_a_worker_has_one_thread_whatever_its_job_has() -> None:
    """Snakemake sets the threads of each job, and their number changes the last digit of a sum."""
    code = "import os, tilewave.execution.worker; print(os.environ['OMP_NUM_THREADS'])"
    given = os.environ | {"PYTHONPATH": str(ROOT / "workflow"), "OMP_NUM_THREADS": "7"}
    assert subprocess.check_output([sys.executable, "-c", code], env=given, text=True) == "1\n"
