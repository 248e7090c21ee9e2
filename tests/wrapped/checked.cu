// Kernels and launches as `check` meets them, right and wrong. The end has an exit code and a part of each sentence.
#include "of_the_host_and_not_here.h"

#define TILE 16
const int ROWS = 5, COLUMNS = 3;

int blocks_of(int size, int threads) { return (size + threads - 1) / threads; }

// The launch gives the rows to x, the kernel takes x for columns.
__global__ void gemm_turned(const float* a, const float* b, float* c, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + column];
    c[row * N + column] = sum;
}

// Rows of b have N elements, not K.
__global__ void gemm_stride(const float* a, const float* b, float* c, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * K + column];
    c[row * N + column] = sum;
}

// Right at multiples of 4; the launch has 7.
__global__ void add_quads(const float* x, const float* y, float* out, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    float4 p = *(const float4*)(x + i), q = *(const float4*)(y + i);
    *(float4*)(out + i) = make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w);
}

// N rows of M elements.
__global__ void transpose_named(const float* in, float* out, int N, int M) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < N && column < M) out[column * N + row] = in[row * M + column];
}

__global__ void transpose_constant(const float* in, float* out) {
    int row = threadIdx.y, column = threadIdx.x;
    if (row < ROWS && column < COLUMNS) out[column * ROWS + row] = in[row * COLUMNS + column];
}

// What it computes is no operation; a neighbour is read without a barrier.
__global__ void mix_neighbours(const float* x, const float* u, const float* v, float* out, int rows, int columns) {
    __shared__ float held[64];
    held[threadIdx.x] = x[blockIdx.x * columns + threadIdx.x % columns] + u[threadIdx.x % columns];
    out[blockIdx.x * columns + threadIdx.x % columns] = held[63 - threadIdx.x] * v[threadIdx.x % columns];
}

__global__ void softmax_rows(const float* in, float* out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float most = -__FLT_MAX__, sum = 0;
    for (int i = 0; i < columns; ++i) most = fmaxf(most, in[row * columns + i]);
    for (int i = 0; i < columns; ++i) sum += expf(in[row * columns + i] - most);
    for (int i = 0; i < columns; ++i) out[row * columns + i] = expf(in[row * columns + i] - most) / sum;
}

// A launch without dim3: commas are operators, and a block has 16 threads.
__global__ void gemm_commas(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

// Each block leaves a sum of 512 elements; the lanes of its last warp need __syncwarp.
__global__ void reduce_halves(const float* in, float* out) {
    __shared__ volatile float held[256];
    int t = threadIdx.x;
    held[t] = in[blockIdx.x * 512 + t] + in[blockIdx.x * 512 + 256 + t];
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (t < s) held[t] += held[t + s];
        if (s > 32) __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = held[0];
}

void run(int argc, char** argv, float* x, float* y, float* z, float* out, int M, int N, int K, int rows, int columns) {
    dim3 block(TILE, TILE), grid(blocks_of(N, block.x), blocks_of(M, block.y));
    gemm_turned<<<dim3((M + TILE - 1) / TILE, (N + TILE - 1) / TILE), block>>>(x, y, out, M, N, K);
    gemm_stride<<<grid, block>>>(x, y, out, M, N, K);
    transpose_constant<<<1, dim3(4, 8)>>>(x, out);
    mix_neighbours<<<rows, 64>>>(x, y, z, out, rows, columns);
    gemm_commas<<<(N / TILE, N / TILE), (TILE, TILE)>>>(x, y, out, N);
    reduce_halves<<<N / 256 / 2, 256>>>(x, out);
    int threads = 32;
    if (argc > 1) threads = atoi(argv[1]);
    softmax_rows<<<(rows + threads - 1) / threads, threads>>>(x, out, rows, columns);
}

int main() {
    constexpr int n = 7;
    float *x, *y, *out;
    add_quads<<<blocks_of(blocks_of(n, 4), 64), 64>>>(x, y, out, n);
    int N, M;
    N = M = 4096;
    transpose_named<<<dim3(blocks_of(M, 8), blocks_of(N, 8)), dim3(8, 8)>>>(x, out, N, M);
}

// No bounds test, but a grid that is rounded up; the values of the template are in a macro's table.
template <int SIDE, typename T>
__global__ void gemm_rounded(const T* a, const T* b, T* c, int side, int M, int N, int K) {
    int row = blockIdx.y * side + threadIdx.y, column = blockIdx.x * SIDE + threadIdx.x;
    T sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + column];
    c[row * N + column] = sum;
}

