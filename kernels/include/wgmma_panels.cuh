// An operand of 16-bit elements in shared memory, contiguous along k or across it (A column-major, B row-major).
//
// One that is not contiguous along k has to be transposed by nobody: of 16-bit types wgmma reads either order. What changes
// is the box. 128 bytes, the width of the swizzle, are 64 rows of A or columns of B; 64 k of them are a panel, and a chunk
// has a panel, and a load, for each 64 of them. wgmma is told how far panels and eight k lie apart, and for each
// operand whether it is transposed.

#pragma once

#include "wgmma.cuh"

namespace panels {

using namespace hopper;

constexpr int SIDE = SWIZZLE_BYTES / 2;  // rows of A or columns of B of a panel
constexpr int BYTES = SIDE * SWIZZLE_BYTES;

static_assert(BYTES == MMA_M * SWIZZLE_BYTES, "64 rows of A are as far apart in both orders");

template <bool PANELS>
struct Order {
    // From one 16-deep step to the next.
    static constexpr u64 NEXT = PANELS ? 16 * SWIZZLE_BYTES >> 4 : STEP;

    // PTX ISA, "Matrix Descriptor Format" and "Strides" of wgmma: in panels the leading offset leads from one to the
    // next, the other one from eight k to the next eight.
    static __device__ __forceinline__ u64 descriptor_of(unsigned at) {
        return descriptor(at) + (PANELS ? static_cast<u64>((BYTES >> 4) - 1) << 16 : 0);
    }

    // Calls load(at, along, across) for each box of COUNT rows or columns from `first` on, which begin at the shared
    // address `at`; k from `first_k` on.
    template <int COUNT, class Load>
    static __device__ __forceinline__ void load_boxes(unsigned at, int first, int first_k, const Load& load) {
        static_assert(!PANELS || COUNT % SIDE == 0, "whole panels");
        if constexpr (PANELS) {
#pragma unroll
            for (int panel = 0; panel < COUNT / SIDE; ++panel) load(at + panel * BYTES, first + panel * SIDE, first_k);
        } else {
            load(at, first_k, first);
        }
    }
};

}  // namespace panels
