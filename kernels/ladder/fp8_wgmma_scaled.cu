/*---
title: The same, with a scale for every 128 elements of A and for every block of B
follows: fp8_wgmma_promoted
operation: block_scaled_matmul
dtypes: {a: A_TYPE, b: e4m3, c: bf16, accumulate: f32, scale_a: f32, scale_b: f32}
layouts: {a: row, b: col, c: row}
macros:
  A_TYPE: [e4m3, e5m2]
  STAGES: [4, 5, 3]          # chunks of shared memory in flight or in use
  RASTER: [2048, 1024]       # rows of C that are walked together
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

#define TYPE bf16
#define TILE_M 128
#define TILE_N 128

#include "fp8_wgmma.cuh"

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

// The results of the tile before, and whether they have still to leave.
struct Results {
    unsigned words[STRIPS][STRIP_WORDS];
    Place place = {0, 0};
    bool waiting = false;
};

// Multiplies a tile; a strip of the one before leaves behind the products of each of the first chunks.
__device__ __forceinline__ void multiply_scaled(Sums& sums, const Thread& thread, ScaledRing& ring, int chunks,
                                                const f32* scale_b, Results& before, const CUtensorMap& map_c,
                                                unsigned own_strips) {
    Sums parts;
#pragma unroll
    for (int e = 0; e < SUMS; ++e) sums[0][e] = 0.0f;
    const auto leave = [&](int number) {
        store_strip(thread, map_c, before.place, number, own_strips, before.words[number]);
    };
    const auto begin = [&] {
        ring.wait_full();
        fp8::multiply_chunk(parts, thread, ring.at(), 0);
    };
    const auto end = [&](int chunk) {
        // A thread has sums of two rows, in turn two of each.
        const unsigned row = ring.scales() + 4 * (thread.row_of(0) + thread.lane / 4);
        const f32 of_b = __ldg(scale_b + chunk);
        const f32 scales[2] = {load_shared(row) * of_b, load_shared(row + 4 * 8) * of_b};
        wait_products<0>();
        ring.release(thread, ring.stage);
        ring.next();
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[0][e] = fmaf(scales[e / 2 % 2], parts[0][e], sums[0][e]);
    };
    int chunk = 0;
    if (before.waiting && chunks >= STRIPS) {
#pragma unroll
        for (; chunk < STRIPS; ++chunk) {
            begin();
            leave(chunk);
            end(chunk);
        }
    } else if (before.waiting) {  // too few products to hide behind
#pragma unroll
        for (int number = 0; number < STRIPS; ++number) leave(number);
    }
    for (; chunk < chunks; ++chunk) {
        begin();
        end(chunk);
    }
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    fp8_wgmma_scaled(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c, const __grid_constant__ CUtensorMap map_scales,
                     const f32* scale_b, element* c, int m, int n, int k, f32 alpha, f32 beta) {
    const Thread thread;
    ScaledRing ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = fp8::chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        if (thread.warp == CONSUMER_WARPS && elected()) {
            for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
                const Place place = tiles.place_of(tile);
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    ring.wait_empty();
                    const unsigned at = ring.at(), barrier = ring.full_barrier();
                    expect(barrier, STAGE_BYTES + SCALE_BYTES);
                    load(at, map_a, chunk * fp8::DEPTH, place.row, barrier);
                    load(at + A_BYTES, map_b, chunk * fp8::DEPTH, place.column, barrier);
                    load(ring.scales(), map_scales, place.row, chunk, barrier);
                    ring.next();
                }
            }
        }
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        Results before;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            const f32* const of_b = scale_b + place.column / TILE_N * chunks;
            multiply_scaled(sums, thread, ring, chunks, of_b, before, map_c, own_strips);
            finish(sums, thread, result, place);
            before.place = place;
            before.waiting = true;
#pragma unroll
            for (int number = 0; number < STRIPS; ++number) pack_strip(before.words[number], sums, number);
        }
        store_last(thread, ring, map_c, before.place, own_strips, before.words);  // every block has a tile
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
