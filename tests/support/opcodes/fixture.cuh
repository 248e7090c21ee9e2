// What the fixture kernels share.
//
//     KERNEL(name, results, A, B, C) { put(...); put(...); }
//
// declares a kernel whose thread i reads one operand of each kind A, B and C (a, b and c in the
// body) and writes `results` words behind each other. The kinds are the type names below;
// manifest.py reads these declarations and knows what numbers a kind stands for. `t` has what else
// a body may need: the arrays, their length, the thread's number.
//
// Operands come from memory, so nothing can be computed by the compiler.
#pragma once

using bits = unsigned;              // any 32 bits, limits and patterns among them
using bits64 = unsigned long long;  // any 64 bits
using shift = unsigned;             // an amount to shift by: mostly 0 to 70
using small = unsigned;             // 0 to 255
using integer = int;                // small numbers of both signs
using f32 = float;                  // any float: infinities, NaNs, denormals, limits, powers of two
using f32near = float;              // floats of similar size: sums and quotients stay in range
using f32angle = float;             // up to some hundred radians, multiples of pi/4 among them
using f32integer = float;           // floats around the limits of the integer types, and halves
using f64 = double;
using f64integer = double;
struct f16x2 { unsigned word; };     // two halves, the first in the low 16 bits
struct bf16x2 { unsigned word; };
struct f16x2near { unsigned word; };
struct bf16x2near { unsigned word; };
struct f32ramp { float value; };     // floats in order, from all that there are

// Fragments of matrices: so many operands a thread. "Exact" ones are small integers, "near" ones
// normally distributed, "wild" ones of any size, with an infinity or a NaN here and there.
template <int N> struct Words {
    unsigned w[N];
    __device__ __forceinline__ unsigned operator[](int k) const { return w[k]; }
};
template <int N> struct Floats {
    float w[N];
    __device__ __forceinline__ float operator[](int k) const { return w[k]; }
};
template <int N> struct Doubles {
    double w[N];
    __device__ __forceinline__ double operator[](int k) const { return w[k]; }
};
#define FRAGMENTS(KIND, TYPE)                                                               \
    using KIND##_1 = TYPE<1>; using KIND##_2 = TYPE<2>; using KIND##_4 = TYPE<4>;           \
    using KIND##_8 = TYPE<8>;
FRAGMENTS(bits, Words)
FRAGMENTS(f16exact, Words) FRAGMENTS(f16near, Words) FRAGMENTS(f16wild, Words)
FRAGMENTS(bf16exact, Words) FRAGMENTS(bf16near, Words) FRAGMENTS(bf16wild, Words)
FRAGMENTS(fp8exact, Words) FRAGMENTS(fp8near, Words) FRAGMENTS(fp8wild, Words)
FRAGMENTS(f32exact, Floats) FRAGMENTS(f32normal, Floats) FRAGMENTS(f32wild, Floats)
FRAGMENTS(f64exact, Doubles) FRAGMENTS(f64normal, Doubles) FRAGMENTS(f64wild, Doubles)

struct Thread {
    const unsigned *a, *b, *c;
    unsigned* out;
    int n;  // threads in all: the length of the arrays in operands
    int i;  // this thread's number
};

template <class T>
__device__ __forceinline__ T load(const unsigned* words, int i) {
    constexpr int COUNT = sizeof(T) / 4;
    T value;
    if constexpr (COUNT == 2 && alignof(T) == 8) {
        const unsigned long long both = ((const unsigned long long*)words)[i];
        memcpy(&value, &both, 8);
    } else {
        unsigned read[COUNT];
#pragma unroll
        for (int k = 0; k < COUNT; ++k) read[k] = words[i * COUNT + k];
        memcpy(&value, read, sizeof(T));
    }
    return value;
}

template <int COUNT>
struct Results {
    unsigned* at;
    int used = 0;
    __device__ __forceinline__ explicit Results(unsigned* first) : at(first) {}
    __device__ __forceinline__ void operator()(unsigned value) { at[used++] = value; }
    __device__ __forceinline__ void operator()(int value) { (*this)((unsigned)value); }
    __device__ __forceinline__ void operator()(bool value) { (*this)(value ? 1u : 0u); }
    __device__ __forceinline__ void operator()(float value) { (*this)(__float_as_uint(value)); }
    __device__ __forceinline__ void operator()(unsigned long long value) {
        (*this)((unsigned)value);
        (*this)((unsigned)(value >> 32));
    }
    __device__ __forceinline__ void operator()(long long value) {
        (*this)((unsigned long long)value);
    }
    __device__ __forceinline__ void operator()(double value) {
        (*this)((unsigned long long)__double_as_longlong(value));
    }
    // All that follows is left out, or has been written through `at`.
    __device__ __forceinline__ void done() { used = COUNT; }
    // A wrong count leaves a BPT.TRAP in the machine code, which the tests look for.
    __device__ __forceinline__ ~Results() { if (used != COUNT) __trap(); }
};

