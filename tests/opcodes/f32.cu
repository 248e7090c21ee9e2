// Single precision: rounding modes, flushing, saturation, comparisons, what the library makes of
// division and roots. MUFU's own results are in mufu.cu.
#include "fixture.cuh"

KERNEL(f32_add, 22, f32, f32, f32) {
    put(F2("add.rn.f32", a, b));
    put(F2("add.rz.f32", a, b));
    put(F2("add.rm.f32", a, b));
    put(F2("add.rp.f32", a, b));
    put(F2("add.rn.ftz.f32", a, b));
    put(F2("add.rz.ftz.f32", a, b));
    put(F2("add.rm.ftz.f32", a, b));
    put(F2("add.rp.ftz.f32", a, b));
    put(F2("add.rn.sat.f32", a, b));
    put(F2("add.rn.ftz.sat.f32", a, b));
    put(F2("add.rz.sat.f32", a, b));
    put(F2("sub.rn.f32", a, b));
    put(F2("sub.rz.ftz.f32", a, b));
    put(F2("sub.rp.f32", b, a));
    put(fabsf(a) + b);
    put(-fabsf(a) - fabsf(b));
    put(-a - b);
    put(a + 1.5f);
    put(1e-40f - a);
    put(a + a);
    put(-a);
    put(F1("abs.ftz.f32", a));
}

KERNEL(f32_multiply, 18, f32, f32, f32) {
    put(F2("mul.rn.f32", a, b));
    put(F2("mul.rz.f32", a, b));
    put(F2("mul.rm.f32", a, b));
    put(F2("mul.rp.f32", a, b));
    put(F2("mul.rn.ftz.f32", a, b));
    put(F2("mul.rz.ftz.f32", a, b));
    put(F2("mul.rm.ftz.f32", a, b));
    put(F2("mul.rp.ftz.f32", a, b));
    put(F2("mul.rn.sat.f32", a, b));
    put(F2("mul.rn.ftz.sat.f32", a, b));
    put(fabsf(a) * -b);
    put(a * 3.0f);
    put(a * 0.5f);
    put(a * 1e-30f * b);
    put(a * a * a);
    put(-(a * b));
    put(F2("mul.ftz.f32", a, 0.25f));
    put(F1("neg.ftz.f32", a));
}

KERNEL(f32_fma, 22, f32, f32, f32) {
    put(F3("fma.rn.f32", a, b, c));
    put(F3("fma.rz.f32", a, b, c));
    put(F3("fma.rm.f32", a, b, c));
    put(F3("fma.rp.f32", a, b, c));
    put(F3("fma.rn.ftz.f32", a, b, c));
    put(F3("fma.rz.ftz.f32", a, b, c));
    put(F3("fma.rm.ftz.f32", a, b, c));
    put(F3("fma.rp.ftz.f32", a, b, c));
    put(F3("fma.rn.sat.f32", a, b, c));
    put(F3("fma.rn.ftz.sat.f32", a, b, c));
    put(F3("fma.rz.sat.f32", a, b, c));
    put(fmaf(-a, b, c));
    put(fmaf(a, b, -c));
    put(-fmaf(a, b, c));
    put(fmaf(a, 2.5f, c));
    put(fmaf(a, b, 2.5f));
    put(fmaf(a, b, -F2("mul.rn.f32", a, b)));
    put(a * b - c);
    put(c - a * b);
    put(fmaf(a, a, a));
    put(fmaf(a, 1.0f, b));
    put(fmaf(fabsf(a), b, c));
}

KERNEL(f32_fma_near, 10, f32near, f32near, f32near) {
    // Cancelling sums: the product must not have been rounded.
    const float p = F2("mul.rn.f32", a, b);
    put(F3("fma.rn.f32", a, b, -p));
    put(F3("fma.rz.f32", a, b, -p));
    put(F3("fma.rm.f32", a, b, -p));
    put(F3("fma.rp.f32", a, b, -p));
    put(F3("fma.rn.f32", a, b, c));
    put(F3("fma.rz.f32", a, b, c));
    put(F3("fma.rm.f32", a, b, c));
    put(F3("fma.rp.f32", a, b, c));
    put(F3("fma.rn.ftz.f32", a * 1e-19f, b * 1e-19f, c * 1e-38f));
    put(F3("fma.rn.f32", a * 1e-19f, b * 1e-19f, c * 1e-38f));
}

