// cuda::barrier, cuda::pipeline and what they are made of; on sm_80 the mbarrier's word is read and
// written by ordinary instructions too.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/utility>
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
