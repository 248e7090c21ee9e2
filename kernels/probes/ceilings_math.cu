/*---
title: "Arithmetic ceilings: FMA units and tensor cores through mma.sync"
operation: probe
dtypes: {a: TYPE, accumulate: ACCUMULATE}
macros:
  UNIT: [fma, mma, mma_small]     # mma_small: the 8x8x4 instruction of f64
  TYPE: [f32, f64, f16, bf16, tf32, i8]
  ACCUMULATE: [f32, f64, f16, i32]
where: ["UNIT != 'mma_small' or TYPE == 'f64'", "TYPE not in ['bf16', 'tf32'] or UNIT == 'mma'",
    "TYPE != 'f32' or UNIT == 'fma'",
    "(TYPE in ['f32', 'bf16', 'tf32'] and ACCUMULATE == 'f32') or (TYPE == 'f64' and ACCUMULATE == 'f64') or (TYPE == 'f16' and (ACCUMULATE == 'f16' or (ACCUMULATE == 'f32' and UNIT == 'mma'))) or (TYPE == 'i8' and ACCUMULATE == 'i32')"]
block: [256]
grid: ["2 * sms"]
requires: {arch: 80}
arguments: [counted, largest, pairs]
# `operations` of one instruction of a warp, `chains` of them in a step, two steps in a pair; `pairs` is
# a multiple of 1024.
work: {flop: "2 * sms * 8 * operations * chains * 2 * pairs"}
buffers:
  counted: {dtype: i32, size: "2 * sms * 256", expect: pairs}
# `largest` bounds the operands, so that every sum is exact in the accumulator's type; operands are
# whole numbers, spread evenly over -largest to largest (fma of f32, f64, f16: fixed numbers, of which
# `largest` is one).
cases:
  fma_f32: {macros: {UNIT: fma, TYPE: f32, ACCUMULATE: f32},
      scalars: {pairs: 32768, largest: 1021, operations: 64, chains: 8}, note: "FFMA; operands of 11 to 13 bits"}
  fma_f64: {macros: {UNIT: fma, TYPE: f64, ACCUMULATE: f64},
      scalars: {pairs: 16384, largest: 8388593, operations: 64, chains: 8}, note: "DFMA; operands of 23 to 25 bits"}
  fma_f16: {macros: {UNIT: fma, TYPE: f16, ACCUMULATE: f16},
      scalars: {pairs: 16384, largest: 7, operations: 128, chains: 8},
      note: "HFMA2, two multiply-adds a lane; operands of 3 to 6 bits"}
  fma_i8: {macros: {UNIT: fma, TYPE: i8, ACCUMULATE: i32},
      scalars: {pairs: 16384, largest: 127, operations: 256, chains: 8},
      note: "dp4a, four multiply-adds of bytes a lane; an operation is an integer one"}
  mma_f16_f32: {macros: {UNIT: mma, TYPE: f16, ACCUMULATE: f32},
      scalars: {pairs: 8192, largest: 511, operations: 4096, chains: 8}, note: "mma.sync m16n8k16; operands of 9 bits"}
  mma_f16_f16: {macros: {UNIT: mma, TYPE: f16, ACCUMULATE: f16},
      scalars: {pairs: 8192, largest: 6, operations: 4096, chains: 8},
      note: "mma.sync m16n8k16; operands of 3 bits, so that the f16 sums stay exact"}
  mma_bf16_f32: {macros: {UNIT: mma, TYPE: bf16, ACCUMULATE: f32},
      scalars: {pairs: 8192, largest: 255, operations: 4096, chains: 8},
      note: "mma.sync m16n8k16; operands of 8 bits, all that the type has"}
  mma_tf32: {macros: {UNIT: mma, TYPE: tf32, ACCUMULATE: f32},
      scalars: {pairs: 8192, largest: 1023, operations: 2048, chains: 8}, note: "mma.sync m16n8k8; operands of 10 bits"}
  mma_i8: {macros: {UNIT: mma, TYPE: i8, ACCUMULATE: i32},
      scalars: {pairs: 8192, largest: 126, operations: 8192, chains: 8},
      note: "mma.sync m16n8k32; an operation is an integer one"}
  mma_f64: {macros: {UNIT: mma, TYPE: f64, ACCUMULATE: f64},
      scalars: {pairs: 2048, largest: 8388607, operations: 4096, chains: 4},
      note: "mma.sync m16n8k16 (compute capability 9.0); operands of 23 bits"}
  mma_small_f64: {macros: {UNIT: mma_small, TYPE: f64, ACCUMULATE: f64},
      scalars: {pairs: 4096, largest: 8388607, operations: 512, chains: 8},
      note: "mma.sync m8n8k4, the shape that every GPU with f64 tensor cores has; operands of 23 bits"}
---*/

