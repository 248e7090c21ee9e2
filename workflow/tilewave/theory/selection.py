"""Which variant of a tiled matrix product should be the fastest at a shape, before it is measured.

Two closed forms, both on whole waves of blocks (see `tilewave.theory.quantization`):

* `loads`: elements of A and B that the blocks bring in, in whole waves and whole tiles. Needs no
  measurement and orders candidates: a product that waits for its operands takes a time in
  proportion to it. A tile of tm x tn outputs loads tm + tn elements for each step of k, so large
  tiles load less and small ones fill the last wave better: data reuse against parallelism.
* `predicted_duration`: waves times the time of a wave. The time of a wave is k steps of a block
  times the time of one step in a full wave, and that is taken from one measured duration of the
  same variant at a large shape (`step_time`).

Durations are in any one unit; the same comes out that went in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewave.theory.occupancy import SmLimits, occupancy
from tilewave.theory.quantization import Waves, rounds_on_sms, tile_count, waves


def steps(k: int, tile_k: int) -> int:
    """Steps of ``tile_k`` along k, the last perhaps partly filled. Raises ValueError below 1."""
    if k < 1 or tile_k < 1:
        raise ValueError(f"sizes must be positive, found k = {k} and a step of {tile_k}")
    return -(-k // tile_k)


@dataclass(frozen=True)
class Launch:
    """How a variant covers a shape: its tile (rows, columns, k step), the blocks that have work,
    and the blocks that an SM holds at a time."""

    tile: tuple[int, int, int]
    blocks: int
    blocks_per_sm: int

    @classmethod
    def of(
        cls,
        tile: Sequence[int],
        blocks: int,
        limits: SmLimits,
        threads: int,
        registers: int,
        shared_bytes: int,
    ) -> Launch | None:
        """With the blocks per SM that the occupancy calculator gives; None where it gives none.

        shared_bytes: of a block, static and dynamic.
        """
        fitting = occupancy(limits, threads, registers, shared_bytes).blocks
        rows, columns, depth = (int(size) for size in tile)
        return cls((rows, columns, depth), blocks, fitting) if fitting else None


def block_steps(shape: Mapping[str, int], launch: Launch) -> int:
    """k steps of the block that has the most, where the tiles' steps are dealt evenly to blocks.

    With a block for each tile these are the steps along k; with split-K a share of them; with fewer
    blocks than tiles (a persistent kernel) those of several tiles.
    """
    whole = tile_count(shape, launch.tile) * steps(shape["k"], launch.tile[2])
    if launch.blocks < 1:
        raise ValueError(f"a launch needs blocks, found {launch.blocks}")
    return -(-whole // launch.blocks)


def _waves(launch: Launch, sms: int) -> Waves:
    return waves(launch.blocks, sms, launch.blocks_per_sm)


def loads(shape: Mapping[str, int], launch: Launch, sms: int) -> float:
    """Elements of A and B loaded by all places of all waves, idle places included.

    128x128x32 tiles, one block an SM, at 4096^3 on 128 SMs: 1024 tiles are 8 waves of 128 places
    with 128 steps of (128 + 128) x 32 elements each: 1.07e9.
    """
    rows, columns, depth = launch.tile
    filled = _waves(launch, sms)
    places = filled.count * filled.capacity
    return float(places * block_steps(shape, launch) * (rows + columns) * depth)


def wave_count(launch: Launch, sms: int, shared: bool = False) -> float:
    """Waves of a launch, the last counted whole however few blocks it has.

    With ``shared`` the last counts by the blocks on its fullest SM: 1/2 where an SM that holds two
    blocks is left with one, as if that one then had the SM's speed to itself. That is right for a
    kernel that keeps an SM busy with one block, the whole wave for one that waits for latencies.
    """
    if not shared:
        return _waves(launch, sms).count
    return rounds_on_sms(launch.blocks, sms) / launch.blocks_per_sm


def step_time(
    duration: float, shape: Mapping[str, int], launch: Launch, sms: int, shared: bool = False
) -> float:
    """Time of one k step of a wave, from a measured duration. Raises ValueError unless positive."""
    if not duration > 0:
        raise ValueError(f"a duration is positive, found {duration}")
    return duration / (wave_count(launch, sms, shared) * block_steps(shape, launch))


def predicted_duration(
    shape: Mapping[str, int], launch: Launch, sms: int, time_of_step: float, shared: bool = False
) -> float:
    """Waves times the time of one: its blocks' k steps times the time of a step."""
    return wave_count(launch, sms, shared) * block_steps(shape, launch) * time_of_step


def pick(predicted: Mapping[str, float]) -> str | None:
    """The candidate with the shortest prediction (the first of several); None without any."""
    return min(predicted, key=lambda name: predicted[name]) if predicted else None


def regret(measured: Mapping[str, float], chosen: str) -> float:
    """By what share of the best measured time the chosen candidate is slower: 0 for the best.

    Raises KeyError where the chosen one was not measured.
    """
    return measured[chosen] / min(measured.values()) - 1.0


def largest(shapes: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """The shape with the most multiply-adds (the first of several): where calibration is safest."""
    return max(shapes, key=lambda shape: shape["m"] * shape["n"] * shape["k"])
