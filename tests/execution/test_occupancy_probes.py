"""The probes of the occupancy study and of time: the warps and instructions that their cases name, and right values."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave.compiling import nvrtc
from tilewave.execution import case as execution
from tilewave.execution.case import CaseExecution
from tilewave.kernel.front_matter import Kernel, load_kernel
from tilewave.kernel.variants import Variant, choices
from tilewave.theory.latency import LANES, SCHEDULERS, WARP
from tilewave.theory.occupancy import HOPPER, occupancy

KERNELS = ROOT / "kernels" / "probes"
CHAINS = load_kernel(KERNELS / "occupancy.cu")
TILE = load_kernel(KERNELS / "tile_threads.cu")
PIPES, HOPPER_PIPES, LOADED = (
    load_kernel(KERNELS / f"{name}.cu") for name in ("pipes", "pipes_hopper", "latency_loaded")
)
DEVICE = {"sms": 3, "shared_per_block_optin": 232448, "shared_per_sm": 233472, "l2_bytes": 2**25}


def chosen(kernel: Kernel, name: str) -> Variant:
    return next(choices(kernel, kernel.front.cases[name].macros, kernel.path, name))


@pytest.mark.parametrize("name", CHAINS.front.cases)
def test_a_case_is_what_its_name_says(name: str) -> None:
    variant, case = chosen(CHAINS, name), CHAINS.front.cases[name]
    plan = variant.plan({}, DEVICE)
    fits = occupancy(HOPPER, plan.block[0], 32, plan.shared_bytes)
    assert fits.blocks == variant.names["BLOCKS"], "shared memory admits just these blocks"
    assert fits.blocks * DEVICE["sms"] == plan.blocks, "all are resident at once"
    assert name == f"warps_{fits.warps}_ilp_{variant.names['ILP']}"
    ilp, steps = variant.names["ILP"], int(case.scalars["steps"])
    assert steps % (256 // ilp) == 0 and steps > 256 // ilp
    busy = steps * max(4, -(-fits.warps // SCHEDULERS) * ilp * WARP // LANES)
    assert 0.95 * 2**18 < busy <= 2**18, "cycles of the scheduler with the most warps"
    # Sums are whole numbers that a float holds, and so is every chain on its way.
    assert ilp * (steps + 31) + ilp * (ilp - 1) // 2 < 2**24


def test_64_warps_only_where_they_fit() -> None:
    variant = chosen(CHAINS, "warps_64_ilp_1")
    assert variant.supports({}, {**DEVICE, "arch": 90}) == ""
    assert "BLOCKS" in variant.supports({}, {**DEVICE, "arch": 89})
    assert chosen(CHAINS, "warps_32_ilp_1").supports({}, {**DEVICE, "arch": 75}) == ""


# Three SMs, a chain of 512 steps instead of 65536, 64 of depth instead of 1024, and 512 KB instead of 1 GB.
SHORT = {
    "occupancy": {"sms": "3", "steps: 65536": "steps: 512"},
    "tile_threads": {"sms": "3", "depth: 1024": "depth: 64"},
    "latency_loaded": {
        "sms": "3",
        "4194304": "131072",
        "268435456": "131072",
        "steps: 1024": "steps: 64",
    },
}


def executed(
    folder: Path, kernel: Kernel, name: str, changes: Mapping[str, str] = MappingProxyType({})
) -> CaseExecution:
    """Execute a short case of the kernel, with changes to its text."""
    text = kernel.text
    for old, new in {**SHORT.get(kernel.name, {}), **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    path = folder / kernel.path.name
    path.write_text(text)
    for header, content in kernel.headers.items():
        (folder / header).write_text(content)
    return execution.run(support.job(path, name))


@needs_nvrtc
@pytest.mark.parametrize("name", ["warps_1_ilp_1", "warps_6_ilp_2", "warps_2_ilp_4"])
def test_chains_are_as_long_as_they_should_be(name: str, tmp_path: Path) -> None:
    done = executed(tmp_path, CHAINS, name)
    assert done.result.verdict == "correct", done.result.reason
    names = chosen(CHAINS, name).names
    chains = 3 * WARP * names["BLOCK_WARPS"] * names["ILP"]
    counted = done.values["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"]
    # The work behind the rate: 512 steps of each chain, and almost nothing else.
    assert 512 * chains <= counted <= 512 * chains * 1.01


@needs_nvrtc
@pytest.mark.parametrize("name", TILE.front.cases)
def test_a_tile_is_right_by_either_number_of_threads(name: str, tmp_path: Path) -> None:
    done = executed(tmp_path, TILE, name)
    assert done.result.verdict == "correct", done.result.reason
    fma = done.values["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"]
    assert fma == 512 * 256 * 64, "every multiply-add once"


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "name", "changes"),
    [
        (CHAINS, "warps_1_ilp_1", {"chain, one, steps);": "chain, one, steps - UNROLLED);"}),
        (PIPES, "imad_interval", {"chains[i % CHAINS], one)": "chains[0], one + 1)"}),
        (TILE, "threads_128", {"QUAD + i % QUAD": "QUAD + (i ^ 1) % QUAD"}),
        (TILE, "threads_256", {"keep(b_tile[pair ^ 1])": "keep(b_tile[pair])"}),
        (TILE, "threads_256", {"k < STEP; ++k": "k < STEP - 1; ++k"}),
    ],
)
def test_a_broken_probe_is_not_correct(kernel, name, changes, tmp_path) -> None:
    assert executed(tmp_path, kernel, name, changes).result.verdict not in ("correct", None)


@needs_nvrtc
def test_registers_of_the_two_tiles() -> None:
    for threads, registers in ((128, 180), (256, 128)):
        used = nvrtc.compile_kernel(TILE, "sm_90", {"THREADS": threads}).resources["tile_threads"]
        assert used["registers"] == registers
        assert used["spill_store_bytes"] == used["spill_load_bytes"] == 0
        assert used["static_shared_bytes"] == 32768
        fits = occupancy(HOPPER, threads, used["registers"], used["static_shared_bytes"])
        assert (fits.blocks, fits.warps) == (2, threads // 16)


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "name", "opcode"),
    [
        (PIPES, "ffma_latency", "FFMA"), (PIPES, "prmt_interval", "PRMT"), (PIPES, "mufu_interval", "MUFU.RSQ"),
        (PIPES, "sts16_interval", "STS.128"), (PIPES, "ldsm4_latency", "LDSM.16.M88.4"),
        (PIPES, "hmma16h_interval", "HMMA.16816.F16"), (PIPES, "dmma16_latency", "DMMA.16x8x16"),
        (PIPES, "bar_4", "BAR.SYNC.DEFER_BLOCKING"), (HOPPER_PIPES, "wgmma192_interval", "HGMMA.64x192x16.F32"),
        (HOPPER_PIPES, "mbarrier", "SYNCS.ARRIVE.TRANS64.A1T0"), (HOPPER_PIPES, "bulk1024", "UBLKCP.S.G"),
    ],
)  # fmt: skip
def test_a_probe_of_a_pipe_runs_its_instruction(kernel, name, opcode, tmp_path) -> None:
    done = executed(tmp_path, kernel, name)
    assert done.result.verdict == "correct", done.result.reason
    case, macros = kernel.front.cases[name], chosen(kernel, name).names
    steps = 2 * int(case.scalars["steps"]) * macros.get("CHAINS", 1)
    warps = 1 if opcode.startswith("UBLKCP") else macros.get("WARPS", 4)
    counted = sum(row["executed"] for row in done.rows() if row["opcode"] == opcode)
    assert steps * warps <= counted <= 1.02 * steps * warps


@needs_nvrtc
@pytest.mark.parametrize("name", ["l2_0", "dram_4"])
def test_a_chain_beside_loads_is_followed_to_its_end(name: str, tmp_path: Path) -> None:
    assert executed(tmp_path, LOADED, name).result.verdict == "correct"
