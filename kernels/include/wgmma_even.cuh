// Tiles of any width of any type (matmul_wgmma_even, matmul_wgmma_turns): threads, the ring of stages,
// where the tiles of a launch lie, and how a warp's results lie in shared memory, from where the TMA brings them to C. A
// chunk of k is 128 bytes of a row of A and of B.
//
// Who includes this defines TILE_M, WIDEST, the columns of a tile for which there are registers, what wgmma_type.cuh asks
// for, TURNS where each warpgroup that multiplies has tiles of its own, all rows of them, and ACROSS or DOWN, if not 1: so
// many blocks, a cluster, have tiles beside each other in C, and each loads a part of their rows of A for all (ACROSS), or
// below each other, and each loads a part of their columns of B (DOWN).

#pragma once

#include "overlap.cuh"
#include "raster.cuh"
#include "wgmma_any_width.cuh"
#include "wgmma_type.cuh"

#define RASTER 2048  // rows of C that are walked together

#ifndef TURNS
#define TURNS 0
#endif

#ifndef ACROSS
#define ACROSS 1
#endif
#ifndef DOWN
#define DOWN 1
#endif
#define TOGETHER (ACROSS * DOWN)  // blocks of a cluster
#if TOGETHER > 1
#include "cluster_parts.cuh"
#endif

namespace even {

using namespace hopper;

using any_width::SUMS;

constexpr int CONSUMERS = TILE_M == 192 ? 3 : 2;      // warpgroups that multiply, one below the other or in turn
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
constexpr int STAGES = 8;                         // at most
constexpr int MMAS = TILE_M / MMA_M / (TURNS ? 1 : CONSUMERS);  // of a warpgroup, below each other
constexpr int A_BYTES = TILE_M * SWIZZLE_BYTES;
// Columns of C by which widths differ: whole atoms of 8 columns of B for each block that loads some.
constexpr int STEP = DOWN * 8 > WIDTH_STEP ? DOWN * 8 : WIDTH_STEP;
static_assert(ACROSS == 1 || DOWN == 1, "all blocks of a cluster share the same rows, or the same columns");

// Registers of a thread that multiplies, and of one that loads: together what an SM has, or nearly.
constexpr int CONSUMING = CONSUMERS == 3 ? 160 : 240, LOADING = CONSUMERS == 3 ? 32 : 24;

// A strip is what one warp has of a box of results: 16 rows of 128 bytes.
constexpr int STRIP_ROWS = 16;
constexpr int STRIP_COLUMNS = SWIZZLE_BYTES / static_cast<int>(sizeof(Out));
constexpr int STRIP_BYTES = STRIP_ROWS * SWIZZLE_BYTES;
constexpr int STRIP_WORDS = STRIP_BYTES / 4 / WARP;                     // of a thread
constexpr int STRIP_SUMS = STRIP_COLUMNS / 2;                            // registers of a thread
constexpr int STRIPS = (WIDEST + STRIP_COLUMNS - 1) / STRIP_COLUMNS;    // of a warp and product, at most

static_assert(MMAS * MMA_M * (TURNS ? 1 : CONSUMERS) == TILE_M && TILE_M <= 256, "whole products of 64 rows");

using Sums = any_width::Sums[MMAS];
using Words = unsigned[STRIP_WORDS];

// Products of the tile that lie above those of the warpgroup.
__device__ __forceinline__ int above(const Thread& thread) { return TURNS ? 0 : thread.warpgroup * MMAS; }
// First row, within the tile, of the 16 that the warp has of a product.
__device__ __forceinline__ int row_of(const Thread& thread, int mma) {
    return (above(thread) + mma) * MMA_M + thread.warp % (WARPGROUP / WARP) * STRIP_ROWS;
}

// ---- the ring of stages ----------------------------------------------------------------------------

// Stages, as many and as large as the launch chose. One is empty when all that multiply have released it, in every block
// that it is loaded for.
struct Ring : Stages<STAGES, 0> {
    int count, bytes;

