"""A job becomes an execution: arguments, counters by ncu's names, faults as statuses and verdicts."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_machine
from fake_machine import CODE, WARPS, Fault, Machine
from samples import ROOT, a_job
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
    """The result of executing a job on a fake machine, on a laptop."""
    return replace(case.run(job, Machine(**machine)).result, environment="laptop")


def test_no_base_has_two_classes() -> None:
    with pytest.raises(ValueError, match="IMAD is registered twice"):
        families.opcode("IMAD")(lambda form: None)
    assert len(opcodes.OPCODES) == len(opcodes.ROWS)
    assert opcodes.class_of("IMAD.WIDE.U32.X") == "integer and logic"
    assert opcodes.class_of("WHAT.EVER") == opcodes.OTHER


def test_every_recorded_opcode_has_a_class() -> None:
    """Those that some of the project's kernels compile to."""
    recorded = Recorded(ROOT / "resources" / "recorded" / "nvidia_h200")
    keys = sorted(one["key"] for one in recorded.compiled.values() if "key" in one)[:40]
    listings = [listing[0] for key in keys if (listing := recorded.listing(key))]
    words = {one.opcode for listing in listings for one in sass.parse(listing)}
    assert words and {word for word in words if opcodes.class_of(word) == opcodes.OTHER} == set()


