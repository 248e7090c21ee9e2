// A tile of the transposed product, which leaves as C has it (matmul_wgmma_shared, _split, _two_launches): columns of B are
// wgmma's rows, and rows of A its columns, where TURNED is 1.

#pragma once

#include "wgmma_fit.cuh"

namespace fit {

// As fit::store, of a transposed tile: a warp has 16 columns of C from place.row on, and so many rows from place.column on.
template <int COUNT>
__device__ __forceinline__ void store_turned(Number (&sums)[COUNT], const Thread& thread, const Ring& ring,
                                             const Result& result, const Place& place, int rows = 2 * COUNT) {
    constexpr int LINES = 2 * COUNT, BYTES = static_cast<int>(sizeof(Out));
    constexpr int PIECES = STRIP_ROWS / PIECE;      // of a row of C
    constexpr int PITCH = STRIP_ROWS * BYTES + 16;  // what is stored together begins in different banks
    static_assert(CONSUMER_WARPS * LINES * PITCH <= FEWEST * STAGE_BYTES, "the ring has room for the results");
    const int first_column = place.row + thread.warp * STRIP_ROWS;
    Result inside = result;
    inside.m = min(result.m, place.column + rows);
#pragma unroll
    for (int e = 0; e < COUNT; ++e) {
        const int row = place.column + thread.column_of(e), column = place.row + thread.row_of(e);
        sums[e] *= result.alpha;
        if (result.beta != 0 && row < inside.m && column < result.n) {
            sums[e] += result.beta * number(result.c[static_cast<long long>(row) * result.n + column]);
        }
    }
    sync_consumers();  // all products have read the ring
    const unsigned strip = ring.stages + thread.warp * LINES * PITCH;
    if constexpr (BYTES == 2) {
        const unsigned at = strip + (thread.lane / 16 * 8 + thread.lane % 8) * PITCH + thread.lane / 8 % 2 * 16;
#pragma unroll
        for (int e = 0; e < COUNT; e += 8) {
            unsigned pairs[4] = {};
#pragma unroll
            for (int i = 0; i < min(4, (COUNT - e) / 2); ++i) {
                pairs[i] = packed<Out>(static_cast<f32>(sums[e + 2 * i]), static_cast<f32>(sums[e + 2 * i + 1]));
            }
            if (e + 8 <= COUNT) {
                store_turned_matrices(at + e * 2 * PITCH, pairs[0], pairs[1], pairs[2], pairs[3]);
            } else {
                store_turned_matrices(at + e * 2 * PITCH, pairs[0], pairs[1]);
            }
        }
    } else {
#pragma unroll
        for (int e = 0; e < COUNT; ++e) {
            const unsigned at = strip + thread.column_of(e) * PITCH + thread.row_of(e) % STRIP_ROWS * BYTES;
            asm volatile("st.shared.b32 [%0], %1;\n" ::"r"(at), "r"(bits(sums[e])) : "memory");
        }
    }
    __syncwarp();
    store_pieces<LINES, PIECES, PITCH>(strip, thread, inside, {place.column, first_column}, result.n);
}

// `columns` of what wgmma summed, whether that is the transpose or not.
template <int COUNT>
__device__ __forceinline__ void store_either(Number (&sums)[COUNT], const Thread& thread, const Ring& ring,
                                               const Result& result, const Place& place, int columns = 2 * COUNT) {
    if constexpr (TURNED) {
        store_turned(sums, thread, ring, result, place, columns);
    } else {
        store(sums, thread, ring, result, place, columns);
    }
}

}  // namespace fit
