// A thread block's tile of a half-precision product by TMA and wgmma: what the kernels hgemm_wgmma* share
// that schedule the same work in different ways.
//
// A is row-major, B column-major: both are contiguous along k. A chunk is 64 deep, so that one of its rows
// is 128 bytes, all banks of shared memory once; the TMA permutes its 16-byte pieces as wgmma expects them.
// What lies outside of the matrices arrives as zeros, so that the main loops know no edges.
//
// Who includes this defines TYPE, TILE_M, TILE_N, STAGES and, where it has them, RASTER (rows of C that are
// walked together) and CLUSTER (blocks below each other that form one).

#pragma once

#include "raster.cuh"
#include "wgmma.cuh"

#ifndef RASTER
#define RASTER TILE_M
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif

namespace hopper {

constexpr int CONSUMERS = 2;  // warpgroups that multiply, one below the other
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int ROLE_THREADS = CONSUMER_THREADS + WARPGROUP;  // where a warpgroup does nothing but loads
constexpr int ROWS = TILE_M / CONSUMERS;                     // of a warpgroup
constexpr int MMAS = ROWS / MMA_M;
constexpr int SUMS = TILE_N / 2;                             // of a thread and product

constexpr int A_BYTES = TILE_M * SWIZZLE_BYTES;
constexpr int B_BYTES = TILE_N * SWIZZLE_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// A strip is what one warp has of a box of results: 16 rows and 64 columns.
constexpr int STRIP_ROWS = 16;
constexpr int STRIP_COLUMNS = SWIZZLE_BYTES / 2;
constexpr int STRIP_BYTES = STRIP_ROWS * SWIZZLE_BYTES;
constexpr int STRIP_WORDS = STRIP_ROWS * STRIP_COLUMNS / 2 / WARP;  // of a thread, two results each
constexpr int STRIPS_ACROSS = TILE_N / STRIP_COLUMNS;
constexpr int STRIPS = MMAS * STRIPS_ACROSS;  // of a warp and tile
constexpr int BUFFERS = 2;                    // strips that a warp has room for

// Rows of tiles, or of clusters of tiles, that are walked together.
constexpr int GROUP = RASTER / (TILE_M * CLUSTER) > 1 ? RASTER / (TILE_M * CLUSTER) : 1;

static_assert(TILE_M == CONSUMERS * ROWS && ROWS == MMAS * MMA_M && MMAS >= 1, "whole products of 64 rows");
static_assert(MMAS * SUMS <= 128, "sums and addresses fit into a thread's registers");
static_assert(TILE_M <= 256 && TILE_N <= 256, "a box of the TMA has 256 rows at most");
static_assert(A_BYTES % ATOM_BYTES == 0 && B_BYTES % ATOM_BYTES == 0, "operands begin where a swizzle does");
static_assert(TILE_N % CLUSTER == 0 && B_BYTES / CLUSTER % ATOM_BYTES == 0, "so do a block's shares of B");

using Sums = f32[MMAS][SUMS];

// First row and column of a tile in C.
struct Place {
    int row, column;
};

// What becomes of the sums.
struct Result {
    element* c;
    int m, n;
    f32 alpha, beta;
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

    // First row, within the tile, of the 16 that the warp has of a product.
    __device__ __forceinline__ int row_of(int mma) const {
        return warpgroup * ROWS + mma * MMA_M + warp % (WARPGROUP / WARP) * STRIP_ROWS;
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

    // By one thread; a barrier of the block, or of the cluster, has to follow.
    __device__ __forceinline__ void begin(int releases) const { initialize_stages<STAGES>(full, empty, releases); }

    __device__ __forceinline__ unsigned at() const { return stages + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned full_barrier() const { return full + 8 * stage; }
    __device__ __forceinline__ void wait_full() const { wait(full + 8 * stage, phase); }
    // True at once for a stage that has not been used.
    __device__ __forceinline__ void wait_empty() const { wait(empty + 8 * stage, phase ^ 1); }
    __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }

    // By all lanes of a warp: it has done with a stage.
    __device__ __forceinline__ void release(const Thread& thread, int which) const {
        if (thread.lane == 0) arrive(empty + 8 * which);
    }
};

// By one thread: asks for a chunk of both operands.
__device__ __forceinline__ void load_chunk(const Ring& ring, const CUtensorMap& map_a,
                                           const CUtensorMap& map_b, const Place& place, int chunk) {
    const unsigned at = ring.at(), barrier = ring.full_barrier();
    expect(barrier, STAGE_BYTES);
    load(at, map_a, chunk * CHUNK, place.row, barrier);
    load(at + A_BYTES, map_b, chunk * CHUNK, place.column, barrier);
}

// Begins the products of the chunk at a shared address, both operands contiguous along k; the first chunk of a tile overwrites
// the sums.
__device__ __forceinline__ void multiply_chunk(Sums& sums, const Thread& thread, unsigned at, int chunk) {
    const u64 a = descriptor(at + thread.warpgroup * ROWS * SWIZZLE_BYTES);
    const u64 b = descriptor(at + A_BYTES);
    begin_products();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
            multiply<TILE_N>(sums[i], a + i * (MMA_M * SWIZZLE_BYTES >> 4) + step * STEP, b + step * STEP,
                             chunk | step);
        }
    }
    commit_products();
}

