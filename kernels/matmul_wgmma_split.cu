/*---
title: Pieces of k for the blocks of a cluster, added through distributed shared memory
follows: matmul_wgmma_fit
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  SPLITS: [4, 2, 8, 3, 5, 6, 7]  # blocks of a cluster, each with a piece of k
  WARPGROUPS: [2, 1]         # 64 rows of a tile each
  TILE_N: [128, 64, 32, 160, 192, 96, 176]  # columns of a tile
  STAGES: [8, 16]            # chunks of k in flight or in use, at most
  ROOM: [160, 72, 128, 192]  # KiB that they may take: two blocks an SM with 72
  TURNED: [0, 1]             # 1: rows here are columns of C, and columns its rows
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
where:
  - "WARPGROUPS * TILE_N <= 128 or ROOM >= 128"
  - "TILE_N >= 8 * SPLITS"
  - "TURNED == 0 or TYPE != 'e5m2'"  # wgmma takes its two types in this order only
let:
  depth: 128 // size(TYPE)
  out: "4 if TYPE in ['tf32', 'i8'] else 2"  # bytes of a result
  height: n if TURNED else m
  width: m if TURNED else n
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  # what the others have of a block's share of the tile's columns, which are dealt out by eight
  parts: WARPGROUPS * 64 * 4 * 8 * ceil(TILE_N / (8 * SPLITS)) * (SPLITS - 1)
  shared: 1024 + min(STAGES, max(4, ceil(ceil(k / depth) / SPLITS)), floor(ROOM * 1024 / stage)) * stage + parts
  rows: ceil(height / (WARPGROUPS * 64))
  columns: ceil(width / TILE_N)
  loaded: min(WARPGROUPS * 64, 8 * ceil(height / 8))  # rows of a box
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows
tile: ["TILE_N if TURNED else WARPGROUPS * 64", "WARPGROUPS * 64 if TURNED else TILE_N", depth]
block: ["WARPGROUPS * 128 + 32"]
cluster: [SPLITS]
grid: ["SPLITS * ceil(rows / patches)", columns, patches]
working_blocks: SPLITS * rows * columns
shared_bytes: shared
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, TILE_N if TURNED else loaded], swizzle: 128}
  map_b: {of: b, box: [depth, loaded if TURNED else TILE_N], swizzle: 128}
architecture_specific: true
requires:
  arch: 90
  n: 16 // out if TURNED else 1
  k: 16 // size(TYPE)
  conditions: [wgmma, clusters, "shared <= shared_per_block_optin"]
entry: matmul_wgmma_split
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// Few tiles and a long k leave SMs without work, and smaller tiles read more for each product. Here the blocks of a
// cluster share a tile: each has an equal piece of k. hgemm_split_k and the library's own split leave their parts in
// global memory, for the last block or for a second kernel; blocks of a cluster can write into each other's shared
// memory (wgmma_split.cuh). TURNED: see matmul_wgmma_two_launches.

#include "wgmma_split.cuh"

using namespace fit;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    matmul_wgmma_split(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c,
                      int m, int n, int k, Scalar alpha, Scalar beta) {
    const Place place = place_of(SPLITS);
    if (place.row >= (TURNED ? n : m)) return;  // the whole cluster
    overlap::let_next_begin();
    multiply_in_pieces(map_a, map_b, {c, m, n, alpha, beta}, k, place);
}
