// cp.async (PTX ISA): copies from global to shared memory that no register and no thread waits for.

#pragma once

namespace cp_async {

// Copies 16 bytes past L1, or nothing where `wanted` is 0. A predicate instead of a branch: the copies stand
// between the mma of a loop body that must stay one block of code.
__device__ __forceinline__ void copy(unsigned destination, const char* source, int wanted) {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %2, 0;\n"
        "@wanted cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n"
        "}\n" ::"r"(destination),
        "l"(source), "r"(wanted)
        : "memory");
}

// The same; only the first `bytes` are read, zeros fill the rest (src-size).
__device__ __forceinline__ void copy(unsigned destination, const char* source, int wanted, int bytes) {
    asm volatile(
        "{\n"
        ".reg .pred wanted;\n"
        "setp.ne.b32 wanted, %2, 0;\n"
        "@wanted cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %3;\n"
        "}\n" ::"r"(destination),
        "l"(source), "r"(wanted), "r"(bytes)
        : "memory");
}

// Closes the group of copies issued since the last commit (possibly none).
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most `PENDING` of this thread's groups are unfinished.
template <int PENDING>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

}  // namespace cp_async
