// One thread block's tile of a single-precision product on the FMA units, fed by cp.async: what the rungs
// share that differ in a thread's outputs and in who has which tile (matmul_async, matmul_wide_tile,
// matmul_balanced, matmul_two_launches, matmul_cluster).
//
// A, B and C are row-major. A chunk is STEP deep. In shared memory it lies as [k][row] of A, transposed by
// copies of 4 bytes, and [k][column] of B, by copies of 16 bytes: what a thread needs for one k are quads
// of neighbours in both. Whoever includes this defines TILE_M, TILE_N, THREAD_M, THREAD_N (outputs of a
// thread), STEP and STAGES, and may define EDGE_QUADS 0, where few tiles stick out of C: as 1 it brings B in quads
// there, too, but gives the loop of whole tiles other registers, whose banks meet more often. PAIRS 1 brings B by 8
// bytes where not by 16 and n is even (`accumulate`); it may cost the loop of whole tiles some moves.

#pragma once

#include "cp_async.cuh"

#ifndef EDGE_QUADS
#define EDGE_QUADS 1
#endif
#ifndef PAIRS
#define PAIRS 0
#endif

namespace sgemm {

constexpr int WARP = 32;
constexpr int QUAD = 4;  // floats of a 16-byte access
// Rows of C that are walked together.
constexpr int RASTER = 2048;

// Warp tiles are 64 x 64, or 32 x 64 of 8 x 8 outputs a thread. The quads of a thread's rows (columns)
// are LANES_M (LANES_N) quads apart, so that the lanes of one access read neighbours.
constexpr int LANES_M = THREAD_M == 8 && THREAD_N == 16 ? 8 : 4;
constexpr int LANES_N = WARP / LANES_M;
constexpr int WARP_M = LANES_M * THREAD_M;
constexpr int WARP_N = LANES_N * THREAD_N;
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = TILE_M / WARP_M * WARPS_N * WARP;
// 65,536 registers are 255 for each of 256 threads with 128 sums, or 128 for each of 512 with 64.
constexpr int BLOCKS_PER_SM = 256 * 128 / (TILE_M * TILE_N) > 1 ? 256 * 128 / (TILE_M * TILE_N) : 1;

// Four floats more in a row of the transposed A: the next k is then four banks further on, and the 8 k of 4
// rows that a warp's copy writes fall in 32 different banks.
constexpr int A_ROW = TILE_M + 4;
constexpr int B_ROW = TILE_N;
constexpr int A_STAGE = STEP * A_ROW;
constexpr int STAGE_BYTES = (A_STAGE + STEP * B_ROW) * 4;

// Copies of A: a warp brings 8 k (one sector) of 4 rows.
constexpr int A_LANES = 8;
constexpr int A_PASS = THREADS / A_LANES;  // rows that the block copies at once
constexpr int A_ROWS = TILE_M / A_PASS;    // rows of a thread
constexpr int A_DEPTHS = STEP / A_LANES;   // and its k of each
// Copies of B, 16 bytes each: a thread stays in one row, so that one pointer is enough but at an edge.
constexpr int B_LANES = THREADS / STEP;
constexpr int B_QUADS = TILE_N / QUAD / B_LANES;
// Copies of B, 8 bytes each, where rows are whole pairs: a thread stays in its column of pairs.
constexpr int PAIR_LANES = TILE_N / 2;
constexpr int PAIR_PASS = THREADS / PAIR_LANES;
// Copies of B, 4 bytes each, for what is not aligned: it stays in its columns.
constexpr int B_PASS = THREADS > TILE_N ? THREADS / TILE_N : 1;
constexpr int B_COLUMNS = THREADS > TILE_N ? 1 : TILE_N / THREADS;

static_assert(THREAD_M % QUAD == 0 && THREAD_N % QUAD == 0, "a thread's rows and columns come in quads");
static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warp tiles fill the block's tile");
static_assert(THREADS * THREAD_M * THREAD_N == TILE_M * TILE_N, "the front matter launches this many threads");
static_assert(A_ROWS * A_PASS == TILE_M && A_DEPTHS * A_LANES == STEP, "whole passes over A");
static_assert(B_QUADS * B_LANES * QUAD == TILE_N && STEP % B_PASS == 0, "whole passes over B");
static_assert(PAIR_PASS * PAIR_LANES == THREADS && STEP % PAIR_PASS == 0, "whole passes over pairs of B");
static_assert(STEP % 2 == 0, "the two sets of operands change places at every k");
static_assert(STAGES >= 3, "a chunk in use, one that has landed, one on its way");

struct Problem {
    const float *__restrict__ a, *__restrict__ b;
    float* __restrict__ c;
    int m, n, k;
    float alpha, beta;
};

// First row and column of a block's tile.
struct Place {
    int row, column;
};

// Tiles are walked in groups of RASTER rows, down the group's rows first: blocks that run at the same
// time share rows of A and columns of B in L2.
static __device__ __forceinline__ Place place_of(int number, const Problem& p) {
    constexpr int GROUP = RASTER / TILE_M > 1 ? RASTER / TILE_M : 1;
    const int tiles_m = (p.m + TILE_M - 1) / TILE_M;
    const int tiles_n = (p.n + TILE_N - 1) / TILE_N;
    const int group = number / (GROUP * tiles_n);
    const int inside = number % (GROUP * tiles_n);
    const int rows = min(GROUP, tiles_m - group * GROUP);
    return {(group * GROUP + inside % rows) * TILE_M, inside / rows * TILE_N};
}

// BYTES 4, 8 or 16 from global to shared memory; the second form writes zeros where `inside` is false.
template <int BYTES>
static __device__ __forceinline__ void copy(unsigned to, const float* from) {
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
    }
}
template <int BYTES>
static __device__ __forceinline__ void copy(unsigned to, const float* from, bool inside) {
    const int bytes = inside ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(bytes) : "memory");
    }
}

