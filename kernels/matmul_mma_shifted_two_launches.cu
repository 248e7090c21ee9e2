/*---
title: Rows that begin anywhere and a long k, its pieces added by a second launch
follows: matmul_mma_shifted
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f32"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8]
  TILE_M: [64, 128, 32]      # outputs of a thread block
  TILE_N: [64]
  STAGES: [6, 5, 4]          # chunks of shared memory in flight or in use
  OVERLAP: [0, 1]            # 1: a launch begins while the one before it ends
let:
  depth: 128 // size(TYPE)
  shared: STAGES * (TILE_M + TILE_N) * 128
  rows: ceil(m / TILE_M)
  columns: ceil(n / TILE_N)
  # blocks that share a tile along k: as many as the SMs have room for, with four chunks each or more
  parts: "max(1, min(floor(sms * floor(shared_per_sm / (shared + 1024)) / (rows * columns)), floor(ceil(k / depth) / 4)))"
  slices: "8 if parts >= 16 else 1"  # of a block that adds them
tile: [TILE_M, TILE_N, depth]
programmatic: OVERLAP
buffers:
  partials: {dtype: u32, size: "parts * rows * columns * TILE_M * TILE_N"}
requires:
  arch: 80
  conditions: ["shared <= shared_per_block_optin", "k * size(TYPE) < 2**31 - 4096"]
launches:
  - entry: multiplied
    block: [128]
    grid: [rows, columns, parts]
    shared_bytes: shared
    arguments: [a, b, m, n, k, partials]
  - entry: added
    block: [128, slices]
    # four sums of each thread
    grid: [rows, columns, TILE_M * TILE_N // 512]
    arguments: [c, m, n, k, parts, alpha, beta, partials]
---*/

// Of 250 x 50 there are four tiles, and a cluster of eight for each has 32 SMs read all of A and B. Padding them for
// wgmma first would write and read once more what has to be read once. So every SM has some of a tile's k, as in
// matmul_wgmma_two_launches, and leaves its sums in global memory.

#include "mma_shifted.cuh"
#include "part_slices.cuh"
#include "pieces.cuh"

namespace mma_tile {

constexpr int RESIDENT = 227 * 1024 / (PIPELINE * STAGE_BYTES + 1024);  // blocks that an H100's SM holds
constexpr int SLICES = 8;  // at most

static_assert(THREADS == 128, "the front matter launches this many threads");

template <class T>
struct Quads {
    using Type = float4;
};
template <>
struct Quads<i32> {
    using Type = int4;
};
using Quad = Quads<Sum>::Type;

// This thread's sums of mma `number` in the part that a block has of its tile.
__device__ __forceinline__ Quad* quad_of(Sum* partials, int part, int number) {
    const long long tile = (static_cast<long long>(part) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return reinterpret_cast<Quad*>(partials + tile * AREA) + number * THREADS + threadIdx.x;
}

}  // namespace mma_tile

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::RESIDENT)
    multiplied(const TYPE* __restrict__ a, const TYPE* __restrict__ b, int m, int n, int k,
               mma_tile::Sum* __restrict__ partials) {
    using namespace mma_tile;
    overlap::let_next_begin();
    const Problem problem = {a, b, nullptr, m, n, k, 1, 0};
    const int chunks = chunks_of(problem);
    const int first = pieces::begin(chunks, blockIdx.z, gridDim.z), end = pieces::begin(chunks, blockIdx.z + 1, gridDim.z);
    Sums sums;
    accumulate(sums, problem, blockIdx.x * TILE_M, blockIdx.y * TILE_N, first, end - first);
#pragma unroll
    for (int number = 0; number < MMAS_M * MMAS_N; ++number) {
        const Sum(&four)[4] = sums[number / MMAS_N][number % MMAS_N];
        __stcg(quad_of(partials, blockIdx.z, number), Quad{four[0], four[1], four[2], four[3]});
    }
}

// Mma blockIdx.z of each warp, part by part in the order of k.
extern "C" __global__ void __launch_bounds__(mma_tile::THREADS* mma_tile::SLICES, 1)
    added(mma_tile::Out* __restrict__ c, int m, int n, int k, int parts, mma_tile::Sum alpha, mma_tile::Sum beta,
          mma_tile::Sum* __restrict__ partials) {
    using namespace mma_tile;
    const Problem problem = {nullptr, nullptr, c, m, n, k, alpha, beta};
    const int number = blockIdx.z;
    overlap::let_next_begin();
    overlap::wait_for_launch_before();
    Quad quad[1];
    const bool all = part_slices::sum<SLICES, THREADS, 0>(quad, parts, threadIdx.y, blockDim.y, threadIdx.x, [&](int part) {
        return quad_of(partials, part, number);
    });
    if (!all) return;
    const Thread thread;
    const int row = blockIdx.x * TILE_M + thread.warp_row() + number / MMAS_N * MMA_M + thread.lane() / 4;
    const int column = blockIdx.y * TILE_N + thread.warp_column() + number % MMAS_N * MMA_N + thread.lane() % 4 * 2;
    const Sum(&sums)[4] = reinterpret_cast<const Sum(&)[4]>(quad);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (row + e / 2 * 8 >= m || column + e % 2 >= n) continue;
        Out* const target = c + static_cast<long long>(row + e / 2 * 8) * n + column + e % 2;
        const Out before = beta == 0 ? Out() : *target;
        *target = static_cast<Out>(scaled(problem, sums[e], before));
    }
}
