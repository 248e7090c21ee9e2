/*---
title: Tiles as wide as it takes for every wave to be full, of all types that wgmma has
follows: matmul_wgmma_late
operation: matmul
dtypes:
  a: TYPE
  b: "e4m3 if TYPE == 'e5m2' else TYPE"
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else bf16 if TYPE in ['e4m3', 'e5m2'] else TYPE"
  accumulate: "i32 if TYPE == 'i8' else ACCUMULATE"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  ACCUMULATE: [f32, f22]     # f22: of FP8, whose sums are left to the tensor cores
  TILE_M: [128, 192]         # rows of a tile: two or three warpgroups with 64 each
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
where: ["(ACCUMULATE == 'f22') == (TYPE in ['e4m3', 'e5m2'])"]
let:
  widest: "176 if TILE_M == 192 else 256"  # for which there are registers
  step: "16 if TYPE == 'i8' else 8"  # of widths
  depth: 128 // size(TYPE)
  across: "32 if TYPE in ['i8', 'tf32'] else 64"            # columns of C in 128 bytes
  rows: ceil(m / TILE_M)
  chunks: ceil(k / depth)
  # Waves that the widest tiles need, and the tile columns that as many waves have room for; the same of a wave more.
  waves: ceil(ceil(n / widest) * rows / sms)
  fewer: max(1, min(floor(waves * sms / rows), floor(n / 64)))
  more: max(1, min(floor((waves + 1) * sms / rows), floor(n / 64)))
  # Columns of 128 rows that pass the tensor cores, or L2 where a tile is narrow, and what a tile costs besides.
  cost_fewer: waves * (max(TILE_M / 128 * n / fewer, 0.55 * (TILE_M + n / fewer)) + 512 / chunks)
  cost_more: (waves + 1) * (max(TILE_M / 128 * n / more, 0.55 * (TILE_M + n / more)) + 512 / chunks)
  columns: "more if cost_more < cost_fewer else fewer"
  # Tile columns come in two widths, a step of columns of C apart, the wider ones first.
  units: ceil(n / step)
  narrow: max(64, floor(units / columns) * step)
  wider: max(0, units - columns * narrow / step)
  wide: "narrow + step if wider > 0 else narrow"
  stage: (TILE_M + wide) * 128
  # strips of 2048 bytes beside the stages: two for each of eight warps, or one for each of twelve
  strips: "(12 if TILE_M == 192 else 16) * 2048"
  stages: min(8, floor((231168 - strips) / stage))
  tiles: rows * columns
tile: [TILE_M, wide, depth]
block: ["512 if TILE_M == 192 else 384"]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
shared_bytes: 1024 + stages * stage + strips
programmatic: OVERLAP
tensor_maps:
  map_a: {of: a, box: [depth, TILE_M], swizzle: 128}
  map_wide: {of: b, box: [depth, wide], swizzle: 128}
  map_narrow: {of: b, box: [depth, narrow], swizzle: 128}
  map_c: {of: c, box: [across, 16], swizzle: 128}
  # what is left of a tile's columns beside whole strips
  rest_wide: {of: c, box: ["wide % across or across", 16]}
  rest_narrow: {of: c, box: ["narrow % across or across", 16]}
architecture_specific: true
requires: {arch: 90, n: "across // 8", k: 16 // size(TYPE), conditions: [wgmma, "232448 <= shared_per_block_optin"]}
arguments: [map_a, map_wide, map_narrow, map_c, rest_wide, rest_narrow, c, m, n, k, alpha, beta, columns, narrow, wider, stages]
---*/

// Whole waves need not be left to chance. How many columns of C a tile has, only one instruction knows (wgmma takes any
// multiple of 8, or of 16), and the launch can say: it takes as many tile columns as so many waves have room for, and
// divides the columns of C among them. 3200 columns of 11 tile rows were 13 tiles of 256, two waves of which the second
// had 11 tiles; now they are 24 of 136 or 128, two waves that are full. Where tile rows do not divide the SMs, rows are
// the other choice: 18 of 128 leave 6 of 132 SMs idle, 12 of 192 none.
//
// No tile column ends outside of C either, and each is loaded with a box of its own width: rows of a box that lie outside
// of the matrix cost the TMA more than rows that it has to fetch.

#if TILE_M == 192
#define WIDEST 176
#else
#define WIDEST 256
#endif

#include "wgmma_even.cuh"

namespace even {

constexpr int BUFFERS = CONSUMERS == 3 ? 1 : 2;  // strips that a warp has room for behind the stages

// Those whose results may wait in registers, beside sums and addresses; the others leave at once.
constexpr int OTHERS = CONSUMERS == 3 ? 24 : sizeof(Out) == 4 ? 64 : 48;
constexpr int ROOM = (CONSUMING - OTHERS - MMAS * SUMS) / MMAS / STRIP_WORDS;
constexpr int HELD = STRIPS < ROOM ? STRIPS : ROOM;

static_assert(HELD > 0 && HELD * MMAS <= BUFFERS + 3, "a stage has room for a strip of each warp");
static_assert(CONSUMER_WARPS * STRIP_BYTES <= A_BYTES, "... and there are four stages or more");

}  // namespace even

