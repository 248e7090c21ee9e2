"""Sessions of Nsight Compute with stand-ins: command lines, reports and failures."""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from fake_ncu import (
    BASE,
    RULES,
    SASS,
    FakeAction,
    FakeMetric,
    FakeRange,
    SampledAction,
    instruction_counters,
    samples,
)
from samples import ROOT, a_job, ended, statuses, table, until
from tilewave.gpu import blocks
from tilewave.gpu.ncu import instructions, profiler, profiling, reading
from tilewave.gpu.ncu import report as profile_report
from tilewave.gpu.ncu import run as profile_run
from tilewave.gpu.ncu.samples import rules_of
from tilewave.kernel.job import Job, read_jobs
from tilewave.kernel.launches import LaunchPlan
from tilewave.kernel.result import Result
from tilewave.records.counters import catalogue
from tilewave.records.counters.figures import DERIVED

CASES = table("gpu")


def job(case: str, entry: str = "tiled", provider: str = "nvrtc", **more: Any) -> Job:
    fields = {"stage": "counters", "case": case, "key": f"key-{case}", "source": "kernels/tiled.cu"}
    fields |= {"provider": provider, "entry": entry, "metrics": tuple(catalogue.names("basic"))}
    launch = LaunchPlan((4, 2, 1), (1, 1, 1), 0, None, 8)
    dtypes = {"a": "f16", "accumulate": "f32"}
    return a_job(**{"launch": launch, "dtypes": dtypes, **fields, **more})


NAMES = ["dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sector_hit_rate.pct"]
COUNTERS = dict(zip(NAMES, (100, 20, 50.0), strict=True))
BASIC = dict.fromkeys(catalogue.names("basic"), 1.0)


def result_of(wanted: Job, action: FakeAction, names: list[str] = NAMES) -> Result:
    return profile_report.result_of(wanted, [action], names)


def test_command_line() -> None:
    settings = profile_run.Settings(("x.sum", "y.avg"), ("SourceCounters",), "base", "all")
    paths = map(Path, ("/r/a.jobs.json", "/r/a.events.jsonl", "/r/a%.ncu-rep", "/c"))
    line = " ".join(profile_run.build_command("/opt/ncu", settings, settings.metrics, *paths))
    assert line.startswith("/opt/ncu --nvtx --nvtx-include tilewave@measure/ --clock-control base")
    assert "--cache-control all --metrics x.sum,y.avg --section SourceCounters" in line
    assert "--import-source yes --force-overwrite -o /r/a%%" in line
    assert f"{sys.executable} -m tilewave.gpu.worker" in line
    assert line.endswith("counters /r/a.jobs.json --events /r/a.events.jsonl --cache /c")


def test_refused_names_are_read_from_the_log() -> None:
    pattern = r"regex:^foo__bar\.(sum|min|max|avg|pct|ratio|max_rate)$"
    for said, name in ((pattern, "foo__bar"), ("dram__x.sum", "dram__x.sum")):
        assert profile_run.unknown_metrics(f"==ERROR== Failed to find metric {said}\n") == [name]


def test_kernels_find_their_cases_by_range() -> None:
    jobs = [job("a"), job("b"), job("c")]
    report = [FakeRange([FakeAction("tiled", COUNTERS, place)]) for place in "ca"]
    results = dict(profile_report.parse_report(report, jobs, [NAMES] * 3))
    assert sorted(results) == [0, 2]
    assert results[2] == dict(profile_report.parse_report(report, jobs, [NAMES] * 3, [1, 2]))[2]
    first = results[0]
    assert (first.case, first.key, first.status, first.source) == ("a", "key-a", "ok", "counters")
    assert first.by_metric["dram_bytes"] == 120 and first.by_metric["l2_hit_rate"] == 50
    assert first.notes == {"kernels": ["tiled"]}
    json.dumps(first.document(), allow_nan=False)


def test_a_case_has_a_range_of_its_name_index_and_stage(monkeypatch) -> None:
    ranges: list[Any] = []
    monkeypatch.setattr("nvtx.annotate", lambda name, **about: ranges.append((name, about)))
    blocks.case_span(job("a@64", stage="time"), 3)
    assert ranges == [("a@64", {"domain": "tilewave-job", "category": "time", "payload": 3})]


