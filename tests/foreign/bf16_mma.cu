/*---
title: mma.sync on bf16, fragments straight from global memory
operation: matmul
dtypes: {a: bf16, b: bf16, c: bf16, accumulate: f32}
layouts: {a: row, b: col, c: row}
block: [32, 4]
grid: ["ceil(n / 32)", "m // 16"]
requires: {arch: 80, m: 16, n: 8, k: 16}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// One warp a tile of 16 x 8; each lane fetches the pairs of its fragments itself.
#include <cuda_bf16.h>

extern "C" __global__ void bf16_mma(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int M, int N,
                                    int K, float alpha, float beta)
{
    const int lane = threadIdx.x, group = lane >> 2, in_group = lane & 3;
    const int row = blockIdx.y * 16 + group;
    const int first = (blockIdx.x * 4 + threadIdx.y) * 8;
    if (first >= N) return;
    const auto pair = [](const __nv_bfloat16* p) { return *reinterpret_cast<const unsigned*>(p); };
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    for (int p = in_group * 2; p < K; p += 16) {
        const unsigned a0 = pair(a + row * K + p), a1 = pair(a + (row + 8) * K + p);
        const unsigned a2 = pair(a + row * K + p + 8), a3 = pair(a + (row + 8) * K + p + 8);
        const unsigned b0 = pair(b + (first + group) * K + p), b1 = pair(b + (first + group) * K + p + 8);
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    const int col = first + in_group * 2;
    __nv_bfloat162* upper = reinterpret_cast<__nv_bfloat162*>(c + row * N + col);
    __nv_bfloat162* lower = reinterpret_cast<__nv_bfloat162*>(c + (row + 8) * N + col);
    float2 u = make_float2(alpha * d0, alpha * d1), l = make_float2(alpha * d2, alpha * d3);
    if (beta != 0.0f) {
        const float2 old_u = __bfloat1622float2(*upper), old_l = __bfloat1622float2(*lower);
        u.x += beta * old_u.x, u.y += beta * old_u.y;
        l.x += beta * old_l.x, l.y += beta * old_l.y;
    }
    *upper = __float22bfloat162_rn(u);
    *lower = __float22bfloat162_rn(l);
}