KERNEL(f32_minmax, 18, f32, f32, f32) {
    put(F2("min.f32", a, b));
    put(F2("max.f32", a, b));
    put(F2("min.ftz.f32", a, b));
    put(F2("max.ftz.f32", a, b));
    put(F2("min.NaN.f32", a, b));
    put(F2("max.NaN.f32", a, b));
    put(F2("min.ftz.NaN.f32", a, b));
    put(F2("max.ftz.NaN.f32", a, b));
#if __CUDA_ARCH__ >= 860
    put(F2("min.xorsign.abs.f32", a, b));
    put(F2("max.xorsign.abs.f32", a, b));
    put(F2("max.NaN.xorsign.abs.f32", a, b));
    put(F2("min.ftz.NaN.xorsign.abs.f32", a, b));
#else
    put(0), put(0), put(0), put(0);
#endif
    put(fminf(fabsf(a), -b));
    put(fmaxf(fmaxf(a, b), c));
    put(fminf(fmaxf(a, -1.0f), 6.0f));
    put(fmaxf(a, 0.0f));
    put(F1("cvt.sat.f32.f32", a));
    put(F1("cvt.ftz.sat.f32.f32", a));
}

KERNEL100(f32_minmax3, 4, f32, f32, f32) {
    put(F3("min.f32", a, b, c));
    put(F3("max.f32", a, b, c));
    put(F3("min.NaN.f32", a, b, c));
    put(F3("max.ftz.NaN.abs.f32", a, b, c));
}

#define OPERATORS(TYPE, x, X, Y)                                                                 \
    (SETP("eq." TYPE, x, X, Y) | SETP("ne." TYPE, x, X, Y) << 1 | SETP("lt." TYPE, x, X, Y) << 2 \
     | SETP("le." TYPE, x, X, Y) << 3 | SETP("gt." TYPE, x, X, Y) << 4                           \
     | SETP("ge." TYPE, x, X, Y) << 5 | SETP("equ." TYPE, x, X, Y) << 6                          \
     | SETP("neu." TYPE, x, X, Y) << 7 | SETP("ltu." TYPE, x, X, Y) << 8                         \
     | SETP("leu." TYPE, x, X, Y) << 9 | SETP("gtu." TYPE, x, X, Y) << 10                        \
     | SETP("geu." TYPE, x, X, Y) << 11 | SETP("num." TYPE, x, X, Y) << 12                       \
     | SETP("nan." TYPE, x, X, Y) << 13)

KERNEL(f32_compare, 8, f32, f32, f32) {
    put(OPERATORS("f32", "f", a, b));
    put(OPERATORS("ftz.f32", "f", a, b));
    put(OPERATORS("f32", "f", fabsf(a), -b));
    put((a < b && b < c) | (a < b || !(b <= c)) << 1 | (int)((a < b) != (c >= b)) << 2
        | (int)(a != a) << 3 | (int)(a == 0.0f) << 4 | (int)(fabsf(a) < __int_as_float(0x7f800000)) << 5
        | (int)(a > 1.0f) << 6);
    unsigned r;
    asm("{ .reg .pred p, q, s; setp.lt.f32 q, %1, %2; setp.gt.and.ftz.f32 p|s, %2, %3, q; "
        "setp.equ.xor.f32 q, %1, %3, s; setp.leu.or.f32 p, %1, %3, p; "
        "selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; @s add.u32 %0, %0, 4; }"
        : "=r"(r) : "f"(a), "f"(b), "f"(c));
    put(r);
    put(ASM2(unsigned, "r", "set.lt.u32.f32", "f", a, "f", b));
    put(ASM2(float, "f", "set.geu.f32.f32", "f", a, "f", b));
    put(ASM2(float, "f", "set.eq.ftz.f32.f32", "f", a, "f", b));
}

