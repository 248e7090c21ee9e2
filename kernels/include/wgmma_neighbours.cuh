// Blocks of a cluster that load for each other (matmul_wgmma_two_launches): ACROSS of them beside each other in C
// share rows of A, and DOWN of them below each other columns of B. Each loads a part, and the TMA writes it into the shared
// memory of all. Who includes this defines both, besides what wgmma_fit.cuh asks for.

#pragma once

#include "cluster_parts.cuh"
#include "wgmma_fit.cuh"

namespace fit {

constexpr int NEIGHBOURS = ACROSS + DOWN - 1;  // who get some of what a block loads

// Where a block is in its cluster.
struct Neighbours {
    unsigned down, across;

    __device__ __forceinline__ Neighbours()
        : down(cluster_parts::rank() % DOWN), across(cluster_parts::rank() / DOWN) {}
    // A bit for each block beside this one, which needs the same rows of A, and for each below it, the same columns of B.
    __device__ __forceinline__ unsigned beside() const {
        unsigned ranks = 0;
#pragma unroll
        for (int i = 0; i < ACROSS; ++i) ranks |= 1u << (i * DOWN);
        return ranks << down;
    }
    __device__ __forceinline__ unsigned below() const { return ((1u << DOWN) - 1) << (across * DOWN); }
};

// A warpgroup has done with a stage, which its neighbours fill, and says so to each of them, itself one: as its products
// are of four warps together, one of them speaks for all. A barrier that every warp of every neighbour arrives at
// takes these arrivals one by one.
struct ReleaseToNeighbours {
    unsigned empty, rank;  // of the neighbour that this lane tells
    bool tells;

    __device__ __forceinline__ ReleaseToNeighbours(const Ring& ring, const Thread& thread, const Neighbours& own)
        : empty(ring.empty) {
        const unsigned number = thread.lane < NEIGHBOURS ? thread.lane : 0;  // those beside, then those below
        rank = number < ACROSS ? own.down + number * DOWN
                               : own.across * DOWN + (own.down + number - ACROSS + 1) % DOWN;
        tells = thread.lane < NEIGHBOURS && thread.warp % 4 == thread.lane % 4;
    }
    __device__ __forceinline__ void operator()(int stage) const {
        if (tells) arrive_at(empty + 8 * stage, rank);
    }
};

// Ring::begin and Ring::join of blocks that load for each other, which must not do so before all of them have their
// mbarriers: by the warp that loads, ...
__device__ __forceinline__ void begin_with_neighbours(const Ring& ring, const Thread& thread) {
    ring.begin(thread, WARPGROUPS * NEIGHBOURS);
    cluster_parts::arrive();
    cluster_parts::wait_for_all();
}
// ... and by the others.
__device__ __forceinline__ void join_with_neighbours(const Ring& ring) {
    cluster_parts::arrive();
    ring.join();
    cluster_parts::wait_for_all();
}

// By one thread: asks for the chunks `first` to `end` - 1, of this block's part of both operands.
__device__ __forceinline__ void load_for_neighbours(Ring& ring, const CUtensorMap& rows, const CUtensorMap& columns,
                                                    const Place& place, const Neighbours& own, int first, int end) {
    for (int chunk = first; chunk < end; ++chunk) {
        ring.wait_empty();
        const unsigned at = ring.at(), barrier = ring.full + 8 * ring.stage;
        expect(barrier, STAGE_BYTES);
        RowOrder::load_boxes<TILE_M, ACROSS>(
            at, place.row, chunk * DEPTH,
            [&](unsigned at, int along, int across) { load_all(at, rows, along, across, barrier, own.beside()); }, own.across);
        ColumnOrder::load_boxes<TILE_N, DOWN>(
            at + A_BYTES, place.column, chunk * DEPTH,
            [&](unsigned at, int along, int across) { load_all(at, columns, along, across, barrier, own.below()); }, own.down);
        ring.next();
    }
    // Until all neighbours have released all stages but the last chunk's, which nobody does: what tells a block that
    // is gone ends the launch, and a barrier of the cluster would not wait for arrivals that are under way.
    for (int stage = 1; stage < RING; ++stage) {
        ring.wait_empty();
        ring.next();
    }
}

}  // namespace fit
