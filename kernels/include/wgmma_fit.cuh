// A thread block's tile of a product by TMA and wgmma, of any type: one or two warpgroups below each other that multiply,
// 64 rows each, and a warp that does nothing but loads (matmul_wgmma_fit, _split, _two_launches).
//
// A is row-major, B column-major: contiguous along k. A chunk is 128 bytes of a row. What lies outside of the matrices
// arrives as zeros, so that the main loop knows no edges. Sums of FP8 are left to the tensor cores.
//
// Who includes this defines TYPE, WARPGROUPS, TILE_N and ROOM, the KiB of shared memory that chunks may take.

#pragma once

#include "wgmma_type.cuh"

namespace fit {

using namespace hopper;

constexpr int TILE_M = WARPGROUPS * MMA_M;
constexpr int CONSUMER_WARPS = WARPGROUPS * WARPGROUP / WARP;
constexpr int CONSUMERS = WARPGROUPS * WARPGROUP;  // threads
constexpr int THREADS = CONSUMERS + WARP;
constexpr int SUMS = TILE_N / 2;  // of a thread

constexpr int A_BYTES = TILE_M * SWIZZLE_BYTES;
constexpr int B_BYTES = TILE_N * SWIZZLE_BYTES;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int STAGES = 8;  // chunks of k in flight or in use, at most
constexpr int RING = ROOM * 1024 / STAGE_BYTES < STAGES ? ROOM * 1024 / STAGE_BYTES : STAGES;
// A launch takes 3 to 5 ns longer for each KiB that a block asks for: so where k has fewer chunks than the ring has
// stages, it asks for fewer of them. Four have room for the results, too.
constexpr int FEWEST = 4;

constexpr int QUAD_COLUMNS = 8;  // that four sums of each thread of a row are of
constexpr int STRIP_ROWS = 16;   // of a warp
constexpr int PIECE = 16 / static_cast<int>(sizeof(Out));  // results of 16 bytes

static_assert(A_BYTES % ATOM_BYTES == 0 && B_BYTES % ATOM_BYTES == 0, "operands begin where a swizzle does");
static_assert(RING >= FEWEST, "results have room where a short k has stages");

using Sums = Number[SUMS];

// Stages that a launch for so many chunks asks for.
__device__ __forceinline__ int stages_for(int chunks) { return min(max(chunks, FEWEST), RING); }

// The tile of a block, or of a cluster of so many. The grid's first dimension counts rows of a patch that is walked
// together, the second one columns, the third one patches: so no division stands in the way of the first load.
__device__ __forceinline__ Place place_of(int blocks = 1) {
    const int height = gridDim.x / blocks;
    return {static_cast<int>(blockIdx.z * height + blockIdx.x / blocks) * TILE_M,
            static_cast<int>(blockIdx.y) * TILE_N};
}

__device__ __forceinline__ bool loads(const Thread& thread) { return thread.warp == CONSUMER_WARPS; }
// Of a thread's sum `e`, within the tile.
__device__ __forceinline__ int row_of(const Thread& thread, int e) {
    return thread.warp * STRIP_ROWS + thread.lane / 4 + e / 2 % 2 * 8;
}
__device__ __forceinline__ int column_of(const Thread& thread, int e) { return e / 4 * 8 + thread.lane % 4 * 2 + e % 2; }

struct Ring : Stages<RING, STAGE_BYTES> {
    __device__ __forceinline__ Ring() {
        __shared__ u64 barriers[2][RING];
        place(barriers);
    }
    // By the warp that loads, which goes on at once.
    __device__ __forceinline__ void begin(const Thread& thread) const {
        // One lane for all: of several lanes each would take a turn of a loop, with a fence of its own.
        if (elected()) initialize_stages<RING>(full, empty, CONSUMER_WARPS);
        __syncwarp();
        asm volatile("bar.arrive 2, %0;\n" ::"n"(THREADS) : "memory");
    }
    // By the others: the mbarriers are there. Of stages that `rows` of A are loaded into, `chunks` of k in all, the other
    // rows are zeros.
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
        asm volatile("bar.sync 2, %0;\n" ::"n"(THREADS) : "memory");
    }
};

// Rows of a box of A: where A has less than a tile, the TMA is not asked for rows that are not there.
__device__ __forceinline__ int rows_loaded(int m) { return min(TILE_M, (m + 7) / 8 * 8); }

// By one thread: asks for the chunks `first` to `end` - 1 of both operands, `rows` of A.
__device__ __forceinline__ void load_chunks(Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                            const Place& place, int rows, int first, int end) {
    for (int chunk = first; chunk < end; ++chunk) {
        ring.wait_empty();
        const unsigned at = ring.at(), barrier = ring.full_barrier();
        expect(barrier, (rows + TILE_N) * SWIZZLE_BYTES);
        load(at, map_a, chunk * CHUNK, place.row, barrier);
        load(at + A_BYTES, map_b, chunk * CHUNK, place.column, barrier);
        ring.next();
    }
}

// The sums of `count` chunks, by the warps that multiply, each of which releases the stages that it has done with.
__device__ __forceinline__ void multiply_chunks(Sums& sums, const Thread& thread, Ring& ring, int count) {
    if (count == 0) {
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[e] = 0;
    }
    int previous = 0;
    for (int chunk = 0; chunk < count; ++chunk) {
        ring.wait_full();
        const int warpgroup = thread.warp * WARP / WARPGROUP;  // anew: it needs no register
        const u64 a = descriptor(ring.at() + warpgroup * MMA_M * SWIZZLE_BYTES);
        const u64 b = descriptor(ring.at() + A_BYTES);
        begin_products();
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            multiply<TILE_N>(sums, a + step * STEP, b + step * STEP, chunk | step);
        }
        commit_products();
        wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
    }
    wait_products<0>();
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

// An element from shared memory, as so many bits.
__device__ unsigned short bits_of(f16);
__device__ unsigned short bits_of(bf16);
__device__ unsigned bits_of(f32);
__device__ unsigned bits_of(i32);
__device__ __forceinline__ void take(unsigned short& one, unsigned at) {
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(one) : "r"(at) : "memory");
}
__device__ __forceinline__ void take(unsigned& one, unsigned at) {
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(one) : "r"(at) : "memory");
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
        const int row = place.row + row_of(thread, 0), column = place.column + column_of(thread, 0);
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
        const int byte = column_of(thread, e) * static_cast<int>(sizeof(Out));
        lay(strip + (row_of(thread, e) % STRIP_ROWS) * PITCH + byte, sums[e], sums[e + 1]);
    }
    __syncwarp();
    if (result.n % PIECE != 0) {
        using Word = decltype(bits_of(Out()));
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
#pragma unroll
    for (int i = 0; i < (STRIP_ROWS * PIECES + WARP - 1) / WARP; ++i) {
        const int number = i * WARP + thread.lane;
        const int line = number / PIECES, piece = number % PIECES;
        const int row = place.row + thread.warp * STRIP_ROWS + line, column = place.column + piece * PIECE;
        if ((STRIP_ROWS * PIECES % WARP == 0 || line < STRIP_ROWS) && row < result.m && column < end) {
            uint4 four;
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                         : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                         : "r"(strip + line * PITCH + piece * 16)
                         : "memory");
            *reinterpret_cast<uint4*>(result.c + static_cast<long long>(row) * result.n + column) = four;
        }
    }
}

}  // namespace fit
