"""The warps and independent instructions that hide a latency.

Little's law: the work in flight is the rate times the latency. An SM has four schedulers. Each issues at most one warp
instruction a clock and has a quarter of the multiply-add lanes and of the warps (warp i belongs to scheduler i mod 4).
A scheduler whose warps have enough independent instructions issues at its peak. With fewer it waits for results.

Sources: J. D. C. Little, "A Proof for the Queuing Formula: L = lambda W" (1961); NVIDIA, CUDA C++
Programming Guide, "Multiprocessor Level" (4 schedulers) and its table of arithmetic throughput
(128 single-precision multiply-adds a clock and SM on compute capability 8.6, 8.9 and 9.0, 64 on 7.5
and 8.0, i.e. 32 or 16 lanes a scheduler). The latency is measured: probe `latency`, case `register`.
"""

from tilewave.theory.occupancy import WARP
from tilewave.theory.quantization import positive

SCHEDULERS = 4
LANES = 32  # multiply-add lanes of a scheduler on compute capability 9.0
HALF_AS_WIDE = ("7.0", "7.2", "7.5", "8.0")  # 64 multiply-adds a clock and SM


def lanes_of(compute_capability: str) -> int:
    """Return the single-precision multiply-add lanes of a scheduler; those of 9.0 by default."""
    return LANES // 2 if compute_capability in HALF_AS_WIDE else LANES


def fma_per_cycle(warps: int, ilp: float, latency: float, lanes: int = LANES) -> float:
    """Return the multiply-adds of an SM per clock, where all its warps have the same number of them.

    warps: resident on the SM. ilp: independent chains of a thread. latency: cycles to one that needs the result.
    lanes: of a scheduler. A round is one multiply-add of every chain. It takes a scheduler the time in which its w
    warps issue, w * ilp * 32 / lanes cycles, or the latency if that is longer. The scheduler with the most warps,
    w = ceil(warps / 4), ends last: six warps take as long for three quarters of the work as eight do for all of it.
    Raises ValueError unless all are positive.
    """
    positive(warps=warps, ilp=ilp, latency=latency, lanes=lanes)
    most = -(-warps // SCHEDULERS)
    return warps * WARP * ilp / max(latency, most * ilp * WARP / lanes)


def warps_to_hide(latency: float, ilp: float, lanes: int = LANES) -> float:
    """Return the least warps of an SM that hide the latency (a real number, at least one a scheduler).
    latency: cycles. ilp: independent instructions of a thread. lanes: of a scheduler. Raises ValueError."""
    positive(latency=latency, ilp=ilp, lanes=lanes)
    return SCHEDULERS * max(1.0, latency / ilp * lanes / WARP)