#define KERNEL_OF(NAME, RESULTS, A, B, C, ...)                                                   \
    __device__ __forceinline__ void NAME##_body(A a, B b, C c, Thread t, Results<RESULTS>& put); \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                    \
        NAME(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* out, int n) {    \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                                     \
        Results<RESULTS> put(out + (size_t)i * RESULTS);                                         \
        NAME##_body(load<A>(a, i), load<B>(b, i), load<C>(c, i), Thread{a, b, c, out, n, i},     \
                    put);                                                                        \
    }                                                                                            \
    __device__ __forceinline__ void NAME##_body(A a, B b, C c, Thread t, Results<RESULTS>& put)

#define KERNEL(NAME, RESULTS, A, B, C) KERNEL_OF(NAME, RESULTS, A, B, C, 128)
// With 32 registers a thread, so that ptxas has reason to use uniform ones.
#define KERNEL_TIGHT(NAME, RESULTS, A, B, C) KERNEL_OF(NAME, RESULTS, A, B, C, 128, 16)

// Kernels that need an architecture or later; before it they are not there at all.
#define ABSENT(NAME, RESULTS, A, B, C) \
    template <int>                     \
    __device__ void NAME##_body(A a, B b, C c, Thread t, Results<RESULTS>& put)
#if __CUDA_ARCH__ >= 890
#define KERNEL89 KERNEL
#else
#define KERNEL89 ABSENT
#endif
#if __CUDA_ARCH__ >= 900
#define KERNEL90 KERNEL
#else
#define KERNEL90 ABSENT
#endif
#if __CUDA_ARCH__ >= 1000
#define KERNEL100 KERNEL
#else
#define KERNEL100 ABSENT
#endif

// One PTX instruction: types of the result and of the operands by their constraint letters.
#define ASM1(T, t, OP, x, X) [&] { T r_; asm(OP " %0, %1;" : "=" t(r_) : x(X)); return r_; }()
#define ASM2(T, t, OP, x, X, y, Y) \
    [&] { T r_; asm(OP " %0, %1, %2;" : "=" t(r_) : x(X), y(Y)); return r_; }()
#define ASM3(T, t, OP, x, X, y, Y, z, Z) \
    [&] { T r_; asm(OP " %0, %1, %2, %3;" : "=" t(r_) : x(X), y(Y), z(Z)); return r_; }()

#define U1(OP, X) ASM1(unsigned, "r", OP, "r", X)
#define U2(OP, X, Y) ASM2(unsigned, "r", OP, "r", X, "r", Y)
#define U3(OP, X, Y, Z) ASM3(unsigned, "r", OP, "r", X, "r", Y, "r", Z)
#define L1(OP, X) ASM1(unsigned long long, "l", OP, "l", X)
#define L2(OP, X, Y) ASM2(unsigned long long, "l", OP, "l", X, "l", Y)
#define L3(OP, X, Y, Z) ASM3(unsigned long long, "l", OP, "l", X, "l", Y, "l", Z)
#define F1(OP, X) ASM1(float, "f", OP, "f", X)
#define F2(OP, X, Y) ASM2(float, "f", OP, "f", X, "f", Y)
#define F3(OP, X, Y, Z) ASM3(float, "f", OP, "f", X, "f", Y, "f", Z)
#define D1(OP, X) ASM1(double, "d", OP, "d", X)
#define D2(OP, X, Y) ASM2(double, "d", OP, "d", X, "d", Y)
#define D3(OP, X, Y, Z) ASM3(double, "d", OP, "d", X, "d", Y, "d", Z)
// Halves travel in 32-bit registers: f16x2 as they are, single ones in the low 16 bits.
#define H1(OP, X) [&] { unsigned r_; asm("{ .reg .b16 x, r; .reg .b16 u; mov.b32 {x, u}, %1; " OP \
    " r, x; mov.b32 %0, {r, 0}; }" : "=r"(r_) : "r"(X)); return r_; }()
#define H2(OP, X, Y) [&] { unsigned r_; asm("{ .reg .b16 x, y, r, u; mov.b32 {x, u}, %1; " \
    "mov.b32 {y, u}, %2; " OP " r, x, y; mov.b32 %0, {r, 0}; }" : "=r"(r_) : "r"(X), "r"(Y)); return r_; }()
