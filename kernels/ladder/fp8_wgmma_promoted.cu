/*---
title: The same, sums promoted to FP32 every 128 products
follows: fp8_wgmma
operation: matmul
dtypes: {a: A_TYPE, b: e4m3, c: bf16, accumulate: ACCUMULATE}
layouts: {a: row, b: col, c: row}
macros:
  A_TYPE: [e4m3, e5m2]
  ACCUMULATE: [f32, f22]     # f22: what the tensor cores sum is left to them
  TILE_N: [128, 256]         # columns of a tile of 128 rows
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
# Two sums of 64x256 do not fit into a warpgroup's registers.
where: ["ACCUMULATE == f22 or TILE_N < 256"]
let:
  # stages, then two strips of 2048 bytes for each of eight warps
  shared: 1024 + STAGES * (128 + TILE_N) * 128 + 8 * 2 * 2048
  tiles: ceil(m / 128) * ceil(n / TILE_N)
tile: [128, TILE_N, 128]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [128, 128], swizzle: 128}
  map_b: {of: b, box: [128, TILE_N], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 16, conditions: [wgmma, "shared <= shared_per_block_optin"]}
# scale_a and scale_b, which together are 1
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta, 0.5, 2.0]
---*/

// The tensor cores keep 13 digits of a sum, so a long sum loses what is added late. Here they begin a new one with
// every chunk of 128, and the FMA units add it to sums in single precision. That takes twice the registers,
// and a warpgroup's products stop while it adds; but there are two warpgroups, and what one adds is hidden behind
// the products of the other.
//
// The rest is as hgemm_wgmma_late has it: a warpgroup that loads, blocks that stay, results that leave while the next
// tile is multiplied, which counts twice where a tile takes half the time.

#define TYPE A_TYPE
#define RASTER 2048
#define ACCUMULATE_f32 1
#define ACCUMULATE_f22 0

#include "wgmma_tile.cuh"

using namespace hopper;

constexpr bool PROMOTED = NAMED(ACCUMULATE_, ACCUMULATE);

// The products of a tile, each chunk's summed by itself and then added.
template <class Leave>
__device__ __forceinline__ void multiply_promoted(Sums& sums, const Thread& thread, Ring& ring, int chunks,
                                                  bool& waiting, Leave leave) {
    Sums parts;
#pragma unroll
    for (int e = 0; e < SUMS; ++e) sums[0][e] = 0.0f;
    const auto begin = [&](int) {
        ring.wait_full();
        multiply_chunk(parts, thread, ring.at(), 0);
    };
    const auto end = [&](int) {
        wait_products<0>();
        ring.release(thread, ring.stage);
        ring.next();
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[0][e] += parts[0][e];
    };
    walk_beside_stores(chunks, waiting, begin, leave, end);
}

// The same, all summed by the tensor cores.
template <class Leave>
__device__ __forceinline__ void multiply_fast(Sums& sums, const Thread& thread, Ring& ring, int chunks, bool& waiting,
                                              Leave leave) {
    int previous = 0;
    const auto begin = [&](int chunk) {
        ring.wait_full();
        multiply_chunk(sums, thread, ring.at(), chunk);
    };
    const auto end = [&](int chunk) {
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
    };
    walk_beside_stores(chunks, waiting, begin, leave, end);
    wait_products<0>();
    ring.release(thread, previous);
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    fp8_wgmma_promoted(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                       const __grid_constant__ CUtensorMap map_c, Out* c, int m, int n, int k, f32 alpha,
                       f32 beta, f32 scale_a, f32 scale_b) {
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
        const Result result = {c, m, n, alpha * scale_a * scale_b, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        Words held[HELD];  // the results of the tile before
        Place before = {0, 0};
        bool waiting = false;  // these results for their way to C
        const auto leave = [&](int number) { store_strip(thread, map_c, before, number, own_strips, held[number]); };
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            if (PROMOTED) multiply_promoted(sums, thread, ring, chunks, waiting, leave);
            else multiply_fast(sums, thread, ring, chunks, waiting, leave);
            finish(sums, thread, result, place);
            hold(held, sums, thread, map_c, place, own_strips);
            before = place;
            waiting = true;
        }
        store_last(thread, ring, map_c, before, own_strips, held);  // every block has a tile
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
