__global__ void centre(const float* x, float* y, int rows, int columns) {
    float sum = 0;
    for (int i = 0; i < blockDim.x; ++i) sum += x[blockIdx.x * blockDim.x + i];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns) y[i] = x[i] - sum / columns;
}
template <typename U>
__global__ void add_naive(const U* s, int n, U f, U* d) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = s[i] + f;
}
