// What the host allocates, and the sizes that it passes. Lines have an exit code and a part of each sentence.
// edge_free: 1, which has 4000 bytes (1000 elements)
// two: 1, the host allocates no more
// halves: 3, of shared memory, which has 128 bytes
// heads_of_4: 0, a copy at ... inputs, but invalid access at n = 16, d = 33
__global__ void edge_free(float* x, float* y) { y[blockIdx.x * 64 + threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x]; }
__global__ void two(const float* x, float* y, int rows, int width, int height, int many) {
    for (int c = 0, r = 64 * blockIdx.x + threadIdx.x; c < many; ++c) y[r * many + c] = height + x[r * width + c];
}
__global__ void halves(float* x, int n) { __shared__ float s[32]; s[threadIdx.x] = x[n - 1]; x[n - 1] = s[0]; }
__global__ void heads_of_4(const float* x, float* y, int n, int d) {
    int r = blockIdx.x * 32 + threadIdx.x, p = (blockIdx.y * n + r) * d;
    for (int j = 0; r < n && j < d; j += 4) *(float4*)(y + p + j) = *(float4*)(x + p + j);
}
void run(float* x, float* y, int width, int at) {
    cudaMalloc(&x, 1000 * sizeof(float)), cudaMalloc(&y, 500 * sizeof(double)), edge_free<<<16, width>>>(x, y);
}
void runs(float* x) { for (int width : {64, 128}) run(x, x, width, 1); }
void launch(float* x, float* y, int rows, int width, int height) { if (rows != height) return;
    two<<<(rows + 63) / 64, 64>>>(x, y, rows, width, height, width), halves<<<rows / 1024 / 8, 64, 4096>>>(x, rows);
}
void prepare(float* x, float* y, int n, int d) { run(x, x, 1, 0);
    cudaMalloc(&x, n * d * sizeof(float)), cudaMalloc(&y, n * d * sizeof(float)), launch(x, y, n, d, n);
}
void f(float* x, float* y, int B, int H, int n, int d) { heads_of_4<<<dim3((n + 31) / 32, B * H), 32>>>(x, y, n, d); }