#define H3(OP, X, Y, Z) [&] { unsigned r_; asm("{ .reg .b16 x, y, z, r, u; mov.b32 {x, u}, %1; " \
    "mov.b32 {y, u}, %2; mov.b32 {z, u}, %3; " OP " r, x, y, z; mov.b32 %0, {r, 0}; }" \
    : "=r"(r_) : "r"(X), "r"(Y), "r"(Z)); return r_; }()

// One comparison, as 0 or 1.
#define SETP(OP, x, X, Y) [&] { unsigned r_; asm("{ .reg .pred p; setp." OP " p, %1, %2; " \
    "selp.u32 %0, 1, 0, p; }" : "=r"(r_) : x(X), x(Y)); return r_; }()
// All comparisons of floats, a bit each.
#define OPERATORS(TYPE, x, X, Y)                                                                 \
    (SETP("eq." TYPE, x, X, Y) | SETP("ne." TYPE, x, X, Y) << 1 | SETP("lt." TYPE, x, X, Y) << 2 \
     | SETP("le." TYPE, x, X, Y) << 3 | SETP("gt." TYPE, x, X, Y) << 4                           \
     | SETP("ge." TYPE, x, X, Y) << 5 | SETP("equ." TYPE, x, X, Y) << 6                          \
     | SETP("neu." TYPE, x, X, Y) << 7 | SETP("ltu." TYPE, x, X, Y) << 8                         \
     | SETP("leu." TYPE, x, X, Y) << 9 | SETP("gtu." TYPE, x, X, Y) << 10                        \
     | SETP("geu." TYPE, x, X, Y) << 11 | SETP("num." TYPE, x, X, Y) << 12                       \
     | SETP("nan." TYPE, x, X, Y) << 13)

// put(E) for each of up to 16 expressions; put(MACRO(OP, ARGS...)) for each of up to 16 opcodes.
#define DO1(DO, A, X) DO(A, X)
#define DO2(DO, A, X, ...) DO(A, X) DO1(DO, A, __VA_ARGS__)
#define DO3(DO, A, X, ...) DO(A, X) DO2(DO, A, __VA_ARGS__)
#define DO4(DO, A, X, ...) DO(A, X) DO3(DO, A, __VA_ARGS__)
#define DO5(DO, A, X, ...) DO(A, X) DO4(DO, A, __VA_ARGS__)
#define DO6(DO, A, X, ...) DO(A, X) DO5(DO, A, __VA_ARGS__)
#define DO7(DO, A, X, ...) DO(A, X) DO6(DO, A, __VA_ARGS__)
#define DO8(DO, A, X, ...) DO(A, X) DO7(DO, A, __VA_ARGS__)
#define DO9(DO, A, X, ...) DO(A, X) DO8(DO, A, __VA_ARGS__)
#define DO10(DO, A, X, ...) DO(A, X) DO9(DO, A, __VA_ARGS__)
#define DO11(DO, A, X, ...) DO(A, X) DO10(DO, A, __VA_ARGS__)
#define DO12(DO, A, X, ...) DO(A, X) DO11(DO, A, __VA_ARGS__)
#define DO13(DO, A, X, ...) DO(A, X) DO12(DO, A, __VA_ARGS__)
#define DO14(DO, A, X, ...) DO(A, X) DO13(DO, A, __VA_ARGS__)
#define DO15(DO, A, X, ...) DO(A, X) DO14(DO, A, __VA_ARGS__)
#define DO16(DO, A, X, ...) DO(A, X) DO15(DO, A, __VA_ARGS__)
#define COUNTED(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, NAME, ...) \
    NAME
#define EACH(DO, A, ...) COUNTED(__VA_ARGS__, DO16, DO15, DO14, DO13, DO12, DO11, DO10, DO9, \
    DO8, DO7, DO6, DO5, DO4, DO3, DO2, DO1)(DO, A, __VA_ARGS__)
#define PUT_ONE(NONE, X) put(X);
#define PUT(...) EACH(PUT_ONE, , __VA_ARGS__)
#define PLAIN(...) __VA_ARGS__
#define CALLED(MACRO, ...) MACRO(__VA_ARGS__)
#define OPCODE_FIRST(OP, MACRO, ARGS) CALLED(MACRO, OP, PLAIN ARGS)
#define WITH_OPCODE(...) OPCODE_FIRST(__VA_ARGS__)
#define PUT_CALLED(MACRO_ARGS, OP) put(WITH_OPCODE(OP, PLAIN MACRO_ARGS));
#define PUTS(MACRO, ARGS, ...) EACH(PUT_CALLED, (MACRO, ARGS), __VA_ARGS__)
