// Loads, stores and atomics of every width and space, with the qualifiers that select other
// instructions. Atomics whose order could be seen in a result do not occur.
#include "fixture.cuh"

#define LD(T, t, OP, AT) [&] { T r_; asm volatile(OP " %0, [%1];" : "=" t(r_) : "l"(AT) \
    : "memory"); return r_; }()
#define LDS(T, t, OP, AT) [&] { T r_; asm volatile(OP " %0, [%1];" : "=" t(r_) : "r"(AT) \
    : "memory"); return r_; }()
#define LD_U32(OP, AT) LD(unsigned, "r", OP, AT)
#define LD_U64(OP, AT) LD(unsigned long long, "l", OP, AT)
#define LDS_U32(OP, AT) LDS(unsigned, "r", OP, AT)
#define LDS_U64(OP, AT) LDS(unsigned long long, "l", OP, AT)
#define ST(OP, t, AT, X) asm volatile(OP " [%0], %1;" :: "l"(AT), t(X) : "memory")
#define STSH(OP, t, AT, X) asm volatile(OP " [%0], %1;" :: "r"(AT), t(X) : "memory")

KERNEL(memory_load, 30, bits_4, bits, bits) {
    const char* at = (const char*)(t.a + 4 * t.i);  // this thread's 16 bytes
    const char* any = (const char*)t.b;
    PUT(LD_U32("ld.global.u8", at + 1), LD_U32("ld.global.s8", at + 3),
        LD_U32("ld.global.u16", at + 2), LD_U32("ld.global.s16", at + 6),
        LD_U32("ld.global.u32", at + 8), LD_U64("ld.global.u64", at + 8));
    unsigned x, y, z, w;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(at));
    put(x), put(y), put(z), put(w);
    asm volatile("ld.global.v2.u32 {%0,%1}, [%2];" : "=r"(x), "=r"(y) : "l"(at + 8));
    put(x), put(y);
    asm volatile("ld.global.v4.u8 {%0,%1,%2,%3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(at + 4));
    PUT(x + 256 * y + 65536 * z + (w << 24), LD_U32("ld.global.cg.u32", at),
        LD_U32("ld.global.cs.u32", at + 4), LD_U32("ld.global.lu.u32", at + 8),
        LD_U32("ld.global.cv.u32", at + 12), LD_U32("ld.global.nc.u32", at),
        LD_U32("ld.global.nc.u8", at + (b & 15)), LD_U32("ld.volatile.global.u32", at + 4),
        LD_U32("ld.relaxed.gpu.global.u32", at + 8), LD_U32("ld.acquire.gpu.global.u32", at + 12));
    PUTS(LD_U32, (at), "ld.acquire.sys.global.u32", "ld.relaxed.cta.global.u32",
         "ld.global.L1::no_allocate.L2::128B.u32");
    put(LD_U32("ld.global.L1::evict_last.u32", at + 8));
    put(LD_U32("ld.global.u32", any + 4 * (c & 255)));       // anywhere
    put(LD_U32("ld.global.s8", any + (c & 1023)));
    put(LD_U32("ld.u16", any + 2 * (c & 511)));              // generic
}

KERNEL(memory_load_more, 17, bits_4, bits, bits) {
    const uint4 whole = __ldg((const uint4*)t.a + t.i);
    put(whole.x ^ whole.w), put(whole.y + whole.z);
    const uint2 part = *((const uint2*)t.a + 2 * t.i + 1);
    PUT(part.x - part.y, (int)*((const signed char*)t.a + (b & 2047)),
        (int)*((const short*)t.a + (b & 1023)),
        (unsigned)*((const unsigned short*)t.a + (c & 1023)),
        *((const unsigned long long*)t.a + (c & 511)),
        __ldg((const unsigned char*)t.a + (c & 4095)), (int)__ldg((const short*)t.a + (c & 1023)));
    const long long index = (int)(b & 127) - (long long)(c & 63);
    PUT(t.a[index + 64], t.a[(unsigned)(b & 127) * 2u + 5],
        (unsigned)__ldg((const unsigned short*)t.a + (b & 1023)),
        LD_U64("ld.relaxed.gpu.global.u64", t.a + 4 * t.i),
        LD_U64("ld.relaxed.cta.global.u64", t.a + 4 * t.i + 2));
}

