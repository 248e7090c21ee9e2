// Between the lanes of a warp: shuffles, votes, matches, reductions; barriers within a block.
#include "fixture.cuh"

// A shuffle's word and whether its lane was in range, as two results.
#define SHFL(MODE, X, LANE, CLAMP, MASK) { unsigned r_, p_; asm volatile("{ .reg .pred p; " \
    "shfl.sync." MODE ".b32 %0|p, %2, %3, %4, %5; selp.u32 %1, 1, 0, p; }" \
    : "=r"(r_), "=r"(p_) : "r"(X), "r"(LANE), "r"(CLAMP), "r"(MASK)); put(r_); flags |= p_ << at++; }
#define SHFL_FIXED(MODE, X, LANE, CLAMP) { unsigned r_, p_; asm volatile("{ .reg .pred p; " \
    "shfl.sync." MODE ".b32 %0|p, %2, " #LANE ", " #CLAMP ", 0xffffffff; selp.u32 %1, 1, 0, p; }" \
    : "=r"(r_), "=r"(p_) : "r"(X)); put(r_); flags |= p_ << at++; }
#define ALL 0xffffffffu

KERNEL(warp_shuffle, 21, bits, bits, bits) {
    unsigned flags = 0, at = 0;
    SHFL("idx", a, b, 0x1f, ALL)
    SHFL("up", a, b & 31, 0, ALL)
    SHFL("down", a, b & 31, 0x1f, ALL)
    SHFL("bfly", a, b & 31, 0x1f, ALL)
    SHFL("idx", a, b, c & 0x1f1f, ALL)  // any segments and clamps
    SHFL("up", a, b, c & 0x1f1f, ALL)
    SHFL("down", a, b, c & 0x1f1f, ALL)
    SHFL("bfly", a, b, c & 0x1f1f, ALL)
    SHFL("idx", a, b, c, ALL)
    SHFL_FIXED("idx", a, 7, 0x1f)
    SHFL_FIXED("up", a, 3, 0)
    SHFL_FIXED("down", a, 5, 0x1f)
    SHFL_FIXED("bfly", a, 16, 0x1f)
    SHFL_FIXED("idx", a, 3, 0x181f)
    SHFL_FIXED("up", a, 2, 0x1800)
    SHFL_FIXED("down", a, 1, 0x1c1f)
    SHFL_FIXED("bfly", a, 5, 0x1c03)
    SHFL("bfly", a, 1, c, ALL)
    SHFL("idx", a, 9, c & 0x1f1f, ALL)
    SHFL("down", a, b, 0x1f, ALL)
    put(flags);
}

KERNEL(warp_shuffle_widths, 16, bits, bits, bits64) {
#pragma unroll
    for (int width = 2; width <= 32; width *= 2) {
        PUT(__shfl_sync(ALL, a, b, width), __shfl_up_sync(ALL, a, 1, width));
    }
    PUT(__shfl_down_sync(ALL, c, 3), __shfl_xor_sync(ALL, c, 8, 16), __shfl_sync(ALL, c, 0));
}

KERNEL(warp_shuffle_divided, 8, bits, bits, bits) {
    // The lanes that reach a shuffle are those of its mask, and they read from among themselves.
    unsigned r = 0, s = 0;
    const int lane = t.i & 31;
    if (lane & 1)
        r = __shfl_sync(0xaaaaaaaau, a, b | 1);
    else
        r = __shfl_xor_sync(0x55555555u, b, 2) + 1;
    put(r);
    if (lane < 16) {
        s = __shfl_down_sync(0x0000ffffu, a, 4, 16);
        s += __shfl_up_sync(0x0000ffffu, s, 2, 8);
    } else {
        s = __shfl_xor_sync(0xffff0000u, c, 1);
    }
    put(s);
    const unsigned mask = __ballot_sync(ALL, a & 2);
    unsigned v = b;
    if (a & 2) v = __shfl_sync(mask, c, __ffs(mask) - 1);
    put(v);
    unsigned sum = a;
#pragma unroll
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(ALL, sum, d);
    put(sum);
    unsigned scan = b;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(ALL, scan, d);
        if (lane >= d) scan += other;
    }
    put(scan);
    float most = __uint_as_float(c & 0x7f7fffffu);
#pragma unroll
    for (int d = 16; d; d >>= 1) most = fmaxf(most, __shfl_xor_sync(ALL, most, d));
    PUT(most, __shfl_sync(ALL, a, lane ^ (lane >> 1)), __shfl_sync(ALL, lane, 31 - lane));
}

KERNEL(warp_vote, 13, bits, bits, bits) {
    const int lane = t.i & 31;
    PUT(__ballot_sync(ALL, a > b), __any_sync(ALL, (a & 0x3f) == 5), __all_sync(ALL, a != 3));
    unsigned r;
    asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, %2; vote.sync.uni.pred q, p, 0xffffffff; "
                 "selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(a), "r"(b));
    PUT(r, __ballot_sync(ALL, true), __ballot_sync(ALL, lane > (int)(c & 15)));
    unsigned s = 0;
    if (lane & 2) s = __ballot_sync(0xccccccccu, a & 1);
    put(s);
    s = 0;
    if (lane < 20) s = __any_sync(0x000fffffu, b > 0xf0000000u) + 2 * __all_sync(0x000fffffu, b > 9);
    PUT(s, __activemask());
    s = 0;
    if (a & 1) s = __activemask();
    PUT(s, __popc(__ballot_sync(ALL, a & 4) & ((1u << lane) - 1)));
    unsigned eq, lt, le, ge, gt, id;
    asm("mov.u32 %0, %%lanemask_eq; mov.u32 %1, %%lanemask_lt; mov.u32 %2, %%lanemask_le; "
        "mov.u32 %3, %%lanemask_ge; mov.u32 %4, %%lanemask_gt; mov.u32 %5, %%laneid;"
        : "=r"(eq), "=r"(lt), "=r"(le), "=r"(ge), "=r"(gt), "=r"(id));
    PUT(eq + 3 * lt + 5 * le + 7 * ge + 11 * gt + 13 * id, __all_sync(ALL, lane >= 0) ? a : b);
}

