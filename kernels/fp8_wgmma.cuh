// FP8 products by TMA and wgmma: their instruction. What the kernels fp8_wgmma* share; the rest is that of
// half-precision products, whose TYPE is that of C here.
//
// A is row-major, B column-major: both must be contiguous along k, because wgmma transposes no bytes.
//
// Who includes this defines TYPE (f16 or bf16), A_TYPE (e4m3 or e5m2), and what wgmma_ring.cuh asks for.

#pragma once

#define TYPES_e4m3 "e4m3.e4m3"
#define TYPES_e5m2 "e5m2.e4m3"
#define OPERAND_BYTES 1
#define PRODUCT_TYPES "k32.f32." NAMED(TYPES_, A_TYPE)
#define PRODUCT_ENDING(FIRST, SECOND) ", 1, 1"

#include "hgemm_wgmma.cuh"
