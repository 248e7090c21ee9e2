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
  WARP_M: [64, 32]             # outputs of a warp
  WARP_N: [32]
  CHUNK: [16, 32]            # k of a stage
  STAGES: [4, 3, 5, 6]
  DEPTH: [16, 8]             # k of a 16x8 instruction, where there are some
  RASTER: [2048, 1024]       # rows of C that are walked together
where: ["TILE_M * TILE_N >= 128 * 64"]
tile: [TILE_M, TILE_N, CHUNK]
block: ["32 * (TILE_M / WARP_M) * (TILE_N / WARP_N)"]
# as many blocks as the GPU holds at once, fewer where the product is too small for them
grid:
  - "min(sms * min((8 if WARP_M * WARP_N == 2048 else 16) * WARP_M * WARP_N / (TILE_M * TILE_N), floor(shared_per_sm / (STAGES * (TILE_M + TILE_N) * CHUNK * 8 + 1024))),
    max(ceil(m / TILE_M) * ceil(n / TILE_N), floor(ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / CHUNK) / LEAST)))"
shared_bytes: "STAGES * (TILE_M + TILE_N) * CHUNK * 8"
buffers:
  # two slots a block; blocks that an SM holds have 128 x 128 outputs together
  partials: {dtype: f64, size: "2 * sms * 128 * 128"}
  arrived: {dtype: u32, size: "ceil(m / TILE_M) * ceil(n / TILE_N)", zeroed: true}
requires:
  arch: 80
  conditions:
    - "STAGES * (TILE_M + TILE_N) * CHUNK * 8 <= shared_per_block_optin"
    - "ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / CHUNK) < 2**31"
entry: matmul_dmma_stream_k
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

// Tiles that do not fill the last wave leave SMs idle for a whole tile's time: of 1,024 tiles 132 SMs compute
// seven waves and three quarters of one. Here the tiles that are left over from full waves are shared: each one
// has a block of its own for the first part of k, and the blocks without such a tile divide the rest of k of all
// of them. That comes first; the full waves follow, tile by tile, in a pipeline that does not stop. The parts of a
// sum meet in global memory, where the last block to arrive adds them.

#define SPLIT 1

#include "dmma_tile.cuh"
#include "dmma_stream.cuh"

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_stream_k(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                         int k, f64 alpha, f64 beta, f64* __restrict__ partials, unsigned* __restrict__ arrived) {
    dmma::stream({a, b, c, m, n, k, alpha, beta}, {partials, arrived});
}
