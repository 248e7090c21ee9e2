// One thread block's tile of a matrix product by mma.sync, of any type: what the kernels share that deal out the same work
// in different ways (hgemm_mma, hgemm_split_k, hgemm_stream_k, matmul_mma).
//
// A is row-major, B column-major: both are contiguous along k. In bytes of k all types are alike: 32 bytes are one mma,
// whose operands lie in 8x16-byte matrices. A chunk is 128 bytes deep, so that one of its rows is all banks of shared
// memory once. Rows are not padded: the 16-byte piece p of row r lies at place p xor (r mod 8). The eight rows that one
// matrix of ldmatrix reads then lie in different banks, and a cp.async that brings whole rows moves each of them from one
// 128-byte line into one other.
//
// Who includes this defines TYPE, TILE_M, TILE_N, STAGES and RASTER.

#pragma once

#include "cp_async.cuh"
#include "mma_types.cuh"
#include "raster.cuh"

namespace mma_tile {

template <class T>
struct Types {  // of C and of the sum
    using Out = T;
    using Sum = f32;
};
template <>
struct Types<tf32> {
    using Out = f32;
    using Sum = f32;
};
template <>
struct Types<i8> {
    using Out = i32;
    using Sum = i32;
};

using In = TYPE;
using Out = Types<In>::Out;
using Sum = Types<In>::Sum;

constexpr int CHUNK = 128 / static_cast<int>(sizeof(In));  // k depth of a pipeline stage
constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int MMA_K = 32 / static_cast<int>(sizeof(In));
constexpr int STEPS = CHUNK / MMA_K;
constexpr int WARP = 32;

// A warp computes 64x64 where the tile is large enough to leave four warps: 32 mma for 8 ldmatrix. Small
// tiles keep four warps of smaller tiles instead, one for each quarter of an SM.
constexpr int WARP_M = TILE_M == 64 && TILE_N <= 128 ? 32 : 64;
constexpr int WARP_N = TILE_N == 64 && TILE_M <= 128 ? 32 : 64;
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int WARPS = TILE_M / WARP_M * WARPS_N;
constexpr int THREADS = WARPS * WARP;
constexpr int MMAS_M = WARP_M / MMA_M;
constexpr int MMAS_N = WARP_N / MMA_N;

// Blocks that an SM shall hold: 255, 255, 168 and 128 registers a thread.
constexpr int AREA = TILE_M * TILE_N;
constexpr int BLOCKS_PER_SM = AREA >= 256 * 128 ? 1 : AREA >= 128 * 128 ? 2 : AREA >= 128 * 64 ? 3 : 4;

// STAGES 0: three, but two where the third would leave an H100's SM with one block instead of two.
constexpr int PIPELINE = STAGES != 0 ? STAGES : TILE_M + TILE_N == 256 + 64 ? 2 : 3;

constexpr int CHUNK_BYTES = 128;
constexpr int STAGE_BYTES = (TILE_M + TILE_N) * CHUNK_BYTES;  // rows of A, then columns of B
constexpr int PIECE = 16 / static_cast<int>(sizeof(In));     // elements of one cp.async: 16 bytes
constexpr int ROW_PIECES = CHUNK / PIECE;
constexpr int PASS_ROWS = THREADS / ROW_PIECES;              // rows that the block copies at once
constexpr int A_COPIES = TILE_M / PASS_ROWS;
constexpr int B_COPIES = TILE_N / PASS_ROWS;
constexpr int COPIES = A_COPIES + B_COPIES;
constexpr int COPIES_PER_STEP = (COPIES + STEPS - 2) / (STEPS - 1);

constexpr int GROUP = RASTER / TILE_M > 1 ? RASTER / TILE_M : 1;  // tile rows that are walked together

static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warp tiles fill the block's tile");
static_assert(WARP_N % 32 == 0, "the epilogue exchanges four mma tiles of 8 columns within four lanes");
static_assert(WARPS == (AREA / 4096 > 4 ? AREA / 4096 : 4), "the front matter launches this many warps");
static_assert(A_COPIES * PASS_ROWS == TILE_M && B_COPIES * PASS_ROWS == TILE_N, "whole passes");
static_assert(PASS_ROWS % 8 == 0, "every pass finds the swizzle of the first");
static_assert(PIPELINE >= 2, "STAGES: one chunk is computed while another one is copied");

// Enumerators, because constants lie among a cubin's data and one more would make another cubin.
enum { PIECE_BYTES = 16, MMA_BYTES = 32 };

using Sums = Sum[MMAS_M][MMAS_N][4];

struct Problem {
    const In* a;
    const In* b;
    Out* c;
    int m, n, k;
    Sum alpha, beta;
};

__device__ __forceinline__ int tile_rows(const Problem& problem) { return (problem.m - 1) / TILE_M + 1; }
__device__ __forceinline__ int tile_columns(const Problem& problem) { return (problem.n - 1) / TILE_N + 1; }
__device__ __forceinline__ int tiles_of(const Problem& problem) {
    return tile_rows(problem) * tile_columns(problem);
}
__device__ __forceinline__ int chunks_of(const Problem& problem) { return (problem.k - 1) / CHUNK + 1; }

// The number of a thread, and what follows from it. It is read anew wherever it is asked for: a kernel with
// several tiles would otherwise keep all that follows from it in registers that the main loop needs.
struct Thread {
    int id;