KERNEL(memory_store, 16, bits, bits, bits) {
    char* at = (char*)put.at;  // 64 bytes of this thread's own
    for (int k = 0; k < 16; ++k) put.at[k] = 0x01010101u * k;
    ST("st.global.u8", "r", at + 1, a);
    ST("st.global.u16", "h", at + 6, (unsigned short)b);
    ST("st.global.u32", "r", at + 8, c);
    ST("st.global.u64", "l", at + 16, (unsigned long long)a << 20 | b);
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" :: "l"(at + 32), "r"(a), "r"(b), "r"(c), "r"(a + b) : "memory");
    asm volatile("st.global.v2.u16 [%0], {%1,%2};" :: "l"(at + 24), "h"((unsigned short)a), "h"((unsigned short)c) : "memory");
    ST("st.global.cg.u32", "r", at + 48, a ^ b);
    ST("st.global.cs.u32", "r", at + 52, b ^ c);
    ST("st.global.wt.u32", "r", at + 56, a ^ c);
    ST("st.volatile.global.u8", "r", at + 60, c);
    ST("st.relaxed.gpu.global.u16", "h", at + 62, (unsigned short)a);
    ST("st.release.gpu.global.u32", "r", at + 28, a - c);
    ST("st.global.u8", "r", at + 12 + (a & 3), b >> 8);
    ST("st.u8", "r", at + 4 + (c & 1), a >> 16);
    put.done();
}

KERNEL(memory_shared, 26, bits_4, bits, bits) {
    __shared__ __align__(16) unsigned words[128][4];
    const unsigned base = (unsigned)__cvta_generic_to_shared(&words[0][0]);
    const unsigned own = base + 16 * threadIdx.x, other = base + 16 * (b & 127), far = c & 127;
    STSH("st.shared.u8", "r", own, a[0]);
    STSH("st.shared.u8", "r", own + 1, a[1]);
    STSH("st.shared.u16", "h", own + 2, (unsigned short)a[2]);
    STSH("st.shared.u32", "r", own + 4, a[3]);
    STSH("st.shared.u64", "l", own + 8, (unsigned long long)a[0] << 32 | a[1]);
    __syncthreads();
    PUTS(LDS_U32, (other + (c & 15)), "ld.shared.u8", "ld.shared.s8");
    PUTS(LDS_U32, (other + (c & 14)), "ld.shared.u16", "ld.shared.s16");
    PUT(LDS_U32("ld.shared.u32", other + (c & 12)), LDS_U64("ld.shared.u64", other + (c & 8)));
    unsigned x, y, z, w;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(other));
    put(x), put(y), put(z), put(w);
    __syncthreads();
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" :: "r"(own), "r"(a[3]), "r"(a[2]), "r"(a[1]), "r"(a[0]) : "memory");
    __syncthreads();
    PUT(words[far][b & 3], words[threadIdx.x ^ 1][2],
        (&words[0][0])[(threadIdx.x * 4 + (b & 511)) & 511],
        LDS_U32("ld.volatile.shared.u32", other + 4));
    // Through generic addresses, and asking what they are.
    unsigned* generic = a[0] & 1 ? &words[far][0] : (unsigned*)t.a + far * 4;
    put(generic[b & 3]);
    unsigned space;
    asm("{ .reg .pred p, q; isspacep.shared p, %1; isspacep.global q, %1; selp.u32 %0, 1, 0, p; "
        "@q add.u32 %0, %0, 2; }" : "=r"(space) : "l"(generic));
    PUT(space, (unsigned)(generic == &words[far][0]));
    __syncthreads();
    if (a[0] & 1) *(unsigned char*)((char*)&words[threadIdx.x][0] + 5) = c;
    __syncthreads();
    put(words[far][1]);
    double* doubles = (double*)&words[threadIdx.x][0];
    doubles[1] = (double)(int)a[2];
    __syncthreads();
    put(*(const double*)&words[far][2]);
    const float4 four = *(const float4*)&words[far ^ 1][0];
    put(__float_as_uint(four.x) ^ __float_as_uint(four.w)), put(__float_as_uint(four.y) + __float_as_uint(four.z));
    const uint2 two = *(const uint2*)&words[far ^ 3][2];
    put(two.x), put(two.y);
    __syncthreads();
    asm volatile("st.shared.v2.u32 [%0], {%1,%2};" :: "r"(own + 8), "r"(b), "r"(c) : "memory");
    put(LDS_U32("ld.shared.u32", own + 12));
}

