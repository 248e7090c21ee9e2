// A kernel of no operation, whose last statement lacks a semicolon.
__global__ void sigmoid(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] = 1 / (1 + expf(-x[i])) }
}

// sigmoid: 2, unended.cuh failed to compile: unended.cuh:4: expected a ";"
