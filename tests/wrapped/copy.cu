__global__ void copyVector4(float* d_out, const float* d_in, size_t n) {
  size_t idx = blockIdx.x * blockDim.x + threadIdx.x;
  for (size_t i = idx; i < n / 4; i += blockDim.x * gridDim.x)
    reinterpret_cast<float4*>(d_out)[i] = reinterpret_cast<const float4*>(d_in)[i];
}
