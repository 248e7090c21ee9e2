// Stream-K: how one wave of thread blocks shares the tiles of a product, and how a block knows that it is
// the one to complete a tile. Of what a tile is made it knows the number of its chunks only.

#pragma once

namespace dealing {

// The tiles of the last, partial wave and of JOINED full waves before it lie in a row, chunk of k after chunk,
// and every worker has an equal, contiguous piece of that row; the other tiles are dealt out whole.
struct Schedule {
    int tiles, chunks;  // chunks of a tile
    int streamed;       // tiles, from the first one on, that are dealt out by chunks
    int workers;        // blocks that they are dealt out to
    int share, longer;  // chunks of a worker; workers, from the first one on, that have one more

    __device__ __forceinline__ Schedule(int tiles, int chunks, int joined, int least)
        : tiles(tiles), chunks(chunks) {
        const int blocks = gridDim.x;
        const int waves = tiles / blocks;
        const int rest = tiles - waves * blocks;
        streamed = rest == 0 ? 0 : rest + min(waves, joined) * blocks;
        workers = rest == 0 ? 0 : min(blocks, max(streamed, streamed * chunks / least));
        share = rest == 0 ? 0 : streamed * chunks / workers;
        longer = streamed * chunks - share * workers;
    }
    __device__ __forceinline__ int first_chunk(int worker) const { return worker * share + min(worker, longer); }
    // The worker that has a chunk.
    __device__ __forceinline__ int worker_of(int chunk) const {
        const int by_longer = longer * (share + 1);
        return chunk < by_longer ? chunk / (share + 1) : longer + (chunk - by_longer) / share;
    }
};

// What is left of a block's work: chunks `position` to `stop` - 1 of the row of tiles that is dealt out, then
// `tile` and every further one a wave away from it.
struct Work {
    int position, stop, tile;

    __device__ __forceinline__ explicit Work(const Schedule& schedule)
        : position(0), stop(0), tile(schedule.streamed + static_cast<int>(blockIdx.x)) {
        const int block = blockIdx.x;
        if (block < schedule.workers) {
            position = schedule.first_chunk(block);
            stop = schedule.first_chunk(block + 1);
        }
    }
};

// The chunks `first` to `end` - 1 of a tile: what a block does next.
struct Turn {
    int tile, first, end;

    __device__ __forceinline__ Turn(const Work& work, int chunks) : tile(work.tile), first(0), end(chunks) {
        if (work.position < work.stop) {
            tile = work.position / chunks;
            first = work.position - tile * chunks;
            end = min(first + work.stop - work.position, chunks);
        }
        // The same for all threads, which the compiler knows only of a broadcast.
        tile = __shfl_sync(0xffffffffu, tile, 0);
        first = __shfl_sync(0xffffffffu, first, 0);
        end = __shfl_sync(0xffffffffu, end, 0);
    }
    __device__ __forceinline__ void done(Work& work) const {
        if (work.position < work.stop) {
            work.position += end - first;
        } else {
            work.tile += gridDim.x;
        }
    }
};

// The same value, in a way that the compiler cannot trace back: what is needed before and behind the main
// loop is computed twice from it, because the loop has no registers to keep it in. Grids here have one row,
// so that the number of the block's row is 0.
__device__ __forceinline__ int anew(int value) {
    int zero;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(zero));
    return value + zero;
}

// Whether it is true for any of the block's threads; the vote tells the compiler that all lanes go one way.
__device__ __forceinline__ bool any_of_block(bool one) {
    return __any_sync(0xffffffffu, __syncthreads_or(one));
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

// A part lies in the first slot of its block; the first part of a tile, which may belong to a block that
// has left a part of another tile before, in the second one.
__device__ __forceinline__ int slot_of(int first_worker, int part) {
    return 2 * (first_worker + part) + (part == 0);
}

}  // namespace dealing
