// Hopper's asynchronous units in PTX: mbarriers, the tensor memory accelerator (TMA) and wgmma, and what all kernels by
// wgmma have of a block: its threads and its ring of stages. Nothing here knows types or tiles.
//
// Who includes this is compiled for sm_90a. Addresses named `shared` are 32-bit ones of the shared window.

#pragma once

#include <cuda.h>

#include "wgmma_registers.cuh"

using u64 = unsigned long long;

namespace hopper {

constexpr int WARP = 32;
constexpr int WARPGROUP = 128;     // threads that issue one wgmma
constexpr int SWIZZLE_BYTES = 128; // a row of a box: all banks of shared memory once
constexpr int SWIZZLE_ROWS = 8;    // rows after which the 128-byte swizzle repeats
constexpr int ATOM_BYTES = SWIZZLE_ROWS * SWIZZLE_BYTES;  // boxes begin at multiples of this
constexpr int MMA_M = 64;          // rows of one wgmma
constexpr int MMA_BYTES = 32;      // its depth
constexpr int STEPS = SWIZZLE_BYTES / MMA_BYTES;

static_assert(ATOM_BYTES == 8 * 128, "descriptors are of rows of 128 bytes with the 128-byte swizzle");

__device__ __forceinline__ unsigned shared_of(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// True for one lane of a converged warp.
__device__ __forceinline__ bool elected() {
    unsigned is;
    asm volatile(
        "{\n"
        ".reg .pred elected;\n"
        "elect.sync _|elected, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, elected;\n"
        "}\n"
        : "=r"(is));
    return is != 0;
}

// ---- mbarriers -------------------------------------------------------------------------------------

__device__ __forceinline__ void initialize(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the other blocks of the cluster and to the TMA.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

// By one thread: the mbarriers of COUNT stages, from two addresses on. A stage is full with so many `arrivals` and what the
// TMA brings, and empty with so many `releases`.
template <int COUNT>
__device__ __forceinline__ void initialize_stages(unsigned full, unsigned empty, int releases, int arrivals = 1) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        initialize(full + 8 * i, arrivals);
        initialize(empty + 8 * i, releases);
    }
    publish_barriers();
}

// One arrival, and `bytes` that the TMA still has to bring before the phase completes.
__device__ __forceinline__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

// One arrival at the same barrier of another block of the cluster. Relaxed, because a block that has read a
// stage has nothing to publish: its reads are over when wgmma.wait_group returns. A release of cluster scope
// would be a MEMBAR.ALL.GPU for each chunk of k, the matching acquire a CCTL.IVALL.
__device__ __forceinline__ void arrive_at(unsigned barrier, unsigned rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n"
        "}\n" ::"r"(barrier),
        "r"(rank)
        : "memory");
}

// Waits until the phase of this parity has completed; sees what the TMA brought and what threads of the
// block did before they arrived. The scope is the block: see arrive_at for those of other blocks.
__device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
    unsigned done = 0;
    do {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n"
            "}\n"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
    } while (!done);
}

// ---- thread blocks of a cluster --------------------------------------------------------------------

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;\n" ::
            : "memory");
}

// ---- the tensor memory accelerator -----------------------------------------------------------------

// Copies a box of a matrix into shared memory. `along` is the coordinate of the contiguous dimension.
__device__ __forceinline__ void load(unsigned shared, const CUtensorMap& map, int along, int across,
                                     unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n" ::
            "r"(shared),
        "l"(reinterpret_cast<u64>(&map)), "r"(along), "r"(across), "r"(barrier)
        : "memory");
}

// The same into several blocks of the cluster, at the same place of each; bit r of `ranks` names block r.
// Each one's barrier at the place of `barrier` counts the bytes.
__device__ __forceinline__ void load_all(unsigned shared, const CUtensorMap& map, int along, int across,
                                         unsigned barrier, unsigned ranks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%2, %3}], [%4], %5;\n" ::"r"(shared),
        "l"(reinterpret_cast<u64>(&map)), "r"(along), "r"(across), "r"(barrier),
        "h"(static_cast<unsigned short>(ranks))
        : "memory");
}

// Copies a box from shared memory into a matrix; what lies outside of the matrix is left out.
__device__ __forceinline__ void store(const CUtensorMap& map, int along, int across, unsigned shared) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n" ::"l"(
                     reinterpret_cast<u64>(&map)),
                 "r"(along), "r"(across), "r"(shared)
                 : "memory");
}

__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }

// Waits until at most `PENDING` of this thread's groups of stores still read shared memory.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(PENDING) : "memory");
}

// What ordinary stores wrote into shared memory may be read by the TMA and wgmma.
__device__ __forceinline__ void publish_to_async() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// ---- warpgroup products ----------------------------------------------------------------------------

template <int REGISTERS>
__device__ __forceinline__ void keep_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(REGISTERS));
}

// How far a descriptor moves from one step of 32 bytes to the next.
constexpr u64 STEP = MMA_BYTES >> 4;

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(PENDING) : "memory");
}

// ---- threads and stages ----------------------------------------------------------------------------

// First row and column of a tile in C.
struct Place {
    int row, column;
};

// A thread of a converged warp. Its warp's number comes by a shuffle, so that the compiler knows that all
// lanes agree: what is computed from it stays in uniform registers, where wgmma and the TMA want it.
struct Thread {
    int warp, warpgroup, lane;

    __device__ __forceinline__ Thread()
        : warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / WARP, 0)),
          warpgroup(warp * WARP / WARPGROUP),
          lane(threadIdx.x % WARP) {}
};

// Stages of shared memory that chunks of k pass through in turn, each with two mbarriers: `full` completes
// when the TMA has brought a chunk, `empty` when all warps that multiply have released it. Whoever walks
// through the ring has one of these.
template <int COUNT, int BYTES>
struct Stages {
    unsigned stages, full, empty;  // shared addresses of the first of each
    int stage = 0;                 // the next one
    unsigned phase = 0;            // parity of its turn

    // Where the stages and their mbarriers lie.
    __device__ __forceinline__ void place(const u64 (&barriers)[2][COUNT]) {
        extern __shared__ unsigned char memory[];
        // Swizzles begin at multiples of an atom: the front matter asks for as many bytes more.
        stages = (shared_of(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
        full = shared_of(barriers[0]);
        empty = shared_of(barriers[1]);
    }
    __device__ __forceinline__ unsigned at() const { return stages + stage * BYTES; }
    __device__ __forceinline__ unsigned full_barrier() const { return full + 8 * stage; }
    __device__ __forceinline__ void wait_full() const { wait(full + 8 * stage, phase); }
    // True at once for a stage that has not been used.
    __device__ __forceinline__ void wait_empty() const { wait(empty + 8 * stage, phase ^ 1); }
    __device__ __forceinline__ void next() {
        if (++stage == COUNT) stage = 0, phase ^= 1;
    }
    // By all lanes of a warp: it has done with a stage.
    __device__ __forceinline__ void release(const Thread& thread, int which) const {
        if (thread.lane == 0) arrive(empty + 8 * which);
    }
};

// ---- results ---------------------------------------------------------------------------------------

// Four 8x8 matrices of a warp into shared memory; lane l gives the address of row l mod 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(unsigned shared, unsigned w0, unsigned w1, unsigned w2, unsigned w3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(w0),
                 "r"(w1), "r"(w2), "r"(w3)
                 : "memory");
}

// Two neighbours of four bytes.
__device__ __forceinline__ void store_pair(unsigned shared, unsigned first, unsigned second) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};\n" ::"r"(shared), "r"(first), "r"(second) : "memory");
}

}  // namespace hopper
