"""An access to shared memory: the lanes' addresses, and how the memory served them."""

from dataclasses import dataclass

LANES = 32
KINDS = ("load", "store", "matrix", "copy", "bypass")
LOAD, STORE, MATRIX, COPY, BYPASS = range(len(KINDS))


@dataclass(frozen=True)
class Access:
    """An access to shared memory by a warp; tuples have 32 entries, one for each lane.

    kind: one of KINDS. A matrix is part of ldmatrix or stmatrix: 8 lanes give its row addresses. A copy is a cp.async,
    which may bypass the cache. An atomic counts as a store. width: bytes of a lane. mask: the lanes that take part,
    lane i as bit i. reading: the lanes of a copy that read; the others write zeros. addresses: bytes in the block's
    shared memory. sources: addresses of a copy in global memory, counted from a multiple of 128. Both are 0 where a
    lane takes no part. wavefronts, ideal: as counted. warp: its number in the block. block: its number in the grid.

    transaction: lanes of each. turns: the wavefront of its transaction that serves a lane, from 0; -1
    for none. For a copy that bypasses the cache it counts over the whole access. rivals: for a copy
    through the cache, the lanes that share a bank with a lane, itself included, as a mask. The lane
    with the most rivals gives the wavefronts of its transaction.
    """

    kind: str
    width: int
    mask: int
    reading: int
    addresses: tuple[int, ...]
    sources: tuple[int, ...]
    wavefronts: int
    ideal: int
    block: int
    warp: int
    transaction: int
    turns: tuple[int, ...]
    rivals: tuple[int, ...]

    @property
    def lanes(self) -> list[int]:
        """The lanes that take part."""
        return [lane for lane in range(LANES) if self.mask >> lane & 1]

    @property
    def excess(self) -> int:
        """Wavefronts above the ideal number."""
        return max(0, self.wavefronts - self.ideal)
