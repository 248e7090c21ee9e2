/*---
title: Tensor cores by mma.sync from swizzled shared memory (eight block tiles)
follows: hgemm_wmma_staged
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TILE_M: [256, 128, 64]     # outputs of a thread block
  TILE_N: [128, 256, 64]
  STAGES: [0, 2, 4]          # chunks of shared memory in flight or in use; 0: what suits the tile
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 256 * 128"]
let: {shared: "(STAGES if STAGES else 2 if TILE_M + TILE_N == 320 else 3) * (TILE_M + TILE_N) * 128"}
tile: [TILE_M, TILE_N, 64]
block: ["32 * max(4, TILE_M * TILE_N / 4096)"]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
requires: {arch: 80, n: 8, k: 8, conditions: ["shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The staged kernel moved 1.75 times the bytes through shared memory that it had to: its padding frees
// ldmatrix of conflicts and burdens cp.async with them. Here the rows are 128 bytes without padding and
// their 16-byte pieces are permuted by an xor with the row, so that neither side has a wavefront too many.
// mma.sync with registers of its own replaces wmma: the operands of the next 16-deep step are loaded while
// the present one is multiplied, a 64-deep chunk has one barrier, the copies of a later chunk are spread
// over the products, and results leave from registers in 16-byte pieces.
//
// A block tile is a choice of macros; warps compute 64x64, or less where the tile would leave fewer than
// four. The block's number alone says which tile it has: no block is without work, and blocks that run at
// the same time share rows of A and columns of B in L2. Every m and every n and k that are multiples of 8
// are right; only tiles at an edge ask before they copy. The parts are in mma_tile.cuh.

#define TYPE f16

#include "mma_tile.cuh"

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::BLOCKS_PER_SM)
    hgemm_mma(const f16* __restrict__ a, const f16* __restrict__ b, f16* __restrict__ c, int m, int n, int k,
              f32 alpha, f32 beta) {
    const mma_tile::Problem problem = {a, b, c, m, n, k, alpha, beta};
    const mma_tile::Place place = mma_tile::place_of(blockIdx.x, problem);
    mma_tile::Sums sums;
    mma_tile::accumulate(sums, problem, place, 0, mma_tile::chunks_of(problem));
    mma_tile::store(sums, problem, place);
}
