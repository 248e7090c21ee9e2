#include <chrono>
#include <iostream>
#include <vector>
#include <cuda_runtime.h>
#include <sys/time.h>
#define CHECK(call) do { if (call != cudaSuccess) std::exit(1); } while (0)

using namespace std;

static std::vector<float> kept;
int counter = 0;
constexpr int TILE = 16;
struct Timer {
    std::chrono::steady_clock::time_point begun;
    double seconds() const;
};
struct Shape {
    int m, n, k;
    __host__ __device__ int size() const { return m * n; }
    std::string told() const { return std::to_string(m); }
};

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
inline __device__ int row_of(Shape s) { return (int)(blockIdx.y * TILE + threadIdx.y) % s.size(); }

__global__ void NAME(const float* a, const float* b, float* c, int m, int n, int k)
{
    Shape shape{m, n, k};
    const uint row = row_of(shape), counter = 0;
    c[row + counter] = std::max(a[row], b[row]) > FLT_MAX ? 0.0f : INFINITY;
}

template <typename T>
void launch(const T* a, const T* b, T* c, int m, int n, int k)
{
    dim3 grid(ceil_div(n, TILE), ceil_div(m, TILE));
    NAME<<<grid, dim3(TILE, TILE)>>>(a, b, c, m, n, k);
    CHECK(cudaDeviceSynchronize());
}

int main(int argc, char** argv)
{
    Timer timer;
    launch<float>(nullptr, nullptr, nullptr, 1, 1, 1);
    std::cout << kept.size() << " } \" ' << counter" << std::endl;
}