static __device__ __forceinline__ unsigned shared_address(const float* place) {
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// The operands of one k.
struct Operands {
    float a[THREAD_M];
    float b[THREAD_N];
};

template <int COUNT, int APART>
static __device__ __forceinline__ void read_quads(float (&to)[COUNT], const float* from) {
#pragma unroll
    for (int i = 0; i < COUNT; i += QUAD) {
        const float4 four = *reinterpret_cast<const float4*>(from + i / QUAD * APART);
        to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
}

// Whether rows of B and C are whole quads.
static __device__ __forceinline__ bool in_quads(int n) { return n % QUAD == 0; }

// Rows of B in a block's tile: WHOLE quads, which do not reach beyond n; of TWO floats at least, as n is a multiple of 2; or
// ANY, of quads where n is a multiple of 4 and EDGE_QUADS is 1. The loop is compiled for each: one for all would have other
// registers.
enum class Rows { WHOLE, TWO, ANY };

// Brings a block's chunks. Rows and columns beyond C are read from its last row and columns instead: what they add to is
// not stored.
template <Rows ROWS>
struct Copies {
    static constexpr bool WIDE = ROWS == Rows::WHOLE, IN_PAIRS = ROWS == Rows::TWO;
    static constexpr int AT_EDGE = EDGE_QUADS && B_QUADS > B_COLUMNS ? B_QUADS : B_COLUMNS;
    static constexpr int POINTERS = ROWS == Rows::ANY ? AT_EDGE : 1;
    const float* a_from[A_ROWS];
    const float* b_from[POINTERS];
    unsigned a_to, b_to;  // shared addresses
    int a_k, b_k, n;

    __device__ __forceinline__ Copies(const Problem& p, const Place& place, const float* shared, int first_k) : n(p.n) {
        const int thread = threadIdx.x;
        const int a_row = thread / A_LANES;
        a_k = thread % A_LANES;
        a_to = shared_address(shared + a_k * A_ROW + a_row);
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
            const int row = min(place.row + a_row + i * A_PASS, p.m - 1);
            a_from[i] = p.a + static_cast<long long>(row) * p.k + first_k + a_k;
        }
        if constexpr (IN_PAIRS) {
            begin_b<2, PAIR_LANES, 0>(p, place, shared, first_k);
        } else if (WIDE || (EDGE_QUADS && in_quads(n))) {
            begin_b<QUAD, B_LANES, B_LANES * QUAD>(p, place, shared, first_k);
        } else {
            begin_b<1, TILE_N, THREADS>(p, place, shared, first_k);
        }
    }

    // `depth` below STEP: zeros from there on. `stage`: first byte of the stage.
    template <bool WHOLE>
    __device__ __forceinline__ void issue(unsigned stage, int depth) const {
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) {
#pragma unroll
            for (int d = 0; d < STEP; d += A_LANES) {
                one<4, WHOLE>(a_to + stage + (d * A_ROW + i * A_PASS) * 4, a_from[i] + d, a_k + d < depth);
            }
        }
        if constexpr (IN_PAIRS) {
#pragma unroll
            for (int d = 0; d < STEP; d += PAIR_PASS) {
                one<8, WHOLE>(b_to + stage + d * B_ROW * 4, b_from[0] + static_cast<long long>(d) * n, b_k + d < depth);
            }
        } else if (WIDE || (EDGE_QUADS && in_quads(n))) {
#pragma unroll
            for (int i = 0; i < B_QUADS; ++i) {
                const int apart = i * B_LANES * QUAD;
                one<16, WHOLE>(b_to + stage + apart * 4, WIDE ? b_from[0] + apart : b_from[i % POINTERS], b_k < depth);
            }
        } else {
#pragma unroll
            for (int d = 0; d < STEP; d += B_PASS) {
#pragma unroll
                for (int i = 0; i < B_COLUMNS; ++i) {
                    one<4, WHOLE>(b_to + stage + (d * B_ROW + i * THREADS) * 4,
                                  b_from[i] + static_cast<long long>(d) * n, b_k + d < depth);
                }
            }
        }
    }
    __device__ __forceinline__ void advance(int depth) {
#pragma unroll
        for (int i = 0; i < A_ROWS; ++i) a_from[i] += depth;
#pragma unroll
        for (int i = 0; i < POINTERS; ++i) b_from[i] += static_cast<long long>(depth) * n;
    }

  private:
    // Where this thread's copies of B begin: UNIT floats each, in a row of which LANES threads share the work; of several
    // pointers each is APART floats behind the one before.
    template <int UNIT, int LANES, int APART>
    __device__ __forceinline__ void begin_b(const Problem& p, const Place& place, const float* shared, int first_k) {
        const int thread = threadIdx.x;
        b_k = thread / LANES;
        const int b_column = thread % LANES * UNIT;
        b_to = shared_address(shared + A_STAGE + b_k * B_ROW + b_column);
#pragma unroll
        for (int i = 0; i < POINTERS; ++i) {
            const int column = place.column + b_column + i * APART;
            b_from[i] = p.b + static_cast<long long>(first_k + b_k) * n + (WIDE ? column : min(column, n - UNIT));
        }
    }

    template <int BYTES, bool WHOLE>
    static __device__ __forceinline__ void one(unsigned to, const float* from, bool inside) {
        if constexpr (WHOLE) {
            copy<BYTES>(to, from);
        } else {
            copy<BYTES>(to, inside ? from : nullptr, inside);
        }
    }
};

