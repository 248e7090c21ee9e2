/*---
title: The staged f64 main loop, the last waves dealt out evenly along k (stream-K)
follows: matmul_dmma_staged
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  JOINED: [1, 0, 64]         # full waves that are dealt out together with the last, partial one
  LEAST: [8]                 # chunks of k that a block has on average, at least, where tiles are few
  TILE_M: [128, 64]          # outputs of a thread block
  TILE_N: [128, 64]
  WARP_M: [64]               # outputs of a warp
  WARP_N: [32]
  CHUNK: [16, 32]            # k of a stage
  STAGES: [4, 3, 5, 6]
  DEPTH: [16, 8]             # k of a 16x8 instruction, where there are some
  RASTER: [2048, 1024]       # rows of C that are walked together
where: ["TILE_M * TILE_N >= 128 * 64"]
tile: [TILE_M, TILE_N, CHUNK]
block: ["32 * (TILE_M / WARP_M) * (TILE_N / WARP_N)"]
# as many blocks as the GPU holds at once, fewer where the product is too small for them
grid:
  - "min(sms * min(128 * 128 / (TILE_M * TILE_N), floor(shared_per_sm / (STAGES * (TILE_M + TILE_N) * CHUNK * 8 + 1024))),
    max(ceil(m / TILE_M) * ceil(n / TILE_N), floor(ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / CHUNK) / LEAST)))"
shared_bytes: "STAGES * (TILE_M + TILE_N) * CHUNK * 8"
buffers:
  # two slots a block; blocks that an SM holds have 128 x 128 outputs together at most
  partials: {dtype: f64, size: "2 * sms * 128 * 128"}
  arrived: {dtype: u32, size: "ceil(m / TILE_M) * ceil(n / TILE_N)", zeroed: true}
requires:
  arch: 80
  conditions:
    - "STAGES * (TILE_M + TILE_N) * CHUNK * 8 <= shared_per_block_optin"
    - "ceil(m / TILE_M) * ceil(n / TILE_N) * ceil(k / CHUNK) < 2**31"
entry: matmul_dmma_stream_k
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

// Tiles that do not fill the last wave leave SMs idle for a whole tile's time: of 1,024 tiles 132 SMs compute
// seven waves and three quarters of one. Here one wave of blocks stays on the GPU for the whole product. The
// tiles of the last, partial wave and of JOINED full waves before it are laid in a row, chunk of k after
// chunk, and every block takes an equal, contiguous piece of that row: of a tile's sum it may have the end,
// the whole or the beginning. The other full waves are computed tile by tile.
//
// The piece comes first: while some blocks finish shared tiles, others are at whole ones. The beginning of a
// tile is what comes last to it, so the block that has it looks whether all others have arrived, and if so it
// keeps its part in registers. The parts are added in the order of k, whoever comes last.

#include "dmma_tile.cuh"
#include "stream_k.cuh"

namespace {

// The same value, in a way that the compiler cannot trace back: what is needed before and behind the main
// loop is computed twice from it, because the loop has no registers to keep it in. Grids here have one row, so
// the number of the block's row is 0.
__device__ __forceinline__ int anew(int value) {
    int zero;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(zero));
    return value + zero;
}

__device__ __forceinline__ dmma::Problem anew(const dmma::Problem& given) {
    return {given.a, given.b, given.c, anew(given.m), anew(given.n), anew(given.k), given.alpha, given.beta};
}

// A slot holds the sums of a tile as the threads have them, two at a time: every access is 512 contiguous
// bytes of a warp.
constexpr int AREA = TILE_M * TILE_N;
constexpr int TWOS = AREA / dmma::THREADS / 2;

__device__ __forceinline__ double2* piece_of(f64* partials, int slot) {
    return reinterpret_cast<double2*>(partials + static_cast<long long>(slot) * AREA) + dmma::Thread().id;
}

__device__ __forceinline__ f64* two_of(dmma::Sums& sums, int i) { return &sums[0][0][0][0] + 2 * i; }

// Completes the sums of a tile of which this block has a part; false where another block will do that.
__device__ __forceinline__ bool complete(dmma::Sums& sums, const dmma::Problem& problem, int tile, f64* partials,
                                         unsigned* arrived) {
    const int chunks = dmma::chunks_of(problem);
    const stream_k::Schedule schedule(dmma::tiles_of(problem), chunks);
    const int first_worker = schedule.worker_of(tile * chunks);
    const int parts = schedule.worker_of((tile + 1) * chunks - 1) - first_worker + 1;
    const int own = blockIdx.x - first_worker;
    int next = 1;
    if (own != 0 || !stream_k::others_arrived(arrived + tile, parts)) {
        double2* const target = piece_of(partials, stream_k::slot_of(first_worker, own));
#pragma unroll
        for (int i = 0; i < TWOS; ++i) {
            const f64* const two = two_of(sums, i);
            __stcg(target + i * dmma::THREADS, make_double2(two[0], two[1]));
        }
        if (!stream_k::last_to_arrive(arrived + tile, parts)) return false;
        dmma::clear(sums);  // the own part is read back with the others
        next = 0;
    }
#pragma unroll 1
    for (int part = next; part < parts; ++part) {
        const double2* const source = piece_of(partials, stream_k::slot_of(first_worker, part));
#pragma unroll
        for (int i = 0; i < TWOS; ++i) {
            f64* const two = two_of(sums, i);
            const double2 more = __ldcg(source + i * dmma::THREADS);
            two[0] += more.x, two[1] += more.y;
            if (i % 8 == 7) __syncwarp();  // with all loads in flight the compiler runs out of registers
        }
    }
    return true;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS_PER_SM)
    matmul_dmma_stream_k(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n,
                         int k, f64 alpha, f64 beta, f64* __restrict__ partials, unsigned* __restrict__ arrived) {
    const dmma::Problem given = {a, b, c, m, n, k, alpha, beta};
    stream_k::Work work{stream_k::Schedule(dmma::tiles_of(given), dmma::chunks_of(given))};
    for (;;) {
        dmma::Sums sums;
        {
            const dmma::Problem problem = anew(given);
            const stream_k::Turn turn(work, dmma::chunks_of(problem));
            if (turn.tile >= dmma::tiles_of(problem)) return;
            __syncthreads();  // no warp may still read operands of the turn before
            dmma::accumulate(sums, problem, dmma::place_of(turn.tile, problem), turn.first, turn.end - turn.first);
        }
        const dmma::Problem problem = anew(given);
        const int chunks = dmma::chunks_of(problem);
        const stream_k::Turn turn(work, chunks);
        turn.done(work);
        if (turn.end - turn.first == chunks || complete(sums, problem, turn.tile, partials, arrived)) {
            dmma::store(sums, problem, dmma::place_of(turn.tile, problem));
        }
    }
}
