// What a kernel says, and how it ends itself.
#include <cassert>
#include <cstdio>

extern "C" __global__ void prints(const int* a, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = printf("%d:%5.2f|%-4d|%s %lld %#x %c%%\n", i, a[i] * 0.5, a[i], "text", (1LL << 40) + i, i, 'A' + (i & 15));
    if (i == 0) printf("all %u %llu %e %g %p\n", ~0u, ~0ull, 12345.678, 0.5f, (void*)0);
}

__device__ __noinline__ int checked(int x) {
    assert(x < 50 && "too large");
    return 2 * x;
}

extern "C" __global__ void asserts(const int* a, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = checked(a[i]);
}

extern "C" __global__ void traps(const int* a, int* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (a[i] == 40) __trap();
    out[i] = a[i];
}
