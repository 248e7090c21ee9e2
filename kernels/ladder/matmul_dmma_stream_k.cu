/*---
title: The staged f64 main loop, the last waves dealt out evenly along k (stream-K)
follows: matmul_dmma_persistent
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  LEAST: [8]                 # chunks of k that a block has on average, at least, where tiles are few
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
grid:
  - "min(sms * min(128 * 128 / (TILE_M * TILE_N), floor(shared_per_sm / (shared + 1024))),
    max(tiles, floor(tiles * ceil(k / 16) / LEAST)))"
shared_bytes: shared
buffers:
  # two slots a block; blocks that an SM holds have 128 x 128 outputs together
  partials: {dtype: f64, size: "2 * sms * 128 * 128"}
  arrived: {dtype: u32, size: tiles, zeroed: true}
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin", "tiles * ceil(k / 16) < 2**31"]}
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

// Tiles that do not fill the last wave leave SMs idle for a whole tile's time: of 1,024 tiles 132 SMs compute
// seven waves and three quarters of one. Here the tiles that are left over from full waves are shared: each one
// has a block of its own for the first part of k, and the blocks without such a tile divide the rest of k of all
// of them. That comes first; the full waves follow, tile by tile, in a pipeline that does not stop. The parts of a
// sum meet in global memory, where the last block to arrive adds them.

#define DEPTH 8  // k of a 16x8 instruction, where there are some
#define SPLIT 1

#include "dmma_tile.cuh"
#include "dmma_stream.cuh"

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_stream_k(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                         int k, f64 alpha, f64 beta, f64* __restrict__ partials, unsigned* __restrict__ arrived) {
    dmma::stream({a, b, c, m, n, k, alpha, beta}, {partials, arrived});
}
