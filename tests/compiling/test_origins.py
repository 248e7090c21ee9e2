"""Origins of instructions: lines of the kernel file and its headers, and the calls between."""

import functools
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fake_machine import Fault
from samples import ROOT, write_kernel
from tilewave.compiling import origins, sass
from tilewave.compiling.origins import Origin
from tilewave.execution.places import Places, described
from tilewave.kernel.front_matter import Kernel, load_kernel
from tilewave.kernel.variants import Variant
from tilewave.pipeline.compiling import Compilations
from tilewave.pipeline.tables import instructions_table
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store
from tilewave.report import kernel_code

TEXTS = {"k.cu": "// 1\nrun();\nown();", "sub/tile.cuh": "// 1\ncopy();\nasm(1);"}
LISTING = (ROOT / "tests/data/inlined.sass").read_text()
COPY = Origin("tile.cuh", 3, "asm(1);", "k.cu:2 < tile.cuh:2", 2)


def test_an_instruction_belongs_to_the_innermost_line_of_the_kernels_files() -> None:
    by_address = origins.of_listing(LISTING, "k", TEXTS)
    assert by_address == {
        0x10: COPY,
        0x20: COPY,
        0x30: Origin("k.cu", 3, "own();", "k.cu:2", 3),  # CUDA's header belongs to its caller
        0x40: Origin("k.cu", 1, "// 1", "", 1),
    }
    assert origins.of_listing(LISTING, "other", TEXTS) == {}
    assert [instruction.line("k.cu") for instruction in sass.parse(LISTING)] == [0, 2, 2, 3, 1, 0]


def test_places_say_the_same_without_the_code() -> None:
    places = sass.places(LISTING)
    for function in ("k", "other", "none"):
        assert sass.chains(places, function) == sass.chains(LISTING, function)
        sides, wanted = (origins.of_listing(text, function, TEXTS) for text in (places, LISTING))
        assert sides == wanted
    moved = {"k.cu": {2: 5}}
    assert sass.places(sass.relined(LISTING, moved)) == sass.relined(places, moved)
    assert "LDS" not in places and len(places) < len(LISTING) / 2


def test_places_name_a_headers_line_and_its_calls(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#include "tile.cuh"\nrun();\n')
    (tmp_path / "tile.cuh").write_text(TEXTS["sub/tile.cuh"])
    places = Places(tmp_path / "k.cu", "k", LISTING)
    message = f"line 3 of {tmp_path / 'tile.cuh'}, called at k.cu:2 < tile.cuh:2"
    assert places.at(0x20) == message and places(0x20) == COPY
    assert places.at(0x40) == f"line 1 of {tmp_path / 'k.cu'}"
    fault = Fault("race", -1, "which warp 1 writes (LDGSTS.E at SASS address 0x0020)")
    message = described(fault, (), places)["message"]
    assert "(LDGSTS.E at line 3 of tile.cuh, called at k.cu:2 < tile.cuh:2, SASS" in message


def test_a_function_that_is_called_names_its_calls(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("run();\nfunction();\n")
    called = """
.text.k:
\t//## File "/kernels/k.cu", line 1
        /*0000*/                   CALL.REL.NOINC `($k$f) ;
\t//## File "/kernels/k.cu", line 4
        /*0010*/                   CALL.REL.NOINC `($k$f) ;
$k$f:
\t//## File "/kernels/k.cu", line 2
        /*0020*/                   STS [R1], R2 ;
"""
    places = Places(tmp_path / "k.cu", "k", called)
    assert places.at(0x20) == f"line 2 of {tmp_path / 'k.cu'}, called at k.cu:1 or k.cu:4"
    assert places.via(0x00) == ""


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    (tmp_path / "tile.cuh").write_text(TEXTS["sub/tile.cuh"])
    loaded = load_kernel(write_kernel(tmp_path))
    return replace(loaded, path=tmp_path / "k.cu", text='#include "tile.cuh"\nrun();\nown();')


def test_lines_have_their_counts_and_those_of_calls(kernel: Kernel) -> None:
    places = origins.of_listing(LISTING, "k", TEXTS)
    case_fields = {"case": "k@1", "stage": "counters", "source": "counters", "environment": "e"}
    rows = [
        case_fields | {"address": at, "opcode": opcode, "executed": 4, "wavefronts_shared": shared,
                "wavefronts_shared_excess": excess} | vars(places.get(at, origins.NOWHERE))
        for at, opcode, shared, excess in
        ((0, "LDC", None, None), (0x10, "LDS", 0, 0), (0x20, "LDGSTS.E", 16, 12), (0x30, "LDS", 4, 0))
    ]  # fmt: skip
    table = pd.DataFrame([*rows, rows[2] | {"stage": "execute"}])
    rows = kernel_code.rows_of(table, "k@1", table.iloc[:0])
    assert kernel_code.rows_of(table, "k@2", table.iloc[:0]).empty
    source, header = kernel_code.source(kernel, rows).items()
    assert [source[0], header[0]] == ["k.cu", "tile.cuh"]
    copy, run, call = header[1][2], source[1][1], source[1][2]
    assert copy.text == "asm(1);" and (copy.counts["executed"], copy.counts["excess"]) == (8, 12)
    assert "sectors" not in copy.counts and "called executed" not in copy.counts
    assert run.counts["called excess"] == 12 and "executed" not in run.counts
    assert call.counts["wavefronts"] == 4
    code = kernel_code.machine_code(kernel, LISTING, "k", rows)
    assert [counts.get("wavefronts") for _, _, counts in code] == [None, 0, 16, 4, None]
    assert code[2][1] == COPY and code[4][0].text == "EXIT"


def test_matmul_asyncs_excess_belongs_to_a_copy_of_4_bytes(tmp_path: Path) -> None:
    recorded = Recorded(next(iter(folders(ROOT / "resources" / "recorded"))))
    variant = Variant(load_kernel(ROOT / "kernels" / "ladder" / "matmul_async.cu"), ())
    compilations = Compilations(Store(tmp_path), recorded, tmp_path)
    entry = recorded.compiled["matmul_async.sm_90"]
    outcome = recorded.get("counters", "matmul_async@4096x4096x4096")
    results = [replace(outcome, source=f"recorded:{recorded.name}")]
    of = functools.partial(compilations.origins, variant, entry)
    table = instructions_table(results, recorded, lambda _, function: of(function))
    lines = variant.kernel.text.splitlines()
    called = next(at for at, line in enumerate(lines, 1) if "sgemm::run" in line)
    body = next(at for at, line in enumerate(lines, 1) if line.startswith('extern "C"'))
    assert set(table["kernel_line"]) < set(range(body, len(lines) + 1))
    assert set(table["line"]) != {0}
    excess = table[table["wavefronts_shared_excess"] > 0]
    assert set(excess["file"]) == {"sgemm_tile.cuh"}
    sums = excess.groupby("text")["wavefronts_shared_excess"].sum()
    # Copies before the loop have a bounds check, which is another line.
    assert all("cp.async.ca.shared.global [%0], [%1], %2" in text for text in sums.index)
    (copy,) = [text for text in sums.index if "%3" not in text]
    assert sums[copy] == 50_135_040
    assert all(via.startswith(f"matmul_async.cu:{called} < ") for via in excess["via"])