// How many operations a second an SM's arithmetic units do when nothing else is asked of them: independent
// chains of dependent instructions, operands in registers, 16 warps on an SM.
//
// Operands are whole numbers, random ones for the tensor cores (zeros would run faster: less power, a higher clock), and
// steps come in pairs: the first adds a product P, the second adds 1 - P. So a sum never grows beyond what its type holds
// exactly, and after 1024 pairs, as many as an f16 can count, every accumulator must have counted them;
// then it begins again at 0.
//
// With one product a step (fma), x y + z w = 1 for coprime x and z has a solution (y, w) for every whole t:
// (y0 + t z, w0 - t x); those are fixed numbers. With several (mma, dp4a), the first column of A is 1, and the second B is
// the first one's negative with 1 added to its first row.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "words.cuh"

#define UNIT_fma 0
#define UNIT_mma 1
#define UNIT_mma_small 2
#define TYPE_f32 0
#define TYPE_f64 1
#define TYPE_f16 2
#define TYPE_bf16 3
#define TYPE_tf32 4
#define TYPE_i8 5
#define UNIT_NUMBER NAMED(UNIT_, UNIT)
#define TYPE_NUMBER NAMED(TYPE_, TYPE)

using f32 = float;
using f64 = double;
using f16 = __half;
using i32 = int;
using Sum = ACCUMULATE;

namespace {

constexpr int THREADS = 256;
constexpr int ROUND = 1024;  // pairs that a sum counts before it begins again
constexpr bool HALF_SUM = sizeof(Sum) == 2;

static_assert(UNIT_NUMBER == UNIT_fma || UNIT_NUMBER == UNIT_mma || TYPE_NUMBER == TYPE_f64, "8x8x4 is of f64");
static_assert(!HALF_SUM || TYPE_NUMBER == TYPE_f16, "only f16 products have an f16 sum");

// A stream of random numbers for each thread (SplitMix64's mixing, of which 32 bits are used).
struct Random {
    unsigned long long state;

