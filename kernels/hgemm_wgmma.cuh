// Half-precision products by TMA and wgmma: their instruction, and what becomes of f32 sums. What the kernels
// hgemm_wgmma* share, and those whose results are of 16 bits, too.
//
// Who includes this defines TYPE (f16 or bf16), that of C, and of A and B where the includer has not said which wgmma
// is meant (wgmma.cuh); and what wgmma_ring.cuh asks for.

#pragma once

#ifndef PRODUCT_TYPES
#define TYPES_f16 "f16.f16"
#define TYPES_bf16 "bf16.bf16"
#define OPERAND_BYTES 2
#define PRODUCT_TYPES "k16.f32." NAMED(TYPES_, TYPE)
#define PRODUCT_ENDING(FIRST, SECOND) ", 1, 1, %" #FIRST ", %" #SECOND
#endif
#define SUM_REGISTER f32

#include "wgmma_ring.cuh"

using element = TYPE;

namespace hopper {

// What becomes of the sums.
struct Result {
    element* c;
    int m, n;
    f32 alpha, beta;
};

__device__ __forceinline__ void add_to(f32& sum, f32 more) { sum += more; }

constexpr int NO_END = 0x7fffffff;

// Calls `each(sum, next, at)` for every pair of neighbours among a thread's sums that C has a place `at` for, up to a
// column `end`.
template <int PRODUCTS, int COUNT, class Pairs, class Threads, class Each>
__device__ __forceinline__ void for_pairs(Pairs& sums, const Threads& thread, const Result& result,
                                          const Place& place, const Each& each, int end = NO_END) {
#pragma unroll
    for (int i = 0; i < PRODUCTS; ++i) {
#pragma unroll
        for (int e = 0; e < COUNT; e += 2) {
            const int row = place.row + thread.row_of(i) + thread.lane / 4 + e / 2 % 2 * 8;
            const int column = place.column + e / 4 * 8 + thread.lane % 4 * 2;
            if (row < result.m && column < min(result.n, end)) {
                each(sums[i][e], sums[i][e + 1],
                     reinterpret_cast<unsigned*>(result.c + static_cast<long long>(row) * result.n + column));
            }
        }
    }
}

// Adds beta times what C holds.
template <int PRODUCTS, int COUNT, class Threads>
__device__ __forceinline__ void add_old(f32 (&sums)[PRODUCTS][COUNT], const Threads& thread, const Result& result,
                                        const Place& place, int end = NO_END) {
    const auto add = [&](f32& sum, f32& next, const unsigned* at) {
        const float2 pair = unpack<element>(*at);
        sum += result.beta * pair.x;
        next += result.beta * pair.y;
    };
    for_pairs<PRODUCTS, COUNT>(sums, thread, result, place, add, end);
}

// Replaces the sums by alpha times them plus beta times what C holds.
__device__ __forceinline__ void finish(Sums& sums, const Thread& thread, const Result& result,
                                       const Place& place, int end = NO_END) {
    if (result.alpha != 1.0f) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int e = 0; e < SUMS; ++e) sums[i][e] *= result.alpha;
        }
    }
    if (result.beta != 0.0f) add_old(sums, thread, result, place, end);
}

// Writes finished sums from where they are, two at a time: eight rows and 16 bytes of each in a store.
__device__ __forceinline__ void store_pairs(const Sums& sums, const Thread& thread, const Result& result,
                                            const Place& place) {
    for_pairs<MMAS, SUMS>(sums, thread, result, place,
                          [](f32 sum, f32 next, unsigned* at) { *at = pack<element>(sum, next); });
}

}  // namespace hopper