extern __shared__ unsigned dynamic[];

KERNEL(memory_shared_dynamic, 2, bits, bits, bits) {
    // Nothing was asked for at launch: only the addresses are looked at.
    unsigned size;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    PUT(size, (unsigned)(((unsigned long long)__cvta_generic_to_shared(dynamic) & 0xf) + a));
}

#define ATOMIC(T, t, OP, AT, X) [&] { T r_; asm volatile("atom." OP " %0, [%1], %2;" \
    : "=" t(r_) : "l"(AT), t(X) : "memory"); return r_; }()
#define ATOMIC_U32(OP, AT, X) ATOMIC(unsigned, "r", OP, AT, X)
#define ATOMIC_U64(OP, AT, X) ATOMIC(unsigned long long, "l", OP, AT, X)
#define RED(OP, t, AT, X) asm volatile("red." OP " [%0], %1;" :: "l"(AT), t(X) : "memory")

KERNEL(memory_atomic_word, 26, bits, bits, bits) {
    // Each thread has its own word, so what the atomic returns is known.
    unsigned* at = put.at;
    at[0] = a;
    put.used = 1;
    PUT(ATOMIC_U32("global.add.u32", at, b), ATOMIC_U32("global.min.u32", at, c),
        ATOMIC_U32("global.max.u32", at, a), ATOMIC_U32("global.min.s32", at, b),
        ATOMIC_U32("global.max.s32", at, c), ATOMIC_U32("global.and.b32", at, b | 0xff),
        ATOMIC_U32("global.or.b32", at, c & 0xf0f0f0), ATOMIC_U32("global.xor.b32", at, a));
    PUTS(ATOMIC_U32, (at, b), "global.exch.b32", "global.inc.u32");
    PUT(ATOMIC_U32("global.inc.u32", at, 5), ATOMIC_U32("global.dec.u32", at, 2),
        ATOMIC_U32("global.exch.b32", at, 0), ATOMIC_U32("global.dec.u32", at, c),
        atomicCAS(at, c, a), atomicCAS(at, 12345u, b), atomicSub(at, c),
        ATOMIC_U32("global.relaxed.sys.add.u32", at, a),
        ATOMIC_U32("global.acq_rel.gpu.add.u32", at, b),
        ATOMIC_U32("relaxed.cta.global.add.u32", at, 3));
    put(ATOMIC_U32("add.u32", at, c));  // generic
    RED("global.add.u32", "r", at, a);
    RED("global.min.s32", "r", at, b);
    RED("global.max.u32", "r", at, c);
    RED("global.xor.b32", "r", at, b);
    RED("global.and.b32", "r", at, ~c);
    RED("global.or.b32", "r", at, 0x101);
    RED("global.inc.u32", "r", at, a);
    PUT(*(volatile unsigned*)at, atomicExch((float*)at, 1.5f), atomicAdd_system(at, 7u),
        *(volatile unsigned*)at);
}

KERNEL(memory_atomic_wide, 28, bits64, bits64, bits64) {
    unsigned long long* at = (unsigned long long*)put.at;
    at[0] = a;
    put.used = 2;
    PUT(ATOMIC_U64("global.add.u64", at, b), ATOMIC_U64("global.min.u64", at, c),
        ATOMIC_U64("global.max.u64", at, a), ATOMIC_U64("global.min.s64", at, b),
        ATOMIC_U64("global.max.s64", at, c), ATOMIC_U64("global.and.b64", at, b | 0xff),
        ATOMIC_U64("global.or.b64", at, c & 0xf0f0f0), ATOMIC_U64("global.xor.b64", at, a),
        ATOMIC_U64("global.exch.b64", at, b), atomicCAS(at, b, c), atomicCAS(at, a ^ 1, b),
        atomicAdd(at, 1ull << 33));
    RED("global.add.u64", "l", at, a);
    RED("global.min.u64", "l", at, b | 1ull << 60);
    RED("global.max.s64", "l", at, c);
    RED("global.xor.b64", "l", at, c);
    put(*(volatile unsigned long long*)at);
}

