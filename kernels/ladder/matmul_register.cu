/*---
title: Register micro-tiles, 4x4 outputs per thread
follows: matmul_two_outputs
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros: {BLOCK: [64], STEP: [16]}
tile: [BLOCK, BLOCK, STEP]
block: [256]
grid: ["ceil(n / BLOCK)", "ceil(m / BLOCK)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Two outputs a thread become sixteen: one 16-byte read brings four elements of A, another four of
// B, and together they feed 16 multiply-adds from registers. That is 4 wavefronts for 16
// multiply-adds of a warp, where matmul_two_outputs pays one for each. A lies transposed in shared
// memory so that four rows of one k are neighbours, and the lanes of a warp are dealt so that the
// wide reads cost the fewest wavefronts, see below.

static_assert(BLOCK == 64 && STEP == 16, "the dealing of threads below is made for tiles of 64 x 64 x 16");

constexpr int MICRO = 4;             // outputs of a thread in each direction
constexpr int THREADS = 256;         // (BLOCK / MICRO)^2
// Four floats of padding keep rows 16-byte aligned and move the next k by four banks, so that the
// 8 k x 4 rows that a warp stores transposed fall in 32 different banks.
constexpr int A_ROW = BLOCK + 4;

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_register(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                int m, int n, int k, float alpha, float beta)
{
    __shared__ __align__(16) float a_tile[STEP][A_ROW];  // transposed: [k][row]
    __shared__ __align__(16) float b_tile[STEP][BLOCK];  // [k][column]

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int block_row = blockIdx.y * BLOCK;
    const int block_column = blockIdx.x * BLOCK;

    // Which outputs: the 16 x 16 threads are 4 x 2 warps, a warp is 4 threads high and 8 wide.
    // Lane bit 0 and bit 4 count rows, bits 1 to 3 columns. So lanes i and i xor 1 read the same
    // four of B, lanes i and i xor 2 the same four of A: both 16-byte reads have their
    // quarter-warps merged and take two wavefronts (lanes in plain row order: A 2, B 4).
    const int y = warp / 2 * 4 + (lane >> 4) * 2 + (lane & 1);
    const int x = warp % 2 * 8 + (lane >> 1 & 7);

    // Which inputs: A in pieces of 4 rows x 8 k (a full 32-byte sector of each row), B in pieces of
    // 32 columns; each warp brings four pieces of both.
    const int a_row = warp * 8 + lane / 8;  // + 0, 4
    const int a_k = lane % 8;               // + 0, 8
    const int b_k = warp * 2;               // + 0, 1
    const int b_column = lane;              // + 0, 32

    float sum[MICRO][MICRO] = {};
    for (int base = 0; base < k; base += STEP) {
#pragma unroll
        for (int piece = 0; piece < 4; ++piece) {
            const int high = piece / 2;
            const int low = piece % 2;
            // Zeros beyond the edge add nothing to a sum. 64-bit offsets: a matrix may have more
            // than 2^31 elements.
            const int tile_row = a_row + high * 4;
            const int tile_k = a_k + low * 8;
            const bool a_inside = block_row + tile_row < m && base + tile_k < k;
            a_tile[tile_k][tile_row] =
                a_inside ? a[static_cast<long long>(block_row + tile_row) * k + base + tile_k] : 0.0f;

            const int source_k = b_k + high;
            const int tile_column = b_column + low * 32;
            const bool b_inside = base + source_k < k && block_column + tile_column < n;
            b_tile[source_k][tile_column] =
                b_inside ? b[static_cast<long long>(base + source_k) * n + block_column + tile_column] : 0.0f;
        }
        __syncthreads();

#pragma unroll
        for (int i = 0; i < STEP; ++i) {
            const float4 a_four = *reinterpret_cast<const float4*>(&a_tile[i][y * MICRO]);
            const float4 b_four = *reinterpret_cast<const float4*>(&b_tile[i][x * MICRO]);
            const float a_part[MICRO] = {a_four.x, a_four.y, a_four.z, a_four.w};
            const float b_part[MICRO] = {b_four.x, b_four.y, b_four.z, b_four.w};
#pragma unroll
            for (int r = 0; r < MICRO; ++r) {
#pragma unroll
                for (int s = 0; s < MICRO; ++s) {
                    sum[r][s] += a_part[r] * b_part[s];
                }
            }
        }
        // Nobody may overwrite a tile that a slower warp still reads.
        __syncthreads();
    }

    // Single floats: a row of C is 16-byte aligned only where n is a multiple of 4, and this kernel
    // takes any n.
#pragma unroll
    for (int r = 0; r < MICRO; ++r) {
        const int row = block_row + y * MICRO + r;
#pragma unroll
        for (int s = 0; s < MICRO; ++s) {
            const int column = block_column + x * MICRO + s;
            if (row < m && column < n) {
                float* target = c + static_cast<long long>(row) * n + column;
                // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
                *target = beta == 0.0f ? alpha * sum[r][s] : alpha * sum[r][s] + beta * *target;
            }
        }
    }
}
