// Conversions: every pair of types, roundings, flushing, saturation.
#include "fixture.cuh"

// To and from 16-bit types: `OP` converts between a half in the low 16 bits and a wider register.
#define FROM_HALF(T, t, OP, X) [&] { T r_; asm("{ .reg .b16 x, u; mov.b32 {x, u}, %1; " OP \
    " %0, x; }" : "=" t(r_) : "r"(X)); return r_; }()
#define TO_HALF(OP, x, X) [&] { unsigned r_; asm("{ .reg .b16 r; " OP " r, %1; " \
    "mov.b32 %0, {r, 0}; }" : "=r"(r_) : x(X)); return r_; }()
#define TO_U32(OP, X) ASM1(unsigned, "r", OP, "f", X)
#define TO_U64(OP, X) ASM1(unsigned long long, "l", OP, "f", X)

KERNEL(convert_f32_to_i32, 20, f32integer, f32, f32) {
    put(TO_U32("cvt.rni.s32.f32", a));
    put(TO_U32("cvt.rzi.s32.f32", a));
    put(TO_U32("cvt.rmi.s32.f32", a));
    put(TO_U32("cvt.rpi.s32.f32", a));
    put(TO_U32("cvt.rni.u32.f32", a));
    put(TO_U32("cvt.rzi.u32.f32", a));
    put(TO_U32("cvt.rmi.u32.f32", a));
    put(TO_U32("cvt.rpi.u32.f32", a));
    put(TO_U32("cvt.rni.ftz.s32.f32", b));
    put(TO_U32("cvt.rzi.ftz.s32.f32", b));
    put(TO_U32("cvt.rmi.ftz.s32.f32", b));
    put(TO_U32("cvt.rpi.ftz.u32.f32", b));
    put(TO_U32("cvt.rmi.s32.f32", b));
    put(TO_U32("cvt.rpi.u32.f32", b));
    put(TO_HALF("cvt.rzi.s16.f32", "f", a));
    put(TO_HALF("cvt.rni.u16.f32", "f", a));
    put(TO_U32("cvt.rzi.s8.f32", a));
    put(TO_U32("cvt.rzi.u8.f32", a));
    put((int)-a);
    put((unsigned)fabsf(a));
}

KERNEL(convert_f32_to_i64, 20, f32integer, f32, f32) {
    put(TO_U64("cvt.rni.s64.f32", a));
    put(TO_U64("cvt.rzi.s64.f32", a));
    put(TO_U64("cvt.rmi.s64.f32", a));
    put(TO_U64("cvt.rpi.s64.f32", a));
    put(TO_U64("cvt.rni.u64.f32", a));
    put(TO_U64("cvt.rzi.u64.f32", a));
    put(TO_U64("cvt.rpi.u64.f32", a));
    put(TO_U64("cvt.rmi.ftz.s64.f32", b));
    put(TO_U64("cvt.rzi.ftz.u64.f32", b));
    put(TO_U64("cvt.rzi.s64.f32", b));
}

KERNEL(convert_f64_to_int, 26, f64integer, f64, f64) {
#define D32(OP, X) ASM1(unsigned, "r", OP, "d", X)
#define D64(OP, X) ASM1(unsigned long long, "l", OP, "d", X)
    put(D32("cvt.rni.s32.f64", a));
    put(D32("cvt.rzi.s32.f64", a));
    put(D32("cvt.rmi.s32.f64", a));
    put(D32("cvt.rpi.s32.f64", a));
    put(D32("cvt.rni.u32.f64", a));
    put(D32("cvt.rzi.u32.f64", a));
    put(D32("cvt.rzi.u32.f64", b));
    put(D32("cvt.rzi.s32.f64", b));
    put(D64("cvt.rni.s64.f64", a));
    put(D64("cvt.rzi.s64.f64", a));
    put(D64("cvt.rmi.s64.f64", a));
    put(D64("cvt.rpi.s64.f64", a));
    put(D64("cvt.rzi.u64.f64", a));
    put(D64("cvt.rpi.u64.f64", a));
    put(D64("cvt.rzi.s64.f64", b));
    put(TO_HALF("cvt.rzi.s16.f64", "d", a));
    put(D32("cvt.rzi.u8.f64", a));
    put(D64("cvt.rzi.u64.f64", b));
}

