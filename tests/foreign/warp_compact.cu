/*---
title: Compaction by ballots and prefix sums
operation: probe
block: [32]
grid: [1]
requires: {arch: 75}
arguments: [data, kept, total, n]
buffers:
  data: {dtype: i32, size: 300}
  kept: {dtype: i32, size: 100, expect: "3 * lane"}
  total: {dtype: i32, size: 2, expect: "100 if lane == 0 else 44850"}
cases:
  thirds:
    values: {data: "lane"}
    scalars: {n: 300}
---*/

// One warp keeps the multiples of three in order (ballot, popc, lane mask), and sums all with a scan.
extern "C" __global__ void warp_compact(const int* data, int* kept, int* total, int n)
{
    const int lane = threadIdx.x;
    int before = 0, running = 0;
    for (int base = 0; base < n; base += 32) {
        const bool inside = base + lane < n;
        const int v = inside ? data[base + lane] : 1;
        const bool keep = inside && v % 3 == 0;
        const unsigned votes = __ballot_sync(0xffffffffu, keep);
        unsigned below;
        asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
        if (keep) kept[before + __popc(votes & below)] = v;
        before += __popc(votes);
        int scan = inside ? v : 0;
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, scan, d);
            if (lane >= d) scan += other;
        }
        running += __shfl_sync(0xffffffffu, scan, 31);
    }
    if (lane < 2) total[lane] = lane == 0 ? before : running;
}
