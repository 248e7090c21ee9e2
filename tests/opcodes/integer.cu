// Integer arithmetic, logic and comparisons in the per-thread pipes.
#include "fixture.cuh"

KERNEL(int_add, 14, bits, bits, bits) {
    put(a + b);
    put(a - b);
    put(a + b + c);
    put(a - b - c);
    put(c - a + b);
    put(-a);
    put(-a - b);
    put(a + 0x12345u);
    put(0x7fffffffu - a);
    put(a + b - 1);
    put(~a + c);
    put(U2("add.sat.s32", a, b));
    put(U2("sub.sat.s32", a, b));
    put(a - t.n);
}

KERNEL(int_add64, 16, bits64, bits64, bits64) {
    put(a + b);
    put(a - b);
    put(a + b + c);
    put(c - a - b);
    put(0ull - a);
    put(a + 0x123456789abull);
    put(a - (unsigned)b);
    put((long long)(int)a + b);
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
    put(a * b);
    put(a * b + c);
    put(c - a * b);
    put(a * b - c);
    put(a * 0x10003u + b);
    put(a * 24u);
    put(__umulhi(a, b));
    put(__mulhi((int)a, (int)b));
    put(U3("mad.hi.u32", a, b, c));
    put(U3("mad.hi.s32", a, b, c));
    put(U3("mad.hi.sat.s32", a, b, c));
    put((unsigned long long)a * b);
    put((long long)(int)a * (int)b);
    put((unsigned long long)a * b + c);
    put((long long)(int)a * 0x8001);
    put(U2("mul24.lo.s32", a, b));
    put(U2("mul24.hi.u32", a, b));
    put(U3("mad24.lo.u32", a, b, c));
}

KERNEL(int_multiply64, 20, bits64, bits64, bits64) {
    put(a * b);
    put(a * b + c);
    put(a * 0x123456789ull);
    put(__umul64hi(a, b));
    put((unsigned long long)__mul64hi((long long)a, (long long)b));
    put((unsigned long long)(unsigned)a * (unsigned)b + c);
    put((long long)((long long)(int)a * (int)b + (long long)c));
    put(c - (unsigned long long)(unsigned)a * (unsigned)b);
    put((unsigned)a * (unsigned)b + (a >> 32));
    put((unsigned long long)(unsigned)a * 12345u + c);
}

KERNEL(int_narrow, 8, bits, bits, bits) {
    // 16-bit products, sign extensions and byte extractions.
    put((int)(short)a * (int)(short)b);
    put((a & 0xffff) * (b & 0xffff) + c);
    put((int)(signed char)a);
    put((int)(short)(a >> 16));
    put((int)(signed char)(a >> 8) + (int)(unsigned char)(b >> 24));
    put((unsigned)(unsigned short)(a + b));
    put((int)(short)(a * b));
    unsigned r;
    asm("{ .reg .b16 x, y; cvt.u16.u32 x, %1; cvt.u16.u32 y, %2; mul.wide.s16 %0, x, y; }"
        : "=r"(r) : "r"(a), "r"(b));
    put(r);
}

KERNEL(int_minmax, 30, bits, bits, bits) {
    const int x = a, y = b, z = c;
    put(min(x, y));
    put(max(x, y));
    put(min(a, b));
    put(max(a, b));
    put(min(min(x, y), z));
    put(max(max(a, b), c));
    put(max(min(x, y), z));
    put(min(max(a, 17u), 40000u));
    put(max(x, 0));
    put(abs(x));
    put(-abs(y));
    put(__sad(x, y, c));
    put(__usad(a, b, c));
    put(abs(x - y));
    put(__vimax_s32_relu(x, y));
    put(__vimin_s32_relu(x, y));
    put(__vimax3_s32(x, y, z));
    put(__vimin3_u32(a, b, c));
    put(__vimax3_s32_relu(x, y, z));
    put(__viaddmax_s32(x, y, z));
    put(__viaddmin_u32(a, b, c));
    put(__viaddmax_s32_relu(x, y, z));
    put(__vimax_s16x2_relu(a, b));
    put(__vimin_s16x2_relu(a, b));
    put(__vimax3_s16x2(a, b, c));
    put(__vimin3_u16x2(a, b, c));
    put(__viaddmax_s16x2(a, b, c));
    put(__viaddmin_u16x2(a, b, c));
    put(__viaddmin_s16x2_relu(a, b, c));
    put(__viaddmax_u16x2(a, b, c));
}

