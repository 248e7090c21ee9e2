"""Execution of kernels with warpgroup products, mbarriers, tensor copies and clusters."""

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc, table
from tilewave import execution
from tilewave.basics.errors import BadLaunch, Unsupported
from tilewave.compiling import sass
from tilewave.execution import buffers, case, counters
from tilewave.execution.machine import launch, maps, program
from tilewave.execution.machine.decode import Raw, decode
from tilewave.kernel.launches import MapPlan
from tilewave.theory import opcodes

CASES = table("warpgroups")

pytestmark = needs_nvrtc

FOLDER = ROOT / "tests" / "warpgroup"
ROLES = FOLDER / "gemm_roles.cu"
CEILINGS = ROOT / "kernels" / "probes" / "ceilings_wgmma.cu"
BUDGET = 2_000_000  # warp instructions


def execute(shape, macros, **limits):
    return support.execute(ROLES, shape, macros, instructions=BUDGET, **limits)


def fine(done):
    assert [fault.message for fault in done.faults] == []
    assert done.verdict == "correct", done.reason


LAYOUTS = [
    *({"SWIZZLE": width, "B_LAYOUT": layout} for width in (128, 64, 32, 0) for layout in ("col", "row")),
    {"A_LAYOUT": "col"},
    {"A_LAYOUT": "col", "B_LAYOUT": "row", "CLUSTER": 2},
    {"SWIZZLE": 64, "CLUSTER": 2},
    {"SWIZZLE": 32, "B_LAYOUT": "row", "CLUSTER": 2},
    {"TYPE": "bf16", "CLUSTER": 2},
]  # fmt: skip


@pytest.mark.parametrize("macros", LAYOUTS, ids=lambda macros: "-".join(map(str, macros.values())))
def test_layouts(macros):
    fine(execute("200x136x72", macros))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape, macros", CASES["shapes"])
def test_shapes(shape, macros, reverse):
    """Tails, a single step and several tiles a block are right, with warps in either order."""
    fine(execute(shape, macros, reverse=reverse))


def test_without_looking_for_races():
    fine(execute("200x136x72", {"CLUSTER": 2}, races=False))


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("bug, kinds, message, text", CASES["planted mistakes"])
def test_planted_mistakes(bug, kinds, message, text, cluster):
    done = execute("300x264x200", {"BUG": bug, "BLOCKS": 2, "CLUSTER": cluster})
    assert set(kinds) <= set(done.kinds) <= {*kinds, "uninitialised read"}
    assert any(message in fault.message for fault in done.faults)
    lines = ROLES.read_text().splitlines()
    if text:
        at = {support.line_of(done, fault) for fault in done.faults}
        assert text in "\n".join("\n".join(lines[line - 3 : line + 2]) for line in at)


@pytest.mark.parametrize(
    "bug, threads, verdict, message", CASES["fences of the asynchronous proxy"]
)
def test_fences_of_the_asynchronous_proxy(bug, threads, verdict, message):
    macros = {"BUG": bug, "THREADS": threads}
    outcome = case.run(support.job(FOLDER / "proxies.cu", 256, macros)).result
    assert outcome.verdict == verdict
    faults = [fault["message"] for fault in outcome.notes["faults"]]
    assert message in "".join([*faults, *outcome.notes.get("hints", [])])


def test_unordered_use_of_an_mbarrier():
    done = execute("300x264x200", {"BUG": 7, "BLOCKS": 2})
    assert done.kinds == ["race"]
    assert "uses byte 0 of shared memory" in done.faults[0].message


def test_counts():
    done = execute("256x256x128", {})
    fine(done)
    names = [instruction.opcode for instruction in done.program.instructions]
    values = counters.values(names, done.counts, grid=(4, 1, 1), block=(384, 1, 1))
    operations = 2.0 * 256 * 256 * 128
    assert values["sm__ops_path_tensor_src_fp16.sum"] == operations
    assert values["sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off.sum"] == operations
    assert values["sm__ops_path_tensor_op_hmma_src_fp16_sparsity_off.sum"] == 0
    # The share of mbarriers and tensor copies in these is unknown.
    assert not any("wavefronts_mem_shared" in name and "lsu_wave" in name and "ldgsts" not in name
                   for name in values)  # fmt: skip
    executed, lines = np.asarray(done.counts["executed"]), np.asarray(done.counts["shared_ideal"])
    for index, opcode in enumerate(names):
        if opcodes.base(opcode) == "HGMMA":  # 64 rows of A, 64 columns of B, 32 bytes each
            assert lines[index] * 4 == executed[index] * 32
        if opcodes.base(opcode) == "STSM":
            assert lines[index] == executed[index] * 4
    assert np.array_equal(np.asarray(done.counts["shared_attributed"]), lines)


