#pragma once
#include <cublas_v2.h>
#include "helper.h"
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

template <const int BM, const int BN, const uint BK, bool FAST = true>
__global__ void __launch_bounds__(BM * BN / 4) tiledProduct(int M, int N, int K, float alpha,
    const float *A, int lda, const float *B, int ldb, float beta, float *__restrict__ C, int ldc) {}
