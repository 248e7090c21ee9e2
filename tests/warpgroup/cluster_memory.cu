/*---
title: Blocks of a cluster read and write each other's shared memory
operation: probe
macros: {BLOCKS: [4, 2]}
block: [64]
grid: [8]
cluster: [BLOCKS, 1, 1]
architecture_specific: true
requires: {arch: 90}
arguments: [ranks, sums]
buffers:
  ranks: {dtype: i32, size: "6 * 8"}
  sums: {dtype: i32, size: "2 * 64 * 8"}
cases:
  four: {macros: {BLOCKS: 4}}
  two: {macros: {BLOCKS: 2}}
---*/

// What each block is in its cluster, and two sums over the values of all its blocks: once every block
// reads the others' shared memory, once every block writes into it.

__device__ unsigned special(int which) {
    unsigned value = 0;
    switch (which) {
        case 0: asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value)); break;
        case 1: asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(value)); break;
        case 2: asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(value)); break;
        case 3: asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(value)); break;
        case 4: asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(value)); break;
        case 5: asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(value)); break;
    }
    return value;
}

__device__ unsigned there(const void* place, unsigned rank) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(place));
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
    return address;
}

__device__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void cluster_memory(int* ranks, int* sums) {
    __shared__ int own[64], given[BLOCKS][64];
    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < 6; ++i) ranks[blockIdx.x * 6 + i] = special(i);
    }
    own[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    meet();
    const unsigned rank = special(0);
    int sum = 0;
    for (int block = 0; block < BLOCKS; ++block) {
        int value;
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there(&own[63 - threadIdx.x], block)));
        sum += value;
        asm volatile("st.shared::cluster.u32 [%0], %1;"
                     :: "r"(there(&given[rank][threadIdx.x], block)), "r"(own[threadIdx.x]) : "memory");
    }
    sums[blockIdx.x * 64 + threadIdx.x] = sum;
    meet();
    sum = 0;
    for (int block = 0; block < BLOCKS; ++block) sum += given[block][threadIdx.x];
    sums[512 + blockIdx.x * 64 + threadIdx.x] = sum;
}
