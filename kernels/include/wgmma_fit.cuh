// A thread block's tile of a product by TMA and wgmma, of any type: one or two warpgroups below each other that multiply,
// 64 rows each, and a warp that does nothing but loads (matmul_wgmma_fit, _split, _two_launches).
//
// A is row-major, B column-major: contiguous along k. A chunk is 128 bytes of a row. What lies outside of the matrices
// arrives as zeros, so that the main loop knows no edges. Sums of FP8 are left to the tensor cores.
//
// Who includes this defines TYPE, WARPGROUPS, TILE_N and ROOM, the KiB of shared memory that chunks may take.

#pragma once

#define STAGES 8  // chunks of k in flight or in use, at most

#include "wgmma_results.cuh"

#include "wgmma_panels.cuh"

namespace fit {

using namespace hopper;

using RowOrder = panels::Order<false>;  // contiguous along k
using ColumnOrder = RowOrder;

constexpr int TILE_M = WARPGROUPS * MMA_M;
constexpr int CONSUMER_WARPS = WARPGROUPS * WARPGROUP / WARP;
constexpr int CONSUMERS = WARPGROUPS * WARPGROUP;  // threads
constexpr int THREADS = CONSUMERS + WARP;
constexpr int SUMS = TILE_N / 2;                       // of a thread
constexpr int DEPTH = SWIZZLE_BYTES / OPERAND_BYTES;  // elements of k in a chunk

constexpr int A_BYTES = TILE_M * SWIZZLE_BYTES;
constexpr int B_BYTES = TILE_N * SWIZZLE_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int RING = ROOM * 1024 / STAGE_BYTES < STAGES ? ROOM * 1024 / STAGE_BYTES : STAGES;
// A launch takes 3 to 5 ns longer for each KiB that a block asks for: so where k has fewer chunks than the ring has
// stages, it asks for fewer of them. Four have room for the results, too.
constexpr int FEWEST = RING < 4 ? RING : 4;
constexpr int BLOCKS_PER_SM = 1;

constexpr int QUAD_COLUMNS = 8;  // that four sums of each thread of a row are of
constexpr int STRIP_ROWS = 16;   // of a warp
constexpr int PIECE = 16 / static_cast<int>(sizeof(Out));  // results of 16 bytes

static_assert(A_BYTES % ATOM_BYTES == 0 && B_BYTES % ATOM_BYTES == 0, "operands begin where a swizzle does");
static_assert(RING >= 2, "one chunk is multiplied while another one is loaded");

using Sums = Number[SUMS];

template <int N>
__device__ __forceinline__ void multiply(Number (&d)[N / 2], unsigned long long a, unsigned long long b, int add);

#define OF_TYPE Number, SUM_OPERAND, PRODUCT_TYPES, PRODUCT_ENDING
WGMMA_16(OF_TYPE)
WGMMA_32(OF_TYPE)
WGMMA_64(OF_TYPE)
WGMMA_128(OF_TYPE)
#undef OF_TYPE

// First row and column of a tile in C.
struct Place {
    int row, column;
};

__device__ __forceinline__ int chunks_of(int k) { return (k - 1) / DEPTH + 1; }

// Stages that a launch for so many chunks asks for.
__device__ __forceinline__ int stages_for(int chunks) { return min(max(chunks, FEWEST), RING); }

// The tile of a block, or of a cluster of so many. The grid's first dimension counts rows of a patch that is walked
// together, the second one columns, the third one patches: so no division stands in the way of the first load.
__device__ __forceinline__ Place place_of(int blocks = 1) {
    const int height = gridDim.x / blocks;
    return {static_cast<int>(blockIdx.z * height + blockIdx.x / blocks) * TILE_M,
            static_cast<int>(blockIdx.y) * TILE_N};
}

// A thread of a converged warp, whose number all lanes know to be the same.
struct Thread {
    int warp, lane;

    __device__ __forceinline__ Thread()
        : warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / WARP, 0)), lane(threadIdx.x % WARP) {}
    __device__ __forceinline__ bool loads() const { return warp == CONSUMER_WARPS; }
    __device__ __forceinline__ int warpgroup() const { return warp * WARP / WARPGROUP; }
    // Of the thread's sum `e`, within the tile.
    __device__ __forceinline__ int row_of(int e) const { return warp * STRIP_ROWS + lane / 4 + e / 2 % 2 * 8; }
    __device__ __forceinline__ int column_of(int e) const { return e / 4 * 8 + lane % 4 * 2 + e % 2; }
};

// Stages of shared memory that chunks of k pass through in turn, each with two mbarriers: `full` completes when the
// TMA has brought a chunk, `empty` when all warps that multiply have released it.
struct Ring {
    unsigned stages, full, empty;  // shared addresses of the first of each
    int stage = 0;                 // the next one
    unsigned phase = 0;            // parity of its turn

