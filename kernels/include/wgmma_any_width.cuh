// wgmma whose width a launch chooses: any multiple of WIDTH_STEP from 64 columns to WIDEST, of one and the same registers
// of sums. The width is a number that the kernel got, so every product is behind a jump; all that stands around it is
// written once.
//
// Who includes this defines WIDEST (176, 192 or 256), and what wgmma_type.cuh asks for.

#pragma once

#include "wgmma_type.cuh"

// Four registers of sums each, behind both descriptors and a number.
#define FOURS_4 "%3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18"
#define FOURS_5 FOURS_4 ", %19, %20, %21, %22"
#define FOURS_6 FOURS_5 ", %23, %24, %25, %26"
#define FOURS_7 FOURS_6 ", %27, %28, %29, %30"
#define FOURS_8 FOURS_7 ", %31, %32, %33, %34"
#define FOURS_9 FOURS_8 ", %35, %36, %37, %38"
#define FOURS_10 FOURS_9 ", %39, %40, %41, %42"
#define FOURS_11 FOURS_10 ", %43, %44, %45, %46"
#define FOURS_12 FOURS_11 ", %47, %48, %49, %50"
#define FOURS_13 FOURS_12 ", %51, %52, %53, %54"
#define FOURS_14 FOURS_13 ", %55, %56, %57, %58"
#define FOURS_15 FOURS_14 ", %59, %60, %61, %62"
#define FOURS_16 FOURS_15 ", %63, %64, %65, %66"
#define FOURS_17 FOURS_16 ", %67, %68, %69, %70"
#define FOURS_18 FOURS_17 ", %71, %72, %73, %74"
#define FOURS_19 FOURS_18 ", %75, %76, %77, %78"
#define FOURS_20 FOURS_19 ", %79, %80, %81, %82"
#define FOURS_21 FOURS_20 ", %83, %84, %85, %86"
#define FOURS_22 FOURS_21 ", %87, %88, %89, %90"
#define FOURS_23 FOURS_22 ", %91, %92, %93, %94"
#define FOURS_24 FOURS_23 ", %95, %96, %97, %98"
#define FOURS_25 FOURS_24 ", %99, %100, %101, %102"
#define FOURS_26 FOURS_25 ", %103, %104, %105, %106"
#define FOURS_27 FOURS_26 ", %107, %108, %109, %110"
#define FOURS_28 FOURS_27 ", %111, %112, %113, %114"
#define FOURS_29 FOURS_28 ", %115, %116, %117, %118"
#define FOURS_30 FOURS_29 ", %119, %120, %121, %122"
#define FOURS_31 FOURS_30 ", %123, %124, %125, %126"
#define FOURS_32 FOURS_31 ", %127, %128, %129, %130"

// USE(N, FOURS): N columns are so many times four registers. wgmma of whole numbers takes multiples of 16.
#define EVERY_16TH_TO_176(USE) \
    USE(64, 8) USE(80, 10) USE(96, 12) USE(112, 14) USE(128, 16) USE(144, 18) USE(160, 20) USE(176, 22)
#define EVERY_16TH_TO_192(USE) EVERY_16TH_TO_176(USE) USE(192, 24)
#define EVERY_16TH_TO_256(USE) \
    EVERY_16TH_TO_192(USE) USE(208, 26) USE(224, 28) USE(240, 30) USE(256, 32)
#if WHOLE_NUMBERS
#define WIDTH_STEP 16
#define WIDTHS_TO_176(USE) EVERY_16TH_TO_176(USE)
#define WIDTHS_TO_192(USE) EVERY_16TH_TO_192(USE)
#define WIDTHS_TO_256(USE) EVERY_16TH_TO_256(USE)
#else
#define WIDTH_STEP 8
#define BETWEEN_TO_176(USE) \
    USE(72, 9) USE(88, 11) USE(104, 13) USE(120, 15) USE(136, 17) USE(152, 19) USE(168, 21)
#define BETWEEN_TO_192(USE) BETWEEN_TO_176(USE) USE(184, 23)
#define WIDTHS_TO_176(USE) EVERY_16TH_TO_176(USE) BETWEEN_TO_176(USE)
#define WIDTHS_TO_192(USE) EVERY_16TH_TO_192(USE) BETWEEN_TO_192(USE)
#define WIDTHS_TO_256(USE) \
    EVERY_16TH_TO_256(USE) BETWEEN_TO_192(USE) USE(200, 25) USE(216, 27) USE(232, 29) USE(248, 31)
