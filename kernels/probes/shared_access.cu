/*---
title: Shared-memory wavefronts of one access by one warp
operation: probe
macros:
  OP: [load, store]
  WIDTH: [4, 8, 16]          # bytes of one lane's access
block: [32]
grid: [1, 1, 1]
requires: {arch: 75}
arguments: [index, active, errors]
buffers:
  index: {dtype: i32, size: 32}      # lane's element, in units of WIDTH bytes
  active: {dtype: i32, size: 32}     # 1: the lane takes part
  errors: {dtype: i32, size: 32, expect: 0}
# Loads: the figures of the vectorised-access article (Turing), measured again on an H200. Stores: the rule
# that an H200 follows, in which stores never merge. bank_conflicts = wavefronts - transactions with an
# active lane.
cases:
  load_32_permuted: {macros: {OP: load, WIDTH: 4}, values: {index: "(5 * lane + 3) % 32", active: "1"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: LDS,
      note: "a permutation of 32 words: every lane its own bank"}
  load_32_broadcast: {macros: {OP: load, WIDTH: 4}, values: {index: "lane // 4", active: "1"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: LDS,
      note: "groups of four lanes share a word: eight words in eight banks"}
  load_32_conflict: {macros: {OP: load, WIDTH: 4}, values: {index: "32 * (lane % 4) + 6 * (lane // 8)", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 3}, instruction: LDS,
      note: "banks 0, 6, 12 and 18 hold four words each, every word shared by two lanes"}
  load_64_one_half: {macros: {OP: load, WIDTH: 8}, values: {index: "lane", active: "lane < 16"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: LDS, note: "one half-warp is active"}
  load_64_two_halves: {macros: {OP: load, WIDTH: 8},
      values: {index: "lane - lane // 16", active: "(lane < 15) + (lane == 16)"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: LDS,
      note: "the same 16 elements, but lane 16 takes lane 15's: two half-warps are active"}
  load_64_pairs: {macros: {OP: load, WIDTH: 8}, values: {index: "lane // 2", active: "1"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: LDS,
      note: "lanes i and i xor 1 agree throughout the warp"}
  load_64_mixed: {macros: {OP: load, WIDTH: 8},
      values: {index: "(1 - lane // 16) * (lane // 2) + lane // 16 * (lane // 4 * 4 + lane % 2)", active: "1"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: LDS,
      note: "i xor 1 agrees in the first half, i xor 2 in the second, neither in the whole warp"}
  load_64_halves_equal: {macros: {OP: load, WIDTH: 8}, values: {index: "lane % 16", active: "1"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: LDS,
      note: "the two half-warps take the same elements; neighbours differ"}
  load_128_two_halves: {macros: {OP: load, WIDTH: 16}, values: {index: "4", active: "(lane == 15) + (lane == 16)"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: LDS, note: "one element, asked for from two half-warps"}
  load_128_one_half: {macros: {OP: load, WIDTH: 16}, values: {index: "4", active: "(lane == 0) + (lane == 15)"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: LDS,
      note: "one element, asked for from both quarters of one half-warp"}
  load_128_pairs: {macros: {OP: load, WIDTH: 16}, values: {index: "lane // 8 * 2 + lane // 2 % 2", active: "1"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: LDS,
      note: "lanes i and i xor 1 agree throughout the warp"}
  load_128_mixed: {macros: {OP: load, WIDTH: 16},
      values: {index: "lane // 8 * 2 + lane // (2 - lane // 16) % 2", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 0}, instruction: LDS,
      note: "i xor 1 agrees in the first half, i xor 2 in the second"}
  load_128_conflict: {macros: {OP: load, WIDTH: 16},
      values: {index: "lane // 16 * 4 + lane % 16 // 8 + lane % 8 // 4 * 8", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 2}, instruction: LDS,
      note: "both conditions hold; elements 128 bytes apart meet in the same banks"}
  load_128_mixed_conflict: {macros: {OP: load, WIDTH: 16},
      values: {index: "lane // 16 * 4 + lane % 16 // 8 * 8 + lane // (2 - lane // 16) % 2 * 2", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 0}, instruction: LDS,
      note: "as 128_mixed, with the quarters 128 bytes apart"}
  store_32_permuted: {macros: {OP: store, WIDTH: 4}, values: {index: "(5 * lane + 3) % 32", active: "1"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: STS,
      note: "a permutation of 32 words: every lane its own bank"}
  store_32_broadcast: {macros: {OP: store, WIDTH: 4}, values: {index: "lane // 4", active: "1"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: STS,
      note: "groups of four lanes share a word: eight words in eight banks"}
  store_32_conflict: {macros: {OP: store, WIDTH: 4}, values: {index: "32 * (lane % 4) + 6 * (lane // 8)", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 3}, instruction: STS,
      note: "banks 0, 6, 12 and 18 hold four words each, every word shared by two lanes"}
  store_64_one_half: {macros: {OP: store, WIDTH: 8}, values: {index: "lane", active: "lane < 16"},
      expect: {wavefronts: 1, bank_conflicts: 0}, instruction: STS, note: "one half-warp is active"}
  store_64_two_halves: {macros: {OP: store, WIDTH: 8},
      values: {index: "lane - lane // 16", active: "(lane < 15) + (lane == 16)"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: STS,
      note: "the same 16 elements, but lane 16 takes lane 15's: two half-warps are active"}
  store_64_pairs: {macros: {OP: store, WIDTH: 8}, values: {index: "lane // 2", active: "1"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: STS,
      note: "lanes i and i xor 1 agree throughout the warp"}
  store_64_mixed: {macros: {OP: store, WIDTH: 8},
      values: {index: "(1 - lane // 16) * (lane // 2) + lane // 16 * (lane // 4 * 4 + lane % 2)", active: "1"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: STS,
      note: "i xor 1 agrees in the first half, i xor 2 in the second, neither in the whole warp"}
  store_64_halves_equal: {macros: {OP: store, WIDTH: 8}, values: {index: "lane % 16", active: "1"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: STS,
      note: "the two half-warps take the same elements; neighbours differ"}
  store_128_two_halves: {macros: {OP: store, WIDTH: 16}, values: {index: "4", active: "(lane == 15) + (lane == 16)"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: STS, note: "one element, asked for from two half-warps"}
  store_128_one_half: {macros: {OP: store, WIDTH: 16}, values: {index: "4", active: "(lane == 0) + (lane == 15)"},
      expect: {wavefronts: 2, bank_conflicts: 0}, instruction: STS,
      note: "one element, asked for from both quarters of one half-warp"}
  store_128_pairs: {macros: {OP: store, WIDTH: 16}, values: {index: "lane // 8 * 2 + lane // 2 % 2", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 0}, instruction: STS,
      note: "lanes i and i xor 1 agree throughout the warp"}
  store_128_mixed: {macros: {OP: store, WIDTH: 16},
      values: {index: "lane // 8 * 2 + lane // (2 - lane // 16) % 2", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 0}, instruction: STS,
      note: "i xor 1 agrees in the first half, i xor 2 in the second"}
  store_128_conflict: {macros: {OP: store, WIDTH: 16},
      values: {index: "lane // 16 * 4 + lane % 16 // 8 + lane % 8 // 4 * 8", active: "1"},
      expect: {wavefronts: 8, bank_conflicts: 4}, instruction: STS,
      note: "both conditions hold; elements 128 bytes apart meet in the same banks"}
  store_128_mixed_conflict: {macros: {OP: store, WIDTH: 16},
      values: {index: "lane // 16 * 4 + lane % 16 // 8 * 8 + lane // (2 - lane // 16) % 2 * 2", active: "1"},
      expect: {wavefronts: 4, bank_conflicts: 0}, instruction: STS,
      note: "as 128_mixed, with the quarters 128 bytes apart"}
---*/

