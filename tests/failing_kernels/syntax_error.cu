/*---
title: Does not compile
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
entry: syntax_error
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A name that nobody declared: the compile stage has to say so with this file and line.
extern "C" __global__ void syntax_error(const float* a, const float* b, float* c, int m, int n,
                                        int k, float alpha, float beta)
{
    c[0] = undeclared_name;
}
