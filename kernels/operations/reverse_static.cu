/*---
title: Reversal through statically declared shared memory
operation: reverse
dtypes: {d: i32}
macros: {CAPACITY: [1024]}
block: ["n"]
grid: [1]
requires: {arch: 75, conditions: ["n <= CAPACITY"]}
arguments: [d, n]
---*/

// One block turns an array round in place: every thread parks its element in shared memory, and
// after the barrier picks up the one that its mirror image parked. The array's size is fixed when
// the kernel is compiled, so a short input still occupies the shared memory of the longest one.

static_assert(CAPACITY >= 1 && CAPACITY <= 1024, "one thread an element: a block has at most 1024 threads");

extern "C" __global__ void __launch_bounds__(CAPACITY) reverse_static(int* d, int n)
{
    __shared__ int parked[CAPACITY];

    const int i = threadIdx.x;
    parked[i] = d[i];
    // Every element must be parked before its mirror image asks for it. One barrier is enough:
    // d[i] is read and written by the same thread only.
    __syncthreads();
    // Lanes read consecutive words in falling order: 32 different banks, no conflict.
    d[i] = parked[n - 1 - i];
}