KERNEL(memory_atomic_float, 13, f32, f32, f32near) {
    float* at = (float*)put.at;
    at[0] = a;
    put.used = 1;
    PUT(atomicAdd(at, b), ATOMIC(float, "f", "global.add.f32", at, c),
        ATOMIC(float, "f", "global.exch.b32", at, c), ATOMIC(float, "f", "global.add.f32", at, c));
    RED("global.add.f32", "f", at, c);
    put(*(volatile float*)at);
    // Denormals: global atomics flush them.
    atomicExch(at, __uint_as_float(0x00400000));
    PUT(ATOMIC(float, "f", "global.add.f32", at, 0.0f),
        ATOMIC(float, "f", "global.add.f32", at, __uint_as_float(0x00300000)));
    RED("global.add.f32", "f", at, a);
    put(*(volatile float*)at);
    __shared__ float words[128];
    words[threadIdx.x] = a;
    put(atomicAdd(words + threadIdx.x, b));
    atomicAdd(words + threadIdx.x, c);
    put(words[threadIdx.x]);
    words[threadIdx.x] = __uint_as_float(0x00400000);
    atomicAdd(words + threadIdx.x, __uint_as_float(0x00300000));
    put(words[threadIdx.x]);
    float* generic = a < b ? words + threadIdx.x : at;
    atomicAdd(generic, b);
    put(words[threadIdx.x]);
}

KERNEL(memory_atomic_double, 12, f64, f64, f64) {
    double* at = (double*)put.at;
    at[0] = a;
    put.used = 2;
    PUT(atomicAdd(at, b), atomicAdd(at, c));
    RED("global.add.f64", "d", at, a);
    put(*(volatile double*)at);
    __shared__ double words[128];
    words[threadIdx.x] = a;
    PUT(atomicAdd(words + threadIdx.x, b), words[threadIdx.x]);
}

KERNEL(memory_atomic_half, 8, f16x2, f16x2, bf16x2) {
    unsigned* at = put.at;
    at[0] = a.word;
    put.used = 1;
    put(ATOMIC_U32("global.add.noftz.f16x2", at, b.word));
    RED("global.add.noftz.f16x2", "r", at, 0x3c00b800u);
    put(*(volatile unsigned*)at);
    unsigned short old;
    asm volatile("atom.global.add.noftz.f16 %0, [%1], %2;" : "=h"(old) : "l"(at), "h"((unsigned short)b.word) : "memory");
    PUT((unsigned)old, *(volatile unsigned*)at);
    __shared__ unsigned words[128];
    words[threadIdx.x] = a.word;
    const unsigned own = (unsigned)__cvta_generic_to_shared(words + threadIdx.x);
    asm volatile("red.shared.add.noftz.f16x2 [%0], %1;" :: "r"(own), "r"(b.word) : "memory");
    put(words[threadIdx.x]);
    unsigned short swapped;
    asm volatile("atom.global.cas.b16 %0, [%1], %2, %3;" : "=h"(swapped)
                 : "l"(at), "h"((unsigned short)c.word), "h"((unsigned short)b.word) : "memory");
    PUT((unsigned)swapped, *(volatile unsigned*)at);
}

KERNEL90(memory_atomic_bf16, 4, bf16x2, bf16x2, bf16x2) {
    unsigned* at = put.at;
    at[0] = a.word;
    put.used = 1;
    put(ATOMIC_U32("global.add.noftz.bf16x2", at, b.word));
    RED("global.add.noftz.bf16x2", "r", at, c.word);
    put(*(volatile unsigned*)at);
    unsigned short old;
    asm volatile("atom.global.add.noftz.bf16 %0, [%1], %2;" : "=h"(old) : "l"(at), "h"((unsigned short)b.word) : "memory");
    put((unsigned)old);
}

