// Launches that overlap: one may begin before the one before it has ended. Its blocks come as those of the other one go,
// and what precedes their first access to global memory is done meanwhile. Front matter says so: `programmatic: OVERLAP`.

#pragma once

#ifndef OVERLAP
#define OVERLAP 0
#endif

namespace overlap {

// By any thread of each block: the next launch may begin beside this one.
__device__ __forceinline__ void let_next_begin() {
    if (OVERLAP) asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
}

// By each thread that reads or writes global memory, before it does: the launch before has ended, and what it wrote is
// there.
__device__ __forceinline__ void wait_for_launch_before() {
    if (OVERLAP) asm volatile("griddepcontrol.wait;\n" ::: "memory");
}

}  // namespace overlap
