/*---
title: Multiply-adds by resident warps and independent chains
operation: probe
macros:
  ILP: [1, 2, 4, 8]                              # independent chains of a thread
  BLOCK_WARPS: [1, 2, 4, 6, 8, 10, 16, 18, 32]   # warps of a block
  BLOCKS: [1, 2]                                 # blocks on an SM at once
block: ["32 * BLOCK_WARPS"]
grid: ["BLOCKS * sms"]
# Nothing uses it: one block takes so much that no second one fits on its SM. Of two blocks no third fits by
# their warps. (With shared memory for exactly two, an H200 was seen to run them one after the other.)
shared_bytes: "shared_per_block_optin - 1024 if BLOCKS == 1 else 0"
# 32 warps fit on every SM, 64 where the compute capability says so.
requires: {arch: 75, conditions: ["BLOCKS * BLOCK_WARPS <= warps_per_sm"]}
arguments: [sums, steps]
work: {flop: "2 * ILP * steps * 32 * BLOCK_WARPS * BLOCKS * sms"}
buffers:
  # Of each thread: chain i begins at lane + i, and each of its steps adds 1.
  sums: {dtype: f32, size: "32 * BLOCK_WARPS * BLOCKS * sms", expect: "ILP * (lane % 32 + steps) + ILP * (ILP - 1) // 2"}
# `steps`, the length of a chain, is a multiple of 256 / ILP, and such that the scheduler with the most warps
# has work for about 2^18 cycles, whether the latency or the issue rate is what bounds it. With 6, 10 and 18
# warps some schedulers have one more than the others, which all wait for.
cases:
  warps_1_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 1, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_2_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 2, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_4_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 4, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_6_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 6, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_8_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 8, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_10_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 10, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_16_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 16, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_18_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 18, BLOCKS: 1}, scalars: {steps: 52224}}
  warps_32_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 32, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_64_ilp_1: {macros: {ILP: 1, BLOCK_WARPS: 32, BLOCKS: 2}, scalars: {steps: 16384}}
  warps_1_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 1, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_2_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 2, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_4_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 4, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_6_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 6, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_8_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 8, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_10_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 10, BLOCKS: 1}, scalars: {steps: 43648}}
  warps_16_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 16, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_18_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 18, BLOCKS: 1}, scalars: {steps: 26112}}
  warps_32_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 32, BLOCKS: 1}, scalars: {steps: 16384}}
  warps_64_ilp_2: {macros: {ILP: 2, BLOCK_WARPS: 32, BLOCKS: 2}, scalars: {steps: 8192}}
  warps_1_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 1, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_2_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 2, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_4_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 4, BLOCKS: 1}, scalars: {steps: 65536}}
  warps_6_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 6, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_8_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 8, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_10_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 10, BLOCKS: 1}, scalars: {steps: 21824}}
  warps_16_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 16, BLOCKS: 1}, scalars: {steps: 16384}}
  warps_18_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 18, BLOCKS: 1}, scalars: {steps: 13056}}
  warps_32_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 32, BLOCKS: 1}, scalars: {steps: 8192}}
  warps_64_ilp_4: {macros: {ILP: 4, BLOCK_WARPS: 32, BLOCKS: 2}, scalars: {steps: 4096}}
  warps_1_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 1, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_2_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 2, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_4_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 4, BLOCKS: 1}, scalars: {steps: 32768}}
  warps_6_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 6, BLOCKS: 1}, scalars: {steps: 16384}}
  warps_8_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 8, BLOCKS: 1}, scalars: {steps: 16384}}
  warps_10_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 10, BLOCKS: 1}, scalars: {steps: 10912}}
  warps_16_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 16, BLOCKS: 1}, scalars: {steps: 8192}}
  warps_18_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 18, BLOCKS: 1}, scalars: {steps: 6528}}
  warps_32_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 32, BLOCKS: 1}, scalars: {steps: 4096}}
  warps_64_ilp_8: {macros: {ILP: 8, BLOCK_WARPS: 32, BLOCKS: 2}, scalars: {steps: 2048}}
---*/

// How many warps does an SM need before its multiply-add units never wait? Each thread follows ILP chains in
// which every multiply-add needs the result of the one before, and nothing else is executed. A scheduler can
// issue another chain's step while one is under way, and whether that chain belongs to the same warp or to
// another does not matter to it: warps and ILP are two ways to the same number of independent instructions.

static_assert(ILP >= 1 && ILP <= 8 && 256 % ILP == 0, "ILP: 1, 2, 4 or 8 chains");
static_assert(BLOCK_WARPS >= 1 && BLOCK_WARPS <= 32, "BLOCK_WARPS: 1 to 32 warps");

namespace {

constexpr int UNROLLED = 256 / ILP;  // steps between two branches: the loop's own instructions are 1 in 100

__device__ __forceinline__ void follow(float (&chain)[ILP], float one, int steps)
{
#pragma unroll 1
    for (int done = 0; done < steps; done += UNROLLED) {
#pragma unroll
        for (int step = 0; step < UNROLLED; ++step) {
#pragma unroll
            for (int i = 0; i < ILP; ++i) {
                asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(chain[i]) : "f"(one));
            }
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * BLOCK_WARPS)
occupancy(float* __restrict__ sums, int steps)
{
    // Not known to the compiler, and so is what a step does: x * 1 + 1.
    const float one = steps >= UNROLLED ? 1.0f : 0.0f;
    float chain[ILP];
#pragma unroll
    for (int i = 0; i < ILP; ++i) chain[i] = static_cast<float>(threadIdx.x % 32 + i);

    follow(chain, one, steps);

    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ILP; ++i) sum += chain[i];
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