def test_another_kernel_or_grid_is_not_taken_for_the_case() -> None:
    wrong = result_of(job("a"), FakeAction("other", COUNTERS, "a"))
    assert wrong.status == "not measured" and "other where tiled" in wrong.reason
    wrong = result_of(job("a"), FakeAction("tiled", COUNTERS, "a", (8, 2, 1)))
    assert "grid of [8, 2, 1] where [4, 2, 1]" in wrong.reason and not wrong.figures
    twice = [FakeAction("tiled", COUNTERS, "a")] * 2
    assert "2 launches" in profile_report.result_of(job("a"), twice, NAMES).reason


def test_the_kernels_of_a_library_call_are_summed() -> None:
    counters = {"launch__registers_per_thread": 168, **COUNTERS}
    actions = [
        FakeAction("nvjet_hsh", counters, "a", (132, 1, 1)),
        FakeAction("splitKreduce", {**counters, "launch__registers_per_thread": 32}, "a"),
    ]
    lib = job("cublas@64x64x64", "", "cublaslt")
    result = profile_report.result_of(lib, actions, [*NAMES, "launch__registers_per_thread"])
    assert result.by_metric["dram__bytes_read.sum"] == 200
    assert result.by_metric["launch__registers_per_thread"] == 168
    assert result.notes["kernels"] == ["nvjet_hsh", "splitKreduce"]
    assert result.instructions == []


def test_a_counter_without_a_value_is_absent_and_named() -> None:
    counters = {**COUNTERS, "dram__bytes_read.sum": math.nan, "gpu__x.sum": None}
    names = [*NAMES, "gpu__x.sum", "smsp__gone.sum", "sm__ops_path_tensor_src_fp16_dst_fp16.sum"]
    result = result_of(job("a"), FakeAction("tiled", counters, "a"), names)
    absent = ["dram__bytes_read.sum", "gpu__x.sum", "smsp__gone.sum"]
    assert result.notes["absent_metrics"] == absent
    assert "dram__bytes_read.sum" not in result.by_metric and "dram_bytes" not in result.by_metric
    empty = result_of(job("a"), FakeAction("tiled", {}, "a"))
    assert empty.status == "not measured" and "no value of any metric" in empty.reason


def test_durations_are_nanoseconds() -> None:
    name = "gpu__time_duration.sum"
    result = result_of(job("a"), FakeAction("tiled", {name: FakeMetric(12.5, "us")}, "a"), [name])
    assert result.figures[0] == {"metric": name, "value": 12500.0, "unit": "ns"}


def test_instructions_have_addresses_from_the_functions_start() -> None:
    action = FakeAction("tiled", instruction_counters(), "a", sass=SASS)
    rows = instructions.instructions_of(action)
    places = [(row["address"], row["opcode"]) for row in rows]
    assert places == [(0, "LDC"), (32, "LDS.64"), (48, "STS.128")]
    counts = {"executed": 10, "wavefronts_shared": 8, "wavefronts_shared_ideal": 2}
    instruction = {"address": 32, "opcode": "LDS.64", "sass": "@!P0 LDS.64 R2, [R4+0x10]"}
    assert rows[1] == {**instruction, **counts, "wavefronts_shared_excess": 6}
    assert instructions.instructions_of(FakeAction("tiled", {}, "a")) == []


def test_samples_and_what_the_rules_say() -> None:
    result = result_of(job("a", stage="sample"), SampledAction(samples(), RULES), [])
    assert (result.stage, result.status, result.source) == ("sample", "ok", "samples")
    assert result.instructions == [
        {"address": 16, "samples": 3, "stall_wait": 3},
        {"address": 32, "samples": 9, "samples_not_issued": 1, "stall_barrier": 7, "stall_wait": 2},
    ]
    assert result.by_metric == {
        "samples": 12, "samples_not_issued": 1, "stall_barrier": 7, "stall_wait": 5,
    }  # fmt: skip
    (rule,) = rules_of(SampledAction(samples(), RULES))
    assert rule == {
        "rule": "CPIStall", "section": "WarpStateStats", "name": "Warp Stall", "title": "Barrier Stalls",
        "message": "Warps wait.", "kind": "optimization", "speedup": 12.5, "speedup_of": "global",
        "metrics": {"stalled": 0.5},
    }  # fmt: skip
    assert result.notes == {"kernels": ["tiled"]}


