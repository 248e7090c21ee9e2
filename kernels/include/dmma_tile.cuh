// One thread block's tile of a double-precision product on the tensor cores: what the kernels share that
// deal out the same work in different ways (matmul_dmma_staged, matmul_dmma_persistent, matmul_dmma_stream_k).
//
// A, B and C are row-major. The instructions compute the transpose, C' = B' A': what they call A are 16 columns
// of B, what they call B are 8 rows of A. Then both operands come in pieces of 16 bytes that are two neighbouring
// registers of an instruction, as it needs them; the other way round each piece would have to be taken apart
// by moves between registers. An instruction does not care which k and which columns it gets, as long as its
// operands and its sums agree:
// * of 8 neighbouring k (an octet) lane t of a quad has k 2t and 2t + 1, one piece of a row of A; they stand
//   for k t and t + 4 of the instruction. Of B it reads rows 2t and 2t + 1;
// * quad q reads columns 2q and 2q + 1, one piece of a row of B; they stand for rows q and q + 8 of the
//   instruction. Its sums then are pieces of C, and the eight quads have a whole line of a row.
//
// A chunk of A has rows of 16 k, a line of 128 bytes each, one of B rows of TILE_N columns, lines without padding.
// Within its line piece p of row r of A lies at p xor 4 (r mod 2), piece p of row k of B at
// p xor 2 (k / 2 mod 4): each quarter of a warp's 16-byte read then meets every bank once, and a copy of
// whole lines moves each of them from one line into one other.
//
// Who includes this defines TILE_M, TILE_N, WARP_M, STAGES and DEPTH. With TEAMS a block is several teams of
// threads (threadIdx.y), each with a tile, stages and a barrier of its own; an SM then holds RESIDENT warps.

#pragma once

#include "cp_async.cuh"
#include "raster.cuh"

using f64 = double;

