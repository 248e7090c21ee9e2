"""Kernels with a planted mistake (tests/faults): its kind, its line and who takes part have to be named."""

import re

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave.execution import case

pytestmark = needs_nvrtc

FAULT_KINDS = {"invalid access", "race", "uninitialised read", "barrier", "timed out"}
ENDINGS = {"correct", "wrong", "illegal address", "misaligned address", "hangs", None}
TOOLS = {"memcheck", "racecheck", "initcheck", "synccheck"}
BUDGET = 300_000  # warp instructions: over a hundred times what those need that end
ENTRIES = support.expectations()
# Of each kernel the first: what its macros change is found on sm_90.
FIRST = tuple({entry["kernel"]: entry for entry in ENTRIES[::-1]}.values())
PATHS = sorted(support.FAULTS.glob("*.cu"))


def path(entry):
    return support.FAULTS / f"{entry['kernel']}.cu"


def every(arch, entries=ENTRIES):
    return [pytest.param(entry, arch, id=f"{support.name_of(entry)}-{arch}") for entry in entries]


def execute(name, case, macros=None, arch="sm_90"):
    file = support.FAULTS / f"{name}.cu"
    return support.execute(file, case, macros, arch, instructions=BUDGET)


def only(done):
    """The message of the one finding that there is."""
    assert len(done.faults) == 1, [fault.message for fault in done.faults]
    return done.faults[0].message


def test_every_kernel_has_an_expectation():
    assert {entry["kernel"] for entry in ENTRIES} == {path.stem for path in PATHS}
    for entry in ENTRIES:
        assert set(entry["kind"]) <= FAULT_KINDS | {"wrong", "correct"}, entry
        assert entry["gpu"] in ENDINGS, entry
        assert {entry["tool"], *entry["also"]} <= TOOLS | {None}, entry
        if entry["kind"] != ["correct"]:
            assert support.marked(path(entry), entry["lines"]), f"{entry['kernel']}: no line marked"


@pytest.mark.parametrize("entry,arch", [*every("sm_80", FIRST), *every("sm_90")])
def test_fault(entry, arch):
    done = execute(entry["kernel"], entry["shape"], entry["macros"], arch)
    said = [(fault.kind, fault.message) for fault in done.faults]
    if not done.faults:
        assert done.verdict in entry["kind"], f"no fault, and the result is {done.verdict}"
        return
    assert set(done.kinds) <= set(entry["kind"]), said
    lines = [support.line_of(done, fault) for fault in done.faults]
    wanted = support.marked(path(entry), entry["lines"])
    assert set(lines) & wanted, f"lines {lines}, marked {sorted(wanted)}: {said}"
    for fault in done.faults:
        assert "thread" in fault.message and "block (" in fault.message
        assert ".cu" not in fault.message
        assert fault.threads, fault
        if fault.kind in ("invalid access", "race", "uninitialised read"):
            assert fault.addresses, fault
        if fault.kind == "race":  # the other side, which executing the block again has shown
            assert re.search(r"\(\w+(\.\w+)* at SASS address 0x[0-9a-f]{4}\)", fault.message), said
            assert not re.search(r"\bwarp \d", fault.message), said


@pytest.mark.parametrize(
    ("bug", "verdict", "message"),
    [
        (0, "correct", ""),
        (1, "wrong", "256 of 256 elements are wrong"),
        (2, "uninitialised read", "byte 0 (element 0) of parts, which nothing has written"),
        (3, "correct", "wait at another __syncthreads() than other threads"),
    ],
)
def test_memory_outlives_a_launch(bug, verdict, message):
    job = support.job(ROOT / "tests" / "data" / "kernels" / "lasting.cu", 256, {"BUG": bug})
    outcome = case.run(job).result
    assert outcome.verdict == verdict
    assert message in outcome.reason + "".join(outcome.notes.get("hints", []))


def test_invalid_accesses_name_what_they_leave():
    done = execute("out_of_bounds_write", 1000)
    assert only(done) == (
        "threads (232, 0, 0) to (255, 0, 0) of block (3, 0, 0) write 4 bytes, the first at byte "
        "4000 (element 1000) of c, which has 4000 bytes (1000 elements)"
    )
    done = execute("out_of_bounds_shared", 96)
    assert "reads 4 bytes at byte 384 of shared memory, which has 384 bytes" in only(done)
    assert done.faults[0].addresses == [384]  # the system's own kibibyte is counted in neither
    done = execute("misaligned_global", "32x32x66")
    assert "read 16 bytes, the first at byte 264 (element 66) of a" in only(done)
    assert only(done).endswith("not a multiple of 16")


def test_races_name_both_sides():
    done = execute("race_write_write", "32x32x32")
    assert re.fullmatch(
        r"thread \(0, 0, 1\) of block \(0, 0, 0\) writes byte 0 of shared memory, which thread "
        r"\(0, 0, 0\) writes too \(STS at SASS address \w+\): no barrier orders them",
        only(done),
    )
    done = execute("race_read_write", "32x32x64", {"MISSING": "first"})
    assert any("before thread" in fault.message for fault in done.faults)  # read, then written
    done = execute("race_copy_async", "32x32x64", {"MISSING": "wait"})
    assert all("asynchronous copy of thread" in fault.message for fault in done.faults)


def test_counts_are_those_of_one_execution():
    """To name the other side of a race, its block is executed again."""
    raced = execute("race_write_write", "32x32x32")
    stores = [step.opcode.startswith("STS") for step in raced.program.instructions]
    assert raced.counts["executed"][stores].sum() == 2 * 2 * 16  # blocks times warps


def test_deadlocks_name_who_waits_for_whom():
    done = execute("barrier_wrong_id", 128)
    assert "threads (0, 0, 0) to (63, 0, 0) wait at barrier 1" in only(done)
    assert "threads (64, 0, 0) to (127, 0, 0) wait at barrier 2" in only(done)
    done = execute("barrier_wrong_count", 256)
    assert "threads (0, 0, 0) to (31, 0, 0) and (224, 0, 0) to (255, 0, 0) wait" in only(done)
    assert "counts 96 threads, 64 have arrived" in only(done)
    done = execute("barrier_and_spin", 128)
    assert "threads (0, 0, 0) to (31, 0, 0) wait at barrier 0" in only(done)
    done = execute("infinite_spin", 256)
    assert "threads (96, 0, 0) to (127, 0, 0) have ended" in only(done)
