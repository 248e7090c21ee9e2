// A block's tiles one after another, with a pipeline that does not stop between them: while the sums of a
// tile are stored, the copies are at the next one (matmul_dmma_persistent, matmul_dmma_stream_k).
//
// Who includes this includes dmma_tile.cuh before it.

#pragma once

#include "stream_k.cuh"

namespace dmma {

// A slot holds the sums of a tile as the threads have them, two at a time: every access is 512 contiguous
// bytes of a warp.
constexpr int AREA = TILE_M * TILE_N;
constexpr int TWOS = AREA / THREADS / 2;

struct Partials {
    f64* sums;
    unsigned* arrived;

    __device__ __forceinline__ double2* piece(int slot) const {
        return reinterpret_cast<double2*>(sums + static_cast<long long>(slot) * AREA) + Thread().id;
    }
};

__device__ __forceinline__ f64* two_of(Sums& sums, int i) {
    return &sums[i / (4 * TILES_N)][i / (2 * TILES_N) % 2][i / 2 % TILES_N][i % 2 * 2];
}

// Completes the sums of a shared tile, of which this block has computed chunks from `first` on; false where another
// block will do that. The parts are added in the order of k, whoever comes last.
__device__ __forceinline__ bool complete(Sums& sums, const stream_k::Schedule& schedule, int tile, int first,
                                         const Partials& partials) {
    const int parts = schedule.parts(tile);
    int next = 1;
    if (first != 0 || !dealing::others_arrived(partials.arrived + tile, parts)) {
        const int part = first == 0 ? 0 : blockIdx.x - schedule.shared - schedule.first_helper(tile) + 1;
        double2* const target = partials.piece(schedule.slot_of(tile, part));
#pragma unroll
        for (int i = 0; i < TWOS; ++i) {
            const f64* const two = two_of(sums, i);
            __stcg(target + i * THREADS, make_double2(two[0], two[1]));
        }
        if (!dealing::last_to_arrive(partials.arrived + tile, parts)) return false;
        clear(sums);  // the own part is read back with the others
        next = 0;
    }
#pragma unroll 1
    for (int part = next; part < parts; ++part) {
        const double2* const source = partials.piece(schedule.slot_of(tile, part));
#pragma unroll
        for (int i = 0; i < TWOS; ++i) {
            f64* const two = two_of(sums, i);
            const double2 more = __ldcg(source + i * THREADS);
            two[0] += more.x, two[1] += more.y;
            if (i % 8 == 7) __syncwarp();  // with all loads in flight the compiler runs out of registers
        }
    }
    return true;
}

// All that a block has to do. KIND is the whole product's: a block has tiles inside and at edges.
template <int KIND>
__device__ __forceinline__ void stream(const Problem& given, const Partials& partials, unsigned stages) {
    const int tiles = tiles_of(given);
    const stream_k::Schedule all(tiles, chunks_of(given));
    stream_k::Work ahead(all);          // what is to be copied
    stream_k::Work work(all);           // what is to be multiplied
    int total = work.chunks(all, tiles);  // chunks that are left to multiply
    if (total == 0) return;

    const stream_k::Turn first(ahead, all);
    first.done(ahead);
    int coming = first.chunks();  // that are left to copy of the turn
    Loop<KIND> loop(given, place_of(first.tile, given), first.first, stages);
    // The chunk has been asked for: on to the next one, of this tile or of another.
    const auto advance = [&] {
        loop.copies.advance();
        if (--coming != 0) return;
        const Problem problem = dealing::anew(given);
        const stream_k::Turn turn(ahead, {tiles_of(problem), chunks_of(problem)});
        turn.done(ahead);
        coming = turn.chunks();
        if (turn.tile < tiles_of(problem)) {
            loop.copies = Copies<KIND>(problem, place_of(turn.tile, problem), turn.first, stages);
        }
    };
    loop.begin(total, advance);

    Sums sums;
    clear(sums);
    int left = first.chunks();  // of the tile
    // True where nothing is left.
    const auto end_of_tile = [&] {
        if (--left != 0) return false;
        const Problem problem = dealing::anew(given);
        const stream_k::Schedule schedule(tiles_of(problem), chunks_of(problem));
        const stream_k::Turn turn(work, schedule);
        turn.done(work);
        if (turn.chunks() == schedule.chunks || complete(sums, schedule, turn.tile, turn.first, partials)) {
            store<KIND>(sums, problem, place_of(turn.tile, problem));
        }
        clear(sums);
        left = stream_k::Turn(work, schedule).chunks();
        return total == 0;
    };
#pragma unroll 1
    do loop.chunk(sums, total--, advance);
    while (!end_of_tile());
}

__device__ __forceinline__ void stream(const Problem& problem, const Partials& partials) {
    extern __shared__ __align__(128) unsigned char stages[];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    if ((problem.n | problem.k) % 2 != 0) {
        stream<ELEMENTS>(problem, partials, shared);
    } else if (problem.m % TILE_M != 0 || problem.n % TILE_N != 0 || problem.k % CHUNK != 0) {
        stream<PIECES>(problem, partials, shared);
    } else {
        stream<INSIDE>(problem, partials, shared);
    }
}

}  // namespace dmma
