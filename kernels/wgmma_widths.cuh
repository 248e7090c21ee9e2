// wgmma of any type and of the widths that tiles are cut to: multiples of 16 columns, and 88, which bytes do not have.
//
// Who includes this includes wgmma_type.cuh before.

#pragma once

#include "wgmma.cuh"

#define REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGISTERS_16 REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_24 REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define REGISTERS_40 REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define REGISTERS_44 REGISTERS_40 ", %40, %41, %42, %43"
#define REGISTERS_48 \
    REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define REGISTERS_56 REGISTERS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define REGISTERS_72 REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define REGISTERS_80 \
    REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define REGISTERS_88 REGISTERS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define REGISTERS_104 REGISTERS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"

#define SUMS_8(kind, d, i) SUMS_4(kind, d, i), SUMS_4(kind, d, i + 4)
#define SUMS_24(kind, d, i) SUMS_16(kind, d, i), SUMS_8(kind, d, i + 16)
#define SUMS_40(kind, d, i) SUMS_32(kind, d, i), SUMS_8(kind, d, i + 32)
#define SUMS_44(kind, d, i) SUMS_40(kind, d, i), SUMS_4(kind, d, i + 40)
#define SUMS_48(kind, d, i) SUMS_32(kind, d, i), SUMS_16(kind, d, i + 32)
#define SUMS_56(kind, d, i) SUMS_48(kind, d, i), SUMS_8(kind, d, i + 48)
#define SUMS_72(kind, d, i) SUMS_64(kind, d, i), SUMS_8(kind, d, i + 64)
#define SUMS_80(kind, d, i) SUMS_64(kind, d, i), SUMS_16(kind, d, i + 64)
#define SUMS_88(kind, d, i) SUMS_80(kind, d, i), SUMS_8(kind, d, i + 80)
#define SUMS_104(kind, d, i) SUMS_96(kind, d, i), SUMS_8(kind, d, i + 96)

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
PRODUCT(48, 24, 24, 25, 26)
PRODUCT(64, 32, 32, 33, 34)
PRODUCT(80, 40, 40, 41, 42)
PRODUCT(88, 44, 44, 45, 46)
PRODUCT(96, 48, 48, 49, 50)
PRODUCT(112, 56, 56, 57, 58)
PRODUCT(128, 64, 64, 65, 66)
PRODUCT(144, 72, 72, 73, 74)
PRODUCT(160, 80, 80, 81, 82)
PRODUCT(176, 88, 88, 89, 90)
PRODUCT(192, 96, 96, 97, 98)
PRODUCT(208, 104, 104, 105, 106)
PRODUCT(256, 128, 128, 129, 130)

#undef PRODUCT

}  // namespace widths
