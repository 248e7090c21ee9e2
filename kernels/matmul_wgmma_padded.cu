/*---
title: Any n and k by TMA and wgmma, from rows that a first launch copies to where they may begin
follows: matmul_wgmma_fit
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  WARPGROUPS: [2, 1]    # 64 rows of a tile each
  TILE_N: [128, 64]     # columns of a tile
let:
  depth: 128 // size(TYPE)
  chunks: ceil(k / depth)
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  rows: ceil(m / (WARPGROUPS * 64))
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows of C
tile: [WARPGROUPS * 64, TILE_N, depth]
buffers:
  padded_a: {dtype: TYPE, size: m * chunks * depth}
  padded_b: {dtype: "e4m3 if TYPE == 'e5m2' else TYPE", size: n * chunks * depth}
tensor_maps:
  map_a: {of: padded_a, sizes: [chunks * depth, m], box: [depth, "min(WARPGROUPS * 64, 8 * ceil(m / 8))"], swizzle: 128}
  map_b: {of: padded_b, sizes: [chunks * depth, n], box: [depth, TILE_N], swizzle: 128}
architecture_specific: true
requires: {arch: 90, conditions: [wgmma]}
entry: multiplied  # the launch that leads
working_blocks: "rows * ceil(n / TILE_N)"
launches:
  - entry: padded
    block: [32, 8]
    grid: [ceil((m + n) / 8), ceil(chunks * depth / 1024)]
    arguments: [a, b, padded_a, padded_b, m, n, k]
  - entry: multiplied
    block: ["WARPGROUPS * 128 + 32"]
    grid: ["ceil(rows / patches)", "ceil(n / TILE_N)", patches]
    shared_bytes: "1024 + min(8, max(4, chunks), floor(108 * 1024 / stage)) * stage"
    arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// The TMA takes rows that begin at multiples of 16 bytes; those of 333 halves do not. matmul_mma_shifted lives with that in
// each of its blocks, and by mma.sync. Here both operands are copied once, which reads and writes them and takes a launch:
// after it everything is as in matmul_wgmma_fit, but that results leave one by one, because rows of C begin anywhere, too.

#define STAGES 8
#define ROOM 108  // KiB for each of two blocks an SM

#include "wgmma_fit.cuh"

using namespace fit;

constexpr int LINES = 8;     // that a block copies
constexpr int STRETCH = 1024;  // elements of a line that a warp copies

template <int BYTES>
struct Bits { using Type = unsigned; };
template <>
struct Bits<1> { using Type = unsigned char; };
template <>
struct Bits<2> { using Type = unsigned short; };
using Element = Bits<OPERAND_BYTES>::Type;

// Rows of A, and columns of B behind them, each as far apart as whole chunks are long, zeros behind its k elements.
extern "C" __global__ void __launch_bounds__(WARP * LINES)
    padded(const Element* a, const Element* b, Element* padded_a, Element* padded_b, int m, int n, int k) {
    const int line = blockIdx.x * LINES + threadIdx.y, first = blockIdx.y * STRETCH + threadIdx.x;
    if (line >= m + n) return;
    const bool of_a = line < m;
    const long long row = of_a ? line : line - m;
    const int pitch = chunks_of(k) * DEPTH;
    const Element* const source = (of_a ? a : b) + row * k;
    Element* const target = (of_a ? padded_a : padded_b) + row * pitch;
    Element moved[STRETCH / WARP];
#pragma unroll
    for (int i = 0; i < STRETCH / WARP; ++i) moved[i] = first + i * WARP < k ? source[first + i * WARP] : Element(0);
#pragma unroll
    for (int i = 0; i < STRETCH / WARP; ++i) {
        if (first + i * WARP < pitch) target[first + i * WARP] = moved[i];
    }
}

// An element from shared memory.
__device__ __forceinline__ void take(unsigned short& one, unsigned at) {
    asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(one) : "r"(at) : "memory");
}
__device__ __forceinline__ void take(unsigned& one, unsigned at) {
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(one) : "r"(at) : "memory");
}

// As fit::store, to rows that begin anywhere: lanes store neighbours of a row.
__device__ __forceinline__ void store_singly(Sums& sums, const Thread& thread, const Ring& ring, const Result& result,
                                             const Place& place) {
    constexpr int BYTES = static_cast<int>(sizeof(Out));
    constexpr int PITCH = (TILE_N + 8) * BYTES;  // rows that are stored together begin in different banks
    static_assert(CONSUMER_WARPS * STRIP_ROWS * PITCH <= FEWEST * STAGE_BYTES, "the ring has room for the results");
    const auto result_of = [&](int e) {
        const int row = place.row + thread.row_of(e), column = place.column + thread.column_of(e);
        const bool add = result.beta != 0 && row < result.m && column < result.n;
        const Out old = add ? result.c[static_cast<long long>(row) * result.n + column] : Out(0);
        return combined(sums[e], result.alpha, result.beta, number(old));
    };
    sync_consumers();  // all products have read the ring
    const unsigned strip = ring.stages + thread.warp * STRIP_ROWS * PITCH;
#pragma unroll
    for (int e = 0; e < SUMS; e += 2) {
        lay(strip + thread.row_of(e) % STRIP_ROWS * PITCH + thread.column_of(e) * BYTES, result_of(e), result_of(e + 1));
    }
    __syncwarp();
    for (int line = 0; line < STRIP_ROWS; ++line) {
        const int row = place.row + thread.warp * STRIP_ROWS + line;
        if (row >= result.m) return;
        Out* const target = result.c + static_cast<long long>(row) * result.n + place.column;
#pragma unroll
        for (int column = thread.lane; column < TILE_N; column += WARP) {
            if (place.column + column < result.n) {
                const unsigned at = strip + line * PITCH + column * BYTES;
                Bits<BYTES>::Type one;
                take(one, at);
                reinterpret_cast<Bits<BYTES>::Type*>(target)[column] = one;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    multiplied(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Out* c, int m, int n,
               int k, Scalar alpha, Scalar beta) {
    const Thread thread;
    Ring ring;
    const Place place = place_of();
    if (place.row >= m) return;
    const int chunks = chunks_of(k);
    if (thread.loads()) {
        ring.begin(thread);
        if (elected()) load_chunks(ring, map_a, map_b, place, rows_loaded(m), 0, chunks);
    } else {
        ring.join(rows_loaded(m), chunks);
        Sums sums;
        multiply_chunks(sums, thread, ring, chunks);
        store_singly(sums, thread, ring, {c, m, n, alpha, beta}, place);
    }
}
