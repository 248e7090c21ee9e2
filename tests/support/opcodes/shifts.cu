// Shifts, funnel shifts, bit fields and permutations of bytes.
#include "fixture.cuh"

KERNEL(shift_plain, 18, bits, shift, bits) {
    put(U2("shl.b32", a, b));  // PTX clamps the amount, C++ does not say
    PUTS(U2, (a, b), "shr.u32", "shr.s32");
    PUT(a << (b & 31), a >> (b & 31), (int)a >> (b & 31), a << 7, a >> 9, (int)a >> 13,
        (int)a >> 31, (a << 3) ^ (a >> 29), 1u << (b & 31), (1u << (b & 31)) - 1,
        c >> (32 - (b & 31)));
    unsigned r;
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; shl.b16 y, x, %2; cvt.u32.u16 %0, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; shr.u16 y, x, %2; cvt.u32.u16 %0, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; shr.s16 y, x, %2; cvt.s32.s16 %0, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    PUT(r, (a << 16) | (c >> 16));
}

KERNEL(shift_wide, 24, bits64, shift, bits64) {
    PUT(ASM2(unsigned long long, "l", "shl.b64", "l", a, "r", b),
        ASM2(unsigned long long, "l", "shr.u64", "l", a, "r", b),
        ASM2(unsigned long long, "l", "shr.s64", "l", a, "r", b), a << (b & 63), a >> (b & 63),
        (long long)a >> (b & 63), a << 9, a >> 41, (long long)a >> 3, (a << 13) | (a >> 51),
        1ull << (b & 63), (a >> 32) | (c << 32));
}

KERNEL(shift_funnel, 18, bits, bits, shift) {
    PUT(__funnelshift_l(a, b, c), __funnelshift_r(a, b, c), __funnelshift_lc(a, b, c),
        __funnelshift_rc(a, b, c), __funnelshift_l(a, b, 5), __funnelshift_r(a, b, 11),
        __funnelshift_l(a, a, c), __funnelshift_r(a, a, c), __funnelshift_l(0, b, c),
        __funnelshift_rc(a, 0, c), U3("shf.l.clamp.b32", a, b, 32), U3("shf.r.clamp.b32", a, b, 33),
        U2("bmsk.clamp.b32", c, c), U2("bmsk.wrap.b32", c, b), U2("bmsk.clamp.b32", c, b & 63));
    PUTS(U2, (a, c), "szext.clamp.s32", "szext.wrap.s32", "szext.clamp.u32");
}

KERNEL(shift_field, 16, bits, shift, shift) {
    PUTS(U3, (a, b, c), "bfe.u32", "bfe.s32");
    PUTS(U3, (a, 5, 7), "bfe.u32", "bfe.s32");
    PUT(U3("bfe.s32", a, 24, 8), (a >> 12) & 0x3ff, (int)(a << 8) >> 20);
    unsigned r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(~a * 3), "r"(b), "r"(c));
    put(r);
    asm("bfi.b32 %0, %1, %2, 9, 11;" : "=r"(r) : "r"(a), "r"(~a * 3));
    put(r);
    const unsigned long long w = (unsigned long long)a * 0x9e3779b97f4a7c15ull;
    unsigned long long s;
    asm("bfe.u64 %0, %1, %2, %3;" : "=l"(s) : "l"(w), "r"(b), "r"(c));
    put(s);
    asm("bfe.s64 %0, %1, %2, %3;" : "=l"(s) : "l"(w), "r"(b), "r"(c));
    put(s);
    asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(s) : "l"(w), "l"(~w), "r"(b), "r"(c));
    PUT(s, (a & ~(0xffu << 8)) | ((b & 0xff) << 8));
}

KERNEL(shift_bytes, 17, bits, bits, bits) {
    PUT(__byte_perm(a, b, c), __byte_perm(a, b, 0x3210), __byte_perm(a, b, 0x5410),
        __byte_perm(a, b, 0x7632), __byte_perm(a, a, 0x0123), __byte_perm(a, 0, 0x4321),
        U3("prmt.b32", a, b, 0xba98), U3("prmt.b32", a, b, 0x1c80));
    PUTS(U3, (a, b, c), "prmt.b32.f4e", "prmt.b32.b4e", "prmt.b32.rc8", "prmt.b32.ecl",
         "prmt.b32.ecr", "prmt.b32.rc16");
    PUT((a & 0xffff) | (b << 16), (a >> 16) | (b & 0xffff0000u), (a & 0xff) * 0x01010101u);
}