// One warp makes exactly one shared-memory access of WIDTH bytes a lane, at elements and with active lanes
// that the case chooses, so the counters of that one instruction belong to one access pattern. An 8- or
// 16-byte request is split into half- or quarter-warps, and for loads those merge again where neighbouring
// lanes agree; the cases stand on both sides of that condition.
//
// What the array holds is a function of the address alone. A load probe fills it with 4-byte stores and
// checks what it read; a store probe fills nothing, writes through the probed instruction only, and reads
// back with loads: the probed opcode is the only one of its kind in the kernel.

#include "words.cuh"

#define OP_load 0
#define OP_store 1

namespace {

constexpr bool IS_LOAD = NAMED(OP_, OP) == OP_load;
constexpr int LANES = 32;
constexpr int WORDS = 1024;                        // 4-byte words: room for patterns of 4 KB
constexpr int ELEMENT_WORDS = WIDTH / 4;
constexpr unsigned ELEMENTS = WORDS / ELEMENT_WORDS;

static_assert(WIDTH == 4 || WIDTH == 8 || WIDTH == 16, "WIDTH: a lane accesses 4, 8 or 16 bytes");

struct __align__(WIDTH) Element {
    unsigned words[ELEMENT_WORDS];
};
static_assert(sizeof(Element) == WIDTH, "an element is one access");

// Different in every word, and in every byte often enough, so that a wrong address shows.
__device__ __forceinline__ unsigned content(unsigned word) { return (word + 1u) * 2654435761u; }

__device__ __forceinline__ Element load(unsigned address) {
    Element element;
#if WIDTH == 4
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(element.words[0]) : "r"(address) : "memory");
#elif WIDTH == 8
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(element.words[0]), "=r"(element.words[1])
                 : "r"(address)
                 : "memory");
