// wgmma of any type and of the widths that tiles are cut to.
//
// Who includes this includes wgmma_type.cuh before.

#pragma once

#include "wgmma.cuh"

#define REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGISTERS_16 REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"

#define SUMS_8(kind, d, i) SUMS_4(kind, d, i), SUMS_4(kind, d, i + 4)

namespace widths {

// d = a b^T, or d += a b^T where `add` is not 0, of 64 rows and N columns, 32 bytes of k deep; a and b are descriptors.
// Register 4 j + e of a thread is column 8 j + 2 (lane mod 4) + e mod 2, row 16 warp + lane / 4 + 8 (e / 2).
template <int N>
__device__ __forceinline__ void multiply(SUM_REGISTER (&d)[N / 2], unsigned long long a, unsigned long long b, int add);

// COUNT registers of sums; then the operands have the numbers A, B and ADD.
#define PRODUCT(N, COUNT, A, B, ADD)                                                                                   \
    template <>                                                                                                        \
    __device__ __forceinline__ void multiply<N>(SUM_REGISTER(&d)[COUNT], unsigned long long a, unsigned long long b,   \
                                                int add) {                                                             \
        asm volatile(                                                                                                  \
            "{\n"                                                                                                      \
            ".reg .pred more;\n"                                                                                       \
            "setp.ne.b32 more, %" #ADD ", 0;\n"                                                                        \
            "wgmma.mma_async.sync.aligned.m64n" #N PRODUCT_TYPES " {" REGISTERS_##COUNT "}, %" #A ", %" #B             \
            ", more" PRODUCT_ENDING ";\n"                                                                        \
            "}\n"                                                                                                      \
            : SUMS_##COUNT(SUM_OPERAND, d, 0)                                                                          \
            : "l"(a), "l"(b), "r"(add));                                                                               \
    }
PRODUCT(16, 8, 8, 9, 10)
PRODUCT(32, 16, 16, 17, 18)
PRODUCT(64, 32, 32, 33, 34)
PRODUCT(128, 64, 64, 65, 66)

#undef PRODUCT

}  // namespace widths
