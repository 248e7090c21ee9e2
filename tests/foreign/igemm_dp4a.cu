/*---
title: Four products of bytes an instruction
operation: probe
block: [16, 16]
grid: ["2", "2"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k]
buffers:
  a: {dtype: i8, size: 2048}   # 32 rows of 64
  b: {dtype: i8, size: 2048}   # 32 columns of 64
  c: {dtype: i32, size: 1024, expect: "(lane // 32 % 11 - 5) * (32 + 64 * (lane % 32 % 3)) + 128 + 96 * (lane % 32 % 3)"}
cases:
  square:
    # a[i][p] = i % 11 - 5 + p % 4, b[j][p] = p - 31 + j % 3
    values: {a: "lane // 64 % 11 - 5 + lane % 4", b: "lane % 64 - 31 + lane // 64 % 3"}
    scalars: {m: 32, n: 32, k: 64}
---*/

// An integer product of rows and columns that both run along k.
extern "C" __global__ void igemm_dp4a(const signed char* a, const signed char* b, int* c, int M, int N, int K)
{
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    const int* pa = reinterpret_cast<const int*>(a + row * K);
    const int* pb = reinterpret_cast<const int*>(b + col * K);
    int acc = 0;
    for (int p = 0; p < K / 4; ++p) acc = __dp4a(pa[p], pb[p], acc);
    c[row * N + col] = acc;
}
