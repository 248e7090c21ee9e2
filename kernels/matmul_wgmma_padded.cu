/*---
title: Any n and k by TMA and wgmma, from rows that a first launch copies to where they may begin
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
  WARPGROUPS: [2, 1]    # 64 rows of a tile each
  TILE_N: [128, 64]     # columns of a tile
  SPLITS: [1, 2, 4, 8]  # blocks of a cluster that share a tile, each with a piece of k
  OVERLAP: [0, 1]       # 1: a launch begins while the one before it ends
where: ["SPLITS == 1 or WARPGROUPS == 1"]
let:
  depth: 128 // size(TYPE)
  chunks: ceil(k / depth)
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  parts: WARPGROUPS * 64 * 4 * (TILE_N - TILE_N // SPLITS)  # of a tile, that a block gets from the others
  rows: ceil(m / (WARPGROUPS * 64))
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows of C
tile: [WARPGROUPS * 64, TILE_N, depth]
programmatic: OVERLAP
buffers:
  padded_a: {dtype: TYPE, size: m * chunks * depth}
  padded_b: {dtype: "e4m3 if TYPE == 'e5m2' else TYPE", size: n * chunks * depth}
tensor_maps:
  map_a: {of: padded_a, sizes: [chunks * depth, m], box: [depth, "min(WARPGROUPS * 64, 8 * ceil(m / 8))"], swizzle: 128}
  map_b: {of: padded_b, sizes: [chunks * depth, n], box: [depth, TILE_N], swizzle: 128}
architecture_specific: true
requires: {arch: 90, conditions: [wgmma, clusters]}
entry: multiplied  # the launch that leads
working_blocks: "SPLITS * rows * ceil(n / TILE_N)"
launches:
  - entry: padded
    block: [32, 8]
    grid: [ceil((m + n) / 8), ceil(chunks * depth / 1024)]
    arguments: [a, b, padded_a, padded_b, m, n, k]
  - entry: multiplied
    block: ["WARPGROUPS * 128 + 32"]
    cluster: [SPLITS]
    grid: ["SPLITS * ceil(rows / patches)", "ceil(n / TILE_N)", patches]
    shared_bytes: "1024 + min(8, max(4, ceil(chunks / SPLITS)), floor((108 if SPLITS == 1 else 84) * 1024 / stage)) * stage + parts"
    arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// The TMA takes rows that begin at multiples of 16 bytes; those of 333 halves do not. matmul_mma_shifted lives with that in
// each of its blocks, and by mma.sync. Here both operands are copied once, which reads and writes them and takes a launch:
// after it everything is as in matmul_wgmma_fit, or, where tiles are few, in matmul_wgmma_split.

#define STAGES 8
#define ROOM (SPLITS == 1 ? 108 : 84)  // KiB for each of two blocks an SM; the rest for parts

#include "wgmma_split.cuh"

using namespace fit;

constexpr int LINES = 8;     // that a block copies
constexpr int STRETCH = 1024;  // elements of a line that a warp copies

using Element = Bits<OPERAND_BYTES>::Type;

// Rows of A, and columns of B behind them, each as far apart as whole chunks are long, zeros behind its k elements.
extern "C" __global__ void __launch_bounds__(WARP * LINES)
    padded(const Element* a, const Element* b, Element* padded_a, Element* padded_b, int m, int n, int k) {
    const int line = blockIdx.x * LINES + threadIdx.y, first = blockIdx.y * STRETCH + threadIdx.x;
    if (line >= m + n) return;
    overlap::let_next_begin();
    overlap::wait_for_launch_before();
    const bool of_a = line < m;
    const long long row = of_a ? line : line - m;
    const int pitch = chunks_of(k) * DEPTH;
    const Element* const source = (of_a ? a : b) + row * k;
    Element* const target = (of_a ? padded_a : padded_b) + row * pitch;
    Element moved[STRETCH / WARP];
#pragma unroll
    for (int i = 0; i < STRETCH / WARP; ++i) moved[i] = first + i * WARP < k ? source[first + i * WARP] : Element(0);
#pragma unroll
    for (int i = 0; i < STRETCH / WARP; ++i) {
        if (first + i * WARP < pitch) target[first + i * WARP] = moved[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    multiplied(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c, int m, int n,
               int k, Scalar alpha, Scalar beta) {
    const Place place = place_of(SPLITS);
    if (place.row >= m) return;  // the whole cluster
    overlap::let_next_begin();
    multiply_in_pieces(map_a, map_b, {c, m, n, alpha, beta}, k, place);
}
