"""A launch on several cores has the counts, findings and results of one core."""

import threading

import numpy as np
import pytest
from test_tensor_boxes import FOLDER, LOAD, STORE, THROUGH, boxes, elements

import executing_support as support
from opcodes import harness
from samples import DATA, needs_nvrtc, shipped, table
from tilewave.compiling import sass

pytestmark = [needs_nvrtc, pytest.mark.skipif(sass.disassembler() is None, reason="no nvdisasm")]

CORES = 3
GRID = 64
# Final memory, whether blocks may run at the same time, and the message of the finding.
EXPECTED = {
    "chain": (np.arange(GRID + 1, dtype=np.int32), False,
              "block (1, 0, 0) reads byte 4 (element 1) of x, which block (0, 0, 0) has written"),
    "last": (np.array([GRID - 1], np.int32), False,
             "block (2, 0, 0) writes byte 0 (element 0) of x, which block (1, 0, 0) has written"),
    "same": (np.array([7], np.int32), None, ""),
    "read": (np.array([5] + [1] * (GRID - 1), np.int32), False,
             "block (63, 0, 0) writes byte 0 (element 0) of x, which block (62, 0, 0) has read"),
    "bytes": (np.add.outer(np.arange(GRID), np.arange(5)).astype(np.uint8).reshape(-1), True, ""),
    "copied": (np.ones(2 * GRID, np.int32), True, ""),
    "sum": (np.array([GRID * (GRID - 1) // 2], np.int32), False, ""),
    "flag": (np.array([GRID], np.int32), False, ""),
    "prints": (np.ones(GRID, np.int32), False, ""),
}  # fmt: skip


@pytest.fixture
def spread(monkeypatch):
    """Record how many blocks each launch executed on several cores; 0 for a launch in order.
    Every core has its first blocks before any core goes on."""
    from tilewave.execution.machine import spreading

    done, run, take = [], spreading.run, spreading.RemainingBlocks.take

    def ran(*given):
        meeting, met = threading.Barrier(CORES), threading.local()

        def taken(work):
            blocks = take(work)
            if not hasattr(met, "once"):
                met.once = meeting.wait(support.LIMIT_S)
            return blocks

        monkeypatch.setattr(spreading.RemainingBlocks, "take", taken)
        done.append(run(*given))
        return done[-1]

    monkeypatch.setattr(spreading, "run", ran)
    return done


@pytest.mark.parametrize("name", EXPECTED)
def test_blocks_that_touch_the_same_are_executed_in_order(name, spread):
    from tilewave.execution.machine import launch, program

    file = DATA / ("prints.cu" if name == "prints" else "blocks.cu")
    cubin, listing = harness.compiled(file, "sm_90")
    wanted, spread_over_cores, message = EXPECTED[name]
    loaded = program.load(cubin, name, listing)
    for cores in (CORES, 1):
        values = np.zeros_like(wanted)
        done = launch.execute(
            loaded, (GRID, 1, 1), (32, 1, 1), [launch.Buffer("x", values)],
            limits=launch.Limits(cores=cores, seconds=support.LIMIT_S),
        )  # fmt: skip
        assert np.array_equal(values, wanted) and done.blocks == GRID
        assert [fault.kind for fault in done.faults] == ["race"] * bool(message)
        assert all(message in fault.message for fault in done.faults)
        lines = range(GRID if name == "prints" else 0)
        assert done.printed == tuple(f"{block}\n" for block in lines)
    assert spread_over_cores is None or any(spread) == spread_over_cores


@pytest.mark.parametrize(("kernel", "case", "macros"), table("execution")["independent blocks"])
def test_what_is_independent_is_spread_and_counts_the_same(kernel, case, macros, spread):
    counts_the_same(shipped(kernel), case, macros, spread)


@pytest.mark.parametrize(("rank", "step", "way"), [(3, 1, STORE), (5, 1, THROUGH), (3, 2, LOAD)])
def test_boxes_of_tensor_maps_are_spread_too(rank, step, way, spread, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWAVE_INCLUDE", str(FOLDER))
    path = boxes(tmp_path, rank, step, way, pointer=rank == 3)
    counts_the_same(path, elements(rank), {}, spread)


def counts_the_same(path, case, macros, spread):
    alone = support.execute(path, case, macros)
    assert not spread
    both = support.execute(path, case, macros, cores=CORES)
    assert spread and all(spread)
    assert both.verdict == alone.verdict == "correct"
    for name, counted in alone.counts.items():
        assert np.array_equal(counted, both.counts[name]), name
    for name, left in alone.outputs.items():
        assert left.tobytes() == both.outputs[name].tobytes(), name


@pytest.mark.parametrize("entry", support.expectations(), ids=support.name_of)
def test_findings_are_those_of_one_core(entry):
    file = support.FAULTS / f"{entry['kernel']}.cu"
    given = file, entry["shape"], entry["macros"]
    alone, both = (support.execute(*given, instructions=1 << 17, cores=n) for n in (1, 2))
    assert both.faults == alone.faults and both.verdict == alone.verdict
    assert all(np.array_equal(both.counts[name], alone.counts[name]) for name in alone.counts)


def test_a_limit_holds_for_all_cores_together(spread):
    done = support.execute(shipped("matmul_naive"), "64x64x64", cores=CORES, instructions=1000)
    assert [fault.kind for fault in done.faults] == ["timed out"] and spread == [0]
