// A copy box by box, of arrays of one to five dimensions. The kernel that includes this says RANK, STEP (of
// every how many elements a box takes one, but of the first dimension), WAY and, by POINTER, how its maps
// come. Loaded boxes begin outside of the array, and all
// end there.
#include <cuda.h>

constexpr int LOAD = 0, STORE = 1, THROUGH = 2;  // the maps are of a, of b, and of a and scratch
constexpr int SIZES[5] = {24, 5, 3, 2, 3};       // of all dimensions but the outermost
constexpr int BOX[5] = {8, 4, 2, 3, 2};
constexpr int BEFORE = WAY == LOAD ? 4 : 0;  // elements of the first box that lie before the array

#if POINTER
using Map = const CUtensorMap*;
#define MAP const CUtensorMap*
#define ADDRESS(map) (map)
#else
#define MAP const __grid_constant__ CUtensorMap
#define ADDRESS(map) (&(map))
#endif

__device__ unsigned shared_address(const void* p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

#if RANK == 1
#define PLACES "{%2}"
#elif RANK == 2
#define PLACES "{%2, %3}"
#elif RANK == 3
#define PLACES "{%2, %3, %4}"
#elif RANK == 4
#define PLACES "{%2, %3, %4, %5}"
#else
#define PLACES "{%2, %3, %4, %5, %6}"
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

__device__ void load(const CUtensorMap* map, const float* box, const void* barrier, const int* at)
{
    asm volatile("cp.async.bulk.prefetch.tensor." TEXT(RANK) "d.L2.global.tile [%1, " PLACES "];" ::"r"(0),
                 "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]));
    asm volatile("cp.async.bulk.tensor." TEXT(RANK) "d.shared::cluster.global.tile.mbarrier::"
                 "complete_tx::bytes [%0], [%1, " PLACES "], [%7];"
                 ::"r"(shared_address(box)), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                 "r"(at[4]), "r"(shared_address(barrier)) : "memory");
}

__device__ void store(const CUtensorMap* map, const float* box, const int* at)
{
    asm volatile("cp.async.bulk.tensor." TEXT(RANK) "d.global.shared::cta.tile.bulk_group "
                 "[%1, " PLACES "], [%0];"
                 ::"r"(shared_address(box)), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                 "r"(at[4]) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ void copy_boxes(const CUtensorMap* map, const CUtensorMap* held, const float* a, float* b,
                           float* scratch, int outermost)
{
    __shared__ alignas(128) float box[512];
    __shared__ alignas(8) unsigned long long arrived;
    int sizes[5], counts[5], elements = 1, number = blockIdx.x, begin[5], steps = 1;
    for (int axis = 0; axis < 5; ++axis) {
        const int step = axis ? STEP : 1;
        const bool there = axis < RANK;
        sizes[axis] = axis == RANK - 1 ? outermost : there ? SIZES[axis] : 1;
        counts[axis] = there ? (BOX[axis] + step - 1) / step : 1;
        const int before = axis ? 0 : BEFORE;
        const int boxes = there ? (sizes[axis] + before + BOX[axis] - 1) / BOX[axis] : 1;
        begin[axis] = there ? number % boxes * BOX[axis] - before : 0;
        number /= boxes;
        elements *= counts[axis];
        steps *= there ? step : 1;
    }
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    for (int turn = 0; turn < steps; ++turn) {
        int at[5], rest = turn;
        for (int axis = 0; axis < 5; ++axis) {
            const int step = axis && axis < RANK ? STEP : 1;
            at[axis] = begin[axis] + rest % step;
            rest /= step;
        }
        if (WAY != STORE && threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         ::"r"(shared_address(&arrived)), "r"(4 * elements) : "memory");
            load(map, box, &arrived, at);
        }
        unsigned done = WAY == STORE;
        while (!done) {
            asm volatile("{ .reg .pred p;\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(shared_address(&arrived)), "r"(turn & 1) : "memory");
        }
        if (WAY == THROUGH) {
            if (threadIdx.x == 0) store(held, box, at);
            __syncthreads();
        }
        for (int element = threadIdx.x; element < elements; element += blockDim.x) {
            int rest = element, pitch = 1, place = 0;
            bool inside = true;
            for (int axis = 0; axis < RANK; ++axis) {
                const int x = at[axis] + rest % counts[axis] * (axis ? STEP : 1);
                rest /= counts[axis];
                inside = inside && x >= 0 && x < sizes[axis];
                place += x * pitch;
                pitch *= sizes[axis];
            }
            if (WAY == STORE) {
                box[element] = inside ? a[place] : 1e30f;
            } else if (inside) {
                b[place] = WAY == LOAD ? box[element] : scratch[place];
            } else if (box[element] != 0) {
                asm volatile("trap;");  // outside of the array there are zeros
            }
        }
        if (WAY == STORE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (WAY == STORE && threadIdx.x == 0) store(map, box, at);
        __syncthreads();
    }
}
