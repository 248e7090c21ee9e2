"""Races in global memory and between the lanes of a warp (tests/data/kernels/races.cu)."""

import re

import numpy as np
import pytest

from opcodes import harness
from samples import DATA, needs_nvrtc
from tilewave.execution.machine import launch, program
from tilewave.execution.places import Places

pytestmark = needs_nvrtc

FILE = DATA / "races.cu"
KERNELS = re.findall(r"^KERNEL (\w+)(.*?)^(?=KERNEL|#|\Z)", FILE.read_text(), re.M | re.S)


def faults(name, arch, reverse=False):
    cubin, listing = harness.compiled(FILE, arch)
    loaded = program.load(cubin, name, listing)
    buffers = [launch.Buffer(buffer, np.zeros(256, np.int32)) for buffer in "xy"]
    limits = launch.Limits(2_000_000, reverse=reverse)
    done = launch.execute(loaded, (2, 1, 1), (64, 1, 1), buffers, limits=limits)
    places = Places(FILE, name, listing)
    address = [instruction.address for instruction in loaded.instructions]
    lines = {places(address[at]).line for fault in done.faults for at in (fault.index, fault.other)}
    return done.faults, lines


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", [name for name, _ in KERNELS])
def test_races(name, arch):
    text = FILE.read_text().splitlines()
    body = dict(KERNELS)[name]
    first = next(n for n, line in enumerate(text, 1) if line.startswith(f"KERNEL {name}("))
    lines = range(first, first + body.count("\n"))
    marked = {line for line in lines if re.search("// [AB]", text[line - 1])}
    for reverse in (False, True):
        races, lines = faults(name, arch, reverse)
        if name.startswith("right_"):
            assert not races, [fault.message for fault in races]
            continue
        assert {fault.kind for fault in races} == {"race"} and lines == marked
        assert all("SASS address" in fault.message for fault in races)


def test_a_barrier_that_a_thread_did_not_come_to_is_explained():
    (fault,) = faults("left", "sm_90")[0]
    assert "returned without coming to a barrier" in fault.message


def test_a_stray_pointer_is_in_no_buffer_and_no_shared_memory():
    (fault,) = faults("stray", "sm_90")[0]
    assert fault.kind == "invalid access"
    assert "the first at -0x3fd, which is in none of the buffers" in fault.message