namespace dmma {

constexpr int CHUNK = 16;      // k of a pipeline stage
constexpr int WARP = 32;
constexpr int WARP_N = 32;     // columns of a warp's tile
constexpr int PIECE = 2;       // doubles of 16 bytes
constexpr int PIECE_BYTES = 16;
constexpr int LINE_BYTES = 128;
constexpr int OCTET = 8;
constexpr int ROWS = 16;     // of A that are multiplied at once: two instructions' worth
constexpr int COLUMNS = 16;  // of B: an instruction's

constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int WARPS = TILE_M / WARP_M * WARPS_N;
constexpr int THREADS = WARPS * WARP;
constexpr int TILES_M = WARP_M / ROWS;
constexpr int TILES_N = WARP_N / COLUMNS;

constexpr int STEPS = CHUNK / OCTET;  // an octet each

// Sums take WARP_M x WARP_N / 16 registers of a thread. An SM's registers hold 8 warps of 64x32, 12 of 48x32 or 16 of
// 32x32.
constexpr int WARPS_PER_SM = WARP_M == 64 ? 8 : WARP_M == 48 ? 12 : 16;
// With two warps on a quarter of an SM the columns of B are loaded a step ahead. Four hide that wait, and so do three of
// 48x32, whose registers are full.
#ifdef TEAMS
constexpr bool AHEAD = RESIDENT < 16 && WARP_M != 48;
#else
constexpr bool AHEAD = WARPS_PER_SM < 16;
#endif
constexpr int BLOCKS_PER_SM = WARPS_PER_SM / WARPS > 1 ? WARPS_PER_SM / WARPS : 1;

constexpr int A_ROW_BYTES = CHUNK * 8;
constexpr int B_ROW_BYTES = TILE_N * 8;
constexpr int A_BYTES = TILE_M * A_ROW_BYTES;
constexpr int STAGE_BYTES = A_BYTES + CHUNK * B_ROW_BYTES;  // rows of A, then rows of B

constexpr int A_ROW_PIECES = CHUNK / PIECE;
constexpr int B_ROW_PIECES = TILE_N / PIECE;
constexpr int A_PASS_ROWS = THREADS / A_ROW_PIECES;  // rows that the block copies at once
constexpr int B_PASS_ROWS = THREADS / B_ROW_PIECES;
constexpr int A_COPIES = TILE_M / A_PASS_ROWS;
constexpr int B_COPIES = CHUNK / B_PASS_ROWS;
constexpr int COPIES = A_COPIES + B_COPIES;
// Copies are begun for the chunk that is so many chunks further: all stages but the one that was still read when
// the last barrier passed.
constexpr int DISTANCE = STAGES - 1;
constexpr int ROUNDS = STEPS * TILES_M;  // of 16 rows, in a chunk
constexpr int COPIES_PER_ROUND = (COPIES + ROUNDS - 1) / ROUNDS;
constexpr int B_LOADS = TILES_N * 2;  // 16-byte reads of a lane that bring a step's B
constexpr int B_LOADS_PER_UNIT = (B_LOADS + TILES_M - 1) / TILES_M;

constexpr int GROUP = 2048 / TILE_M;  // tile rows that are walked together

static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warp tiles fill the block's tile");
static_assert(WARP_M == 64 || WARP_M == 48 || WARP_M == 32, "WARP_M: what registers hold");
static_assert(ROUNDS % 2 == 0, "an even number of rounds, so that two sets of A take turns");
static_assert(A_ROW_BYTES == LINE_BYTES, "a row of A is a line of shared memory");
static_assert(DEPTH == 0 || DEPTH == 8, "DEPTH: k of an instruction, 0 for 8x8x4");
static_assert(A_COPIES * A_PASS_ROWS == TILE_M && A_PASS_ROWS % 2 == 0, "whole passes over A, one swizzle");
static_assert(B_COPIES * B_PASS_ROWS == CHUNK && B_PASS_ROWS > 0, "whole passes over B");
static_assert((B_PASS_ROWS & (B_PASS_ROWS - 1)) == 0, "B's swizzle of a pass is an xor of the first one's");
static_assert(STEPS == 2, "the two sets of columns take turns");
static_assert(STAGES > 2, "STAGES: one chunk has landed, one is written, one is read");

using Tile = f64[2][TILES_N][4];  // of 16 rows: rows 0 to 7 and 8 to 15
using Sums = Tile[TILES_M];

struct Problem {
    const f64* a;
    const f64* b;
    f64* c;
    int m, n, k;
    f64 alpha, beta;
};

// First row and column of a tile in C.
struct Place {
    int row, column;

    // Tiles past an edge of the matrices, or with a k that ends within a chunk, have to ask before copying.
    __device__ __forceinline__ bool edge(const Problem& problem) const {
        return row + TILE_M > problem.m || column + TILE_N > problem.n || problem.k % CHUNK != 0;
    }
};

__device__ __forceinline__ int tile_rows(const Problem& problem) { return (problem.m - 1) / TILE_M + 1; }
__device__ __forceinline__ int tile_columns(const Problem& problem) { return (problem.n - 1) / TILE_N + 1; }
__device__ __forceinline__ int tiles_of(const Problem& problem) {
    return tile_rows(problem) * tile_columns(problem);
}
__device__ __forceinline__ int chunks_of(const Problem& problem) { return (problem.k - 1) / CHUNK + 1; }

__device__ __forceinline__ Place place_of(int tile, const Problem& problem) {
    const raster::Square square(tile, tile_rows(problem), tile_columns(problem), GROUP);
    const int column = square.column();
    return {square.row() * TILE_M, column * TILE_N};
}

// The number of a thread, and what follows from it. It is read anew wherever it is asked for: what follows
// from it would otherwise stay in registers that the main loop needs.
struct Thread {
    int id;

