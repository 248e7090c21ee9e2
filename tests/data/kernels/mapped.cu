/*---
title: A test kernel with a map of an operand, or of a buffer
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
macros: {REAL: [f32, f64], TILE: [16, 32]}
tile: [TILE, TILE, 1]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [map, a, b, c, m, n, k, alpha, beta]
cluster: [1]
buffers: {part: {dtype: f16, size: 4096}}
tensor_maps: {map: {of: a, box: [16, 16]}}
---*/

extern "C" __global__ void NAME() {}
