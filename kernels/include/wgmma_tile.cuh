// A thread block's tile of a product by TMA and wgmma: what the kernels hgemm_wgmma*, fp8_wgmma*, matmul_wgmma and
// matmul_wgmma_late share, which schedule the same work in different ways.
//
// A is row-major, B column-major, but for hgemm_wgmma_layouts: both are contiguous along k. A row of a chunk is 128 bytes,
// all banks of shared memory once; the TMA permutes its 16-byte pieces as wgmma expects them. What lies outside of the
// matrices arrives as zeros, so that the main loops know no edges.
//
// Who includes this defines TILE_N, STAGES, what wgmma_type.cuh asks for and, where it has them, TILE_M and RASTER (rows of
// C that are walked together).

#pragma once

#include "raster.cuh"
#include "wgmma_panels.cuh"
#include "wgmma_type.cuh"

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef RASTER
#define RASTER TILE_M
#endif

namespace hopper {

constexpr int CONSUMERS = 2;  // warpgroups that multiply, one below the other
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int ROLE_THREADS = CONSUMER_THREADS + WARPGROUP;  // where a warpgroup does nothing but loads
constexpr int ROWS = TILE_M / CONSUMERS;                     // of a warpgroup
constexpr int MMAS = ROWS / MMA_M;
constexpr int SUMS = TILE_N / 4 * PAIR;                      // registers of a thread and product

constexpr int A_BYTES = TILE_M * SWIZZLE_BYTES;
constexpr int B_BYTES = TILE_N * SWIZZLE_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// A strip is what one warp has of a box of results: 16 rows of 128 bytes.
constexpr int STRIP_ROWS = 16;
constexpr int STRIP_COLUMNS = SWIZZLE_BYTES / static_cast<int>(sizeof(Out));
constexpr int STRIP_BYTES = STRIP_ROWS * SWIZZLE_BYTES;
constexpr int STRIP_WORDS = STRIP_BYTES / 4 / WARP;  // of a thread
constexpr int STRIPS_ACROSS = TILE_N / STRIP_COLUMNS;
constexpr int STRIPS = MMAS * STRIPS_ACROSS;         // of a warp and tile
constexpr int BUFFERS = 2;                           // strips that a warp has room for
// Strips whose results wait in registers, as many as there is room for beside the sums.
constexpr int ROOM = (192 - MMAS * SUMS) / STRIP_WORDS;
constexpr int HELD = STRIPS < ROOM ? STRIPS : ROOM;

constexpr int GROUP = RASTER / TILE_M > 1 ? RASTER / TILE_M : 1;  // tile rows that are walked together

static_assert(TILE_M == CONSUMERS * ROWS && ROWS == MMAS * MMA_M && MMAS >= 1, "whole products of 64 rows");
static_assert(MMAS * SUMS <= 128, "sums and addresses fit into a thread's registers");
static_assert(A_BYTES % ATOM_BYTES == 0 && B_BYTES % ATOM_BYTES == 0, "operands begin where a swizzle does");
static_assert(STRIPS % BUFFERS == 0 && HELD % BUFFERS == 0, "strips take the buffers in turn");

using Sums = Number[MMAS][SUMS];
using Words = unsigned[STRIP_WORDS];  // what a thread has of a strip
using AlongK = panels::Order<false>;

// ---- tiles and their places ------------------------------------------------------------------------

struct Tiles {
    int rows, columns;

    __device__ __forceinline__ Tiles(int m, int n) : rows((m - 1) / TILE_M + 1), columns((n - 1) / TILE_N + 1) {}
    __device__ __forceinline__ int count() const { return rows * columns; }