KERNEL(int_minmax_which, 6, bits, bits, bits) {
    // The forms that also say which operand won.
    bool which, high, low;
    put(__vibmax_s32((int)a, (int)b, &which));
    put(which);
    put(__vibmin_u32(a, b, &which));
    put(which);
    put(__vibmax_s16x2(a, b, &high, &low));
    put((high ? 2u : 0u) | (low ? 1u : 0u));
}

KERNEL(int_packed, 18, bits, bits, bits) {
    // Two and four numbers in a word.
    put(__vadd2(a, b));
    put(__vsub2(a, b));
    put(__vadd4(a, b));
    put(__vsub4(a, b));
    put(__vabs2(a));
    put(__vabsdiffu2(a, b));
    put(__vabsdiffs2(a, b));
    put(__vabsdiffu4(a, b));
    put(__vsadu4(a, b));
    put(__vavgu4(a, b));
    put(__vmaxs2(a, b));
    put(__vminu4(a, b));
    put(__vcmpgts2(a, b));
    put(__vcmpeq4(a, b));
    put(__vaddus2(a, b));
    put(__vaddss4(a, b));
    put(__vseteq2(a, b));
    put(__vhaddu4(a, b));
}

KERNEL(int_dot, 12, bits, bits, bits) {
    put(U3("dp4a.u32.u32", a, b, c));
    put(U3("dp4a.s32.s32", a, b, c));
    put(U3("dp4a.s32.u32", a, b, c));
    put(U3("dp4a.u32.s32", a, b, c));
    put(U3("dp2a.lo.u32.u32", a, b, c));
    put(U3("dp2a.hi.u32.u32", a, b, c));
    put(U3("dp2a.lo.s32.s32", a, b, c));
    put(U3("dp2a.hi.s32.s32", a, b, c));
    put(U3("dp2a.lo.s32.u32", a, b, c));
    put(U3("dp2a.hi.u32.s32", a, b, c));
    put(U3("dp4a.s32.s32", a, b, 0));
    put(U3("dp4a.u32.u32", a, 0x01010101, c));
}

KERNEL(int_count, 18, bits, bits64, bits) {
    put(__popc(a));
    put(__popc(~a));
    put(__popcll(b));
    put(__clz(a));
    put(__clz(~a));
    put(__clzll(b));
    put(__ffs(a));
    put(__ffsll(b));
    put(__brev(a));
    put(__brevll(b));
    put(U1("bfind.u32", a));
    put(U1("bfind.s32", a));
    put(U1("bfind.shiftamt.u32", a));
    put(U1("bfind.shiftamt.s32", a));
    put(ASM1(unsigned, "r", "bfind.u64", "l", b));
    put(ASM1(unsigned, "r", "bfind.s64", "l", b));
    put(U3("fns.b32", a, (c & 31), 1));
}

KERNEL(int_divide, 16, bits, bits, bits) {
    const int x = a, y = b;
    put(a / b);
    put(a % b);
    put(x / y);
    put(x % y);
    put(a / 7u);
    put(x / 10);
    put(x % 1000);
    put(a / (c | 1));
    put(a % (c & 0xff | 1));
    put(x / -3);
    put(a / 0x80000001u);
    put((int)(short)a / (int)((short)b | 1));
    put(x / 8);
    put(x % 8);
    put(a / (unsigned)t.n);
    put(x % t.n);
}

KERNEL(int_divide64, 16, bits64, bits64, bits64) {
    const long long x = a, y = b;
    put(a / (b | 1));
    put(a % (b | 1));
    put(x / (y | 1));
    put(x % (y | 1));
    put(a / 1000000007ull);
    put(x / 10);
    put(a / ((unsigned)c | 1));
    put(x % 4096);
}

