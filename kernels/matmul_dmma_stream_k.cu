/*---
title: The staged f64 main loop, the last waves dealt out evenly along k (stream-K)
follows: matmul_dmma_persistent
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  JOINED: [1, 0, 64]         # full waves that are dealt out together with the last, partial one
  LEAST: [8]                 # chunks of k that a block has on average, at least, where tiles are few
  TILE_M: [128, 64]          # outputs of a thread block
  TILE_N: [128, 64]
  WARP_M: [64]               # outputs of a warp
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
  - "min(sms * min(128 * 128 / (TILE_M * TILE_N), floor(shared_per_sm / (STAGES * (TILE_M + TILE_N) * CHUNK * 8 + 1024))),
    max(ceil(m / TILE_M) * ceil(n / TILE_N), floor(ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / CHUNK) / LEAST)))"
shared_bytes: "STAGES * (TILE_M + TILE_N) * CHUNK * 8"
buffers:
  # two slots a block; blocks that an SM holds have 128 x 128 outputs together at most
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
// seven waves and three quarters of one. Here one wave of blocks stays on the GPU for the whole product. The
// tiles of the last, partial wave and of JOINED full waves before it are laid in a row, chunk of k after
// chunk, and every block takes an equal, contiguous piece of that row: of a tile's sum it may have the end,
// the whole or the beginning. The other full waves are computed tile by tile.
//
// The piece comes first: while some blocks finish shared tiles, others are at whole ones. The beginning of a
// tile is what comes last to it, so the block that has it looks whether all others have arrived, and if so it
// keeps its part in registers. The parts are added in the order of k, whoever comes last.

#include "dmma_tile.cuh"
#include "dmma_stream.cuh"

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_stream_k(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                         int k, f64 alpha, f64 beta, f64* __restrict__ partials, unsigned* __restrict__ arrived) {
    dmma::stream({a, b, c, m, n, k, alpha, beta}, {partials, arrived});
}
