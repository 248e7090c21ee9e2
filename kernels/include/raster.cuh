// The order in which the tiles of C are computed.

#pragma once

namespace raster {

// Where the tile of a number lies. Numbers run down `group_height` tile rows, then to the next tile column: tiles
// that are computed at the same time cover a patch of C that is about square, whose rows of A and columns of B
// are the fewest. Every other group of rows runs backwards, so that the columns at the turn are still in L2.
//
// Row and column count tiles. Which one is asked for first is part of what was measured: ptxas makes other code
// of the other order.
struct Square {
    int columns, group, group_height, within, height, step;

    __device__ __forceinline__ Square(int tile, int rows, int columns, int group_height)
        : columns(columns),
          group(tile / (group_height * columns)),
          group_height(group_height),
          within(tile - group * group_height * columns),
          height(min(group_height, rows - group * group_height)),
          step(within / height) {}
    __device__ __forceinline__ int row() const { return group * group_height + within - step * height; }
    __device__ __forceinline__ int column() const { return group % 2 ? columns - 1 - step : step; }
};

}  // namespace raster
