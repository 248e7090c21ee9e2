"""Distribution of the sum over k: data-parallel tiles, split-K and stream-K.

The work of a product is counted in chunks, the k steps of a tile: a tile has ``ceil(k / chunk)`` of them. A
data-parallel block takes all chunks of a tile. Split-K gives every tile to several blocks. Stream-K gives every block
the same number of chunks, across the borders of tiles. Blocks that share a tile write f32 sums to a workspace, and one
of them adds them up. Source of the terms: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense
Matrix-Matrix Multiplication on the GPU" (2023); the formulas are arithmetic on counts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tilewave.theory import quantization
from tilewave.theory.quantization import positive

SUM_BYTES = 4  # an f32 sum in the workspace


@dataclass(frozen=True)
class Dealing:
    """The distribution of a product's chunks over blocks.
    longest: chunks of the block with the most. parts: sums of tiles that several blocks share, one for each block
    and tile. shared: such tiles; one block of each adds the parts. kept: parts that stay in registers."""

    blocks: int
    longest: int
    parts: int = 0
    shared: int = 0
    kept: int = 0

    @property
    def written(self) -> int:
        """Parts that are written to the workspace."""
        return self.parts - self.kept

    @property
    def read(self) -> int:
        """Parts that are read back: all but those of the adding blocks."""
        return self.parts - self.shared


def data_parallel(tiles: int, chunks: int) -> Dealing:
    positive(tiles=tiles, chunks=chunks)
    return Dealing(tiles, chunks)


def split_k(tiles: int, chunks: int, splits: int) -> Dealing:
    """Return the dealing with ``splits`` blocks a tile, at most one for each chunk; ranges differ by at most one."""
    positive(tiles=tiles, chunks=chunks, splits=splits)
    splits = min(splits, chunks)
    if splits == 1:
        return data_parallel(tiles, chunks)
    return Dealing(tiles * splits, -(-chunks // splits), tiles * splits, tiles)


def stream_k(
    tiles: int, chunks: int, blocks: int, joined: int | None = None, least: int = 1
) -> Dealing:
    """Return the dealing to persistent blocks that take equal ranges of chunks, tile after tile.

    joined: full waves of tiles that are dealt by chunks together with the last, partial wave; the rest is
    dealt tile by tile. None: all tiles are dealt by chunks. If the last wave is full, no tile is. least: the
    fewest chunks of a block, on average.

    Counts differ by at most one chunk; the first blocks have more. One part of each shared tile stays in
    registers: the block that begins the tile reaches it last, when the other parts are written.
    """
    positive(tiles=tiles, chunks=chunks, blocks=blocks, least=least)
    waves, rest = divmod(tiles, blocks)
    if rest == 0:
        return Dealing(blocks, waves * chunks)
    dealt = waves if joined is None else min(waves, joined)
    streamed = (rest + dealt * blocks) * chunks
    workers = min(blocks, max(1, streamed // least))
    share, longer = divmod(streamed, workers)
    # Every worker that begins inside a tile cuts it once more.
    begins = (worker * share + min(worker, longer) for worker in range(workers))
    cuts = Counter(begin // chunks for begin in begins if begin % chunks)
    longest = share + (longer > 0) + (waves - dealt) * chunks
    return Dealing(blocks, longest, cuts.total() + len(cuts), len(cuts), len(cuts))


def critical_chunks(dealing: Dealing, sms: int, blocks_per_sm: int = 1) -> int:
    """Return the chunks that the last SM executes in sequence: waves times the longest block.
    blocks_per_sm: 1 for blocks that share the SM's throughput, else the number that it holds."""
    return quantization.waves(dealing.blocks, sms, blocks_per_sm).count * dealing.longest


def traffic_bytes(dealing: Dealing, tile: Sequence[int]) -> int:
    """Return the bytes, written and read, that the workspace adds to the traffic of SMs and L2."""
    return SUM_BYTES * tile[0] * tile[1] * (dealing.written + dealing.read)


def reduction_time(dealing: Dealing, tile: Sequence[int], sms: int, bandwidth: float) -> float:
    """Return the microseconds of the workspace's traffic at ``bandwidth`` TB/s of all SMs together.
    An SM has only its share: as many SMs write as there are blocks, and read as there are shared tiles."""
    positive(bandwidth=bandwidth)
    if not dealing.parts:
        return 0.0
    part = SUM_BYTES * tile[0] * tile[1] / (bandwidth * 1e6)
    written = dealing.written / min(1.0, dealing.blocks / sms)
    read = dealing.read / min(1.0, dealing.shared / sms)
    return part * (written + read)


def speed_up(
    dealing: Dealing, plain: Dealing, sms: int, blocks_per_sm: int = 1,
    duration: float = 1.0, reduction: float = 0.0,
) -> float:  # fmt: skip
    """Predict the speed-up over the data-parallel kernel with the same tile. duration: of that kernel."""
    chunks, of_plain = (critical_chunks(each, sms, blocks_per_sm) for each in (dealing, plain))
    return duration / (duration * (chunks / of_plain) + reduction)
