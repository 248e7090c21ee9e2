/*---
title: Latency and issue interval of the pipes of an SM
operation: probe
macros:
  OP: [ffma, fadd, imad, prmt, dfma, hfma2, mufu, shfl, lds4, lds8, lds16, sts4, sts8, sts16, ldsm1, ldsm2, ldsm4,
      hmma8, hmma16, hmma16h, tf32, imma, dmma4, dmma16, bar]
  CHAINS: [1, 4]      # independent chains of a warp
  WARPS: [1, 4, 16]   # warps of the block
block: ["32 * WARPS"]
grid: [1, 1, 1]
requires: {arch: 80, conditions: ["OP != 'dmma16' or arch >= 90"]}
arguments: [interval, errors, steps, one]
buffers:
  interval: {dtype: f32, size: 1, report: {metric: interval, unit: cycle}}
  errors: {dtype: i32, size: "32 * WARPS", expect: 0}
# `steps` of each chain, a multiple of 128 / CHAINS. `one` is 1, which the compiler must not know.
cases:
  ffma_latency: {macros: {OP: ffma, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "FFMA"}
  ffma_interval: {macros: {OP: ffma, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "FFMA"}
  fadd_latency: {macros: {OP: fadd, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "FADD"}
  fadd_interval: {macros: {OP: fadd, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "FADD"}
  imad_latency: {macros: {OP: imad, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "IMAD"}
  imad_interval: {macros: {OP: imad, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "IMAD"}
  prmt_latency: {macros: {OP: prmt, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "PRMT, of the ALU"}
  prmt_interval: {macros: {OP: prmt, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "PRMT, of the ALU"}
  dfma_latency: {macros: {OP: dfma, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "DFMA"}
  dfma_interval: {macros: {OP: dfma, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "DFMA"}
  hfma2_latency: {macros: {OP: hfma2, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "HFMA2 and HFMA2.MMA in turn"}
  hfma2_interval: {macros: {OP: hfma2, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "HFMA2 and HFMA2.MMA in turn"}
  mufu_latency: {macros: {OP: mufu, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "MUFU.RSQ"}
  mufu_interval: {macros: {OP: mufu, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "MUFU.RSQ"}
  shfl_latency: {macros: {OP: shfl, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "SHFL.BFLY"}
  shfl_interval: {macros: {OP: shfl, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "SHFL.BFLY"}
  lds4_latency: {macros: {OP: lds4, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "LDS, 4 bytes a lane"}
  lds4_interval: {macros: {OP: lds4, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "LDS, 4 bytes a lane"}
  lds8_latency: {macros: {OP: lds8, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "LDS.64"}
  lds8_interval: {macros: {OP: lds8, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "LDS.64"}
  lds16_latency: {macros: {OP: lds16, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "LDS.128"}
  lds16_interval: {macros: {OP: lds16, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "LDS.128"}
  ldsm1_latency: {macros: {OP: ldsm1, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "LDSM of one matrix"}
  ldsm1_interval: {macros: {OP: ldsm1, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "LDSM of one matrix"}
  ldsm2_latency: {macros: {OP: ldsm2, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "LDSM.2"}
  ldsm2_interval: {macros: {OP: ldsm2, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "LDSM.2"}
  ldsm4_latency: {macros: {OP: ldsm4, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "LDSM.4"}
  ldsm4_interval: {macros: {OP: ldsm4, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "LDSM.4"}
  hmma8_latency: {macros: {OP: hmma8, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "HMMA.1688, sums of f32"}
  hmma8_interval: {macros: {OP: hmma8, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "HMMA.1688, sums of f32"}
  hmma16_latency: {macros: {OP: hmma16, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "HMMA.16816, sums of f32"}
  hmma16_interval: {macros: {OP: hmma16, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "HMMA.16816, sums of f32"}
  hmma16h_latency: {macros: {OP: hmma16h, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "HMMA.16816, sums of f16"}
  hmma16h_interval: {macros: {OP: hmma16h, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "HMMA.16816, sums of f16"}
  tf32_latency: {macros: {OP: tf32, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "HMMA.1688 of tf32"}
  tf32_interval: {macros: {OP: tf32, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "HMMA.1688 of tf32"}
  imma_latency: {macros: {OP: imma, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "IMMA.16832"}
  imma_interval: {macros: {OP: imma, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "IMMA.16832"}
  dmma4_latency: {macros: {OP: dmma4, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "DMMA.884"}
  dmma4_interval: {macros: {OP: dmma4, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "DMMA.884"}
  dmma16_latency: {macros: {OP: dmma16, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "DMMA.16816"}
  dmma16_interval: {macros: {OP: dmma16, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "DMMA.16816"}
  sts4_interval: {macros: {OP: sts4, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "STS, 4 bytes a lane"}
  sts8_interval: {macros: {OP: sts8, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "STS.64"}
  sts16_interval: {macros: {OP: sts16, CHAINS: 4, WARPS: 16}, scalars: {steps: 512, one: 1}, note: "STS.128"}
  bar_1: {macros: {OP: bar, CHAINS: 1, WARPS: 1}, scalars: {steps: 2048, one: 1}, note: "BAR.SYNC; cycles of a barrier"}
  bar_4: {macros: {OP: bar, CHAINS: 1, WARPS: 4}, scalars: {steps: 2048, one: 1}, note: "BAR.SYNC; cycles of a barrier"}
  bar_16: {macros: {OP: bar, CHAINS: 1, WARPS: 16}, scalars: {steps: 2048, one: 1}, note: "BAR.SYNC; cycles of a barrier"}
---*/

