// Tiles whose sum over k is dealt out to several blocks (hgemm_split_k, hgemm_stream_k).

#pragma once

#include "dealing.cuh"
#include "mma_tile.cuh"

namespace mma_tile {

constexpr int FOURS = AREA / THREADS / 4;  // of a thread's sums

__device__ __forceinline__ float4* piece_of(f32* partials, long long slot) {
    return reinterpret_cast<float4*>(partials + slot * AREA) + Thread().id;
}

__device__ __forceinline__ void leave_part(f32* partials, long long slot, const Sums& sums) {
    dealing::leave_part<FOURS, THREADS>(piece_of(partials, slot), &sums[0][0][0]);
}

// Adds the parts `first` to `parts` - 1 to the sums, in this order. `slot_of(part)` says where they lie.
template <class SlotOf>
__device__ __forceinline__ void add_parts(Sums& sums, f32* partials, int first, int parts,
                                          const SlotOf& slot_of) {
#pragma unroll 1
    for (int part = first; part < parts; ++part) {
        dealing::add_part<FOURS, THREADS>(&sums[0][0][0], piece_of(partials, slot_of(part)));
    }
}

}  // namespace mma_tile