KERNEL(int_logic, 18, bits, bits, bits) {
    put(a & b);
    put(a | b);
    put(a ^ b);
    put(~a);
    put(a & ~b);
    put((a & b) | c);
    put((a & b) | (~a & c));
    put((a & b) | (b & c) | (a & c));
    put(a ^ b ^ c);
    put(~(a ^ b) & c);
    put(a & 0x00ff00ffu);
    put((a | 0xf0f0f0f0u) ^ b);
    put((a & 0xff) | (b & 0xffff00));
    put((a & b) == 0 ? c : a);
    put((a & 0x1000) ? b : c);
    put((a & b & c) != 0);
    put(((a ^ b) & 1) ? 5u : 9u);
    put((a | b | c) == 0 ? a + 1 : b);
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
    put((a & b & c) ? a : b);
    put(((a & b) | c) == 0 || a > b ? b : c);
    put((a ^ b ^ c) && b > c ? c : a);
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
    put(x < y && y < z);
    put(x < y || a > c);
    put((x < y) != (y < z));
    put(x < y && (y < z || a == c) && b != c ? a : b);
    put((x < 0) + (y < 0) + (z < 0) + (a > b) + (b > c));
    put(x < y ? (y < z ? a : b) : (z < x ? c : a + b));
    put(!(x < y) && !(y >= z) || (a & 4));
    unsigned r;
    asm("{ .reg .pred p, q, s, u; setp.lt.s32 q, %1, %2; setp.gt.and.u32 p|s, %2, %3, q; "
        "setp.eq.xor.u32 u, %1, %3, s; xor.pred p, p, u; selp.u32 %0, %1, %2, p; }"
        : "=r"(r) : "r"(a), "r"(b), "r"(c));
    put(r);
    asm("{ .reg .pred p, q, s; setp.lt.s32 p, %1, %2; setp.lt.s32 q, %2, %3; "
        "setp.lt.u32 s, %1, %3; not.pred s, s; and.pred p, p, q; or.pred p, p, s; "
        "xor.pred q, q, p; @p add.u32 %0, %1, %2; @!p sub.u32 %0, %1, %2; @q add.u32 %0, %0, 1; }"
        : "=r"(r) : "r"(a), "r"(b), "r"(c));
    put(r);
    put(U2("set.lt.u32.s32", a, b));
    put(ASM3(unsigned, "r", "slct.u32.s32", "r", a, "r", b, "r", c));
    put(x >= y || z >= t.n ? a : b);
    put(x > y || y > z || z > 5 ? a : c);
    put(x <= y || z <= -3 ? b : c);
    put(x <= y && z <= y ? b : a);
    const long long v = (long long)x * z, w = (long long)y * z;
    put(v != w || x == 1 ? a : b);
    put((v > w || x < 3) && v != 0 ? c : b);
    put(v <= w && (unsigned long long)v >= (unsigned long long)w + 5 ? a : c);
}

KERNEL(int_compare_wide, 6, bits64, bits64, bits) {
    // 64-bit comparisons joined with others.
    const long long x = a, y = b;
    const int z = c;
    put(a != b || z > 5 ? 1u : c);
    put(x <= y && z != 3 ? 2u : c);
    put(a == b && z < 100 ? c : 3u);
    put((z > 7 && c != 9) || a != b + 1 ? c + 1 : 4u);
    put(x > y || (z <= 12 || z > 1000) ? 5u : c);
    put((x < y) != (z <= t.n) ? 6u : c);
}

KERNEL(int_select, 7, bits, bits, bits64) {
    put(a > b ? 17u : 0x12345u);
    put(a > b ? b : 5u);
    put(a > b ? c : c + 1);
    put(a & 1 ? ~a : b);
    put((int)a < 0 ? -(int)a : (int)b);
    put(a == b ? 0u : ~0u);
}

KERNEL(int_scaled, 23, bits, bits, bits64) {
    // What addresses are made of: LEA in its forms.
    put((a << 2) + b);
    put((a << 5) - b);
    put(b - (a << 3));
    put((a << 31) + b);
    put(((unsigned long long)a << 2) + c);
    put(((long long)(int)a << 4) + (long long)c);
    put((c << 3) + (((unsigned long long)b << 32) | a));
    put((a >> 28) + b);
    put((unsigned)((c << 4) >> 32) + b);
    put((unsigned)(((unsigned long long)a * 4 + c) >> 32));
    put(c + (long long)(int)(a * 8 + b));
    put((a << (b & 31)) + b);
    put(a * 5);
    put(a * 0xffffffffu + b);
    put((a << 4) + 0x1234);
    put((unsigned long long)(a + b) * 2 + c);
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
