/*---
title: Tiles by TMA
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
macros: {REAL: [f32, f64], TILE: [16, 32], CLUSTER: [1, 2], SWIZZLE: [0, 128]}
where: ["SWIZZLE == 0 or TILE * size(REAL) == 128"]
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["ceil(n / (TILE * CLUSTER)) * CLUSTER", "ceil(m / TILE)"]
cluster: [CLUSTER, 1, 1]
requires: {arch: 90}
tensor_maps:
  map_a: {of: a, box: [TILE, TILE], swizzle: SWIZZLE}
  map_b: {of: b, box: [TILE, TILE], l2: 256}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// One thread asks the TMA for a tile of A and one of B and says how many bytes will come; all wait for
// them at a barrier in shared memory. What lies outside of a matrix arrives as zero, so no thread asks
// where the matrices end before it writes C.

#include <cuda.h>

using f32 = float;
using f64 = double;

static_assert(TILE * TILE <= 1024, "a thread an element of C");
static_assert(SWIZZLE == 0 || TILE * sizeof(REAL) == SWIZZLE, "a row of the tile is one period");

__device__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ void copy_tile(const CUtensorMap* map, REAL* to, unsigned barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Where column `column` of row `row` lies in a tile: 128-byte swizzling exchanges the 16-byte parts of
// a row by the row's number modulo 8.
__device__ int place(int row, int column)
{
    const int part = 16 / sizeof(REAL);
    const int at = SWIZZLE ? ((column / part) ^ (row % 8)) * part + column % part : column;
    return row * TILE + at;
}

extern "C" __global__ void tiles_by_tma(const __grid_constant__ CUtensorMap map_a,
                                        const __grid_constant__ CUtensorMap map_b, REAL* c, int m,
                                        int n, int k, REAL alpha, REAL beta)
{
    __shared__ alignas(1024) REAL tile_a[TILE * TILE];
    __shared__ alignas(1024) REAL tile_b[TILE * TILE];
    __shared__ alignas(8) unsigned long long arrived;
    const unsigned barrier = shared_address(&arrived);
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    const bool first = threadIdx.x == 0 && threadIdx.y == 0;
    if (first) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    REAL sum = 0;
    for (int start = 0, phase = 0; start < k; start += TILE, phase ^= 1) {
        if (first) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(barrier), "r"(unsigned(sizeof(tile_a) + sizeof(tile_b))) : "memory");
            copy_tile(&map_a, tile_a, barrier, start, blockIdx.y * TILE);
            copy_tile(&map_b, tile_b, barrier, blockIdx.x * TILE, start);
        }
        unsigned done = 0;
        while (!done) {
            asm volatile("{ .reg .pred p;\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(barrier), "r"(phase) : "memory");
        }
        for (int i = 0; i < TILE; ++i) {
            sum += tile_a[place(threadIdx.y, i)] * tile_b[i * TILE + threadIdx.x];
        }
        __syncthreads();  // all have read before the next tiles come
    }
    if (row < m && column < n) {
        REAL* target = c + (long long)row * n + column;
        *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
    }
}
