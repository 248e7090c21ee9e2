/*---
title: "Arithmetic ceilings: tensor cores through wgmma"
operation: probe
dtypes: {a: TYPE, accumulate: ACCUMULATE}
macros:
  TYPE: [f16, bf16, tf32, i8, e4m3, e5m2]
  ACCUMULATE: [f32, f16, i32, f22]  # f22: what the tensor cores sum of FP8
where:
  - "(TYPE in ['f16', 'bf16', 'tf32'] and ACCUMULATE == 'f32') or (TYPE == 'f16' and ACCUMULATE == 'f16') or (TYPE == 'i8' and ACCUMULATE == 'i32') or (TYPE in ['e4m3', 'e5m2'] and ACCUMULATE == 'f22')"
block: [256]
grid: [sms]
shared_bytes: "1024 + 128 * (128 + 2 * 256)"
requires: {arch: 90, conditions: [wgmma]}
architecture_specific: true
arguments: [counted, largest, pairs]
# two warpgroups, eight instructions each in a pair of steps, m64n256 and 32 bytes of k
work: {flop: "sms * 2 * 8 * (2 * 64 * 256 * (32 // size(TYPE))) * pairs"}
buffers:
  counted: {dtype: i32, size: "sms * 256", expect: pairs}
cases:
  f16_f32: {macros: {TYPE: f16, ACCUMULATE: f32}, scalars: {pairs: 384, largest: 361},
      note: "wgmma m64n256k16; operands of 9 bits"}
  f16_f16: {macros: {TYPE: f16, ACCUMULATE: f16}, scalars: {pairs: 384, largest: 5},
      note: "wgmma m64n256k16; operands of 3 bits, so that the f16 sums stay exact"}
  bf16_f32: {macros: {TYPE: bf16, ACCUMULATE: f32}, scalars: {pairs: 384, largest: 255},
      note: "wgmma m64n256k16; operands of 8 bits, all that the type has"}
  tf32: {macros: {TYPE: tf32, ACCUMULATE: f32}, scalars: {pairs: 384, largest: 511},
      note: "wgmma m64n256k8; operands of 9 bits"}
  i8: {macros: {TYPE: i8, ACCUMULATE: i32}, scalars: {pairs: 384, largest: 126},
      note: "wgmma m64n256k32; an operation is an integer one"}
  e4m3: {macros: {TYPE: e4m3, ACCUMULATE: f22}, scalars: {pairs: 384, largest: 3},
      note: "wgmma m64n256k32; operands of 2 bits, so that the sums stay exact in 13"}
  e5m2: {macros: {TYPE: e5m2, ACCUMULATE: f22}, scalars: {pairs: 384, largest: 3},
      note: "wgmma m64n256k32, both operands e5m2"}
---*/

// How many operations a second the tensor cores do when a warpgroup feeds them from shared memory: the only
// way to their full rate on compute capability 9.0. Each of two warpgroups of an SM multiplies its own 64
// rows of A with the same 256 columns of B, 128 bytes of k deep, again and again.
//
// Operands are random whole numbers (zeros would run faster: less power, a higher clock), and steps come in
// pairs: the first column of A is 1, and the second B is the first one's negative with 1 added to its first
// row, so both products together add 1 to every element. A sum never grows beyond what its type holds
// exactly, and at the end every accumulator has counted the pairs.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "wgmma_registers.cuh"
#include "words.cuh"

#define TYPE_f16 0
#define TYPE_bf16 1
#define TYPE_tf32 2
#define TYPE_i8 3
#define TYPE_e4m3 4
#define TYPE_e5m2 5
#define SUM_f32 0
#define SUM_f16 1
#define SUM_i32 2
#define SUM_f22 3
#define TYPE_NUMBER NAMED(TYPE_, TYPE)
#define SUM_NUMBER NAMED(SUM_, ACCUMULATE)

