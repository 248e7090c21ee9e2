// Single precision: rounding modes, flushing, saturation, comparisons, what the library makes of
// division and roots. MUFU's own results are in mufu.cu.
#include "fixture.cuh"

KERNEL(f32_add, 22, f32, f32, f32) {
    PUTS(F2, (a, b), "add.rn.f32", "add.rz.f32", "add.rm.f32", "add.rp.f32", "add.rn.ftz.f32",
         "add.rz.ftz.f32", "add.rm.ftz.f32", "add.rp.ftz.f32", "add.rn.sat.f32",
         "add.rn.ftz.sat.f32", "add.rz.sat.f32", "sub.rn.f32", "sub.rz.ftz.f32");
    PUT(F2("sub.rp.f32", b, a), fabsf(a) + b, -fabsf(a) - fabsf(b), -a - b, a + 1.5f, 1e-40f - a,
        a + a, -a, F1("abs.ftz.f32", a));
}

KERNEL(f32_multiply, 18, f32, f32, f32) {
    PUTS(F2, (a, b), "mul.rn.f32", "mul.rz.f32", "mul.rm.f32", "mul.rp.f32", "mul.rn.ftz.f32",
         "mul.rz.ftz.f32", "mul.rm.ftz.f32", "mul.rp.ftz.f32", "mul.rn.sat.f32",
         "mul.rn.ftz.sat.f32");
    PUT(fabsf(a) * -b, a * 3.0f, a * 0.5f, a * 1e-30f * b, a * a * a, -(a * b),
        F2("mul.ftz.f32", a, 0.25f), F1("neg.ftz.f32", a));
}

KERNEL(f32_fma, 22, f32, f32, f32) {
    PUTS(F3, (a, b, c), "fma.rn.f32", "fma.rz.f32", "fma.rm.f32", "fma.rp.f32", "fma.rn.ftz.f32",
         "fma.rz.ftz.f32", "fma.rm.ftz.f32", "fma.rp.ftz.f32", "fma.rn.sat.f32",
         "fma.rn.ftz.sat.f32", "fma.rz.sat.f32");
    PUT(fmaf(-a, b, c), fmaf(a, b, -c), -fmaf(a, b, c), fmaf(a, 2.5f, c), fmaf(a, b, 2.5f),
        fmaf(a, b, -F2("mul.rn.f32", a, b)), a * b - c, c - a * b, fmaf(a, a, a), fmaf(a, 1.0f, b),
        fmaf(fabsf(a), b, c));
}

KERNEL(f32_fma_near, 10, f32near, f32near, f32near) {
    // Cancelling sums: the product must not have been rounded.
    const float p = F2("mul.rn.f32", a, b);
    PUTS(F3, (a, b, -p), "fma.rn.f32", "fma.rz.f32", "fma.rm.f32", "fma.rp.f32");
    PUTS(F3, (a, b, c), "fma.rn.f32", "fma.rz.f32", "fma.rm.f32", "fma.rp.f32");
    PUTS(F3, (a * 1e-19f, b * 1e-19f, c * 1e-38f), "fma.rn.ftz.f32", "fma.rn.f32");
}

KERNEL(f32_minmax, 18, f32, f32, f32) {
    PUTS(F2, (a, b), "min.f32", "max.f32", "min.ftz.f32", "max.ftz.f32", "min.NaN.f32",
         "max.NaN.f32", "min.ftz.NaN.f32", "max.ftz.NaN.f32");
#if __CUDA_ARCH__ >= 860
    PUTS(F2, (a, b), "min.xorsign.abs.f32", "max.xorsign.abs.f32", "max.NaN.xorsign.abs.f32",
         "min.ftz.NaN.xorsign.abs.f32");
#else
    put(0), put(0), put(0), put(0);
#endif
    PUT(fminf(fabsf(a), -b), fmaxf(fmaxf(a, b), c), fminf(fmaxf(a, -1.0f), 6.0f), fmaxf(a, 0.0f));
    PUTS(F1, (a), "cvt.sat.f32.f32", "cvt.ftz.sat.f32.f32");
}

KERNEL100(f32_minmax3, 4, f32, f32, f32) {
    PUTS(F3, (a, b, c), "min.f32", "max.f32", "min.NaN.f32", "max.ftz.NaN.abs.f32");
}

