"""wgmma for tf32, bytes and f16 sums, executed: right at the edges of tiles and of k and where a block has several
tiles, and with the same bits whoever schedules them."""

import re

import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave.execution import counters
from tilewave.pipeline import compiling
from tilewave.records.store import Store

pytestmark = [needs_nvrtc, pytest.mark.usefixtures("few")]

KINDS = {"tf32": {"TYPE": "tf32"}, "i8": {"TYPE": "i8"}, "f16": {"TYPE": "f16", "TILE_N": 256}}
RUNGS = [ROOT / "kernels" / "ladder" / f"matmul_wgmma{end}.cu" for end in ("", "_late")]
EVEN, FIT = (ROOT / "kernels" / "ladder" / f"matmul_wgmma_{end}.cu" for end in ("even", "fit"))


def macros(kind, path):
    offered = support.kernel(path).front.macros
    return {name: value for name, value in KINDS[kind].items() if name in offered}


@pytest.mark.parametrize("kind", KINDS)
def test_all_rungs_compute_the_same_bits(kind: str) -> None:
    # Whole waves of cut tiles; two chunks of bytes, which hide no stores, seven of tf32, which hide all.
    runs = []
    for path in RUNGS:
        done = support.right(path, "300x1064x208", macros(kind, path))
        assert not done.counts["shared_conflicts"].any(), path.stem
        rows = counters.instruction_rows(done.program.instructions, done.counts)
        products = [row for row in rows if "GMMA" in row["opcode"]]
        lines = 16 + done.job.launch.tensor_maps[1].box[1] // 4  # of A, and of B, a product
        assert all(4 * row["wavefronts_shared"] == row["executed"] * lines for row in products)
        assert any(row["wavefronts_shared"] for row in products)
        runs.append(done)
    # Widths that leave rests, whose rows lie behind each other in banks that they share.
    if kind != "f16":  # they have no sums of f16
        runs += [support.right(path, "300x1064x208", macros(kind, path)) for path in (EVEN, FIT)]
    support.same_bits(runs)


@pytest.mark.parametrize("kind", KINDS)
def test_products_are_not_serialised_and_nothing_is_spilled(kind: str, tmp_path) -> None:
    for path in RUNGS if kind == "f16" else [*RUNGS, EVEN]:
        chosen = support.choose(path, macros(kind, path))
        support.compiled(chosen, "sm_90")
        known = compiling.Compilations(Store(ROOT / ".tilewave"), None, tmp_path)
        made = known.entry(chosen, "sm_90")
        assert made is not None and not re.search(r"C75\d\d|serializ", made["log"])
        assert made["resources"][path.stem]["spill_store_bytes"] == 0
