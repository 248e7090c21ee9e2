"""Which variant of a tiled matrix product should be the fastest at a shape, before it is measured.

Closed forms on how tiles fall to SMs (see `tilewave.theory.quantization`), for three judges:

* `loads`: elements of A and B that the blocks bring in, in whole waves and whole tiles. Needs no
  measurement and orders candidates: a product that waits for its operands takes a time in
  proportion to it. A tile of tm x tn outputs loads tm + tn elements for each step of k, so large
  tiles load less and small ones fill the last wave better: data reuse against parallelism.
* `predicted_duration`: waves times the time of a wave, that from one measured duration of the same
  variant at a large shape (`step_time`). The rule of the textbooks.
* `Costs`: a time for the launch, for the ends of a tile and for a step along k, for both of all other
  blocks, and for sums that blocks hand to each other; `work` counts each of them in a launch.
  `tilewave.theory.calibration` takes the times from a few measured cases of the variant.

Durations are in any one unit; the same comes out that went in. Costs are told in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewave.theory.nearby import Nearby, Sizes
from tilewave.theory.occupancy import SmLimits, occupancy
from tilewave.theory.quantization import Waves, rounds_on_sms, tile_count, waves
from tilewave.theory.splitting import SUM_BYTES

Shape = Mapping[str, int]


def steps(k: int, tile_k: int) -> int:
    """Steps of ``tile_k`` along k, the last perhaps partly filled. Raises ValueError below 1."""
    if k < 1 or tile_k < 1:
        raise ValueError(f"sizes must be positive, found k = {k} and a step of {tile_k}")
    return -(-k // tile_k)


GROUPS = (16, 16, 16, 16, 16, 18, 18, 8)
"""SMs of the groups of an H200 that a cluster of more than two blocks may lie in: what cuOccupancyMaxActiveClusters says of all
sizes up to 16 (39 of three, 30 of four, 15 of eight, 7 of sixteen; of two 66, on all 132 SMs). Other GPUs are taken to leave
out as large a share."""
SMS = 132
PAIRED = 64
"""Threads of a block of a cluster, up to which an SM takes two of them: of 128 it takes one by one (see `Launch.busiest`)."""


@dataclass(frozen=True)
class Launch:
    """How a variant covers a shape: its tile (rows, columns, k step), the blocks that the steps of
    all tiles are dealt to, and the blocks that an SM holds at a time.

    Where every tile is one block's, ``blocks`` are the tiles, also of a kernel whose blocks go from
    tile to tile; where blocks share tiles, it is their number, larger or smaller. ``unequal``: the blocks
    are the tiles, and more than tiles of this size would be. ``beside``: further blocks, which have no tile but keep
    their places. ``added_by_all``: another launch adds the parts of tiles, which is counted as an equal share for each
    SM, also where it has fewer blocks than there are SMs. ``cluster``: blocks of a cluster. ``copied``: bytes that a launch
    before writes for this one. ``paired``: an SM takes blocks of a cluster by two (see `busiest`).
    """

    tile: tuple[int, int, int]
    blocks: int
    blocks_per_sm: int
    unequal: bool = False
    beside: int = 0
    added_by_all: bool = False
    cluster: int = 1
    copied: int = 0
    paired: bool = False

    def reached(self, sms: int) -> int:
        """SMs that its blocks find room on at a time: what a group has over stays empty."""
        if self.cluster <= 2:
            return sms
        room = self._room(sms, self.blocks_per_sm) * self.cluster
        return min(sms, max(1, room // self.blocks_per_sm))

    def _room(self, sms: int, held: int) -> int:
        """Clusters that find room at a time where an SM holds ``held`` of their blocks."""
        if self.cluster <= 2:
            return max(1, sms * held // self.cluster)
        return max(1, sms * sum(group * held // self.cluster for group in GROUPS) // SMS)

    def busiest(self, sms: int) -> int:
        """Blocks of the SM that has the most, which do not always lie as evenly as they could: ``paired`` ones come to an SM
        by two, and where three fit some SM has three once there are more than three for two SMs. Seen in what variants took
        on H200s: matmul_cluster (64 threads, two pieces) as long with 284 to 384 blocks as four on an SM would, 1.4 times
        what three would; f64 tiles of 96x64 (matmul_dmma_teams) 1.00 to 1.17 us a step with 134 to 176 blocks, 1.54 to 1.67
        with 210 to 240, and 1.65 to 1.85 with 330 to 368."""
        places = self.blocks_per_sm
        clusters = -(-(self.blocks + self.beside) // self.cluster)
        full, rest = divmod(clusters, self._room(sms, places))
        if self.cluster == 1 and places == 3 and 2 * rest > 3 * sms:
            return (full + 1) * places
        step = 2 if self.paired else 1
        fitting = (
            held for held in range(step, places + step, step) if self._room(sms, held) >= rest
        )
        return full * places + (min(next(fitting), places) if rest else 0)

    def waves(self, sms: int) -> float:
        """Its blocks over those that find room at a time."""
        return (self.blocks + self.beside) / (self.reached(sms) * self.blocks_per_sm)

    def tiles(self, shape: Shape) -> int:
        """Tiles that the product has."""
        return self.blocks if self.unequal else tile_count(shape, self.tile)

    @classmethod
    def of(
        cls,
        shape: Shape,
        tile: Sequence[int],
        grid: int,
        working: int,
        scratch_bytes: int,
        limits: SmLimits,
        threads: int,
        registers: int,
        shared_bytes: int,
        cluster: int = 1,
        added_by_all: bool = False,
        copied: int = 0,
    ) -> Launch | None:
        """With the blocks per SM that the occupancy calculator gives; None where it gives none.

        grid, working: blocks of the grid, and how many of them the kernel says have work.
        scratch_bytes: memory beside the operands; blocks that share a tile keep its sums there.
        shared_bytes: of a block, static and dynamic. cluster, added_by_all, copied: see there; in a cluster a block without work
        stays as long as the others.
        """
        fitting = occupancy(limits, threads, registers, shared_bytes).blocks
        rows, columns, depth = (int(size) for size in tile)
        tiles = tile_count(shape, (rows, columns))
        whole = scratch_bytes < SUM_BYTES * rows * columns
        blocks = max(working, tiles) if whole else min(grid, working)
        # Several blocks for each tile are its parts, which they may add without memory of their own.
        unequal = whole and blocks % tiles > 0
        if not fitting:
            return None
        # Clusters that share a tile have work as a whole or leave at once; of others that lie across C's edge a block
        # has no tile, but loads for those that have one.
        stays = cluster > 1 and (blocks == tiles or added_by_all)
        beside = max(0, grid - blocks) if stays else 0
        paired = cluster > 1 and threads <= PAIRED
        return cls(
            (rows, columns, depth), blocks, fitting, unequal, beside, added_by_all, cluster, copied,
            paired,
        )  # fmt: skip


def step_size(tile: Sequence[int]) -> float:
    """How long a k step of a tile takes beside one of another tile of the same variant: its products, or
    its operands where it is narrow.

    A row or column of operands takes as long as 70 products: tiles of 128x64 and 128x128 took 1.65 and
    1.04 times as long as those of 128x256 at 4096 (hgemm_wgmma_stream_k on an H200).
    """
    rows, columns, _ = tile
    return float(max(rows * columns, 70 * (rows + columns)))


def block_steps(shape: Shape, launch: Launch) -> int:
    """k steps of the block that has the most, where the tiles' steps are dealt evenly to blocks.

    With a block for each tile these are the steps along k; with split-K a share of them; with fewer
    blocks than tiles (stream-K) those of several tiles.
    """
    if launch.blocks < 1:
        raise ValueError(f"a launch needs blocks, found {launch.blocks}")
    return -(-launch.tiles(shape) * steps(shape["k"], launch.tile[2]) // launch.blocks)


def _waves(launch: Launch, sms: int) -> Waves:
    return waves(launch.blocks, sms, launch.blocks_per_sm)


def loads(shape: Shape, launch: Launch, sms: int) -> float:
    """Elements of A and B loaded by all places of all waves, idle places included.

    128x128x32 tiles, one block an SM, at 4096^3 on 128 SMs: 1024 tiles are 8 waves of 128 places
    with 128 steps of (128 + 128) x 32 elements each: 1.07e9.
    """
    rows, columns, depth = launch.tile
    filled = _waves(launch, sms)
    places = filled.count * filled.capacity
    return float(places * block_steps(shape, launch) * (rows + columns) * depth)


# ----------------------------------------------------------------------------------- whole waves


def step_time(duration: float, shape: Shape, launch: Launch, sms: int) -> float:
    """Time of one k step of a wave, from a measured duration. Raises ValueError unless positive."""
    if not duration > 0:
        raise ValueError(f"a duration is positive, found {duration}")
    return duration / (_waves(launch, sms).count * block_steps(shape, launch))


def predicted_duration(shape: Shape, launch: Launch, sms: int, time_of_step: float) -> float:
    """Waves times the time of one: its blocks' k steps times the time of a step."""
    return _waves(launch, sms).count * block_steps(shape, launch) * time_of_step


