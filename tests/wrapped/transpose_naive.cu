__global__ void transposeNaive(float *odata, float *idata, int width, int height)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) odata[x * height + y] = idata[y * width + x];
}