    __device__ __forceinline__ Thread() { asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id)); }
    __device__ __forceinline__ int quad() const { return id % WARP / 4; }  // rows of A, columns of B and C
    __device__ __forceinline__ int of_quad() const { return id % 4; }      // k, rows of C
    __device__ __forceinline__ int warp_row() const { return id / WARP / WARPS_N * WARP_M; }
    __device__ __forceinline__ int warp_column() const { return id / WARP % WARPS_N * WARP_N; }
};

// The threads that have a tile in common.
__device__ __forceinline__ void meet() {
#ifdef TEAMS
    asm volatile("bar.sync %0, %1;\n" ::"r"(threadIdx.y + 1), "n"(THREADS) : "memory");
#else
    __syncthreads();
#endif
}

// One double; only `.ca` copies less than 16 bytes.
__device__ __forceinline__ void copy_element(unsigned destination, const char* source, int wanted, int bytes) {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %2, 0;\n"
        "@wanted cp.async.ca.shared.global.L2::128B [%0], [%1], 8, %3;\n"
        "}\n" ::"r"(destination),
        "l"(source), "r"(wanted), "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void load_piece(f64& first, f64& second, unsigned address) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];\n" : "=d"(first), "=d"(second) : "r"(address) : "memory");
}

// A thread's part of an octet: of 8 rows of A two k, of 16 columns of B the same k and two columns of each.
using Row = f64[2];
using Column = f64[2][2];

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
constexpr int MMA_K = DEPTH;  // 16 rows; they came with compute capability 9.0
#else
constexpr int MMA_K = 0;
#endif

// sum += b a over four k (`which` of each thread's two), by 8x8x4 for either half of the columns: any GPU with
// tensor cores for doubles. volatile keeps the order of the source, in which copies and loads stand between
// the products.
__device__ __forceinline__ void mma_small(f64 (&sum)[4], const Row& a, const Column& b, int which, int half) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
                 : "+d"(sum[2 * half]), "+d"(sum[2 * half + 1])
                 : "d"(b[which][half]), "d"(a[which]));
}

__device__ __forceinline__ void mma_8(f64 (&sum)[4], const Row& a, const Column& b) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(b[0][0]), "d"(b[0][1]), "d"(b[1][0]), "d"(b[1][1]), "d"(a[0]), "d"(a[1]));
#endif
}

// A thread's operands: of 16 rows of A, and of all columns of the warp, for one step.
using Rows = Row[2];
using Columns = Column[TILES_N];

// The products of 16 rows and all columns of the warp, for one step.
__device__ __forceinline__ void multiply(Tile& sums, const Rows& a, const Columns& b) {
    // Two that add to the same sum are as far apart as can be.
#pragma unroll
    for (int which = 0; which < (MMA_K == 8 ? 1 : 2); ++which) {
#pragma unroll
        for (int j = 0; j < TILES_N; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if constexpr (MMA_K == 8) {
                    mma_8(sums[half][j], a[half], b[j]);
                } else {
                    mma_small(sums[half][j], a[half], b[j], which, 0);
                    mma_small(sums[half][j], a[half], b[j], which, 1);
                }
            }
        }
    }
}

// How the rows of A and B may be copied.
enum Kind {
    INSIDE,  // in pieces, without asking
    PIECES,  // in pieces that are inside the matrices or outside as a whole: n and k are even
    ELEMENTS
};

// A thread's share of the copies, chunk by chunk: one piece of every PASS_ROWS-th row.
template <int KIND>
struct Copies {
    const char* a;       // this thread's piece of its first row in the chunk that is copied next
    const char* b;
    const char* inside;  // an address that may be named by copies that are all zeros
    long long a_step;    // bytes from a row to that of the next pass
    long long b_step;
    unsigned a_shared, b_shared;  // where the first piece goes in a stage
    int rows, columns;            // that are left of A and B from this thread's first ones on
    int a_depth, b_depth;         // elements that are left along k