# ---------------------------------------------------------------------------- costs of a variant

LAUNCH, ENDS, STEPS, OTHER_ENDS, OTHER_STEPS, PARTS, RAGGED_ENDS = COSTS = (
    "launch", "ends of tiles", "steps along k", "ends of other blocks", "steps of other blocks",
    "parts of tiles", "ends of ragged tiles",
)  # fmt: skip
"""What a launch spends its time on."""

LINES, PIECES = "rows that begin inside of lines", "rows that begin inside of 16 bytes"
RAGGED = "rows of C that begin inside of 16 bytes"
NARROW = "few columns"
LINE = 128
"""Bytes of a line, and of a row of a box that the TMA asks for: what begins inside of one lies in two, and asks L2 twice."""
PIECE = 16
"""Bytes of an access: rows of C that begin inside of one are stored by single elements, or on another way (matmul_mma at
5500x5500x72 in bf16 on an H200: 145 us for 43)."""
FEW = 32
"""Columns, up to which boxes of B and C are mostly outside of the matrix."""


Elements = tuple[int, int]
"""Bytes of an element of A and B, and of C; 0: not known."""


def kinds(shape: Shape, elements: Elements) -> tuple[str, ...]:
    """What a shape has that variants take differently, and tiles do not tell. Rows of A, and columns of B where these are
    contiguous, are k elements apart, rows of C n."""
    operand, result = elements
    row = shape["k"] * operand
    found = {
        LINES: row % PIECE == 0 and row % LINE > 0,
        PIECES: row % PIECE > 0,
        RAGGED: shape["n"] * result % PIECE > 0,
        NARROW: shape["n"] <= FEW,
    }
    return tuple(kind for kind, holds in found.items() if holds)


