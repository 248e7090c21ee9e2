/*---
title: Lanes of a warp at two barriers
operation: reverse
dtypes: {d: i32}
macros: {FORM: [branch, predicate]}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 32, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// The lecture's second fragment: each side of a branch has a barrier of its own. Here the branch parts the
// lanes of every warp, which PTX leaves undefined (the .aligned forms want the whole warp at one
// instruction); barrier_divergent never ends so on an H200. FORM branch has a loop on one side, so that the
// machine code branches as well; with FORM predicate the compiler turns both sides into predicated
// instructions, and the two barriers follow each other in one path.
#define FORM_predicate 0
#define FORM_branch 1
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)

extern "C" __global__ void barrier_in_branch_lanes(int* d, int n)
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
        __syncthreads();  // BUG: odd lanes wait here
    } else {
        held[i] = value + 2;
        __syncthreads();  // BUG: even lanes wait here
    }
    const int mirror = n - 1 - i;
    d[i] = held[mirror] - (mirror % 2 != 0 ? 1 : 2);
}