// ---- results ---------------------------------------------------------------------------------------

// Replaces the sums by alpha times them plus beta times what C holds.
__device__ __forceinline__ void finish(Sums& sums, const Thread& thread, const Result& result,
                                       const Place& place) {
    if (result.alpha != 1.0f) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int e = 0; e < SUMS; ++e) sums[i][e] *= result.alpha;
        }
    }
    if (result.beta != 0.0f) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int e = 0; e < SUMS; e += 2) {
                const int row = place.row + thread.row_of(i) + thread.lane / 4 + e / 2 % 2 * 8;
                const int column = place.column + e / 4 * 8 + thread.lane % 4 * 2;
                if (row < result.m && column < result.n) {
                    const element* const old = result.c + static_cast<long long>(row) * result.n + column;
                    const float2 pair = unpack(*reinterpret_cast<const unsigned*>(old));
                    sums[i][e] += result.beta * pair.x;
                    sums[i][e + 1] += result.beta * pair.y;
                }
            }
        }
    }
}

// Writes finished sums from where they are, two at a time: eight rows and 16 bytes of each in a store.
__device__ __forceinline__ void store_pairs(const Sums& sums, const Thread& thread, const Result& result,
                                            const Place& place) {
#pragma unroll
    for (int i = 0; i < MMAS; ++i) {
#pragma unroll
        for (int e = 0; e < SUMS; e += 2) {
            const int row = place.row + thread.row_of(i) + thread.lane / 4 + e / 2 % 2 * 8;
            const int column = place.column + e / 4 * 8 + thread.lane % 4 * 2;
            if (row < result.m && column < result.n) {
                element* const target = result.c + static_cast<long long>(row) * result.n + column;
                *reinterpret_cast<unsigned*>(target) = pack(sums[i][e], sums[i][e + 1]);
            }
        }
    }
}

// A warp's own strips of shared memory, behind the stages.
__device__ __forceinline__ unsigned strips_of(const Thread& thread, const Ring& ring) {
    return ring.stages + STAGES * STAGE_BYTES + thread.warp * BUFFERS * STRIP_BYTES;
}

// Packs the sums of strip `number` of a warp.
__device__ __forceinline__ void pack_strip(unsigned (&words)[STRIP_WORDS], const Sums& sums, int number) {
    const f32* const strip = &sums[number / STRIPS_ACROSS][number % STRIPS_ACROSS * 2 * STRIP_WORDS];
#pragma unroll
    for (int i = 0; i < STRIP_WORDS; ++i) words[i] = pack(strip[2 * i], strip[2 * i + 1]);
}

// Lays a strip down in shared memory in the order in which the TMA takes it: piece p of row r at place
// p xor (r mod 8), so that the eight rows of a matrix lie in different banks.
__device__ __forceinline__ void write_strip(const Thread& thread, unsigned at,
                                            const unsigned (&words)[STRIP_WORDS]) {
    const int line = thread.lane % STRIP_ROWS;
#pragma unroll
    for (int piece = 0; piece < 8; piece += 2) {
        const int own = piece + thread.lane / STRIP_ROWS;
        store_matrices(at + line * SWIZZLE_BYTES + (own ^ line % SWIZZLE_ROWS) * 16, words[2 * piece],
                       words[2 * piece + 1], words[2 * piece + 2], words[2 * piece + 3]);
    }
}

// By one lane: asks the TMA to bring a strip to its place; rows and columns outside of C are left out.
__device__ __forceinline__ void send_strip(const Thread& thread, const CUtensorMap& map_c, const Place& place,
                                           int number, unsigned at) {
    store(map_c, place.column + number % STRIPS_ACROSS * STRIP_COLUMNS,
          place.row + thread.row_of(number / STRIPS_ACROSS), at);
}

