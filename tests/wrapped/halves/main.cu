#include <iostream>
#include <vector>
#include "halves.h"
using namespace std;
int main() {
    const int n = 5001;
    vector<float> h(n, 0.5f), r(n + 1);
    float *x, *y, **rows;
    cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, (n + 1) * sizeof(float)); cudaMalloc(&rows, 16);
    cudaMemcpy(x, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    float* both[2] = {y, y + (n + 1) / 2};
    cudaMemcpy(rows, both, sizeof(both), cudaMemcpyHostToDevice);
    run_halve({x, n}, rows);
    cudaMemcpy(r.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost);
    MORE double error = 0;
    for (int i = 0; i < n; i++) error = max(error, (double) fabs(r[i] - 1.25f));
    cout << "max error: " << error << endl;
}
