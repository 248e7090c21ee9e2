"""Messages of faults: which threads and addresses, and which threads they collide with or wait for.
A message names an instruction by its opcode and SASS address; source lines are added elsewhere."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.execution.machine import marking, tracing, views
from tilewave.execution.machine import overwriting as o
from tilewave.execution.machine import state as s
from tilewave.execution.machine.mbarrier import fields
from tilewave.execution.machine.naming import Names, Threads, counted
from tilewave.execution.machine.printing import assertion
from tilewave.execution.machine.written import LOCALLY

HINT = "hint"
"""The kind of a fault that makes no result wrong."""
TABLES = table_beside(__file__)
NAMES = {getattr(s, name): name for names in TABLES["kinds"].values() for name in names}
DOING = {getattr(s, name): name for name in TABLES["doing"]}
WITH_OTHER = [getattr(s, name) for name in TABLES["with_other"]]
KINDS = {getattr(s, name): kind for kind, names in TABLES["kinds"].items() for name in names}
IN_SHARED = [getattr(s, name) for name in TABLES["in_shared"]]
SENTENCES = {getattr(s, name): sentence for name, sentence in TABLES["sentences"].items()}
PARTS = 6  # groups of waiting threads in a message
ENDS = ("BRA", "EXIT", "RET", "CALL", "BSYNC", "BSSY", "BRX", "WARPSYNC")  # of a basic block
RETRACED = 4  # blocks executed again to learn the other side of a race


@dataclass(frozen=True)
class Fault:
    """A fault; ``index`` is the instruction's position in the program, -1 if none. other: that of the other
    instruction of a race, -1 if unknown. count: how often it came. addresses: bytes, of the first thread.
    threads: {"block": [x, y, z], "thread": [x, y, z]}."""

    kind: str
    index: int
    message: str
    threads: list[dict[str, list[int]]] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)
    other: int = -1
    count: int = 1


class Explainer(Names):
    """Sentences about the faults of one launch."""

    def address(self, row: np.ndarray, index: int) -> int:
        """Return the address of a fault; in shared memory it counts from the kernel's first byte."""
        address, kind = int(row[s.F_ADDRESS]), int(row[s.F_KIND])
        local = self.opcode(index).startswith(("LDL", "STL"))
        shared = kind in IN_SHARED and address < self.device_start and not local
        return address - self.shared_base if shared else address

    # ---------------------------------------------------------------------------------- one access

    def sentence(self, part: str, **facts: Any) -> str:
        return filled(__file__, "findings", part=part, doing="", **facts)

    def access(self, row: np.ndarray, index: int, threads: Threads, who: str) -> str:
        """Describe an access that is outside memory or misaligned."""
        kind, address, width = int(row[s.F_KIND]), int(row[s.F_ADDRESS]), int(row[s.F_OTHER])
        spot = self.global_spot(address) if kind == s.OUTSIDE_GLOBAL else self.spot(address, index)
        facts = {
            "kind": NAMES[kind],
            "address": address,
            "width": width,
            "several": len(threads) > 1,
        }
        does = self.does(index, threads, address >= self.device_start)
        return self.sentence("access", who=who, does=does, place=spot[0], size=spot[1], **facts)

    def collision(
        self,
        row: np.ndarray,
        index: int,
        threads: Threads,
        who: str,
        match: np.ndarray | None,
        before: bool,
    ) -> str:
        """Describe an access to shared memory that is not ordered with another one, or reads what nothing wrote.
        before: whether it comes before the write that it needs."""
        # An actor that is no warp: products, bulk stores, bulk copies (see `orders`).
        unit, warp = divmod(int(row[s.F_OTHER]), self.warps)
        units = {0: "", 1 + s.MATRICES: "MATRICES", 1 + s.BULKS: "BULKS"}
        other, verb, position = f"warp {int(row[s.F_OTHER])}", "accesses", ""
        if match is not None:
            other, verb, position = self.other_side(match)
        too = " too" if verb.rstrip("s") == self.does(index, [0]).rstrip("s") else ""
        facts = {
            "other": other,
            "verb": verb,
            "position": position,
            "too": too,
            "warp": warp,
            "before": before,
        }
        return self.sentence(
            "collision", kind=NAMES[int(row[s.F_KIND])], who=who, does=self.does(index, threads), **facts,
            byte=int(row[s.F_ADDRESS]) - self.shared_base, unit=units.get(unit, "copy"),
            ended=match is not None and bool(match[tracing.K_ENDED]),
        )  # fmt: skip

    def in_global(self, row: np.ndarray, index: int, threads: Threads, who: str) -> str:
        """Describe a race on global memory; `marking` defines the mark of the other access."""
        address, mark = int(row[s.F_ADDRESS]), abs(int(row[s.F_OTHER]))
        what = self.global_spot(address)[0] if address >= 0 else "global memory"
        number, warp = (mark >> marking.BLOCK) - 1, mark >> marking.WARP & 31
        inside = len(self.states) == 1 and number == int(row[s.F_BLOCK])
        return self.sentence(
            "global", who=who, does=self.does(index, threads, address >= 0), what=what, warp=warp,
            block="" if inside else self.place(number), there=self.at(int(row[s.F_OTHER_ROW])),
            verb="written" if int(row[s.F_OTHER]) > 0 else "read",
        )  # fmt: skip

    def in_warp(self, row: np.ndarray, index: int, threads: Threads, who: str) -> str:
        """Describe a load of what other lanes of the warp have stored, or a store to what they loaded (see `exchanges`)."""
        does, others = (
            self.does(index, threads),
            self.lanes(int(row[s.F_WARP]), int(row[s.F_OTHER])),
        )
        return self.sentence(
            "lanes", who=who, does=does, place=self.spot(int(row[s.F_ADDRESS]), index)[0],
            others=self.named(others), there=self.at(int(row[s.F_OTHER_ROW])),
        )  # fmt: skip

    def other_side(self, row: np.ndarray) -> tuple[str, str, str]:
        """Return threads, verb and instruction of the other access (see `tracing`)."""
        members = self.lanes(int(row[tracing.K_WARP]), int(row[tracing.K_LANES]))
        index = int(row[tracing.K_PC])
        return self.named(members), self.does(index, members), self.at(index)

    # --------------------------------------------------------------------------- who waits for whom

    def groups(self) -> dict[tuple[int, int, int], Threads]:
        """Group running threads by what they do, what they wait for, and where."""
        groups: dict[tuple[int, int, int], Threads] = {}
        for warp in range(int(self.state.control[s.WARPS])):
            for pc, lanes, doing, waits in self.state.groups[warp].tolist():
                if doing == s.FREE:
                    continue
                what = waits if doing in (s.AT_BARRIER, s.AT_MBARRIER, s.AT_REGISTERS) else 0
                groups.setdefault((doing, what, pc), []).extend(self.lanes(warp, lanes))
        return {key: sorted(threads) for key, threads in groups.items()}

    def ended(self) -> Threads:
        """Return the threads of the selected block that have ended."""
        live = self.state.live
        return [
            number for number in range(self.total) if not int(live[number // 32]) >> number % 32 & 1
        ]

    def waiting(self, doing: int, waits: int, pc: int, threads: Threads) -> str:
        """Describe what a group of threads does."""
        state, behind = self.state, self.barrier_behind(pc)
        facts: dict[str, Any] = {"who": self.named(threads), "one": self.singular(threads)}
        facts |= {
            "at": self.at(pc),
            "behind": self.at(behind) if behind >= 0 else "",
            "waits": waits,
        }
        if doing == s.AT_BARRIER:
            facts["count"] = int(state.expected[waits, 0])
            facts["arrived"] = sum(
                int(lanes).bit_count() for lanes in state.arrived[waits].tolist()
            )
        if doing == s.AT_MBARRIER:
            facts["byte"] = waits - self.shared_base
            _, facts["pending"], facts["awaited"], _ = fields(views.table(state), waits)
        if doing == s.AT_REGISTERS:
            facts["pool"] = int(state.block_control[s.POOL])
        return filled(__file__, "findings", part="", doing=DOING.get(doing, ""), **facts)

    def barrier_behind(self, pc: int) -> int:
        """Return the barrier that follows a WARPSYNC in the same basic block; -1 if none."""
        if not self.opcode(pc).startswith("WARPSYNC"):
            return -1
        for index in range(pc + 1, min(pc + 8, len(self.program.instructions))):
            opcode = self.opcode(index)
            if opcode.startswith("BAR."):
                return index
            if opcode.startswith(ENDS):
                break
        return -1

    def parts(self, groups: dict[tuple[int, int, int], Threads]) -> list[str]:
        """Describe each group, and count the threads that have ended."""
        parts = [self.waiting(*key, threads) for key, threads in list(groups.items())[:PARTS]]
        rest = sum(len(threads) for threads in list(groups.values())[PARTS:])
        if rest:
            parts.append(f"{rest} more threads wait")
        ended = self.ended()
        if ended:
            parts.append(f"{self.named(ended)} {'has' if self.singular(ended) else 'have'} ended")
        return parts

    def deadlock(self) -> tuple[int, str, Threads]:
        """Return instruction, sentence and threads of a deadlocked block.
        The smallest group of waiting threads is named: it is the one that diverged."""
        taken = int(self.state.control[s.TAKEN])
        self.take(taken)
        groups = dict(sorted(self.groups().items(), key=lambda group: len(group[1])))
        at_barrier = [key for key in groups if key[0] == s.AT_BARRIER] or list(groups)
        sentence = f"block {self.place(taken)} is deadlocked: {'; '.join(self.parts(groups))}"
        for state in self.states:
            number = int(state.block_control[s.NUMBER])
            if number != int(state.control[s.TAKEN]) and state.live.any():
                self.state = state
                parts = "; ".join(self.parts(self.groups()))
                sentence += f"; of block {self.place(number)} of its cluster {parts}"
        index = at_barrier[0][2] if at_barrier else -1
        threads = groups[at_barrier[0]] if at_barrier else []
        barrier = self.barrier_behind(index) if index >= 0 else -1
        return barrier if barrier >= 0 else index, sentence, threads

    def endless(self, instructions: int, index: int) -> str:
        """Describe a block that was still running when a limit was reached."""
        number = int(self.state.control[s.TAKEN])
        self.take(number)
        place = f"block {self.place(number)}"
        groups = self.groups()
        ready = {key: threads for key, threads in groups.items() if key[0] == s.READY}
        first = {key: threads for key, threads in ready.items() if key[2] == index}
        ordered = {**first, **ready, **groups}
        parts = "; ".join(self.parts(ordered))
        return f"{place} still runs after {instructions:,} warp instructions: {parts}"


def _retraced(
    states: list[s.State], rows: list[np.ndarray], grid: tuple[int, ...], threads: int
) -> list[np.ndarray | None]:
    """Execute blocks again to find the other access of each fault; None where none shows.
    Counts and faults are restored; the rest of the state is changed."""
    matches: list[np.ndarray | None] = [None] * len(rows)
    chosen = [index for index, row in enumerate(rows) if int(row[s.F_KIND]) in WITH_OTHER]
    if not chosen or len(states) > 1:  # a block of a cluster cannot be executed alone
        return matches
    state = states[0]
    kept = [(array, array.copy()) for array in (state.counts, state.control, state.faults)]
    m = views.table(state)
    grain = int(state.control[s.GRAIN])
    for number in list(dict.fromkeys(int(rows[index][s.F_BLOCK]) for index in chosen))[:RETRACED]:
        here = [index for index in chosen if int(rows[index][s.F_BLOCK]) == number]
        wanted = np.zeros((len(here), 4), np.int64)
        for target, index in zip(wanted, here):
            row = rows[index]
            target[:] = (
                row[s.F_ROW], row[s.F_WARP], int(row[s.F_ADDRESS]) >> grain,
                int(row[s.F_KIND]) == s.UNINITIALISED,
            )  # fmt: skip
        for index, match in zip(here, tracing.colliding(m, wanted, number, grid, threads)):
            if match[tracing.K_STATE] == tracing.FOUND:
                matches[index] = match
    for array, copy in kept:
        array[:] = copy
    return matches


def explained(explainer: Explainer) -> tuple[Fault, ...]:
    """Return the faults that the interpreter noted, in the order in which they happened.
    Changes the state: blocks with a race are executed again."""
    state = explainer.state
    rows = [row.copy() for row in state.faults[: int(state.control[s.FAULT_COUNT])]]
    # Read first what threads wait for: executing a block again changes it.
    endings = [_block_ending(explainer, row) for row in rows]
    matches = _retraced(explainer.states, rows, explainer.grid, explainer.total)
    faults = []
    for row, end, match in zip(rows, endings, matches):
        kind = KINDS[int(row[s.F_KIND])]
        number = int(row[s.F_BLOCK])
        if end is not None:
            index, message, threads = end
        else:
            index = int(row[s.F_ROW])
            threads = explainer.lanes(int(row[s.F_WARP]), int(row[s.F_LANES]))
            place = explainer.place(number)
            kind, message = _explanation(explainer, row, index, threads, place, match)
        addresses = [explainer.address(row, index)] if int(row[s.F_ADDRESS]) >= 0 else []
        other = int(row[s.F_OTHER_ROW] if match is None else match[tracing.K_PC])
        members, count = explainer.members(number, threads), int(row[s.F_COUNT])
        faults.append(Fault(kind, index, message, members, addresses, other, count))
    return tuple(faults)


def explained_store(explainer: Explainer, note: np.ndarray) -> tuple[Fault, ...]:
    """Return the fault of a store into a read-only buffer from an `overwriting.Watch`; none if it saw no store."""
    index, number = int(note[o.INDEX]), int(note[o.BLOCK])
    if index < 0:
        return ()
    threads = explainer.lanes(int(note[o.WARP]), int(note[o.LANES]))
    address = explainer.device_start + int(note[o.BYTE])
    message = (
        f"{explainer.named(threads)} of block {explainer.place(number)} {explainer.does(index, threads, True)} "
        f"{explainer.global_spot(address)[0]}, an input"
    )
    members = explainer.members(number, threads)
    return (Fault("overwritten input", index, message, members, [address]),)


def _block_ending(explainer: Explainer, row: np.ndarray) -> tuple[int, str, Threads] | None:
    """Return instruction, sentence and threads of a fault that ended a block; else None."""
    kind, index = int(row[s.F_KIND]), int(row[s.F_ROW])
    if kind == s.NEVER_REACHED:
        return explainer.deadlock()
    threads = explainer.lanes(int(row[s.F_WARP]), int(row[s.F_LANES]))
    if kind == s.OUT_OF_BUDGET:
        return index, explainer.endless(int(row[s.F_OTHER]), index), threads
    if kind == s.ASSERTED:
        explainer.take(int(row[s.F_BLOCK]))
        place = explainer.place(int(row[s.F_BLOCK]))
        sentence = assertion(explainer.state, int(row[s.F_WARP]), threads[0] % 32)
        return index, f"{sentence}, for {explainer.named(threads)} of block {place}", threads
    return None


def _explanation(
    explainer: Explainer,
    row: np.ndarray,
    index: int,
    threads: Threads,
    place: str,
    match: np.ndarray | None,
) -> tuple[str, str]:
    """Return kind and sentence of a fault that one warp's instruction caused."""
    number = int(row[s.F_KIND])
    who = f"{explainer.named(threads)} of block {place}" if threads else f"block {place}"
    if number in WITH_OTHER:
        # A later write exists and nothing orders the read after it: a race, but between atomics.
        numbers = (index, int(match[tracing.K_PC])) if match is not None else ()
        atomic = all(explainer.opcode(number).startswith("ATOM") for number in numbers)
        before = match is not None and not (match[tracing.K_ORDERED] or atomic)
        kind = s.RACE if number == s.UNINITIALISED and before else number
        return KINDS[kind], explainer.collision(row, index, threads, who, match, before)
    if number == s.UNORDERED:
        return KINDS[number], explainer.in_global(row, index, threads, who)
    if number == s.NOT_MET:
        return KINDS[number], explainer.in_warp(row, index, threads, who)
    other, address = int(row[s.F_OTHER]), int(row[s.F_ADDRESS])
    if number == s.NOT_KNOWN and index in explainer.program.unsupported:
        return KINDS[number], f"not supported on the CPU: {explainer.program.unsupported[index]}"
    if number not in SENTENCES:
        return KINDS[number], explainer.access(row, index, threads, who)
    return KINDS[number], SENTENCES[number].format(
        who=who, place=place, other=other, address=address, block=address >> 24,
        s="s" if explainer.singular(threads) else "",
        copy="copies" if explainer.singular(threads) else "copy",
        byte=f"byte {address - explainer.shared_base} of shared memory",
        function=explainer.program.system_calls[other] if number == s.SYSTEM_CALL else "",
        ended=explainer.place(other),
        spot=f"byte {address} of the thread's local memory" if number == s.UNWRITTEN and other == LOCALLY
        else explainer.global_spot(address)[0],
        there=explainer.at(other) if number == s.SPLIT_BARRIER else "",
        dimensions=counted(other, "dimension"), arrivals=counted(other, "arrival"),
    )  # fmt: skip
