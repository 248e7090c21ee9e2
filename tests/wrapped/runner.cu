#include "kernels/tiled.cuh"
const int PART = 4;
int bytes() { int most = std::max(PART * sizeof(float), 1024ul); return 2 * most; }
void run(int rows, int N, int K, float *A, float *B, float *C) {
  const uint TILE = 64;
  constexpr int STEP{8};
  dim3 const block(TILE * TILE / (PART), 1),
      grid{CEIL_DIV(N, TILE), (static_cast<unsigned>(rows) + TILE - 1) / TILE};
  const size_t shared = bytes();
  tiledProduct<TILE, TILE, STEP><<<grid, block, shared, 0>>>(rows, N, K, 1.f, A, K, B, N, 0.f, C, N);
}
