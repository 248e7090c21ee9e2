// FP8 in fours, products of bits, and copies that fill with zeros.
#include <cuda_fp8.h>

extern "C" __global__ void in_fours(const float4* a, float4* out) {
    const __nv_fp8x4_e4m3 four(a[threadIdx.x]);
    out[threadIdx.x] = (float4)four;
}

extern "C" __global__ void bits(const unsigned* a, int* out) {
    const int i = threadIdx.x;
    int x, y;
    asm volatile("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0,%1},{%2},{%3},{%4,%5};"
                 : "=r"(x), "=r"(y) : "r"(a[i]), "r"(a[i + 32]), "r"(1), "r"(2));
    out[2 * i] = x, out[2 * i + 1] = y;
}

extern "C" __global__ void ragged(const int4* a, int4* out, int n) {
    __shared__ int4 s[128];
    const int i = threadIdx.x;
    const unsigned to = __cvta_generic_to_shared(s + i);
    const int bytes = min(max(4 * (n - 4 * i), 0), 16);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(a + i), "r"(bytes));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[i] = s[127 - i];
}

extern "C" __global__ void places(unsigned* out) {
    unsigned sm, warp, warps;
    asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %warpid;" : "=r"(warp));
    asm volatile("mov.u32 %0, %nwarpid;" : "=r"(warps));
    out[blockIdx.x * 64 + threadIdx.x] = sm * 1000 + (warp < warps ? warp : 999);
}
