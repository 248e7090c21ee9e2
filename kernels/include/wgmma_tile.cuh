// A thread block's tile of a product by TMA and wgmma for the types that hgemm_wgmma.cuh has not: tf32, bytes, and
// f16 with f16 sums. What matmul_wgmma* share.
//
// A wgmma takes 32 bytes of k whatever its type, 8 tf32, 16 numbers of 16 bits or 32 bytes, in the same time, and
// finds them in shared memory in the same order. Places, threads and the ring of stages are therefore those of
// hgemm_wgmma.cuh, which counts these in bytes; what differs is the instruction, and what a thread has of a result.
// A is row-major, B column-major: of tf32 and of bytes wgmma takes no other order.
//
// Who includes this defines TYPE, TILE_M, TILE_N, STAGES and, where it has it, RASTER.

#pragma once

#include "mma_types.cuh"
#include "words.cuh"

// The instruction from its depth on, what stands behind its operands, and its sums.
#define TYPE_tf32 0
#define TYPE_i8 1
#define TYPE_f16 2
#define TYPE_NUMBER NAMED(TYPE_, TYPE)
#if TYPE_NUMBER == TYPE_tf32
#define DEPTH_AND_TYPES "k8.f32.tf32.tf32"
#define ENDING ", 1, 1"  // no sign is changed
#define REGISTER "+f"
#define SUMS_IN_REGISTER 1
#elif TYPE_NUMBER == TYPE_i8
#define DEPTH_AND_TYPES "k32.s32.s8.s8"
#define ENDING ""
#define REGISTER "+r"
#define SUMS_IN_REGISTER 1
#else
#define DEPTH_AND_TYPES "k16.f16.f16.f16"
#define ENDING ", 1, 1, 0, 0"  // and both operands are contiguous along k
#define REGISTER "+r"
#define SUMS_IN_REGISTER 2
#endif

namespace wgmma_tile {
using In = TYPE;
}

// From here on TYPE is the element of what hgemm_wgmma.cuh has besides: products with f32 sums and their results,
// of which only what knows no numbers is used.
#undef TYPE
#define TYPE f16
#include "hgemm_wgmma.cuh"

