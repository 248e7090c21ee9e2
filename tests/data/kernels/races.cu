// Two blocks of 64 threads. `right` kernels have no race; the others have one between the marked lines.
#define I (blockIdx.x * 64 + threadIdx.x)
#define T threadIdx.x
#define KERNEL extern "C" __global__ void
KERNEL beside_volatile(int* x, volatile int* y) {
    x[T] = I;  // A B
    y[I] = y[I] + 1;
}
KERNEL beside_atomics(int* x, int* y) {
    int k = atomicAdd(y, 1);
    x[T] = I;  // A B
    if (k < 0) return;
    atomicMax(y + 1, k);
}
KERNEL volatile_reads(int* x, int* y) {
    x[I] = I;  // A
    y[I] = ((volatile int*)x)[I ^ 64];  // B
}
KERNEL sum_read_too_soon(int* x, int* y) {
    atomicAdd(x, 1);  // A
    __syncthreads();
    y[I] = x[0];  // B
}
KERNEL two_warps(int* x, int* y) {
    x[I] = I;  // A
    y[I] = x[I ^ 32];  // B
}
KERNEL two_warps_later(int* x, int* y) {
    x[I] = I;
    __syncthreads();
    int other = x[I ^ 32];  // A
    x[I] = other + 1;  // B
}
KERNEL right_two_warps(int* x, int* y) {
    x[I] = I;
    __syncthreads();
    int other = x[I ^ 32];
    __syncthreads();
    x[I] = other + 1;
}
#define LAST(FENCE, MORE)                                                    \
    __shared__ int last;                                                     \
    x[I] = I; /* the macro stands in one line */                             \
    FENCE;                                                                   \
    __syncthreads();                                                         \
    if (T == 0) { MORE; last = atomicAdd(y + 200, 1) == gridDim.x - 1; }     \
    __syncthreads();                                                         \
    if (last) for (int k = T; k < 128; k += 64) y[k] = x[k];
KERNEL right_last_block(int* x, int* y) { LAST(__threadfence(), ) }
KERNEL right_last_block_fenced_by_one(int* x, int* y) { LAST(, __threadfence()) }
KERNEL last_block_without_fence(int* x, int* y) { LAST(, ) }  // A B
KERNEL last_block_with_a_fence_of_its_block(int* x, int* y) { LAST(__threadfence_block(), ) }  // A B
#define VECTORS(FENCE)                                                       \
    __shared__ int last;                                                     \
    if (T < 32) __stcg((int4*)x + blockIdx.x * 32 + T, make_int4(I, 1, 2, 3)); \
    FENCE;                                                                   \
    __syncthreads();                                                         \
    if (T == 0) last = atomicAdd(y + 200, 1) == gridDim.x - 1;               \
    __syncthreads();                                                         \
    const int4 four = last ? __ldcg((int4*)x + T) : make_int4(0, 0, 0, 0);   \
    y[I] = four.x + four.y + four.z + four.w;
KERNEL right_vectors_past_the_l1(int* x, int* y) { VECTORS(__threadfence()) }
KERNEL vectors_past_the_l1(int* x, int* y) { VECTORS() }  // A B
#define WAIT(FENCE, SET, GET)                                                \
    x[I] = I + 1;                                                            \
    FENCE;                                                                   \
    __syncthreads();                                                         \
    if (T == 0) { SET; }                                                     \
    if (blockIdx.x == 0) {                                                   \
        if (T == 0) while (GET == 0) { }                                     \
        __syncthreads();                                                     \
        y[T] = x[64 + T];                                                    \
    }
#define FLAG (y + 200 + blockIdx.x)
KERNEL right_flag(int* x, int* y) { WAIT(__threadfence(), *(volatile int*)FLAG = 1, ((volatile int*)y)[201]) }
KERNEL right_plain_flag(int* x, int* y) { WAIT(__threadfence(), *FLAG = 1, ((volatile int*)y)[201]) }
KERNEL right_atomic_flag(int* x, int* y) { WAIT(__threadfence(), atomicExch(FLAG, 1), ((volatile int*)y)[201]) }
KERNEL flag_without_fence(int* x, int* y) { WAIT(, *(volatile int*)FLAG = 1, ((volatile int*)y)[201]) }  // A B
KERNEL right_swaps(int* x, int* y) {
    int old = x[0], before;
    do before = old, old = atomicCAS(x, before, before + 1);
    while (old != before);
}
KERNEL right_compaction(int* x, int* y) { x[atomicAdd(y, 1)] = I; }
KERNEL one_block_resets(int* x, int* y) {
    if (I == 0) *x = 0;  // A
    atomicMax(x, I);  // B
}
KERNEL each_block_resets(int* x, int* y) {
    if (T == 0) *x = 0;  // A
    __syncthreads();
    if (T == 0) atomicAdd(x, 1);  // B
}
KERNEL right_last_block_resets(int* x, int* y) { if (T == 0 && atomicAdd(x, 1) == gridDim.x - 1) *x = 0; }
KERNEL right_lock(int* x, int* y) { if (T == 0) { while (atomicCAS(x, 0, 1)) { } atomicMax(y, I); *x = 0; } }
KERNEL right_reset_before_a_flag(int* x, int* y) {
    if (I == 0) { *x = 5; __threadfence(); atomicExch(y, 1); }
    if (T == 0) { while (*(volatile int*)y == 0) { } atomicMax(x, I); }
}
KERNEL lanes(int* x, int* y) {
    __shared__ int s[64];
    s[T] = I;  // A
    int other = s[T ^ 1];  // B
    __syncwarp();
    s[T] = other + 1;
    __syncwarp();
    y[I] = s[T ^ 2];
}
KERNEL lanes_in_global_memory(int* x, int* y) {
    x[I] = I;  // A
    y[I] = x[I ^ 1];  // B
}
KERNEL right_lanes(int* x, int* y) {
    __shared__ int s[64];
    s[T] = I;
    int own = s[T];
    __syncwarp();
    int other = s[T ^ 1] + own;
    __syncwarp();
    s[T] = other;
    if (T % 32 < 16) {
        s[T] += 1;
        __syncwarp(0xffff);
        y[I] = s[T ^ 1];
    }
}
KERNEL left(int* x, int* y) {
    __shared__ int s[64];
    s[T] = I;  // A
    if (T >= 32) return;
    __syncthreads();
    y[I] = s[T + 32];  // B
}
#undef LAST  // what follows is no race
extern "C" __global__ void stray(int* x, int* y) { y[I] = *(int*)(x[I] - 1021ll); }
