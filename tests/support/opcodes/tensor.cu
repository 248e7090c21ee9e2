// Tensor cores: products of fragments, and the instructions that move fragments about.
#include "fixture.cuh"
#include <mma.h>

// Operands of an mma: so many registers of D, A, B and C, as constraint lists.
#define PUT4 put(d0), put(d1), put(d2), put(d3);
// W: as instructions take them; of tf32 the patterns.
__device__ __forceinline__ unsigned W(unsigned word) { return word; }
__device__ __forceinline__ unsigned W(float number) { return __float_as_uint(number); }
__device__ __forceinline__ double W(double number) { return number; }
#define MMA_42(T, t, x, OP) T d0, d1, d2, d3; asm(OP " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, " \
    "{%10,%11,%12,%13};" : "=" t(d0), "=" t(d1), "=" t(d2), "=" t(d3) \
    : x(W(a[0])), x(W(a[1])), x(W(a[2])), x(W(a[3])), x(W(b[0])), x(W(b[1])), \
      t(c[0]), t(c[1]), t(c[2]), t(c[3])); PUT4
#define MMA_21(T, t, x, OP) T d0, d1, d2, d3; asm(OP " {%0,%1,%2,%3}, {%4,%5}, {%6}, " \
    "{%7,%8,%9,%10};" : "=" t(d0), "=" t(d1), "=" t(d2), "=" t(d3) \
    : x(W(a[0])), x(W(a[1])), x(W(b[0])), t(c[0]), t(c[1]), t(c[2]), t(c[3])); PUT4
#define MMA_F32_42(OP) MMA_42(float, "f", "r", OP)
#define MMA_F32_21(OP) MMA_21(float, "f", "r", OP)
#define MMA_S32_42(OP) MMA_42(unsigned, "r", "r", OP)
#define MMA_S32_21(OP) MMA_21(unsigned, "r", "r", OP)
#define MMA_F64_1684(OP) MMA_21(double, "d", "d", OP)
#define MMA_F64_1688(OP) MMA_42(double, "d", "d", OP)
#define MMA_F16_42(OP) unsigned d0, d1; asm(OP " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};" \
    : "=r"(d0), "=r"(d1) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), \
      "r"(c[0]), "r"(c[1])); put(d0), put(d1);
#define MMA_F16_21(OP) unsigned d0, d1; asm(OP " {%0,%1}, {%2,%3}, {%4}, {%5,%6};" \
    : "=r"(d0), "=r"(d1) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1])); \
    put(d0), put(d1);
#define MMA_S32_11(OP) unsigned d0, d1; asm(OP " {%0,%1}, {%2}, {%3}, {%4,%5};" \
    : "=r"(d0), "=r"(d1) : "r"(a[0]), "r"(b[0]), "r"(c[0]), "r"(c[1])); put(d0), put(d1);
KERNEL(mma_f16_16816_f32_exact, 4, f16exact_4, f16exact_2, f32exact_4) { MMA_F32_42("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") }
KERNEL(mma_f16_1688_f32_exact, 4, f16exact_2, f16exact_1, f32exact_4) { MMA_F32_21("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32") }
KERNEL(mma_f16_16816_f16_exact, 2, f16exact_4, f16exact_2, f16exact_2) { MMA_F16_42("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16") }
KERNEL(mma_f16_1688_f16_exact, 2, f16exact_2, f16exact_1, f16exact_2) { MMA_F16_21("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16") }
KERNEL(mma_bf16_16816_exact, 4, bf16exact_4, bf16exact_2, f32exact_4) { MMA_F32_42("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") }
KERNEL(mma_bf16_1688_exact, 4, bf16exact_2, bf16exact_1, f32exact_4) { MMA_F32_21("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32") }
KERNEL(mma_f16_16816_f32_near, 4, f16near_4, f16near_2, f32normal_4) { MMA_F32_42("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") }
KERNEL(mma_f16_1688_f32_near, 4, f16near_2, f16near_1, f32normal_4) { MMA_F32_21("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32") }
KERNEL(mma_f16_16816_f16_near, 2, f16near_4, f16near_2, f16near_2) { MMA_F16_42("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16") }
KERNEL(mma_f16_1688_f16_near, 2, f16near_2, f16near_1, f16near_2) { MMA_F16_21("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16") }
KERNEL(mma_bf16_16816_near, 4, bf16near_4, bf16near_2, f32normal_4) { MMA_F32_42("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") }
KERNEL(mma_bf16_1688_near, 4, bf16near_2, bf16near_1, f32normal_4) { MMA_F32_21("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32") }
KERNEL(mma_f16_16816_f32_wild, 4, f16wild_4, f16wild_2, f32wild_4) { MMA_F32_42("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") }
KERNEL(mma_f16_1688_f32_wild, 4, f16wild_2, f16wild_1, f32wild_4) { MMA_F32_21("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32") }
KERNEL(mma_f16_16816_f16_wild, 2, f16wild_4, f16wild_2, f16wild_2) { MMA_F16_42("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16") }
KERNEL(mma_f16_1688_f16_wild, 2, f16wild_2, f16wild_1, f16wild_2) { MMA_F16_21("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16") }
KERNEL(mma_bf16_16816_wild, 4, bf16wild_4, bf16wild_2, f32wild_4) { MMA_F32_42("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") }
KERNEL(mma_bf16_1688_wild, 4, bf16wild_2, bf16wild_1, f32wild_4) { MMA_F32_21("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32") }

