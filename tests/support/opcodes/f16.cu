// Halves and bfloat16, single and in pairs. Two formats and four lanes of modifiers: what is not
// there on sm_80 (arithmetic of bfloat16 other than fma) is for sm_90.
#include "fixture.cuh"

KERNEL(f16_add, 20, f16x2, f16x2, f16x2) {
    const unsigned x = a.word, y = b.word;
    PUTS(U2, (x, y), "add.rn.f16x2", "sub.rn.f16x2", "mul.rn.f16x2", "add.ftz.f16x2",
         "sub.ftz.f16x2", "mul.ftz.f16x2", "add.sat.f16x2", "mul.sat.f16x2", "add.ftz.sat.f16x2");
    PUTS(U1, (x), "neg.f16x2", "abs.f16x2", "neg.ftz.f16x2");
    PUT(U2("add.f16x2", U1("neg.f16x2", x), U1("abs.f16x2", y)), H2("add.rn.f16", x, y),
        H2("mul.rn.f16", x, y >> 16), H2("sub.f16", x >> 16, y), H2("add.ftz.sat.f16", x, y),
        H1("neg.f16", x >> 16), H1("abs.ftz.f16", x),
        U2("add.f16x2", x, __byte_perm(y, 0, 0x1010)));
}

KERNEL(f16_fma, 16, f16x2, f16x2, f16x2) {
    const unsigned x = a.word, y = b.word, z = c.word;
    PUTS(U3, (x, y, z), "fma.rn.f16x2", "fma.rn.ftz.f16x2", "fma.rn.sat.f16x2",
         "fma.rn.ftz.sat.f16x2", "fma.rn.relu.f16x2", "fma.rn.ftz.relu.f16x2");
    PUT(H3("fma.rn.f16", x, y, z), H3("fma.rn.ftz.f16", x >> 16, y, z),
        H3("fma.rn.relu.f16", x, y >> 16, z), H3("fma.rn.sat.f16", x, y, z >> 16),
        U3("fma.rn.f16x2", U1("neg.f16x2", x), y, z), U3("fma.rn.f16x2", x, y, U1("neg.f16x2", z)),
        U3("fma.rn.f16x2", x, 0x3e00c100u, z), U3("fma.rn.f16x2", x, y, 0x3e003e00u),
        U3("fma.rn.f16x2", __byte_perm(x, 0, 0x1010), y, __byte_perm(z, 0, 0x3232)),
        U3("fma.rn.f16x2", x, y, U1("neg.f16x2", U2("mul.rn.f16x2", x, y))));
}

KERNEL(f16_fma_near, 6, f16x2near, f16x2near, f16x2near) {
    const unsigned x = a.word, y = b.word, z = c.word;
    PUT(U3("fma.rn.f16x2", x, y, z),
        U3("fma.rn.f16x2", x, y, U1("neg.f16x2", U2("mul.rn.f16x2", x, y))));
    PUTS(U2, (x, y), "add.rn.f16x2", "mul.rn.f16x2");
    PUT(H3("fma.rn.f16", x, y, z), U3("fma.rn.relu.f16x2", x, y, z));
}

KERNEL(f16_minmax, 14, f16x2, f16x2, f16x2) {
    const unsigned x = a.word, y = b.word;
    PUTS(U2, (x, y), "min.f16x2", "max.f16x2", "min.ftz.f16x2", "max.ftz.f16x2", "min.NaN.f16x2",
         "max.NaN.f16x2", "max.ftz.NaN.f16x2");
    PUTS(H2, (x, y), "min.f16", "max.NaN.f16");
#if __CUDA_ARCH__ >= 860
    PUTS(U2, (x, y), "min.xorsign.abs.f16x2", "max.NaN.xorsign.abs.f16x2");
#else
    put(0), put(0);
#endif
    PUT(U2("max.f16x2", x, 0), U2("min.f16x2", U1("abs.f16x2", x), y),
        U2("min.f16x2", U2("max.f16x2", x, y), c.word));
}

// The two answers of a comparison of pairs, as 0 to 3.
#define PAIR(OP, X, Y) [&] { unsigned r_; asm("{ .reg .pred p, q; setp." OP " p|q, %1, %2; " \
    "selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }" : "=r"(r_) : "r"(X), "r"(Y)); return r_; }()
#define PAIRS(TYPE, X, Y)                                                                         \
    put(PAIR("eq." TYPE, X, Y) | PAIR("ne." TYPE, X, Y) << 2 | PAIR("lt." TYPE, X, Y) << 4        \
        | PAIR("le." TYPE, X, Y) << 6 | PAIR("gt." TYPE, X, Y) << 8 | PAIR("ge." TYPE, X, Y) << 10 \
        | PAIR("equ." TYPE, X, Y) << 12 | PAIR("neu." TYPE, X, Y) << 14                           \
        | PAIR("ltu." TYPE, X, Y) << 16 | PAIR("leu." TYPE, X, Y) << 18                           \
        | PAIR("gtu." TYPE, X, Y) << 20 | PAIR("geu." TYPE, X, Y) << 22                           \
        | PAIR("num." TYPE, X, Y) << 24 | PAIR("nan." TYPE, X, Y) << 26)