    __device__ unsigned bits() {
        state += 0x9E3779B97F4A7C15ull;
        unsigned long long mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
        return static_cast<unsigned>(mixed >> 32);
    }
    // A whole number from -largest to largest.
    [[maybe_unused]] __device__ int within(int largest) {
        return static_cast<int>(bits() % static_cast<unsigned>(2 * largest + 1)) - largest;
    }
};

// ------------------------------------------------------------------------------------- FMA units

#if UNIT_NUMBER == UNIT_fma && TYPE_NUMBER != TYPE_i8

// A register file of two banks gives a scheduler one operand of each bank a cycle, so a multiply-add that
// reads two registers of one bank takes two cycles, and which registers meet is up to ptxas (an H200 then
// reached two thirds of its rate). Here one factor is a constant, the other the same register throughout,
// which the operand cache keeps: only the sum is read.
constexpr int CHAINS = 8;

#if TYPE_NUMBER == TYPE_f16
constexpr int FIRST = 7;
#elif TYPE_NUMBER == TYPE_f32
constexpr int FIRST = 1021;
#else
constexpr int FIRST = 8388593;
#endif
constexpr int SECOND = FIRST + 4;  // an odd number and the one four above it have no factor in common

// y with FIRST * y = 1 modulo SECOND, by Euclid's algorithm.
__device__ constexpr int inverse() {
    int divisor = SECOND, rest = FIRST, before = 0, now = 1;
    while (rest != 0) {
        const int quotient = divisor / rest;
        int next = divisor - quotient * rest;
        divisor = rest, rest = next;
        next = before - quotient * now;
        before = now, now = next;
    }
    return before < 0 ? before + SECOND : before;
}
// FIRST * left(t) + SECOND * right(t) = 1 for every t.
__device__ constexpr int left(int t) { return inverse() + t * SECOND; }
__device__ constexpr int right(int t) {
    return static_cast<int>((1 - static_cast<long long>(FIRST) * inverse()) / SECOND) - t * FIRST;
}
static_assert(static_cast<long long>(FIRST) * left(-2) + static_cast<long long>(SECOND) * right(-2) == 1, "");

#if TYPE_NUMBER == TYPE_f16
// The second half has the first one's numbers with the other sign: the product is the same, but a factor is
// not the same half twice, which would be read from one half (.H0_H0) and leave one of two pipes idle.
using Value = unsigned;
__device__ constexpr unsigned half_bits(int whole) {
    const unsigned sign = whole < 0 ? 0x8000u : 0u;
    unsigned fraction = whole < 0 ? -whole : whole, exponent = 25;
    if (fraction == 0) return sign;
    for (; fraction < 1024; fraction <<= 1) --exponent;
    return sign | exponent << 10 | (fraction & 1023u);
}
__device__ constexpr Value value(int whole) { return half_bits(whole) | half_bits(-whole) << 16; }
__device__ __forceinline__ void step(Value& sum, Value factor, Value constant) {
    asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(factor), "r"(constant));
}
__device__ __forceinline__ bool is(Value sum, int pairs) {
    return sum == (half_bits(pairs) | half_bits(pairs) << 16);
}
#elif TYPE_NUMBER == TYPE_f32
using Value = float;
__device__ constexpr Value value(int whole) { return static_cast<Value>(whole); }
__device__ __forceinline__ void step(Value& sum, Value factor, Value constant) {
    asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(factor), "f"(constant));
}
__device__ __forceinline__ bool is(Value sum, int pairs) { return sum == static_cast<Value>(pairs); }
#else
using Value = double;
__device__ constexpr Value value(int whole) { return static_cast<Value>(whole); }
__device__ __forceinline__ void step(Value& sum, Value factor, Value constant) {
    asm volatile("fma.rn.f64 %0, %1, %2, %0;" : "+d"(sum) : "d"(factor), "d"(constant));
}
__device__ __forceinline__ bool is(Value sum, int pairs) { return sum == static_cast<Value>(pairs); }
#endif

template <int CHAIN>
struct Constants {
    static constexpr Value LEFT = value(left(CHAIN % 4 - 2)), RIGHT = value(right(CHAIN % 4 - 2));
};

struct Chains {
    Value first, second, sum[CHAINS];

    // `largest` is FIRST, not known to the compiler.
    __device__ void fill(Random&, int largest) {
#if TYPE_NUMBER == TYPE_f16
        const auto made = [](int whole) {
            const __half2 both = __halves2half2(__int2half_rn(whole), __int2half_rn(-whole));
            return *reinterpret_cast<const unsigned*>(&both);
        };
        first = made(largest), second = made(largest + 4);
#else
        first = static_cast<Value>(largest), second = static_cast<Value>(largest + 4);
#endif
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) sum[chain] = value(0);
    }
    template <int CHAIN = 0>
    __device__ __forceinline__ void lefts() {
        step(sum[CHAIN], first, Constants<CHAIN>::LEFT);
        if constexpr (CHAIN + 1 < CHAINS) lefts<CHAIN + 1>();
    }
    template <int CHAIN = 0>
    __device__ __forceinline__ void rights() {
        step(sum[CHAIN], second, Constants<CHAIN>::RIGHT);
        if constexpr (CHAIN + 1 < CHAINS) rights<CHAIN + 1>();
    }
    __device__ __forceinline__ void pair() { lefts(), rights(); }
    __device__ bool counted(int pairs) const {
        bool right = true;
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) right &= is(sum[chain], pairs);
        return right;
    }
};