template <int SIDE, typename T = double>
struct Launcher {
    void run(const T* a, const T* b, T* c, std::size_t M, std::size_t N, std::size_t K) {
        dim3 grid(blocks_of(N, SIDE), blocks_of(M, SIDE));
        gemm_rounded<SIDE, T><<<grid, dim3(SIDE, SIDE)>>>(a, b, c, SIDE, M, N, K);
    }
};
#define LAUNCHER(SIDE) Launcher<SIDE>()
auto launchers[] = {LAUNCHER(8)};

// The grid is rounded down: n / 64 is a whole number.
__global__ void vec_add_down(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}

// Whether stores collide depends on the places, which nobody knows.
__global__ void scatter(const float* x, const int* places, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[places[i]] = x[i];
}

__global__ void matrix_vector(const float* matrix, const float* x, float* out, std::size_t n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int i = 0; row < n && i < n; ++i) sum += matrix[row * n + i] * x[i];
    if (row < n) out[row] = sum;
}

struct Registered { Registered(void (*)(float*, int*, int)) {} };
#define REGISTERED(NAME) static Registered registered(NAME);
void launched(float* x, int* places, int n) {
    vec_add_down<<<ceil(n / 64), 64>>>(x, x, x, n);
    scatter<<<blocks_of(n, 64), 64>>>(x, places, x, n);
    matrix_vector<<<blocks_of(n, 64), 64>>>(x, x, x, n);
}

// Nobody knows what these compute; the launch says which sizes they take. Neighbours are read without a barrier.
__global__ void halve_in_place(long long* x) {
    for (int s = 1; s < blockDim.x; s *= 2) {
        if (threadIdx.x + s < blockDim.x) x[threadIdx.x] += x[threadIdx.x + s];
        __syncthreads();
    }
}

// Tiles and width follow from the launch, heads are in its grid alone; another width would be a race.
using Out = float*;
__global__ void attend(const float* q, const float* k, Out out, int n, int d, int tiles, int width) {
    extern __shared__ float held[];
    for (int t = 0; t < tiles; ++t) {
        int row = blockIdx.x * n + t * width + threadIdx.x;
        held[threadIdx.x] = q[row * d];
        __syncthreads();
        out[row * d] = held[width - 1 - threadIdx.x] * k[row * d];
        __syncthreads();
    }
}

// A block for each pixel.
__global__ void pixels(const float* in, float* out, int width) {
    if (threadIdx.x == 0) out[blockIdx.x] = in[blockIdx.x / width * width] + in[blockIdx.x % width];
}

// A sum only in its name; a function launches it.
__global__ void prefix_sum(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = 0; i < n && j <= i; ++j) sum += in[j];
    if (i < n) out[i] = sum;
}

__global__ void softmax_fixed(const float* in, float* out, int columns) {
    int row = threadIdx.x;
    if (row >= ROWS) return;
    float most = -__FLT_MAX__, sum = 0;
    for (int i = 0; i < columns; ++i) most = fmaxf(most, in[row * columns + i]);
    for (int i = 0; i < columns; ++i) sum += expf(in[row * columns + i] - most);
    for (int i = 0; i < columns; ++i) out[row * columns + i] = expf(in[row * columns + i] - most) / sum;
}

// A row that begins with -infinity gives NaN; whether it may, nobody says.
__global__ void softmax_online(const float* in, float* out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float most = -1.0f / 0.0f, sum = 0;
    for (int i = 0; i < columns; ++i) {
        float x = in[row * columns + i], next = fmaxf(most, x);
        sum = sum * expf(most - next) + expf(x - next);
        most = next;
    }
    for (int i = 0; i < columns; ++i) out[row * columns + i] = expf(in[row * columns + i] - most) / sum;
}

template <typename Kernel>
void timed(Kernel kernel, float* x, float* out, int n) {
    kernel<<<blocks_of(n, 64), 64>>>(x, out, n);
}

