/*---
title: Pieces of k for blocks wherever they run, their parts added by a second launch
follows: matmul_wgmma_split
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  WARPGROUPS: [1, 2]         # 64 rows of a tile each
  SPLITS: [1, 2]             # blocks of a cluster that leave one part, or that load for each other, ...
  DOWN: [1, 2]               # ... below each other in C, ...
  ACROSS: [1, 2]             # ... or beside each other
  OVERLAP: [0, 1]            # 1: a launch begins while the one before it ends
where: ["SPLITS * DOWN * ACROSS <= 2"]
let:
  depth: 128 // size(TYPE)
  out: "4 if TYPE in ['tf32', 'i8'] else 2"  # bytes of a result
  stage: (WARPGROUPS * 64 + 128) * 128
  height: m  # a number, as it was measured
  # of tiles in whole clusters, some of which may lie outside of C
  rows: DOWN * ceil(m / (WARPGROUPS * 64 * DOWN))
  columns: ACROSS * ceil(n / (128 * ACROSS))
  loaded: "WARPGROUPS * 64 // ACROSS if DOWN * ACROSS > 1 else min(WARPGROUPS * 64, 8 * ceil(m / 8))"  # rows of a box
  # clusters that share a tile along k: as many as there are SMs for
  parts: max(1, min(floor(sms // SPLITS / (rows * columns)), floor(ceil(k / depth) / SPLITS)))
  slices: "8 // WARPGROUPS if parts >= 16 // WARPGROUPS else 1"  # of a block that adds them
tile: [WARPGROUPS * 64, 128, depth]
programmatic: OVERLAP
# without those of a cluster that lies across the edge of C
working_blocks: "SPLITS * parts * ceil(m / (WARPGROUPS * 64)) * ceil(n / 128)"
buffers:
  partials: {dtype: u32, size: "parts * rows * columns * WARPGROUPS * 64 * 128"}
tensor_maps:
  map_a: {of: a, box: [depth, loaded], swizzle: 128}
  map_b: {of: b, box: [depth, 128 // DOWN], swizzle: 128}
architecture_specific: true
requires: {arch: 90, k: 16 // size(TYPE), conditions: [wgmma, clusters, "232448 <= shared_per_block_optin"]}
launches:
  - entry: multiplied
    block: ["WARPGROUPS * 128 + 32"]
    cluster: [SPLITS * DOWN, ACROSS]
    grid: [SPLITS * rows, columns, parts]
    shared_bytes: "1024 + min(8, floor(225 * 1024 / stage)) * stage"
    arguments: [map_a, map_b, height, k, partials]
  - entry: added
    block: ["WARPGROUPS * 128", slices]
    grid: [ceil(n / 16), ceil(m / (WARPGROUPS * 64))]
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
// Where all SMs read pieces of a few tiles, L2 gives less than they ask for: two blocks with the same piece may load what
// both need for each other (wgmma_neighbours.cuh).

#define TILE_N 128
#define ROOM 225

#include "overlap.cuh"
#include "part_slices.cuh"
#include "pieces.cuh"
#include "wgmma_neighbours.cuh"

using namespace fit;

constexpr bool WITH_NEIGHBOURS = DOWN * ACROSS > 1;  // who load for each other

namespace fit {

constexpr int GROUP_COLUMNS = 16;  // that a block of the second launch adds: a sector or two of each row of C
constexpr int GROUP_QUADS = GROUP_COLUMNS / QUAD_COLUMNS;
constexpr int SLICES = 8 / WARPGROUPS;  // at most

#if WHOLE_NUMBERS
using Quad = int4;
#else
using Quad = float4;
#endif

// This thread's first quad in part `part` of a tile, behind which the others follow CONSUMERS apart.
__device__ __forceinline__ Quad* quads_of(Number* partials, int part, int row, int column, int rows, int columns) {
    const long long number = (static_cast<long long>(part) * columns + column) * rows + row;
    return reinterpret_cast<Quad*>(partials + number * (TILE_M * TILE_N)) + threadIdx.x;
}

// What a thread has of a part, or of so many quads of it.
template <int COUNT>
__device__ __forceinline__ void leave_part(Quad* target, const Number (&sums)[COUNT], int quads = COUNT / 4) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) {
        const Number* const quad = sums + 4 * i;
        if (i < quads) __stcg(target + i * CONSUMERS, Quad{quad[0], quad[1], quad[2], quad[3]});
    }
}

}  // namespace fit

using Exchange = cluster_parts::Exchange<SPLITS, CONSUMERS, Number, SUMS>;
static_assert((SPLITS - 1) * Exchange::SLOT_BYTES <= RING * STAGE_BYTES, "the stages have room for the others' sums");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    multiplied(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, int m, int k,
               Number* partials) {
    __shared__ u64 arrived;
    const Thread thread;
    Ring ring;
    const Neighbours own;
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
            if (WITH_NEIGHBOURS) load_for_neighbours(ring, map_a, map_b, place, own, first, end);
            else load_chunks(ring, map_a, map_b, place, rows_loaded(m), first, end);
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
        ring.join(rows_loaded(m), end - first);
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
    const int rows = (m - 1) / (TILE_M * DOWN) * DOWN + DOWN;  // of tiles, in whole clusters
    const int columns = (n - 1) / (TILE_N * ACROSS) * ACROSS + ACROSS;
    const Thread thread;
    const Ring ring;
    overlap::let_next_begin();
    const Place place = {static_cast<int>(blockIdx.y) * TILE_M, static_cast<int>(blockIdx.x) * GROUP_COLUMNS};
    const int first = place.column % TILE_N / QUAD_COLUMNS;
    overlap::wait_for_launch_before();
    Quad quads[GROUP_QUADS];
    const bool all = part_slices::sum<SLICES, CONSUMERS, CONSUMERS>(
        quads, parts, threadIdx.y, blockDim.y, threadIdx.x, [&](int part) {
            return quads_of(partials, part, blockIdx.y, place.column / TILE_N, rows, columns) + first * CONSUMERS;
        });
    if (all) {
        store(reinterpret_cast<Number(&)[4 * GROUP_QUADS]>(quads), thread, ring, {c, m, n, alpha, beta}, place);
    }
}
