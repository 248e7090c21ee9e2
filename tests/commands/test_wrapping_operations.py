"""`tilewave wrap` for kernels that are no matrix product, written as public ones are."""

import re

import pytest

from samples import ROOT, WRAPPED, needs_nvrtc, table
from tilewave.__main__ import main
from tilewave.commands.wrapping import finding, matching
from tilewave.kernel.front_matter import load_kernel

CASES = table("wrapping")

TRANSPOSE, NAIVE, SUM, BLOCKS, THREAD, ROWS, BATCHED, COPY, NORM, HEIGHT, LAUNCHES, IGNORED = (
    (WRAPPED / f"{name}.cu").read_text()
    for name in (
        "transpose transpose_naive reduce reduce_atomics softmax_threads softmax_rows sgemm_batched copy rmsnorm "
        "sgemm_height launches ignored"  # N rows and M columns; LD is M, or by mistake K
    ).split()
)


def check_wrapped(path, front, shape, capsys) -> None:
    """Check keys of front matter, and that the kernel is correct; without other inputs, where a softmax overflows."""
    wrapped = load_kernel(path).front
    assert {key: getattr(wrapped, key) for key in front} == front
    assert main(["execute", str(path), "--shape", shape, "--budget", "0"]) == 0
    assert f"{path.stem}@{shape}: correct" in capsys.readouterr().out


@needs_nvrtc
@pytest.mark.parametrize(
    ("text", "operation", "front", "shape"),
    [
        (TRANSPOSE, "transpose",
         {"arguments": ["b", "a"], "grid": ["n // 32", "m // 32"], "requires": {"m": 32, "n": 32}}, "96x32"),
        (NAIVE, "transpose", {"arguments": ["b", "a", "n", "m"]}, "19x33"),
        (NAIVE.replace(", int height", "").replace("height", "width"), "transpose",
         {"requires": {"conditions": ["m == n"]}}, "33x33"),
        (SUM, "reduction",
         {"arguments": ["x", "total", "n"], "grid": ["ceil(n / 512)"], "shared_bytes": 1024}, "5000"),
        (BLOCKS, "reduction",
         {"arguments": ["total", "x", "n"], "grid": ["ceil(n / 256)"], "shared_bytes": 2048}, "1000"),
        (HEIGHT.replace("LD", "M"), "matmul", {"arguments": ["a", "b", "c", "m", "n", "k"]}, "19x33x5"),
        (HEIGHT.replace("LD", "K"), "matmul", {"requires": {"conditions": ["m == n", "n == k"]}}, "33x33x33"),
        ("#define N 40\n#define M 24\n#define K 8\n" + re.sub(", (?:int )?N, .*?K", "", HEIGHT).replace("LD", "M"),
         "matmul", {"requires": {"conditions": ["n == 24", "m == 40", "k == 8"]}}, "40x24x8"),
        (THREAD, "softmax",
         {"arguments": ["y", "x", "rows", "columns"], "grid": ["ceil(rows / 128)"]}, "130x7"),
        (ROWS.replace("softmax", "soft_max"), "softmax", {"arguments": ["x", "y", "rows", "columns"], "grid": ["rows"]}, "2x300"),
        (BATCHED, "batched_matmul",
         {"arguments": "m, n, k, alpha, a, k, m * k, b, n, k * n, beta, c, n, m * n".split(", "),
          "grid": ["ceil(n / 16)", "ceil(m / 16)", "batch"], "reads_c": True}, "3x17x20x9"),
        (COPY, "copy", {"arguments": ["b", "a", "n"], "requires": {"n": 4}}, "1004"),
        (IGNORED, "vector_add", {"block": [32], "grid": [3], "requires": {"conditions": ["n == 96"]}}, "96"),
    ],
)  # fmt: skip
def test_public_kernels_are_wrapped_and_right(alone, capsys, text, operation, front, shape) -> None:
    path = alone / "some.cu"
    path.write_text(text)
    assert main(["wrap", str(path), "--yes"]) == 0, capsys.readouterr().err
    check_wrapped(path, front | {"operation": operation}, shape, capsys)


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "flags", "front", "note", "shape"), CASES["launches that take a second look"]
)
def test_launches_that_take_a_second_look(alone, capsys, name, flags, front, note, shape) -> None:
    """Through a pointer, a macro or `cudaLaunchKernel`; sizes that are constants; x and y swapped."""
    path = alone / "all.cu"
    path.write_text(LAUNCHES)
    command = ["wrap", str(path), "--yes", "--kernel", name, *flags.split()]
    assert main(command) == 0, capsys.readouterr().err
    assert note in capsys.readouterr().err
    check_wrapped(alone / f"{name}.cu", front, shape, capsys)


EDGES = LAUNCHES.replace("k < K && r < M && c < N; ++k)", "k < K; ++k)")
EDGES = EDGES.replace("if (r < M && c < N) C", "C")
CENTRE = (WRAPPED / "centre.cu").read_text()


