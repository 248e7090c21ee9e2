/*---
title: The same main loop, the last waves dealt out evenly along k (stream-K)
follows: hgemm_split_k
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  JOINED: [1, 0, 64]         # full waves that are dealt out together with the last, partial one
  LEAST: [4, 8]              # chunks of k that a block has on average, at least, where tiles are few
  TILE_M: [256, 128, 64]     # outputs of a thread block
  TILE_N: [128, 256, 64]
  STAGES: [0, 2, 4]          # chunks of shared memory in flight or in use; 0: what suits the tile
  RASTER: [2048, 64]         # rows of C that are walked together; 64: one tile row after another
where: ["TILE_M * TILE_N <= 256 * 128"]
let:
  shared: "(STAGES if STAGES else 2 if TILE_M + TILE_N == 320 else 3) * (TILE_M + TILE_N) * 128"
  tiles: ceil(m / TILE_M) * ceil(n / TILE_N)
  area: TILE_M * TILE_N
tile: [TILE_M, TILE_N, 64]
block: ["32 * max(4, TILE_M * TILE_N / 4096)"]
# as many blocks as the GPU holds at once, fewer where the product is too small for them
grid:
  - "min(sms * min(1 if area >= 2**15 else 2 if area >= 2**14 else 3 if area >= 2**13 else 4,
    floor(shared_per_sm / (shared + 1024))),
    max(tiles, floor(tiles * ceil(k / 64) / LEAST)))"
shared_bytes: shared
buffers:
  # two slots a block; blocks that an SM holds have 256 x 128 outputs together at most
  partials: {dtype: f32, size: "2 * sms * 256 * 128"}
  arrived: {dtype: u32, size: tiles, zeroed: true}
requires: {arch: 80, n: 8, k: 8, conditions: ["shared <= shared_per_block_optin", "tiles * ceil(k / 64) < 2**31"]}
arguments: [a, b, c, m, n, k, alpha, beta, partials, arrived]
---*/

// Tiles that do not fill the last wave leave SMs idle for a whole tile's time. Here one wave of blocks
// stays on the GPU for the whole product. The tiles of the last, partial wave and of JOINED full waves
// before it are laid in a row, chunk of k after chunk, and every block takes an equal, contiguous piece of
// that row: of a tile's sum it may have the end, the whole or the beginning. The other full waves are
// computed tile by tile, as there is nothing to gain from dealing them out. With one full wave joined a
// piece is between one and two tiles long, so that a tile has two blocks at most: few sums make the round
// trip through L2.
//
// The piece comes first: while some blocks finish shared tiles, others are at whole ones. A block begins
// with the end of a tile and ends with the beginning of another: the beginning is what comes last to most
// tiles. The block that has it therefore looks whether all others have arrived, and if so it keeps its part
// in registers. The counter decides in any case, and the parts are added in the order of k.

#define TYPE f16

#include "hgemm_parts.cuh"

namespace {

// As dealing::Schedule deals, with the chunks counted where they are needed: from the other order ptxas makes
// other code, which was not measured.
struct Schedule : dealing::Schedule {
    __device__ __forceinline__ explicit Schedule(const mma_tile::Problem& problem) {
        const int blocks = gridDim.x;
        tiles = mma_tile::tiles_of(problem);
        const int waves = tiles / blocks;
        const int rest = tiles - waves * blocks;
        streamed = rest == 0 ? 0 : rest + min(waves, JOINED) * blocks;
        chunks = mma_tile::chunks_of(problem);
        const int all = streamed * chunks;
        workers = rest == 0 ? 0 : min(blocks, max(streamed, all / LEAST));
        share = rest == 0 ? 0 : all / workers;
        longer = all - share * workers;
    }
};

// Completes the sums of a tile of which this block has a part; false where another block will do that.
__device__ __forceinline__ bool complete(mma_tile::Sums& sums, const mma_tile::Problem& problem, int tile,
                                         f32* partials, unsigned* arrived) {
    const dealing::Sharers sharers(Schedule(problem), tile);
    const int own = blockIdx.x - sharers.first_worker;
    int next = 1;
    if (own != 0 || !dealing::others_arrived(arrived + tile, sharers.parts)) {
        mma_tile::leave_part(partials, dealing::slot_of(sharers.first_worker, own), sums);
        if (!dealing::last_to_arrive(arrived + tile, sharers.parts)) return false;
        mma_tile::clear(sums);  // the own part is read back with the others
        next = 0;
    }
    mma_tile::add_parts(sums, partials, next, sharers.parts,
                     [&](int part) { return dealing::slot_of(sharers.first_worker, part); });
    return true;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::BLOCKS_PER_SM)
    hgemm_stream_k(const f16* __restrict__ a, const f16* __restrict__ b, f16* __restrict__ c, int m, int n,
                   int k, f32 alpha, f32 beta, f32* __restrict__ partials, unsigned* __restrict__ arrived) {
    const mma_tile::Problem given = {a, b, c, m, n, k, alpha, beta};
    dealing::Work work{Schedule(given)};
    for (;;) {
        mma_tile::Sums sums;
        {
            const mma_tile::Problem problem = dealing::anew(given);
            const dealing::Turn turn(work, mma_tile::chunks_of(problem));
            if (turn.tile >= mma_tile::tiles_of(problem)) return;
            __syncthreads();  // no warp may still read operands of the turn before
            const mma_tile::Place place = mma_tile::place_of(turn.tile, problem);
            mma_tile::accumulate(sums, problem, place, turn.first, turn.end - turn.first);
        }
        const mma_tile::Problem problem = dealing::anew(given);
        const int chunks = mma_tile::chunks_of(problem);
        const dealing::Turn turn(work, chunks);
        turn.done(work);
        if (turn.end - turn.first == chunks || complete(sums, problem, turn.tile, partials, arrived)) {
            mma_tile::store(sums, problem, mma_tile::place_of(turn.tile, problem));
        }
    }
}
