"""`tilewave wrap --new-operation` and `--reference`: operations that nobody has written."""

import re
from pathlib import Path
from typing import Any

import pytest

from samples import WRAPPED, a_job, needs_nvrtc
from tilewave.__main__ import main
from tilewave.commands.wrapping import deriving
from tilewave.kernel import operations

NORMS = (WRAPPED / "norms.cu").read_text()
UPDATE = (WRAPPED / "update.cu").read_text()


@needs_nvrtc
def test_a_kernel_is_judged_by_another_of_its_file(alone, capsys) -> None:
    words = "wrap norms.cu --kernel all --reference norm_naive --shape 5x70".split()
    (alone / "norms.cu").write_text(NORMS.replace("OFF", "1.f"))
    assert main([*words, "--yes"]) == 0
    told = "normByWarps: correct at 5x70: judged by what norm_naive.cu gave"
    assert told in capsys.readouterr().err
    made = operations.load("norm_naive")
    found = {name: (one.extents, one.given, one.written) for name, one in made.operands.items()}
    assert made.dimensions == ("n", "c")
    assert found == {
        "out": (("n", "c"), False, True), "mean": (("n",), False, True), "inp": (("n", "c"), True, False),
        "weight": (("c",), True, False), "row": (("n",), True, False),
    }  # fmt: skip
    own = ["--shape", "33x40", "--operations", "my_operations"]
    assert main(["execute", "norm_by_warps.cu", *own]) == 0
    assert main(["execute", "norm_naive.cu", *own]) == 0
    assert "not checked\n  it is the reference of norm_naive itself" in capsys.readouterr().out
    (alone / "norms.cu").write_text(NORMS.replace("OFF", "1.0001f"))
    assert main(["execute", "norm_by_warps.cu", *own]) == 1
    assert re.search(r"wrong\n .*expected .*judged by what norm_naive", capsys.readouterr().out)
    (alone / "norms.cu").write_text(NORMS.replace("OFF", "1.f").replace("i >= N", "i > N", 1))
    assert main(["execute", "norm_by_warps.cu", *own]) == 0
    told = "not checked\n  its reference norm_naive.cu says nothing: invalid access"
    assert told in capsys.readouterr().out


@needs_nvrtc
def test_without_a_reference_nothing_is_checked(alone, capsys) -> None:
    (alone / "steps.cu").write_text(UPDATE)
    words = ["wrap", "steps.cu", "--new-operation", "sgd", "--yes"]
    assert main(words) == 0
    told = capsys.readouterr().err
    assert "not checked at 1200: nothing says what sgd must give" in told
    assert "decay is __constant__ and for the host to fill: zero here" in told
    found = operations.load("sgd").operands
    assert (found["p"].stream, found["p"].written) == (0, True)
    assert (found["steps"].zeroed, found["steps"].extents) == (True, (1,))
    assert "arguments: [p, g, steps, n, 0.5]" in (alone / "steps.cu").read_text()
    (alone / "steps.cu").write_text(UPDATE)
    assert main(words) == 2 and "a name that no operation has" in capsys.readouterr().err


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
    from tilewave.kernel.front_matter import operation_code

    (alone / "my").mkdir()
    front = "/*---\ntitle: t\noperation: mine\narguments: [x, n]\n---*/\n"
    (alone / "naive.cu").write_text(front)
    derived = deriving.DerivedOperation("mine", "naive", "naive.cu", {"n": "n"}, {}).text(
        '"../naive.cu"'
    )
    operand = '"x": Operand(("n",), written=True),'
    (alone / "my" / "mine.py").write_text(
        derived.replace("    }\n", f"        {operand}\n    }}\n")
    )
    operations.written("mine", [alone / "my"])
    before = operation_code("mine")
    (alone / "naive.cu").write_text(front + "// changed\n")
    assert operation_code("mine") != before
    job = a_job(operation="mine", shape={"n": 4}, dtypes={"x": "f32"}, arguments=("x", "n"))
    assert operations.load("mine").judge(job, {}).verdict == "not checked"
