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

#define TILE_M 128
#define TILE_N 128

#include "hgemm_wgmma.cuh"

using namespace hopper;

static_assert(STAGES >= 2, "one chunk is multiplied while another one is loaded");

extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS)
    hgemm_wgmma_pipeline(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                         element* c, int m, int n, int k, f32 alpha, f32 beta) {
    const Thread thread;
    Ring ring, loads;
    const bool loader = threadIdx.x == 0;
    if (loader) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Place place = Tiles(m, n).in_rows(blockIdx.x);
    const int chunks = chunks_of(k);
    if (loader) {
        for (int chunk = 0; chunk < min(STAGES - 1, chunks); ++chunk) {
            load_chunk(loads, map_a, map_b, place, chunk);
            loads.next();
        }
    }
    Sums sums;
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        multiply_chunk(sums, thread, ring.at(), chunk);
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
        // Into the stage that has just been released, as soon as the other warps have released it too.
        if (loader && chunk + STAGES - 1 < chunks) {
            loads.wait_empty();
            load_chunk(loads, map_a, map_b, place, chunk + STAGES - 1);
            loads.next();
        }
        __syncwarp();
    }
    wait_products<0>();

    const Result result = {c, m, n, alpha, beta};
    finish(sums, thread, result, place);
    store_pairs(sums, thread, result, place);
}
