// Parts of tiles that the blocks of a launch leave in global memory, in whole lines because in the order of registers, and that
// a second launch adds (matmul_wgmma_two_launches, matmul_wgmma_words_two_launches). The blocks of the second one have 16
// columns of a tile each, as many threads as a tile has, and slices where parts are many.

#pragma once

#include "overlap.cuh"
#include "part_slices.cuh"
#include "wgmma_turned.cuh"

namespace fit {

constexpr int GROUP_COLUMNS = 16;  // that a block adds: a sector or two of each row of C
constexpr int GROUP_QUADS = GROUP_COLUMNS / QUAD_COLUMNS;
constexpr int SLICES = 8 / WARPGROUPS;  // at most

#if WHOLE_NUMBERS
using Quad = int4;
#else
using Quad = float4;
#endif

// This thread's first quad in part `part` of a tile, behind which the others follow CONSUMERS apart.
__device__ __forceinline__ Quad* quads_of(Number* partials, int part, int row, int column, int rows, int columns) {
    const long long number = (static_cast<long long>(part) * columns + column) * rows + row;
    return reinterpret_cast<Quad*>(partials + number * (TILE_M * TILE_N)) + threadIdx.x;
}

// What a thread has of a part, or of so many quads of it.
template <int COUNT>
__device__ __forceinline__ void leave_part(Quad* target, const Number (&sums)[COUNT], int quads = COUNT / 4) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) {
        const Number* const quad = sums + 4 * i;
        if (i < quads) __stcg(target + i * CONSUMERS, Quad{quad[0], quad[1], quad[2], quad[3]});
    }
}

// By all threads of a block of the second launch. rows, columns: of tiles that parts were left of.
__device__ __forceinline__ void add_parts(const Result& result, Number* partials, int parts, int rows, int columns) {
    const Thread thread;
    const Ring ring;
    overlap::let_next_begin();
    const Place place = {static_cast<int>(blockIdx.y) * TILE_M, static_cast<int>(blockIdx.x) * GROUP_COLUMNS};
    const int first = place.column % TILE_N / QUAD_COLUMNS;
    overlap::wait_for_launch_before();
    Quad quads[GROUP_QUADS];
    const bool all = part_slices::sum<SLICES, CONSUMERS, CONSUMERS>(
        quads, parts, threadIdx.y, blockDim.y, threadIdx.x, [&](int part) {
            return quads_of(partials, part, blockIdx.y, place.column / TILE_N, rows, columns) + first * CONSUMERS;
        });
    if (all) store_either(reinterpret_cast<Number(&)[4 * GROUP_QUADS]>(quads), thread, ring, result, place);
}

}  // namespace fit
