/*---
title: What mbarriers tell
operation: probe
block: [64]
grid: [1]
architecture_specific: true
requires: {arch: 90}
arguments: [seen, source, landed]
buffers:
  seen: {dtype: i32, size: "32"}
  source: {dtype: i32, size: "64"}
  landed: {dtype: i32, size: "128"}
cases:
  all: {}
---*/

// Counts and phases after arrivals of every kind, a copy of bytes in and one out, and copies of threads
// (cp.async) that arrive for them.

typedef unsigned long long u64;

__device__ unsigned at(const void* place) { return static_cast<unsigned>(__cvta_generic_to_shared(place)); }

__device__ int pending(u64 state) {
    int count;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
    return count;
}

__device__ u64 arrive(unsigned barrier, int count) {
    u64 state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;" : "=l"(state) : "r"(barrier), "r"(count) : "memory");
    return state;
}

__device__ int over(unsigned barrier, u64 state) {
    int is;
    asm volatile("{ .reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p; }"
                 : "=r"(is) : "r"(barrier), "l"(state) : "memory");
    return is;
}

__device__ int parity(unsigned barrier, int phase) {
    int is;
    asm volatile("{ .reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p; }"
                 : "=r"(is) : "r"(barrier), "r"(phase) : "memory");
    return is;
}

__device__ void wait(unsigned barrier, int phase) {
    while (!parity(barrier, phase)) {}
}

extern "C" __global__ void mbarriers(int* seen, int* source, int* landed) {
    __shared__ u64 barriers[4];
    __shared__ alignas(16) int first[64], second[64];
    const unsigned counted = at(&barriers[0]), bytes = at(&barriers[1]), all = at(&barriers[2]), copies = at(&barriers[3]);
    source[threadIdx.x] = 3 * threadIdx.x;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 5;" :: "r"(counted) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bytes) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(all) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(copies) : "memory");
        int* to = seen;
        u64 state = arrive(counted, 1);
        *to++ = pending(state);                // 5: before this arrival
        *to++ = over(counted, state);          // 0
        *to++ = parity(counted, 1);            // 1: the phase before the first
        *to++ = parity(counted, 0);            // 0
        state = arrive(counted, 3);
        *to++ = pending(state);                // 4
        asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(counted) : "memory");
        *to++ = pending(state);                // 1
        *to++ = over(counted, state);          // 1
        *to++ = parity(counted, 0);            // 1
        state = arrive(counted, 1);
        *to++ = pending(state);                // 4: one has dropped out
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 48;" :: "r"(counted) : "memory");
        arrive(counted, 3);
        *to++ = parity(counted, 1);            // 0: bytes are awaited
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 48;" :: "r"(counted) : "memory");
        *to++ = parity(counted, 1);            // 1
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                     :: "r"(at(first)), "l"(source), "r"(bytes) : "memory");
    }
    __syncthreads();
    // Every thread but the last arrives, and waits; the last one lets them wait a while.
    if (threadIdx.x == 63) {
        for (int i = 0; i < 20; ++i) seen[16] = i;
    }
    arrive(all, 1);
    wait(all, 0);
    wait(bytes, 0);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :: "r"(at(&second[threadIdx.x])), "l"(source + 63 - threadIdx.x) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(copies) : "memory");
    wait(copies, 0);
    landed[threadIdx.x] = first[63 - threadIdx.x] + second[threadIdx.x ^ 1];
    __syncthreads();
    first[threadIdx.x] = threadIdx.x;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" :: "l"(landed + 64), "r"(at(first)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
