"""The rules, one a function: from a case to what it finds, or None where it has nothing to look at."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.plots.base import present
from tilewave.records.counters.catalogue import (
    AVERAGE,
    BUSIEST,
    SAMPLE_OF,
    STALL_SAMPLES,
    STATES,
    WAVES,
)
from tilewave.report.advice.subject import Finding, Row, Subject, total, worst_line  # fmt: skip
from tilewave.theory import quantization
from tilewave.theory.data_sheets import data_sheet
from tilewave.theory.latency import SCHEDULERS
from tilewave.theory.occupancy import WARP
from tilewave.theory.traffic import SECTOR_BYTES

LEAST_BOUND = 0.01
"""A finding that cannot save a hundredth of the time is not told: timing does not show it."""
CYCLES_A_SECTOR = 1.5
"""Of an SM, for a sector that is not needed: a look-up of its tag at worst, and half a cycle of the 64 bytes
that come from the L2 in a cycle."""
COPY_BYTES = 16
"""What one thread copies at most with one cp.async."""
INSTRUCTIONS_A_COPY = 4
"""Issued for a copy at most: itself, the two halves of its address, its predicate."""
LONGEST_LATENCY = 1000
"""Cycles that an access waits at most, taken: a load from DRAM alone takes 663 on an H200 (study *latency*)."""
LATENCIES = ("wait", "short_scoreboard", "long_scoreboard")
"""States in which more warps would help: what these wait for takes its time whoever else works."""
WAITING = 0.3
"""Share of the warps' time in LATENCIES from which on more warps may help."""

COPY = re.compile(r"^LDGSTS\b")
WIDTH = re.compile(r"\.(?:BYPASS\.)?(?:LTC\d+B\.)?(?P<bits>64|128)\b")
LOCAL = re.compile(r"^(?:LDL|STL)\b")


def _told(count: float) -> str:
    return f"{count:,.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _at(origin: Origin) -> str:
    return f"{origin.file}:{origin.line}" if origin.line else "no line that is known"


def _over(needless: float, found: float) -> float:
    """What is more than needed, over what is needed."""
    return needless / (found - needless) if found > needless else 0.0


def _over_ideal(one: Subject, column: str) -> tuple[float, float, str, Origin] | None:
    """Of a count that has an ideal: the sum, what of it is needless, where most of that is, in words and as
    a line."""
    ideal = f"{column}_ideal"
    rows = [row for row in one.instructions if present(row.get(ideal))]

    def over(row: Row) -> float:
        return float(row[column]) - float(row[ideal])

    if not rows:
        return None
    needless = sum(map(over, rows))
    origin, most = worst_line(rows, over)
    share = _percent(most / needless) if needless else "none"
    return total(rows, column), needless, f"{share} of them at {_at(origin)}", origin


def excess_wavefronts(one: Subject) -> Finding | None:
    """Shared wavefronts that bank conflicts add. The data pipe takes one a cycle."""
    counted = _over_ideal(one, "wavefronts_shared")
    if counted is None:
        return None
    found, needless, where, origin = counted
    return Finding(
        "excess shared wavefronts",
        f"{_told(needless)} of {_told(found)} shared wavefronts are in excess, {where}",
        _over(needless, found),
        one.bounded(one.on_sms(needless)),
        origin,
    )


def sectors_over_ideal(one: Subject) -> Finding | None:
    """Sectors of global accesses that coalescing would spare: they cost the SM and the L2, and device memory
    what it moved of them."""
    counted = _over_ideal(one, "sectors_global")
    if counted is None:
        return None
    found, needless, where, origin = counted
    on_sms = one.on_sms(needless * CYCLES_A_SECTOR)
    sheet = data_sheet(str(one.device.get("gpu") or ""))
    moved, nanoseconds = one.value("dram_bytes"), one.value("gpu__time_duration.sum")
    bound = None
    if on_sms is not None and sheet is not None and moved is not None and nanoseconds:
        bandwidth = sheet.machine.bandwidth
        bound = on_sms + min(needless * SECTOR_BYTES, moved) / bandwidth / (nanoseconds * 1e-9)
    return Finding(
        "sectors over ideal",
        f"{_told(needless)} of {_told(found)} sectors of global memory are more than the bytes need, {where}",
        _over(needless, found),
        one.bounded(bound),
        origin,
    )


