// What the host allocates, and the sizes that it passes. The lines of kernels have an exit code and a part of each sentence.
// edge_free: 1, which has 4000 bytes (1000 elements)
__global__ void edge_free(const float* x, float* y) { y[blockIdx.x * 64 + threadIdx.x] = 2 * x[blockIdx.x * 64 + threadIdx.x]; }
void run() {
    float *x, *y;
    cudaMalloc(&x, 1000 * sizeof(float));
    cudaMalloc(&y, 500 * sizeof(double));
    edge_free<<<16, 64>>>(x, y);
}
