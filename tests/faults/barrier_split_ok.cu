/*---
title: Lanes of a warp at two barriers that allow it
operation: reverse
dtypes: {d: i32}
macros: {FORM: [branch, predicate]}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 32, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// Right: barrier_in_branch_lanes with barrier.sync instead of its .aligned form. The compiler brings a split
// warp together before the barrier: up to sm_89 in a function of its own (BRA.CONV, WARPSYNC), from sm_90 on in
// a piece of code that one part executes for the other (BRA.DIV, WARPSYNC.COLLECTIVE).
#define FORM_predicate 0
#define FORM_branch 1
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)

extern "C" __global__ void barrier_split_ok(int* d, int n)
{
    extern __shared__ volatile int held[];
    const int i = threadIdx.x;
    const int value = d[i];
    if (value % 2 != 0) {
#if WORD(FORM_, FORM) == FORM_branch
#pragma unroll 1
        for (int turn = 0; turn < n % 3; ++turn) held[i] = turn;
#endif
        held[i] = value + 1;
        asm volatile("barrier.sync 0;" ::: "memory");
    } else {
        held[i] = value + 2;
        asm volatile("barrier.sync 0;" ::: "memory");
    }
    const int mirror = n - 1 - i;
    d[i] = held[mirror] - (mirror % 2 != 0 ? 1 : 2);
}
