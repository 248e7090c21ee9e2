/*---
title: The same main loop, each tile's sum over k split among several blocks
follows: hgemm_mma
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  SPLITS: [4, 2, 8, 16]      # blocks that share a tile
  TILE_M: [256, 128, 64]     # outputs of a thread block
  TILE_N: [128, 256, 64]
  STAGES: [0, 2, 4]          # chunks of shared memory in flight or in use; 0: what suits the tile
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 256 * 128"]
let:
  shared: "(STAGES if STAGES else 2 if TILE_M + TILE_N == 320 else 3) * (TILE_M + TILE_N) * 128"
  tiles: ceil(m / TILE_M) * ceil(n / TILE_N)
  parts: tiles * min(SPLITS, ceil(k / 64))
tile: [TILE_M, TILE_N, 64]
block: ["32 * max(4, TILE_M * TILE_N / 4096)"]
grid: [parts]
shared_bytes: shared
buffers:
  partials: {dtype: f32, size: "parts * TILE_M * TILE_N"}
  arrived: {dtype: u32, size: tiles, zeroed: true}
requires: {arch: 80, n: 8, k: 8, conditions: ["shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

// A product with few tiles and a long k leaves most SMs idle. Here SPLITS blocks share a tile: each sums a
// contiguous range of k, and the last one to arrive adds the parts in the order of k and writes C, all in
// one launch. The price is a round trip of f32 sums through L2, 8 bytes for each output and part: it is
// paid back only where the tiles alone do not fill the GPU. The blocks of one range of k come before those
// of the next one, so that blocks that run together share rows of A and columns of B.

#define TYPE f16

#include "hgemm_parts.cuh"

namespace {

// Which part of which tile a block has.
struct Share {
    int tiles, tile, parts, part;

    __device__ __forceinline__ Share(int block, const mma_tile::Problem& problem)
        : tiles(mma_tile::tiles_of(problem)),
          tile(block % tiles),
          parts(gridDim.x / tiles),
          part(block / tiles) {}
};

}  // namespace

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::BLOCKS_PER_SM)
    hgemm_split_k(const f16* __restrict__ a, const f16* __restrict__ b, f16* __restrict__ c, int m, int n,
                  int k, f32 alpha, f32 beta, f32* __restrict__ partials, unsigned* __restrict__ arrived) {
    const mma_tile::Problem given = {a, b, c, m, n, k, alpha, beta};
    mma_tile::Sums sums;
    {
        const Share share(blockIdx.x, given);
        const int chunks = mma_tile::chunks_of(given);
        const int longer = chunks % share.parts;  // parts that have one chunk more than the others
        const int first = chunks / share.parts * share.part + min(share.part, longer);
        const int count = chunks / share.parts + (share.part < longer);
        mma_tile::accumulate(sums, given, mma_tile::place_of(share.tile, given), first, count);
    }
    const mma_tile::Problem problem = dealing::anew(given);
    const Share share(blockIdx.x, problem);
    if (share.parts > 1) {
        mma_tile::leave_part(partials, blockIdx.x, sums);
        if (!dealing::last_to_arrive(arrived + share.tile, share.parts)) return;
        // The own part is read back with the others: the order of the sum is that of k.
        mma_tile::clear(sums);
        mma_tile::add_parts(sums, partials, 0, share.parts, [&](int part) {
            return static_cast<long long>(part) * share.tiles + share.tile;
        });
    }
    mma_tile::store(sums, problem, mma_tile::place_of(share.tile, problem));
}