#elif UNIT_NUMBER == UNIT_fma

constexpr int CHAINS = 8;

struct Chains {
    int a, b[2][CHAINS], sum[CHAINS];

    __device__ void fill(Random& random, int largest) {
        a = 1;
        for (int byte = 1; byte < 4; ++byte) a |= (random.within(largest) & 255) << 8 * byte;
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) {
            b[0][chain] = b[1][chain] = 0;
            for (int byte = 0; byte < 4; ++byte) {
                const int one = random.within(largest - 1);
                b[0][chain] |= (one & 255) << 8 * byte;
                b[1][chain] |= (((byte == 0) - one) & 255) << 8 * byte;
            }
        }
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) sum[chain] = 0;
    }
    __device__ __forceinline__ void pair() {
#pragma unroll
        for (int which = 0; which < 2; ++which) {
#pragma unroll
            for (int chain = 0; chain < CHAINS; ++chain) {
                asm volatile("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum[chain]) : "r"(a), "r"(b[which][chain]));
            }
        }
    }
    __device__ bool counted(int pairs) const {
        bool right = true;
#pragma unroll
        for (int chain = 0; chain < CHAINS; ++chain) right &= sum[chain] == pairs;
        return right;
    }
};

#else  // ------------------------------------------------------------------------- tensor cores

#if TYPE_NUMBER == TYPE_f64
using Register = double;   // of a fragment: one element
constexpr int PACKED = 1;  // elements of a register, neighbours in k
#else
using Register = unsigned;
constexpr int PACKED = TYPE_NUMBER == TYPE_tf32 ? 1 : TYPE_NUMBER == TYPE_i8 ? 4 : 2;
#endif

constexpr bool WIDE = TYPE_NUMBER == TYPE_f64 && UNIT_NUMBER == UNIT_mma;  // m16n8k16 of f64
constexpr bool SMALL = UNIT_NUMBER == UNIT_mma_small;
constexpr int A_REGISTERS = SMALL ? 1 : WIDE ? 8 : 4;
constexpr int B_REGISTERS = A_REGISTERS > 1 ? A_REGISTERS / 2 : 1;
constexpr int A_ROWS = SMALL ? 1 : 2;     // the first registers of A: the same k, eight rows apart
constexpr int SUMS = SMALL ? 2 : HALF_SUM ? 2 : 4;  // registers of the accumulator
constexpr int A_TILES = 2;
constexpr int B_TILES = WIDE ? 2 : 4;

// The elements of one register, the first of them in the low bits.
__device__ Register packed(const int (&whole)[PACKED]) {
#if TYPE_NUMBER == TYPE_f64
    return static_cast<double>(whole[0]);
#elif TYPE_NUMBER == TYPE_tf32
    return __float_as_uint(static_cast<float>(whole[0]));
#else
    Register bits = 0;
#pragma unroll
    for (int i = 0; i < PACKED; ++i) {
#if TYPE_NUMBER == TYPE_i8
        bits |= (static_cast<unsigned>(whole[i]) & 255u) << 8 * i;
#elif TYPE_NUMBER == TYPE_bf16
        bits |= static_cast<unsigned>(__bfloat16_as_ushort(__int2bfloat16_rn(whole[i]))) << 16 * i;
#else
        bits |= static_cast<unsigned>(__half_as_ushort(__int2half_rn(whole[i]))) << 16 * i;
#endif
    }
    return bits;
#endif
}

#if TYPE_NUMBER == TYPE_f64
using SumRegister = double;
#elif TYPE_NUMBER == TYPE_i8
using SumRegister = int;
#else
// Two f16 sums or one f32 sum: told apart by the instruction, counted from the bits.
using SumRegister = unsigned;
#endif

__device__ __forceinline__ void mma(SumRegister (&d)[SUMS], const Register (&a)[A_REGISTERS],
                                    const Register (&b)[B_REGISTERS]) {
#if UNIT_NUMBER == UNIT_mma_small
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a[0]), "d"(b[0]));
#elif TYPE_NUMBER == TYPE_f64
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
          "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#if TYPE_NUMBER == TYPE_i8
