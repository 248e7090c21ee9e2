// A thread block's tile of a half-precision product by TMA and wgmma, of whatever size suits the shape: one to four
// warpgroups below each other that multiply, 64 rows each, and a warp that does nothing but loads
// (hgemm_wgmma_fit, hgemm_wgmma_split).
//
// Who includes this defines TYPE, WARPGROUPS, TILE_N, and ROOM, the KiB of shared memory that a block may take for
// its stages.

#pragma once

#define TILE_M (64 * WARPGROUPS)
#define FITTING (ROOM * 1024 / ((TILE_M + TILE_N) * 128))
#define STAGES (FITTING < 8 ? FITTING : 8)

#include "hgemm_wgmma.cuh"

namespace fit {

using namespace hopper;

constexpr int THREADS = CONSUMER_THREADS + WARP;
constexpr int BLOCKS_PER_SM = ROOM < 112 ? 2 : 1;
constexpr int PIECE = 8;         // results of 16 bytes
constexpr int QUAD_COLUMNS = 8;  // that four sums of each thread of a row are of

static_assert(TILE_N % 16 == 0 && WARPGROUPS <= 4, "any multiple of 16 columns, and what a block has of warps");
static_assert(STAGES >= 2, "one chunk is multiplied while another one is loaded");
static_assert(STAGES <= WARP, "a lane prepares the mbarriers of a stage");

// The tile of a block, or of a cluster of so many. The grid's first dimension counts rows of a patch that is walked
// together, the second one columns, the third one patches: so no division stands in the way of the first load.
__device__ __forceinline__ Place place_of(int blocks = 1) {
    const int height = gridDim.x / blocks;
    return {static_cast<int>(blockIdx.z * height + blockIdx.x / blocks) * TILE_M,
            static_cast<int>(blockIdx.y) * TILE_N};
}

// A warp has 16 rows of the tile, behind those of the warp before.
struct Thread : hopper::Thread {
    __device__ __forceinline__ int row_of(int) const { return warp * WARP_ROWS; }
};

// By the warp that loads, which goes on at once: prepares the mbarriers of a ring.
__device__ __forceinline__ void begin(const Ring& ring, const Thread& thread) {
    if (thread.lane < STAGES) {
        ring.prepare_stage(thread.lane, CONSUMER_WARPS);
        publish_barriers();
    }
    __syncwarp();
    asm volatile("bar.arrive 2, %0;\n" ::"n"(THREADS) : "memory");
}
// By the others: they are there.
__device__ __forceinline__ void join() { asm volatile("bar.sync 2, %0;\n" ::"n"(THREADS) : "memory"); }

// By one thread: asks for the chunks `first` to `end` - 1 of both operands.
__device__ __forceinline__ void load_chunks(Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                            const Place& place, int first, int end) {
    for (int chunk = first; chunk < end; ++chunk) load_next(ring, map_a, map_b, place, chunk);
}

// The sums of `count` chunks, by the warps that multiply.
__device__ __forceinline__ void multiply_chunks(Sums& sums, const Thread& thread, Ring& ring, int count) {
    if (count == 0) {
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[0][e] = 0.0f;
    }
    int previous = 0;
    for (int chunk = 0; chunk < count; ++chunk) {
        begin_chunk(sums, thread, ring, chunk);
        end_chunk(thread, ring, previous, chunk);
    }
    wait_products<0>();
}

// Waits for the other warps that multiply.
__device__ __forceinline__ void sync_consumers() {
    asm volatile("bar.sync 1, %0;\n" ::"n"(CONSUMER_THREADS) : "memory");
}

// alpha times COUNT sums of each thread, which are 2 COUNT columns from `place` on, plus beta times C, to so many
// columns of C: by way of the ring's memory, where no load is under way any more, so that rows leave in pieces of 16
// bytes.
template <int COUNT>
__device__ __forceinline__ void store(f32 (&sums)[1][COUNT], const Thread& thread, const Ring& ring,
                                      const Result& result, const Place& place, int columns = 2 * COUNT) {
    constexpr int PIECES = COUNT * 2 / PIECE;    // of a row
    constexpr int PITCH = (PIECES | 1) * 16;     // odd, so that eight rows begin in different banks
    static_assert(CONSUMER_WARPS * WARP_ROWS * PITCH <= STAGES * STAGE_BYTES, "the ring has room for the results");
    const int end = columns < 2 * COUNT ? min(result.n, place.column + columns) : result.n;
#pragma unroll
    for (int e = 0; e < COUNT; ++e) sums[0][e] *= result.alpha;
    if (result.beta != 0.0f) add_old(sums, thread, result, place, end);
    sync_consumers();  // all products have read the ring
    const unsigned strip = ring.stages + thread.warp * WARP_ROWS * PITCH;
#pragma unroll
    for (int e = 0; e < COUNT; e += 2) {
        const int row = thread.lane / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + thread.lane % 4 * 2;
        const unsigned word = pack<element>(sums[0][e], sums[0][e + 1]);
        asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(strip + row * PITCH + column * 2), "r"(word) : "memory");
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < (WARP_ROWS * PIECES + WARP - 1) / WARP; ++i) {
        const int number = i * WARP + thread.lane;
        const int line = number / PIECES, piece = number % PIECES;
        const int row = place.row + thread.warp * WARP_ROWS + line, column = place.column + piece * PIECE;
        if (line < WARP_ROWS && row < result.m && column < end) {
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
