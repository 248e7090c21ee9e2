// What the files of others have: overloads, the device's numbers, macros around macros, structs with types of other names,
// rows of zeros. Lines have an exit code and a part of each sentence.
// clamp_all(float *, const float *, int, float, float): 0, clamp_all(float *, const float *, int, float, float) is right: equal to each element between two numbers
// clamp_all(double *, const double *, int, double, double): 0, clamp_all(double *, const double *, int, double, double) is right: equal to each element between two numbers
// partial_sums: 0, equal to the sums of blocks that take their elements in turn ... with a guessed block, where per_unit is 2 and units is 4
// tripled: 0, equal to each element times a number ... where units_of_device is 4
// rms_rows: 0, equal to RMS norm of each row of 256 (no value for zeros) at
// rms_rows_of_half: 3, it differs from RMS norm of each row of 256 ... with zeros: wrong
// rms_rows_right: 0, equal to RMS norm of each row of 256 at
// row_sums: 0, equal to the sum of each row of d_cols
// quantize_rows: 0, equal to 127 divided by the largest absolute value of each row of ... and each row of ... within 1 (no value for zeros)
// column_sums: 0, equal to the sum of each column of 96 where sum begins with zeros at its one size
// offsets_of: 3, found with 64 threads; but each of its blocks does the same, and one was executed. Name
// scaled_by: 3, it does not use its parameter shift
// double_rows: 0, equal to each element times a number ... with a guessed block and grid
// halve_quarters: 0, equal to each element times a number ... right where n % 4 == 0
// negate_asserted: 0, but assertion failed at ... right where n % 8 == 0
// square_of_is: 0, equal to the square of each element
// copy_larger: 0, equal to a copy ... where most begins with -inf and twice is 1
// matmul_plain: 0, is right at
// matmul_turned: 1, is not right as matmul ... matmul_plain, which has the same parameters, is
#include <cuda_fp16.h>
__global__ void clamp_all(float* y, const float* x, int n, float low, float high) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fminf(fmaxf(x[i], low), high);
}
__global__ void clamp_all(double* y, const double* x, int n, double low, double high) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmin(fmax(x[i], low), high);
}
template <class T> void run_clamp_all(T* y, const T* x, int n) { clamp_all<<<(n + 127) / 128, 128>>>(y, x, n, -0.25, 0.5); }
template void run_clamp_all(float*, const float*, int);
template void run_clamp_all(double*, const double*, int);

__global__ void partial_sums(float* out, const float* in, unsigned n) {
    extern __shared__ float part[];
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned side = blockDim.x / 2; side > 0; side /= 2) {
        if (threadIdx.x < side) part[threadIdx.x] += part[threadIdx.x + side];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
void run_partial_sums(float* out, const float* in, int n, int threads) {
    int units, per_unit;
    cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_unit, partial_sums, threads, threads * sizeof(float));
    int blocks = min(per_unit * units, (n + threads - 1) / threads);
    partial_sums<<<blocks, threads, threads * sizeof(float)>>>(out, in, n);
}

int units_of_device = 0;
__global__ void tripled(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = 3 * x[i];
}
void find_device() {
    cudaDeviceProp device;
    cudaGetDeviceProperties(&device, 0);
    units_of_device = device.multiProcessorCount;
}
void run_tripled(const float* x, float* y, int n) { tripled<<<2 * units_of_device, 128>>>(x, y, n); }

