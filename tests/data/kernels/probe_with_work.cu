/*---
title: A probe with work
operation: probe
macros: {WIDTH: [4, 16]}
block: [32]
grid: [sms]
requires: {arch: 75}
architecture_specific: true
work: {flop: "64 * steps * sms", byte: "WIDTH * found"}
arguments: [found, steps]
buffers:
  found: {dtype: i32, size: "32 * sms", expect: lane}
cases:
  short: {macros: {WIDTH: 16}, scalars: {steps: 10}}
---*/

extern "C" __global__ void NAME(int* found, int steps)
{
    found[blockIdx.x * 32 + threadIdx.x] = blockIdx.x * 32 + threadIdx.x;
}
