/*---
title: A barrier in and around a branch
operation: probe
macros:
  FRAGMENT: [one, two]
block: [128]
grid: [1, 1, 1]
requires: {arch: 75}
arguments: [condition, errors, n]
buffers:
  condition: {dtype: i32, size: 128}
  errors: {dtype: i32, size: 128, expect: 0}
cases:
  one_warps_all: {macros: {FRAGMENT: one}, values: {condition: "lane // 32 % 2"}, scalars: {n: 128},
      note: "defined: every thread of the block reaches both barriers; the branch between warps ends before them"}
  one_lanes_all: {macros: {FRAGMENT: one}, values: {condition: "lane % 2"}, scalars: {n: 128},
      note: "defined: lanes part and meet again before the barriers"}
  one_warps_part: {macros: {FRAGMENT: one}, values: {condition: "lane // 32 % 2"}, scalars: {n: 96},
      note: "one warp never reaches the barriers; it has ended, and the others do not wait for it"}
  one_lanes_part: {macros: {FRAGMENT: one}, values: {condition: "lane % 2"}, scalars: {n: 100},
      note: "most lanes of the last warp have ended, four of them wait at the barriers"}
  two_warps_all: {macros: {FRAGMENT: two}, values: {condition: "lane // 32 % 2"}, scalars: {n: 128},
      note: "outside the guide's rule: warps wait at two different instructions of the same barrier"}
  two_lanes_all: {macros: {FRAGMENT: two}, values: {condition: "lane % 2"}, scalars: {n: 128}, status: timed out,
      finds: barrier, limit_s: 2,
      note: "outside the guide's rule and undefined in PTX: lanes of one warp wait at two different instructions; never ends on an H200"}
  two_warps_part: {macros: {FRAGMENT: two}, values: {condition: "lane // 32 % 2"}, scalars: {n: 96},
      note: "as two_warps_all, and one warp has ended"}
  two_lanes_part: {macros: {FRAGMENT: two}, values: {condition: "lane % 2"}, scalars: {n: 100}, status: timed out,
      finds: barrier, limit_s: 2, note: "as two_lanes_all, and most lanes of the last warp have ended"}
---*/

// The lecture shows two fragments with a barrier near a branch: (one) the branch ends before the barrier,
// which stands in an outer `if (index < n)`; (two) each side of the branch has a barrier of its own. The CUDA
// programming guide allows __syncthreads() in conditional code only where the condition is the same for all
// threads of the block; otherwise the program may hang or go wrong, and PTX leaves a barrier that not all
// lanes of a warp reach together undefined. What GPUs of compute capability 7.0 and later promise beyond
// that: the barrier is counted thread by thread, and it opens once all threads that have not ended are there.
//
// Here every thread hands a value to a thread of another warp, most often on the other side of the branch,
// and one side is slow: a barrier that opens too early shows as an error. No case waits for a thread that
// never comes, since each thread either ends or reaches as many barriers as the others; if a case hangs all
// the same, that is the result, and its time limit records it.

#include "words.cuh"

#define FRAGMENT_one 1
#define FRAGMENT_two 2

namespace {

constexpr int FRAGMENT_NUMBER = NAMED(FRAGMENT_, FRAGMENT);
constexpr int THREADS = 128;
constexpr int PARTNER = 33;  // threads further on: in another warp, and of the other parity (n is even)
constexpr int DELAY = 4000;  // cycles; far more than a barrier takes
constexpr int UNSET = -1;

static_assert(FRAGMENT_NUMBER == FRAGMENT_one || FRAGMENT_NUMBER == FRAGMENT_two, "FRAGMENT: one or two");

// What a thread on either side of the branch hands over.
__device__ __forceinline__ int message(int index, bool side) { return index * 2 + side; }

__device__ __forceinline__ void dawdle() {
    const long long begun = clock64();
    while (clock64() - begun < DELAY) {
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    barrier_divergent(const int* __restrict__ condition, int* __restrict__ errors, int n) {
    __shared__ volatile int values[THREADS];
    const int index = threadIdx.x;

    errors[index] = 0;
    values[index] = UNSET;  // nobody else reads it before the first barrier
    if (index < n) {
        const bool side = condition[index] != 0;
        const int partner = (index + PARTNER) % n;
        const int expected = message(partner, condition[partner] != 0);
        int found;
        if constexpr (FRAGMENT_NUMBER == FRAGMENT_one) {
            values[index] = message(index, false);
            if (side) {
                dawdle();
                values[index] = message(index, true);
            }
            __syncthreads();
            if (!side) dawdle();  // a slow reader: the second barrier must keep its partner from going on
            found = values[partner];
            __syncthreads();
        } else {
            if (side) {
                dawdle();
                values[index] = message(index, true);
                __syncthreads();
            } else {
                values[index] = message(index, false);
                __syncthreads();
            }
            found = values[partner];
        }
        errors[index] = found != expected;
        if constexpr (FRAGMENT_NUMBER == FRAGMENT_one) values[index] = UNSET;  // the array is used again
    }
}
