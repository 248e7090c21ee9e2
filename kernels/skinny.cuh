// Products of which one dimension of C is small: what matmul_few_rows and matmul_few_columns share.
//
// A tile of C has all its rows or columns, or many. So one operand is large and read once, or few times, the other one by
// everybody. Whoever includes this defines REAL, WARPS, STAGES and SPLITS.

#pragma once

#include "cluster_parts.cuh"
#include "cp_async.cuh"
#include "pieces.cuh"

using f32 = float;
using f64 = double;

namespace skinny {

constexpr int WARP = 32;
constexpr int THREADS = WARPS * WARP;
constexpr int BLOCKS_PER_SM = 256 / THREADS;  // up to 255 registers for each of 256 threads
constexpr int PIECE_BYTES = 16;
constexpr int PIECE = PIECE_BYTES / sizeof(REAL);

static_assert(WARPS == 4 || WARPS == 8, "WARPS: 256 threads an SM, in one block or two");

using Piece = REAL[PIECE];

struct Problem {
    const REAL *__restrict__ a, *__restrict__ b;
    REAL* __restrict__ c;
    int m, n, k;
    REAL alpha, beta;

    // Whether rows of A, and those of B and C, begin at multiples of 16 bytes.
    __device__ __forceinline__ bool a_aligned() const { return k % PIECE == 0; }
    __device__ __forceinline__ bool aligned() const { return n % PIECE == 0; }
};

// SIZE elements, 16 bytes or one, to shared memory; zeros where they are `outside`, and `from` is not read.
template <int SIZE>
__device__ __forceinline__ void copy(unsigned to, const REAL* from, bool outside) {
    if constexpr (SIZE == PIECE) {
        asm volatile(
            "{\n"
            ".reg .pred outside;\n"
            "setp.ne.b32 outside, %2, 0;\n"
            "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, outside;\n"
            "}\n" ::"r"(to),
            "l"(from), "r"(int(outside))
            : "memory");
    } else {
        asm volatile(
            "{\n"
            ".reg .pred outside;\n"
            "setp.ne.b32 outside, %2, 0;\n"
            "cp.async.ca.shared.global [%0], [%1], %3, outside;\n"
            "}\n" ::"r"(to),
            "l"(from), "r"(int(outside)), "n"(sizeof(REAL))
            : "memory");
    }
}

__device__ constexpr int power_below(int number) { return number < 2 ? 1 : 2 * power_below(number / 2); }

// A tile of a row-major matrix to shared memory, by 16 bytes where its rows are ALIGNED: neighbours in a warp read, and
// should write, what is side by side. Zeros beyond the last row and column. `place` tells where an element lies: of a
// pass, whose first row the compiler knows, which row and column.
template <bool ALIGNED, int TILE_ROWS, int TILE_COLUMNS, class Place>
__device__ __forceinline__ void copy_tile(const REAL* matrix, int row, int rows, int column, int columns, int stride,
                                          Place place) {
    constexpr int SIZE = ALIGNED ? PIECE : 1;
    constexpr int OF_ROW = TILE_COLUMNS / SIZE, PASS = power_below(THREADS / OF_ROW);  // rows
    static_assert(OF_ROW <= THREADS && TILE_ROWS % PASS == 0, "whole passes");
    const int of_tile = threadIdx.x / OF_ROW, of_row = threadIdx.x % OF_ROW * SIZE;
    if (PASS * OF_ROW < THREADS && of_tile >= PASS) return;
    __builtin_assume(of_tile < PASS);
    const REAL* from = matrix + static_cast<long long>(row + of_tile) * stride + column + of_row;
    const int left = column + of_row < columns ? rows - row - of_tile : 0;
#pragma unroll
    for (int i = 0; i < TILE_ROWS; i += PASS, from += static_cast<long long>(PASS) * stride) {
        copy<SIZE>(place(i, of_tile, of_row), from, i >= left);
    }
}

__device__ __forceinline__ void read(f32 (&to)[4], unsigned at) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(at)
                 : "memory");
}
__device__ __forceinline__ void read(f64 (&to)[2], unsigned at) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];\n" : "=d"(to[0]), "=d"(to[1]) : "r"(at) : "memory");
}

__device__ __forceinline__ void write(unsigned at, const f32 (&from)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(at), "f"(from[0]), "f"(from[1]), "f"(from[2]),
                 "f"(from[3])
                 : "memory");
}
__device__ __forceinline__ void write(unsigned at, const f64 (&from)[2]) {
    asm volatile("st.shared.v2.f64 [%0], {%1, %2};\n" ::"r"(at), "d"(from[0]), "d"(from[1]) : "memory");
}

