// Which wgmma a type takes: the instruction's name and what stands behind its operands, its registers of sums, and the
// elements of C. A wgmma takes 32 bytes of k whatever its type.
//
// Who includes this defines TYPE of A, and of B but for e5m2 (beside e4m3). What the tensor cores sum of FP8 is left to them.

#pragma once

#include "mma_types.cuh"
#include "words.cuh"

#define TYPE_f16 0
#define TYPE_bf16 1
#define TYPE_tf32 2
#define TYPE_i8 3
#define TYPE_e4m3 4
#define TYPE_e5m2 5
#define TYPE_NUMBER NAMED(TYPE_, TYPE)

// The instruction from its depth on, what stands behind its operands, a register of its sums, and the bytes of an element.
#define SUM_REGISTER f32
#define WHOLE_NUMBERS 0
#if TYPE_NUMBER == TYPE_tf32
#define PRODUCT_TYPES "k8.f32.tf32.tf32"
#define PRODUCT_ENDING ", 1, 1"  // no sign is changed
#define OPERAND_BYTES 4
using Out = f32;
#elif TYPE_NUMBER == TYPE_i8
#define PRODUCT_TYPES "k32.s32.s8.s8"
#define PRODUCT_ENDING ""
#define OPERAND_BYTES 1
#undef SUM_REGISTER
#define SUM_REGISTER i32
#undef WHOLE_NUMBERS
#define WHOLE_NUMBERS 1
using Out = i32;
#elif TYPE_NUMBER >= TYPE_e4m3
#if TYPE_NUMBER == TYPE_e4m3
#define PRODUCT_TYPES "k32.f32.e4m3.e4m3"
#else
#define PRODUCT_TYPES "k32.f32.e5m2.e4m3"
#endif
#define PRODUCT_ENDING ", 1, 1"
#define OPERAND_BYTES 1
using Out = bf16;
#else
#define PRODUCT_ENDING ", 1, 1, " TRANSPOSED  // of wgmma.cuh
#define OPERAND_BYTES 2
#if TYPE_NUMBER == TYPE_f16
#define PRODUCT_TYPES "k16.f32.f16.f16"
using Out = f16;
#else
#define PRODUCT_TYPES "k16.f32.bf16.bf16"
using Out = bf16;
#endif
#endif

// A register of sums as an operand.
#define OPERAND_OF_f32 "+f"
#define OPERAND_OF_i32 "+r"
#define SUM_OPERAND NAMED(OPERAND_OF_, SUM_REGISTER)

#undef TYPE
#define TYPE f16  // wgmma.cuh asks for one of 16 bits, for products that are not used here
