/*---
title: More values than registers
operation: probe
macros: {VALUES: [96]}
block: [1024]
grid: [1]
requires: {arch: 75}
arguments: [x, y, factor]
buffers:
  x: {dtype: f32, size: 2048}
  y: {dtype: f32, size: 1024, expect: "4656 * lane + 294880"}
cases:
  ramp:
    values: {x: "lane"}
    scalars: {factor: 1}
---*/

// A block of 1024 threads leaves 64 registers a thread, and VALUES numbers wait for a barrier: some spill.
// Thread t holds t, t + 1, ... and sums (i + 1) (t + i): VALUES (VALUES + 1) t / 2 + (VALUES^3 - VALUES) / 3.
extern "C" __global__ void __launch_bounds__(1024) spill_registers(const float* x, float* y, int factor)
{
    __shared__ float scale;
    float held[VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; ++i)
        asm volatile("ld.global.f32 %0, [%1];" : "=f"(held[i]) : "l"(x + threadIdx.x + i) : "memory");
    if (threadIdx.x == 0) scale = static_cast<float>(factor);
    __syncthreads();
    const float by = scale;
    float sum = 0.0f;
#pragma unroll
    for (int i = VALUES - 1; i >= 0; --i) sum = fmaf(held[i] * by, static_cast<float>(i + 1), sum);
    y[threadIdx.x] = sum;
}
