/*---
title: A product by warps in roles, with what compute capability 9.0 has for it
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: A_LAYOUT, b: B_LAYOUT, c: row}
macros:
  TYPE: [f16, bf16]
  A_LAYOUT: [row, col]
  B_LAYOUT: [col, row]
  SWIZZLE: [128, 64, 32, 0]
  GROUPS: [2, 1]
  PARTS: [2, 1]
  CLUSTER: [1, 2]
  STAGES: [3]
  BLOCKS: [4, 2, 1]
  BUG: [0, 1, 2, 3, 4, 5, 6, 7]
where: ["A_LAYOUT == 'row' or SWIZZLE == 128"]
tile: [64 * GROUPS, 64 * PARTS, 64]
block: ["128 * (GROUPS + 1)"]
grid: ["CLUSTER * min(BLOCKS // CLUSTER, ceil(ceil(m / (64 * GROUPS)) / CLUSTER) * ceil(n / (64 * PARTS)))"]
cluster: [CLUSTER, 1, 1]
shared_bytes: "1024 + 64 * (GROUPS + PARTS) * STAGES * (SWIZZLE if SWIZZLE else 32) + 8192 * GROUPS * PARTS"
requires: {arch: 90, m: "8 if A_LAYOUT == 'col' else 1", n: 8, k: "8 if A_LAYOUT == 'row' or B_LAYOUT == 'col' else 1"}
architecture_specific: true
tensor_maps:
  map_a:
    of: a
    box:
      - "SWIZZLE // 2 if SWIZZLE else 8"
      - "64 * GROUPS if A_LAYOUT == 'row' else 64"
    swizzle: SWIZZLE
  map_b:
    of: b
    box:
      - "SWIZZLE // 2 if SWIZZLE else 8"
      - "64 * PARTS // CLUSTER if B_LAYOUT == 'col' else SWIZZLE // 2 if SWIZZLE else 16"
    swizzle: SWIZZLE
  map_c: {of: c, box: [64, 64], swizzle: 128}
arguments: [map_a, map_b, map_c, c, m, n, k, alpha, beta]
---*/

// One warpgroup has chunks of A and B copied (TMA), the others multiply them (wgmma); mbarriers tell the
// ones that a stage is full and the others that it is empty. Results go through shared memory (stmatrix)
// to a tensor store. In a cluster each block copies its share of B for both. Every way in which matrices
// may lie in shared memory is a macro; BUG plants a mistake.
//
// BUG 1: no fence before the tensor store. 2: a chunk is multiplied before it has come. 3: a stage is
// given back before its products are done. 4: the copies bring fewer bytes than are awaited. 5: results
// overwrite those that are still being stored. 6: more registers than the block has. 7: mbarriers are
// used before the others know of them.

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned long long u64;
#define NUMBER_row 0
#define NUMBER_col 1
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)
#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)

namespace {

using f16 = __half;
using bf16 = __nv_bfloat16;

constexpr bool A_TURNED = WORD(NUMBER_, A_LAYOUT) == NUMBER_col;  // rows contiguous instead of the depth
constexpr bool B_TURNED = WORD(NUMBER_, B_LAYOUT) == NUMBER_row;
constexpr int LINE = SWIZZLE ? SWIZZLE : 16;      // bytes that lie behind each other
constexpr int WIDTH = LINE / 2;                   // elements of them
constexpr int DEPTH = SWIZZLE ? WIDTH : 16;       // of a chunk
constexpr int TILE_M = 64 * GROUPS, TILE_N = 64 * PARTS;
constexpr int A_BYTES = TILE_M * DEPTH * 2, B_BYTES = TILE_N * DEPTH * 2;
constexpr int B_SHARE = TILE_N / CLUSTER;         // columns that a block copies
constexpr int CONSUMERS = 128 * GROUPS;

static_assert(!A_TURNED || SWIZZLE == 128, "columns of A are copied 64 rows at a time");
static_assert(!B_TURNED || B_SHARE % WIDTH == 0, "a block copies whole boxes");

__device__ unsigned at(const void* place) { return static_cast<unsigned>(__cvta_generic_to_shared(place)); }

__device__ void initialise(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(barrier)), "r"(arrivals) : "memory");
}