    __device__ __forceinline__ Thread() { asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id)); }
    __device__ __forceinline__ int lane() const { return id % WARP; }
    __device__ __forceinline__ int warp_row() const { return id / WARP / WARPS_N * WARP_M; }
    __device__ __forceinline__ int warp_column() const { return id / WARP % WARPS_N * WARP_N; }
};

__device__ __forceinline__ void load_matrices(unsigned (&words)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// What distinguishes the types: the instruction. volatile keeps the order of the source, in which copies and
// loads stand between the mma.
template <class T>
struct Kind {};
#define MMA(SHAPE_AND_TYPES, CONSTRAINT)                                                                  \
    asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                     \
                 : CONSTRAINT(sum[0]), CONSTRAINT(sum[1]), CONSTRAINT(sum[2]), CONSTRAINT(sum[3])         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

__device__ __forceinline__ void mma(Kind<f16>, f32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
}
__device__ __forceinline__ void mma(Kind<bf16>, f32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
}
__device__ __forceinline__ void mma(Kind<tf32>, f32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
}
__device__ __forceinline__ void mma(Kind<i8>, i32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}
#undef MMA

// Where this lane's row and piece of the first step of a stage lie; what ldmatrix is given.
struct Rows {
    unsigned a, b;

    // ldmatrix takes the address of 16 bytes of a row from each lane: 0 to 7 those of the first matrix, and
    // so on. A's matrices: rows 0-7 and 8-15 of the first piece, then of the second; B's: columns 0-7 of the
    // first and of the second piece, then columns 8-15. That is the order of mma's registers.
    __device__ __forceinline__ explicit Rows(unsigned shared) {
        const Thread thread;
        const int lane = thread.lane();
        const int a_row = lane % 16;
        const int a_piece = lane / 16;
        const int b_row = lane % 8 + lane / 16 * 8;
        const int b_piece = lane / 8 % 2;
        a = shared + (thread.warp_row() + a_row) * CHUNK_BYTES + (a_piece ^ a_row % 8) * PIECE_BYTES;
        b = shared + (TILE_M + thread.warp_column() + b_row) * CHUNK_BYTES +
            (b_piece ^ b_row % 8) * PIECE_BYTES;
    }
    __device__ __forceinline__ Rows(unsigned a, unsigned b) : a(a), b(b) {}

    // A step is two pieces further; the swizzle is an xor, and so is the way from step to step.
    __device__ __forceinline__ Rows at(unsigned stage, int step) const {
        const unsigned within = step * MMA_BYTES;
        return {(a ^ within) + stage, (b ^ within) + stage};
    }
};

// A warp's operands of one step, 32 bytes of k, in registers.
struct Operands {
    unsigned a[MMAS_M][4];
    unsigned b[MMAS_N / 2][4];  // two tiles of 8 columns each

    __device__ __forceinline__ void load_a(int i, unsigned rows) {
        load_matrices(a[i], rows + i * MMA_M * CHUNK_BYTES);
    }
    __device__ __forceinline__ void load_b(int j, unsigned rows) {
        load_matrices(b[j], rows + j * 2 * MMA_N * CHUNK_BYTES);
    }
    __device__ __forceinline__ void load(const Rows& rows) {
#pragma unroll
        for (int j = 0; j < MMAS_N / 2; ++j) load_b(j, rows.b);
#pragma unroll
        for (int i = 0; i < MMAS_M; ++i) load_a(i, rows.a);
    }
};

// The tile of B that comes `nth` beside row `i` of A: back and forth, so that the last pair is still at hand.
__device__ __forceinline__ constexpr int column_of(int i, int nth) {
    return i % 2 ? MMAS_N - 1 - nth : nth;
}

// One product of two mma tiles.
__device__ __forceinline__ void multiply(Sums& sums, const Operands& operands, int i, int j) {
    const unsigned(&pair)[4] = operands.b[j / 2];
    mma(Kind<In>(), sums[i][j], operands.a[i], pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
        for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
        }
    }
}

