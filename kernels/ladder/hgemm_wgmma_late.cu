/*---
title: The same, a tile's results leave while the next tile is multiplied
follows: hgemm_wgmma_store
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  TILE_M: [128, 256]         # outputs of a tile
  TILE_N: [256, 128]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
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
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [64, TILE_M], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// Between the last product of a tile and the first one of the next the tensor cores had nothing to do: the
// results were packed, laid down and sent. Only the packing has to happen then: 64 registers hold the results
// of a whole tile in 16 bits, the sums are free for the next tile, and its first chunks hide all the rest, a
// strip behind the products of each (multiply_beside_stores in wgmma_tile.cuh).
//
// The last tile has no next one to hide behind. Its strips do not wait for each other: a stage of the ring
// that nothing will be loaded into any more has room for most of them, and all leave at once.

#include "wgmma_tile.cuh"
#include "overlap.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_late(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c, Out* c, int m, int n, int k, f32 alpha,
                     f32 beta) {
    const Thread thread;
    Ring ring;
    overlap::let_next_begin();
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();
    overlap::wait_for_launch_before();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        load_tiles(thread, ring, map_a, map_b, tiles, chunks);
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        const bool leader = thread.lane == 0;
        Sums sums;
        Words held[HELD];  // the results of the tile before
        Place before = {0, 0};
        bool waiting = false;  // these results for their way to C
        int previous = 0;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = multiply_beside_stores(sums, thread, ring, previous, tiles, tile, chunks, map_c,
                                                       before, waiting, own_strips, held);
            finish(sums, thread, result, place);
            hold(held, sums, thread, map_c, place, own_strips);
            before = place;
            waiting = true;
        }

        store_last(thread, ring, map_c, before, own_strips, held);  // every block has a tile
        if (leader) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
