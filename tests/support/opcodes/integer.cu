// Integer arithmetic, logic and comparisons in the per-thread pipes.
#include "fixture.cuh"

KERNEL(int_add, 14, bits, bits, bits) {
    PUT(a + b, a - b, a + b + c, a - b - c, c - a + b, -a, -a - b, a + 0x12345u, 0x7fffffffu - a,
        a + b - 1, ~a + c);
    PUTS(U2, (a, b), "add.sat.s32", "sub.sat.s32");
    put(a - t.n);
}

KERNEL(int_add64, 16, bits64, bits64, bits64) {
    PUT(a + b, a - b, a + b + c, c - a - b, 0ull - a, a + 0x123456789abull, a - (unsigned)b,
        (long long)(int)a + b);
}

KERNEL(int_carry, 13, bits64, bits64, bits64) {
    // Three and four words with the carry flag.
    unsigned r0, r1, r2, r3;
    const unsigned a0 = a, a1 = a >> 32, b0 = b, b1 = b >> 32, c0 = c, c1 = c >> 32;
    asm("add.cc.u32 %0, %4, %6; addc.cc.u32 %1, %5, %7; addc.cc.u32 %2, %8, %9; "
        "addc.u32 %3, 0, 0;"
        : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=r"(r3)
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(c0), "r"(c1));
    put(r0), put(r1), put(r2), put(r3);
    asm("sub.cc.u32 %0, %4, %6; subc.cc.u32 %1, %5, %7; subc.cc.u32 %2, %8, %9; "
        "subc.u32 %3, 0, 0;"
        : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=r"(r3)
        : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(c0), "r"(c1));
    put(r0), put(r1), put(r2), put(r3);
    asm("mad.lo.cc.u32 %0, %3, %4, %5; madc.hi.cc.u32 %1, %3, %4, %6; addc.u32 %2, %7, 0;"
        : "=&r"(r0), "=&r"(r1), "=r"(r2)
        : "r"(a0), "r"(b0), "r"(c0), "r"(c1), "r"(a1));
    put(r0), put(r1), put(r2);
    asm("mad.lo.cc.s32 %0, %2, %3, %4; madc.hi.s32 %1, %2, %3, %5;"
        : "=&r"(r0), "=r"(r1) : "r"(a1), "r"(b1), "r"(c0), "r"(c1));
    put(r0), put(r1);
}

KERNEL(int_multiply, 22, bits, bits, bits) {
    PUT(a * b, a * b + c, c - a * b, a * b - c, a * 0x10003u + b, a * 24u, __umulhi(a, b),
        __mulhi((int)a, (int)b));
    PUTS(U3, (a, b, c), "mad.hi.u32", "mad.hi.s32", "mad.hi.sat.s32");
    PUT((unsigned long long)a * b, (long long)(int)a * (int)b, (unsigned long long)a * b + c,
        (long long)(int)a * 0x8001);
    PUTS(U2, (a, b), "mul24.lo.s32", "mul24.hi.u32");
    put(U3("mad24.lo.u32", a, b, c));
}

KERNEL(int_multiply64, 20, bits64, bits64, bits64) {
    PUT(a * b, a * b + c, a * 0x123456789ull, __umul64hi(a, b),
        (unsigned long long)__mul64hi((long long)a, (long long)b),
        (unsigned long long)(unsigned)a * (unsigned)b + c,
        (long long)((long long)(int)a * (int)b + (long long)c),
        c - (unsigned long long)(unsigned)a * (unsigned)b, (unsigned)a * (unsigned)b + (a >> 32),
        (unsigned long long)(unsigned)a * 12345u + c);
}

KERNEL(int_narrow, 8, bits, bits, bits) {
    // 16-bit products, sign extensions and byte extractions.
    PUT((int)(short)a * (int)(short)b, (a & 0xffff) * (b & 0xffff) + c, (int)(signed char)a,
        (int)(short)(a >> 16), (int)(signed char)(a >> 8) + (int)(unsigned char)(b >> 24),
        (unsigned)(unsigned short)(a + b), (int)(short)(a * b));
    unsigned r;
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; cvt.u16.u32 y, %2; mul.wide.s16 %0, x, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
}

