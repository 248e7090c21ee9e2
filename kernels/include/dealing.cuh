// Stream-K: how one wave of thread blocks shares the tiles of a product, and how a block knows that it is
// the one to complete a tile. Of what a tile is made it knows the number of its chunks only.
//
// Every block leaves its part of a tile's sums in a slot of its own in global memory and counts itself in; the
// last one to arrive at a tile adds the parts in the order of k, so that the result does not depend on
// who came last. No block waits for another one: it is right with any number of resident blocks.

#pragma once

namespace dealing {

// A row of chunks that workers divide evenly: each has a contiguous piece.
struct Row {
    int share, longer;  // chunks of a worker; workers, from the first one on, that have one more

    __device__ __forceinline__ int first_chunk(int worker) const { return worker * share + min(worker, longer); }
    // The worker that has a chunk.
    __device__ __forceinline__ int worker_of(int chunk) const {
        const int by_longer = longer * (share + 1);
        return chunk < by_longer ? chunk / (share + 1) : longer + (chunk - by_longer) / share;
    }
};

// The tiles of the last, partial wave and of JOINED full waves before it lie in a row, chunk of k after chunk,
// and every worker has an equal, contiguous piece of that row; the other tiles are dealt out whole.
struct Schedule : Row {
    int tiles, chunks;  // chunks of a tile
    int streamed;       // tiles, from the first one on, that are dealt out by chunks
    int workers;        // blocks that they are dealt out to

    Schedule() = default;
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
};

// The blocks that share a tile: one after another, each with one part.
struct Sharers {
    int first_worker, parts;

    __device__ __forceinline__ Sharers(const Schedule& schedule, int tile)
        : first_worker(schedule.worker_of(tile * schedule.chunks)),
          parts(schedule.worker_of((tile + 1) * schedule.chunks - 1) - first_worker + 1) {}
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
        // The same for all threads, which the compiler knows only of a broadcast: without it the main loop
        // would bring the lanes of a warp together again in every turn.
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
// loop is computed twice from it, because the loop has no registers to keep it in. Grids here have one
// row, so that the number of the block's row is 0; that it is the same for all threads is what the
// compiler has to know, or it guards every exchange between lanes.
__device__ __forceinline__ int anew(int value) {
    int zero;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(zero));
    return value + zero;
}

template <class Problem>
__device__ __forceinline__ Problem anew(const Problem& given) {
    return {given.a, given.b, given.c, anew(given.m), anew(given.n), anew(given.k), given.alpha, given.beta};
}

// Whether it is true for any of the block's threads. The barrier has seen to that; the vote tells the
// compiler that all lanes go the same way.
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

// A slot holds the sums of a tile as the threads have them, four at a time: no thread reads what another one
// wrote within a block, and every access is 512 contiguous bytes of a warp. `slot` is this thread's first four.
template <int FOURS, int THREADS>
__device__ __forceinline__ void leave_part(float4* slot, const float* sums) {
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const float* const four = sums + 4 * i;
        __stcg(slot + i * THREADS, make_float4(four[0], four[1], four[2], four[3]));
    }
}

template <int FOURS, int THREADS>
__device__ __forceinline__ void add_part(float* sums, const float4* slot) {
#pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        float* const four = sums + 4 * i;
        const float4 more = __ldcg(slot + i * THREADS);
        four[0] += more.x, four[1] += more.y, four[2] += more.z, four[3] += more.w;
        if (i % 4 == 3) __syncwarp();  // with all loads in flight the compiler runs out of registers
    }
}

// A part lies in the first slot of its block; the first part of a tile, which may belong to a block that
// has left a part of another tile before, in the second one.
__device__ __forceinline__ int slot_of(int first_worker, int part) {
    return 2 * (first_worker + part) + (part == 0);
}

}  // namespace dealing
