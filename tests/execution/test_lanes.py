"""Accesses to shared memory, lane by lane: captured, laid out by the rule that counts, drawn."""

import functools
import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import executing_support as support
from samples import ROOT, a_job, needs_nvrtc, shipped
from tilewave.__main__ import main
from tilewave.basics.errors import UserError
from tilewave.commands import lanes
from tilewave.execution import case, engine
from tilewave.execution.lanes import captured, layout
from tilewave.execution.machine.access import Access
from tilewave.execution.machine.capturing import access
from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.pipeline import watching
from tilewave.records.store import Store
from tilewave.report import accesses
from tilewave.theory.wavefronts import shared_wavefronts

TRUTH = Path(__file__).parents[1] / "data" / "truth"
ALL = 0xFFFFFFFF
LANES = range(32)


def shared(kind: str, width: int, addresses: Any, mask: int = ALL) -> Access:
    """Return an access with the counts of the public rule."""
    addresses = [at if mask >> lane & 1 else 0 for lane, at in enumerate(addresses)]
    on = mask >> np.arange(32) & 1 == 1
    op = "ldmatrix" if kind == "matrix" else kind
    wavefronts, _ = shared_wavefronts(addresses, on, width, op)
    ideal = -(-int(on.sum()) * max(width, 4) // 128)
    return access(kind, width, mask, addresses, wavefronts=wavefronts, ideal=ideal)


def drawn(laid: layout.Layout) -> str:
    return accesses.drawn(captured.Diagram("k<1>.cu", 7, '"LDS"', 0, laid))


def banks(cells: Any) -> Counter[int]:
    return Counter(bank for cell in cells for bank in range(cell.bank, cell.bank + cell.banks))


def sound(laid: layout.Layout) -> None:
    """Assert that every lane is served once, no wavefront reads two words of a bank, numbers are in order."""
    assert sorted(lane for row in laid.rows for lane in row.lanes) == laid.access.lanes
    assert all(count == 1 for row in laid.rows for count in banks(row.cells).values())
    assert [row.wavefront for row in laid.rows] == list(range(1, len(laid.rows) + 1))
    assert laid.wavefronts == laid.access.wavefronts


EXAMPLES: dict[str, Any] = {
    # name: access, wavefronts, transactions, lanes of the last row, words of the most wanted bank
    "conflict-free": (("load", 4, [4 * (5 * i % 32) for i in LANES]), 1, 1, range(32), 0),
    "2-way": (("load", 4, [8 * i for i in LANES]), 2, 1, range(16, 32), 2),
    "32-way": (("store", 4, [128 * i for i in LANES]), 32, 1, [31], 32),
    "broadcast": (("load", 4, [64] * 32), 1, 1, range(32), 0),
    "bytes": (("load", 1, list(LANES)), 1, 1, range(32), 0),
    "quarters": (("load", 16, [16 * i for i in LANES]), 4, 4, range(24, 32), 0),
    "merged": (("load", 16, [16 * (i // 2) for i in LANES]), 2, 2, range(16, 32), 0),
    "not merged": (("store", 16, [16 * (i // 2) for i in LANES]), 4, 4, range(24, 32), 0),
    "half a warp": (("load", 8, [8 * i for i in LANES], 0xFFFF), 1, 1, range(16), 0),
    "matrices": (("matrix", 16, [32 * i for i in LANES]), 8, 4, range(28, 32), 2),
    "nobody": (("store", 4, [0] * 32, 0), 0, 0, None, 0),
}


def example(name: str) -> Access:
    return shared(*EXAMPLES[name][0])


@pytest.mark.parametrize("name", EXAMPLES)
def test_accesses_are_laid_out_as_they_are_counted(name: str) -> None:
    _, wavefronts, transactions, last, most = EXAMPLES[name]
    laid = layout.laid_out(example(name))
    sound(laid)
    assert (laid.wavefronts, laid.transactions) == (wavefronts, transactions)
    if last is not None:
        assert laid.rows[-1].lanes == list(last)
    assert max(laid.contended().values(), default=0) == most
    assert sum(row.waits for row in laid.rows) == wavefronts - transactions


def test_a_broadcast_is_a_cell_and_a_wide_access_has_four_banks() -> None:
    (row,) = layout.laid_out(example("broadcast")).rows
    assert row.cells == (layout.Cell(16, 1, tuple(LANES)),)
    first = layout.laid_out(example("quarters")).rows[0]
    assert first.cells == tuple(layout.Cell(4 * i, 4, (i,)) for i in range(8))


def test_every_access_that_an_h200_counted_is_laid_out_so() -> None:
    with np.load(TRUTH / "shared_access_h200.npz") as file:
        truth = {name: file[name].tolist() for name in file}
    for op, width in itertools.product(("load", "store"), (4, 8, 16)):
        cases = zip(*(truth[f"{op}{width}_{part}"] for part in ("shared", "mask", "figures")))
        for addresses, mask, figures in cases:
            laid = layout.laid_out(shared(op, width, addresses, mask))
            sound(laid)
            assert [laid.wavefronts, laid.wavefronts - laid.transactions] == figures


@pytest.mark.parametrize(("kind", "width"), [*(("copy", 4 << n) for n in range(3)), ("bypass", 16)])
def test_copies_are_laid_out_as_nsight_compute_counts_them(kind: str, width: int) -> None:
    name = f"{'cg' if kind == 'bypass' else 'ca'}{width}"
    with np.load(TRUTH / "cp_async_h200.npz") as file:
        columns = [file[f"{name}_{part}"].astype(np.int64) for part in ("shared", "source", "mask")]
        figures = file[f"{name}_figures"]
    for to, origin, mask, (wavefronts, ideal, *_) in list(zip(*columns, figures))[:500]:
        counted = {"wavefronts": int(wavefronts), "ideal": int(ideal)}
        given = {"reading": int(mask), "sources": origin.tolist(), **counted}
        laid = layout.laid_out(access(kind, width, int(mask), to.tolist(), **given))
        assert laid.wavefronts == wavefronts
        served = sorted(lane for row in laid.rows for lane in row.lanes)
        # A copy that bypasses the cache serves one of the lanes with the same address.
        assert served == laid.access.lanes or (kind == "bypass" and len(served) == len(set(served)))


def test_a_copy_through_the_cache_shows_both_sides() -> None:
    strided = access(
        "copy", 4, ALL, [4 * i for i in LANES], reading=ALL, sources=[1024 * i for i in LANES],
        wavefronts=32, ideal=1,
    )  # fmt: skip
    laid = layout.laid_out(strided)
    (row,) = laid.rows
    assert (row.wavefronts, banks(row.sources), len(banks(row.cells))) == (32, Counter({0: 1}), 32)
    assert layout.finding(laid).endswith("32 lanes of a transaction have a bank in common")
    said = "lanes 0-31, cache bank 0 to banks 0-31; lanes with a bank in common take turns"
    assert said in drawn(laid) and "cache banks" in drawn(laid)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "nobody"])
def test_a_drawing_is_well_formed_and_always_the_same(name: str) -> None:
    laid = layout.laid_out(example(name))
    drawing = drawn(laid)
    assert drawing == drawn(layout.laid_out(example(name)))
    assert len(drawing) < 32_000
    root = ElementTree.fromstring(drawing)
    title, description = root.find("title"), root.find("desc")
    assert title is not None and title.text == f'k<1>.cu:7 "LDS": {layout.finding(laid)}'
    assert description is not None
    assert str(description.text).count(": lane") == len(laid.rows)
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    labels = [text.text for text in root.iter("text")]
    assert labels.count("conflict") == sum(row.waits for row in laid.rows)
    cells = list(root.iter("rect"))
    assert len(cells) == sum(len(row.cells) for row in laid.rows)
    assert float(root.get("viewBox", "").split()[2]) == 760


def test_the_finding_is_a_sentence() -> None:
    findings = {name: layout.finding(layout.laid_out(example(name))) for name in EXAMPLES}
    assert findings["conflict-free"] == "1 wavefront, no excess"
    assert findings["2-way"] == "2 wavefronts where 1 would do: 2 words lie in each of 16 banks"
    assert findings["32-way"] == "32 wavefronts where 1 would do: 32 words lie in bank 0"
    assert layout.ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def drawings(rows: Any) -> list[captured.Diagram]:
    return captured.diagrams(rows, lambda address: ("k.cu", address))


def watched(path: Path, case_: Any, macros: Any = None) -> case.CaseExecution:
    return case.run(replace(support.job(path, case_, macros), watch=True), engine())


@needs_nvrtc
@pytest.mark.parametrize("name", ["load_32_conflict", "load_128_conflict", "load_64_one_half"])
def test_a_case_of_a_probe_chooses_its_access(name: str) -> None:
    path = ROOT / "kernels" / "probes" / "shared_access.cu"
    wanted = support.kernel(path).front.cases[name].expect
    rows = captured.of_launches(watched(path, name).ran)
    laid = drawings([row for row in rows if row["opcode"].startswith("LDS")])[0].layout
    assert laid.wavefronts == wanted["wavefronts"]
    assert laid.wavefronts - laid.transactions == wanted["bank_conflicts"]
    sound(laid)


@needs_nvrtc
@pytest.mark.parametrize("kernel", ["matmul_tiled", "matmul_async", "hgemm_wmma_staged"])
def test_watching_changes_no_count_and_the_worst_is_the_worst(kernel: str) -> None:
    path = shipped(kernel)
    done = watched(path, "136x72x40")
    (seen,), (plain,) = done.ran, case.run(support.job(path, "136x72x40"), engine()).ran
    assert not plain.accesses and done.result.verdict == "correct"
    for name, column in seen.counts.items():
        assert np.array_equal(column, plain.counts[name]), name
    assert list(seen.accesses) == np.flatnonzero(seen.counts["shared_requests"]).tolist()
    for drawing in drawings(captured.patterns(seen)):
        assert drawing.layout.wavefronts == drawing.layout.access.wavefronts
    for index, (first, worst) in seen.accesses.items():
        assert worst.wavefronts >= first.wavefronts == layout.laid_out(first).wavefronts
        counted = seen.counts["shared_wavefronts"][index]
        assert worst.wavefronts * seen.counts["shared_requests"][index] >= counted


@needs_nvrtc
def test_the_command_draws_a_line(alone, capsys):
    kernel = str(ROOT / "kernels" / "probes" / "shared_access.cu")
    given = ["execute", kernel, "--case", "load_32_conflict"]
    assert main([*given, "--lanes", "1"]) == 2
    message = capsys.readouterr().err
    assert "--lanes: line 1 " in message and "shared memory" in message
    line = message.rstrip().rpartition(": ")[2].split(", ")[0]
    assert main([*given, "--lanes", line]) == 0
    out, drawing = capsys.readouterr().out, alone / f"shared_access_line_{line}.svg"
    assert f"drawn in {drawing.name}" in out and "\n  wavefront 1, transaction 1: " in out
    ElementTree.parse(drawing)
    assert "<style" in drawing.read_text()
    assert main([*given, "--lanes", f"shared_access.cu:{line}", "--output", "a.svg"]) == 0
    assert (alone / "a.svg").read_text() == drawing.read_text()


def test_the_line_with_the_most_excess_comes_first() -> None:
    places = (5, 0, "broadcast"), (9, 16, "2-way"), (9, 32, "32-way")
    diagrams = captured.worst_first(
        captured.Diagram("k.cu", line, "LDS", address, layout.laid_out(example(kind)))
        for line, address, kind in places
    )
    assert [(drawing.line, drawing.address) for drawing in diagrams] == [(9, 32), (9, 16), (5, 0)]
    assert lanes.at_line(diagrams, "9", "k.cu").address == 32
    with pytest.raises(UserError, match=r"line 6 .* shared memory.*: 5, 9"):
        lanes.at_line(diagrams, "6", "k.cu")
    with pytest.raises(UserError, match=r"no thread .* accesses shared memory"):
        lanes.at_line([], "6", "k.cu")


def launched(*accesses: Access) -> SimpleNamespace:
    """Return a launch with an instruction for each access."""
    code = [SimpleNamespace(opcode="LDS", address=16 * at) for at in range(len(accesses))]
    by_index = {index: (shown, shown) for index, shown in enumerate(accesses)}
    return SimpleNamespace(program=SimpleNamespace(instructions=code), accesses=by_index)


def test_equal_patterns_are_kept_once() -> None:
    def moved(by: int, kind: str = "load") -> Access:
        return shared(kind, 4, [8 * lane + by for lane in LANES])

    alike = launched(moved(0), moved(4), moved(128), moved(0, "store"), moved(256))
    rows = captured.patterns(alike)
    assert [row["sass"] for row in rows] == [[0, 32, 64], [16], [48]]
    again = json.loads(json.dumps(rows))
    lines = {0: 7, 16: 9, 32: 7, 48: 9, 64: 8}
    drawn = captured.diagrams(again, lambda address: ("k.cu", lines[address]))
    # Once for each line of a pattern, the same from JSON as from the machine.
    places = [(drawing.line, drawing.address) for drawing in drawn]
    assert places == [(7, 0), (9, 16), (9, 48), (8, 64)]
    assert drawn[0].layout.access == moved(0)


def test_the_worst_diagram_comes_first() -> None:
    rows = captured.patterns(launched(example("broadcast"), example("2-way"), example("32-way")))
    assert [drawing.layout.access.excess for drawing in drawings(rows)] == [31, 1, 0]


def pipeline(tmp_path: Path, sass: str = "LDS R1, [R2]", recorded: Any = None) -> Any:
    listing, nothing = (sass, {}), lambda *_: None
    compilations = SimpleNamespace(missing_cubin=nothing, provide=nothing)
    compilations.as_compiled = lambda entry: listing
    recording = SimpleNamespace(accesses=recorded, folder=tmp_path) if recorded else None
    return SimpleNamespace(
        store=Store(tmp_path), deterministic=recording, compiled={"k": {"sm_90": {}}}, arch="sm_90",
        variants={"k": None}, compilations=compilations, provide=nothing,
    )  # fmt: skip


@functools.cache
def patterns() -> Any:
    return json.loads(json.dumps(captured.patterns(launched(example("broadcast")))))


JOB = a_job(stage="execute", case="k@256", variant="k", kernel="k", key="ab12", operation="probe")


def test_an_unknown_case_is_watched_once(tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(waiting: Any, finished: Any) -> Any:
        measured.extend(job.case for job in waiting)
        for job in waiting:
            finished(Result.of_job(job, accesses=patterns()))

    for _ in range(2):
        watching.watch(pipeline(tmp_path), [JOB], measure)
    assert measured == ["k@256"]
    document = watching.document(pipeline(tmp_path), [JOB])
    assert document["k@256"]["accesses"] == patterns()
    assert watching.default_variants([JOB, replace(JOB, variant="k-x")]) == [JOB]


@pytest.mark.parametrize("recorded", [False, True])
def test_a_case_without_accesses_or_with_recorded_ones_is_not_watched(tmp_path, recorded) -> None:
    given = {"recorded": {"ab12": patterns()}} if recorded else {"sass": "LDG.E R1, [R2]"}
    watching.watch(pipeline(tmp_path, **given), [JOB], pytest.fail)
    assert bool(watching.document(pipeline(tmp_path, **given), [JOB])) == recorded


@pytest.mark.parametrize(
    ("operation", "sizes", "best"),
    [("matmul", (8, 512, 256), 256), ("matmul", (8, 64), 64), ("vector_add", (8, 512), 8)],
)
def test_the_case_that_is_watched(operation: str, sizes: tuple[int, ...], best: int) -> None:
    cases = [a_job(operation=operation, shape=dict.fromkeys("mnk", size)) for size in sizes]
    assert watching._best(cases).shape["m"] == best


@needs_nvrtc
def test_a_worker_returns_the_accesses_of_a_watched_job() -> None:
    from tilewave.execution import worker

    path = ROOT / "kernels" / "probes" / "shared_access.cu"
    job = replace(support.job(path, "load_32_conflict"), watch=True, key="ab12")
    outcome = worker.run_job(job, engine())
    (row,) = [row for row in outcome.accesses if row["opcode"] == "LDS"]
    assert (outcome.status, outcome.key, row["wavefronts"]) == (result.OK, "ab12", 4)
