/*---
title: The same main loop, the last waves dealt out evenly along k
follows: matmul_wide_tile
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  TILE_N: [256, 128]  # one block an SM, or two
  STEP: [8, 16]       # k depth of a chunk
  STAGES: [3, 4]      # chunks of shared memory in flight or in use
let:
  shared: STAGES * STEP * (128 + 4 + TILE_N) * 4
  tiles: ceil(m / 128) * ceil(n / TILE_N)
tile: [128, TILE_N, STEP]
block: [TILE_N]
grid: ["min(sms * (256 // TILE_N), max(tiles, floor(tiles * ceil(k / STEP) / 8)))"]
shared_bytes: shared
buffers:
  # two slots a block; the blocks that an SM holds have 128 x 256 outputs together
  partials: {dtype: f32, size: "2 * sms * 128 * 256"}
  arrived: {dtype: u32, size: tiles, zeroed: true}
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin", "tiles * ceil(k / STEP) < 2**31"]}
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

// Tiles that do not fill the last wave leave SMs idle for a tile's whole time. Here one wave of blocks stays on
// the GPU: the last, partial wave and the full one before it are dealt out evenly by chunks of k (dealing.cuh), the
// other waves tile by tile. A block leaves its part of a shared tile in global memory; whoever arrives last
// adds the parts in the order of k and stores the tile, so nobody waits and the sums are the same every time.

#define TILE_M 128
#define THREAD_M 8
#define THREAD_N 16
#define EDGE_QUADS 0

#include "dealing.cuh"
#include "sgemm_tile.cuh"

namespace {

constexpr int JOINED = 1;  // full waves that are dealt out together with the last, partial one
constexpr int LEAST = 8;   // chunks of k that a block has on average, at least, where tiles are few

constexpr int FOURS = THREAD_M * THREAD_N / sgemm::QUAD;  // of a thread's sums

__device__ __forceinline__ dealing::Schedule schedule_of(const sgemm::Problem& p) {
    return {sgemm::tiles_of(p), sgemm::chunks_of(p), JOINED, LEAST};
}

__device__ __forceinline__ float4* piece_of(float* partials, long long slot) {
    return reinterpret_cast<float4*>(partials + slot * (TILE_M * TILE_N)) + threadIdx.x;
}

// Completes the sums of a tile of which this block has a part; false where another block will do that.
// The parts are added in the order of k, whoever came last.
__device__ __forceinline__ bool complete(sgemm::Sums& sum, const sgemm::Problem& p, int tile, float* partials,
                                         unsigned* arrived) {
    const dealing::Sharers sharers(schedule_of(p), tile);
    const int own = dealing::slot_of(sharers.first_worker, blockIdx.x - sharers.first_worker);
    dealing::leave_part<FOURS, sgemm::THREADS>(piece_of(partials, own), &sum[0][0]);
    if (!dealing::last_to_arrive(arrived + tile, sharers.parts)) return false;
    sgemm::clear(sum);
#pragma unroll 1
    for (int part = 0; part < sharers.parts; ++part) {
        const float4* const slot = piece_of(partials, dealing::slot_of(sharers.first_worker, part));
        dealing::add_part<FOURS, sgemm::THREADS>(&sum[0][0], slot);
    }
    return true;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(sgemm::THREADS, sgemm::BLOCKS_PER_SM)
    matmul_balanced(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n,
                    int k, float alpha, float beta, float* __restrict__ partials, unsigned* __restrict__ arrived) {
    const sgemm::Problem given = {a, b, c, m, n, k, alpha, beta};
    dealing::Work work{schedule_of(given)};
    for (;;) {
        sgemm::Sums sum;
        {
            const sgemm::Problem p = dealing::anew(given);
            const dealing::Turn turn(work, sgemm::chunks_of(p));
            if (turn.tile >= sgemm::tiles_of(p)) return;
            __syncthreads();  // no warp may still read operands of the turn before
            const sgemm::Place place = sgemm::place_of(turn.tile, p);
            sgemm::accumulate(sum, p, place, turn.first, turn.end);
        }
        const sgemm::Problem p = dealing::anew(given);
        const dealing::Turn turn(work, sgemm::chunks_of(p));
        turn.done(work);
        if (turn.end - turn.first == sgemm::chunks_of(p) || complete(sum, p, turn.tile, partials, arrived)) {
            const sgemm::Place place = sgemm::place_of(turn.tile, p);
            if (sgemm::is_wide(p, place)) {
                sgemm::store<true>(sum, p, place, sgemm::Thread());
            } else {
                sgemm::store<false>(sum, p, place, sgemm::Thread());
            }
        }
    }
}
