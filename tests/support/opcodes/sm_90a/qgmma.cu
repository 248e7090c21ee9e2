// Warpgroup products of FP8: 64 rows, 16 columns, 32 deep, by each block of 128 threads. A thread's operands are its
// registers of A, a word of B, column by column, and its sums.
#include "../fixture.cuh"

// A word's place where no swizzle is: core matrices of eight rows with 16 bytes each, two of them side by side.
__device__ __forceinline__ int place(int row, int word) {
    return row / 8 * 64 + word / 4 * 32 + row % 8 * 4 + word % 4;
}

__device__ __forceinline__ unsigned long long descriptor(const void* matrix) {
    const unsigned long long at = __cvta_generic_to_shared(matrix);
    return at >> 4 | 128ull >> 4 << 16 | 256ull >> 4 << 32;
}

__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void publish() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    fence();
}

__device__ __forceinline__ void finish() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#define B_IN_SHARED(B)                                  \
    __shared__ __align__(128) unsigned columns[16 * 8]; \
    columns[place(threadIdx.x / 8, threadIdx.x % 8)] = (B)[0];
#define F32_SUMS float d[8]; for (int e = 0; e < 8; ++e) d[e] = c[e];
#define F32_OPERANDS "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define F32_RESULTS for (int e = 0; e < 8; ++e) put(d[e]);
#define F32_PRODUCT(TYPES)                                                                                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k32.f32." TYPES " {%0, %1, %2, %3, %4, %5, %6, %7}, " \
                 "{%8, %9, %10, %11}, %12, 1, 1, 1;"                                                       \
                 : F32_OPERANDS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor(columns)));
#define PRODUCT_F32(TYPES) B_IN_SHARED(b) F32_SUMS publish(); F32_PRODUCT(TYPES) finish(); F32_RESULTS

KERNEL90(qgmma_e4m3_exact, 8, fp8exact_4, fp8exact_1, f32exact_8) { PRODUCT_F32("e4m3.e4m3") }
KERNEL90(qgmma_e4m3_near, 8, fp8near_4, fp8near_1, f32normal_8) { PRODUCT_F32("e4m3.e4m3") }
KERNEL90(qgmma_e5m2_near, 8, fp8near_4, fp8near_1, f32normal_8) { PRODUCT_F32("e5m2.e5m2") }
KERNEL90(qgmma_e4m3_e5m2_near, 8, fp8near_4, fp8near_1, f32normal_8) { PRODUCT_F32("e4m3.e5m2") }
KERNEL90(qgmma_e5m2_e4m3_near, 8, fp8near_4, fp8near_1, f32normal_8) { PRODUCT_F32("e5m2.e4m3") }
KERNEL90(qgmma_e4m3_wild, 8, fp8wild_4, fp8wild_1, f32wild_8) { PRODUCT_F32("e4m3.e4m3") }
KERNEL90(qgmma_e5m2_wild, 8, fp8wild_4, fp8wild_1, f32wild_8) { PRODUCT_F32("e5m2.e5m2") }

// The sums of one are what the next adds to. Without the fences ptxas (13.0) leaves the last one alone.
KERNEL90(qgmma_e4m3_chain, 8, fp8near_4, fp8near_1, f32normal_8) {
    B_IN_SHARED(b) F32_SUMS
    publish();
    F32_PRODUCT("e4m3.e4m3") fence(); F32_PRODUCT("e5m2.e4m3") fence(); F32_PRODUCT("e4m3.e5m2") fence();
    F32_PRODUCT("e4m3.e4m3")
    finish();
    F32_RESULTS
}

// A in shared memory, where row and column of a word are those that it has in registers.
KERNEL90(qgmma_e4m3_shared_near, 8, fp8near_4, fp8near_1, f32normal_8) {
    __shared__ __align__(128) unsigned rows[64 * 8];
    B_IN_SHARED(b) F32_SUMS
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    for (int i = 0; i < 4; ++i) rows[place(row + i % 2 * 8, threadIdx.x % 4 + i / 2 * 4)] = a[i];
    publish();
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "%8, %9, 1, -1, 1;"
                 : F32_OPERANDS : "l"(descriptor(rows)), "l"(descriptor(columns)));
    finish();
    F32_RESULTS
}

#define PRODUCT_F16(TYPES)                                                                                   \
    B_IN_SHARED(b)                                                                                           \
    unsigned d[4];                                                                                           \
    for (int e = 0; e < 4; ++e) d[e] = c[e];                                                                 \
    publish();                                                                                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k32.f16." TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, " \
                 "%8, 1, 1, 1;"                                                                              \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor(columns)));                    \
    finish();                                                                                                \
    for (int e = 0; e < 4; ++e) put(d[e]);

KERNEL90(qgmma_e4m3_f16_near, 4, fp8near_4, fp8near_1, f16near_4) { PRODUCT_F16("e4m3.e4m3") }
KERNEL90(qgmma_e5m2_f16_wild, 4, fp8wild_4, fp8wild_1, f16wild_4) { PRODUCT_F16("e5m2.e5m2") }
