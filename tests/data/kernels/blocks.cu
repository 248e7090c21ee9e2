// What the blocks do to each other is told at the end.
extern "C" __global__ void chain(int* x) { if (!threadIdx.x) x[blockIdx.x + 1] = x[blockIdx.x] + 1; }
extern "C" __global__ void last(int* x) { if (!threadIdx.x) x[0] = blockIdx.x; }
extern "C" __global__ void same(int* x) { if (!threadIdx.x) x[0] = 7; }
extern "C" __global__ void bytes(unsigned char* x) {
    if (!threadIdx.x) for (int i = 0; i < 5; i++) x[blockIdx.x * 5 + i] = blockIdx.x + i;
}
extern "C" __global__ void read(int* x) {
    if (!threadIdx.x && blockIdx.x < 63) x[blockIdx.x + 1] = x[0] + 1;
    if (!threadIdx.x && blockIdx.x == 63) x[0] = 5;
}
extern "C" __global__ void copied(int* x) {
    __shared__ int4 copy;
    int own = 2 * blockIdx.x, bytes = blockIdx.x % 2 ? 0 : 8;
    unsigned to = (unsigned)__cvta_generic_to_shared(&copy);
    if (threadIdx.x) return;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2; cp.async.wait_all;"
                 ::"r"(to), "l"(x + own / 4 * 4), "r"(bytes) : "memory");
    x[own] = copy.x + copy.z + 1, x[own + 1] = copy.y + copy.w + 1;
}
extern "C" __global__ void sum(int* x) { if (!threadIdx.x) atomicAdd(x, (int)blockIdx.x); }
extern "C" __global__ void flag(volatile int* x) {
    if (!threadIdx.x) { while (x[0] != (int)blockIdx.x) { } x[0] = blockIdx.x + 1; }
}

// Blocks that read what another one wrote, write what it writes, or what is there already, share words but no bytes,
// write what the others have read, copy all of 16 bytes but what another one writes, add to one place, wait, print.
