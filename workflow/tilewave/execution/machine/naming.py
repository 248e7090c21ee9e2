"""Names in messages: threads, blocks, instructions, addresses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewave.execution.machine import state as s
from tilewave.execution.machine.arguments import Buffer
from tilewave.execution.machine.program import Program

MOST = 4  # threads named one by one
LONGER = 15
NEAR = 1 << 20  # bytes: an address farther from a buffer is not described by it
ORDINALS = {2: "second", 3: "third"}


Place = list[int]
Threads = list[int]  # by number in the block


def _coordinates(number: int, sizes: Sequence[int]) -> Place:
    return [number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])]


def _triple(place: Sequence[int]) -> str:
    return "(" + ", ".join(str(value) for value in place) + ")"


def counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


@dataclass
class Names:
    """Names of the threads, blocks, instructions and addresses of one launch. buffers: with their device addresses."""

    program: Program
    states: list[s.State]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    buffers: list[tuple[int, Buffer]]

    def __post_init__(self) -> None:
        self.state = state = self.states[0]
        self.total = int(np.prod(self.block))
        self.warps = int(state.control[s.WARPS])
        self.shared_base = int(state.control[s.SHARED_BASE])
        self.shared_size = int(state.control[s.SHARED_END]) - self.shared_base
        self.device_start = int(state.origin[0])

    def place(self, number: int) -> str:
        """Name a block by its place in the grid."""
        return _triple(_coordinates(number, self.grid))

    def members(self, number: int, threads: Threads) -> list[dict[str, Place]]:
        """Return threads of a block as a fault has them."""
        place = _coordinates(number, self.grid)
        return [{"block": place, "thread": _coordinates(thread, self.block)} for thread in threads]

    def named(self, threads: Threads) -> str:
        """Name threads of a block: a few one by one, more as a range or pattern."""
        names = [_triple(_coordinates(number, self.block)) for number in threads]
        if not names:
            return "no thread"
        if len(names) <= 2:
            return f"thread{'s' * (len(names) - 1)} {' and '.join(names)}"
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
        """Name an instruction by opcode and SASS address."""
        instruction = self.program.instructions[index]
        return f"{instruction.opcode} at SASS address {instruction.address:#06x}"

    def opcode(self, index: int) -> str:
        return self.program.instructions[index].opcode if index >= 0 else ""

    def does(self, index: int, threads: Threads, remote: bool = False) -> str:
        """Return the verb for a memory access; ``remote``: the global side of a copy."""
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
        """Return whether `named` needs a singular verb."""
        steps = set(np.diff(threads).tolist())
        return len(threads) <= 1 or (len(threads) > 2 and len(steps) == 1 and steps != {1})

    def spot(self, address: int, index: int) -> tuple[str, str]:
        """Describe an address, and the size of that memory as an addition to the sentence."""
        if self.opcode(index).startswith(("LDL", "STL")):
            return f"byte {address} of the thread's local memory", ""
        if address < self.device_start:
            inner = address - self.shared_base
            size = f", which has {counted(self.shared_size, 'byte')}"
            return f"byte {inner} of shared memory", size
        return self.global_spot(address)

    def global_spot(self, address: int) -> tuple[str, str]:
        """Locate an address in a buffer, or next to the nearest one."""

        def distance(start: int, buffer: Buffer) -> int:  # overruns are longer than what is before
            return max(LONGER * (start - address), address - (start + buffer.array.nbytes) + 1, 0)

        # A section of the module is near only by chance.
        near = [of for of in self.buffers if of[1].name[:1] != "." or not distance(*of)]
        if not near:
            return f"{address:#x}", ", and the kernel has no buffers"
        start, buffer = min(near, key=lambda entry: distance(*entry))
        if distance(start, buffer) > NEAR:
            return f"{address:#x}", ", which is in none of the buffers"
        offset, size = address - start, buffer.array.nbytes
        if offset < 0:
            return f"an address {counted(-offset, 'byte')} before {buffer.name}", ""
        item = buffer.array.itemsize
        element = f" (element {offset // item})" if offset % item == 0 else ""
        length = f", which has {counted(size, 'byte')} ({counted(buffer.array.size, 'element')})"
        name = buffer.name if buffer.name[0] != "." else "the file's __device__ variables"
        return f"byte {offset}{element} of {name}", length

    def take(self, number: int) -> None:
        """Select the block of that number in the cluster."""
        for state in self.states:
            if int(state.block_control[s.NUMBER]) == number:
                self.state = state

    def lanes(self, warp: int, mask: int) -> Threads:
        """Return the numbers of a warp's threads that exist in the block."""
        numbers = range(32 * warp, min(32 * warp + 32, self.total))
        return [number for lane, number in enumerate(numbers) if mask >> lane & 1]
