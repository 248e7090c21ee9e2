// A block's collectives of CUB.
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>

extern "C" __global__ void sorted(const int* a, int* out) {
    using Load = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<int, 128, 4>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
    } shared;
    int keys[4], before[4];
    Load(shared.load).Load(a, keys);
    __syncthreads();
    Sort(shared.sort).Sort(keys);
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(keys, before);
    for (int k = 0; k < 4; ++k) out[4 * threadIdx.x + k] = keys[k], out[512 + 4 * threadIdx.x + k] = before[k];
}
