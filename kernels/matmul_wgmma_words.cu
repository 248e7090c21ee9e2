/*---
title: Rows that begin at any word, copied by threads to where wgmma finds them
follows: matmul_wgmma_split
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f22 if TYPE in ['e4m3', 'e5m2'] else f32"  # f22: left to the tensor cores
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  SPLITS: [1, 2, 4, 8, 3]    # blocks of a cluster, each with a piece of k
  WARPGROUPS: [2, 1]         # 64 rows of a tile each
  TILE_N: [128, 64, 32, 96, 192]  # columns of a tile
  WIDTH: [8, 4]              # bytes that a lane copies at once
  ROOM: [160, 80]            # KiB for chunks of k in flight or in use: two blocks an SM with 80
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
where:
  - "TILE_N <= 128 or WARPGROUPS == 1"      # registers for sums
  - "TILE_N >= 8 * SPLITS"
  - "WARPGROUPS * 64 + TILE_N <= ROOM * 2"  # four chunks
let:
  depth: 128 // size(TYPE)
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  # what the others have of a block's share of the tile's columns, which are dealt out by eight
  parts: WARPGROUPS * 64 * 4 * 8 * ceil(TILE_N / (8 * SPLITS)) * (SPLITS - 1)
  shared: 1024 + min(8, max(4, ceil(ceil(k / depth) / SPLITS)), floor(ROOM * 1024 / stage)) * stage + parts
  rows: ceil(m / (WARPGROUPS * 64))
  patches: ceil(rows / (32 // WARPGROUPS))  # of about 2048 rows of C
tile: [WARPGROUPS * 64, TILE_N, depth]
block: ["WARPGROUPS * 128 + 256"]
cluster: [SPLITS]
grid: ["SPLITS * ceil(rows / patches)", "ceil(n / TILE_N)", patches]
working_blocks: "SPLITS * rows * ceil(n / TILE_N)"
shared_bytes: shared
programmatic: OVERLAP
architecture_specific: true
requires:
  arch: 90
  k: WIDTH // size(TYPE)
  conditions:
    - wgmma
    - clusters
    - "shared <= shared_per_block_optin"
    - "k * size(TYPE) % (2 * WIDTH) != 0"  # else eight bytes at once are faster, or the TMA is
entry: matmul_wgmma_words
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The TMA takes rows that begin at multiples of 16 bytes. matmul_wgmma_padded copies the others to where they may begin, which
// reads and writes both operands once more, and matmul_mma_shifted shifts them in shared memory, for mma.sync. But of most such
// rows each begins at a word, if not at a multiple of eight bytes, and cp.async moves these: here warps that do nothing else
// copy a row's 128 bytes of a chunk by sixteen or all lanes, straight to where the swizzle wants them.
//
// Copies of threads are not what wgmma sees: a warp that loads waits for its own of some chunks ago, puts a fence behind
// them, and only then says that its rows are there.

#define STAGES 8

#include "wgmma_split.cuh"
#include "wgmma_words.cuh"

using namespace fit;

extern "C" __global__ void __launch_bounds__(ALL, BLOCKS_PER_SM)
    matmul_wgmma_words(const void* a, const void* b, Out* c, int m, int n, int k, Scalar alpha, Scalar beta) {
    __shared__ u64 arrived;
    const Place place = place_of(SPLITS);
    if (place.row >= m) return;  // the whole cluster
    overlap::let_next_begin();
    const Thread thread;
    Ring ring;
    const int rank = SPLITS == 1 ? 0 : cluster_parts::rank(), chunks = chunks_of(k);
    const auto [first, end] = pieces::Piece(chunks, rank, SPLITS);
    const int stages = stages_for((chunks + SPLITS - 1) / SPLITS);
    const Parts parts = {ring.stages + stages * STAGE_BYTES, shared_of(&arrived)};
    if (threadIdx.x == 0) {
        if (SPLITS > 1) parts.begin(rank);
        initialize_stages<RING>(ring.full, ring.empty, CONSUMER_WARPS, LOADERS);
    }
    __syncthreads();
    if (SPLITS > 1) cluster_parts::arrive();
    if (thread.warp >= CONSUMER_WARPS) {
        overlap::wait_for_launch_before();
        load_words(ring, thread, a, b, m, n, k, place, first, end);
        if (SPLITS > 1) cluster_parts::wait_for_all();
        return;
    }
    Sums sums;
    multiply_chunks(sums, thread, ring, end - first);
    finish(sums, parts, rank, thread, ring, {c, m, n, alpha, beta}, place);
}