def test_a_report_without_samples_is_none_of_a_kernel_that_was_too_short() -> None:
    none = [f"{catalogue.STALLS}{name}" for name in ("wait", "wait_not_issued", "barrier")]
    short = samples() | {name: FakeMetric(0) for name in none}
    result = result_of(job("a", stage="sample"), SampledAction(short), [])
    assert result.status == "ok" and not result.instructions and result.by_metric["samples"] == 0
    result = result_of(job("a", stage="sample"), SampledAction(instruction_counters()), [])
    assert result.status == "not measured" and "no stall samples" in result.reason


def test_a_kernel_is_identified_by_its_mangled_name() -> None:
    for entry, reported in (("_Z5tiledPKf", "_Z5tiledPKf"), ("_ZN4mine5tiledIfEEvPT_", "tiled")):
        action = SampledAction(samples(), entry=reported)
        assert profile_report.mismatch(action, job("a", entry)) == ""
        assert profile_report.mismatch(action, job("a", "_Z5otherPf"))


def test_a_cubin_is_disassembled_once() -> None:
    def launch(moved: int) -> FakeAction:
        counters = instruction_counters()
        for metric in counters.values():
            metric._instances = {pc + moved: n for pc, n in metric._instances.items()}
        sass = {pc + moved: text for pc, text in SASS.items()}
        return FakeAction("tiled", {**COUNTERS, **counters}, "a", sass=sass)

    code: instructions.Code = {}
    rows = instructions.instructions_of(launch(0), code=code)
    assert set(code) == {0, 16, 32, 48} and code[16] is None
    again = launch(4096)
    again.sass_by_pc = None  # type: ignore[method-assign,assignment]
    assert instructions.instructions_of(again, code=code) == rows
    # A launch of another cubin with the same name does not count.
    jobs = [job("a", cubin="one"), job("b", cubin="one"), job("c", cubin="two")]
    other = launch(0)
    other.case, other.sass[BASE + 32] = "c", "LDS R2, [R4] ;"
    report = [FakeRange([launch(0), other])]
    results = dict(profile_report.parse_report(report, jobs, [NAMES] * 3))
    assert [results[i].instructions[1]["opcode"] for i in (0, 2)] == ["LDS.64", "LDS"]


def test_totals_by_kind_and_the_probes_instruction() -> None:
    loads = DERIVED["shared_wavefronts_load"].counter
    probe = job("p@x", instruction="LDS")
    action = FakeAction("tiled", {**COUNTERS, **instruction_counters(), loads: 8}, "a", sass=SASS)
    figures = result_of(probe, action, [*NAMES, loads]).by_metric
    assert figures["wavefronts_shared_excess_LDS"] == 6
    assert figures["wavefronts_shared_excess_STS"] == 0
    assert figures["wavefronts"] == figures["wavefronts_by_instruction"] == 8
    assert figures["ideal_by_instruction"] == 2
    plain = result_of(job("p@x"), action, [*NAMES, loads])
    assert not {"wavefronts", "wavefronts_by_instruction"} & set(plain.by_metric)


@pytest.mark.parametrize(("log", "how", "said"), CASES["ends of ncu"])
def test_reasons_say_what_to_do(log: str, how: dict[str, Any], said: str) -> None:
    why = profile_run.explain(profile_run.NcuOutcome(log=log, **how), 60)
    assert said in why and "\n" not in why


