/*---
title: The same, two blocks of a cluster share their columns of B by multicast
follows: hgemm_wgmma_store
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  CLUSTER: [2, 1]            # blocks of a cluster, below each other in C
  TILE_M: [128, 256]         # outputs of a tile
  TILE_N: [256, 128]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one row of clusters after another
where: ["TILE_M * TILE_N <= 128 * 256"]
# stages, then two strips of 2048 bytes for each of eight warps
let: {shared: "1024 + STAGES * (TILE_M + TILE_N) * 128 + 8 * 2 * 2048"}
tile: [TILE_M, TILE_N, 64]
block: [384]
cluster: [CLUSTER]
grid: ["CLUSTER * min(floor(sms / CLUSTER), ceil(m / (TILE_M * CLUSTER)) * ceil(n / TILE_N))"]
# tiles, as whose waves they run
working_blocks: "ceil(m / TILE_M) * ceil(n / TILE_N)"
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [64, TILE_M], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N // CLUSTER], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8, conditions: [wgmma, "shared <= shared_per_block_optin"]}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// Blocks below each other multiply different rows of A with the same columns of B. Two of them form a cluster
// here: each loads half of these columns, and the TMA writes them into the shared memory of both, which
// takes a third off what is read from L2. In return a stage may be filled only when both blocks have released
// it, so that each waits for the slower one. There are no clusters of four here: a cluster lies in one GPC,
// which has 18 SMs at most, 16 of them in clusters of four, so that 8 GPCs hold 128 of 132 SMs at most.

#include "hgemm_wgmma.cuh"

using namespace hopper;

// Lane r of a warp releases the stage in block r of the cluster, which loads into ours.
__device__ __forceinline__ void release_in_cluster(const Ring& ring, const Thread& thread, int which) {
    if (CLUSTER == 1) {
        ring.release(thread, which);
    } else if (thread.lane < CLUSTER) {
        arrive_at(ring.empty + 8 * which, thread.lane);
    }
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_cluster(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                        const __grid_constant__ CUtensorMap map_c, element* c, int m, int n, int k, f32 alpha,
                        f32 beta) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS * CLUSTER);
    if (CLUSTER > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    const int rank = CLUSTER > 1 ? cluster_rank() : 0;
    const int first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<40>();
        if (thread.warp == CONSUMER_WARPS && elected()) {
            for (int tile = first; tile < tiles.count(); tile += clusters) {
                const Place place = tiles.place_of(tile, rank);
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    ring.wait_empty();
                    if (CLUSTER == 1) {
                        load_chunk(ring, map_a, map_b, place, chunk);
                    } else {
                        const unsigned at = ring.at(), barrier = ring.full_barrier();
                        expect(barrier, STAGE_BYTES);
                        load(at, map_a, chunk * CHUNK, place.row, barrier);
                        load_all(at + A_BYTES + rank * (B_BYTES / CLUSTER), map_b, chunk * CHUNK,
                                 place.column + rank * (TILE_N / CLUSTER), barrier, (1u << CLUSTER) - 1);
                    }
                    ring.next();
                }
            }
        }
    } else {
        take_registers<232>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        for (int tile = first; tile < tiles.count(); tile += clusters) {
            const Place place = tiles.place_of(tile, rank);
            int previous = 0;
            for (int chunk = 0; chunk < chunks; ++chunk) {
                ring.wait_full();
                multiply_chunk(sums, thread, ring.at(), chunk);
                wait_products<1>();
                if (chunk > 0) release_in_cluster(ring, thread, previous);
                previous = ring.stage;
                ring.next();
            }
            wait_products<0>();
            release_in_cluster(ring, thread, previous);
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
