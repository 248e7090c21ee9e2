/*---
title: Tiles <b>& more</b>
follows: first
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {TILE: [16, 32]}
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {n: 8}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Every element is read once & kept,
// in a tile.
//
// A second paragraph.

__shared__ float t[TILE];
x = t[0] < t[1]; // <script>
