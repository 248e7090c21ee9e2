/*---
title: Pieces of k for blocks wherever they run, their parts added by a second launch
follows: matmul_wgmma_split
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: LAYOUT_B, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  WARPGROUPS: [1, 2, 3]      # 64 rows of a tile each
  TILE_N: [128, 64, 160, 192, 208, 256, 80, 96, 112, 144, 176]  # columns of a tile
  SPLITS: [1, 2]             # blocks of a cluster that leave one part, or that load for each other, ...
  DOWN: [1, 2]               # ... below each other in C (TURNED: beside), ...
  ACROSS: [1, 2]             # ... or beside each other (TURNED: below)
  TURNED: [0, 1]             # 1: rows here are columns of C, and columns its rows
  LAYOUT_B: [col, row]
  OVERLAP: [0, 1]            # 1: a launch begins while the one before it ends
where:
  - "WARPGROUPS <= 2 or TILE_N <= 160"  # registers for sums
  - "SPLITS * DOWN * ACROSS <= 2"
  - "TURNED == 0 or TYPE != 'e5m2'"  # wgmma takes its two types in this order only
  # of 16-bit types wgmma reads panels of 64 columns of B, of which one of two blocks loads some k
  - "LAYOUT_B == 'col' or (TYPE in ['f16', 'bf16'] and DOWN * ACROSS > 1 and (TURNED or TILE_N % 64 == 0))"
let:
  depth: 128 // size(TYPE)
  out: "4 if TYPE in ['tf32', 'i8'] else 2"  # bytes of a result
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  height: n if TURNED else m
  width: m if TURNED else n
  # of tiles in whole clusters, some of which may lie outside of C
  rows: DOWN * ceil(height / (WARPGROUPS * 64 * DOWN))
  columns: ACROSS * ceil(width / (TILE_N * ACROSS))
  loaded: "WARPGROUPS * 64 // ACROSS if DOWN * ACROSS > 1 else min(WARPGROUPS * 64, 8 * ceil(height / 8))"  # rows of a box
  # clusters that share a tile along k: as many as there are SMs for
  parts: max(1, min(floor(sms // SPLITS / (rows * columns)), floor(ceil(k / depth) / SPLITS)))
  slices: "8 // WARPGROUPS if parts >= 16 // WARPGROUPS else 1"  # of a block that adds them
tile: ["TILE_N if TURNED else WARPGROUPS * 64", "WARPGROUPS * 64 if TURNED else TILE_N", depth]
programmatic: OVERLAP
# without those of a cluster that lies across the edge of C
working_blocks: "SPLITS * parts * ceil(height / (WARPGROUPS * 64)) * ceil(width / TILE_N)"
buffers:
  partials: {dtype: u32, size: "parts * rows * columns * WARPGROUPS * 64 * TILE_N"}
tensor_maps:
  map_a: {of: a, box: [depth, TILE_N // DOWN if TURNED else loaded], swizzle: 128}
  map_b: {of: b, box: [depth, "64 // (ACROSS if TURNED else DOWN) if LAYOUT_B == 'row' else loaded if TURNED else TILE_N // DOWN"], swizzle: 128}
architecture_specific: true
requires:
  arch: 90
  n: "8 if LAYOUT_B == 'row' else 16 // out if TURNED else 1"
  k: 16 // size(TYPE)
  conditions: [wgmma, clusters, "232448 <= shared_per_block_optin"]
launches:
  - entry: multiplied
    block: ["WARPGROUPS * 128 + 32"]
    cluster: [SPLITS * DOWN, ACROSS]
    grid: [SPLITS * rows, columns, parts]
    shared_bytes: "1024 + min(8, floor(225 * 1024 / stage)) * stage"
    arguments: [map_a, map_b, height, k, partials]
  - entry: added
    block: ["WARPGROUPS * 128", slices]
    grid: [ceil(width / 16), ceil(height / (WARPGROUPS * 64))]
    shared_bytes: "1024 + WARPGROUPS * 64 * (48 if out == 2 else 96)"  # 16 results of a row, and a gap
    arguments: [c, m, n, parts, alpha, beta, partials]
---*/

