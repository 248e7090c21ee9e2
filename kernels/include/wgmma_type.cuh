// A type that wgmma multiplies: its instruction, the registers of its sums, the elements of C, and what becomes of sums on
// their way there. A wgmma takes 32 bytes of k whatever the type, in the same time, and finds them in shared memory in the
// same order.
//
// Who includes this defines TYPE of A, and of B but for e5m2 (beside e4m3), and may define HALF_SUMS 1 for sums of f16, two
// in a register. What the tensor cores sum of FP8 is left to them.

#pragma once

#include "mma_types.cuh"
#include "wgmma.cuh"
#include "words.cuh"

#ifndef HALF_SUMS
#define HALF_SUMS 0
#endif
#ifndef TRANSPOSED
#define TRANSPOSED "0, 0"  // A and B are contiguous along k (of 16-bit types wgmma takes the other order, too)
#endif

#define TYPE_f16 0
#define TYPE_bf16 1
#define TYPE_tf32 2
#define TYPE_i8 3
#define TYPE_e4m3 4
#define TYPE_e5m2 5
#define TYPE_NUMBER NAMED(TYPE_, TYPE)
#define WHOLE_NUMBERS (TYPE_NUMBER == TYPE_i8)

// The instruction from its depth on, and what stands behind its operands.
#if HALF_SUMS
#define PRODUCT_OF_f16 "k16.f16.f16.f16"
#else
#define PRODUCT_OF_f16 "k16.f32.f16.f16"
#endif
#define PRODUCT_OF_bf16 "k16.f32.bf16.bf16"
#define PRODUCT_OF_tf32 "k8.f32.tf32.tf32"
#define PRODUCT_OF_i8 "k32.s32.s8.s8"
#define PRODUCT_OF_e4m3 "k32.f32.e4m3.e4m3"
#define PRODUCT_OF_e5m2 "k32.f32.e5m2.e4m3"
#define PRODUCT_TYPES NAMED(PRODUCT_OF_, TYPE)
#if WHOLE_NUMBERS
#define PRODUCT_ENDING ""
#elif TYPE_NUMBER < TYPE_tf32
#define PRODUCT_ENDING ", 1, 1, " TRANSPOSED
#else
#define PRODUCT_ENDING ", 1, 1"  // no sign is changed
#endif

// Bytes of an element, the elements of C, alpha and beta, and a register of sums as a type and as an operand.
#if TYPE_NUMBER == TYPE_tf32
#define OPERAND_BYTES 4
using Out = f32;
#elif WHOLE_NUMBERS
#define OPERAND_BYTES 1
using Out = i32;
#elif TYPE_NUMBER >= TYPE_e4m3
#define OPERAND_BYTES 1
using Out = bf16;
#else
#define OPERAND_BYTES 2
using Out = TYPE;
#endif
#if WHOLE_NUMBERS
using Scalar = i32;
using Number = i32;
#define SUM_OPERAND "+r"
#elif HALF_SUMS
using Scalar = f32;
using Number = unsigned;
#define SUM_OPERAND "+r"
#else
using Scalar = f32;
using Number = f32;
#define SUM_OPERAND "+f"
#endif

namespace hopper {

constexpr int CHUNK = SWIZZLE_BYTES / OPERAND_BYTES;  // elements of k in a row of a box
constexpr int PAIR = HALF_SUMS ? 1 : 2;               // registers of two neighbouring sums

__device__ __forceinline__ int chunks_of(int k) { return (k - 1) / CHUNK + 1; }

// 32 bytes of k deep (wgmma_registers.cuh).
template <int N>
__device__ __forceinline__ void multiply(Number (&d)[N / 4 * PAIR], u64 a, u64 b, int add);

#define OF_TYPE Number, SUM_OPERAND, PRODUCT_TYPES, PRODUCT_ENDING
#if HALF_SUMS
WGMMA_128_OF_PAIRS(OF_TYPE)
WGMMA_256_OF_PAIRS(OF_TYPE)
#else
WGMMA_16(OF_TYPE)
WGMMA_32(OF_TYPE)
WGMMA_64(OF_TYPE)
WGMMA_128(OF_TYPE)
WGMMA_192(OF_TYPE)
WGMMA_256(OF_TYPE)
#endif
#undef OF_TYPE

}  // namespace hopper

// ---- results ---------------------------------------------------------------------------------------

__device__ __forceinline__ __half2 pair_of(f16, f32 first, f32 second) { return __floats2half2_rn(first, second); }
__device__ __forceinline__ __nv_bfloat162 pair_of(bf16, f32 first, f32 second) {
    return __floats2bfloat162_rn(first, second);
}

// Two numbers as two elements in a word, the first one in the low half.
template <class Half>
__device__ __forceinline__ unsigned packed(f32 first, f32 second) {
    const auto pair = pair_of(Half(), first, second);
    return reinterpret_cast<const unsigned&>(pair);
}

__device__ __forceinline__ float2 floats_of(__half2 pair) { return __half22float2(pair); }
__device__ __forceinline__ float2 floats_of(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
template <class Half>
__device__ __forceinline__ float2 unpacked(unsigned word) {
    return floats_of(reinterpret_cast<const decltype(pair_of(Half(), 0.0f, 0.0f))&>(word));
}

__device__ __forceinline__ f32 number(f16 one) { return __half2float(one); }
__device__ __forceinline__ f32 number(bf16 one) { return __bfloat162float(one); }
__device__ __forceinline__ f32 number(f32 one) { return one; }
__device__ __forceinline__ i32 number(i32 one) { return one; }

__device__ __forceinline__ unsigned bits(f32 sum) { return __float_as_uint(sum); }
__device__ __forceinline__ unsigned bits(i32 sum) { return static_cast<unsigned>(sum); }
__device__ __forceinline__ unsigned bits(unsigned sums) { return sums; }

// fmaf, so that all kernels round alike.
__device__ __forceinline__ f32 combined(f32 sum, f32 alpha, f32 beta, f32 old) { return fmaf(beta, old, alpha * sum); }
__device__ __forceinline__ i32 combined(i32 sum, i32 alpha, i32 beta, i32 old) { return alpha * sum + beta * old; }

// What becomes of the sums.
struct Result {
    Out* c;
    int m, n;
    Scalar alpha, beta;
};

// Two neighbours of a row, as they lie in C.
struct alignas(2 * sizeof(Out)) Two {
    Out first, second;
};
