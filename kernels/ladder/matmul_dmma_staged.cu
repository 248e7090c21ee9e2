/*---
title: f64 tensor cores, staged by cp.async in swizzled shared memory
follows: matmul_dmma
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  TILE_M: [128, 64]          # outputs of a thread block
  TILE_N: [128, 64]
  WARP_M: [64, 32]           # rows of a warp's tile of 32 columns
  STAGES: [4, 3, 5, 6]       # chunks of 16 k in flight or in use
  DEPTH: [8, 0]              # k of a 16x8 instruction; 0: 8x8x4, which is all that there is before sm_90
where: ["TILE_M * TILE_N >= 128 * WARP_M"]
let: {shared: "STAGES * (TILE_M + TILE_N) * 128"}
tile: [TILE_M, TILE_N, 16]
block: ["(TILE_M / WARP_M) * TILE_N"]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// matmul_dmma waits for every tile and reads shared memory 8 bytes at a time. Here cp.async brings the chunks
// of k some stages ahead, without a register on the way, and registers are loaded 16 rows and one step ahead.
// Everything moves in 16-byte pieces, whose places an xor permutes, so that neither reads nor copies have a
// wavefront too many and nothing is padded. On Hopper an instruction of 16x8x8 does the work of four of 8x8x4,
// at twice the rate. Every m, n and k are right: odd n or k, whose rows are not aligned to 16 bytes, are copied
// 8 bytes at a time, and only tiles at an edge ask before they copy. The parts are in dmma_tile.cuh.


#include "dmma_tile.cuh"

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_staged(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                       int k, f64 alpha, f64 beta) {
    const dmma::Problem problem = {a, b, c, m, n, k, alpha, beta};
    dmma::compute(problem, dmma::place_of(blockIdx.x, problem));
}