namespace {

constexpr int WARPGROUP = 128;
constexpr int WARPGROUPS = 2;
constexpr int THREADS = WARPGROUP * WARPGROUPS;
constexpr int ROWS = 64;          // of A, for a warpgroup
constexpr int COLUMNS = 256;      // of B
constexpr int ROW_BYTES = 128;    // of k, for both: the width of the swizzle
constexpr int STEP_BYTES = 32;    // of k that one instruction takes
constexpr int STEPS = ROW_BYTES / STEP_BYTES;
constexpr int GROUP_BYTES = 8 * ROW_BYTES;  // eight rows, the height of the swizzle
#if TYPE_NUMBER >= TYPE_i8
constexpr int ELEMENT_BYTES = 1;
#elif TYPE_NUMBER == TYPE_tf32
constexpr int ELEMENT_BYTES = 4;
#else
constexpr int ELEMENT_BYTES = 2;
#endif
constexpr int DEPTH = ROW_BYTES / ELEMENT_BYTES;  // elements of k in a row
constexpr int UNROLLED = 4;       // pairs of steps between two waits
constexpr int SUMS = SUM_NUMBER == SUM_f16 ? 64 : 128;  // registers of a thread's accumulator

static_assert(SUM_NUMBER != SUM_f16 || TYPE_NUMBER == TYPE_f16, "only f16 products have an f16 sum");
static_assert((SUM_NUMBER == SUM_i32) == (TYPE_NUMBER == TYPE_i8), "bytes have sums of i32");
static_assert((SUM_NUMBER == SUM_f22) == (TYPE_NUMBER > TYPE_i8), "FP8 has the tensor cores' own sums");

#if SUM_NUMBER == SUM_f32 || SUM_NUMBER == SUM_f22
using Sum = float;
#else
using Sum = unsigned;  // an i32, or two f16
#endif

// A random whole number from -largest to largest for each place (SplitMix64's mixing).
__device__ int within(int place, int largest) {
    unsigned long long mixed = 0x9E3779B97F4A7C15ull * (place + 1);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
    return static_cast<int>(static_cast<unsigned>(mixed >> 32) % static_cast<unsigned>(2 * largest + 1)) - largest;
}

// Writes element (row, k) of a matrix whose rows are 128 bytes long, with the 128-byte swizzle: the 16-byte
// pieces of a row change places by its number in its group of eight.
__device__ void put(unsigned char* matrix, int row, int k, int whole) {
    const int byte = k * ELEMENT_BYTES;
    unsigned char* const at = matrix + row * ROW_BYTES + (((byte / 16) ^ (row % 8)) * 16 + byte % 16);
#if TYPE_NUMBER == TYPE_i8
    *reinterpret_cast<signed char*>(at) = static_cast<signed char>(whole);
#elif TYPE_NUMBER > TYPE_i8
    unsigned short pair;
    asm("cvt.rn.satfinite." TEXT(TYPE) "x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(static_cast<float>(whole)));
    *at = static_cast<unsigned char>(pair);
#elif TYPE_NUMBER == TYPE_tf32
    *reinterpret_cast<float*>(at) = static_cast<float>(whole);
#elif TYPE_NUMBER == TYPE_bf16
    *reinterpret_cast<__nv_bfloat16*>(at) = __int2bfloat16_rn(whole);
#else
    *reinterpret_cast<__half*>(at) = __int2half_rn(whole);
#endif
}

__device__ unsigned long long descriptor_of(const unsigned char* matrix) {
    return hopper::descriptor(static_cast<unsigned>(__cvta_generic_to_shared(matrix)));
}

// The instruction's text, and the registers of its sums: only those of f32 are registers of floats.
#if SUM_NUMBER == SUM_f16
#define PRODUCT "m64n256k16.f16.f16.f16 {" REGISTERS_64 "}, %64, %65, 1, 1, 1, 0, 0;"
#define SUM_OPERANDS SUMS_64("+r", d, 0)
#elif SUM_NUMBER == SUM_i32
#define PRODUCT "m64n256k32.s32.s8.s8 {" REGISTERS_128 "}, %128, %129, 1;"
#define SUM_OPERANDS SUMS_128("+r", d, 0)
#else
#define SUM_OPERANDS SUMS_128("+f", d, 0)
#if TYPE_NUMBER == TYPE_tf32
#define PRODUCT "m64n256k8.f32.tf32.tf32 {" REGISTERS_128 "}, %128, %129, 1, 1, 1;"
#elif TYPE_NUMBER > TYPE_i8
#define PRODUCT "m64n256k32.f32." TEXT(TYPE) "." TEXT(TYPE) " {" REGISTERS_128 "}, %128, %129, 1, 1, 1;"
#elif TYPE_NUMBER == TYPE_bf16
#define PRODUCT "m64n256k16.f32.bf16.bf16 {" REGISTERS_128 "}, %128, %129, 1, 1, 1, 0, 0;"
#else
#define PRODUCT "m64n256k16.f32.f16.f16 {" REGISTERS_128 "}, %128, %129, 1, 1, 1, 0, 0;"
#endif
#endif

__device__ __forceinline__ void wgmma(Sum (&d)[SUMS], unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned." PRODUCT : SUM_OPERANDS : "l"(a), "l"(b));
}

__device__ bool is(Sum sum, int pairs) {
#if SUM_NUMBER == SUM_f16
    const unsigned one = __half_as_ushort(__int2half_rn(pairs));
    return sum == (one | one << 16);
#else
    return sum == static_cast<Sum>(pairs);
#endif
}

}  // namespace

// `largest`: bound of the operands. Every thread writes `pairs` where all its sums have counted them.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    ceilings_wgmma(int* __restrict__ counted, int largest, int pairs) {
    extern __shared__ unsigned char memory[];
    // The swizzle follows address bits: matrices begin at multiples of its eight rows.
    const unsigned begin = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    unsigned char* const a = memory + (GROUP_BYTES - begin % GROUP_BYTES) % GROUP_BYTES;
    unsigned char* const b = a + WARPGROUPS * ROWS * ROW_BYTES;
    unsigned char* const opposite = b + COLUMNS * ROW_BYTES;