// The oldest chunk on its way has landed for all threads, and all have read the one before to its end.
static __device__ __forceinline__ void arrive() {
    cp_async::wait<STAGES - 2>();
    __syncthreads();
}

// The outer product, back and forth so that each multiply-add shares a factor with the one before, which the
// operand cache keeps.
static __device__ __forceinline__ void multiply(float (&sum)[THREAD_M][THREAD_N], const Operands& of) {
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
        for (int step = 0; step < THREAD_M; ++step) {
            const int i = j % 2 ? THREAD_M - 1 - step : step;
            sum[i][j] += of.a[i] * of.b[j];
        }
    }
}

using Sums = float[THREAD_M][THREAD_N];

static __device__ __forceinline__ int chunks_of(const Problem& p) { return (p.k + STEP - 1) / STEP; }

static __device__ __forceinline__ int tiles_of(const Problem& p) {
    return (p.m + TILE_M - 1) / TILE_M * ((p.n + TILE_N - 1) / TILE_N);
}

static __device__ __forceinline__ void clear(Sums& sum) {
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) sum[i][j] = 0.0f;
    }
}

// Whether the tile's rows of B can be copied in 16-byte pieces without asking where they end, and those of C stored so.
static __device__ __forceinline__ bool is_wide(const Problem& p, const Place& place) {
    return in_quads(p.n) && place.column + TILE_N <= p.n;
}

// The first of a thread's rows and columns in the block's tile.
struct Thread {
    int row, column;

    __device__ __forceinline__ Thread() {
        // Lane bit 0 counts columns and bit 1 rows: lanes i and i xor 2 read the same quad of B, lanes i and i xor
        // 1 the same quad of A, so quarter-warps merge and every 16-byte read takes two wavefronts.
        const int lane = threadIdx.x % WARP;
        const int warp = threadIdx.x / WARP;
        const int lane_m = lane >> 1 & (LANES_M - 1);
        const int lane_n = (lane & 1) | (lane / LANES_M & (LANES_N - 2));
        row = warp / WARPS_N * WARP_M + lane_m * QUAD;
        column = warp % WARPS_N * WARP_N + lane_n * QUAD;
    }
};

