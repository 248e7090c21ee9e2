// Shifts, funnel shifts, bit fields and permutations of bytes.
#include "fixture.cuh"

KERNEL(shift_plain, 18, bits, shift, bits) {
    put(U2("shl.b32", a, b));  // PTX clamps the amount, C++ does not say
    put(U2("shr.u32", a, b));
    put(U2("shr.s32", a, b));
    put(a << (b & 31));
    put(a >> (b & 31));
    put((int)a >> (b & 31));
    put(a << 7);
    put(a >> 9);
    put((int)a >> 13);
    put((int)a >> 31);
    put((a << 3) ^ (a >> 29));
    put(1u << (b & 31));
    put((1u << (b & 31)) - 1);
    put(c >> (32 - (b & 31)));
    unsigned r;
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; shl.b16 y, x, %2; cvt.u32.u16 %0, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; shr.u16 y, x, %2; cvt.u32.u16 %0, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; shr.s16 y, x, %2; cvt.s32.s16 %0, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
    put((a << 16) | (c >> 16));
}

KERNEL(shift_wide, 24, bits64, shift, bits64) {
    put(ASM2(unsigned long long, "l", "shl.b64", "l", a, "r", b));
    put(ASM2(unsigned long long, "l", "shr.u64", "l", a, "r", b));
    put(ASM2(unsigned long long, "l", "shr.s64", "l", a, "r", b));
    put(a << (b & 63));
    put(a >> (b & 63));
    put((long long)a >> (b & 63));
    put(a << 9);
    put(a >> 41);
    put((long long)a >> 3);
    put((a << 13) | (a >> 51));
    put(1ull << (b & 63));
    put((a >> 32) | (c << 32));
}

KERNEL(shift_funnel, 18, bits, bits, shift) {
    put(__funnelshift_l(a, b, c));
    put(__funnelshift_r(a, b, c));
    put(__funnelshift_lc(a, b, c));
    put(__funnelshift_rc(a, b, c));
    put(__funnelshift_l(a, b, 5));
    put(__funnelshift_r(a, b, 11));
    put(__funnelshift_l(a, a, c));
    put(__funnelshift_r(a, a, c));
    put(__funnelshift_l(0, b, c));
    put(__funnelshift_rc(a, 0, c));
    put(U3("shf.l.clamp.b32", a, b, 32));
    put(U3("shf.r.clamp.b32", a, b, 33));
    put(U2("bmsk.clamp.b32", c, c));
    put(U2("bmsk.wrap.b32", c, b));
    put(U2("bmsk.clamp.b32", c, b & 63));
    put(U2("szext.clamp.s32", a, c));
    put(U2("szext.wrap.s32", a, c));
    put(U2("szext.clamp.u32", a, c));
}

KERNEL(shift_field, 16, bits, shift, shift) {
    put(U3("bfe.u32", a, b, c));
    put(U3("bfe.s32", a, b, c));
    put(U3("bfe.u32", a, 5, 7));
    put(U3("bfe.s32", a, 5, 7));
    put(U3("bfe.s32", a, 24, 8));
    put((a >> 12) & 0x3ff);
    put((int)(a << 8) >> 20);
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
    put(s);
    put((a & ~(0xffu << 8)) | ((b & 0xff) << 8));
}

KERNEL(shift_bytes, 17, bits, bits, bits) {
    put(__byte_perm(a, b, c));
    put(__byte_perm(a, b, 0x3210));
    put(__byte_perm(a, b, 0x5410));
    put(__byte_perm(a, b, 0x7632));
    put(__byte_perm(a, a, 0x0123));
    put(__byte_perm(a, 0, 0x4321));
    put(U3("prmt.b32", a, b, 0xba98));
    put(U3("prmt.b32", a, b, 0x1c80));
    put(U3("prmt.b32.f4e", a, b, c));
    put(U3("prmt.b32.b4e", a, b, c));
    put(U3("prmt.b32.rc8", a, b, c));
    put(U3("prmt.b32.ecl", a, b, c));
    put(U3("prmt.b32.ecr", a, b, c));
    put(U3("prmt.b32.rc16", a, b, c));
    put((a & 0xffff) | (b << 16));
    put((a >> 16) | (b & 0xffff0000u));
    put((a & 0xff) * 0x01010101u);
}
