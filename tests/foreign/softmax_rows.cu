/*---
title: Softmax, its logarithm and a normalisation, checked against double precision
operation: probe
block: [32, 4]
grid: [4]
requires: {arch: 75}
arguments: [x, y, logs, scaled, errors, rows, columns]
buffers:
  x: {dtype: f32, size: 1600}
  y: {dtype: f32, size: 1600}
  logs: {dtype: f32, size: 16}
  scaled: {dtype: f32, size: 1600}
  errors: {dtype: i32, size: 16, expect: 0}
cases:
  ragged:
    values: {x: "(lane * 37 % 101 - 50) / 16 + lane // 100 / 8"}
    scalars: {rows: 16, columns: 100}
---*/

// A warp a row of 100 columns. The fast functions (exp2, log2, rsqrt, reciprocal) are compared in the kernel
// with the library's double-precision ones, which are long sequences of plain arithmetic.
__device__ float warp_max(float v)
{
    for (int mask = 16; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, mask));
    return v;
}

__device__ float warp_sum(float v)
{
    for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
    return v;
}

__device__ double warp_sum(double v)
{
    for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
    return v;
}

extern "C" __global__ void softmax_rows(const float* x, float* y, float* logs, float* scaled, int* errors, int rows,
                                        int columns)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    x += row * columns;
    y += row * columns;
    scaled += row * columns;

    float most = __int_as_float(0xff800000), mean = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 32) {
        most = fmaxf(most, x[i]);
        mean += x[i];
    }
    most = warp_max(most);
    mean = warp_sum(mean) / columns;
    float sum = 0.0f, variance = 0.0f;
    double exact_sum = 0.0;
    for (int i = threadIdx.x; i < columns; i += 32) {
        sum += __expf(x[i] - most);
        variance += (x[i] - mean) * (x[i] - mean);
        exact_sum += exp(static_cast<double>(x[i]) - most);
    }
    sum = warp_sum(sum);
    variance = warp_sum(variance) / columns;
    exact_sum = warp_sum(exact_sum);
    const float by = rsqrtf(variance + 1e-5f);
    const double exact_by = 1.0 / sqrt(static_cast<double>(variance + 1e-5f));

    int wrong = 0;
    for (int i = threadIdx.x; i < columns; i += 32) {
        y[i] = __fdividef(__expf(x[i] - most), sum);
        scaled[i] = (x[i] - mean) * by;
        const double exact = exp(static_cast<double>(x[i]) - most) / exact_sum;
        wrong += !(fabs(y[i] - exact) <= 4e-6 * exact);
        wrong += !(fabs(scaled[i] - (x[i] - mean) * exact_by) <= 1e-6 * fabs(scaled[i]));
    }
    const float log_sum = logf(sum) + most;
    wrong += !(fabs(log_sum - (log(exact_sum) + most)) <= 2e-6 * (1.0 + fabs(log_sum)));
    wrong += !(fabsf(sqrtf(variance) * sqrtf(variance) - variance) <= 1e-6f * variance);
    wrong = __any_sync(0xffffffffu, wrong != 0);
    if (threadIdx.x == 0) {
        logs[row] = log_sum;
        errors[row] = wrong;
    }
}