def test_events_of_the_worker(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [
        {"event": "ready", "gpu": "GPU-1"},
        *({"event": "started", "index": index, "case": case} for index, case in enumerate("abc")),
        {"event": "finished", "index": 0, "case": "a", "result": {"status": "ok"}},
        {"event": "finished", "index": 1, "result": {"status": "failed to launch", "reason": "r"}},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"event": "fini')
    events = profiling.read_events(path)
    assert events.started == [0, 1, 2]
    assert events.failures == {1: ("failed to launch", "r")} and not events.general
    path.write_text('{"event": "failed", "status": "not measured", "reason": "no usable GPU"}')
    assert profiling.read_events(path).general == "no usable GPU"
    assert profiling.read_events(tmp_path / "none") == profiling.SessionEvents()


PROGRAM = Path(__file__).parent.with_name("support").joinpath("fake_ncu.txt").read_text()


class Ncu:
    """Sessions of a stand-in for ncu, with its program and the kernels in its reports."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        monkeypatch.setattr(profiler, "find_ncu", lambda: str(folder / "ncu"))
        monkeypatch.setattr(profiler, "SESSION_S", 10.0)

    def holds(self, actions: Callable[[Path], list[Any]], most: int | None = None) -> None:
        """Reports hold these kernels; most: cases of a session."""
        self._patch.setattr(reading, "load_report", lambda path: [FakeRange(actions(path))])
        if most is not None:
            self._patch.setattr(profiler, "MOST_PLAIN", most)

    def program(self, body: str) -> str:
        """Write the program of the stand-in with ``body``."""
        path = self.folder / "ncu"
        text = PROGRAM.replace("PYTHON", sys.executable).replace("FOLDER", str(self.folder)) + body
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def run(self, body: str, jobs: list[Job], **more: Any) -> list[Result]:
        paths = {"cache": "cache", "report_path": "reports/kernel.ncu-rep", "log_path": "logs/log"}
        self.program(body)
        how = {name: self.folder / path for name, path in paths.items()}
        return profiler.profile(jobs, **how, **more)

    def noted(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    return Ncu(tmp_path, monkeypatch)


def asking(cases: str, **more: Any) -> list[Job]:
    """Return jobs with the counters of COUNTERS."""
    return [job(case, **{"metrics": tuple(NAMES), **more}) for case in cases]


def reported(path: Path, counters: dict[str, Any] = COUNTERS, **more: Any) -> list[FakeAction]:
    """Return a kernel for each case that `reach` wrote into the report."""
    reached = read_jobs(path.with_suffix(".jobs.json"))[: int(path.read_text())]
    return [FakeAction("tiled", counters, job.case, **more) for job in reached]


def test_no_ncu_is_a_status(ncu: Ncu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "find_ncu", lambda: None)
    seen: list[Any] = []
    (result,) = ncu.run("", [job("a")], on_result=seen.append)
    assert result.status == "not measured" and "nsight-compute" in result.reason
    assert result.key == "key-a" and seen == [result]
    assert ncu.run("", []) == []


@pytest.mark.parametrize(
    ("end", "name"),
    [
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("print('==ERROR== The application returned an error code (15).'); sys.exit(1)", "SIGTERM"),
        ("print('==ERROR== The application returned an error code (1).'); sys.exit(1)", None),
    ],
)
def test_a_case_that_was_killed_is_retried(ncu: Ncu, end: str, name: str | None) -> None:
    (result,) = ncu.run(end, [job("a")])
    assert (result.status, result.notes.get("interrupted")) == ("not measured", name)
    assert name is None or result.reason == f"profiling was ended by {name}"


def test_what_the_report_holds_is_kept(ncu: Ncu) -> None:
    body = "report.write_text('x')\nprint('==ERROR== lost it')\nsys.exit(9)\n"
    held = {name: value for name, value in BASIC.items() if name != "dram__bytes_write.sum"}
    ncu.holds(lambda path: [FakeAction("tiled", held, "b")])
    jobs = [job("a"), job("b")]
    first, second = ncu.run(body, jobs)
    assert first.status == "not measured" and first.reason == "ncu: lost it"
    assert second.status == "ok" and second.notes["report"] == "kernel.ncu-rep"
    assert "dram__bytes_write.sum" in second.notes["absent_metrics"]
    assert read_jobs(ncu.folder / "reports" / "kernel.jobs.json") == jobs


def test_a_session_for_each_choice_of_metrics_and_another_after_a_crash(ncu: Ncu) -> None:
    """The worker ends during the case "b" of its first session, and no other case fails."""
    ncu.holds(lambda path: reported(path, {NAMES[2]: 50.0}))
    jobs = asking("abc", metrics=tuple(NAMES[1:]))
    jobs += asking("d", metrics=tuple(NAMES[2:]), cache_control="none")
    seen: list[Any] = []
    results = ncu.run("sys.exit(0 if reach('b') else 139)\n", jobs, on_result=seen.append)
    assert [result.case for result in results] == ["a", "b", "c", "d"]
    assert statuses(results) == ["ok", "not measured", "ok", "ok"]
    assert "exit code 139" in results[1].reason
    reports = [result.notes.get("report") for result in results]
    assert reports == ["kernel.ncu-rep", None, "kernel-part2.ncu-rep", "kernel-part3.ncu-rep"]
    assert results[0].notes["absent_metrics"] == ["dram__bytes_write.sum"]
    assert sorted(result.case for result in seen) == ["a", "b", "c", "d"]


def test_a_report_is_read_while_the_next_session_runs(ncu, monkeypatch) -> None:

    def actions(path: Path) -> list[FakeAction]:
        counters = dict.fromkeys(NAMES, 1.0) | instruction_counters() | {NAMES[0]: os.getpid()}
        return reported(path, counters, sass=SASS)

    ncu.holds(actions, most=4)
    monkeypatch.setattr(reading, "LEAST_CASES", 1)
    # The second session does not end before the results of the first are read.
    (seen := ncu.folder / "seen").mkdir()
    wait = (
        "reach()\n"
        "end = time.monotonic() + 20\n"
        "while second and len(os.listdir(folder / 'seen')) < 4:\n"
        "    time.sleep(0.02); assert time.monotonic() < end\n"
    )
    jobs = [wanted for case in "abcdefg" for wanted in asking(case)]
    jobs[::2] = [replace(wanted, metrics=wanted.metrics[::-1]) for wanted in jobs[::2]]
    lines: list[str] = []

    def profiled(cores: int) -> list[Result]:
        how = {"on_result": lambda result: (seen / result.case).touch(), "note": lines.append}
        return ncu.run(wait, jobs, cores=cores, **how)

    results = profiled(cores=4)
    assert [result.case for result in results] == list("abcdefg")
    reports = [result.notes["report"] for result in results]
    assert reports == ["kernel.ncu-rep"] * 4 + ["kernel-part2.ncu-rep"] * 3
    processes = [result.by_metric[NAMES[0]] for result in results]
    assert len(set(processes)) == 4 and os.getpid() not in processes
    assert [len(result.instructions) for result in results] == [3] * 7
    # The order of a case's metrics is that of its figures, and causes no additional session.
    assert results[0].figures[2]["metric"] == NAMES[0] == results[1].figures[0]["metric"]
    assert len(lines) == 2 and "session 2 (3 metrics, 0 sections): 3 of 3 cases in" in lines[1]
    assert "by 2 processes" in lines[1]

    def alike(result: Result) -> Result:
        differing = (NAMES[0], "dram_bytes")
        figures = [entry for entry in result.figures if entry["metric"] not in differing]
        return replace(result, figures=figures)

    assert [alike(result) for result in profiled(cores=1)] == [alike(result) for result in results]


def test_a_reader_that_ends_loses_only_its_cases(ncu, monkeypatch) -> None:
    class Deadly(FakeAction):
        def name(self) -> str:
            os.kill(os.getpid(), 9)
            raise AssertionError

    kinds = [FakeAction, FakeAction, Deadly, FakeAction]
    ncu.holds(lambda path: [kind("tiled", COUNTERS, case) for case, kind in zip("abcd", kinds)])
    monkeypatch.setattr(reading, "LEAST_CASES", 1)
    results = ncu.run("reach()", asking("abcd"), cores=6)
    assert statuses(results) == ["ok", "ok", "not measured", "ok"]
    assert "could not be read: it was ended by SIGKILL" in results[2].reason


def test_readers_that_say_nothing_are_given_up(ncu: Ncu, monkeypatch: pytest.MonkeyPatch) -> None:
    ncu.holds(lambda path: time.sleep(60) or [])
    monkeypatch.setattr(reading, "STUCK_S", 0.2)
    (result,) = ncu.run("reach()", asking("a"))
    assert result.status == "not measured" and "0.2 s of elapsed time" in result.reason


def test_a_result_that_cannot_be_kept_ends_ncu_and_the_readers(ncu: Ncu) -> None:
    full = Mock(side_effect=OSError("disk full"))
    ncu.holds(reported, most=2)
    body = "if second:\n    note('pid', str(os.getpid()))\n    time.sleep(60)\nreach()\n"
    with pytest.raises(OSError, match="disk full"):
        ncu.run(body, asking("abcd"), on_result=full)
    assert not ncu.noted("pid") or ended(int(ncu.noted("pid")))


def sessions(jobs: list[Job]) -> list[int]:
    """Return the number of cases of each session; a session has all metrics of its cases."""
    groups = profiler.sessions_of(jobs)
    assert sorted(index for _, places in groups for index in places) == list(range(len(jobs)))
    for settings, places in groups:
        assert places == sorted(places)
        assert all(settings.includes(profiling.settings_of(jobs[place])) for place in places)
    return [len(places) for _, places in groups]


def test_few_cases_join_a_session_that_collects_all_they_ask_for() -> None:
    many = {"flops": 2, "basic": 7, "basic limits": 1, "limits": 20}
    many |= {"memory": 12, "flops memory": 2}

    def asking(count: int, sets: str, **more: Any) -> list[Job]:
        metrics, sections = catalogue.merged(sets.split())
        return [job("x", metrics=metrics, sections=sections, **more) for _ in range(count)]

    jobs = [wanted for sets, count in many.items() for wanted in asking(count, sets)]
    jobs += asking(1, "flops", cache_control="none") + asking(3, "full")
    assert sessions(jobs) == [14, 3, 20, 10, 1]


@pytest.mark.parametrize(("count", "expected"), [(20, [60]), (90, [270]), (210, [210, 210, 210])])
def test_metrics_that_differ_a_little_share_a_session(count: int, expected: list[int]) -> None:
    """They share it if the start of a session costs more than an additional pass of each case."""
    metrics = catalogue.merged(["limits"])[0]
    kinds = [[name for name in metrics if name != dropped] for dropped in metrics[:3]]
    assert sessions([job("x", metrics=kind) for kind in kinds for _ in range(count)]) == expected


@pytest.mark.parametrize(("code", "collected"), CASES["counted tensor operations"])
def test_tensor_operations_that_the_code_lacks_are_not_counted(tmp_path, code, collected) -> None:
    cubin = tmp_path / "tiled.cubin"
    other = "\n.text.other:\n        /*0000*/    DMMA.8x8x4 R4, R8, R2, R4 ;\n"
    cubin.with_suffix(".sass").write_text(f"\n.text.tiled:\n        /*0000*/    {code} ;\n{other}")
    profiled = job("a", cubin=str(cubin))
    names = profiling.metrics_of(profiled)
    assert [catalogue.METRICS[name].inputs for name in names if "tensor_src" in name] == collected
    # Metrics that are 0 by the code are no figures.
    result = result_of(profiled, FakeAction("tiled", dict.fromkeys(names, 3.0)), names)
    unasked = [name for name in profiled.metrics if name not in names]
    assert not set(unasked) & set(result.by_metric)
    if "SP" not in code:
        assert result.by_metric["counted_tensor_flops"] == 3 * len(collected)


@pytest.mark.parametrize(
    ("dtype", "number"), [("f16", 3), ("bf16", 1), ("f64", 7), ("i8", 7), ("e4m3", 0)]
)
def test_a_librarys_tensor_operations_are_those_of_its_operands(dtype: str, number: int) -> None:
    """Only for types of the tensor cores alone: f64 and integers may run on other units."""
    lib = job("lib", "", "cublaslt", dtypes={"a": dtype, "b": dtype, "c": dtype})
    assert sum("tensor_src" in name for name in profiling.metrics_of(lib)) == number
    assert sum("tensor_src" in name for name in profiling.metrics_of(job("a"))) == 7


def test_a_refused_metric_is_dropped_and_the_run_repeated(ncu: Ncu) -> None:
    name = "gpu__time_duration.sum"
    ncu.holds(lambda path: reported(path, BASIC), most=1)
    body = (
        f"bad = {name!r}\n"
        "note('runs', 'b' if bad in metrics else 'x')\n"
        "if bad in metrics:\n"
        "    print('==ERROR== Failed to find metric ' + bad); sys.exit(1)\n"
        "reach()\n"
    )
    results = ncu.run(body, [job("a"), job("b")])
    assert ncu.noted("runs") == "bxx"  # the second session knows it from the first
    assert statuses(results) == ["ok", "ok"]
    for result in results:
        assert name in result.notes["unknown_metrics"] and name not in result.by_metric


REFUSED = "print('==ERROR== ERR_NVGPUCTRPERM - The user'); sys.exit(1)\n"


@pytest.mark.parametrize(
    ("body", "counted"),
    [(REFUSED, 0), (f"reach()\n{REFUSED}", 0), (f"if second: {REFUSED}reach()\n", 2)],
)
def test_no_permission_is_a_status_and_tried_once(ncu: Ncu, body: str, counted: int) -> None:
    """Counted cases stay, and the next run retries the others if the machine could count before."""
    ncu.holds(reported if counted else lambda path: [], most=2)
    results = ncu.run(f"note('sessions')\n{body}", asking("abcde"))
    assert statuses(results) == ["ok"] * counted + ["not measured"] * (5 - counted)
    reasons = [result.reason for result in results[counted:]]
    assert all("NVreg_RestrictProfilingToAdminUsers=0" in reason for reason in reasons)
    retried = ["interrupted" in result.notes for result in results[counted:]]
    assert retried == [counted > 0] * (5 - counted)
    assert ncu.noted("sessions") == ("xx" if counted else "x")


def test_an_unreadable_report_is_a_status(ncu: Ncu) -> None:
    ncu.holds(Mock(side_effect=RuntimeError("cut off")))
    (result,) = ncu.run("report.write_text('no report')\n", [job("a")])
    assert result.status == "not measured" and "RuntimeError: cut off" in result.reason


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_at_the_limit_the_worker_ends_and_ncu_writes_its_report(ncu: Ncu, monkeypatch) -> None:
    # The stand-in for the worker has its name among its arguments, as `python -m` would.
    body = (
        "words = [sys.executable, '-c', 'import time; time.sleep(60)', 'tilewave.gpu.worker']\n"
        "child = subprocess.Popen(words)\n"
        "note('child', str(child.pid)); child.wait(); note('after', 'written')\n"
    )
    start = time.monotonic()
    monkeypatch.setattr(profiler, "SESSION_S", 0.0)
    (result,) = ncu.run(body, [job("a", limit_s=1.0)])
    assert time.monotonic() - start < 20
    assert "limit of 1 s" in result.reason
    assert ncu.noted("after") == "written"
    assert ended(int(ncu.noted("child")))


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_ncu_dies_with_its_parent(ncu: Ncu, tmp_path: Path) -> None:
    program = ncu.program("note('pid', str(os.getpid()))\ntime.sleep(60)\n")
    code = (
        "import sys; from pathlib import Path; from tilewave.gpu.ncu import run as profile_run\n"
        "profile_run.run_ncu([sys.argv[1], '-o', 'r', '--metrics', 'm'], Path(sys.argv[2]), 50)\n"
    )
    command = [sys.executable, "-c", code, program, str(tmp_path / "log")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    parent = os.spawnve(os.P_NOWAIT, command[0], command, environment)
    until(lambda: ncu.noted("pid"))
    child = int(ncu.noted("pid"))
    os.kill(parent, 9)
    os.waitpid(parent, 0)
    until(lambda: ended(child))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_sessions_on_several_gpus_do_not_wait_for_each_other(tmp_path, count):
    """ncu's lock lies in TMPDIR."""
    for number in range(count):
        (tmp_path / str(number)).mkdir()
    with profile_run._environment(tmp_path) as environment:
        folder = environment.get("TMPDIR")
        assert (folder != os.environ.get("TMPDIR")) == (count > 1)
        assert count < 2 or Path(folder).is_dir()
    assert count < 2 or not Path(folder).exists()
