// Who computes which chunks of which tiles where one wave of blocks computes a whole product
// (matmul_dmma_persistent, matmul_dmma_stream_k). It knows numbers of tiles and chunks only, no types and no
// tile sizes.
//
// Tiles that would not fill a wave are shared. Each of them has a block of its own that begins with its k = 0,
// and all these blocks stop after the same number of chunks; helpers, which have no tile, divide what is left of
// the tiles evenly. So blocks that run at the same time are at the same k of tiles that lie beside each other,
// and find in L2 what others brought there: dealing out all chunks in one row would set every block to another k.
//
// Who includes this defines SPLIT (0: no tile is shared) and LEAST.

#pragma once

#include "dealing.cuh"

namespace stream_k {

struct Schedule : dealing::Row {  // of what is left over, that helpers divide
    int chunks;   // of a tile
    int shared;   // tiles, from the first one on, that are shared; as many blocks own one
    int owned;    // chunks, from the first one on, that the owner of a tile computes
    int helpers;  // blocks after the owners

    __device__ __forceinline__ Schedule(int tiles, int chunks_of_tile) : chunks(chunks_of_tile) {
        const int blocks = gridDim.x;
        shared = SPLIT ? tiles % blocks : 0;
        const int all = shared * chunks;
        const int workers = min(blocks, max(shared, all / LEAST));
        owned = shared == 0 ? chunks : (all + workers - 1) / workers;
        helpers = shared == 0 ? 0 : workers - shared;
        share = helpers == 0 ? 0 : shared * left_over() / helpers;
        longer = helpers == 0 ? 0 : shared * left_over() - share * helpers;
    }

    // Chunks of a shared tile that helpers compute.
    __device__ __forceinline__ int left_over() const { return chunks - owned; }

    // The first helper of a tile, and how many parts it has, the owner's among them.
    __device__ __forceinline__ int first_helper(int tile) const { return worker_of(tile * left_over()); }
    __device__ __forceinline__ int parts(int tile) const {
        return left_over() == 0 ? 1 : worker_of((tile + 1) * left_over() - 1) - first_helper(tile) + 2;
    }

    // Where a part of a tile is left: helpers' parts in the order of their row, in which the sum of tile and helper
    // grows from part to part; then the owners'. Less than two slots a block.
    __device__ __forceinline__ int slot_of(int tile, int part) const {
        return part == 0 ? shared + helpers + tile : tile + first_helper(tile) + part - 1;
    }
};

// What is left of a block's work: the beginning of the tile that it owns (`own`, -1 where there is none), or chunks
// `position` to `stop` - 1 of what is left over; then `tile` and every further one a wave away from it.
struct Work {
    int own, position, stop, tile;

    __device__ __forceinline__ explicit Work(const Schedule& schedule)
        : own(-1), position(0), stop(0), tile(schedule.shared + static_cast<int>(blockIdx.x)) {
        const int block = blockIdx.x;
        const int helper = block - schedule.shared;
        if (helper < 0) {
            own = block;
        } else if (helper < schedule.helpers) {
            position = schedule.first_chunk(helper);
            stop = schedule.first_chunk(helper + 1);
        }
    }

    // Chunks in all.
    __device__ __forceinline__ int chunks(const Schedule& schedule, int tiles) const {
        const int whole = tile < tiles ? (tiles - 1 - tile) / static_cast<int>(gridDim.x) + 1 : 0;
        return (own >= 0 ? schedule.owned : stop - position) + whole * schedule.chunks;
    }
};

// The chunks `first` to `end` - 1 of a tile: what a block does next.
struct Turn {
    int tile, first, end;

    __device__ __forceinline__ Turn(const Work& work, const Schedule& schedule)
        : tile(work.tile), first(0), end(schedule.chunks) {
        if (work.own >= 0) {
            tile = work.own;
            end = schedule.owned;
        } else if (work.position < work.stop) {
            const int length = schedule.left_over();
            tile = work.position / length;
            first = schedule.owned + work.position - tile * length;
            end = min(first + work.stop - work.position, schedule.chunks);
        }
        // The same for all threads, which the compiler knows only of a broadcast.
        tile = __shfl_sync(0xffffffffu, tile, 0);
        first = __shfl_sync(0xffffffffu, first, 0);
        end = __shfl_sync(0xffffffffu, end, 0);
    }

    __device__ __forceinline__ int chunks() const { return end - first; }

    __device__ __forceinline__ void done(Work& work) const {
        if (work.own >= 0) {
            work.own = -1;
        } else if (work.position < work.stop) {
            work.position += chunks();
        } else {
            work.tile += gridDim.x;
        }
    }
};

}  // namespace stream_k