// One chain of a warp that is alone: an instruction needs the result of the one before it, so the cycles between two of them
// are the latency. Four chains in each of four warps of a scheduler: the pipe is never empty, so they are the issue interval.
//
// Every step leaves a value that is known: sums count, and an address, or what is swapped or rotated, returns to where it began.

#include "words.cuh"

#define OP_ffma 0
#define OP_fadd 1
#define OP_imad 2
#define OP_prmt 3
#define OP_dfma 4
#define OP_hfma2 5
#define OP_mufu 6
#define OP_shfl 7
#define OP_lds4 8
#define OP_lds8 9
#define OP_lds16 10
#define OP_sts4 11
#define OP_sts8 12
#define OP_sts16 13
#define OP_ldsm1 14
#define OP_ldsm2 15
#define OP_ldsm4 16
#define OP_hmma8 17
#define OP_hmma16 18
#define OP_hmma16h 19
#define OP_tf32 20
#define OP_imma 21
#define OP_dmma4 22
#define OP_dmma16 23
#define OP_bar 24
#define NUMBER NAMED(OP_, OP)

namespace {

constexpr int WARP = 32;
constexpr int UNROLLED = 128;  // instructions between two branches
constexpr int SCHEDULERS = 4;
constexpr int SLOT_BYTES = 16, CHAIN_BYTES = WARP * SLOT_BYTES;
static_assert(UNROLLED % CHAINS == 0, "CHAINS: 1 or 4");

// A chain's value: COUNT numbers, to each of which a step adds GAIN.
#if NUMBER == OP_ffma || NUMBER == OP_fadd || NUMBER == OP_mufu || NUMBER == OP_hmma8 || NUMBER == OP_hmma16 || NUMBER == OP_tf32
using Number = float;
#elif NUMBER == OP_dfma || NUMBER == OP_dmma4 || NUMBER == OP_dmma16
using Number = double;
#else
using Number = unsigned;
#endif
constexpr bool MMA = NUMBER >= OP_hmma8 && NUMBER <= OP_dmma16;
constexpr int COUNT = NUMBER == OP_sts8 || NUMBER == OP_hmma16h || NUMBER == OP_dmma4 ? 2 : MMA || NUMBER == OP_sts16 ? 4 : 1;
constexpr int GAIN = NUMBER == OP_ffma || NUMBER == OP_fadd || NUMBER == OP_imad || NUMBER == OP_dfma ? 1
                     : NUMBER == OP_dmma4                                                             ? 4
                     : NUMBER == OP_hmma8 || NUMBER == OP_tf32                                        ? 8
                     : NUMBER == OP_hmma16 || NUMBER == OP_dmma16                                     ? 16
                     : NUMBER == OP_imma                                                              ? 32
                                                                                                      : 0;
constexpr unsigned ONES = NUMBER == OP_imma ? 0x01010101u : NUMBER == OP_tf32 ? 0x3f800000u : 0x3c003c00u;

#define V4(kind) kind(v[0]), kind(v[1]), kind(v[2]), kind(v[3])

__device__ __forceinline__ void step(Number (&v)[COUNT], int one) {
    [[maybe_unused]] const unsigned ones = ONES * one;
#if NUMBER == OP_ffma
    asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(v[0]) : "f"(static_cast<float>(one)));
#elif NUMBER == OP_fadd
    asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(v[0]) : "f"(static_cast<float>(one)));
#elif NUMBER == OP_imad
    asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(v[0]) : "r"(one));
#elif NUMBER == OP_prmt
    asm volatile("prmt.b32 %0, %0, %0, %1;" : "+r"(v[0]) : "r"(one * 0x0321));
#elif NUMBER == OP_dfma
    asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(v[0]) : "d"(static_cast<double>(one)));
#elif NUMBER == OP_hfma2
    asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(v[0]) : "r"(ones), "r"(ones - ONES));
#elif NUMBER == OP_mufu
    asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(v[0]));
#elif NUMBER == OP_shfl
    asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(v[0]));
#elif NUMBER == OP_lds4
    asm volatile("ld.shared.u32 %0, [%0];" : "+r"(v[0])::"memory");
#elif NUMBER == OP_lds8
    asm volatile("{.reg .b32 x; ld.shared.v2.u32 {%0, x}, [%0];}" : "+r"(v[0])::"memory");
#elif NUMBER == OP_lds16
    asm volatile("{.reg .b32 x, y, z; ld.shared.v4.u32 {%0, x, y, z}, [%0];}" : "+r"(v[0])::"memory");
#elif NUMBER == OP_sts4
    asm volatile("st.shared.u32 [%0], %0;" ::"r"(v[0]) : "memory");
