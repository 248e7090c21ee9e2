// What mma.sync needs whatever the schedule and the edges: a block's threads, its operands from swizzled shared
// memory, its sums, and what exchanges results between lanes (mma_tile.cuh, hgemm_tile.cuh).
//
// Everything is counted in bytes of k, for in bytes all types are alike. Who includes this defines the types In,
// Out and Sum and the sizes of tiles, warps and chunks in the namespace mma_tile.

#pragma once

namespace mma_tile {

using Sums = Sum[MMAS_M][MMAS_N][4];

struct Problem {
    const In* a;
    const In* b;
    Out* c;
    int m, n, k;
    Sum alpha, beta;

    // Whether a tile does not fit into C in one of its dimensions.
    __device__ __forceinline__ bool small() const { return m < TILE_M || n < TILE_N; }
};

__device__ __forceinline__ int tile_rows(const Problem& problem) { return (problem.m - 1) / TILE_M + 1; }
__device__ __forceinline__ int tile_columns(const Problem& problem) { return (problem.n - 1) / TILE_N + 1; }
__device__ __forceinline__ int tiles_of(const Problem& problem) {
    return tile_rows(problem) * tile_columns(problem);
}
__device__ __forceinline__ int chunks_of(const Problem& problem) { return (problem.k - 1) / CHUNK + 1; }

// The number of a thread, and what follows from it. It is read anew wherever it is asked for: a kernel with
// several tiles would otherwise keep all that follows from it in registers that the main loop needs.
struct Thread {
    int id;

    __device__ __forceinline__ Thread() { asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id)); }
    __device__ __forceinline__ int lane() const { return id % WARP; }
    __device__ __forceinline__ int warp_row() const { return id / WARP / WARPS_N * WARP_M; }
    __device__ __forceinline__ int warp_column() const { return id / WARP % WARPS_N * WARP_N; }
};

__device__ __forceinline__ void load_matrices(unsigned (&words)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
}

// What distinguishes the types: the instruction. volatile keeps the order of the source, in which copies and
// loads stand between the mma.
template <class T>
struct Kind {};
#define MMA(SHAPE_AND_TYPES, CONSTRAINT)                                                                  \
    asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                                      \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"                     \
                 : CONSTRAINT(sum[0]), CONSTRAINT(sum[1]), CONSTRAINT(sum[2]), CONSTRAINT(sum[3])         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

__device__ __forceinline__ void mma(Kind<f16>, f32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
}
__device__ __forceinline__ void mma(Kind<bf16>, f32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
}
__device__ __forceinline__ void mma(Kind<tf32>, f32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
}
__device__ __forceinline__ void mma(Kind<i8>, i32 (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}
#undef MMA

// Where this lane's row and piece of the first step of a stage lie; what ldmatrix is given.
struct Rows {
    unsigned a, b;

    // ldmatrix takes the address of 16 bytes of a row from each lane: 0 to 7 those of the first matrix, and
    // so on. A's matrices: rows 0-7 and 8-15 of the first piece, then of the second; B's: columns 0-7 of the
    // first and of the second piece, then columns 8-15. That is the order of mma's registers.
    __device__ __forceinline__ explicit Rows(unsigned shared) {
        const Thread thread;
        const int lane = thread.lane();
        const int a_row = lane % 16;
        const int a_piece = lane / 16;
        const int b_row = lane % 8 + lane / 16 * 8;
        const int b_piece = lane / 8 % 2;
        a = shared + (thread.warp_row() + a_row) * CHUNK_BYTES + (a_piece ^ a_row % 8) * PIECE_BYTES;
        b = shared + (TILE_M + thread.warp_column() + b_row) * CHUNK_BYTES +
            (b_piece ^ b_row % 8) * PIECE_BYTES;
    }
    __device__ __forceinline__ Rows(unsigned a, unsigned b) : a(a), b(b) {}

    // A step is two pieces further; the swizzle is an xor, and so is the way from step to step.
    __device__ __forceinline__ Rows at(unsigned stage, int step) const {
        const unsigned within = step * MMA_BYTES;
        return {(a ^ within) + stage, (b ^ within) + stage};
    }
};

// A warp's operands of one step, 32 bytes of k, in registers.
struct Operands {
    unsigned a[MMAS_M][4];
    unsigned b[MMAS_N / 2][4];  // two tiles of 8 columns each

    __device__ __forceinline__ void load_a(int i, unsigned rows) {
        load_matrices(a[i], rows + i * MMA_M * CHUNK_BYTES);
    }
    __device__ __forceinline__ void load_b(int j, unsigned rows) {
        load_matrices(b[j], rows + j * 2 * MMA_N * CHUNK_BYTES);
    }
    __device__ __forceinline__ void load(const Rows& rows) {
#pragma unroll
        for (int j = 0; j < MMAS_N / 2; ++j) load_b(j, rows.b);
#pragma unroll
        for (int i = 0; i < MMAS_M; ++i) load_a(i, rows.a);
    }
};

// The tile of B that comes `nth` beside row `i` of A: back and forth, so that the last pair is still at hand.
__device__ __forceinline__ constexpr int column_of(int i, int nth) {
    return i % 2 ? MMAS_N - 1 - nth : nth;
}

// One product of two mma tiles.
__device__ __forceinline__ void multiply(Sums& sums, const Operands& operands, int i, int j) {
    const unsigned(&pair)[4] = operands.b[j / 2];
    mma(Kind<In>(), sums[i][j], operands.a[i], pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
        for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j][e] = 0;
        }
    }
}

__device__ __forceinline__ unsigned next_stage(unsigned stage) {
    return stage == (PIPELINE - 1) * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
}

[[maybe_unused]] __device__ __forceinline__ float2 unpack(Kind<f16>, unsigned word) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
[[maybe_unused]] __device__ __forceinline__ float2 unpack(Kind<bf16>, unsigned word) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
}
[[maybe_unused]] __device__ __forceinline__ unsigned pack(Kind<f16>, f32 low, f32 high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}
[[maybe_unused]] __device__ __forceinline__ unsigned pack(Kind<bf16>, f32 low, f32 high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

// Transposes the 4x4 words of four neighbouring lanes: word i of lane j becomes word j of lane i.
__device__ __forceinline__ void transpose(unsigned (&words)[4], int lane) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
        const bool upper = (lane & bit) != 0;
#pragma unroll
        for (int low = 0; low < 4; ++low) {
            if (low & bit) continue;
            const int high = low + bit;
            const unsigned given = upper ? words[low] : words[high];
            const unsigned taken = __shfl_xor_sync(0xffffffffu, given, bit);
            words[low] = upper ? taken : words[low];
            words[high] = upper ? words[high] : taken;
        }
    }
}

// 16 bytes of C, or zeros where `inside` is false; a predicate, so that many loads are in flight.
__device__ __forceinline__ void load_piece(unsigned (&words)[4], const Out* source, bool inside) {
    words[0] = words[1] = words[2] = words[3] = 0;
    asm volatile(
        "{\n"
        ".reg .pred inside;\n"
        "setp.ne.b32 inside, %5, 0;\n"
        "@inside ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
        "}\n"
        : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
        : "l"(source), "r"(static_cast<int>(inside))
        : "memory");
}

}  // namespace mma_tile
