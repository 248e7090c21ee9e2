/*---
title: 8x16 outputs per thread
follows: matmul_async
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  TILE_N: [256, 128]  # one block an SM, or two
  STEP: [8, 16]       # k depth of a chunk
  STAGES: [3, 4]      # chunks of shared memory in flight or in use
let: {shared: "STAGES * STEP * (128 + 4 + TILE_N) * 4"}
tile: [128, TILE_N, STEP]
block: [TILE_N]
grid: ["ceil(m / 128) * ceil(n / TILE_N)"]
shared_bytes: shared
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Against matmul_async a thread has twice the outputs: 6 wide shared reads feed 128 multiply-adds instead of 4
// feeding 64. It takes more than 200 registers, so that a scheduler has two warps and not four.

#define TILE_M 128
#define THREAD_M 8
#define THREAD_N 16

#include "sgemm_tile.cuh"

extern "C" __global__ void __launch_bounds__(sgemm::THREADS, sgemm::BLOCKS_PER_SM)
    matmul_wide_tile(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k,
                     float alpha, float beta) {
    sgemm::run({a, b, c, m, n, k, alpha, beta});
}
