// A tile of which each block of a cluster has a piece of k, or one block all (matmul_wgmma_split, _padded, _words). Each
// of them completes a share of the tile's columns and gets what the others have of these in its own shared memory
// (cluster_parts.cuh), so that all of them add and all of them store.
//
// Who includes this defines SPLITS, the blocks of a cluster, besides what wgmma_fit.cuh asks for.

#pragma once

#include "cluster_parts.cuh"
#include "overlap.cuh"
#include "pieces.cuh"
#include "wgmma_turned.cuh"

namespace fit {

using Parts = cluster_parts::Exchange<SPLITS, CONSUMERS, Number, SUMS>;

// By the warps that multiply: a block's sums of a tile become its share of C.
__device__ __forceinline__ void finish(Sums& sums, const Parts& parts, int rank, const Thread& thread, const Ring& ring,
                                       const Result& result, Place place) {
    if constexpr (SPLITS == 1) {
        overlap::wait_for_launch_before();
        store_either(sums, thread, ring, result, place);
    } else {
        Number own[Parts::SHARE];
        parts.send(own, sums, rank);
        parts.add(own, rank);
        place.column += Parts::first(rank) * QUAD_COLUMNS;
        overlap::wait_for_launch_before();
        store_either(own, thread, ring, result, place, Parts::quads_of(rank) * QUAD_COLUMNS);
    }
}

// By all threads of a block, of a cluster whose tile at `place` has rows of C; they have let the next launch begin. What the
// launch before wrote is there for the TMA, too, behind the wait.
__device__ __forceinline__ void multiply_in_pieces(const CUtensorMap& map_a, const CUtensorMap& map_b, const Result& result,
                                                   int k, Place place) {
    __shared__ u64 arrived;
    const Thread thread;
    Ring ring;
    const CUtensorMap &rows = TURNED ? map_b : map_a, &columns = TURNED ? map_a : map_b;
    const int loaded = rows_loaded(TURNED ? result.n : result.m);
    const int rank = SPLITS == 1 ? 0 : cluster_parts::rank(), chunks = chunks_of(k);
    const auto [first, end] = pieces::Piece(chunks, rank, SPLITS);
    const int stages = stages_for((chunks + SPLITS - 1) / SPLITS);
    const Parts parts = {ring.stages + stages * STAGE_BYTES, shared_of(&arrived)};
    if (thread.loads()) {
        if (SPLITS > 1 && thread.lane == 0) parts.begin(rank);
        ring.begin(thread);
        if (SPLITS > 1) cluster_parts::arrive();
        overlap::wait_for_launch_before();
        if (elected()) load_chunks(ring, rows, columns, place, loaded, first, end);
        __syncwarp();
        if (SPLITS > 1) cluster_parts::wait_for_all();
        return;
    }
    if (SPLITS > 1) cluster_parts::arrive();
    ring.join(loaded, end - first);
    Sums sums;
    multiply_chunks(sums, thread, ring, end - first);
    finish(sums, parts, rank, thread, ring, result, place);
}

}  // namespace fit
