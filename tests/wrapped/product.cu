#include <cstdio>
__global__ void product(float *C, const float *A, const float *B, int size) {
  uint x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  if (x >= size || y >= size) return;
  float sum = 0;
  for (int i = 0; i < size; ++i) sum += A[y * size + i] * B[i * size + x];
  C[y * size + x] = sum;
}
int main() {
  const int n = 1 << 10;
  product<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(nullptr, nullptr, nullptr, n);
  printf("%d\n", n);
}
