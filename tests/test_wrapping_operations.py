"""`tilewave wrap` for kernels that are no matrix product, written as public ones are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from samples import ROOT, needs_nvrtc
from tilewave import operations
from tilewave.command import main
from tilewave.compiling.declarations import tokens
from tilewave.kernels import load_kernel
from tilewave.wrapping import matching, reading

TRANSPOSE = """\
#include <stdio.h>
#include <assert.h>
inline cudaError_t checkCuda(cudaError_t result) { return result; }
const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;
__global__ void transposeNoBankConflicts(float *odata, const float *idata)
{
  __shared__ float tile[TILE_DIM][TILE_DIM+1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  int width = gridDim.x * TILE_DIM;
  int height = gridDim.y * TILE_DIM;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
     tile[threadIdx.y+j][threadIdx.x] = idata[(y+j)*width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
     odata[(y+j)*height + x] = tile[threadIdx.x][threadIdx.y + j];
}
int main(int argc, char **argv)
{
  const int nx = 1024;
  const int ny = 1024;
  dim3 dimGrid(nx/TILE_DIM, ny/TILE_DIM, 1);
  dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
  float *d_idata, *d_cdata;
  transposeNoBankConflicts<<<dimGrid, dimBlock>>>(d_cdata, d_idata);
}
"""
NAIVE = """\
__global__ void transposeNaive(float *odata, float *idata, int width, int height)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) odata[x * height + y] = idata[y * width + x];
}
"""
SUM = """\
#include <cuda_runtime.h>
#include <iostream>
#define THREADS 256
template <typename T>
__global__ void reduce(const T *__restrict__ g_idata, T *__restrict__ g_odata, unsigned int n)
{
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  T sum = i < n ? g_idata[i] : 0;
  if (i + blockDim.x < n) sum += g_idata[i + blockDim.x];
  sdata[tid] = sum;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) atomicAdd(g_odata, sdata[0]);
}
void run(float* d_in, float* d_out, int size) {
  int blocks = (size + THREADS * 2 - 1) / (THREADS * 2);
  reduce<float><<<blocks, THREADS, THREADS * sizeof(float)>>>(d_in, d_out, size);
}
"""
THREAD = """\
__global__ void softmax_forward_kernel1(float* out, const float* inp, int N, int C) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    const float* inp_row = inp + i * C;
    float* out_row = out + i * C;
    float maxval = -INFINITY;
    for (int j = 0; j < C; j++) if (inp_row[j] > maxval) maxval = inp_row[j];
    double sum = 0.0;
    for (int j = 0; j < C; j++) { out_row[j] = expf(inp_row[j] - maxval); sum += out_row[j]; }
    for (int j = 0; j < C; j++) out_row[j] /= (float)sum;
  }
}
void softmax_forward1(float* out, const float* inp, int N, int C, const int block_size) {
  const int grid_size = (N + 128 - 1) / 128;
  softmax_forward_kernel1<<<grid_size, 128>>>(out, inp, N, C);
}
"""
ROWS = """\
__global__ void softmax(const float* in, float* out, int rows, int cols) {
  __shared__ float part[256];
  const float* x = in + blockIdx.x * cols; float* y = out + blockIdx.x * cols;
  float m = -1e30f; for (int j = threadIdx.x; j < cols; j += blockDim.x) m = fmaxf(m, x[j]);
  part[threadIdx.x] = m; __syncthreads();
  for (int s = blockDim.x / 2; s; s /= 2) { if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]); __syncthreads(); }
  m = part[0]; __syncthreads();
  float t = 0; for (int j = threadIdx.x; j < cols; j += blockDim.x) t += expf(x[j] - m);
  part[threadIdx.x] = t; __syncthreads();
  for (int s = blockDim.x / 2; s; s /= 2) { if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s]; __syncthreads(); }
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[j] = expf(x[j] - m) / part[0];
}
"""
BATCHED = """\
#define TILE 16
__global__ void sgemm_strided_batched(int M, int N, int K, float alpha, const float* A, int lda, long long strideA,
   const float* B, int ldb, long long strideB, float beta, float* C, int ldc, long long strideC)
{
  A += blockIdx.z * strideA; B += blockIdx.z * strideB; C += blockIdx.z * strideC;
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int k = 0; k < K; ++k) acc += A[row * lda + k] * B[k * ldb + col];
  C[row * ldc + col] = alpha * acc + beta * C[row * ldc + col];
}
int main() {
  int M = 512, N = 512, K = 512, batchCount = 8; float *A, *B, *C;
  dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE, batchCount);
  sgemm_strided_batched<<<grid, block>>>(M, N, K, 1.f, A, K, (long long)M * K, B, N, (long long)K * N, 0.f, C, N, (long long)M * N);
}
"""
COPY = """\
__global__ void copyVector4(float* d_out, const float* d_in, size_t n) {
  size_t idx = blockIdx.x * blockDim.x + threadIdx.x;
  for (size_t i = idx; i < n / 4; i += blockDim.x * gridDim.x)
    reinterpret_cast<float4*>(d_out)[i] = reinterpret_cast<const float4*>(d_in)[i];
}
"""
NORM = """\
#include <cstdio>
__global__ void rmsnorm_kernel(float* o, const float* x, int rows, int size, float eps) {
  const float* row = x + (size_t)blockIdx.x * size;
  float ss = 0;
  for (int j = threadIdx.x; j < size; j += 32) ss += row[j] * row[j];
  for (int d = 16; d; d /= 2) ss += __shfl_xor_sync(0xffffffff, ss, d);
  ss = rsqrtf(ss / size + eps);
  for (int j = threadIdx.x; j < size; j += 32) o[(size_t)blockIdx.x * size + j] = row[j] * ss;
}
void run(float* o, float* x, int rows, int dim) { rmsnorm_kernel<<<rows, 32>>>(o, x, rows, dim, 1e-5f); }
"""


BLOCKS = """\
typedef float REAL;
__global__ void reduce_by_atomics(REAL* data_out, REAL* data_in, int size) {
  extern __shared__ float2 s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x].x = i < size ? data_in[i] : 0; __syncthreads();
  atomicAdd(&data_out[0], s[threadIdx.x].x);
}
int reduction(REAL* g_outPtr, REAL* g_inPtr, int size, int n_threads) {
  int n_blocks = (size + n_threads - 1) / n_threads;
  reduce_by_atomics<<<n_blocks, n_threads, n_threads * sizeof(float2)>>>(g_outPtr, g_inPtr, size);
}
"""
HEIGHT = """\
__global__ void sgemm(const float* A, const float* B, float* C, int N, int M, int K) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= N || col >= M) return;
  float sum = 0; for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * LD + col];
  C[row * M + col] = sum;
}
void run(float* A, float* B, float* C, int N, int M, int K) {
  sgemm<<<dim3((M + 15) / 16, (N + 15) / 16), dim3(16, 16)>>>(A, B, C, N, M, K);
}
"""
"""N rows and M columns; LD is M, or by mistake K."""


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with nothing around it, and with no operations of a user's."""
    monkeypatch.setenv("TILEWAVE_OPERATIONS", "")
    (tmp_path / "alone").mkdir()
    yield tmp_path / "alone"
    operations.MODULES.use([])


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
def test_public_kernels_are_wrapped_and_right(
    alone: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    operation: str,
    front: dict[str, Any],
    shape: str,
) -> None:
    path = alone / "some.cu"
    path.write_text(text)
    assert main(["wrap", str(path), "--yes"]) == 0, capsys.readouterr().err
    made = load_kernel(path).front
    assert made.operation == operation
    assert {key: getattr(made, key) for key in front} == front
    assert main(["execute", str(path), "--shape", shape]) == 0
    assert f"some@{shape}: correct" in capsys.readouterr().out


