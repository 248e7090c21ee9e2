/*---
title: "Arithmetic ceilings: tensor cores through wgmma"
operation: probe
dtypes: {a: TYPE, accumulate: ACCUMULATE}
macros:
  TYPE: [f16, bf16, tf32, i8]
  ACCUMULATE: [f32, f16, i32]
where:
  - "(TYPE in ['f16', 'bf16', 'tf32'] and ACCUMULATE == 'f32') or (TYPE == 'f16' and ACCUMULATE == 'f16') or (TYPE == 'i8' and ACCUMULATE == 'i32')"
block: [256]
grid: [sms]
shared_bytes: "1024 + 128 * (128 + 2 * 256)"
requires: {arch: 90, conditions: ["arch < 100"]}
architecture_specific: true
entry: ceilings_wgmma
arguments: [counted, largest, pairs]
# two warpgroups, eight instructions each in a pair of steps, m64n256 and 32 bytes of k
work: {flop: "sms * 2 * 8 * (2 * 64 * 256 * (32 // size(TYPE))) * pairs"}
buffers:
  counted: {dtype: i32, size: "sms * 256", expect: pairs}
cases:
  f16_f32:
    macros: {TYPE: f16, ACCUMULATE: f32}
    scalars: {pairs: 384, largest: 361}
    note: "wgmma m64n256k16; operands of 9 bits"
  f16_f16:
    macros: {TYPE: f16, ACCUMULATE: f16}
    scalars: {pairs: 384, largest: 5}
    note: "wgmma m64n256k16; operands of 3 bits, so that the f16 sums stay exact"
  bf16_f32:
    macros: {TYPE: bf16, ACCUMULATE: f32}
    scalars: {pairs: 384, largest: 255}
    note: "wgmma m64n256k16; operands of 8 bits, all that the type has"
  tf32:
    macros: {TYPE: tf32, ACCUMULATE: f32}
    scalars: {pairs: 384, largest: 511}
    note: "wgmma m64n256k8; operands of 9 bits"
  i8:
    macros: {TYPE: i8, ACCUMULATE: i32}
    scalars: {pairs: 384, largest: 126}
    note: "wgmma m64n256k32; an operation is an integer one"
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

#define TYPE_f16 0
#define TYPE_bf16 1
#define TYPE_tf32 2
#define TYPE_i8 3
#define SUM_f32 0
#define SUM_f16 1
#define SUM_i32 2
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)
#define TYPE_NUMBER WORD(TYPE_, TYPE)
#define SUM_NUMBER WORD(SUM_, ACCUMULATE)

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
#if TYPE_NUMBER == TYPE_i8
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

#if SUM_NUMBER == SUM_f32
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
#elif TYPE_NUMBER == TYPE_tf32
    *reinterpret_cast<float*>(at) = static_cast<float>(whole);
#elif TYPE_NUMBER == TYPE_bf16
    *reinterpret_cast<__nv_bfloat16*>(at) = __int2bfloat16_rn(whole);
#else
    *reinterpret_cast<__half*>(at) = __int2half_rn(whole);
#endif
}

// PTX ISA, "Matrix Descriptor Format" of wgmma: address, (unused) leading offset and the offset from eight
// rows to the next eight, each in units of 16 bytes; 1 at bit 62 is the 128-byte swizzle.
__device__ unsigned long long descriptor(const unsigned char* matrix) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(matrix));
    return static_cast<unsigned long long>((address & 0x3ffff) >> 4) | 1ull << 16 |
           static_cast<unsigned long long>(GROUP_BYTES >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma(Sum (&d)[SUMS], unsigned long long a, unsigned long long b) {
#if SUM_NUMBER == SUM_f16
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f16.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, 1, 1, 1, 0, 0;"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),
          "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),
          "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),
          "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
          "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]),
          "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]),
          "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
          "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]),
          "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]),
          "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]),
          "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
        : "l"(a), "l"(b));
#elif SUM_NUMBER == SUM_i32
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, 1;"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),
          "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),
          "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]),
          "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
          "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]),
          "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]),
          "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
          "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]),
          "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]),
          "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]),
          "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63]), "+r"(d[64]), "+r"(d[65]),
          "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]), "+r"(d[70]), "+r"(d[71]),
          "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]), "+r"(d[77]),
          "+r"(d[78]), "+r"(d[79]), "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]),
          "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]), "+r"(d[88]), "+r"(d[89]),
          "+r"(d[90]), "+r"(d[91]), "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]),
          "+r"(d[96]), "+r"(d[97]), "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]),
          "+r"(d[102]), "+r"(d[103]), "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]),
          "+r"(d[108]), "+r"(d[109]), "+r"(d[110]), "+r"(d[111]), "+r"(d[112]), "+r"(d[113]),
          "+r"(d[114]), "+r"(d[115]), "+r"(d[116]), "+r"(d[117]), "+r"(d[118]), "+r"(d[119]),
          "+r"(d[120]), "+r"(d[121]), "+r"(d[122]), "+r"(d[123]), "+r"(d[124]), "+r"(d[125]),
          "+r"(d[126]), "+r"(d[127])
        : "l"(a), "l"(b));
#else
#if TYPE_NUMBER == TYPE_tf32
#define KIND "m64n256k8.f32.tf32.tf32 {"
#define TRANSPOSED ""
#elif TYPE_NUMBER == TYPE_bf16
#define KIND "m64n256k16.f32.bf16.bf16 {"
#define TRANSPOSED ", 0, 0"
#else
#define KIND "m64n256k16.f32.f16.f16 {"
#define TRANSPOSED ", 0, 0"
#endif
    asm volatile(
        "wgmma.mma_async.sync.aligned." KIND
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, 1, 1, 1" TRANSPOSED ";"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
          "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
          "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
          "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
          "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
          "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]),
          "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]),
          "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]),
          "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]),
          "+f"(d[102]), "+f"(d[103]), "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), "+f"(d[112]), "+f"(d[113]),
          "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]),
          "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b));
#endif
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
    const unsigned long long rows = descriptor(a + warpgroup * ROWS * ROW_BYTES);
    const unsigned long long first = descriptor(b), second = descriptor(opposite);
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
