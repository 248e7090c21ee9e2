/*---
title: f64 tensor cores, mma.sync straight from shared tiles
follows: matmul_tiled
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros: {TILE: [64], STEP: [16, 8], PAD: [4, 0]}
tile: [TILE, TILE, STEP]
block: [128]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 80}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The tiled kernel reads two operands from shared memory for each multiply-add. The tensor cores' 8x8x4
// instruction does 256 of them with two 8-byte operands a lane, and a warp that keeps 32x32 sums in registers
// uses each operand four times more: 32 times fewer reads. The tiles still come through registers, and
// everybody waits for them.
// PAD is the padding, in doubles, of a row of either tile. The four k of A's rows and the four rows of B that
// half a warp reads lie in the same banks without it, and every read takes four times its wavefronts.

using f64 = double;

static_assert(TILE == 64, "four warps of 32 x 32 outputs");
static_assert(STEP % 4 == 0 && STEP * TILE % 128 == 0, "whole instructions, whole rounds of copies");
static_assert(PAD >= 0, "PAD: doubles");

constexpr int THREADS = 128;
constexpr int WARP_TILE = 32;
constexpr int MMA = 8;                   // rows and columns of an instruction, whose k is 4
constexpr int MMAS = WARP_TILE / MMA;
constexpr int COPIES = STEP * TILE / THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_dmma(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n, int k,
            f64 alpha, f64 beta)
{
    __shared__ f64 a_tile[TILE][STEP + PAD];
    __shared__ f64 b_tile[STEP][TILE + PAD];

    const int thread = threadIdx.x;
    const int lane = thread % 32;
    const int warp = thread / 32;
    const int block_row = blockIdx.y * TILE;
    const int block_column = blockIdx.x * TILE;
    const int warp_row = warp / 2 * WARP_TILE;
    const int warp_column = warp % 2 * WARP_TILE;
    // A quad of lanes has the four k of a row of A or of a column of B, and eight columns of a row of C.
    const int quad = lane / 4;
    const int of_quad = lane % 4;

    f64 sum[MMAS][MMAS][2] = {};
    for (int base = 0; base < k; base += STEP) {
        // Zeros beyond the edge add nothing to a sum. 64-bit offsets: a matrix may have more than 2^31 elements.
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int place = i * THREADS + thread;
            const int row = block_row + place / STEP;
            const int column = base + place % STEP;
            a_tile[place / STEP][place % STEP] =
                row < m && column < k ? a[static_cast<long long>(row) * k + column] : 0.0;
        }
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const int place = i * THREADS + thread;
            const int row = base + place / TILE;
            const int column = block_column + place % TILE;
            b_tile[place / TILE][place % TILE] =
                row < k && column < n ? b[static_cast<long long>(row) * n + column] : 0.0;
        }
        __syncthreads();

#pragma unroll
        for (int i = 0; i < STEP; i += 4) {
            f64 a_part[MMAS];
            f64 b_part[MMAS];
#pragma unroll
            for (int r = 0; r < MMAS; ++r) a_part[r] = a_tile[warp_row + r * MMA + quad][i + of_quad];
#pragma unroll
            for (int s = 0; s < MMAS; ++s) b_part[s] = b_tile[i + of_quad][warp_column + s * MMA + quad];
#pragma unroll
            for (int r = 0; r < MMAS; ++r) {
#pragma unroll
                for (int s = 0; s < MMAS; ++s) {
                    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
                        : "+d"(sum[r][s][0]), "+d"(sum[r][s][1])
                        : "d"(a_part[r]), "d"(b_part[s]));
                }
            }
        }
        // Nobody may overwrite a tile that a slower warp still reads.
        __syncthreads();
    }

#pragma unroll
    for (int r = 0; r < MMAS; ++r) {
        const int row = block_row + warp_row + r * MMA + quad;
        if (row >= m) continue;
#pragma unroll
        for (int s = 0; s < MMAS; ++s) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int column = block_column + warp_column + s * MMA + of_quad * 2 + e;
                if (column >= n) continue;
                f64* const target = c + static_cast<long long>(row) * n + column;
                // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
                *target = beta == 0 ? alpha * sum[r][s][e] : alpha * sum[r][s][e] + beta * *target;
            }
        }
    }
}
