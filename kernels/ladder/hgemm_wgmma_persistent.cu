/*---
title: The same, a block an SM that goes from tile to tile
follows: hgemm_wgmma_roles
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  TILE_M: [128, 256]         # outputs of a tile
  TILE_N: [256, 128]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 128 * 256"]
let:
  shared: 1024 + STAGES * (TILE_M + TILE_N) * 128
  tiles: ceil(m / TILE_M) * ceil(n / TILE_N)
tile: [TILE_M, TILE_N, 64]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [64, TILE_M], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// An SM has room for one of these blocks: when a block ends and the next one begins, barriers are set up, the
// first chunks are waited for and the tensor cores are idle. Here a block stays and takes every tile
// whose number is its own modulo the number of blocks. The loads do not stop at the end of a tile: they run
// ahead into the next one while results are stored. Tiles are numbered so that those of a wave share
// rows of A and columns of B in L2.

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_persistent(const __grid_constant__ CUtensorMap map_a,
                           const __grid_constant__ CUtensorMap map_b, Out* c, int m, int n, int k,
                           f32 alpha, f32 beta) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<40>();
        load_tiles(thread, ring, map_a, map_b, tiles, chunks);
    } else {
        take_registers<232>();
        const Result result = {c, m, n, alpha, beta};
        Sums sums;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            ring.release(thread, multiply_tile(sums, thread, ring, chunks));
            finish(sums, thread, result, place);
            store_pairs(sums, thread, result, place);
        }
    }
}