using namespace even;

// Waits until the TMA has read a warp's own strip that is next, where they are used in turn from the `first` on.
__device__ __forceinline__ void make_room(const Thread& thread, bool first) {
    if (thread.lane == 0) {
        if (first) wait_stores_read<0>();
        else wait_stores_read<BUFFERS - 1>();
    }
    __syncwarp();
}

// Results that wait for their way to C, and the tile that they are of.
struct Held {
    static constexpr int SLOTS = MMAS * HELD;  // for strips; narrow tiles leave some empty

    Words words[MMAS][HELD];
    Patch patch;
    bool waiting = false;

    // Sends what is in slot `number` by way of shared memory at `at`.
    __device__ __forceinline__ void leave(const Thread& thread, const Ways& ways, int number, unsigned at) const {
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int j = 0; j < HELD; ++j) {
                if (i * HELD + j == number && j * STRIP_COLUMNS < patch.width) {
                    ways.send(thread, patch, i, j, at, words[i][j]);
                }
            }
        }
    }
    // The same by way of the warp's own strips, which are taken in turn.
    __device__ __forceinline__ void leave_in_turn(const Thread& thread, const Ways& ways, int number,
                                                  unsigned own_strips) const {
        make_room(thread, number % HELD == 0);
        leave(thread, ways, number, own_strips + number % HELD % BUFFERS * STRIP_BYTES);
    }
    // All of a block's last tile at once: behind the warp's own strips by way of the ring's next stages, which are
    // empty when all warps have released what they held.
    __device__ __forceinline__ void leave_last(const Thread& thread, const Ways& ways, Ring& ring,
                                               unsigned own_strips) const {
        make_room(thread, true);
#pragma unroll
        for (int number = 0; number < SLOTS; ++number) {
            unsigned at = own_strips + number * STRIP_BYTES;
            if (number >= BUFFERS) {
                ring.wait_empty();
                at = ring.at() + thread.warp * STRIP_BYTES;
                ring.next();
            }
            leave(thread, ways, number, at);
        }
    }
    // Takes what there is room for of a tile's finished sums; the other strips leave at once.
    __device__ __forceinline__ void take(const Sums& sums, const Thread& thread, const Ways& ways, const Patch& of,
                                         unsigned own_strips) {
        patch = of;
        waiting = true;
#pragma unroll
        for (int i = 0; i < MMAS; ++i) {
#pragma unroll
            for (int j = HELD; j < STRIPS; ++j) {
                if (j * STRIP_COLUMNS < of.width) {
                    Words now;
                    pack_strip(now, sums[i], thread, j);
                    make_room(thread, j == HELD);
                    ways.send(thread, of, i, j, own_strips + (j - HELD) % BUFFERS * STRIP_BYTES, now);
                }
            }
#pragma unroll
            for (int j = 0; j < HELD; ++j) pack_strip(words[i][j], sums[i], thread, j);
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_even(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_wide,
                      const __grid_constant__ CUtensorMap map_narrow, const __grid_constant__ CUtensorMap map_c,
                      const __grid_constant__ CUtensorMap rest_wide, const __grid_constant__ CUtensorMap rest_narrow,
                      Out* c, int m, int n, int k, Scalar alpha, Scalar beta, int columns, int narrow, int wider,
                      int stages) {
    const Thread thread;
    const Division division(m, columns, narrow, wider);
    Ring ring(stages, division.widest());
    const int tiles = division.count(), chunks = chunks_of(k);
    overlap::let_next_begin();
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<LOADING>();
        if (thread.warp != CONSUMER_WARPS) return;
        ring.begin(thread);
        load_tiles(ring, map_a, map_wide, map_narrow, division, chunks);
    } else {
        take_registers<CONSUMING>();
        ring.join();
        overlap::wait_for_launch_before();
        const Result result = {c, m, n, alpha, beta};
        const Ways ways = {map_c, rest_wide, rest_narrow, narrow};
        const unsigned own_strips = ring.end() + thread.warp * BUFFERS * STRIP_BYTES;
        Sums sums = {};
        Held held;
        int previous = 0;
        Patch patch(division, blockIdx.x);  // every block has a tile
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            for (int chunk = 0; chunk < chunks; ++chunk) {
                ring.wait_full();
                multiply_chunk(sums, thread, ring, patch.width, chunk);
                if (held.waiting && chunk < Held::SLOTS) held.leave_in_turn(thread, ways, chunk, own_strips);
                wait_products<MMAS>();
                if (chunk > 0) ring.release(thread, previous);
                previous = ring.stage;
                ring.next();
            }
            if (held.waiting) {  // too few products to hide behind
                for (int number = chunks; number < Held::SLOTS; ++number) {
                    held.leave_in_turn(thread, ways, number, own_strips);
                }
            }
            const Patch now = patch;
            // The next place is computed beside the last products.
            patch = Patch(division, min(tile + static_cast<int>(gridDim.x), tiles - 1));
            patch.pin();
            wait_products<0>();
            ring.release(thread, previous);
            finish(sums, thread, result, now);
            held.take(sums, thread, ways, now, own_strips);
        }
        held.leave_last(thread, ways, ring, own_strips);
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