KERNEL90(memory_atomic_vector, 12, f32, f32near, bits) {
    float* at = (float*)put.at;
    for (int k = 0; k < 4; ++k) at[k] = a;
    put.used = 4;
    asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%1};" :: "l"(at), "f"(b), "f"(-b), "f"(b * 0.5f) : "memory");
    float x, y;
    asm volatile("atom.global.add.v2.f32 {%0,%1}, [%2], {%3,%4};" : "=f"(x), "=f"(y) : "l"(at), "f"(b), "f"(b) : "memory");
    put(x), put(y);
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1,%1,%1,%1};" :: "l"(at), "r"(c & 0x3fff3fff) : "memory");
    put(0), put(0);
    unsigned long long old_low, old_high;
    asm volatile("{ .reg .b128 o, e, d; mov.b128 e, {%3, %3}; mov.b128 d, {%4, %3}; "
                 "atom.global.exch.b128 o, [%2], d; mov.b128 {%0, %1}, o; }"
                 : "=l"(old_low), "=l"(old_high) : "l"(at), "l"((unsigned long long)c), "l"(77ull) : "memory");
    put(old_low), put(old_high);
}

KERNEL(memory_atomic_shared, 28, bits, bits, bits64) {
    __shared__ unsigned words[128];
    __shared__ unsigned long long wide[128];
    unsigned* at = words + threadIdx.x;
    *at = a;
    PUT(atomicAdd(at, b), atomicMin(at, (unsigned)c), atomicMax(at, a), atomicMin((int*)at, (int)b),
        atomicMax((int*)at, (int)c), atomicAnd(at, b | 0xff), atomicOr(at, 0xf0f0f0),
        atomicXor(at, a), atomicExch(at, b), atomicInc(at, b), atomicInc(at, 5), atomicDec(at, 2),
        atomicCAS(at, a, b), atomicCAS(at, *(volatile unsigned*)at, (unsigned)c));
    atomicAdd(at, 9);
    atomicMax(at, b);
    put(*at);
    unsigned long long* place = wide + threadIdx.x;
    *place = c;
    PUT(atomicAdd(place, (unsigned long long)a << 16), atomicMin(place, ~c),
        atomicExch(place, c + 3), atomicCAS(place, c + 3, c * b), atomicXor(place, c), *place,
        wide[threadIdx.x] > c);
}

KERNEL(memory_atomic_together, 12, bits, bits, f32near) {
    // Many threads, one word: only sums and the like, whose order cannot be seen.
    __shared__ unsigned words[16];
    __shared__ unsigned long long wide;
    if (threadIdx.x < 16) words[threadIdx.x] = 0;
    if (threadIdx.x == 0) wide = 0;
    __syncthreads();
    atomicAdd(words, a);
    atomicAdd(words + 1, 1);
    atomicAdd(words + 2 + (a & 3), b);
    atomicMax(words + 6, a);
    atomicOr(words + 7, b & a);
    atomicXor(words + 8, a ^ b);
    if (a & 1) atomicAdd(words + 9, 1);
    if (atomicInc(words + 10, 99) < 300) atomicAdd(words + 11, 3);
    atomicAdd(&wide, (unsigned long long)a * b);
    __syncthreads();
    put(words[0]), put(words[1]), put(words[2 + (b & 3)]), put(words[6]), put(words[7]);
    put(words[8]), put(words[9]), put(words[10] + words[11]), put(wide);
    // The same on global memory: one word of each warp's first thread.
    unsigned* shared_by_warp = t.out + (size_t)(t.i & ~31) * 12;
    if ((t.i & 31) == 0) shared_by_warp[10] = 0, shared_by_warp[11] = 0;
    __syncwarp();
    atomicAdd(shared_by_warp + 10, a);
    if (atomicAdd(shared_by_warp + 11, 1) > 100) atomicAdd(shared_by_warp + 11, 1);
    __threadfence();
    __syncwarp();
    if (t.i & 31) put.at[10] = *(volatile unsigned*)(shared_by_warp + 10), put.at[11] = a;
    put.done();
}

