// One block at a time, one host thread for each of its threads; shared memory is static.
#include <pthread.h>
#include <thread>
#include <vector>
#define TILEWAVE_HOST
#define __device__
#define __global__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
struct Index { unsigned x, y, z; };
static thread_local Index threadIdx, blockIdx;
static Index gridDim, blockDim;
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }
#include "support.cu"
template <class F> void run(unsigned grid, unsigned block, F f) {
    gridDim.x = grid, blockDim.x = block;
    pthread_barrier_init(&barrier, 0, block);
    for (unsigned b = 0; b < grid; ++b) {
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < block; ++t)
            threads.emplace_back([=] { blockIdx.x = b, threadIdx.x = t; f(); });
        for (auto &thread : threads) thread.join();
    }
    pthread_barrier_destroy(&barrier);
}
#define RUN_FILL(NAME) extern "C" void run_##NAME(void *p, u64 n, u32 s, u32 t) { \
    run(2, 4, [=] { NAME(p, n, s, t); }); }
RUN_FILL(fill_f64) RUN_FILL(fill_f32) RUN_FILL(fill_tf32)
RUN_FILL(fill_f16in32) RUN_FILL(fill_f16) RUN_FILL(fill_bf16) RUN_FILL(fill_i32) RUN_FILL(fill_i8)
RUN_FILL(fill_e4m3) RUN_FILL(fill_e5m2)
#define RUN_REFERENCE(T) extern "C" void run_##T(void *a, void *b, void *c, double *o, int m, \
    int n, int k, double alpha, double beta, int ta, int tb, int tc, int ca, int cb, int cc) { \
    run((m + 63) / 64 * ((n + 63) / 64), 128, [=] { \
        T(a, b, c, o, m, n, k, alpha, beta, ta, tb, tc, ca, cb, cc); }); }
RUN_REFERENCE(reference_f64) RUN_REFERENCE(reference_f32) RUN_REFERENCE(reference_f16)
RUN_REFERENCE(reference_bf16) RUN_REFERENCE(reference_i8) RUN_REFERENCE(reference_e4m3)
RUN_REFERENCE(reference_any)
extern "C" void run_compare(void *g, double *w, u64 n, int t, double r, double a, double *s,
                            u64 *c) {
    run(2, 256, [=] { compare(g, w, n, t, r, a, s, c); });
}
extern "C" void run_differ(const u64 *left, const u64 *right, u64 bytes, u64 *different) {
    run(2, 16, [=] { differ(left, right, bytes, different); });
}
extern "C" void run_broken(const u8 *buffer, u64 bytes, u64 guard, u64 *different) {
    run(1, 4, [=] { broken(buffer, bytes, guard, different); });
}