void unknown(float* x, float* y, float* out, int n, int d, int heads, int width, int columns) {
    halve_in_place<<<1, 256>>>((long long*)x);
    const int of_tile = 32;
    int tiles = ceil((float)n / of_tile), bytes = of_tile * sizeof(float);
    attend<<<heads, of_tile, bytes>>>(x, y, out, n, d, tiles, of_tile);
    pixels<<<width * width, 256>>>(x, out, width);
    timed(prefix_sum, x, out, n);
    softmax_fixed<<<1, 32>>>(x, out, columns);
    softmax_online<<<blocks_of(n, 64), 64>>>(x, out, n, columns);
}

// What it does in shared memory depends on no size: the rows end at 16.
__global__ void gemm_past(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float as[17][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; ++k) {
        as[4 * threadIdx.y][threadIdx.x] = row < M ? a[row * K + k] : 0;
        __syncthreads();
        if (column < N) sum += as[4 * threadIdx.y][threadIdx.x] * b[k * N + column];
    }
    if (row < M && column < N) c[row * N + column] = sum;
}

// It races at whole tiles; at others its launch also reads past the end.
__global__ void gemm_racing(const float* a, const float* b, float* c, int n) {
    __shared__ float as[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < n; i += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * n + i + threadIdx.x];
        for (int k = 0; k < TILE; ++k) sum += as[threadIdx.y][k] * b[(i + k) * n + column];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

__global__ void gemm_added(const float* a, const float* b, float* c, int n) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    for (int k = 0; row < n && column < n && k < n; ++k) c[row * n + column] += a[row * n + k] * b[k * n + column];
}

// A second turn stores the sum of the first.
__global__ void vec_add_turns(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    float sum = i < n ? x[i] + y[i] : 0;
    for (; i < n; i += step) out[i] = sum;
}

__global__ void softmax_alone(const float* in, float* out, int n) {
    float most = -__FLT_MAX__, sum = 0;
    for (int i = 0; i < n; ++i) most = fmaxf(most, in[i]);
    for (int i = 0; i < n; ++i) sum += expf(in[i] - most);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = expf(in[i] - most) / sum;
}

// No kernel needs it; headers of thrust are empty.
#include <thrust/functional.h>
template <typename T>
class square_of : public thrust::unary_function<T, T> {
public:
    __host__ __device__ T operator()(const T& x) const { return x * x; }
};

// Warps store one value in a flag: no race.
__global__ void any_above(const float* x, int* out, int n)
{
    __shared__ int found;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.5f) found = 1;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = found;
}

// Only some warps store another value before a barrier.
__global__ void any_below(const float* x, int* out, int n)
{
    __shared__ int found;
    found = 0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && threadIdx.x >= 224 && x[i] < 0.5f) found = 1;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = found;
}

// The launch gives 64 numbers; the padding is past them at any size.
__global__ void padded(const float* in, float* out, int n)
{
    extern __shared__ float held[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x + threadIdx.x / 32] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) out[i] = 2 * held[threadIdx.x + threadIdx.x / 32];
}

