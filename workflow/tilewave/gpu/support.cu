// Helper kernels of the GPU runtime: inputs, the float64 reference product, comparison, timing aids.
//
// NVRTC compiles it without any header. The integer arithmetic of the inputs is that of inputs.py.
// With TILEWAVE_HOST a C++ compiler accepts the file too; the tests run it on the CPU.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum Type { F64 = 0, F32 = 1, F16 = 2, BF16 = 3, I8 = 4, I32 = 5, E4M3 = 6, E5M2 = 7, ANY = -1 };  // Dtype.support

// ---- bits ------------------------------------------------------------------------------------

__device__ inline float float_of_bits(u32 bits) {
    union { u32 u; float f; } both;
    both.u = bits;
    return both.f;
}

__device__ inline u32 bits_of_float(float value) {
    union { u32 u; float f; } both;
    both.f = value;
    return both.u;
}

__device__ inline u16 half_of_float(float value) {  // nearest even
#ifdef TILEWAVE_HOST
    union { u16 u; _Float16 h; } both;
    both.h = (_Float16)value;
    return both.u;
#else
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#endif
}

__device__ inline float float_of_half(u16 half) {
#ifdef TILEWAVE_HOST
    union { u16 u; _Float16 h; } both;
    both.u = half;
    return (float)both.h;
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#endif
}

// FP8 becomes an f16 with another exponent, which a multiplication corrects; every step is exact.
__device__ inline float float_of_e4m3(u8 x) {
    const float nan = float_of_bits(0x7FFFFFFFu);
    return (x & 0x7F) == 0x7F ? nan : 256.0f * float_of_half((u16)((x & 0x80) << 8 | (x & 0x7F) << 7));
}
__device__ inline float float_of_e5m2(u8 x) { return float_of_half((u16)(x << 8)); }

template <int TYPE>
__device__ inline double load(const void *base, i64 i, int type) {
    switch (TYPE == ANY ? type : TYPE) {
        case F64: return ((const double *)base)[i];
        case F32: return ((const float *)base)[i];
        case F16: return float_of_half(((const u16 *)base)[i]);
        case I8: return ((const signed char *)base)[i];
        case I32: return ((const int *)base)[i];
        case E4M3: return float_of_e4m3(((const u8 *)base)[i]);
        case E5M2: return float_of_e5m2(((const u8 *)base)[i]);
        default: return float_of_bits((u32)((const u16 *)base)[i] << 16);
    }
}

// ---- inputs ----------------------------------------------------------------------------------

__device__ inline u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return x ^ (x >> 16);
}

__device__ inline u32 word(u32 seed, u32 stream, u64 index) {
    const u32 key = mix(mix(seed) ^ (stream * 0x9E3779B9u + 0x7F4A7C15u));
    return mix(mix((u32)index ^ (u32)(index >> 32) * 0x85EBCA6Bu) + key);
}

__device__ inline float single_of(u32 w) {
    return (float)(2 * (int)(w >> 8) + 1 - (1 << 24)) * (1.0f / (1 << 24));
}

__device__ inline double double_of(u32 w) {
    const i64 more = mix(w ^ 0xA511E9B3u) >> 4;
    const i64 odd = 2 * (((i64)(w >> 8) << 28) | more) + 1 - (1ll << 52);
    return (double)odd * (1.0 / (double)(1ll << 52));
}

__device__ inline float tf32_of_float(float value) {  // ties away from zero, as cvt.rna.tf32.f32
    return float_of_bits((bits_of_float(value) + 0x1000u) & 0xFFFFE000u);
}

