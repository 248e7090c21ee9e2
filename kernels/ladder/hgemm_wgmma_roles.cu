/*---
title: The same, with a warpgroup that does nothing but loads, and tiles twice as large
follows: hgemm_wgmma_pipeline
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  TILE_M: [128, 256]         # outputs of a thread block
  TILE_N: [256, 128]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
where: ["TILE_M * TILE_N <= 128 * 256"]
let: {shared: "1024 + STAGES * (TILE_M + TILE_N) * 128"}
tile: [TILE_M, TILE_N, 64]
block: [384]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [64, TILE_M], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// A thread that multiplies and loads has to wait for the slower warpgroup before it can ask for the next
// chunk, and then comes late to its own products. Here a third warpgroup does the asking, and the other two
// never wait for anything but data. It gives its registers to them (setmaxnreg), which makes room for
// 128 sums a thread: a tile of 128x256 reads 0.75 of the bytes that tiles of 128x128 read for the same
// outputs, from L2 and, by wgmma, from shared memory.

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_roles(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                      Out* c, int m, int n, int k, f32 alpha, f32 beta) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Place place = Tiles(m, n).in_rows(blockIdx.x);
    const int chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<40>();
        if (thread.warp == CONSUMER_WARPS && elected()) {
            for (int chunk = 0; chunk < chunks; ++chunk) {
                ring.wait_empty();
                load_chunk(ring, map_a, map_b, place, chunk);
                ring.next();
            }
        }
    } else {
        take_registers<232>();
        Sums sums;
        multiply_tile(sums, thread, ring, chunks);
        const Result result = {c, m, n, alpha, beta};
        finish(sums, thread, result, place);
        store_pairs(sums, thread, result, place);
    }
}
