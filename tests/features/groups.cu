// Cooperative groups, of which each writes what numpy can say too.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void reduced(const int* a, int* out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const int i = block.group_index().x * block.size() + block.thread_rank(), v = a[i];
    out[4 * i] = cg::reduce(warp, v, cg::plus<int>());
    out[4 * i + 1] = cg::reduce(cg::tiled_partition<8>(block), v, cg::greater<int>());
    out[4 * i + 2] = cg::inclusive_scan(warp, v);
    out[4 * i + 3] = v & 1 ? (int)cg::coalesced_threads().size() : -1;
}

extern "C" __global__ void labeled(const int* a, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto group = cg::labeled_partition(cg::coalesced_threads(), a[i] & 3);
    out[2 * i] = group.size();
    out[2 * i + 1] = cg::reduce(group, a[i], cg::plus<int>());
}

extern "C" __global__ void split_in_two(const int* a, int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = cg::binary_partition(warp, a[i] & 1).size();
}

extern "C" __global__ void copied(const int* a, int* out) {
    __shared__ int s[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, a + blockIdx.x * 256, sizeof s);
    cg::wait(block);
    out[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}

// Not launched as a cooperative grid: CUDA's own code traps.
extern "C" __global__ void whole_grid(const int* a, int* out) {
    cg::this_grid().sync();
    out[threadIdx.x] = a[threadIdx.x];
}