    __device__ __forceinline__ Copies(const Problem& problem, const Place& place, int first_chunk,
                                      unsigned stages) {
        const Thread thread;
        const int first = first_chunk * CHUNK;
        const int a_row = thread.id / A_ROW_PIECES;
        const int a_piece = thread.id % A_ROW_PIECES;
        const int b_row = thread.id / B_ROW_PIECES;
        const int b_piece = thread.id % B_ROW_PIECES;
        const int a_first = first + a_piece * PIECE;
        const int b_first = place.column + b_piece * PIECE;
        // 64-bit offsets: a matrix may have more than 2^31 elements.
        a = reinterpret_cast<const char*>(problem.a + static_cast<long long>(place.row + a_row) * problem.k +
                                          a_first);
        b = reinterpret_cast<const char*>(problem.b + static_cast<long long>(first + b_row) * problem.n +
                                          b_first);
        inside = reinterpret_cast<const char*>(problem.a);
        a_step = static_cast<long long>(A_PASS_ROWS) * problem.k * 8;
        b_step = static_cast<long long>(B_PASS_ROWS) * problem.n * 8;
        a_shared = stages + a_row * A_ROW_BYTES + (a_piece ^ a_row % 2 * 4) * PIECE_BYTES;
        b_shared = stages + A_BYTES + b_row * B_ROW_BYTES + (b_piece ^ b_row / 2 % 4 * 2) * PIECE_BYTES;
        rows = problem.m - place.row - a_row;
        columns = problem.n - b_first;
        a_depth = problem.k - a_first;
        b_depth = problem.k - first - b_row;
    }

    // The copies FIRST to LAST - 1 of the chunk, into the stage at `stage` bytes.
    __device__ __forceinline__ void start(unsigned stage, int first, int last, int wanted) const {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            if (i < first || i >= last) continue;
            const bool of_a = i < A_COPIES;
            const int pass = of_a ? i : i - A_COPIES;
            const char* const source = of_a ? a + pass * a_step : b + pass * b_step;
            // The rows of a pass are a power of two, and this thread's row in the first pass is below it: the
            // sum of both is their xor, and so is its swizzle.
            const unsigned destination =
                of_a ? a_shared + stage + pass * A_PASS_ROWS * A_ROW_BYTES
                     : (b_shared ^ pass * B_PASS_ROWS / 2 % 4 * 2 * PIECE_BYTES) + stage +
                           pass * B_PASS_ROWS * B_ROW_BYTES;
            if (KIND == INSIDE) {
                cp_async::copy(destination, source, wanted);
                continue;
            }
            const bool row = of_a ? rows > pass * A_PASS_ROWS : b_depth > pass * B_PASS_ROWS;
            const int along = of_a ? a_depth : columns;  // elements of this row from this piece on
            if (KIND == PIECES) {
                const bool read = row && along > 0;
                cp_async::copy(destination, read ? source : inside, wanted, read ? 16 : 0);
            } else {
#pragma unroll
                for (int element = 0; element < PIECE; ++element) {
                    const bool read = row && along > element;
                    copy_element(destination + element * 8, read ? source + element * 8 : inside, wanted,
                                 read ? 8 : 0);
                }
            }
        }
    }

    __device__ __forceinline__ void advance() {
        a += A_ROW_BYTES;
        b += B_COPIES * b_step;
        if (KIND != INSIDE) {
            a_depth -= CHUNK;
            b_depth -= CHUNK;
        }
    }
};

// A warp's reading side: where this lane's pieces lie.
struct Reader {
    unsigned a, b;

    __device__ __forceinline__ explicit Reader(unsigned stages) {
        const Thread thread;
        const int quad = thread.quad();
        const int t = thread.of_quad();
        a = stages + (thread.warp_row() + quad) * A_ROW_BYTES + (t ^ quad % 2 * 4) * PIECE_BYTES;
        b = stages + A_BYTES + 2 * t * B_ROW_BYTES + thread.warp_column() * 8 + (quad ^ t * 2) * PIECE_BYTES;
    }