// One comparison of single halves, as 0 or 1.
#define HALF(OP, X, Y) [&] { unsigned r_; asm("{ .reg .pred p; .reg .b16 x, y, u; " \
    "mov.b32 {x, u}, %1; mov.b32 {y, u}, %2; setp." OP " p, x, y; selp.u32 %0, 1, 0, p; }" \
    : "=r"(r_) : "r"(X), "r"(Y)); return r_; }()
#define HALVES(TYPE, X, Y)                                                                \
    put(HALF("eq." TYPE, X, Y) | HALF("ne." TYPE, X, Y) << 1 | HALF("lt." TYPE, X, Y) << 2 \
        | HALF("geu." TYPE, X, Y) << 3 | HALF("gt." TYPE, X, Y) << 4                      \
        | HALF("nan." TYPE, X, Y) << 5 | HALF("num." TYPE, X, Y) << 6)

KERNEL(f16_compare, 10, f16x2, f16x2, f16x2) {
    const unsigned x = a.word, y = b.word;
    PAIRS("f16x2", x, y);
    PAIRS("ftz.f16x2", x, y);
    HALVES("f16", x, y);
    HALVES("ftz.f16", x >> 16, y);
    PUTS(U2, (x, y), "set.lt.f16x2.f16x2", "set.geu.ftz.f16x2.f16x2", "set.ne.u32.f16x2");
    PUT(HALF("lt.f16", x, y) ? x : c.word,
        HALF("gt.f16", x, 0x3c00) && HALF("lt.f16", y, c.word) ? 1u : 2u,
        PAIR("le.f16x2", U1("neg.f16x2", x), U1("abs.f16x2", y)));
}

KERNEL(bf16_fma, 9, bf16x2, bf16x2, bf16x2) {
    const unsigned x = a.word, y = b.word, z = c.word;
    PUTS(U3, (x, y, z), "fma.rn.bf16x2", "fma.rn.relu.bf16x2");
    PUT(H3("fma.rn.bf16", x, y, z), H3("fma.rn.relu.bf16", x, y >> 16, z));
    PUTS(U1, (x), "neg.bf16x2", "abs.bf16x2");
    PUT(U3("fma.rn.bf16x2", U1("neg.bf16x2", x), y, z), U3("fma.rn.bf16x2", x, 0x3fc0c040u, z),
        U3("fma.rn.bf16x2", __byte_perm(x, 0, 0x1010), y, z));
}

KERNEL(bf16_fma_near, 3, bf16x2near, bf16x2near, bf16x2near) {
    const unsigned x = a.word, y = b.word, z = c.word;
    PUT(U3("fma.rn.bf16x2", x, y, z),
        U3("fma.rn.bf16x2", x, y, U1("neg.bf16x2", U3("fma.rn.bf16x2", x, y, 0x80008000u))),
        H3("fma.rn.bf16", x, y, z));
}

KERNEL(bf16_minmax, 9, bf16x2, bf16x2, bf16x2) {
    const unsigned x = a.word, y = b.word;
    PUTS(U2, (x, y), "min.bf16x2", "max.bf16x2", "min.NaN.bf16x2", "max.NaN.bf16x2");
    PUT(H2("min.bf16", x, y), H2("max.NaN.bf16", x >> 16, y));
#if __CUDA_ARCH__ >= 860
    PUTS(U2, (x, y), "min.xorsign.abs.bf16x2", "max.NaN.xorsign.abs.bf16x2");
#else
    put(0), put(0);
#endif
    put(U2("max.bf16x2", U1("neg.bf16x2", x), y));
}

KERNEL90(bf16_add, 8, bf16x2, bf16x2, bf16x2) {
    const unsigned x = a.word, y = b.word;
    PUTS(U2, (x, y), "add.rn.bf16x2", "sub.rn.bf16x2", "mul.rn.bf16x2");
    PUT(H2("add.rn.bf16", x, y), H2("sub.rn.bf16", x >> 16, y), H2("mul.rn.bf16", x, y >> 16),
        U2("add.bf16x2", U1("neg.bf16x2", x), U1("abs.bf16x2", y)),
        U2("mul.bf16x2", x, 0x3fc03fc0u));
}

KERNEL90(bf16_compare, 5, bf16x2, bf16x2, bf16x2) {
    const unsigned x = a.word, y = b.word;
    PAIRS("bf16x2", x, y);
    HALVES("bf16", x, y);
    PUTS(U2, (x, y), "set.lt.bf16x2.bf16x2", "set.geu.u32.bf16x2");
    put(HALF("lt.bf16", x, y) ? x : c.word);
}
