// The types that mma.sync multiplies and sums.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using f32 = float;
using f16 = __half;
using bf16 = __nv_bfloat16;
using i32 = int;
using i8 = signed char;
struct tf32 {
    f32 value;
};
