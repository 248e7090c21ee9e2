/*---
title: Two halves of k
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {TIDY: [1, 0]}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)", 2]
requires: {arch: 75}
buffers:
  halves: {dtype: f32, size: "2 * 256 * ceil(n / 16) * ceil(m / 16)"}
  arrived: {dtype: u32, size: "ceil(n / 16) * ceil(m / 16)", zeroed: true}
arguments: [a, b, c, m, n, k, alpha, beta, halves, arrived]
---*/

extern "C" __global__ void NAME(const float* a, const float* b, float* c, int m, int n, int k,
                                float alpha, float beta, float* halves, unsigned* arrived)
{
    __shared__ unsigned before;
    const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    const int tile = blockIdx.y * gridDim.x + blockIdx.x, place = threadIdx.y * 16 + threadIdx.x;
    const int first = blockIdx.z * (k / 2), last = blockIdx.z ? k : k / 2;
    float sum = 0;
    if (row < m && column < n)
        for (int i = first; i < last; ++i) sum += a[row * k + i] * b[i * n + column];
    halves[(2 * tile + blockIdx.z) * 256 + place] = sum;
    __threadfence();
    __syncthreads();
    if (place == 0) before = atomicAdd(arrived + tile, 1u);
    __syncthreads();
    if (before == 0) return;
    __threadfence();
    const float* both = halves + 2 * tile * 256 + place;
    if (row < m && column < n) {
        float* z = c + row * n + column;
        const float total = alpha * (__ldcg(both) + __ldcg(both + 256));
        *z = beta == 0 ? total : total + beta * *z;
    }
    if (place == 0 && TIDY) arrived[tile] = 0;
}
