// How a second launch adds the parts that the blocks of a first one left of a tile (the rungs whose names end in
// _two_launches). Where tiles are few their parts are many, and a thread that adds them all waits for one after
// another. So a block has slices, its last dimension, that add a piece of the parts each, in
// the order of k; the first one then adds what the others have: the sums are the same every time. The launch says how many:
// where parts are few, one.

#pragma once

namespace part_slices {

__device__ __forceinline__ void add(float4& to, const float4& more) {
    to.x += more.x, to.y += more.y, to.z += more.z, to.w += more.w;
}
__device__ __forceinline__ void add(int4& to, const int4& more) {
    to.x += more.x, to.y += more.y, to.z += more.z, to.w += more.w;
}
__device__ __forceinline__ void add(double2& to, const double2& more) { to.x += more.x, to.y += more.y; }

// The sums of `parts` parts, of which source(part) is this thread's first piece, others STRIDE apart, by slice `slice` of
// `slices`, MOST at most, with THREADS each, of which `thread` is one. True for the first slice, which has them all. By all
// threads of the block.
template <int MOST, int THREADS, int STRIDE, class Piece, int COUNT, class Source>
__device__ __forceinline__ bool sum(Piece (&sums)[COUNT], int parts, int slice, int slices, int thread,
                                    const Source& source) {
    __shared__ Piece others[MOST - 1][COUNT][THREADS];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) sums[i] = Piece{};
#pragma unroll 4
    for (int part = parts * slice / slices; part < parts * (slice + 1) / slices; ++part) {
        const Piece* const from = source(part);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) add(sums[i], __ldcg(from + i * STRIDE));
    }
    if (slices == 1) return true;
    __syncthreads();  // the first slice has read what the others had before
    if (slice > 0) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) others[slice - 1][i][thread] = sums[i];
    }
    __syncthreads();
    if (slice > 0) return false;
#pragma unroll
    for (int other = 0; other < MOST - 1; ++other) {
        if (other == slices - 1) break;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) add(sums[i], others[other][i][thread]);
    }
    return true;
}

}  // namespace part_slices