    // Row after row.
    __device__ __forceinline__ Place in_rows(int tile) const {
        const int row = tile / columns;
        return {row * TILE_M, (tile - row * columns) * TILE_N};
    }
    __device__ __forceinline__ Place place_of(int tile) const {
        const raster::Square square(tile, rows, columns, GROUP);
        const int column = square.column();
        return {square.row() * TILE_M, column * TILE_N};
    }
};

// First row, within the tile, of the 16 that the warp has of a product.
__device__ __forceinline__ int row_of(const Thread& thread, int mma) {
    return thread.warpgroup * ROWS + mma * MMA_M + thread.warp % (WARPGROUP / WARP) * STRIP_ROWS;
}

// ---- loads and products ----------------------------------------------------------------------------

struct Ring : Stages<STAGES, STAGE_BYTES> {
    __device__ __forceinline__ Ring() {
        __shared__ u64 barriers[2][STAGES];
        place(barriers);
    }
    // By one thread; a barrier of the block has to follow.
    __device__ __forceinline__ void begin(int releases) const { initialize_stages<STAGES>(full, empty, releases); }
};

// By one thread: asks for a chunk of both operands.
__device__ __forceinline__ void load_chunk(const Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                           const Place& place, int chunk) {
    const unsigned at = ring.at(), barrier = ring.full_barrier();
    expect(barrier, STAGE_BYTES);
    load(at, map_a, chunk * CHUNK, place.row, barrier);
    load(at + A_BYTES, map_b, chunk * CHUNK, place.column, barrier);
}

// By the warpgroup that loads: one thread asks for the chunks of all of the block's tiles, each by load_next(place, chunk).
template <class Load>
__device__ __forceinline__ void load_tiles(const Thread& thread, Ring& ring, const Tiles& tiles, int chunks,
                                           const Load& load_next) {
    if (thread.warp == CONSUMER_WARPS && elected()) {
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            for (int chunk = 0; chunk < chunks; ++chunk) {
                ring.wait_empty();
                load_next(place, chunk);
                ring.next();
            }
        }
    }
}
__device__ __forceinline__ void load_tiles(const Thread& thread, Ring& ring, const CUtensorMap& map_a,
                                           const CUtensorMap& map_b, const Tiles& tiles, int chunks) {
    load_tiles(thread, ring, tiles, chunks,
               [&](const Place& place, int chunk) { load_chunk(ring, map_a, map_b, place, chunk); });
}

// Begins the products of the chunk at a shared address; the sums are overwritten where none are `before`.
template <class A = AlongK, class B = AlongK>
__device__ __forceinline__ void multiply_chunk(Sums& sums, const Thread& thread, unsigned at, int before) {
    const u64 a = A::descriptor_of(at + thread.warpgroup * ROWS * SWIZZLE_BYTES);
    const u64 b = B::descriptor_of(at + A_BYTES);
    begin_products();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
            multiply<TILE_N>(sums[i], a + i * (MMA_M * SWIZZLE_BYTES >> 4) + step * A::NEXT, b + step * B::NEXT,
                             before | step);
        }
    }
    commit_products();
}

// The products of all chunks of a tile, one chunk ahead of what is waited for. The last one's stage, the return value, is
// not released.
template <class A = AlongK, class B = AlongK>
__device__ __forceinline__ int multiply_tile(Sums& sums, const Thread& thread, Ring& ring, int chunks) {
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        multiply_chunk<A, B>(sums, thread, ring.at(), chunk);
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
    }
    wait_products<0>();
    return previous;
}

// The same of a block's only tile, whose place it returns, where one of the threads that multiply loads as well.
template <int COUNT = STAGES>
__device__ __forceinline__ Place load_and_multiply(Sums& sums, const Thread& thread, const CUtensorMap& map_a,
                                                   const CUtensorMap& map_b, int m, int n, int k) {
    static_assert(COUNT >= 2, "one chunk is multiplied while another one is loaded");
    Ring ring, loads;
    const bool loader = threadIdx.x == 0;
    if (loader) ring.begin(CONSUMER_WARPS);
    __syncthreads();
    const Place place = Tiles(m, n).in_rows(blockIdx.x);
    const int chunks = chunks_of(k);
    if (loader) {
        for (int chunk = 0; chunk < min(STAGES - 1, chunks); ++chunk) {
            load_chunk(loads, map_a, map_b, place, chunk);
            loads.next();
        }
    }
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        multiply_chunk(sums, thread, ring.at(), chunk);
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
        // Into the stage that has just been released, as soon as the other warps have released it too.
        if (loader && chunk + STAGES - 1 < chunks) {
            loads.wait_empty();
            load_chunk(loads, map_a, map_b, place, chunk + STAGES - 1);
            loads.next();
        }
        __syncwarp();
    }
    wait_products<0>();
    return place;
}

// ---- results ---------------------------------------------------------------------------------------

// Two neighbouring results as they lie in C, from their sums: a word, or two numbers.
template <class T = Out>
__device__ __forceinline__ auto two_of(const Number* sums) {
    if constexpr (HALF_SUMS) {
        return *sums;
    } else if constexpr (sizeof(T) == 2) {
        return packed<T>(sums[0], sums[1]);
    } else {
        return Two{sums[0], sums[1]};
    }
}
using InC = decltype(two_of(nullptr));

// Calls each(sums, target) for every two neighbours of a thread's sums that have a place in C: their first register, and where
// they lie.
template <class Numbers, class Each>
__device__ __forceinline__ void for_pairs_inside(Numbers& sums, const Thread& thread, const Result& result,
                                                 const Place& place, const Each& each) {
#pragma unroll
    for (int i = 0; i < MMAS; ++i) {
#pragma unroll
        for (int e = 0; e < SUMS; e += PAIR) {
            const int row = place.row + row_of(thread, i) + thread.lane / 4 + e / PAIR % 2 * 8;
            const int column = place.column + e / PAIR / 2 * 8 + thread.lane % 4 * 2;
            if (row < result.m && column < result.n) {
                each(&sums[i][e], reinterpret_cast<InC*>(result.c + static_cast<long long>(row) * result.n + column));
            }
        }
    }
}

