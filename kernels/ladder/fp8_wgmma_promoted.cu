/*---
title: The same, sums promoted to FP32 every 128 products
follows: fp8_wgmma
operation: matmul
dtypes: {a: A_TYPE, b: e4m3, c: bf16, accumulate: ACCUMULATE}
layouts: {a: row, b: col, c: row}
macros:
  A_TYPE: [e4m3, e5m2]
  ACCUMULATE: [f32, f22]     # f22: what the tensor cores sum is left to them
  TILE_N: [128, 192, 256]    # columns of a tile of 128 rows
  STAGES: [4, 6, 3]          # chunks of shared memory in flight or in use
  CLUSTER: [1, 2]            # blocks below each other in C that load columns of B for both
  RASTER: [2048, 1024]       # rows of C that are walked together
# Two sums of 64x256 do not fit into a warpgroup's registers.
where: ["ACCUMULATE == f22 or TILE_N < 256"]
let:
  # stages, then two strips of 2048 bytes for each of eight warps
  shared: 1024 + STAGES * (128 + TILE_N) * 128 + 8 * 2 * 2048
  clusters: ceil(m / (128 * CLUSTER)) * ceil(n / TILE_N)
tile: [128, TILE_N, 128]
block: [384]
cluster: [CLUSTER]
grid: ["CLUSTER * min(floor(sms / CLUSTER), clusters)"]
# tiles, as whose waves they run
working_blocks: "ceil(m / 128) * ceil(n / TILE_N)"
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [128, 128], swizzle: 128}
  map_b: {of: b, box: [128, TILE_N // CLUSTER], swizzle: 128}
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
// tile is multiplied, which counts twice where a tile takes half the time. Tiles of 192 columns leave no registers
// for that. Where CLUSTER is 2, two blocks below each other load B for both, as in hgemm_wgmma_cluster.

#define TYPE bf16
#define TILE_M 128
#define ACCUMULATE_f32 1
#define ACCUMULATE_f22 0

#include "fp8_wgmma.cuh"

using namespace hopper;

constexpr bool PROMOTED = NAMED(ACCUMULATE_, ACCUMULATE);
constexpr bool LATE = SUMS * (PROMOTED ? 2 : 1) + SUMS / 2 <= 200;  // registers of sums, parts and results

// Lane r of a warp releases the stage in block r of the cluster, which loads into ours.
__device__ __forceinline__ void release(const Ring& ring, const Thread& thread, int which) {
    if (CLUSTER == 1) {
        ring.release(thread, which);
    } else if (thread.lane < CLUSTER) {
        arrive_at(ring.empty + 8 * which, thread.lane);
    }
}

// The results of the tile before, and whether they have still to leave.
struct Results {
    unsigned words[STRIPS][STRIP_WORDS];
    Place place = {0, 0};
    bool waiting = false;
};

// Does all chunks of a tile: `begin` begins the products of one, `end` waits for what has to be done. A strip of the
// tile before leaves behind the products of each of the first chunks.
template <class Begin, class End, class Leave>
__device__ __forceinline__ void walk(int chunks, bool& waiting, Begin begin, End end, Leave leave) {
    int chunk = 0;
    if (LATE && waiting && chunks >= STRIPS) {
#pragma unroll
        for (int number = 0; number < STRIPS; ++number) {
            begin(number);
            leave(number);
            end(number);
        }
        chunk = STRIPS;
    } else if (LATE && waiting) {  // too few products to hide behind
#pragma unroll
        for (int number = 0; number < STRIPS; ++number) leave(number);
    }
    waiting = false;
    for (; chunk < chunks; ++chunk) {
        begin(chunk);
        end(chunk);
    }
}

// The products of a tile, each chunk's summed by itself and then added.
template <class Leave>
__device__ __forceinline__ void multiply_promoted(Sums& sums, const Thread& thread, Ring& ring, int chunks,
                                                  bool& waiting, Leave leave) {
    Sums parts;
#pragma unroll
    for (int i = 0; i < MMAS; ++i) {
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[i][e] = 0.0f;
    }
    const auto begin = [&](int) {
        ring.wait_full();
        fp8::multiply_chunk(parts, thread, ring.at(), 0);
    };
    const auto end = [&](int) {
        wait_products<0>();
        release(ring, thread, ring.stage);
        ring.next();
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int e = 0; e < SUMS; ++e) sums[i][e] += parts[i][e];
        }
    };
    walk(chunks, waiting, begin, end, leave);
}

// The same, all summed by the tensor cores.
template <class Leave>
__device__ __forceinline__ void multiply_fast(Sums& sums, const Thread& thread, Ring& ring, int chunks, bool& waiting,
                                              Leave leave) {
    int previous = 0;
    const auto begin = [&](int chunk) {
        ring.wait_full();
        fp8::multiply_chunk(sums, thread, ring.at(), chunk);
    };
    const auto end = [&](int chunk) {
        wait_products<1>();
        if (chunk > 0) release(ring, thread, previous);
        previous = ring.stage;
        ring.next();
    };
    walk(chunks, waiting, begin, end, leave);
    wait_products<0>();
    release(ring, thread, previous);
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    fp8_wgmma_promoted(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                       const __grid_constant__ CUtensorMap map_c, element* c, int m, int n, int k, f32 alpha,
                       f32 beta, f32 scale_a, f32 scale_b) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS * CLUSTER);
    if (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }

    const Tiles tiles(m, n);
    const int chunks = fp8::chunks_of(k);
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    const int first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        if (thread.warp == CONSUMER_WARPS && elected()) {
            for (int tile = first; tile < tiles.count(); tile += clusters) {
                const Place place = tiles.place_of(tile, rank);
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    ring.wait_empty();
                    fp8::load_chunk(ring, map_a, map_b, place, chunk, rank);
                    ring.next();
                }
            }
        }
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha * scale_a * scale_b, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        Results before;
        const auto leave = [&](int number) {
            store_strip(thread, map_c, before.place, number, own_strips, before.words[number]);
        };
        for (int tile = first; tile < tiles.count(); tile += clusters) {
            const Place place = tiles.place_of(tile, rank);
            if (PROMOTED) multiply_promoted(sums, thread, ring, chunks, before.waiting, leave);
            else multiply_fast(sums, thread, ring, chunks, before.waiting, leave);
            finish(sums, thread, result, place);
            before.place = place;
            before.waiting = true;
#pragma unroll
            for (int number = 0; number < STRIPS; ++number) {
                pack_strip(before.words[number], sums, number);
                if (!LATE) leave(number);
            }
        }
        if (LATE) store_last(thread, ring, map_c, before.place, own_strips, before.words);  // every block has a tile
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
    // No block leaves while another one of its cluster may still arrive at its barriers.
    if (CLUSTER > 1) cluster_sync();
}
