"""Operations beside the matrix product: those shipped, and those of a user's own folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executing_support as support
from samples import a_job, kernel_parts, needs_nvrtc, shipped, write_kernel
from tilewave import plots
from tilewave.basics.errors import UserError
from tilewave.kernel import operations
from tilewave.pipeline import project

PRODUCT = dict.fromkeys(("a", "b", "c", "accumulate"), "f32")


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "macros", "shape"),
    [
        ("copy", {}, 1000),
        ("transpose_naive", {}, "37x50"),
        ("transpose_tiled", {"PAD": 0}, "37x50"),
        ("transpose_tiled", {"PAD": 1}, "37x50"),
        ("transpose_swizzled", {}, "36x52"),
        ("reduction_atomic", {"ADDS": "thread"}, 1000),
        ("reduction_atomic", {"ADDS": "warp"}, 1000),
        ("reduction_atomic", {"ADDS": "block"}, 1000),
        ("reduction_ordered", {}, 5000),
        ("softmax_passes", {}, "3x300"),
        ("softmax_online", {}, "3x300"),
        ("batched_naive", {"REAL": "f64"}, "2x17x20x9"),
        ("batched_tiled", {"REAL": "f32"}, "2x17x20x9"),
    ],
)
def test_shipped_kernels_are_right(name: str, macros: dict[str, str], shape: Any) -> None:
    support.right(shipped(name), shape, macros)


@needs_nvrtc
def test_padding_and_swizzling_take_the_conflicts_away() -> None:
    def excess(name: str, macros: dict[str, Any]) -> int:
        done = support.execute(shipped(name), "64x64", macros)
        counts = done.counts
        return int(np.sum(counts["shared_attributed"]) - np.sum(counts["shared_ideal"]))

    # Of each tile the column loads of 32 warps, 31 wavefronts too many each.
    assert excess("transpose_tiled", {"PAD": 0}) == 4 * 32 * 31
    assert excess("transpose_tiled", {"PAD": 1}) == excess("transpose_swizzled", {}) == 0


@pytest.mark.parametrize(
    ("name", "shape", "dtypes"),
    [
        ("transpose", {"m": 3, "n": 5}, {"a": "f32", "b": "f32"}),
        ("copy", {"n": 7}, {"a": "f16", "b": "f16"}),
        ("reduction", {"n": 100}, {"x": "f32", "total": "f32"}),
        ("softmax", {"rows": 2, "columns": 9}, {"x": "f32", "y": "f32"}),
        ("batched_matmul", {"batch": 2, "m": 3, "n": 4, "k": 5}, PRODUCT),
    ],
)
def test_one_element_that_is_off_is_seen(name, shape, dtypes):
    operation = operations.load(name)
    job = a_job(operation=name, shape=shape, dtypes=dtypes, arguments=tuple(dtypes))
    (output,) = (one for one, about in operation.arrays(job).items() if about.written)
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
    assert operation.work(shape, dtypes).bytes > 0


SCALE = '''\
"""y[i] = 2 x[i]."""

from typing import ClassVar

from tilewave.kernel.operations.base import Operand, Operation


class Twice(Operation):
    dimensions = ("n",)
    operands: ClassVar = {"x": Operand(("n",), stream=0), "y": Operand(("n",), written=True)}

    def reference(self, job, given, alpha=1.0, beta=0.0):
        return {"y": 2 * self.wide(job, "x", given["x"])}
'''
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
def test_an_operation_of_ones_own(folder: Path, factor: str, verdict: str) -> None:
    (folder / "operations" / "twice.py").write_text(SCALE)
    path = write_kernel(folder, "mine", FRONT, BODY.replace("FACTOR", factor))
    made = of(folder)
    assert list(made.plan.cases) == ["mine@100"]
    assert support.execute(path, 100).verdict == verdict
    before = operations.MODULES.code("twice")
    (folder / "operations" / "twice.py").write_text(SCALE.replace("2 x[i]", "two x[i]"))
    assert before and operations.MODULES.code("twice") != before


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("twice", "import nothing_of_that_name\n", "twice.py: import: found .ModuleNotFoundError"),
        ("twice", "x = 1\n", r"twice.py: operation: found \[\].*one class"),
        ("matmul", SCALE, "matmul.py: operation: found 'matmul'"),
        ("thrice", SCALE, r"mine.cu:3: operation: found 'twice'.*'thrice'"),
        ("twice", ('("n",)\n', '"n"\n'), "twice.py: dimensions: found 'n'"),
        ("twice", ('Operand(("n",), stream', 'Operand(("m",), stream'), "twice.py: operands.x: found 'm'"),
        ("twice", (", written=True", ""), "twice.py: operands: found .*written=True"),
        ("twice", ("def reference", "def other"), "twice.py: reference: found nothing"),
        ("twice", ("given[", "given.values["), r"twice.py:13: reference: found .*TypeError"),
        ("twice", ('{"y"', '{"z"'), r"twice.py: reference: found {'z': \(100,\)}.*y of shape \(100,\)"),
        ("twice", ('given["x"])}', 'given["x"])[1:]}'), r"twice.py: reference: found {'y': \(99,\)}"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_the_run(folder, name, text, said):
    """With the file; a pair is what is replaced in an operation that is right."""
    text = text if isinstance(text, str) else SCALE.replace(*text)
    (folder / "operations" / f"{name}.py").write_text(text)
    write_kernel(folder, "mine", FRONT, BODY)
    with pytest.raises(UserError, match=said):
        of(folder)


def test_nothing_is_imported_before_it_is_needed(folder: Path) -> None:
    """Neither what no kernel names nor the operation of a kernel that no case asks for."""
    (folder / "operations" / "twice.py").write_text(SCALE)
    for name in ("other", "unasked"):
        (folder / "operations" / f"{name}.py").write_text("raise SystemExit('imported')\n")
    (folder / "code.py").write_text('"""---' + PYTHON + '---"""\nraise SystemExit("run")\n')
    write_kernel(folder, "mine", FRONT, BODY)
    write_kernel(folder, "third", FRONT.replace("twice", "unasked"), BODY)
    assert list(of(folder).kernels) and "other" in operations.names()


PYTHON = "\ntitle: t\noperation: copy\ndtypes: {a: f32, b: f32}\narguments: [a, b, n]\n"


def test_a_figure_of_ones_own(folder: Path) -> None:
    (folder / "plots").mkdir()
    (folder / "plots" / "bars.py").write_text("READING = 'A bar.'\nHEADLINE = True\n")
    (folder / "operations" / "twice.py").write_text(SCALE)
    write_kernel(folder, "mine", FRONT, BODY)
    of(folder, plot_folders=[str(folder / "plots")])
    assert "bars" in plots.available() and plots.is_headline("bars")
    first = plots.digest("report.figures", "bars")
    (folder / "plots" / "bars.py").write_text("READING = 'Bars.'\n")
    assert plots.digest("report.figures", "bars") != first
    (folder / "plots" / "bars.py").write_text("def draw(:\n")
    study = {"plot": "bars", "title": "T", "cases": [{"operation": "twice", "shapes": [100]}]}
    with pytest.raises(UserError, match=r"bars.py: line 1: found .*; allowed: Python"):
        of(folder, plot_folders=[str(folder / "plots")], studies={"own": study})