// The low 13 bits of tf32 operands are not read; "wild" ones have them set.
KERNEL(mma_tf32_1688_exact, 4, f32exact_4, f32exact_2, f32exact_4) { MMA_F32_42("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") }
KERNEL(mma_tf32_1684_exact, 4, f32exact_2, f32exact_1, f32exact_4) { MMA_F32_21("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32") }
KERNEL(mma_tf32_1688_normal, 4, f32normal_4, f32normal_2, f32normal_4) { MMA_F32_42("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") }
KERNEL(mma_tf32_1684_normal, 4, f32normal_2, f32normal_1, f32normal_4) { MMA_F32_21("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32") }
KERNEL(mma_tf32_1688_wild, 4, f32wild_4, f32wild_2, f32wild_4) { MMA_F32_42("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") }
KERNEL(mma_tf32_1684_wild, 4, f32wild_2, f32wild_1, f32wild_4) { MMA_F32_21("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32") }

#define D_OUT4 "=d"(d0), "=d"(d1), "=d"(d2), "=d"(d3)
#define D_C4 "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3])
#define MMA_F64_884(OP) double d0, d1; asm(OP " {%0,%1}, {%2}, {%3}, {%4,%5};" \
    : "=d"(d0), "=d"(d1) : "d"(a[0]), "d"(b[0]), "d"(c[0]), "d"(c[1])); put(d0), put(d1);
#define MMA_F64_16816(OP) double d0, d1, d2, d3; asm(OP " {%0,%1,%2,%3}, " \
    "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%16,%17,%18,%19};" : D_OUT4 \
    : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), \
      "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]), D_C4); PUT4
