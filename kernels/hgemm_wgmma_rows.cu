/*---
title: The same, B row-major
follows: hgemm_wgmma_store
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  TYPE: [f16, bf16]
  TILE_M: [128, 256]         # outputs of a tile
  TILE_N: [256, 128]
  STAGES: [4, 3]             # chunks of shared memory in flight or in use
  RASTER: [2048, 1024, 64]   # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 128 * 256"]
let:
  # stages, then two strips of 2048 bytes for each of eight warps
  shared: 1024 + STAGES * (TILE_M + TILE_N) * 128 + 8 * 2 * 2048
  tiles: ceil(m / TILE_M) * ceil(n / TILE_N)
tile: [TILE_M, TILE_N, 64]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: shared
tensor_maps:
  map_a: {of: a, box: [64, TILE_M], swizzle: 128}
  map_b: {of: b, box: [64, 64], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
architecture_specific: true
requires:
  arch: 90
  n: 8
  k: 8
  conditions:
    - wgmma
    - "shared <= shared_per_block_optin"
entry: hgemm_wgmma_rows
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// A row of B is contiguous along n here, and nobody has to transpose it: of 16-bit types wgmma reads either order.
// What changes is the box. 128 bytes, the width of the swizzle, are 64 columns; 64 rows of k of them are a panel, and
// a chunk of B has TILE_N / 64 panels, one load each. wgmma is told how far panels and eight rows of k lie apart,
// and its last operand says that the matrix is transposed.

#include "hgemm_wgmma.cuh"

using namespace hopper;

constexpr int PANEL_COLUMNS = SWIZZLE_BYTES / 2;
constexpr int PANEL_BYTES = CHUNK * SWIZZLE_BYTES;
constexpr int PANELS = TILE_N / PANEL_COLUMNS;

static_assert(PANELS * PANEL_BYTES == B_BYTES, "panels are what a stage has room for");

// By one thread: asks for a chunk of both operands.
__device__ __forceinline__ void load_panels(const Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                            const Place& place, int chunk) {
    const unsigned at = ring.at(), barrier = ring.full_barrier();
    expect(barrier, STAGE_BYTES);
    load(at, map_a, chunk * CHUNK, place.row, barrier);
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel) {
        load(at + A_BYTES + panel * PANEL_BYTES, map_b, place.column + panel * PANEL_COLUMNS, chunk * CHUNK, barrier);
    }
}

// PTX ISA, "Matrix Descriptor Format" and "Strides" of wgmma, for a matrix that is not contiguous along k: the
// leading offset leads from panel to panel, the other one from eight rows of k to the next eight.
__device__ __forceinline__ u64 descriptor_of_panels(unsigned shared) {
    return descriptor(shared) + (static_cast<u64>(PANEL_BYTES >> 4) - 1 << 16);
}
constexpr u64 PANEL_STEP = MMA_K * SWIZZLE_BYTES >> 4;  // from one 16-deep step to the next

// d = a b, or d += a b where `add` is not 0; see hopper::multiply.
template <int N>
__device__ __forceinline__ void multiply_panels(f32 (&d)[N / 2], u64 a, u64 b, int add);

#define TYPES_f16 "f16.f16"
#define TYPES_bf16 "bf16.bf16"
// COUNT registers of sums; then the operands have the numbers A, B and ADD.
#define PRODUCT(N, COUNT, A, B, ADD)                                                                     \
    template <>                                                                                          \
    __device__ __forceinline__ void multiply_panels<N>(f32(&d)[COUNT], u64 a, u64 b, int add) {          \
        asm volatile(                                                                                    \
            "{\n"                                                                                        \
            ".reg .pred more;\n"                                                                         \
            "setp.ne.b32 more, %" #ADD ", 0;\n"                                                          \
            "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAMED(TYPES_, TYPE) " {" REGISTERS_##COUNT \
            "}, %" #A ", %" #B ", more, 1, 1, 0, 1;\n"                                                   \
            "}\n"                                                                                        \
            : SUMS_##COUNT("+f", d, 0)                                                                   \
            : "l"(a), "l"(b), "r"(add));                                                                 \
    }
PRODUCT(128, 64, 64, 65, 66)
PRODUCT(256, 128, 128, 129, 130)
#undef PRODUCT

// Begins the products of the chunk at a shared address; the first chunk of a tile overwrites the sums.
__device__ __forceinline__ void multiply_chunk_of_panels(Sums& sums, const Thread& thread, unsigned at, int chunk) {
    const u64 a = descriptor(at + thread.warpgroup * ROWS * SWIZZLE_BYTES);
    const u64 b = descriptor_of_panels(at + A_BYTES);
    begin_products();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
            multiply_panels<TILE_N>(sums[i], a + i * (MMA_M * SWIZZLE_BYTES >> 4) + step * STEP, b + step * PANEL_STEP,
                                    chunk | step);
        }
    }
    commit_products();
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_rows(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c, element* c, int m, int n, int k, f32 alpha,
                     f32 beta) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<40>();
        if (thread.warp == CONSUMER_WARPS && elected()) {
            for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
                const Place place = tiles.place_of(tile);
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    ring.wait_empty();
                    load_panels(ring, map_a, map_b, place, chunk);
                    ring.next();
                }
            }
        }
    } else {
        take_registers<232>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        Sums sums;
        for (int tile = blockIdx.x; tile < tiles.count(); tile += gridDim.x) {
            const Place place = tiles.place_of(tile);
            int previous = 0;
            for (int chunk = 0; chunk < chunks; ++chunk) {
                ring.wait_full();
                multiply_chunk_of_panels(sums, thread, ring.at(), chunk);
                wait_products<1>();
                if (chunk > 0) ring.release(thread, previous);
                previous = ring.stage;
                ring.next();
            }
            wait_products<0>();
            ring.release(thread, previous);
            finish(sums, thread, result, place);
#pragma unroll
            for (int number = 0; number < STRIPS; ++number) {
                unsigned words[STRIP_WORDS];
                pack_strip(words, sums, number);
                store_strip(thread, map_c, place, number, own_strips, words);
            }
        }
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
