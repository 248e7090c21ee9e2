/*---
title: mma.sync on tf32, converted in the kernel
operation: matmul
dtypes: {a: tf32, b: tf32, c: f32, accumulate: f32}
block: [32, 4]
grid: ["ceil(n / 32)", "m // 16"]
requires: {arch: 80, m: 16, n: 8, k: 8}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// One warp a tile of 16 x 8, eight k a step; cvt.rna changes nothing here, since the inputs are rounded.

__device__ __forceinline__ unsigned to_tf32(float value)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

extern "C" __global__ void tf32_mma(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                    int M, int N, int K, float alpha, float beta)
{
    const int lane = threadIdx.x, group = lane >> 2, in_group = lane & 3;
    const int row = blockIdx.y * 16 + group;
    const int first = (blockIdx.x * blockDim.y + threadIdx.y) * 8;
    if (first >= N) return;
    float d[4] = {};
    for (int p = 0; p < K; p += 8) {
        unsigned fa[4], fb[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) fa[i] = to_tf32(a[(row + i % 2 * 8) * K + p + in_group + i / 2 * 4]);
#pragma unroll
        for (int i = 0; i < 2; ++i) fb[i] = to_tf32(b[(p + in_group + i * 4) * N + first + group]);
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float* out = c + (row + i / 2 * 8) * N + first + in_group * 2 + i % 2;
        *out = beta == 0.0f ? alpha * d[i] : alpha * d[i] + beta * *out;
    }
}
