// A thread block's tiles by TMA and wgmma, whatever their types: places, threads, and the ring of stages that chunks of
// k pass through.
//
// A is row-major, B column-major: both are contiguous along k, where nothing else is said. A row of a chunk is 128
// bytes, all banks of shared memory once; the TMA permutes its 16-byte pieces as wgmma expects them. What lies outside
// of the matrices arrives as zeros, so that the main loops know no edges.
//
// Who includes this defines TILE_M, TILE_N, what wgmma.cuh asks for and, where it has them, STAGES, WARPGROUPS that
// multiply, RASTER (rows of C that are walked together) and CLUSTER (blocks below each other that form one).

#pragma once

#include "raster.cuh"
#include "wgmma.cuh"

#ifndef WARPGROUPS
#define WARPGROUPS 2
#endif
#ifndef STAGES  // as many as fit beside the strips of wgmma_strips.cuh
#define STAGES (198400 / ((TILE_M + TILE_N) * 128))
#endif
#ifndef RASTER
#define RASTER TILE_M
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

namespace hopper {

constexpr int CONSUMERS = WARPGROUPS;  // that multiply, one below the other
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int ROLE_THREADS = CONSUMER_THREADS + WARPGROUP;  // where a warpgroup does nothing but loads
constexpr int ROWS = TILE_M / CONSUMERS;                     // of a warpgroup
constexpr int MMAS = ROWS / MMA_M;
constexpr int WARP_ROWS = 16;                                // of a warp and product
constexpr int SUMS = TILE_N / 2 / SUMS_IN_REGISTER;          // registers of a thread and product

constexpr int A_BYTES = TILE_M * SWIZZLE_BYTES;
constexpr int B_BYTES = TILE_N * SWIZZLE_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// Rows of tiles, or of clusters of tiles, that are walked together.
constexpr int GROUP = RASTER / (TILE_M * CLUSTER) > 1 ? RASTER / (TILE_M * CLUSTER) : 1;

static_assert(TILE_M == CONSUMERS * ROWS && ROWS == MMAS * MMA_M && MMAS >= 1, "whole products of 64 rows");
static_assert(MMAS * SUMS <= 128, "sums and addresses fit into a thread's registers");
static_assert(TILE_M <= 256 && TILE_N <= 256, "a box of the TMA has 256 rows at most");
static_assert(A_BYTES % ATOM_BYTES == 0 && B_BYTES % ATOM_BYTES == 0, "operands begin where a swizzle does");
static_assert(TILE_N % CLUSTER == 0 && B_BYTES / CLUSTER % ATOM_BYTES == 0, "so do a block's shares of B");

using Sums = Register[MMAS][SUMS];

// First row and column of a tile in C.
struct Place {
    int row, column;
};

__device__ __forceinline__ int chunks_of(int k) { return (k - 1) / CHUNK + 1; }

// ---- tiles and their places ------------------------------------------------------------------------

// Tiles side by side, and tile rows of a cluster below each other.
struct Tiles {
    int rows, columns;

    __device__ __forceinline__ Tiles(int m, int n)
        : rows((m - 1) / (TILE_M * CLUSTER) + 1), columns((n - 1) / TILE_N + 1) {}
    __device__ __forceinline__ int count() const { return rows * columns; }

    // Row after row.
    __device__ __forceinline__ Place in_rows(int tile) const {
        const int row = tile / columns;
        return {row * TILE_M, (tile - row * columns) * TILE_N};
    }

    // A number is that of a cluster, whose blocks are below each other; `rank` says which one asks.
    __device__ __forceinline__ Place place_of(int tile, int rank = 0) const {
        const raster::Square square(tile, rows, columns, GROUP);
        const int column = square.column();
        return {(square.row() * CLUSTER + rank) * TILE_M, column * TILE_N};
    }
};

// ---- threads ---------------------------------------------------------------------------------------

// A thread of a converged warp. Its warp's number comes by a shuffle, so that the compiler knows that all
// lanes agree: what is computed from it stays in uniform registers, where wgmma and the TMA want it.
struct Thread {
    int warp, warpgroup, lane;

