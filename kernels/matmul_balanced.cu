/*---
title: The last waves dealt out evenly along k
follows: matmul_operand_order
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  TILE_M: [128, 256]
  TILE_N: [256, 128]
  THREAD_M: [8, 16]
  THREAD_N: [16, 8]
  STEP: [16, 8, 32]
  UNROLL: [4, 2, 8, 16]
  STAGES: [3, 4]
  KEEP_A: [0, 1]
  TURN: [0, 1]
  RASTER: [2048, 1024, 4096]
where: ["THREAD_M * THREAD_N == 128", "TILE_M * TILE_N <= 256 * 128", "STEP % UNROLL == 0"]
tile: [TILE_M, TILE_N, STEP]
block: ["TILE_M * TILE_N // (THREAD_M * THREAD_N)"]
grid: ["min(sms * (256 * 128 // (TILE_M * TILE_N)), max(ceil(m / TILE_M) * ceil(n / TILE_N), floor(ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / STEP) / 8)))"]
shared_bytes: "STAGES * STEP * (TILE_M + 4 + TILE_N) * 4"
buffers:
  partials: {dtype: f32, size: "2 * sms * 256 * 128"}
  arrived: {dtype: u32, size: "ceil(m / TILE_M) * ceil(n / TILE_N)", zeroed: true}
requires:
  arch: 80
  conditions:
    - "STAGES * STEP * (TILE_M + 4 + TILE_N) * 4 <= shared_per_block_optin"
    - "ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / STEP) < 2**31"
entry: matmul_balanced
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

#include "dealing.cuh"
#include "sgemm_tile.cuh"

namespace {

constexpr int JOINED = 1;  // full waves that are dealt out together with the last, partial one
constexpr int LEAST = 8;   // chunks of k that a block has on average, at least, where tiles are few

constexpr int FOURS = THREAD_M * THREAD_N / sgemm::QUAD;

__device__ __forceinline__ dealing::Schedule schedule_of(const sgemm::Problem& p) {
    return {sgemm::tiles_of(p), sgemm::chunks_of(p), JOINED, LEAST};
}

__device__ __forceinline__ sgemm::Problem anew(const sgemm::Problem& p) {
    return {p.a, p.b, p.c, dealing::anew(p.m), dealing::anew(p.n), dealing::anew(p.k), p.alpha, p.beta};
}

__device__ __forceinline__ float4* piece_of(float* partials, long long slot) {
    return reinterpret_cast<float4*>(partials + slot * (TILE_M * TILE_N)) + threadIdx.x;
}

__device__ __forceinline__ void leave_part(float* partials, int slot, const sgemm::Sums& sum) {
    float4* const target = piece_of(partials, slot);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const float* const four = &sum[0][0] + i * sgemm::QUAD;
        __stcg(target + i * sgemm::THREADS, make_float4(four[0], four[1], four[2], four[3]));
    }
}

__device__ __forceinline__ void add_part(sgemm::Sums& sum, float* partials, int slot) {
    const float4* const source = piece_of(partials, slot);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        float* const four = &sum[0][0] + i * sgemm::QUAD;
        const float4 more = __ldcg(source + i * sgemm::THREADS);
        four[0] += more.x, four[1] += more.y, four[2] += more.z, four[3] += more.w;
        if (i % 4 == 3) __syncwarp();  // with all loads in flight the compiler runs out of registers
    }
}

// Completes the sums of a tile of which this block has a part; false where another block will do that.
// The parts are added in the order of k, whoever came last.
__device__ __forceinline__ bool complete(sgemm::Sums& sum, const sgemm::Problem& p, int tile, float* partials,
                                         unsigned* arrived) {
    const dealing::Schedule schedule = schedule_of(p);
    const int first_worker = schedule.worker_of(tile * schedule.chunks);
    const int parts = schedule.worker_of((tile + 1) * schedule.chunks - 1) - first_worker + 1;
    leave_part(partials, dealing::slot_of(first_worker, blockIdx.x - first_worker), sum);
    if (!dealing::last_to_arrive(arrived + tile, parts)) return false;
    sgemm::clear(sum);
#pragma unroll 1
    for (int part = 0; part < parts; ++part) add_part(sum, partials, dealing::slot_of(first_worker, part));
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
            const sgemm::Problem p = anew(given);
            const dealing::Turn turn(work, sgemm::chunks_of(p));
            if (turn.tile >= sgemm::tiles_of(p)) return;
            __syncthreads();  // no warp may still read operands of the turn before
            const sgemm::Place place = sgemm::place_of(turn.tile, p);
            if (sgemm::is_wide(p, place)) {
                sgemm::accumulate<true>(sum, p, place, turn.first, turn.end);
            } else {
                sgemm::accumulate<false>(sum, p, place, turn.first, turn.end);
            }
        }
        const sgemm::Problem p = anew(given);
        const dealing::Turn turn(work, sgemm::chunks_of(p));
        turn.done(work);
        if (turn.end - turn.first == sgemm::chunks_of(p) || complete(sum, p, turn.tile, partials, arrived)) {
            const sgemm::Place place = sgemm::place_of(turn.tile, p);
            if (sgemm::is_wide(p, place)) {
                sgemm::store<true>(sum, p, place);
            } else {
                sgemm::store<false>(sum, p, place);
            }
        }
    }
}
