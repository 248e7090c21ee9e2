"""Kernels with a planted mistake (tests/faults): the executor has to name its kind and its line."""

import pytest

import executing_support as support
from tilewave.compiling import nvrtc
from tilewave.variants import choices

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available() or "NVRTC")

FAULT_KINDS = {"invalid access", "race", "uninitialised read", "barrier", "timed out"}
TOOLS = {"memcheck", "racecheck", "initcheck", "synccheck", None}
ENDLESS_S = 3.0  # of a case that never ends: long enough to meet the mistake
ENTRIES = support.expectations()
PATHS = sorted(support.FAULTS.glob("*.cu"))


def path(entry):
    return support.FAULTS / f"{entry['kernel']}.cu"


def every(arch):
    return [pytest.param(entry, arch, id=f"{support.name_of(entry)}-{arch}") for entry in ENTRIES]


def test_every_kernel_has_an_expectation():
    assert {entry["kernel"] for entry in ENTRIES} == {one.stem for one in PATHS}
    for entry in ENTRIES:
        assert set(entry["kind"]) <= FAULT_KINDS | {"wrong", "correct"}, entry
        assert entry["tool"] in TOOLS, entry
        if entry["kind"] != ["correct"]:
            assert support.marked(path(entry), entry["lines"]), f"{entry['kernel']}: no line marked"


@pytest.mark.parametrize("arch", support.ARCHITECTURES)
def test_compile(arch):
    for one in PATHS:
        for chosen in choices(support.kernel(one), "one_at_a_time", one, "macros"):
            chosen.try_out()
            assert support.compiled(chosen, arch).stat().st_size > 0


@pytest.mark.parametrize("entry,arch", [*every("sm_80"), *every("sm_90")])
def test_fault(entry, arch):
    pytest.importorskip("tilewave.machine.executor")
    limits = {"seconds": ENDLESS_S} if "timed out" in entry["kind"] else {}
    done = support.execute(path(entry), entry["shape"], entry["macros"], arch, **limits)
    said = [(fault.kind, fault.message) for fault in done.faults]
    if not done.faults:
        assert done.verdict in entry["kind"], f"no fault, and the result is {done.verdict}"
        return
    assert set(done.kinds) <= set(entry["kind"]), said
    lines = [support.line_of(done, fault) for fault in done.faults]
    wanted = support.marked(path(entry), entry["lines"])
    assert set(lines) & wanted, f"lines {lines}, marked {sorted(wanted)}: {said}"
    for fault in done.faults:
        assert fault.message and ".cu" not in fault.message
        assert fault.threads, fault
        if fault.kind in ("invalid access", "race", "uninitialised read"):
            assert fault.addresses, fault
