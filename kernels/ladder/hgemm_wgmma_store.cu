/*---
title: The same, results leave by way of shared memory and TMA
follows: hgemm_wgmma_persistent
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
  # stages, then two strips of 2048 bytes for each of eight warps
  shared: 1024 + STAGES * (TILE_M + TILE_N) * 128 + 8 * 2 * 2048
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
  map_c: {of: c, box: [64, 16], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// A store from registers has eight pieces of 16 bytes, each in another row of C: half of every 32-byte
// sector, twice. Here a warp lays 16 rows of 64 results down in shared memory (stmatrix, permuted so that
// no banks conflict), and one lane has the TMA store them in whole lines. A warp has two such strips and
// fills one while the other one is read; no warp waits for another one.

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_store(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                      const __grid_constant__ CUtensorMap map_c, Out* c, int m, int n, int k, f32 alpha,
                      f32 beta) {
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
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            ring.release(thread, multiply_tile(sums, thread, ring, chunks));
            finish(sums, thread, result, place);
            store_strips(sums, thread, map_c, place, own_strips);
        }
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
