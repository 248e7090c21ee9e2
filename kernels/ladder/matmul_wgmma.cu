/*---
title: wgmma for tf32, bytes and f16 sums (two blocks an SM)
follows: matmul_mma
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)"
  accumulate: "i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [tf32, i8, f16]
  STAGES: [3, 2, 6]          # chunks of shared memory in flight or in use; 6: one block an SM
let: {shared: "1024 + STAGES * 256 * 128"}
tile: [128, 128, "128 // size(TYPE)"]
block: [256]
grid: ["ceil(m / 128) * ceil(n / 128)"]
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: ["128 // size(TYPE)", 128], swizzle: 128}
  map_b: {of: b, box: ["128 // size(TYPE)", 128], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 2, k: 16 // size(TYPE), conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// mma.sync takes its operands from registers, and ends at 60 % of cuBLAS in all types. wgmma takes 32 bytes of k
// from shared memory, whatever they are: a box of the TMA that is 128 bytes wide is a chunk of 32 tf32, 64 f16 or 128
// bytes, and the ring of stages is that of hgemm_wgmma_pipeline. Only the instruction is another one (wgmma_tile.cuh).
//
// What the types do not share is how much there is to do beside the products. Results of 32 bits are twice as many
// bytes as those of f16, and bytes are multiplied in a quarter of the instructions of tf32: for them storing C
// takes the largest share of the time. So the ring has three stages and an SM two blocks: while one stores its tile
// the other one multiplies.

#define TILE_N 128
#define HALF_SUMS (TYPE_NUMBER == TYPE_f16)

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS, 2)
    matmul_wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c, int m,
                 int n, int k, Scalar alpha, Scalar beta) {
    const Thread thread;
    Sums sums;
    const Place place = load_and_multiply(sums, thread, map_a, map_b, m, n, k);
    const Result result = {c, m, n, alpha, beta};
    finish(sums, thread, result, place);
    store_pairs(sums, thread, result, place);
}
