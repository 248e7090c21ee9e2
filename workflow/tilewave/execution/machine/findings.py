"""Faults in words: which threads, which addresses, and whom they collide with or wait for.

An instruction is named by its opcode and SASS address: lines are not known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewave.execution.machine import state as s
from tilewave.execution.machine import tracing, views
from tilewave.execution.machine.arguments import Buffer
from tilewave.execution.machine.mbarrier import fields
from tilewave.execution.machine.printing import assertion
from tilewave.execution.machine.program import Program

KINDS = {
    s.OUTSIDE_GLOBAL: "invalid access", s.MISALIGNED: "invalid access",
    s.OUTSIDE_SHARED: "invalid access", s.OUTSIDE_LOCAL: "invalid access",
    s.OUTSIDE_CONSTANT: "invalid access", s.UNINITIALISED: "uninitialised read", s.RACE: "race",
    s.IN_FLIGHT: "race", s.NEVER_REACHED: "barrier", s.OUT_OF_BUDGET: "timed out",
    s.NOT_KNOWN: "unsupported", s.TRAPPED: "trap", s.QUEUE_FULL: "unsupported",
    s.BAD_TARGET: "invalid access", s.UNFENCED: "race", s.NO_MAP: "invalid access",
    s.BAD_MATRIX: "unsupported", s.TOO_MANY_ARRIVALS: "barrier", s.NO_BLOCK: "invalid access",
    s.MANY_MBARRIERS: "unsupported", s.BAD_SIZE: "invalid access", s.ASSERTED: "assertion failed",
    s.SYSTEM_CALL: "unsupported", s.BAD_RANK: "invalid access",
    s.BEFORE_ARRAY: "invalid access", s.WITHIN_PIECE: "invalid access", s.UNORDERED: "race",
    s.MAYBE_ENDED: "race",
}  # fmt: skip
# Faults whose address lies in shared memory, where it is no device address.
IN_SHARED = (
    s.OUTSIDE_SHARED, s.MISALIGNED, s.UNINITIALISED, s.RACE, s.IN_FLIGHT, s.UNFENCED,
    s.TOO_MANY_ARRIVALS, s.MAYBE_ENDED,
)  # fmt: skip
# Faults of one instruction that say no more than these words.
SENTENCES = {
    s.NOT_KNOWN: "{who} would execute it, and it is not known",
    s.SYSTEM_CALL: "{who} call {function}, which is not known",
    s.TRAPPED: "{who} executed a trap, with which the kernel ends itself",
    s.QUEUE_FULL: "a warp of block {place} has more than {other} asynchronous copies in flight, which "
    "is more than is kept here",
    s.NO_MAP: "{who} copy by a tensor map at {address:#x}, where none is, or one that was changed",
    s.BAD_RANK: "{who} copy by a tensor map of {dimensions}",
    s.BEFORE_ARRAY: "{who} store a box by a tensor map at a negative coordinate ({other} in dimension "
    "{address}): a GPU allows it for loads only, and ends the kernel (illegal instruction)",
    s.WITHIN_PIECE: "{who} copy a box by a tensor map that begins {other} bytes along a row of its "
    "array: a GPU takes multiples of 16, and ends the kernel (illegal instruction)",
    s.BAD_MATRIX: "{who} multiply a matrix whose descriptor has the base offset {other}: only 0 is "
    "known here",
    s.TOO_MANY_ARRIVALS: "{who} arrive at the mbarrier at {byte} more often than its {arrivals} a "
    "phase",
    s.MAYBE_ENDED: "{who} arrives at the mbarrier at {byte} of block {ended}, which may have ended "
    "before: missing is a wait there for the phase of this arrival, or a barrier of the cluster whose "
    "arrivals release",
    s.NO_BLOCK: "{who} name block {block} of the cluster, or a mask of blocks, that it has not",
    s.MANY_MBARRIERS: "block {place} uses more than {other} mbarriers",
    s.BAD_SIZE: "{who} copy from or to {address:#x}, which is not a multiple of 16",
    s.BAD_TARGET: "{who} jump to {address:#x}, outside the kernel",
}
MOST = 4  # threads named one by one
PARTS = 6  # groups of waiting threads told
RETRACED = 4  # blocks executed again to learn the other side of a race
NEAR = 1 << 20  # bytes from a buffer at which an address has still to do with it
ORDINALS = {2: "second", 3: "third"}

Place = list[int]
Threads = list[int]  # by number in the block


def _place(number: int, sizes: Sequence[int]) -> Place:
    return [
        number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])
    ]  # fmt: skip


def _three(place: Sequence[int]) -> str:
    return "(" + ", ".join(str(value) for value in place) + ")"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


@dataclass(frozen=True)
class Fault:
    """Something that went wrong; ``index`` is the instruction's place in the program, -1 if none.

    threads: {"block": [x, y, z], "thread": [x, y, z]}; addresses: bytes, of the first thread.
    """

    kind: str
    index: int
    message: str
    threads: list[dict[str, list[int]]] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)


class _Words:
    """The sentences about one launch."""

    def __init__(
        self,
        program: Program,
        states: list[s.State],
        grid: tuple[int, ...],
        block: tuple[int, ...],
        buffers: list[tuple[int, Buffer]],
    ) -> None:
        self.program, self.states, state = program, states, states[0]
        self.state = state
        self.grid, self.block, self.buffers = grid, block, buffers
        self.total = int(np.prod(block))
        self.warps = int(state.control[s.WARPS])
        self.shared_base = int(state.control[s.SHARED_BASE])
        self.shared_size = int(state.control[s.SHARED_END]) - self.shared_base
        self.device_start = int(state.origin[0])

    # ------------------------------------------------------------------------------- who and where

    def named(self, threads: Threads) -> str:
        """Threads of a block: one by one if few, else as a range or a pattern."""
        names = [_three(_place(number, self.block)) for number in threads]
        if not names:
            return "no thread"
        if len(names) == 1:
            return f"thread {names[0]}"
        if len(names) == 2:
            return f"threads {names[0]} and {names[1]}"
        steps = set(np.diff(threads).tolist())
        if steps == {1}:
            return f"threads {names[0]} to {names[-1]}"
        if len(steps) == 1:
            step = steps.pop()
            return f"every {ORDINALS.get(step, f'{step}th')} thread from {names[0]} to {names[-1]}"
        if len(names) <= MOST:
            return f"threads {', '.join(names[:-1])} and {names[-1]}"
        breaks = np.flatnonzero(np.diff(threads) != 1) + 1
        if len(breaks) < MOST:
            runs = np.split(np.arange(len(names)), breaks)
            ranges = [
                names[run[0]] if len(run) == 1 else f"{names[run[0]]} to {names[run[-1]]}"
                for run in runs
            ]
            return f"threads {', '.join(ranges[:-1])} and {ranges[-1]}"
        return f"threads {', '.join(names[:MOST])} and {len(names) - MOST} more"

    def at(self, index: int) -> str:
        """An instruction, for a reader."""
        one = self.program.instructions[index]
        return f"{one.opcode} at SASS address {one.address:#06x}"

    def opcode(self, index: int) -> str:
        return self.program.instructions[index].opcode if index >= 0 else ""

    def does(self, index: int, threads: Threads, remote: bool = False) -> str:
        """What an instruction does to memory, as a verb; ``remote``: the global side of a copy."""
        opcode = self.opcode(index)
        if opcode.startswith(("LDGSTS", "UTMALDG", "UBLKCP.S")):
            verb = "read" if remote else "write"
        elif opcode.startswith(("ATOM", "RED")):
            verb = "update"
        elif opcode.startswith(("SYNCS", "ARRIVES")):
            verb = "use"
        else:
            out = remote and opcode.startswith(("UBLKCP.G", "UTMASTG"))
            verb = "write" if out or opcode.startswith("ST") else "read"
        return verb + ("s" if self.singular(threads) else "")

    def singular(self, threads: Threads) -> bool:
        """Whether `named` is followed by a verb's singular."""
        steps = set(np.diff(threads).tolist())
        return len(threads) <= 1 or (len(threads) > 2 and len(steps) == 1 and steps != {1})

    def spot(self, address: int, index: int) -> tuple[str, str]:
        """Where an address lies, and how large that memory is, as an addition to the sentence."""
        if self.opcode(index).startswith(("LDL", "STL")):
            return f"byte {address} of the thread's local memory", ""
        if address < self.device_start:
            inner = address - self.shared_base
            size = f", which has {_many(self.shared_size, 'byte')}"
            return f"byte {inner} of shared memory", size
        return self.global_spot(address)

    def address(self, row: np.ndarray, index: int) -> int:
        """The address of a fault, in shared memory as the sentence counts: from the kernel's first
        byte, behind what the system keeps for itself."""
        address, kind = int(row[s.F_ADDRESS]), int(row[s.F_KIND])
        local = self.opcode(index).startswith(("LDL", "STL"))
        shared = kind in IN_SHARED and address < self.device_start and not local
        return address - self.shared_base if shared else address

    def global_spot(self, address: int) -> tuple[str, str]:
        """Where an address lies among the buffers: in one, or next to the nearest."""

        def distance(start: int, buffer: Buffer) -> int:
            return max(start - address, address - (start + buffer.array.nbytes) + 1, 0)

        if not self.buffers:
            return f"{address:#x}", ", and the kernel was given no buffer"
        start, buffer = min(self.buffers, key=lambda one: distance(*one))
        if distance(start, buffer) > NEAR:
            return f"{address:#x}", ", which is in none of the buffers"
        offset, size = address - start, buffer.array.nbytes
        if offset < 0:
            return f"{_many(-offset, 'byte')} before {buffer.name}", ""
        item = buffer.array.itemsize
        element = f" (element {offset // item})" if offset % item == 0 else ""
        length = f", which has {_many(size, 'byte')} ({_many(buffer.array.size, 'element')})"
        return f"byte {offset}{element} of {buffer.name}", length

    def take(self, number: int) -> None:
        """Look at the block of that number among the cluster's."""
        for state in self.states:
            if int(state.own[s.NUMBER]) == number:
                self.state = state

    # ---------------------------------------------------------------------------------- one access

    def access(self, row: np.ndarray, index: int, threads: Threads, who: str) -> str:
        """A sentence about an access that no memory allows."""
        kind, address, width = int(row[s.F_KIND]), int(row[s.F_ADDRESS]), int(row[s.F_OTHER])
        remote = address >= self.device_start
        does = f"{who} {self.does(index, threads, remote)} {_many(width, 'byte')}"
        if kind == s.OUTSIDE_CONSTANT:
            return f"{does} at {address:#x} of a constant bank, outside of it"
        if kind == s.OUTSIDE_LOCAL:
            return f"{does} at {address:#x}, outside their local memory (the stack)"
        if kind == s.OUTSIDE_GLOBAL:
            place, size = self.global_spot(address)
        else:
            place, size = self.spot(address, index)
        first = " from " if len(threads) <= 1 else ", the first from "
        if kind == s.MISALIGNED:
            return f"{does}{first}{place} on, which is not a multiple of {width}"
        return f"{does}{first}{place} on{size}"

    def collision(
        self, row: np.ndarray, index: int, threads: Threads, who: str, known: np.ndarray | None
    ) -> str:
        """A sentence about an access to shared memory that nothing orders with another one."""
        kind, warp = int(row[s.F_KIND]), int(row[s.F_OTHER])
        byte = f"byte {int(row[s.F_ADDRESS]) - self.shared_base} of shared memory"
        does = f"{who} {self.does(index, threads)} {byte}"
        if warp >= self.warps and kind == s.RACE:
            return does + self.asynchronous(warp)
        other, verb, it = f"warp {warp}", "accesses", ""
        if known is not None:
            other, verb, place = self.known(known)
            it = f" ({place})"
        if kind == s.IN_FLIGHT:
            return (
                f"{does} while the asynchronous copy of {other} into it{it} may be under way: missing "
                "is a barrier before the copy, or a wait for it and a barrier behind"
            )
        if kind == s.UNFENCED:
            return (
                f"{does} through the asynchronous proxy, which {other} has written{it}: no "
                "fence.proxy.async stands between"
            )
        if kind == s.UNINITIALISED:
            return f"{does} before {other} {verb} it{it}: no barrier stands between"
        too = " too" if verb.rstrip("s") == self.does(index, [0]).rstrip("s") else ""
        return f"{does}, which {other} {verb}{too}{it}: no barrier stands between"

    def between_blocks(self, row: np.ndarray, index: int, threads: Threads, who: str) -> str:
        """A sentence about global memory that two blocks use; the other one is told as in `marking.mark`."""
        address, other = int(row[s.F_ADDRESS]), int(row[s.F_OTHER])
        what = self.global_spot(address)[0] if address >= 0 else "global memory"
        whom = "other blocks have read"
        if other > 0:
            number, wrote = divmod(other, 2)
            place = _three(_place(number - 1, self.grid))
            whom = f"block {place} has {'written' if wrote else 'read'}"
        return (
            f"{who} {self.does(index, threads, address >= 0)} {what}, which {whom}: nothing says which of "
            "them comes first"
        )

    def asynchronous(self, actor: int) -> str:
        """The other side of a race, where it is no warp (see `tilewave.execution.machine.orders`)."""
        kind, warp = divmod(actor, self.warps)
        if kind == 1 + s.MATRICES:
            return (
                f", which products that warp {warp} issued may still read: missing is a wait for "
                "their group, or what tells of it"
            )
        if kind == 1 + s.BULKS:
            return (
                f", which a bulk store of warp {warp} may still read: missing is a wait for its "
                "group, or what tells of it"
            )
        return ", which a bulk copy writes: missing is a wait at the copy's mbarrier"

    def unwritten(
        self, row: np.ndarray, index: int, threads: Threads, who: str, known: np.ndarray | None
    ) -> str:
        """A sentence about a read of shared memory that nobody has written."""
        byte = f"byte {int(row[s.F_ADDRESS]) - self.shared_base} of shared memory"
        told = f"{who} {self.does(index, threads)} {byte}, which nothing in the block has written"
        if known is None:
            return told
        other, verb, place = self.known(known)
        return f"{told} yet; {other} {verb} it later ({place})"

    def known(self, row: np.ndarray) -> tuple[str, str, str]:
        """Threads, verb and instruction of the other access (see `tilewave.execution.machine.tracing`)."""
        members = self.lanes(int(row[tracing.K_WARP]), int(row[tracing.K_LANES]))
        place = int(row[tracing.K_PC])
        return self.named(members), self.does(place, members), self.at(place)

    def lanes(self, warp: int, mask: int) -> Threads:
        """Numbers of a warp's threads, those that the block has."""
        return [
            32 * warp + lane
            for lane in range(32)
            if mask >> lane & 1 and 32 * warp + lane < self.total
        ]

    # --------------------------------------------------------------------------- who waits for whom

    def groups(self) -> dict[tuple[int, int, int], Threads]:
        """Threads that have not ended by what they do, what they wait for, and where."""
        found: dict[tuple[int, int, int], Threads] = {}
        for warp in range(int(self.state.control[s.WARPS])):
            for pc, lanes, doing, waits in self.state.groups[warp].tolist():
                if doing == s.FREE:
                    continue
                what = waits if doing in (s.AT_BARRIER, s.AT_MBARRIER, s.AT_REGISTERS) else 0
                found.setdefault((doing, what, pc), []).extend(self.lanes(warp, lanes))
        return {key: sorted(threads) for key, threads in found.items()}

    def ended(self) -> Threads:
        """Threads of the block under way that have ended."""
        live = self.state.live
        return [
            number for number in range(self.total) if not int(live[number // 32]) >> number % 32 & 1
        ]

    def waiting(self, doing: int, waits: int, pc: int, threads: Threads) -> str:
        """What a group of threads does."""
        who = self.named(threads)
        wait = f"{who} wait{'s' if self.singular(threads) else ''}"
        if doing == s.READY:
            return f"{who} {'is' if self.singular(threads) else 'are'} at {self.at(pc)}"
        if doing == s.AT_BARRIER:
            count = int(self.state.expected[waits, 0])
            arrived = sum(int(lanes).bit_count() for lanes in self.state.arrived[waits].tolist())
            needs = (
                f"which counts {_many(count, 'thread')}, {arrived} have come"
                if count
                else "which needs all threads of the block that have not ended"
            )
            return f"{wait} at barrier {waits} ({self.at(pc)}), {needs}"
        if doing == s.AT_MBARRIER:
            return f"{wait} {self.mbarrier(waits)} ({self.at(pc)})"
        if doing == s.AT_CLUSTER:
            return f"{wait} at the cluster's barrier ({self.at(pc)})"
        if doing == s.AT_REGISTERS:
            return (
                f"{wait} for {waits} registers each ({self.at(pc)}), of which the block has "
                f"{int(self.state.own[s.POOL])} left for a warp's threads"
            )
        if doing == s.AT_PRODUCTS:
            return (
                f"{wait} for products that other warps of their warpgroup have not issued "
                f"({self.at(pc)})"
            )
        where = "for the other threads of their warp"
        barrier = self.barrier_behind(pc)
        if barrier >= 0:
            return (
                f"{wait} at the barrier {self.at(barrier)} {where}, which must come to the same one"
            )
        return f"{wait} {where} ({self.at(pc)})"

    def mbarrier(self, offset: int) -> str:
        """An mbarrier that somebody waits at, and what its phase lacks."""
        _, pending, awaited, _ = fields(views.table(self.state), offset)
        lacks = [_many(pending, "arrival")] if pending else []
        lacks += [_many(abs(awaited), "byte") + (" less" if awaited < 0 else "")] if awaited else []
        place = offset - self.shared_base
        return (
            f"at the mbarrier at byte {place} of shared memory, which lacks {' and '.join(lacks)}"
        )

    def barrier_behind(self, pc: int) -> int:
        """The barrier that a WARPSYNC belongs to: the next one in the same straight piece of code."""
        if not self.opcode(pc).startswith("WARPSYNC"):
            return -1
        for index in range(pc + 1, min(pc + 8, len(self.program.instructions))):
            opcode = self.opcode(index)
            if opcode.startswith("BAR."):
                return index
            if opcode.startswith(
                ("BRA", "EXIT", "RET", "CALL", "BSYNC", "BSSY", "BRX", "WARPSYNC")
            ):
                break
        return -1

    def parts(self, groups: dict[tuple[int, int, int], Threads]) -> list[str]:
        """What each group does, and how many threads have ended."""
        told = [self.waiting(*key, threads) for key, threads in list(groups.items())[:PARTS]]
        rest = sum(len(threads) for threads in list(groups.values())[PARTS:])
        if rest:
            told.append(f"{rest} more threads wait")
        ended = self.ended()
        if ended:
            told.append(f"{self.named(ended)} {'has' if self.singular(ended) else 'have'} ended")
        return told

    def deadlock(self) -> tuple[int, str, Threads]:
        """The instruction, sentence and threads of a block in which nobody can go on.

        Named are those that the fewest share their place with: they are the ones that went astray.
        """
        self.take(int(self.state.control[s.TAKEN]))
        groups = dict(sorted(self.groups().items(), key=lambda one: len(one[1])))
        at_barrier = [key for key in groups if key[0] == s.AT_BARRIER] or list(groups)
        place = _three(_place(int(self.state.control[s.TAKEN]), self.grid))
        told = "; ".join(self.parts(groups))
        for state in self.states:
            if int(state.own[s.NUMBER]) != int(state.control[s.TAKEN]) and state.live.any():
                self.state = state
                peer = _three(_place(int(state.own[s.NUMBER]), self.grid))
                told += f"; of block {peer} of its cluster {'; '.join(self.parts(self.groups()))}"
        index = at_barrier[0][2] if at_barrier else -1
        threads = groups[at_barrier[0]] if at_barrier else []
        barrier = self.barrier_behind(index) if index >= 0 else -1
        return (
            barrier if barrier >= 0 else index,
            f"no thread of block {place} can go on: {told}",
            threads,
        )

    def endless(self, instructions: int, index: int) -> str:
        """A sentence about a block that was still going when its time was over."""
        number = int(self.state.control[s.TAKEN])
        self.take(number)
        place = f"block {_three(_place(number, self.grid))}"
        groups = self.groups()
        ready = {key: one for key, one in groups.items() if key[0] == s.READY}
        first = {key: one for key, one in ready.items() if key[2] == index}
        ordered = {**first, **ready, **groups}
        told = "; ".join(self.parts(ordered))
        return f"{place} still runs after {instructions:,} warp instructions: {told}"


def _retraced(
    states: list[s.State], rows: list[np.ndarray], grid: tuple[int, ...], threads: int
) -> list[np.ndarray | None]:
    """The other access of each fault that has one, where executing its block again shows it.

    Counts and faults stay as they are; everything else of the state is used up.
    """
    found: list[np.ndarray | None] = [None] * len(rows)
    chosen = [
        index
        for index, row in enumerate(rows)
        if int(row[s.F_KIND]) in (s.RACE, s.IN_FLIGHT, s.UNINITIALISED, s.UNFENCED)
    ]
    if not chosen or len(states) > 1:  # of a cluster one block cannot be executed alone
        return found
    state = states[0]
    kept = [(array, array.copy()) for array in (state.counts, state.control, state.faults)]
    m = views.table(state)
    grain = int(state.control[s.GRAIN])
    for number in list(dict.fromkeys(int(rows[index][s.F_BLOCK]) for index in chosen))[:RETRACED]:
        here = [index for index in chosen if int(rows[index][s.F_BLOCK]) == number]
        wanted = np.zeros((len(here), 4), np.int64)
        for one, index in zip(wanted, here):
            row = rows[index]
            one[:] = (
                row[s.F_ROW], row[s.F_WARP], int(row[s.F_ADDRESS]) >> grain,
                int(row[s.F_KIND]) == s.UNINITIALISED,
            )  # fmt: skip
        for index, known in zip(here, tracing.others(m, wanted, number, grid, threads)):
            if known[tracing.K_STATE] == tracing.FOUND:
                found[index] = known
    for array, copy in kept:
        array[:] = copy
    return found


def explained(
    program: Program,
    states: list[s.State],
    grid: tuple[int, ...],
    block: tuple[int, ...],
    buffers: list[tuple[int, Buffer]],
) -> tuple[Fault, ...]:
    """The faults that the interpreter noted, in the order in which they happened.

    Uses up the state: blocks with a race are executed again.
    """
    state = states[0]
    words = _Words(program, states, grid, block, buffers)
    rows = [row.copy() for row in state.faults[: int(state.control[s.FAULT_COUNT])]]
    # What threads wait for is read first: executing a block again changes it.
    told = [_ending(words, row) for row in rows]
    others = _retraced(states, rows, grid, words.total)
    found = []
    for row, end, known in zip(rows, told, others):
        kind = KINDS[int(row[s.F_KIND])]
        place = _place(int(row[s.F_BLOCK]), grid)
        if end is not None:
            index, message, threads = end
        else:
            index = int(row[s.F_ROW])
            threads = words.lanes(int(row[s.F_WARP]), int(row[s.F_LANES]))
            kind, message = _told(words, row, index, threads, _three(place), known)
        found.append(
            Fault(
                kind,
                index,
                message,
                [{"block": place, "thread": _place(one, block)} for one in threads],
                [words.address(row, index)] if int(row[s.F_ADDRESS]) >= 0 else [],
            )
        )
    return tuple(found)


def _ending(words: _Words, row: np.ndarray) -> tuple[int, str, Threads] | None:
    """Instruction, sentence and threads of a fault that ended a block without an instruction's
    doing; None for others."""
    kind, index = int(row[s.F_KIND]), int(row[s.F_ROW])
    if kind == s.NEVER_REACHED:
        return words.deadlock()
    threads = words.lanes(int(row[s.F_WARP]), int(row[s.F_LANES]))
    if kind == s.OUT_OF_BUDGET:
        return index, words.endless(int(row[s.F_OTHER]), index), threads
    if kind == s.ASSERTED:
        words.take(int(row[s.F_BLOCK]))
        place = _three(_place(int(row[s.F_BLOCK]), words.grid))
        told = assertion(words.state, int(row[s.F_WARP]), threads[0] % 32)
        return index, f"{told}, for {words.named(threads)} of block {place}", threads
    return None


def _told(
    words: _Words,
    row: np.ndarray,
    index: int,
    threads: Threads,
    place: str,
    known: np.ndarray | None,
) -> tuple[str, str]:
    """Kind and sentence of a fault that an instruction of one warp made."""
    number = int(row[s.F_KIND])
    who = f"{words.named(threads)} of block {place}" if threads else f"block {place}"
    if number in (s.RACE, s.IN_FLIGHT, s.UNFENCED):
        return KINDS[number], words.collision(row, index, threads, who, known)
    if number == s.UNINITIALISED:
        # Somebody writes it after all, and nothing makes the reader wait: it met the word early.
        if known is not None and not known[tracing.K_ORDERED]:
            return KINDS[s.RACE], words.collision(row, index, threads, who, known)
        return KINDS[number], words.unwritten(row, index, threads, who, known)
    if number == s.UNORDERED:
        return KINDS[number], words.between_blocks(row, index, threads, who)
    other, address = int(row[s.F_OTHER]), int(row[s.F_ADDRESS])
    if number == s.NOT_KNOWN and index in words.program.unsupported:
        return KINDS[number], f"{words.program.unsupported[index]} is not known"
    if number not in SENTENCES:
        return KINDS[number], words.access(row, index, threads, who)
    return KINDS[number], SENTENCES[number].format(
        who=who, place=place, other=other, address=address, block=address >> 24,
        byte=f"byte {address - words.shared_base} of shared memory",
        function=words.program.system_calls[other] if number == s.SYSTEM_CALL else "",
        ended=_three(_place(other, words.grid)),
        dimensions=_many(other, "dimension"), arrivals=_many(other, "arrival"),
    )  # fmt: skip
