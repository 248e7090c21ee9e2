// The multi-function unit: approximations whose last bits only the hardware knows. Comparisons with
// recorded results allow the distance that manifest.py states.
#include "fixture.cuh"

KERNEL(mufu_plain, 10, f32ramp, f32, f32angle) {
    const float x = a.value;
    PUTS(F1, (x), "ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "rcp.approx.ftz.f32",
         "rsqrt.approx.ftz.f32", "sqrt.approx.ftz.f32");
    PUTS(F1, (c), "sin.approx.ftz.f32", "cos.approx.ftz.f32");
    PUTS(F1, (x), "sin.approx.ftz.f32", "cos.approx.ftz.f32", "tanh.approx.f32");
}

KERNEL(mufu_near, 8, f32near, f32near, f32angle) {
    // Arguments where the answers are no limits.
    PUTS(F1, (a), "ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "rcp.approx.ftz.f32",
         "rsqrt.approx.ftz.f32");
    PUT(F1("sqrt.approx.ftz.f32", b), F1("tanh.approx.f32", a), F1("ex2.approx.ftz.f32", c),
        F1("lg2.approx.ftz.f32", 1.0f + a * 0.001f));
}

KERNEL(mufu_denormal, 8, f32, f32, f32) {
    // Without .ftz ptxas scales denormal operands and results.
    PUTS(F1, (a), "ex2.approx.f32", "lg2.approx.f32", "rcp.approx.f32", "rsqrt.approx.f32",
         "sqrt.approx.f32");
    PUTS(F2, (a, b), "div.approx.f32", "div.full.f32", "div.full.ftz.f32");
}

KERNEL(mufu_double, 4, f64, f64, f64) {
    PUTS(D1, (a), "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64");
}

KERNEL(mufu_half, 4, f16x2, f16x2, f16x2) {
    PUT(U1("ex2.approx.f16x2", a.word), H1("ex2.approx.f16", b.word),
        U1("tanh.approx.f16x2", a.word), H1("tanh.approx.f16", b.word >> 16));
}

KERNEL90(mufu_bf16, 4, bf16x2, bf16x2, bf16x2) {
    PUT(U1("ex2.approx.ftz.bf16x2", a.word), H1("ex2.approx.ftz.bf16", b.word),
        U1("tanh.approx.bf16x2", a.word), H1("tanh.approx.bf16", b.word >> 16));
}

KERNEL(mufu_library, 8, f32near, f32near, f32angle) {
    PUT(__expf(a), __logf(fabsf(a)), __powf(fabsf(a), b), __sinf(c), __fdividef(a, b), expf(a),
        logf(fabsf(a)), tanhf(b));
}

KERNEL(mufu_library_more, 5, f32near, f32near, f32angle) {
    PUT(sinf(c), cosf(c), powf(fabsf(a), b), rsqrtf(fabsf(a)), erff(a));
}

KERNEL(mufu_library_huge, 2, f32, f32, f32) {
    // Angles beyond what three constants reduce: the long way with a table.
    PUT(sinf(a), cosf(b));
}

KERNEL(mufu_library_f64, 8, f32near, f32near, f32near) {
    const double x = a * 0.1, y = fabs(b * 0.3);
    PUT(exp(x), log(y), rsqrt(y), cbrt(x));
}
