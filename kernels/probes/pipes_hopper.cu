/*---
title: Latency and issue interval of wgmma, mbarriers and bulk copies
operation: probe
macros:
  OP: [wgmma, mbarrier, bulk]
  SIZE: [16, 32, 64, 128, 192, 256, 1024, 16384]   # columns of a wgmma of f16; bytes of a bulk copy
  TOGETHER: [1, 8]                                 # wgmmas of a group, or copies, between two waits
where: ["OP == 'bulk' or SIZE <= 256", "OP == 'wgmma' or TOGETHER == 1", "OP != 'mbarrier' or SIZE == 16"]
block: [128]
grid: [1, 1, 1]
shared_bytes: "1024 + 128 * (64 + 256)"
requires: {arch: 90, conditions: [wgmma]}
architecture_specific: true
arguments: [source, interval, errors, steps]
buffers:
  source: {dtype: u32, size: 4096}
  interval: {dtype: f32, size: 1, report: {metric: interval, unit: cycle}}
  errors: {dtype: i32, size: 128, expect: 0}
# `steps`: of two passes, a multiple of TOGETHER. A wgmma of ones adds 16 to each sum.
cases:
  wgmma16_latency: {macros: {OP: wgmma, SIZE: 16, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  wgmma16_interval: {macros: {OP: wgmma, SIZE: 16, TOGETHER: 8}, values: {source: lane}, scalars: {steps: 512}}
  wgmma32_latency: {macros: {OP: wgmma, SIZE: 32, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  wgmma32_interval: {macros: {OP: wgmma, SIZE: 32, TOGETHER: 8}, values: {source: lane}, scalars: {steps: 512}}
  wgmma64_latency: {macros: {OP: wgmma, SIZE: 64, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  wgmma64_interval: {macros: {OP: wgmma, SIZE: 64, TOGETHER: 8}, values: {source: lane}, scalars: {steps: 512}}
  wgmma128_latency: {macros: {OP: wgmma, SIZE: 128, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  wgmma128_interval: {macros: {OP: wgmma, SIZE: 128, TOGETHER: 8}, values: {source: lane}, scalars: {steps: 512}}
  wgmma192_latency: {macros: {OP: wgmma, SIZE: 192, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  wgmma192_interval: {macros: {OP: wgmma, SIZE: 192, TOGETHER: 8}, values: {source: lane}, scalars: {steps: 512}}
  wgmma256_latency: {macros: {OP: wgmma, SIZE: 256, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  wgmma256_interval: {macros: {OP: wgmma, SIZE: 256, TOGETHER: 8}, values: {source: lane}, scalars: {steps: 512}}
  mbarrier: {macros: {OP: mbarrier, SIZE: 16, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512},
      note: "128 threads arrive and wait for the phase"}
  bulk16: {macros: {OP: bulk, SIZE: 16, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512},
      note: "cp.async.bulk of 16 bytes from L2, from its issue to the end of the wait at its mbarrier"}
  bulk1024: {macros: {OP: bulk, SIZE: 1024, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
  bulk16384: {macros: {OP: bulk, SIZE: 16384, TOGETHER: 1}, values: {source: lane}, scalars: {steps: 512}}
---*/

// What a warpgroup waits for when it waits at once (TOGETHER 1: latency, with commit and wait), and how far apart eight
// wgmmas of one group are that add to the same sums. A and B are ones, from shared memory.

#include "wgmma.cuh"
#include "words.cuh"

#define OP_wgmma 0
#define OP_mbarrier 1
#define OP_bulk 2
#define NUMBER NAMED(OP_, OP)

namespace {

using namespace hopper;

constexpr int COLUMNS = NUMBER == OP_wgmma ? SIZE : 16;
constexpr int SUMS = COLUMNS / 2;
constexpr int BYTES = NUMBER == OP_bulk ? SIZE : 16;

template <int N>
__device__ __forceinline__ void multiply(float (&d)[N / 2], u64 a, u64 b, int add);
#define OF_F16 float, "+f", "k16.f32.f16.f16", ", 1, 1, 0, 0"
WGMMA_16(OF_F16)
WGMMA_32(OF_F16)
WGMMA_64(OF_F16)
WGMMA_128(OF_F16)
WGMMA_192(OF_F16)
WGMMA_256(OF_F16)

// `a` and `b`: descriptors; `words`: where a copy goes.
__device__ __forceinline__ void run(float (&sums)[SUMS], u64 a, u64 b, unsigned words, unsigned barrier,
                                    const unsigned* source, int steps) {
#pragma unroll 1
    for (int done = 0; done < steps; done += TOGETHER) {
        if (NUMBER == OP_wgmma) {
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) multiply<COLUMNS>(sums, a, b, 1);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        } else if (NUMBER == OP_mbarrier) {
            arrive(barrier);
            wait(barrier, done % 2);
        } else if (threadIdx.x == 0) {
            expect(barrier, BYTES);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(words),
                         "l"(source), "n"(BYTES), "r"(barrier) : "memory");
            wait(barrier, done % 2);
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPGROUP)
    pipes_hopper(const unsigned* __restrict__ source, float* __restrict__ interval, int* __restrict__ errors, int steps) {
    extern __shared__ unsigned char memory[];
    __shared__ u64 barrier;
    const unsigned begin = shared_of(memory), offset = (ATOM_BYTES - begin % ATOM_BYTES) % ATOM_BYTES;
    unsigned* const words = reinterpret_cast<unsigned*>(memory + offset);
    for (int i = threadIdx.x; i < (MMA_M + 256) * SWIZZLE_BYTES / 4; i += WARPGROUP) words[i] = 0x3c003c00;  // f16 ones
    if (threadIdx.x == 0) {
        initialize(shared_of(&barrier), NUMBER == OP_mbarrier ? WARPGROUP : 1);
        publish_barriers();
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");

    float sums[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    u64 a = descriptor(begin + offset), b = descriptor(begin + offset + MMA_M * SWIZZLE_BYTES);
    asm volatile("" : "+l"(a), "+l"(b));  // not to be worked out again at each step
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {  // the second is timed: the first brings in code and data
        __syncthreads();
        const long long now = clock64();
        run(sums, a, b, begin + offset, shared_of(&barrier), source, steps);
        const long long then = clock64();
        if (threadIdx.x == 0) interval[0] = static_cast<float>(then - now) / static_cast<float>(steps);
    }
    __syncthreads();

    int wrong = steps % 8;  // also an even number of phases
#pragma unroll
    for (int i = 0; i < SUMS; ++i) wrong += sums[i] != (NUMBER == OP_wgmma ? 32.0f * static_cast<float>(steps) : 0.0f);
    if (NUMBER == OP_bulk) {
        for (int i = threadIdx.x; i < BYTES / 4; i += WARPGROUP) wrong += words[i] != source[i];
    }
    errors[threadIdx.x] = wrong;
}
