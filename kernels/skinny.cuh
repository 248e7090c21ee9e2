// Products of which one dimension of C is 16 or less, or 32: what matmul_few_rows and matmul_few_columns share.
//
// A tile of C has SIDE rows or columns, all of them. So one operand is large and read once, and the other one is small and
// read by everybody: the large one goes straight from memory to the registers of the lane that multiplies it, in pieces
// of 16 bytes, the small one through shared memory. Whoever includes this defines REAL, WARPS and SPLITS, and may define SIDE.

#pragma once

#include "cluster_parts.cuh"
#include "cp_async.cuh"

#ifndef SIDE
#define SIDE 16  // rows or columns of a tile
#endif

using f32 = float;
using f64 = double;

namespace skinny {

constexpr int WARP = 32;
constexpr int THREADS = WARPS * WARP;
constexpr int BLOCKS_PER_SM = 256 / THREADS;  // up to 255 registers for each of 256 threads
constexpr int PIECE_BYTES = 16;
constexpr int PIECE = PIECE_BYTES / sizeof(REAL);
constexpr int STAGES = 3;  // chunks of the small operand: in use, landed, on its way

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

// 16 bytes that nobody will read again, past L1; zeros where they are not `wanted`.
__device__ __forceinline__ void stream(f32 (&to)[4], const f32* from, int wanted) {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %5, 0;\n"
        "mov.f32 %0, 0f00000000;\n"
        "mov.f32 %1, 0f00000000;\n"
        "mov.f32 %2, 0f00000000;\n"
        "mov.f32 %3, 0f00000000;\n"
        "@wanted ld.global.nc.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "=&f"(to[0]), "=&f"(to[1]), "=&f"(to[2]), "=&f"(to[3])
        : "l"(from), "r"(wanted));
}
__device__ __forceinline__ void stream(f64 (&to)[2], const f64* from, int wanted) {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %3, 0;\n"
        "mov.f64 %0, 0d0000000000000000;\n"
        "mov.f64 %1, 0d0000000000000000;\n"
        "@wanted ld.global.nc.L1::no_allocate.L2::256B.v2.f64 {%0, %1}, [%2];\n"
        "}\n"
        : "=&d"(to[0]), "=&d"(to[1])
        : "l"(from), "r"(wanted));
}

// A piece of a row that has `left` more elements from there on (none or less: zeros).
template <bool ALIGNED>
__device__ __forceinline__ void load(Piece& to, const REAL* from, int left) {
    if constexpr (ALIGNED) {
        stream(to, from, left > 0);
    } else {
#pragma unroll
        for (int e = 0; e < PIECE; ++e) to[e] = left > e ? __ldg(from + e) : REAL(0);
    }
}

// Elements of a row that are a warp's lanes apart, each of neighbours for the warp.
__device__ __forceinline__ void load_apart(Piece& to, const REAL* from, int left) {
#pragma unroll
    for (int e = 0; e < PIECE; ++e) to[e] = left > e * WARP ? __ldg(from + e * WARP) : REAL(0);
}

// The same to shared memory, asynchronously. `inside`: an address that may be named by copies that are all zeros.
template <bool ALIGNED>
__device__ __forceinline__ void copy(unsigned to, const REAL* from, int left, const REAL* inside) {
    if constexpr (ALIGNED) {
        cp_async::copy(to, reinterpret_cast<const char*>(left > 0 ? from : inside), 1, left > 0 ? PIECE_BYTES : 0);
    } else {
#pragma unroll
        for (int e = 0; e < PIECE; ++e) {
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(to + e * int(sizeof(REAL))),
                         "l"(left > e ? from + e : inside), "n"(sizeof(REAL)), "r"(left > e ? int(sizeof(REAL)) : 0)
                         : "memory");
        }
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
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(barrier) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
                         "r"((SPLITS - 1) * lines * LINE_BYTES)
                         : "memory");
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

    __device__ __forceinline__ void wait() const {
        unsigned done = 0;
        do {
            asm volatile(
                "{\n"
                ".reg .pred done;\n"
                "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], 0;\n"
                "selp.u32 %0, 1, 0, done;\n"
                "}\n"
                : "=r"(done)
                : "r"(barrier)
                : "memory");
        } while (!done);
    }

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