__device__ __forceinline__ unsigned next_stage(unsigned stage) {
    return stage == (PIPELINE - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
}

[[maybe_unused]] __device__ __forceinline__ float2 unpack(Kind<f16>, unsigned word) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
[[maybe_unused]] __device__ __forceinline__ float2 unpack(Kind<bf16>, unsigned word) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
}
[[maybe_unused]] __device__ __forceinline__ unsigned pack(Kind<f16>, f32 low, f32 high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}
[[maybe_unused]] __device__ __forceinline__ unsigned pack(Kind<bf16>, f32 low, f32 high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// Transposes the 4x4 words of four neighbouring lanes: word i of lane j becomes word j of lane i.
__device__ __forceinline__ void transpose(unsigned (&words)[4], int lane) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool upper = (lane & bit) != 0;
#pragma unroll
        for (int low = 0; low < 4; ++low) {
            if (low & bit) continue;
            const int high = low + bit;
            const unsigned given = upper ? words[low] : words[high];
            const unsigned taken = __shfl_xor_sync(0xffffffffu, given, bit);
            words[low] = upper ? taken : words[low];
            words[high] = upper ? words[high] : taken;
        }
    }
}

// 16 bytes of C, or zeros where `inside` is false; a predicate, so that many loads are in flight.
__device__ __forceinline__ void load_piece(unsigned (&words)[4], const Out* source, bool inside) {
    words[0] = words[1] = words[2] = words[3] = 0;
    asm volatile(
        "{\n"
        ".reg .pred inside;\n"
        "setp.ne.b32 inside, %5, 0;\n"
        "@inside ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
        : "l"(source), "r"(static_cast<int>(inside))
        : "memory");
}

// First row and column of a tile in C.
struct Place {
    int row, column;

    // Tiles past an edge of the matrices, or with a k that ends within a chunk, have to ask before copying.
    __device__ __forceinline__ bool edge(const Problem& problem) const {
        return row + TILE_M > problem.m || column + TILE_N > problem.n || problem.k % CHUNK != 0;
    }
};

__device__ __forceinline__ Place place_of(int tile, const Problem& problem) {
    const raster::Square square(tile, tile_rows(problem), tile_columns(problem), GROUP);
    const int column = square.column();
    return {square.row() * TILE_M, column * TILE_N};
}

// A thread's share of the copies, chunk by chunk: piece `thread mod 8` of every PASS_ROWS-th row.
template <bool EDGE>
struct Copies {
    const char* a;       // this thread's piece of its first row in the chunk that is copied next
    const char* b;
    const char* inside;  // an address that may be named by copies that are all zeros
    long long step;      // bytes from a row to that of the next pass
    unsigned shared;     // where the first piece goes in a stage
    int rows_a, rows_b;  // rows that are left in A and in B, from this thread's first one on
    int depth;           // elements that are left along k, from this thread's first one on

    __device__ __forceinline__ Copies(const Problem& problem, const Place& place, int first_chunk,
                                      unsigned stages) {
        const Thread thread;
        const int row = thread.id / ROW_PIECES;
        const int piece = thread.id % ROW_PIECES;
        const int first = first_chunk * CHUNK + piece * PIECE;
        const long long pitch = problem.k;
        a = reinterpret_cast<const char*>(problem.a + (place.row + row) * pitch + first);
        b = reinterpret_cast<const char*>(problem.b + (place.column + row) * pitch + first);
        inside = reinterpret_cast<const char*>(problem.a);
        step = PASS_ROWS * pitch * static_cast<int>(sizeof(In));
        shared = stages + row * CHUNK_BYTES + (piece ^ row % 8) * 16;
        rows_a = problem.m - place.row - row;
        rows_b = problem.n - place.column - row;
        depth = problem.k - first;
    }

