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
  OVERLAP: [0, 1]            # 1: a launch begins while the one before it ends
let:
  depth: 128 // size(TYPE)
  out: "4 if TYPE in ['tf32', 'i8'] else 2"  # bytes of a result
  height: m  # a number, as it was measured
  rows: ceil(m / 64)
  columns: ceil(n / 128)
  # blocks that share a tile along k: as many as there are SMs for
  parts: max(1, min(floor(sms / (rows * columns)), ceil(k / depth)))
  slices: "8 if parts >= 16 else 1"  # of a block that adds them
tile: [64, 128, depth]
programmatic: OVERLAP
working_blocks: parts * rows * columns
buffers:
  partials: {dtype: u32, size: "parts * rows * columns * 64 * 128"}
tensor_maps:
  map_a: {of: a, box: [depth, "min(64, 8 * ceil(m / 8))"], swizzle: 128}
  map_b: {of: b, box: [depth, 128], swizzle: 128}
architecture_specific: true
requires: {arch: 90, k: 16 // size(TYPE), conditions: [wgmma, "232448 <= shared_per_block_optin"]}
launches:
  - entry: multiplied
    block: [160]
    grid: [rows, columns, parts]
    shared_bytes: "1024 + 8 * (64 + 128) * 128"
    arguments: [map_a, map_b, height, k, partials]
  - entry: added
    block: [128, slices]
    grid: [ceil(n / 16), rows]
    shared_bytes: "1024 + 64 * (48 if out == 2 else 96)"  # 16 results of a row, and a gap
    arguments: [c, m, n, parts, alpha, beta, partials]
---*/

// Blocks that send each other their sums are one cluster, and clusters of four or more leave SMs out. Here the blocks of
// a tile know nothing of each other, and every SM has one of them, with a ring of up to eight stages. They leave their sums in
// global memory, in whole lines because in the order of registers, and a second launch adds the parts, wherever the first
// one ran: for each 16 columns of a tile as many threads as a tile has, several times where parts are many.
//
// How many parts is not left to a macro: as many as there are SMs for, so that of two tiles each has 66, and of more tiles
// than half of the SMs none has more than one.

#define WARPGROUPS 1
#define TILE_N 128
#define ROOM 225

#include "overlap.cuh"
#include "part_slices.cuh"
#include "pieces.cuh"
#include "wgmma_fit.cuh"

using namespace fit;

constexpr int GROUP_COLUMNS = 16;  // that a block adds: a sector or two of each row of C
constexpr int GROUP_QUADS = GROUP_COLUMNS / QUAD_COLUMNS;
constexpr int SLICES = 8;  // at most

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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    multiplied(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, int m, int k,
               Number* partials) {
    const Thread thread;
    Ring ring;
    overlap::let_next_begin();
    const int row = blockIdx.x, column = blockIdx.y, part = blockIdx.z;
    const auto [first, end] = pieces::Piece(chunks_of(k), part, gridDim.z);
    if (loads(thread)) {
        ring.begin(thread);
        overlap::wait_for_launch_before();
        const Place place = {row * TILE_M, column * TILE_N};
        if (elected()) load_chunks(ring, map_a, map_b, place, rows_loaded(m), first, end);
        return;
    }
    Sums sums;
    ring.join(rows_loaded(m), end - first);
    multiply_chunks(sums, thread, ring, end - first);
    overlap::wait_for_launch_before();
    Quad* const target = quads_of(partials, part, row, column, gridDim.x, gridDim.y);
#pragma unroll
    for (int i = 0; i < SUMS / 4; ++i) {
        const Number* const quad = sums + 4 * i;
        __stcg(target + i * CONSUMERS, Quad{quad[0], quad[1], quad[2], quad[3]});
    }
}

// The blocks have 16 columns of a tile each, as many threads as a tile has, and slices where parts are many.
extern "C" __global__ void __launch_bounds__(CONSUMERS* SLICES, 1)
    added(Out* c, int m, int n, int parts, Scalar alpha, Scalar beta, Number* partials) {
    const int rows = (m - 1) / TILE_M + 1, columns = (n - 1) / TILE_N + 1;
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