def _filled(one: Subject) -> tuple[float, float] | None:
    """Waves that the blocks take, and the share of their places that is used."""
    fraction = one.value(WAVES)
    blocks, held = one.size("blocks"), one.occupancy
    sms = one.device.get("sms")
    if fraction is None and blocks and sms and held and held.blocks:
        fraction = quantization.waves(blocks, int(sms), held.blocks).fraction
    return (fraction, fraction / math.ceil(fraction)) if fraction else None


def last_wave(one: Subject) -> Finding | None:
    """SMs that have nothing to do while others work: by the places of the last wave, or by the cycles in
    which an SM had a warp, whichever says more."""
    filled = _filled(one)
    average, busiest = one.value(AVERAGE), one.value(BUSIEST)
    if filled is None:
        return None
    waves, used = filled
    uneven = 1 - average / busiest if average and busiest else 0.0
    # Cycles with a warp, on average, are left however the work is dealt out.
    counted = 1 - average / one.elapsed if average and one.elapsed else 0.0
    known = average is not None and busiest is not None
    seen = f"; SMs have no warp for {_percent(uneven)} of the busiest one's cycles" if known else ""
    return Finding(
        "idle part of the last wave",
        f"the blocks fill {waves:.2f} waves, {_percent(1 - used)} of their places are empty{seen}",
        max(1 - used, uneven),
        one.bounded(max(1 - used, counted)),
    )


def tile_waste(one: Subject) -> Finding | None:
    """Operations of tiles that stand over the edge of C; with them a wave may go, too."""
    sizes = [one.size(name) for name in ("m", "n", "k", "tile_m", "tile_n", "tile_k")]
    m, n, k, rows, columns, step = sizes
    if not (m and n and k and rows and columns):
        return None
    shape, tile = {"m": m, "n": n, "k": k}, [rows, columns, *([step] if step else [])]
    ratio = quantization.operations_ratio(shape, tile)
    filled = _filled(one)
    used = filled[1] if filled else 1.0
    words = " x ".join(map(str, tile))
    return Finding(
        "tile waste",
        f"tiles of {words} do {_percent(ratio - 1)} more multiply-adds than {m} x {n} x {k} needs",
        1 - 1 / ratio,
        one.bounded(1 - used / ratio),
    )


def occupancy_limiter(one: Subject) -> Finding | None:
    """Warps that a resource keeps from an SM whose warps wait for latencies. More warps hide at most as
    much as there are more of them."""
    held = one.occupancy
    if held is None or not held.blocks or {"warps", "blocks"} & set(held.limiters):
        return None
    waiting = sum(one.waits.get(state, 0.0) for state in LATENCIES)
    if not waiting:
        return None
    freed = min(blocks for name, blocks in held.limits.items() if name not in held.limiters)
    limiter = " and ".join(held.limiters)
    bound = one.bounded(1 - held.blocks / freed, waiting)
    return Finding(
        "occupancy limiter",
        f"{limiter} hold an SM to {held.warps} warps ({_percent(held.fraction)}) where {freed * held.warps // held.blocks} "
        f"would fit; warps wait for latencies {_percent(waiting)} of their time",
        waiting,
        bound,
    )


