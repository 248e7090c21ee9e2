__constant__ float decay[2];
__global__ void update(float* p, const float* g, unsigned* steps, int n, float rate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { p[i] -= rate * g[i] + decay[0]; if (i == 0) atomicAdd(&steps[0], 1u); }
}
