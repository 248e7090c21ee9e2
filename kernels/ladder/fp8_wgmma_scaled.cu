/*---
title: The same, with a scale for every 128 elements of A and for every block of B
follows: fp8_wgmma_promoted
operation: block_scaled_matmul
dtypes: {a: A_TYPE, b: e4m3, c: bf16, accumulate: f32, scale_a: f32, scale_b: f32}
layouts: {a: row, b: col, c: row}
macros:
  A_TYPE: [e4m3, e5m2]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
let:
  chunks: ceil(k / 128)
  # stages and the scales of their rows, then two strips of 2048 bytes for each of eight warps
  shared: 1024 + STAGES * (256 * 128 + 128 * 4) + 8 * 2 * 2048
  tiles: ceil(m / 128) * ceil(n / 128)
tile: [128, 128, 128]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [128, 128], swizzle: 128}
  map_b: {of: b, box: [128, 128], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
  map_scales: {of: scale_a, box: [128, 1], sizes: [m, chunks]}
architecture_specific: true
requires: {arch: 90, m: 4, n: 8, k: 16, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, map_c, map_scales, scale_b, c, m, n, k, alpha, beta]
---*/

// One scale for a whole matrix leaves little of FP8's few exponents for a row of small numbers. Here every 128 elements
// of a row of A have one, and every block of 128 x 128 of B. A chunk is 128 deep: within it both are the same for all
// products of a sum, so that it is the sum that they multiply, where it is promoted: an addition becomes a multiply-add.
//
// A chunk needs 128 scales of A, which the TMA brings beside it (they lie with the rows beside each other), and one of B.

#define TYPE A_TYPE
#define RASTER 2048
#define TILE_N 128

#include "wgmma_tile.cuh"

using namespace hopper;

constexpr int SCALE_BYTES = TILE_M * 4;  // of a stage

// The ring's stages, with a place for scales of rows each, and the warps' strips behind them.
struct ScaledRing : Ring {
    __device__ __forceinline__ unsigned scales() const {
        return stages + STAGES * STAGE_BYTES + CONSUMER_WARPS * BUFFERS * STRIP_BYTES + stage * SCALE_BYTES;
    }
};

__device__ __forceinline__ f32 load_shared(unsigned at) {
    f32 number;
    asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(number) : "r"(at) : "memory");
    return number;
}

// Multiplies a tile; a strip of the one before leaves behind the products of each of the first chunks.
template <class Leave>
__device__ __forceinline__ void multiply_scaled(Sums& sums, const Thread& thread, ScaledRing& ring, int chunks,
                                                const f32* scale_b, bool& waiting, const Leave& leave) {
    Sums parts;
#pragma unroll
    for (int e = 0; e < SUMS; ++e) sums[0][e] = 0.0f;
    const auto begin = [&](int) {
        ring.wait_full();
        multiply_chunk(parts, thread, ring.at(), 0);
    };
    const auto end = [&](int chunk) {
        // A thread has sums of two rows, in turn two of each.
        const unsigned row = ring.scales() + 4 * (row_of(thread, 0) + thread.lane / 4);
        const f32 of_b = __ldg(scale_b + chunk);
        const f32 scales[2] = {load_shared(row) * of_b, load_shared(row + 4 * 8) * of_b};
        wait_products<0>();
        ring.release(thread, ring.stage);
        ring.next();
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[0][e] = fmaf(scales[e / 2 % 2], parts[0][e], sums[0][e]);
    };
    walk_beside_stores(chunks, waiting, begin, leave, end);
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    fp8_wgmma_scaled(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c, const __grid_constant__ CUtensorMap map_scales,
                     const f32* scale_b, Out* c, int m, int n, int k, f32 alpha, f32 beta) {
    const Thread thread;
    ScaledRing ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        load_tiles(thread, ring, tiles, chunks, [&](const Place& place, int chunk) {
            const unsigned at = ring.at(), barrier = ring.full_barrier();
            expect(barrier, STAGE_BYTES + SCALE_BYTES);
            load(at, map_a, chunk * CHUNK, place.row, barrier);
            load(at + A_BYTES, map_b, chunk * CHUNK, place.column, barrier);
            load(ring.scales(), map_scales, place.row, chunk, barrier);
        });
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        Words held[HELD];  // the results of the tile before
        Place before = {0, 0};
        bool waiting = false;  // these results for their way to C
        const auto leave = [&](int number) { store_strip(thread, map_c, before, number, own_strips, held[number]); };
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            const f32* const of_b = scale_b + place.column / TILE_N * chunks;
            multiply_scaled(sums, thread, ring, chunks, of_b, waiting, leave);
            finish(sums, thread, result, place);
            hold(held, sums, thread, map_c, place, own_strips);
            before = place;
            waiting = true;
        }
        store_last(thread, ring, map_c, before, own_strips, held);  // every block has a tile
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
