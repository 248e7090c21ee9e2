/*---
title: f64 tensor cores, staged by cp.async in swizzled shared memory
follows: matmul_dmma
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  TILE_M: [128, 64, 96, 256]     # outputs of a thread block
  TILE_N: [128, 64, 256]
  WARP_M: [64, 32, 48]           # outputs of a warp
  WARP_N: [32, 64]
  CHUNK: [16, 32]            # k of a stage
  STAGES: [4, 3, 5, 6, 7]
  DEPTH: [16, 8, 4, 0]       # k of a 16x8 instruction; 0: 8x8x4, which is all that there is before sm_90
  FENCED: [0, 1, 2]             # keep the compiler from moving loads between the products
  EVERY: [1, 2]              # chunks from barrier to barrier
  TURNED: [0, 1]             # column tiles back and forth
  RASTER: [2048, 1024, 64]   # rows of C that are walked together; 64: one tile row after another
where:
  - "STAGES > 2 * EVERY"
  - "TILE_M * TILE_N <= 128 * 128"
  - "WARP_M * WARP_N <= 64 * 32"
  - "TILE_M * TILE_N >= 4 * WARP_M * WARP_N and TILE_M * TILE_N <= 16 * WARP_M * WARP_N"
  - "TILE_M % WARP_M == 0 and (TILE_M == 96) == (WARP_M == 48) and (WARP_M != 48 or DEPTH != 16 or CHUNK == 32)"
  - "CHUNK >= 16 * TILE_N / TILE_M / 4 and WARP_M <= TILE_M and WARP_N <= TILE_N"
tile: [TILE_M, TILE_N, CHUNK]
block: ["32 * (TILE_M / WARP_M) * (TILE_N / WARP_N)"]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: "STAGES * (TILE_M + TILE_N) * CHUNK * 8"
requires:
  arch: 80
  conditions:
    - "STAGES * (TILE_M + TILE_N) * CHUNK * 8 <= shared_per_block_optin"
entry: matmul_dmma_staged
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// matmul_dmma waits for every tile and reads shared memory 8 bytes at a time. Here cp.async brings the chunks
// of k some stages ahead, without a register on the way, and registers are loaded one row of mma tiles and
// one step ahead. Everything moves in 16-byte pieces, whose places an xor permutes, so that neither reads nor
// copies have a wavefront too many and nothing is padded. An instruction of 16x8x16 does the work of eight of
// 8x8x4, at twice the rate on Hopper. Every m, n and k are right: odd n or k, whose rows are not aligned to
// 16 bytes, are copied 8 bytes at a time, and only tiles at an edge ask before they copy. The parts are in
// dmma_tile.cuh.

#include "dmma_tile.cuh"

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_staged(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                       int k, f64 alpha, f64 beta) {
    const dmma::Problem problem = {a, b, c, m, n, k, alpha, beta};
    dmma::compute(problem, dmma::place_of(blockIdx.x, problem));
}
