/*---
title: The same, A column-major or B row-major
follows: hgemm_wgmma_store
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: LAYOUT_A, b: LAYOUT_B, c: row}
macros:
  TYPE: [f16, bf16]
  LAYOUT_A: [row, col]
  LAYOUT_B: [row, col]
  TILE_M: [128, 256]         # outputs of a tile
  TILE_N: [256, 128]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 128 * 256", "LAYOUT_A == 'col' or LAYOUT_B == 'row'"]
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
  map_a: {of: a, box: [64, "64 if LAYOUT_A == 'col' else TILE_M"], swizzle: 128}
  map_b: {of: b, box: [64, "64 if LAYOUT_B == 'row' else TILE_N"], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
architecture_specific: true
requires: {arch: 90, m: "8 if LAYOUT_A == 'col' else 1", n: 8, k: "8 if LAYOUT_A == 'row' or LAYOUT_B == 'col' else 1",
    conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// What is not contiguous along k comes in panels of 64 rows of A or columns of B (wgmma_panels.cuh).

// Of A or B by its layout.
#define A_IN_PANELS_row 0
#define A_IN_PANELS_col 1
#define B_IN_PANELS_row 1
#define B_IN_PANELS_col 0
#define ROWS_IN_PANELS NAMED(A_IN_PANELS_, LAYOUT_A)
#define COLUMNS_IN_PANELS NAMED(B_IN_PANELS_, LAYOUT_B)
#define TRANSPOSED TEXT(ROWS_IN_PANELS) ", " TEXT(COLUMNS_IN_PANELS)

#include "wgmma_tile.cuh"

using namespace hopper;

using A = panels::Order<ROWS_IN_PANELS>;
using B = panels::Order<COLUMNS_IN_PANELS>;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_layouts(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
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
        const auto of = [&](const CUtensorMap& map) {
            return [&](unsigned at, int along, int across) { load(at, map, along, across, ring.full_barrier()); };
        };
        load_tiles(thread, ring, tiles, chunks, [&](const Place& place, int chunk) {
            expect(ring.full_barrier(), STAGE_BYTES);
            A::load_boxes<TILE_M>(ring.at(), place.row, chunk * CHUNK, of(map_a));
            B::load_boxes<TILE_N>(ring.at() + A_BYTES, place.column, chunk * CHUNK, of(map_b));
        });
    } else {
        take_registers<232>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            ring.release(thread, multiply_tile<A, B>(sums, thread, ring, chunks));
            finish(sums, thread, result, place);
            store_strips(sums, thread, map_c, place, own_strips);
        }
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
