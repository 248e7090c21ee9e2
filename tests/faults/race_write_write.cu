/*---
title: Two groups of warps leave their sums in the same words
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 1]
block: [16, 16, 2]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// k is split between the two z layers of a block, which add their halves through shared memory. Only layer 1
// may leave its half there; here layer 0 does so too, and who comes last decides.
extern "C" __global__ void race_write_write(const float* __restrict__ a, const float* __restrict__ b,
                                            float* __restrict__ c, int m, int n, int k, float alpha, float beta)
{
    __shared__ float partial[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    const bool inside = row < m && column < n;
    const int half = (k + 1) / 2;
    const int first = threadIdx.z * half, last = min(first + half, k);
    float sum = 0;
    if (inside) {
        for (int i = first; i < last; ++i) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    }
    partial[threadIdx.y][threadIdx.x] = sum;  // BUG: both layers write; if (threadIdx.z == 1) is missing
    __syncthreads();
    if (threadIdx.z == 0 && inside) {
        sum += partial[threadIdx.y][threadIdx.x];
        float* target = c + (long long)row * n + column;
        *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
    }
}
