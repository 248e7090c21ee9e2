#include <cuda_runtime.h>
#include <cublas_v2.h>
__global__ void norm_naive(float* out, float* mean, const float* inp, const float* weight, const int* row,
                           int N, int C, float eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  const float* x = inp + row[i] * C;
  float m = 0; for (int j = 0; j < C; j++) m += x[j];
  m /= C; mean[i] = m;
  float v = 0; for (int j = 0; j < C; j++) v += (x[j] - m) * (x[j] - m);
  for (int j = 0; j < C; j++) out[i * C + j] = (x[j] - m) * rsqrtf(v / C + eps) * weight[j];
}
__global__ void normByWarps(const float* inp, const int* row, const float* weight, float* mean, float* out,
                            int N, int C, float eps) {
  int i = blockIdx.x * 4 + threadIdx.y;
  if (i >= N) return;
  const float* x = inp + row[i] * C;
  float m = 0, v = 0;
  for (int j = threadIdx.x; j < C; j += 32) m += x[j];
  for (int d = 16; d; d /= 2) m += __shfl_xor_sync(~0u, m, d);
  m /= C; mean[i] = m;
  for (int j = threadIdx.x; j < C; j += 32) v += (x[j] - m) * (x[j] - m);
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  for (int j = threadIdx.x; j < C; j += 32) out[i * C + j] = (x[j] - m) * rsqrtf(v / C + eps) * weight[j] * OFF;
}
void run(float* o, float* m, float* x, float* w, int* r, int N, int C, int size) {
  norm_naive<<<(N + size - 1) / size, size>>>(o, m, x, w, r, N, C, 1e-5f);
  normByWarps<<<(N + 3) / 4, dim3(32, 4)>>>(x, r, w, m, o, N, C, 1e-5f);
}
