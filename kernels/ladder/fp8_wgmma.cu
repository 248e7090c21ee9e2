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

#define TYPE bf16
#define TILE_M 128
#define TILE_N 128

#include "fp8_wgmma.cuh"

using namespace hopper;

static_assert(STAGES >= 2, "one chunk is multiplied while another one is loaded");

extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS)
    fp8_wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, element* c,
              int m, int n, int k, f32 alpha, f32 beta, f32 scale_a, f32 scale_b) {
    const Thread thread;
    Ring ring, loads;
    const bool loader = threadIdx.x == 0;
    if (loader) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Place place = Tiles(m, n).in_rows(blockIdx.x);
    const int chunks = fp8::chunks_of(k);
    if (loader) {
        for (int chunk = 0; chunk < min(STAGES - 1, chunks); ++chunk) {
            fp8::load_chunk(loads, map_a, map_b, place, chunk);
            loads.next();
        }
    }
    Sums sums;
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        fp8::multiply_chunk(sums, thread, ring.at(), chunk);
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
        // Into the stage that has just been released, as soon as the other warps have released it too.
        if (loader && chunk + STAGES - 1 < chunks) {
            loads.wait_empty();
            fp8::load_chunk(loads, map_a, map_b, place, chunk + STAGES - 1);
            loads.next();
        }
        __syncwarp();
    }
    wait_products<0>();

    const Result result = {c, m, n, alpha * scale_a * scale_b, beta};
    finish(sums, thread, result, place);
    store_pairs(sums, thread, result, place);
}
