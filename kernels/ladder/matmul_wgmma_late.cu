/*---
title: The same, a block that stays; results of 32 bits leave while the next tile is multiplied
follows: matmul_wgmma
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)"
  accumulate: "i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [tf32, i8, f16]
  TILE_N: [192, 256, 128]      # outputs of a tile, side by side; it has 128 below each other
  RASTER: [2048, 64]           # rows of C that are walked together; 64: one tile row after another
where: ["TYPE != 'f16' or TILE_N in [256, 128]"]
let: {tiles: "ceil(m / 128) * ceil(n / TILE_N)"}
tile: [128, TILE_N, "128 // size(TYPE)"]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
# as many stages as fit beside two strips of 2048 bytes for each of eight warps
shared_bytes: 1024 + floor(198400 / ((128 + TILE_N) * 128)) * (128 + TILE_N) * 128 + 8 * 2 * 2048
tensor_maps:
  map_a: {of: a, box: ["128 // size(TYPE)", 128], swizzle: 128}
  map_b: {of: b, box: ["128 // size(TYPE)", TILE_N], swizzle: 128}
  map_c: {of: c, box: ["64 if TYPE == 'f16' else 32", 16], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: "8 if TYPE == 'f16' else 4", k: 16 // size(TYPE),
    conditions: [wgmma, "232448 <= shared_per_block_optin"]}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// A block an SM that goes from tile to tile, a warpgroup that does nothing but loads, and results that wait in
// registers and leave behind the next tile's products, as in hgemm_wgmma_late. There results of 16 bits take half
// the registers of their sums. Those of 32 bits take as many: beside 96 of them a thread has room for 96 sums,
// which is a tile of 128x192. A tile of 128x256 has 128 sums and holds half of its results; the other half
// leaves at once. Sums of f16 are results already, two in a register.
//
// The rows of a box of results are 128 bytes, 32 columns: a warp has six such strips of a tile.

#define STAGES (198400 / ((128 + TILE_N) * 128))
#define HALF_SUMS (TYPE_NUMBER == TYPE_f16)

#include "wgmma_tile.cuh"

using namespace hopper;

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    matmul_wgmma_late(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                      const __grid_constant__ CUtensorMap map_c, Out* c, int m, int n, int k, Scalar alpha,
                      Scalar beta) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        load_tiles(thread, ring, map_a, map_b, tiles, chunks);
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        Words held[HELD];  // the results of the tile before
        Place before = {0, 0};
        bool waiting = false;  // these results for their way to C
        int previous = 0;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = multiply_beside_stores(sums, thread, ring, previous, tiles, tile, chunks, map_c, before,
                                                       waiting, own_strips, held);
            finish(sums, thread, result, place);
            hold(held, sums, thread, map_c, place, own_strips);
            before = place;
            waiting = true;
        }
#pragma unroll
        for (int number = 0; number < HELD; ++number) store_strip(thread, map_c, before, number, own_strips, held[number]);
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