    __device__ __forceinline__ Ring(int count, int widest) : count(count), bytes(A_BYTES + widest * SWIZZLE_BYTES) {
        __shared__ u64 barriers[2][STAGES];
        place(barriers);
    }
    // By the warp that loads, which goes on as soon as it may, where so many warpgroups of a block release a stage, ...
    __device__ __forceinline__ void begin(const Thread& thread, int warpgroups = TURNS ? 1 : CONSUMERS) const {
        const int releases = warpgroups * (TOGETHER > 1 ? TOGETHER * WARP : WARPGROUP) / WARP;
        // One lane for all: of several lanes each would take a turn of a loop, with a fence of its own.
        if (elected()) initialize_stages<STAGES>(full, empty, releases);
        __syncwarp();
#if TOGETHER > 1
        join();
#else
        asm volatile("bar.arrive 1, %0;\n" ::"n"(CONSUMER_THREADS + WARP) : "memory");
#endif
    }
    // ... and by those that multiply: the mbarriers are there.
    __device__ __forceinline__ void join() const {
#if TOGETHER > 1
        cluster_parts::arrive();
        cluster_parts::wait_for_all();
#else
        asm volatile("bar.sync 1, %0;\n" ::"n"(CONSUMER_THREADS + WARP) : "memory");
#endif
    }
    __device__ __forceinline__ unsigned at() const { return stages + stage * bytes; }
    __device__ __forceinline__ unsigned end() const { return stages + count * bytes; }
    __device__ __forceinline__ void next() {
        if (++stage == count) stage = 0, phase ^= 1;
    }
    // To the stage of chunk `number` of all that pass through.
    __device__ __forceinline__ void go_to(int number) {
        stage = number % count;
        phase = number / count & 1;
    }
    // By all lanes of a warp: it has done with a stage. Other blocks are told by one warp for all four, whose products are one:
    // a barrier that every warp of every block arrives at takes these arrivals one by one.
    __device__ __forceinline__ void release(const Thread& thread, int which) const {
#if TOGETHER > 1
        if (thread.lane < TOGETHER && thread.lane == thread.warp % (WARPGROUP / WARP)) {
            arrive_at(empty + 8 * which, thread.lane);
        }
#else
        if (thread.lane == 0) arrive(empty + 8 * which);
#endif
    }
    // By the thread that loads, before it ends: until all blocks have released all stages but the last `kept`. What tells a
    // block that is gone ends the launch, and a barrier of the cluster would not wait for arrivals that are under way.
    __device__ __forceinline__ void wait_for_releases(int kept = 0) {
#if TOGETHER > 1
        for (int i = kept; i < count; ++i) {
            wait_empty();
            next();
        }
#endif
    }
};

// ---- tiles -----------------------------------------------------------------------------------------

// Tiles of a launch: `columns` side by side, the first `wider` ones STEP columns of C wider than `narrow`.
struct Division {
    int rows, columns, narrow, wider;  // rows of whole clusters: the last one may lie outside of C

    __device__ __forceinline__ explicit Division(int m, int columns, int narrow, int wider)
        : rows(((m - 1) / (TILE_M * DOWN) + 1) * DOWN), columns(columns), narrow(narrow), wider(wider) {}
    __device__ __forceinline__ int count() const { return rows * columns; }
    __device__ __forceinline__ int widest() const { return narrow + (wider > 0 ? STEP : 0); }
};

// Where a tile lies and how many columns it has.
struct Patch {
    int row, column, width;

