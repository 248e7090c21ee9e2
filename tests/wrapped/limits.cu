// Sizes at which kernels are right, and why not at others. Lines have an exit code and a part of each sentence.
// gemm_in_lines: 0, where m * n % 64 == 0 ... : its grid, m * n / 64, is rounded down
// smooth: 0, equal to the file's own smooth_cpu ... right where width % 32 == 0: its grid, width / 32, is rounded down
// gemm_inside: 1, has a bounds test of n ... it is right where ... n % 16 == 0: its grid, n / 16, is rounded down
// gemv_in_fours: 0, where m == k and where k % 4 == 0
// scale_sides: 0, equal to each element times a number ... where w == h
// gemm_unset: 1, is not right: uninitialised read: ... (with smaller constants than the file's: EDGE =
// gemm_partly_set: 3, uninitialised read: ... (with smaller constants than the file's: EDGE =
// counts: 1, is 4294967295 (never written, or computed so), expected
// total_of_block: 0, right where n is a power of 2, but unsupported at n = 1025
#define SIDE 16
#define EDGE 4096
__global__ void gemm_in_lines(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.x * 64 + threadIdx.x, row = i / n, column = i % n;
    float sum = 0;
    for (int j = 0; j < k; ++j) sum += a[row * k + j] * b[j * n + column];
    c[i] = sum;
}
void smooth_cpu(const unsigned* x, unsigned* y, int width) {
    for (int i = 0; i < width; i++) {
        unsigned sum = 0;
        for (int j = i - 2; j <= i + 2; j++) if (j >= 0 && j < width) sum += 3 * x[j];
        y[i] = sum;
    }
}
__global__ void smooth(const unsigned* x, unsigned* y, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    for (int j = i - 2; j <= i + 2; j++) if (j >= 0 && j < width) sum += 3 * x[j];
    y[i] = sum;
}
__global__ void gemm_inside(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0;
    if (row >= n || column >= n) return;
    for (int j = 0; j < n; ++j) sum += a[row * n + j] * b[j * n + column];
    c[row * n + column] = sum;
}
__global__ void gemv_in_fours(const float* a, const float* x, float* y, int n) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= n) return;
    float sum = 0;
    for (int j = 0; j < n; j += 4)
        sum += a[row * n + j] * x[j] + a[row * n + j + 1] * x[j + 1] + a[row * n + j + 2] * x[j + 2] + a[row * n + j + 3] * x[j + 3];
    y[row] = sum;
}
__global__ void scale_sides(const float* x, float* y, int w, int h) {
    int c = blockIdx.x * SIDE + threadIdx.x, r = blockIdx.y * SIDE + threadIdx.y;
    if (c < w && r < h) y[c * w + r] = 3 * x[c * w + r];
}
__device__ float element(const float* a, const float* b, int row, int column) {
    float sum = 0;
    for (int j = 0; j < EDGE; ++j) sum += a[row * EDGE + j] * b[j * EDGE + column];
    return sum;
}
__global__ void gemm_unset(const float* a, const float* b, float* c) {
    __shared__ float weights[SIDE];
    int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    if (threadIdx.x + threadIdx.y == 0) weights[0] = 1;
    __syncthreads();
    c[row * EDGE + column] = element(a, b, row, column) * weights[threadIdx.y];
}
__global__ void gemm_partly_set(const float* a, const float* b, float* c) {
    __shared__ float weights[SIDE];
    int row = blockIdx.y * SIDE + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    if (threadIdx.x < EDGE / 256) weights[threadIdx.x] = 1;
    __syncthreads();
    c[row * EDGE + column] = element(a, b, row, column) * weights[threadIdx.y];
}
void counts_cpu(const unsigned* x, unsigned* y, int n) { for (int i = 0; i < n; i++) y[i] = x[i] % 7; }
__global__ void counts(const unsigned* x, unsigned* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n - 1) y[i] = x[i] % 7;
}
void run(float* a, float* b, float* c, unsigned* x, unsigned* y, int m, int n, int k, int width) {
    gemm_in_lines<<<m * n / 64, 64>>>(a, b, c, m, n, k);
    smooth<<<width / 32, 32>>>(x, y, width);
    gemm_inside<<<dim3(n / SIDE, n / SIDE), dim3(SIDE, SIDE)>>>(a, b, c, n);
    gemv_in_fours<<<(n + 63) / 64, 64>>>(a, b, c, n);
    const int w = 96, h = 96;
    float *of, *to;
    cudaMalloc(&of, w * h * sizeof(float));
    cudaMalloc(&to, w * h * sizeof(float));
    scale_sides<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(SIDE, SIDE)>>>(of, to, w, h);
    gemm_unset<<<dim3(EDGE / SIDE, EDGE / SIDE), dim3(SIDE, SIDE)>>>(a, b, c);
    gemm_partly_set<<<dim3(EDGE / SIDE, EDGE / SIDE), dim3(SIDE, SIDE)>>>(a, b, c);
    counts<<<(n + 63) / 64, 64>>>(x, y, n);
}
__global__ void total_of_block(const float* x, float* out, int n) {
    extern __shared__ float sums[];
    sums[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d /= 2) {
        if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = sums[0];
}
void run_total(float* x, float* out, int n) { total_of_block<<<1, n, n * sizeof(float)>>>(x, out, n); }