    // The 16 rows `i` of a step. The two octets of a chunk lie side by side on a line, where the swizzle is an xor.
    __device__ __forceinline__ void rows(Rows& target, unsigned stage, int step, int i) const {
        const unsigned line = (step % 2 ? a ^ 4 * PIECE_BYTES : a) + stage;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            load_piece(target[half][0], target[half][1], line + (i * ROWS + half * 8) * A_ROW_BYTES);
        }
    }

    // The reads FIRST to LAST - 1 of those that bring a step's columns.
    __device__ __forceinline__ void columns(Columns& target, unsigned stage, int step, int first, int last) const {
#pragma unroll
        for (int i = 0; i < B_LOADS; ++i) {
            if (i < first || i >= last) continue;
            const int which = i % 2;
            const int j = i / 2;
            const int row = step * OCTET + which;
            load_piece(target[j][which][0], target[j][which][1], b + stage + row * B_ROW_BYTES + j * LINE_BYTES);
        }
    }
};

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[i][half][j][e] = 0.0;
            }
        }
    }
}

__device__ __forceinline__ unsigned next_stage(unsigned stage) {
    return stage == (STAGES - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
}

// The main loop of a tile: the copies run ahead by whole chunks, the rows of A by 16 rows, the columns of B by
// one step.
template <int KIND>
struct Loop {
    Copies<KIND> copies;
    Reader reader;
    Rows a[2];     // that are multiplied, and the next ones
    Columns b[2];  // of the step that is multiplied, and of the next one
    unsigned reading, writing;

    __device__ __forceinline__ Loop(const Problem& problem, const Place& place, int first_chunk, unsigned stages)
        : copies(problem, place, first_chunk, stages), reader(stages), reading(0),
          writing((DISTANCE - 1) * STAGE_BYTES) {}

    // One chunk of `left`. `advance` goes on to the chunk that is copied next.
    template <class Advance>
    __device__ __forceinline__ void chunk(Sums& sums, int left, const Advance& advance) {
        // The copies of a chunk begin behind a barrier, in the last step, and go on to the next one: evenly spread,
        // or the operands queue behind them. So the first steps end what the chunk before has begun.
        const int wanted = left > DISTANCE;
        const int wanted_before = left >= DISTANCE;
        // Behind the last chunk nothing has landed: its first step is read again, for nothing.
        const unsigned next = left > 1 ? next_stage(reading) : reading;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool last_step = step == STEPS - 1;
            const int now = AHEAD ? step % 2 : 0;
            if (!AHEAD) reader.columns(b[0], reading, step, 0, B_LOADS);
            if (last_step) {
                end_copies(wanted_before, advance);
                // The next step is the next chunk's. This barrier also says that nobody reads the chunk before
                // this one any more.
                cp_async::wait<STAGES - 3>();  // own copies of the next chunk have landed ...
                meet();                        // ... and so have those of all other threads
            }
#pragma unroll
            for (int i = 0; i < TILES_M; ++i) {
                const bool last_row = i == TILES_M - 1;
                const int set = (step * TILES_M + i) % 2;
                if (last_row) {
                    reader.rows(a[1 - set], last_step ? next : reading, last_step ? 0 : step + 1, 0);
                } else {
                    reader.rows(a[1 - set], reading, step, i + 1);
                }
                if (AHEAD) {
                    reader.columns(b[1 - now], last_step ? next : reading, last_step ? 0 : step + 1,
                               i * B_LOADS_PER_UNIT, (i + 1) * B_LOADS_PER_UNIT);
                }
                const int round = last_step ? i : (step + 1) * TILES_M + i;
                copies.start(writing, round * COPIES_PER_ROUND, (round + 1) * COPIES_PER_ROUND,
                             last_step ? wanted : wanted_before);
                multiply(sums[i], a[set], b[now]);
            }
        }
        reading = next;
    }

    // The chunk has been asked for.
    template <class Advance>
    __device__ __forceinline__ void end_copies(int wanted, const Advance& advance) {
        cp_async::commit();
        if (wanted) advance();
        writing = next_stage(writing);
    }

    // Fills the pipeline with the first of `chunks` chunks.
    template <class Advance>
    __device__ __forceinline__ void begin(int chunks, const Advance& advance) {
        // Every chunk commits a group, an empty one where no chunk is left: the number of groups to wait for
        // then does not depend on k, and a k shorter than the pipeline needs no case of its own.
        constexpr int WHOLE = DISTANCE - 1;
#pragma unroll
        for (int chunk = 0; chunk < WHOLE; ++chunk) {
            copies.start(chunk * STAGE_BYTES, 0, COPIES, chunk < chunks);
            cp_async::commit();
            if (chunk < chunks) advance();
        }
        copies.start(WHOLE * STAGE_BYTES, 0, TILES_M * COPIES_PER_ROUND, WHOLE < chunks);
        cp_async::wait<WHOLE - 1>();
        meet();
        reader.rows(a[0], 0, 0, 0);
        if (AHEAD) reader.columns(b[0], 0, 0, 0, B_LOADS);
    }

    __device__ __forceinline__ void run(Sums& sums, int chunks) {
        const auto advance = [&] { copies.advance(); };
        begin(chunks, advance);
        clear(sums);
        int left = chunks;
#pragma unroll 1
        do chunk(sums, left, advance);
        while (--left != 0);
    }
};