KERNEL(convert_f16_to_int, 14, f16x2, f16x2, f16x2) {
    const unsigned x = a.word;
    put(FROM_HALF(unsigned, "r", "cvt.rni.s32.f16", x));
    put(FROM_HALF(unsigned, "r", "cvt.rzi.s32.f16", x));
    put(FROM_HALF(unsigned, "r", "cvt.rmi.u32.f16", x));
    put(FROM_HALF(unsigned, "r", "cvt.rpi.s32.f16", x >> 16));
    put(FROM_HALF(unsigned long long, "l", "cvt.rzi.s64.f16", x));
    put(FROM_HALF(unsigned long long, "l", "cvt.rni.u64.f16", x));
    put(H1("cvt.rzi.s16.f16", x));
    put(H1("cvt.rni.u16.f16", x));
    put(H1("cvt.rmi.s16.f16", x >> 16));
    put(FROM_HALF(unsigned, "r", "cvt.rzi.s8.f16", x));
    put(H1("cvt.rni.f16.f16", x));
    put(H1("cvt.rpi.f16.f16", x));
}

KERNEL(convert_int_to_f32, 26, bits, bits64, bits) {
#define I32(OP, X) ASM1(float, "f", OP, "r", X)
#define I64(OP, X) ASM1(float, "f", OP, "l", X)
    put(I32("cvt.rn.f32.s32", a));
    put(I32("cvt.rz.f32.s32", a));
    put(I32("cvt.rm.f32.s32", a));
    put(I32("cvt.rp.f32.s32", a));
    put(I32("cvt.rn.f32.u32", a));
    put(I32("cvt.rz.f32.u32", a));
    put(I32("cvt.rm.f32.u32", a));
    put(I32("cvt.rp.f32.u32", a));
    put(I64("cvt.rn.f32.s64", b));
    put(I64("cvt.rz.f32.s64", b));
    put(I64("cvt.rm.f32.s64", b));
    put(I64("cvt.rp.f32.s64", b));
    put(I64("cvt.rn.f32.u64", b));
    put(I64("cvt.rz.f32.u64", b));
    put(I64("cvt.rm.f32.u64", b));
    put(I64("cvt.rp.f32.u64", b));
    put((float)(short)a);
    put((float)(unsigned short)(a >> 16));
    put((float)(signed char)(a >> 8));
    put((float)(unsigned char)(a >> 24));
    put((float)(unsigned char)a);
    put((float)(short)(a >> 16));
    put((float)-(int)(c));
    put((float)(int)(c & 0xff));
    put(I32("cvt.rn.sat.f32.s32", c));
    put((float)(c >> 20));
}

KERNEL(convert_int_to_f64, 26, bits, bits64, bits) {
#define I32D(OP, X) ASM1(double, "d", OP, "r", X)
#define I64D(OP, X) ASM1(double, "d", OP, "l", X)
    put(I32D("cvt.rn.f64.s32", a));
    put(I32D("cvt.rn.f64.u32", a));
    put(I64D("cvt.rn.f64.s64", b));
    put(I64D("cvt.rz.f64.s64", b));
    put(I64D("cvt.rm.f64.s64", b));
    put(I64D("cvt.rp.f64.s64", b));
    put(I64D("cvt.rn.f64.u64", b));
    put(I64D("cvt.rz.f64.u64", b));
    put(I64D("cvt.rm.f64.u64", b));
    put(I64D("cvt.rp.f64.u64", b));
    put((double)(short)a);
    put((double)(unsigned char)(a >> 24));
    put((double)(signed char)(a >> 8));
}

