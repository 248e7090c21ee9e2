// Conversions: every pair of types, roundings, flushing, saturation.
#include "fixture.cuh"

// To and from 16-bit types: `OP` converts between a half in the low 16 bits and a wider register.
#define FROM_HALF(T, t, OP, X) [&] { T r_; asm("{ .reg .b16 x, u; mov.b32 {x, u}, %1; " OP \
    " %0, x; }" : "=" t(r_) : "r"(X)); return r_; }()
#define TO_HALF(OP, x, X) [&] { unsigned r_; asm("{ .reg .b16 r; " OP " r, %1; " \
    "mov.b32 %0, {r, 0}; }" : "=r"(r_) : x(X)); return r_; }()
#define HALF_U32(OP, X) FROM_HALF(unsigned, "r", OP, X)
#define HALF_U64(OP, X) FROM_HALF(unsigned long long, "l", OP, X)
#define HALF_F32(OP, X) FROM_HALF(float, "f", OP, X)
#define D_F32(OP, X) ASM1(float, "f", OP, "d", X)
#define F_F64(OP, X) ASM1(double, "d", OP, "f", X)
#define L_U32(OP, X) ASM1(unsigned, "r", OP, "l", X)
#define F_PACK(OP, X, Y) ASM2(unsigned, "r", OP, "f", X, "f", Y)
#define TO_U32(OP, X) ASM1(unsigned, "r", OP, "f", X)
#define TO_U64(OP, X) ASM1(unsigned long long, "l", OP, "f", X)

KERNEL(convert_f32_to_i32, 20, f32integer, f32, f32) {
    PUTS(TO_U32, (a), "cvt.rni.s32.f32", "cvt.rzi.s32.f32", "cvt.rmi.s32.f32", "cvt.rpi.s32.f32",
         "cvt.rni.u32.f32", "cvt.rzi.u32.f32", "cvt.rmi.u32.f32", "cvt.rpi.u32.f32");
    PUTS(TO_U32, (b), "cvt.rni.ftz.s32.f32", "cvt.rzi.ftz.s32.f32", "cvt.rmi.ftz.s32.f32",
         "cvt.rpi.ftz.u32.f32", "cvt.rmi.s32.f32", "cvt.rpi.u32.f32");
    PUTS(TO_HALF, ("f", a), "cvt.rzi.s16.f32", "cvt.rni.u16.f32");
    PUTS(TO_U32, (a), "cvt.rzi.s8.f32", "cvt.rzi.u8.f32");
    PUT((int)-a, (unsigned)fabsf(a));
}

KERNEL(convert_f32_to_i64, 20, f32integer, f32, f32) {
    PUTS(TO_U64, (a), "cvt.rni.s64.f32", "cvt.rzi.s64.f32", "cvt.rmi.s64.f32", "cvt.rpi.s64.f32",
         "cvt.rni.u64.f32", "cvt.rzi.u64.f32", "cvt.rpi.u64.f32");
    PUTS(TO_U64, (b), "cvt.rmi.ftz.s64.f32", "cvt.rzi.ftz.u64.f32", "cvt.rzi.s64.f32");
}

KERNEL(convert_f64_to_int, 26, f64integer, f64, f64) {
#define D32(OP, X) ASM1(unsigned, "r", OP, "d", X)
#define D64(OP, X) ASM1(unsigned long long, "l", OP, "d", X)
    PUTS(D32, (a), "cvt.rni.s32.f64", "cvt.rzi.s32.f64", "cvt.rmi.s32.f64", "cvt.rpi.s32.f64",
         "cvt.rni.u32.f64", "cvt.rzi.u32.f64");
    PUTS(D32, (b), "cvt.rzi.u32.f64", "cvt.rzi.s32.f64");
    PUTS(D64, (a), "cvt.rni.s64.f64", "cvt.rzi.s64.f64", "cvt.rmi.s64.f64", "cvt.rpi.s64.f64",
         "cvt.rzi.u64.f64", "cvt.rpi.u64.f64");
    PUT(D64("cvt.rzi.s64.f64", b), TO_HALF("cvt.rzi.s16.f64", "d", a), D32("cvt.rzi.u8.f64", a),
        D64("cvt.rzi.u64.f64", b));
}

