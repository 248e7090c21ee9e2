__global__ void softmax(const float* in, float* out, int rows, int cols) {
  __shared__ float part[256];
  const float* x = in + blockIdx.x * cols; float* y = out + blockIdx.x * cols;
  float m = -1e30f; for (int j = threadIdx.x; j < cols; j += blockDim.x) m = fmaxf(m, x[j]);
  part[threadIdx.x] = m; __syncthreads();
  for (int s = blockDim.x / 2; s; s /= 2) { if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]); __syncthreads(); }
  m = part[0]; __syncthreads();
  float t = 0; for (int j = threadIdx.x; j < cols; j += blockDim.x) t += expf(x[j] - m);
  part[threadIdx.x] = t; __syncthreads();
  for (int s = blockDim.x / 2; s; s /= 2) { if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s]; __syncthreads(); }
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[j] = expf(x[j] - m) / part[0];
}
