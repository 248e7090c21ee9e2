/*---
title: A probe
operation: probe
block: [32]
arguments: [index]
buffers: {index: {dtype: i32, size: 32}}
cases:
  even: {values: {index: lane}, expect: {wavefronts: 1}, instruction: LDS}
  odd: {values: {index: "2 * lane"}, expect: {wavefronts: 2}, claimed: {latency: 5}}
---*/