KERNEL(memory_aggregated, 2, bits, bits, bits) {
    // One uniform address: ptxas lets one lane add for all.
    __shared__ unsigned count, total;
    if (threadIdx.x == 0) count = 0, total = 0;
    __syncthreads();
    if (a & 2) atomicAdd(&count, 1);
    atomicAdd(&total, 5);
    const unsigned slot = atomicAdd(&total, 2);
    if (slot > 100000) atomicAdd(&count, 1);
    __syncthreads();
    PUT(count, total);
}

KERNEL(memory_spin, 2, bits, bits, bits) {
    // A lock that one lane after another takes: progress of each lane on its own.
    __shared__ unsigned lock, sum;
    if (threadIdx.x == 0) lock = 0, sum = 0;
    __syncthreads();
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            sum = sum + (a & 0xffff);
            __threadfence_block();
            atomicExch(&lock, 0);
            done = true;
        }
    }
    __syncthreads();
    put(sum);
    // A flag that the first warp sets and the others wait for.
    __shared__ volatile unsigned flag, word;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 5) {
        word = b;
        __threadfence_block();
        flag = 1;
    } else if (threadIdx.x >= 32) {
        while (flag == 0) {}
    }
    __syncthreads();
    put(word);
}

KERNEL(memory_fence, 3, bits, bits, bits) {
    put.at[0] = a;
    __threadfence_block();
    put.at[1] = b;
    __threadfence();
    put.at[2] = c;
    __threadfence_system();
    asm volatile("fence.acq_rel.gpu; fence.sc.cta; membar.gl;" ::: "memory");
    asm volatile("prefetch.global.L2 [%0]; prefetch.global.L1 [%0];" :: "l"(t.a + t.i));
    put.done();
}

KERNEL(memory_copy, 14, bits_4, bits, bits) {
    // Asynchronous copies into shared memory: three widths, two caches, parts filled with zeros.
    __shared__ __align__(16) unsigned words[6][128][4];
    const unsigned base = (unsigned)__cvta_generic_to_shared(&words[0][threadIdx.x][0]);
    const unsigned* from = t.a + 4 * t.i;
    const unsigned stride = sizeof(words[0]);
    for (int k = 0; k < 24; ++k) (&words[k / 4][threadIdx.x][0])[k % 4] = 0xabcdef00u + k;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(base), "l"(from + (b & 3)) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(base + stride), "l"(from + (b & 2)) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(base + 2 * stride), "l"(from) : "memory");
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(base + 3 * stride), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(base + 4 * stride), "l"(from), "r"(b & 12) : "memory");
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, 100; "
                 "cp.async.ca.shared.global.L2::128B [%0], [%1], 16, p; }"
                 :: "r"(base + 5 * stride), "l"(from), "r"(b & 0xff) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group 2;" ::: "memory");
    put(words[0][threadIdx.x][0]), put(words[1][threadIdx.x][0] ^ words[1][threadIdx.x][1]);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    put(words[2][threadIdx.x][3]), put(words[3][threadIdx.x][1]);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const int other = c & 127;
    for (int k = 0; k < 4; ++k) put(words[4][other][k]);
    for (int k = 0; k < 4; ++k) put(words[5][other][k]);
    put(words[3][other ^ 1][2]), put(words[0][other][1]);
}

__constant__ unsigned constants[64] = {0x01234567, 0x89abcdef, 0xfedcba98, 0x76543210, 5, 6, 7, 8,
                                       9, 10, 11, 12, 0x80000000, 0xffffffff, 0x7fffffff, 1};

KERNEL(memory_constant, 10, bits, bits, bits) {
    const char* at = (const char*)constants;
    PUT(constants[a & 63], (unsigned)*(const unsigned char*)(at + (a & 63)),
        (int)*(const signed char*)(at + (b & 63)),
        (unsigned)*(const unsigned short*)(at + (b & 62)), (int)*(const short*)(at + (c & 62)),
        *(const unsigned long long*)(at + (c & 56)));
    const uint4 four = *(const uint4*)(at + (a & 48));
    put(four.x + four.w), put(four.y ^ four.z);
    put(constants[3] + constants[(a & 7) + 4]);
}
