// Sizes, types and values that stand elsewhere in the file. The end has an exit code and a part of each sentence.
#define TILE 16

class Bench { public: using T = float; };
namespace orders { enum class order { row, col }; }
int stages = 1;
inline int ceil(int a, int b) { return (a + b - 1) / b; }

template <typename U, orders::order OF_B>
__global__ void gemm_staged(const Bench::T* A, const U* B, Bench::T* C, int M, int N, int K) {
    extern __shared__ float tile[];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int at = 0; at < K; at += TILE) {
        int k = at + threadIdx.x;
        tile[threadIdx.y * TILE + threadIdx.x] = row < M && k < K ? A[row * K + k] : 0;
        __syncthreads();
        for (int i = 0; i < TILE && at + i < K && column < N; ++i)
            sum += tile[threadIdx.y * TILE + i] * (OF_B == orders::order::row ? B[(at + i) * N + column] : 0);
        __syncthreads();
    }
    if (row < M && column < N) C[row * N + column] = sum;
}
template <typename U, orders::order OF_B> void staged(const U* A, const U* B, U* C, int M, int N, int K) {
    auto blocks = [&](int size) -> int { return (size + TILE - 1) / TILE; };
    dim3 block(TILE, TILE), grid(ceil(N, TILE), blocks(M));
    gemm_staged<U, OF_B><<<grid, block, stages * TILE * TILE * sizeof(U)>>>(A, B, C, M, N, K);
}
template <orders::order OF_B> void called(float* x, float* y) {
    auto function = staged<float, OF_B>;
    function(x, x, y, 64, 64, 64);
}

// Rows and inner dimension of the product are one size.
__global__ void scores_v(const float* S, const float* V, float* out, ssize_t length, int width) {
    ssize_t row = blockIdx.x * TILE + threadIdx.x, column = blockIdx.y * TILE + threadIdx.y;
    if (row >= length || column >= width) return;
    float sum = 0;
    for (int i = 0; i < length; ++i) sum += S[row * length + i] * V[i * width + column];
    out[row * width + column] = sum;
}

// The second test has M and N the other way round.
__global__ void transpose_tested(const float* in, float* out, int M, int N) {
    __shared__ float tile[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < N && y < M) tile[threadIdx.y][threadIdx.x] = in[y * N + x];
    __syncthreads();
    y = blockIdx.x * TILE + threadIdx.y;
    x = blockIdx.y * TILE + threadIdx.x;
    if (x < N && y < M) out[y * M + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void twice_of_cube(const float* in, float* out, int n) {
    int i = blockIdx.z * 8 + threadIdx.z, j = blockIdx.y * 8 + threadIdx.y, k = blockIdx.x * 8 + threadIdx.x;
    if (i < n && j < n && k < n) out[(i * n + j) * n + k] = 2 * in[(i * n + j) * n + k];
}

__global__ void soften(const float* x, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i + 1];
}

// An odd number of elements in the last block loses its last.
__global__ void reduce_short(const float* in, float* out, int n) {
    __shared__ float held[256];
    int t = threadIdx.x, rest = n - blockIdx.x * 512, half = (rest < 512 ? rest : 512) / 2;
    if (t < half) held[t] = in[blockIdx.x * 512 + t] + in[blockIdx.x * 512 + t + half];
    __syncthreads();
    for (int s = half / 2; s > 0; s /= 2) {
        if (t < s) held[t] += held[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = held[0];
}

__global__ void gather(const float* const* rows, float* out, int n) { out[threadIdx.x] = rows[threadIdx.x][n]; }

// The number of heads is in the launch alone, and large sizes are slow.
__global__ void sums_before(const float* x, float* y, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length) return;
    for (int d = 0; d < 64; ++d) {
        float sum = 0;
        for (int k = 0; k <= i; ++k) sum += x[(blockIdx.y * length + k) * 64 + d];
        y[(blockIdx.y * length + i) * 64 + d] = sum;
    }
}

// A block a row of a tensor; the rows are no argument.
__global__ void scale_rows(const float* x, const float* w, float* y, int columns) {
    for (int i = threadIdx.x; i < columns; i += 256) y[blockIdx.x * columns + i] = x[blockIdx.x * columns + i] * w[i];
}

__global__ void scale_tokens(const float* x, const float* w, float* y, int columns) {
    for (int i = threadIdx.x; i < columns; i += 256) y[blockIdx.x * columns + i] = x[blockIdx.x * columns + i] * w[i];
}

// In place: the output is the input.
__global__ void softmax_of_rows(float* c, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float most = -__FLT_MAX__, sum = 0;
    for (int i = 0; i < columns; ++i) most = fmaxf(most, c[row * columns + i]);
    for (int i = 0; i < columns; ++i) sum += expf(c[row * columns + i] - most);
    for (int i = 0; i < columns; ++i) c[row * columns + i] = expf(c[row * columns + i] - most) / sum;
}

__global__ void softmax_of_bits(float* c, int rows, int columns) {
    __shared__ float most, sum;
    if (threadIdx.x == 0) most = -1e9f, sum = 0;
    __syncthreads();
    float* row = c + blockIdx.x * columns;
    for (int i = threadIdx.x; i < columns; i += 64) atomicMax((int*)&most, __float_as_int(row[i]));
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += 64) atomicAdd(&sum, row[i] = expf(row[i] - __int_as_float((int)most)));
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += 64) row[i] /= sum;
}

