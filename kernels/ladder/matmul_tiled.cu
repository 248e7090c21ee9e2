/*---
title: Shared-memory tiles, one output per thread
follows: matmul_naive
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros: {REAL: [f32, f64], TILE: [16, 32], DYNAMIC: [0, 1], SCALAR_A: [0, 1]}
where: ["SCALAR_A == 0 or REAL == f64"]
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
shared_bytes: "DYNAMIC * 2 * TILE * TILE * size(REAL)"
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A block copies one square tile of A and one of B into shared memory and every thread reuses them
// TILE times, so global memory is read TILE times less often than by matmul_naive. What limits it
// now is shared memory: each multiply-add still needs two operands from there.
// Tiles have no padding: a row of B is read by neighbouring lanes from neighbouring words, and an
// element of A is shared by the lanes of its row. DYNAMIC only moves the same tiles into memory
// that the launch sizes.

using f32 = float;
using f64 = double;

// SCALAR_A (f64) keeps A's reads 8 bytes wide, where ptxas otherwise joins two steps of the loop
// in one 16-byte read; with TILE 16 the two rows of a warp lie 128 bytes apart, in the same banks,
// which the wide read forgives (one transaction a half-warp) and the narrow one (one a warp) pays
// with a conflict: 2 wavefronts an 8-byte read, as many as the wide read takes for twice the data.
static_assert(TILE >= 4 && TILE * TILE <= 1024, "a block has TILE x TILE threads, at most 1024");
static_assert(DYNAMIC == 0 || DYNAMIC == 1, "DYNAMIC: 0 static, 1 dynamic shared memory");
static_assert(SCALAR_A == 0 || (SCALAR_A == 1 && sizeof(REAL) == 8),
              "SCALAR_A: 0, or for f64 also 1, since it is about 8-byte reads");

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul_tiled(const REAL* __restrict__ a, const REAL* __restrict__ b, REAL* __restrict__ c,
             int m, int n, int k, REAL alpha, REAL beta)
{
    // 16-byte alignment lets ptxas join neighbouring reads of a row, in both kinds of memory.
#if DYNAMIC
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    REAL(*a_tile)[TILE] = reinterpret_cast<REAL(*)[TILE]>(dynamic_shared);
    REAL(*b_tile)[TILE] = a_tile + TILE;
#else
    __shared__ __align__(16) REAL a_tile[TILE][TILE];
    __shared__ __align__(16) REAL b_tile[TILE][TILE];
#endif

    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;
    const int column = blockIdx.x * TILE + x;
    // 64-bit offsets: a matrix may have more than 2^31 elements.
    const REAL* a_row = a + static_cast<long long>(row) * k;

    REAL sum = 0;
    for (int base = 0; base < k; base += TILE) {
        // Zeros beyond the edge add nothing to a sum, so the loop below needs no bounds at all;
        // threads outside C still load, because their neighbours need the other operand.
        const int a_column = base + x;
        const int b_row = base + y;
        a_tile[y][x] = row < m && a_column < k ? a_row[a_column] : REAL(0);
        b_tile[y][x] =
            b_row < k && column < n ? b[static_cast<long long>(b_row) * n + column] : REAL(0);
        __syncthreads();

        // One loop, fully unrolled: the addresses become immediates and reads can be joined.
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
#if SCALAR_A
            // ptxas never joins volatile reads.
            const REAL a_element = *static_cast<const volatile REAL*>(&a_tile[y][i]);
#else
            const REAL a_element = a_tile[y][i];
#endif
            sum += a_element * b_tile[i][x];
        }
        // Nobody may overwrite a tile that a slower warp still reads.
        __syncthreads();
    }

    if (row < m && column < n) {
        REAL* target = c + static_cast<long long>(row) * n + column;
        // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
        *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
    }
}
