"""Verdicts and reasons on a kernel's errors, by the instructions that it has."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_machine
from samples import a_job, kernel_parts, needs_nvrtc, write_kernel
from tilewave.__main__ import main
from tilewave.compiling import nvrtc, sass
from tilewave.gpu import check as gpu_check
from tilewave.kernel import operations, tolerance
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.operations import matmul
from tilewave.records.keys import key

SHAPE = {"m": 4, "n": 8, "k": 16}
F32 = dict.fromkeys(("a", "b", "c", "accumulate"), "f32")
HALVES = dict.fromkeys(F32, "f16")
JOB = a_job(shape=SHAPE, dtypes=HALVES)

FRONT, BODY = kernel_parts("judged")


def written_kernel(folder: Path, dtype: str, last: str = "sum") -> str:
    body = BODY.replace("FMA", "__hfma" if dtype == "f16" else "fmaf").replace("LAST", last)
    front = FRONT.replace("DTYPE", dtype)
    return str(write_kernel(folder, "mine", front, body.replace("DTYPE", dtype)))


def executed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, dict[str, Any]]:
    main(["execute", "--budget", "0", *arguments])
    text = capsys.readouterr().out
    main(["execute", "--budget", "0", *arguments, "--json"])
    return text, json.loads(capsys.readouterr().out)


@needs_nvrtc
def test_a_kernel_on_fma_units_is_judged_by_them(capsys, tmp_path):
    _, output = executed(capsys, written_kernel(tmp_path, "f16"), "--shape", "16x32x1024")
    allowed = matmul.tolerance(HALVES, 1024, tensor_cores=False)
    assert output["verdict"] == "correct"
    assert output["check"]["relative_tolerance"] == allowed.frobenius
    assert allowed.frobenius > matmul.tolerance(HALVES, 1024, tensor_cores=True).frobenius


@needs_nvrtc
def test_nan_elements_give_no_error(capsys, tmp_path):
    path = written_kernel(tmp_path, "f32", "x == 3 ? 0.f / 0.f * sum : sum")
    text, output = executed(capsys, path, "--shape", "32")
    assert "C[0, 3] is nan" in text and "32 of 1024 elements are wrong" in text
    assert "error" not in text.split("grid")[0]
    assert not {"max_error", "relative_error", "worst_error"} & set(output["check"])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("HMMA.16816.F32 R4, R12, R22, R4", True),
        ("@!P0 HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", True),
        ("HFMA2.MMA R9, -RZ, RZ, 0, 0", False),
        ("HFMA2 R9, R2, R3, R9", False),
    ],
)
def test_tensor_cores_are_seen_in_the_code(rows: str, expected: bool) -> None:
    def text(entry: str, instruction: str) -> str:
        code = f"        /*0000*/    {instruction} ;\n        /*0010*/    EXIT ;\n"
        return f"\n.text.{entry}:\n{code}"

    listing = text("first", "IADD3 R1, R1, 0x1, RZ") + text("mine", rows) + text("last", "NOP")
    assert sass.on_tensor_cores(listing, "mine") is expected
    assert sass.on_tensor_cores(listing, "first") is False
    assert sass.on_tensor_cores(listing, "another") is None
    assert sass.on_tensor_cores("\n" + fake_machine.listing("k", "k.cu"), "k") is True


OUTPUT = operations.load("matmul").output(JOB, "c")


def test_the_element_nearest_to_its_tolerance_decides() -> None:
    """Large elements of an f16 C may err by more than an element of typical size."""
    want = np.ones(32)
    want[21] = 1000.0
    got = want.copy()
    got[21] += 0.5
    judged = tolerance.compare(OUTPUT, got, want)
    largest = {figure["metric"]: figure["value"] for figure in judged.figures}["max_error"]
    assert judged.verdict == "correct" and largest == 0.5 > OUTPUT.bound.typical
    allowed = OUTPUT.bound.absolute + OUTPUT.bound.relative_out * 1000
    assert (judged.notes["worst_error"], judged.notes["worst_tolerance"]) == (0.5, allowed)


def test_nan_is_the_worst_element() -> None:
    got = np.ones(32)
    got[3], got[7] = 9.0, np.nan
    judged = tolerance.compare(OUTPUT, got, np.ones(32))
    assert "C[0, 3] is 9," in judged.reason  # what is named first is a number
    assert judged.verdict == "wrong"
    assert [figure["metric"] for figure in judged.figures] == ["tolerance"]
    assert "worst_error" not in judged.notes


@needs_nvrtc
@pytest.mark.parametrize(
    ("setting", "written", "verdict", "reason"),
    [
        ("", "true", "wrong", "C was read although beta is 0, which `reads_c: true` allows"),
        ("reads_c: true\n", "true", "correct", "reads C even where beta is 0, as its front matter"),
        ("reads_c: true\n", "x", "wrong", "33 of 1320 elements are wrong"),  # one column unwritten
    ],
)
def test_a_kernel_that_always_reads_c(capsys, tmp_path, setting, written, verdict, reason):
    front, body = kernel_parts("always")
    path = write_kernel(tmp_path, "mine", front + setting, body.replace("WRITTEN", written))
    text, output = executed(capsys, str(path), "--shape", "33x40x5")
    assert output["verdict"] == verdict and reason in output["reason"] and reason in text


def test_a_kernel_that_reads_c_has_another_key() -> None:
    assert key("code", JOB) != key("code", replace(JOB, reads_c=True))
    judged = replace(JOB, tensor_cores=True, include=("/elsewhere",))
    assert key("code", JOB) == key("code", judged)


@needs_nvrtc
def test_the_gpus_check_reads_the_listing_beside_the_cubin(tmp_path: Path) -> None:
    compiled = nvrtc.compile_kernel(load_kernel(Path(written_kernel(tmp_path, "f16"))), "sm_90", {})
    assert compiled.cubin is not None
    path = tmp_path / "mine.cubin"
    path.write_bytes(compiled.cubin)
    assert gpu_check._on_tensor_cores(str(path), "mine") is False
    beside = path.with_name("other.cubin")
    listing = "\n.text.mine:\n  /*0000*/ HMMA.16816.F16 R4, R12, R22 ;\n"
    beside.with_suffix(".sass").write_text(listing)
    assert gpu_check._on_tensor_cores(str(beside), "mine") is True


@pytest.mark.parametrize(("expected", "wrong"), [(70000.0, 0), (-70000.0, 1), (60000.0, 1)])
def test_infinity_of_f16_is_what_exceeds_it(expected: float, wrong: int) -> None:
    got = np.array([1, np.inf], np.float16)
    judged = tolerance.compare(OUTPUT, got, np.array([1, expected]), "f16")
    assert (judged.verdict == "wrong") == bool(wrong)
