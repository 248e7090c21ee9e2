/*---
title: Matrix times vector, a warp a row
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [128]
grid: ["ceil(m / 4)"]
requires: {arch: 75, k: 4, conditions: ["n == 1"]}
arguments: [a, b, c, m, k, alpha, beta]
---*/

// Wide loads of the row and of the vector, a shuffle reduction inside a template, predicated store.

template <typename T>
__device__ __forceinline__ T warp_sum(T value)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffff, value, mask);
    return value;
}

extern "C" __global__ void sgemv_warp(const float* __restrict__ a, const float* __restrict__ x,
                                      float* __restrict__ y, int M, int K, float alpha, float beta)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int row = blockIdx.x * 4 + warp;
    if (row >= M) return;
    const float4* quads = reinterpret_cast<const float4*>(a + (size_t)row * K);
    const float4* other = reinterpret_cast<const float4*>(x);
    float acc = 0.0f;
    for (int i = lane; i < K / 4; i += 32) {
        const float4 p = __ldg(quads + i), q = __ldg(other + i);
        acc += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
    acc = warp_sum(acc);
    if (lane == 0) y[row] = alpha * acc + (beta != 0.0f ? beta * y[row] : 0.0f);
}
