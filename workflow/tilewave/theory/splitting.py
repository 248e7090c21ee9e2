"""Dealing out the sum over k: data-parallel tiles, split-K and stream-K.

The work of a product is counted in chunks, the steps of k that a block takes for one tile: a tile
has ``ceil(k / chunk)`` of them. Data-parallel blocks take all chunks of one tile each, split-K gives
every tile to several blocks, stream-K gives every block the same number of chunks wherever tiles
begin and end. Blocks that share a tile leave their sums in a workspace, in f32, and one of them adds
them up. Source of the terms: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense
Matrix-Matrix Multiplication on the GPU" (2023); the formulas are arithmetic on counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewave.theory import quantization

SUM_BYTES = 4  # an f32 sum in the workspace


@dataclass(frozen=True)
class Dealing:
    """How the chunks of a product fall to blocks.

    blocks: thread blocks. longest: chunks of the block that has most. parts: sums of tiles that
    several blocks share, one for each block and tile. shared: such tiles; one block of each adds
    the parts. kept: parts that never leave their block's registers; the others are written to the
    workspace.
    """

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
        """Parts that are read back: all but the adding blocks' own."""
        return self.parts - self.shared


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} must be positive, found {value}")


def data_parallel(tiles: int, chunks: int) -> Dealing:
    """A block a tile."""
    _positive(tiles=tiles, chunks=chunks)
    return Dealing(tiles, chunks)


def split_k(tiles: int, chunks: int, splits: int) -> Dealing:
    """``splits`` blocks a tile, or as many as it has chunks; ranges of k differ by one chunk."""
    _positive(tiles=tiles, chunks=chunks, splits=splits)
    splits = min(splits, chunks)
    if splits == 1:
        return data_parallel(tiles, chunks)
    return Dealing(tiles * splits, -(-chunks // splits), tiles * splits, tiles)


def stream_k(
    tiles: int, chunks: int, blocks: int, joined: int | None = None, least: int = 1
) -> Dealing:
    """``blocks`` persistent blocks that take equal ranges of chunks, tile after tile.

    joined: full waves of tiles that are dealt out by chunks together with the last, partial one;
    the others go to the blocks tile by tile (None: all tiles are dealt out by chunks). Where the
    last wave is full nothing is. least: chunks that a block takes at least, on average.

    Counts differ by one chunk, the first blocks have more. Of each shared tile one part is taken to
    be kept in registers: the block that begins a tile comes to it last, so it finds the other parts.
    """
    _positive(tiles=tiles, chunks=chunks, blocks=blocks, least=least)
    waves, rest = divmod(tiles, blocks)
    if rest == 0:
        return Dealing(blocks, waves * chunks)
    dealt = waves if joined is None else min(waves, joined)
    streamed = (rest + dealt * blocks) * chunks
    workers = min(blocks, max(1, streamed // least))
    share, longer = divmod(streamed, workers)
    # Every worker that begins inside a tile cuts it once more.
    cuts: dict[int, int] = {}
    for worker in range(workers):
        begin = worker * share + min(worker, longer)
        if begin % chunks:
            cuts[begin // chunks] = cuts.get(begin // chunks, 0) + 1
    longest = share + (longer > 0) + (waves - dealt) * chunks
    return Dealing(blocks, longest, sum(cuts.values()) + len(cuts), len(cuts), len(cuts))


def of_launch(
    shape: Mapping[str, int], tile: Sequence[int], grid: int, working: int, scratch_bytes: int
) -> Dealing:
    """How a launch of ``grid`` blocks deals the chunks of its tiles (rows, columns, k step).

    working: blocks of the grid that have work. Blocks that share a tile keep its sums in scratch memory: without
    room for them a tile is one block's, also of blocks that go from tile to tile, or lies in equal
    parts; where tiles are of several sizes, a block has one of them.
    """
    tiles, chunks = quantization.tile_count(shape, tile), -(-shape["k"] // tile[2])
    if scratch_bytes >= SUM_BYTES * tile[0] * tile[1]:
        blocks = min(grid, working)
    elif (blocks := max(working, tiles)) % tiles:
        return Dealing(blocks, chunks)
    return Dealing(blocks, -(-tiles * chunks // blocks))


def loads(dealing: Dealing, tile: Sequence[int], sms: int, blocks_per_sm: int) -> int:
    """Elements of A and B loaded by all places of all waves, idle places included: what a product that waits for
    its operands takes a time in proportion to.

    128x128x32 tiles, one block an SM, at 4096^3 on 128 SMs: 1024 tiles are 8 waves of 128 places
    with 128 chunks of (128 + 128) x 32 elements each: 1.07e9.
    """
    rows, columns, depth = tile
    steps = critical_chunks(dealing, sms, blocks_per_sm)
    return steps * sms * blocks_per_sm * (rows + columns) * depth


def critical_chunks(dealing: Dealing, sms: int, blocks_per_sm: int = 1) -> int:
    """Chunks that the last SM to finish takes one after another: waves times the longest block.

    With ``blocks_per_sm`` 1 the blocks of an SM share its throughput, as if they ran one by one;
    with the number that it holds they do not disturb each other (`quantization.rounds_on_sms`).
    """
    return quantization.waves(dealing.blocks, sms, blocks_per_sm).count * dealing.longest


def workspace_bytes(dealing: Dealing, tile: Sequence[int]) -> int:
    """Bytes of sums in the workspace: a whole tile for each part that is written."""
    return SUM_BYTES * tile[0] * tile[1] * dealing.written


def traffic_bytes(dealing: Dealing, tile: Sequence[int]) -> int:
    """Bytes that the workspace adds to what the SMs and the L2 exchange: written and read."""
    return SUM_BYTES * tile[0] * tile[1] * (dealing.written + dealing.read)


def reduction_time(dealing: Dealing, tile: Sequence[int], sms: int, bandwidth: float) -> float:
    """Microseconds for the workspace's traffic at ``bandwidth`` TB/s of all SMs together.

    An SM has its share of the bandwidth and no more: parts are written by as many SMs as there are
    blocks and read by as many as there are shared tiles. Raises ValueError where ``bandwidth`` is
    not positive.
    """
    if not bandwidth > 0:
        raise ValueError(f"bandwidth must be positive, found {bandwidth}")
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
    """Predicted speed-up over the data-parallel kernel with the same tile.

    duration: of the data-parallel kernel. reduction: `reduction_time`, in the same unit.
    """
    balance = critical_chunks(dealing, sms, blocks_per_sm) / critical_chunks(
        plain, sms, blocks_per_sm
    )
    return duration / (duration * balance + reduction)
