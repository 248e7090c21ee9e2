/*---
title: FP8 by wgmma, with a ring of stages
follows: hgemm_wgmma_pipeline
operation: matmul
dtypes: {a: A_TYPE, b: e4m3, c: bf16, accumulate: f22}
layouts: {a: row, b: col, c: row}
macros:
  A_TYPE: [e4m3, e5m2]
  STAGES: [6, 4, 3]          # chunks of shared memory in flight or in use; of 3 an SM has room for two blocks
let: {shared: "1024 + STAGES * 256 * 128"}
tile: [128, 128, 128]
block: [256]
grid: ["ceil(m / 128) * ceil(n / 128)"]
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [128, 128], swizzle: 128}
  map_b: {of: b, box: [128, 128], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 16, conditions: [wgmma, "shared <= shared_per_block_optin"]}
# scale_a and scale_b, which together are 1
arguments: [map_a, map_b, c, m, n, k, alpha, beta, 0.5, 2.0]
---*/

// A byte an element, and twice the products in the same time: a chunk of 128 bytes is 128 deep, and takes the
// tensor cores as long as 64 halves. So everything is as it was with halves but for the types: twice the rate if loads
// keep up, and they are the same bytes in the same time.
//
// FP8 has few exponents: who rounds to it multiplies each matrix by a scale first, and the inverses of both are
// factors of the result. And it has few digits: products are exact, but Hopper cuts each of them off 13 places
// below the largest number at hand, and keeps 13 digits of the sum. Over a long k that is what errors are made of.

#define TYPE A_TYPE
#define TILE_N 128

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS)
    fp8_wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c,
              int m, int n, int k, f32 alpha, f32 beta, f32 scale_a, f32 scale_b) {
    const Thread thread;
    Sums sums;
    const Place place = load_and_multiply(sums, thread, map_a, map_b, m, n, k);
    const Result result = {c, m, n, alpha * scale_a * scale_b, beta};
    finish(sums, thread, result, place);
    store_pairs(sums, thread, result, place);
}
