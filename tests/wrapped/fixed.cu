// Launches of fixed size, or none: right or wrong at that size. The end has an exit code and a part of each sentence.
#include <sys/types.h>
#define N 1024
#define BLOCKS 2
#define THREADS 2
#define SIDE 65552

__device__ void product(const float* A, const float* B, float* C, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (row >= n || col >= n) return;
    for (int i = 0; i < n; ++i) sum += A[row * n + i] * B[i * n + col];
    C[row * n + col] = sum;
}

__global__ void matmul(const float* A, const float* B, float* C, int n, int order) { product(A, B, C, n); }

// Its launch has a row and a column too few.
__global__ void matmul_short(const float* A, const float* B, float* C, int n, int order) { product(A, B, C, n); }

__global__ void transpose(const float* in, float* out, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && col < n) out[col * n + row] = in[row * n + col];
}

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void vector_add_in_blocks(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// The last block passes the end.
__global__ void vector_add_untested(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}

__global__ void copy(const u_char* in, u_char* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}

__global__ void copy_wide(const u_char* in, u_char* out) { out[threadIdx.x] = in[threadIdx.x]; }

__global__ void transpose_large(const float* in, float* out) {
    size_t row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < SIDE && col < SIDE) out[col * SIDE + row] = in[row * SIDE + col];
}

template <int TILE_DIM> __global__ void transpose_shared(const float* in, float* out, int n) {
    extern __shared__ float tile[];
    int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y;
    float* own = tile + threadIdx.y * TILE_DIM + threadIdx.x;
    if (x < n && y < n) *own = in[y * n + x], out[x * n + y] = *own;
}

void launch(float* a, float* b, float* c, u_char* in, u_char* out, int order) {
    int n = 64, edge = BLOCKS * THREADS, many = 1024;
    dim3 grid(4, 4), block(16, 16);
    matmul<<<grid, block>>>(a, b, c, n, order);
    matmul_short<<<grid, block>>>(a, b, c, 65, order);
    transpose<<<dim3(BLOCKS, BLOCKS, 1), dim3(THREADS, THREADS, 1)>>>(a, b, edge);
    vector_add<<<4, 256>>>(a, b, c, 1024);
    vector_add_in_blocks<<<many / 256, 256>>>(a, b, c, many);
    vector_add_untested<<<4, 256>>>(a, b, c, 1000);
    copy<<<4, 256>>>(in, out, N);
    copy_wide<<<1, 2048>>>(in, out);
    transpose_large<<<dim3(SIDE / 16, SIDE / 16), block>>>(a, b);
}

// matmul: 0, where m == n and n == k
// matmul_short: 1, at m = 65, n = 65, k = 65, the size of the launch in line
// transpose: 0, where m == n
// vector_add: 0, is right at
// vector_add_in_blocks: 0, where n % 256 == 0
// vector_add_untested: 1, at n = 1000, the size of the launch in line
// copy: 0, is right at
// copy_wide: 1, block x = 2048 exceeds 1024
// transpose_large: 0, (with smaller constants than the file's: SIDE = 144)
// transpose_shared: 0, with a guessed TILE_DIM, grid and shared_bytes