// The chunks of k of one block of a cluster, `count` from `begin` on, up to element `end` of k.
struct Stretch {
    int begin, count, end;
};

__device__ __forceinline__ Stretch stretch_of(const Problem& p, int chunk, int rank) {
    const int chunks = (p.k - 1) / chunk + 1;
    const int begin = pieces::begin(chunks, rank, SPLITS), count = pieces::begin(chunks, rank + 1, SPLITS) - begin;
    return {begin, count, min((begin + count) * chunk, p.k)};
}

// Chunks through the stages: each is copied STAGES - 1 turns before it is used.
template <class CopyNext, class Use>
__device__ __forceinline__ void through_stages(int count, CopyNext copy_next, Use use) {
#pragma unroll
    for (int chunk = 0; chunk < STAGES - 1; ++chunk) copy_next(chunk);
#pragma unroll 1
    for (int chunk = 0; chunk < count; ++chunk) {
        cp_async::wait<STAGES - 2>();
        __syncthreads();  // a chunk has landed for all, and all have read the one before
        copy_next(chunk + STAGES - 1);
        use(chunk);
    }
}

// A piece of the product's row, from `column` on.
template <bool ALIGNED>
__device__ __forceinline__ void store(const Problem& p, int row, int column, const Piece& sums) {
    if (row >= p.m || column >= p.n) return;
    REAL* const target = p.c + static_cast<long long>(row) * p.n + column;
    Piece result;
#pragma unroll
    for (int e = 0; e < PIECE; ++e) {
        result[e] = p.alpha * sums[e];
        // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
        if (p.beta != REAL(0) && column + e < p.n) result[e] += p.beta * target[e];
    }
    if constexpr (!ALIGNED) {
#pragma unroll
        for (int e = 0; e < PIECE; ++e) {
            if (column + e < p.n) target[e] = result[e];
        }
    } else if constexpr (PIECE == 4) {
        *reinterpret_cast<float4*>(target) = make_float4(result[0], result[1], result[2], result[3]);
    } else {
        *reinterpret_cast<double2*>(target) = make_double2(result[0], result[1]);
    }
}

// Where the blocks of a cluster add their sums of one tile, in lines of 32 pieces: line l in block l % SPLITS. What a line
// is a sum of, this knows not.
template <int LINES>
struct Meeting {
    static constexpr int LINE_BYTES = WARP * PIECE_BYTES;
    static constexpr int SLOT_BYTES = (LINES + SPLITS - 1) / SPLITS * LINE_BYTES;  // of one other block

    unsigned slots, barrier;  // shared addresses
    int rank;

    __device__ __forceinline__ bool owns(int line) const { return line % SPLITS == rank; }

    // By all threads, at the beginning of the kernel.
    __device__ __forceinline__ void begin() const {
        if (threadIdx.x == 0) {
            const int lines = (LINES - rank + SPLITS - 1) / SPLITS;
            cluster_parts::expect(barrier, (SPLITS - 1) * lines * LINE_BYTES);
        }
        cluster_parts::arrive();
    }

    // To the block that owns the line, where those that come j + 1 behind it, in the circle of ranks, have slot j.
    __device__ __forceinline__ void send(int line, const Piece& piece) const {
        const int owner = line % SPLITS;
        const unsigned slot = (rank + SPLITS - 1 - owner) % SPLITS;
        const unsigned at = slots + slot * SLOT_BYTES + line / SPLITS * LINE_BYTES + threadIdx.x % WARP * PIECE_BYTES;
        cluster_parts::store_quad(cluster_parts::in_block(at, owner), cluster_parts::in_block(barrier, owner), piece);
    }

    __device__ __forceinline__ void wait() const { cluster_parts::wait_for_bytes(barrier); }

    // What the others have of a line, in the circle's order: the sums are the same every time.
    __device__ __forceinline__ void add(int line, Piece& piece) const {
#pragma unroll
        for (int slot = 0; slot < SPLITS - 1; ++slot) {
            cluster_parts::add_quad(piece, slots + slot * SLOT_BYTES + line / SPLITS * LINE_BYTES +
                                               threadIdx.x % WARP * PIECE_BYTES);
        }
    }
};

}  // namespace skinny
