// Kernels that no code launches: block and arrays follow from what they do.
// sums_of_blocks: 0, equal to the sums of blocks ... with a guessed grid, where n % 128 == 0
// transpose_by_rows: 0, is right at
// transpose_of_views: 0, is right at
// extremes: 1, is not right at numel = 1200: race: thread (0, 0, 0) ... of shared memory
// lowest: 3, its results lie in variables of the device
// peaks: 0, equal to the maxima of blocks
// reach: 3, differs from the absolute value of each element ... with large numbers: wrong
// exclusive_scan: 0, is right with --block 'n // 2' --grid 1 (Tilewave's choice): equal to an exclusive scan
// convolve: 0, is right with --block 16,16 (Tilewave's choice): equal to the convolution
// sum_early: 1, is not right with any block that was tried: race ... of shared memory
#include <string>
#include <vector>
#define PART 128
#define TILE_DIM 16
#define INNER 14
#define BLOCK_ROWS 4
const std::vector<std::string> DEVICE_NAMES = {"cpu", "gpu"};

struct View {
    unsigned width, height;
    float* data;
};

__device__ unsigned least_of_all;

__global__ void sums_of_blocks(float* result, float* powers)
{
    __shared__ float part[PART];
    const unsigned t = threadIdx.x;
    part[t] = powers[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (unsigned s = 1; s < blockDim.x; s *= 2) {
        if (t % (2 * s) == 0) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) result[blockIdx.x] = part[0];
}

__global__ void transpose_by_rows(const float* in, float* out, int n, int m)
{
    __shared__ float tile[TILE_DIM][TILE_DIM + 1];
    int x = blockIdx.x * TILE_DIM + threadIdx.x, y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
        if (x < n && y + i < m) tile[threadIdx.y + i][threadIdx.x] = in[n * (y + i) + x];
    __syncthreads();
    x = blockIdx.y * TILE_DIM + threadIdx.x;
    y = blockIdx.x * TILE_DIM + threadIdx.y;
    for (int i = 0; i < TILE_DIM; i += BLOCK_ROWS)
        if (x < m && y + i < n) out[m * (y + i) + x] = tile[threadIdx.x][threadIdx.y + i];
}

__global__ void transpose_of_views(const View d_a, View d_b)
{
    const unsigned column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < d_b.width && row < d_b.height) d_b.data[row * d_b.width + column] = d_a.data[column * d_a.width + row];
}

__global__ void extremes(const unsigned char* data, int numEl)
{
    __shared__ unsigned char part[PART];
    const int i = blockDim.x * blockIdx.x + threadIdx.x, at = threadIdx.x;
    part[at] = i < numEl ? data[i] : 255;
    for (int stride = PART / 2; stride > 0; stride /= 2) {
        if (at < stride) part[at] = min(part[at], part[at + stride]);
        __syncthreads();
    }
    if (at == 0) atomicMin(&least_of_all, part[0]);
}

__global__ void lowest(const unsigned* data, int n)
{
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) atomicMin(&least_of_all, data[i]);
}

__global__ void peaks(float* out, const float* in, bool is_max)
{
    __shared__ float part[PART];
    part[threadIdx.x] = in[blockIdx.x * PART + threadIdx.x];
    __syncthreads();
    for (int s = PART / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) {
            const float other = part[threadIdx.x + s];
            part[threadIdx.x] = is_max ? max(part[threadIdx.x], other) : min(part[threadIdx.x], other);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

__global__ void reach(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fminf(fabsf(x[i]), 1.5f);
}

__global__ void exclusive_scan(float* data, int n)
{
    extern __shared__ float sums[];
    const int t = threadIdx.x;
    sums[2 * t] = data[2 * t];
    sums[2 * t + 1] = data[2 * t + 1];
    int gap = 1;
    for (int d = n / 2; d > 0; d /= 2, gap *= 2) {
        __syncthreads();
        if (t < d) sums[gap * (2 * t + 2) - 1] += sums[gap * (2 * t + 1) - 1];
    }
    if (t == 0) sums[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        gap /= 2;
        __syncthreads();
        if (t < d) {
            const int left = gap * (2 * t + 1) - 1, right = gap * (2 * t + 2) - 1;
            const float kept = sums[left];
            sums[left] = sums[right];
            sums[right] += kept;
        }
    }
    __syncthreads();
    data[2 * t] = sums[2 * t];
    data[2 * t + 1] = sums[2 * t + 1];
}

__global__ void convolve(const float* in, const float* weights, float* out, int width, int height)
{
    __shared__ float tile[TILE_DIM][TILE_DIM];
    const int x = blockIdx.x * INNER + threadIdx.x - 1, y = blockIdx.y * INNER + threadIdx.y - 1;
    const int i = threadIdx.y, j = threadIdx.x;
    tile[i][j] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : 0;
    __syncthreads();
    if (i == 0 || i == TILE_DIM - 1 || j == 0 || j == TILE_DIM - 1 || x >= width || y >= height) return;
    float sum = 0;
    for (int u = 0; u < 3; u++)
        for (int v = 0; v < 3; v++) sum += weights[u * 3 + v] * tile[i + u - 1][j + v - 1];
    out[y * width + x] = sum;
}

__global__ void sum_early(const float* x, float* out, int n)
{
    __shared__ float total;
    const float value = threadIdx.x < n ? x[threadIdx.x] : 0;
    if (threadIdx.x == blockDim.x - 1) total = 0;
    atomicAdd(&total, value);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}
