/*---
title: The same, the last waves dealt out evenly along k where that pays (stream-K)
follows: hgemm_wgmma_late
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  IDLE: [16, 0]                # chunks of k that the last wave must leave idle, on average, to be dealt out
  RASTER: [2048, 64]           # rows of C that are walked together; 64: one tile row after another
let: {tiles: "ceil(m / 128) * ceil(n / 256)"}
tile: [128, 256, 64]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
# four stages, then two strips of 2048 bytes for each of eight warps
shared_bytes: 1024 + 4 * (128 + 256) * 128 + 8 * 2 * 2048
tensor_maps:
  map_a: {of: a, box: [64, 128], swizzle: 128}
  map_b: {of: b, box: [64, 256], swizzle: 128}
  map_c: {of: c, box: [64, 16], swizzle: 128}
buffers:
  # sums that a block leaves for another one, and a flag for each of its two warpgroups
  parts: {dtype: f32, size: "min(sms, tiles) * 128 * 256"}
  flags: {dtype: u32, size: "min(sms, tiles) * 2", zeroed: true}
architecture_specific: true
requires: {arch: 90, n: 8, k: 8,
    conditions: [wgmma, "232448 <= shared_per_block_optin", "tiles * ceil(k / 64) < 2**31"]}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta, parts, flags]
---*/

// A last wave of few tiles keeps few SMs busy. Where that costs more than IDLE chunks of every block's time,
// the chunks of its tiles (and of one full wave more where it is less than half full) are laid in a row, tile
// after tile, and every block takes an equal, contiguous piece of the row: the end of one tile, then the
// beginning of the next. Who has a tile's beginning stores it; who has its end has had it first, leaves its
// sums in memory and raises a flag. So nobody waits for work that has not begun: all blocks run at once, one on
// an SM.
//
// Whole waves come first. Their blocks walk along k in step and share what they read in L2; pieces of the row
// do not, and what is read out of step costs more than it seems.

#define TILE_N 256
#define STAGES 4

#include "wgmma_tile.cuh"

using namespace hopper;

constexpr int PART = ROWS * TILE_N;   // sums of a warpgroup

// What a block does, in order: whole tiles, then its piece of the row of chunks of the tiles that are dealt out.
struct Work {
    int chunks;        // of a tile
    int tile, whole;   // next whole tile, and the first tile that is none
    int next, end;     // its piece of the row
    int row_chunks;    // length of the row
    // The present item: chunks `first` to `first + count - 1` of tile `now`.
    int now = 0, first = 0, count = 0;

    __device__ __forceinline__ Work(int tiles, int chunks) : chunks(chunks) {
        const int blocks = gridDim.x, rest = tiles % blocks;
        tile = blockIdx.x;
        whole = tiles;
        row_chunks = 0;
        if (rest != 0 && static_cast<long long>(blocks - rest) * chunks > static_cast<long long>(IDLE) * blocks) {
            const int dealt = 2 * rest >= blocks ? rest : rest + blocks;
            whole = tiles - dealt;
            row_chunks = dealt * chunks;
        }
        next = begin_of(blockIdx.x);
        end = begin_of(blockIdx.x + 1);
    }

    // Where the piece of a block begins.
    __device__ __forceinline__ int begin_of(int block) const {
        if (row_chunks == 0) return 0;
        return static_cast<int>(static_cast<long long>(row_chunks) * block / gridDim.x);
    }

    __device__ __forceinline__ bool advance() {
        if (tile < whole) {
            now = tile;
            first = 0;
            count = chunks;
            tile += gridDim.x;
            return true;
        }
        if (next == end) return false;
        now = next / chunks;
        first = next - now * chunks;
        count = min(chunks - first, end - next);
        next += count;
        now += whole;
        return true;
    }
};

// Waits for the other warps of this warpgroup.
__device__ __forceinline__ void sync_warpgroup(const Thread& thread) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(1 + thread.warpgroup), "n"(WARPGROUP) : "memory");
}

