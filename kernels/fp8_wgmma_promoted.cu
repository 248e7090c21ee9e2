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
requires:
  arch: 90
  n: 8
  k: 16
  conditions: [wgmma, "shared <= shared_per_block_optin"]
entry: fp8_wgmma_promoted
# scale_a and scale_b, which together are 1
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta, 0.5, 2.0]
---*/

// The tensor cores keep 13 digits of a sum, so a long sum loses what is added late. Here they begin a new one with
// every chunk of 128, and the FMA units add it to sums in single precision. That takes twice the registers,
// and a warpgroup's products stop while it adds; but there are two warpgroups, and what one adds is hidden behind
// the products of the other. The rest is as hgemm_wgmma_cluster has it: a warpgroup that loads, blocks that stay,
// results by way of shared memory, B for two blocks at once where CLUSTER is 2.

#define TYPE bf16
#define TILE_M 128
#define ACCUMULATE_f32 1
#define ACCUMULATE_f22 0

#include "fp8_wgmma.cuh"

using namespace hopper;

constexpr bool PROMOTED = NAMED(ACCUMULATE_, ACCUMULATE);

// Lane r of a warp releases the stage in block r of the cluster, which loads into ours.
__device__ __forceinline__ void release(const Ring& ring, const Thread& thread, int which) {
    if (CLUSTER == 1) {
        ring.release(thread, which);
    } else if (thread.lane < CLUSTER) {
        arrive_at(ring.empty + 8 * which, thread.lane);
    }
}

// The products of all chunks of a tile, each chunk's summed by itself and then added.
__device__ __forceinline__ void multiply_promoted(Sums& sums, const Thread& thread, Ring& ring, int chunks) {
    Sums parts;
#pragma unroll
    for (int i = 0; i < MMAS; ++i) {
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[i][e] = 0.0f;
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        fp8::multiply_chunk(parts, thread, ring.at(), 0);
        wait_products<0>();
        release(ring, thread, ring.stage);
        ring.next();
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int e = 0; e < SUMS; ++e) sums[i][e] += parts[i][e];
        }
    }
}

// The same, all summed by the tensor cores.
__device__ __forceinline__ void multiply_fast(Sums& sums, const Thread& thread, Ring& ring, int chunks) {
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        fp8::multiply_chunk(sums, thread, ring.at(), chunk);
        wait_products<1>();
        if (chunk > 0) release(ring, thread, previous);
        previous = ring.stage;
        ring.next();
    }
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
        for (int tile = first; tile < tiles.count(); tile += clusters) {
            const Place place = tiles.place_of(tile, rank);
            if (PROMOTED) multiply_promoted(sums, thread, ring, chunks);
            else multiply_fast(sums, thread, ring, chunks);
            finish(sums, thread, result, place);
#pragma unroll
            for (int number = 0; number < STRIPS; ++number) {
                unsigned words[STRIP_WORDS];
                pack_strip(words, sums, number);
                store_strip(thread, map_c, place, number, own_strips, words);
            }
        }
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
    // No block leaves while another one of its cluster may still arrive at its barriers.
    if (CLUSTER > 1) cluster_sync();
}
