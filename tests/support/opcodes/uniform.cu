// The uniform datapath: what is the same for a whole block is computed once a warp. `u`, `v` and `w`
// are such words, made of the block's number, the grid and the length.
#include "fixture.cuh"

#define UNIFORM                                                \
    const unsigned u = blockIdx.x * 0x9e3779b1u + t.n * 77u;   \
    const unsigned v = (gridDim.x + 3) * 0x85ebca6bu ^ u >> 5; \
    const unsigned w = t.n - blockIdx.x * 5;                   \
    const unsigned long long uv = (unsigned long long)u << 32 | v;

// Mix the uniform words into as many words of the thread, which are all alive at once: ptxas runs
// short of registers and computes in the uniform datapath.
template <int N>
__device__ __forceinline__ void mingle(const Thread& t, const unsigned (&r)[N], Results<N>& put) {
    unsigned x[N];
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = t.a[t.i ^ k];
#pragma unroll 1
    for (int round = 0; round < (t.n & 3) + 2; ++round) {
#pragma unroll
        for (int k = 0; k < N; ++k) x[k] = x[k] * 5 ^ r[k];
    }
#pragma unroll
    for (int k = 0; k < N; ++k) put(x[k]);
}

#define HIGH(X) (unsigned)((unsigned long long)(X) >> 32)

KERNEL_TIGHT(uniform_arithmetic, 26, bits, bits, bits) {
    UNIFORM
    const unsigned long long product = (unsigned long long)u * v, sum = uv + product,
                             difference = uv - ((unsigned long long)v << 32 | w),
                             scaled = uv * 8 + product, added = (unsigned long long)v * w + uv,
                             third = uv + product + difference;
    const long long negative = (long long)(int)u * (int)v, mixed = (long long)(int)w * (int)u + (long long)uv;
    const unsigned r[] = {
        u + v, u - v, u + v + w, w - u - v, u * v, u * v + w, w - u * v, u * 12 + w,
        (u << 3) + v, (u << 5) - w, __umulhi(u, v), (unsigned)__mulhi((int)u, (int)v),
        (unsigned)product, HIGH(sum), HIGH(difference), HIGH(scaled), HIGH(added), HIGH(negative),
        HIGH(mixed), (unsigned)third, HIGH(third), (unsigned)((uv << 2) >> 32) + w, u * 0x10003u,
        (unsigned)(int)(short)u, (unsigned)abs((int)v), u / 7u};
    mingle(t, r, put);
}

KERNEL_TIGHT(uniform_logic, 27, bits, bits, bits) {
    UNIFORM
    const unsigned r[] = {
        u & v, u | v, u ^ v ^ w, (u & v) | (~u & w), ~u, u & ~v, (u & v) | (v & w) | (u & w),
        u << (w & 31), u >> (v & 31), (unsigned)((int)u >> (w & 31)), u << 7, u >> 9,
        (unsigned)((int)u >> 13), __funnelshift_l(u, v, w), __funnelshift_r(u, v, 9),
        __funnelshift_rc(u, v, w), (unsigned)(uv >> (w & 63)), HIGH(uv << (w & 63)),
        HIGH((long long)uv >> (w & 63)), (u >> 5) & 0x3ff, u & 0xff00ff, U3("bfe.s32", u, 5, 9),
        U2("bmsk.clamp.b32", w & 31, v & 31), U2("szext.wrap.s32", u, w), u << 13 | v >> 19,
        U2("shl.b32", u, w & 63), U2("shr.s32", u, v & 63)};
    mingle(t, r, put);
}

KERNEL_TIGHT(uniform_bits, 20, bits, bits, bits) {
    UNIFORM
    const unsigned r[] = {
        (unsigned)__popc(u), (unsigned)__clz(u), (unsigned)__ffs(v), __brev(w),
        U1("bfind.s32", u), U1("bfind.shiftamt.u32", v), (unsigned)__popcll(uv),
        (unsigned)__clzll(uv >> 20), __byte_perm(u, v, 0x1605), __byte_perm(u, v, w & 0x7777),
        __byte_perm(u, v, 0xba98), __byte_perm(u, 0, 0x4341), (u & 0xff) * 0x01010101u,
        (u & ~0xff00u) | (v & 0xff) << 8, u << 16 | (v & 0xffff), (unsigned)__popc(~v),
        (unsigned)(signed char)(u >> 8), (unsigned)(unsigned char)(v >> 16), HIGH(__brevll(uv)),
        U1("bfind.u32", w)};
    mingle(t, r, put);
}