    // The copies FIRST to LAST - 1 of the chunk, into the stage at `stage` bytes.
    __device__ __forceinline__ void start(unsigned stage, int first, int last, int wanted) const {
        const char* source = first < A_COPIES ? a + first * step : b + (first - A_COPIES) * step;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            if (i < first || i >= last) continue;
            const int pass = i < A_COPIES ? i : i - A_COPIES;
            if (i > first) source = pass == 0 ? b : source + step;
            const unsigned destination = shared + stage + i * PASS_ROWS * CHUNK_BYTES;
            if (EDGE) {
                const bool read = (i < A_COPIES ? rows_a : rows_b) > pass * PASS_ROWS && depth > 0;
                cp_async::copy(destination, read ? source : inside, wanted, read ? 16 : 0);
            } else {
                cp_async::copy(destination, source, wanted);
            }
        }
    }

    __device__ __forceinline__ void advance() {
        a += CHUNK_BYTES;
        b += CHUNK_BYTES;
        if (EDGE) depth -= CHUNK;
    }
};

// The products of the rows FIRST to LAST - 1 of mma tiles.
__device__ __forceinline__ void multiply_rows(Sums& sums, const Operands& operands, int first, int last) {
#pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        if (i < first || i >= last) continue;
#pragma unroll
        for (int nth = 0; nth < MMAS_N; ++nth) multiply(sums, operands, i, column_of(i, nth));
    }
}

// Sums the products of `chunks` (at least one) chunks from `first_chunk` on. All warps have
// read their last operands when the function's last barrier has passed, but for one harmless load.
template <bool EDGE>
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, const Place& place,
                                           int first_chunk, int chunks) {
    extern __shared__ __align__(128) unsigned char stages[];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    Copies<EDGE> copies(problem, place, first_chunk, shared);

    const Rows rows(shared);

    // Every chunk commits a group, an empty one where no chunk is left: the number of groups to wait for
    // then does not depend on k, and a k shorter than the pipeline needs no case of its own.
#pragma unroll
    for (int chunk = 0; chunk < PIPELINE - 1; ++chunk) {
        copies.start(chunk * STAGE_BYTES, 0, COPIES, chunk < chunks);
        cp_async::commit();
        copies.advance();
    }
    cp_async::wait<PIPELINE - 2>();
    __syncthreads();

    Operands operands[2];  // of the step that is multiplied and of the next one
    unsigned reading = 0;
    unsigned writing = (PIPELINE - 1) * STAGE_BYTES;
    operands[0].load(rows.at(reading, 0));
    clear(sums);

#pragma unroll 1
    for (int left = chunks; left > 0; --left) {
        const int wanted = left >= PIPELINE;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                // All operands of this chunk are in registers or on their way there.
                cp_async::wait<PIPELINE - 2>();  // own copies of the next chunk have landed ...
                __syncthreads();                 // ... and so have those of all other threads
                // Behind the last chunk nothing has landed: its first step is read again, for nothing.
                if (left > 1) reading = next_stage(reading);
            }
            operands[(step + 1) % 2].load(rows.at(reading, (step + 1) % STEPS));
            multiply_rows(sums, operands[step % 2], 0, MMAS_M / 2);
            // The copies stand between the products: the next operands must not queue behind them. The
            // stage written here was last read before the barrier of the previous chunk.
            if (step < STEPS - 1) {
                copies.start(writing, step * COPIES_PER_STEP, (step + 1) * COPIES_PER_STEP, wanted);
            }
            if (step == STEPS - 2) {
                cp_async::commit();
                copies.advance();
                writing = next_stage(writing);
            }
            multiply_rows(sums, operands[step % 2], MMAS_M / 2, MMAS_M);
        }
    }
}

// Only tiles at an edge pay for asking.
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, const Place& place,
                                           int first_chunk, int chunks) {
    if (place.edge(problem)) {
        accumulate<true>(sums, problem, place, first_chunk, chunks);
    } else {
        accumulate<false>(sums, problem, place, first_chunk, chunks);
    }
}