@needs_nvrtc
def test_what_a_failed_trial_suggests_is_marked(alone, capsys) -> None:
    """The failure is told with its line, and `execute` runs at such a shape; --force renews the file."""
    path = alone / "edges.cu"
    path.write_text(EDGES)
    assert main(["wrap", str(path), "--yes", "--kernel", "product_swapped"]) == 0
    failure = r"inferred from this failure: .* line \d+ of edges.cu"
    assert re.search(failure, capsys.readouterr().err)
    text = (alone / "product_swapped.cu").read_text()
    assert "requires: {m: 16, n: 16}  # inferred: m, n\n" in text
    assert main(["execute", str(alone / "product_swapped.cu"), "--shape", "33x32x32"]) == 1
    assert "33x32x32: invalid access" in capsys.readouterr().out
    path = alone / "transpose.cu"
    path.write_text(NAIVE)
    assert main(["wrap", str(path), "--yes"]) == 0 and main(["wrap", str(path), "--yes"]) == 2
    assert "write it anew with --force" in capsys.readouterr().err
    first = path.read_text()
    assert main(["wrap", str(path), "--yes", "--force"]) == 0 and path.read_text() == first
    path.write_text(first.replace("# written by tilewave wrap\n", ""))
    assert main(["wrap", str(path), "--yes", "--force"]) == 2


@needs_nvrtc
def test_a_guess_is_no_verdict(alone, capsys, monkeypatch) -> None:
    """A wrong result names what is guessed; a reference with a guess judges nobody, if its result depends on it."""
    monkeypatch.chdir(alone)
    path = alone / "rows.cu"
    path.write_text(CENTRE + CENTRE.replace("centre", "centre_too").replace("add_naive", "add"))
    wrap = ["wrap", "rows.cu", "--yes", "--budget", "2", "--kernel"]
    assert main([*wrap, "centre", "--operation", "transpose"]) == 1
    assert "with a guessed block and grid, 32768 of" in capsys.readouterr().err
    assert main([*wrap, "centre_too", "--reference", "centre", "--force"]) == 0
    assert "the block and grid" in capsys.readouterr().err
    arguments = ["--arguments", "s, n, 5.0, d"]
    assert main([*wrap, "add", "--reference", "add_naive", *arguments, "--force"]) == 0
    output = capsys.readouterr().err
    assert "same with blocks of half the threads" in output and "correct at" in output


@needs_nvrtc
def test_folders_of_headers_and_a_launch_with_a_product(alone, monkeypatch, tmp_path) -> None:
    headers = tmp_path / "far" / "away"
    headers.mkdir(parents=True)
    (headers / "side.h").write_text("const int SIDE = 32;\n")
    text = """#include "side.h"
    __global__ void by_column(float* out, const float* in, const float* by, int rows, int columns) {
        const int r = blockIdx.x * SIDE + threadIdx.x, c = blockIdx.y * 8 + threadIdx.y;
        if (r < rows && c < columns) out[r * columns + c] = in[r * columns + c] * by[c];
    }
    void run(float* out, float* in, float* by, int B, int T, int C) {
        by_column<<<dim3((B * T + 31) / 32, (C + 7) / 8), dim3(32, 8)>>>(out, in, by, B * T, C);
    }"""
    (alone / "some.cu").write_text(text)
    monkeypatch.chdir(alone)
    command = "wrap some.cu --yes --new-operation by_column --include".split()
    assert main([*command, str(headers)]) == 0
    assert load_kernel(alone / "some.cu").front.grid == ["ceil(rows / 32)", "ceil(columns / 8)"]


@needs_nvrtc
def test_a_kernel_of_a_user_defined_operation(alone, capsys) -> None:
    """The operation of CONTRIBUTING.md is used; unknown arguments are asked for."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("```python\n")[1].split("```")[0]
    (alone.parent / "own").mkdir()
    (alone.parent / "own" / "rms_norm.py").write_text(text)
    path = alone / "some.cu"
    path.write_text(NORM)
    arguments = ["wrap", str(path), "--yes"]
    assert main(arguments) == 2
    assert "Choose --operation NAME (batched" in capsys.readouterr().err
    arguments += ["--operations", str(alone.parent / "own"), "--operation"]
    assert main([*arguments, "rmsnorm"]) == 2 and "'rms_norm'" in capsys.readouterr().err
    assert main([*arguments, "rms_norm"]) == 2
    assert "y, x, rows, columns, ?, with a value for each ? (eps)" in capsys.readouterr().err
    assert main([*arguments, "rms_norm", "--arguments", "y, x, rows, columns, 0.0"]) == 0
    assert load_kernel(path).front.grid == ["rows"]
    assert main(["execute", str(path), "--shape", "5x1000", "--budget", "0"]) == 0


@pytest.mark.parametrize(("name", "parameters", "operation"), CASES["operations by their names"])
def test_the_operation_follows_from_names(alone, name, parameters, operation) -> None:
    path = alone / "some.cu"
    path.write_text(f"__global__ void {name}({parameters}) {{}}\n")
    source, _ = finding.read(path)
    result = matching.operation_of(source.functions()[0], source)
    assert (result and result.name) == operation