KERNEL(convert_f16_to_int, 14, f16x2, f16x2, f16x2) {
    const unsigned x = a.word;
    PUTS(HALF_U32, (x), "cvt.rni.s32.f16", "cvt.rzi.s32.f16", "cvt.rmi.u32.f16");
    put(HALF_U32("cvt.rpi.s32.f16", x >> 16));
    PUTS(HALF_U64, (x), "cvt.rzi.s64.f16", "cvt.rni.u64.f16");
    PUTS(H1, (x), "cvt.rzi.s16.f16", "cvt.rni.u16.f16");
    PUT(H1("cvt.rmi.s16.f16", x >> 16), HALF_U32("cvt.rzi.s8.f16", x));
    PUTS(H1, (x), "cvt.rni.f16.f16", "cvt.rpi.f16.f16");
}

KERNEL(convert_int_to_f32, 26, bits, bits64, bits) {
#define I32(OP, X) ASM1(float, "f", OP, "r", X)
#define I64(OP, X) ASM1(float, "f", OP, "l", X)
    PUTS(I32, (a), "cvt.rn.f32.s32", "cvt.rz.f32.s32", "cvt.rm.f32.s32", "cvt.rp.f32.s32",
         "cvt.rn.f32.u32", "cvt.rz.f32.u32", "cvt.rm.f32.u32", "cvt.rp.f32.u32");
    PUTS(I64, (b), "cvt.rn.f32.s64", "cvt.rz.f32.s64", "cvt.rm.f32.s64", "cvt.rp.f32.s64",
         "cvt.rn.f32.u64", "cvt.rz.f32.u64", "cvt.rm.f32.u64", "cvt.rp.f32.u64");
    PUT((float)(short)a, (float)(unsigned short)(a >> 16), (float)(signed char)(a >> 8),
        (float)(unsigned char)(a >> 24), (float)(unsigned char)a, (float)(short)(a >> 16),
        (float)-(int)(c), (float)(int)(c & 0xff), I32("cvt.rn.sat.f32.s32", c), (float)(c >> 20));
}

KERNEL(convert_int_to_f64, 26, bits, bits64, bits) {
#define I32D(OP, X) ASM1(double, "d", OP, "r", X)
#define I64D(OP, X) ASM1(double, "d", OP, "l", X)
    PUTS(I32D, (a), "cvt.rn.f64.s32", "cvt.rn.f64.u32");
    PUTS(I64D, (b), "cvt.rn.f64.s64", "cvt.rz.f64.s64", "cvt.rm.f64.s64", "cvt.rp.f64.s64",
         "cvt.rn.f64.u64", "cvt.rz.f64.u64", "cvt.rm.f64.u64", "cvt.rp.f64.u64");
    PUT((double)(short)a, (double)(unsigned char)(a >> 24), (double)(signed char)(a >> 8));
}

KERNEL(convert_int_to_f16, 17, bits, bits64, small) {
    PUTS(TO_HALF, ("r", a), "cvt.rn.f16.s32", "cvt.rz.f16.s32", "cvt.rn.f16.u32", "cvt.rp.f16.u32",
         "cvt.rm.f16.s32");
    PUTS(TO_HALF, ("r", c * 331), "cvt.rn.f16.s32", "cvt.rz.f16.u32");
    PUTS(TO_HALF, ("l", b), "cvt.rn.f16.s64", "cvt.rz.f16.u64");
    put(TO_HALF("cvt.rn.f16.u64", "l", b >> 50));
    PUTS(H1, (a), "cvt.rn.f16.s16", "cvt.rn.f16.u16", "cvt.rz.f16.s16");
    PUT(H1("cvt.rp.f16.u16", a >> 16), TO_HALF("cvt.rn.f16.s8", "r", a),
        TO_HALF("cvt.rn.f16.u8", "r", a >> 8),
        TO_HALF("cvt.rn.f16.s32", "r", (unsigned)(int)(short)a));
}

