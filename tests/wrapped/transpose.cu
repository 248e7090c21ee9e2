#include <stdio.h>
#include <assert.h>
inline cudaError_t checkCuda(cudaError_t result) { return result; }
const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;
__global__ void transposeNoBankConflicts(float *odata, const float *idata)
{
  __shared__ float tile[TILE_DIM][TILE_DIM+1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  int width = gridDim.x * TILE_DIM;
  int height = gridDim.y * TILE_DIM;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
     tile[threadIdx.y+j][threadIdx.x] = idata[(y+j)*width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
     odata[(y+j)*height + x] = tile[threadIdx.x][threadIdx.y + j];
}
int main(int argc, char **argv)
{
  const int nx = 1024;
  const int ny = 1024;
  dim3 dimGrid(nx/TILE_DIM, ny/TILE_DIM, 1);
  dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
  float *d_idata, *d_cdata;
  transposeNoBankConflicts<<<dimGrid, dimBlock>>>(d_cdata, d_idata);
}
