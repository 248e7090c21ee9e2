__global__ void sgemm(const float* A, const float* B, float* C, int N, int M, int K) {
  int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row >= N || col >= M) return;
  float sum = 0; for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * LD + col];
  C[row * M + col] = sum;
}
void run(float* A, float* B, float* C, int N, int M, int K) {
  sgemm<<<dim3((M + 15) / 16, (N + 15) / 16), dim3(16, 16)>>>(A, B, C, N, M, K);
}