// A register of sums times alpha; two neighbouring sums plus beta times what C held.
template <class T>
__device__ __forceinline__ void scale(T& sum, Scalar alpha) {
    if constexpr (HALF_SUMS) {
        const float2 two = unpacked<f16>(sum);
        sum = packed<f16>(alpha * two.x, alpha * two.y);
    } else {
        sum *= alpha;
    }
}
template <class T>
__device__ __forceinline__ void add_old(T* sums, Scalar beta, const Two& old) {
    sums[0] += beta * old.first;
    sums[1] += beta * old.second;
}
template <class T>
__device__ __forceinline__ void add_old(T* sums, Scalar beta, unsigned word) {
    const float2 old = unpacked<Out>(word);
    if constexpr (HALF_SUMS) {
        const float2 two = unpacked<f16>(*sums);
        *sums = packed<f16>(two.x + beta * old.x, two.y + beta * old.y);
    } else {
        sums[0] += beta * old.x;
        sums[1] += beta * old.y;
    }
}

// Replaces the sums by alpha times them plus beta times what C holds.
__device__ __forceinline__ void finish(Sums& sums, const Thread& thread, const Result& result, const Place& place) {
    if (result.alpha != 1) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int e = 0; e < SUMS; ++e) scale(sums[i][e], result.alpha);
        }
    }
    if (result.beta != 0) {
        for_pairs_inside(sums, thread, result, place,
                         [&](Number* two, const InC* old) { add_old(two, result.beta, *old); });
    }
}

// Writes finished sums from where they are, two at a time: eight rows, and four pairs side by side, in a store.
__device__ __forceinline__ void store_pairs(const Sums& sums, const Thread& thread, const Result& result,
                                            const Place& place) {
    for_pairs_inside(sums, thread, result, place, [](const Number* two, InC* target) { *target = two_of(two); });
}

// A warp's own strips of shared memory, behind the stages.
__device__ __forceinline__ unsigned strips_of(const Thread& thread, const Ring& ring) {
    return ring.stages + STAGES * STAGE_BYTES + thread.warp * BUFFERS * STRIP_BYTES;
}

// The results of strip `number` of a warp, in registers of their own.
template <class T = Out>
__device__ __forceinline__ void pack_strip(Words& words, const Sums& sums, const Thread& thread, int number) {
    const Number* const strip = &sums[number / STRIPS_ACROSS][number % STRIPS_ACROSS * (SUMS / STRIPS_ACROSS)];
    const bool odd = sizeof(Out) == 4 && thread.lane / 4 % 2;
#pragma unroll
    for (int i = 0; i < STRIP_WORDS; ++i) {
        if constexpr (sizeof(T) == 2 && !HALF_SUMS) {
            words[i] = packed<T>(strip[2 * i], strip[2 * i + 1]);
        } else {
            // Bit 3 of a number is the upper half of the strip's columns: odd rows have the halves in turn.
            words[i] = bits(odd ? strip[i ^ 8] : strip[i]);
            // A copy that is nothing but one would be in its sum's register, and the next products would wait for it.
            if (HALF_SUMS) asm volatile("" : "+r"(words[i]));
        }
    }
}

// Lays a strip down in shared memory in the order in which the TMA takes it: piece p of row r at place p xor (r mod 8), so
// that rows of a column lie in different banks. stmatrix has no elements of 32 bits, of which a thread stores pairs, half a
// piece each: half a warp, four rows, is served at once, and odd rows store the upper half of their columns where even ones
// store the lower.
__device__ __forceinline__ void write_strip(const Thread& thread, unsigned at, const Words& words) {
    if constexpr (sizeof(Out) == 2) {
        const int line = thread.lane % STRIP_ROWS;
#pragma unroll
        for (int piece = 0; piece < 8; piece += 2) {
            const int own = piece + thread.lane / STRIP_ROWS;
            store_matrices(at + line * SWIZZLE_BYTES + (own ^ line % SWIZZLE_ROWS) * 16, words[2 * piece],
                           words[2 * piece + 1], words[2 * piece + 2], words[2 * piece + 3]);
        }
    } else {
        const int row = thread.lane / 4;
        const int piece = thread.lane % 4 / 2 ^ row % 2 * 4 ^ row;
        const unsigned own = row * SWIZZLE_BYTES + piece * 16 + thread.lane % 2 * 8;
#pragma unroll
        for (int pair = 0; pair < STRIP_WORDS / 2; ++pair) {
            store_pair(at + pair % 2 * ATOM_BYTES + (own ^ pair / 2 * 32), words[2 * pair], words[2 * pair + 1]);
        }
    }
}