KERNEL(convert_int_to_f16, 17, bits, bits64, small) {
    put(TO_HALF("cvt.rn.f16.s32", "r", a));
    put(TO_HALF("cvt.rz.f16.s32", "r", a));
    put(TO_HALF("cvt.rn.f16.u32", "r", a));
    put(TO_HALF("cvt.rp.f16.u32", "r", a));
    put(TO_HALF("cvt.rm.f16.s32", "r", a));
    put(TO_HALF("cvt.rn.f16.s32", "r", c * 331));
    put(TO_HALF("cvt.rz.f16.u32", "r", c * 331));
    put(TO_HALF("cvt.rn.f16.s64", "l", b));
    put(TO_HALF("cvt.rz.f16.u64", "l", b));
    put(TO_HALF("cvt.rn.f16.u64", "l", b >> 50));
    put(H1("cvt.rn.f16.s16", a));
    put(H1("cvt.rn.f16.u16", a));
    put(H1("cvt.rz.f16.s16", a));
    put(H1("cvt.rp.f16.u16", a >> 16));
    put(TO_HALF("cvt.rn.f16.s8", "r", a));
    put(TO_HALF("cvt.rn.f16.u8", "r", a >> 8));
    put(TO_HALF("cvt.rn.f16.s32", "r", (unsigned)(int)(short)a));
}

KERNEL90(convert_int_to_bf16, 10, bits, bits64, small) {
    put(TO_HALF("cvt.rn.bf16.s32", "r", a));
    put(TO_HALF("cvt.rz.bf16.u32", "r", a));
    put(TO_HALF("cvt.rm.bf16.s32", "r", a));
    put(TO_HALF("cvt.rn.bf16.s64", "l", b));
    put(H1("cvt.rn.bf16.s16", a));
    put(H1("cvt.rz.bf16.u16", a));
    put(H1("cvt.rzi.s16.bf16", a));
    put(H1("cvt.rni.u16.bf16", a));
    put(FROM_HALF(unsigned, "r", "cvt.rzi.s32.bf16", a));
    put(FROM_HALF(unsigned, "r", "cvt.rpi.u32.bf16", a));
}

KERNEL(convert_f32_to_f16, 24, f32, f32, f32near) {
    put(TO_HALF("cvt.rn.f16.f32", "f", a));
    put(TO_HALF("cvt.rz.f16.f32", "f", a));
    put(TO_HALF("cvt.rm.f16.f32", "f", a));
    put(TO_HALF("cvt.rp.f16.f32", "f", a));
    put(TO_HALF("cvt.rn.sat.f16.f32", "f", a));
    put(TO_HALF("cvt.rn.ftz.f16.f32", "f", a));
    put(TO_HALF("cvt.rn.relu.f16.f32", "f", a));
    put(TO_HALF("cvt.rz.relu.f16.f32", "f", a));
    put(ASM2(unsigned, "r", "cvt.rn.f16x2.f32", "f", a, "f", b));
    put(ASM2(unsigned, "r", "cvt.rz.f16x2.f32", "f", a, "f", b));
    put(ASM2(unsigned, "r", "cvt.rn.relu.f16x2.f32", "f", a, "f", b));
    put(TO_HALF("cvt.rn.bf16.f32", "f", a));
    put(TO_HALF("cvt.rz.bf16.f32", "f", a));
    put(TO_HALF("cvt.rn.relu.bf16.f32", "f", a));
    put(ASM2(unsigned, "r", "cvt.rn.bf16x2.f32", "f", a, "f", b));
    put(ASM2(unsigned, "r", "cvt.rz.relu.bf16x2.f32", "f", a, "f", b));
    put(TO_U32("cvt.rna.tf32.f32", a));
    // Around the smallest halves: where rounding meets denormals.
    const float d = c * 1e-7f, e = c * 3e-5f, f = c * 3e4f;
    put(TO_HALF("cvt.rn.f16.f32", "f", d));
    put(TO_HALF("cvt.rz.f16.f32", "f", d));
    put(TO_HALF("cvt.rp.f16.f32", "f", d));
    put(TO_HALF("cvt.rn.f16.f32", "f", e));
    put(TO_HALF("cvt.rm.f16.f32", "f", e));
    put(TO_HALF("cvt.rn.f16.f32", "f", f));
    put(TO_HALF("cvt.rn.bf16.f32", "f", c));
}

