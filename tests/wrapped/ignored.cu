#define COUNT 96
#define RUN(kernel, blocks, threads) kernel<<<(blocks), (threads)>>>(a, b, c, COUNT)
__global__ void vector_add(float* a, float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < COUNT) c[i] = a[i] + b[i];
}
void run(float* a, float* b, float* c, dim3 grid, int threads) { RUN(vector_add, grid, threads); }
int main() { run(0, 0, 0, dim3(COUNT / 32), 32); }
