// Types and constants in code that does not count. The end has an exit code and a part of each sentence.
#define EDGE 16  // #define EDGE 12
#define DOUBLES 0
// typedef double real;
/* typedef double real; */
#if 0
typedef double real;
#elif DOUBLES
using real = double;
#define element double
#elif !defined(NEVER) && DOUBLES == 0
typedef float real;
#define element float
#else
typedef half real;
#endif
#ifdef NEVER
const int TILE = 12;
#else
const int TILE = 16;
#endif
#ifndef GUARD
#define GUARD
typedef real number;
#endif

__global__ void gemm_of_reals(const real* A, const number* B, element* C, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * EDGE + threadIdx.x;
    if (row >= M || column >= N) return;
    real sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + column];
    C[row * N + column] = sum;
}

void launch(const real* A, const real* B, real* C, int M, int N, int K) {
    gemm_of_reals<<<dim3((N + EDGE - 1) / EDGE, (M + TILE - 1) / TILE), dim3(EDGE, TILE)>>>(A, B, C, M, N, K);
}

// gemm_of_reals: 0, is right at
