"""The supervisor with workers that fail, without a GPU."""

import itertools
import json
import os
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from samples import a_job, ended, statuses, until
from tilewave.basics import deadline
from tilewave.basics.errors import UserError
from tilewave.gpu.failure import watched
from tilewave.gpu.worker import main as worker_main
from tilewave.kernel import result as model
from tilewave.kernel.job import Job, Probe, ProbeBuffer, write_jobs
from tilewave.kernel.result import Result
from tilewave.pipeline import rules as stages
from tilewave.records import environment
from tilewave.workers import supervisor

WORKER = """
import argparse, json, os, signal, sys, time
from tilewave.kernel.result import Result
p = argparse.ArgumentParser()
p.add_argument("stage"); p.add_argument("jobs"); p.add_argument("--events")
p.add_argument("--cache"); p.add_argument("--start", type=int, default=0)
o = p.parse_args()
jobs = json.load(open(o.jobs))
out = open(o.events, "a")
def send(**event):
    out.write(json.dumps(event) + "\\n"); out.flush()
print("noise on standard output", flush=True)
def end(number): os.kill(os.getpid(), number)
first = jobs[0]["do"]
if first == "never ready": raise SystemExit("no driver here")
if first == "no gpu":
    send(event="failed", status="not measured", reason="no usable GPU: none"); sys.exit(87)
if first == "killed at its beginning": end(signal.SIGKILL)
if first == "mute": time.sleep(60)
send(event="ready", gpu=None)
for i in range(o.start, len(jobs)):
    send(event="started", index=i, case=jobs[i]["case"])
    do, mark = jobs[i]["do"], jobs[i]["mark"]
    if do.endswith(" once"):
        do = "fine" if os.path.exists(mark) else do
        open(mark, "a")
    if do == "segv": end(signal.SIGSEGV)
    if do == "killed": end(signal.SIGKILL)
    if do == "killed once": end(signal.SIGTERM)
    if do == "full disk": os._exit(88)
    if do == "exit": print("it went wrong"); sys.stdout.flush(); os._exit(3)
    if do == "hang" and os.fork() == 0: open(mark, "w").write(str(os.getpid()))
    if do in ("hang", "slow once"): time.sleep(60)
    if do == "garbage":
        out.write("{not json\\n[1, 2]\\n\\n" + json.dumps({"event": "finished", "index": 99}) + "\\n")
    if do == "slow": time.sleep(1)
    made = Result(o.stage, "forged", "ok", notes={"pid": os.getpid()})
    if do == "memory once":
        made = Result(o.stage, "k", "not measured", notes={"interrupted": "CUDA_ERROR_OUT_OF_MEMORY"})
    send(event="finished", index=i, result=[1] if do == "nonsense" else made.document())
    if do == "poison": os._exit(86)
"""


@dataclass(frozen=True)
class Deed(Job):
    """A job with the failure of its worker, and the file in which a child leaves its id."""

    do: str = ""
    mark: str = ""