__device__ void expect(u64* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at(barrier)), "r"(bytes) : "memory");
}

// Arrives at the same mbarrier of a block of the cluster.
__device__ void arrive(u64* barrier, unsigned block) {
    asm volatile("{ .reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(at(barrier)), "r"(block) : "memory");
}

__device__ void wait(u64* barrier, int phase) {
    asm volatile("{ .reg .pred over;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra done;\n bra again;\n done: }"
                 :: "r"(at(barrier)), "r"(phase) : "memory");
}

__device__ void copy(unsigned to, const CUtensorMap* map, u64* barrier, int x, int y, bool both) {
    if (both) {
        const unsigned short blocks = (1 << CLUSTER) - 1;
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                     :: "r"(to), "l"(map), "r"(at(barrier)), "r"(x), "r"(y), "h"(blocks) : "memory");
    } else {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4}], [%2];"
                     :: "r"(to), "l"(map), "r"(at(barrier)), "r"(x), "r"(y) : "memory");
    }
}

// Where a matrix lies (PTX ISA, matrix descriptor of wgmma). With the depth contiguous a box has all rows;
// turned, boxes of LINE bytes of rows follow each other.
__device__ u64 descriptor(unsigned place, bool turned, int rows) {
    const int box = DEPTH * LINE;
    const int leading = turned ? (SWIZZLE ? box : 128) : SWIZZLE ? 16 : rows * 16;
    const int stride = turned ? (SWIZZLE ? 8 * LINE : box) : 8 * LINE;
    const u64 mode = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
    return static_cast<u64>((place & 0x3ffff) >> 4) | static_cast<u64>(leading >> 4) << 16 |
           static_cast<u64>(stride >> 4) << 32 | mode << 62;
}

// Sixteen of the depth further on.
__device__ unsigned step(bool turned, int rows, int number) {
    if (turned) return number * 16 * LINE;
    return SWIZZLE ? number * 32 : number * 2 * rows * 16;
}

__device__ void multiply(float (&d)[32], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TEXT(TYPE) "." TEXT(TYPE) " {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, %34, %35;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
          "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
          "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "n"(A_TURNED ? 1 : 0), "n"(B_TURNED ? 1 : 0));
}

