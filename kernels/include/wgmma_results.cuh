// Sums of a product on their way to C, of any type that wgmma has.
//
// Who includes this defines what wgmma_type.cuh asks for.

#pragma once

#include "wgmma_type.cuh"

#include "wgmma.cuh"

#if WHOLE_NUMBERS
using Scalar = i32;
#else
using Scalar = f32;
#endif
using Number = SUM_REGISTER;

template <class Half>
__device__ __forceinline__ unsigned packed(f32 first, f32 second) {
    const auto pair = hopper::pair_of(Half(), first, second);
    return reinterpret_cast<const unsigned&>(pair);
}

__device__ __forceinline__ f32 number(f16 one) { return __half2float(one); }
__device__ __forceinline__ f32 number(bf16 one) { return __bfloat162float(one); }
__device__ __forceinline__ f32 number(f32 one) { return one; }
__device__ __forceinline__ i32 number(i32 one) { return one; }

__device__ __forceinline__ unsigned bits(f32 sum) { return __float_as_uint(sum); }
__device__ __forceinline__ unsigned bits(i32 sum) { return static_cast<unsigned>(sum); }

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