    __device__ __forceinline__ Thread()
        : warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / WARP, 0)),
          warpgroup(warp * WARP / WARPGROUP),
          lane(threadIdx.x % WARP) {}

    // Of the one warp that asks for chunks, where there is one behind those that multiply.
    __device__ __forceinline__ bool loads() const { return warp == CONSUMER_WARPS; }

    // First row, within the tile, of the 16 that the warp has of a product.
    __device__ __forceinline__ int row_of(int mma) const {
        return warpgroup * ROWS + mma * MMA_M + warp % (WARPGROUP / WARP) * WARP_ROWS;
    }
};

// ---- the ring of stages ----------------------------------------------------------------------------

// The block's dynamic shared memory, from the first address on where a swizzle begins. The front matter asks
// for as many bytes more.
__device__ __forceinline__ unsigned aligned_memory() {
    extern __shared__ unsigned char memory[];
    return (shared_of(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
}

// Stages of shared memory that chunks of k pass through in turn, each with two mbarriers: `full` completes
// when the TMA has brought a chunk, `empty` when all warps that multiply have released it. Whoever walks
// through the ring has one of these.
struct Ring {
    unsigned stages, full, empty;  // shared addresses of the first of each
    int stage = 0;                 // the next one
    unsigned phase = 0;            // parity of its turn

    __device__ __forceinline__ Ring() {
        __shared__ u64 barriers[2][STAGES];
        stages = aligned_memory();
        full = shared_of(barriers[0]);
        empty = shared_of(barriers[1]);
    }

    // By all threads, which find the mbarriers prepared; those of a stage in all blocks of the cluster release it.
    __device__ __forceinline__ void begin() const {
        if (threadIdx.x == 0) prepare(CONSUMER_WARPS * CLUSTER);
        if (CLUSTER > 1) {
            cluster_sync();
        } else {
            __syncthreads();
        }
    }

    // By one thread; a barrier of the block, or of the cluster, has to follow.
    __device__ __forceinline__ void prepare(int releases) const {
#pragma unroll
        for (int i = 0; i < STAGES; ++i) prepare_stage(i, releases);
        publish_barriers();
    }
    __device__ __forceinline__ void prepare_stage(int which, int releases) const {
        initialize(full + 8 * which, 1);
        initialize(empty + 8 * which, releases);
    }

    __device__ __forceinline__ unsigned at() const { return stages + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned full_barrier() const { return full + 8 * stage; }
    __device__ __forceinline__ void wait_full() const { wait(full + 8 * stage, phase); }
    // True at once for a stage that has not been used.
    __device__ __forceinline__ void wait_empty() const { wait(empty + 8 * stage, phase ^ 1); }
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }

    // By all lanes of a warp: it has done with a stage. Lane r tells block r of the cluster, which loads into ours.
    __device__ __forceinline__ void release(const Thread& thread, int which) const {
        if (CLUSTER == 1) {
            if (thread.lane == 0) arrive(empty + 8 * which);
        } else if (thread.lane < CLUSTER) {
            arrive_at(empty + 8 * which, thread.lane);
        }
    }
};

// ---- chunks ----------------------------------------------------------------------------------------

// An operand in shared memory that is contiguous along k.
struct AlongK {
    static constexpr int TURNED = 0;
    static constexpr u64 NEXT = STEP;  // from one step along k to the next

    // Asks for a chunk of the rows of A or columns of B from `first` on.
    static __device__ __forceinline__ void load_chunk(unsigned at, const CUtensorMap& map, int first, int chunk,
                                                      unsigned barrier) {
        load(at, map, chunk * CHUNK, first, barrier);
    }
    static __device__ __forceinline__ u64 descriptor_of(unsigned at) { return descriptor(at); }
};

// By one thread: asks for a chunk of both operands. Blocks of a cluster load a part of B each, and write it into the
// shared memory of all.
template <class A = AlongK, class B = AlongK>
__device__ __forceinline__ void load_chunk(const Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                           const Place& place, int chunk, int rank = 0) {
    const unsigned at = ring.at(), barrier = ring.full_barrier();
    expect(barrier, STAGE_BYTES);
    A::load_chunk(at, map_a, place.row, chunk, barrier);
    if (CLUSTER == 1) {
        B::load_chunk(at + A_BYTES, map_b, place.column, chunk, barrier);
    } else {
        load_all(at + A_BYTES + rank * (B_BYTES / CLUSTER), map_b, chunk * CHUNK,
                 place.column + rank * (TILE_N / CLUSTER), barrier, (1u << CLUSTER) - 1);
    }
}

// By one thread: asks for a chunk as soon as its stage is empty.
template <class A = AlongK, class B = AlongK>
__device__ __forceinline__ void load_next(Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                          const Place& place, int chunk, int rank = 0) {
    ring.wait_empty();
    load_chunk<A, B>(ring, map_a, map_b, place, chunk, rank);
    ring.next();
}

// Begins the products of the chunk at a shared address; the first chunk of a tile overwrites the sums.
template <class A = AlongK, class B = AlongK>
__device__ __forceinline__ void multiply_chunk(Sums& sums, const Thread& thread, unsigned at, int chunk) {
    const u64 a = A::descriptor_of(at + thread.warpgroup * ROWS * SWIZZLE_BYTES);
    const u64 b = B::descriptor_of(at + A_BYTES);
    begin_products();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
            multiply<A::TURNED, B::TURNED>(sums[i], a + i * (MMA_M * SWIZZLE_BYTES >> 4) + step * A::NEXT,
                                           b + step * B::NEXT, chunk | step);
        }
    }
    commit_products();
}

