/*---
title: The same for bf16, tf32 and bytes
follows: hgemm_mma
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else (bf16 if TYPE == 'bf16' else f32)"
  accumulate: "i32 if TYPE == 'i8' else f32"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [bf16, tf32, i8]
  TILE_M: [256, 128, 64]     # outputs of a thread block
  TILE_N: [128, 256, 64]
  STAGES: [0, 2, 4]          # chunks of shared memory in flight or in use; 0: what suits the tile
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 256 * 128"]
let: {shared: "(STAGES if STAGES else 2 if TILE_M + TILE_N == 320 else 3) * (TILE_M + TILE_N) * 128"}
tile: [TILE_M, TILE_N, "128 if TYPE == 'i8' else 64 if TYPE == 'bf16' else 32"]
block: ["32 * max(4, TILE_M * TILE_N / 4096)"]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
requires: {arch: 80, n: "8 if TYPE == 'bf16' else 2", k: "16 if TYPE == 'i8' else 8 if TYPE == 'bf16' else 4",
    conditions: ["shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// An mma takes 32 bytes of k whatever its type: 16 numbers of 16 bits, 8 tf32 or 32 bytes, and its registers
// hold the same bytes of the same rows. Swizzle, ldmatrix, copies and pipeline are therefore those of
// hgemm_mma; what differs is the instruction, and C where it is 4 bytes an element: it needs no exchange
// between lanes.
//
// The inputs of a tf32 product are tf32 numbers in 32 bits, and the tensor cores do not look at the lowest 13.

#include "mma_tile.cuh"

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::BLOCKS_PER_SM)
    matmul_mma(const TYPE* __restrict__ a, const TYPE* __restrict__ b, mma_tile::Out* __restrict__ c, int m,
               int n, int k, mma_tile::Sum alpha, mma_tile::Sum beta) {
    const mma_tile::Problem problem = {a, b, c, m, n, k, alpha, beta};
    const mma_tile::Place place = mma_tile::place_of(blockIdx.x, problem);
    mma_tile::Sums sums;
    mma_tile::accumulate(sums, problem, place, 0, mma_tile::chunks_of(problem));
    mma_tile::store(sums, problem, place);
}
