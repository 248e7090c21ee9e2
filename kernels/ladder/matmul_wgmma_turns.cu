/*---
title: Two warpgroups that take tiles in turn, so that one multiplies while the other one brings its results away
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
  ACROSS: [1, 2]   # blocks of a cluster: tiles beside each other in C, for which each loads rows of A for all, ...
  DOWN: [1, 2]     # ... or below each other, for which each loads columns of B
  OVERLAP: [0, 1]  # 1: the next launch begins while this one ends
where: ["ACROSS == 1 or DOWN == 1"]
let:
  step: "16 if TYPE == 'i8' or DOWN == 2 else 8"  # of widths
  depth: 128 // size(TYPE)
  across: "32 if TYPE in ['i8', 'tf32'] else 64"  # columns of C in 128 bytes
  rows: ceil(m / 128 / DOWN)  # of clusters
  clusters: max(1, floor(sms / ACROSS / DOWN))
  # Waves that tiles of 192 columns need, and the tile columns that as many waves have room for.
  waves: ceil(ceil(n / 192 / ACROSS) * rows / clusters)
  columns: ACROSS * max(1, min(floor(waves * clusters / rows), floor(n / 64 / ACROSS)))
  # They come in two widths, a step of columns of C apart, the wider ones first.
  narrow: max(64, floor(ceil(n / step) / columns) * step)
  wider: max(0, ceil(n / step) - columns * narrow / step)
  wide: "narrow + step if wider > 0 else narrow"
  stage: (128 + wide) * 128
  tiles: DOWN * rows * columns
  blocks: min(ACROSS * DOWN * clusters, tiles)
  strips: "16 * 2048 if tiles > blocks else 0"  # bytes beside the stages: two for each of eight warps
  stages: min(8, floor((231168 - strips) / stage))
tile: [128, wide, depth]
block: [384]
cluster: ["ACROSS * DOWN"]
grid: [blocks]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: 1024 + stages * stage + strips
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, 128 // ACROSS], swizzle: 128}
  map_wide: {of: b, box: [depth, wide // DOWN], swizzle: 128}
  map_narrow: {of: b, box: [depth, narrow // DOWN], swizzle: 128}
  map_c: {of: c, box: [across, 16], swizzle: 128}
  rest_wide: {of: c, box: ["wide % across or across", 16]}
  rest_narrow: {of: c, box: ["narrow % across or across", 16]}
architecture_specific: true
requires: {arch: 90, n: across // 8, k: 16 // size(TYPE), conditions: [wgmma, "232448 <= shared_per_block_optin", "n > 64 * (ACROSS - 1)"]}
arguments: [map_a, map_wide, map_narrow, map_c, rest_wide, rest_narrow, c, m, n, k, alpha, beta, columns, narrow, wider, stages]
---*/

// Where a tile ends, the warpgroups that share it wait for its last products and pack their results, and the tensor cores
// wait for them: some 2,000 cycles a tile. Here each of two has tiles of its own, 128 rows of up to 192 columns: every other
// one of the block's. While one brings its results away, the other one multiplies. It begins when the other one has begun
// its last products: of a stage's mbarrier it could not tell an earlier turn from its own.
//
// One warpgroup has to keep the tensor cores busy alone, which it does if its two products of 64 rows alternate: of two steps
// that add to the same sums the second one waits.
//
// With ACROSS 2 two blocks load rows of A for each other, with DOWN 2 columns of B, of which a tile has more: of 128x176 a
// block then asks for 64 + 176 or for 128 + 88 rows a chunk. That pays where rows of A and B begin in the middle of sectors,
// and each asks L2 for one sector more than it has.

#define TILE_M 128
#define WIDEST 192
#define TURNS 1

#include "wgmma_even.cuh"

using namespace even;

constexpr int TILE_WARPS = WARPGROUP / WARP;  // that have a tile
// Strips that a warp has room for behind the stages, where a block has several tiles.
constexpr int BUFFERS = MMAS;
constexpr int IN_STAGE = 3;                   // strips of each of these warps that the narrowest stage has room for
static_assert(IN_STAGE * TILE_WARPS * STRIP_BYTES <= A_BYTES + 64 * SWIZZLE_BYTES, "a stage has room for them");
static_assert(STRIPS * MMAS <= 4 * IN_STAGE, "and four stages for all");

// Whose turn it is: one barrier of both for each warpgroup.
__device__ __forceinline__ void wait_for_turn(const Thread& thread) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(2 + thread.warpgroup), "n"(CONSUMER_THREADS) : "memory");
}
__device__ __forceinline__ void give_turn(const Thread& thread) {
    asm volatile("bar.arrive %0, %1;\n" ::"r"(2 + (thread.warpgroup ^ 1)), "n"(CONSUMER_THREADS) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_turns(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_wide,
                       const __grid_constant__ CUtensorMap map_narrow, const __grid_constant__ CUtensorMap map_c,
                       const __grid_constant__ CUtensorMap rest_wide, const __grid_constant__ CUtensorMap rest_narrow,
                       Out* c, int m, int n, int k, Scalar alpha, Scalar beta, int columns, int narrow, int wider,
                       int stages) {
    const Thread thread;
    const Division division(m, columns, narrow, wider);
    Ring ring(stages, division.widest());
    const int tiles = division.count(), chunks = chunks_of(k);
    overlap::let_next_begin();
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<LOADING>();
        if (thread.warp != CONSUMER_WARPS) return;
        ring.begin(thread);
        load_tiles(ring, map_a, map_wide, map_narrow, division, chunks);
    } else {
        take_registers<CONSUMING>();
        ring.join();
        overlap::wait_for_launch_before();
        const Result result = {c, m, n, alpha, beta};
        const Ways ways = {map_c, rest_wide, rest_narrow, narrow};
        const unsigned own_strips = ring.end() + thread.warp * BUFFERS * STRIP_BYTES;
        const int step = gridDim.x;
        Sums sums = {};
        int first = thread.warpgroup * chunks;  // of the tile, among the block's
        for (int tile = blockIdx.x + thread.warpgroup * step; tile < tiles; tile += CONSUMERS * step) {
            const Patch patch(division, tile);
            ring.go_to(first);
            if (first > 0) wait_for_turn(thread);
            first += CONSUMERS * chunks;
            const int stage = multiply_tile(sums, thread, ring, patch.width, chunks);
            const bool last = tile + step >= tiles;
            if (!last) give_turn(thread);
            wait_products<0>();
            ring.release(thread, stage);
            if (TOGETHER > 1 && last) {  // one warp spoke for four
                asm volatile("bar.sync %0, %1;\n" ::"r"(4 + thread.warpgroup), "n"(WARPGROUP) : "memory");
            }
            finish(sums, thread, result, patch);
            // Behind the block's last tile the ring is free, and has a place for each strip.
            unsigned at = 0;
            ways.send_all(thread, patch, sums, [&](int number) {
                if (last) {
                    const int within = number % IN_STAGE;
                    if (within == 0) {
                        ring.wait_empty();
                        at = ring.at();
                        ring.next();
                    }
                    return at + (within * TILE_WARPS + thread.warp % TILE_WARPS) * STRIP_BYTES;
                }
                if (thread.lane == 0) wait_stores_read<BUFFERS - 1>();
                __syncwarp();
                return own_strips + number % BUFFERS * STRIP_BYTES;
            });
        }
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