constexpr int ALL = -1;  // for `end`: to the last chunk

// The sums of the chunks `begin` to `end` - 1. Chunk 0 is the one that may be short: all others are copied
// without a question.
template <Rows ROWS>
static __device__ __forceinline__ void accumulate(Sums& sum, const Problem& p, const Place& place,
                                                  const Thread& thread, int begin, int end) {
    extern __shared__ __align__(16) float shared[];
    constexpr unsigned LAST = (STAGES - 1) * STAGE_BYTES;

    // What the thread reads first of the present stage.
    const float* a_read = shared + thread.row;
    const float* b_read = shared + A_STAGE + thread.column;
    const auto read = [&](Operands& to, int k) {
        read_quads<THREAD_M, LANES_M * QUAD>(to.a, a_read + k * A_ROW);
        read_quads<THREAD_N, LANES_N * QUAD>(to.b, b_read + k * B_ROW);
    };

    const int short_depth = p.k % STEP == 0 ? STEP : p.k % STEP;
    const int first_depth = begin == 0 ? short_depth : STEP;
    int to_multiply = (end == ALL ? chunks_of(p) : end) - begin;  // chunks
    int to_copy = to_multiply - 1;
    Copies<ROWS> copies(p, place, shared, begin == 0 ? 0 : short_depth + (begin - 1) * STEP);
    copies.template issue<false>(0, first_depth);
    cp_async::commit();
    copies.advance(first_depth);
#pragma unroll
    for (int s = 1; s < STAGES - 1; ++s) {
        if (to_copy > 0) {
            copies.template issue<true>(s * STAGE_BYTES, STEP);
            copies.advance(STEP);
        }
        cp_async::commit();
        --to_copy;
    }
    arrive();

    clear(sum);
    Operands operands[2];
    unsigned target = LAST;  // stage, in bytes, of the next copies; the present one is the next after it
    read(operands[0], 0);
#pragma unroll 1
    for (; to_multiply > 1; --to_multiply) {
#pragma unroll
        for (int k = 0; k < STEP - 1; ++k) {
            read(operands[(k + 1) % 2], k + 1);
            if (k == 1) {
                // Into the stage that was read before the last barrier. All copies stand together: ptxas puts
                // three empty reads before every group of them.
                if (to_copy > 0) {
                    copies.template issue<true>(target, STEP);
                    copies.advance(STEP);
                }
                cp_async::commit();
            }
            multiply(sum, operands[k % 2]);
        }
        --to_copy;
        target = target == LAST ? 0 : target + STAGE_BYTES;
        const int onward = target == LAST ? -static_cast<int>(LAST / 4) : STAGE_BYTES / 4;
        a_read += onward;
        b_read += onward;
        arrive();
        read(operands[0], 0);
        // The old chunk's last k is in registers already; it hides the reads just issued.
        multiply(sum, operands[(STEP - 1) % 2]);
    }
#pragma unroll
    for (int k = 0; k < STEP; ++k) {
        if (k + 1 < STEP) read(operands[(k + 1) % 2], k + 1);
        multiply(sum, operands[k % 2]);
    }
}

// The same, however rows of B are.
static __device__ __forceinline__ void accumulate(Sums& sum, const Problem& p, const Place& place, int begin, int end) {
    if (is_wide(p, place)) {
        accumulate<Rows::WHOLE>(sum, p, place, Thread(), begin, end);
    } else if (PAIRS && p.n % 2 == 0 && !(EDGE_QUADS && in_quads(p.n))) {
        accumulate<Rows::TWO>(sum, p, place, Thread(), begin, end);
    } else {
        accumulate<Rows::ANY>(sum, p, place, Thread(), begin, end);
    }
}

// Shared memory of a warp, in floats, that quads of its lanes pass through: their rows with a gap, for other banks.
constexpr int STRIP_ROW = (LANES_N + 1) * QUAD;
constexpr int STRIP = LANES_M * STRIP_ROW;

static __device__ __forceinline__ float result_of(const Problem& p, float sum, const float* old) {
    // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
    return p.beta != 0.0f ? p.alpha * sum + p.beta * *old : p.alpha * sum;
}

