// Products as people write them: names of sizes, launches, grids. The end has an exit code and a part of each sentence.
#include <cuda_fp16.h>

typedef const unsigned Size;
typedef struct { int width; int height; int stride; float* elements; } Matrix;
const int BK = 8, STEP = 32;

__global__ void gemm_of_rows(float* A, float* B, float* C, Size numARows, Size numAColumns, Size numBRows,
                             Size numBColumns, Size numCRows, Size numCColumns) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= numCRows || column >= numCColumns) return;
    float sum = 0;
    for (int i = 0; i < numBRows; ++i) sum += A[row * numAColumns + i] * B[i * numBColumns + column];
    C[row * numCColumns + column] = sum;
}

template <int BLOCK_SIZE>
__global__ void gemm_of_widths(float* C, float* A, float* B, int wA, int wB) {
    __shared__ float as[BLOCK_SIZE][BLOCK_SIZE], bs[BLOCK_SIZE][BLOCK_SIZE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * BLOCK_SIZE + y, column = blockIdx.x * BLOCK_SIZE + x;
    float sum = 0;
    for (int i = 0; i < wA; i += BLOCK_SIZE) {
        as[y][x] = A[row * wA + i + x];
        bs[y][x] = B[(i + y) * wB + column];
        __syncthreads();
        for (int j = 0; j < BLOCK_SIZE; ++j) sum += as[y][j] * bs[j][x];
        __syncthreads();
    }
    C[row * wB + column] = sum;
}

__global__ void gemm_of_matrices(Matrix A, Matrix B, Matrix C) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= A.height || column >= B.width) return;
    float sum = 0;
    for (int i = 0; i < A.width; ++i) sum += A.elements[row * A.width + i] * B.elements[i * B.width + column];
    C.elements[row * C.stride + column] = sum;
}

__global__ void gemv_of_rows(const float* mat, const float* vec, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int i = 0; row < rows && i < cols; ++i) sum += mat[row * cols + i] * vec[i];
    if (row < rows) out[row] = sum;
}

__global__ void gemm_batched(const float* A, const float* B, float* C, int batch, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int i = 0; i < K; ++i) sum += A[(blockIdx.z * M + row) * K + i] * B[(blockIdx.z * K + i) * N + column];
    C[(blockIdx.z * M + row) * N + column] = sum;
}

__global__ void apply(float* A, float* x, float* y, int M, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M) return;
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += A[row * N + i] * x[i];
    y[row] = sum;
}

__global__ void gemm_in_steps(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[STEP][STEP], bs[STEP][STEP];
    int x = threadIdx.x % STEP, y = threadIdx.x / STEP, row = blockIdx.y * STEP + y, column = blockIdx.x * STEP + x;
    float sum = 0;
    for (int i = 0; i < K; i += STEP) {
        as[y][x] = A[row * K + i + x];
        bs[y][x] = B[(i + y) * N + column];
        __syncthreads();
        for (int j = 0; j < STEP; ++j) sum += as[y][j] * bs[j][x];
        if (i / STEP + 1 < K / STEP) __syncthreads();
    }
    C[row * N + column] = sum;
}

// It is launched nowhere, and takes what gemm_in_steps takes.
__global__ void gemm_of_steps(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * STEP + threadIdx.x / STEP, column = blockIdx.x * STEP + threadIdx.x % STEP;
    float sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + column];
    C[row * N + column] = sum;
}

__global__ void gemm_of_pairs(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = 4 * (blockIdx.y * 16 + threadIdx.y), column = 4 * (blockIdx.x * 16 + threadIdx.x);
    for (int j = 0; j < 16; ++j) {
        float sum = 0;
        for (int i = 0; i < K; ++i) sum += __half2float(__float2half(A[(row + j / 4) * K + i])) * B[i * N + column + j % 4];
        C[(row + j / 4) * N + column + j % 4] = sum;
    }
}

// The last column of an odd N is not written.
__global__ void gemm_in_half(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, column = 2 * (blockIdx.x * 16 + threadIdx.x);
    if (row >= M || column + 1 >= N) return;
    float sums[2] = {0, 0};
    for (int i = 0; i < K; ++i)
        for (int j = 0; j < 2; ++j)
            sums[j] += __half2float(__float2half(A[row * K + i])) * __half2float(__float2half(B[i * N + column + j]));
    for (int j = 0; j < 2; ++j) C[row * N + column + j] = sums[j];
}

void multiply(float* a, float* b, float* c, int width, const dim3& dimsA, const dim3& dimsB) {
    dim3 threads(width, width), grid(dimsB.x / threads.x, dimsA.y / threads.y);
    if (width == 16) {
        gemm_of_widths<16><<<grid, threads>>>(c, a, b, dimsA.x, dimsB.x);
    } else {
        gemm_of_widths<32><<<grid, threads>>>(c, a, b, dimsA.x, dimsB.x);
    }
}

