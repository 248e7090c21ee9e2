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
  SPLITS: [4, 2]        # blocks of a cluster, each with a piece of k
  WARPGROUPS: [2, 1]    # 64 rows of a tile each
  TILE_N: [128, 64, 32] # columns of a tile
  ROOM: [160, 192]      # KiB that chunks of k in flight or in use may take
  OVERLAP: [0, 1]       # 1: the next launch begins while this one ends
let:
  depth: 128 // size(TYPE)
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  # what the others have of a block's share of the tile's columns, which are dealt out by eight
  parts: WARPGROUPS * 64 * 4 * 8 * ceil(TILE_N / (8 * SPLITS)) * (SPLITS - 1)
  shared: 1024 + min(8, max(4, ceil(ceil(k / depth) / SPLITS)), floor(ROOM * 1024 / stage)) * stage + parts
  rows: ceil(m / (WARPGROUPS * 64))
  columns: ceil(n / TILE_N)
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows
tile: [WARPGROUPS * 64, TILE_N, depth]
block: ["WARPGROUPS * 128 + 32"]
cluster: [SPLITS]
grid: ["SPLITS * ceil(rows / patches)", columns, patches]
working_blocks: SPLITS * rows * columns
shared_bytes: shared
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, "min(WARPGROUPS * 64, 8 * ceil(m / 8))"], swizzle: 128}
  map_b: {of: b, box: [depth, TILE_N], swizzle: 128}
architecture_specific: true
requires: {arch: 90, k: 16 // size(TYPE), conditions: [wgmma, clusters, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// Few tiles and a long k leave SMs without work, and smaller tiles read more for each product. Here the blocks of a
// cluster share a tile: each has an equal piece of k. hgemm_split_k and the library's own split leave their parts in
// global memory, for the last block or for a second kernel; blocks of a cluster can write into each other's shared
// memory: each completes a share of the tile's columns and gets what the others have of these (cluster_parts.cuh), so
// that all of them add and all of them store.

#include "cluster_parts.cuh"
#include "overlap.cuh"
#include "pieces.cuh"
#include "wgmma_fit.cuh"

using namespace fit;

using Parts = cluster_parts::Exchange<SPLITS, CONSUMERS, Number, SUMS>;

// By the warps that multiply: a block's sums of a tile become its share of C.
__device__ __forceinline__ void finish(Sums& sums, const Parts& parts, int rank, const Thread& thread, const Ring& ring,
                                       const Result& result, Place place) {
    Number own[Parts::SHARE];
    parts.send(own, sums, rank);
    parts.add(own, rank);
    place.column += Parts::first(rank) * QUAD_COLUMNS;
    overlap::wait_for_launch_before();
    store(own, thread, ring, result, place, Parts::quads_of(rank) * QUAD_COLUMNS);
}

// By all threads of a block, of a cluster whose tile at `place` has rows of C.
__device__ __forceinline__ void multiply_in_pieces(const CUtensorMap& map_a, const CUtensorMap& map_b, const Result& result,
                                                   int k, Place place) {
    __shared__ u64 arrived;
    const Thread thread;
    Ring ring;
    const int loaded = rows_loaded(result.m), rank = cluster_parts::rank(), chunks = chunks_of(k);
    const auto [first, end] = pieces::Piece(chunks, rank, SPLITS);
    const int stages = stages_for((chunks + SPLITS - 1) / SPLITS);
    const Parts parts = {ring.stages + stages * STAGE_BYTES, shared_of(&arrived)};
    if (loads(thread)) {
        if (thread.lane == 0) parts.begin(rank);
        ring.begin(thread);
        cluster_parts::arrive();
        // What the launch before wrote is there for the TMA, too, behind the wait.
        overlap::wait_for_launch_before();
        if (elected()) load_chunks(ring, map_a, map_b, place, loaded, first, end);
        __syncwarp();
        cluster_parts::wait_for_all();
        return;
    }
    cluster_parts::arrive();
    ring.join(loaded, end - first);
    Sums sums;
    multiply_chunks(sums, thread, ring, end - first);
    finish(sums, parts, rank, thread, ring, result, place);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_split(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c,
                      int m, int n, int k, Scalar alpha, Scalar beta) {
    const Place place = place_of(SPLITS);
    if (place.row >= m) return;  // the whole cluster
    overlap::let_next_begin();
    multiply_in_pieces(map_a, map_b, {c, m, n, alpha, beta}, k, place);
}