// The same for the chunk that comes next, as soon as it is there.
template <class A = AlongK, class B = AlongK>
__device__ __forceinline__ void begin_chunk(Sums& sums, const Thread& thread, const Ring& ring, int chunk) {
    ring.wait_full();
    multiply_chunk<A, B>(sums, thread, ring.at(), chunk);
}

// Goes on behind it: the products of the chunk before are done, and its stage, `previous`, is free.
__device__ __forceinline__ void end_chunk(const Thread& thread, Ring& ring, int& previous, int chunk) {
    wait_products<1>();
    if (chunk > 0) ring.release(thread, previous);
    previous = ring.stage;
    ring.next();
}

// Behind the last chunk: the sums are there.
__device__ __forceinline__ void end_tile(const Thread& thread, const Ring& ring, int previous) {
    wait_products<0>();
    ring.release(thread, previous);
}

// The sums of a block's only tile, by threads of which one asks for chunks besides: the loop that hgemm_wgmma_pipeline
// shows, for other types. `ring` and `loads` walk through the same ring.
template <int AHEAD = STAGES - 1>
__device__ __forceinline__ void multiply_pipelined(Sums& sums, const Thread& thread, Ring& ring, Ring& loads,
                                                   const CUtensorMap& map_a, const CUtensorMap& map_b,
                                                   const Place& place, int chunks) {
    static_assert(AHEAD >= 1, "one chunk is multiplied while another one is loaded");
    const bool loader = threadIdx.x == 0;
    if (loader) {
        for (int chunk = 0; chunk < min(AHEAD, chunks); ++chunk) {
            load_chunk(loads, map_a, map_b, place, chunk);
            loads.next();
        }
    }
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        begin_chunk(sums, thread, ring, chunk);
        end_chunk(thread, ring, previous, chunk);
        // Into the stage that has just been released, as soon as the other warps have released it too.
        if (loader && chunk + AHEAD < chunks) {
            load_next(loads, map_a, map_b, place, chunk + AHEAD);
        }
        __syncwarp();
    }
    wait_products<0>();
}

}  // namespace hopper
