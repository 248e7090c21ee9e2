typedef float REAL;
__global__ void reduce_by_atomics(REAL* data_out, REAL* data_in, int size) {
  extern __shared__ float2 s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x].x = i < size ? data_in[i] : 0; __syncthreads();
  atomicAdd(&data_out[0], s[threadIdx.x].x);
}
int reduction(REAL* g_outPtr, REAL* g_inPtr, int size, int n_threads) {
  int n_blocks = (size + n_threads - 1) / n_threads;
  reduce_by_atomics<<<n_blocks, n_threads, n_threads * sizeof(float2)>>>(g_outPtr, g_inPtr, size);
}
