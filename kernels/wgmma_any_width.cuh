// wgmma whose width a launch chooses: any multiple of 8 from 64 to 256, of one and the same 128 registers of sums. The
// width is a number that the kernel got, so every product is behind a jump; all that stands around it is written once.
//
// Who includes this defines TYPE (f16 or bf16).

#pragma once

#include "wgmma.cuh"

#define REGISTERS_36 REGISTERS_32 ", %32, %33, %34, %35"
#define REGISTERS_40 REGISTERS_36 ", %36, %37, %38, %39"
#define REGISTERS_44 REGISTERS_40 ", %40, %41, %42, %43"
#define REGISTERS_48 REGISTERS_44 ", %44, %45, %46, %47"
#define REGISTERS_52 REGISTERS_48 ", %48, %49, %50, %51"
#define REGISTERS_56 REGISTERS_52 ", %52, %53, %54, %55"
#define REGISTERS_60 REGISTERS_56 ", %56, %57, %58, %59"
#define REGISTERS_68 REGISTERS_64 ", %64, %65, %66, %67"
#define REGISTERS_72 REGISTERS_68 ", %68, %69, %70, %71"
#define REGISTERS_76 REGISTERS_72 ", %72, %73, %74, %75"
#define REGISTERS_80 REGISTERS_76 ", %76, %77, %78, %79"
#define REGISTERS_84 REGISTERS_80 ", %80, %81, %82, %83"
#define REGISTERS_88 REGISTERS_84 ", %84, %85, %86, %87"
#define REGISTERS_92 REGISTERS_88 ", %88, %89, %90, %91"
#define REGISTERS_100 REGISTERS_96 ", %96, %97, %98, %99"
#define REGISTERS_104 REGISTERS_100 ", %100, %101, %102, %103"
#define REGISTERS_108 REGISTERS_104 ", %104, %105, %106, %107"
#define REGISTERS_112 REGISTERS_108 ", %108, %109, %110, %111"
#define REGISTERS_116 REGISTERS_112 ", %112, %113, %114, %115"
#define REGISTERS_120 REGISTERS_116 ", %116, %117, %118, %119"
#define REGISTERS_124 REGISTERS_120 ", %120, %121, %122, %123"

namespace hopper {

constexpr int NARROWEST = 64, WIDEST = 256, WIDTH_STEP = 8;  // columns of a product

using WideSums = f32[WIDEST / 2];

// The products of a chunk, 64 deep, of 64 rows and N columns: the first N / 2 sums. a and b are descriptors, the operands
// 128 and 129 behind the sums; where operand 130 is 0, the first product overwrites them.
template <int N>
__device__ __forceinline__ void multiply_chunk_of(WideSums& sums, u64 a, u64 b, int add);

static_assert(STEPS == 4 && STEP == 2, "four products, whose descriptors are two apart");
#define TYPES_f16 "f16.f16"
#define TYPES_bf16 "bf16.bf16"
#define PRODUCT(N, COUNT, A, B, ADD) \
    "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAMED(TYPES_, TYPE) " {" REGISTERS_##COUNT "}, " A ", " B ", " ADD \
    ", 1, 1, 0, 0;\n"
#define NEXT(N, COUNT) "add.s64 a, a, 2;\nadd.s64 b, b, 2;\n" PRODUCT(N, COUNT, "a", "b", "always")
#define PRODUCTS(N, COUNT)                                                                             \
    template <>                                                                                        \
    __device__ __forceinline__ void multiply_chunk_of<N>(WideSums & sums, u64 a, u64 b, int add) {     \
        begin_products();                                                                              \
        asm volatile(                                                                                  \
            "{\n"                                                                                      \
            ".reg .pred more, always;\n"                                                               \
            ".reg .b64 a, b;\n"                                                                        \
            "setp.ne.b32 more, %130, 0;\n"                                                             \
            "setp.ne.b32 always, 1, 0;\n"                                                              \
            "mov.b64 a, %128;\n"                                                                       \
            "mov.b64 b, %129;\n"                                                                       \
            PRODUCT(N, COUNT, "a", "b", "more") NEXT(N, COUNT) NEXT(N, COUNT) NEXT(N, COUNT)           \
            "}\n"                                                                                      \
            : SUMS_128("+f", sums, 0)                                                                  \
            : "l"(a), "l"(b), "r"(add));                                                               \
        commit_products();                                                                             \
    }
#define EACH_WIDTH(USE)                                                                                       \
    USE(64, 32) USE(72, 36) USE(80, 40) USE(88, 44) USE(96, 48) USE(104, 52) USE(112, 56) USE(120, 60)        \
    USE(128, 64) USE(136, 68) USE(144, 72) USE(152, 76) USE(160, 80) USE(168, 84) USE(176, 88) USE(184, 92)   \
    USE(192, 96) USE(200, 100) USE(208, 104) USE(216, 108) USE(224, 112) USE(232, 116) USE(240, 120)          \
    USE(248, 124) USE(256, 128)
EACH_WIDTH(PRODUCTS)

// The same of `width` columns, which all threads of the warpgroup know to be the same.
__device__ __forceinline__ void multiply_chunk_of(WideSums& sums, int width, u64 a, u64 b, int add) {
#define CASE(N, COUNT) \
    case N / WIDTH_STEP: multiply_chunk_of<N>(sums, a, b, add); break;
    switch (width / WIDTH_STEP) {
        EACH_WIDTH(CASE)
        default: __builtin_unreachable();
    }
#undef CASE
}

#undef EACH_WIDTH
#undef PRODUCTS
#undef NEXT
#undef PRODUCT
#undef TYPES_f16
#undef TYPES_bf16

}  // namespace hopper
