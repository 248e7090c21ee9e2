// The tile of a product whose rows begin anywhere, shifted into place in shared memory: what the kernels share that differ
// in who adds its parts (matmul_mma_shifted, matmul_mma_shifted_two_launches).
//
// cp.async copies 16 bytes from multiples of 16, and a row of 333 halves begins at any multiple of two. Here the
// sectors that hold a row are copied as they lie, some chunks ahead. A chunk that has landed is shifted in place
// while the one before it is multiplied: a piece is made of two neighbours, by selects and funnel shifts. What
// precedes a row is shifted out, and behind its end, as for rows that do not exist, cp.async writes zeros: every m, n and
// k are right.
//
// A thread's rows are 16 or a multiple apart, so that it has one shift for all of A and one for all of B. A row is
// one warp's to copy and to shift: only what is in place waits for a barrier. A chunk's last piece takes from the
// first ones of the next chunk, which has to have landed, too.
//
// Whoever includes this defines TYPE, TILE_M, TILE_N and STAGES, and OVERLAP.

#pragma once

#define RASTER 2048

#include "mma_tile.cuh"
#include "overlap.cuh"

namespace mma_tile {

constexpr int PIECE = PIECE_BYTES / static_cast<int>(sizeof(In));
constexpr int GRAIN = sizeof(In) == 1 ? 16 : 32;  // rows are copied from a multiple of it on: a sector, if it can be

static_assert(PIPELINE >= 4, "STAGES: one chunk is multiplied, one shifted, one has landed, one is copied");
static_assert(PASS_ROWS * sizeof(In) % GRAIN == 0, "whatever k is, all rows of a thread begin alike");

extern __shared__ __align__(128) unsigned char stages[];

// A thread's share of A or B: piece `thread mod 8` of every PASS_ROWS-th row, PASSES in all.
template <int PASSES>
struct Share {
    const char* source;  // of its first piece in the chunk that is copied next, at a multiple of GRAIN, as A and B begin
    const char* inside;  // an address that may be named by copies that are all zeros
    long long step;      // bytes from a row to that of the next pass
    int rows, depth;     // that are left from the first row on; elements that are left along k
    int shift;           // bytes that are copied before a row
    int place;           // where the first row's piece lies in a stage, ...
    int taken[2];        // ... and the two that it is made of, ...
    bool following[2];   // ... which may be the next chunk's

    __device__ __forceinline__ Share(const In* matrix, int height, int k, int first_row, int first_place, int first_chunk) {
        const Thread thread;
        const int row = thread.id / ROW_PIECES;
        const int piece = thread.id % ROW_PIECES;
        const In* const begin = matrix + static_cast<long long>(first_row + row) * k;
        const int grain = k % PIECE == 0 ? PIECE_BYTES : GRAIN;  // nothing is shifted where all rows are aligned
        shift = static_cast<int>(reinterpret_cast<unsigned long long>(begin) & (grain - 1));
        source = reinterpret_cast<const char*>(begin) - shift + piece * PIECE_BYTES + first_chunk * CHUNK_BYTES;
        step = static_cast<long long>(k) * (PASS_ROWS * static_cast<int>(sizeof(In)));
        inside = reinterpret_cast<const char*>(matrix);
        rows = height - first_row - row;
        depth = rows > 0 ? k + shift / static_cast<int>(sizeof(In)) - piece * PIECE - first_chunk * CHUNK : 0;
        place = (first_place + row) * CHUNK_BYTES + (piece ^ row % 8) * PIECE_BYTES;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int from = piece + shift / PIECE_BYTES + i;
            following[i] = from >= ROW_PIECES;
            taken[i] = (first_place + row) * CHUNK_BYTES + (from % ROW_PIECES ^ row % 8) * PIECE_BYTES;
        }
    }

