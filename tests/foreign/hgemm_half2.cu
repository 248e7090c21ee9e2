/*---
title: Packed half arithmetic, two columns a thread
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: f16}
block: [16, 16]
grid: ["n // 32", "m // 16"]
requires: {arch: 75, m: 16, n: 32, k: 16}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// HFMA2 without tensor cores: a thread's two columns are the halves of one register.
#include <cuda_fp16.h>

extern "C" __global__ void hgemm_half2(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
                                       int M, int N, int K, float alpha, float beta)
{
    __shared__ half sa[16][16];
    __shared__ half2 sb[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty;
    const int col = blockIdx.x * 32 + 2 * tx;
    half2 acc = __float2half2_rn(0.0f);
    for (int base = 0; base < K; base += 16) {
        sa[ty][tx] = a[row * K + base + tx];
        sb[ty][tx] = *reinterpret_cast<const half2*>(b + (base + ty) * N + col);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < 16; ++p) acc = __hfma2(__half2half2(sa[ty][p]), sb[p][tx], acc);
        __syncthreads();
    }
    half2* out = reinterpret_cast<half2*>(c + row * N + col);
    half2 made = __hmul2(__float2half2_rn(alpha), acc);
    if (beta != 0.0f) made = __hfma2(__float2half2_rn(beta), *out, made);
    *out = made;
}
