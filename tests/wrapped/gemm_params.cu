struct Params { const float *a, *b; float* c; int m, n, k; long long ldc; float alpha; };

__global__ void gemm_params(const Params p)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= p.n || y >= p.m) return;
    float sum = 0;
    for (int i = 0; i < p.k; ++i) sum += p.a[y * p.k + i] * p.b[i * p.n + x];
    p.c[y * p.ldc + x] = p.alpha * sum;
}
int main() { Params p{}; dim3 grid((p.n + 15) / 16, (p.m + 15) / 16); gemm_params<<<grid, dim3(16, 16)>>>(p); }
