__global__ void softmax_forward_kernel1(float* out, const float* inp, int N, int C) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    const float* inp_row = inp + i * C;
    float* out_row = out + i * C;
    float maxval = -INFINITY;
    for (int j = 0; j < C; j++) if (inp_row[j] > maxval) maxval = inp_row[j];
    double sum = 0.0;
    for (int j = 0; j < C; j++) { out_row[j] = expf(inp_row[j] - maxval); sum += out_row[j]; }
    for (int j = 0; j < C; j++) out_row[j] /= (float)sum;
  }
}
void softmax_forward1(float* out, const float* inp, int N, int C, const int block_size) {
  const int grid_size = (N + 128 - 1) / 128;
  softmax_forward_kernel1<<<grid_size, 128>>>(out, inp, N, C);
}