KERNEL_TIGHT(uniform_predicates, 26, bits, bits, bits) {
    UNIFORM
    const unsigned long long wv = (unsigned long long)w << 32 | v, uw = (unsigned long long)u << 32 | w;
    const bool p = u > v, q = (int)v < (int)w, s = (u & 4) != 0;
    const unsigned r[] = {
        p ? u : v, q ? w : 5, p && q ? u : w, p || q ? u : w, p != q ? v : w, (p && q) || s ? u : 3,
        (p && !q) != s ? u : v, min(u, v), (unsigned)max((int)u, (int)v), min(max(w, 7u), 300u),
        uv > wv ? u : v, (long long)uv < (long long)wv ? u : w, uv >= uw ? u : v,
        (long long)uv <= (long long)uw ? v : w, u == v ? u : w, uv != uw ? 1u : v,
        (u & v) == 0 ? u + 1 : v + 2, (u & v & w) != 0 ? u : ~v, blockIdx.x < 2 || t.n > 1000 ? v : 1u,
        (unsigned)p + 2 * q + 4 * s, u >= 0x80000000u ? v : w, (int)w >= t.n ? u : w,
        (int)u <= 0 && p ? v : w, (u & 1) + (v >> 31) > 1 ? u : v, p ? u + v : u - v,
        (unsigned)(u <= v) - 1};
    mingle(t, r, put);
}

KERNEL_TIGHT(uniform_addresses, 20, bits, bits, bits) {
    // Places in memory that are the same for the warp, 64 bits wide, and predicates on the way.
    UNIFORM
    unsigned x[20];
#pragma unroll
    for (int k = 0; k < 20; ++k) x[k] = t.a[t.i ^ k];
    const long long far = (long long)(int)(u & 63) * (int)(v & 3) - 7;
    const unsigned* place = t.b + far + 8;
    const unsigned long long* wide = (const unsigned long long*)t.c + (w & 31);
#pragma unroll 1
    for (int k = 0; k < (int)(w & 7) + 2; ++k) {
        const bool take = (int)u > (int)(v + k) || (int)w > k + 300 || k == 1;
        if (take && (k < 3 || (u & 1))) place += (v >> k) & 15;
        wide += (u >> (2 * k)) & 3;
        const unsigned long long y = (uv >> k) * 2 + (unsigned long long)(long long)place[0] + wide[k];
#pragma unroll
        for (int j = 0; j < 20; ++j) x[j] = x[j] * 3 ^ (unsigned)(y >> j) ^ place[j];
    }
#pragma unroll
    for (int k = 0; k < 20; ++k) put(x[k]);
}

KERNEL_TIGHT(uniform_branches, 22, bits, bits, bits) {
    // Branches and loops of the whole warp.
    UNIFORM
    unsigned x[22];
#pragma unroll
    for (int k = 0; k < 22; ++k) x[k] = t.a[t.i ^ k];
    unsigned stage = blockIdx.x & 1, phase = 0;
#pragma unroll 1
    for (int k = 0; k < (int)(u & 7) + 4; ++k) {
        stage = stage == 2 ? 0 : stage + 1;
        if (stage == 0) phase ^= 1;
#pragma unroll
        for (int j = 0; j < 22; ++j) x[j] = x[j] * 3 + t.b[(t.i + stage * 32 + j) & (t.n - 1)];
        if (phase && k < (int)(v & 3) + 2) {
#pragma unroll
            for (int j = 0; j < 22; ++j) x[j] ^= w + j;
        } else if ((w >> k & 1) && u > v) {
#pragma unroll
            for (int j = 0; j < 22; ++j) x[j] += x[(j + 1) % 22];
        }
        if (k == (int)blockIdx.x + 5) break;
    }
#pragma unroll
    for (int k = 0; k < 22; ++k) put(x[k]);
}

