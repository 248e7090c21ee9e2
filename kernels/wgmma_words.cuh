// Warps that copy rows which begin at words to where wgmma finds them (matmul_wgmma_words, matmul_wgmma_words_two_launches).
// Who includes this defines WIDTH, the bytes that a lane copies at once, besides what wgmma_fit.cuh asks for.

#pragma once

#include "cp_async.cuh"
#include "wgmma_fit.cuh"

namespace fit {

constexpr int LOADERS = 8;                       // warps that copy
constexpr int ALL = CONSUMERS + LOADERS * WARP;  // threads
constexpr int LAG = RING - 3;                    // chunks that are copied while a warp waits for one
static_assert(RING >= 4, "one chunk is multiplied, one is released, one is there, one is copied");
constexpr int LANES = SWIZZLE_BYTES / WIDTH;     // that copy a row
constexpr int PASS = LOADERS * WARP / LANES;     // rows that the warps copy at once
static_assert(PASS % SWIZZLE_ROWS == 0, "all rows of a lane are swizzled alike");
static_assert(TILE_M % PASS == 0 && TILE_N % PASS == 0, "whole passes");

// A lane's share of COUNT rows of A or B: WIDTH bytes of every PASS-th one.
template <int COUNT>
struct Rows {
    const char* source;  // the lane's bytes of the first row in the next chunk
    long long pitch;     // bytes from a row to the lane's next one
    int left;            // rows of the matrix from the first one on
    unsigned place;      // of the lane's bytes of the first row, in a stage

    __device__ __forceinline__ Rows(const void* matrix, int count, int first, int first_chunk, int k, int warp, int lane,
                                    unsigned at) {
        const int own = (warp * WARP + lane) / LANES, byte = lane % LANES * WIDTH;
        source = static_cast<const char*>(matrix) + (static_cast<long long>(first + own) * k) * OPERAND_BYTES + byte +
                 static_cast<long long>(first_chunk) * SWIZZLE_BYTES;
        pitch = static_cast<long long>(k) * (PASS * OPERAND_BYTES);
        left = count - first - own;
        place = at + own * SWIZZLE_BYTES + (byte / 16 ^ own % SWIZZLE_ROWS) * 16 + byte % 16;
    }

    // `there`: whether the lane's bytes are the rows'. What is not, or no row's, are zeros.
    __device__ __forceinline__ void copy(unsigned stage, bool there) {
        const char* from = source;
#pragma unroll 16
        for (int i = 0; i < COUNT / PASS; ++i, from += pitch) {
            asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;\n" ::"r"(stage + place + i * PASS * SWIZZLE_BYTES),
                         "l"(from), "r"(there && i * PASS < left ? WIDTH : 0), "n"(WIDTH)
                         : "memory");
        }
        source += SWIZZLE_BYTES;
    }
};

// By the warps that load.
__device__ __forceinline__ void load_words(Ring& ring, const Thread& thread, const void* a, const void* b, int m, int n, int k,
                                           const Place& place, int first, int end) {
    const int warp = thread.warp - CONSUMER_WARPS;
    Rows<TILE_M> rows(a, m, place.row, first, k, warp, thread.lane, 0);
    Rows<TILE_N> columns(b, n, place.column, first, k, warp, thread.lane, A_BYTES);
    int left = (k - first * DEPTH) * OPERAND_BYTES - thread.lane % LANES * WIDTH;  // of a row from the lane's bytes on
    int told = 0;
    for (int chunk = first; chunk < end + LAG; ++chunk) {
        if (chunk < end) {
            ring.wait_empty();
            rows.copy(ring.at(), left > 0);
            columns.copy(ring.at(), left > 0);
            left -= SWIZZLE_BYTES;
            ring.next();
        }
        cp_async::commit();
        if (chunk >= first + LAG) {
            cp_async::wait<LAG>();
            publish_to_async();
            __syncwarp();
            if (thread.lane == 0) arrive(ring.full + 8 * told);
            if (++told == RING) told = 0;
        }
    }
}

}  // namespace fit
