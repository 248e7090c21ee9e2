/*---
title: Runs far past its time limit
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
entry: spins
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Right, after about five minutes: the spin ends by itself, but the limit of a case is seconds.
extern "C" __global__ void spins(const float* a, const float* b, float* c, int m, int n, int k,
                                 float alpha, float beta)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < 300ull * 1000 * 1000 * 1000);
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    c[(long long)row * n + column] = beta == 0 ? alpha * sum : alpha * sum + beta * c[(long long)row * n + column];
}
