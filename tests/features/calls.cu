// Functions by pointer and by table, recursion, and pointers to memory of any kind.
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int after(int x) { return x + 1; }
__device__ __noinline__ int thrice(int x) { return 3 * x; }
__device__ int (*table[])(int) = {after, thrice, fibonacci};

struct Base {
    __device__ virtual int of(int x) = 0;
};
struct Sum : Base {
    int k;
    __device__ Sum(int k) : k(k) {}
    __device__ int of(int x) override { return x + k; }
};
struct Square : Base {
    __device__ int of(int x) override { return x * x; }
};

extern "C" __global__ void chosen(const int* a, int* out) {
    const int i = threadIdx.x, v = a[i];
    out[3 * i] = fibonacci(v & 7);
    out[3 * i + 1] = table[v % 3](v & 7);
    Sum sum(v);
    Square square;
    Base* one = v & 1 ? (Base*)&sum : (Base*)&square;
    out[3 * i + 2] = one->of(5);
}

__device__ __noinline__ void fill(int* p, int n, int v) {
    for (int k = 0; k < n; ++k) p[k] = v * k;
}

extern "C" __global__ void anywhere(const int* a, int* out) {
    __shared__ int s[8];
    int own[8];
    const int i = threadIdx.x;
    fill(own, 8, a[i]);
    if (i == 0) fill(s, 8, 3);
    __syncthreads();
    const int* p = a[i] & 1 ? own : s;
    out[i] = p[a[i] & 7];
}

extern "C" __global__ void allocated(const int* a, int* out) {
    int* p = new int[4];
    p[a[threadIdx.x] & 3] = 1;
    out[threadIdx.x] = p[0];
    delete[] p;
}