KERNEL90(convert_f32_to_tf32, 5, f32, f32, f32) {
    put(TO_U32("cvt.rn.tf32.f32", a));
    put(TO_U32("cvt.rz.tf32.f32", a));
    put(TO_U32("cvt.rn.relu.tf32.f32", a));
    put(TO_U32("cvt.rna.tf32.f32", a));
    put(TO_U32("cvt.rz.relu.tf32.f32", b));
}

KERNEL(convert_f16_to_float, 12, f16x2, bf16x2, f16x2) {
    const unsigned x = a.word;
    put(FROM_HALF(float, "f", "cvt.f32.f16", x));
    put(FROM_HALF(float, "f", "cvt.f32.f16", x >> 16));
    put(FROM_HALF(float, "f", "cvt.ftz.f32.f16", x));
    put(FROM_HALF(float, "f", "cvt.sat.f32.f16", x));
    put(FROM_HALF(double, "d", "cvt.f64.f16", x));
    put(H1("cvt.sat.f16.f16", x));
    put(__uint_as_float(b.word << 16) + __uint_as_float(b.word & 0xffff0000u));
#if __CUDA_ARCH__ >= 900
    put(FROM_HALF(float, "f", "cvt.f32.bf16", b.word));
#else
    put(__uint_as_float(b.word << 16));
#endif
    put(fmaf(FROM_HALF(float, "f", "cvt.f32.f16", x), 2.0f,
             FROM_HALF(float, "f", "cvt.f32.f16", c.word)));
    put(fabsf(FROM_HALF(float, "f", "cvt.f32.f16", x)));
    put(-FROM_HALF(float, "f", "cvt.f32.f16", x >> 16));
}

KERNEL(convert_f64, 24, f64, f32, f32near) {
    put(ASM1(float, "f", "cvt.rn.f32.f64", "d", a));
    put(ASM1(float, "f", "cvt.rz.f32.f64", "d", a));
    put(ASM1(float, "f", "cvt.rm.f32.f64", "d", a));
    put(ASM1(float, "f", "cvt.rp.f32.f64", "d", a));
    put(ASM1(float, "f", "cvt.rn.ftz.f32.f64", "d", a));
    put(ASM1(float, "f", "cvt.rn.sat.f32.f64", "d", a));
    put(TO_HALF("cvt.rn.f16.f64", "d", a));
    put(TO_HALF("cvt.rz.f16.f64", "d", a));
    put(ASM1(double, "d", "cvt.f64.f32", "f", b));
    put(ASM1(double, "d", "cvt.ftz.f64.f32", "f", b));
    put(ASM1(double, "d", "cvt.sat.f64.f32", "f", b));
    const double x = c * 0.1, y = c * 0.1e-38, z = c * 0.1e38, w = c * 0.1e-5;
    put(ASM1(float, "f", "cvt.rn.f32.f64", "d", x));
    put(ASM1(float, "f", "cvt.rp.f32.f64", "d", x));
    put(ASM1(float, "f", "cvt.rn.f32.f64", "d", y));
    put(ASM1(float, "f", "cvt.rz.f32.f64", "d", y));
    put(ASM1(float, "f", "cvt.rm.f32.f64", "d", z));
    put(TO_HALF("cvt.rn.f16.f64", "d", x));
    put(TO_HALF("cvt.rn.f16.f64", "d", w));
    put(TO_HALF("cvt.rp.f16.f64", "d", w));
    put((float)x + 1.0f);
    put((float)-a);
}

