"""`tilewave check` and `tilewave mcp`: verdict, exit code, and how far to trust them."""

import json
import os
import random
import re
import shutil
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from executing_support import FAULTS
from samples import ROOT, WRAPPED, kernel_parts, needs_nvrtc, write_kernel
from tilewave.__main__ import main
from tilewave.commands import mcp as mcp_command
from tilewave.execution import trust
from tilewave.kernel import result
from tilewave.pipeline import compiling

pytestmark = needs_nvrtc
FAILING = ROOT / "tests" / "failing_kernels"
TILED = ROOT / "kernels" / "ladder" / "matmul_tiled.cu"


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code = main(["check", "--json", *map(str, arguments)])
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["exit_code"]) == (1, code)
    return code, document


def test_a_right_kernel(capsys):
    code, document = check(capsys, TILED, "--budget", 1)
    (entry,) = document["kernels"]
    assert code == 0 and document["sentence"].startswith("matmul_tiled is right at ")
    assert {trial["verdict"] for trial in entry["trials"] if trial["status"] == "ok"} == {"correct"}
    assert entry["findings"] == [] and entry["bound"]["gpu"] == "H200"
    assert "FFMA" in entry["trust"]["exact"] and not entry["trust"]["guessed"]
    assert any("TILE 32" in text for text in entry["trust"]["not_looked_for"])
    assert all(row["executed"] for row in entry["counted"]["lines"])
    assert main(["check", str(TILED), "--budget", "0"]) == 0
    parts = "matmul_tiled is right at .*Costliest lines at matmul_tiled@.*How far to trust this"
    assert re.match(parts, capsys.readouterr().out, re.DOTALL)


