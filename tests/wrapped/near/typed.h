// With a byte order mark, host code without an annotation, and a concept.
const int TILE = 16;

void multiply(float* a, float* b, float* c, int m, int n, int k);

template <class T> concept Narrow = sizeof(T) == 4;
