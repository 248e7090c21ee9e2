/*---
title: The first rung
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
arguments: [a, b, c, m, n, k, alpha, beta]
---*/
int code;
// no idea here
