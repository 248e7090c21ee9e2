/*---
title: Latency of L2 and of device memory while other warps load
operation: probe
macros:
  LEVEL: [l2, dram]
  LOADERS: [0, 1, 2, 4, 8, 15]   # warps of each SM that load besides the one that waits
block: ["32 * (1 + LOADERS)"]
grid: [sms]
requires: {arch: 75}
arguments: [memory, latency, traffic, errors, steps]
buffers:
  memory: {dtype: i32, size: "4194304 if LEVEL == 'l2' else 268435456"}   # 16 MB stay in L2, of 1 GB little does
  latency: {dtype: f32, size: sms, report: {metric: latency, unit: cycle}}
  traffic: {dtype: f32, size: sms, report: {metric: traffic, unit: byte/cycle}}
  errors: {dtype: i32, size: sms, expect: 0}
cases:
  l2_0: {macros: {LEVEL: l2, LOADERS: 0}, values: {memory: "0"}, scalars: {steps: 2048}}
  l2_1: {macros: {LEVEL: l2, LOADERS: 1}, values: {memory: "0"}, scalars: {steps: 2048}}
  l2_2: {macros: {LEVEL: l2, LOADERS: 2}, values: {memory: "0"}, scalars: {steps: 2048}}
  l2_4: {macros: {LEVEL: l2, LOADERS: 4}, values: {memory: "0"}, scalars: {steps: 2048}}
  l2_8: {macros: {LEVEL: l2, LOADERS: 8}, values: {memory: "0"}, scalars: {steps: 2048}}
  l2_15: {macros: {LEVEL: l2, LOADERS: 15}, values: {memory: "0"}, scalars: {steps: 2048}}
  dram_0: {macros: {LEVEL: dram, LOADERS: 0}, values: {memory: "0"}, scalars: {steps: 1024}}
  dram_1: {macros: {LEVEL: dram, LOADERS: 1}, values: {memory: "0"}, scalars: {steps: 1024}}
  dram_2: {macros: {LEVEL: dram, LOADERS: 2}, values: {memory: "0"}, scalars: {steps: 1024}}
  dram_4: {macros: {LEVEL: dram, LOADERS: 4}, values: {memory: "0"}, scalars: {steps: 1024}}
  dram_8: {macros: {LEVEL: dram, LOADERS: 8}, values: {memory: "0"}, scalars: {steps: 1024}}
  dram_15: {macros: {LEVEL: dram, LOADERS: 15}, values: {memory: "0"}, scalars: {steps: 1024}}
---*/

// On every SM one thread follows a chain through random slots: each address needs the word that was loaded before, which is
// 0. The other warps load 512 bytes at a time, four times before they look whether the walk has ended. The traffic is theirs:
// bytes in a cycle of an SM. A step is a load and the three instructions of the next address.

#include "words.cuh"

#define LEVEL_l2 0
#define LEVEL_dram 1

namespace {

constexpr int WARP = 32;
constexpr int SLOT = 32, CHUNK = 128;  // elements
constexpr int SLOTS = (NAMED(LEVEL_, LEVEL) == LEVEL_l2 ? 4194304 : 268435456) / SLOT;
constexpr unsigned FACTOR = 1664525, ADDEND = 1013904223;  // through all powers of two (Numerical Recipes)

// A random slot's or chunk's address; the low bits of such numbers are the least random.
__device__ __forceinline__ const int* one_of(const int* memory, unsigned random, int count, int elements) {
    return memory + static_cast<long long>(__umulhi(random, static_cast<unsigned>(count))) * elements;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARP * (1 + LOADERS))
    latency_loaded(const int* __restrict__ memory, float* __restrict__ latency, float* __restrict__ traffic,
                   int* __restrict__ errors, int steps) {
    __shared__ unsigned ended;
    __shared__ unsigned chunks;
    if (threadIdx.x == 0) {
        ended = 0;
        chunks = 0;
    }
    __syncthreads();

    // Nothing of the launch before is in L2, because numbers begin elsewhere.
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    unsigned random = static_cast<unsigned>(now) + (blockIdx.x * 64 + threadIdx.x / WARP) * 2654435761u;
    int sum = 0;
    long long cycles = 0;
    if (threadIdx.x == 0) {
        const unsigned first = random;
        const long long begun = clock64();
#pragma unroll 4
        for (int i = 0; i < steps; ++i) {
            int word;
            asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(word) : "l"(one_of(memory, random, SLOTS, SLOT)) : "memory");
            sum |= word;
            random = random * FACTOR + ADDEND + word;
        }
        atomicAdd(&ended, 1 + (random == first));  // waits for the last one
        cycles = clock64() - begun;
    } else if (threadIdx.x >= WARP) {
        random = __shfl_sync(0xffffffffu, random, 0);
        unsigned loaded = 0;
        while (!__shfl_sync(0xffffffffu, threadIdx.x % WARP == 0 ? atomicAdd(&ended, 0) : 0, 0)) {
            int4 taken[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                random = random * FACTOR + ADDEND;
                const int* const chunk = one_of(memory, random, SLOTS * SLOT / CHUNK, CHUNK);
                taken[i] = __ldcg(reinterpret_cast<const int4*>(chunk) + threadIdx.x % WARP);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) sum |= taken[i].x | taken[i].y | taken[i].z | taken[i].w;
            loaded += 4;
        }
        if (threadIdx.x % WARP == 0) atomicAdd(&chunks, loaded);
    }
    const int wrong = __syncthreads_or(sum);
    if (threadIdx.x == 0) {
        latency[blockIdx.x] = static_cast<float>(cycles) / static_cast<float>(steps);
        traffic[blockIdx.x] = 4.0f * CHUNK * static_cast<float>(chunks) / static_cast<float>(cycles);
        errors[blockIdx.x] = wrong;
    }
}
