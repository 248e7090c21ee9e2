// One size has two names in the launch; columns of b past n are read.
#define T 16
__global__ void batched_matmul(const float* A, const float* B, float* C, int batch, int hA, int wA, int hB, int wB) {
    __shared__ float sa[T][T], sb[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    A += (long)blockIdx.z * hA * wA; B += (long)blockIdx.z * hB * wB; C += (long)blockIdx.z * hA * wB;
    float sum = 0;
    for (int t = 0; t < (wA + T - 1) / T; ++t) {
        int ka = t * T + threadIdx.x, kb = t * T + threadIdx.y;
        sa[threadIdx.y][threadIdx.x] = row < hA && ka < wA ? A[row * wA + ka] : 0;
        sb[threadIdx.y][threadIdx.x] = threadIdx.x < wB && kb < hB ? B[kb * wB + col] : 0;
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    if (row < hA && col < wB) C[row * wB + col] = sum;
}
void run(const float* A, const float* B, float* C, int batch, int hA, int wA, int hB, int wB) {
    dim3 grid((wB + T - 1) / T, (hA + T - 1) / T, batch);
    batched_matmul<<<grid, dim3(T, T)>>>(A, B, C, batch, hA, wA, hB, wB);
}
