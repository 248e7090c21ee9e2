/*---
title: Blocks of a cluster store into each other's shared memory, and their stores tell an mbarrier there
operation: probe
macros: {BUG: [0, 1]}
block: [32]
grid: [4]
cluster: [4]
architecture_specific: true
requires: {arch: 90}
arguments: [got]
buffers:
  got: {dtype: i32, size: "4 * 32 * 7"}
cases:
  right: {macros: {BUG: 0}}
  no_wait: {macros: {BUG: 1}}
---*/

// Every thread sends the next block seven words: one, two and four at a time.

extern "C" __global__ void async_stores(int* got) {
    __shared__ __align__(16) int given[7][32];
    __shared__ unsigned long long told;
    const unsigned bar = static_cast<unsigned>(__cvta_generic_to_shared(&told));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                     "fence.mbarrier_init.release.cluster;\n"
                     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(bar), "n"(7 * 32 * 4) : "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n" ::: "memory");
    const unsigned next = (blockIdx.x + 1) % 4, lane = threadIdx.x;
    const auto there = [&](const void* place) {
        unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(place));
        asm("mapa.shared::cluster.u32 %0, %0, %1;\n" : "+r"(address) : "r"(next));
        return address;
    };
    const unsigned arrived = there(&told), to = there(&given[0][0]), word = 1000 * blockIdx.x + 10 * lane;
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];\n" ::"r"(to + 4 * lane),
                 "r"(word), "r"(arrived) : "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];\n" ::"r"(
                     to + 128 + 8 * lane), "r"(word + 1), "r"(word + 2), "r"(arrived) : "memory");
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];\n" ::"r"(
                     to + 384 + 16 * lane), "r"(word + 3), "r"(word + 4), "r"(word + 5), "r"(word + 6), "r"(arrived)
                 : "memory");
    unsigned done = BUG;
    while (!done) {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(bar) : "memory");
    }
    int* const mine = got + (blockIdx.x * 32 + lane) * 7;
    mine[0] = given[0][lane];
    for (int i = 0; i < 2; ++i) mine[1 + i] = given[1][2 * lane + i];
    for (int i = 0; i < 4; ++i) mine[3 + i] = given[3][4 * lane + i];
}
