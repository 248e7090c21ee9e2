"""What one access to shared memory was: where its lanes stood, and how the memory served them."""

from dataclasses import dataclass

LANES = 32
KINDS = ("load", "store", "matrix", "copy", "bypass")
LOAD, STORE, MATRIX, COPY, BYPASS = range(len(KINDS))


@dataclass(frozen=True)
class Access:
    """One access to shared memory by one warp; tuples have 32 entries, one a lane.

    kind: of KINDS: a matrix is one of ldmatrix or stmatrix, to which 8 lanes give row addresses; a
    copy is a cp.async, which may bypass the cache; an atomic counts as a store. width: bytes of a
    lane. mask: the lanes that take part, lane i as bit i; reading: of a copy those that read, where
    others write zeros. addresses: bytes in the block's shared memory; sources: of a copy, in global
    memory, counted from a multiple of 128; 0 where a lane takes no part. wavefronts, ideal: as they
    were counted. warp: its number in the block; block: its number in the grid.

    transaction: lanes of each. turns: the wavefront of its transaction that serves a lane, from 0 (of
    a copy that bypasses the cache: of the whole access), -1 for none. rivals: of a copy through the
    cache the lanes, as a mask, that have a bank in common with a lane, itself included; the lane with
    the most says how many wavefronts its transaction takes.
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
        """Those that take part."""
        return [lane for lane in range(LANES) if self.mask >> lane & 1]

    @property
    def excess(self) -> int:
        """Wavefronts beyond those that would do."""
        return max(0, self.wavefronts - self.ideal)