// A warpgroup's place for the sums of block `block`, from this thread's first four on. Four sums of each
// thread lie beside those of the next thread: 512 bytes for a warp.
__device__ __forceinline__ float4* part_of(const Thread& thread, float* parts, int block) {
    const long long first = static_cast<long long>(block * CONSUMERS + thread.warpgroup) * PART;
    return reinterpret_cast<float4*>(parts + first) + threadIdx.x % WARPGROUP;
}

__device__ __forceinline__ void leave(const Sums& sums, const Thread& thread, float* parts, unsigned* flags) {
    float4* const part = part_of(thread, parts, blockIdx.x);
#pragma unroll
    for (int i = 0; i < SUMS / 4; ++i) {
        const f32* const four = &sums[0][4 * i];
        __stcg(part + i * WARPGROUP, make_float4(four[0], four[1], four[2], four[3]));
    }
    sync_warpgroup(thread);
    if (threadIdx.x % WARPGROUP == 0) {
        __threadfence();
        unsigned* const flag = flags + blockIdx.x * CONSUMERS + thread.warpgroup;
        asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(flag), "r"(1) : "memory");
    }
}

// Adds what `block` left, and lowers its flag for the next launch.
__device__ __forceinline__ void add(Sums& sums, const Thread& thread, float* parts, unsigned* flags, int block) {
    const bool first = threadIdx.x % WARPGROUP == 0;
    unsigned* const flag = flags + block * CONSUMERS + thread.warpgroup;
    if (first) {
        unsigned raised;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(raised) : "l"(flag) : "memory");
        while (raised == 0);
    }
    sync_warpgroup(thread);
    const float4* const part = part_of(thread, parts, block);
#pragma unroll
    for (int i = 0; i < SUMS / 4; ++i) {
        const float4 four = __ldcg(part + i * WARPGROUP);
        f32* const own = &sums[0][4 * i];
        own[0] += four.x;
        own[1] += four.y;
        own[2] += four.z;
        own[3] += four.w;
    }
    if (first) *flag = 0;
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    hgemm_wgmma_stream_k(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                         const __grid_constant__ CUtensorMap map_c, Out* c, int m, int n, int k, f32 alpha,
                         f32 beta, float* parts, unsigned* flags) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    Work work(tiles.count(), chunks);
    if (thread.warpgroup == CONSUMERS) {
        keep_registers<24>();
        if (thread.warp == CONSUMER_WARPS && elected()) {
            while (work.advance()) {
                const Place place = tiles.place_of(work.now);
                for (int chunk = work.first; chunk < work.first + work.count; ++chunk) {
                    ring.wait_empty();
                    load_chunk(ring, map_a, map_b, place, chunk);
                    ring.next();
                }
            }
        }
    } else {
        take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = strips_of(thread, ring);
        const bool leader = thread.lane == 0;
        Sums sums;
        Words held[HELD];  // the results of the tile before
        Place before = {0, 0};
        bool waiting = false;  // these results for their way to C
        int previous = 0;
        while (work.advance()) {
            const Place place = multiply_beside_stores(sums, thread, ring, previous, tiles, work.now, work.count, map_c,
                                                       before, waiting, own_strips, held);
            if (work.first > 0) {  // another block has this tile's beginning
                leave(sums, thread, parts, flags);
                continue;
            }
            // The blocks that follow have what is missing.
            int missing = chunks - work.count;
            for (int block = blockIdx.x + 1; missing > 0; ++block) {
                add(sums, thread, parts, flags, block);
                missing -= work.begin_of(block + 1) - work.begin_of(block);
            }
            finish(sums, thread, result, place);
            hold(held, sums, thread, map_c, place, own_strips);
            before = place;
            waiting = true;
        }
        if (waiting) store_last(thread, ring, map_c, before, own_strips, held);
        if (leader) wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
