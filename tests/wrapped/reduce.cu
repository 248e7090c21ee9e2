#include <cuda_runtime.h>
#include <iostream>
#define THREADS 256
template <typename T>
__global__ void reduce(const T *__restrict__ g_idata, T *__restrict__ g_odata, unsigned int n)
{
  extern __shared__ float sdata[];
  unsigned int tid = threadIdx.x, i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  T sum = i < n ? g_idata[i] : 0;
  if (i + blockDim.x < n) sum += g_idata[i + blockDim.x];
  sdata[tid] = sum;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) atomicAdd(g_odata, sdata[0]);
}
void run(float* d_in, float* d_out, int size) {
  int blocks = (size + THREADS * 2 - 1) / (THREADS * 2);
  reduce<float><<<blocks, THREADS, THREADS * sizeof(float)>>>(d_in, d_out, size);
}