namespace wgmma_tile {

using hopper::BUFFERS, hopper::CONSUMER_THREADS, hopper::CONSUMER_WARPS, hopper::CONSUMERS;
using hopper::ROLE_THREADS, hopper::STEPS, hopper::STRIP_BYTES, hopper::SWIZZLE_BYTES;
using hopper::Place, hopper::Ring, hopper::Thread, hopper::Tiles;

// What the types do not share: C, alpha and beta, and the registers of sums, in which a thread has two
// neighbours of a row beside each other: `PAIR` registers, the unit of all that follows.
template <class T>
struct Types {};
template <>
struct Types<tf32> {
    using Out = f32;
    using Scalar = f32;
    using Register = f32;
    using Four = float4;
};
template <>
struct Types<i8> {
    using Out = i32;
    using Scalar = i32;
    using Register = i32;
    using Four = int4;
};
template <>
struct Types<f16> {
    using Out = f16;
    using Scalar = f32;
    using Register = unsigned;  // two sums
    using Four = uint4;
};

using Out = Types<In>::Out;
using Scalar = Types<In>::Scalar;
using Register = Types<In>::Register;
using Four = Types<In>::Four;  // four registers

constexpr int PAIR = 2 / SUMS_IN_REGISTER;
constexpr int CHUNK = SWIZZLE_BYTES / static_cast<int>(sizeof(In));  // elements of k in a row of a box
constexpr int PAIRS = TILE_N / 4;                                    // of a thread and product
constexpr int SUMS = PAIRS * PAIR;
constexpr int STRIP_COLUMNS = SWIZZLE_BYTES / static_cast<int>(sizeof(Out));
constexpr int STRIP_WORDS = hopper::STRIP_WORDS;  // of a thread, in registers of 32 bits
constexpr int STRIPS = TILE_N / STRIP_COLUMNS;    // of a warp and tile

static_assert(hopper::MMAS == 1, "a warpgroup has 64 rows");
static_assert(STRIPS * STRIP_WORDS == SUMS, "strips hold all sums");

using Sums = Register[SUMS];

// What becomes of the sums.
struct Result {
    Out* c;
    int m, n;
    Scalar alpha, beta;
};

__device__ __forceinline__ int chunks_of(int k) { return (k - 1) / CHUNK + 1; }

// ---- products --------------------------------------------------------------------------------------

// Pair 2 j + h of a thread begins at column 8 j + 2 (lane mod 4), row 16 warp + lane / 4 + 8 h.
template <int N>
__device__ __forceinline__ void multiply(Register (&d)[N / 4 * PAIR], u64 a, u64 b, int add);

#define OF_TYPE Register, REGISTER, DEPTH_AND_TYPES, ENDING
#if SUMS_IN_REGISTER == 2
WGMMA_128_OF_PAIRS(OF_TYPE)
WGMMA_256_OF_PAIRS(OF_TYPE)
#else
WGMMA_64(OF_TYPE)
WGMMA_128(OF_TYPE)
WGMMA_192(OF_TYPE)
WGMMA_256(OF_TYPE)
#endif
#undef OF_TYPE
#undef DEPTH_AND_TYPES
#undef ENDING
#undef REGISTER

// By one thread: asks for a chunk, a box of each operand.
__device__ __forceinline__ void load_boxes(const Ring& ring, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                           const Place& place, int chunk) {
    const unsigned at = ring.at(), barrier = ring.full_barrier();
    hopper::expect(barrier, hopper::STAGE_BYTES);
    hopper::load(at, map_a, chunk * CHUNK, place.row, barrier);
    hopper::load(at + hopper::A_BYTES, map_b, chunk * CHUNK, place.column, barrier);
}

// Begins the products of the chunk at a shared address; the first chunk of a tile overwrites the sums.
__device__ __forceinline__ void multiply_chunk(Sums& sums, const Thread& thread, unsigned at, int chunk) {
    const u64 a = hopper::descriptor(at + thread.warpgroup * hopper::ROWS * SWIZZLE_BYTES);
    const u64 b = hopper::descriptor(at + hopper::A_BYTES);
    hopper::begin_products();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        multiply<TILE_N>(sums, a + step * hopper::STEP, b + step * hopper::STEP, chunk | step);
    }
    hopper::commit_products();
}

// ---- results ---------------------------------------------------------------------------------------

// A register of sums becomes alpha times it plus beta times what C held; fmaf, so that all kernels round alike.
__device__ __forceinline__ void combine(i32& sum, i32 alpha, i32 beta, i32 before) {
    sum = alpha * sum + beta * before;
}
__device__ __forceinline__ void combine(f32& sum, f32 alpha, f32 beta, f32 before) {
    sum = fmaf(beta, before, alpha * sum);
}
__device__ __forceinline__ void combine(unsigned& sums, f32 alpha, f32 beta, unsigned before) {
    float2 two = hopper::unpack(sums);
    const float2 old = hopper::unpack(before);
    combine(two.x, alpha, beta, old.x);
    combine(two.y, alpha, beta, old.y);
    sums = hopper::pack(two.x, two.y);
}

// A pair, in registers as it lies in C.
struct alignas(4 * PAIR) Pair {
    Register registers[PAIR];
};

// Where a thread's pairs lie in C, from its first one on.
struct Pairs {
    Out* first;
    int rows, columns;  // that are left from there on
    long long pitch;

    __device__ __forceinline__ Pairs(const Thread& thread, const Result& result, const Place& place)
        : rows(result.m - place.row - thread.row_of(0) - thread.lane / 4),
          columns(result.n - place.column - thread.lane % 4 * 2),
          pitch(result.n) {
        first = result.c + (result.m - rows) * pitch + (result.n - columns);
    }
    __device__ __forceinline__ bool has(int pair) const {
        return pair % 2 * 8 < rows && pair / 2 * 8 < columns;
    }
    __device__ __forceinline__ Pair& at(int pair) const {
        return *reinterpret_cast<Pair*>(first + pair % 2 * 8 * pitch + pair / 2 * 8);
    }
};

