/*---
title: The staged f64 main loop, which does not stop between tiles
follows: matmul_dmma_staged
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  TILE_M: [128, 64]          # outputs of a thread block
  TILE_N: [128, 64]
  WARP_M: [64, 32]           # rows of a warp's tile of 32 columns
  STAGES: [4, 6]             # chunks of 16 k in flight or in use
where: ["TILE_M * TILE_N >= 128 * WARP_M", "WARP_M == 64 or TILE_M == 64"]
let:
  shared: STAGES * (TILE_M + TILE_N) * 128
  tiles: ceil(m / TILE_M) * ceil(n / TILE_N)
tile: [TILE_M, TILE_N, 16]
block: ["(TILE_M / WARP_M) * TILE_N"]
# as many blocks as the GPU holds at once, fewer where the product is too small for them
grid: ["min(sms * min(128 * 128 / (TILE_M * TILE_N), floor(shared_per_sm / (shared + 1024))), tiles)"]
shared_bytes: shared
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin", "tiles * ceil(k / 16) < 2**31"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A block that ends takes its pipeline with it: the next one begins with empty stages while nothing is
// multiplied, and the sums are stored while nothing is copied. Here one wave of blocks stays for the whole
// product, and each block's copies run on into its next tile before the sums of this one are stored.

#define DEPTH 8  // k of a 16x8 instruction, where there are some
#define SPLIT 0
#define LEAST 1

#include "dmma_tile.cuh"
#include "dmma_stream.cuh"

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_persistent(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                         int k, f64 alpha, f64 beta) {
    dmma::stream({a, b, c, m, n, k, alpha, beta}, {nullptr, nullptr});
}
