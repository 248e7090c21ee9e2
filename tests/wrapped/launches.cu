// Kernels whose launches do not name them before the chevrons, or whose sizes are no parameters.
#define T 16
enum { ROWS = 48, COLUMNS };

__global__ void transpose_tiles(float* out, const float* in, int width, int height) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void transpose_elements(float* out, const float* in, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[x * height + y] = in[y * width + x];
}

__global__ void transpose_fixed(float* out, const float* in) {
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    if (x < COLUMNS && y < ROWS) out[x * ROWS + y] = in[y * COLUMNS + x];
}

// x counts columns, the launch gives it rows
__global__ void product_swapped(const float* A, const float* B, float* C, int M, int N, int K) {
    const int c = blockIdx.x * T + threadIdx.x, r = blockIdx.y * T + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < K && r < M && c < N; ++k) sum += A[r * K + k] * B[k * N + c];
    if (r < M && c < N) C[r * N + c] = sum;
}

// alpha and beta are not used
template <int WIDTH, int EACH, bool TWICE>
__global__ void product_columns(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    const int c = blockIdx.x * WIDTH + threadIdx.x, r = (blockIdx.y * blockDim.y + threadIdx.y) * EACH;
    for (int j = 0; j < EACH && r + j < M && c < N; ++j) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[(r + j) * K + k] * B[k * N + c];
        C[(r + j) * N + c] = TWICE ? 2 * sum : sum;
    }
}

__global__ void gemv_rows(const float* A, const float* x, float* y, int M, int N) {
    const int r = blockIdx.x * 64 + threadIdx.x;
    if (r >= M) return;
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += A[r * N + i] * x[i];
    y[r] = sum;
}

__global__ void reduce_pairs(const float* in, float* out) {
    __shared__ float s[128];
    const int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = in[i] + in[i + 128];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}

__global__ void reduce_strided(const float* in, float* out, int n) {
    __shared__ float s[128];
    s[threadIdx.x] = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 128 * gridDim.x) s[threadIdx.x] += in[i];
    __syncthreads();
    for (int i = 1; threadIdx.x == 0 && i < 128; ++i) s[0] += s[i];
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}

namespace {
template <int THREADS = 128>
__global__ void softmax_of_row(const float* x, float* y, int N) {
    __shared__ float all[THREADS];
    const int i = blockIdx.x * THREADS + threadIdx.x;
    all[threadIdx.x] = i < N ? expf(x[i]) : 0;
    __syncthreads();
    float sum = 0;
    for (int j = 0; j < THREADS; ++j) sum += all[j];
    if (i < N) y[i] = all[threadIdx.x] / sum;
}

__global__ void copy_hidden(const float* in, float* out, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) out[i] = in[i];
}
}

#define ROW_LAUNCH(C) softmax_of_row<C><<<rows, C>>>(x, y, N)

void run(int which, float* out, float* in, float* b, int width, int height, int m, int n, int k, int total) {
    void (*kernel)(float*, const float*, int, int);
    dim3 grid, block;
    switch (which) {
        case 0: kernel = &transpose_tiles; block = dim3(32, 8), grid = dim3((width + 31) / 32, (height + 31) / 32); break;
        default: kernel = transpose_elements; block = dim3(4, 64), grid = dim3((width + 3) / 4, (height + 63) / 64);
    }
    kernel<<<grid, block>>>(out, in, width, height);
    transpose_fixed<<<dim3((COLUMNS + T - 1) / T, (ROWS + T - 1) / T), dim3(T, T)>>>(out, in);
    product_swapped << <dim3((m + T - 1) / T, (n + T - 1) / T), dim3(T, T) >> > (in, b, out, m, n, k);
    gemv_rows<<<(m + 63) / 64, 64>>>(in, b, out, m, n);
    reduce_pairs<<<total / 256, 128>>>(in, out);
    reduce_strided<<<total / 128, 128>>>(in, out, total);
    void* pointers[] = {&in, &out, &total};
    cudaLaunchKernel((void*)copy_hidden, dim3((total + 63) / 64), dim3(64), pointers, 0, 0);
}
