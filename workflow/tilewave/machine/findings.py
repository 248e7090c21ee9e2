"""Faults in words: which threads, which addresses, what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewave.machine import state as s
from tilewave.machine.program import Program

if TYPE_CHECKING:
    from tilewave.machine.executor import Buffer, Fault

KINDS = {
    s.OUTSIDE_GLOBAL: "invalid access", s.MISALIGNED: "invalid access",
    s.OUTSIDE_SHARED: "invalid access", s.OUTSIDE_LOCAL: "invalid access",
    s.OUTSIDE_CONSTANT: "invalid access", s.UNINITIALISED: "uninitialised read", s.RACE: "race",
    s.IN_FLIGHT: "race", s.NEVER_REACHED: "barrier", s.OUT_OF_BUDGET: "timed out",
    s.NOT_KNOWN: "unsupported", s.TRAPPED: "invalid access", s.QUEUE_FULL: "unsupported",
    s.BAD_TARGET: "invalid access",
}  # fmt: skip
MOST = 8  # threads named


def _place(number: int, sizes: tuple[int, ...]) -> list[int]:
    return [
        number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])
    ]  # fmt: skip


def _thread_names(threads: list[dict[str, list[int]]]) -> str:
    first = threads[0]
    named = ", ".join(str(tuple(one["thread"])) for one in threads[:MOST])
    more = f" and {len(threads) - MOST} more" if len(threads) > MOST else ""
    plural = "threads" if len(threads) > 1 else "thread"
    return f"{plural} {named}{more} of block {tuple(first['block'])}"


def _nearest(address: int, buffers: list[tuple[int, Buffer]]) -> str:
    """Where an address lies among the buffers."""
    best = ""
    for start, buffer in buffers:
        if start - 512 <= address < start + buffer.array.nbytes + 512 or not best:
            offset = address - start
            best = f"byte {offset} of {buffer.name}, which has {buffer.array.nbytes}"
            if 0 <= offset < buffer.array.nbytes + 512:
                break
    return best or "no buffer was given"


def _message(kind: int, row: np.ndarray, who: str, buffers: list[tuple[int, Buffer]], m: Any) -> str:
    address, other = int(row[s.F_ADDRESS]), int(row[s.F_OTHER])
    base, end = int(m.control[s.SHARED_BASE]), int(m.control[s.SHARED_END])
    inner = address - base
    size = end - base
    if kind == s.OUTSIDE_GLOBAL:
        return f"{who} access {other} bytes at {_nearest(address, buffers)}"
    if kind == s.MISALIGNED:
        return f"{who} access {other} bytes at {address:#x}, which is not a multiple of {other}"
    if kind == s.OUTSIDE_SHARED:
        return f"{who} access {other} bytes at byte {inner} of shared memory, which has {size}"
    if kind == s.OUTSIDE_LOCAL:
        return f"{who} access {other} bytes at {address:#x}, outside their local memory"
    if kind == s.OUTSIDE_CONSTANT:
        return f"{who} read {other} bytes at {address:#x}, outside the constant bank"
    if kind == s.UNINITIALISED:
        return f"{who} read byte {inner} of shared memory, which nothing in the block has written"
    if kind == s.RACE:
        return (
            f"{who} and warp {other} access byte {inner} of shared memory, one of them writes, "
            "and no barrier stands between"
        )
    if kind == s.IN_FLIGHT:
        return (
            f"{who} access byte {inner} of shared memory while an asynchronous copy of warp "
            f"{other} into it may still be under way"
        )
    if kind == s.OUT_OF_BUDGET:
        return f"the limit ended it after {other} warp instructions; {who} were here"
    if kind == s.NOT_KNOWN:
        return f"{who} execute an instruction that is not known"
    if kind == s.TRAPPED:
        return f"{who} executed a trap"
    if kind == s.QUEUE_FULL:
        return f"a warp has more than {other} asynchronous copies in flight"
    return f"{who} jump to {address:#x}, outside the kernel"


def _missing(m: Any, grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Threads that wait, and those that live but wait elsewhere or ended."""
    number = int(m.control[s.TAKEN])
    place = _place(number, grid)
    waiting_at: dict[tuple[int, int], list[dict[str, list[int]]]] = {}
    total = int(np.prod(block))
    for warp in range(int(m.control[s.WARPS])):
        for slot in range(s.SLOTS):
            doing = int(m.groups[warp, slot, 2])
            if doing == s.FREE:
                continue
            lanes = int(m.groups[warp, slot, 1])
            for lane in range(32):
                if lanes >> lane & 1 and 32 * warp + lane < total:
                    thread = {"block": place, "thread": _place(32 * warp + lane, block)}
                    key = (int(m.groups[warp, slot, 0]), doing)
                    waiting_at.setdefault(key, []).append(thread)
    return list(waiting_at.items()), place


def _deadlock(program: Program, m: Any, grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[
    str, list[dict[str, list[int]]]
]:  # fmt: skip
    groups, place = _missing(m, grid, block)
    total = int(np.prod(block))
    waiting = sum(len(threads) for _, threads in groups)
    parts = []
    groups.sort(key=lambda one: len(one[1]))
    for (pc, _), threads in groups:
        text = program.instructions[pc].text.split()
        where = program.instructions[pc].address
        parts.append(f"{_thread_names(threads)} wait at {text[0]} ({where:#x})")
    if waiting < total:
        parts.append(f"{total - waiting} threads have ended")
    rare = groups[0][1] if groups else []
    return f"no thread of block {tuple(place)} can go on: " + "; ".join(parts), rare


def explained(
    program: Program,
    m: Any,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    buffers: list[tuple[int, Buffer]],
) -> tuple[Fault, ...]:
    """The faults that the interpreter noted, in the order in which they happened."""
    from tilewave.machine.executor import Fault

    found = []
    for row in m.faults[: int(m.control[s.FAULT_COUNT])]:
        kind, index = int(row[s.F_KIND]), int(row[s.F_ROW])
        if kind == s.NEVER_REACHED:
            message, threads = _deadlock(program, m, grid, block)
            found.append(Fault(KINDS[kind], index, message, threads))
            continue
        place = _place(int(row[s.F_BLOCK]), grid)
        lanes = [lane for lane in range(32) if int(row[s.F_LANES]) >> lane & 1]
        threads = [
            {"block": place, "thread": _place(32 * int(row[s.F_WARP]) + lane, block)}
            for lane in lanes
        ]
        who = _thread_names(threads) if threads else f"block {tuple(place)}"
        message = _message(kind, row, who, buffers, m)
        if kind == s.NOT_KNOWN and index in program.unsupported:
            message = f"{program.unsupported[index]} is not known"
        addresses = [int(row[s.F_ADDRESS])] if int(row[s.F_ADDRESS]) >= 0 else []
        found.append(Fault(KINDS[kind], index, message, threads, addresses))
    return tuple(found)
