// wgmma of more widths: `multiply<N>` of wgmma.cuh for multiples of 16 that are no multiples of 64, so that a tile
// can be as wide as a shape wants it.

#pragma once

#include "wgmma.cuh"

#define REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGISTERS_16 REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_48 \
    REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define REGISTERS_80 \
    REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define REGISTERS_88 REGISTERS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"

#define SUMS_8(kind, d, i) SUMS_4(kind, d, i), SUMS_4(kind, d, i + 4)
#define SUMS_48(kind, d, i) SUMS_32(kind, d, i), SUMS_16(kind, d, i + 32)
#define SUMS_80(kind, d, i) SUMS_64(kind, d, i), SUMS_16(kind, d, i + 64)
#define SUMS_88(kind, d, i) SUMS_80(kind, d, i), SUMS_8(kind, d, i + 80)

namespace hopper {

#define TYPES_f16 "f16.f16"
#define TYPES_bf16 "bf16.bf16"
// COUNT registers of sums; then the operands have the numbers A, B and ADD.
#define PRODUCT(N, COUNT, A, B, ADD)                                                                     \
    template <>                                                                                          \
    __device__ __forceinline__ void multiply<N>(f32(&d)[COUNT], u64 a, u64 b, int add) {                 \
        asm volatile(                                                                                    \
            "{\n"                                                                                        \
            ".reg .pred more;\n"                                                                         \
            "setp.ne.b32 more, %" #ADD ", 0;\n"                                                          \
            "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAMED(TYPES_, TYPE) " {" REGISTERS_##COUNT \
            "}, %" #A ", %" #B ", more, 1, 1, 0, 0;\n"                                                   \
            "}\n"                                                                                        \
            : SUMS_##COUNT("+f", d, 0)                                                                   \
            : "l"(a), "l"(b), "r"(add));                                                                 \
    }
PRODUCT(16, 8, 8, 9, 10)
PRODUCT(32, 16, 16, 17, 18)
PRODUCT(96, 48, 48, 49, 50)
PRODUCT(160, 80, 80, 81, 82)
PRODUCT(176, 88, 88, 89, 90)

#undef PRODUCT
#undef TYPES_f16
#undef TYPES_bf16

}  // namespace hopper
