/*---
title: The same, tiles as wide as it takes for every wave to be full
follows: hgemm_wgmma_late
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
let:
  rows: ceil(m / 128)
  chunks: ceil(k / 64)
  # Waves that tiles of 256 columns need, and the tile columns that as many waves have room for; the same of a wave more.
  waves: ceil(ceil(n / 256) * rows / sms)
  fewer: max(1, min(floor(waves * sms / rows), floor(n / 64)))
  more: max(1, min(floor((waves + 1) * sms / rows), floor(n / 64)))
  # Columns that pass the tensor cores, or L2 where a tile is narrow, and what a tile costs besides: 8 of them at k = 4096.
  cost_fewer: waves * (max(n / fewer, 0.55 * (128 + n / fewer)) + 512 / chunks)
  cost_more: (waves + 1) * (max(n / more, 0.55 * (128 + n / more)) + 512 / chunks)
  columns: "more if cost_more < cost_fewer else fewer"
  # Tile columns come in two widths, eight columns of C apart, the wider ones first.
  narrow: max(64, floor(n / 8 / columns) * 8)
  wider: max(0, n / 8 - columns * narrow / 8)
  wide: "narrow + 8 if wider > 0 else narrow"
  stage: (128 + wide) * 128
  stages: min(8, floor(198400 / stage))
  tiles: rows * columns
tile: [128, wide, 64]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
# two strips of 2048 bytes for each of eight warps beside the stages
shared_bytes: 1024 + stages * stage + 8 * 2 * 2048
tensor_maps:
  map_a: {of: a, box: [64, 128], swizzle: 128}
  map_wide: {of: b, box: [64, wide], swizzle: 128}
  map_narrow: {of: b, box: [64, narrow], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
  # what is left of a tile's columns beside strips of 64
  rest_wide: {of: c, box: ["wide % 64 or 64", 16]}
  rest_narrow: {of: c, box: ["narrow % 64 or 64", 16]}
architecture_specific: true
requires:
  arch: 90
  n: 8
  k: 8
  conditions: [wgmma, "232448 <= shared_per_block_optin"]
entry: hgemm_wgmma_even
arguments: [map_a, map_wide, map_narrow, map_c, rest_wide, rest_narrow, c, m, n, k, alpha, beta, columns, narrow, wider, stages]
---*/

// Whole waves need not be left to chance. How many columns of C a tile has, only one instruction knows (wgmma takes any
// multiple of 8), and the launch can say: it takes as many tile columns as so many waves have room for, and divides the
// columns of C among them, to eight. 3200 columns of 11 tile rows were 13 tiles of 256, two waves of which the second
// had 11 tiles; now they are 24 of 136 or 128, two waves that are full.
//
// No tile column ends outside of C either, and each is loaded with a box of its own width: rows of a box that lie outside
// of the matrix cost the TMA more than rows that it has to fetch.

#define TILE_M 128
#define TILE_N 256  // at most
#define STAGES 8    // at most
#define RASTER 2048 // rows of C that are walked together
#include "hgemm_wgmma.cuh"
#include "wgmma_any_width.cuh"

using namespace hopper;

// Tiles of a launch: `columns` side by side, the first `wider` ones of `narrow` + 8 columns of C.
struct Division {
    Tiles tiles;
    int narrow, wider;

    __device__ __forceinline__ Division(int m, int columns, int narrow, int wider)
        : tiles(m, columns * TILE_N), narrow(narrow), wider(wider) {}
    __device__ __forceinline__ int widest() const { return narrow + (wider > 0 ? WIDTH_STEP : 0); }
};

// Where a tile lies and how many columns it has.
struct Patch : Place {
    int width;

    Patch() = default;
    __device__ __forceinline__ Patch(const Division& division, int tile) : Place(division.tiles.place_of(tile)) {
        const int number = column / TILE_N;
        column = number * division.narrow + min(number, division.wider) * WIDTH_STEP;
        width = division.narrow + (number < division.wider ? WIDTH_STEP : 0);
    }
    __device__ __forceinline__ int whole_strips() const { return width / STRIP_COLUMNS; }
    __device__ __forceinline__ int rest() const { return width % STRIP_COLUMNS; }
    __device__ __forceinline__ int strips() const { return whole_strips() + (rest() > 0); }
};

// The ring with stages of a size that the launch chose.
struct SizedRing : Ring {
    int count, bytes;