__device__ inline u16 bf16_of_float(float value) {  // nearest even
    const u32 bits = bits_of_float(value);
    return (u16)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Nearest even, for numbers up to 1. Adding a large number with the wanted last place rounds them.
template <int DIGITS, int LEAST>
__device__ inline u8 fp8_of_float(float value) {
    const u32 bits = bits_of_float(value), size = bits & 0x7FFFFFFFu;
    const int exponent = (int)(size >> 23) - 127 > LEAST ? (int)(size >> 23) - 127 : LEAST;
    const float large = float_of_bits((u32)(exponent - DIGITS + 23 + 127) << 23);
    const u32 steps = bits_of_float(float_of_bits(size) + large) & 0xFFu;
    return (u8)((bits >> 24 & 0x80u) | (steps + ((u32)(exponent - LEAST) << DIGITS)));
}

#define FILL(NAME, T, ELEMENT)                                                                   \
    extern "C" __global__ void NAME(void *out, u64 count, u32 seed, u32 stream) {                \
        const u64 step = (u64)gridDim.x * blockDim.x;                                            \
        for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {         \
            const u32 w = word(seed, stream, i);                                                 \
            ((T *)out)[i] = ELEMENT;                                                             \
        }                                                                                        \
    }
FILL(fill_f64, double, double_of(w))
FILL(fill_f32, float, single_of(w))
FILL(fill_tf32, float, tf32_of_float(single_of(w)))
FILL(fill_f16in32, float, float_of_half(half_of_float(single_of(w))))
FILL(fill_f16, u16, half_of_float(single_of(w)))
FILL(fill_bf16, u16, bf16_of_float(single_of(w)))
FILL(fill_i32, int, (int)(w >> 8) - (1 << 23))
FILL(fill_i8, signed char, (signed char)((int)((w >> 8) * 255u >> 24) - 127))
FILL(fill_e4m3, u8, (fp8_of_float<3, -6>(single_of(w))))
FILL(fill_e5m2, u8, (fp8_of_float<2, -14>(single_of(w))))

// ---- reference -------------------------------------------------------------------------------
// out[m,n] (f64, in C's layout) = alpha A[m,k] B[k,n] + beta C0. 64 x 64 outputs a block of 128
// threads, 8 x 4 a thread, k in steps of 16 that overlap the next loads. A thread's columns are
// 2 tx + {0, 1} and 32 + 2 tx + {0, 1}, its rows 8 ty ... 8 ty + 7, so every shared read is 16 bytes.
// The grid is one-dimensional: a column of tiles may be longer than gridDim.y can be.

const int TILE = 64, STEP = 16, THREADS = 128, PITCH = TILE + 2;

struct Walk {
    // How a thread copies 64 outer (m or n) x 16 inner (k) elements in 8 steps r, so that
    // consecutive threads read consecutive addresses in either layout.
    int outer, inner, outer_step, inner_step, into, into_step;
    i64 at, at_step, advance;  // elements; advance: from one k step to the next

    __device__ Walk(bool outer_contiguous, i64 outer0, i64 outers, i64 inners) {
        const int t = threadIdx.x;
        outer = outer_contiguous ? t % TILE : t / STEP;
        inner = outer_contiguous ? t / TILE : t % STEP;
        outer_step = outer_contiguous ? 0 : THREADS / STEP;
        inner_step = outer_contiguous ? THREADS / TILE : 0;
        into = inner * PITCH + outer;
        into_step = inner_step * PITCH + outer_step;
        const i64 along_outer = outer_contiguous ? 1 : inners;
        const i64 along_inner = outer_contiguous ? outers : 1;
        at = (outer0 + outer) * along_outer + inner * along_inner;
        at_step = outer_step * along_outer + inner_step * along_inner;
        advance = STEP * along_inner;
    }
};

template <int TYPE>
__device__ inline void fetch(double *kept, const void *base, int type, Walk &walk, int outers,
                             int inners) {
    // outers and inners: remaining elements from the tile's corner.
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const bool inside = walk.outer + r * walk.outer_step < outers &&
                            walk.inner + r * walk.inner_step < inners;
        kept[r] = inside ? load<TYPE>(base, walk.at + r * walk.at_step, type) : 0.0;
    }
    walk.at += walk.advance;
}