KERNEL(int_minmax, 30, bits, bits, bits) {
    const int x = a, y = b, z = c;
    PUT(min(x, y), max(x, y), min(a, b), max(a, b), min(min(x, y), z), max(max(a, b), c),
        max(min(x, y), z), min(max(a, 17u), 40000u), max(x, 0), abs(x), -abs(y), __sad(x, y, c),
        __usad(a, b, c), abs(x - y), __vimax_s32_relu(x, y), __vimin_s32_relu(x, y));
    PUT(__vimax3_s32(x, y, z), __vimin3_u32(a, b, c), __vimax3_s32_relu(x, y, z),
        __viaddmax_s32(x, y, z), __viaddmin_u32(a, b, c), __viaddmax_s32_relu(x, y, z),
        __vimax_s16x2_relu(a, b), __vimin_s16x2_relu(a, b), __vimax3_s16x2(a, b, c),
        __vimin3_u16x2(a, b, c), __viaddmax_s16x2(a, b, c), __viaddmin_u16x2(a, b, c),
        __viaddmin_s16x2_relu(a, b, c), __viaddmax_u16x2(a, b, c));
}

KERNEL(int_minmax_which, 6, bits, bits, bits) {
    // The forms that also say which operand won.
    bool which, high, low;
    PUT(__vibmax_s32((int)a, (int)b, &which), which, __vibmin_u32(a, b, &which), which,
        __vibmax_s16x2(a, b, &high, &low), (high ? 2u : 0u) | (low ? 1u : 0u));
}

KERNEL(int_packed, 18, bits, bits, bits) {
    // Two and four numbers in a word.
    PUT(__vadd2(a, b), __vsub2(a, b), __vadd4(a, b), __vsub4(a, b), __vabs2(a), __vabsdiffu2(a, b),
        __vabsdiffs2(a, b), __vabsdiffu4(a, b), __vsadu4(a, b), __vavgu4(a, b), __vmaxs2(a, b),
        __vminu4(a, b), __vcmpgts2(a, b), __vcmpeq4(a, b), __vaddus2(a, b), __vaddss4(a, b));
    PUT(__vseteq2(a, b), __vhaddu4(a, b));
}

KERNEL(int_dot, 12, bits, bits, bits) {
    PUTS(U3, (a, b, c), "dp4a.u32.u32", "dp4a.s32.s32", "dp4a.s32.u32", "dp4a.u32.s32",
         "dp2a.lo.u32.u32", "dp2a.hi.u32.u32", "dp2a.lo.s32.s32", "dp2a.hi.s32.s32",
         "dp2a.lo.s32.u32", "dp2a.hi.u32.s32");
    PUT(U3("dp4a.s32.s32", a, b, 0), U3("dp4a.u32.u32", a, 0x01010101, c));
}

