// What kernels compute whose operation nothing names, recognised by their values. Expected: kernel: exit code, text.
// norm_affine: 0, equal to layer norm of each row of n, scaled and shifted
// pairs: 0, equal to the sums of blocks of elements that follow each other
// local_scan: 0, an inclusive scan of each chunk of a block and the sums of blocks of elements
// stage: 0, equal to the product of a sparse matrix in CSR form and a vector
// quantize: 0, equal to each element divided by a number, rounded, up to 127
// conv_rows: 0, equal to the convolution of rows of width and weights up to r away
// conv_rgb: 0, rows of width and all weights, a square with repeated edges, of each of 3 channels
// jacobi: 0, equal to the mean of the four neighbours in rows of width, inside an edge of 1 around rows of width
// histogram_of_letters: 0, equal to a histogram of 26 values from 97 on, divided by 4
// gemv_relu: 0, equal to the product of rows of n and a vector, and ReLU of each
// add_before: 0, equal to each later chunk of a block's elements plus the number before
// gram: 0, equal to the product of the transpose of rows of n and these rows at 3 shapes
// letters: 0, equal to a histogram of values from 97 on where bins begins with zeros at ... inputs, where text holds 'a' to 'z'
// flip_rows: 0, equal to each row of d in reverse at ... inputs, where d == 8
// batchnorm: 0, equal to each channel of s elements less its mean, divided by the root of its variance, scaled and shifted
// layernorm_backward: 0, equal to the gradient of layer norm of each row of c, scaled, by means and inverse deviations
// assign: 0, equal to the place of the nearest of the second rows of d for each row
// rope: 0, equal to pairs of rows of d, in h heads each, turned by given cosines and sines, in place
// dequantize_int4: 0, equal to each four bits less 8, times the number of their group of group
// gemm_int8: 0, equal to the product with k terms, the second array transposed, each row times its number, each column times its own
// crossentropy_backward: 0, equal to softmax of each row of n, less one at its label, divided by the number of rows
// nesterov: 0, equal to a step with Nesterov's momentum 0.9 and
// gemm_accumulate: 0, equal to the matrix product with k terms, the first array transposed plus what was there
// cost_of_shares: 0, equal to the mean of binary cross entropy of shares that are kept 1e-07 away from 0 and 1
// update_bias: 0, equal to minus 0.5 times the mean of each row of batch where b begins with zeros
// merge_attention: 0, equal to two parts of attention of rows of d, by their logarithms of sums
// modulate: 0, equal to each of t rows of c times one more than its row of the third array, plus that of the second
// symmetric_gemv: 0, equal to the symmetric matrix of the lower triangle of rows of n times a vector
// scan_back: 0, equal to the sums of each element and those behind it in each column of n
// rope_back: 3, what it computes is unknown
// modulate_back: 3, what it computes is unknown
// elu: 1, it differs from ELU of each element
// flags: 3, what it computes is unknown
// above: 3, what it computes is unknown
// elu_of_none: 1, it stores nothing, and does not use x, y
__global__ void norm_affine(const float* x, const float* weight, const float* bias, float* y, int n) {
    float sum = 0, square = 0;
    for (int i = 0; i < n; ++i) sum += x[blockIdx.x * n + i], square += x[blockIdx.x * n + i] * x[blockIdx.x * n + i];
    float mean = sum / n, scale = rsqrtf(square / n - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[blockIdx.x * n + i] = (x[blockIdx.x * n + i] - mean) * scale * weight[i] + bias[i];
}
__global__ void pairs(int* data, int* out, int n) {  // it changes its input, and takes whole pairs of blocks
    int* first = data + blockIdx.x * 2 * blockDim.x;
    first[threadIdx.x] += first[threadIdx.x + blockDim.x];
    __syncthreads();
    for (int side = blockDim.x / 2; side > 0; side /= 2) {
        if (threadIdx.x < side) first[threadIdx.x] += first[threadIdx.x + side];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = first[0];
}
__global__ void local_scan(const float* x, float* y, float* totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = blockIdx.x * blockDim.x; j <= i && j < n; ++j) sum += x[j];
    if (i < n) y[i] = sum;
    if (threadIdx.x == blockDim.x - 1) totals[blockIdx.x] = sum;
}
__global__ void stage(const int* starts, const int* columns, const float* values, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = i < n ? starts[i] : 0; i < n && j < starts[i + 1]; ++j) sum += values[j] * x[columns[j]];
    if (i < n) y[i] = sum;
}
__global__ void quantize(const float* x, signed char* y, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (signed char) fmaxf(-128.0f, fminf(127.0f, roundf(x[i] / scale)));
}
__constant__ float weights[81];
extern __constant__ float square[9];  // which another file defines
__global__ void conv_rows(const float* x, float* y, int r, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int v = -r; v <= r; ++v)
        for (int u = -r; u <= r; ++u)
            if (i + u >= 0 && i + u < width && j + v >= 0 && j + v < height)
                sum += x[(j + v) * width + i + u] * weights[(v + r) * (2 * r + 1) + u + r];
    if (i < width && j < height) y[j * width + i] = sum;
}
__global__ void conv_rgb(const float* x, float* y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < width && j < height)
        for (int c = 0; c < 3; ++c) {
            float sum = 0;
            for (int k = 0; k < 9; ++k)
                sum += x[(min(max(j + k / 3 - 1, 0), height - 1) * width + min(max(i + k % 3 - 1, 0), width - 1)) * 3 + c] * square[k];
            y[(j * width + i) * 3 + c] = sum;
        }
}
__global__ void jacobi(const float* x, float* y, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, at = j * width + i;
    if (i > 0 && i < width - 1 && j > 0 && j < height - 1)
        y[at] = 0.25f * (x[at - 1] + x[at + 1] + x[at - width] + x[at + width]);
}
__global__ void histogram_of_letters(const char* text, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && text[i] >= 'a' && text[i] < 'a' + 26) atomicAdd(&bins[(text[i] - 'a') / 4], 1);
}
__global__ void gemv_relu(const float* a, const float* x, float* y, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; i < m && k < n; ++k) sum += a[i * n + k] * x[k];
    if (i < m) y[i] = fmaxf(sum, 0.0f);
}
__global__ void add_before(float* x, const float* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n) x[i] += sums[blockIdx.x - 1];
}
__global__ void gram(const float* x, float* y, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < m && i < n && j < n; ++k) sum += x[k * n + i] * x[k * n + j];
    if (i < n && j < n) y[j * n + i] = sum;
}
__global__ void letters(const char* text, int* bins, int n) {  // no other byte is in its text
    __shared__ int counts[26];
    if (threadIdx.x < 26) counts[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[text[i] - 'a'], 1);
    __syncthreads();
    if (threadIdx.x < 26) atomicAdd(&bins[threadIdx.x], counts[threadIdx.x]);
}
__global__ void flip_rows(const float* x, float* y, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float row[8];
    for (int k = 0; k < d; ++k) row[k] = i < n ? x[i * d + k] : 0;
    for (int k = 0; i < n && k < d; ++k) y[i * d + k] = row[d - 1 - k];
}
__global__ void batchnorm(const float* x, const float* mean, const float* var, const float* w, const float* b, float* y, int n, int c, int s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i / s % c;
    if (i < n * c * s) y[i] = (x[i] - mean[k]) / sqrtf(var[k] + 1e-5f) * w[k] + b[k];
}
__global__ void layernorm_backward(const float* dy, const float* x, const float* w, const float* mean, const float* rstd, float* dx, int c) {
    __shared__ float sums[2];
    if (threadIdx.x < 2) sums[threadIdx.x] = 0;
    __syncthreads();
    dy += blockIdx.x * c, x += blockIdx.x * c, dx += blockIdx.x * c;
    float m = mean[blockIdx.x], r = rstd[blockIdx.x];
    for (int j = threadIdx.x; j < c; j += blockDim.x) {
        atomicAdd(&sums[0], w[j] * dy[j]);
        atomicAdd(&sums[1], w[j] * dy[j] * (x[j] - m) * r);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < c; j += blockDim.x) dx[j] = (w[j] * dy[j] - sums[0] / c - (x[j] - m) * r * (sums[1] / c)) * r;
}
__global__ void assign(const float* x, const float* centres, int* nearest, int n, int k, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float least = INFINITY;
    for (int c = 0; i < n && c < k; ++c) {
        float sum = 0;
        for (int j = 0; j < d; ++j) sum += (x[i * d + j] - centres[c * d + j]) * (x[i * d + j] - centres[c * d + j]);
        if (sum < least) least = sum, nearest[i] = c;
    }
}
__global__ void rope(float* q, const float* cosines, const float* sines, int s, int h, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = i % (d / 2), row = i / (d / 2);
    if (row >= s * h) return;
    float x = q[row * d + 2 * j], y = q[row * d + 2 * j + 1], c = cosines[row / h * (d / 2) + j], t = sines[row / h * (d / 2) + j];
    q[row * d + 2 * j] = x * c - y * t, q[row * d + 2 * j + 1] = x * t + y * c;
}
__global__ void dequantize_int4(const unsigned char* x, const float* scales, float* y, int n, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[2 * i] = ((x[i] & 15) - 8) * scales[2 * i / group];
    y[2 * i + 1] = ((x[i] >> 4) - 8) * scales[(2 * i + 1) / group];
}
__global__ void gemm_int8(const signed char* a, const signed char* b, const float* by_row, const float* by_column, float* y, int m, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, sum = 0;
    if (i >= n || j >= m) return;
    for (int t = 0; t < k; ++t) sum += a[j * k + t] * b[i * k + t];
    y[j * n + i] = sum * by_row[j] * by_column[i];
}
__global__ void crossentropy_backward(const float* x, const int* labels, float* dx, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int j = 0; i < m && j < n; ++j) sum += expf(x[i * n + j]);
    for (int j = 0; i < m && j < n; ++j) dx[i * n + j] = (expf(x[i * n + j]) / sum - (j == labels[i])) / m;
}
__global__ void nesterov(float* w, const float* slope, float* speed, float rate, float momentum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    speed[i] = momentum * speed[i] + slope[i];
    w[i] -= rate * (slope[i] + momentum * speed[i]);
}
__global__ void gemm_accumulate(const float* a, const float* b, float* y, int m, int n, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    float sum = 0;
    for (int t = 0; i < n && t < k; ++t) sum += a[t * m + j] * b[t * n + i];
    if (i < n) y[j * n + i] += sum;
}
__global__ void cost_of_shares(const float* p, const float* t, float* cost, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float share = fmaxf(fminf(p[i], 1.0f - 1e-7f), 1e-7f);
    atomicAdd(cost, -(t[i] * logf(share) + (1 - t[i]) * logf(1 - share)) / n);
}
__global__ void update_bias(const float* d, float* b, int m, int batch, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m * batch) atomicAdd(&b[i / batch], -lr * d[i] / batch);
}
__global__ void merge_attention(const float* x, const float* a, const float* y, const float* b, float* o, int n, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * d) return;
    float most = fmaxf(a[i / d], b[i / d]), first = expf(a[i / d] - most), second = expf(b[i / d] - most);
    o[i] = (x[i] * first + y[i] * second) / (first + second);
}
__global__ void modulate(const float* x, const float* shift, const float* scale, float* y, int n, int t, int c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = i / (t * c) * c + i % c;
    if (i < n * t * c) y[i] = x[i] * (1 + scale[at]) + shift[at];
}
__global__ void symmetric_gemv(const float* a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && i < n; ++k) sum += (k <= i ? a[i * n + k] : a[k * n + i]) * x[k];
    if (i < n) y[i] = sum;
}
__global__ void scan_back(const float* x, float* y, int m, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = m - 1; k >= 0 && i < n; --k) y[k * n + i] = sum += x[k * n + i];
}
__global__ void rope_back(float* q, const float* cosines, const float* sines, int s, int d) {  // the second line takes the first one's
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = i % (d / 2), row = i / (d / 2);
    if (row >= s) return;
    q[row * d + 2 * j] = q[row * d + 2 * j] * cosines[i] - q[row * d + 2 * j + 1] * sines[i];
    q[row * d + 2 * j + 1] = q[row * d + 2 * j] * sines[i] + q[row * d + 2 * j + 1] * cosines[i];
}
__global__ void modulate_back(const float* x, const float* shift, const float* scale, float* y, int n, int t, int c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = i / (t * c) * c + i % c;
    if (i < n * t * c) y[i] = x[i] * (1 + scale[at]) - shift[at];
}
__global__ void elu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] < 0 ? expm1f(x[i]) : 0;  // a positive element is lost
}
__global__ void flags(const float* x, int* y, int n) {  // each is 1, as the largest element, rounded, is by chance
    if (threadIdx.x == 0) y[blockIdx.x] = x[blockIdx.x] < 2 && n > 0;
}
__global__ void above(const float* x, int* y, int n) {  // 0 or 1, as each element's magnitude is within 1
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i] > 0.3f;
}
__global__ void elu_of_none(float* x, float* y, int n) {}
void run(float* x, float* y, int* i, signed char* c, const float* w, int n, int m, int r) {
    cudaMemcpyToSymbol(weights, w, sizeof(weights));
    norm_affine<<<m, 128>>>(x, w, w, y, n);
    pairs<<<n / 512, 256>>>(i, i, n);
    local_scan<<<(n + 255) / 256, 256>>>(x, y, y, n);
    stage<<<(n + 127) / 128, 128>>>(i, i, x, w, y, n);
    quantize<<<(n + 255) / 256, 256>>>(x, c, 0.01f, n);
    conv_rows<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, y, r, n, m);
    conv_rgb<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, y, n, m);
    jacobi<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(x, y, n, m);
    histogram_of_letters<<<(n + 255) / 256, 256>>>((const char*) c, i, n);
    gemv_relu<<<(m + 127) / 128, 128>>>(x, w, y, m, n);
    add_before<<<(n + 1023) / 1024, 1024>>>(x, w, n);
    int side = (n + 15) / 16;
    if (n < 16) side = 1;
    gram<<<dim3(side, side), dim3(16, 16)>>>(x, y, static_cast<int>(m), (int) n);
    letters<<<(n + 255) / 256, 256>>>((const char*) c, i, n);
    flip_rows<<<(n + 127) / 128, 128>>>(x, y, n, m);
    batchnorm<<<(m * n * r + 255) / 256, 256>>>(x, w, w, w, w, y, m, n, r);
    layernorm_backward<<<m, 128>>>(x, x, w, w, w, y, n);
    assign<<<(n + 127) / 128, 128>>>(x, w, i, n, m, r);
    rope<<<(n * m * (r / 2) + 127) / 128, 128>>>(x, w, w, n, m, r);
    dequantize_int4<<<(n + 127) / 128, 128>>>((const unsigned char*) c, w, y, n, r);
    gemm_int8<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(c, c, w, w, y, m, n, r);
    crossentropy_backward<<<(m + 127) / 128, 128>>>(x, i, y, m, n);
    nesterov<<<(n + 255) / 256, 256>>>(x, w, y, 0.01f, 0.9f, n);
    gemm_accumulate<<<dim3((n + 127) / 128, m), 128>>>(x, w, y, m, n, r);
    cost_of_shares<<<(n + 255) / 256, 256>>>(x, w, y, n);
    update_bias<<<(m * n + 255) / 256, 256>>>(x, y, m, n, 0.5f);
    merge_attention<<<(m * n + 255) / 256, 256>>>(x, w, x, w, y, m, n);
    modulate<<<(m * n * r + 255) / 256, 256>>>(x, w, w, y, m, n, r);
    symmetric_gemv<<<(n + 127) / 128, 128>>>(x, w, y, n);
    scan_back<<<(n + 127) / 128, 128>>>(x, y, m, n);
    rope_back<<<(n * (r / 2) + 127) / 128, 128>>>(x, w, w, n, r);
    modulate_back<<<(m * n * r + 255) / 256, 256>>>(x, w, w, y, m, n, r);
    elu<<<(n + 255) / 256, 256>>>(x, y, n);
    flags<<<n / 64, 64>>>(x, i, n);
    above<<<(n + 63) / 64, 64>>>(x, i, n);
    elu_of_none<<<(n + 255) / 256, 256>>>(x, y, n);
}
