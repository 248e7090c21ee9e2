/*---
title: Rows that begin at any word, in pieces of k for blocks wherever they run
follows: matmul_wgmma_words
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  WARPGROUPS: [2, 1]             # 64 rows of a tile each
  TILE_N: [128, 64, 96, 192]     # columns of a tile
  WIDTH: [8, 4]                  # bytes that a lane copies at once
  OVERLAP: [0, 1]                # 1: a launch begins while the one before it ends
where: ["TILE_N <= 128 or WARPGROUPS == 1"]  # registers for sums
let:
  depth: 128 // size(TYPE)
  out: "4 if TYPE in ['tf32', 'i8'] else 2"  # bytes of a result
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  rows: ceil(m / (WARPGROUPS * 64))
  columns: ceil(n / TILE_N)
  # blocks that share a tile along k: as many as there are SMs for
  parts: max(1, min(floor(sms / (rows * columns)), ceil(k / depth)))
  slices: "8 // WARPGROUPS if parts >= 16 // WARPGROUPS else 1"  # of a block that adds them
tile: [WARPGROUPS * 64, TILE_N, depth]
programmatic: OVERLAP
buffers:
  partials: {dtype: u32, size: "parts * rows * columns * WARPGROUPS * 64 * TILE_N"}
architecture_specific: true
requires:
  arch: 90
  k: WIDTH // size(TYPE)
  conditions:
    - wgmma
    - "232448 <= shared_per_block_optin"
    - "k * size(TYPE) % (2 * WIDTH) != 0"  # else eight bytes at once are faster, or the TMA is
launches:
  - entry: multiplied
    block: ["WARPGROUPS * 128 + 256"]
    grid: [rows, columns, parts]
    shared_bytes: "1024 + min(8, floor(220 * 1024 / stage)) * stage"
    arguments: [a, b, m, n, k, partials]
  - entry: added
    block: ["WARPGROUPS * 128", slices]
    grid: ["ceil(n / 16)", rows]
    shared_bytes: "1024 + WARPGROUPS * 64 * (48 if out == 2 else 96)"  # 16 results of a row, and a gap
    arguments: [c, m, n, parts, alpha, beta, partials]
---*/

// Of few tiles and a long k the blocks of matmul_wgmma_words' clusters share a tile, eight at most. Here as many share it as
// there are SMs for, and a second launch adds what they leave, as in matmul_wgmma_two_launches (wgmma_parts.cuh).

#define ROOM 220
#define STAGES 8

#include "pieces.cuh"
#include "wgmma_parts.cuh"
#include "wgmma_words.cuh"

using namespace fit;

extern "C" __global__ void __launch_bounds__(ALL, 1)
    multiplied(const void* a, const void* b, int m, int n, int k, Number* partials) {
    const Thread thread;
    Ring ring;
    overlap::let_next_begin();
    const int row = blockIdx.x, column = blockIdx.y, part = blockIdx.z;
    const auto [first, end] = pieces::Piece(chunks_of(k), part, gridDim.z);
    if (threadIdx.x == 0) initialize_stages<RING>(ring.full, ring.empty, CONSUMER_WARPS, LOADERS);
    __syncthreads();
    if (thread.warp >= CONSUMER_WARPS) {
        overlap::wait_for_launch_before();
        load_words(ring, thread, a, b, m, n, k, {row * TILE_M, column * TILE_N}, first, end);
        return;
    }
    Sums sums;
    multiply_chunks(sums, thread, ring, end - first);
    overlap::wait_for_launch_before();
    leave_part(quads_of(partials, part, row, column, gridDim.x, gridDim.y), sums);
}

extern "C" __global__ void __launch_bounds__(CONSUMERS* SLICES, 1)
    added(Out* c, int m, int n, int parts, Scalar alpha, Scalar beta, Number* partials) {
    add_parts({c, m, n, alpha, beta}, partials, parts, gridDim.y, (n - 1) / TILE_N + 1);
}
