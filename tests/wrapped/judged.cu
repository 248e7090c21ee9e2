// What a name, a launch or a bounds test says, and what the kernel does. The end has an exit code and a part of each sentence.
#include <cmath>
using std::abs;
using std::ceil;

template <class T> constexpr int STRIP() noexcept { return 4; }

// Each thread has STRIP columns; the launch divides real numbers.
__global__ void gemm_strips(const float* A, const float* B, float* C, u_int32_t rowsA, u_int32_t colsB, u_int32_t colsA) {
    u_int32_t row = blockIdx.y * blockDim.y + threadIdx.y;
    for (int t = 0; t < STRIP<float>(); ++t) {
        u_int32_t col = (STRIP<float>() * blockIdx.x + t) * blockDim.x + threadIdx.x;
        float sum = 0;
        if (row >= rowsA || col >= colsB) continue;
        for (u_int32_t i = 0; i < colsA; ++i) sum += A[row * colsA + i] * B[i * colsB + col];
        C[row * colsB + col] = sum < 0 ? -abs(sum) : sum;
    }
}

// Each thread divides by the sum of its own elements.
__global__ void softmax_rows_kernel(const float* input, float* output, int rows, int cols) {
    float sum = 0;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(input[blockIdx.x * cols + i]);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        output[blockIdx.x * cols + i] = expf(input[blockIdx.x * cols + i]) / sum;
}

// The last thread's vector passes the end.
__global__ void swish_vec2_kernel(const float* x, float* y, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        float2 pair = *(const float2*)(x + i);
        *(float2*)(y + i) = make_float2(pair.x / (1 + expf(-pair.x)), pair.y / (1 + expf(-pair.y)));
    }
}
#define LAUNCHER(kind, many) \
    void swish_##kind##_launcher(const float* x, float* y, int n) { \
        dim3 block(256 / many), grid((n + 255) / 256); \
        swish_##kind##_kernel<<<grid, block>>>(x, y, n); \
    }
LAUNCHER(vec2, 2)

// Each lane of a half warp stores its own number to the same word.
__global__ void scale_rows(const float* x, float* y) {
    __shared__ float first[2];
    first[threadIdx.y] = x[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * 16 + threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x] / first[threadIdx.y];
}

// They store the same number.
__global__ void scale_rows_alike(const float* x, float* y) {
    __shared__ float first[2];
    first[threadIdx.y] = x[threadIdx.y * 16];
    __syncthreads();
    y[threadIdx.y * 16 + threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x] / first[threadIdx.y];
}

__global__ void row_dots(const float* matd, const float* vecd, float* resd, int n_rows, int n_cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (row >= n_rows) return;
    for (int i = 0; i < n_cols; ++i) sum += matd[row * n_cols + i] * vecd[i];
    resd[row] = sum;
}

// A function of the host computes the same, or the same but for the first element.
__global__ void smooth(const float* x, float* y, float f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f * x[i] + (i > 0 ? x[i - 1] : 0) + (i + 1 < n ? x[i + 1] : 0);
}
__global__ void smooth_inside(const float* x, float* y, float f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f * x[i] + (i > 1 ? x[i - 1] : 0) + (i + 1 < n ? x[i + 1] : 0);
}
void smooth_host(const float* x, float* y, float f, int n) { smooth<<<(n + 255) / 256, 256>>>(x, y, f, n); }
void smooth_cpu(const float* h_x, float* h_y, float factor, size_t count) {
    for (size_t i = 0; i < count; ++i)
        h_y[i] = factor * h_x[i] + (i > 0 ? h_x[i - 1] : 0) + (i + 1 < count ? h_x[i + 1] : 0);
}