// Strip `number` by way of one of the warp's buffers, as soon as the TMA has read what was there before.
__device__ __forceinline__ void store_strip(const Thread& thread, const CUtensorMap& map_c,
                                            const Place& place, int number, unsigned own_strips,
                                            const unsigned (&words)[STRIP_WORDS]) {
    const unsigned at = own_strips + number % BUFFERS * STRIP_BYTES;
    const bool leader = thread.lane == 0;
    if (leader) {
        // Every tile begins at the first buffer; with an odd number of strips the one before ended there.
        if (STRIPS % BUFFERS != 0 && number == 0) wait_stores_read<0>();
        else wait_stores_read<BUFFERS - 1>();
    }
    __syncwarp();
    write_strip(thread, at, words);
    publish_to_async();
    __syncwarp();
    if (leader) {
        send_strip(thread, map_c, place, number, at);
        commit_stores();
    }
}

// Strips of a warp that a stage has room for.
constexpr int SPARE = STAGE_BYTES / STRIP_BYTES / CONSUMER_WARPS;

// All strips of a warp's last tile at once, where no load will follow: the ring's next stage is empty when all
// warps have released what it held, and stays so; the warp's own strips take what it has no room for.
__device__ __forceinline__ void store_last(const Thread& thread, const Ring& ring, const CUtensorMap& map_c,
                                           const Place& place, unsigned own_strips,
                                           const unsigned (&words)[STRIPS][STRIP_WORDS]) {
    static_assert(STRIPS - SPARE <= BUFFERS, "a stage and the warp's own strips hold all of its results");
    const bool leader = thread.lane == 0;
    const unsigned spare = ring.at() + thread.warp * SPARE * STRIP_BYTES;
    const auto at = [&](int number) {
        const bool fits = number < SPARE;
        return fits ? spare + number * STRIP_BYTES : own_strips + (number - SPARE) * STRIP_BYTES;
    };
    ring.wait_empty();
    if (leader) wait_stores_read<0>();  // of the tile before, from the warp's own strips
    __syncwarp();
#pragma unroll
    for (int number = 0; number < STRIPS; ++number) write_strip(thread, at(number), words[number]);
    publish_to_async();
    __syncwarp();
    if (leader) {
#pragma unroll
        for (int number = 0; number < STRIPS; ++number) send_strip(thread, map_c, place, number, at(number));
        commit_stores();
    }
}

// The same value, in a way that ties its computation to this place among the products: the two divisions of a
// place would otherwise come before the first of them.
__device__ __forceinline__ void pin(int& value) { asm volatile("" : "+r"(value)); }

// Multiplies `chunks` chunks of a tile while the results of the tile before, where some are `waiting`, leave: a
// strip behind the products of each of the first chunks. Returns the tile's place. `previous` is the stage
// before the present one. All state is the caller's, and numbers come by reference: ptxas makes other code
// of values and of a struct.
__device__ __forceinline__ Place multiply_beside_stores(Sums& sums, const Thread& thread, Ring& ring, int& previous,
                                                        const Tiles& tiles, const int& tile, const int& chunks,
                                                        const CUtensorMap& map_c, const Place& before, bool& waiting,
                                                        unsigned own_strips,
                                                        const unsigned (&words)[STRIPS][STRIP_WORDS]) {
    const auto begin_chunk = [&](int chunk) {
        ring.wait_full();
        multiply_chunk(sums, thread, ring.at(), chunk);
    };
    const auto end_chunk = [&](int chunk) {
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
    };
    Place place;
    int chunk = 0;
    if (waiting && chunks >= STRIPS) {
#pragma unroll
        for (int number = 0; number < STRIPS; ++number) {
            begin_chunk(number);
            if (number == 0) {
                int now = tile;
                pin(now);
                place = tiles.place_of(now);
                pin(place.row);
                pin(place.column);
            }
            store_strip(thread, map_c, before, number, own_strips, words[number]);
            end_chunk(number);
        }
        chunk = STRIPS;
    } else {
        place = tiles.place_of(tile);
        if (waiting) {  // too few products to hide behind
#pragma unroll
            for (int number = 0; number < STRIPS; ++number) {
                store_strip(thread, map_c, before, number, own_strips, words[number]);
            }
        }
    }
    waiting = false;
    for (; chunk < chunks; ++chunk) {
        begin_chunk(chunk);
        end_chunk(chunk);
    }
    wait_products<0>();
    ring.release(thread, previous);
    return place;
}

}  // namespace hopper
