#include "typed.h"

// DEPTH is a macro of the compiler's command line; that of the neighbour is another kernel's.
template <Narrow T>
__global__ void gemm_typed(const T* a, const T* b, T* c, int m, int n, int k) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    if (row >= m || column >= n) return;
    T sum = 0;
    for (int i = 0; i < k; i += DEPTH)
        for (int j = i; j < min(k, i + DEPTH); ++j) sum += a[row * k + j] * b[j * n + column];
    c[row * n + column] = sum;
}

void multiply(float* a, float* b, float* c, int m, int n, int k) {
    dim3 grid(n % TILE ? n / TILE + 1 : n / TILE, (m - 1) / TILE + 1);
    gemm_typed<<<grid, dim3(TILE, TILE)>>>(a, b, c, m, n, k);
}