    __device__ __forceinline__ SizedRing(int count, int widest) : count(count), bytes(A_BYTES + widest * SWIZZLE_BYTES) {}
    // By the warp that loads, which goes on at once, ...
    __device__ __forceinline__ void begin(const Thread& thread) const {
        if (thread.lane < STAGES) {
            initialize(full + 8 * thread.lane, 1);
            initialize(empty + 8 * thread.lane, CONSUMER_WARPS);
            publish_barriers();
        }
        __syncwarp();
        asm volatile("bar.arrive 1, %0;\n" ::"n"(CONSUMER_THREADS + WARP) : "memory");
    }
    // ... and by those that multiply: the mbarriers are there.
    __device__ __forceinline__ void join() const {
        asm volatile("bar.sync 1, %0;\n" ::"n"(CONSUMER_THREADS + WARP) : "memory");
    }
    __device__ __forceinline__ unsigned at() const { return stages + stage * bytes; }
    __device__ __forceinline__ unsigned own_strips(const Thread& thread) const {
        return stages + count * bytes + thread.warp * BUFFERS * STRIP_BYTES;
    }
    __device__ __forceinline__ void next() {
        if (++stage == count) stage = 0, phase ^= 1;
    }
};

// Maps of results: strips of 64 columns, and what is left of a wide and of a narrow tile.
struct Ways {
    const CUtensorMap &strip, &rest_wide, &rest_narrow;
    int narrow;

    // Lays strip `number` of a warp's tile down at `at` and asks the TMA to bring it to its place.
    __device__ __forceinline__ void send(const Thread& thread, const Patch& patch, int number, unsigned at,
                                         const unsigned (&words)[STRIP_WORDS]) const {
        const bool whole = number < patch.whole_strips();
        if (whole) {
            write_strip(thread, at, words);
        } else {  // its rows lie one behind the other
            const int line = thread.lane % STRIP_ROWS, pieces = patch.rest() / 8;
#pragma unroll
            for (int piece = 0; piece < 8; piece += 2) {
                const int own = piece + thread.lane / STRIP_ROWS;
                if (piece < pieces) {
                    // Lanes of a piece that is none write where the next strip's would be.
                    const int place = own < pieces ? (line * pieces + own) * 16 : STRIP_BYTES - 256 + line * 16;
                    store_matrices(at + place, words[2 * piece], words[2 * piece + 1], words[2 * piece + 2],
                                   words[2 * piece + 3]);
                }
            }
        }
        publish_to_async();
        __syncwarp();
        if (thread.lane == 0) {
            const CUtensorMap& map = whole ? strip : patch.width == narrow ? rest_narrow : rest_wide;
            store(map, patch.column + number * STRIP_COLUMNS, patch.row + thread.row_of(0), at);
            commit_stores();
        }
    }
};

// Strip `number` by way of one of the warp's two buffers, as soon as the TMA has read what was there before.
__device__ __forceinline__ void send_late(const Thread& thread, const Ways& ways, const Patch& patch, int number,
                                          unsigned own_strips, const unsigned (&words)[STRIPS][STRIP_WORDS]) {
    if (thread.lane == 0) {
        if (number == 0) wait_stores_read<0>();
        else wait_stores_read<BUFFERS - 1>();
    }
    __syncwarp();
    const unsigned at = own_strips + number % BUFFERS * STRIP_BYTES;
#pragma unroll
    for (int i = 0; i < STRIPS; ++i) {
        if (i == number) ways.send(thread, patch, i, at, words[i]);
    }
}

// All strips of a block's last tile at once: the ring's next stage is empty when all warps have released what it held.
__device__ __forceinline__ void send_last(const Thread& thread, const SizedRing& ring, const Ways& ways,
                                          const Patch& patch, unsigned own_strips,
                                          const unsigned (&words)[STRIPS][STRIP_WORDS]) {
    static_assert(A_BYTES >= CONSUMER_WARPS * STRIP_BYTES, "a stage of any width holds one strip of each warp, ...");
    static_assert(STRIPS == 2 * BUFFERS && NARROWEST + 64 == STRIP_COLUMNS * BUFFERS, "... of 128 columns two");
    ring.wait_empty();
    if (thread.lane == 0) wait_stores_read<0>();
    __syncwarp();
    const unsigned spare = ring.at() + thread.warp * BUFFERS * STRIP_BYTES;
#pragma unroll
    for (int i = 0; i < STRIPS; ++i) {
        const unsigned at = i < BUFFERS ? own_strips + i * STRIP_BYTES : spare + (i - BUFFERS) * STRIP_BYTES;
        if (i < patch.strips()) ways.send(thread, patch, i, at, words[i]);
    }
}