    __device__ __forceinline__ Ring() {
        extern __shared__ unsigned char memory[];
        __shared__ u64 barriers[2][RING];
        // The front matter asks for as many bytes more as this may skip.
        stages = (shared_of(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
        full = shared_of(barriers[0]);
        empty = shared_of(barriers[1]);
    }

    // By the warp that loads, which goes on at once. `releases`: of a stage before it may be filled.
    __device__ __forceinline__ void begin(const Thread& thread, int releases = CONSUMER_WARPS) const {
        // One lane for all: of several lanes each would take a turn of a loop, with a fence of its own.
        if (elected()) initialize_stages<RING>(full, empty, releases);
        __syncwarp();
        asm volatile("bar.arrive 2, %0;\n" ::"n"(THREADS) : "memory");
    }
    // By the others: the mbarriers are there.
    __device__ __forceinline__ void join() const { asm volatile("bar.sync 2, %0;\n" ::"n"(THREADS) : "memory"); }
    // The same; of stages that `rows` of A are loaded into, `chunks` of k in all, the other rows are zeros.
    __device__ __forceinline__ void join(int rows, int chunks) const {
        if (__builtin_expect(rows < TILE_M, 0)) {
            for (int i = threadIdx.x; i < (TILE_M - rows) * SWIZZLE_BYTES / 16; i += CONSUMERS) {
                for (int stage = 0; stage < stages_for(chunks); ++stage) {
                    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(
                                     stages + stage * STAGE_BYTES + rows * SWIZZLE_BYTES + i * 16),
                                 "r"(0)
                                 : "memory");
                }
            }
            asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
        }
        join();
    }

    __device__ __forceinline__ unsigned at() const { return stages + stage * STAGE_BYTES; }
    __device__ __forceinline__ void wait_full() const { wait(full + 8 * stage, phase); }
    // True at once for a stage that has not been used.
    __device__ __forceinline__ void wait_empty() const { wait(empty + 8 * stage, phase ^ 1); }
    __device__ __forceinline__ void next() {
        if (++stage == RING) stage = 0, phase ^= 1;
    }
};

// By all lanes of a warp: it has done with a stage of its block.
struct Release {
    const Ring& ring;
    const Thread& thread;

    __device__ __forceinline__ void operator()(int stage) const {
        if (thread.lane == 0) arrive(ring.empty + 8 * stage);
    }
};

// Rows of a box of A: where A has less than a tile, the TMA is not asked for rows that are not there.
__device__ __forceinline__ int rows_loaded(int m) { return min(TILE_M, (m + 7) / 8 * 8); }

// By one thread: asks for the chunks `first` to `end` - 1 of both operands, `rows` of A.
__device__ __forceinline__ void load_chunks(Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                            const Place& place, int rows, int first, int end) {
    for (int chunk = first; chunk < end; ++chunk) {
        ring.wait_empty();
        const unsigned at = ring.at(), barrier = ring.full + 8 * ring.stage;
        expect(barrier, (rows + TILE_N) * SWIZZLE_BYTES);
        load(at, map_a, chunk * DEPTH, place.row, barrier);
        ColumnOrder::load_boxes<TILE_N>(
            at + A_BYTES, place.column, chunk * DEPTH,
            [&](unsigned at, int along, int across) { load(at, map_b, along, across, barrier); });
        ring.next();
    }
}

// The sums of `count` chunks, by the warps that multiply, each of which releases the stages that it has done with.
template <class Releases>
__device__ __forceinline__ void multiply_chunks(Sums& sums, const Thread& thread, Ring& ring, int count,
                                                const Releases& release) {
    if (count == 0) {
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[e] = 0;
    }
    int previous = 0;
    for (int chunk = 0; chunk < count; ++chunk) {
        ring.wait_full();
        const u64 a = RowOrder::descriptor_of(ring.at() + thread.warpgroup() * MMA_M * SWIZZLE_BYTES);
        const u64 b = ColumnOrder::descriptor_of(ring.at() + A_BYTES);
        begin_products();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            fit::multiply<TILE_N>(sums, a + step * RowOrder::NEXT, b + step * ColumnOrder::NEXT, chunk | step);
        }
        commit_products();
        wait_products<1>();
        if (chunk > 0) release(previous);
        previous = ring.stage;
        ring.next();
    }
    wait_products<0>();
}

__device__ __forceinline__ void multiply_chunks(Sums& sums, const Thread& thread, Ring& ring, int count) {
    multiply_chunks(sums, thread, ring, count, Release{ring, thread});
}

// Waits for the other warps that multiply.
__device__ __forceinline__ void sync_consumers() { asm volatile("bar.sync 1, %0;\n" ::"n"(CONSUMERS) : "memory"); }

// Two neighbouring results of a row, into shared memory.
__device__ __forceinline__ void lay(unsigned at, Number first, Number second) {
    if constexpr (sizeof(Out) == 2) {
        const unsigned pair = packed<Out>(static_cast<f32>(first), static_cast<f32>(second));
        asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(at), "r"(pair) : "memory");
    } else {
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};\n" ::"r"(at), "r"(bits(first)), "r"(bits(second)) : "memory");
    }
}

