"""A kernel's options and include folders: they are part of its key, and mistakes are reported."""

from pathlib import Path

import pytest

from samples import BODY, FRONT, needs_nvrtc, write_kernel
from tilewave.__main__ import main
from tilewave.compiling import nvrtc
from tilewave.kernel.digests import source_digest
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import variant

PLAIN = ("-arch=sm_90", "-std=c++17", "-lineinfo", "--ptxas-options=-v")
INNER = "#pragma once\n__device__ inline float twice(float x) { return 2 * x; }\n"
USES = "#include <outer.cuh>\nstatic_assert(__cplusplus >= 202002L);\n"
USES += "float halved(float x) { return twice(x) / 4; }\n"  # no __device__: -default-device


def kernel(folder: Path, compiler: str = "", uses: str = ""):
    front = FRONT + (f"compiler: {compiler}\n" if compiler else "")
    body = uses + (BODY.replace("sum = 0;", "sum = 0 * halved(n);") if uses else BODY)
    return load_kernel(write_kernel(folder, "mine", front, body))


def options(loaded):
    return nvrtc.options(loaded, "sm_90", variant(loaded, {}, "config", "macros").names)


def keys(loaded):
    names = variant(loaded, {}, "config", "macros").names
    return nvrtc.text_key(loaded, "sm_90", names), source_digest(loaded)


def test_options_follow_what_is_always_said(tmp_path):
    plain = options(kernel(tmp_path))
    assert plain == (*PLAIN, "-DREAL=f32", "-DTILE=16")
    fast = kernel(tmp_path, '{options: [--use_fast_math, "--maxrregcount={TILE}"]}')
    assert options(fast) == (*PLAIN, "--use_fast_math", "--maxrregcount=16", *plain[-2:])
    newer = kernel(tmp_path, "{options: [-std=c++20]}")
    assert options(newer) == (PLAIN[0], *PLAIN[2:], "-std=c++20", *plain[-2:])
    assert len({keys(loaded)[0] for loaded in (kernel(tmp_path), fast, newer)}) == 3


@pytest.fixture
def common(tmp_path, monkeypatch):
    """A folder of headers beside that of the kernels."""
    monkeypatch.setenv("TILEWAVE_INCLUDE", str(tmp_path / "common"))
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "outer.cuh").write_text('#include "inner.cuh"\n')
    (tmp_path / "common" / "inner.cuh").write_text(INNER)
    return tmp_path / "common"


def test_headers_of_include_folders_belong_to_the_kernel(tmp_path, common):
    def key(inner):
        (common / "inner.cuh").write_text(inner)
        loaded = kernel(tmp_path / "kernels", "{include: [../common]}", "#include <outer.cuh>\n")
        return keys(loaded)

    other = INNER.replace("2 *", "3 *")
    first, remarked, changed = map(key, (INNER, INNER + "// a remark\n", other))
    assert remarked[0] == first[0] != changed[0]
    assert len({first[1], remarked[1], changed[1]}) == 3
    (tmp_path / "kernels" / "inner.cuh").write_text("// nearer, but not beside outer.cuh\n")
    assert key(other)[0] == changed[0]


@needs_nvrtc
def test_it_compiles_and_lines_of_such_headers_are_counted(tmp_path, common, capsys):
    settings = "{options: [-std=c++20, -default-device], include: [../common]}"
    loaded = kernel(tmp_path / "kernels", settings, USES)
    command = ["execute", str(loaded.path), "--shape", "33x20x5", "--include"]
    assert main([*command, str(tmp_path / "common")]) == 0
    text = capsys.readouterr().out
    assert "mine@33x20x5: correct" in text
    assert "inner.cuh, the lines that became instructions" in text


@needs_nvrtc
def test_an_option_that_the_compiler_does_not_know(tmp_path, capsys):
    loaded = kernel(tmp_path, "{options: [--nonsense]}")
    assert main(["execute", str(loaded.path), "--shape", "64"]) == 2
    assert "unrecognized option --nonsense" in capsys.readouterr().out
