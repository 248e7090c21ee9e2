constexpr int twice(int a) { return 2 * a; }
typedef struct { float x; } Pair; enum Kind { ROW, COL };
#define SIZE twice(LIMIT)
const int LIMIT = 4; const int UNUSED = 4, *where = f();
void part(int) {}
__device__ void part(float) {}
__global__ void mine(Pair p) { part(p.x + SIZE + ROW); }
template __global__ void other<3>(int);
template void launch<3>(int);
int main() {}