// By one lane: asks the TMA to bring a strip to its place; rows and columns outside of C are left out.
__device__ __forceinline__ void send_strip(const Thread& thread, const CUtensorMap& map_c, const Place& place, int number,
                                           unsigned at) {
    store(map_c, place.column + number % STRIPS_ACROSS * STRIP_COLUMNS,
          place.row + row_of(thread, number / STRIPS_ACROSS), at);
}

// Strip `number` by way of one of the warp's buffers, as soon as the TMA has read what was there before.
__device__ __forceinline__ void store_strip(const Thread& thread, const CUtensorMap& map_c, const Place& place, int number,
                                            unsigned own_strips, const Words& words) {
    const unsigned at = own_strips + number % BUFFERS * STRIP_BYTES;
    const bool leader = thread.lane == 0;
    if (leader) wait_stores_read<BUFFERS - 1>();
    __syncwarp();
    write_strip(thread, at, words);
    publish_to_async();
    __syncwarp();
    if (leader) {
        send_strip(thread, map_c, place, number, at);
        commit_stores();
    }
}

// The results of a tile from strip `first` on, one strip after another.
__device__ __forceinline__ void store_strips(const Sums& sums, const Thread& thread, const CUtensorMap& map_c,
                                             const Place& place, unsigned own_strips, int first = 0) {
#pragma unroll
    for (int number = first; number < STRIPS; ++number) {
        Words words;
        pack_strip(words, sums, thread, number);
        store_strip(thread, map_c, place, number, own_strips, words);
    }
}

// ---- results that leave beside the next tile's products --------------------------------------------

// Takes what there is room for of a tile's finished sums; the other strips leave at once.
__device__ __forceinline__ void hold(Words (&held)[HELD], const Sums& sums, const Thread& thread, const CUtensorMap& map_c,
                                     const Place& place, unsigned own_strips) {
    store_strips(sums, thread, map_c, place, own_strips, HELD);
#pragma unroll
    for (int number = 0; number < HELD; ++number) pack_strip(held[number], sums, thread, number);
}

// Strips of a warp that a stage has room for.
constexpr int SPARE = STAGE_BYTES / STRIP_BYTES / CONSUMER_WARPS;

// All strips of a warp's last tile at once, where no load will follow: the ring's next stage is empty when all
// warps have released what it held, and stays so; the warp's own strips take what it has no room for.
__device__ __forceinline__ void store_last(const Thread& thread, const Ring& ring, const CUtensorMap& map_c,
                                           const Place& place, unsigned own_strips, const Words (&held)[HELD]) {
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
    for (int number = 0; number < HELD; ++number) write_strip(thread, at(number), held[number]);
    publish_to_async();
    __syncwarp();
    if (leader) {
#pragma unroll
        for (int number = 0; number < HELD; ++number) send_strip(thread, map_c, place, number, at(number));
        commit_stores();
    }
}

// Does all chunks of a tile: begin(chunk) begins the products of one, end(chunk) waits for what has to be done. What is held
// of the tile before leaves, leave(number), a strip behind the products of each of the first chunks.
template <class Begin, class Leave, class End>
__device__ __forceinline__ void walk_beside_stores(int chunks, bool& waiting, const Begin& begin, const Leave& leave,
                                                   const End& end) {
    int chunk = 0;
    if (waiting && chunks >= HELD) {
#pragma unroll
        for (int number = 0; number < HELD; ++number) {
            begin(number);
            leave(number);
            end(number);
        }
        chunk = HELD;
    } else if (waiting) {  // too few products to hide behind
#pragma unroll
        for (int number = 0; number < HELD; ++number) leave(number);
    }
    waiting = false;
    for (; chunk < chunks; ++chunk) {
        begin(chunk);
        end(chunk);
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
                                                        unsigned own_strips, const Words (&held)[HELD]) {
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
    if (waiting && chunks >= HELD) {
#pragma unroll
        for (int number = 0; number < HELD; ++number) {
            begin_chunk(number);
            if (number == 0) {
                int now = tile;
                pin(now);
                place = tiles.place_of(now);
                pin(place.row);
                pin(place.column);
            }
            store_strip(thread, map_c, before, number, own_strips, held[number]);
            end_chunk(number);
        }
        chunk = HELD;
    } else {
        place = tiles.place_of(tile);
        if (waiting) {  // too few products to hide behind
#pragma unroll
            for (int number = 0; number < HELD; ++number) {
                store_strip(thread, map_c, before, number, own_strips, held[number]);
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
