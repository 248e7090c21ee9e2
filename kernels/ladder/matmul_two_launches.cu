/*---
title: The last waves dealt out along k, their parts added by a second launch
follows: matmul_balanced
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  TILE_M: [128, 64]        # outputs of a tile
  TILE_N: [256, 128, 64]
  STAGES: [3, 4]           # chunks of shared memory in flight or in use
where: ["(TILE_M == 64) == (TILE_N == 64)"]
let:
  shared: STAGES * 8 * (TILE_M + 4 + TILE_N) * 4
  tiles: ceil(m / TILE_M) * ceil(n / TILE_N)
  # one, two or four an SM, fewer where each would have too few chunks of k
  blocks: "min(sms * (256 // TILE_N), max(tiles, floor(tiles * ceil(k / 8) / (8 * (128 // TILE_M)))))"
  # of a block that adds the parts of a tile; a tile has as many parts as blocks share it
  slices: "512 // TILE_N if blocks >= 1024 // TILE_N * tiles else 1"
tile: [TILE_M, TILE_N, 8]
buffers:
  # two slots a block; the blocks of an SM have 128 x 256 outputs together, at most
  partials: {dtype: f32, size: "2 * sms * 128 * 256"}
requires: {arch: 80, conditions: ["shared <= shared_per_block_optin", "tiles * ceil(k / 8) < 2**31"]}
launches:
  - entry: multiplied
    block: [TILE_N]
    grid: [blocks]
    shared_bytes: shared
    arguments: [a, b, c, m, n, k, alpha, beta, partials]
  - entry: added
    block: [TILE_N, slices]
    grid: [blocks, 2]
    arguments: [c, m, n, k, alpha, beta, partials]
---*/

// Where 8 tiles are dealt out to 132 SMs, each has 17 parts, and the block that arrives last adds them all: 2 MB that one
// SM reads while 131 wait. Here every block leaves its part and ends, and a second launch adds the parts: each block
// a few outputs of each thread of a tile. The price is a second launch, and that the parts of all blocks have to be
// written before the first is read.
//
// 4096 x 64 are 32 tiles of 128x128, half of each empty; so tiles of 64x64 are dealt out, too, four blocks an SM.

#define THREAD_M 8
#define THREAD_N (TILE_M == 64 ? 8 : 16)
#define EDGE_QUADS (TILE_M == 64)
#define STEP 8

#include "dealing.cuh"
#include "part_slices.cuh"
#include "sgemm_tile.cuh"

namespace {

constexpr int JOINED = 1;  // full waves that are dealt out together with the last, partial one
constexpr int LEAST = 8 * (128 / TILE_M);  // chunks of k that a block has on average, at least, where tiles are few
constexpr int FOURS = THREAD_M * THREAD_N / sgemm::QUAD;  // of a thread's sums
constexpr int SLICES = 512 / sgemm::THREADS;  // at most
constexpr int BLOCKS = 256 / sgemm::THREADS;  // of an SM; of 64x64 eight would have 128 registers a thread

// Both grids have as many columns, so that both launches know who has which part.
__device__ __forceinline__ dealing::Schedule schedule_of(const sgemm::Problem& p) {
    return {sgemm::tiles_of(p), sgemm::chunks_of(p), JOINED, LEAST};
}

__device__ __forceinline__ float4* piece_of(float* partials, long long slot) {
    return reinterpret_cast<float4*>(partials + slot * (TILE_M * TILE_N)) + threadIdx.x;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(sgemm::THREADS, BLOCKS)
    multiplied(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k,
               float alpha, float beta, float* __restrict__ partials) {
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
        if (turn.end - turn.first != sgemm::chunks_of(p)) {
            const int first = schedule_of(p).worker_of(turn.tile * sgemm::chunks_of(p));
            dealing::leave_part<FOURS, sgemm::THREADS>(
                piece_of(partials, dealing::slot_of(first, blockIdx.x - first)), &sum[0][0]);
            continue;
        }
        const sgemm::Place place = sgemm::place_of(turn.tile, p);
        if (sgemm::is_wide(p, place)) {
            sgemm::store<true>(sum, p, place, sgemm::Thread());
        } else {
            sgemm::store<false>(sum, p, place, sgemm::Thread());
        }
    }
}

// The parts of the tiles that were dealt out, in the order of k: a block adds four outputs of each thread of a tile, then
// others.
extern "C" __global__ void __launch_bounds__(sgemm::THREADS* SLICES, 1)
    added(float* __restrict__ c, int m, int n, int k, float alpha, float beta, float* __restrict__ partials) {
    __shared__ __align__(16) float strips[sgemm::THREADS / sgemm::WARP][sgemm::STRIP];
    const sgemm::Problem p = {nullptr, nullptr, c, m, n, k, alpha, beta};
    const dealing::Schedule schedule = schedule_of(p);
    for (int number = blockIdx.y * gridDim.x + blockIdx.x; number < schedule.streamed * FOURS;
         number += gridDim.x * gridDim.y) {
        const int tile = number / FOURS, four = number % FOURS;
        const dealing::Sharers sharers(schedule, tile);
        if (sharers.parts == 1) continue;
        float4 sum[1];
        const bool all = part_slices::sum<SLICES, sgemm::THREADS, 0>(
            sum, sharers.parts, threadIdx.y, blockDim.y, threadIdx.x, [&](int part) {
                return piece_of(partials, dealing::slot_of(sharers.first_worker, part)) + four * sgemm::THREADS;
            });
        constexpr int OF_ROW = THREAD_N / sgemm::QUAD;
        if (all) {
            sgemm::store_four(&sum[0].x, four / OF_ROW, four % OF_ROW, p, sgemm::place_of(tile, p), sgemm::Thread(),
                              strips[threadIdx.x / sgemm::WARP]);
        }
    }
}