// Unsigned numbers of so many bytes.
template <int BYTES>
struct Bits { using Type = unsigned; };
template <>
struct Bits<1> { using Type = unsigned char; };
template <>
struct Bits<2> { using Type = unsigned short; };

// An element from shared memory.
__device__ __forceinline__ void take(unsigned short& one, unsigned at) {
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(one) : "r"(at) : "memory");
}
__device__ __forceinline__ void take(unsigned& one, unsigned at) {
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(one) : "r"(at) : "memory");
}

// Rows of C from a place on, by a warp: LINES of them, PIECES pieces each, which lie PITCH bytes apart in shared memory.
// Columns end at `end`.
template <int LINES, int PIECES, int PITCH>
__device__ __forceinline__ void store_pieces(unsigned strip, const Thread& thread, const Result& result, const Place& place,
                                             int end) {
#pragma unroll
    for (int i = 0; i < (LINES * PIECES + WARP - 1) / WARP; ++i) {
        const int number = i * WARP + thread.lane;
        const int line = number / PIECES, piece = number % PIECES;
        const int row = place.row + line, column = place.column + piece * PIECE;
        if ((LINES * PIECES % WARP == 0 || line < LINES) && row < result.m && column < end) {
            uint4 four;
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                         : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                         : "r"(strip + line * PITCH + piece * 16)
                         : "memory");
            *reinterpret_cast<uint4*>(result.c + static_cast<long long>(row) * result.n + column) = four;
        }
    }
}

// alpha times COUNT sums of each thread, which are 2 COUNT columns from `place` on, plus beta times C, to so many
// columns of C: by way of the ring's memory, where no load is under way any more, so that rows leave in pieces of 16 bytes,
// or, where rows of C begin anywhere, lanes store neighbours of a row.
template <int COUNT>
__device__ __forceinline__ void store(Number (&sums)[COUNT], const Thread& thread, const Ring& ring,
                                      const Result& result, const Place& place, int columns = 2 * COUNT) {
    constexpr int PIECES = COUNT * 2 / PIECE;  // of a row
    // Eight rows of 16 bytes, or four of 32, that are stored together begin in different banks.
    constexpr int PITCH = (sizeof(Out) == 2 ? PIECES | 1 : (PIECES + 1) / 4 * 4 + 2) * 16;
    static_assert(CONSUMER_WARPS * STRIP_ROWS * PITCH <= FEWEST * STAGE_BYTES, "the ring has room for the results");
    const int end = columns < 2 * COUNT ? min(result.n, place.column + columns) : result.n;
    if (result.beta != 0) {
        const int row = place.row + thread.row_of(0), column = place.column + thread.column_of(0);
        const int rows_left = result.m - row, columns_left = end - column;
        const Out* const old = result.c + static_cast<long long>(row) * result.n + column;
#pragma unroll
        for (int e = 0; e < COUNT; ++e) {
            const int down = e / 2 % 2 * 8, right = e / 4 * 8 + e % 2;
            sums[e] *= result.alpha;
            if (down < rows_left && right < columns_left) {
                sums[e] += result.beta * number(old[static_cast<long long>(down) * result.n + right]);
            }
            // All at once they would take more registers than there are.
            if (e % 8 == 7) asm volatile("" ::: "memory");
        }
    } else {
#pragma unroll
        for (int e = 0; e < COUNT; ++e) sums[e] *= result.alpha;
    }
    sync_consumers();  // all products have read the ring
    const unsigned strip = ring.stages + thread.warp * STRIP_ROWS * PITCH;
#pragma unroll
    for (int e = 0; e < COUNT; e += 2) {
        const int byte = thread.column_of(e) * static_cast<int>(sizeof(Out));
        lay(strip + (thread.row_of(e) % STRIP_ROWS) * PITCH + byte, sums[e], sums[e + 1]);
    }
    __syncwarp();
    if (result.n % PIECE != 0) {
        using Word = Bits<sizeof(Out)>::Type;
        for (int line = 0; line < STRIP_ROWS; ++line) {
            const int row = place.row + thread.warp * STRIP_ROWS + line;
            if (row >= result.m) break;
            Word* const target = reinterpret_cast<Word*>(result.c + static_cast<long long>(row) * result.n);
#pragma unroll
            for (int i = thread.lane; i < 2 * COUNT; i += WARP) {
                Word one;
                take(one, strip + line * PITCH + i * static_cast<int>(sizeof(Out)));
                if (place.column + i < end) target[place.column + i] = one;
            }
        }
        return;
    }
    store_pieces<STRIP_ROWS, PIECES, PITCH>(strip, thread, result, {place.row + thread.warp * STRIP_ROWS, place.column}, end);
}

}  // namespace fit