def test_counters_have_ncus_names_and_sums() -> None:
    found = counters.values(
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
    assert {name: found[name] / WARPS for name in each_warp} == each_warp
    assert "sm__ops_path_tensor_src_fp16_dst_fp32.sum" not in found
    assert found["launch__grid_size"] == 6 and found["launch__block_size"] == 256
    assert found["launch__shared_mem_per_block_static"] == 4096
    assert set(found) <= set(catalogue.METRICS)
    # Sums of f16 products are apart where the chip counts them so.
    found = counters.values(WORDS, fake_machine.counts(), arch=86, grid=[1], block=[128])
    assert found["sm__ops_path_tensor_src_fp16_dst_fp32.sum"] == 4096 * WARPS
    assert found["sm__ops_path_tensor_src_fp16_dst_fp16.sum"] == 0


def test_what_is_not_known_is_left_out_and_never_zero() -> None:
    words = [*WORDS[:5], "FFMA2", "IGMMA.64x128x32.S8.S8", *WORDS[7:]]
    found = counters.values(words, fake_machine.counts(), grid=[1], block=[32])
    assert not any("tensor" in name for name in found)
    assert "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum" not in found
    assert found["smsp__sass_thread_inst_executed_op_dfma_pred_on.sum"] == 0
    assert "counted_flops" not in {one["metric"] for one in counters.figures(found, [])}


def test_predicated_off_instructions_do_no_operations() -> None:
    numbers = fake_machine.counts()
    numbers["threads_on"] = np.zeros_like(numbers["threads_on"])
    words = [*WORDS[:6], "HGMMA.64x8x16", *WORDS[7:]]
    found = counters.values(words, numbers, grid=[1], block=[32])
    assert found["smsp__thread_inst_executed.sum"] > 0
    assert found["sm__ops_path_tensor_src_fp16.sum"] == 0


def test_rows_are_those_of_a_profile(job: Job) -> None:
    rows = {row["opcode"]: row for row in ran(job).instructions}
    assert list(rows) == [*WORDS[:5], "HMMA.16816.F32", "STG.E"]
    load = rows["LDS.128"]
    assert load["address"] == 0x30
    # What ncu attributes, and what the hardware counts, under names of their own.
    assert load["wavefronts_shared"] == 3 * WARPS and load["wavefronts_hardware"] == 4 * WARPS
    assert load["wavefronts_shared_excess"] == WARPS
    assert "wavefronts_shared" not in rows["LDG.E"] and "sectors_global" not in load
    assert rows["LDG.E"]["sectors_global"] == 4 * WARPS
    assert "wavefronts_shared" not in rows["HMMA.16816.F32"]
    every = case.run(job, Machine()).rows()
    assert len(every) == len(CODE)
    (load,) = [row for row in every if row["opcode"] == "LDS.128"]
    place = {"file": "fake.cu", "line": 2, "text": "// two", "via": "", "kernel_line": 2}
    assert place.items() <= load.items()


def test_a_product_is_checked_with_both_scalings(job: Job) -> None:
    machine = Machine()
    made = case.run(job, machine).result
    assert (made.status, made.verdict, made.source) == ("ok", "correct", "executed")
    scaled = [tuple(float(x) for x in call["arguments"][-2:]) for call in machine.calls]
    assert scaled == [(1.0, 0.0), (0.75, -0.5)]
    call = machine.calls[0]
    assert call["limits"].working == 6
    assert (call["grid"], call["block"], call["shared_bytes"]) == ((2, 3, 1), (16, 16, 1), 64)
    kinds = [type(value).__name__ for value in call["arguments"]]
    assert kinds == ["Buffer"] * 3 + ["int32"] * 3 + ["float32"] * 2
    check = {one["metric"]: one["value"] for one in made.notes["check"]["figures"]}
    assert 0 < check["max_error"] < check["tolerance"]
    assert made.notes["thread_instructions"] == 2 * 32 * WARPS * len(CODE)
    assert made.by_metric["wavefronts_shared_LDS"] == 3 * WARPS


def test_c_is_poisoned_where_beta_is_zero(job: Job) -> None:
    seen = []

    def act(call: Any) -> None:
        seen.append(call["arguments"][2].array.copy())
        if call["arguments"][-1]:
            fake_machine.product(call)

    made = ran(job, act=act)
    assert np.isnan(seen[0]).all() and np.isfinite(seen[1]).all()
    assert made.verdict == "wrong"
    assert "C[0, 0] is nan (never written, or" in made.reason


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
    made = ran(job, faults=(Fault(kind),), endless=True)
    assert (made.status, made.verdict) == (status, verdict)
    if kind == "unsupported":
        assert made.reason.startswith("STS at line 2 of ")
        return
    for words in (
        "executed on the CPU", kind, "both touch it", "fake, line 2 of", "fake.cu", "SASS address 0x0020",
        "threads (33, 0, 0), (1, 0, 0) of block (0, 0, 0)", "address 0x410",
    ):  # fmt: skip
        assert words in made.reason, made.reason
    (fault,) = made.notes["faults"]
    assert (fault["kernel"], fault["line"], fault["address"]) == ("fake", 2, 0x20)
    assert fault["threads"][0] == {"block": [0, 0, 0], "thread": [33, 0, 0]}
    json.dumps(made.document())
    counted = kind in ("race", "uninitialised read")
    assert bool(made.figures) == counted == bool(made.instructions)


def test_the_worst_fault_decides(job: Job) -> None:
    faults = (Fault("uninitialised read"), Fault("race", 3), Fault("invalid access", 4))
    made = ran(job, faults=faults)
    assert made.status == result.INVALID_ACCESS
    assert "2 further findings" in made.reason


def test_what_the_machine_does_not_know_is_named_with_its_line(job: Job) -> None:
    made = ran(job, refuses=fake_machine.Unsupported("HGMMA.64x128x16.F32.BF16", 0x50))
    assert made.status == result.UNSUPPORTED
    assert made.reason.startswith("HGMMA.64x128x16.F32.BF16 at line 3 of ")
    assert "fake.cu (SASS address 0x0050)" in made.reason


def test_a_bad_launch_fails_to_launch(job: Job) -> None:
    made = ran(job, refuses=fake_machine.BadLaunch("1025 threads"))
    assert (made.status, made.verdict) == (result.FAILED_TO_LAUNCH, None)
    made = ran(replace(job, arguments=("a", "b", "x")))
    assert made.status == result.FAILED_TO_LAUNCH
    assert "argument 'x' is none of a, b, c" in made.reason


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
    """Cycles of a machine without time are no figure."""
    made = ran(probe(job), act=probed)
    (figure,) = made.notes["check"]["figures"]
    assert made.verdict == "correct"
    assert figure == {"metric": "latency", "value": 7.0, "unit": "cycle"}
    monkeypatch.setattr(fake_machine, "CODE", [*CODE[:-1], (0x90, "CS2R R2, SR_CLOCKLO")])
    made = ran(probe(job), act=probed)
    assert made.verdict == "correct"
    assert made.notes["check"]["figures"] == []
    assert "needs a GPU" in made.notes["check"]["clock"]


def test_a_check_from_an_execution(job: Job) -> None:
    check = results.of_stage(replace(job, stage="check", key="c1"), ran(job))
    assert (check.stage, check.key, check.source) == ("check", "c1", "executed")
    assert (check.status, check.verdict, check.environment) == ("ok", "correct", "laptop")
    assert set(check.by_metric) == {"max_error", "tolerance", "relative_error"}
    assert check.notes["executed"] == "k1"


def counters_job(job: Job, sets: list[str], **more: Any) -> Job:
    names, sections = map(tuple, catalogue.merged(sets))
    return replace(job, stage="counters", key="m1", metrics=names, sections=sections, **more)


def test_counters_from_an_execution_are_those_that_were_asked_for(job: Job) -> None:
    made = ran(job)
    few = results.of_stage(counters_job(job, ["quantization"]), made)
    assert few.source == "executed" and not few.instructions
    assert "smsp__inst_executed.sum" not in few.by_metric
    assert few.by_metric["counted_tensor_flops"] == 4096 * WARPS
    assert "sm__cycles_active.avg" in few.notes["not_executed"]
    more = results.of_stage(counters_job(job, ["memory"]), made)
    assert more.instructions == made.instructions
    assert more.by_metric["wavefronts_shared_excess_LDGSTS"] == 11 * WARPS
    assert more.by_metric["shared_wavefronts_load"] == 4 * WARPS
    assert not {name for name in more.by_metric if "cycles" in name or "dram" in name}


def test_a_probes_own_instruction_is_counted(job: Job) -> None:
    asked = counters_job(probe(job), ["memory"], instruction="LDS.128")
    found = results.of_stage(asked, ran(probe(job), act=probed)).by_metric
    assert found["wavefronts"] == 4 * WARPS and found["bank_conflicts"] == 2 * WARPS
    assert found["wavefronts_by_instruction"] == 3 * WARPS


def test_a_slow_cpu_is_no_fault_of_the_kernels(job: Job) -> None:
    made = ran(job, faults=(Fault("timed out"),))
    assert made.status == result.NOT_MEASURED
    assert "within 10 s (execute: case_limit_s), given up after 0.5 s" in made.reason


def test_an_endless_product_is_stopped_long_before_a_slow_one(job: Job) -> None:
    """The budget is far above what a product can need, and far below what seconds allow."""
    least = 2 * 33 * 17 * 9 * 2 / 32
    assert 20 * least < cost.budget(job) < 1e8
    assert cost.budget(probe(job)) == 5e7


@pytest.mark.parametrize("kind", ["invalid access", "timed out"])
def test_a_failure_has_the_same_status_in_both_stages(job: Job, kind: str) -> None:
    made = ran(job, faults=(Fault(kind),), endless=True)
    for one in (replace(job, stage="check"), counters_job(job, ["memory"])):
        told = results.of_stage(one, made)
        assert (told.status, told.source, told.figures) == (kind, "", [])
        assert "executed on the CPU" in told.reason


def test_counters_of_a_kernel_that_never_met_its_barrier_are_none(job: Job) -> None:
    made = ran(job, faults=(Fault("barrier"),))
    assert results.of_stage(replace(job, stage="check"), made).verdict == result.BARRIER
    told = results.of_stage(counters_job(job, ["memory"]), made)
    assert (told.status, told.figures) == (result.NOT_MEASURED, [])


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
    told = [json.loads(line) for line in events.read_text().splitlines()]
    assert code == 0
    assert [one["event"] for one in told] == ["ready", *["started", "finished"] * 2]
    assert told[2]["result"]["verdict"] == "correct"
    assert told[4]["result"]["status"] == result.NOT_MEASURED
    assert "RuntimeError: the interpreter lost its way" in told[4]["result"]["reason"]


def test_what_a_smaller_case_shows_to_be_hopeless_is_not_begun(job: Job) -> None:
    rates = cost.PaceRates()
    small = replace(job, case="fake@256", shape={"m": 256, "n": 256, "k": 256}, limit_s=10.0)
    large = replace(small, shape={"m": 512, "n": 512, "k": 512})  # eight times the work
    rates.saw(small, 0.4)
    assert rates.hopeless(large) == ""  # too short to tell
    rates.saw(small, 1.5)
    assert rates.hopeless(large) == ""  # 12 s are not certain to be more than 10
    rates.saw(small, 2.0)
    assert rates.hopeless(large).startswith("it would take 16 s, as fast as fake@256 was")
    assert rates.hopeless(replace(large, variant="another")) == ""
    assert rates.hopeless(probe(job)) == ""


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


def test_places_know_lines_of_the_kernels_own_file(tmp_path: Path) -> None:
    source = tmp_path / "fake.cu"
    source.write_text(SOURCE)
    places = Places(source, "fake", fake_machine.listing("fake", "fake.cu", 1, 0, 3))
    assert places(0x50) == Origin("fake.cu", 3, "// three", "", 3) and places(0x999) == NOWHERE
    assert places.at(0x50).startswith("line 3 of ")
    other = Places(source, "other", fake_machine.listing("fake", "fake.cu"))
    assert other(0x50) == NOWHERE and other.at(0x50) == other.name


def test_a_worker_has_one_thread_whatever_its_job_has() -> None:
    """Snakemake tells each job of its threads; how a sum is shared among them decides its last digit."""
    code = "import os, tilewave.execution.worker; print(os.environ['OMP_NUM_THREADS'])"
    given = os.environ | {"PYTHONPATH": str(ROOT / "workflow"), "OMP_NUM_THREADS": "7"}
    assert subprocess.check_output([sys.executable, "-c", code], env=given, text=True) == "1\n"