void launch(float* a, float* b, float* c, int batch, int M, int N, int K, Matrix A, Matrix B, Matrix C) {
    dim3 block(16, 16), grid((N - 1) / 16 + 1, M / 16 + (M % 16 == 0 ? 0 : 1)), tiles, threads;
    gemm_of_rows<<<grid, block>>>(a, b, c, M, K, K, N, M, N);
    gemm_of_matrices<<<dim3((B.width + 15) / 16, (A.height + 15) / 16), block>>>(A, B, C);
    gemv_of_rows<<<M % 256 ? M / 256 + 1 : M / 256, 256>>>(a, b, c, M, K);
    threads.x = 32;
    threads.y = 8;
    tiles.x = (N + 31) / 32;
    tiles.y = (M + 7) / 8;
    tiles.z = batch;
    gemm_batched<<<tiles, threads>>>(a, b, c, batch, M, N, K);
    apply<<<(1024 + 255) / 256, 256>>>(a, b, c, 1024, 512);
    gemm_in_steps<<<dim3(N / STEP, M / STEP), STEP * STEP>>>(a, b, c, M, N, K);
    gemm_of_pairs<<<dim3((N + 15) / 16 / 4, (M + 15) / 16 / 4), block>>>(a, b, c, M, N, K);
    gemm_in_half<<<dim3((N + 31) / 32, (M + 15) / 16), block>>>(a, b, c, M, N, K);
}

int main() {
    int width = 32;
    dim3 dimsA(10 * width, 10 * width, 1), dimsB(20 * width, 10 * width, 1);
    multiply(0, 0, 0, width, dimsA, dimsB);
}

// The grid alone says its size, which is a constant of the launch.
__global__ void transpose_of_grid(const float* in, float* out) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, width = gridDim.x * 16;
    out[x * width + y] = in[y * width + x];
}

const int EDGE = 48, LARGE = 4096;
__global__ void gemm_of_edge(const float* a, const float* b, float* c) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < EDGE; ++i) sum += a[row * EDGE + i] * b[i * EDGE + column];
    c[row * EDGE + column] = sum;
}

// Whole tiles alone: the host of the first demands them, that of the second does not.
__device__ void scale(const float* a, const float* b, float* c, const float* s, int m, int n, int k) {
    for (int r = 0; r < 64; ++r) {
        int row = blockIdx.y * 64 + r, column = blockIdx.x * 64 + threadIdx.x;
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
        c[row * n + column] = s[row] * sum;
    }
}

__global__ void scaled(const float* a, const float* b, float* c, const float* s, int M, int N, int K) {
    scale(a, b, c, s, M, N, K);
}

__global__ void scaled_up(const float* a, const float* b, float* c, const float* s, int M, int N, int K) {
    scale(a, b, c, s, M, N, K);
}

struct Scaling {
    float *a, *b, *c, *s;
    void operator()(int M, int N, int K) const {
        transpose_of_grid<<<dim3(LARGE / 16, LARGE / 16), dim3(16, 16)>>>(a, b);
        gemm_of_edge<<<dim3(EDGE / 16, EDGE / 16), dim3(16, 16)>>>(a, b, c);
        dim3 grid((N + 63) / 64, (M + 63) / 64);
        scaled_up<<<grid, 64>>>(a, b, c, s, M, N, K);
        if (M % 64 != 0 || N % 64 != 0) return;
        scaled<<<grid, 64>>>(a, b, c, s, M, N, K);
    }
};

// gemm_of_rows: 0, is right at
// gemm_of_widths: 0, where m % 32 == 0 and n % 32 == 0 and k % 32 == 0, which wrap inferred from trials that failed (wrong at m = 65, n = 96, k = 128) (k, n are the file's wA, wB)
// gemm_of_matrices: 0, is right at
// gemv_of_rows: 0, is right at
// gemm_batched: 0, is right at
// apply: 0, is right at
// gemm_in_steps: 0, where m % 32 == 0 and n % 32 == 0 and k % 32 == 0
// gemm_of_steps: 0, with a guessed block and grid
// gemm_of_pairs: 0, where m % 64 == 0 and n % 64 == 0
// gemm_in_half: 1, it has a bounds test of n
// transpose_of_grid: 0, where m == n and where m % 16 == 0
// gemm_of_edge: 0, where m == 48 and n == 48 and k == 48
// scaled: 0, equal to the product with k terms, the second array transposed, each row times its number
// scaled_up: 1, rounds m up to whole blocks
