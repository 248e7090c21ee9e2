/*---
title: An array of a thread's own, indexed by data
operation: probe
block: [64]
grid: [1]
requires: {arch: 75}
arguments: [data, counts]
buffers:
  data: {dtype: i32, size: 64}
  counts: {dtype: i32, size: 1024, expect: "max(0, min(4, lane // 16 + 1 - 4 * (lane % 16)))"}
cases:
  ramp:
    values: {data: "lane"}
---*/

// Registers cannot be indexed: the array lives in local memory. Thread t counts the first t + 1 elements.
extern "C" __global__ void local_histogram(const int* data, int* counts)
{
    int bins[16];
    for (int b = 0; b < 16; ++b) bins[b] = 0;
    for (int i = 0; i <= threadIdx.x; ++i) bins[data[i] >> 2 & 15]++;
    for (int b = 0; b < 16; ++b) counts[threadIdx.x * 16 + b] = bins[b];
}
