/*---
title: Calls that are calls
operation: probe
block: [96]
grid: [2]
requires: {arch: 75}
arguments: [divisors, numbers, n]
buffers:
  divisors: {dtype: i32, size: 192, expect: "[12, 1, 2, 3, 4, 1, 6, 1, 4, 3, 2, 1][lane % 12]"}
  numbers: {dtype: i32, size: 192, expect: "[0, 1, 1, 2, 3, 5, 8, 13][lane % 8]"}
cases:
  both:
    scalars: {n: 192}
---*/

// A device function that is not inlined and whose loop ends lane by lane, and one that calls itself, for which
// return addresses and registers go to the stack.
__device__ __noinline__ int divisor(int a, int b)
{
    while (b != 0) {
        const int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void call_noinline(int* divisors, int* numbers, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    divisors[i] = divisor(i, 12);
    numbers[i] = fibonacci(i % 8);
}