// The host's function has vectors, in another order. The second launch of `turned` has less shared memory.
template <class T> __global__ void shifted(const T* x, T* y, T f, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = f * x[i] + 1;
}
void shifted_seq(std::vector<float>& out, const std::vector<float>& in, float factor, int more = 0) {
    for (size_t i = 0; i < in.size(); ++i) out[i] = factor * in[i] + 1;
    printf("done\n");
}
__global__ void turned(const float* x, float* y, int n) {
    extern __shared__ float held[];
    held[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = held[63 - threadIdx.x];
}
__global__ void mish_all(const float* a, float* b, int n) {
    if (int i = blockIdx.x * 64 + threadIdx.x; i < n) b[i] = a[i] * tanhf(log1pf(expf(a[i])));
}
__global__ void tally(const unsigned char* x, unsigned* counts, int n) { atomicAdd(counts + x[threadIdx.x], 1u); }
struct Rows { const float* x; float* y; int n; };
__global__ void doubled(Rows rows) { rows.y[threadIdx.x] = 2 * rows.x[threadIdx.x]; }
void more(const float* a, const unsigned char* bytes, float* c, int n) {
    unsigned* counts;
    Rows* rows;
    cudaMalloc(&counts, 256 * sizeof(unsigned)), cudaMalloc(&rows, sizeof(Rows)), cudaMemset(counts, 0, 256);
    shifted<float><<<(n + 63) / 64, 64>>>(a, c, 0.5f, n);
    turned<<<n / 64, 64, 256>>>(a, c, n), turned<<<1, 64, 64>>>(a, c, n);
    mish_all<<<(n + 63) / 64, 64>>>(a, c, n), tally<<<1, 64>>>(bytes, counts, n), doubled<<<1, 64>>>(*rows);
}

// Sizes come by pointers, as from Fortran, and the row of C is read whatever beta is: a NaN in it stays the same NaN.
__global__ void dgemm_rows(double alpha, double beta, int m, int n, int k, const double* A, const double* B, double* C) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    double sum = 0;
    if (row >= m || col >= n) return;
    for (int i = 0; i < k; ++i) sum += A[row * k + i] * B[i * n + col];
    C[row * n + col] = alpha * sum + beta * C[row * n + col];
}
extern "C" void dgemm_(const int* m, const int* n, const int* k, const double* alpha, const double* A, const double* B,
                       const double* beta, double* C) {
    dim3 grid((*n - 1) / 8 + 1, (*m - 1) / 8 + 1), block(8, 8);
    dgemm_rows<<<grid, block>>>(*alpha, *beta, *m, *n, *k, A, B, C);
}

// Nothing stands between the products of a tile and the next tile of A, so only a long K races.
__global__ void blocked(size_t N, size_t K, size_t M, const float* A, const float* B, float* C) {
    __shared__ float tile[2][32][32];
    const size_t row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (size_t k = 0; k < K; k += 32) {
        tile[0][threadIdx.y][threadIdx.x] = row < N && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0;
        __syncthreads();
        tile[1][threadIdx.y][threadIdx.x] = k + threadIdx.y < K && col < M ? B[(k + threadIdx.y) * M + col] : 0;
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += tile[0][threadIdx.y][i] * tile[1][i][threadIdx.x];
    }
    if (row < N && col < M) C[row * M + col] = sum;
}

void launch(const float* a, const float* b, float* c, int rows, int cols, int depth) {
    const dim3 block(8, 8), grid(static_cast<int>(std::ceil(static_cast<float>(cols) / block.x / 4)), (rows + 7) / 8);
    gemm_strips<<<grid, block>>>(a, b, c, rows, cols, depth);
    softmax_rows_kernel<<<rows, 256>>>(a, c, rows, cols);
    row_dots<<<(rows + 63) / 64, 64>>>(a, b, c, rows, cols);
    dim3 tiles((cols + 31) / 32), square;
    tiles.y = (rows + 31) / 32;
    square.x = square.y = 32;
    blocked<<<tiles, square>>>(rows, depth, cols, a, b, c);
    smooth_host(a, c, 0.25f, rows);
    smooth_inside<<<(rows + 255) / 256, 256>>>(a, c, 0.25f, rows);
    scale_rows<<<1, dim3(16, 2)>>>(a, c);
    scale_rows_alike<<<1, dim3(16, 2)>>>(a, c);
}

// gemm_strips: 0, is right at
// softmax_rows_kernel: 1, is not right as softmax at
// swish_vec2_kernel: 1, it has a bounds test of n, the outcome is invalid access at n = 1201
// scale_rows: 1, stored different values in one instruction (STS at line
// scale_rows_alike: 3, no race or uninitialised read was found
// row_dots: 0, is right at
// smooth: 0, is right: equal to the file's own smooth_cpu (line
// smooth_inside: 3, it differs from the file's own smooth_cpu (line
// shifted: 0, is right: equal to the file's own shifted_seq (line
// turned: 1, as launched in line
// mish_all: 0, is right: equal to Mish of each element at 3 shapes
// tally: 1, sets 256 of the 256 * sizeof(unsigned) bytes of counts
// doubled: 1, reads *rows on the host
// dgemm_rows: 0, is right at
// blocked: 1, is not right at ... race: threads
