/*---
title: The same, the last waves dealt out evenly along k where that pays (stream-K)
follows: matmul_wgmma_late
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: sum, accumulate: sum}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [tf32, i8, f16]
  TILE_N: [192, 256, 128, 64]  # outputs of a tile, side by side; it has 128 below each other
  IDLE: [16, 0, 1000000]       # chunks of k that the last wave must leave idle, on average, to be dealt out
  RASTER: [2048, 1024, 64]     # rows of C that are walked together; 64: one tile row after another
# 128x256 sums of 32 bits, half a tile's results and what is dealt out do not fit into the registers
where: ["TILE_N in [256, 128] if TYPE == 'f16' else TILE_N < 256"]
let:
  sum: i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)
  tiles: ceil(m / 128) * ceil(n / TILE_N)
  stage: (128 + TILE_N) * 128
  # as many stages as fit beside two strips of 2048 bytes for each of eight warps
  shared: 1024 + floor(198400 / stage) * stage + 8 * 2 * 2048
tile: [128, TILE_N, "128 // size(TYPE)"]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: ["128 // size(TYPE)", 128], swizzle: 128}
  map_b: {of: b, box: ["128 // size(TYPE)", TILE_N], swizzle: 128}
  map_c: {of: c, box: ["64 if TYPE == 'f16' else 32", 16], swizzle: 128}
buffers:
  # registers of sums that a block leaves for another one, and a flag for each of its two warpgroups
  parts: {dtype: u32, size: "min(sms, tiles) * 128 * TILE_N // (2 if TYPE == 'f16' else 1)"}
  flags: {dtype: u32, size: "min(sms, tiles) * 2", zeroed: true}
architecture_specific: true
requires:
  arch: 90
  n: "8 if TYPE == 'f16' else 4"
  k: 16 // size(TYPE)
  conditions:
    - wgmma
    - "shared <= shared_per_block_optin"
    - "tiles * ceil(k * size(TYPE) / 128) < 2**31"
entry: matmul_wgmma_stream_k
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta, parts, flags]
---*/

// Tiles of 128x192 fit 4096 badly: 704 of them are 5.33 waves of 132 SMs, and the last wave costs as much as a full
// one. Here the chunks of what whole waves leave over (and of one full wave more where it is less than half a wave) are
// laid in a row, and every block takes an equal piece of it, as in hgemm_wgmma_stream_k: the end of one tile, then the
// beginning of the next. Who has a tile's end leaves its registers of sums in memory; who has its beginning adds them.
//
// Sums of bytes are the same in any order. Sums of f16 are rounded to 16 bits once more where a tile is split.

#define TILE_M 128

#include "wgmma_tile.cuh"
#include "wgmma_stream_k.cuh"
#include "wgmma_strips.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    matmul_wgmma_stream_k(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                          const __grid_constant__ CUtensorMap map_c, element* c, int m, int n, int k, Scalar alpha,
                          Scalar beta, Register* parts, unsigned* flags) {
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
        Sums sums;
        Held<HELD> held;
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
            store_strips<HELD>(sums, thread, map_c, place, own_strips);  // for which there are no registers
            hold(held, sums, thread, place);
        }
        store_held(thread, map_c, held, own_strips);
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
