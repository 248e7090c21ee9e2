/*---
title: Latency of one dependent access, level by level
operation: probe
macros:
  LEVEL: [register, shared, constant, l1, l2, dram]
block: [128]
grid: [1, 1, 1]
requires: {arch: 75}
arguments: [chain, pointers, cycles, errors, slots, steps]
buffers:
  chain: {dtype: i32, size: 4096}      # element of the next slot; slots are 32 elements (128 bytes) apart
  pointers: {dtype: i32, size: 4096}   # scratch: the same chain as addresses (l1 and l2)
  cycles: {dtype: f32, size: 1, report: {metric: latency, unit: cycle}}
  errors: {dtype: i32, size: 1, expect: 0}
# `claimed` are the lecture's figures; it gives one for global memory and does not tell caches apart.
# `steps` must be a multiple of 128, `slots` the size of the chain over 32.
cases:
  register: {macros: {LEVEL: register}, values: {chain: "chase(32)"}, scalars: {slots: 128, steps: 16384},
      claimed: {latency: 1},
      note: "a chain of dependent single-precision multiply-adds: the time until a register can be used again"}
  shared: {macros: {LEVEL: shared}, values: {chain: "chase(32)"}, scalars: {slots: 128, steps: 4096},
      claimed: {latency: 5}, note: "32-bit addresses in shared memory, each load's result is the next load's address"}
  constant: {macros: {LEVEL: constant}, values: {chain: "chase(32)"}, scalars: {slots: 128, steps: 4096},
      claimed: {latency: 5},
      note: "1 KB of constant memory read through a register index; an operand at a fixed constant address is a different and cheaper path"}
  l1: {macros: {LEVEL: l1}, values: {chain: "chase(32)"}, sizes: {chain: 4096, pointers: 4096},
      scalars: {slots: 128, steps: 4096}, note: "16 KB read with ld.global.ca after a pass over the same slots"}
  l2: {macros: {LEVEL: l2}, values: {chain: "chase(32)"}, sizes: {chain: 1048576, pointers: 1048576},
      scalars: {slots: 32768, steps: 4096},
      note: "4 MB read with ld.global.cg, which passes L1 by; both partitions of the L2 take part in the mean"}
  dram: {macros: {LEVEL: dram}, values: {chain: "chase(32)"}, sizes: {chain: 134217728},
      scalars: {slots: 4194304, steps: 4096}, claimed: {latency: 500},
      note: "512 MB, every slot read once, in random order: misses of the TLB are part of it, so is one 64-bit address calculation a step; what the upload left in L2 (its size over 512 MB) lowers the mean"}
---*/

// One thread follows a chain in which every access needs the result of the one before, so the time over the
// number of steps is the latency of one access and nothing can overlap. The chain is a random cycle over
// slots of 128 bytes: no prefetcher and no neighbour in the same line helps. The loop is walked twice and
// the second walk is timed: the first one brings in the code, and the data where the level is a cache.

#include "words.cuh"

#define LEVEL_register 0
#define LEVEL_shared 1
#define LEVEL_constant 2
#define LEVEL_l1 3
#define LEVEL_l2 4
#define LEVEL_dram 5
#define LEVEL_NUMBER NAMED(LEVEL_, LEVEL)

namespace {

constexpr int LEVEL_INDEX = LEVEL_NUMBER;
[[maybe_unused]] constexpr int SLOT = 32;       // elements of 4 bytes from one slot to the next
constexpr int UNROLLED = 128;  // steps between two branches: even a register chain hides the loop's counter

static_assert(LEVEL_INDEX >= LEVEL_register && LEVEL_INDEX <= LEVEL_dram, "LEVEL: a level of the memory hierarchy");

#if LEVEL_NUMBER == LEVEL_register

using Position = float;

__device__ __forceinline__ void step(Position& position, float factor) {
    asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(position) : "f"(factor));
}

#elif LEVEL_NUMBER == LEVEL_shared

// The position is an address of the shared window, so that a step is one instruction.
using Position = unsigned;
constexpr int SHARED_SLOTS = 128;

__device__ __forceinline__ void step(Position& position, float) {
    asm volatile("ld.shared.u32 %0, [%0];" : "+r"(position)::"memory");
}

#elif LEVEL_NUMBER == LEVEL_constant

// Constant memory is filled by the compiler: a cycle with a stride that is odd and far from 1.
using Position = unsigned;
constexpr unsigned CONSTANT_WORDS = 256;  // 1 KB: inside the smallest constant cache
constexpr unsigned CONSTANT_STRIDE = 91;
static_assert((CONSTANT_WORDS & (CONSTANT_WORDS - 1)) == 0 && CONSTANT_STRIDE % 2 == 1,
              "an odd stride visits all of a power of two of words");

