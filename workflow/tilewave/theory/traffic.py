"""Work and traffic of a matrix product C[m, n] = alpha A[m, k] B[k, n] + beta C.

Three questions, each by arithmetic alone:

* What must move? *Compulsory* bytes, arithmetic intensity, machine balance, and whether memory or
  arithmetic bounds the product (the roofline model: Williams, Waterman, Patterson, "Roofline: an
  insightful visual performance model for multicore architectures", CACM 52(4), 2009).
* How often is an element loaded? Once for each output that needs it without a copy at hand. In the naive
  product that is n times for A and m times for B. A tile of BM x BN outputs with operands in shared memory
  divides these by BN and BM.
* What does that cost the load pipe? *Requests* (memory instructions of a warp with an active lane) and
  32-byte *sectors* (the distinct ones of each request), from the addresses of a warp's lanes.
  Nsight Compute counts both: ``l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st}.sum`` and
  ``l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.sum``.

Shapes are mappings with the keys ``m``, ``n`` and ``k`` (also frames, for many shapes); tiles are (rows, columns, k step).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewave.theory.occupancy import WARP
from tilewave.theory.quantization import positive, tiles

SECTOR_BYTES = 32

MEMORY, MATH = "memory", "math"


@dataclass(frozen=True)
class Machine:
    """The two ceilings of a roofline: arithmetic in FLOP/s and device memory in byte/s."""

    flop_rate: float
    bandwidth: float

    @property
    def balance(self) -> float:
        """The FLOP in the time of moving one byte: the intensity at the ridge."""
        positive(bandwidth=self.bandwidth)
        return self.flop_rate / self.bandwidth

    def attainable(self, intensity: float) -> float:
        return min(self.flop_rate, intensity * self.bandwidth)

    def bound(self, intensity: float) -> str:
        return MEMORY if intensity < self.balance else MATH

    def duration(self, flops: float, moved: float) -> float:
        """Return the least seconds for so many FLOP and bytes, if both overlap without loss."""
        return max(flops / self.flop_rate, moved / self.bandwidth)


# The V100 of the GPU-performance document: 112 TFLOP/s and 900 GB/s. Its balance is 124.4 FLOP per byte;
# the document's examples compare with 112, its TFLOP/s.
V100 = Machine(112e12, 900e9)


def flops(shape: Mapping[str, Any]) -> Any:
    """Return 2 m n k: a multiplication and an addition for each of the m n k products."""
    return 2 * shape["m"] * shape["n"] * shape["k"]


def compulsory_bytes(shape: Mapping[str, Any], in_bytes: Any, out_bytes: Any = None) -> Any:
    """Return the bytes that move even with a perfect cache: A, B and C once.
    in_bytes, out_bytes: of an element of A and B, and of C (default: the same)."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    return in_bytes * (m * k + k * n) + (in_bytes if out_bytes is None else out_bytes) * m * n


def intensity(shape: Mapping[str, Any], in_bytes: Any, out_bytes: Any = None) -> Any:
    """Return the FLOP per compulsory byte: N / 3 in FP16 for a cube of edge N, nearly k for a k far below m
    and n. The GPU-performance document takes k / 2 for both, the limit for m = k and n far above them."""
    return flops(shape) / compulsory_bytes(shape, in_bytes, out_bytes)


# ---------------------------------------------------------------------------------------- reuse


def loads_per_element(shape: Mapping[str, int], tile: Sequence[int] = (1, 1)) -> tuple[int, int]:
    """Return the loads of each element of A and of B by blocks of ``tile`` outputs: ceil(n / BN), ceil(m /
    BM). A block loads its rows of A and columns of B once; without reuse (a tile of one output) it is n, m."""
    rows, columns = tiles(shape, tile)
    return columns, rows


# ---------------------------------------------------------------------------- requests, sectors


@dataclass(frozen=True)
class WarpAccess:
    """Positions of a warp's lanes on a row-major matrix in a memory instruction.

    rows x columns lanes (32 or fewer; the rest has the same addresses), each with ``vector`` neighbouring
    elements of a row. ``row_step`` and ``column_step`` are the elements from a lane to the next, down and
    along. Gaps (a thread stores its micro-tile one element at a time) are filled by further instructions.
    """

    rows: int = 1
    columns: int = WARP
    vector: int = 1
    row_step: int = 1
    column_step: int = 0

    def __post_init__(self) -> None:
        if self.column_step == 0:
            object.__setattr__(self, "column_step", self.vector)
        numbers = (self.rows, self.columns, self.vector, self.row_step, self.column_step)
        if min(numbers) < 1 or self.rows * self.columns > WARP:
            raise ValueError(f"a warp has 1 to {WARP} lanes at positive steps, found {self}")
        if self.column_step % self.vector:
            raise ValueError(f"a column step is whole vectors, found {self}")

    @property
    def span(self) -> tuple[int, int]:
        return self.rows * self.row_step, self.columns * self.column_step

    @property
    def elements(self) -> int:
        return WARP * self.vector


