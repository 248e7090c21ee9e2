/*---
title: Generic and asynchronous accesses, with a fence left out or in the wrong place
operation: copy
dtypes: {a: f32, b: f32}
macros: {BUG: [0, 1, 2, 3, 4, 5, 6, 7], THREADS: [128, 32]}
block: [THREADS]
grid: [ceil(n / THREADS)]
requires: {arch: 90, n: THREADS}
arguments: [b, a, n]
---*/

// BUG 1: the fence stands behind the barrier. 2: one thread alone has a fence. 3: none for the mbarrier. 4: none for
// the mbarrier, but a barrier. 5: no lane waits for the others' fences. 6: the block ends before its store has read.
// 7: one lane alone has waited for that.
#define FENCE asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

extern "C" __global__ void proxies(float* out, const float* in, int n) {
    __shared__ alignas(128) float got[THREADS], given[THREADS];
    __shared__ alignas(8) unsigned long long full;
    const auto place = [](void* there) { return static_cast<unsigned>(__cvta_generic_to_shared(there)); };
    const int at = blockIdx.x * THREADS;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(&full)) : "memory");
        if (BUG < 3) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (BUG != 3) __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(&full)), "n"(4 * THREADS)
                     : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];" ::"r"(place(got)),
            "l"(in + at), "r"(place(&full)), "n"(4 * THREADS)
            : "memory");
    }
    if (BUG == 3) __syncthreads();
    asm volatile("{\n.reg .pred p;\nW_%=:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra W_%=;\n}" ::"r"(
                     place(&full)) : "memory");
    given[threadIdx.x] = got[threadIdx.x];
    if (BUG != 1 && (BUG != 2 || threadIdx.x == 0)) FENCE;
    if (BUG != 5) __syncthreads();
    if (BUG == 1) FENCE;
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + at), "r"(place(given)),
                     "n"(4 * THREADS)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (BUG != 6) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (BUG == 6) return;
    if (BUG != 7) __syncthreads();
    *static_cast<volatile float*>(given + threadIdx.x) = 0;
}