template <int THREADS> __device__ float sum_of_block(float value) {
    __shared__ float part[THREADS];
    part[threadIdx.x] = value;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < THREADS; ++i) sum += part[i];
    return sum;
}
template <int THREADS> __global__ void rms_rows(const float* x, float* y, int rows, int k) {
    int at = (blockIdx.x * THREADS + threadIdx.x) * 4;
    float4 of = reinterpret_cast<const float4*>(&x[at])[0];
    float sum = sum_of_block<THREADS>(of.x * of.x + of.y * of.y + of.z * of.z + of.w * of.w);
    float scale = rsqrtf(sum / (k + 1e-5f));  // the bracket is wrong
    for (int i = 0; i < 4; ++i) y[at + i] = x[at + i] * scale;
}
template <int THREADS> __global__ void rms_rows_of_half(const __half* x, __half* y, int rows, int k) {
    int at = (blockIdx.x * THREADS + threadIdx.x) * 4;
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += __half2float(x[at + i]) * __half2float(x[at + i]);
    float scale = rsqrtf(sum_of_block<THREADS>(sum) / (k + 1e-5f));
    for (int i = 0; i < 4; ++i) y[at + i] = __float2half(__half2float(x[at + i]) * scale);
}
template <int THREADS> __global__ void rms_rows_right(const float* x, float* y, int rows, int k) {
    int at = (blockIdx.x * THREADS + threadIdx.x) * 4;
    float4 of = reinterpret_cast<const float4*>(&x[at])[0];
    float sum = sum_of_block<THREADS>(of.x * of.x + of.y * of.y + of.z * of.z + of.w * of.w);
    float scale = rsqrtf(sum / k + 1e-5f);
    for (int i = 0; i < 4; ++i) y[at + i] = x[at + i] * scale;
}
#define LAUNCH_WRONG(K) rms_rows<(K) / 4><<<grid, block>>>(x, y, rows, (K));
#define DISPATCH_WRONG(K)              \
    dim3 block((K) / 4), grid((rows)); \
    switch ((K)) {                     \
    case 256:                          \
        LAUNCH_WRONG(256) break;       \
    case 512:                          \
        LAUNCH_WRONG(512) break;       \
    }
#define LAUNCH_OF_HALF(K) rms_rows_of_half<(K) / 4><<<grid, block>>>(x, y, rows, (K));
#define DISPATCH_OF_HALF(K)            \
    dim3 block((K) / 4), grid((rows)); \
    switch ((K)) {                     \
    case 256:                          \
        LAUNCH_OF_HALF(256) break;     \
    case 512:                          \
        LAUNCH_OF_HALF(512) break;     \
    }
#define LAUNCH_RIGHT(K) rms_rows_right<(K) / 4><<<grid, block>>>(x, y, rows, (K));
#define DISPATCH_RIGHT(K)              \
    dim3 block((K) / 4), grid((rows)); \
    switch ((K)) {                     \
    case 256:                          \
        LAUNCH_RIGHT(256) break;       \
    case 512:                          \
        LAUNCH_RIGHT(512) break;       \
    }
void run_rms(const float* x, float* y, int rows, int K) { DISPATCH_WRONG(K) }
void run_rms_of_half(const __half* x, __half* y, int rows, int K) { DISPATCH_OF_HALF(K) }
void run_rms_right(const float* x, float* y, int rows, int K) { DISPATCH_RIGHT(K) }

typedef int count_t;
typedef struct Dim_ {
    count_t rows, cols;
} Dim;
__global__ void row_sums(const float* x, float* y, Dim d) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= d.rows) return;
    float sum = 0;
    for (int i = 0; i < d.cols; ++i) sum += x[row * d.cols + i];
    y[row] = sum;
}
void launch_row_sums(size_t blocks, size_t threads, const float* x, float* y, Dim d) { row_sums<<<blocks, threads>>>(x, y, d); }
void run_row_sums(const float* x, float* y, Dim of) {
    size_t blocks = (of.rows + 63) / 64;
    launch_row_sums(blocks, 64, x, y, of);
}

__global__ void quantize_rows(const float* x, float* scales, signed char* q, int n) {
    __shared__ float part[128];
    const float* row = x + blockIdx.x * n;
    float most = 0;
    for (int i = threadIdx.x; i < n; i += 128) most = fmaxf(most, fabsf(row[i]));
    part[threadIdx.x] = most;
    __syncthreads();
    for (int i = 0; i < 128; ++i) most = fmaxf(most, part[i]);
    for (int i = threadIdx.x; i < n; i += 128) q[blockIdx.x * n + i] = (signed char) (row[i] * (127 / most));
    if (threadIdx.x == 0) scales[blockIdx.x] = 127 / most;
}
void run_quantize_rows(const float* x, float* scales, signed char* q, int rows, int n) { quantize_rows<<<rows, 128>>>(x, scales, q, n); }

