/*---
title: Tensor cores by wgmma, operands by TMA (one chunk of k at a time)
follows: hgemm_mma
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
tile: [128, 128, 64]
block: [256]
grid: ["ceil(m / 128) * ceil(n / 128)"]
shared_bytes: 1024 + 256 * 128
tensor_maps:
  map_a: {of: a, box: [64, 128], swizzle: 128}
  map_b: {of: b, box: [64, 128], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// mma.sync takes its operands from registers: every warp loads them there first, and ends at two thirds of
// the tensor cores' rate. wgmma takes both from shared memory, for a warpgroup of four warps at once: 64 rows
// and 128 columns here, for each of two warpgroups. The tensor memory accelerator (TMA) brings whole boxes
// of the matrices there in the permuted order that wgmma reads without bank conflicts; one thread asks
// for a box, and no thread computes addresses or holds bytes.
//
// Nothing overlaps yet within a block: a chunk is loaded, then multiplied, then the next one is loaded. An
// SM that holds two blocks or more has one of them load while another one multiplies.

#define TILE_N 128
#define STAGES 1

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS)
    hgemm_wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                Out* c, int m, int n, int k, f32 alpha, f32 beta) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(1);
    __syncthreads();

    const Place place = Tiles(m, n).in_rows(blockIdx.x);
    const int chunks = chunks_of(k);
    Sums sums;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (threadIdx.x == 0) load_chunk(ring, map_a, map_b, place, chunk);
        ring.wait_full();
        multiply_chunk(sums, thread, ring.at(), chunk);
        wait_products<0>();
        __syncthreads();  // both warpgroups have read the chunk
        ring.next();
    }

    const Result result = {c, m, n, alpha, beta};
    finish(sums, thread, result, place);
    store_pairs(sums, thread, result, place);
}
