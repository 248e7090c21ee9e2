/*---
title: Wide loads from rows that do not begin at 16 bytes
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 4]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Four elements of A at a time, and the rest one by one. Right where k is a multiple of 4; the front matter
// does not ask for that, and with k = 66 every other row begins 8 bytes off.
extern "C" __global__ void misaligned_global(const float* a, const float* b, float* c, int m, int n, int k,
                                             float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    const float* a_row = a + (long long)row * k;
    const float* b_column = b + column;
    float sum = 0;
    int i = 0;
    for (; i + 4 <= k; i += 4) {
        const float4 four = *reinterpret_cast<const float4*>(a_row + i);  // BUG: a_row + i is 8-byte aligned
        sum += four.x * b_column[(long long)i * n];
        sum += four.y * b_column[(long long)(i + 1) * n];
        sum += four.z * b_column[(long long)(i + 2) * n];
        sum += four.w * b_column[(long long)(i + 3) * n];
    }
    for (; i < k; ++i) sum += a_row[i] * b_column[(long long)i * n];
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