KERNEL(int_count, 18, bits, bits64, bits) {
    PUT(__popc(a), __popc(~a), __popcll(b), __clz(a), __clz(~a), __clzll(b), __ffs(a), __ffsll(b),
        __brev(a), __brevll(b));
    PUTS(U1, (a), "bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "bfind.shiftamt.s32");
    PUT(ASM1(unsigned, "r", "bfind.u64", "l", b), ASM1(unsigned, "r", "bfind.s64", "l", b),
        U3("fns.b32", a, (c & 31), 1));
}

KERNEL(int_divide, 16, bits, bits, bits) {
    const int x = a, y = b;
    PUT(a / b, a % b, x / y, x % y, a / 7u, x / 10, x % 1000, a / (c | 1), a % (c & 0xff | 1),
        x / -3, a / 0x80000001u, (int)(short)a / (int)((short)b | 1), x / 8, x % 8,
        a / (unsigned)t.n, x % t.n);
}

KERNEL(int_divide64, 16, bits64, bits64, bits64) {
    const long long x = a, y = b;
    PUT(a / (b | 1), a % (b | 1), x / (y | 1), x % (y | 1), a / 1000000007ull, x / 10,
        a / ((unsigned)c | 1), x % 4096);
}

KERNEL(int_logic, 18, bits, bits, bits) {
    PUT(a & b, a | b, a ^ b, ~a, a & ~b, (a & b) | c, (a & b) | (~a & c),
        (a & b) | (b & c) | (a & c), a ^ b ^ c, ~(a ^ b) & c, a & 0x00ff00ffu,
        (a | 0xf0f0f0f0u) ^ b, (a & 0xff) | (b & 0xffff00), (a & b) == 0 ? c : a,
        (a & 0x1000) ? b : c, (a & b & c) != 0);
    PUT(((a ^ b) & 1) ? 5u : 9u, (a | b | c) == 0 ? a + 1 : b);
}

// The 256 tables of LOP3, sixteen to a result.
#define TABLE(N) asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c), "n"(N)); \
    sum = sum * 0x9e3779b1u + r;
#define TABLES16(N) sum = 0; TABLE(N + 0) TABLE(N + 1) TABLE(N + 2) TABLE(N + 3) TABLE(N + 4) \
    TABLE(N + 5) TABLE(N + 6) TABLE(N + 7) TABLE(N + 8) TABLE(N + 9) TABLE(N + 10) TABLE(N + 11) \
    TABLE(N + 12) TABLE(N + 13) TABLE(N + 14) TABLE(N + 15) put(sum);

KERNEL(int_lop3, 16, bits, bits, bits) {
    unsigned r, sum;
    TABLES16(0x00) TABLES16(0x10) TABLES16(0x20) TABLES16(0x30)
    TABLES16(0x40) TABLES16(0x50) TABLES16(0x60) TABLES16(0x70)
    TABLES16(0x80) TABLES16(0x90) TABLES16(0xa0) TABLES16(0xb0)
    TABLES16(0xc0) TABLES16(0xd0) TABLES16(0xe0) TABLES16(0xf0)
}

KERNEL(int_lop3_predicate, 6, bits, bits, bits) {
    // LOP3 that also says whether anything is set, with a predicate going in.
    PUT((a & b & c) ? a : b, ((a & b) | c) == 0 || a > b ? b : c, (a ^ b ^ c) && b > c ? c : a);
    unsigned r, any;
    asm("{ .reg .pred p, q; setp.lt.u32 q, %2, %3; lop3.or.b32 %0|p, %2, %3, %4, 0x96, q; "
        "selp.u32 %1, 1, 0, p; }" : "=r"(r), "=r"(any) : "r"(a), "r"(b), "r"(c));
    put(r), put(any);
    asm("{ .reg .pred p, q; setp.lt.s32 q, %1, %2; lop3.and.b32 _|p, %1, %2, %3, 0x80, q; "
        "selp.u32 %0, 1, 0, p; }" : "=r"(any) : "r"(a), "r"(b), "r"(c));
    put(any);
}

KERNEL(int_compare, 3, bits, bits, bits64) {
    const int x = a, y = b;
    unsigned all = 0;
    int at = 0;
#define BIT(E) all |= (unsigned)(E) << at++;
    BIT(x < y) BIT(x <= y) BIT(x > y) BIT(x >= y) BIT(a < b) BIT(a <= b) BIT(a > b) BIT(a >= b)
    BIT(a == b) BIT(a != b) BIT(x < 100) BIT(a >= 0x80000000u) BIT(x == -1) BIT(x > t.n)
    put(all);
    all = 0, at = 0;
    const unsigned long long p = c, q = ((unsigned long long)a << 32) | b;
    const long long s = p, u = q;
    BIT(s < u) BIT(s <= u) BIT(s > u) BIT(s >= u) BIT(p < q) BIT(p <= q) BIT(p > q) BIT(p >= q)
    BIT(p == q) BIT(p != q) BIT(s < 100) BIT(s >= -5) BIT(p > 0x123456789ull) BIT(s == 7)
    put(all);
    // Half of the pairs of 64 bits have equal high words, so that the low ones decide.
    all = 0, at = 0;
    const unsigned long long w = (c & 0xffffffff00000000ull) | (a & 1 ? b : (unsigned)c);
    const long long v = w;
    BIT(s < v) BIT(s <= v) BIT(s > v) BIT(s >= v) BIT(p < w) BIT(p <= w) BIT(p > w) BIT(p >= w)
    BIT(p == w) BIT(p != w)
    put(all);
}

KERNEL(int_compare_chain, 18, bits, bits, bits) {
    const int x = a, y = b, z = c;
    PUT(x < y && y < z, x < y || a > c, (x < y) != (y < z),
        x < y && (y < z || a == c) && b != c ? a : b,
        (x < 0) + (y < 0) + (z < 0) + (a > b) + (b > c),
        x < y ? (y < z ? a : b) : (z < x ? c : a + b), !(x < y) && !(y >= z) || (a & 4));
    unsigned r;
    asm("{ .reg .pred p, q, s, u; setp.lt.s32 q, %1, %2; setp.gt.and.u32 p|s, %2, %3, q; "
        "setp.eq.xor.u32 u, %1, %3, s; xor.pred p, p, u; selp.u32 %0, %1, %2, p; }"
        : "=r"(r) : "r"(a), "r"(b), "r"(c));
    put(r);
    asm("{ .reg .pred p, q, s; setp.lt.s32 p, %1, %2; setp.lt.s32 q, %2, %3; "
        "setp.lt.u32 s, %1, %3; not.pred s, s; and.pred p, p, q; or.pred p, p, s; "
        "xor.pred q, q, p; @p add.u32 %0, %1, %2; @!p sub.u32 %0, %1, %2; @q add.u32 %0, %0, 1; }"
        : "=r"(r) : "r"(a), "r"(b), "r"(c));
    PUT(r, U2("set.lt.u32.s32", a, b), ASM3(unsigned, "r", "slct.u32.s32", "r", a, "r", b, "r", c),
        x >= y || z >= t.n ? a : b, x > y || y > z || z > 5 ? a : c, x <= y || z <= -3 ? b : c,
        x <= y && z <= y ? b : a);
    const long long v = (long long)x * z, w = (long long)y * z;
    PUT(v != w || x == 1 ? a : b, (v > w || x < 3) && v != 0 ? c : b,
        v <= w && (unsigned long long)v >= (unsigned long long)w + 5 ? a : c);
}

KERNEL(int_compare_wide, 6, bits64, bits64, bits) {
    // 64-bit comparisons joined with others.
    const long long x = a, y = b;
    const int z = c;
    PUT(a != b || z > 5 ? 1u : c, x <= y && z != 3 ? 2u : c, a == b && z < 100 ? c : 3u,
        (z > 7 && c != 9) || a != b + 1 ? c + 1 : 4u, x > y || (z <= 12 || z > 1000) ? 5u : c,
        (x < y) != (z <= t.n) ? 6u : c);
}

KERNEL(int_select, 7, bits, bits, bits64) {
    PUT(a > b ? 17u : 0x12345u, a > b ? b : 5u, a > b ? c : c + 1, a & 1 ? ~a : b,
        (int)a < 0 ? -(int)a : (int)b, a == b ? 0u : ~0u);
}

KERNEL(int_scaled, 23, bits, bits, bits64) {
    // What addresses are made of: LEA in its forms.
    PUT((a << 2) + b, (a << 5) - b, b - (a << 3), (a << 31) + b, ((unsigned long long)a << 2) + c,
        ((long long)(int)a << 4) + (long long)c, (c << 3) + (((unsigned long long)b << 32) | a),
        (a >> 28) + b, (unsigned)((c << 4) >> 32) + b,
        (unsigned)(((unsigned long long)a * 4 + c) >> 32), c + (long long)(int)(a * 8 + b),
        (a << (b & 31)) + b, a * 5, a * 0xffffffffu + b, (a << 4) + 0x1234,
        (unsigned long long)(a + b) * 2 + c);
    put(((unsigned long long)b << 32 | a) * 8);
}

KERNEL(int_predicates, 9, bits, bits, bits) {
    // A word's bits as predicates, and predicates into a word (R2P, P2R).
    unsigned r = b;
    if (a & 1) r += c;
    if (a & 2) r ^= 0x5555;
    if (a & 4) r *= 3;
    if (a & 8) r += 0x1111;
    if (a & 16) r ^= c;
    if (a & 32) r -= b;
    if (a & 64) r = ~r;
    put(r);
    unsigned s = 0;
#pragma unroll
    for (int k = 0; k < 16; ++k)
        if (a >> k & 1) s += b * (2 * k + 1) ^ c;
    put(s);
#pragma unroll
    for (int k = 0; k < 7; ++k) {
        const bool set = (b >> (k + 8)) & 1;
        put(set ? a + k : c - k);
    }
}