// Replaces the sums by alpha times them plus beta times what C holds.
__device__ __forceinline__ void finish(Sums& sums, const Thread& thread, const Result& result, const Place& place) {
    if (result.alpha == 1 && result.beta == 0) return;
    const Pairs pairs(thread, result, place);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        Pair before = {};
        if (result.beta != 0 && pairs.has(i)) before = pairs.at(i);
#pragma unroll
        for (int e = 0; e < PAIR; ++e) {
            combine(sums[i * PAIR + e], result.alpha, result.beta, before.registers[e]);
        }
    }
}

// Writes finished sums from where they are, a pair at a time: eight rows, and four pairs side by side, in a store.
__device__ __forceinline__ void store_pairs(const Sums& sums, const Thread& thread, const Result& result,
                                            const Place& place) {
    const Pairs pairs(thread, result, place);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        Pair pair;
#pragma unroll
        for (int e = 0; e < PAIR; ++e) pair.registers[e] = sums[i * PAIR + e];
        if (pairs.has(i)) pairs.at(i) = pair;
    }
}

__device__ __forceinline__ unsigned bits(f32 sum) { return __float_as_uint(sum); }
__device__ __forceinline__ unsigned bits(i32 sum) { return static_cast<unsigned>(sum); }
__device__ __forceinline__ unsigned bits(unsigned sums) { return sums; }

// The sums of strip `number` of a warp as `lay_strip` takes them, in registers of their own.
__device__ __forceinline__ void pack_strip(unsigned (&words)[STRIP_WORDS], const Sums& sums, const Thread& thread,
                                           int number) {
    const Register* const strip = &sums[number * STRIP_WORDS];
    const bool odd = PAIR == 2 && thread.lane / 4 % 2;
#pragma unroll
    for (int i = 0; i < STRIP_WORDS; ++i) {
        // Bit 3 of a number is the upper half of the strip's columns: odd rows have the halves in turn.
        words[i] = bits(odd ? strip[i ^ 8] : strip[i]);
        // A copy that is nothing but one would be in its sum's register, and the next products would wait for it.
        if (PAIR == 1) asm volatile("" : "+r"(words[i]));
    }
}

// Lays a strip down in shared memory in the order in which the TMA takes it: piece p of row r at place
// p xor (r mod 8). stmatrix has no elements of 32 bits, so that a thread stores pairs, half a piece each. Half a
// warp, four rows, is served at once: their pieces 2 i and 2 i + 1 would lie in the same banks for rows r and r + 1,
// and do not where odd rows store pieces 2 i + 4 and 2 i + 5 instead.
__device__ __forceinline__ void lay_strip(const Thread& thread, unsigned at, const unsigned (&words)[STRIP_WORDS]) {
    if constexpr (PAIR == 1) {
        hopper::write_strip(thread, at, words);
    } else {
        const int row = thread.lane / 4;
        const int piece = thread.lane % 4 / 2 ^ row % 2 * 4 ^ row;
        const unsigned own = row * SWIZZLE_BYTES + piece * 16 + thread.lane % 2 * 8;
#pragma unroll
        for (int pair = 0; pair < STRIP_WORDS / 2; ++pair) {
            const unsigned to = at + pair % 2 * hopper::ATOM_BYTES + (own ^ pair / 2 * 32);
            asm volatile("st.shared.v2.u32 [%0], {%1, %2};\n" ::"r"(to), "r"(words[2 * pair]),
                         "r"(words[2 * pair + 1])
                         : "memory");
        }
    }
}

