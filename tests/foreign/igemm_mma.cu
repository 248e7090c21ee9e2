/*---
title: mma.sync on bytes
operation: probe
block: [32, 4]
grid: [1, 2]
requires: {arch: 80}
arguments: [a, b, c, n, k]
buffers:
  a: {dtype: i8, size: 2048}   # 32 rows of 64
  b: {dtype: i8, size: 2048}   # 32 columns of 64
  c: {dtype: i32, size: 1024, expect: "(lane // 32 % 11 - 5) * (32 + 64 * (lane % 32 % 3)) + 128 + 96 * (lane % 32 % 3)"}
cases:
  square:
    values: {a: "lane // 64 % 11 - 5 + lane % 4", b: "lane % 64 - 31 + lane // 64 % 3"}
    scalars: {n: 32, k: 64}
---*/

// The product of igemm_dp4a on the tensor cores, a warp a tile of 16 x 8, 32 k a step.
extern "C" __global__ void igemm_mma(const signed char* a, const signed char* b, int* c, int N, int K)
{
    const int lane = threadIdx.x, group = lane / 4, in_group = lane % 4;
    const int row = blockIdx.y * 16 + group, col = threadIdx.y * 8;
    const auto four = [](const signed char* p) { return *reinterpret_cast<const int*>(p); };
    int d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    for (int p = in_group * 4; p < K; p += 32) {
        const int a0 = four(a + row * K + p), a1 = four(a + (row + 8) * K + p);
        const int a2 = four(a + row * K + p + 16), a3 = four(a + (row + 8) * K + p + 16);
        const int b0 = four(b + (col + group) * K + p), b1 = four(b + (col + group) * K + p + 16);
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    int* out = c + row * N + col + in_group * 2;
    out[0] = d0, out[1] = d1;
    out[8 * N] = d2, out[8 * N + 1] = d3;
}
