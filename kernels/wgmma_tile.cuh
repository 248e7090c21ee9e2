// Products by TMA and wgmma of the types that hgemm_wgmma.cuh has not: tf32, bytes, and f16 with f16 sums. What
// matmul_wgmma* share.
//
// A wgmma takes 32 bytes of k whatever its type, 8 tf32, 16 numbers of 16 bits or 32 bytes, in the same time, and
// finds them in shared memory in the same order. What differs is the instruction, and what a thread has of a result.
// A is row-major, B column-major: of tf32 and of bytes wgmma takes no other order.
//
// Who includes this defines TYPE, and what wgmma_ring.cuh asks for.

#pragma once

#include "mma_types.cuh"
#include "words.cuh"

#define TYPE_tf32 0
#define TYPE_i8 1
#define TYPE_f16 2
#define TYPE_NUMBER NAMED(TYPE_, TYPE)
#if TYPE_NUMBER == TYPE_tf32
#define OPERAND_BYTES 4
#define PRODUCT_TYPES "k8.f32.tf32.tf32"
#define PRODUCT_ENDING(FIRST, SECOND) ", 1, 1"  // no sign is changed
#define SUM_REGISTER f32
using element = f32;
#elif TYPE_NUMBER == TYPE_i8
#define OPERAND_BYTES 1
#define PRODUCT_TYPES "k32.s32.s8.s8"
#define PRODUCT_ENDING(FIRST, SECOND) ""
#define SUM_REGISTER i32
using element = i32;
#else
#define OPERAND_BYTES 2
#define PRODUCT_TYPES "k16.f16.f16.f16"
#define PRODUCT_ENDING(FIRST, SECOND) ", 1, 1, %" #FIRST ", %" #SECOND
#define SUM_REGISTER unsigned  // two sums
using element = f16;
#endif

#include "wgmma_ring.cuh"

namespace hopper {

#if TYPE_NUMBER == TYPE_i8
using Scalar = i32;
#else
using Scalar = f32;
#endif

// A thread has two neighbours of a row beside each other, the unit of all that follows.
constexpr int PAIR = 2 / SUMS_IN_REGISTER;  // registers
constexpr int PAIRS = SUMS / PAIR;          // of a thread and product

static_assert(MMAS == 1, "a warpgroup has 64 rows");

// What becomes of the sums.
struct Result {
    element* c;
    int m, n;
    Scalar alpha, beta;
};

// A register of sums becomes alpha times it plus beta times what C held; fmaf, so that all kernels round alike.
__device__ __forceinline__ void combine(i32& sum, i32 alpha, i32 beta, i32 before) {
    sum = alpha * sum + beta * before;
}
__device__ __forceinline__ void combine(f32& sum, f32 alpha, f32 beta, f32 before) {
    sum = fmaf(beta, before, alpha * sum);
}
__device__ __forceinline__ void combine(unsigned& sums, f32 alpha, f32 beta, unsigned before) {
    float2 two = unpack<f16>(sums);
    const float2 old = unpack<f16>(before);
    combine(two.x, alpha, beta, old.x);
    combine(two.y, alpha, beta, old.y);
    sums = pack<f16>(two.x, two.y);
}

__device__ __forceinline__ void add_to(Register& sum, Register more) { combine(sum, Scalar(1), Scalar(1), more); }

// A pair, in registers as it lies in C.
struct alignas(4 * PAIR) Pair {
    Register registers[PAIR];
};

// Where a thread's pairs lie in C, from its first one on.
struct Pairs {
    element* first;
    int rows, columns;  // that are left from there on
    long long pitch;

    __device__ __forceinline__ Pairs(const Thread& thread, const Result& result, const Place& place)
        : rows(result.m - place.row - thread.row_of(0) - thread.lane / 4),
          columns(result.n - place.column - thread.lane % 4 * 2),
          pitch(result.n) {
        first = result.c + (result.m - rows) * pitch + (result.n - columns);
    }
    __device__ __forceinline__ bool has(int pair) const {
        return pair % 2 * 8 < rows && pair / 2 * 8 < columns;
    }
    __device__ __forceinline__ Pair& at(int pair) const {
        return *reinterpret_cast<Pair*>(first + pair % 2 * 8 * pitch + pair / 2 * 8);
    }
};

// Replaces the sums by alpha times them plus beta times what C holds.
__device__ __forceinline__ void finish(Sums& sums, const Thread& thread, const Result& result, const Place& place) {
    if (result.alpha == 1 && result.beta == 0) return;
    const Pairs pairs(thread, result, place);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        Pair before = {};
        if (result.beta != 0 && pairs.has(i)) before = pairs.at(i);
#pragma unroll
        for (int e = 0; e < PAIR; ++e) {
            combine(sums[0][i * PAIR + e], result.alpha, result.beta, before.registers[e]);
        }
    }
}

// Writes finished sums from where they are, a pair at a time: eight rows, and four pairs side by side, in a store.
__device__ __forceinline__ void store_pairs(const Sums& sums, const Thread& thread, const Result& result,
                                            const Place& place) {
    const Pairs pairs(thread, result, place);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        Pair pair;
#pragma unroll
        for (int e = 0; e < PAIR; ++e) pair.registers[e] = sums[0][i * PAIR + e];
        if (pairs.has(i)) pairs.at(i) = pair;
    }
}

}  // namespace hopper
