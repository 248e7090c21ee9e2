// What a name, a launch or a bounds test says, and what the kernel does. The end has an exit code and a part of each sentence.
#include <cmath>
using std::abs;
using std::ceil;

template <class T> constexpr int STRIP() noexcept { return 4; }

// Each thread has STRIP columns; the launch divides real numbers.
__global__ void gemm_strips(const float* A, const float* B, float* C, u_int32_t rowsA, u_int32_t colsB, u_int32_t colsA) {
    u_int32_t row = blockIdx.y * blockDim.y + threadIdx.y;
    for (int t = 0; t < STRIP<float>(); ++t) {
        u_int32_t col = (STRIP<float>() * blockIdx.x + t) * blockDim.x + threadIdx.x;
        float sum = 0;
        if (row >= rowsA || col >= colsB) continue;
        for (u_int32_t i = 0; i < colsA; ++i) sum += A[row * colsA + i] * B[i * colsB + col];
        C[row * colsB + col] = sum < 0 ? -abs(sum) : sum;
    }
}

void launch(const float* a, const float* b, float* c, int rows, int cols, int depth) {
    const dim3 block(8, 8), grid(static_cast<int>(std::ceil(static_cast<float>(cols) / block.x / 4)), (rows + 7) / 8);
    gemm_strips<<<grid, block>>>(a, b, c, rows, cols, depth);
}

// gemm_strips: 0, is right at
