// Results of 16 or 32 bits that leave by way of shared memory and TMA, a strip at a time: at once, or while the next
// tile is multiplied. What kernels by wgmma share that store so.
//
// Who includes this has included hgemm_wgmma.cuh, fp8_wgmma.cuh or wgmma_tile.cuh before, which say what `element` C
// has and what a register of sums is. Behind the stages each warp has room for BUFFERS strips.

#pragma once

#include "wgmma_ring.cuh"

namespace hopper {

// A strip is what one warp has of a box of results: 16 rows of 128 bytes.
constexpr int STRIP_COLUMNS = SWIZZLE_BYTES / static_cast<int>(sizeof(element));
constexpr int STRIP_BYTES = WARP_ROWS * SWIZZLE_BYTES;
constexpr int STRIP_WORDS = STRIP_BYTES / 4 / WARP;  // of a thread
constexpr int STRIP_SUMS = WARP_ROWS * STRIP_COLUMNS / WARP / SUMS_IN_REGISTER;  // registers of a thread
constexpr bool PACKED = STRIP_SUMS == 2 * STRIP_WORDS;  // two sums of f32 in a word; only such tiles have MMAS > 1
constexpr int STRIPS_ACROSS = TILE_N / STRIP_COLUMNS;
constexpr int STRIPS = MMAS * STRIPS_ACROSS;  // of a warp and tile
constexpr int BUFFERS = 2;                    // strips that a warp has room for

static_assert(STRIPS_ACROSS * STRIP_SUMS == SUMS && (PACKED || MMAS == 1), "strips hold all sums");

// A warp's own strips of shared memory, behind the stages.
__device__ __forceinline__ unsigned strips_of(const Thread& thread, const Ring& ring) {
    return ring.stages + STAGES * STAGE_BYTES + thread.warp * BUFFERS * STRIP_BYTES;
}

__device__ __forceinline__ unsigned bits(f32 sum) { return __float_as_uint(sum); }
__device__ __forceinline__ unsigned bits(i32 sum) { return static_cast<unsigned>(sum); }
__device__ __forceinline__ unsigned bits(unsigned sums) { return sums; }

// The sums of strip `number` of a warp as `write_strip` takes them, in registers of their own.
__device__ __forceinline__ void pack_strip(unsigned (&words)[STRIP_WORDS], const Sums& sums, const Thread& thread,
                                           int number) {
    const Register* const strip = &sums[number / STRIPS_ACROSS][number % STRIPS_ACROSS * STRIP_SUMS];
    const bool odd = sizeof(element) == 4 && thread.lane / 4 % 2;
#pragma unroll
    for (int i = 0; i < STRIP_WORDS; ++i) {
        if constexpr (PACKED) {
            words[i] = pack<element>(strip[2 * i], strip[2 * i + 1]);
        } else {
            // Bit 3 of a number is the upper half of the strip's columns: odd rows have the halves in turn.
            words[i] = bits(odd ? strip[i ^ 8] : strip[i]);
            // A copy that is nothing but one would be in its sum's register, and the next products would wait for it.
            if (SUMS_IN_REGISTER == 2) asm volatile("" : "+r"(words[i]));
        }
    }
}

// Lays a strip down in shared memory in the order in which the TMA takes it: piece p of row r at place
// p xor (r mod 8), so that the eight rows of a matrix lie in different banks. stmatrix has no elements of 32 bits, so
// that a thread stores pairs of them, half a piece each. Half a warp, four rows, is served at once: their pieces 2 i
// and 2 i + 1 would lie in the same banks for rows r and r + 1, and do not where odd rows store pieces 2 i + 4 and
// 2 i + 5 instead.
__device__ __forceinline__ void write_strip(const Thread& thread, unsigned at,
                                            const unsigned (&words)[STRIP_WORDS]) {
    if constexpr (sizeof(element) == 2) {
        const int line = thread.lane % WARP_ROWS;
#pragma unroll
        for (int piece = 0; piece < 8; piece += 2) {
            const int own = piece + thread.lane / WARP_ROWS;
            store_matrices(at + line * SWIZZLE_BYTES + (own ^ line % SWIZZLE_ROWS) * 16, words[2 * piece],
                           words[2 * piece + 1], words[2 * piece + 2], words[2 * piece + 3]);
        }
    } else {
        const int row = thread.lane / 4;
        const int piece = thread.lane % 4 / 2 ^ row % 2 * 4 ^ row;
        const unsigned own = row * SWIZZLE_BYTES + piece * 16 + thread.lane % 2 * 8;
#pragma unroll
        for (int pair = 0; pair < STRIP_WORDS / 2; ++pair) {
            const unsigned to = at + pair % 2 * ATOM_BYTES + (own ^ pair / 2 * 32);
            asm volatile("st.shared.v2.u32 [%0], {%1, %2};\n" ::"r"(to), "r"(words[2 * pair]),
                         "r"(words[2 * pair + 1])
                         : "memory");
        }
    }
}

// By one lane: asks the TMA to bring a strip to its place; rows and columns outside of C are left out.
__device__ __forceinline__ void send_strip(const Thread& thread, const CUtensorMap& map_c, const Place& place,
                                           int number, unsigned at) {
    const int across = PACKED ? number % STRIPS_ACROSS : number, mma = PACKED ? number / STRIPS_ACROSS : 0;
    store(map_c, place.column + across * STRIP_COLUMNS, place.row + thread.row_of(mma), at);
}

// Strip `number` by way of one of the warp's buffers, as soon as the TMA has read what was there before.
__device__ __forceinline__ void store_strip(const Thread& thread, const CUtensorMap& map_c,
                                            const Place& place, int number, unsigned own_strips,
                                            const unsigned (&words)[STRIP_WORDS]) {
    const unsigned at = own_strips + number % BUFFERS * STRIP_BYTES;
    const bool leader = thread.lane == 0;
    if (leader) {
        // Every tile begins at the first buffer; with an odd number of strips the one before ended there.
        if (STRIPS % BUFFERS != 0 && number == 0) wait_stores_read<0>();
        else wait_stores_read<BUFFERS - 1>();
    }
    __syncwarp();
    write_strip(thread, at, words);
    publish_to_async();
    __syncwarp();
    if (leader) {
        send_strip(thread, map_c, place, number, at);
        commit_stores();
    }
}

// A tile's strips from `FIRST` on, straight from their sums.
template <int FIRST = 0>
__device__ __forceinline__ void store_strips(const Sums& sums, const Thread& thread, const CUtensorMap& map_c,
                                             const Place& place, unsigned own_strips) {
#pragma unroll
    for (int number = FIRST; number < STRIPS; ++number) {
        unsigned words[STRIP_WORDS];
        pack_strip(words, sums, thread, number);
        store_strip(thread, map_c, place, number, own_strips, words);
    }
}

// ---- results that leave while the next tile is multiplied ------------------------------------------

// Strips whose results may wait in registers: as many as there is room for beside the sums.
constexpr int ROOM = (192 - MMAS * SUMS) / STRIP_WORDS;
constexpr int HELD = STRIPS < ROOM ? STRIPS : ROOM;

// The first COUNT strips of a tile's results, which wait for their way to C.
template <int COUNT>
struct Held {
    static constexpr int SIZE = COUNT;
    unsigned words[COUNT][STRIP_WORDS];
    Place place = {0, 0};
    bool waiting = false;
};

// The same where they are variables of the caller's: ptxas makes other code of them than of a struct.
template <int COUNT>
struct HeldApart {
    static constexpr int SIZE = COUNT;
    unsigned (&words)[COUNT][STRIP_WORDS];
    Place& place;
    bool& waiting;
};

template <class Results>
__device__ __forceinline__ void hold(Results& held, const Sums& sums, const Thread& thread, const Place& place) {
#pragma unroll
    for (int number = 0; number < Results::SIZE; ++number) pack_strip(held.words[number], sums, thread, number);
    held.place = place;
    held.waiting = true;
}

// Where some wait, one after another.
template <class Results>
__device__ __forceinline__ void store_held(const Thread& thread, const CUtensorMap& map_c, const Results& held,
                                           unsigned own_strips) {
    if (held.waiting) {
#pragma unroll
        for (int number = 0; number < Results::SIZE; ++number) {
            store_strip(thread, map_c, held.place, number, own_strips, held.words[number]);
        }
    }
}

// Strips of a warp that a stage has room for.
constexpr int SPARE = STAGE_BYTES / STRIP_BYTES / CONSUMER_WARPS;

// All strips of a warp's last tile at once, where no load will follow: the ring's next stage is empty when all
// warps have released what it held, and stays so; the warp's own strips take what it has no room for.
template <class Results>
__device__ __forceinline__ void store_last(const Thread& thread, const Ring& ring, const CUtensorMap& map_c,
                                           const Results& held, unsigned own_strips) {
    static_assert(Results::SIZE - SPARE <= BUFFERS, "a stage and the warp's own strips hold all of its results");
    const bool leader = thread.lane == 0;
    const unsigned spare = ring.at() + thread.warp * SPARE * STRIP_BYTES;
    const auto at = [&](int number) {
        const bool fits = number < SPARE;
        return fits ? spare + number * STRIP_BYTES : own_strips + (number - SPARE) * STRIP_BYTES;
    };
    ring.wait_empty();
    if (leader) wait_stores_read<0>();  // of the tile before, from the warp's own strips
    __syncwarp();
#pragma unroll
    for (int number = 0; number < Results::SIZE; ++number) write_strip(thread, at(number), held.words[number]);
    publish_to_async();
    __syncwarp();
    if (leader) {
#pragma unroll
        for (int number = 0; number < Results::SIZE; ++number) {
            send_strip(thread, map_c, held.place, number, at(number));
        }
        commit_stores();
    }
}

// The same value, in a way that ties its computation to this place among the products: the two divisions of a
// place would otherwise come before the first of them.
__device__ __forceinline__ void pin(int& value) { asm volatile("" : "+r"(value)); }

// Multiplies `chunks` chunks of a tile while what is held of the tile before leaves, a strip behind the products of
// each of the first chunks. Returns the tile's place. `previous` is the stage before the present one. Numbers come by
// reference: ptxas makes other code of values.
template <class Results>
__device__ __forceinline__ Place multiply_beside_stores(Sums& sums, const Thread& thread, Ring& ring, int& previous,
                                                        const Tiles& tiles, const int& tile, const int& chunks,
                                                        const CUtensorMap& map_c, Results& held, unsigned own_strips) {
    Place place;
    int chunk = 0;
    if (held.waiting && chunks >= Results::SIZE) {
#pragma unroll
        for (int number = 0; number < Results::SIZE; ++number) {
            begin_chunk(sums, thread, ring, number);
            if (number == 0) {
                int now = tile;
                pin(now);
                place = tiles.place_of(now);
                pin(place.row);
                pin(place.column);
            }
            store_strip(thread, map_c, held.place, number, own_strips, held.words[number]);
            end_chunk(thread, ring, previous, number);
        }
        chunk = Results::SIZE;
    } else {
        place = tiles.place_of(tile);
        store_held(thread, map_c, held, own_strips);  // too few products to hide behind
    }
    held.waiting = false;
    for (; chunk < chunks; ++chunk) {
        begin_chunk(sums, thread, ring, chunk);
        end_chunk(thread, ring, previous, chunk);
    }
    end_tile(thread, ring, previous);
    return place;
}

}  // namespace hopper
