// blur: 0, equal to the file's own blur_cpu
// rings: 0, equal to the file's own rings_of_host
// spread: 1, the host allocates no more
// weigh: 1, of shared memory, which has 0 bytes
#include <vector>
#define RADIUS 2
#define SIDE (2 * RADIUS + 1)
__constant__ float taps[SIDE][SIDE], ring[3];
__global__ void blur(const float* x, float* y, int w, int h) {
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (c >= w || r >= h) return;
  float sum = 0;
  for (int i = 0; i < SIDE; ++i)
    for (int j = 0; j < SIDE; ++j) {
      int p = r + i - RADIUS, q = c + j - RADIUS;
      if (p >= 0 && p < h && q >= 0 && q < w) sum += taps[i][j] * x[p * w + q];
    }
  y[r * w + c] = sum;
}
void blur_cpu(const float* x, const float* filter, float* y, int w, int h) {
  for (int k = 0; k < w * h; ++k) {
    y[k] = 0;
    for (int i = 0; i < SIDE * SIDE; ++i) {
      int p = k / w + i / SIDE - RADIUS, q = k % w + i % SIDE - RADIUS;
      if (p >= 0 && p < h && q >= 0 && q < w) y[k] += filter[i] * x[p * w + q];
    }
  }
}
__global__ void rings(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i > 0 && i < n - 1) y[i] = ring[0] * x[i - 1] + ring[1] * x[i] + ring[2] * x[i + 1];
}
void rings_of_host(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i)
    y[i] = i > 0 && i < n - 1 ? ring[0] * x[i - 1] + ring[1] * x[i] + ring[2] * x[i + 1] : 0;
}
__global__ void spread(float* y, const float* x, int columns, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  for (int c = 0; c < columns; ++c) y[r * columns + c] = 2 * x[r * columns + c];
}
__global__ void weigh(float* a, float* x, float* y, int n) {
  extern __shared__ float row[];
  row[threadIdx.x] = a[blockIdx.x * n + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) for (int i = y[blockIdx.x] = 0; i < n; ++i) y[blockIdx.x] += row[i] * x[i];
}
void run(const float* filter, float* x, int w, int h, int size) {
  const float weights[3] = {0.25f, 0.5f, 0.25f};
  float *a, *b;
  cudaMemcpyToSymbol(taps, filter, sizeof(taps));
  cudaMemcpyToSymbol(ring, weights, sizeof(weights));
  cudaMalloc((void**)&a, w * h * sizeof(float));
  cudaMalloc(&b, w * h * sizeof(float));
  blur<<<dim3((w + 15) / 16, (h + 15) / 16), dim3(16, 16)>>>(a, b, w, h);
  cudaMemset(b, 0, w * h * sizeof(float));
  rings<<<(size + 63) / 64, 64>>>(a, b, size);
  spread<<<(h + 127) / 128, 128>>>(a, b,\
                                   w, h);
  const int blocks[] = {64, 128};
  for (int i = 0; i < 2; ++i) weigh<<<size, blocks[i]>>>(x, a, b, size);
}