def row_by_row(width: int) -> WarpAccess:
    """Return the access of a warp that walks a tile of ``width`` columns row by row, an element a lane."""
    columns = min(WARP, width)
    return WarpAccess(WARP // columns, columns)


class Traffic(NamedTuple):
    """Warp-level requests, their 32-byte sectors, and the elements of all 32 lanes."""

    requests: int = 0
    sectors: int = 0
    elements: int = 0


def _sum(parts: Iterable[tuple[Traffic, int]]) -> Traffic:
    """Return the traffic of parts, each so many times."""
    columns = zip(*([count * times for count in part] for part, times in parts))
    return Traffic(*map(sum, columns))


def _cuts(size: int, span: int, pitch: int) -> Counter[tuple[int, int]]:
    """Return the numbers of pieces of ``span`` along an axis, by bytes past a sector boundary and size."""
    starts = range(0, size, span)
    return Counter((at * pitch % SECTOR_BYTES, min(span, size - at)) for at in starts)


def _piece(
    access: WarpAccess, pitch: int, size: int, offset: int, rows: int, columns: int
) -> Traffic:
    """Return the traffic of a piece: its instructions with an active lane, and their sectors."""
    pieces = []
    for first_row in range(min(access.row_step, rows)):
        for first in range(0, min(access.column_step, columns), access.vector):
            sectors = {
                (offset + row * pitch + (column + element) * size) // SECTOR_BYTES
                for row in range(first_row, rows, access.row_step)
                for column in range(first, columns, access.column_step)
                for element in range(min(access.vector, columns - column))
            }
            pieces.append((Traffic(1, len(sectors), access.elements), 1))
    return _sum(pieces)


def matrix_traffic(rows: int, columns: int, access: WarpAccess, element_bytes: int) -> Traffic:
    """Return the traffic of a pass over a row-major matrix[rows, columns] that begins on a sector.
    Pieces of ``access.span`` divide the matrix; the last ones are cut at its edges. A piece that begins off a
    sector boundary touches one more sector for each row. Pieces with equal positions on sectors are computed once."""
    down, along = access.span
    pitch = columns * element_bytes
    pieces = []
    for (row_offset, height), vertical in _cuts(rows, down, pitch).items():
        for (offset, width), horizontal in _cuts(columns, along, element_bytes).items():
            start = (row_offset + offset) % SECTOR_BYTES
            piece = _piece(access, pitch, element_bytes, start, height, width)
            pieces.append((piece, vertical * horizontal))
    return _sum(pieces)


def product_traffic(
    shape: Mapping[str, int],
    tile: Sequence[int],
    accesses: Mapping[str, WarpAccess],
    element_bytes: int,
) -> tuple[Traffic, Traffic]:
    """Return the global loads and stores of a tiled product of row-major matrices of one element size.

    tile: outputs down and along, and k step, that share loaded data: those of a block with operands in shared
    memory, or of a warp that loads for itself. accesses: of ``a``, ``b`` and ``c``; without, row by row.

    There is a pass over A for each tile column, over B for each tile row, and over C (beta is 0). The numbers are exact at every shape: they equal Nsight Compute's on an H200 for the ladder's f32 and f64
    kernels (tests/theory/test_traffic.py). Raises ValueError if pieces of ``accesses`` do not divide the tile.
    """
    m, n, k = shape["m"], shape["n"], shape["k"]
    height, width, step = tile
    sides = {"a": (height, step), "b": (step, width), "c": (height, width)}
    for name, (down, along) in sides.items():
        span = (accesses.get(name) or row_by_row(along)).span
        if down % span[0] or along % span[1]:
            tile_of = f"a tile of {down} x {along} elements of {name}"
            raise ValueError(f"{tile_of} is not a multiple of {span[0]} x {span[1]}")
    a, b, c = (accesses.get(name) or row_by_row(along) for name, (_, along) in sides.items())
    for_a, for_b = loads_per_element(shape, tile)
    of_a, of_b = matrix_traffic(m, k, a, element_bytes), matrix_traffic(k, n, b, element_bytes)
    return _sum([(of_a, for_a), (of_b, for_b)]), matrix_traffic(m, n, c, element_bytes)