@pytest.mark.parametrize("name", ["f16_f32", "f16_f16", "bf16_f32", "tf32", "i8", "e4m3", "e5m2"])
def test_types(name):
    """The kernel counts pairs of products that cancel except for 1, of every type of wgmma."""
    job = support.job(CEILINGS, name)
    cubin = Path(job.cubin)
    loaded = program.load(cubin.read_bytes(), job.entry, sass.of_cubin(cubin))
    counted = np.zeros(256, np.int32)
    largest, times = (np.int32(value) for value in (job.probe.scalars["largest"], 4))
    given = [launch.Buffer("counted", counted), largest, times]
    shared = job.launch.shared_bytes
    done = launch.execute(loaded, (1, 1, 1), (256, 1, 1), given, shared_bytes=shared)
    assert [fault.message for fault in done.faults] == []
    assert np.all(counted == 4)


def test_mbarriers():
    done = support.execute(FOLDER / "mbarriers.cu", "all")
    assert [fault.message for fault in done.faults] == []
    # Values of the PTX manual, see the kernel's comments.
    assert done.outputs["seen"][:11].tolist() == [5, 0, 1, 0, 4, 1, 1, 1, 4, 0, 1]
    thread = np.arange(64)
    landed = done.outputs["landed"]
    assert np.array_equal(landed[:64], 3 * (63 - thread) + 3 * (63 - (thread ^ 1)))
    assert np.array_equal(landed[64:], thread)


@pytest.mark.parametrize(("name", "blocks"), [("four", 4), ("two", 2)])
def test_cluster_memory(name, blocks):
    done = support.execute(FOLDER / "cluster_memory.cu", name)
    assert [fault.message for fault in done.faults] == []
    number = np.arange(8)
    rank, cluster = number % blocks, number // blocks
    size, count = np.full(8, blocks), np.full(8, 8 // blocks)
    ranks = done.outputs["ranks"].reshape(8, 6).T
    assert np.array_equal(ranks, [rank, size, cluster, count, rank, size])
    thread = np.arange(64)
    hundreds = sum(100 * (cluster * blocks + block) for block in range(blocks))[:, None]
    read, written = done.outputs["sums"].reshape(2, 8, 64)
    assert np.array_equal(read, hundreds + blocks * (63 - thread))
    assert np.array_equal(written, hundreds + blocks * thread)


def test_async_stores():
    """st.async of one, two and four words reaches the next block; a read without a wait races."""
    done = support.execute(FOLDER / "async_stores.cu", "right")
    assert done.kinds == []
    before, lane, word = np.ogrid[-1:3, 0:32, 0:7]
    got = done.outputs["got"].reshape(4, 32, 7)
    assert np.array_equal(got, 1000 * (before % 4) + 10 * lane + word)
    assert "race" in support.execute(FOLDER / "async_stores.cu", "no_wait").kinds


ENDS = {"relaxed": 0, "waited_before": 8, "waited_elsewhere": 8, "at_once": 0}
ENDS |= dict.fromkeys(("released", "released_for_others", "waited"))
"""Ending of the kernel -> the byte of the mbarrier in the finding."""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("end", "byte"), ENDS.items())
def test_arrivals_at_blocks_that_may_have_ended(end, byte, reverse):
    """Any order of warps and blocks shows such arrivals."""
    path = FOLDER / "cluster_arrivals.cu"
    done = support.execute(path, end, reverse=reverse)
    assert done.outputs["done"].tolist() == [1] * 4
    assert done.kinds == ([] if byte is None else ["race"])
    for fault in done.faults[:1]:
        block = r"block \((\d), 0, 0\)"
        pattern = rf"thread \(32, 0, 0\) of {block} arrives at .* byte {byte} .* {block}, which may have ended"
        match = re.match(pattern, fault.message)
        assert match and int(match[1]) ^ 1 == int(match[2])
        assert "wait there" in fault.message and fault.addresses == [byte]
    assert support.execute(path, end, reverse=reverse, races=False).faults == ()


MAP = MapPlan("map_a", "a", "f16", sizes=(64, 40), box=(64, 8), swizzle=128, l2=128)


@pytest.mark.parametrize("change, message", CASES["maps that no driver makes"])
def test_maps_that_no_driver_makes(change, message):
    fields = {name: tuple(of) if isinstance(of, list) else of for name, of in change.items()}
    tensor_map = replace(buffers.tensor_map(execution.engine(), MAP), **fields)
    kind = Unsupported if message.startswith("rows") else BadLaunch
    with pytest.raises(kind, match=message):
        maps.encoded(tensor_map, 1 << 35, 5120)


def test_launches_that_no_gpu_takes():
    machine = execution.engine()
    with pytest.raises(machine.BadLaunch, match="multiple of the cluster"):
        machine.execute(None, (3, 1, 1), (32, 1, 1), [], cluster=(2, 1, 1))


DECODED = (ROOT / "tests/data/decoded.sass").read_text().splitlines()
NOT_DECODED = (ROOT / "tests/data/not_decoded.sass").read_text().splitlines()


@pytest.mark.parametrize("text", [*DECODED, *NOT_DECODED])
def test_what_is_decoded(text):
    with contextlib.nullcontext() if text in DECODED else pytest.raises(Unsupported):
        decode(Raw(0, *text.split()))
