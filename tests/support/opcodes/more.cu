// What C++ features compile to: several numbers in one instruction, functions of the system, pointers
// to memory of any kind, groups of lanes in turn.
#include <cstdio>

#include "fixture.cuh"

#define PACK8(OP, X, Y) [&] { unsigned short r_; asm(OP " %0, %1, %2;" : "=h"(r_) : "f"(X), "f"(Y)); return r_; }()
#define PAIR8(OP, X) [&] { unsigned short r_; asm(OP " %0, %1;" : "=h"(r_) : "r"(X)); return r_; }()

KERNEL89(more_fp8_fours, 4, f32, f32near, f16x2) {
    PUT((unsigned)PACK8("cvt.rn.satfinite.e4m3x2.f32", a, b) << 16 | PACK8("cvt.rn.satfinite.e4m3x2.f32", b, a),
        (unsigned)PACK8("cvt.rn.satfinite.e5m2x2.f32", b, b * 3.0f) << 16 | PACK8("cvt.rn.satfinite.e5m2x2.f32", a, b),
        (unsigned)PAIR8("cvt.rn.satfinite.e4m3x2.f16x2", c.word) << 16 | PAIR8("cvt.rn.satfinite.e4m3x2.f16x2", ~c.word),
        (unsigned)PAIR8("cvt.rn.satfinite.e5m2x2.f16x2", c.word) << 16 | PACK8("cvt.rn.satfinite.relu.e5m2x2.f32", a, b));
}

#define BITS(OP) unsigned d0, d1; asm(OP " {%0,%1}, {%2}, {%3}, {%4,%5};" \
    : "=r"(d0), "=r"(d1) : "r"(a), "r"(b), "r"(c), "r"(a ^ c)); put(d0), put(d1);
KERNEL(more_bits_xor_88128, 2, bits, bits, bits) { BITS("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc") }
KERNEL(more_bits_and_88128, 2, bits, bits, bits) { BITS("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc") }

KERNEL90(more_atomic_vector, 16, f16x2, bf16x2, f32) {
    unsigned* at = put.at;
    for (int k = 0; k < 16; ++k) at[k] = k < 8 ? a.word : k < 12 ? b.word : __float_as_uint(c);
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1,%2,%1,%2};" :: "l"(at), "r"(a.word), "r"(~a.word) : "memory");
    asm volatile("red.global.add.noftz.v2.f16x2 [%0], {%1,%2};" :: "l"(at + 4), "r"(b.word), "r"(a.word >> 3) : "memory");
    asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1,%2,%1,%2};" :: "l"(at + 8), "r"(b.word), "r"(~b.word) : "memory");
    asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%1};" :: "l"(at + 12), "f"(c), "f"(-c), "f"(1e-40f) : "memory");
    put.done();
}

struct alignas(16) Wide { unsigned long long low, high; };
KERNEL90(more_swap_wide, 14, bits64, bits64, bits64) {
    __shared__ Wide words[128];
    Wide* at = words + threadIdx.x;
    *at = Wide{a, b};
    const Wide first = atomicCAS(at, Wide{a, b}, Wide{c, a});
    const Wide second = atomicCAS(at, Wide{a, c ^ 1}, Wide{b, b});
    const Wide third = atomicExch(at, Wide{b, c});
    put(first.low), put(first.high), put(second.low), put(second.high);
    put(third.low ^ third.high), put(at->low), put(at->high);
}

KERNEL(more_lanes_in_turn, 3, bits, bits, bits) {
    const unsigned mates = __match_any_sync(~0u, a & 3);
    PUT(__reduce_add_sync(mates, b), __reduce_xor_sync(mates, c), __popc(mates));
}

__device__ __noinline__ void fill(unsigned* p, unsigned v) {
    for (int k = 0; k < 8; ++k) p[k] = v * k;
}
KERNEL(more_anywhere, 4, bits, bits, bits) {
    __shared__ unsigned all[128 * 8];
    unsigned own[8], *mine = all + 8 * threadIdx.x;
    fill(own, a), fill(mine, b);
    const unsigned* p = c & 1 ? own : mine;
    put(p[a & 7]);
    put(__isShared(p) ? 1u : 0u), put(__isLocal(p) ? 1u : 0u), put(__isGlobal(t.a) ? 1u : 0u);
}

KERNEL(more_printf, 3, bits, bits, f32) {
    PUT(t.i == 3 ? printf("%d %u%%\n", a, b) : 9, t.i == 5 ? printf("nothing\n") : 9,
        t.i & 64 ? 1u : (unsigned)(t.i < 2 ? printf("%s %f %lld\n", "text", c, (long long)b << 20) : 7));
}
