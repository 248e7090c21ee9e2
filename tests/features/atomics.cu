// Atomics of every size.
#include <cuda/atomic>

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