    Patch() = default;
    __device__ __forceinline__ Patch(const Division& division, int tile) {
        const raster::Square square(tile / TOGETHER, division.rows / DOWN, division.columns / ACROSS,
                                    RASTER / TILE_M / DOWN);
        const int number = square.column() * ACROSS + tile % ACROSS;
        row = (square.row() * DOWN + tile % DOWN) * TILE_M;
        column = number * division.narrow + min(number, division.wider) * STEP;
        width = division.narrow + (number < division.wider ? STEP : 0);
    }
    // The same value, in a way that ties its computation to this place among the products.
    __device__ __forceinline__ void pin() { asm volatile("" : "+r"(row), "+r"(column), "+r"(width)); }
};

// ---- sums ------------------------------------------------------------------------------------------

// Begins the products of the chunk that is next in the ring.
__device__ __forceinline__ void multiply_chunk(Sums& sums, const Thread& thread, const Ring& ring, int width, int chunk) {
#pragma unroll
    for (int i = 0; i < MMAS; ++i) {
        any_width::multiply_chunk(sums[i], width,
                                  descriptor(ring.at() + (above(thread) + i) * MMA_M * SWIZZLE_BYTES),
                                  descriptor(ring.at() + A_BYTES), chunk);
    }
}

// Two neighbours among a thread's sums become alpha times them plus beta times what C held.
template <class T>
__device__ __forceinline__ void combine(T* sums, Scalar alpha, Scalar beta, const Two& old) {
    sums[0] = combined(sums[0], alpha, beta, number(old.first));
    sums[1] = combined(sums[1], alpha, beta, number(old.second));
}

// The products of all chunks of a tile, of `width` columns, one chunk ahead of what is waited for. The last ones may still
// run, and their stage, the return value, is not released.
__device__ __forceinline__ int multiply_tile(Sums& sums, const Thread& thread, Ring& ring, int width, int chunks) {
    int previous = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        any_width::multiply_chunk(sums, width, descriptor(ring.at() + above(thread) * MMA_M * SWIZZLE_BYTES),
                                  MMA_M * SWIZZLE_BYTES >> 4, descriptor(ring.at() + A_BYTES), chunk);
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
    }
    return previous;
}

// Replaces sums of product `mma` by alpha times them plus beta times what C holds there: `count` pairs of neighbours from the
// `first` on.
__device__ __forceinline__ void finish_pairs(any_width::Sums& sums, const Thread& thread, const Result& result,
                                             const Patch& patch, int mma, int first, int count) {
#pragma unroll
    for (int pair = first; pair < first + count; ++pair) {
        const int row = patch.row + row_of(thread, mma) + thread.lane / 4 + pair % 2 * 8;
        const int within = pair / 2 * 8 + thread.lane % 4 * 2, column = patch.column + within;
        Two old = {};
        if (result.beta != 0 && row < result.m && within < patch.width && column < result.n) {
            old = *reinterpret_cast<const Two*>(result.c + static_cast<long long>(row) * result.n + column);
        }
        combine(&sums[pair * 2], result.alpha, result.beta, old);
    }
}

// The same of all sums, strip by strip: all old results together are more than there are registers for. Sums that stay as
// they are, which is expected, leave it to one side of their way to C.
__device__ __forceinline__ void finish(Sums& sums, const Thread& thread, const Result& result, const Patch& patch) {
    if (__builtin_expect(result.alpha == 1 && result.beta == 0, 1)) return;
    constexpr int ALL = SUMS / 2, PAIRS = STRIP_SUMS / 2;
#pragma unroll
    for (int i = 0; i < MMAS; ++i) {
#pragma unroll
        for (int first = 0; first < ALL; first += PAIRS) {
            finish_pairs(sums[i], thread, result, patch, i, first, first + PAIRS < ALL ? PAIRS : ALL - first);
            asm volatile("" ::: "memory");
        }
    }
}

// ---- strips ----------------------------------------------------------------------------------------

