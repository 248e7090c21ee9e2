#include "halves.h"
__global__ void halve(Rows in, float** out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in.n) out[i % 2][i / 2] = in.x[i] * 2.5f;
}
void run_halve(Rows in, float** out) { halve<<<BLOCKS>>>(in, out); }