__global__ void column_sums(float* sum, const float* data) {
    for (int j = 0; j < 40; j++) sum[threadIdx.x] += data[96 * j + threadIdx.x];
}
void run_column_sums(const float* data) {
    float* sum;
    cudaMalloc(&sum, 96 * sizeof(float));
    cudaMemset(sum, 0, 96 * sizeof(float));
    column_sums<<<1, 96>>>(sum, data);
}

__global__ void offsets_of(const float* x, float* y) {
    float most = -3e38f;
    for (int i = 0; i < 3; ++i) most = max(most, x[(threadIdx.x >> 3) * 40 + (threadIdx.x & 7) * 2 + i] - 0.125f * i);
    y[threadIdx.x] = most;
}
void run_offsets_of(const float* x, float* y, int images, int sides) { offsets_of<<<(images * sides * sides + 63) / 64, 64>>>(x, y); }

__global__ void scaled_by(const float* x, float* y, int n, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (i % 3) * x[i] + x[i] * x[i] * x[i];
}
void run_scaled_by(const float* x, float* y, int n, int shift) { scaled_by<<<(n + 127) / 128, 128>>>(x, y, n, shift); }

// A block for each row, and nothing launches it.
__global__ void double_rows(float* y, const float* x, int width) {
    const int row = blockIdx.x;
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[row * width + i] = 2.0f * x[row * width + i];
}
#define FOUR(of) (reinterpret_cast<float4*>(&(of))[0])
// All that it takes of n is a quarter; a macro makes the store.
__global__ void halve_quarters(float* y, float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, quarters = n / 4;
    if (i >= quarters) return;
    float4 four = FOUR(x[4 * i]);
    four.x *= 0.5f, four.y *= 0.5f, four.z *= 0.5f, four.w *= 0.5f;
    FOUR(y[4 * i]) = four;
}
// Its assertion says what it takes.
__global__ void negate_asserted(float* y, const float* x, int n) {
    assert(n % 8 == 0);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = -x[i];
}
// A size with the name of a keyword of Python, and a grid that a function returns, whose locals have names of its own.
__global__ void square_of_is(float* y, const float* x, int is) {
    const int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x;
    if (i < is) y[i] = x[i] * x[i];
}
dim3 grid_of(int count) {
    int x = (count - 1) / 128 + 1, y = 1;
    if (x > 65535) x = ceil(sqrt(x)), y = (count - 1) / (x * 128) + 1;
    dim3 grid(x, y, 1);
    return grid;
}
// A tensor begins with -infinity; a switch that is no size.
__global__ void copy_larger(float* most, const float* x, int n, int twice) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) most[i] = fmaxf(most[i], twice ? x[i] : 0.0f);
}
// Two kernels that say what they compute, with the same parameters.
__global__ void matmul_plain(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}
__global__ void matmul_turned(const float* a, const float* b, float* c, int m, int n, int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[(i ^ 1) % k * n + (col ^ 1) % n];
    c[row * n + col] = sum;
}
void run_more(float* y, float* x, torch::Tensor of, const float* a, int m, int n, int k) {
    halve_quarters<<<(n + 127) / 128, 128>>>(y, x, n);
    negate_asserted<<<(n + 127) / 128, 128>>>(y, x, n);
    square_of_is<<<grid_of(n), 128>>>(y, x, n);
    auto most = torch::full({n}, -INFINITY);
    copy_larger<<<(n + 127) / 128, 128>>>(most.data_ptr<float>(), of.data_ptr<float>(), n, k > 2);
    dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
    matmul_plain<<<grid, block>>>(a, x, y, m, n, k);
    matmul_turned<<<grid, block>>>(a, x, y, m, n, k);
}
