/*---
title: A switch with a jump table
operation: probe
block: [128]
grid: [1]
requires: {arch: 75}
arguments: [codes, x, y]
buffers:
  codes: {dtype: i32, size: 128}
  x: {dtype: i32, size: 128}
  y: {dtype: i32, size: 128, expect: "[lane + 17, lane * 13, lane * lane, 127 - lane, lane ^ 85, lane // 3, lane % 7, lane << 3, lane & 60, lane * (lane - 1) // 2, -1][lane % 11]"}
cases:
  mixed:
    values: {codes: "lane % 11", x: "lane"}
---*/

// Bodies with stores and loops of their own, so that the compiler cannot choose among values instead: each
// lane goes where its code says.
extern "C" __global__ void switch_table(const int* codes, const int* x, volatile int* y)
{
    const int i = threadIdx.x;
    const int v = x[i];
    switch (codes[i]) {
        case 0:
            y[i] = v + 17;
            break;
        case 1:
            y[i] = v;
            y[i] = y[i] * 13;
            break;
        case 2: {
            int sum = 0;
            for (int j = 0; j < v; ++j) sum += x[i];
            y[i] = sum;
            break;
        }
        case 3:
            y[i] = 127 - v;
            break;
        case 4:
            y[i] = v ^ 85;
            break;
        case 5:
            y[i] = v / 3;
            break;
        case 6:
            y[i] = v % 7;
            break;
        case 7:
            y[i] = v << 3;
            break;
        case 8:
            y[i] = v & 60;
            break;
        case 9: {
            int sum = 0;
            for (int j = 0; j < v; ++j) sum += x[j];
            y[i] = sum;
            break;
        }
        default:
            y[i] = -1;
    }
}
