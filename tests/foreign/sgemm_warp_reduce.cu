/*---
title: One warp an output, summed by shuffles
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SHUFFLE: [xor, down]}
block: [32, 8]
grid: ["n", "ceil(m / 8)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The lanes share the k of one output. Slow, and it is how dot products are taught.

#define SHUFFLE_xor 0
#define SHUFFLE_down 1
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)

extern "C" __global__ void sgemm_warp_reduce(const float* a, const float* b, float* c, int M, int N, int K,
                                             float alpha, float beta)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x;
    if (row >= M) return;
    float acc = 0.0f;
    for (int p = threadIdx.x; p < K; p += warpSize) acc += a[row * K + p] * b[p * N + col];
    for (int distance = 16; distance > 0; distance /= 2) {
#if WORD(SHUFFLE_, SHUFFLE) == SHUFFLE_xor
        acc += __shfl_xor_sync(0xffffffffu, acc, distance);
#else
        acc += __shfl_down_sync(0xffffffffu, acc, distance);
#endif
    }
    if (threadIdx.x == 0) {
        float* out = c + row * N + col;
        *out = beta == 0.0f ? alpha * acc : alpha * acc + beta * *out;
    }
}