// To C, by all lanes of a warp: the sums of quad `j` of each thread's row `i`. Where rows of C are no whole quads they pass
// through the warp's `strip`, so that lanes store neighbours: from where they are, each store would have every fourth float.
static __device__ __forceinline__ void store_four(const float* sums, int i, int j, const Problem& p, const Place& place,
                                                  const Thread& thread, float* strip) {
    const int row = place.row + thread.row + i / QUAD * LANES_M * QUAD + i % QUAD;
    const int column = place.column + thread.column + j * LANES_N * QUAD;
    if (in_quads(p.n)) {
        if (row >= p.m || column >= p.n) return;
        float* const target = p.c + static_cast<long long>(row) * p.n + column;
        *reinterpret_cast<float4*>(target) =
            make_float4(result_of(p, sums[0], target), result_of(p, sums[1], target + 1), result_of(p, sums[2], target + 2),
                        result_of(p, sums[3], target + 3));
        return;
    }
    const int lane_m = thread.row % WARP_M / QUAD, lane_n = thread.column % WARP_N / QUAD;
    *reinterpret_cast<float4*>(strip + lane_m * STRIP_ROW + lane_n * QUAD) = make_float4(sums[0], sums[1], sums[2], sums[3]);
    __syncwarp();
#pragma unroll
    for (int s = 0; s < QUAD; ++s) {
        const int number = s * WARP + threadIdx.x % WARP;
        const int line = number / (LANES_N * QUAD), float_of_line = number % (LANES_N * QUAD);
        const int to_row = row + (line - lane_m) * QUAD, to_column = column + float_of_line - lane_n * QUAD;
        if (to_row < p.m && to_column < p.n) {
            float* const target = p.c + static_cast<long long>(to_row) * p.n + to_column;
            *target = result_of(p, strip[line * STRIP_ROW + float_of_line], target);
        }
    }
    __syncwarp();
}

// This warp's strip where the stages are, for rows of C that are no whole quads. By all threads of the block: none reads
// operands any more.
static __device__ __forceinline__ float* strip_of_stages(const Problem& p) {
    extern __shared__ __align__(16) float shared[];
    static_assert(THREADS / WARP * STRIP * 4 <= STAGES * STAGE_BYTES, "the stages have room for strips");
    if (!in_quads(p.n)) __syncthreads();
    return shared + threadIdx.x / WARP * STRIP;
}

template <bool WIDE>
static __device__ __forceinline__ void store(const Sums& sum, const Problem& p, const Place& place,
                                             const Thread& thread) {
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        const int c_row = place.row + thread.row + i / QUAD * LANES_M * QUAD + i % QUAD;
        if (c_row >= p.m) continue;
#pragma unroll
        for (int j = 0; j < THREAD_N; j += QUAD) {
            const int c_column = place.column + thread.column + j / QUAD * LANES_N * QUAD;
            float* target = p.c + static_cast<long long>(c_row) * p.n + c_column;
            const float* four = &sum[i][j];
            // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
            if constexpr (WIDE) {
                float4 result =
                    make_float4(p.alpha * four[0], p.alpha * four[1], p.alpha * four[2], p.alpha * four[3]);
                if (p.beta != 0.0f) {
                    const float4 old = *reinterpret_cast<const float4*>(target);
                    result.x += p.beta * old.x;
                    result.y += p.beta * old.y;
                    result.z += p.beta * old.z;
                    result.w += p.beta * old.w;
                }
                *reinterpret_cast<float4*>(target) = result;
            } else {
#pragma unroll
                for (int e = 0; e < QUAD; ++e) {
                    if (c_column + e >= p.n) continue;
                    float result = p.alpha * four[e];
                    if (p.beta != 0.0f) result += p.beta * target[e];
                    target[e] = result;
                }
            }
        }
    }
}

template <Rows ROWS>
static __device__ __forceinline__ void product(const Problem& p, const Place& place) {
    const Thread thread;
    Sums sum;
    accumulate<ROWS>(sum, p, place, thread, 0, ALL);
    store<ROWS == Rows::WHOLE>(sum, p, place, thread);
}

// A thread block with one tile.
static __device__ __forceinline__ void run(const Problem& p) {
    const Place place = place_of(blockIdx.x, p);
    if (is_wide(p, place)) {
        product<Rows::WHOLE>(p, place);
    } else {
        product<Rows::ANY>(p, place);
    }
}

}  // namespace sgemm