// Replaces the sums by alpha times them plus beta times what C holds.
__device__ __forceinline__ void finish(WideSums& sums, const Thread& thread, const Result& result, const Patch& patch) {
    if (result.alpha != 1.0f) {
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sums[e] *= result.alpha;
    }
    if (result.beta != 0.0f) {
#pragma unroll
        for (int e = 0; e < SUMS; e += 2) {
            const int row = patch.row + thread.row_of(0) + thread.lane / 4 + e / 2 % 2 * 8;
            const int within = e / 4 * 8 + thread.lane % 4 * 2, column = patch.column + within;
            if (row < result.m && within < patch.width && column < result.n) {
                const element* const old = result.c + static_cast<long long>(row) * result.n + column;
                const float2 pair = unpack(*reinterpret_cast<const unsigned*>(old));
                sums[e] += result.beta * pair.x;
                sums[e + 1] += result.beta * pair.y;
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_even(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_wide,
                     const __grid_constant__ CUtensorMap map_narrow, const __grid_constant__ CUtensorMap map_c,
                     const __grid_constant__ CUtensorMap rest_wide, const __grid_constant__ CUtensorMap rest_narrow,
                     element* c, int m, int n, int k, f32 alpha, f32 beta, int columns, int narrow, int wider,
                     int stages) {
    const Thread thread;
    const Division division(m, columns, narrow, wider);
    SizedRing ring(stages, division.widest());
    const int tiles = division.tiles.count(), chunks = chunks_of(k);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        if (thread.warp != CONSUMER_WARPS) return;
        ring.begin(thread);
        if (elected()) {
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const Patch patch(division, tile);
                const CUtensorMap& map_b = patch.width == narrow ? map_narrow : map_wide;
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    ring.wait_empty();
                    const unsigned at = ring.at(), barrier = ring.full_barrier();
                    expect(barrier, A_BYTES + patch.width * SWIZZLE_BYTES);
                    load(at, map_a, chunk * CHUNK, patch.row, barrier);
                    load(at + A_BYTES, map_b, chunk * CHUNK, patch.column, barrier);
                    ring.next();
                }
            }
        }
    } else {
        take_registers<240>();
        ring.join();
        const Result result = {c, m, n, alpha, beta};
        const Ways ways = {map_c, rest_wide, rest_narrow, narrow};
        const unsigned own_strips = ring.own_strips(thread);
        Sums sums = {};                       // one product of 64 rows
        unsigned words[STRIPS][STRIP_WORDS];  // the results of the tile before
        Patch before;
        int waiting = 0;  // strips of these for their way to C
        int previous = 0;
        Patch patch(division, blockIdx.x);  // every block has a tile
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            for (int chunk = 0; chunk < chunks; ++chunk) {
                ring.wait_full();
                multiply_chunk_of(sums[0], patch.width,
                                  descriptor(ring.at() + thread.warpgroup * ROWS * SWIZZLE_BYTES),
                                  descriptor(ring.at() + A_BYTES), chunk);
                if (chunk < waiting) send_late(thread, ways, before, chunk, own_strips, words);
                wait_products<1>();
                if (chunk > 0) ring.release(thread, previous);
                previous = ring.stage;
                ring.next();
            }
            for (int number = chunks; number < waiting; ++number) {  // too few products to hide behind
                send_late(thread, ways, before, number, own_strips, words);
            }
            before = patch;
            waiting = patch.strips();
            // The next place is computed beside the last products.
            patch = Patch(division, min(tile + static_cast<int>(gridDim.x), tiles - 1));
            pin(patch.row);
            pin(patch.column);
            pin(patch.width);
            wait_products<0>();
            ring.release(thread, previous);
            finish(sums[0], thread, result, before);
#pragma unroll
            for (int number = 0; number < STRIPS; ++number) pack_strip(words[number], sums, number);
        }
        send_last(thread, ring, ways, before, own_strips, words);
        if (thread.lane == 0) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