KERNEL(warp_match, 8, bits, bits, bits64) {
    PUT(__match_any_sync(ALL, a & 3), __match_any_sync(ALL, a & 0x80000001u),
        __match_any_sync(ALL, c & 0x100000001ull));
    int pred;
    PUT(__match_all_sync(ALL, a & 0, &pred), pred,
        __match_all_sync(ALL, (c >> 63) + (b & 1), &pred) + 5 * pred);
    unsigned r = 0;
    if (t.i & 1) r = __match_any_sync(0xaaaaaaaau, b & 7);
    put(r);
    r = 0;
    if ((t.i & 31) < 7) r = __match_all_sync(0x7fu, 9ull, &pred) + pred;
    put(r);
}

KERNEL(warp_reduce, 10, bits, bits, bits) {
    PUT(__reduce_add_sync(ALL, a), __reduce_min_sync(ALL, a), __reduce_max_sync(ALL, a),
        __reduce_min_sync(ALL, (int)a), __reduce_max_sync(ALL, (int)b),
        __reduce_and_sync(ALL, a | b), __reduce_or_sync(ALL, a & b & c), __reduce_xor_sync(ALL, a));
    unsigned r = 0;
    if (t.i & 4) r = __reduce_add_sync(0xf0f0f0f0u, b);
    PUT(r, (unsigned)__reduce_add_sync(ALL, (int)c) * 3);
}

KERNEL90(warp_elect, 3, bits, bits, bits) {
    unsigned leader, is;
    asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; selp.u32 %1, 1, 0, p; }"
                 : "=r"(leader), "=r"(is));
    PUT(leader, is);
    unsigned r = 0;
    if ((t.i & 31) > 4) {
        asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffe0; selp.u32 %0, 1, 0, p; }" : "=r"(r));
        r += 2;
    }
    put(r);
}

KERNEL(warp_sync, 4, bits, bits, bits) {
    // Lanes hand words to each other through shared memory, with nothing but warp barriers.
    __shared__ unsigned words[128];
    const int lane = t.i & 31, base = threadIdx.x & ~31;
    words[threadIdx.x] = a;
    __syncwarp();
    put(words[base + (b & 31)]);
    __syncwarp();
    if (lane < 8) {
        words[base + lane] = c;
        __syncwarp(0xff);
        words[base + lane + 8] = words[base + (lane ^ 5)] + 1;
        __syncwarp(0xff);
    }
    __syncwarp();
    put(words[base + (lane ^ 9)]);
    __syncwarp();
    if (a & 1) words[threadIdx.x] = b;
    __syncwarp();
    PUT(words[base + 31 - lane], words[threadIdx.x]);
}

KERNEL(block_barrier, 9, bits, bits, bits) {
    __shared__ unsigned words[128];
    words[threadIdx.x] = a;
    __syncthreads();
    PUT(words[(threadIdx.x + b) & 127], __syncthreads_count(a & 1), __syncthreads_and(a != b),
        __syncthreads_or((a & 0xfff) == 77));
    words[threadIdx.x] = b;
    // Named barriers: the two halves of the block wait for themselves only.
    if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        const unsigned other = words[threadIdx.x ^ 32];
        asm volatile("bar.sync 1, 64;" ::: "memory");
        words[threadIdx.x] = other + 1;
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        words[threadIdx.x] *= 3;
    }
    __syncthreads();
    put(words[threadIdx.x ^ 33]);
    __syncthreads();
    // Producers arrive, consumers wait.
    unsigned read = 0;
    if (threadIdx.x < 32) {
        words[threadIdx.x] = c;
        __threadfence_block();
        asm volatile("bar.arrive 3, 64;" ::: "memory");
    } else if (threadIdx.x < 64) {
        asm volatile("bar.sync 3, 64;" ::: "memory");
        read = words[threadIdx.x - 32];
    }
    put(read);
    unsigned r;
    const int which = 4 + (threadIdx.x >> 6);
    asm volatile("barrier.sync %0, 64;" :: "r"(which) : "memory");
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, %2; barrier.red.popc.u32 %0, %3, 64, p; }"
                 : "=r"(r) : "r"(a), "r"(b), "r"(which) : "memory");
    put(r);
    asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, %2; barrier.red.or.pred q, %3, 64, p; "
                 "selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(a), "r"(b), "r"(which) : "memory");
    put(r);
    asm volatile("{ .reg .pred p, q; setp.lt.u32 p, %1, %2; bar.red.and.pred q, 0, p; "
                 "selp.u32 %0, 1, 0, q; }" : "=r"(r) : "r"(a), "r"(b) : "memory");
    put(r);
}

KERNEL(block_reduce, 3, bits, bits, bits) {
    __shared__ unsigned words[128];
    words[threadIdx.x] = a;
    for (int half = 64; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) words[threadIdx.x] += words[threadIdx.x + half];
    }
    __syncthreads();
    put(words[0]);
    __syncthreads();
    words[threadIdx.x] = b ^ c;
    __syncthreads();
    put(words[127 - threadIdx.x]);
    __syncthreads();
    // One warp leaves early; the others' barriers do not wait for it.
    if (threadIdx.x >= 96) {
        put(0);
        return;
    }
    words[threadIdx.x] = c;
    __syncthreads();
    put(words[(threadIdx.x + 32) % 96]);
}
