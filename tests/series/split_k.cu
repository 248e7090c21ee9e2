/*---
title: Split-K in two launches
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SPLITS: [3, 1]}
tile: [16, 16, 1]
requires: {arch: 75}
buffers:
  parts: {dtype: f32, size: "SPLITS * m * n"}
launches:
  - entry: partial
    block: [16, 16]
    grid: ["ceil(n / 16)", "ceil(m / 16)", SPLITS]
    arguments: [a, b, parts, m, n, k]
  - entry: reduced
    block: [128]
    grid: ["ceil(m * n / 128)"]
    arguments: [parts, c, "m * n", alpha, beta]
---*/

// Each block of the first launch sums its part of k; the second adds the parts up.

extern "C" __global__ void partial(const float* a, const float* b, float* parts, int m, int n, int k)
{
    __shared__ float tile[16][16];
    const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    const int first = k * blockIdx.z / SPLITS, last = k * (blockIdx.z + 1) / SPLITS;
    float sum = 0;
    for (int start = first; start < last; start += 16) {
        const int i = start + threadIdx.x;
        tile[threadIdx.y][threadIdx.x] = row < m && i < last ? a[row * k + i] : 0;
        __syncthreads();
        for (int j = 0; j < 16 && start + j < last; ++j)
            if (column < n) sum += tile[threadIdx.y][j] * b[(start + j) * n + column];
        __syncthreads();
    }
    if (row < m && column < n) parts[(blockIdx.z * m + row) * n + column] = sum;
}

extern "C" __global__ void reduced(const float* parts, float* c, int count, float alpha, float beta)
{
    const int at = blockIdx.x * 128 + threadIdx.x;
    if (at >= count) return;
    float sum = 0;
    for (int split = 0; split < SPLITS; ++split) sum += parts[split * count + at];
    c[at] = beta == 0 ? alpha * sum : alpha * sum + beta * c[at];
}
