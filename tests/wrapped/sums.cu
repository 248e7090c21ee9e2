const float EACH = SOME_NUMBERf;
__global__ void add(float* c, const float* a, const float* b, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void scale(float* b, const float* a, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) b[i] = EACH * a[i];
}
void run(float* a, float* b, float* c, int n) {
    add<<<(n + 63) / 64, 64>>>(c, a, b, n);
    scale<<<(n + 63) / 64, 64>>>(b, a, n);
}
