// The text of wgmma: registers of a thread's accumulator by name (REGISTERS_n) and as operands of an asm
// statement (SUMS_n), and the descriptor of a matrix in shared memory. It knows no types and no tiles.

#pragma once

#define REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REGISTERS_16 REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGISTERS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_64 \
    REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_96 \
    REGISTERS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define REGISTERS_128 \
    REGISTERS_96 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// `kind` is "+f" or "+r"; the first is d[i].
#define SUMS_4(kind, d, i) kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define SUMS_8(kind, d, i) SUMS_4(kind, d, i), SUMS_4(kind, d, i + 4)
#define SUMS_16(kind, d, i) \
    SUMS_4(kind, d, i), SUMS_4(kind, d, i + 4), SUMS_4(kind, d, i + 8), SUMS_4(kind, d, i + 12)
#define SUMS_32(kind, d, i) SUMS_16(kind, d, i), SUMS_16(kind, d, i + 16)
#define SUMS_64(kind, d, i) SUMS_32(kind, d, i), SUMS_32(kind, d, i + 32)
#define SUMS_96(kind, d, i) SUMS_64(kind, d, i), SUMS_32(kind, d, i + 64)
#define SUMS_128(kind, d, i) SUMS_64(kind, d, i), SUMS_64(kind, d, i + 64)

// multiply<N>: d = a b^T, or d += a b^T where `add` is not 0, of 64 rows and N columns, 32 bytes of k deep; a and b are
// descriptors. Of sums that have a register each, number 4 j + e of a thread is column 8 j + 2 (lane mod 4) + e mod 2, row
// 16 warp + lane / 4 + 8 (e / 2). COUNT registers of type NUMBER; behind them the operands have the numbers A, B and ADD.
// DEPTH_AND_TYPES and ENDING: what the instruction's name ends with, and its operands.
#define WGMMA(N, COUNT, A, B, ADD, NUMBER, OPERAND, DEPTH_AND_TYPES, ENDING)                                           \
    template <>                                                                                                        \
    __device__ __forceinline__ void multiply<N>(NUMBER(&d)[COUNT], unsigned long long a, unsigned long long b, int add) { \
        asm volatile(                                                                                                  \
            "{\n"                                                                                                      \
            ".reg .pred more;\n"                                                                                       \
            "setp.ne.b32 more, %" #ADD ", 0;\n"                                                                        \
            "wgmma.mma_async.sync.aligned.m64n" #N DEPTH_AND_TYPES " {" REGISTERS_##COUNT "}, %" #A ", %" #B            \
            ", more" ENDING ";\n"                                                                                      \
            "}\n"                                                                                                      \
            : SUMS_##COUNT(OPERAND, d, 0)                                                                              \
            : "l"(a), "l"(b), "r"(add));                                                                               \
    }
#define WGMMA_16(...) WGMMA(16, 8, 8, 9, 10, __VA_ARGS__)
#define WGMMA_32(...) WGMMA(32, 16, 16, 17, 18, __VA_ARGS__)
#define WGMMA_64(...) WGMMA(64, 32, 32, 33, 34, __VA_ARGS__)
#define WGMMA_128(...) WGMMA(128, 64, 64, 65, 66, __VA_ARGS__)
#define WGMMA_192(...) WGMMA(192, 96, 96, 97, 98, __VA_ARGS__)
#define WGMMA_256(...) WGMMA(256, 128, 128, 129, 130, __VA_ARGS__)
// Of sums of f16, two in a register.
#define WGMMA_128_OF_PAIRS(...) WGMMA(128, 32, 32, 33, 34, __VA_ARGS__)
#define WGMMA_256_OF_PAIRS(...) WGMMA(256, 64, 64, 65, 66, __VA_ARGS__)

namespace hopper {

// PTX ISA, "Matrix Descriptor Format" of wgmma, for rows of 128 bytes with the 128-byte swizzle: address,
// a leading offset that this swizzle does not use, the offset from eight rows to the next eight, all in
// units of 16 bytes; 1 at bit 62 is the swizzle.
__device__ __forceinline__ unsigned long long descriptor(unsigned shared) {
    return static_cast<unsigned long long>((shared & 0x3ffff) >> 4) | 1ull << 16 |
           static_cast<unsigned long long>(8 * 128 >> 4) << 32 | 1ull << 62;
}

}  // namespace hopper