__device__ inline void keep(double (*tile)[PITCH], const double *kept, const Walk &walk) {
#pragma unroll
    for (int r = 0; r < 8; ++r) (&tile[0][0])[walk.into + r * walk.into_step] = kept[r];
}

template <int TYPE>
__device__ inline void reference(const void *a, const void *b, const void *c, double *out, int m,
                                 int n, int k, double alpha, double beta, int type_a, int type_b,
                                 int type_c, int col_a, int col_b, int col_c) {
    __shared__ __align__(16) double tile_a[STEP][PITCH];
    __shared__ __align__(16) double tile_b[STEP][PITCH];
    const i64 across = (n + TILE - 1) / TILE;
    const i64 row0 = (i64)blockIdx.x / across * TILE, column0 = (i64)blockIdx.x % across * TILE;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    double sum[8][4], next_a[8], next_b[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = 0.0;

    Walk walk_a(col_a != 0, row0, m, k), walk_b(col_b == 0, column0, n, k);
    const int rows = (int)(m - row0), columns = (int)(n - column0);
    fetch<TYPE>(next_a, a, type_a, walk_a, rows, k);
    fetch<TYPE>(next_b, b, type_b, walk_b, columns, k);
    for (int left_k = k; left_k > 0; left_k -= STEP) {
        keep(tile_a, next_a, walk_a);
        keep(tile_b, next_b, walk_b);
        __syncthreads();
        if (left_k > STEP) {
            fetch<TYPE>(next_a, a, type_a, walk_a, rows, left_k - STEP);
            fetch<TYPE>(next_b, b, type_b, walk_b, columns, left_k - STEP);
        }
#pragma unroll 4
        for (int kk = 0; kk < STEP; ++kk) {
            double left[8], right[4];
#pragma unroll
            for (int i = 0; i < 8; ++i) left[i] = tile_a[kk][8 * ty + i];
#pragma unroll
            for (int j = 0; j < 4; ++j) right[j] = tile_b[kk][32 * (j / 2) + 2 * tx + j % 2];
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const i64 row = row0 + 8 * ty + i, column = column0 + 32 * (j / 2) + 2 * tx + j % 2;
            if (row < m && column < n) {
                const i64 at = col_c ? column * m + row : row * n + column;
                out[at] = alpha * sum[i][j];
            }
        }
#pragma unroll 1  // beside the sums, loads of all types would take half of the compiler's time
    for (int i = beta == 0.0 ? 32 : 0; i < 32; ++i) {
        const i64 row = row0 + 8 * ty + i / 4, column = column0 + 32 * (i / 2 % 2) + 2 * tx + i % 2;
        const i64 at = col_c ? column * m + row : row * n + column;
        if (row < m && column < n) out[at] += beta * load<ANY>(c, at, type_c);
    }
}

#define REFERENCE(NAME, TYPE)                                                                    \
    extern "C" __global__ void __launch_bounds__(128, 3)                                          \
        NAME(const void *a, const void *b, const void *c, double *out, int m, int n, int k,      \
             double alpha, double beta, int type_a, int type_b, int type_c, int col_a,           \
             int col_b, int col_c) {                                                             \
        reference<TYPE>(a, b, c, out, m, n, k, alpha, beta, type_a, type_b, type_c, col_a,       \
                        col_b, col_c);                                                           \
    }
REFERENCE(reference_f64, F64)
REFERENCE(reference_f32, F32)
REFERENCE(reference_f16, F16)
REFERENCE(reference_bf16, BF16)
REFERENCE(reference_i8, I8)
REFERENCE(reference_e4m3, E4M3)
REFERENCE(reference_any, ANY)

// ---- comparison ------------------------------------------------------------------------------
// Each block of 256 threads writes a separate row, so the host's sum has a fixed order and result:
// sums[block] = {largest |error|, sum error^2, sum reference^2}, counts[block] = {wrong, first wrong}.
// Wrong is not (|error| <= relative |reference| + absolute): NaN is wrong, and enters no sum.

extern "C" __global__ void __launch_bounds__(256)
    compare(const void *got, const double *want, u64 count, int type, double relative,
            double absolute, double *sums, u64 *counts) {
    double largest = 0.0, errors = 0.0, references = 0.0;
    u64 wrong = 0, first = ~0ull;
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const double reference = want[i], error = load<ANY>(got, (i64)i, type) - reference;
        const double size = error < 0 ? -error : error;
        const double scale = reference < 0 ? -reference : reference;
        references += reference * reference;
        if (size == size) {
            errors += error * error;
            if (size > largest) largest = size;
        }
        if (!(size <= relative * scale + absolute)) {
            ++wrong;
            if (i < first) first = i;
        }
    }
    __shared__ double sum[3][256];
    __shared__ u64 tally[2][256];
    const int t = threadIdx.x;
    sum[0][t] = largest, sum[1][t] = errors, sum[2][t] = references;
    tally[0][t] = wrong, tally[1][t] = first;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) {
            if (sum[0][t + half] > sum[0][t]) sum[0][t] = sum[0][t + half];
            sum[1][t] += sum[1][t + half];
            sum[2][t] += sum[2][t + half];
            tally[0][t] += tally[0][t + half];
            if (tally[1][t + half] < tally[1][t]) tally[1][t] = tally[1][t + half];
        }
        __syncthreads();
    }
    if (t < 3) sums[blockIdx.x * 3 + t] = sum[t][0];
    if (t < 2) counts[blockIdx.x * 2 + t] = tally[t][0];
}