    __device__ __forceinline__ void copy(unsigned stage, int wanted) {
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stages)) + stage + place;
        const int bytes = max(0, min(depth, PIECE)) * static_cast<int>(sizeof(In));
        const char* from = bytes > 0 ? source : inside;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const bool exists = pass * PASS_ROWS < rows;
            if (pass > 0 && exists) from += step;
            cp_async::copy(to + pass * PASS_ROWS * CHUNK_BYTES, from, wanted, exists ? bytes : 0);
        }
        source += CHUNK_BYTES;
        depth -= CHUNK;
    }

    // Shifts the chunk in `stage`, behind which the one in `next` follows.
    __device__ __forceinline__ void put_right(unsigned stage, unsigned next) const {
        constexpr int MOST = AREA < 128 * 128 ? 4 : 2;  // pieces in registers at a time
        constexpr int BATCH = PASSES < MOST ? PASSES : MOST;
        unsigned char* const to = stages + stage + place;
        const unsigned char* const low = stages + (following[0] ? next : stage) + taken[0];
        const unsigned char* const high = stages + (following[1] ? next : stage) + taken[1];
#pragma unroll
        for (int first = 0; first < PASSES; first += BATCH) {
            uint4 pieces[BATCH][2];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = (first + i) * PASS_ROWS * CHUNK_BYTES;
                pieces[i][0] = *reinterpret_cast<const uint4*>(low + row);
                pieces[i][1] = *reinterpret_cast<const uint4*>(high + row);
            }
            __syncwarp();  // all lanes have read what others write
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const uint4(&two)[2] = pieces[i];
                unsigned words[8] = {two[0].x, two[0].y, two[0].z, two[0].w,
                                     two[1].x, two[1].y, two[1].z, two[1].w};
#pragma unroll
                for (int w = 0; w < 6; ++w) words[w] = shift & 8 ? words[w + 2] : words[w];
#pragma unroll
                for (int w = 0; w < 5; ++w) words[w] = shift & 4 ? words[w + 1] : words[w];
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    if (sizeof(In) < 4) words[w] = __funnelshift_r(words[w], words[w + 1], shift * 8);  // mod 32
                }
                *reinterpret_cast<uint4*>(to + (first + i) * PASS_ROWS * CHUNK_BYTES) =
                    make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
};

// Sums the products of a tile, those of `chunks` chunks from `first_chunk` on. Copies run PIPELINE - 1 chunks ahead of the
// products, shifts one, operands a step.
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, int row, int column, int first_chunk,
                                           int chunks) {
    Share<A_COPIES> a(problem.a, problem.m, problem.k, row, 0, first_chunk);
    Share<B_COPIES> b(problem.b, problem.n, problem.k, column, TILE_M, first_chunk);
    const Rows rows(static_cast<unsigned>(__cvta_generic_to_shared(stages)));
    const bool aligned = problem.k % PIECE == 0;
    const int least = max(chunks, 1);  // what is shifted first has something in it
    overlap::wait_for_launch_before();

    // One more chunk than there are is copied, for what the last one takes from it.
    const auto copy = [&](unsigned stage, bool wanted) {
        a.copy(stage, wanted);
        b.copy(stage, wanted);
        cp_async::commit();
    };
#pragma unroll
    for (int chunk = 0; chunk < PIPELINE - 1; ++chunk) copy(chunk * STAGE_BYTES, chunk <= least);
    cp_async::wait<PIPELINE - 3>();
    __syncwarp();  // the warp's copies of two chunks have landed
    if (!aligned) {
        a.put_right(0, STAGE_BYTES);
        b.put_right(0, STAGE_BYTES);
    }
    __syncthreads();

    Operands operands[2];  // of the step that is multiplied and of the next one
    unsigned reading = 0;
    unsigned writing = (PIPELINE - 1) * STAGE_BYTES;
    operands[0].load(rows.at(reading, 0));
    clear(sums);

#pragma unroll 1
    for (int left = chunks; left > 0; --left) {
        const unsigned next = next_stage(reading);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                __syncthreads();  // the next chunk is in place, and this one has been read
                // Behind the last chunk nothing is: its first step is read again, for nothing.
                if (left > 1) reading = next;
            }
            const auto between = [&] {
                const bool shifts = left > 1 && !aligned;
                if (step == 0) {
                    copy(writing, left >= PIPELINE - 1);
                    writing = next_stage(writing);
                } else if (step == 1) {
                    cp_async::wait<PIPELINE - 3>();
                    __syncwarp();
                    if (shifts) a.put_right(next, next_stage(next));
                } else if (step == 2) {
                    if (shifts) b.put_right(next, next_stage(next));
                }
            };
            multiply<true>(sums, operands[step % 2], operands[(step + 1) % 2],
                           rows.at(reading, (step + 1) % STEPS), between);
        }
    }
}

}  // namespace mma_tile
