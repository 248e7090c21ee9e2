/*---
title: A product whose parameters are structs
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SIDE: [16]}
block: [SIDE, SIDE]
grid: ["ceil(n / SIDE)", "ceil(m / SIDE)"]
arguments: [[[m, n], {i64: k}], [], [c, [a, b], {f64: alpha}, beta], SIDE]
---*/

struct Sizes { struct { int m, n; } c; long long k; };
struct Nothing {};
struct Product { float* c; struct { const float *a, *b; } of; double alpha; float beta; };
extern "C" __global__ void NAME(Sizes size, Nothing, const __grid_constant__ Product of, int side)
{
    const int x = blockIdx.x * side + threadIdx.x, y = blockIdx.y * side + threadIdx.y;
    if (x >= size.c.n || y >= size.c.m) return;
    float sum = 0;
    for (int i = 0; i < size.k; ++i) sum += of.of.a[y * size.k + i] * of.of.b[i * size.c.n + x];
    float* c = of.c + y * size.c.n + x;
    *c = float(of.alpha) * sum + (of.beta == 0 ? 0 : of.beta * *c);
}
