/*---
title: One 128x128 tile by 128 or by 256 threads
operation: probe
macros: {THREADS: [256, 128]}
block: [THREADS]
# Two blocks on an SM in both forms: all of them run at once.
grid: ["ceil(sms / 2)", 4]
requires: {arch: 75}
arguments: [a, b, c, depth]
work: {flop: "2 * 128 * 128 * 4 * ceil(sms / 2) * depth"}
buffers:
  a: {dtype: f32, size: "512 * depth"}                    # transposed: [k][row]
  b: {dtype: f32, size: "128 * ceil(sms / 2) * depth"}    # [k][column]
  # Each row of A is all ones but for one 2: a sum is the column's sum, 15.5 * depth, and one element more.
  c: {dtype: f32, size: "512 * 128 * ceil(sms / 2)",
      expect: "15.5 * depth + (7 * ((5 * (lane // (128 * ceil(sms / 2))) + 3) % depth) + 3 * (lane % (128 * ceil(sms / 2)))) % 32"}
# `depth` must be a multiple of 32.
cases:
  threads_128:
    macros: {THREADS: 128}
    values: &values
      a: "1 + (lane // 512 == (5 * (lane % 512) + 3) % depth)"
      b: "(7 * (lane // (128 * ceil(sms / 2))) + 3 * (lane % (128 * ceil(sms / 2)))) % 32"
    scalars: {depth: 1024}
    note: "128 outputs of a thread: 8 warps on an SM"
  threads_256: {macros: {THREADS: 256}, values: *values, scalars: {depth: 1024},
      note: "64 outputs of a thread: 16 warps on an SM"}
---*/

// A tile of 128 x 128 outputs can be dealt to 128 threads, 128 outputs each, or to 256 threads with 64 each.
// The registers allow two blocks on an SM either way, which is 8 warps or 16: twice the occupancy for the
// second form. The first reads less: 24 elements from shared memory for 128 multiply-adds where the second
// reads 16 for 64. Both hold the next tiles in registers on their way to a second pair of tiles (32 KB of
// shared memory in all) and wait at one barrier a tile. A is given transposed: both tiles are copied as they lie.

static_assert(THREADS == 128 || THREADS == 256, "THREADS: 128 or 256 for a tile");

namespace {

constexpr int TILE = 128;
constexpr int STEP = 16;                               // depth of a tile
constexpr int QUAD = 4;                                // floats of one 16-byte access
constexpr int COLUMNS = 8;                             // outputs of a thread in a row
constexpr int ROWS = TILE * TILE / THREADS / COLUMNS;  // 16 or 8
constexpr int HIGH = TILE / ROWS;                      // threads above one another
constexpr int WIDE = TILE / COLUMNS;                   // threads side by side
constexpr int COPIES = STEP * TILE / QUAD / THREADS;   // 16-byte copies of a thread, of each tile
constexpr int COPY_ROWS = THREADS * QUAD / TILE;       // rows of a tile that a block copies at once
constexpr int REGISTERS = THREADS == 128 ? 180 : 128;  // what a thread may have
// Steps that ptxas may interleave: with these it takes all of the registers and spills nothing.
constexpr int AT_ONCE = THREADS == 128 ? 4 : 8;

// Quads of a thread lie `apart` quads from each other, so that neighbouring lanes read neighbouring quads.
template <int COUNT>
__device__ __forceinline__ void read(float (&target)[COUNT], const float* row, int apart)
{
#pragma unroll
    for (int quad = 0; quad < COUNT / QUAD; ++quad) {
        const float4 four = *reinterpret_cast<const float4*>(row + quad * apart * QUAD);
        target[quad * QUAD] = four.x;
        target[quad * QUAD + 1] = four.y;
        target[quad * QUAD + 2] = four.z;
        target[quad * QUAD + 3] = four.w;
    }
}

}  // namespace

extern "C" __global__ void __maxnreg__(REGISTERS)
tile_threads(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int depth)
{
    __shared__ __align__(16) float a_tile[2][STEP][TILE];
    __shared__ __align__(16) float b_tile[2][STEP][TILE];

    const int width = gridDim.x * TILE;
    const int height = gridDim.y * TILE;
    // A warp is 4 threads high and 8 wide; lanes that differ in bit 0 share a column, in bit 1 a row, which
    // lets the quarter-warps of both 16-byte reads merge.
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int y = warp / 2 * 4 + (lane >> 4) * 2 + (lane & 1);
    const int x = warp % 2 * 8 + (lane >> 1 & 7);

    const int copy_row = threadIdx.x * QUAD / TILE;
    const int copy_column = threadIdx.x * QUAD % TILE;
    const float* a_next = a + copy_row * height + blockIdx.y * TILE + copy_column;
    const float* b_next = b + copy_row * width + blockIdx.x * TILE + copy_column;
    float4 held[COPIES];

    // One tile is under way at a time, the other follows it halfway: half the registers.
    auto fetch = [&](const float*& next, int pitch) {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            held[i] = *reinterpret_cast<const float4*>(next + i * COPY_ROWS * pitch);
        }
        next += STEP * pitch;
    };
    auto keep = [&](float (&tile)[STEP][TILE]) {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            *reinterpret_cast<float4*>(&tile[copy_row + i * COPY_ROWS][copy_column]) = held[i];
        }
    };

    float sum[ROWS][COLUMNS] = {};
    auto multiply = [&](int pair, int k) {
        float a_part[ROWS];
        float b_part[COLUMNS];
        read(a_part, &a_tile[pair][k][y * QUAD], HIGH);
        read(b_part, &b_tile[pair][k][x * QUAD], WIDE);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) sum[i][j] += a_part[i] * b_part[j];
        }
    };

    fetch(a_next, height);
    keep(a_tile[0]);
    fetch(b_next, width);
    keep(b_tile[0]);
    __syncthreads();
    int pair = 0;
    for (int base = STEP; base <= depth; base += STEP) {
        const bool more = base < depth;
        if (more) fetch(a_next, height);
#pragma unroll AT_ONCE
        for (int k = 0; k < STEP / 2; ++k) multiply(pair, k);
        if (more) {
            keep(a_tile[pair ^ 1]);
            fetch(b_next, width);
        }
#pragma unroll AT_ONCE
        for (int k = STEP / 2; k < STEP; ++k) multiply(pair, k);
        if (more) keep(b_tile[pair ^ 1]);
        __syncthreads();
        pair ^= 1;
    }

    float* const target = c + static_cast<long long>(blockIdx.y * TILE) * width + blockIdx.x * TILE;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int row = (i / QUAD * HIGH + y) * QUAD + i % QUAD;
#pragma unroll
        for (int quad = 0; quad < COLUMNS / QUAD; ++quad) {
            *reinterpret_cast<float4*>(target + static_cast<long long>(row) * width + (quad * WIDE + x) * QUAD) =
                make_float4(sum[i][quad * QUAD], sum[i][quad * QUAD + 1], sum[i][quad * QUAD + 2],
                            sum[i][quad * QUAD + 3]);
        }
    }
}