#else
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(element.words[0]), "=r"(element.words[1]), "=r"(element.words[2]), "=r"(element.words[3])
                 : "r"(address)
                 : "memory");
#endif
    return element;
}

__device__ __forceinline__ void store(unsigned address, const Element& element) {
#if WIDTH == 4
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(element.words[0]) : "memory");
#elif WIDTH == 8
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(element.words[0]), "r"(element.words[1])
                 : "memory");
#else
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(element.words[0]),
                 "r"(element.words[1]), "r"(element.words[2]), "r"(element.words[3])
                 : "memory");
#endif
}

}  // namespace

extern "C" __global__ void __launch_bounds__(LANES)
    shared_access(const int* __restrict__ index, const int* __restrict__ active, int* __restrict__ errors) {
    __shared__ __align__(128) unsigned words[WORDS];  // 128: element 0 starts in bank 0

    const unsigned lane = threadIdx.x;
    const unsigned element = static_cast<unsigned>(index[lane]);
    const bool outside = element >= ELEMENTS;
    const bool takes_part = active[lane] != 0 && !outside;
    const unsigned first_word = element * ELEMENT_WORDS;
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(words)) + element * WIDTH;

    int wrong = active[lane] != 0 && outside ? ELEMENT_WORDS : 0;
    if constexpr (IS_LOAD) {
#pragma unroll 1
        for (unsigned word = lane; word < WORDS; word += LANES) words[word] = content(word);
        __syncthreads();
        if (takes_part) {
            const Element found = load(address);
#pragma unroll
            for (int i = 0; i < ELEMENT_WORDS; ++i) wrong += found.words[i] != content(first_word + i);
        }
    } else {
        if (takes_part) {
            Element written;
#pragma unroll
            for (int i = 0; i < ELEMENT_WORDS; ++i) written.words[i] = content(first_word + i);
            store(address, written);
        }
        __syncthreads();
        if (takes_part) {
            // Lanes with the same element wrote the same words, so whoever came last does not matter.
#pragma unroll
            for (int i = 0; i < ELEMENT_WORDS; ++i) wrong += words[first_word + i] != content(first_word + i);
        }
    }
    errors[lane] = wrong;
}
