/*---
title: The same, the last waves dealt out evenly along k where that pays (stream-K)
follows: matmul_wgmma_late
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)"
  accumulate: "i32 if TYPE == 'i8' else (f16 if TYPE == 'f16' else f32)"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [tf32, i8, f16]
  TILE_N: [192, 256, 128, 64]  # outputs of a tile, side by side; it has 128 below each other
  IDLE: [16, 0, 1000000]       # chunks of k that the last wave must leave idle, on average, to be dealt out
  RASTER: [2048, 1024, 64]     # rows of C that are walked together; 64: one tile row after another
# 128x256 sums of 32 bits, half a tile's results and what is dealt out do not fit into the registers
where: ["TILE_N in [256, 128] if TYPE == 'f16' else TILE_N < 256"]
let: {tiles: "ceil(m / 128) * ceil(n / TILE_N)"}
tile: [128, TILE_N, "128 // size(TYPE)"]
block: [384]
grid: ["min(sms, tiles)"]
# tiles, as whose waves they run
working_blocks: tiles
# as many stages as fit beside two strips of 2048 bytes for each of eight warps
shared_bytes: 1024 + floor(198400 / ((128 + TILE_N) * 128)) * (128 + TILE_N) * 128 + 8 * 2 * 2048
tensor_maps:
  map_a: {of: a, box: ["128 // size(TYPE)", 128], swizzle: 128}
  map_b: {of: b, box: ["128 // size(TYPE)", TILE_N], swizzle: 128}
  map_c: {of: c, box: ["64 if TYPE == 'f16' else 32", 16], swizzle: 128}
buffers:
  # registers of sums that a block leaves for another one, and a flag for each of its two warpgroups
  parts: {dtype: u32, size: "min(sms, tiles) * 128 * TILE_N // (2 if TYPE == 'f16' else 1)"}
  flags: {dtype: u32, size: "min(sms, tiles) * 2", zeroed: true}
architecture_specific: true
requires:
  arch: 90
  n: "8 if TYPE == 'f16' else 4"
  k: 16 // size(TYPE)
  conditions:
    - wgmma
    - "232448 <= shared_per_block_optin"
    - "tiles * ceil(k * size(TYPE) / 128) < 2**31"
entry: matmul_wgmma_stream_k
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta, parts, flags]
---*/

// Tiles of 128x192 fit 4096 badly: 704 of them are 5.33 waves of 132 SMs, and the last wave costs as much as a full
// one. Here the chunks of what whole waves leave over (and of one full wave more where it is less than half a wave) are
// laid in a row, and every block takes an equal piece of it, as in hgemm_wgmma_stream_k: the end of one tile, then the
// beginning of the next. Who has a tile's end leaves its registers of sums in memory; who has its beginning adds them.
//
// Sums of bytes are the same in any order. Sums of f16 are rounded to 16 bits once more where a tile is split.

#define TILE_M 128
#define STAGES (198400 / ((TILE_M + TILE_N) * 128))

#include "wgmma_tile.cuh"

using namespace wgmma_tile;

constexpr int FOURS = SUMS / 4;  // registers of a thread, four at a time

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
    asm volatile("bar.sync %0, %1;\n" ::"r"(1 + thread.warpgroup), "n"(hopper::WARPGROUP) : "memory");
}

// A warpgroup's place for the sums of block `block`, from this thread's first four on. Four sums of each
// thread lie beside those of the next thread: 512 bytes for a warp.
__device__ __forceinline__ Four* part_of(const Thread& thread, Four* parts, int block) {
    return parts + (block * CONSUMERS + thread.warpgroup) * FOURS * hopper::WARPGROUP +
           threadIdx.x % hopper::WARPGROUP;
}

__device__ __forceinline__ void leave(const Sums& sums, const Thread& thread, Four* parts, unsigned* flags) {
    Four* const part = part_of(thread, parts, blockIdx.x);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const Register* const four = &sums[4 * i];
        __stcg(part + i * hopper::WARPGROUP, Four{four[0], four[1], four[2], four[3]});
    }
    sync_warpgroup(thread);
    if (threadIdx.x % hopper::WARPGROUP == 0) {
        __threadfence();
        unsigned* const flag = flags + blockIdx.x * CONSUMERS + thread.warpgroup;
        asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(flag), "r"(1) : "memory");
    }
}

// Adds what `block` left, and lowers its flag for the next launch.
__device__ __forceinline__ void add(Sums& sums, const Thread& thread, Four* parts, unsigned* flags, int block) {
    const bool first = threadIdx.x % hopper::WARPGROUP == 0;
    unsigned* const flag = flags + block * CONSUMERS + thread.warpgroup;
    if (first) {
        unsigned raised;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(raised) : "l"(flag) : "memory");
        while (raised == 0);
    }
    sync_warpgroup(thread);
    const Four* const part = part_of(thread, parts, block);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const Four four = __ldcg(part + i * hopper::WARPGROUP);
        Register* const own = &sums[4 * i];
        combine(own[0], Scalar(1), Scalar(1), four.x);
        combine(own[1], Scalar(1), Scalar(1), four.y);
        combine(own[2], Scalar(1), Scalar(1), four.z);
        combine(own[3], Scalar(1), Scalar(1), four.w);
    }
    if (first) *flag = 0;
}

extern "C" __global__ void __launch_bounds__(ROLE_THREADS, 1)
    matmul_wgmma_stream_k(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                          const __grid_constant__ CUtensorMap map_c, Out* c, int m, int n, int k, Scalar alpha,
                          Scalar beta, Four* parts, unsigned* flags) {
    const Thread thread;
    Ring ring;
    if (threadIdx.x == 0) ring.begin(CONSUMER_WARPS);
    __syncthreads();

    const Tiles tiles(m, n);
    const int chunks = chunks_of(k);
    Work work(tiles.count(), chunks);
    if (thread.warpgroup == CONSUMERS) {
        hopper::keep_registers<24>();
        if (thread.warp == CONSUMER_WARPS && hopper::elected()) {
            while (work.advance()) {
                const Place place = tiles.place_of(work.now);
                for (int chunk = work.first; chunk < work.first + work.count; ++chunk) {
                    ring.wait_empty();
                    load_boxes(ring, map_a, map_b, place, chunk);
                    ring.next();
                }
            }
        }
    } else {
        hopper::take_registers<240>();
        const Result result = {c, m, n, alpha, beta};
        const unsigned own_strips = hopper::strips_of(thread, ring);
        Sums sums;
        Held held;
        int previous = 0;
        while (work.advance()) {
            const Place place = multiply_beside_stores(sums, thread, ring, previous, tiles, work.now, work.count, map_c,
                                                       held, own_strips);
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
            held.take(sums, thread, map_c, place, own_strips);
        }
        held.leave(thread, map_c, own_strips);
        if (thread.lane == 0) hopper::wait_stores_read<0>();  // shared memory has to outlive the stores' reads
    }
}