@pytest.fixture
def bad_worker(tmp_path, monkeypatch):
    (tmp_path / "bad_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return "bad_worker"


@pytest.fixture
def run(tmp_path, bad_worker):
    def call(*deeds, **options):
        more, seen = {"mark": str(tmp_path / "mark")}, []
        named = [(f"k@{number}", f"0{number}", deed) for number, deed in enumerate(deeds)]
        jobs = [a_job(Deed, case=case, key=key, do=deed, **more) for case, key, deed in named]
        how = {"module": bad_worker, "log_path": tmp_path / "logs" / "worker.log", **options}
        results = supervisor.run_jobs("check", jobs, on_result=seen.append, **how)
        identities = [(result.case, result.key) for result in results]
        assert identities == [(job.case, job.key) for job in jobs]
        assert sorted(result.case for result in seen) == sorted(job.case for job in jobs)
        return results

    return call


def test_all_in_the_same_process(run, tmp_path):
    results = run("fine", "fine", "fine")
    assert statuses(results) == ["ok"] * 3
    assert len({result.notes["pid"] for result in results}) == 1
    assert all(result.stage == "check" for result in results)
    assert "noise" in (tmp_path / "logs" / "worker.log").read_text()
    assert supervisor.run_jobs("check", []) == []


KILLED = "was ended by SIGKILL"
ENDS = {
    "segv": ("invalid access", "the worker was ended by SIGSEGV", ""),
    "exit": ("failed to launch", "the worker ended with exit code 3", ""),
    "nonsense": ("failed to launch", "cannot be read", ""),
    # Memory ran out, or a user killed it: the next run retries, so nothing of it is kept.
    "killed": ("not measured", f"the worker {KILLED}, twice", KILLED),
    "killed once": ("ok", "", ""),
    "full disk": ("not measured", "could not write", "could not write"),
    "poison": ("ok", "", ""),
    "garbage": ("ok", "", ""),
}
"""Deed -> status, reason, and what the notes say of an interruption."""


@pytest.mark.parametrize("deed", ENDS)
def test_a_crash_costs_a_single_case(run, deed):
    status, reason, note = ENDS[deed]
    before, result, after = run("fine", deed, "fine")
    assert (before.status, result.status, after.status) == ("ok", status, "ok")
    assert reason in result.reason and note in result.notes.get("interrupted", "")
    assert result.keepable == (status != "not measured")
    assert result.recordable != bool(note)
    # Neither an unreadable result nor a malformed line ends the worker.
    alive = deed in ("nonsense", "garbage")
    assert (before.notes["pid"] == after.notes["pid"]) == alive


def test_a_kill_from_outside_is_said(run, capsys):
    """A shell in between ends with the signal's code, and counts too."""
    wrapper = ["sh", "-c", '"$@"; exit $?', "sh"]
    assert statuses(run("fine", "killed", "fine", wrapper=wrapper)) == ["ok", "not measured", "ok"]
    assert f"the worker {KILLED}; k@1 is retried" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("deed", "how", "reason"),
    [
        ("killed at its beginning", {}, KILLED),
        ("never ready", {}, "exit code 1: no driver here"),
        ("no gpu", {}, "no usable GPU: none"),
        ("mute", {"grace_s": 0.5}, "did nothing for 0.5 s"),
    ],
)
def test_a_worker_that_cannot_begin(run, deed, how, reason):
    results = run(deed, "fine", **how)
    assert statuses(results) == ["not measured"] * 2
    assert all(reason in result.reason for result in results)
    assert results[1].transient == (deed in ("killed at its beginning", "no gpu"))


def test_hang_is_killed_with_its_children(run, tmp_path):
    results = run("fine", "hang", "fine", limit_s=0.5)
    assert statuses(results) == ["ok", "timed out", "ok"]
    assert "within 0.5 s (case_limit_s)" in results[1].reason
    child = int((tmp_path / "mark").read_text())
    until(lambda: ended(child), 15)


def test_time_in_which_everything_was_stopped_does_not_count(run, monkeypatch):
    """A scheduler suspends a run, or the machine sleeps."""
    looks = itertools.count()

    def monotonic():
        return time.monotonic() + 3600 * (next(looks) > 20)

    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=monotonic))
    (result,) = run("slow", limit_s=20)
    assert result.status == model.OK


def test_an_error_of_a_worker_ends_the_others(tmp_path, bad_worker):
    """Ctrl-C, or a result that cannot be stored, while another worker still runs."""
    more = {"mark": str(tmp_path / "mark")}
    jobs = [a_job(Deed, case=f"k@{do}", variant=do, do=do, **more) for do in ("fine", "hang")]

    def full(result):
        until((tmp_path / "mark").exists)
        raise UserError("store", "writing it", "No space left on device", "space")

    start = time.monotonic()
    how = {"log_path": tmp_path / "log", "on_result": full, "module": bad_worker}
    with pytest.raises(UserError, match="No space left"):
        supervisor.share_jobs("execute", jobs, 2, **how)
    assert time.monotonic() - start < 15


def test_a_check_that_was_short_beside_others_is_done_once_more_alone(tmp_path, bad_worker):
    """A check can be short of time or of memory."""
    jobs = []
    for i, deed in enumerate(("fine", "hang", "slow once", "memory once", "fine")):
        more = {"shape": {"m": 1 + i, "n": 1, "k": 1}, "dtypes": dict.fromkeys("abc", "f32")}
        jobs.append(a_job(Deed, case=f"k@{i}", do=deed, mark=str(tmp_path / f"mark{i}"), **more))
    seen, how = [], {"module": bad_worker, "limit_s": 0.5, "log_path": tmp_path / "log"}
    results = stages._checked_together(jobs, 2, seen.append, **how)
    want = ["ok", "timed out", "ok", "ok", "ok"]
    assert statuses(sorted(results, key=lambda result: result.case)) == want
    assert statuses(sorted(seen, key=lambda result: result.case)) == want  # each once
    assert len({result.notes["pid"] for result in results if result.status == "ok"}) >= 2


