/*---
title: mma.sync in double precision
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
block: [128]
grid: ["n // 32", "m // 32"]
requires: {arch: 80, m: 32, n: 32, k: 16}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Tiles of 32 x 32 x 16 in shared memory, four warps of 16 x 16, eight-by-eight fragments four k deep.
extern "C" __global__ void __launch_bounds__(128)
dgemm_dmma(const double* a, const double* b, double* c, int M, int N, int K, double alpha, double beta)
{
    __shared__ double sa[32][16 + 2];
    __shared__ double sb[16][32 + 2];
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int warp_m = warp / 2 * 16, warp_n = warp % 2 * 16;
    const int group = lane / 4, in_group = lane % 4;
    double acc[2][2][2] = {};
    for (int base = 0; base < K; base += 16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int id = tid + 128 * i;
            sa[id / 16][id % 16] = a[(size_t)(blockIdx.y * 32 + id / 16) * K + base + id % 16];
            sb[id / 32][id % 32] = b[(size_t)(base + id / 32) * N + blockIdx.x * 32 + id % 32];
        }
        __syncthreads();
#pragma unroll
        for (int p = 0; p < 16; p += 4) {
            const double fa[2] = {sa[warp_m + group][p + in_group], sa[warp_m + 8 + group][p + in_group]};
            const double fb[2] = {sb[p + in_group][warp_n + group], sb[p + in_group][warp_n + 8 + group]};
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                                 : "+d"(acc[i][j][0]), "+d"(acc[i][j][1])
                                 : "d"(fa[i]), "d"(fb[j]));
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            for (int e = 0; e < 2; ++e) {
                const int row = blockIdx.y * 32 + warp_m + i * 8 + group;
                const int col = blockIdx.x * 32 + warp_n + j * 8 + in_group * 2 + e;
                double* out = c + (size_t)row * N + col;
                *out = beta == 0 ? alpha * acc[i][j][e] : alpha * acc[i][j][e] + beta * *out;
            }
}
