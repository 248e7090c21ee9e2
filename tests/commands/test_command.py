"""`python -m tilewave execute`: what it prints, and its exit codes. The machine is a fake."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import fake_machine
import link_library
from fake_machine import Fault, Machine
from samples import BODY, DATA, FRONT, ROOT, WRAPPED, kernel_parts, needs_nvrtc, table, write_kernel
from tilewave.__main__ import main
from tilewave.commands import execute
from tilewave.execution import least

pytestmark = needs_nvrtc
KERNEL = str(ROOT / "kernels" / "ladder" / "matmul_naive.cu")
MISTAKES = table("command_mistakes")


def run(capsys: Any, *arguments: str, **machine: Any) -> tuple[int, str, str]:
    code = main(["execute", *arguments], Machine(**machine))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("arch", ["90", "sm_90", "sm90", "compute_90"])
def test_text(capsys: pytest.CaptureFixture[str], arch: str) -> None:
    code, out, _ = run(capsys, KERNEL, "--shape", "65x33x17", "--arch", arch)
    assert code == 0
    for line in ("matmul_naive@65x33x17: correct", "largest error", "tolerance", "sm_90, grid"):
        assert line in out
    for head in ("Instructions", "Operations", "Shared memory", "Global memory"):
        assert f"\n{head}\n" in out
    assert "line  warp inst.  wavefronts" in out and "excess  sectors  | source" in out
    (code_line,) = [row for row in out.splitlines() if "matmul_naive(const REAL" in row]
    assert code_line.split()[0].isdigit()


def test_json_is_the_same_in_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, KERNEL, "--shape", "64", "--macro", "REAL=f64", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["verdict"], document["variant"]) == ("correct", "matmul_naive-realf64")
    assert document["shape"] == {"m": 64, "n": 64, "k": 64} and document["arch"] == "sm_90"
    assert len(document["instructions"]) == len(fake_machine.CODE)
    executed = sum(row["executed"] for row in document["classes"])
    assert executed == document["counters"]["smsp__inst_executed.sum"]
    kinds = {row["kind"]: row for row in document["shared"]}
    assert kinds["LDGSTS"]["excess"] == kinds["LDGSTS"]["wavefronts_hardware"] - 16
    keys = {"line", "text", "executed", "wavefronts_hardware", "excess"}
    assert keys <= document["lines"][0].keys()
    assert document["check"]["max_error"] <= document["check"]["tolerance"]


def test_least_time_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, KERNEL, "--shape", "64")
    assert re.search(r"\n  at least [\d.]+ us on an H200: \w+", out)
    _, out, _ = run(capsys, KERNEL, "--shape", "64", "--gpu", "a100", "--json")
    document = json.loads(out)
    assert document["arch"] == "sm_80" and document["bound"]["gpu"] == "A100-SXM4-40GB"
    assert document["bound"]["cycles"] == max(document["bound"]["pipes"].values()) > 0
    assert document["bound"]["cycles"] == document["bound"]["pipes"][document["bound"]["limiter"]]
    code, _, err = run(capsys, KERNEL, "--shape", "64", "--gpu", "voodoo2")
    assert code == 2 and "h200" in err
    code, _, err = run(capsys, KERNEL, "--shape", "64", "--gpu", "a100", "--arch", "90")
    assert code == 2 and "GPU of sm_90" in err


def test_the_sentence_names_the_line() -> None:
    bound = {"gpu": "H200", "microseconds": 41.23, "limiter": "shared memory and L1"}
    assert least.sentence(bound) == "at least 41.2 us on an H200: shared memory and L1"
    more = {"microseconds": 1234.5, "line": "line 52", "share": 0.742, "what": "excess"}
    assert least.sentence(bound | more).endswith("L1, 74 % of which is excess on line 52")


@pytest.mark.parametrize(
    ("machine", "code", "text"),
    [
        ({"faults": (Fault("race"),)}, 1, ": race"),
        ({"faults": (Fault("invalid access"),)}, 1, ": invalid access"),
        ({"faults": (Fault("assertion failed"),)}, 1, ": assertion failed"),
        ({"act": lambda call: None}, 1, ": wrong"),
        ({"refuses": fake_machine.Unsupported("HGMMA.64x8x16", 0x10)}, 3, "HGMMA.64x8x16 at "),
    ],
)
def test_exit_codes(capsys, machine, code, text):
    exit_code, out, _ = run(capsys, KERNEL, "--shape", "64", **machine)
    assert exit_code == code and text in out


def test_what_a_kernel_prints(capsys: pytest.CaptureFixture[str]) -> None:
    lines = tuple(f"line {i}\n" for i in range(50))
    arguments = KERNEL, "--shape", "64"
    _, out, _ = run(capsys, *arguments, printed=lines)
    assert "Printed\n  line 0\n" in out and "line 39\n" in out and "line 40\n" not in out
    assert "50 lines and 50 more calls in all; --json has 50 calls" in out
    _, out, _ = run(capsys, *arguments, "--json", printed=lines)
    document = json.loads(out)
    assert (tuple(document["printed"]), document["prints"]) == (lines, 100)
    _, out, _ = run(capsys, *arguments)
    assert "Printed" not in out


@pytest.mark.parametrize(
    "arguments", [["execute", KERNEL, "--shape", "64"], ["check", KERNEL], ["--help"]]
)
def test_the_command_is_silent_when_the_reader_has_left(arguments, capsys, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as ended:
            main(arguments, Machine())
    assert ended.value.code == 128 + signal.SIGPIPE
    assert not capsys.readouterr().err
    if "execute" in arguments:  # an output that is closed is no mistake
        monkeypatch.setattr(sys, "stdout", None)
        assert main(arguments, Machine()) == 0


def test_other_broken_pipes_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(execute, "run", Mock(side_effect=BrokenPipeError("a worker's")))
    with (tmp_path / "output").open("w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(BrokenPipeError, match="worker"):
            main(["execute", KERNEL, "--shape", "64"])


def test_a_shape_that_the_kernel_cannot_take_or_no_memory_holds(capsys, monkeypatch):
    kernel = str(ROOT / "kernels" / "ladder" / "hgemm_wmma_staged.cu")
    code, out, _ = run(capsys, kernel, "--shape", "64x67x64")
    assert code == 3 and "n = 67 is not a multiple of 8" in out
    monkeypatch.setattr(execute.case._Case, "judged", Mock(side_effect=MemoryError("373 GiB")))
    code, out, _ = run(capsys, KERNEL, "--shape", "64")
    assert code == 3 and "not measured" in out and "more memory than 2 GiB" in out


def test_a_kernel_that_does_not_compile(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_kernel(tmp_path, "broken", body='extern "C" __global__ void NAME() { oops; }\n')
    code, out, _ = run(capsys, str(path), "--shape", "64")
    assert code == 2 and "failed to compile" in out and "broken.cu:" in out


@pytest.mark.parametrize(("line", "message"), MISTAKES["execute"].items())
def test_mistakes_are_one_line(capsys, line, message):
    kernels = ROOT / "kernels"
    probe, cpu = kernels / "probes" / "latency.cu", kernels / "ladder" / "matmul_cpu.py"
    arguments = line.format(KERNEL=KERNEL, PROBE=probe, CPU=cpu).split()
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ") and "command line" not in err
    assert message in err and err.count("\n") == 1
    code, out, error_again = run(capsys, *arguments, "--json")
    document = json.loads(out)
    assert (code, error_again) == (2, err)
    assert document.keys() == {"schema_version", "status", "reason"}
    assert document["status"] == "usage error" and f"Error: {document['reason']}\n" == err


@pytest.mark.parametrize(("command", "message"), MISTAKES["others"].items())
def test_mistakes_of_every_subcommand(alone, capsys, command, message):
    shutil.copy(WRAPPED / "product.cu", alone)
    (alone / "old.cu").write_text("/*---\ntitle: old\n---*/\n")
    (alone / "no.cubin").write_text("none")
    before = sorted(path.name for path in alone.iterdir())
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and out == "" and str(alone) not in err
    assert sorted(path.name for path in alone.iterdir()) == before


def test_a_user_defined_operation(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWAVE_OPERATIONS", "")
    (tmp_path / "operations").mkdir()
    shutil.copy(DATA.with_name("operations") / "twice.py", tmp_path / "operations")
    front, body = kernel_parts("twice")
    path = str(write_kernel(tmp_path, "mine", front, body.replace("FACTOR", "2")))
    code, _, err = run(capsys, path, "--shape", "9")
    assert code == 2 and "operation is 'twice'" in err
    code, _, err = run(capsys, path, "--shape", "9", "--operations", str(tmp_path / "none"))
    assert code == 2 and "--operations is" in err and "a folder that exists" in err
    arguments = [path, "--shape", "9", "--operations", str(tmp_path / "operations")]
    code, out, _ = run(capsys, *arguments, act=lambda call: None)
    assert code == 1 and "mine@9: wrong" in out


def test_two_instantiations_are_ambiguous(capsys, tmp_path):
    body = BODY.replace('extern "C"', "template <int N>")
    arguments = "const REAL*, const REAL*, REAL*, int, int, int, REAL, REAL"
    body += "".join(f"template __global__ void NAME<{n}>({arguments});\n" for n in (1, 2))
    path = write_kernel(tmp_path, "twice", body=body)
    code, out, _ = run(capsys, str(path), "--shape", "64")
    assert code == 2 and "entry twice is ambiguous: it may be twice<1>, twice<2>" in out
    write_kernel(tmp_path, "twice", FRONT + "entry: _Z5twiceILi2EEvPKfS1_Pfiiiff\n", body)
    code, out, _ = run(capsys, str(path), "--shape", "64")
    assert code == 0 and "twice@64x64x64: correct" in out


def test_the_command_of_a_checkout(tmp_path):
    """The script starts the Python beside it, also through a link."""
    link_library.link(tmp_path, tmp_path)
    library = (tmp_path / "tilewave.pth").read_text().strip()
    assert (tmp_path / library).resolve() == ROOT / "workflow"
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "link").symlink_to("tilewave")
    done = subprocess.run([tmp_path / "link", "check", "a b"], capture_output=True, text=True)
    assert done.stdout == "-m tilewave check a b\n"


def test_the_machine_is_loaded_when_it_executes():
    """It takes numba, a second, and the help of the commands needs neither."""
    code = "import sys, tilewave.__main__ as c; c.parser(); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