// Strip `number` of a warp's sums of one product, in registers of their own.
__device__ __forceinline__ void pack_strip(Words& words, const any_width::Sums& sums, const Thread& thread, int number) {
    const int first = number * STRIP_SUMS;
    const bool odd = sizeof(Out) == 4 && thread.lane / 4 % 2;
#pragma unroll
    for (int i = 0; i < STRIP_WORDS; ++i) {
        if constexpr (STRIP_SUMS == 2 * STRIP_WORDS) {
            const int at = first + 2 * i;  // the widest tile may end within a strip
            if (at < SUMS) words[i] = packed<Out>(static_cast<f32>(sums[at]), static_cast<f32>(sums[at + 1]));
        } else {
            // Bit 3 of a number is the upper half of the strip's columns: odd rows have the halves in turn (lay_whole).
            const Number own = first + i < SUMS ? sums[first + i] : Number(0);
            const Number other = first + (i ^ 8) < SUMS ? sums[first + (i ^ 8)] : Number(0);
            words[i] = bits(odd ? other : own);
        }
    }
}

// Lays a whole strip down in shared memory as the TMA takes it: rows of 128 bytes, piece p of 16 bytes of row r at place p
// xor (r mod 8), so that pieces of a column lie in different banks. A lane's places differ by constants from one, which is
// tied to this part of the program so that it has no register before. stmatrix has no elements of 32 bits, of which a thread
// stores pairs: half a warp, four rows, is served at once, and odd rows store the upper half of their columns where even
// ones store the lower.
__device__ __forceinline__ void lay_whole(const Thread& thread, unsigned at, const Words& words) {
    if constexpr (sizeof(Out) == 2) {
        const int line = thread.lane % STRIP_ROWS;
        at += line * SWIZZLE_BYTES + (thread.lane / STRIP_ROWS ^ line % SWIZZLE_ROWS) * 16;
        asm volatile("" : "+r"(at));
#pragma unroll
        for (int piece = 0; piece < 8; piece += 2) {
            store_matrices(at ^ piece * 16, words[2 * piece], words[2 * piece + 1], words[2 * piece + 2],
                           words[2 * piece + 3]);
        }
    } else {
        const int row = thread.lane / 4;
        at += row * SWIZZLE_BYTES + (row % 2 * 64 + thread.lane % 4 * 8 ^ row * 16);
        asm volatile("" : "+r"(at));
#pragma unroll
        for (int pair = 0; pair < STRIP_WORDS / 2; ++pair) {
            store_pair((at ^ pair / 2 * 32) + pair % 2 * 8 * SWIZZLE_BYTES, words[2 * pair], words[2 * pair + 1]);
        }
    }
}

// The same of `columns` that are left of a tile's: their rows lie one behind the other.
__device__ __forceinline__ void lay_rest(const Thread& thread, unsigned at, int columns, const Words& words) {
    // So addresses are computed here, and not for all strips before a tile begins.
    asm volatile("" : "+r"(columns));
    if constexpr (sizeof(Out) == 2) {
        const int line = thread.lane % STRIP_ROWS, pieces = columns / 8;
#pragma unroll
        for (int piece = 0; piece < 8; piece += 2) {
            const int own = piece + thread.lane / STRIP_ROWS;
            if (piece < pieces) {
                // Lanes of a piece that is none write into the strip's end, which a strip that is not whole does not use.
                const int place = own < pieces ? (line * pieces + own) * 16 : STRIP_BYTES - 256 + line * 16;
                store_matrices(at + place, words[2 * piece], words[2 * piece + 1], words[2 * piece + 2],
                               words[2 * piece + 3]);
            }
        }
    } else {
        const int row = thread.lane / 4;
#pragma unroll
        for (int pair = 0; pair < STRIP_WORDS / 2; ++pair) {
            const int column = (pair / 2 ^ row % 2 * 2) * 8 + thread.lane % 4 * 2, line = row + pair % 2 * 8;
            if (column < columns) {
                store_pair(at + (line * columns + column) * 4, words[2 * pair], words[2 * pair + 1]);
            }
        }
    }
}

// ---- loads and stores ------------------------------------------------------------------------------