// Blocks that send each other their sums are one cluster, and clusters of four or more leave SMs out. Here the blocks of
// a tile know nothing of each other, and every SM has one of them, with a ring of up to eight stages. They leave their sums in
// global memory, in whole lines because in the order of registers, and a second launch adds the parts, wherever the first
// one ran: for each 16 columns of a tile as many threads as a tile has, several times where parts are many.
//
// How many parts is not left to a macro: as many as there are SMs for, so that of two tiles each has 66, and of more tiles
// than half of the SMs none has more than one. Where tiles are large, parts are what costs: then two blocks may be a cluster
// after all, which leaves one part, added where their stages were (cluster_parts.cuh).
//
// 528 rows are four times 128 and 16 more, but three times 176: TURNED gives wgmma columns of B as its rows
// (wgmma_turned.cuh), and rows of A come by 16. And where all SMs read pieces of a few tiles, L2 gives less than they ask for:
// two blocks with the same piece may load what both need for each other (wgmma_neighbours.cuh).

#define ROOM 225
#define STAGES 8

#include "pieces.cuh"
#include "wgmma_neighbours.cuh"
#include "wgmma_parts.cuh"

using namespace fit;

constexpr bool WITH_NEIGHBOURS = DOWN * ACROSS > 1;  // who load for each other

using Exchange = cluster_parts::Exchange<SPLITS, CONSUMERS, Number, SUMS>;
static_assert((SPLITS - 1) * Exchange::SLOT_BYTES <= RING * STAGE_BYTES, "the stages have room for the others' sums");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    multiplied(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, int height, int k,
               Number* partials) {
    __shared__ u64 arrived;
    const Thread thread;
    Ring ring;
    const Neighbours own;
    const CUtensorMap &rows = TURNED ? map_b : map_a, &columns = TURNED ? map_a : map_b;
    overlap::let_next_begin();
    const int row = blockIdx.x / SPLITS, column = blockIdx.y, part = blockIdx.z, rank = blockIdx.x % SPLITS;
    const auto [first, end] = pieces::Piece(chunks_of(k), part * SPLITS + rank, gridDim.z * SPLITS);
    const Exchange exchange = {ring.stages, shared_of(&arrived)};
    if (thread.loads()) {
        if (SPLITS > 1 && thread.lane == 0) exchange.begin(rank);
        if (WITH_NEIGHBOURS) begin_with_neighbours(ring, thread);
        else ring.begin(thread);
        overlap::wait_for_launch_before();
        const Place place = {row * TILE_M, column * TILE_N};
        if (elected()) {
            if (WITH_NEIGHBOURS) load_for_neighbours(ring, rows, columns, place, own, first, end);
            else load_chunks(ring, rows, columns, place, rows_loaded(height), first, end);
        }
        if (SPLITS > 1) {
            __syncwarp();
            cluster_parts::arrive();
            cluster_parts::wait_for_all();
        }
        return;
    }
    Sums sums;
    if constexpr (WITH_NEIGHBOURS) {
        join_with_neighbours(ring);
        multiply_chunks(sums, thread, ring, end - first, ReleaseToNeighbours(ring, thread, own));
    } else {
        ring.join(rows_loaded(height), end - first);
        multiply_chunks(sums, thread, ring, end - first);
    }
    Number share[Exchange::SHARE];
    if constexpr (SPLITS > 1) {
        cluster_parts::arrive();  // nobody reads the stages any more when all have
        exchange.send(share, sums, rank);
        exchange.add(share, rank);
    }
    overlap::wait_for_launch_before();
    Quad* const target =
        quads_of(partials, part, row, column, gridDim.x / SPLITS, gridDim.y) + Exchange::first(rank) * CONSUMERS;
    if constexpr (SPLITS > 1) {
        leave_part(target, share, Exchange::quads_of(rank));
    } else {
        leave_part(target, sums);
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS* SLICES, 1)
    added(Out* c, int m, int n, int parts, Scalar alpha, Scalar beta, Number* partials) {
    const int rows = ((TURNED ? n : m) - 1) / (TILE_M * DOWN) * DOWN + DOWN;  // of tiles, in whole clusters
    const int columns = ((TURNED ? m : n) - 1) / (TILE_N * ACROSS) * ACROSS + ACROSS;
    add_parts({c, m, n, alpha, beta}, partials, parts, rows, columns);
}