def spills(one: Subject) -> Finding | None:
    """Registers kept in local memory. A warp waits no longer than a miss takes, for each of its accesses."""
    spilled = max(
        int(one.resources.get("spill_store_bytes") or 0),
        int(one.resources.get("spill_load_bytes") or 0),
        one.size("spill_bytes") or 0,
    )
    rows = [row for row in one.instructions if LOCAL.match(str(row["opcode"]))]
    executed = total(rows, "executed")
    threads, blocks, filled = one.size("block_threads"), one.size("blocks"), _filled(one)
    if not threads or not blocks:
        return None
    waiting = None
    if one.waits:
        waiting = one.waits["long_scoreboard"] + one.waits["lg_throttle"]
    if one.instructions and filled and one.elapsed:
        each = executed / (blocks * -(-threads // WARP))
        longest = math.ceil(filled[0]) * each * LONGEST_LATENCY / one.elapsed
        waiting = min(longest, waiting if waiting is not None else longest)
    origin, _ = worst_line(rows, lambda row: float(row["executed"]))
    counted = f", {_told(executed)} accesses" if one.instructions else ""
    return Finding(
        "spills",
        f"{spilled} bytes of a thread's registers are kept in local memory{counted}",
        float(spilled > 0),
        one.bounded(waiting) if spilled else 0.0,
        origin,
    )


def register_banks(one: Subject) -> Finding | None:
    """Warps that the dispatcher holds back, because two operands come from one bank of registers."""
    if not one.waits:
        return None
    share = one.waits["dispatch_stall"]
    return Finding(
        "register banks",
        f"warps wait {_percent(share)} of their time for the dispatcher: register banks and ports",
        share,
        one.bounded(share),
    )


def top_stall(one: Subject) -> Finding | None:
    """What the warps wait for most, and the line where they were sampled in it. A warp's time shrinks by
    no more than it waits."""
    waits = {name: s for name, s in one.waits.items() if name not in ("selected", "not_selected")}
    if not waits:
        return None
    state = max(waits, key=lambda name: waits[name])
    share = waits[state]
    column = STALL_SAMPLES.format(SAMPLE_OF.get(state, state))
    origin, count = worst_line(
        one.samples, lambda row: float(row[column]) if present(row.get(column)) else 0.0
    )
    where = ""
    if count:
        sampled, shape = total(one.samples, column), one.samples[0]["case"].partition("@")[2]
        where = f"; {_percent(count / sampled)} of the samples of that, taken at {shape}, are in {_at(origin)}"
    return Finding(
        "top stall",
        f"most of all, warps {STATES[state]}: {_percent(share)} of their time{where}",
        share,
        one.bounded(share),
        origin if count else NOWHERE,
    )


def _copied(row: Row) -> int:
    """Bytes that a thread copies with a cp.async."""
    found = WIDTH.search(str(row["opcode"]))
    return int(found["bits"]) // 8 if found else 4


def small_copies(one: Subject) -> Finding | None:
    """cp.async of less than 16 bytes a thread: more instructions for the same bytes, and their conflicts."""
    rows = [row for row in one.instructions if COPY.match(str(row["opcode"]))]

    def spared(row: Row) -> float:
        return float(row["executed"]) * (1 - _copied(row) / COPY_BYTES)

    copies, needless = total(rows, "executed"), sum(map(spared, rows))
    if not one.instructions:
        return None
    small = [row for row in rows if _copied(row) < COPY_BYTES]
    excess = total(small, "wavefronts_shared") - total(small, "wavefronts_shared_ideal")
    # A copy takes its turns at the schedulers, one at the load and store units, and its wavefronts.
    cycles = needless * (INSTRUCTIONS_A_COPY / SCHEDULERS + 1) + excess
    origin, _ = worst_line(small, spared)
    widths = sorted({_copied(row) for row in small})
    words = " and ".join(map(str, widths)) if widths else "no fewer than 16"
    return Finding(
        "cp.async with small pieces",
        f"{_told(total(small, 'executed'))} of {_told(copies)} cp.async copy {words} bytes a thread, most of them at "
        f"{_at(origin)}; pieces of {COPY_BYTES} would be {_told(needless)} fewer",
        needless / copies if copies else 0.0,
        one.bounded(one.on_sms(cycles)),
        origin,
    )


@dataclass(frozen=True)
class Rule:
    """A rule, and the least `Finding.amount` that is worth a sentence."""

    find: Callable[[Subject], Finding | None]
    least: float


RULES = (
    Rule(excess_wavefronts, 0.02),
    Rule(sectors_over_ideal, 0.02),
    Rule(last_wave, 0.02),
    Rule(tile_waste, 0.02),
    Rule(occupancy_limiter, WAITING),
    Rule(spills, 1.0),
    Rule(register_banks, 0.05),
    # Of the many states one is always the first; below a quarter none stands out.
    Rule(top_stall, 0.25),
    Rule(small_copies, 0.05),
)
"""In the order in which equal bounds are told."""


def for_case(one: Subject) -> list[Finding]:
    """What the rules find of a case, the largest bound first, and behind them those without one."""
    found = [
        finding
        for rule in RULES
        if (finding := rule.find(one)) is not None
        and finding.amount >= rule.least
        and (finding.bound is None or finding.bound >= LEAST_BOUND)
    ]
    return sorted(found, key=lambda one: 1.0 if one.bound is None else -one.bound)