__device__ unsigned packed(float low, float high) {
    TYPE both[2] = {TYPE(low), TYPE(high)};
    unsigned word;
    memcpy(&word, both, 4);
    return word;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128 * (GROUPS + 1), 1)
    gemm_roles(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
               const __grid_constant__ CUtensorMap map_c, const TYPE* c, int m, int n, int k, float alpha,
               float beta) {
    extern __shared__ unsigned char dynamic[];
    __shared__ u64 full[STAGES], empty[STAGES];
    const unsigned begin = (at(dynamic) + 1023) / 1024 * 1024;
    const unsigned results = begin, a_at = results + TILE_M * TILE_N * 2, b_at = a_at + STAGES * A_BYTES;
    const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
    unsigned rank = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            initialise(&full[stage], 1);
            initialise(&empty[stage], GROUPS * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("prefetch.tensormap [%0];" :: "l"(&map_a) : "memory");
    }
    if (CLUSTER > 1) {
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    } else if (BUG != 7) {
        __syncthreads();
    }

    // The blocks of a cluster have rows of tiles below each other.
    const int down = (m + TILE_M * CLUSTER - 1) / (TILE_M * CLUSTER), tiles = down * ((n + TILE_N - 1) / TILE_N);
    const int chunks = (k + DEPTH - 1) / DEPTH;
    const int first = blockIdx.x / CLUSTER, further = gridDim.x / CLUSTER;
    int stage = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            for (int tile = first; tile < tiles; tile += further) {
                const int row = (tile % down * CLUSTER + rank) * TILE_M, column = tile / down * TILE_N;
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    const int deep = chunk * DEPTH;
                    wait(&empty[stage], phase ^ 1);
                    expect(&full[stage], A_BYTES + B_BYTES + (BUG == 4 ? 16 : 0));
                    const unsigned a = a_at + stage * A_BYTES, b = b_at + stage * B_BYTES;
                    if (A_TURNED) {
                        for (int i = 0; i < TILE_M / WIDTH; ++i) {
                            copy(a + i * DEPTH * LINE, &map_a, &full[stage], row + i * WIDTH, deep, false);
                        }
                    } else {
                        for (int i = 0; i < DEPTH / WIDTH; ++i) {
                            copy(a + i * TILE_M * LINE, &map_a, &full[stage], deep + i * WIDTH, row, false);
                        }
                    }
                    const int mine = rank * B_SHARE;
                    if (B_TURNED) {
                        for (int i = mine / WIDTH; i < (mine + B_SHARE) / WIDTH; ++i) {
                            copy(b + i * DEPTH * LINE, &map_b, &full[stage], column + i * WIDTH, deep,
                                 CLUSTER > 1);
                        }
                    } else {
                        for (int i = 0; i < DEPTH / WIDTH; ++i) {
                            copy(b + (i * TILE_N + mine) * LINE, &map_b, &full[stage], deep + i * WIDTH,
                                 column + mine, CLUSTER > 1);
                        }
                    }
                    if (++stage == STAGES) stage = 0, phase ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(BUG == 6 ? 256 : 224));
        const int own = group - 1, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
        for (int tile = first; tile < tiles; tile += further) {
            const int row = (tile % down * CLUSTER + rank) * TILE_M + own * 64, column = tile / down * TILE_N;
            float sums[PARTS][32];
            for (int part = 0; part < PARTS; ++part) {
                for (int i = 0; i < 32; ++i) sums[part][i] = 0;
            }
            for (int chunk = 0; chunk < chunks; ++chunk) {
                if (BUG != 2) wait(&full[stage], phase);
                const unsigned a = a_at + stage * A_BYTES + own * 64 / WIDTH * DEPTH * LINE * A_TURNED +
                                   own * 64 * LINE * !A_TURNED;
                const unsigned b = b_at + stage * B_BYTES;
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
#pragma unroll
                    for (int i = 0; i < DEPTH / 16; ++i) {
                        const unsigned half = B_TURNED ? part * 64 / WIDTH * DEPTH * LINE : part * 64 * LINE;
                        multiply(sums[part], descriptor(a + step(A_TURNED, TILE_M, i), A_TURNED, TILE_M),
                                 descriptor(b + half + step(B_TURNED, TILE_N, i), B_TURNED, TILE_N));
                    }
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                if (BUG == 3 && thread < CLUSTER) arrive(&empty[stage], thread);
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                if (BUG != 3 && thread < CLUSTER) arrive(&empty[stage], thread);
                if (++stage == STAGES) stage = 0, phase ^= 1;
            }
            if (BUG != 5 && thread == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
            asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                const unsigned piece = results + (part * GROUPS + own) * 8192;
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int r = warp * 16 + lane % 16, sixteen = i * 2 + lane / 16;
                    unsigned words[4];
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        float value[2];
                        for (int side = 0; side < 2; ++side) {
                            const int y = row + warp * 16 + lane / 4 + 8 * (j % 2);
                            const int x = column + part * 64 + i * 16 + j / 2 * 8 + lane % 4 * 2 + side;
                            value[side] = alpha * sums[part][i * 8 + j * 2 + side];
                            if (beta != 0 && y < m && x < n) {
                                value[side] += beta * float(c[static_cast<long long>(y) * n + x]);
                            }
                        }
                        words[j] = packed(value[0], value[1]);
                    }
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                                 :: "r"(piece + r * 128 + (sixteen ^ r % 8) * 16), "r"(words[0]),
                                    "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
                }
            }
            if (BUG != 1) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
            if (thread == 0) {
                for (int part = 0; part < PARTS; ++part) {
                    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];"
                                 :: "r"(results + (part * GROUPS + own) * 8192), "l"(&map_c),
                                    "r"(column + part * 64), "r"(row) : "memory");
                }
                asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            }
        }
        if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (CLUSTER > 1) {
        // No block ends while the other may still tell its mbarriers.
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
}