// Strip `number` by way of one of the warp's buffers, as soon as the TMA has read what was there before; rows
// and columns outside of C are left out.
__device__ __forceinline__ void bring_strip(const Thread& thread, const CUtensorMap& map_c, const Place& place,
                                            int number, unsigned own_strips, const unsigned (&words)[STRIP_WORDS]) {
    const unsigned at = own_strips + number % BUFFERS * STRIP_BYTES;
    const bool leader = thread.lane == 0;
    if (leader) hopper::wait_stores_read<BUFFERS - 1>();
    __syncwarp();
    lay_strip(thread, at, words);
    hopper::publish_to_async();
    __syncwarp();
    if (leader) {
        hopper::store(map_c, place.column + number * STRIP_COLUMNS, place.row + thread.row_of(0), at);
        hopper::commit_stores();
    }
}

// ---- results that leave beside the next tile's products -------------------------------------------

// Strips whose results wait in registers, as many as there is room for beside the sums.
constexpr int ROOM = (192 - SUMS) / STRIP_WORDS;
constexpr int HELD = STRIPS < ROOM ? STRIPS : ROOM;
static_assert(STRIPS % BUFFERS == 0 && HELD % BUFFERS == 0, "strips take the buffers in turn");

// Results that wait for their way to C, and the tile that they are of.
struct Held {
    unsigned words[HELD][STRIP_WORDS];
    Place place = {0, 0};
    bool any = false;

    // Takes what there is room for of a tile's finished sums; the other strips leave at once.
    __device__ __forceinline__ void take(const Sums& sums, const Thread& thread, const CUtensorMap& map_c,
                                         const Place& of, unsigned own_strips) {
#pragma unroll
        for (int number = HELD; number < STRIPS; ++number) {
            unsigned now[STRIP_WORDS];
            pack_strip(now, sums, thread, number);
            bring_strip(thread, map_c, of, number, own_strips, now);
        }
#pragma unroll
        for (int number = 0; number < HELD; ++number) pack_strip(words[number], sums, thread, number);
        place = of;
        any = true;
    }

    // Lets all of them leave, where there are any.
    __device__ __forceinline__ void leave(const Thread& thread, const CUtensorMap& map_c, unsigned own_strips) {
        if (any) {
#pragma unroll
            for (int number = 0; number < HELD; ++number) {
                bring_strip(thread, map_c, place, number, own_strips, words[number]);
            }
        }
        any = false;
    }
};

// Multiplies `chunks` chunks of a tile while what is held of the tile before leaves, a strip behind the products
// of each of the first chunks. Returns the tile's place. `previous` is the stage before the present one.
__device__ __forceinline__ Place multiply_beside_stores(Sums& sums, const Thread& thread, Ring& ring, int& previous,
                                                        const Tiles& tiles, const int& tile, const int& chunks,
                                                        const CUtensorMap& map_c, Held& held, unsigned own_strips) {
    const auto begin_chunk = [&](int chunk) {
        ring.wait_full();
        multiply_chunk(sums, thread, ring.at(), chunk);
    };
    const auto end_chunk = [&](int chunk) {
        hopper::wait_products<1>();
        if (chunk > 0) ring.release(thread, previous);
        previous = ring.stage;
        ring.next();
    };
    Place place;
    int chunk = 0;
    if (held.any && chunks >= HELD) {
#pragma unroll
        for (int number = 0; number < HELD; ++number) {
            begin_chunk(number);
            if (number == 0) {  // the divisions, too, behind the first products
                int now = tile;
                hopper::pin(now);
                place = tiles.place_of(now);
                hopper::pin(place.row);
                hopper::pin(place.column);
            }
            bring_strip(thread, map_c, held.place, number, own_strips, held.words[number]);
            end_chunk(number);
        }
        held.any = false;
        chunk = HELD;
    } else {
        place = tiles.place_of(tile);
        held.leave(thread, map_c, own_strips);  // too few products to hide behind
    }
    for (; chunk < chunks; ++chunk) {
        begin_chunk(chunk);
        end_chunk(chunk);
    }
    hopper::wait_products<0>();
    ring.release(thread, previous);
    return place;
}

}  // namespace wgmma_tile
