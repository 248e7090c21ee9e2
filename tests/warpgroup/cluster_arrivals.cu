/*---
title: Blocks of a cluster arrive at each other's mbarriers, and end
operation: probe
macros: {END: [relaxed, released, released_for_others, waited, waited_before, waited_elsewhere, at_once]}
block: [64]
grid: [4]
cluster: [2]
architecture_specific: true
requires: {arch: 90}
arguments: [done]
buffers:
  done: {dtype: i32, size: "4"}
cases:
  released: {macros: {END: released}}
  released_for_others: {macros: {END: released_for_others}}
  waited: {macros: {END: waited}}
  relaxed: {macros: {END: relaxed}, finds: race}
  waited_before: {macros: {END: waited_before}, finds: race}
  waited_elsewhere: {macros: {END: waited_elsewhere}, finds: race}
  at_once: {macros: {END: at_once}, finds: race}
---*/

// The second warp of each block arrives at two mbarriers of the other one, which must not end before that has come to it: it
// waits for both phases, or at a barrier of the cluster whose arrivals release.

#define relaxed 0
#define released 1
#define released_for_others 2  // by a warp that knows of the arrivals
#define waited 3
#define waited_before 4     // for the phase before the last arrival's
#define waited_elsewhere 5  // at the first mbarrier only
#define at_once 6           // for nothing

typedef unsigned long long u64;

__device__ void arrive_there(unsigned barrier, unsigned rank) {
    asm volatile(
        "{ .reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier), "r"(rank) : "memory");
}

__device__ void wait(unsigned barrier) {
    int over;
    do {
        asm volatile("{ .reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.s32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(barrier) : "memory");
    } while (!over);
}

extern "C" __global__ void cluster_arrivals(int* done) {
    __shared__ u64 barriers[2];
    const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(barriers)), second = first + 8;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(first) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(second) : "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x == 32) {
        arrive_there(first, rank ^ 1);
        arrive_there(second, rank ^ 1);
    }
    if (END == waited || END == waited_before || END == waited_elsewhere) {
        if (threadIdx.x == 0) {
            wait(first);
            if (END != waited_elsewhere) wait(second);
        }
        __syncthreads();
    }
    if (END == waited_before) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
        if (threadIdx.x == 32) arrive_there(second, rank ^ 1);
    }
    if (END == released_for_others) {
        __syncthreads();
        if (threadIdx.x == 0) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    }
    if (threadIdx.x == 0) done[blockIdx.x] = 1;
    if (END == released) {
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    } else if (END != at_once && END != waited) {
        asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
    }
}
