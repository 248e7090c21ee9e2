/*---
title: The same, with a ring of stages that loads run ahead in
follows: hgemm_wgmma
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  STAGES: [4, 2, 3, 6]       # chunks of shared memory in flight or in use
let: {shared: "1024 + STAGES * 256 * 128"}
tile: [128, 128, 64]
block: [256]
grid: ["ceil(m / 128) * ceil(n / 128)"]
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [64, 128], swizzle: 128}
  map_b: {of: b, box: [64, 128], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// A chunk was multiplied only after the whole way from memory had been waited for. Here shared memory holds a
// ring of stages, and STAGES - 1 chunks are on their way while one is multiplied. A stage has two mbarriers:
// one completes when the TMA has brought its bytes, the other one when every warp has released what it
// read, so that the warpgroups need no barrier of the block and may be apart. A stage is released
// when the products of the next chunk have begun: the tensor cores always have work waiting.

#define TILE_N 128

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS)
    hgemm_wgmma_pipeline(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                         Out* c, int m, int n, int k, f32 alpha, f32 beta) {
    const Thread thread;
    Sums sums;
    const Place place = load_and_multiply(sums, thread, map_a, map_b, m, n, k);
    const Result result = {c, m, n, alpha, beta};
    finish(sums, thread, result, place);
    store_pairs(sums, thread, result, place);
}