KERNEL(mma_f64_884_exact, 4, f64exact_1, f64exact_1, f64exact_2) { MMA_F64_884("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_1684_exact, 8, f64exact_2, f64exact_1, f64exact_4) { MMA_F64_1684("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_1688_exact, 8, f64exact_4, f64exact_2, f64exact_4) { MMA_F64_1688("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_16816_exact, 8, f64exact_8, f64exact_4, f64exact_4) { MMA_F64_16816("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64") }
KERNEL(mma_f64_884_normal, 4, f64normal_1, f64normal_1, f64normal_2) { MMA_F64_884("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_1684_normal, 8, f64normal_2, f64normal_1, f64normal_4) { MMA_F64_1684("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_1688_normal, 8, f64normal_4, f64normal_2, f64normal_4) { MMA_F64_1688("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_16816_normal, 8, f64normal_8, f64normal_4, f64normal_4) { MMA_F64_16816("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64") }
KERNEL(mma_f64_884_wild, 4, f64wild_1, f64wild_1, f64wild_2) { MMA_F64_884("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_1684_wild, 8, f64wild_2, f64wild_1, f64wild_4) { MMA_F64_1684("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_1688_wild, 8, f64wild_4, f64wild_2, f64wild_4) { MMA_F64_1688("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64") }
KERNEL90(mma_f64_16816_wild, 8, f64wild_8, f64wild_4, f64wild_4) { MMA_F64_16816("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64") }
KERNEL(mma_f64_884_round, 4, f64normal_1, f64normal_1, f64normal_2) { MMA_F64_884("mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64") }

KERNEL(mma_s8_s8_16832, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32") }
KERNEL(mma_u8_u8_16832, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32") }
KERNEL(mma_s8_u8_16832, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32") }
KERNEL(mma_u8_s8_16832, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32") }
KERNEL(mma_s8_s8_16832_saturating, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32") }
KERNEL(mma_s8_u8_16816, 4, bits_2, bits_1, bits_4) { MMA_S32_21("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32") }
KERNEL(mma_u8_u8_8816, 2, bits_1, bits_1, bits_2) { MMA_S32_11("mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32") }
KERNEL(mma_s4_u4_16864, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32") }
KERNEL(mma_u4_s4_16832, 4, bits_2, bits_1, bits_4) { MMA_S32_21("mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32") }
KERNEL(mma_b1_xor_168256, 4, bits_4, bits_2, bits_4) { MMA_S32_42("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc") }
KERNEL(mma_b1_and_168128, 4, bits_2, bits_1, bits_4) { MMA_S32_21("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc") }
KERNEL89(mma_e4m3_16832_exact, 4, fp8exact_4, fp8exact_2, f32exact_4) { MMA_F32_42("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32") }
KERNEL89(mma_e4m3_16832_near, 4, fp8near_4, fp8near_2, f32normal_4) { MMA_F32_42("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32") }
KERNEL89(mma_e5m2_e4m3_16832, 4, fp8near_4, fp8near_2, f32normal_4) { MMA_F32_42("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32") }

// Half of A is left out: two of four along k are kept, and a word of metadata says which.
#define SPARSE(OP, AT) float d0, d1, d2, d3; asm(OP " {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
    "{%8,%9,%10,%11}, {%12,%13,%14,%15}, %16, " #AT ";" \
    : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) \
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), \
      "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "r"(0x44444444u ^ (t.i & 1 ? 0xaaaa0000u : 0) ^ (t.i & 2 ? 0xaaaau : 0) ^ (t.i & 4 ? 0xddu : 0))); PUT4
KERNEL(mma_sparse_f16_16832, 4, f16exact_4, f16exact_4, f32exact_4) { SPARSE("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", 0x0) }
KERNEL(mma_sparse_bf16_16832, 4, bf16exact_4, bf16exact_4, f32exact_4) { SPARSE("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", 0x1) }

KERNEL(tensor_chain, 4, f16near_4, f16near_4, f32normal_4) {
    // Two products in a row: the first one's result is the second one's C.
    float d0 = c[0], d1 = c[1], d2 = c[2], d3 = c[3];
#pragma unroll
    for (int k = 0; k < 4; k += 2)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
            "{%8,%9}, {%0,%1,%2,%3};" : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[k]), "r"(b[k + 1]));
    PUT4
}

KERNEL(tensor_movmatrix, 3, bits, bits, bits) {
    PUT(U1("movmatrix.sync.aligned.m8n8.trans.b16", a),
        U1("movmatrix.sync.aligned.m8n8.trans.b16", b) + 1,
        U1("movmatrix.sync.aligned.m8n8.trans.b16", a ^ c));
}

// Every lane names a row of 16 bytes, in any order.
#define ROWS                                                                                \
    __shared__ __align__(16) unsigned words[4][4][32];                                      \
    const int warp = threadIdx.x >> 5, lane = t.i & 31;                                     \
    for (int k = 0; k < 4; ++k) words[warp][k][lane] = a[k];                                \
    __syncwarp();                                                                           \
    const unsigned base = (unsigned)__cvta_generic_to_shared(&words[warp][0][0]);           \
    const unsigned row = base + 16 * ((lane * 7 + 3) & 31);

KERNEL(tensor_ldmatrix, 28, bits_4, bits, bits) {
    ROWS
    const unsigned any = base + 16 * (b & 31);
    unsigned r0, r1, r2, r3;
#define LDSM1(OP, AT) asm volatile(OP " {%0}, [%1];" : "=r"(r0) : "r"(AT) : "memory"); put(r0);
#define LDSM2(OP, AT) asm volatile(OP " {%0,%1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(AT) \
    : "memory"); put(r0), put(r1);
#define LDSM4(OP, AT) asm volatile(OP " {%0,%1,%2,%3}, [%4];" \
    : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(AT) : "memory"); put(r0), put(r1), put(r2), put(r3);
    LDSM1("ldmatrix.sync.aligned.m8n8.x1.shared.b16", row)
    LDSM2("ldmatrix.sync.aligned.m8n8.x2.shared.b16", row)
    LDSM4("ldmatrix.sync.aligned.m8n8.x4.shared.b16", row)
    LDSM1("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", row)
    LDSM2("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", row)
    LDSM4("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", row)
    LDSM1("ldmatrix.sync.aligned.m8n8.x1.shared.b16", any)
    LDSM2("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", any)
    LDSM4("ldmatrix.sync.aligned.m8n8.x4.shared.b16", any)
    LDSM4("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", any)
    LDSM1("ldmatrix.sync.aligned.m8n8.x1.shared.b16", base + 16 * (lane & 7))
    LDSM2("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", base + 16 * (lane & 15) + 256)
}

KERNEL90(tensor_stmatrix, 24, bits_4, bits, bits) {
    ROWS
    const auto show = [&] {
        __syncwarp();
        for (int k = 0; k < 4; ++k) put(words[warp][k][lane]);
        __syncwarp();
        for (int k = 0; k < 4; ++k) words[warp][k][lane] = a[k] + c;
        __syncwarp();
    };
#define STSM1(OP) asm volatile(OP " [%0], {%1};" :: "r"(row), "r"(a[0]) : "memory"); show();
#define STSM2(OP) asm volatile(OP " [%0], {%1,%2};" :: "r"(row), "r"(a[0]), "r"(a[1]) \
    : "memory"); show();
#define STSM4(OP) asm volatile(OP " [%0], {%1,%2,%3,%4};" \
    :: "r"(row), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]) : "memory"); show();
    STSM1("stmatrix.sync.aligned.m8n8.x1.shared.b16")
    STSM2("stmatrix.sync.aligned.m8n8.x2.shared.b16")
    STSM4("stmatrix.sync.aligned.m8n8.x4.shared.b16")
    STSM1("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16")
    STSM2("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16")
    STSM4("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16")
}

// The C++ interface: matrices of a warp one behind the other.
template <class T, class Sum, class ALayout, class BLayout, int M, int N, int K, class Part = T>
__device__ __forceinline__ void wmma_product(const Thread& t, int a_stride, int b_stride) {
    using namespace nvcuda::wmma;
    const int warp = t.i >> 5;
    fragment<matrix_a, M, N, K, T, ALayout> fa;
    fragment<matrix_b, M, N, K, T, BLayout> fb;
    fragment<accumulator, M, N, K, Sum> fc;
    load_matrix_sync(fa, (const Part*)t.a + warp * M * K, a_stride);
    load_matrix_sync(fb, (const Part*)t.b + warp * K * N, b_stride);
    load_matrix_sync(fc, (const Sum*)t.c + warp * M * N, N, mem_row_major);
    mma_sync(fc, fa, fb, fc);
    store_matrix_sync((Sum*)t.out + warp * M * N, fc, N, mem_row_major);
}
using nvcuda::wmma::col_major;
using nvcuda::wmma::row_major;

KERNEL(wmma_f16_row_row, 8, f16near_4, f16near_4, f32normal_8) {
    wmma_product<half, float, row_major, row_major, 16, 16, 16>(t, 16, 16);
    put.done();
}
KERNEL(wmma_f16_col_col, 8, f16near_4, f16near_4, f32normal_8) {
    wmma_product<half, float, col_major, col_major, 16, 16, 16>(t, 16, 16);
    put.done();
}
KERNEL(wmma_bf16_row_col, 8, bf16near_4, bf16near_4, f32normal_8) {
    wmma_product<__nv_bfloat16, float, row_major, col_major, 16, 16, 16>(t, 16, 16);
    put.done();
}
KERNEL(wmma_tf32_row_row, 8, f32normal_4, f32normal_4, f32normal_8) {
    wmma_product<nvcuda::wmma::precision::tf32, float, row_major, row_major, 16, 16, 8, float>(t, 8, 16);
    put.done();
}
KERNEL(wmma_f16_f16, 4, f16near_4, f16near_4, f16near_4) {
    using namespace nvcuda::wmma;
    const int warp = t.i >> 5;
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, half> fc;
    load_matrix_sync(fa, (const half*)(t.a + warp * 128), 16);
    load_matrix_sync(fb, (const half*)(t.b + warp * 128), 16);
    load_matrix_sync(fc, (const half*)(t.c + warp * 128), 16, mem_col_major);
    mma_sync(fc, fa, fb, fc);
    mma_sync(fc, fa, fb, fc);
    store_matrix_sync((half*)(t.out + warp * 128), fc, 16, mem_row_major);
    put.done();
}
KERNEL(wmma_s8, 8, bits_2, bits_2, bits_8) {
    wmma_product<signed char, int, row_major, col_major, 16, 16, 16>(t, 16, 16);
    put.done();
}
KERNEL(wmma_f64, 4, f64normal_1, f64normal_1, f64normal_2) {
    wmma_product<double, double, row_major, col_major, 8, 8, 4>(t, 4, 4);
    put.done();
}
