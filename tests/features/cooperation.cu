// Groups, barriers, pipelines and atomics: their headers are most of what is compiled.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/utility>

// Cooperative groups, of which each writes what numpy can say too.
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

// cuda::barrier, cuda::pipeline and what they are made of; on sm_80 the mbarrier's word is read and
// written by ordinary instructions too.
using Barrier = cuda::barrier<cuda::thread_scope_block>;

extern "C" __global__ void rounds(const int* a, int* out) {
    __shared__ Barrier bar;
    __shared__ int s[256];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    const int i = blockIdx.x * 256 + threadIdx.x;
    for (int k = 0; k < 3; ++k) {
        s[threadIdx.x] = a[i] + k;
        auto token = bar.arrive();
        bar.wait(cuda::std::move(token));
        out[3 * i + k] = s[255 - threadIdx.x];
        bar.arrive_and_wait();
    }
}

extern "C" __global__ void copied_async(const int* a, int* out) {
    __shared__ Barrier bar;
    __shared__ alignas(16) int s[1024];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    const int at = 4 * threadIdx.x, block = blockIdx.x * 1024;
    cuda::memcpy_async(s + at, a + block + at, cuda::aligned_size_t<16>(16), bar);
    bar.arrive_and_wait();
    for (int k = 0; k < 4; ++k) out[block + at + k] = s[1023 - at - k];
}

extern "C" __global__ void staged(const int* a, int* out) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int s[2][256];
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    auto load = [&](int k) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, s[k % 2], a + k * 256, sizeof s[0], pipe);
        pipe.producer_commit();
    };
    load(0), load(1);
    for (int k = 0; k < 6; ++k) {
        pipe.consumer_wait();
        sum += s[k % 2][255 - threadIdx.x];
        pipe.consumer_release();
        if (k < 4) load(k + 2);
    }
    out[threadIdx.x] = sum;
}

// The barrier's arrivals without a wait for them.
extern "C" __global__ void not_waited(const int* a, int* out) {
    __shared__ Barrier bar;
    __shared__ int s[256];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = a[threadIdx.x];
    (void)bar.arrive();
    out[threadIdx.x] = s[255 - threadIdx.x];
}

template <bool COUNTED>
__device__ void by_hand(const int* a, int* out) {
    __shared__ alignas(8) unsigned long long bar;
    __shared__ int s[128];
    const int i = threadIdx.x;
    const unsigned b = __cvta_generic_to_shared(&bar), to = __cvta_generic_to_shared(s + i);
    if (i == 0) asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(b));
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(a + i));
    if (COUNTED) {
        unsigned long long state;
        asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(b));
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(b) : "memory");
    } else {
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b));
    }
    unsigned over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(over) : "r"(b) : "memory");
    out[i] = s[127 - i];
}
extern "C" __global__ void counted(const int* a, int* out) { by_hand<true>(a, out); }
extern "C" __global__ void uncounted(const int* a, int* out) { by_hand<false>(a, out); }

// Atomics of every size.
extern "C" __global__ void references(int* a, unsigned long long* b) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device>(a[0]).fetch_add(i, cuda::memory_order_relaxed);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system>(b[0]).fetch_max(i);
    cuda::atomic_ref<int, cuda::thread_scope_block> swapped(a[1]);
    int seen = swapped.load();
    while (!swapped.compare_exchange_weak(seen, seen + 2)) {}
    cuda::atomic_ref<float, cuda::thread_scope_device>(((float*)a)[2]).fetch_add(1.0f);
    cuda::atomic_ref<unsigned short, cuda::thread_scope_device>(((unsigned short*)a)[6]).fetch_add(1);
    cuda::atomic_ref<unsigned char, cuda::thread_scope_device>(((unsigned char*)a)[16]).fetch_or(1 << (i & 7));
}

extern "C" __global__ void halfwords(unsigned short* a) {
    unsigned short* at = a + (threadIdx.x & 3);
    unsigned short old = *at, seen;
    do {
        seen = old;
        old = atomicCAS(at, seen, (unsigned short)(seen + 3));
    } while (old != seen);
}

#if __CUDA_ARCH__ >= 900
struct alignas(16) Pair { long long x, y; };

__device__ void add(Pair* at, int i) {
    Pair old{0, 0}, seen;
    do {
        seen = old;
        old = atomicCAS(at, seen, Pair{seen.x + 1, seen.y + i});
    } while (old.x != seen.x || old.y != seen.y);
}

extern "C" __global__ void pairs(Pair* a) {
    __shared__ Pair s;
    if (threadIdx.x == 0) s = Pair{0, 0};
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    add(a, i), add(&s, i);
    if (i == 0) atomicExch(a + 1, Pair{7, 8});
    __syncthreads();
    if (threadIdx.x == 0) a[2 + blockIdx.x] = s;
}

extern "C" __global__ void vectors(float* a, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd((float2*)a, make_float2(1, i));
    atomicAdd((float4*)(a + 4), make_float4(1, 2, 3, i));
    const float2 old = atomicAdd((float2*)(a + 8), make_float2(1, 2));
    out[i] = old.y == 2 * old.x;
}
#endif
