/*---
title: A tile of 256 or 192 rows and up to 192 columns for each block, so that one wave does what two did
follows: matmul_wgmma_even
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  TILE_M: [256, 192]  # rows of a tile: two warpgroups with 128 each, or three with 64
  ACROSS: [1, 2]      # blocks of a cluster: tiles beside each other in C, for which each loads rows of A for all
  OVERLAP: [0, 1]     # 1: the next launch begins while this one ends
let:
  step: "16 if TYPE == 'i8' else 8"               # of widths
  depth: 128 // size(TYPE)
  across: "32 if TYPE in ['i8', 'tf32'] else 64"  # columns of C in 128 bytes
  warpgroups: "3 if TILE_M == 192 else 2"          # that multiply
  rows: ceil(m / TILE_M)
  clusters: max(1, floor(sms / ACROSS))
  # Waves that tiles of 192 columns need, and the tile columns that as many waves have room for.
  waves: ceil(ceil(n / 192 / ACROSS) * rows / clusters)
  columns: ACROSS * max(1, min(floor(waves * clusters / rows), floor(n / 64 / ACROSS)))
  # They come in two widths, a step of columns of C apart, the wider ones first.
  narrow: max(64, floor(ceil(n / step) / columns) * step)
  wider: max(0, ceil(n / step) - columns * narrow / step)
  wide: "narrow + step if wider > 0 else narrow"
  stage: (TILE_M + wide) * 128
  stages: floor(231168 / stage)
tile: [TILE_M, wide, depth]
block: [128 + 128 * warpgroups]
cluster: [ACROSS]
grid: [rows * columns]
shared_bytes: 1024 + stages * stage
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, TILE_M // warpgroups // ACROSS], swizzle: 128}
  map_wide: {of: b, box: [depth, wide], swizzle: 128}
  map_narrow: {of: b, box: [depth, narrow], swizzle: 128}
  map_c: {of: c, box: [across, 16], swizzle: 128}
  rest_wide: {of: c, box: ["wide % across or across", 16]}
  rest_narrow: {of: c, box: ["narrow % across or across", 16]}
architecture_specific: true
requires: {arch: 90, n: across // 8, k: 16 // size(TYPE), conditions: [wgmma, "232448 <= shared_per_block_optin", "n > 64 * (ACROSS - 1)"]}
arguments: [map_a, map_wide, map_narrow, map_c, rest_wide, rest_narrow, c, m, n, k, alpha, beta, columns, narrow, wider, stages]
---*/

// Where 132 SMs have two tiles of 128x144 each, one of 256x144 is the same work from 400 rows of operands a chunk instead
// of 544, with one beginning and one end. Two warpgroups have 128 rows each. Results that wait in registers for the next
// tile's products would leave too few for sums of more than 128 columns; here no tile is next. So the sums of 256 rows may
// take 192 registers, all of the shared memory is the ring's, and once the last products have read it, it has a place of its
// own for each strip of results: none waits for another's. ACROSS: see matmul_wgmma_turns. Where rows of 256 leave SMs without
// a tile, three warpgroups have 64 rows each: 2304x2048 are 132 tiles of 192x192 and 192x184.

#define ACCUMULATE f32
#define WIDEST 192

#include "wgmma_even.cuh"

using namespace even;

constexpr int BOX = TILE_M / CONSUMERS;  // rows of A that are loaded together: a warpgroup's
static_assert(STRIPS * MMAS * CONSUMER_WARPS * STRIP_BYTES <= 4 * (A_BYTES + WIDEST * SWIZZLE_BYTES),
              "four stages have room for all strips");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_tall(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_wide,
                      const __grid_constant__ CUtensorMap map_narrow, const __grid_constant__ CUtensorMap map_c,
                      const __grid_constant__ CUtensorMap rest_wide, const __grid_constant__ CUtensorMap rest_narrow,
                      Out* c, int m, int n, int k, Scalar alpha, Scalar beta, int columns, int narrow, int wider,
                      int stages) {
    const Thread thread;
    const Division division(m, columns, narrow, wider);
    const Patch patch(division, blockIdx.x);
    // Rows outside of A cost the TMA more than those that it has to fetch: a box of nothing else is not asked for, and its
    // warpgroup has nothing to do.
    const int boxes = min((m - patch.row - 1) / BOX + 1, CONSUMERS);
    Ring ring(stages, division.widest());
    const int chunks = (k - 1) / DEPTH + 1;
    overlap::let_next_begin();
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<LOADING>();
        if (thread.warp != CONSUMER_WARPS) return;
        ring.begin(thread, boxes);
        overlap::wait_for_launch_before();
        if (elected()) {
            load_chunks<BOX>(ring, map_a, patch.width == narrow ? map_narrow : map_wide, patch, chunks, boxes);
            ring.wait_for_releases(1);
        }
    } else {
        take_registers<CONSUMING>();
        ring.join();
        if (thread.warpgroup >= boxes) return;
        Sums sums;
        multiply_tile(sums, thread, ring, patch.width, chunks);
        wait_products<0>();
        overlap::wait_for_launch_before();
        asm volatile("bar.sync 2, %0;\n" ::"r"(boxes * WARPGROUP) : "memory");  // all products have read the ring
        finish(sums, thread, {c, m, n, alpha, beta}, patch);
        const Ways ways = {map_c, rest_wide, rest_narrow, narrow};
        ways.send_all(thread, patch, sums, [&](int number) {
            return ring.stages + (number * CONSUMER_WARPS + thread.warp) * STRIP_BYTES;
        });
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