KERNEL(convert_int_to_int, 22, bits, bits64, bits) {
    put(U1("cvt.sat.s8.s32", a));
    put(U1("cvt.sat.u8.s32", a));
    put(U1("cvt.sat.s8.u32", a));
    put(U1("cvt.sat.u8.u32", a));
    put(TO_HALF("cvt.sat.s16.s32", "r", a));
    put(TO_HALF("cvt.sat.u16.s32", "r", a));
    put(TO_HALF("cvt.sat.u16.u32", "r", a));
    put(U1("cvt.sat.u32.s32", a));
    put(U1("cvt.sat.s32.u32", a));
    put(ASM1(unsigned, "r", "cvt.sat.s32.s64", "l", b));
    put(ASM1(unsigned, "r", "cvt.sat.u32.s64", "l", b));
    put(ASM1(unsigned, "r", "cvt.sat.u8.s64", "l", b));
    put(U1("cvt.s32.s8", a));
    put(U1("cvt.s32.s16", a));
    put(U1("cvt.u32.u8", a));
    put((long long)(int)a);
    put((unsigned long long)c);
    put(U2("cvt.pack.sat.s16.s32", a, c));
    put(U2("cvt.pack.sat.u16.s32", a, c));
    put(U3("cvt.pack.sat.s8.s32.b32", a, c, (unsigned)b));
}

KERNEL(convert_pack, 6, integer, integer, bits) {
    put(ASM2(unsigned, "r", "cvt.pack.sat.s16.s32", "r", a * 7, "r", b * 5));
    put(ASM2(unsigned, "r", "cvt.pack.sat.u16.s32", "r", a, "r", b * 9));
    put(ASM3(unsigned, "r", "cvt.pack.sat.s8.s32.b32", "r", a, "r", b, "r", c));
    put(ASM3(unsigned, "r", "cvt.pack.sat.u8.s32.b32", "r", a, "r", b, "r", c));
    put(ASM3(unsigned, "r", "cvt.pack.sat.s4.s32.b32", "r", a >> 8, "r", b >> 8, "r", c));
    put(ASM3(unsigned, "r", "cvt.pack.sat.u4.s32.b32", "r", a >> 8, "r", b >> 8, "r", c));
}

// Eight-bit floats, in pairs.
#define TO_FP8(OP, X, Y) [&] { unsigned r_; asm("{ .reg .b16 r; " OP " r, %1, %2; " \
    "mov.b32 %0, {r, 0}; }" : "=r"(r_) : "f"(X), "f"(Y)); return r_; }()
#define PAIR_TO_FP8(OP, X) [&] { unsigned r_; asm("{ .reg .b16 r; " OP " r, %1; " \
    "mov.b32 %0, {r, 0}; }" : "=r"(r_) : "r"(X)); return r_; }()

KERNEL89(convert_fp8, 12, f32, f32near, f16x2) {
    put(TO_FP8("cvt.rn.satfinite.e4m3x2.f32", a, b));
    put(TO_FP8("cvt.rn.satfinite.e5m2x2.f32", a, b));
    put(TO_FP8("cvt.rn.satfinite.relu.e4m3x2.f32", b, a));
    put(TO_FP8("cvt.rn.satfinite.e4m3x2.f32", b * 200.0f, b * 0.01f));
    put(TO_FP8("cvt.rn.satfinite.e5m2x2.f32", b * 3e4f, b * 1e-5f));
    put(PAIR_TO_FP8("cvt.rn.satfinite.e4m3x2.f16x2", c.word));
    put(PAIR_TO_FP8("cvt.rn.satfinite.e5m2x2.f16x2", c.word));
    put(PAIR_TO_FP8("cvt.rn.satfinite.relu.e5m2x2.f16x2", c.word));
    put(FROM_HALF(unsigned, "r", "cvt.rn.f16x2.e4m3x2", c.word));
    put(FROM_HALF(unsigned, "r", "cvt.rn.f16x2.e5m2x2", c.word));
    put(FROM_HALF(unsigned, "r", "cvt.rn.relu.f16x2.e4m3x2", c.word >> 16));
    put(FROM_HALF(unsigned, "r", "cvt.rn.relu.f16x2.e5m2x2", c.word >> 16));
}
