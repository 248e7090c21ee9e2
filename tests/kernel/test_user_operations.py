"""Operations beside the matrix product: shipped, user-defined, and written by `tilewave wrap`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import executing_support as support
from samples import DATA, WRAPPED, a_job, kernel_parts, needs_nvrtc, shipped, table, write_kernel
from tilewave import plots
from tilewave.__main__ import main
from tilewave.basics.errors import UserError
from tilewave.commands.wrapping import deriving
from tilewave.kernel import operations
from tilewave.kernel.padding import POISON
from tilewave.pipeline import project

CASES = table("kernel")

PRODUCT = dict.fromkeys(("a", "b", "c", "accumulate"), "f32")


@needs_nvrtc
@pytest.mark.parametrize("name, macros, shape", CASES["shipped kernels of operations"])
def test_shipped_kernels_are_right(name: str, macros: dict[str, str], shape: Any) -> None:
    support.right(shipped(name), shape, macros)


@needs_nvrtc
def test_padding_and_swizzling_take_the_conflicts_away() -> None:
    def excess(name: str, macros: dict[str, Any]) -> int:
        counts = support.execute(shipped(name), "64x64", macros).counts
        return int(np.sum(counts["shared_attributed"]) - np.sum(counts["shared_ideal"]))

    # Of each tile the column loads of 32 warps, 31 wavefronts too many each.
    assert excess("transpose_tiled", {"PAD": 0}) == 4 * 32 * 31
    assert excess("transpose_tiled", {"PAD": 1}) == excess("transpose_swizzled", {}) == 0


@pytest.mark.parametrize(
    ("name", "shape", "dtypes"),
    [
        ("transpose", {"m": 3, "n": 5}, {"a": "f32", "b": "f32"}),
        ("copy", {"n": 7}, {"a": "f16", "b": "f16"}),
        ("vector_add", {"n": 5}, {"a": "f32", "b": "f32", "c": "f32"}),
        ("reduction", {"n": 100}, {"x": "f32", "total": "f32"}),
        ("softmax", {"rows": 2, "columns": 9}, {"x": "f32", "y": "f32"}),
        ("batched_matmul", {"batch": 2, "m": 3, "n": 4, "k": 5}, PRODUCT),
    ],
)
def test_a_single_wrong_element_is_seen(name, shape, dtypes):
    operation = operations.load(name)
    job = a_job(operation=name, shape=shape, dtypes=dtypes, arguments=tuple(dtypes))
    (output,) = (name for name, about in operation.arrays(job).items() if about.written)
    given = operation.inputs(job)
    want = operation.reference(job, given)[output].ravel()
    dtype, count = operation.stored(job, output)
    assert want.size == count
    right = want.astype(dtype)
    assert operation.judge(job, {output: right}).verdict == "correct"
    wrong = right.copy()
    wrong[-1] += dtype.type(0.125)
    judged = operation.judge(job, {output: wrong}, given)
    assert judged.verdict == "wrong" and "1 of" in judged.reason
    wrong[-1] = np.nan
    judged = operation.judge(job, {output: wrong}, given)
    assert "is nan (computed as NaN" in judged.reason
    wrong.view("u1")[-dtype.itemsize :] = POISON
    unwritten = operation.judge(job, {output: wrong}, given).reason
    assert "is nan (never written)" in unwritten or operation.given(job, output)
    assert all(np.isfinite(figure["value"]) for figure in judged.figures)
    assert operation.work(shape, dtypes).bytes > 0


SCALE = (DATA.with_name("operations") / "twice.py").read_text()
FRONT, BODY = kernel_parts("twice")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for variable in ("TILEWAVE_OPERATIONS", "TILEWAVE_PLOTS"):
        monkeypatch.setenv(variable, "")
    (tmp_path / "operations").mkdir()
    yield tmp_path
    operations.MODULES.use([])
    plots.MODULES.use([])


def of(folder: Path, **more: Any) -> project.Project:
    study = {"plot": "correctness", "title": "T", "question": "Q?"}
    study["cases"] = [{"operation": "twice", "shapes": [100]}]
    config = {
        "kernel_folders": [str(folder)], "operation_folders": [str(folder / "operations")],
        "studies": {"own": study}, **more,
    }  # fmt: skip
    return project.load(config, "own.yaml")


@needs_nvrtc
@pytest.mark.parametrize(("factor", "verdict"), [("2", "correct"), ("3", "wrong")])
def test_a_user_defined_operation(folder: Path, factor: str, verdict: str) -> None:
    (folder / "operations" / "twice.py").write_text(SCALE)
    path = write_kernel(folder, "mine", FRONT, BODY.replace("FACTOR", factor))
    assert list(of(folder).plan.cases) == ["mine@100"]
    assert support.execute(path, 100).verdict == verdict
    before = operations.MODULES.code("twice")
    (folder / "operations" / "twice.py").write_text(SCALE.replace("2 x[i]", "two x[i]"))
    assert before and operations.MODULES.code("twice") != before


MISTAKES = yaml.safe_load((DATA.parent / "operation_mistakes.yaml").read_text())


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["says"])
def test_mistakes_are_found_before_the_run(folder: Path, mistake: dict[str, Any]) -> None:
    text = mistake.get("text", SCALE).replace(*mistake.get("change", ("", "", 0)))
    (folder / "operations" / f"{mistake['name']}.py").write_text(text)
    write_kernel(folder, "mine", FRONT, BODY)
    with pytest.raises(UserError, match=mistake["says"]):
        of(folder)


def test_nothing_is_imported_before_it_is_needed(folder: Path) -> None:
    """Operations without a kernel, and those of kernels without a case, are not imported."""
    (folder / "operations" / "twice.py").write_text(SCALE)
    for name in ("other", "unasked"):
        (folder / "operations" / f"{name}.py").write_text("raise SystemExit('imported')\n")
    (folder / "code.py").write_text('"""---' + PYTHON + '---"""\nraise SystemExit("run")\n')
    write_kernel(folder, "mine", FRONT, BODY)
    write_kernel(folder, "third", FRONT.replace("twice", "unasked"), BODY)
    assert list(of(folder).kernels) and "other" in operations.names()


PYTHON = "\ntitle: t\noperation: copy\ndtypes: {a: f32, b: f32}\narguments: [a, b, n]\n"


def test_a_user_defined_figure(folder: Path) -> None:
    (folder / "plots").mkdir()
    (folder / "plots" / "bars.py").write_text("READING = 'A bar.'\nHEADLINE = True\n")
    (folder / "operations" / "twice.py").write_text(SCALE)
    write_kernel(folder, "mine", FRONT, BODY)
    of(folder, plot_folders=[str(folder / "plots")])
    assert "bars" in plots.MODULES.names() and plots.offers("bars", "HEADLINE")
    first = plots.digest("report.figures", "bars")
    (folder / "plots" / "bars.py").write_text("READING = 'Bars.'\n")
    assert plots.digest("report.figures", "bars") != first
    (folder / "plots" / "bars.py").write_text("def draw(:\n")
    study = {"plot": "bars", "title": "T", "cases": [{"operation": "twice", "shapes": [100]}]}
    with pytest.raises(UserError, match=r"bars.py: line 1 is not Python: .*"):
        of(folder, plot_folders=[str(folder / "plots")], studies={"own": study})


NORMS = (WRAPPED / "norms.cu").read_text()
UPDATE = (WRAPPED / "update.cu").read_text()


@needs_nvrtc
def test_a_kernel_is_judged_by_another_of_its_file(alone, capsys) -> None:
    command = "wrap norms.cu --kernel all --reference norm_naive --shape 5x70".split()
    (alone / "norms.cu").write_text(NORMS.replace("OFF", "1.f"))
    assert main([*command, "--yes"]) == 0
    message = "normByWarps: correct at n = 5, c = 70: judged by what norm_naive.cu gave"
    assert message in capsys.readouterr().err
    operation = operations.load("norm_naive")
    operands = {
        name: (each.extents, each.given, each.written) for name, each in operation.operands.items()
    }
    assert operation.dimensions == ("n", "c")
    assert operands == {
        "out": (("n", "c"), False, True), "mean": (("n",), False, True), "inp": (("n", "c"), True, False),
        "weight": (("c",), True, False), "row": (("n",), True, False),
    }  # fmt: skip
    options = ["--shape", "33x40", "--budget", "0", "--operations", "my_operations"]
    assert main(["execute", "norm_by_warps.cu", *options]) == 0
    assert main(["execute", "norm_naive.cu", *options]) == 3
    assert "not checked\n  it is the reference of norm_naive itself" in capsys.readouterr().out
    (alone / "norms.cu").write_text(NORMS.replace("OFF", "1.0001f"))
    assert main(["execute", "norm_by_warps.cu", *options]) == 1
    assert re.search(r"wrong\n .*expected .*judged by what norm_naive", capsys.readouterr().out)
    (alone / "norms.cu").write_text(NORMS.replace("OFF", "1.f").replace("i >= N", "i > N", 1))
    assert main(["execute", "norm_by_warps.cu", *options]) == 3
    message = "not checked\n  its reference norm_naive.cu has no result: invalid access"
    assert message in capsys.readouterr().out


@needs_nvrtc
def test_without_a_reference_nothing_is_checked(alone, capsys) -> None:
    (alone / "steps.cu").write_text(UPDATE)
    command = ["wrap", "steps.cu", "--new-operation", "sgd", "--yes"]
    assert main(command) == 0
    printed = capsys.readouterr().err
    assert "not checked at n = 1200: the operation sgd has no reference" in printed
    assert "decay is __constant__ memory that the host fills: here with .07, ..." in printed
    operands = operations.load("sgd").operands
    assert (operands["p"].stream, operands["p"].written) == (0, True)
    assert (operands["steps"].zeroed, operands["steps"].extents) == (True, (1,))
    assert "arguments: [p, g, steps, n, 0.5]" in (alone / "steps.cu").read_text()
    (alone / "steps.cu").write_text(UPDATE)
    assert main(command) == 2 and "sgd exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ends", "extents"),
    [
        ([80 * 112, 256 * 128, 1280 * 896], ("n", "c")),
        ([112 * 112, 128 * 128, 896 * 896], ("n", "n")),
        ([3 * 80, 3 * 256, 3 * 1280], ("c", 3)),
        ([1, 1, 1], (1,)),
        ([256, 256, 1280], ("c",)),  # a block that does not ask for the end
        ([61440, 61440, 61440], (61440,)),  # of blocks that are always so many
    ],
)
def test_extents_are_the_product_that_was_touched(ends: list[int], extents: tuple[Any]) -> None:
    shapes = [{"n": 112, "c": 80}, {"n": 128, "c": 256}, {"n": 896, "c": 1280}]
    assert deriving._extents(("n", "c"), list(zip(shapes, ends))) == extents


def test_the_operation_and_its_kernel_are_part_of_the_key(alone: Path) -> None:
    from tilewave.kernel.digests import operation_code

    (alone / "my").mkdir()
    front = "/*---\ntitle: t\noperation: mine\narguments: [x, n]\n---*/\n"
    (alone / "naive.cu").write_text(front)
    derived = deriving.DerivedOperation("mine", "naive", "naive.cu", {"n": "n"}, {})
    operand = '        "x": Operand(("n",), written=True),\n    }\n'
    text = derived.text('"../naive.cu"').replace("    }\n", operand)
    (alone / "my" / "mine.py").write_text(text)
    operations.written("mine", [alone / "my"])
    before = operation_code("mine")
    (alone / "naive.cu").write_text(front + "// changed\n")
    assert operation_code("mine") != before
    job = a_job(operation="mine", shape={"n": 4}, dtypes={"x": "f32"}, arguments=("x", "n"))
    assert operations.load("mine").judge(job, {}).verdict == "not checked"