// different = 1 if two buffers of this many bytes differ, else as it was. Both begin at a multiple of 8.
extern "C" __global__ void differ(const u64 *left, const u64 *right, u64 bytes, u64 *different) {
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 step = (u64)gridDim.x * blockDim.x, full = bytes / 8;
    for (u64 i = first; i < full; i += step)
        if (left[i] != right[i]) *different = 1;
    const u64 last = 8 * full + first;
    if (last < bytes && ((const u8 *)left)[last] != ((const u8 *)right)[last]) *different = 1;
}

// different = 1 if a byte of the bands before and behind a buffer of this many bytes is not poison, else as it was.
extern "C" __global__ void broken(const u8 *buffer, u64 bytes, u64 guard, u64 *different) {
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < guard; i += step)
        if (buffer[bytes + i] != 0xff || *(buffer - 1 - i) != 0xff) *different = 1;
}

// ---- timing ----------------------------------------------------------------------------------

#ifndef TILEWAVE_HOST
// Holds the stream while the host enqueues the next work.
extern "C" __global__ void gate(i64 cycles) {
    const i64 start = clock64();
    while (clock64() - start < cycles) {
    }
}

__device__ inline u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Reads the clock for `span` ns. Two readings are nanoseconds apart, unless kernels of another process had
// the GPU meanwhile. result = {ns of all pauses longer than `least`, ns in total}.
extern "C" __global__ void watch(u64 span, u64 least, u64 *result) {
    const u64 begin = nanoseconds();
    u64 last = begin, pauses = 0;
    do {
        const u64 now = nanoseconds();
        if (now - last > least) pauses += now - last;
        last = now;
    } while (last - begin < span);
    result[0] = pauses, result[1] = last - begin;
}

// Counts the SM clock: result = {cycles, ns} over about `span` ns.
extern "C" __global__ void clock_rate(u64 span, u64 *result) {
    const u64 begin = nanoseconds();
    const i64 first = clock64();
    u64 now;
    do {
        now = nanoseconds();
    } while (now - begin < span);
    result[0] = (u64)(clock64() - first), result[1] = now - begin;
}
#endif

extern "C" __global__ void empty() {}