def full_loads(blocks: int, blocks_per_sm: int, saturating: float) -> float:
    """What ``blocks`` on one SM take, in units of what each takes of an SM that is full.

    The SM holds ``blocks_per_sm`` at a time and needs ``saturating`` of them to be kept busy: fewer
    take as long as that many, because they wait for latencies.
    """
    whole, rest = divmod(blocks, blocks_per_sm)
    alone = max(float(rest), saturating) if rest else 0.0
    return whole * max(float(blocks_per_sm), saturating) + alone


def parts_of_tiles(tiles: int, blocks: int) -> tuple[float, float]:
    """(tiles or parts of tiles that a block works on, parts that a tile is in), on average.

    Equal pieces of a row of tiles: where one number divides the other no tile, or every tile, is cut
    in equal parts; else each block but one ends inside of a tile.
    """
    if min(tiles, blocks) < 1:
        raise ValueError(f"must be positive: {tiles} tiles, {blocks} blocks")
    pieces = 1.0 if blocks % tiles == 0 else tiles / blocks + (tiles % blocks > 0)
    return pieces, pieces * blocks / tiles


def work(
    shape: Shape,
    launch: Launch,
    sms: int,
    saturating: float,
    unit: float = 0.0,
    elements: Elements = (0, 0),
) -> tuple[float, ...]:
    """How much of each of `COSTS` a launch has.

    One launch; of the busiest SM the tiles (or parts) that its blocks begin and end, one more where another launch adds
    the parts, and its k steps, both in `full_loads`; the tiles and the k steps of all blocks over the SMs, which share
    memory and power; the outputs, in millions, whose sums the busiest SM's blocks leave for others or add up, or where
    another launch adds them an equal share of all, and such a share of what a launch before has copied; the busiest
    SM's tiles once more where rows of C are `RAGGED`. unit: the `step_size` that a step is counted in, for a variant whose
    tile follows the shape, and of whose square root the ends of a tile are: filling the pipeline takes as long for any tile,
    storing the results does not. 0: each is one. elements: see `kinds`.
    """
    size = step_size(launch.tile) / unit if unit else 1.0
    ends = math.sqrt(size)
    tiles = launch.tiles(shape)
    busy = full_loads(launch.busiest(sms), launch.blocks_per_sm, saturating)
    pieces, parts = parts_of_tiles(tiles, launch.blocks)
    added = launch.added_by_all and parts > 1
    ended = busy * pieces * ends + added
    rows, columns, depth = launch.tile
    shared_here = (
        tiles / sms if launch.added_by_all else rounds_on_sms(min(tiles, launch.blocks), sms)
    )
    left = parts * shared_here * rows * columns if parts > 1 else 0.0
    return (
        1.0,
        ended,
        busy * block_steps(shape, launch) * size,
        tiles / sms * ends,
        tiles * steps(shape["k"], depth) / sms * size,
        1e-6 * (left + launch.copied / SUM_BYTES / sms),
        ended if RAGGED in kinds(shape, elements) else 0.0,
    )