KERNEL(f32_compare, 8, f32, f32, f32) {
    PUT(OPERATORS("f32", "f", a, b), OPERATORS("ftz.f32", "f", a, b),
        OPERATORS("f32", "f", fabsf(a), -b));
    put((a < b && b < c) | (a < b || !(b <= c)) << 1 | (int)((a < b) != (c >= b)) << 2
        | (int)(a != a) << 3 | (int)(a == 0.0f) << 4 | (int)(fabsf(a) < __int_as_float(0x7f800000)) << 5
        | (int)(a > 1.0f) << 6);
    unsigned r;
    asm("{ .reg .pred p, q, s; setp.lt.f32 q, %1, %2; setp.gt.and.ftz.f32 p|s, %2, %3, q; "
        "setp.equ.xor.f32 q, %1, %3, s; setp.leu.or.f32 p, %1, %3, p; "
        "selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; @s add.u32 %0, %0, 4; }"
        : "=r"(r) : "f"(a), "f"(b), "f"(c));
    PUT(r, ASM2(unsigned, "r", "set.lt.u32.f32", "f", a, "f", b),
        ASM2(float, "f", "set.geu.f32.f32", "f", a, "f", b),
        ASM2(float, "f", "set.eq.ftz.f32.f32", "f", a, "f", b));
}

KERNEL(f32_select, 10, f32, f32, f32) {
    PUT(a < b ? a : c, a < b ? -a : c, a > 0 ? b : 0.5f);
    PUTS(F3, (a, b, c), "slct.f32.f32", "slct.ftz.f32.f32");
    PUT(copysignf(a, b), F2("copysign.f32", a, b));
    unsigned all = 0;
#define TESTP(OP, AT) { unsigned r_; asm("{ .reg .pred p; testp." OP ".f32 p, %1; " \
    "selp.u32 %0, 1, 0, p; }" : "=r"(r_) : "f"(a)); all |= r_ << AT; }
    TESTP("finite", 0) TESTP("infinite", 1) TESTP("number", 2) TESTP("notanumber", 3)
    TESTP("normal", 4) TESTP("subnormal", 5)
    PUT(all, signbit(a) ? b : c, isnan(a) ? 1.0f : a);
}

KERNEL(f32_round, 14, f32integer, f32, f32) {
    PUTS(F1, (a), "cvt.rni.f32.f32", "cvt.rzi.f32.f32", "cvt.rmi.f32.f32", "cvt.rpi.f32.f32");
    PUTS(F1, (b), "cvt.rni.ftz.f32.f32", "cvt.rzi.ftz.f32.f32", "cvt.rmi.ftz.f32.f32",
         "cvt.rpi.f32.f32", "cvt.rni.sat.f32.f32");
    PUT(floorf(a) + ceilf(c), roundf(a), truncf(b), rintf(b), a - floorf(a));
}

KERNEL(f32_divide, 14, f32, f32, f32) {
    PUTS(F2, (a, b), "div.rn.f32", "div.rz.f32", "div.rm.f32", "div.rp.f32", "div.rn.ftz.f32",
         "div.rz.ftz.f32");
    PUTS(F1, (a), "rcp.rn.f32", "rcp.rz.f32", "rcp.rp.ftz.f32", "sqrt.rn.f32", "sqrt.rz.f32",
         "sqrt.rm.f32", "sqrt.rp.ftz.f32", "sqrt.rn.ftz.f32");
}

KERNEL(f32_divide_near, 8, f32near, f32near, f32near) {
    PUT(F2("div.rn.f32", a, b), a / 3.0f, 1.0f / a, F2("div.rm.f32", a, b), F2("div.rp.f32", b, c),
        sqrtf(fabsf(a)), F1("rcp.rm.f32", a), fmodf(a, b));
}

KERNEL(f32_scale, 8, f32, f32, small) {
    PUT(ldexpf(a, (int)c - 128), scalbnf(a, (int)c - 100));
    int e;
    PUT(frexpf(a, &e), e, logbf(a), nextafterf(a, b), remainderf(a, b), fdimf(a, b));
}

KERNEL100(f32_pairs, 8, f64, f64, f64) {
    // Two floats in a 64-bit register. The bits of doubles are as good as any.
    const unsigned long long x = __double_as_longlong(a), y = __double_as_longlong(b),
                             z = __double_as_longlong(c);
    PUTS(L2, (x, y), "add.rn.f32x2", "mul.rn.ftz.f32x2");
    PUTS(L3, (x, y, z), "fma.rn.f32x2", "fma.rz.f32x2");
}
