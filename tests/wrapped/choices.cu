// What an author leaves open: switches, windows, tiles as arguments, launches of which little is known.
// chosen: 0, where plus is 1: equal to the sum of each two elements; where plus is 0: equal to
// twice_or_once: 1, is not right where twice is 0: it differs from the file's own twice_or_once_cpu
// windows: 0, equal to the file's own windows_cpu
// sums_by_tiles: 0, equal to the sum of each row of k ... k % tile == 0
// scale_rows: 0, equal to ... from 128x256
// reverse: 1, of shared memory, which has 0 bytes
// transpose_in_tiles: 1, race: ... , where it has no race,
// gemv_of_row: 0, is right at
// gemm_flat: 0, where m * n % 256 == 0
#define SIDE 16
__global__ void chosen(const float* x, const float* w, float* y, int n, bool plus) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    if (plus) y[i] = x[i] + w[i];
    else y[i] = x[i] * w[i];
}
void twice_or_once_cpu(const float* x, float* y, int n, int twice) { for (int i = 0; i < n; i++) y[i] = (twice ? 2 : 1) * x[i] + i % 7; }
__global__ void twice_or_once(const float* x, float* y, int n, int twice) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = twice ? 2 * x[i] + i % 7 : x[i];
}
void windows_cpu(const float* x, const float* k, float* y, int n, int K) {
    for (int i = 0; i < n - K + 1; i++) {
        y[i] = 0;
        for (int j = 0; j < K; j++) y[i] += x[i + j] * k[j];
    }
}
__global__ void windows(const float* x, const float* k, float* y, int n, int K) {
    int i = blockIdx.x * 128 + threadIdx.x;
    float sum = 0;
    if (i >= n - K + 1) return;
    for (int j = 0; j < K; j++) sum += x[i + j] * k[j];
    y[i] = sum;
}
__global__ void sums_by_tiles(const float* x, float* y, int k, int tile) {
    extern __shared__ float part[];
    float sum = 0;
    for (int j = 0; j < k; j += tile) sum += x[blockIdx.x * k + j + threadIdx.x];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < tile; i++) sum += part[i];
    y[blockIdx.x] = sum;
}
__global__ void scale_rows(const float* x, float* y, int width) {
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = 2 * x[blockIdx.x * width + i];
}
__global__ void reverse(const float* x, float* y) {
    extern __shared__ float held[];
    held[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}
__global__ void transpose_in_tiles(const float* in, float* out, int m, int n) {
    __shared__ float tile[SIDE][SIDE];
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = x < n && y < m ? in[y * n + x] : 0;
    __syncthreads();
    if (y * n + x < m * n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}
__global__ void gemv_of_row(const float* a, const float* b, float* c, int K, int N) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (j >= N) return;
    for (int i = 0; i < K; i++) sum += a[i] * b[i * N + j];
    c[j] = sum;
}
__global__ void gemm_flat(float* A, float* B, float* C, int m, int n, int k) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    float sum = 0;
    for (int j = 0; j < k; j++)
        if (i / n < m) sum += A[i / n * k + j] * B[i % n + n * j];
    C[i] = sum;
}
void run(float* x, float* w, float* y, int m, int n, int k, int tile, bool plus, int twice, Tensor t) {
    assert(!(k % tile));
    auto sizes = t.sizes();
    cudaDeviceProp prop;
    chosen<<<(n + 127) / 128, 128>>>(x, w, y, n, plus);
    twice_or_once<<<(n + 127) / 128, 128>>>(x, y, n, twice);
    windows<<<(n - k + 1 + 127) / 128, 128>>>(x, w, y, n, k);
    sums_by_tiles<<<m, tile, tile * sizeof(float)>>>(x, y, k, tile);
    scale_rows<<<sizes[0], 128>>>(x, y, n);
    reverse<<<1, prop.maxThreadsDim[0]>>>(x, y);
    transpose_in_tiles<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(SIDE, SIDE)>>>(x, y, m, n);
    gemv_of_row<<<(n + 127) / 128, 128>>>(x, w, y, k, n);
}
