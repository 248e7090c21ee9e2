// Stream-K of one block an SM: which chunks of which tiles a block multiplies, and how sums get from one block to
// another (hgemm_wgmma_stream_k, matmul_wgmma_stream_k).
//
// Who has a tile's end has had it first: it leaves its registers of sums in memory and raises a flag. Who has its
// beginning, and comes to that last, adds them. So nobody waits for work that has not begun: all blocks run at once.
//
// Who includes this defines IDLE, chunks of k that the last wave must leave idle, on average, to be dealt out.

#pragma once

#include "wgmma_ring.cuh"

namespace hopper {

static_assert(MMAS == 1, "a warpgroup has 64 rows");

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

// Registers of a thread, four at a time.
__device__ __forceinline__ float4 four_of(f32 a, f32 b, f32 c, f32 d) { return {a, b, c, d}; }
__device__ __forceinline__ int4 four_of(i32 a, i32 b, i32 c, i32 d) { return {a, b, c, d}; }
__device__ __forceinline__ uint4 four_of(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
using Four = decltype(four_of(Register(), Register(), Register(), Register()));
constexpr int FOURS = SUMS / 4;
constexpr int PART = WARPGROUP * SUMS;  // registers of a warpgroup

// Waits for the other warps of this warpgroup.
__device__ __forceinline__ void sync_warpgroup(const Thread& thread) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(1 + thread.warpgroup), "n"(WARPGROUP) : "memory");
}

// A warpgroup's place for the sums of block `block`, from this thread's first four on. Four sums of each
// thread lie beside those of the next thread: 512 bytes for a warp.
__device__ __forceinline__ Four* part_of(const Thread& thread, Register* parts, int block) {
    const long long first = static_cast<long long>(block * CONSUMERS + thread.warpgroup) * PART;
    return reinterpret_cast<Four*>(parts + first) + threadIdx.x % WARPGROUP;
}

__device__ __forceinline__ void leave(const Sums& sums, const Thread& thread, Register* parts, unsigned* flags) {
    Four* const part = part_of(thread, parts, blockIdx.x);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const Register* const four = &sums[0][4 * i];
        __stcg(part + i * WARPGROUP, four_of(four[0], four[1], four[2], four[3]));
    }
    sync_warpgroup(thread);
    if (threadIdx.x % WARPGROUP == 0) {
        __threadfence();
        unsigned* const flag = flags + blockIdx.x * CONSUMERS + thread.warpgroup;
        asm volatile("st.release.gpu.global.u32 [%0], %1;\n" ::"l"(flag), "r"(1) : "memory");
    }
}

// Adds what `block` left, and lowers its flag for the next launch.
__device__ __forceinline__ void add(Sums& sums, const Thread& thread, Register* parts, unsigned* flags, int block) {
    const bool first = threadIdx.x % WARPGROUP == 0;
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
        const Four four = __ldcg(part + i * WARPGROUP);
        Register* const own = &sums[0][4 * i];
        add_to(own[0], four.x);
        add_to(own[1], four.y);
        add_to(own[2], four.z);
        add_to(own[3], four.w);
    }
    if (first) *flag = 0;
}

}  // namespace hopper