// C of 16 bits. Four neighbouring lanes hold one row of an mma tile, two columns each. Across
// four such tiles they exchange words until each lane has the eight columns of one tile: 16 bytes a lane,
// 64 contiguous bytes of a row for four lanes, whole sectors, and no shared memory. beta = 0 must not read
// C: ADD says that it is another one.
template <bool ADD, class T>
__device__ __forceinline__ void store_halves(const Sums& sums, const Problem& problem, const Place& place) {
    constexpr int FOURS = MMAS_N / 4;
    constexpr int COLUMNS = 8;  // of a piece
    const Thread thread;
    const int lane = thread.lane();
    const int first_row = place.row + thread.warp_row() + lane / 4;
    const int first_column = place.column + thread.warp_column() + lane % 4 * COLUMNS;
    Out* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;
    const int rows = problem.m - first_row;        // that are left from this lane's first one on
    const int columns = problem.n - first_column;  // n is a multiple of 8: a piece is in or out as a whole

    // Half of the rows at a time: what is loaded of C waits in registers beside the sums.
#pragma unroll
    for (int batch = 0; batch < 2; ++batch) {
        [[maybe_unused]] unsigned before[MMAS_M][FOURS][4];
        if (ADD) {
#pragma unroll
            for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
                for (int four = 0; four < FOURS; ++four) {
                    const int row = (batch * MMAS_M + i) * 8;
                    const int column = four * 4 * MMA_N;
                    const Out* const source = first + static_cast<long long>(row) * problem.n + column;
                    load_piece(before[i][four], source, row < rows && column < columns);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
            for (int four = 0; four < FOURS; ++four) {
                const int eight = batch * MMAS_M + i;  // rows 0 to 7 and 8 to 15 of each mma tile
                if (ADD) transpose(before[i][four], lane);
                unsigned words[4];
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    const Sum* const sum = &sums[eight / 2][four * 4 + w][eight % 2 * 2];
                    f32 low = problem.alpha * sum[0];
                    f32 high = problem.alpha * sum[1];
                    if (ADD) {
                        const float2 old = unpack(Kind<T>(), before[i][four][w]);
                        low += problem.beta * old.x;
                        high += problem.beta * old.y;
                    }
                    words[w] = pack(Kind<T>(), low, high);
                }
                transpose(words, lane);
                const int row = eight * 8;
                const int column = four * 4 * MMA_N;
                if (row < rows && column < columns) {
                    Out* const target = first + static_cast<long long>(row) * problem.n + column;
                    *reinterpret_cast<uint4*>(target) = make_uint4(words[0], words[1], words[2], words[3]);
                }
            }
        }
    }
}

// C of 32 bits: the two columns of a lane are 8 bytes, four lanes fill a sector as they are.
template <bool ADD, class T>
__device__ __forceinline__ void store_words(const Sums& sums, const Problem& problem, const Place& place) {
    struct __align__(8) Pair {
        T low, high;
    };
    const Thread thread;
    const int first_row = place.row + thread.warp_row() + thread.lane() / 4;
    const int first_column = place.column + thread.warp_column() + thread.lane() % 4 * 2;
    const int rows = problem.m - first_row;
    const int columns = problem.n - first_column;
    Out* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;
#pragma unroll
    for (int eight = 0; eight < 2 * MMAS_M; ++eight) {
        Pair* const row = reinterpret_cast<Pair*>(first + static_cast<long long>(eight * 8) * problem.n);
        [[maybe_unused]] Pair before[MMAS_N];
        if (ADD) {
#pragma unroll
            for (int j = 0; j < MMAS_N; ++j) {
                before[j] = {};
                if (eight * 8 < rows && j * MMA_N < columns) before[j] = row[j * MMA_N / 2];
            }
        }
#pragma unroll
        for (int j = 0; j < MMAS_N; ++j) {
            const Sum* const sum = &sums[eight / 2][j][eight % 2 * 2];
            Pair result = {problem.alpha * sum[0], problem.alpha * sum[1]};
            if (ADD) {
                result.low += problem.beta * before[j].low;
                result.high += problem.beta * before[j].high;
            }
            if (eight * 8 < rows && j * MMA_N < columns) row[j * MMA_N / 2] = result;
        }
    }
}

// C = alpha sums + beta C.
template <bool ADD, class T = Out>
__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    if constexpr (sizeof(T) == 2) {
        store_halves<ADD, T>(sums, problem, place);
    } else {
        store_words<ADD, T>(sums, problem, place);
    }
}

__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    if (problem.beta != 0) {
        store<true>(sums, problem, place);
    } else {
        store<false>(sums, problem, place);
    }
}

}  // namespace mma_tile
