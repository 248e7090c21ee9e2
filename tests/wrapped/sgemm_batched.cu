#define TILE 16
__global__ void sgemm_strided_batched(int M, int N, int K, float alpha, const float* A, int lda, long long strideA,
   const float* B, int ldb, long long strideB, float beta, float* C, int ldc, long long strideC)
{
  A += blockIdx.z * strideA; B += blockIdx.z * strideB; C += blockIdx.z * strideC;
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int k = 0; k < K; ++k) acc += A[row * lda + k] * B[k * ldb + col];
  C[row * ldc + col] = alpha * acc + beta * C[row * ldc + col];
}
int main() {
  int M = 512, N = 512, K = 512, batchCount = 8; float *A, *B, *C;
  dim3 block(TILE, TILE), grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE, batchCount);
  sgemm_strided_batched<<<grid, block>>>(M, N, K, 1.f, A, K, (long long)M * K, B, N, (long long)K * N, 0.f, C, N, (long long)M * N);
}
