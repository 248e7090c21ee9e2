// Constants, and numbers that only the host's code gives. The end has an exit code and a part of each sentence.
#define EPSILON 1e-5
#define BINS 7
#define WIDTH (26 + BINS - 1) / BINS
constexpr float C0 = 0.5f, C1 = 0.25f;

// The only size is the width of the block, too.
__global__ void layer_norm_of_one(const float* x, float* y, const float* gamma, const float* beta, int D) {
    int at = threadIdx.x;
    if (at >= D) return;
    float mean = 0, variance = 0;
    for (int i = 0; i < D; ++i) mean += x[i] / D;
    for (int i = 0; i < D; ++i) variance += (x[i] - mean) * (x[i] - mean) / D;
    y[at] = gamma[at] * (x[at] - mean) / sqrtf(variance + EPSILON) + beta[at];
}

// All three sides are one size.
__global__ void stencil_of_cube(const float* in, float* out, unsigned n) {
    unsigned i = blockIdx.z * 8 + threadIdx.z, j = blockIdx.y * 8 + threadIdx.y, k = blockIdx.x * 8 + threadIdx.x;
    if (i < 1 || j < 1 || k < 1 || i + 1 >= n || j + 1 >= n || k + 1 >= n) return;
    const float* at = in + (i * n + j) * n + k;
    out[(i * n + j) * n + k] = C0 * *at + C1 * (at[-1] + at[1] + *(at - n) + at[n] + *(at - n * n) + at[n * n]);
}

// The macro has no brackets: all are in the first bin. The host allocates four times as much as the kernel reads.
__global__ void histogram_of_letters(const char* text, int n, unsigned* bins) {
    __shared__ unsigned of_block[BINS];
    if (threadIdx.x < BINS) of_block[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&of_block[(text[i] - 'a') / WIDTH], 1);
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(&bins[threadIdx.x], of_block[threadIdx.x]);
}

// The host fills a number in constant memory.
__constant__ float factor;
__global__ void transform_by_constant(const float* x, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}

// The scale is one that the host computes from data.
__global__ void quantize_times(const float* x, signed char* y, float scale, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaxf(-127.0f, fminf(roundf(x[i] * scale), 127.0f));
}

__global__ void quantize_by(const float* x, signed char* y, float scale, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaxf(-128.0f, fminf(roundf(x[i] / scale), 127.0f));
}

// Without bounds, what exceeds 8 bits is neither of the formulas.
__global__ void quantize_unbound(const float* x, signed char* y, float scale, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = (int)roundf(x[i] * scale);
}

// The branch says how many elements a block takes, and the host how many sums there are.
template <typename T> __global__ void add_sums(T* y, const T* sums, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n) y[i] += sums[blockIdx.x - 1];
}

template <typename T> __global__ void add_sums_to_two(T* y, const T* sums, unsigned n) {
    for (unsigned i = 2 * blockIdx.x * blockDim.x + threadIdx.x, turn = 0; turn < 2; ++turn, i += blockDim.x)
        if (blockIdx.x > 0 && i < n) y[i] += sums[blockIdx.x - 1];
}

void norm(float* x, float* y, float* gamma, float* beta, int D) { layer_norm_of_one<<<1, D>>>(x, y, gamma, beta, D); }
template <typename T> void add(T* y, unsigned n, unsigned type) {
    const unsigned threads = 256, each = threads * ((type == 1) ? 1 : 2), blocks = (n + each - 1) / each;
    T* sums;
    cudaMalloc((void**)&sums, blocks * sizeof(T));
    if (type == 1) { add_sums<T><<<blocks, threads>>>(y, sums, n); }
    else { add_sums_to_two<T><<<blocks, threads>>>(y, sums, n); }
}
int main() {
    float x[5], y[5], gamma[5], beta[5];
    norm(x, y, gamma, beta, 5);
}
void run(float* x, float* y, signed char* c, float most, int n) {
    dim3 grid((n + 7) / 8, (n + 7) / 8, (n + 7) / 8);
    stencil_of_cube<<<grid, dim3(8, 8, 8)>>>(x, y, n);
    const float three = 3;
    cudaMemcpyToSymbol(factor, &three, sizeof(float));
    transform_by_constant<<<(n + 255) / 256, 256>>>(x, y, n);
    quantize_times<<<(n + 255) / 256, 256>>>(x, c, 127 / most, n);
    quantize_by<<<(n + 255) / 256, 256>>>(x, c, most / 127, n);
    quantize_unbound<<<(n + 255) / 256, 256>>>(x, c, 127 / most, n);
}
void count(int N) {
    char* text;
    unsigned* bins;
    cudaMallocManaged(&text, N * sizeof(int));
    cudaMallocManaged(&bins, BINS * sizeof(unsigned));
    for (int i = 0; i < BINS; ++i) bins[i] = 0;
    histogram_of_letters<<<(N + 255) / 256 / 16, 256>>>(text, N, bins);
}

// layer_norm_of_one: 0, equal to layer norm of each row of d, scaled and shifted
// stencil_of_cube: 0, equal to 0.5 times each element plus 0.25 times the sum of its six neighbours in planes of n x n, inside an edge of 1
// histogram_of_letters: 0, equal to a histogram of values divided by 224
// transform_by_constant: 0, equal to each element times a number
// quantize_times: 0, equal to each element times a number, rounded, between -127 and 127
// quantize_by: 0, equal to each element divided by a number, rounded, up to 127
// quantize_unbound: 3, what it computes is unknown
// add_sums: 0, equal to each later chunk of a block's elements plus the number before
// add_sums_to_two: 0, equal to each later chunk of a block's elements plus the number before
