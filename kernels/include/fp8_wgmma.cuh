// A thread block's tile of an FP8 product by TMA and wgmma: what the kernels fp8_wgmma* share. Rings, tiles,
// threads and results are those of half-precision products (hgemm_wgmma.cuh), whose TYPE is that of C here.
//
// A is row-major, B column-major: both must be contiguous along k, because wgmma transposes no bytes. A row of
// a box has 128 bytes, so a chunk is 128 deep.
//
// Who includes this defines TYPE (f16 or bf16), A_TYPE (e4m3 or e5m2), and what hgemm_wgmma.cuh asks for.

#pragma once

#include "hgemm_wgmma.cuh"

namespace fp8 {

using namespace hopper;

constexpr int DEPTH = SWIZZLE_BYTES;  // elements of k in a chunk
constexpr int PRODUCTS = DEPTH / 32;  // wgmmas behind each other, 32 bytes deep

__device__ __forceinline__ int chunks_of(int k) { return (k - 1) / DEPTH + 1; }

// By one thread: asks for a chunk of both operands. Blocks of a cluster, below each other, load a part of B each
// and write it into the shared memory of all.
__device__ __forceinline__ void load_chunk(const Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                           const Place& place, int chunk, int rank = 0) {
    const unsigned at = ring.at(), barrier = ring.full_barrier();
    expect(barrier, STAGE_BYTES);
    load(at, map_a, chunk * DEPTH, place.row, barrier);
    if (CLUSTER == 1) {
        load(at + A_BYTES, map_b, chunk * DEPTH, place.column, barrier);
    } else {
        load_all(at + A_BYTES + rank * (B_BYTES / CLUSTER), map_b, chunk * DEPTH,
                 place.column + rank * (TILE_N / CLUSTER), barrier, (1u << CLUSTER) - 1);
    }
}

template <int N>
__device__ __forceinline__ void multiply(f32 (&d)[N / 2], u64 a, u64 b, int add);

#define TYPES_e4m3 "k32.f32.e4m3.e4m3"
#define TYPES_e5m2 "k32.f32.e5m2.e4m3"
#define OF_BYTES f32, "+f", NAMED(TYPES_, A_TYPE), ", 1, 1"
WGMMA_128(OF_BYTES)
WGMMA_192(OF_BYTES)
WGMMA_256(OF_BYTES)
#undef OF_BYTES
#undef TYPES_e4m3
#undef TYPES_e5m2

// Begins the products of the chunk at a shared address; the sums are overwritten where none are `before`.
__device__ __forceinline__ void multiply_chunk(Sums& sums, const Thread& thread, unsigned at, int before) {
    const u64 a = descriptor(at + thread.warpgroup * ROWS * SWIZZLE_BYTES);
    const u64 b = descriptor(at + A_BYTES);
    begin_products();
#pragma unroll
    for (int step = 0; step < PRODUCTS; ++step) {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
            multiply<TILE_N>(sums[i], a + i * (MMA_M * SWIZZLE_BYTES >> 4) + step * STEP, b + step * STEP,
                             before | step);
        }
    }
    commit_products();
}

}  // namespace fp8
