/*---
title: Double-buffered 128x128 tiles, 8x8 outputs per thread
follows: matmul_register
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros: {PAD: [4, 0], BLOCK: [128], STEP: [16]}
tile: [BLOCK, BLOCK, STEP]
block: [256]
grid: ["ceil(n / BLOCK)", "ceil(m / BLOCK)"]
requires: {arch: 75, n: 4, k: 4}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Against matmul_register a thread's micro-tile grows to 8x8, so that 4 wide shared reads feed 64
// multiply-adds instead of 2 feeding 16, and nothing waits any more: the next tile travels from
// global memory through registers into a second pair of shared tiles while this one is multiplied
// (one barrier a tile instead of two), and the operands of the next k travel from shared memory
// into a second set of registers. 16-byte global reads need n and k to be multiples of 4.
// PAD is the padding, in floats, of a row of the transposed A tile: without it the transposing
// stores meet in the same banks two by two.

static_assert(BLOCK == 128 && STEP == 16, "the dealing of threads below is made for tiles of 128 x 128 x 16");
static_assert(PAD >= 0 && PAD % 4 == 0, "PAD must be a multiple of 4: rows are read 16 bytes at a time");

constexpr int THREADS = 256;
constexpr int QUAD = 4;              // floats of one 16-byte access
constexpr int HALF = BLOCK / 2;      // a thread's 8 rows (columns) are two quads, HALF apart
constexpr int MICRO = 2 * QUAD;      // outputs of a thread in each direction
constexpr int A_ROW = BLOCK + PAD;

static __device__ __forceinline__ float4 load_quad(const float* source, bool inside)
{
    // Zeros beyond the edge add nothing to a sum. n and k are multiples of 4, so a quad is inside
    // as a whole or not at all.
    return inside ? *reinterpret_cast<const float4*>(source) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

static __device__ __forceinline__ void read_eight(float (&target)[MICRO], const float* row)
{
    const float4 first = *reinterpret_cast<const float4*>(row);
    const float4 second = *reinterpret_cast<const float4*>(row + HALF);
    target[0] = first.x;
    target[1] = first.y;
    target[2] = first.z;
    target[3] = first.w;
    target[4] = second.x;
    target[5] = second.y;
    target[6] = second.z;
    target[7] = second.w;
}

// Two blocks an SM (16 warps) need at most 128 registers a thread.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
matmul_double_buffered(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                       int m, int n, int k, float alpha, float beta)
{
    __shared__ __align__(16) float a_tile[2][STEP][A_ROW];  // transposed: [buffer][k][row]
    __shared__ __align__(16) float b_tile[2][STEP][BLOCK];  // [buffer][k][column]

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int block_row = blockIdx.y * BLOCK;
    const int block_column = blockIdx.x * BLOCK;

    // Which outputs: 16 x 16 threads are 4 x 2 warps, a warp is 4 threads high and 8 wide. Lane bit
    // 0 and bit 4 count rows, bits 1 to 3 columns: lanes i and i xor 1 read the same quad of B,
    // lanes i and i xor 2 the same quad of A, so the quarter-warps of every 16-byte read merge and
    // it takes two wavefronts. A thread's second quad is HALF further on, not 4: eight lanes then
    // cover 128 consecutive bytes, each bank once.
    const int y = (warp / 2 * 4 + (lane >> 4) * 2 + (lane & 1)) * QUAD;
    const int x = (warp % 2 * 8 + (lane >> 1 & 7)) * QUAD;

    // Which inputs. A: a warp brings 16 rows, two lanes a row (a full 32-byte sector), first k 0 to
    // 7 and then 8 to 15. In the transposed tile the 16 rows are 16 neighbouring words, and the two
    // lanes of a row are 4 k, so 4 * A_ROW words, apart: with PAD 4 that is 16 banks (528 mod 32),
    // the other half of them; with PAD 0 it is the same bank, and every store takes 2 wavefronts.
    const int a_row = warp * 16 + lane / 2;
    const int a_k = lane % 2 * QUAD;     // + 0, 8
    // B: a warp brings a whole row of the tile, then the row 8 further down.
    const int b_k = warp;                // + 0, 8
    const int b_column = lane * QUAD;
    constexpr int NEXT = 8;              // k between a thread's two quads, for both

    const bool a_inside = block_row + a_row < m;
    const bool b_inside = block_column + b_column < n;
    // 64-bit offsets: a matrix may have more than 2^31 elements.
    const float* a_source = a + static_cast<long long>(block_row + a_row) * k + a_k;
    const float* b_source = b + static_cast<long long>(b_k) * n + block_column + b_column;
    const long long b_next = static_cast<long long>(NEXT) * n;

    float4 a_coming[2];
    float4 b_coming[2];
    // Fetches the tile whose first k is `base`; the pointers stand on that tile and then move on.
    const auto fetch = [&](int base) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            a_coming[i] = load_quad(a_source + i * NEXT, a_inside && base + a_k + i * NEXT < k);
            b_coming[i] = load_quad(b_source, b_inside && base + b_k + i * NEXT < k);
            b_source += b_next;
        }
        a_source += STEP;
    };
    const auto store = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float* target = &a_tile[buffer][a_k + i * NEXT][a_row];
            target[0 * A_ROW] = a_coming[i].x;
            target[1 * A_ROW] = a_coming[i].y;
            target[2 * A_ROW] = a_coming[i].z;
            target[3 * A_ROW] = a_coming[i].w;
            *reinterpret_cast<float4*>(&b_tile[buffer][b_k + i * NEXT][b_column]) = b_coming[i];
        }
    };

    float sum[MICRO][MICRO] = {};
    float a_part[2][MICRO];
    float b_part[2][MICRO];
    const auto multiply = [&](int set) {
#pragma unroll
        for (int r = 0; r < MICRO; ++r) {
#pragma unroll
            for (int s = 0; s < MICRO; ++s) {
                sum[r][s] += a_part[set][r] * b_part[set][s];
            }
        }
    };

    fetch(0);
    store(0);
    __syncthreads();
    read_eight(a_part[0], &a_tile[0][0][y]);
    read_eight(b_part[0], &b_tile[0][0][x]);

    int buffer = 0;
    for (int base = STEP; base < k; base += STEP) {
        fetch(base);
#pragma unroll
        for (int i = 0; i < STEP - 1; ++i) {
            read_eight(a_part[(i + 1) % 2], &a_tile[buffer][i + 1][y]);
            read_eight(b_part[(i + 1) % 2], &b_tile[buffer][i + 1][x]);
            multiply(i % 2);
        }
        // This tile has been read to its end, the other buffer was read to its end before the last
        // barrier: one barrier, after the other buffer is filled, orders both.
        buffer ^= 1;
        store(buffer);
        __syncthreads();
        read_eight(a_part[0], &a_tile[buffer][0][y]);
        read_eight(b_part[0], &b_tile[buffer][0][x]);
        // The old tile's last k is in registers already; it hides the reads just issued.
        multiply((STEP - 1) % 2);
    }
    // The last tile: nothing to fetch.
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
        if (i + 1 < STEP) {
            read_eight(a_part[(i + 1) % 2], &a_tile[buffer][i + 1][y]);
            read_eight(b_part[(i + 1) % 2], &b_tile[buffer][i + 1][x]);
        }
        multiply(i % 2);
    }

#pragma unroll
    for (int r = 0; r < MICRO; ++r) {
        const int row = block_row + y + r % QUAD + r / QUAD * HALF;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int column = block_column + x + half * HALF;
            if (row < m && column < n) {
                const float* four = &sum[r][half * QUAD];
                float4 result =
                    make_float4(alpha * four[0], alpha * four[1], alpha * four[2], alpha * four[3]);
                float4* target = reinterpret_cast<float4*>(c + static_cast<long long>(row) * n + column);
                // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
                if (beta != 0.0f) {
                    const float4 old = *target;
                    result.x += beta * old.x;
                    result.y += beta * old.y;
                    result.z += beta * old.z;
                    result.w += beta * old.w;
                }
                *target = result;
            }
        }
    }
}