#endif
#define OF_176(kind, d) SUMS_64(kind, d, 0), SUMS_16(kind, d, 64), SUMS_4(kind, d, 80), SUMS_4(kind, d, 84)
#define OF_192(kind, d) SUMS_96(kind, d, 0)
#define OF_256(kind, d) SUMS_128(kind, d, 0)

// The CASE of a width that is known when the kernel runs.
#define SWITCH_WIDTH(width, CASE)         \
    switch (width / 8) {                  \
        NAMED(WIDTHS_TO_, WIDEST)(CASE)   \
        default: __builtin_unreachable(); \
    }

namespace any_width {

constexpr int SUMS = WIDEST / 2;  // registers of a thread and product

using Sums = Number[SUMS];

// Begins the products of a chunk, 128 bytes deep, of 64 rows and `width` columns, which all threads of the warpgroup know
// to be the same: the first sums. a and b are descriptors; where `add` is 0, the first product overwrites the sums.
__device__ __forceinline__ void multiply_chunk(Sums& sums, int width, unsigned long long a, unsigned long long b, int add) {
#define PRODUCT(N, FOURS, ADD)                                                                                   \
    "wgmma.mma_async.sync.aligned.m64n" #N PRODUCT_TYPES " {" FOURS_##FOURS "}, %0, %1, " ADD PRODUCT_ENDING ";\n"
#define NEXT(N, FOURS) "add.s64 %0, %0, 2;\nadd.s64 %1, %1, 2;\n" PRODUCT(N, FOURS, "always")
#define CASE(N, FOURS)                                                                                         \
    case N / 8:                                                                                                \
        hopper::begin_products();                                                                              \
        asm volatile(                                                                                          \
            "{\n"                                                                                              \
            ".reg .pred more, always;\n"                                                                       \
            "setp.ne.b32 more, %2, 0;\n"                                                                       \
            "setp.ne.b32 always, 1, 0;\n"                                                                      \
            PRODUCT(N, FOURS, "more") NEXT(N, FOURS) NEXT(N, FOURS) NEXT(N, FOURS)                             \
            "}\n"                                                                                              \
            : "+l"(a), "+l"(b), "+r"(add), NAMED(OF_, WIDEST)(SUM_OPERAND, sums));                             \
        hopper::commit_products();                                                                             \
        break;
    SWITCH_WIDTH(width, CASE)
#undef CASE
#undef NEXT
#undef PRODUCT
}

// The same of COUNT times 64 rows, which lie `below` apart in descriptors. A step of all of them precedes the next step of
// any: of two steps that add to the same sums the second one waits for the first.
template <int COUNT>
__device__ __forceinline__ void multiply_chunk(Sums (&sums)[COUNT], int width, unsigned long long a, unsigned long long below,
                                               unsigned long long b, int add) {
#define CASE(N, FOURS)                                                                                       \
    case N / 8:                                                                                              \
        hopper::begin_products();                                                                            \
        _Pragma("unroll") for (int step = 0; step < 4; ++step) {                                             \
            _Pragma("unroll") for (int i = 0; i < COUNT; ++i) {                                              \
                unsigned long long rows = a + i * below + 2 * step, columns = b + 2 * step;                  \
                int more = step ? 1 : add;                                                                   \
                asm volatile(                                                                                \
                    "{\n"                                                                                    \
                    ".reg .pred more;\n"                                                                     \
                    "setp.ne.b32 more, %2, 0;\n"                                                             \
                    "wgmma.mma_async.sync.aligned.m64n" #N PRODUCT_TYPES " {" FOURS_##FOURS                  \
                    "}, %0, %1, more" PRODUCT_ENDING ";\n"                                                   \
                    "}\n"                                                                                    \
                    : "+l"(rows), "+l"(columns), "+r"(more), NAMED(OF_, WIDEST)(SUM_OPERAND, sums[i]));      \
            }                                                                                                \
        }                                                                                                    \
        hopper::commit_products();                                                                           \
        break;
    SWITCH_WIDTH(width, CASE)
#undef CASE
}

}  // namespace any_width
