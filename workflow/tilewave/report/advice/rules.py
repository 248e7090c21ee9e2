"""The rules: each function takes a subject and returns a finding, or None without the counters it needs."""

import math
import re
from collections.abc import Callable
from typing import Any

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.plots.base import present
from tilewave.records.counters import catalogue
from tilewave.report.advice.subject import FULL, Finding, Row, Subject, place, total, worst_line
from tilewave.theory import bounds, quantization
from tilewave.theory.data_sheets import data_sheet
from tilewave.theory.latency import SCHEDULERS
from tilewave.theory.occupancy import WARP
from tilewave.theory.traffic import SECTOR_BYTES

TABLES = table_beside(__file__)
WORK = {getattr(bounds, pipe): work for pipe, work in TABLES["work"].items()}
"""Pipes whose work a kernel can save: its name and its column."""
LEAST_BOUND, CYCLES_A_SECTOR, COPY_BYTES, INSTRUCTIONS_A_COPY, LONGEST_LATENCY = (
    TABLES["numbers"][name]
    for name in ("least bound", "cycles a sector", "copy bytes", "instructions a copy", "latency")
)
LATENCIES, OF_SHAPE, WAITED = (TABLES[name] for name in ("latencies", "of_shape", "waited"))

COPY = re.compile(r"^LDGSTS\b")
WIDTH = re.compile(r"\.(?:BYPASS\.)?(?:LTC\d+B\.)?(?P<bits>64|128)\b")
LOCAL = re.compile(r"^(?:LDL|STL)\b")


def _sentence(rule: str, **facts: Any) -> str:
    """Return the sentence of a rule. origin: a line, of which it has the place."""
    if "origin" in facts:
        facts["origin"] = place(facts["origin"]) or "an unknown line"
    return filled(__file__, "rules", rule=rule, **facts)


def _over(needless: float, actual: float) -> float:
    """Return the ratio of the needless part to the needed part."""
    return needless / (actual - needless) if actual > needless else 0.0


def _over_ideal(subject: Subject, column: str) -> tuple[float, float, str, Origin] | None:
    """Return a counter's sum, its part over the ideal, both and the worst line in a sentence, and this line."""
    ideal = f"{column}_ideal"
    rows = [row for row in subject.instructions if present(row.get(ideal))]

    def over(row: Row) -> float:
        return float(row[column]) - float(row[ideal])

    if not rows:
        return None
    needless, actual = sum(map(over, rows)), total(rows, column)
    origin, most = worst_line(rows, over)
    facts = {"needless": needless, "actual": actual, "most": most, "origin": origin}
    return actual, needless, _sentence(column, **facts), origin


def busiest_pipe(subject: Subject) -> Finding | None:
    """Find work on the busiest pipe that is not arithmetic; without it the launch is as long as the next pipe."""
    pipe = subject.limiter
    blocks = subject.size("working_blocks") or subject.size("blocks")
    sms = subject.device.get("sms")
    if pipe not in WORK or not (blocks and sms):
        return None
    work, column = WORK[pipe]
    rows = [row for row in subject.instructions if present(row.get(column))]
    origin, most = worst_line(rows, lambda row: float(row[column]))
    following = max(share for name, share in subject.busy.items() if name != pipe)
    facts = {"pipe": pipe, "busy": subject.busy[pipe], "following": following, "origin": origin}
    return Finding(
        work,
        _sentence("busiest", **facts, part=most and most / total(rows, column)),
        # Where SMs have no block, another distribution of the same work is faster, too.
        subject.busy[pipe] * quantization.cycles_active_ratio(blocks, int(sms)),
        subject.bounded(subject.busy[pipe], saves={pipe}),
        origin,
    )


def excess_wavefronts(subject: Subject) -> Finding | None:
    """Find wavefronts that bank conflicts add; the data pipe takes one a cycle."""
    counted = _over_ideal(subject, "wavefronts_shared")
    if counted is None:
        return None
    actual, needless, finding, origin = counted
    # A launch lasts at least as long as its wavefronts.
    shares = needless / (actual or 1.0), subject.on_sms(needless)
    saved = subject.bounded(*shares, saves={bounds.DATA})
    return Finding("excess shared wavefronts", finding, _over(needless, actual), saved, origin)