// C = alpha sums + beta C, two columns at a time. beta = 0 must not read C: ADD says that it is another one.
template <int KIND, bool ADD>
__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    const Thread thread;
    const int first_row = place.row + thread.warp_row() + thread.of_quad() * 2;
    const int first_column = place.column + thread.warp_column() + thread.quad() * 2;
    f64* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;
    const int rows = problem.m - first_row;  // that are left from this lane's first one on
    const int columns = problem.n - first_column;
#pragma unroll
    for (int eight = 0; eight < TILES_M * 2; ++eight) {
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const int row = eight * 8 + which;
            f64* const start = first + static_cast<long long>(row) * problem.n;
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) {
                const int column = j * COLUMNS;
                if (KIND != INSIDE && (row >= rows || column >= columns)) continue;
                const f64 (&sum)[4] = sums[eight / 2][eight % 2][j];
                f64* const target = start + column;
                f64 left = problem.alpha * sum[which];
                f64 right = problem.alpha * sum[2 + which];
                if (KIND != ELEMENTS) {
                    if (ADD) {
                        const double2 old = *reinterpret_cast<const double2*>(target);
                        left += problem.beta * old.x;
                        right += problem.beta * old.y;
                    }
                    *reinterpret_cast<double2*>(target) = make_double2(left, right);
                } else {
                    target[0] = ADD ? left + problem.beta * target[0] : left;
                    if (column + 1 < columns) target[1] = ADD ? right + problem.beta * target[1] : right;
                }
            }
        }
    }
}

template <int KIND>
__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    if (problem.beta != 0.0) {
        store<KIND, true>(sums, problem, place);
    } else {
        store<KIND, false>(sums, problem, place);
    }
}

template <int KIND>
__device__ __forceinline__ void compute(const Problem& problem, const Place& place, unsigned stages) {
    Loop<KIND> loop(problem, place, 0, stages);
    Sums sums;
    loop.run(sums, chunks_of(problem));
    store<KIND>(sums, problem, place);
}

// Computes one tile, as a block's only one.
__device__ __forceinline__ void compute(const Problem& problem, const Place& place) {
    extern __shared__ __align__(128) unsigned char stages[];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    if ((problem.n | problem.k) % 2 != 0) {
        compute<ELEMENTS>(problem, place, shared);
    } else if (place.edge(problem)) {
        compute<PIECES>(problem, place, shared);
    } else {
        compute<INSIDE>(problem, place, shared);
    }
}

}  // namespace dmma
