// What holds by luck only. Products of 8-bit numbers that become 8-bit numbers again: the numbers that scale them must leave most inside of 8 bits.
#include <cstdint>
__global__ void gemm_s8(const int8_t* x, const int8_t* w, int8_t* y, int rows, int cols, int depth, float factor) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= rows || col >= cols) return;
    int sum = 0;
    for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[col * depth + k];
    y[row * cols + col] = (int8_t) max(-128, min(127, __float2int_rn(sum * factor)));
}
__global__ void gemm_s8_wrapping(const int8_t* x, const int8_t* w, int8_t* y, int rows, int cols, int depth,
                                 float scale_x, float scale_y) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= rows || col >= cols) return;
    int sum = 0;
    for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * cols + col];
    y[row * cols + col] = (int8_t) (int) (sum * scale_x / scale_y);  // not between two bounds
}
__global__ void quantized_matmul(const int8_t* A, const int8_t* B, int8_t* C, int M, int N, int K, float scale_A,
                                 float scale_C, int zero_A, int zero_B, int zero_C) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    int sum = 0;
    for (int k = 0; k < K; ++k) sum += (A[row * K + k] - zero_A) * (B[k * N + col] - zero_B);
    C[row * N + col] = (int8_t) max(-128, min(127, (int) roundf(sum * (scale_A / scale_C)) + zero_C));
}
// A lane may store before another has loaded what was there: 16 to 31 do.
__global__ void warp_sums(const float* x, float* sums, int n) {
    __shared__ float part[64];
    int lane = threadIdx.x, i = blockIdx.x * 32 + lane;
    part[lane] = i < n ? x[i] : 0, part[lane + 32] = 0;
    __syncwarp();
    for (int s = 16; s > 0; s /= 2) {
        part[lane] += part[lane + s];
        __syncwarp();
    }
    if (lane == 0) sums[blockIdx.x] = part[0];
}
__global__ void warp_sums_in_order(const float* x, float* sums, int n) {
    __shared__ float part[64];
    int lane = threadIdx.x, i = blockIdx.x * 32 + lane;
    part[lane] = i < n ? x[i] : 0, part[lane + 32] = 0;
    __syncwarp();
    for (int s = 16; s > 0; s /= 2) {
        float both = part[lane] + part[lane + s];
        __syncwarp();
        part[lane] = both;
        __syncwarp();
    }
    if (lane == 0) sums[blockIdx.x] = part[0];
}
void reduce(const float* x, float* sums, int n) {
    warp_sums<<<(n + 31) / 32, 32>>>(x, sums, n);
    warp_sums_in_order<<<(n + 31) / 32, 32>>>(x, sums, n);
}
void run(const int8_t* x, const int8_t* w, int8_t* y, int m, int n, int k, float of, float to, int k_zero,
         int n_zero, int m_zero) {
    dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
    gemm_s8<<<grid, block>>>(x, w, y, m, n, k, of / to);
    gemm_s8_wrapping<<<grid, block>>>(x, w, y, m, n, k, of, to);
    quantized_matmul<<<grid, block>>>(x, w, y, m, n, k, of, to, k_zero, n_zero, m_zero);
}

// gemm_s8: 0, is right: equal to 0.000976562, a product of its numbers ... rounded to even, the second array transposed, up to 127
// gemm_s8_wrapping: 3, could not tell
// quantized_matmul: 0, a product of its numbers ... of matrices less zero_a and zero_b, rounded, plus zero_c
// warp_sums: 1, of the same warp read (LDS at line
// warp_sums_in_order: 0, is right