def sectors_over_ideal(subject: Subject) -> Finding | None:
    """Find sectors that coalescing would save; they cost time in the SM, the L2 and device memory."""
    counted = _over_ideal(subject, "sectors_global")
    if counted is None:
        return None
    actual, needless, finding, origin = counted
    on_sms = subject.on_sms(needless * CYCLES_A_SECTOR)
    sheet = data_sheet(str(subject.device.get("gpu") or ""))
    moved, nanoseconds = subject.value("dram_bytes"), subject.value("gpu__time_duration.sum")
    # Without cycles: a sector that is not needed takes no longer than one that is.
    bound = needless / (actual or 1.0)
    if on_sms is not None and sheet is not None and moved is not None and nanoseconds:
        bandwidth = sheet.machine.bandwidth
        bound = on_sms + min(needless * SECTOR_BYTES, moved) / bandwidth / (nanoseconds * 1e-9)
    amount, saved = _over(needless, actual), subject.bounded(bound, saves={bounds.PORT})
    return Finding("sectors over ideal", finding, amount, saved, origin)


def _filled(subject: Subject) -> tuple[float, float] | None:
    """Return the number of waves, and the share of their block slots that is used."""
    fraction = subject.value(catalogue.WAVES)
    blocks, occupancy = subject.size("blocks"), subject.occupancy
    sms = subject.device.get("sms")
    if fraction is None and blocks and sms and occupancy and occupancy.blocks:
        fraction = quantization.waves(blocks, int(sms), occupancy.blocks).fraction
    return (fraction, fraction / math.ceil(fraction)) if fraction else None


def last_wave(subject: Subject) -> Finding | None:
    """Find the tail effect: empty slots of the last wave, or cycles of an SM without a warp if more."""
    filled = _filled(subject)
    average, busiest = subject.value(catalogue.AVERAGE), subject.value(catalogue.BUSIEST)
    if filled is None:
        return None
    waves, used = filled
    uneven = 1 - average / busiest if average and busiest else 0.0
    # No other distribution of the work saves the average cycles with a warp.
    counted = 1 - average / subject.elapsed if average and subject.elapsed else 0.0
    both = average is not None and busiest is not None
    sentence = _sentence("wave", waves=waves, empty=1 - used, idle=uneven, counted=both)
    saved = subject.bounded(max(1 - used, counted), saves=subject.busy)
    return Finding("idle part of the last wave", sentence, max(1 - used, uneven), saved)


def tile_waste(subject: Subject) -> Finding | None:
    """Find operations of tiles that reach over the edge of C; without them a wave may go, too."""
    sizes = [subject.size(name) for name in ("m", "n", "k", "tile_m", "tile_n", "tile_k")]
    m, n, k, rows, columns, step = sizes
    if not (m and n and k and rows and columns):
        return None
    shape, tile = {"m": m, "n": n, "k": k}, [rows, columns, *([step] if step else [])]
    ratio = quantization.operations_ratio(shape, tile)
    filled = _filled(subject)
    used = filled[1] if filled else 1.0
    sentence = _sentence("tile", tile=tile, more=ratio - 1, shape=[m, n, k])
    saved = subject.bounded(1 - used / ratio, saves=subject.busy)
    return Finding("tile waste", sentence, 1 - 1 / ratio, saved)


def occupancy_limiter(subject: Subject) -> Finding | None:
    """Find the resource that limits occupancy while warps wait for latencies.
    More warps hide latency at most in proportion to their number."""
    occupancy = subject.occupancy
    if occupancy is None or not occupancy.blocks or {"warps", "blocks"} & set(occupancy.limiters):
        return None
    waiting = sum(subject.waits.get(state, 0.0) for state in LATENCIES)
    if not waiting:
        return None
    limiters = occupancy.limiters
    freed = min(blocks for name, blocks in occupancy.limits.items() if name not in limiters)
    sentence = _sentence("occupancy", occupancy=occupancy, freed=freed, waiting=waiting)
    saved = subject.bounded(1 - occupancy.blocks / freed, waiting)
    return Finding("occupancy limiter", sentence, waiting, saved)


