/*---
title: "Bandwidth ceilings: device memory, L2, L1, shared memory"
operation: probe
macros:
  LEVEL: [dram_copy, l2_read, l1_read, shared_read]
block: [512]
# a copy has one block for every 2,048 vectors of its two passes
grid: ["16384 if LEVEL == 'dram_copy' else 2 * sms"]
requires: {arch: 75}
arguments: [source, destination, sums, words, passes]
# Reads: every block reads the whole source `passes` times. What each lane receives is counted.
work: {byte: "(2 if LEVEL == 'dram_copy' else 2 * sms) * 4 * words * passes"}
buffers:
  source: {dtype: u32, size: 8192}
  destination: {dtype: u32, size: 1, expect: "lane * 2654435761 & 4294967295 if LEVEL == 'dram_copy' else 0"}
  sums:                                # of all words that a block has read
    dtype: u32
    size: "1 if LEVEL == 'dram_copy' else 2 * sms"
    expect: "0 if LEVEL == 'dram_copy' else passes * 2654435761 * (words * (words - 1) // 2) % 4294967296"
# `words` is the size of the source in 4-byte words, a power of two and no less than 8192.
cases:
  dram_copy: {macros: {LEVEL: dram_copy}, values: {source: "lane * 2654435761 & 4294967295"},
      sizes: {source: 67108864, destination: 67108864}, scalars: {words: 67108864, passes: 2},
      note: "256 MB to another 256 MB, twice; bytes read and bytes written are both counted"}
  l2_read: {macros: {LEVEL: l2_read}, values: {source: "lane * 2654435761 & 4294967295"}, sizes: {source: 4194304},
      scalars: {words: 4194304, passes: 1},
      note: "16 MB, read from end to end by two blocks of every SM with ld.global.cg, each from another place on; small enough for a copy in each half of an L2 in two parts"}
  l1_read: {macros: {LEVEL: l1_read}, values: {source: "lane * 2654435761 & 4294967295"}, sizes: {source: 16384},
      scalars: {words: 16384, passes: 1024}, note: "64 KB, read again and again by every SM with ld.global.ca"}
  shared_read: {macros: {LEVEL: shared_read}, values: {source: "lane * 2654435761 & 4294967295"},
      scalars: {words: 8192, passes: 2048},
      note: "32 KB of each block's shared memory, 16 bytes a lane, lane after lane: without conflicts"}
---*/

// How many bytes a second each level of the memory delivers when nothing else is asked of the GPU.
// Every access is 16 bytes a lane, 512 contiguous bytes a warp, and four of them are in flight in each of
// the 32 warps of an SM: more than latency times bandwidth at every level. All words that were read are
// added up, so that no load can be left out, and the sums are known beforehand.

#include "words.cuh"

#define LEVEL_dram_copy 0
#define LEVEL_l2_read 1
#define LEVEL_l1_read 2
#define LEVEL_shared_read 3
#define LEVEL_NUMBER NAMED(LEVEL_, LEVEL)

namespace {

constexpr int THREADS = 512;
constexpr int IN_FLIGHT = 4;                  // accesses of a thread between two uses
constexpr int CHUNK = THREADS * IN_FLIGHT;    // vectors that a block moves at a time
constexpr int WORDS = 4;                      // of a vector
[[maybe_unused]] constexpr int WARP = 32;

static_assert(LEVEL_NUMBER >= LEVEL_dram_copy && LEVEL_NUMBER <= LEVEL_shared_read, "LEVEL: one of the four");

#if LEVEL_NUMBER == LEVEL_shared_read
using Place = unsigned;  // an address of the shared window
#else
using Place = const uint4*;
#endif

// A second read of one place must be a second read. ptxas takes loads of an address that does not change
// out of a loop: those of shared memory are volatile, the others go through more than one chunk.
[[maybe_unused]] __device__ __forceinline__ uint4 read(Place place) {
    uint4 vector;
#if LEVEL_NUMBER == LEVEL_shared_read
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
                 : "r"(place));
#elif LEVEL_NUMBER == LEVEL_l1_read
    asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
                 : "l"(place));
#else
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
                 : "l"(place));
#endif
    return vector;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    ceilings_memory(const uint4* __restrict__ source, uint4* __restrict__ destination,
                    unsigned* __restrict__ sums, int words, int passes) {
    const unsigned vectors = static_cast<unsigned>(words) / WORDS;

#if LEVEL_NUMBER == LEVEL_dram_copy
    // The second pass begins where the first one's blocks end, so its data left L2 long ago.
    (void)passes;
    const unsigned first = (blockIdx.x * CHUNK + threadIdx.x) & (vectors - 1);
    uint4 moved[IN_FLIGHT];
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; ++i) moved[i] = source[first + i * THREADS];
#pragma unroll
    for (int i = 0; i < IN_FLIGHT; ++i) destination[first + i * THREADS] = moved[i];
    if (blockIdx.x == 0 && threadIdx.x == 0) sums[0] = 0;
#else
#if LEVEL_NUMBER == LEVEL_shared_read
    __shared__ uint4 near[CHUNK];
    for (int i = threadIdx.x; i < CHUNK; i += THREADS) near[i] = source[i];
    __syncthreads();
    const Place mine = static_cast<unsigned>(__cvta_generic_to_shared(near)) +
                       static_cast<unsigned>(threadIdx.x * sizeof(uint4));
    constexpr unsigned STRIDE = THREADS * sizeof(uint4);
#else
    const Place mine = source + threadIdx.x;
    constexpr unsigned STRIDE = THREADS;
#endif
    // Blocks begin at different chunks: no two of them ask one slice of the L2 for the same line together.
    const unsigned chunks = vectors / CHUNK;
    unsigned chunk = static_cast<unsigned>(static_cast<unsigned long long>(blockIdx.x) * chunks / gridDim.x);
    unsigned sum = 0;
#pragma unroll 2
    for (unsigned left = chunks * passes; left > 0; --left) {
        uint4 taken[IN_FLIGHT];
#pragma unroll
        for (unsigned i = 0; i < IN_FLIGHT; ++i) {
#if LEVEL_NUMBER == LEVEL_shared_read
            taken[i] = read(mine + i * STRIDE);  // one chunk is all there is
#else
            taken[i] = read(mine + chunk * CHUNK + i * STRIDE);
#endif
        }
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; ++i) sum += taken[i].x + taken[i].y + taken[i].z + taken[i].w;
        chunk = chunk + 1 == chunks ? 0 : chunk + 1;
    }

    __shared__ unsigned total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
    if (threadIdx.x % WARP == 0) atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
        destination[0].x = 0;
    }
#endif
}
