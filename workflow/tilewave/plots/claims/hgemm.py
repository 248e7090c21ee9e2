"""The article on a tensor-core HGEMM."""

from __future__ import annotations

import numpy as np

from tilewave.plots.claims.asked import F16, STAGED, TILE, speedup
from tilewave.plots.claims.facts import Facts, divided
from tilewave.plots.claims.judging import Claim
from tilewave.plots.claims.warp import LANES, rules
from tilewave.theory.data_sheets import RTX_4060

DOCUMENT = "Tensor-core HGEMM article"

STAGED_ROW = 2 * (32 + 8)  # bytes from one row to the next in shared memory


def _padded_ldmatrix(f: Facts) -> float:
    """Wavefronts over those without conflicts of an ldmatrix.x4 on padded rows."""
    rows = LANES % 16 * STAGED_ROW + LANES // 16 * 16
    wavefronts, conflicts = rules().shared_wavefronts(rows, np.ones(32, bool), 16, "ldmatrix")
    return float(wavefronts / (wavefronts - conflicts))


def _padded_copies(f: Facts, k: int = 2048) -> float:
    """Wavefronts over the ideal of a warp's cp.async.cg of eight rows of 64 bytes into padded rows.

    The mean over a block's copies of a stage, whose rows begin at different banks.
    """
    memory, everyone = rules(), np.ones(32, bool)
    counted, ideal = 0, 0
    for first in range(0, sum(TILE), 8):
        row = first + LANES // 4
        shared = row * STAGED_ROW + LANES % 4 * 16
        source = row * k * F16 + LANES % 4 * 16
        counted += int(memory.async_copy_wavefronts(shared, source, everyone, 16, "cg"))
        ideal += int(memory.async_copy_ideal(shared, source, everyone, 16, "cg"))
    return counted / ideal


def _over_ideal(f: Facts, opcode: str) -> float | None:
    case = f.case(STAGED, 2048)
    return divided(
        f.value(case, f"wavefronts_shared_{opcode}"),
        f.value(case, f"wavefronts_shared_ideal_{opcode}"),
    )


def _l2_misses(f: Facts, variant: str) -> float | None:
    """Sectors that L1 asked L2 for and that were not there."""
    case = f.case(variant, 4096)
    asked, hit = (
        f.value(case, f"lts__t_sectors_srcunit_tex{ending}.sum") for ending in ("", "_lookup_hit")
    )
    return None if asked is None or hit is None else asked - hit


CLAIMS = [
    Claim(
        "ca_evicts", DOCUMENT, "instructions", ".ca evicts from L2",
        "cp.async.ca evicts from L2 what it has copied, and so reads more from DRAM than .cg",
        1, "times, DRAM bytes read", relation="more than", tolerance=0.05,
        measured=lambda f: f.ratio(
            "dram__bytes_read.sum", f.case("hgemm_wmma_staged-copyca", 4096), f.case(STAGED, 4096)
        ),
    ),
    Claim(
        "ca_misses", DOCUMENT, "instructions", ".ca misses L2 more often",
        "As .ca evicts from L2, more of its copies' sectors miss L2 than of .cg's",
        1, "times, sectors", relation="more than", tolerance=0.05,
        measured=lambda f: f.together(
            divided(_l2_misses(f, "hgemm_wmma_staged-copyca"), _l2_misses(f, STAGED))
        ),
    ),
    Claim(
        "padding_reads", DOCUMENT, "chunks", "Padding, reads (LDSM)",
        "8 halves of padding free the fragments' reads of conflicts",
        1, "of the ideal wavefronts", tolerance=0.001,
        predicted=_padded_ldmatrix, measured=lambda f: _over_ideal(f, "LDSM"),
    ),
    Claim(
        "padding_copies", DOCUMENT, "chunks", "Padding, copies (LDGSTS)",
        "It frees every access to A and B in shared memory, the copies into it too",
        1, "of the ideal wavefronts", tolerance=0.001,
        predicted=_padded_copies, measured=lambda f: _over_ideal(f, "LDGSTS"),
    ),
    Claim(
        "padding_gain", DOCUMENT, "chunks", "Padding gains",
        "The padding makes the kernel faster",
        1, "times, throughput", relation="more than", tolerance=0.02,
        measured=speedup(STAGED, "hgemm_wmma_staged-skew0"),
    ),
    Claim(
        "three_stages", DOCUMENT, "three-stage pipeline", "Third stage gains",
        "A third buffer hides more of the memory's latency than two do",
        1, "times, throughput", relation="more than", tolerance=0.02,
        measured=speedup(STAGED, "hgemm_wmma_staged-stages2"),
    ),
    Claim(
        "shared_bytes", DOCUMENT, "shared memory", "Shared memory of a block",
        "The pipeline asks for the larger of the chunks' and the output's shared memory",
        max((256 + 128) * (2 * 16 + 8) * 2 * 3, 256 * (128 + 8) * 2), "bytes",
        told="for 256 x 128",
        measured=lambda f: f.value(f.case(STAGED, 2048), "launch__shared_mem_per_block_dynamic"),
    ),
    Claim(
        "rate_4060", DOCUMENT, "end", "61 TFLOP/s on an RTX 4060",
        "The kernel reaches 61 TFLOP/s on an RTX 4060",
        61, "TFLOP/s", tolerance=0.05, basis="limit",
        predicted=lambda f: RTX_4060.machine.flop_rate / 1e12,
    ),
    Claim(
        "share_of_cublas", DOCUMENT, "introduction and end", "Share of cuBLAS",
        "With asynchronous copies the compute units are used to the full (as cuBLAS uses them)",
        100, "% of cuBLAS", relation="at least", tolerance=0.05,
        measured=lambda f: f.value(f.case(STAGED, 4096), "percent_of_cublas"),
    ),
]  # fmt: skip
