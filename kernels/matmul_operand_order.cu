/*---
title: Multiply-adds in the order of the register banks
follows: matmul_wide_tile
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  TILE_M: [128, 256]
  TILE_N: [256, 128]
  THREAD_M: [8, 16]
  THREAD_N: [16, 8]
  STEP: [16, 8, 32]
  UNROLL: [4, 2, 8, 16]
  STAGES: [3, 4]
  KEEP_A: [0, 1]
  TURN: [0, 1]
  RASTER: [2048, 1024, 4096]
where: ["THREAD_M * THREAD_N == 128", "TILE_M * TILE_N <= 256 * 128"]
tile: [TILE_M, TILE_N, STEP]
block: ["TILE_M * TILE_N // (THREAD_M * THREAD_N)"]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: "STAGES * STEP * (TILE_M + 4 + TILE_N) * 4"
requires:
  arch: 80
  conditions: ["STAGES * STEP * (TILE_M + 4 + TILE_N) * 4 <= shared_per_block_optin"]
entry: matmul_operand_order
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// text

#include "sgemm_tile.cuh"

extern "C" __global__ void __launch_bounds__(sgemm::THREADS, sgemm::BLOCKS_PER_SM)
    matmul_operand_order(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k,
           float alpha, float beta) {
    sgemm::run({a, b, c, m, n, k, alpha, beta});
}
