/*---
title: Asynchronous copies in stages, multiply-adds back and forth
follows: matmul_double_buffered
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  STEP: [16, 8]      # k depth of a chunk
  STAGES: [3, 4]     # chunks of shared memory in flight or in use
let: {shared: "STAGES * STEP * (128 + 4 + 128) * 4"}
tile: [128, 128, STEP]
block: [256]
grid: ["ceil(m / 128) * ceil(n / 128)"]
shared_bytes: shared
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The tile, the threads and their 8x8 outputs of matmul_double_buffered, fed by cp.async: chunks are on their way
// two ahead of the one in use and no register waits for them. The copies of A are 4 bytes each, because they
// transpose it, so every n and k is right. The 64 multiply-adds of a k go back and forth, each with a factor
// of the one before: two registers from one bank cost a cycle more, unless the operand cache has one of them.

#define TILE_M 128
#define TILE_N 128
#define THREAD_M 8
#define THREAD_N 8

#include "sgemm_tile.cuh"

extern "C" __global__ void __launch_bounds__(sgemm::THREADS, sgemm::BLOCKS_PER_SM)
    matmul_async(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k,
                 float alpha, float beta) {
    sgemm::run({a, b, c, m, n, k, alpha, beta});
}