KERNEL(f32_select, 10, f32, f32, f32) {
    put(a < b ? a : c);
    put(a < b ? -a : c);
    put(a > 0 ? b : 0.5f);
    put(F3("slct.f32.f32", a, b, c));
    put(F3("slct.ftz.f32.f32", a, b, c));
    put(copysignf(a, b));
    put(F2("copysign.f32", a, b));
    unsigned all = 0;
#define TESTP(OP, AT) { unsigned r_; asm("{ .reg .pred p; testp." OP ".f32 p, %1; " \
    "selp.u32 %0, 1, 0, p; }" : "=r"(r_) : "f"(a)); all |= r_ << AT; }
    TESTP("finite", 0) TESTP("infinite", 1) TESTP("number", 2) TESTP("notanumber", 3)
    TESTP("normal", 4) TESTP("subnormal", 5)
    put(all);
    put(signbit(a) ? b : c);
    put(isnan(a) ? 1.0f : a);
}

KERNEL(f32_round, 14, f32integer, f32, f32) {
    put(F1("cvt.rni.f32.f32", a));
    put(F1("cvt.rzi.f32.f32", a));
    put(F1("cvt.rmi.f32.f32", a));
    put(F1("cvt.rpi.f32.f32", a));
    put(F1("cvt.rni.ftz.f32.f32", b));
    put(F1("cvt.rzi.ftz.f32.f32", b));
    put(F1("cvt.rmi.ftz.f32.f32", b));
    put(F1("cvt.rpi.f32.f32", b));
    put(F1("cvt.rni.sat.f32.f32", b));
    put(floorf(a) + ceilf(c));
    put(roundf(a));
    put(truncf(b));
    put(rintf(b));
    put(a - floorf(a));
}

KERNEL(f32_divide, 14, f32, f32, f32) {
    put(F2("div.rn.f32", a, b));
    put(F2("div.rz.f32", a, b));
    put(F2("div.rm.f32", a, b));
    put(F2("div.rp.f32", a, b));
    put(F2("div.rn.ftz.f32", a, b));
    put(F2("div.rz.ftz.f32", a, b));
    put(F1("rcp.rn.f32", a));
    put(F1("rcp.rz.f32", a));
    put(F1("rcp.rp.ftz.f32", a));
    put(F1("sqrt.rn.f32", a));
    put(F1("sqrt.rz.f32", a));
    put(F1("sqrt.rm.f32", a));
    put(F1("sqrt.rp.ftz.f32", a));
    put(F1("sqrt.rn.ftz.f32", a));
}

KERNEL(f32_divide_near, 8, f32near, f32near, f32near) {
    put(F2("div.rn.f32", a, b));
    put(a / 3.0f);
    put(1.0f / a);
    put(F2("div.rm.f32", a, b));
    put(F2("div.rp.f32", b, c));
    put(sqrtf(fabsf(a)));
    put(F1("rcp.rm.f32", a));
    put(fmodf(a, b));
}

KERNEL(f32_scale, 8, f32, f32, small) {
    put(ldexpf(a, (int)c - 128));
    put(scalbnf(a, (int)c - 100));
    int e;
    put(frexpf(a, &e));
    put(e);
    put(logbf(a));
    put(nextafterf(a, b));
    put(remainderf(a, b));
    put(fdimf(a, b));
}

KERNEL100(f32_pairs, 8, f64, f64, f64) {
    // Two floats in a 64-bit register. The bits of doubles are as good as any.
    const unsigned long long x = __double_as_longlong(a), y = __double_as_longlong(b),
                             z = __double_as_longlong(c);
    put(L2("add.rn.f32x2", x, y));
    put(L2("mul.rn.ftz.f32x2", x, y));
    put(L3("fma.rn.f32x2", x, y, z));
    put(L3("fma.rz.f32x2", x, y, z));
}