@pytest.mark.parametrize(
    ("path", "code", "texts"),
    [
        (FAULTS / "race_read_write.cu", 1, ["is not right at ", ": race: ", "line 33"]),
        (FAULTS / "uninitialised_shared.cu", 1, ["uninitialised read", "line "]),
        (FAILING / "wrong_result.cu", 1, ["wrong", "expected"]),
        (FAILING / "out_of_bounds.cu", 1, ["invalid access", "line "]),
        (FAILING / "syntax_error.cu", 2, ["failed to compile", "undeclared_name"]),
        (ROOT / "kernels" / "probes" / "barrier_divergent.cu", 0, ["in 8 cases"]),
        (WRAPPED / "transpose.cu", 0, ["is right at "]),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_verdicts(capsys, path, code, texts):
    before = path.read_bytes()
    exit_code, document = check(capsys, path)
    assert exit_code == code and all(text in document["sentence"] for text in texts)
    assert path.read_bytes() == before


def test_a_flaw_at_another_shape(capsys, tmp_path):
    """It is none at the shape of the command line; without a budget, `check` names the trials that did not run."""
    front, body = kernel_parts("tried")
    flaw = {"OF_A": "of_a", "RESULT": "n == 16 ? sum : alpha * sum + before", "AFTER": ""}
    for place, text in flaw.items():
        body = body.replace(place, text)
    path = str(write_kernel(tmp_path, "flawed", front, body))
    assert main(["execute", path, "--shape", "64"]) == 1
    out = capsys.readouterr().out
    assert "flawed@64x64x64: wrong\n  at the tile at 16x16x" in out
    assert main(["execute", path, "--shape", "64", "--budget", "0"]) == 0
    capsys.readouterr()
    code, document = check(capsys, path, "--budget", 0)
    assert code == 0 and "trials did not fit into the time" in document["sentence"]
    assert any("at the tile" in text for text in document["kernels"][0]["trust"]["not_run"])


def test_a_verdict_that_rests_on_a_guess_is_none(capsys, tmp_path):
    """Nothing launches the kernel, so the block is a guess; with blocks of 96 it is right."""
    code, document = check(capsys, shutil.copy(WRAPPED / "copies.cu", tmp_path))
    doubt = "could not tell whether copy_it is right.*block is a guess"
    assert code == 3 and re.match(doubt, document["sentence"])


@pytest.mark.parametrize(
    "name",
    "allocated checked choices filters fixed host inactive judged launched limits products program recognised requantised sizes strangers unended unlaunched values".split(),
)
def test_kernels_as_their_file_launches_them(capsys, monkeypatch, tmp_path, name):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # other tests have the other cores
    path = shutil.copy(WRAPPED / f"{name}.cu", tmp_path / f"{name}.cuh")
    _, document = check(capsys, path, "--budget", 1)
    entries = {entry["kernel"]: entry for entry in document["kernels"]}
    expected = re.findall(r"^// (\w+(?:\(.*?\))?): (\d), (.+)$", path.read_text(), re.MULTILINE)
    assert list(entries) == [name for name, _, _ in expected]
    for kernel, code, text in expected:
        assert entries[kernel]["exit_code"] == int(code)
        assert all(part in entries[kernel]["sentence"] for part in text.split(" ... "))
    assert str(tmp_path / "tilewave-") not in json.dumps(document)
    half = "it is correct with dtypes a f16in32; b f16in32; c f32; accumulate f32"
    assert name != "products" or half in entries["gemm_of_pairs"]["wrapped"]


@pytest.mark.parametrize(
    ("blocks", "more", "code", "text"),
    [
        ("(in.n + 255) / 256, 256", "", 0, "as launched in line 6 of halves.cu: main prints"),
        ("(in.n + 255) / 256, 256", "thrust::fill(h.begin(), h.end(), 1);", 0, "main prints"),
        ("256, (in.n + 255) / 256 * 256", "", 1, "failed to launch: block is [5120, 1, 1]"),
    ],
)
def test_a_program_in_several_files(capsys, tmp_path, blocks, more, code, text):
    """Nobody knows what the kernel computes, and only main makes its rows, where a library is left out; the last grid is
    too small."""
    for file in (WRAPPED / "halves").iterdir():
        text_of = file.read_text().replace("BLOCKS", blocks).replace("MORE", more)
        (tmp_path / file.name).write_text(text_of)
    exit_code, document = check(capsys, tmp_path / "halves.cu", "--budget", 2)
    assert exit_code == code and text in document["sentence"]


def test_kernels_of_a_header_and_a_host_function_of_the_same_name(capsys, tmp_path):
    kernel = "__global__ void copy(const int* x, int* y) { int i = blockIdx.x * 64 + threadIdx.x; y[i] = x[i]; }"
    (tmp_path / "copy.cuh").write_text(kernel)
    host = '#include "copy.cuh"\nnamespace host { void copy(const int* x, int* y, int n) {} }\n'
    path = tmp_path / "main.cu"
    path.write_text(host + "void run(int* x, int* y, int n) { copy<<<n / 64, 64>>>(x, y); }")
    for file in (path, tmp_path / "copy.cuh"):
        assert "n % 64 == 0" in check(capsys, file)[1]["sentence"]


def test_what_one_kernel_compiled_serves_the_next(capsys, monkeypatch, tmp_path):
    compiled = Mock(side_effect=compiling.compiled)
    monkeypatch.setattr(compiling, "compiled", compiled)
    path = tmp_path / "sums.cu"
    text = (WRAPPED / "sums.cu").read_text()  # new code, which no cache has
    path.write_text(text.replace("SOME_NUMBER", str(random.random())))
    _, document = check(capsys, path, "--budget", 1)
    assert [entry["variant"] for entry in document["kernels"]] == ["add", "scale"]
    assert sum(len(call.args[0]) for call in compiled.call_args_list) == 1


def test_what_a_file_leaves_to_others(capsys):
    path = WRAPPED / "near" / "gemm_typed.cu"
    code, document = check(capsys, path, "--budget", 1)
    assert code == 3 and "--macro DEPTH=VALUE" in document["sentence"]
    assert check(capsys, path, "--macro", "DEPTH=4", "--budget", 1)[0] == 0
    strips = path.with_name("strips.cu"), "--arguments", "a,b,c,batch,m,k,k,n", "--budget", 1
    assert check(capsys, *strips)[0] == 1


def test_layouts_that_are_not_tried(capsys):
    arguments = [str(WRAPPED / "checked.cu"), "--kernel", "gemm_turned", "-o", "-", "--budget", "0"]
    assert main(["wrap", *arguments]) == 1
    assert "were not tried: no time was left" in capsys.readouterr().err


def test_a_folder(capsys, tmp_path):
    shutil.copy(TILED, tmp_path)
    shutil.copy(FAILING / "wrong_result.cu", tmp_path)
    (tmp_path / "broken.cu").write_text("/*---\ntitle: none\n---*/\n")
    shutil.copy(WRAPPED / "transpose.cu", tmp_path)
    code, document = check(capsys, tmp_path, "--budget", 1)
    assert code == 1 and document["sentence"] == "of 4 kernels: 2 right, 1 not right, 1 skipped"
    (tmp_path / "wrong_result.cu").unlink()
    assert check(capsys, tmp_path, "--budget", 1)[0] == 2
    (tmp_path / "none").mkdir()
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "has no kernel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "verdict", "judged", "code"),
    [
        ("ok", "correct", True, 0), ("ok", "not checked", False, 0), ("ok", "not checked", True, 3),
        ("ok", "race", False, 1), ("ok", "wrong", True, 1), ("timed out", None, True, 1),
        ("unsupported", None, True, 3), ("not measured", None, False, 3), ("failed to compile", None, True, 2),
    ],
)  # fmt: skip
def test_exit_codes(status, verdict, judged, code):
    assert result.exit_code(status, verdict, judged) == code


def test_what_was_executed_how():
    rows = [
        {"opcode": opcode, "sass": sass, "executed": executed, "file": "k.cu", "line": line, "text": ""}
        for opcode, sass, executed, line in (
            ("FFMA", "FFMA R1,R2,R3,R4", 1, 3), ("MUFU.SIN", "MUFU.SIN R1,R2", 1, 3),
            ("MUFU.RCP", "MUFU.RCP R1,R2", 1, 3), ("RED.E.ADD.F32.FTZ.RN", "RED.E.ADD.F32.FTZ.RN [R2],R4", 1, 4),
            ("RED.E.ADD", "RED.E.ADD.S32 [R2],R4", 1, 4), ("HMMA.16816.F32", "HMMA.16816.F32 R4,R8", 1, 5),
            ("STG.E", "STG.E [R2],R4", 0, 6), ("FADD", "FADD R1,R2,R3", 0, 8), ("STG.E", "STG.E [R2],R4", 0, 7),
        )
    ]  # fmt: skip
    again = [{**rows[-1], "executed": 1}]
    here = trust.of_instructions([rows, again], 90)
    assert here["exact"] == ["FFMA", "HMMA", "MUFU", "RED", "STG"]
    assert [row["opcodes"] for row in here["approximate"]] == [["MUFU"], ["RED"]]
    assert [row["line"] for row in here["not_reached"]] == [6]  # arithmetic may be moved
    older = trust.of_instructions([rows], 80)
    assert not older["compared"] and ["HMMA"] in [row["opcodes"] for row in older["approximate"]]


class Service:
    """The part of `mcp.server.mcpserver.MCPServer` that the server uses."""

    def __init__(self, name: str, instructions: str) -> None:
        assert name == "tilewave" and "exit_code" in instructions
        self.tools: dict[str, Any] = {}

    def add_tool(self, tool: Any) -> None:
        assert tool.__doc__ and tool.__annotations__["return"] == dict[str, Any]
        self.tools[tool.__name__] = tool


def test_tools_for_agents(monkeypatch, capsys, tmp_path):
    for name in ("mcp", "mcp.server", "mcp.server.mcpserver"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(MCPServer=Service))
    tools = mcp_command.server().tools
    wrong = str(FAILING / "wrong_result.cu")
    document = tools["check"](wrong)
    assert document["exit_code"] == 1 and "wrong_result is not right" in document["sentence"]
    document = tools["execute"](str(TILED), shape="64", macros={"TILE": "32"})
    assert (document["exit_code"], document["variant"]) == (0, "matmul_tiled-tile32")
    assert "instructions" not in document and document["lines"]
    assert tools["compare"](wrong, wrong)["exit_code"] == 0
    for name, arguments in {"check": ["--json"], "execute": [wrong], "compare": ["none"]}.items():
        assert tools[name](*arguments)["exit_code"] == 2
    assert capsys.readouterr().out == ""


def test_the_server_names_its_package(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp"]) == 2
    assert "pip install 'tilewave[mcp]'" in capsys.readouterr().err