def test_a_probe_that_reports_a_measurement_is_checked_alone(monkeypatch):
    probes = [
        Probe({"out": ProbeBuffer("f32", 1, report={"metric": "latency"} if reports else None)})
        for reports in (True, False)
    ]
    jobs = [a_job(case=f"probe@{i}", probe=probe) for i, probe in enumerate(probes)]
    ran: dict[str, list[str]] = {}

    def run(how):
        def note(stage, waiting, *rest, on_result, **options):
            ran[how] = [job.case for job in waiting]
            return [Result.of_job(job) for job in waiting]

        return note

    for name in ("share_jobs", "run_jobs"):
        monkeypatch.setattr(supervisor, name, run(name))
    assert len(stages._checked_together(jobs, 8, print)) == 2
    assert ran == {"share_jobs": ["probe@1"], "run_jobs": ["probe@0"]}


CPU_KERNEL = """
import numpy as np

def product(a, b, c, alpha, beta):
    c[...] = alpha * (a @ b) if beta == 0 else alpha * (a @ b) + beta * c

def forgets_a_term(a, b, c, alpha, beta):
    product(a[:, :-1], b[:-1], c, alpha, beta)

def reads_c(a, b, c, alpha, beta):
    c[...] = alpha * (a @ b) + beta * c
"""


def cpu_job(tmp_path, entry):
    (tmp_path / "kernel.py").write_text(CPU_KERNEL)
    more = {"shape": {"m": 40, "n": 50, "k": 60}, "source": str(tmp_path / "kernel.py")}
    more |= {"arguments": tuple("a b c m n k alpha beta".split()), "key": "aa", "entry": entry}
    more |= {"dtypes": dict.fromkeys(("a", "b", "c", "accumulate"), "f32"), "provider": "cpu"}
    return a_job(case=f"{entry}@40x50x60", layouts={"a": "row", "b": "col", "c": "row"}, **more)


def cpu(stage, tmp_path, *jobs):
    """Return the results of the real worker, in this process."""
    write_jobs(tmp_path / "jobs.json", jobs)
    events = tmp_path / f"{stage}.jsonl"
    assert worker_main([stage, str(tmp_path / "jobs.json"), "--events", str(events)]) == 0
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    return [Result.of_document(line["result"]) for line in lines if line["event"] == "finished"]


def test_cpu_check_tells_right_from_wrong(tmp_path):
    names = ["product", "forgets_a_term", "reads_c"]
    results = cpu("check", tmp_path, *(cpu_job(tmp_path, name) for name in names))
    assert [result.verdict for result in results] == ["correct", "wrong", "wrong"]
    figures = results[0].by_metric
    assert figures["max_error"] <= figures["tolerance"] < 1e-3
    assert "elements are wrong" in results[1].reason


def test_cpu_time(tmp_path):
    jobs = [cpu_job(tmp_path, "product"), cpu_job(tmp_path, "no_such_function")]
    results = cpu("time", tmp_path, *jobs)
    assert statuses(results) == ["ok", "failed to launch"]
    assert len(results[0].samples["duration_us"]) >= 3
    assert "no_such_function" in results[1].reason


@pytest.mark.parametrize("gone", ["", "CUDA_ERROR_NO_DEVICE"])
def test_a_case_under_which_the_gpu_was_lost_is_not_to_blame(monkeypatch, gone):
    """Failures before a good result are kept at once, the last ones once the GPU is known to work."""
    monkeypatch.setattr(environment, "probe", lambda gpu: {"gpu_reason": gone} if gone else {})
    jobs = [a_job(case=f"k@{i}", key=f"{i:02x}", stage="time") for i in range(4)]
    ends = ["CUDA_ERROR_ASSERT", "", "CUDA_ERROR_UNKNOWN", "no usable GPU"]
    kept = []

    def measure(waiting, keep):
        losses = []
        for job, why in zip(waiting, ends, strict=True):
            status = "not measured" if "usable" in why else "invalid access" if why else "ok"
            losses.append(Result.of_job(job, status, why))
            keep(losses[-1])
            assert bool(kept) == (len(losses) > 1)
        return losses

    results = watched(measure, 0)(jobs, kept.append)
    assert results == kept and [result.case for result in results] == [job.case for job in jobs]
    last = "not measured" if gone else "invalid access"
    assert statuses(results) == ["invalid access", "ok", last, "not measured"]
    assert results[2].notes.keys() == ({"interrupted"} if gone else set())
    assert results[2].reason.endswith(gone or "UNKNOWN")