#define KIND "m16n8k32.row.col.s32.s8.s8.s32"
#elif TYPE_NUMBER == TYPE_tf32
#define KIND "m16n8k8.row.col.f32.tf32.tf32.f32"
#elif TYPE_NUMBER == TYPE_bf16
#define KIND "m16n8k16.row.col.f32.bf16.bf16.f32"
#else
#define KIND "m16n8k16.row.col.f32.f16.f16.f32"
#endif
    if constexpr (HALF_SUM) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
            : "+r"(d[0]), "+r"(d[1])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile("mma.sync.aligned." KIND " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[SUMS - 2]), "+r"(d[SUMS - 1])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
}

__device__ bool is(SumRegister sum, int pairs) {
#if TYPE_NUMBER == TYPE_f64
    return sum == static_cast<double>(pairs);
#elif TYPE_NUMBER == TYPE_i8
    return sum == pairs;
#else
    if constexpr (HALF_SUM) {
        const unsigned one = __half_as_ushort(__int2half_rn(pairs));
        return sum == (one | one << 16);
    }
    return __uint_as_float(sum) == static_cast<float>(pairs);
#endif
}

struct Chains {
    Register a[A_TILES][A_REGISTERS], b[2][B_TILES][B_REGISTERS];
    SumRegister sum[A_TILES][B_TILES][SUMS];

    // The elements with k = 0 are the first ones of a fragment's first registers, in the lanes of which
    // four divides the number: PTX ISA, "Matrix Fragments for mma".
    __device__ void fill(Random& random, int largest) {
        const bool first_k = threadIdx.x % 4 == 0;
        int whole[PACKED], opposite[PACKED];
#pragma unroll
        for (int tile = 0; tile < A_TILES; ++tile) {
#pragma unroll
            for (int i = 0; i < A_REGISTERS; ++i) {
                for (int j = 0; j < PACKED; ++j) whole[j] = random.within(largest);
                if (first_k && i < A_ROWS) whole[0] = 1;
                a[tile][i] = packed(whole);
            }
        }
#pragma unroll
        for (int tile = 0; tile < B_TILES; ++tile) {
#pragma unroll
            for (int i = 0; i < B_REGISTERS; ++i) {
                for (int j = 0; j < PACKED; ++j) {
                    whole[j] = random.within(largest - 1);
                    opposite[j] = (first_k && i == 0 && j == 0) - whole[j];
                }
                b[0][tile][i] = packed(whole), b[1][tile][i] = packed(opposite);
            }
        }
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < A_TILES * B_TILES * SUMS; ++i) (&sum[0][0][0])[i] = 0;
    }
    __device__ __forceinline__ void pair() {
#pragma unroll
        for (int which = 0; which < 2; ++which) {
#pragma unroll
            for (int i = 0; i < A_TILES; ++i) {
#pragma unroll
                for (int j = 0; j < B_TILES; ++j) mma(sum[i][j], a[i], b[which][j]);
            }
        }
    }
    __device__ bool counted(int pairs) const {
        bool right = true;
#pragma unroll
        for (int i = 0; i < A_TILES * B_TILES * SUMS; ++i) right &= is((&sum[0][0][0])[i], pairs);
        return right;
    }
};

#endif

}  // namespace

// `largest`: bound of the operands. Every thread writes the pairs that all its sums have counted.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    ceilings_math(int* __restrict__ counted, int largest, int pairs) {
    const int thread = blockIdx.x * THREADS + threadIdx.x;
    Random random{static_cast<unsigned long long>(thread) << 32};
    Chains chains;
    chains.fill(random, largest);
    int right = 0;
#pragma unroll 1
    for (int done = 0; done < pairs; done += ROUND) {
        chains.clear();
#pragma unroll 4
        for (int i = 0; i < ROUND; ++i) chains.pair();
        right += chains.counted(ROUND) ? ROUND : 0;
    }
    counted[thread] = right;
}
