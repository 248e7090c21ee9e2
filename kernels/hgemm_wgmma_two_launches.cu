/*---
title: Pieces of k for blocks wherever they run, their parts added by a second launch
follows: hgemm_wgmma_split
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  PARTS: [4, 2, 3, 5, 6, 8]  # blocks that share a tile along k
  WARPGROUPS: [1, 2]         # 64 rows of a tile each
  TILE_N: [128, 64]          # columns of a tile
  DOWN: [2, 1]               # blocks below each other that load columns of B for each other
let:
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  rows: ceil(m / (WARPGROUPS * 64))
  columns: ceil(n / TILE_N)
tile: [WARPGROUPS * 64, TILE_N, 64]
buffers:
  partials: {dtype: f32, size: "PARTS * rows * columns * WARPGROUPS * 64 * TILE_N"}
tensor_maps:
  map_a: {of: a, box: [64, WARPGROUPS * 64], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N // DOWN], swizzle: 128}
architecture_specific: true
requires:
  arch: 90
  n: 8
  k: 8
  conditions: [wgmma, clusters, "232448 <= shared_per_block_optin"]
launches:
  - entry: multiplied
    block: ["WARPGROUPS * 128 + 32"]
    cluster: [DOWN]
    grid: ["DOWN * ceil(rows / DOWN)", columns, PARTS]
    shared_bytes: "1024 + min(8, floor(225 * 1024 / stage)) * stage"
    arguments: [map_a, map_b, m, k, partials]
  - entry: added
    block: ["WARPGROUPS * 128"]
    grid: ["ceil(n / 16)", rows]
    shared_bytes: "1024 + WARPGROUPS * 64 * 48"  # 16 results of a row, and a gap
    arguments: [c, m, n, alpha, beta, partials]
---*/

// Blocks that send each other their sums are one cluster, and clusters of four or more leave SMs out. So here a cluster
// is two blocks at the same piece of k, which load columns of B for each other, and every SM has one of them, with a
// ring of eight stages. They leave their sums in global memory, in whole lines because in the order of registers, and a
// second launch adds the parts, wherever the first one ran: as many threads as a tile has, for each 16 of its columns.

#define ROOM 225

#include "cluster_parts.cuh"
#include "hgemm_fit.cuh"

using namespace fit;

constexpr int GROUP_COLUMNS = 16;  // that a block adds: a sector of each row of C
constexpr int GROUP_QUADS = GROUP_COLUMNS / QUAD_COLUMNS;
constexpr int QUADS = TILE_N / QUAD_COLUMNS;  // of a thread

static_assert(B_BYTES / DOWN % ATOM_BYTES == 0, "a share of B begins where a swizzle does");

// This thread's first quad in part `part` of a tile, behind which the others follow CONSUMERS apart.
__device__ __forceinline__ float4* quads_of(f32* partials, int part, int row, int column, int rows, int columns) {
    const long long number = (static_cast<long long>(part) * columns + column) * rows + row;
    return reinterpret_cast<float4*>(partials + number * (TILE_M * TILE_N)) + threadIdx.x;
}

// A ring whose stages the loads of all blocks of the cluster fill, so that every warp releases them to all of these.
struct SharedRing : Ring {
    // Nobody releases a stage that is not filled again: nothing arrives at a block that has ended.
    int refills;

    __device__ __forceinline__ void release(const Thread& thread, int which) {
        if (refills-- <= 0) return;
        if (DOWN == 1) {
            Ring::release(thread, which);
        } else if (thread.lane < DOWN) {
            arrive_at(empty + 8 * which, thread.lane);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    multiplied(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, int m, int k,
               f32* partials) {
    const Thread thread;
    SharedRing ring;
    const int row = blockIdx.x, column = blockIdx.y, part = blockIdx.z;
    const int chunks = chunks_of(k), first = chunks * part / PARTS, end = chunks * (part + 1) / PARTS;
    if (thread.loads()) {
        ring.begin(thread, DOWN);
        if (DOWN > 1) {
            // Nobody loads into a block whose mbarriers are not there.
            cluster_parts::arrive();
            cluster_parts::wait_for_all();
        }
        if (elected()) {
            const int share = DOWN > 1 ? cluster_rank() : 0;
            for (int chunk = first; chunk < end; ++chunk) {
                ring.wait_empty();
                const unsigned at = ring.at(), barrier = ring.full + 8 * ring.stage;
                const unsigned b = at + A_BYTES + share * (B_BYTES / DOWN);
                const int column_of_b = column * TILE_N + share * (TILE_N / DOWN);
                expect(barrier, STAGE_BYTES);
                load(at, map_a, chunk * CHUNK, row * TILE_M, barrier);
                if (DOWN == 1) {
                    load(b, map_b, chunk * CHUNK, column_of_b, barrier);
                } else {
                    load_all(b, map_b, chunk * CHUNK, column_of_b, barrier, (1u << DOWN) - 1);
                }
                ring.next();
            }
        }
    } else {
        if (DOWN > 1) {
            cluster_parts::arrive();
            cluster_parts::wait_for_all();
        }
        ring.join();
        ring.refills = end - first - STAGES;
        Sums sums;
        multiply_chunks(sums, thread, ring, end - first);
        const int rows = (m - 1) / TILE_M + 1;
        if (row >= rows) return;  // here for the other block's sake
        float4* const target = quads_of(partials, part, row, column, rows, gridDim.y);
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            const f32* const quad = sums + 4 * i;
            __stcg(target + i * CONSUMERS, make_float4(quad[0], quad[1], quad[2], quad[3]));
        }
    }
}

// Sixteen columns of a tile, part by part in the order of k: the sums are the same every time. A compiler that is not
// told that one block an SM will do saves registers, and asks for a few quads at a time instead of all at once.
extern "C" __global__ void __launch_bounds__(CONSUMERS, 1)
    added(element* c, int m, int n, f32 alpha, f32 beta, f32* partials) {
    const Thread thread;
    const Ring ring;
    const Place place = {static_cast<int>(blockIdx.y) * TILE_M, static_cast<int>(blockIdx.x) * GROUP_COLUMNS};
    const int first = place.column % TILE_N / QUAD_COLUMNS, columns = (n - 1) / TILE_N + 1;
    f32 sums[4 * GROUP_QUADS] = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const float4* const source =
            quads_of(partials, part, blockIdx.y, place.column / TILE_N, gridDim.y, columns) + first * CONSUMERS;
#pragma unroll
        for (int i = 0; i < GROUP_QUADS; ++i) {
            const float4 more = __ldcg(source + i * CONSUMERS);
            f32* const quad = sums + 4 * i;
            quad[0] += more.x, quad[1] += more.y, quad[2] += more.z, quad[3] += more.w;
        }
    }
    const Result result = {c, m, n, alpha, beta};
    store(sums, thread, ring, result, place, GROUP_COLUMNS);
}
