// What kernels compute whose operation nothing names, recognised by their values. Expected: kernel: exit code, text.
// norm_affine: 0, equal to layer norm of each row of n, scaled and shifted
// pairs: 0, equal to the sums of blocks of elements that follow each other
// local_scan: 0, an inclusive scan of each chunk of a block and the sums of blocks of elements
// stage: 0, equal to the product of a sparse matrix in CSR form and a vector
// quantize: 0, equal to each element divided by a number, rounded, up to 127
// conv_rows: 0, equal to the convolution of rows of width and weights up to r away
// elu: 1, it differs from ELU of each element
// flags: 3, what it computes is unknown
// elu_of_none: 3, what it computes is unknown
__global__ void norm_affine(const float* x, const float* weight, const float* bias, float* y, int n) {
    float sum = 0, square = 0;
    for (int i = 0; i < n; ++i) sum += x[blockIdx.x * n + i], square += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
    float mean = sum / n, scale = rsqrtf(square / n - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) * scale * weight[i] + bias[i];
}
__global__ void pairs(int* data, int* out, int n) {  // it changes its input, and takes whole pairs of blocks
    int* first = data + blockIdx.x * 2 * blockDim.x;
    first[threadIdx.x] += first[threadIdx.x + blockDim.x];
    __syncthreads();
    for (int side = blockDim.x / 2; side > 0; side /= 2) {
        if (threadIdx.x < side) first[threadIdx.x] += first[threadIdx.x + side];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = first[0];
}
__global__ void local_scan(const float* x, float* y, float* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = blockIdx.x * blockDim.x; j <= i && j < n; ++j) sum += x[j];
    if (i < n) y[i] = sum;
    if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = sum;
}
__global__ void stage(const int* starts, const int* columns, const float* values, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = i < n ? starts[i] : 0; i < n && j < starts[i + 1]; ++j) sum += values[j] * x[columns[j]];
    if (i < n) y[i] = sum;
}
__global__ void quantize(const float* x, signed char* y, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (signed char) fmaxf(-128.0f, fminf(127.0f, roundf(x[i] / scale)));
}
__constant__ float weights[81];
__global__ void conv_rows(const float* x, float* y, int r, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int v = -r; v <= r; ++v)
        for (int u = -r; u <= r; ++u)
            if (i + u >= 0 && i + u < width && j + v >= 0 && j + v < height)
                sum += x[(j + v) * width + i + u] * weights[(v + r) * (2 * r + 1) + u + r];
    if (i < width && j < height) y[j * width + i] = sum;
}
__global__ void elu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0 ? expm1f(x[i]) : 0;  // a positive element is lost
}
__global__ void flags(const float* x, int* y, int n) {  // each is 1, as the largest element, rounded, is by chance
    if (threadIdx.x == 0) y[blockIdx.x] = x[blockIdx.x] < 2 && n > 0;
}
__global__ void elu_of_none(float* x, float* y, int n) {}
void run(float* x, float* y, int* i, signed char* c, const float* w, int n, int m, int r) {
    cudaMemcpyToSymbol(weights, w, sizeof(weights));
    norm_affine<<<m, 128>>>(x, w, w, y, n);
    pairs<<<n / 512, 256>>>(i, i, n);
    local_scan<<<(n + 255) / 256, 256>>>(x, y, y, n);
    stage<<<(n + 127) / 128, 128>>>(i, i, x, w, y, n);
    quantize<<<(n + 255) / 256, 256>>>(x, c, 0.01f, n);
    conv_rows<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, y, r, n, m);
    elu<<<(n + 255) / 256, 256>>>(x, y, n);
    flags<<<n / 64, 64>>>(x, i, n);
    elu_of_none<<<(n + 255) / 256, 256>>>(x, y, n);
}
