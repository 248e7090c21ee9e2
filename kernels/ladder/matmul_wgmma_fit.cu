/*---
title: A tile for each block, cut so that they fill the SMs once
follows: hgemm_wgmma_roles
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  WARPGROUPS: [2, 1]      # 64 rows of a tile each
  TILE_N: [128, 64, 16]   # columns of a tile
  OVERLAP: [0, 1]         # 1: the next launch begins while this one ends
let:
  depth: 128 // size(TYPE)
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  shared: 1024 + min(8, max(4, ceil(k / depth)), floor(220 * 1024 / stage)) * stage
  rows: ceil(m / (WARPGROUPS * 64))
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows of C
tile: [WARPGROUPS * 64, TILE_N, depth]
block: ["WARPGROUPS * 128 + 32"]
grid: ["ceil(rows / patches)", "ceil(n / TILE_N)", patches]
working_blocks: "rows * ceil(n / TILE_N)"
shared_bytes: shared
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, "min(WARPGROUPS * 64, 8 * ceil(m / 8))"], swizzle: 128}
  map_b: {of: b, box: [depth, TILE_N], swizzle: 128}
architecture_specific: true
requires: {arch: 90, k: 16 // size(TYPE), conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// Tiles of one size fit few shapes: 2304 x 1920 are 144 tiles of 128x256, a wave of 132 SMs and 12 blocks that run
// alone, and 512 x 512 are 8. Here a tile is one or two warpgroups high and as wide as the macros say, so that the
// tiles of a shape are as many as the SMs, or a little fewer: 64x64 for the second one.
//
// Where a block has one tile, nothing hides its beginning and its end. So the warp that loads prepares the
// mbarriers and goes on to ask for chunks without waiting for the others; and results pass through the ring's memory,
// which is free then, to leave as whole lines.

#define ROOM 220  // KiB of shared memory

#include "overlap.cuh"
#include "wgmma_fit.cuh"

using namespace fit;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_fit(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c,
                    int m, int n, int k, Scalar alpha, Scalar beta) {
    const Thread thread;
    Ring ring;
    const Place place = place_of();
    if (place.row >= m) return;
    overlap::let_next_begin();
    const int chunks = chunks_of(k);
    if (loads(thread)) {
        ring.begin(thread);
        overlap::wait_for_launch_before();
        if (elected()) load_chunks(ring, map_a, map_b, place, rows_loaded(m), 0, chunks);
    } else {
        ring.join(rows_loaded(m), chunks);
        Sums sums;
        multiply_chunks(sums, thread, ring, chunks);
        const Result result = {c, m, n, alpha, beta};
        overlap::wait_for_launch_before();
        store(sums, thread, ring, result, place);
    }
}