@dataclass(frozen=True)
class Costs:
    """What one variant's work costs: ``each`` of `COSTS` in microseconds a piece of `work`.

    saturating: blocks that keep an SM busy. unit: the `step_size` of a step. nearby: what each case that was measured took over
    what these costs expect of it. fitted_at: the shapes of those cases that the costs are taken from.
    """

    each: tuple[float, ...]
    saturating: float = 1.0
    unit: float = 0.0
    elements: Elements = (0, 0)
    nearby: Nearby = field(default_factory=Nearby)
    fitted_at: tuple[Sizes, ...] = ()

    def times_more(self, shape: Shape) -> float:
        """What a launch takes over what the costs alone say (see `theory.nearby`)."""
        asked = frozenset(kinds(shape, self.elements))
        return self.nearby.times_more((shape["m"], shape["n"], shape["k"]), asked)

    def spent(self, shape: Shape, launch: Launch, sms: int) -> dict[str, float]:
        """Microseconds of a launch, by `COSTS`; their sum is its duration."""
        amounts = work(shape, launch, sms, self.saturating, self.unit, self.elements)
        more = self.times_more(shape)
        each = zip(COSTS, self.each, amounts, strict=True)
        return {name: one * much * more for name, one, much in each}

    def duration(self, shape: Shape, launch: Launch, sms: int) -> float:
        """Microseconds of a launch."""
        return sum(self.spent(shape, launch, sms).values())


# ------------------------------------------------------------------------------------- the choice


def pick(predicted: Mapping[str, float]) -> str | None:
    """The candidate with the shortest prediction (the first of several); None without any."""
    return min(predicted, key=lambda name: predicted[name]) if predicted else None


def regret(measured: Mapping[str, float], chosen: str) -> float:
    """By what share of the best measured time the chosen candidate is slower: 0 for the best.

    Raises KeyError where the chosen one was not measured.
    """
    return measured[chosen] / min(measured.values()) - 1.0
