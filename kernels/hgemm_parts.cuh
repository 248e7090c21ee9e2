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

// The same value, in a way that the compiler cannot trace back: what is needed before and behind the main
// loop is computed twice from it, because the loop has no registers to keep it in. Grids here have one
// row, so that the number of the block's row is 0; that it is the same for all threads is what the
// compiler has to know, or it guards every exchange between lanes.
__device__ __forceinline__ int anew(int value) {
    int zero;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(zero));
    return value + zero;
}

__device__ __forceinline__ Problem anew(const Problem& given) {
    return {given.a, given.b, given.c, anew(given.m), anew(given.n), anew(given.k), given.alpha, given.beta};
}

// Whether it is true for any of the block's threads. The barrier has seen to that; the vote tells the
// compiler that all lanes go the same way.
__device__ __forceinline__ bool any_of_block(bool one) {
    return __any_sync(0xffffffffu, __syncthreads_or(one));
}

__device__ __forceinline__ float4* piece_of(f32* partials, long long slot) {
    return reinterpret_cast<float4*>(partials + slot * AREA) + Thread().id;
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
    bool last = false;
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1u) == static_cast<unsigned>(parts - 1);
        if (last) *arrived = 0;
    }
    last = any_of_block(last);
    if (last) __threadfence();  // the count before the reads
    return last;
}

// The same without counting: true where all but this block have arrived. Then nobody else will.
__device__ __forceinline__ bool others_arrived(unsigned* arrived, int parts) {
    bool all = false;
    if (threadIdx.x == 0) {
        all = atomicAdd(arrived, 0u) == static_cast<unsigned>(parts - 1);
        if (all) *arrived = 0;
    }
    all = any_of_block(all);
    if (all) __threadfence();
    return all;
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
            if (i % 4 == 3) __syncwarp();  // with all loads in flight the compiler runs out of registers
        }
    }
}

}  // namespace hgemm
