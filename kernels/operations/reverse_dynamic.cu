/*---
title: Reversal through dynamically sized shared memory
follows: reverse_static
operation: reverse
dtypes: {d: i32}
macros: {}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// The same reversal with an array whose size comes with the launch instead of the compilation.
// One binary serves every length and takes only the shared memory that the length needs; the
// instructions are the same but for where the array begins.

extern "C" __global__ void __launch_bounds__(1024) reverse_dynamic(int* d, int n)
{
    // Unsized: the launch's dynamic shared memory, 4 n bytes of it.
    extern __shared__ int parked[];

    const int i = threadIdx.x;
    parked[i] = d[i];
    // Every element must be parked before its mirror image asks for it.
    __syncthreads();
    d[i] = parked[n - 1 - i];
}
