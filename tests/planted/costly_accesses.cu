/*---
title: A vector addition that pays for its accesses, or does not
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {PIECE: [4, 16]}
block: [128]
grid: ["n // 512"]
requires: {arch: 80, n: 512}
entry: costly_accesses
arguments: [a, b, c, n]
---*/

// Each thread adds four neighbours. With PIECE 4 it takes them one by one, so that a warp's lanes stand 16 bytes
// apart: four times the sectors, four lanes in a bank, and copies of 4 bytes. With PIECE 16 it takes all four.

extern "C" __global__ void __launch_bounds__(128)
    costly_accesses(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ alignas(16) float held[512];
    const int mine = 4 * threadIdx.x;
    const long long first = 512ll * blockIdx.x + mine;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(held + mine));
    float4 other;
#if PIECE == 16
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(b + first) : "memory");
    other = *reinterpret_cast<const float4*>(a + first);
#else
    for (int i = 0; i < 4; ++i)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + 4 * i), "l"(b + first + i) : "memory");  // COPY
    const volatile float* from = a + first;
    other = make_float4(from[0], from[1], from[2], from[3]);  // SECTORS
#endif
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const float4 four = *reinterpret_cast<const float4*>(held + mine);
    *reinterpret_cast<float4*>(c + first) =
        make_float4(other.x + four.x, other.y + four.y, other.z + four.z, other.w + four.w);
}
