/*---
title: Atomic additions in shared memory
operation: probe
block: [256]
grid: [1]
requires: {arch: 75}
arguments: [data, counts, sums, most, n]
buffers:
  data: {dtype: i32, size: 1024}
  counts: {dtype: i32, size: 16, expect: 64}
  sums: {dtype: i32, size: 16, expect: "64 * lane + 1536"}
  most: {dtype: i32, size: 1, expect: 63}
cases:
  even:
    values: {data: "lane * 5 % 64"}
    scalars: {n: 1024}
---*/

// Counts, sums and a maximum by atomics on shared memory, and a ballot per warp.
extern "C" __global__ void histogram_shared(const int* data, int* counts, int* sums, int* most, int n)
{
    __shared__ int bins[16], totals[16], largest, odd;
    if (threadIdx.x < 16) bins[threadIdx.x] = totals[threadIdx.x] = 0;
    if (threadIdx.x == 0) largest = odd = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const int v = data[i];
        atomicAdd(&bins[v % 16], 1);
        atomicAdd(&totals[v % 16], v);
        atomicMax(&largest, v);
        const unsigned votes = __ballot_sync(0xffffffffu, v & 1);
        if (threadIdx.x % 32 == 0) atomicAdd(&odd, __popc(votes));
    }
    __syncthreads();
    if (threadIdx.x < 16) {
        counts[threadIdx.x] = bins[threadIdx.x];
        sums[threadIdx.x] = totals[threadIdx.x];
    }
    if (threadIdx.x == 0) *most = odd == n / 2 ? largest : -odd;
}
