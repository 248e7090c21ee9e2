// Equal pieces of a row of chunks, the first ones longer by one where they do not come out even. In 32 bits: a product of
// chunks and parts may have more, and its 64-bit quotient would stand ahead of the first load.

#pragma once

namespace pieces {

// Where piece `number` of `count` of so many chunks begins.
__device__ __forceinline__ int begin(int chunks, int number, int count) {
    return chunks / count * number + min(number, chunks % count);
}

// The piece itself: the chunks `first` to `end` - 1.
struct Piece {
    int first, end;

    __device__ __forceinline__ Piece(int chunks, int number, int count)
        : first(begin(chunks, number, count)), end(begin(chunks, number + 1, count)) {}
};

}  // namespace pieces