// K is at most 64 where it is launched, perhaps.
__global__ void weighted(const float* in, float* out, int n, int k)
{
    __shared__ float held[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        for (int j = 0; j < k; ++j) held[j] = in[j];
    __syncthreads();
    float sum = 0;
    for (int j = 0; j < k; ++j) sum += held[j] * in[i];
    if (i < n) out[i] = sum;
}

void launch_flags(const float* x, float* y, int* out, int n, int k)
{
    any_above<<<(n + 255) / 256, 256>>>(x, out, n);
    any_below<<<(n + 255) / 256, 256>>>(x, out, n);
    padded<<<(n + 63) / 64, 64, 64 * sizeof(float)>>>(x, y, n);
    weighted<<<(n + 63) / 64, 64>>>(x, y, n, k);
}

__global__ void count_bins(const int* in, int* bins) {
    __shared__ int counts[8];
    atomicAdd(&counts[in[threadIdx.x] & 7], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}

template <typename T>
__global__ void gemm_of_class(const T* a, const T* b, T* c, int n) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    T sum = 0;
    for (int k = 0; row < n && column < n && k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    if (row < n && column < n) c[row * n + column] = sum - T(sizeof(T) == 4);
}

template <typename T>
struct Product {
    void run(T* a, T* b, T* c, int n);
};
template <typename T>
void Product<T>::run(T* a, T* b, T* c, int n) {
    gemm_of_class<T><<<dim3(blocks_of(n, TILE), blocks_of(n, TILE)), dim3(TILE, TILE)>>>(a, b, c, n);
}
template struct Product<double>;

__global__ void twice(const float* in, float* out, int n) {
    __shared__ float held[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) held[threadIdx.x] = in[i];
    held[threadIdx.x] *= 2;  // past n, of what nothing has written
    if (i < n) out[i] = held[threadIdx.x];
}

__global__ void gemv_by_fours(const float* a, const float* x, float* y, int m, int k) {
    int i = 0, row = blockIdx.x * 64 + threadIdx.x;
    float sum = 0;
    if (row >= m) return;
    for (; i + 128 <= k; i += 4) {
        float4 v = *(const float4*)(a + row * k + i);
        sum += v.x * x[i] + v.y * x[i + 1] + v.z * x[i + 2] + v.w * x[i + 3];
    }
    for (; i < k; ++i) sum += a[row * k + i] * x[i];
    y[row] = sum;
}

__global__ void gemm_padded(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0;
    for (int j = 0; j < k; ++j) sum += a[i / n * k + j] * b[j * n + i % n];
    c[i] = sum;
}

void faulty(float* x, float* y, float* out, int* bins, int M, int N, int K, int n) {
    dim3 block(TILE, TILE), grid(blocks_of(n, TILE), blocks_of(n, TILE));
    gemm_past<<<dim3(blocks_of(N, TILE), blocks_of(M, TILE)), block>>>(x, y, out, M, N, K);
    gemm_racing<<<grid, block>>>(x, y, out, n);
    gemm_added<<<grid, block>>>(x, y, out, n);
    vec_add_turns<<<4100, 256>>>(x, y, out, n);
    softmax_alone<<<1, 64>>>(x, out, n);
    count_bins<<<1, 256>>>(bins, bins);
    twice<<<(n + 63) / 64, 64>>>(x, out, n);
    gemv_by_fours<<<(M + 63) / 64, 64>>>(x, y, out, M, K);
    int m = (M + 7) / 8 * 8, k = (K + 7) / 8 * 8, tiled = (N + 7) / 8 * 8;
    gemm_padded<<<(m * tiled + 255) / 256, 256>>>(x, y, out, m, tiled, k);
}

REGISTERED(launched)

// gemm_turned: 1, the launch in line 85 has x and y the other way round
// gemm_stride: 1, it takes m, n, k, but is right only where n == k
// add_quads: 1, at n = 7, the size of the launch in line 99: invalid access
// transpose_named: 0, is right at
// transpose_constant: 0, where m == 5 and n == 3
// mix_neighbours: 1, race: thread (0, 0, 0)
// softmax_rows: 0, is right at
// gemm_commas: 3, wrong:
// reduce_halves: 1, no __syncwarp or barrier orders them
// gemm_rounded: 1, rounds m up to whole blocks, the outcome is invalid access at m = 17
// vec_add_down: 1, it has a bounds test of n, the outcome is wrong at
// scatter: 3, race:
// matrix_vector: 0, , where m == k
// halve_in_place: 1, race: thread (32, 0, 0)
// attend: 3, compared with nothing; no race or uninitialised read was found
// pixels: 3, compared with nothing; no race or uninitialised read was found
// prefix_sum: 0, is right: equal to an inclusive scan at
// softmax_fixed: 0, where rows == 5
// softmax_online: 0, but wrong with NaN and infinity
// gemm_past: 1, of shared memory, which has 1088 bytes
// gemm_racing: 1, race: thread
// gemm_added: 0, a kernel that adds to C
// vec_add_turns: 1, where a thread repeats the loop over the grid
// softmax_alone: 0, where rows == 1
// any_above: 3, no race or uninitialised read was found
// any_below: 1, race: thread
// padded: 1, of shared memory, which has 256 bytes
// weighted: 3, of shared memory, which has 256 bytes
// count_bins: 1, uninitialised read:
// gemm_of_class: 0, is right at
// twice: 0, but no output depends on it
// gemv_by_fours: 0, : right where k % 4 == 0
// gemm_padded: 1, at m = 136, n = 72, k = 56: invalid access
