// What the host allocates, and the sizes that it passes. The lines of kernels have an exit code and a part of each sentence.
// edge_free: 1, which has 4000 bytes (1000 elements)
// rows_of_two: 1, the host allocates no more
__global__ void edge_free(const float* x, float* y) { y[blockIdx.x * 64 + threadIdx.x] = 2 * x[blockIdx.x * 64 + threadIdx.x]; }
void run(int width, int unused) {
    float *x, *y;
    cudaMalloc(&x, 1000 * sizeof(float));
    cudaMalloc(&y, 500 * sizeof(double));
    edge_free<<<16, width>>>(x, y);
}
void time() {
    run(1, 0);
    for (int width : {64, 128}) run(width, 1);
}
__global__ void rows_of_two(const float* x, float* y, int rows, int width, int height, int length) {
    int r = blockIdx.x * 64 + threadIdx.x;
    for (int c = 0; c < length; ++c) y[r * length + c] = height - rows + x[r * width + c];
}
void launch(const float* x, float* y, int rows, int width, int height) {
    if (rows != height) return;
    rows_of_two<<<(rows + 63) / 64, 64>>>(x, y, rows, width, height, width);
}
void prepare(int many, int width) {
    float *x, *y;
    cudaMalloc(&x, many * width * sizeof(float));
    cudaMalloc(&y, many * width * sizeof(float));
    launch(x, y, many, width, many);
}
