#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned short u16; typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;
typedef __half f16; typedef float f32; typedef double f64;
template <class To, class From> __device__ To bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
template <class T> __device__ bool nan(T x) { return x != x; }
