/*---
title: A filter whose taps are constants
operation: probe
block: [64]
grid: [4]
requires: {arch: 75}
arguments: [x, y, taps]
buffers:
  x: {dtype: f32, size: 264}
  y: {dtype: f32, size: 256, expect: "25 * lane + 100 + 5 - abs(lane % 9 - 4)"}
cases:
  ramp:
    values: {x: "lane"}
    scalars: {taps: 9}
---*/

// __constant__ memory with its values in the module: once with an index that is the same for all lanes, once
// with one of each lane's own.
__constant__ float weights[9] = {1, 2, 3, 4, 5, 4, 3, 2, 1};

extern "C" __global__ void constant_taps(const float* x, float* y, int taps)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int tap = 0; tap < taps; ++tap) sum += weights[tap] * x[i + tap];
    y[i] = sum + weights[i % taps];
}
