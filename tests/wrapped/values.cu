// What kernels compute from numbers and places that formulas name. Expected: kernel: exit code, text.
// gray_of_planes: 0, the luminance of red, green and blue with weights 77, 150 and the rest of 256, divided by 256
// rgb2gray: 0, with weights 3, 6 and the rest of 10, divided by 10, each cut off
// sum_in_place: 0, the array with its upper half added to the lower one, until one element has all
// linear_recurrence: 0, each element of rows of steps plus the second array's times the result before
// softmax_from_sums: 0, exp of each element less a number, divided by a number
// relu_of_four: 0, equal to ReLU of each element
// count_equal: 0, how many elements equal a number where count begins with zeros ... where wanted is 3
// jacobi_step: 0, inside an edge of 1 around rows of n + 2
// adam_step: 0, a step of Adam with corrections and ... where t is 3
// momentum_update: 0, a step with momentum 0.9
// max_of_few: 3, what it computes is unknown

__global__ void gray_of_planes(const unsigned char *red, const unsigned char *green, const unsigned char *blue,
                               unsigned char *gray, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gray[i] = (77 * red[i] + 150 * green[i] + 29 * blue[i]) / 256;
}

__device__ unsigned char mixed(unsigned char r, unsigned char g, unsigned char b) {
    return r * 3 / 10 + g * 6 / 10 + b * 1 / 10;
}

__global__ void rgb2gray(const unsigned char *red, const unsigned char *green, const unsigned char *blue,
                         unsigned char *gray, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) gray[i] = mixed(red[i], green[i], blue[i]);
}

__global__ void sum_in_place(int *values, int n) {
    for (int half = n / 2; half > 0; half /= 2) {
        for (int i = threadIdx.x; i < half; i += blockDim.x) values[i] += values[i + half];
        __syncthreads();
    }
}

__global__ void linear_recurrence(const float *factors, const float *x, float *y, int batches, int steps) {
    int row = blockIdx.x;
    if (row >= batches) return;
    float last = 0.0f;
    for (int i = row * steps; i < (row + 1) * steps; i++) y[i] = last = factors[i] * last + x[i];
}

__global__ void softmax_from_sums(const float *x, float *y, float highest, float total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = expf(x[i] - highest) / total;
}

__global__ void relu_of_four(const float4 *x, float4 *y, size_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[i];
    y[i] = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f), fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
}

__global__ void count_equal(const int *x, int *count, int rows, int columns, int wanted) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns && x[i] == wanted) atomicAdd(count, 1);
}

__global__ void jacobi_step(int n, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1, j = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (i > n || j > n) return;
    int at = j * (n + 2) + i;
    y[at] = 0.25f * (x[at - 1] + x[at + 1] + x[at - (n + 2)] + x[at + (n + 2)]);
}

__global__ void adam_step(float *weights, const float *grads, float *m, float *v, float lr, float beta1, float beta2,
                          float eps, int t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = beta1 * m[i] + (1 - beta1) * grads[i];
    v[i] = beta2 * v[i] + (1 - beta2) * grads[i] * grads[i];
    weights[i] -= lr * (m[i] / (1 - powf(beta1, t))) / (sqrtf(v[i] / (1 - powf(beta2, t))) + eps);
}

__global__ void momentum_update(float *weights, const float *grads, float *speed, float lr, float momentum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    speed[i] = momentum * speed[i] + grads[i];
    weights[i] -= lr * speed[i];
}

void softmax(const float *x, float *y, const float *results, int n) {
    float highest = 0.0f, total = 0.0f;
    cudaMemcpy(&highest, results, sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(&total, results + 1, sizeof(float), cudaMemcpyDeviceToHost);
    softmax_from_sums<<<(n + 255) / 256, 256>>>(x, y, highest, total, n);
}

void launch(unsigned char *red, unsigned char *green, unsigned char *blue, unsigned char *gray, int *values, float *x,
            float *y, float *z, int n, int batches, int steps, int blocks, int wanted) {
    gray_of_planes<<<(n + 255) / 256, 256>>>(red, green, blue, gray, n);
    rgb2gray<<<(n + 255) / 256, 256>>>(red, green, blue, gray, n);
    sum_in_place<<<1, 1024>>>(values, n);
    linear_recurrence<<<batches, 1>>>(x, y, z, batches, steps);
    relu_of_four<<<blocks, 256>>>((const float4 *)x, (float4 *)y, n);
    count_equal<<<(batches * steps + 255) / 256, 256>>>(values, values + batches * steps, batches, steps, wanted);
    adam_step<<<(n + 255) / 256, 256>>>(x, y, z, z + n, 1e-3f, 0.9f, 0.999f, 1e-8f, steps, n);
    momentum_update<<<(n + 255) / 256, 256>>>(x, y, z, 0.01f, 0.9f, n);
    jacobi_step<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(n, x, y);
}

__global__ void max_of_few(const float* x, float* y) {
    float most = x[blockIdx.x * 11 + threadIdx.x];
    for (int d = 8; d > 0; d /= 2) most = fmaxf(most, __shfl_down_sync(0x7FF, most, d));
    if (threadIdx.x == 0) y[blockIdx.x] = most;
}
void run_max_of_few(const float* x, float* y) { max_of_few<<<64, 11>>>(x, y); }