__global__ void transpose_square(float* a, int n) {
    int r = blockIdx.y * TILE + threadIdx.y, c = blockIdx.x * TILE + threadIdx.x;
    float held = r < n && c < r ? a[r * n + c] : 0;
    if (r < n && c < r) a[r * n + c] = a[c * n + r], a[c * n + r] = held;
}

__global__ void vec_add_to(float* a, const float* b, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) a[i] += b[i];
}

int main(int argc, char** argv) {
    if (argc > 1) stages = atoi(argv[1]);
    float *x, *y;
    called<orders::order::row>(x, y);
}
void run(float* x, float* y, float** rows, int M, int N) {
    scores_v<<<dim3(ceil(M, TILE), ceil(N, TILE)), dim3(TILE, TILE)>>>(x, x, y, M, N);
    transpose_tested<<<dim3(ceil(N, TILE), ceil(M, TILE)), dim3(TILE, TILE)>>>(x, y, M, N);
    twice_of_cube<<<dim3(ceil(N, 8), ceil(N, 8), ceil(N, 8)), dim3(8, 8, 8)>>>(x, y, N);
    int blocks = N / 256;
    if (N % 256 > 0) blocks++;
    soften<<<blocks, 256>>>(x, y, N);
    reduce_short<<<ceil(N, 512), 256>>>(x, y, N);
    gather<<<1, 32>>>(rows, y, N);
    softmax_of_rows<<<ceil(M, 128), 128>>>(x, M, N);
    softmax_of_bits<<<M, 64>>>(x, M, N);
    transpose_square<<<dim3(ceil(N, TILE), ceil(N, TILE)), dim3(TILE, TILE)>>>(x, N);
    vec_add_to<<<ceil(N, 256), 256>>>(x, y, N);
    sums_before<<<dim3((N + 127) / 128, 32), 128>>>(x, y, N);
}
void of_tensors(torch::Tensor x, torch::Tensor w, torch::Tensor y) {
    const int columns = x.size(-1), tokens = x.numel() / columns;
    scale_rows<<<x.size(0), 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), columns);
    scale_tokens<<<tokens, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), columns);
}

// gemm_staged: 0, is right at
// scores_v: 0, where m == k
// transpose_tested: 1, is right only where m == n
// twice_of_cube: 0, equal to each element times a number at 2 shapes from 75 to 76
// soften: 3, the size of x could not be found out: 1201 elements are touched
// reduce_short: 1, rounds n up to whole blocks
// gather: 3, pointers in memory cannot be filled (rows)
// sums_before: 3, no race or uninitialised read was found at length = 75 with 4096 threads
// scale_rows: 0, equal to each row of columns times a row at ... shapes from 128x256
// scale_tokens: 0, equal to each row of columns times a row at ... shapes from 128x256
// softmax_of_rows: 0, is right at
// softmax_of_bits: 1, is not right at rows = 129, columns = 67 with large numbers: wrong
// transpose_square: 0, where m == n
// vec_add_to: 0, is right at
