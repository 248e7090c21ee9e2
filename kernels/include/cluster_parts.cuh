// Sums of a tile that the blocks of a cluster have parts of, each of another piece of k: every block completes a share
// of the tile, and gets what the others have of it in its own shared memory. What it is a sum of, this knows not.
//
// A part travels by st.async (PTX ISA): its stores go straight from registers to the other block's shared memory and
// count themselves, by bytes, at an mbarrier there. So nobody waits but who needs the sums; there is no barrier of the
// cluster behind the products, whose release would wait for all of memory, and no way through global memory.

#pragma once

namespace cluster_parts {

constexpr int QUAD_BYTES = 16;  // four floats or whole numbers, two doubles: one store of a thread

__device__ __forceinline__ unsigned rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

// The same place of shared memory in block `rank` of the cluster.
__device__ __forceinline__ unsigned in_block(unsigned shared, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}

// All threads of the cluster come by here once, when their block's mbarriers are prepared and published, and ...
__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive.relaxed;\n" ::: "memory"); }
// ... here before they send: the other blocks have begun.
__device__ __forceinline__ void wait_for_all() { asm volatile("barrier.cluster.wait;\n" ::: "memory"); }

// An mbarrier that so many bytes of the others come by. By one thread, before it arrives.
__device__ __forceinline__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

// Until they have all come.
__device__ __forceinline__ void wait_for_bytes(unsigned barrier) {
    unsigned done = 0;
    do {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], 0;\n"
            "selp.u32 %0, 1, 0, done;\n"
            "}\n"
            : "=r"(done)
            : "r"(barrier)
            : "memory");
    } while (!done);
}

__device__ __forceinline__ void store_quad(unsigned there, unsigned barrier, const float* quad) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];\n" ::"r"(there),
        "f"(quad[0]), "f"(quad[1]), "f"(quad[2]), "f"(quad[3]), "r"(barrier)
        : "memory");
}
__device__ __forceinline__ void store_quad(unsigned there, unsigned barrier, const int* quad) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.s32 [%0], {%1, %2, %3, %4}, [%5];\n" ::"r"(there),
        "r"(quad[0]), "r"(quad[1]), "r"(quad[2]), "r"(quad[3]), "r"(barrier)
        : "memory");
}
__device__ __forceinline__ void store_quad(unsigned there, unsigned barrier, const double* pair) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, [%3];\n" ::"r"(there),
                 "d"(pair[0]), "d"(pair[1]), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void add_quad(float* sums, unsigned at) {
    float4 four;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(at)
                 : "memory");
    sums[0] += four.x, sums[1] += four.y, sums[2] += four.z, sums[3] += four.w;
}
__device__ __forceinline__ void add_quad(int* sums, unsigned at) {
    int4 four;
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
                 : "r"(at)
                 : "memory");
    sums[0] += four.x, sums[1] += four.y, sums[2] += four.z, sums[3] += four.w;
}
__device__ __forceinline__ void add_quad(double* sums, unsigned at) {
    double2 two;
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];\n" : "=d"(two.x), "=d"(two.y) : "r"(at) : "memory");
    sums[0] += two.x, sums[1] += two.y;
}

// A block's place for the parts of the others. BLOCKS: of the cluster. THREADS: that have sums, numbered from 0 on.
// Number, COUNT: a thread's sums. GROUP: quads of them that stay together. Block r completes the quads from first(r) to
// first(r + 1) of each thread's sums: where groups do not come out even some blocks have one more.
template <int BLOCKS, int THREADS, class Number, int COUNT, int GROUP = 1>
struct Exchange {
    static constexpr int OF_QUAD = QUAD_BYTES / sizeof(Number);
    static constexpr int GROUPS = COUNT / OF_QUAD / GROUP;
    static constexpr bool EVEN = GROUPS % BLOCKS == 0;
    static constexpr int QUADS = (GROUPS + BLOCKS - 1) / BLOCKS * GROUP;  // of a share at most
    static constexpr int SHARE = QUADS * OF_QUAD;
    static constexpr int SLOT_BYTES = QUADS * THREADS * QUAD_BYTES;  // of one other block
    static_assert(GROUPS * GROUP * OF_QUAD == COUNT && GROUPS >= BLOCKS, "whole groups for each block");

    unsigned slots, barrier;  // shared addresses

    __device__ static constexpr int first(int rank) { return EVEN ? rank * QUADS : rank * GROUPS / BLOCKS * GROUP; }
    __device__ static constexpr int quads_of(int rank) { return EVEN ? QUADS : first(rank + 1) - first(rank); }

    // By one thread, before it arrives.
    __device__ __forceinline__ void begin(int rank) const {
        expect(barrier, (BLOCKS - 1) * quads_of(rank) * THREADS * QUAD_BYTES);
    }

    // Sends all shares but the own one, which it gives. The part of the block that comes j + 1 behind another one, in the
    // circle of their ranks, lies in slot j of that one.
    __device__ __forceinline__ void send(Number (&own)[SHARE], const Number (&sums)[COUNT], unsigned rank) const {
        wait_for_all();
#pragma unroll
        for (unsigned to = 0; to < BLOCKS; ++to) {
            const Number* const share = sums + first(to) * OF_QUAD;
            if (to == rank) {
#pragma unroll
                for (int e = 0; e < SHARE; ++e) own[e] = e < quads_of(to) * OF_QUAD ? share[e] : Number(0);
            } else {
                const unsigned slot = (rank + BLOCKS - 1 - to) % BLOCKS;
                const unsigned there = in_block(slots + slot * SLOT_BYTES + threadIdx.x * QUAD_BYTES, to);
                const unsigned arrived = in_block(barrier, to);
#pragma unroll
                for (int i = 0; i < quads_of(to); ++i) {
                    store_quad(there + i * THREADS * QUAD_BYTES, arrived, share + i * OF_QUAD);
                }
            }
        }
    }

    // Waits for the parts of the others and adds them, in the circle's order: the sums are the same every time.
    __device__ __forceinline__ void add(Number (&own)[SHARE], int rank) const {
        wait_for_bytes(barrier);
#pragma unroll
        for (int slot = 0; slot < BLOCKS - 1; ++slot) {
            const unsigned from = slots + slot * SLOT_BYTES + threadIdx.x * QUAD_BYTES;
#pragma unroll
            for (int i = 0; i < QUADS; ++i) {
                if (i < quads_of(rank)) add_quad(own + i * OF_QUAD, from + i * THREADS * QUAD_BYTES);
            }
        }
    }
};

}  // namespace cluster_parts