#elif NUMBER == OP_sts8
    asm volatile("st.shared.v2.u32 [%0], {%0, %1};" ::"r"(v[0]), "r"(v[1]) : "memory");
#elif NUMBER == OP_sts16
    asm volatile("st.shared.v4.u32 [%0], {%0, %1, %2, %3};" ::V4("r") : "memory");
#elif NUMBER == OP_ldsm1
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%0];" : "+r"(v[0])::"memory");
#elif NUMBER == OP_ldsm2
    asm volatile("{.reg .b32 x; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, x}, [%0];}" : "+r"(v[0])::"memory");
#elif NUMBER == OP_ldsm4
    asm volatile("{.reg .b32 x, y, z; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, x, y, z}, [%0];}" : "+r"(v[0])::"memory");
#elif NUMBER == OP_hmma8
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4}, {%4}, {%0, %1, %2, %3};"
                 : V4("+f") : "r"(ones));
#elif NUMBER == OP_hmma16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                 "{%0, %1, %2, %3};" : V4("+f") : "r"(ones));
#elif NUMBER == OP_hmma16h  // zeros, because an f16 could not count
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %2, %2, %2}, {%2, %2}, {%0, %1};"
                 : "+r"(v[0]), "+r"(v[1]) : "r"(ones - ONES));
#elif NUMBER == OP_tf32
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                 "{%0, %1, %2, %3};" : V4("+f") : "r"(ones));
#elif NUMBER == OP_imma
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                 "{%0, %1, %2, %3};" : V4("+r") : "r"(ones));
#elif NUMBER == OP_dmma4
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%2}, {%0, %1};"
                 : "+d"(v[0]), "+d"(v[1]) : "d"(static_cast<double>(one)));
#elif NUMBER == OP_dmma16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %4, %4, %4, %4, %4, %4, %4}, "
                 "{%4, %4, %4, %4}, {%0, %1, %2, %3};" : V4("+d") : "d"(static_cast<double>(one)));
#else
    __syncthreads();
#endif
}

// A chain's first number. In shared memory a slot holds the address that follows, its own; slots lie side by side.
__device__ Number first_of(int chain, [[maybe_unused]] unsigned words) {
    if (NUMBER >= OP_lds4 && NUMBER <= OP_ldsm4) {
        constexpr int BYTES = NUMBER == OP_lds4 || NUMBER == OP_sts4 ? 4 : NUMBER == OP_lds8 || NUMBER == OP_sts8 ? 8 : 16;
        return static_cast<Number>(words + chain * CHAIN_BYTES + threadIdx.x % WARP * BYTES);
    }
    if (NUMBER == OP_hfma2 || NUMBER == OP_hmma16h) return static_cast<Number>(0x3c004000u);  // the halves 1 and 2
    return static_cast<Number>(NUMBER == OP_mufu ? 1 : threadIdx.x % WARP + chain);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARP * WARPS)
    pipes(float* __restrict__ interval, int* __restrict__ errors, int steps, int one) {
    __shared__ alignas(128) unsigned words[WARPS][CHAINS][CHAIN_BYTES / 4];
    __shared__ long long begun[WARPS], ended[WARPS];
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(words[warp]));
    Number chains[CHAINS][COUNT];
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) {
        const Number first = first_of(chain, base);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) chains[chain][i] = first + static_cast<Number>(i * (one - 1));  // each in a register
        // Matrices: lane i receives word i of the first one, the address that it asks with.
        if (NUMBER >= OP_lds4 && NUMBER <= OP_ldsm4) {
            for (int i = lane; i < CHAIN_BYTES / 4; i += WARP) words[warp][chain][i] = 0;
            __syncwarp();
            const int place = NUMBER >= OP_ldsm1 ? lane : (static_cast<unsigned>(first) - base) % CHAIN_BYTES / 4;
            words[warp][chain][place] = static_cast<unsigned>(first);
        }
    }
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {  // the second is timed: the first brings in the code
        __syncthreads();
        const long long now = clock64();
#pragma unroll 1
        for (int done = 0; done < steps; done += UNROLLED / CHAINS) {
#pragma unroll
            for (int i = 0; i < UNROLLED; ++i) step(chains[i % CHAINS], one);
        }
        const long long then = clock64();
        if (lane == 0) {
            begun[warp] = now;
            ended[warp] = then;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < WARPS; ++i) {
            begun[0] = min(begun[0], begun[i]);
            ended[0] = max(ended[0], ended[i]);
        }
        // All warps take part in one barrier, a quarter of them in the work of one scheduler.
        constexpr int SHARING = NUMBER == OP_bar || WARPS < SCHEDULERS ? 1 : WARPS / SCHEDULERS;
        interval[0] = static_cast<float>(ended[0] - begun[0]) / static_cast<float>(steps * CHAINS * SHARING);
    }

    int wrong = steps % (UNROLLED / CHAINS);
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) {
        const Number expected = first_of(chain, base) + static_cast<Number>(GAIN * 2 * steps);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) wrong += !(chains[chain][i] == expected);
    }
    errors[threadIdx.x] = wrong;
}
