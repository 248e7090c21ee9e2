/*---
title: A pipeline that refills the buffer it reads from
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {MISSING: [second, none], TILE: [16]}
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["n // TILE", "m // TILE"]
requires: {arch: 80, m: TILE, n: TILE, k: TILE}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Two buffers: while one is multiplied, cp.async fills the other. One barrier says that the copies have
// landed; the second one, after the products, says that nobody reads the buffer any more that the next step
// fills. Without it a fast warp's copies overwrite what a slow warp is still reading.

#define MISSING_none 0
#define MISSING_second 1
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)
#define LEFT_OUT WORD(MISSING_, MISSING)

__device__ __forceinline__ void copy(float* destination, const float* source)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(destination));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(source) : "memory");
}

extern "C" __global__ void race_pipeline(const float* __restrict__ a, const float* __restrict__ b,
                                         float* __restrict__ c, int m, int n, int k, float alpha, float beta)
{
    __shared__ float a_tile[2][TILE][TILE];
    __shared__ float b_tile[2][TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    const float* a_source = a + (long long)row * k + x;
    const float* b_source = b + (long long)y * n + column;

    copy(&a_tile[0][y][x], a_source);
    copy(&b_tile[0][y][x], b_source);
    asm volatile("cp.async.commit_group;" ::: "memory");

    float sum = 0;
    const int tiles = k / TILE;
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            const int next = (tile + 1) % 2;
            copy(&a_tile[next][y][x], a_source + (tile + 1) * TILE);                   // BUG: may still be read
            copy(&b_tile[next][y][x], b_source + (long long)(tile + 1) * TILE * n);  // BUG: may still be read
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[tile % 2][y][i] * b_tile[tile % 2][i][x];  // BUG: of this the step before last
        }
#if LEFT_OUT != MISSING_second
        __syncthreads();
#endif
    }
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