    for (int i = threadIdx.x; i < WARPGROUPS * ROWS * DEPTH; i += THREADS) {
        const int k = i % DEPTH;
        put(a, i / DEPTH, k, k == 0 ? 1 : within(i, largest));
    }
    for (int i = threadIdx.x; i < COLUMNS * DEPTH; i += THREADS) {
        const int k = i % DEPTH;
        const int whole = within(i + WARPGROUPS * ROWS * DEPTH, largest - 1);
        put(b, i / DEPTH, k, whole);
        put(opposite, i / DEPTH, k, (k == 0) - whole);
    }
    // What was written one way is read another way.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();

    Sum sum[SUMS];
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sum[i] = 0;
    // The same for all lanes, and known to be: descriptors live in uniform registers.
    const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / WARPGROUP, 0);
    const unsigned long long rows = descriptor_of(a + warpgroup * ROWS * ROW_BYTES);
    const unsigned long long first = descriptor_of(b), second = descriptor_of(opposite);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 1
    for (int i = 0; i < pairs; i += UNROLLED) {
#pragma unroll
        for (int pair = 0; pair < UNROLLED; ++pair) {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                wgmma(sum, rows + step * (STEP_BYTES >> 4), first + step * (STEP_BYTES >> 4));
            }
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                wgmma(sum, rows + step * (STEP_BYTES >> 4), second + step * (STEP_BYTES >> 4));
            }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }

    bool right = pairs % UNROLLED == 0;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) right &= is(sum[i], pairs);
    counted[blockIdx.x * THREADS + threadIdx.x] = right ? pairs : -1;
}
