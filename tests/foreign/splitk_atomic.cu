/*---
title: Split-k with atomic additions, the last block copies
operation: probe
block: [16, 16]
grid: [1, 1, 4]
requires: {arch: 75}
arguments: [a, b, sums, ticket, c, k]
buffers:
  a: {dtype: f32, size: 4096}       # 16 x 256
  b: {dtype: f32, size: 4096}       # 256 x 16
  sums: {dtype: f32, size: 256}
  ticket: {dtype: u32, size: 1}
  c: {dtype: f32, size: 256, expect: "(lane // 16 % 5 + 1) * (384 + 256 * (lane % 16))"}
cases:
  four:
    values: {a: "lane // 256 % 5 + 1", b: "lane // 16 % 4 + lane % 16", sums: "0", ticket: "0"}
    scalars: {k: 256}
---*/

// Four blocks add their parts of k to one matrix; who draws the last ticket knows that all parts are there.
// Sums of small whole numbers are exact in any order.
extern "C" __global__ void splitk_atomic(const float* a, const float* b, float* sums, unsigned* ticket, float* c,
                                         int K)
{
    __shared__ bool last;
    const int row = threadIdx.y, col = threadIdx.x;
    const int part = K / gridDim.z, first = blockIdx.z * part;
    float acc = 0.0f;
    for (int p = first; p < first + part; ++p) acc += a[row * K + p] * b[p * 16 + col];
    atomicAdd(&sums[row * 16 + col], acc);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) last = atomicInc(ticket, gridDim.z - 1) == gridDim.z - 1;
    __syncthreads();
    if (last) c[row * 16 + col] = *const_cast<volatile float*>(&sums[row * 16 + col]);
}
