"""The rungs for few rows, few columns and few tiles: the large operand is read once, no access conflicts, nothing is
spilled, and blocks or teams without a piece of k do no harm.
"""

from typing import Any

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave import execution, operations
from tilewave.execution import case

pytestmark = needs_nvrtc

KERNELS = ROOT / "kernels"
SECTOR_BYTES = 32
REALS = {"f32": 4, "f64": 8}


def right_without_conflicts(name: str, shape: str, macros: dict[str, Any]) -> Any:
    done = support.right(KERNELS / f"{name}.cu", shape, macros)
    assert done.counts["shared_wavefronts"].sum() == done.counts["shared_ideal"].sum() > 0
    return done


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("name", ["matmul_few_rows", "matmul_few_columns"])
def test_the_large_operand_is_read_once_and_nothing_conflicts(name: str, real: str) -> None:
    m, n, k = (16, 128, 512) if name == "matmul_few_rows" else (64, 16, 1024)
    done = right_without_conflicts(name, f"{m}x{n}x{k}", {"REAL": real})
    copies = [one.opcode.startswith("LDGSTS") for one in done.program.instructions]
    tiles = 2 if real == "f32" else 4  # each of which reads the small one
    elements = (max(m, n) + min(m, n) * tiles) * k
    assert done.counts["global_sectors"][copies].sum() == elements * REALS[real] // SECTOR_BYTES


# Lanes that share a k, and rows of B that are no power of two.
@pytest.mark.parametrize("columns", [24, 32, 48])
def test_wider_tiles_have_no_conflicts(columns: int) -> None:
    right_without_conflicts("matmul_few_columns", f"40x{columns}x192", {"COLUMNS": columns})


# Rows that are not aligned, edges in both directions, fewer chunks of k than blocks and teams.
@pytest.mark.parametrize(
    ("name", "shape", "macros"),
    [
        ("matmul_few_rows", "19x67x53", {"REAL": "f32"}),
        ("matmul_few_rows", "17x66x334", {"REAL": "f64"}),
        ("matmul_few_rows", "33x67x335", {"REAL": "f64", "ROWS": 32}),
        ("matmul_few_rows", "23x130x334", {"REAL": "f32", "ROWS": 24}),
        ("matmul_few_columns", "129x19x53", {"REAL": "f64"}),
        ("matmul_few_columns", "33x20x396", {"REAL": "f32"}),
        ("matmul_few_columns", "33x35x397", {"REAL": "f32", "COLUMNS": 32}),
        ("matmul_few_columns", "41x19x396", {"REAL": "f32", "COLUMNS": 24}),
        ("matmul_few_columns", "41x50x197", {"REAL": "f32", "COLUMNS": 48}),
        ("matmul_few_columns", "33x20x397", {"REAL": "f32", "SPLITS": 3, "COLUMNS": 24}),
        ("matmul_few_rows", "23x130x334", {"REAL": "f32", "SPLITS": 5, "ROWS": 24}),
        ("matmul_dmma_teams", "65x67x21", {}),
        ("matmul_cluster", "65x66x21", {"SPLITS": 2}),
        ("matmul_cluster", "65x66x21", {"SPLITS": 1, "TILE_N": 64}),
    ],
)
def test_edges_and_short_sums_are_right(name: str, shape: str, macros: dict[str, Any]) -> None:
    support.right(KERNELS / f"{name}.cu", shape, macros)


def test_teams_read_shared_memory_without_conflicts_or_spills() -> None:
    path = KERNELS / "matmul_dmma_teams.cu"
    done = support.right(path, "64x64x96", {})
    assert not done.counts["shared_conflicts"].any()
    made = support.entry(support.choose(path), "sm_90")
    assert made["resources"]["matmul_dmma_teams"]["spill_store_bytes"] == 0


# One tile that all blocks share; two of which a block has a part of each; tiles that were dealt out before whole ones.
@pytest.mark.parametrize(
    ("name", "sms", "shape", "macros"),
    [
        ("matmul_two_launches", 132, "129x67x530", {}),
        ("matmul_two_launches", 3, "100x300x200", {}),
        ("matmul_two_launches", 2, "513x130x24", {}),
        ("matmul_two_launches", 132, "70x66x2200", {"TILE_M": 64, "TILE_N": 64, "PAIRS": 1}),
        ("matmul_wgmma_two_launches", 132, "70x168x320", {"TILE_N": 160, "SPLITS": 2}),
        ("matmul_dmma_two_launches", 132, "65x67x300", {}),
        ("matmul_dmma_two_launches", 4, "200x130x100", {"TEAMS": 1, "PARTS": 3, "OVERLAP": 1}),
        ("matmul_dmma_two_launches", 132, "65x66x300", {"TILE_M": 128, "WARP_M": 64, "OVERLAP": 1}),
        ("matmul_dmma_two_launches", 132, "97x95x333", {"TILE_M": 96, "TILE_N": 96, "WARP_M": 48}),
        (
            "matmul_dmma_two_launches",
            132,
            "17x19x3003",
            {"TEAMS": 8, "TILE_M": 32, "TILE_N": 32, "STAGES": 3},
        ),
    ],
)
def test_parts_are_added_wherever_they_were_dealt_out(
    monkeypatch: pytest.MonkeyPatch, name: str, sms: int, shape: str, macros: dict[str, Any]
) -> None:
    support.with_sms(monkeypatch, sms)
    job = support.job(KERNELS / f"{name}.cu", shape, macros)
    # The launch that adds has them as arguments, not the one that leads.
    assert len(operations.load("matmul").runs(job)) == 2
    done = case.run(job, execution.engine()).result
    assert (done["status"], done["verdict"]) == ("ok", "correct"), done
