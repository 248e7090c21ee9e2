// Tiles whose sum over k is dealt out to several blocks (hgemm_split_k, hgemm_stream_k).
//
// Every block leaves its part of the sums in a slot of its own in global memory and counts itself in; the
// last one to arrive at a tile adds the parts in the order of k, so that the result does not depend on
// who came last. No block waits for another one: it is right with any number of resident blocks.

#pragma once

#include "hgemm_tile.cuh"

namespace hgemm {

// A slot holds the accumulators of a tile as the threads have them, four at a time: no thread reads what
// another one wrote within a block, and every access is 512 contiguous bytes of a warp.
constexpr int FOURS = AREA / THREADS / 4;

// The block's number, in a way that the compiler cannot trace back to an earlier one: what is needed only
// behind the main loop is computed again there, because the loop has no registers to keep it in.
__device__ __forceinline__ int block_again() {
    int block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

__device__ __forceinline__ float4* piece_of(f32* partials, long long slot) {
    return reinterpret_cast<float4*>(partials + slot * AREA) + threadIdx.x;
}

__device__ __forceinline__ void leave_part(f32* partials, long long slot, const Sums& sums) {
    float4* const target = piece_of(partials, slot);
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const f32* const four = sums[i / MMAS_N][i % MMAS_N];
        __stcg(target + i * THREADS, make_float4(four[0], four[1], four[2], four[3]));
    }
}

// Counts the block in at a tile; true for the last of `parts` blocks, which may then read what the others
// left. It sets the counter back for the next launch.
__device__ __forceinline__ bool last_to_arrive(unsigned* arrived, int parts) {
    __threadfence();  // this thread's sums before the count ...
    __syncthreads();  // ... and those of the block's other threads
    int last = 0;
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1u) == static_cast<unsigned>(parts - 1);
        if (last) *arrived = 0;
    }
    last = __syncthreads_or(last);
    if (last) __threadfence();  // the count before the reads
    return last != 0;
}

// The same without counting: true where all but this block have arrived. Then nobody else will.
__device__ __forceinline__ bool others_arrived(unsigned* arrived, int parts) {
    int all = 0;
    if (threadIdx.x == 0) {
        all = atomicAdd(arrived, 0u) == static_cast<unsigned>(parts - 1);
        if (all) *arrived = 0;
    }
    all = __syncthreads_or(all);
    if (all) __threadfence();
    return all != 0;
}

// Adds the parts `first` to `parts` - 1 to the sums, in this order. `slot_of(part)` says where they lie.
template <class SlotOf>
__device__ __forceinline__ void add_parts(Sums& sums, f32* partials, int first, int parts,
                                          const SlotOf& slot_of) {
#pragma unroll 1
    for (int part = first; part < parts; ++part) {
        const float4* const source = piece_of(partials, slot_of(part));
#pragma unroll
        for (int i = 0; i < FOURS; ++i) {
            f32* const four = sums[i / MMAS_N][i % MMAS_N];
            const float4 more = __ldcg(source + i * THREADS);
            four[0] += more.x, four[1] += more.y, four[2] += more.z, four[3] += more.w;
        }
    }
}

}  // namespace hgemm