@needs_nvrtc
def test_a_kernel_of_an_operation_of_ones_own(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of CONTRIBUTING.md; what no name tells is asked for."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("```python\n")[1].split("```")[0]
    (alone.parent / "own").mkdir()
    (alone.parent / "own" / "rms_norm.py").write_text(text)
    path = alone / "some.cu"
    path.write_text(NORM)
    words = ["wrap", str(path), "--yes"]
    assert (
        main(words) == 2
        and "--operation: found nothing; allowed: batched" in capsys.readouterr().err
    )
    words += ["--operations", str(alone.parent / "own"), "--operation"]
    assert main([*words, "rmsnorm"]) == 2 and "'rms_norm'" in capsys.readouterr().err
    assert main([*words, "rms_norm"]) == 2
    assert "y, x, rows, columns, ? (not known: eps)" in capsys.readouterr().err
    assert main([*words, "rms_norm", "--arguments", "y, x, rows, columns, 0.0"]) == 0
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
def test_an_operation_is_told_by_names(
    alone: Path, name: str, parameters: str, operation: str | None
) -> None:
    path = alone / "some.cu"
    path.write_text(f"__global__ void {name}({parameters}) {{}}\n")
    source, _ = reading.read(path)
    found = matching.operation_of(source.functions()[0], source)
    assert (found and found.name) == operation


@pytest.mark.parametrize(
    ("operation", "parameters", "words"),
    [
        ("transpose", "float* B, const float* A, int M, int N", "b a m n"),
        ("transpose", "const float* src, float* dst, int nx, int ny", "a b n m"),
        ("softmax", "float* a, const float* b, int num_rows, int n_cols", "y x rows columns"),
        ("softmax", "const half* X, half* Y, int C", "x y columns"),
        ("reduction", "float* input, float* result, size_t len", "x total n"),
        ("vector_add", "const float* lhs, const float* rhs, float* out, int size", "a b c n"),
    ],
)
def test_arguments_of_other_operations(operation: str, parameters: str, words: str) -> None:
    given = [reading._parameter(one) for one in reading.parts(tokens(parameters))]
    assert matching.arguments(given, operations.load(operation)) == (words.split(), [])
