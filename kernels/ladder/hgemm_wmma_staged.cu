/*---
title: Tensor cores fed by an asynchronous copy pipeline (256x128 block tile)
follows: hgemm_wmma
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: ACCUMULATE}
layouts: {a: row, b: col, c: row}
macros:
  STAGES: [3, 2, 4]          # chunks of shared memory in flight or in use
  SKEW: [8, 0]               # halves of padding behind each row of a chunk
  COPY: [cg, ca]             # cp.async through L2 only, or through L1 as well
  RASTER: [16, 1]            # thread blocks of one grid row; 1: no block without work
  ACCUMULATE: [f16, f32]
tile: [256, 128, 32]
block: [256]
grid: [RASTER, "ceil(m / 256)", "ceil(n / (128 * RASTER))"]
working_blocks: "ceil(m / 256) * ceil(n / 128)"
# the larger of the pipeline and of the epilogue, which uses the same bytes after it
shared_bytes: "max(STAGES * (256 + 128) * (32 + SKEW) * 2, 8 * 16 * (64 + 8) * size(ACCUMULATE))"
requires: {arch: 80, n: 8, k: 8, conditions: ["STAGES * (256 + 128) * (32 + SKEW) * 2 <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A thread block computes 256x128 outputs with eight warps of 64x64. While the tensor cores work on one
// 32-deep chunk of A and B, cp.async brings the next STAGES - 1 chunks from global to shared memory
// without passing through registers, and each warp already holds the fragments of its next 16-deep step.
// SKEW spreads the rows over the banks so that ldmatrix is free of conflicts; what the same padding costs
// the copies is a question for the counters.
//
// Copies beyond the edge of a matrix are filled with zeros and stores there are masked, so every m and
// every n and k that are multiples of 8 (one 16-byte copy) are right. Nothing outside the matrices is
// touched: a copy that is filled with zeros still names an address inside. Only blocks at an edge take
// that path: on an H200 the predicates cost a tenth of the speed.

#include <cuda_fp16.h>
#include <mma.h>

#include "cp_async.cuh"
#include "words.cuh"

using f32 = float;
using f16 = __half;

namespace {

namespace wmma = nvcuda::wmma;

constexpr int BLOCK_M = 256;
constexpr int BLOCK_N = 128;
constexpr int CHUNK = 32;       // k depth of one pipeline stage
constexpr int WARP_TILE = 64;   // outputs of a warp, both ways
constexpr int MMA = 16;         // m, n and k of one wmma operation
constexpr int WARP = 32;
constexpr int WARPS_N = BLOCK_N / WARP_TILE;
constexpr int WARPS = BLOCK_M / WARP_TILE * WARPS_N;
constexpr int FRAGMENTS = WARP_TILE / MMA;

constexpr int COPY_HALVES = 8;                       // one cp.async: 16 bytes
constexpr int ROW_LANES = CHUNK / COPY_HALVES;       // lanes that copy one row of a chunk
constexpr int COPY_ROWS = WARP / ROW_LANES;          // rows that a warp copies with one instruction
constexpr int A_COPIES = BLOCK_M / (WARPS * COPY_ROWS);
constexpr int B_COPIES = BLOCK_N / (WARPS * COPY_ROWS);

constexpr int ROW = CHUNK + SKEW;                    // halves from one row in shared memory to the next
constexpr int STAGE = (BLOCK_M + BLOCK_N) * ROW;     // halves of one stage: A's rows, then B's columns

// 8 elements of padding: fragment stores of 4- and of 8-byte pieces then fall in different banks.
constexpr int OUT_ROW = WARP_TILE + 8;
constexpr int OUT_TILE = MMA * OUT_ROW;

static_assert(STAGES >= 2, "STAGES: one chunk is computed while another one is copied");
static_assert(SKEW >= 0 && SKEW % 8 == 0, "SKEW: rows must stay 16-byte aligned for cp.async and ldmatrix");
static_assert(RASTER >= 1, "RASTER: at least one block in a grid row");
static_assert(WARPS * WARP == 256, "the front matter launches 256 threads");
static_assert(A_COPIES * COPY_ROWS * WARPS == BLOCK_M && B_COPIES * COPY_ROWS * WARPS == BLOCK_N,
              "each warp copies a whole number of rows");
static_assert(CHUNK == 2 * MMA, "the fragments are double-buffered over the two halves of a chunk");

using FragmentA = wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, f16, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, f16, wmma::col_major>;
using FragmentC = wmma::fragment<wmma::accumulator, MMA, MMA, MMA, ACCUMULATE>;

// Copies 16 bytes from global to shared memory.
__device__ __forceinline__ void copy_async(f16* destination, const f16* source) {
    const unsigned shared_address = static_cast<unsigned>(__cvta_generic_to_shared(destination));
    asm volatile("cp.async." TEXT(COPY) ".shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(shared_address),
                 "l"(source)
                 : "memory");
}

// The same, or 16 zero bytes where `inside` is false (the source is not read then). PTX ISA, cp.async:
// src-size smaller than cp-size fills the rest with zeros.
__device__ __forceinline__ void copy_async(f16* destination, const f16* source, bool inside) {
    const unsigned shared_address = static_cast<unsigned>(__cvta_generic_to_shared(destination));
    const int source_bytes = inside ? 16 : 0;
    asm volatile("cp.async." TEXT(COPY) ".shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared_address),
                 "l"(source), "r"(source_bytes)
                 : "memory");
}

__device__ __forceinline__ float2 unpack(unsigned word) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}

__device__ __forceinline__ unsigned pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ __forceinline__ void unpack(uint4 halves, float (&values)[8]) {
    const unsigned words[4] = {halves.x, halves.y, halves.z, halves.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack(words[i]);
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

// Reads eight neighbouring accumulators of the epilogue's tile.
[[maybe_unused]] __device__ __forceinline__ void read_staged(const f16* source, int, float (&values)[8]) {
    unpack(*reinterpret_cast<const uint4*>(source), values);
}

// Eight lanes that read 16 bytes each at a distance of 32 would meet in the same banks twice; every other
// group of four lanes therefore takes its second half first.
[[maybe_unused]] __device__ __forceinline__ void read_staged(const f32* source, int lane, float (&values)[8]) {
    const bool flip = lane / 4 % 2 != 0;
    const float4 first = *reinterpret_cast<const float4*>(source + (flip ? 4 : 0));
    const float4 second = *reinterpret_cast<const float4*>(source + (flip ? 0 : 4));
    const float4 low = flip ? second : first;
    const float4 high = flip ? first : second;
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
}

// What a thread needs to copy its share of any chunk. EDGE: the block's tile, or the last chunk, passes an
// edge of the matrices; the other blocks copy without asking, which is measurably faster.
template <bool EDGE>
struct Copies {
    const f16* a_rows[A_COPIES];  // first element of the rows of A that this thread copies from
    const f16* b_rows[B_COPIES];  // the same for the columns of B, which are contiguous along k
    unsigned inside;              // bit i: row i of A lies in the matrix; then the columns of B
    int shared_offset;            // halves from the start of a stage to this thread's first copy of A
    int shared_offset_b;
    int column;                   // first of this thread's eight elements within a chunk's row
    int k;

    // Rows beyond the matrix are clamped to its last one, so that their addresses stay inside.
    __device__ __forceinline__ Copies(const f16* a, const f16* b, int m, int n, int k, int first_row,
                                      int first_column)
        : inside(0), k(k) {
        const int warp = threadIdx.x / WARP;
        const int lane = threadIdx.x % WARP;
        const int row_a = warp * A_COPIES * COPY_ROWS + lane / ROW_LANES;
        const int row_b = warp * B_COPIES * COPY_ROWS + lane / ROW_LANES;
        column = lane % ROW_LANES * COPY_HALVES;
        shared_offset = row_a * ROW + column;
        shared_offset_b = (BLOCK_M + row_b) * ROW + column;
#pragma unroll
        for (int i = 0; i < A_COPIES; ++i) {
            const int row = first_row + row_a + i * COPY_ROWS;
            if (EDGE) inside |= static_cast<unsigned>(row < m) << i;
            a_rows[i] = a + static_cast<long long>(EDGE ? min(row, m - 1) : row) * k;
        }
#pragma unroll
        for (int i = 0; i < B_COPIES; ++i) {
            const int row = first_column + row_b + i * COPY_ROWS;
            if (EDGE) inside |= static_cast<unsigned>(row < n) << (A_COPIES + i);
            b_rows[i] = b + static_cast<long long>(EDGE ? min(row, n - 1) : row) * k;
        }
    }

    // Starts the copies of one chunk into `stage`.
    __device__ __forceinline__ void start(f16* stage, int chunk) const {
        const int wanted = chunk * CHUNK + column;
#pragma unroll
        for (int i = 0; i < A_COPIES + B_COPIES; ++i) {
            const bool of_a = i < A_COPIES;
            const int place = of_a ? i : i - A_COPIES;
            f16* const destination = stage + (of_a ? shared_offset : shared_offset_b) + place * COPY_ROWS * ROW;
            const f16* const row = of_a ? a_rows[place] : b_rows[place];
            if (EDGE) {
                copy_async(destination, row + min(wanted, k - COPY_HALVES), wanted < k && (inside >> i & 1u));
            } else {
                copy_async(destination, row + wanted);
            }
        }
    }
};

// A warp's operands of one 16-deep step.
struct Operands {
    FragmentA a[FRAGMENTS];
    FragmentB b[FRAGMENTS];

    __device__ __forceinline__ void load(const f16* a_tile, const f16* b_tile) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS; ++i) wmma::load_matrix_sync(a[i], a_tile + i * MMA * ROW, ROW);
#pragma unroll
        for (int j = 0; j < FRAGMENTS; ++j) wmma::load_matrix_sync(b[j], b_tile + j * MMA * ROW, ROW);
    }
};

__device__ __forceinline__ void multiply(FragmentC (&sums)[FRAGMENTS][FRAGMENTS], const Operands& operands) {
#pragma unroll
    for (int i = 0; i < FRAGMENTS; ++i) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; ++j) {
            wmma::mma_sync(sums[i][j], operands.a[i], operands.b[j], sums[i][j]);
        }
    }
}

__device__ __forceinline__ int next_stage(int stage) { return stage + 1 == STAGES ? 0 : stage + 1; }

// The pipeline: leaves the block's product in the warps' accumulators.
template <bool EDGE>
__device__ __forceinline__ void accumulate(FragmentC (&sums)[FRAGMENTS][FRAGMENTS], f16* stages, const f16* a,
                                           const f16* b, int m, int n, int k, int first_row, int first_column,
                                           int warp_row, int warp_column) {
    const Copies<EDGE> copies(a, b, m, n, k, first_row, first_column);
    const int chunks = (k + CHUNK - 1) / CHUNK;

    // Every step commits a group, an empty one where no chunk is left: the number of groups to wait for
    // then does not depend on k, and a k shorter than the pipeline needs no case of its own.
#pragma unroll
    for (int chunk = 0; chunk < STAGES - 1; ++chunk) {
        if (chunk < chunks) copies.start(stages + chunk * STAGE, chunk);
        cp_async::commit();
    }
    cp_async::wait<STAGES - 2>();
    __syncthreads();

    const f16* const a_tile = stages + warp_row * ROW;
    const f16* const b_tile = stages + (BLOCK_M + warp_column) * ROW;
    Operands even, odd;  // the first and the second 16 of a chunk
    even.load(a_tile, b_tile);

    int reading = 0;
    int writing = STAGES - 1;
    // The first half's products come before the copies: those fill the memory pipeline, and the fragments
    // of the second half must not queue behind them.
    int chunk = 0;
    for (; chunk + STAGES - 1 < chunks; ++chunk) {
        odd.load(a_tile + reading * STAGE + MMA, b_tile + reading * STAGE + MMA);
        multiply(sums, even);
        // The stage written now was last read before the barrier that ended the previous step.
        copies.start(stages + writing * STAGE, chunk + STAGES - 1);
        cp_async::commit();
        writing = next_stage(writing);
        cp_async::wait<STAGES - 2>();  // own copies of the next chunk have landed ...
        __syncthreads();            // ... and so have those of all other threads
        reading = next_stage(reading);
        even.load(a_tile + reading * STAGE, b_tile + reading * STAGE);
        multiply(sums, odd);
    }
    // The last chunks are on their way or here: nothing is left to copy.
    for (; chunk < chunks; ++chunk) {
        odd.load(a_tile + reading * STAGE + MMA, b_tile + reading * STAGE + MMA);
        multiply(sums, even);
        cp_async::commit();
        cp_async::wait<STAGES - 2>();
        __syncthreads();
        reading = next_stage(reading);
        if (chunk + 1 < chunks) even.load(a_tile + reading * STAGE, b_tile + reading * STAGE);
        multiply(sums, odd);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * WARP)
    hgemm_wmma_staged(const f16* __restrict__ a, const f16* __restrict__ b, f16* __restrict__ c, int m, int n,
                      int k, f32 alpha, f32 beta) {
    // A grid row holds gridDim.x neighbouring tiles; every other group of tile columns walks the rows
    // backwards, so that the blocks at the turn share A's rows while they are in L2.
    const int tile_row = blockIdx.z % 2 ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    const long long tile_column = static_cast<long long>(blockIdx.z) * gridDim.x + blockIdx.x;
    if (tile_column * BLOCK_N >= n) return;  // the whole block leaves: no barrier waits for it
    const int first_row = tile_row * BLOCK_M;
    const int first_column = static_cast<int>(tile_column) * BLOCK_N;

    extern __shared__ __align__(128) unsigned char shared_bytes[];
    f16* const stages = reinterpret_cast<f16*>(shared_bytes);

    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int warp_row = warp / WARPS_N * WARP_TILE;
    const int warp_column = warp % WARPS_N * WARP_TILE;

    FragmentC sums[FRAGMENTS][FRAGMENTS];
#pragma unroll
    for (int i = 0; i < FRAGMENTS; ++i) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
    }

    const bool edge = first_row + BLOCK_M > m || first_column + BLOCK_N > n || k % CHUNK != 0;
    if (edge) {
        accumulate<true>(sums, stages, a, b, m, n, k, first_row, first_column, warp_row, warp_column);
    } else {
        accumulate<false>(sums, stages, a, b, m, n, k, first_row, first_column, warp_row, warp_column);
    }

    // From here on shared memory holds results: no copy may still be on its way, and no warp may still
    // read operands. The last step implies both; stated again, the epilogue does not lean on the order of
    // operations inside the loop.
    cp_async::wait<0>();
    __syncthreads();

    // Each warp turns its tile, 16 rows at a time and in bytes of its own, into rows of 16-byte pieces.
    ACCUMULATE* const staged = reinterpret_cast<ACCUMULATE*>(shared_bytes) + warp * OUT_TILE;
    constexpr int ROW_PIECES = WARP_TILE / COPY_HALVES;
    constexpr int PASS_ROWS = WARP / ROW_PIECES;
    const int piece_row = lane / ROW_PIECES;
    const int piece_column = lane % ROW_PIECES * COPY_HALVES;
    const int column = first_column + warp_column + piece_column;
#pragma unroll
    for (int i = 0; i < FRAGMENTS; ++i) {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; ++j) {
            wmma::store_matrix_sync(staged + j * MMA, sums[i][j], OUT_ROW, wmma::mem_row_major);
        }
        __syncwarp();
#pragma unroll
        for (int pass = 0; pass < MMA / PASS_ROWS; ++pass) {
            const int tile_line = pass * PASS_ROWS + piece_row;
            const int row = first_row + warp_row + i * MMA + tile_line;
            if (row < m && column < n) {  // n is a multiple of 8: a piece is in or out as a whole
                float values[8];
                read_staged(staged + tile_line * OUT_ROW + piece_column, lane, values);
                uint4* const target = reinterpret_cast<uint4*>(c + static_cast<long long>(row) * n + column);
                float before[8] = {};
                if (beta != 0.0f) unpack(*target, before);  // beta = 0 must not read C
#pragma unroll
                for (int e = 0; e < 8; ++e) values[e] = alpha * values[e] + beta * before[e];
                *target = make_uint4(pack(values[0], values[1]), pack(values[2], values[3]),
                                     pack(values[4], values[5]), pack(values[6], values[7]));
            }
        }
        __syncwarp();  // the next 16 rows overwrite these
    }
}