KERNEL(uniform_mixed, 25, bits, bits, bits) {
    // Uniform words as operands of per-thread instructions.
    UNIFORM
    PUT(a + u, b + (u - v), c - (u << 3) + v, (unsigned long long)u * v + a, uv + a, a + w * 12,
        b * u + v, (uv | 1) * 8 + c, a ^ (u >> (v & 31)), a + __popc(u),
        a ^ __byte_perm(u, v, 0x1605), a + (u > v ? u : v), b + (u > v && v > w ? u : w),
        uv > (unsigned long long)w * v ? a : b,
        (int)(a > u) + 2 * (int)(b <= v) + 4 * (int)(u != w));
    unsigned r = a;
    if (u & 1) r = b * 3;
    if (blockIdx.x & 1) r += c;
    if (blockIdx.x == 2 && t.n > 100) r = ~r;
    PUT(r, (a << 4) + u, __funnelshift_l(a, u, v), __byte_perm(a, u, w), (a & u) | (b & ~u),
        min(a, u) + max((int)b, (int)v), b << (w & 31));
}

KERNEL(uniform_loop, 5, bits, bits, bits) {
    UNIFORM
    unsigned sum = 0;
    for (unsigned k = 0; k < (u & 31) + blockIdx.x; ++k) sum += a >> (k & 31) ^ k * v;
    put(sum);
    unsigned x = b;
    for (int k = blockIdx.x; k < t.n; k += 64) x = x * 3 + k;
    PUT(x, u / (v | 1) + a, w % (unsigned)(blockIdx.x + 3) ^ b);
    unsigned r = c;
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
        if ((u >> k) & 1) r += a;
        if (k == (int)blockIdx.x) break;
    }
    put(r);
}

KERNEL(uniform_float, 6, f32near, f32near, bits) {
    UNIFORM
    const float x = (float)(int)w, y = (float)u;
    PUT(a + x, a * y + b, fmaf(a, x, y), a > x ? b : y, x * 0.5f - b, fmaxf(a, y * 1e-8f));
}

KERNEL(uniform_vote, 8, bits, bits, bits) {
    UNIFORM
    const unsigned mask = __ballot_sync(0xffffffffu, a > b);
    PUT(__popc(mask), __clz(mask) + __ffs(mask), mask & u);
    if (__any_sync(0xffffffffu, (a & 0xff) == 1))
        put(a);
    else
        put(b);
    const unsigned first = __shfl_sync(0xffffffffu, c, 0);
    PUT(first * 3 + u, __reduce_add_sync(0xffffffffu, a & 0xffff) + v,
        __all_sync(0xffffffffu, b != w) ? u : v, __brev(mask) ^ w);
}

// Tables in constant memory, at uniform and at computed places.
__constant__ unsigned table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 0xffffffffu};
__constant__ float factors[4] = {0.5f, -2.0f, 1e-3f, 7.25f};
__constant__ unsigned char bytes[8] = {1, 200, 3, 255, 128, 127, 0, 77};
__constant__ short shorts[4] = {-1, 300, -32768, 32767};
__constant__ unsigned long long wide[2] = {0x123456789abcdefull, 0xfedcba9876543210ull};

KERNEL(uniform_constant, 12, bits, bits, f32near) {
    UNIFORM
    PUT(a + table[3] * table[5], a + table[u & 15], a + table[b & 15],
        c * factors[1] + factors[u & 3], c * factors[a & 3], bytes[a & 7] + shorts[b & 3],
        (int)(signed char)bytes[b & 7], wide[a & 1] + wide[0],
        a < table[2] * 0x10000000u ? b : table[4], table[15] & a);
    const unsigned* place = table + (b & 7);
    put(place[2]);
}

// Variables in global memory, with their first values, reached through the address that the loader
// puts into constant memory.
__device__ unsigned variable[4] = {11, 22, 33, 44};
__device__ const unsigned long long fixed[2] = {5000000000ull, 7};

KERNEL(uniform_variable, 4, bits, bits, bits) {
    PUT(variable[a & 3] + b, variable[1] * c, fixed[b & 1]);
}

KERNEL(uniform_special, 8, bits, bits, bits) {
    PUT(threadIdx.x + 1000 * threadIdx.y + 2000 * threadIdx.z,
        blockIdx.x + 1000 * blockIdx.y + 2000 * blockIdx.z,
        blockDim.x + 3 * blockDim.y + 5 * blockDim.z, gridDim.x + 3 * gridDim.y + 5 * gridDim.z);
    unsigned r, s;
    asm("mov.u32 %0, %%nctaid.x; mov.u32 %1, %%ntid.x;" : "=r"(r), "=r"(s));
    PUT(r * s, warpSize);
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r));
    PUT(r, a & 1 ? threadIdx.x * blockDim.x : blockIdx.x);
}
