/*---
title: The same, the last waves dealt out evenly along k where that pays (stream-K)
follows: hgemm_wgmma_late
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  TILE_N: [256, 192, 128, 64]  # outputs of a tile, side by side; it has 128 below each other
  IDLE: [16, 0, 1000000]       # chunks of k that the last wave must leave idle, on average, to be dealt out
  RASTER: [2048, 1024, 64]     # rows of C that are walked together; 64: one tile row after another
let:
  tiles: ceil(m / 128) * ceil(n / TILE_N)
  stage: (128 + TILE_N) * 128
  # as many stages as fit beside two strips of 2048 bytes for each of eight warps
  shared: 1024 + floor(198400 / stage) * stage + 8 * 2 * 2048
tile: [128, TILE_N, 64]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [64, 128], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
buffers:
  # sums that a block leaves for another one, and a flag for each of its two warpgroups
  parts: {dtype: f32, size: "min(sms, tiles) * 128 * TILE_N"}
  flags: {dtype: u32, size: "min(sms, tiles) * 2", zeroed: true}
architecture_specific: true
requires:
  arch: 90
  n: 8
  k: 8
  conditions:
    - wgmma
    - "shared <= shared_per_block_optin"
    - "tiles * ceil(k / 64) < 2**31"
entry: hgemm_wgmma_stream_k
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta, parts, flags]
---*/

// A last wave of few tiles keeps few SMs busy. Where that costs more than IDLE chunks of every block's time,
// the chunks of its tiles (and of one full wave more where it is less than half full) are laid in a row, tile
// after tile, and every block takes an equal, contiguous piece of the row: the end of one tile, then the
// beginning of the next. Who has a tile's beginning stores it; who has its end has had it first, leaves its
// sums in memory and raises a flag. So nobody waits for work that has not begun: all blocks run at once, one on
// an SM.
//
// Whole waves come first. Their blocks walk along k in step and share what they read in L2; pieces of the row
// do not, and what is read out of step costs more than it seems.

#define TILE_M 128

#include "hgemm_wgmma.cuh"
#include "wgmma_stream_k.cuh"
#include "wgmma_strips.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_stream_k(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                         const __grid_constant__ CUtensorMap map_c, element* c, int m, int n, int k, f32 alpha,
                         f32 beta, Register* parts, unsigned* flags) {
    const Thread thread;
    Ring ring;
    ring.begin();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    Work work(tiles.count(), chunks);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        if (thread.loads() && elected()) {
            while (work.advance()) {
                const Place place = tiles.place_of(work.now);
                for (int chunk = work.first; chunk < work.first + work.count; ++chunk) {
                    load_next(ring, map_a, map_b, place, chunk);
                }
            }
        }
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        const bool leader = thread.lane == 0;
        Sums sums;
        unsigned words[STRIPS][STRIP_WORDS];  // the results of the tile before
        Place before = {0, 0};
        bool waiting = false;  // these results for their way to C
        const HeldApart<STRIPS> held = {words, before, waiting};
        int previous = 0;
        while (work.advance()) {
            const Place place = multiply_beside_stores(sums, thread, ring, previous, tiles, work.now, work.count, map_c,
                                                       held, own_strips);
            if (work.first > 0) {  // another block has this tile's beginning
                leave(sums, thread, parts, flags);
                continue;
            }
            // The blocks that follow have what is missing.
            int missing = chunks - work.count;
            for (int block = blockIdx.x + 1; missing > 0; ++block) {
                add(sums, thread, parts, flags, block);
                missing -= work.begin_of(block + 1) - work.begin_of(block);
            }
            finish(sums, thread, result, place);
            hold(held, sums, thread, place);
        }
        if (waiting) store_last(thread, ring, map_c, held, own_strips);
        if (leader) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
