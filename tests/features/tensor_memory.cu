// Tensor memory, which only sm_100a and its relatives have: it is not executed, and says so by name.
extern "C" __global__ void allocates(const int* a, int* out) {
#if __CUDA_ARCH__ >= 1000
    __shared__ unsigned place;
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;"
                 ::"r"((unsigned)__cvta_generic_to_shared(&place)));
    __syncthreads();
    unsigned word;
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(place));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    out[threadIdx.x] = a[threadIdx.x] + word;
#endif
}