KERNEL90(convert_int_to_bf16, 10, bits, bits64, small) {
    PUTS(TO_HALF, ("r", a), "cvt.rn.bf16.s32", "cvt.rz.bf16.u32", "cvt.rm.bf16.s32");
    put(TO_HALF("cvt.rn.bf16.s64", "l", b));
    PUTS(H1, (a), "cvt.rn.bf16.s16", "cvt.rz.bf16.u16", "cvt.rzi.s16.bf16", "cvt.rni.u16.bf16");
    PUTS(HALF_U32, (a), "cvt.rzi.s32.bf16", "cvt.rpi.u32.bf16");
}

KERNEL(convert_f32_to_f16, 24, f32, f32, f32near) {
    PUTS(TO_HALF, ("f", a), "cvt.rn.f16.f32", "cvt.rz.f16.f32", "cvt.rm.f16.f32", "cvt.rp.f16.f32",
         "cvt.rn.sat.f16.f32", "cvt.rn.ftz.f16.f32", "cvt.rn.relu.f16.f32", "cvt.rz.relu.f16.f32");
    PUTS(F_PACK, (a, b), "cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", "cvt.rn.relu.f16x2.f32");
    PUTS(TO_HALF, ("f", a), "cvt.rn.bf16.f32", "cvt.rz.bf16.f32", "cvt.rn.relu.bf16.f32");
    PUTS(F_PACK, (a, b), "cvt.rn.bf16x2.f32", "cvt.rz.relu.bf16x2.f32");
    put(TO_U32("cvt.rna.tf32.f32", a));
    // Around the smallest halves: where rounding meets denormals.
    const float d = c * 1e-7f, e = c * 3e-5f, f = c * 3e4f;
    PUTS(TO_HALF, ("f", d), "cvt.rn.f16.f32", "cvt.rz.f16.f32", "cvt.rp.f16.f32");
    PUTS(TO_HALF, ("f", e), "cvt.rn.f16.f32", "cvt.rm.f16.f32");
    PUT(TO_HALF("cvt.rn.f16.f32", "f", f), TO_HALF("cvt.rn.bf16.f32", "f", c));
}

KERNEL90(convert_f32_to_tf32, 5, f32, f32, f32) {
    PUTS(TO_U32, (a), "cvt.rn.tf32.f32", "cvt.rz.tf32.f32", "cvt.rn.relu.tf32.f32",
         "cvt.rna.tf32.f32");
    put(TO_U32("cvt.rz.relu.tf32.f32", b));
}

KERNEL(convert_f16_to_float, 12, f16x2, bf16x2, f16x2) {
    const unsigned x = a.word;
    PUT(HALF_F32("cvt.f32.f16", x), HALF_F32("cvt.f32.f16", x >> 16));
    PUTS(HALF_F32, (x), "cvt.ftz.f32.f16", "cvt.sat.f32.f16");
    PUT(FROM_HALF(double, "d", "cvt.f64.f16", x), H1("cvt.sat.f16.f16", x),
        __uint_as_float(b.word << 16) + __uint_as_float(b.word & 0xffff0000u));
#if __CUDA_ARCH__ >= 900
    put(HALF_F32("cvt.f32.bf16", b.word));
#else
    put(__uint_as_float(b.word << 16));
#endif
    put(fmaf(HALF_F32("cvt.f32.f16", x), 2.0f,
             HALF_F32("cvt.f32.f16", c.word)));
    PUT(fabsf(HALF_F32("cvt.f32.f16", x)), -HALF_F32("cvt.f32.f16", x >> 16));
}

