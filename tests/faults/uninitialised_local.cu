/*---
title: An element of an array of each thread that no thread writes
operation: copy
dtypes: {a: f32, b: f32}
block: [128]
grid: ["ceil(n / 128)"]
requires: {arch: 75, n: 128}
arguments: [a, b, n]
---*/

// The array is in local memory, because its index is not known when the kernel is compiled.
extern "C" __global__ void uninitialised_local(const float* a, float* b, int n)
{
    float kept[16];
    const int at = blockIdx.x * 128 + threadIdx.x;
    for (int i = 0; i < n % 16; ++i) kept[i] = 0;
    kept[threadIdx.x % 8] = a[at];
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < 9; ++i) sum += kept[(i + threadIdx.x) % 16];  // BUG: some are not written
    b[at] = sum;
}
