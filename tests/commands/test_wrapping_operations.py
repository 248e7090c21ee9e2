"""`tilewave wrap` for kernels that are no matrix product, written as public ones are."""

import pytest

from samples import ROOT, WRAPPED, needs_nvrtc
from tilewave.__main__ import main
from tilewave.commands.wrapping import matching, reading
from tilewave.kernel.front_matter import load_kernel

TRANSPOSE, NAIVE, SUM, BLOCKS, THREAD, ROWS, BATCHED, COPY, NORM, HEIGHT = (
    (WRAPPED / f"{name}.cu").read_text()
    for name in (
        "transpose transpose_naive reduce reduce_atomics softmax_threads softmax_rows sgemm_batched copy rmsnorm "
        "sgemm_height"  # N rows and M columns; LD is M, or by mistake K
    ).split()
)


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
        (THREAD, "softmax",
         {"arguments": ["y", "x", "rows", "columns"], "grid": ["ceil(rows / 128)"]}, "130x7"),
        (ROWS, "softmax", {"arguments": ["x", "y", "rows", "columns"], "grid": ["rows"]}, "2x300"),
        (BATCHED, "batched_matmul",
         {"arguments": "m, n, k, alpha, a, k, m * k, b, n, k * n, beta, c, n, m * n".split(", "),
          "grid": ["ceil(n / 16)", "ceil(m / 16)", "batch"], "reads_c": True}, "3x17x20x9"),
        (COPY, "copy", {"arguments": ["b", "a", "n"], "requires": {"n": 4}}, "1004"),
    ],
)  # fmt: skip
def test_public_kernels_are_wrapped_and_right(alone, capsys, text, operation, front, shape) -> None:
    path = alone / "some.cu"
    path.write_text(text)
    assert main(["wrap", str(path), "--yes"]) == 0, capsys.readouterr().err
    wrapped = load_kernel(path).front
    assert wrapped.operation == operation
    assert {key: getattr(wrapped, key) for key in front} == front
    assert main(["execute", str(path), "--shape", shape]) == 0
    assert f"some@{shape}: correct" in capsys.readouterr().out


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
    assert main(["execute", str(path), "--shape", "5x1000"]) == 0


@pytest.mark.parametrize(
    ("name", "parameters", "operation"),
    [
        ("transposeCoalesced", "float *o, const float *i", "transpose"),
        ("sgemm_transposed", "const float *A, const float *B, float *C, int n", "matmul"),
        ("mm", "const float *A, const float *B, float *C, int n", "matmul"),
        ("hgemmBatched", "half *A, half *B, half *C, int M, int N, int K", "batched_matmul"),
        ("vecAdd", "const float *A, const float *B, float *C, int n", "vector_add"),
        ("block_reduce", "float *x, float *sum, int n", "reduction"),
        ("scale", "float *x, float *y, int n", None),
    ],
)
def test_the_operation_follows_from_names(alone, name, parameters, operation) -> None:
    path = alone / "some.cu"
    path.write_text(f"__global__ void {name}({parameters}) {{}}\n")
    source, _ = reading.read(path)
    result = matching.operation_of(source.functions()[0], source)
    assert (result and result.name) == operation