struct ConstantChain {
    unsigned next[CONSTANT_WORDS];  // byte offsets, so that a step is one instruction
};

__device__ constexpr ConstantChain constant_chain() {
    ConstantChain chain{};
    for (unsigned word = 0; word < CONSTANT_WORDS; ++word) {
        chain.next[word] = (word + CONSTANT_STRIDE) % CONSTANT_WORDS * 4;
    }
    return chain;
}

__constant__ ConstantChain constant_words = constant_chain();

__device__ __forceinline__ void step(Position& position, float) {
    position = *reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(&constant_words) + position);
}

#elif LEVEL_NUMBER == LEVEL_dram

using Position = const int*;

// The buffer must not be touched before, so its elements are used as they are: a step is a load and the
// calculation of the next address from an index.
__device__ __forceinline__ void step(Position& position, const int* chain) {
    int next;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(next) : "l"(position) : "memory");
    position = chain + next;
}

#else

using Position = unsigned long long;

__device__ __forceinline__ void step(Position& position, float) {
#if LEVEL_NUMBER == LEVEL_l1
    asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(position)::"memory");
#else
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(position)::"memory");
#endif
}

#endif

// Follows the chain by index, untimed: where a walk of that length must end.
[[maybe_unused]] __device__ int follow(const int* chain, int element, int steps) {
    for (int i = 0; i < steps; ++i) element = __ldcg(chain + element);
    return element;
}

template <class Argument>
__device__ __forceinline__ Position walk(Position position, int steps, Argument argument) {
#pragma unroll 1
    for (int done = 0; done < steps; done += UNROLLED) {
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i) step(position, argument);
    }
    return position;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    latency(const int* __restrict__ chain, int* __restrict__ pointers, float* __restrict__ cycles,
            int* __restrict__ errors, int slots, int steps) {
    // The value that ends a walk is stored here before the clock is read again: the clock waits for it.
    __shared__ volatile Position end;

#if LEVEL_NUMBER == LEVEL_register
    const Position first = 0.0f;
    const float argument = 0x1p-20f * static_cast<float>(steps);  // not known to the compiler
#elif LEVEL_NUMBER == LEVEL_shared
    __shared__ unsigned words[SHARED_SLOTS * SLOT];
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(words));
    for (int slot = threadIdx.x; slot < SHARED_SLOTS; slot += blockDim.x) {
        words[slot * SLOT] = base + static_cast<unsigned>(chain[slot * SLOT]) * 4u;
    }
    const Position first = base;
    const float argument = 0.0f;
#elif LEVEL_NUMBER == LEVEL_constant
    const Position first = 0;
    const float argument = 0.0f;
#elif LEVEL_NUMBER == LEVEL_dram
    // A second launch must not find the lines of the first one in L2: the walk starts at another slot each
    // time. Two walks of 8,192 slots out of four million hardly meet.
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    const int start = static_cast<int>((now * 11400714819323198485ull >> 32) % slots) * SLOT;
    const Position first = chain + start;
    const int* const argument = chain;
#else
    unsigned long long* const slot_pointers = reinterpret_cast<unsigned long long*>(pointers);
    for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
        slot_pointers[slot * (SLOT / 2)] =
            reinterpret_cast<unsigned long long>(pointers + chain[slot * SLOT]);
    }
    const Position first = reinterpret_cast<unsigned long long>(pointers);
    const float argument = 0.0f;
#endif
    __syncthreads();
    if (threadIdx.x != 0) return;

    Position position = first;
    long long begun = 0;
    long long ended = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        // Data that were walked are no longer untouched: only this level goes on where it stood.
        if (LEVEL_INDEX != LEVEL_dram) position = first;
        begun = clock64();
        position = walk(position, steps, argument);
        end = position;
        ended = clock64();
    }
    cycles[0] = static_cast<float>(ended - begun) / static_cast<float>(steps);

    // A walk that went astray measured something else.
    int error = steps % UNROLLED != 0;
#if LEVEL_NUMBER == LEVEL_register
    error |= !(end > 0.0f);
#elif LEVEL_NUMBER == LEVEL_shared
    error |= slots != SHARED_SLOTS || end != base + static_cast<unsigned>(follow(chain, 0, steps)) * 4u;
#elif LEVEL_NUMBER == LEVEL_constant
    error |= end != static_cast<unsigned>(steps) * CONSTANT_STRIDE % CONSTANT_WORDS * 4u;
#elif LEVEL_NUMBER == LEVEL_dram
    error |= end != chain + follow(chain, start, 2 * steps);
#else
    error |= end != reinterpret_cast<unsigned long long>(pointers + follow(chain, 0, steps));
#endif
    errors[0] = error;
}