// By one thread: asks for a chunk of `count` rows of A or columns of B, or where BLOCKS share them for this one's part, which
// all get.
template <int BLOCKS>
__device__ __forceinline__ void load_part(unsigned at, const CUtensorMap& map, int chunk, int first, int count,
                                          unsigned barrier) {
    if constexpr (BLOCKS > 1) {
        const int own = cluster_rank() * (count / BLOCKS);
        load_all(at + own * SWIZZLE_BYTES, map, chunk * CHUNK, first + own, barrier, (1u << BLOCKS) - 1);
    } else {
        load(at, map, chunk * CHUNK, first, barrier);
    }
}

// By one thread: asks for the chunks of a tile, of A so many boxes of BOX rows.
template <int BOX = TILE_M>
__device__ __forceinline__ void load_chunks(Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                            const Patch& patch, int chunks, int boxes = 1) {
    static_assert(BOX % (ACROSS * SWIZZLE_ROWS) == 0, "parts of whole atoms");
    for (int chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_empty();
        const unsigned at = ring.at(), barrier = ring.full_barrier();
        expect(barrier, (boxes * BOX + patch.width) * SWIZZLE_BYTES);
        for (int box = 0; box < boxes; ++box) {
            load_part<ACROSS>(at + box * BOX * SWIZZLE_BYTES, map_a, chunk, patch.row + box * BOX, BOX, barrier);
        }
        load_part<DOWN>(at + A_BYTES, map_b, chunk, patch.column, patch.width, barrier);
        ring.next();
    }
}

// By the warp that loads: asks for the chunks of all of the block's tiles. Every block has a tile, and where the first one
// lies is known before the launch before has ended: the first load waits for nothing else.
__device__ __forceinline__ void load_tiles(Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_wide,
                                           const CUtensorMap& map_narrow, const Division& division, int chunks) {
    Patch patch(division, blockIdx.x);
    patch.pin();
    overlap::wait_for_launch_before();
    if (elected()) {
        for (int tile = blockIdx.x; tile < division.count(); tile += gridDim.x) {
            load_chunks(ring, map_a, patch.width == division.narrow ? map_narrow : map_wide, patch, chunks);
            patch = Patch(division, min(tile + static_cast<int>(gridDim.x), division.count() - 1));
        }
        ring.wait_for_releases();
    }
}

// Maps of results: whole strips, and what is left of a wide and of a narrow tile.
struct Ways {
    const CUtensorMap &strip, &rest_wide, &rest_narrow;
    int narrow;

    // Sends strip `number` of product `mma` to its place by way of shared memory at `at`.
    __device__ __forceinline__ void send(const Thread& thread, const Patch& patch, int mma, int number, unsigned at,
                                         const Words& words) const {
        // No minimum: of an earlier form it was that of the next tile.
        const bool whole = (number + 1) * STRIP_COLUMNS <= patch.width;
        if (whole) lay_whole(thread, at, words);
        else lay_rest(thread, at, patch.width % STRIP_COLUMNS, words);
        publish_to_async();
        __syncwarp();
        if (thread.lane == 0) {
            const CUtensorMap& rest = patch.width == narrow ? rest_narrow : rest_wide;
            store(whole ? strip : rest, patch.column + number * STRIP_COLUMNS, patch.row + row_of(thread, mma), at);
            commit_stores();
        }
    }
    // All strips of a tile, each by way of the shared memory that `place_of` its number gives it. Each sum has a register.
    template <class Places>
    __device__ __forceinline__ void send_all(const Thread& thread, const Patch& patch, const Sums& sums,
                                             Places place_of) const {
#pragma unroll
        for (int number = 0; number < STRIPS * MMAS; ++number) {
            const int mma = number % MMAS, strip_number = number / MMAS;
            if (strip_number * STRIP_COLUMNS < patch.width) {
                Words words;
                pack_strip(words, sums[mma], thread, strip_number);
                send(thread, patch, mma, strip_number, place_of(number), words);
            }
        }
    }
};

}  // namespace even