KERNEL(convert_f64, 24, f64, f32, f32near) {
    PUTS(D_F32, (a), "cvt.rn.f32.f64", "cvt.rz.f32.f64", "cvt.rm.f32.f64", "cvt.rp.f32.f64",
         "cvt.rn.ftz.f32.f64", "cvt.rn.sat.f32.f64");
    PUTS(TO_HALF, ("d", a), "cvt.rn.f16.f64", "cvt.rz.f16.f64");
    PUTS(F_F64, (b), "cvt.f64.f32", "cvt.ftz.f64.f32", "cvt.sat.f64.f32");
    const double x = c * 0.1, y = c * 0.1e-38, z = c * 0.1e38, w = c * 0.1e-5;
    PUTS(D_F32, (x), "cvt.rn.f32.f64", "cvt.rp.f32.f64");
    PUTS(D_F32, (y), "cvt.rn.f32.f64", "cvt.rz.f32.f64");
    PUT(D_F32("cvt.rm.f32.f64", z), TO_HALF("cvt.rn.f16.f64", "d", x));
    PUTS(TO_HALF, ("d", w), "cvt.rn.f16.f64", "cvt.rp.f16.f64");
    PUT((float)x + 1.0f, (float)-a);
}

KERNEL(convert_int_to_int, 22, bits, bits64, bits) {
    PUTS(U1, (a), "cvt.sat.s8.s32", "cvt.sat.u8.s32", "cvt.sat.s8.u32", "cvt.sat.u8.u32");
    PUTS(TO_HALF, ("r", a), "cvt.sat.s16.s32", "cvt.sat.u16.s32", "cvt.sat.u16.u32");
    PUTS(U1, (a), "cvt.sat.u32.s32", "cvt.sat.s32.u32");
    PUTS(L_U32, (b), "cvt.sat.s32.s64", "cvt.sat.u32.s64", "cvt.sat.u8.s64");
    PUTS(U1, (a), "cvt.s32.s8", "cvt.s32.s16", "cvt.u32.u8");
    PUT((long long)(int)a, (unsigned long long)c);
    PUTS(U2, (a, c), "cvt.pack.sat.s16.s32", "cvt.pack.sat.u16.s32");
    put(U3("cvt.pack.sat.s8.s32.b32", a, c, (unsigned)b));
}

KERNEL(convert_pack, 6, integer, integer, bits) {
    PUT(U2("cvt.pack.sat.s16.s32", a * 7, b * 5), U2("cvt.pack.sat.u16.s32", a, b * 9));
    PUTS(U3, (a, b, c), "cvt.pack.sat.s8.s32.b32", "cvt.pack.sat.u8.s32.b32");
    PUTS(U3, (a >> 8, b >> 8, c), "cvt.pack.sat.s4.s32.b32", "cvt.pack.sat.u4.s32.b32");
}

// Eight-bit floats, in pairs.
#define TO_FP8(OP, X, Y) [&] { unsigned r_; asm("{ .reg .b16 r; " OP " r, %1, %2; " \
    "mov.b32 %0, {r, 0}; }" : "=r"(r_) : "f"(X), "f"(Y)); return r_; }()
#define PAIR_TO_FP8(OP, X) [&] { unsigned r_; asm("{ .reg .b16 r; " OP " r, %1; " \
    "mov.b32 %0, {r, 0}; }" : "=r"(r_) : "r"(X)); return r_; }()

KERNEL89(convert_fp8, 12, f32, f32near, f16x2) {
    PUTS(TO_FP8, (a, b), "cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.satfinite.e5m2x2.f32");
    PUT(TO_FP8("cvt.rn.satfinite.relu.e4m3x2.f32", b, a),
        TO_FP8("cvt.rn.satfinite.e4m3x2.f32", b * 200.0f, b * 0.01f),
        TO_FP8("cvt.rn.satfinite.e5m2x2.f32", b * 3e4f, b * 1e-5f));
    PUTS(PAIR_TO_FP8, (c.word), "cvt.rn.satfinite.e4m3x2.f16x2", "cvt.rn.satfinite.e5m2x2.f16x2",
         "cvt.rn.satfinite.relu.e5m2x2.f16x2");
    PUTS(HALF_U32, (c.word), "cvt.rn.f16x2.e4m3x2", "cvt.rn.f16x2.e5m2x2");
    PUTS(HALF_U32, (c.word >> 16), "cvt.rn.relu.f16x2.e4m3x2", "cvt.rn.relu.f16x2.e5m2x2");
}
