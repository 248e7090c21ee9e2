// The multi-function unit: approximations whose last bits only the hardware knows. Comparisons with
// recorded results allow the distance that manifest.py states.
#include "fixture.cuh"

KERNEL(mufu_plain, 10, f32ramp, f32, f32angle) {
    const float x = a.value;
    put(F1("ex2.approx.ftz.f32", x));
    put(F1("lg2.approx.ftz.f32", x));
    put(F1("rcp.approx.ftz.f32", x));
    put(F1("rsqrt.approx.ftz.f32", x));
    put(F1("sqrt.approx.ftz.f32", x));
    put(F1("sin.approx.ftz.f32", c));
    put(F1("cos.approx.ftz.f32", c));
    put(F1("sin.approx.ftz.f32", x));
    put(F1("cos.approx.ftz.f32", x));
    put(F1("tanh.approx.f32", x));
}

KERNEL(mufu_near, 8, f32near, f32near, f32angle) {
    // Arguments where the answers are no limits.
    put(F1("ex2.approx.ftz.f32", a));
    put(F1("lg2.approx.ftz.f32", a));
    put(F1("rcp.approx.ftz.f32", a));
    put(F1("rsqrt.approx.ftz.f32", a));
    put(F1("sqrt.approx.ftz.f32", b));
    put(F1("tanh.approx.f32", a));
    put(F1("ex2.approx.ftz.f32", c));
    put(F1("lg2.approx.ftz.f32", 1.0f + a * 0.001f));
}

KERNEL(mufu_denormal, 8, f32, f32, f32) {
    // Without .ftz ptxas scales denormal operands and results.
    put(F1("ex2.approx.f32", a));
    put(F1("lg2.approx.f32", a));
    put(F1("rcp.approx.f32", a));
    put(F1("rsqrt.approx.f32", a));
    put(F1("sqrt.approx.f32", a));
    put(F2("div.approx.f32", a, b));
    put(F2("div.full.f32", a, b));
    put(F2("div.full.ftz.f32", a, b));
}

KERNEL(mufu_double, 4, f64, f64, f64) {
    put(D1("rcp.approx.ftz.f64", a));
    put(D1("rsqrt.approx.ftz.f64", a));
}

KERNEL(mufu_half, 4, f16x2, f16x2, f16x2) {
    put(U1("ex2.approx.f16x2", a.word));
    put(H1("ex2.approx.f16", b.word));
    put(U1("tanh.approx.f16x2", a.word));
    put(H1("tanh.approx.f16", b.word >> 16));
}

KERNEL90(mufu_bf16, 4, bf16x2, bf16x2, bf16x2) {
    put(U1("ex2.approx.ftz.bf16x2", a.word));
    put(H1("ex2.approx.ftz.bf16", b.word));
    put(U1("tanh.approx.bf16x2", a.word));
    put(H1("tanh.approx.bf16", b.word >> 16));
}

KERNEL(mufu_library, 8, f32near, f32near, f32angle) {
    put(__expf(a));
    put(__logf(fabsf(a)));
    put(__powf(fabsf(a), b));
    put(__sinf(c));
    put(__fdividef(a, b));
    put(expf(a));
    put(logf(fabsf(a)));
    put(tanhf(b));
}

KERNEL(mufu_library_more, 5, f32near, f32near, f32angle) {
    put(sinf(c));
    put(cosf(c));
    put(powf(fabsf(a), b));
    put(rsqrtf(fabsf(a)));
    put(erff(a));
}

KERNEL(mufu_library_huge, 2, f32, f32, f32) {
    // Angles beyond what three constants reduce: the long way with a table.
    put(sinf(a));
    put(cosf(b));
}

KERNEL(mufu_library_f64, 8, f32near, f32near, f32near) {
    const double x = a * 0.1, y = fabs(b * 0.3);
    put(exp(x));
    put(log(y));
    put(rsqrt(y));
    put(cbrt(x));
}
