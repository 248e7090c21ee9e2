/*---
title: Tiles and registers in pairs
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [256]
grid: ["n // 128", "m // 128"]
requires: {arch: 75, m: 128, n: 128, k: 8}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The next tile is on its way in registers while this one is multiplied; one barrier a tile. The loop ends
// with a `do ... while`, and its body asks twice whether there is a next tile.

#define FLOAT4(x) (*reinterpret_cast<float4*>(&(x)))
#define CONST_FLOAT4(x) (*reinterpret_cast<const float4*>(&(x)))

extern "C" __global__ void __launch_bounds__(256)
sgemm_double_buffer(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int M, int N,
                    int K, float alpha, float beta)
{
    constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
    __shared__ float sa[2][BK][BM];
    __shared__ float sb[2][BK][BN];
    const int tid = threadIdx.x;
    const int ty = tid / 16, tx = tid % 16;
    const int load_a_row = tid >> 1, load_a_k = (tid & 1) << 2;
    const int load_b_k = tid >> 5, load_b_col = (tid & 31) << 2;
    const float* ga = a + (size_t)(blockIdx.y * BM + load_a_row) * K + load_a_k;
    const float* gb = b + (size_t)load_b_k * N + blockIdx.x * BN + load_b_col;

    float fa[2][TM], fb[2][TN];
    float acc[TM][TN] = {};
    float4 next_a = CONST_FLOAT4(ga[0]);
    float4 next_b = CONST_FLOAT4(gb[0]);

#define PUT(buffer)                                 \
    sa[buffer][load_a_k + 0][load_a_row] = next_a.x; \
    sa[buffer][load_a_k + 1][load_a_row] = next_a.y; \
    sa[buffer][load_a_k + 2][load_a_row] = next_a.z; \
    sa[buffer][load_a_k + 3][load_a_row] = next_a.w; \
    FLOAT4(sb[buffer][load_b_k][load_b_col]) = next_b;
#define GET(set, buffer, step)                              \
    FLOAT4(fa[set][0]) = FLOAT4(sa[buffer][step][ty * 4]);      \
    FLOAT4(fa[set][4]) = FLOAT4(sa[buffer][step][ty * 4 + 64]); \
    FLOAT4(fb[set][0]) = FLOAT4(sb[buffer][step][tx * 4]);      \
    FLOAT4(fb[set][4]) = FLOAT4(sb[buffer][step][tx * 4 + 64]);

    PUT(0)
    __syncthreads();
    GET(0, 0, 0)
    int write = 1, tile = 0;
    do {
        tile += BK;
        if (tile < K) {
            next_a = CONST_FLOAT4(ga[tile]);
            next_b = CONST_FLOAT4(gb[(size_t)tile * N]);
        }
        const int read = write ^ 1;
#pragma unroll
        for (int p = 0; p < BK; ++p) {
            if (p < BK - 1) {
                GET((p + 1) % 2, read, p + 1)
            } else if (tile < K) {
                PUT(write)
                __syncthreads();
                GET(0, write, 0)
                // fragment set 1 holds the last k of the old tile; set 0 the first of the new one
            }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += fa[p % 2][i] * fb[p % 2][j];
        }
        write ^= 1;
    } while (tile < K);

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = blockIdx.y * BM + ty * 4 + i % 4 + i / 4 * 64;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float* out = c + (size_t)row * N + blockIdx.x * BN + tx * 4 + half * 64;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float value = alpha * acc[i][half * 4 + j];
                out[j] = beta == 0.0f ? value : value + beta * out[j];
            }
        }
    }
}
