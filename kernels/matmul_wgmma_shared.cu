/*---
title: The blocks of a cluster load rows and columns for each other
follows: matmul_wgmma_fit
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: LAYOUT_B, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  DOWN: [4, 2, 1, 3]         # blocks of a cluster below each other in C (TURNED: beside), ...
  ACROSS: [2, 1, 4]          # ... and beside each other (TURNED: below)
  WARPGROUPS: [2, 1, 3]      # 64 rows of a tile each
  TILE_N: [80, 64, 96, 112, 128, 144, 160, 176, 88, 48, 32]  # columns of a tile
  TURNED: [0, 1]             # 1: rows here are columns of C, and columns its rows
  LAYOUT_B: [col, row]
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
where:
  - "TILE_N <= 128 or WARPGROUPS <= 2 or (WARPGROUPS == 3 and TILE_N <= 160)"  # registers for sums
  - "TILE_N % DOWN == 0 and DOWN * ACROSS >= 2 and DOWN * ACROSS <= 8"
  - "TILE_N % 16 == 0 or (TURNED and TYPE != 'i8')"
  - "TURNED == 0 or TYPE != 'e5m2'"  # wgmma takes its two types in this order only
  # of 16-bit types wgmma reads panels of 64 columns of B, of which a block loads some k
  - "LAYOUT_B == 'col' or (TYPE in ['f16', 'bf16'] and (TURNED or TILE_N % 64 == 0))"
let:
  depth: 128 // size(TYPE)
  out: "4 if TYPE in ['tf32', 'i8'] else 2"  # bytes of a result
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  shared: 1024 + min(8, max(4, ceil(k / depth)), floor(220 * 1024 / stage)) * stage
  rows: "ceil((n if TURNED else m) / (WARPGROUPS * 64))"
  columns: "ceil((m if TURNED else n) / TILE_N)"
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows
  part_of_rows: WARPGROUPS * 64 // ACROSS   # of a tile, that a block loads
  part_of_columns: TILE_N // DOWN
tile: ["TILE_N if TURNED else WARPGROUPS * 64", "WARPGROUPS * 64 if TURNED else TILE_N", depth]
block: ["WARPGROUPS * 128 + 32"]
cluster: [DOWN, ACROSS]
grid: ["DOWN * ceil(rows / (patches * DOWN))", "ACROSS * ceil(columns / ACROSS)", patches]
working_blocks: rows * columns
shared_bytes: shared
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, "part_of_columns if TURNED else part_of_rows"], swizzle: 128}
  map_b: {of: b, box: [depth, "64 // (ACROSS if TURNED else DOWN) if LAYOUT_B == 'row' else part_of_rows if TURNED else part_of_columns"], swizzle: 128}
architecture_specific: true
requires:
  arch: 90
  n: "8 if LAYOUT_B == 'row' else 16 // out if TURNED else 1"
  k: 16 // size(TYPE)
  conditions: [wgmma, clusters, "shared <= shared_per_block_optin"]
entry: matmul_wgmma_shared
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// Small tiles ask for each row of A and B many times. Where rows begin at multiples of 128 bytes L2 bears that, but rows of
// 2000 bytes do not: a box's row then lies in two lines, and asks twice. Here blocks beside each other in C share rows
// of A and blocks below each other columns of B: each loads a part, and the TMA writes it into the shared memory of all.
// A stage may be filled when all blocks that get it have released theirs.
//
// Rows of a tile come by 64, columns by 16 or by 8: 520 rows are nine times 64, which pairs of blocks do not divide, or six
// times 88. TURNED gives wgmma columns of B as its rows and rows of A as its columns: below, and in DOWN
// and ACROSS, rows, columns, A and B are then each other. What it sums is the transpose, which stmatrix turns.
//
// Rows of a row-major B are n apart, not k: where that is a multiple of 128 bytes, only rows of A lie in two lines.

#define ROOM 220
#define STAGES 8

#include "overlap.cuh"
#include "wgmma_neighbours.cuh"
#include "wgmma_turned.cuh"

using namespace fit;

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    matmul_wgmma_shared(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c,
                        int m, int n, int k, Scalar alpha, Scalar beta) {
    const Thread thread;
    Ring ring;
    const Neighbours own;
    const CUtensorMap &rows = TURNED ? map_b : map_a, &columns = TURNED ? map_a : map_b;
    const Place place = place_of();  // may lie outside of C: who has nothing to store loads for the others
    overlap::let_next_begin();
    const int chunks = chunks_of(k);
    if (thread.loads()) {
        begin_with_neighbours(ring, thread);
        overlap::wait_for_launch_before();
        if (elected()) load_for_neighbours(ring, rows, columns, place, own, 0, chunks);
    } else {
        join_with_neighbours(ring);
        Sums sums;
        multiply_chunks(sums, thread, ring, chunks, ReleaseToNeighbours(ring, thread, own));
        const Result result = {c, m, n, alpha, beta};
        overlap::wait_for_launch_before();
        store_either(sums, thread, ring, result, place);
    }
}