def spills(subject: Subject) -> Finding | None:
    """Find registers kept in local memory; each access makes a warp wait at most as long as a miss."""
    used = [subject.resources.get(f"spill_{kind}_bytes") for kind in ("store", "load")]
    spilled = max(int(size or 0) for size in (*used, subject.size("spill_bytes")))
    rows = [row for row in subject.instructions if LOCAL.match(str(row["opcode"]))]
    executed = total(rows, "executed")
    threads, blocks = subject.size("block_threads"), subject.size("blocks")
    filled = _filled(subject)
    if not threads or not blocks:
        return None
    waiting = None
    if subject.waits:
        waiting = subject.waits["long_scoreboard"] + subject.waits["lg_throttle"]
    if subject.instructions and filled and subject.elapsed:
        per_warp = executed / (blocks * -(-threads // WARP))
        longest = math.ceil(filled[0]) * per_warp * LONGEST_LATENCY / subject.elapsed
        waiting = min(longest, waiting if waiting is not None else longest)
    origin, _ = worst_line(rows, lambda row: float(row["executed"]))
    counted = bool(subject.instructions)
    sentence = _sentence("spills", spilled=spilled, executed=executed, counted=counted)
    saved = subject.bounded(waiting) if spilled else 0.0
    return Finding("spills", sentence, float(spilled > 0), saved, origin)


def register_banks(subject: Subject) -> Finding | None:
    """Find stalls of the dispatcher, which occur where two operands share a register bank."""
    if not subject.waits:
        return None
    share = subject.waits["dispatch_stall"]
    sentence = _sentence("banks", share=share)
    return Finding("register banks", sentence, share, subject.bounded(share))


def top_stall(subject: Subject) -> Finding | None:
    """Find the most frequent stall and its sampled line; a warp saves at most its waiting time."""
    waits = {name: s for name, s in subject.waits.items() if not name.endswith("selected")}
    if not waits:
        return None
    state = max(waits, key=lambda name: waits[name])
    share = waits[state]
    column = catalogue.STALL_SAMPLES.format(catalogue.SAMPLE_OF.get(state, state))
    origin, most = worst_line(subject.samples, lambda row: total([row], column))
    samples = most and most / total(subject.samples, column)
    shape = subject.samples[0]["case"].partition("@")[2] if most else ""
    facts = {"share": share, "samples": samples, "origin": origin}
    sentence = _sentence("stall", state=catalogue.STATES[state], **facts)
    line = origin if most else NOWHERE
    return Finding("top stall", sentence, share, subject.bounded(share), line, shape)


def _copied(row: Row) -> int:
    """Return the bytes that a thread copies with this cp.async."""
    match = WIDTH.search(str(row["opcode"]))
    return int(match["bits"]) // 8 if match else 4


def small_copies(subject: Subject) -> Finding | None:
    """Find cp.async of fewer than 16 bytes a thread, which need more instructions and conflict more."""
    rows = [row for row in subject.instructions if COPY.match(str(row["opcode"]))]

    def spared(row: Row) -> float:
        return float(row["executed"] * (1 - _copied(row) / COPY_BYTES))

    copies, needless = total(rows, "executed"), sum(map(spared, rows))
    if not subject.instructions:
        return None
    small = [row for row in rows if _copied(row) < COPY_BYTES]
    excess = total(small, "wavefronts_shared") - total(small, "wavefronts_shared_ideal")
    # A copy takes slots of the schedulers, one of the load and store units, and its wavefronts.
    cycles = needless * (INSTRUCTIONS_A_COPY / SCHEDULERS + 1) + excess
    origin, _ = worst_line(small, spared)
    widths = sorted({_copied(row) for row in small})
    facts = {"small": total(small, "executed"), "copies": copies, "needless": needless}
    return Finding(
        "cp.async with small pieces",
        _sentence("copies", **facts, widths=widths, full=COPY_BYTES, origin=origin),
        needless / copies if copies else 0.0,
        subject.bounded(subject.on_sms(cycles), saves={bounds.ISSUE}),
        origin,
    )


RULES: dict[Callable[[Subject], Finding | None], float] = {busiest_pipe: FULL} | {
    rule: TABLES["least"][rule.__name__]
    for rule in (
        excess_wavefronts, sectors_over_ideal, last_wave, tile_waste, occupancy_limiter, spills,
        register_banks, top_stall, small_copies,
    )
}  # fmt: skip
"""All rules with the least `Finding.amount` that each reports; findings with equal bounds keep this order."""


def for_case(subject: Subject) -> list[Finding]:
    """Return the findings on a case, the largest bound first; those without a bound come last."""
    of_rules = [(rule(subject), least) for rule, least in RULES.items()]
    large = [finding for finding, least in of_rules if finding and finding.amount >= least]
    findings = [item for item in large if item.bound is None or item.bound >= LEAST_BOUND]
    return sorted(findings, key=lambda finding: 1.0 if finding.bound is None else -finding.bound)
