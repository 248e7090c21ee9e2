"""A stand-in for `tilewave.execution.machine`: numpy computes the kernel's result, counts are constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

LISTING = Path(__file__).with_suffix(".sass").read_text()
CODE = [
    (int(row.split("*/")[0].strip()[2:], 16), row.split("*/")[1].strip(" ;"))
    for row in LISTING.splitlines()
    if row.strip().startswith("/*")
]
WARPS = 4
# Column -> value of each instruction of CODE, at one warp instruction each.
COUNTS = {
    "shared_requests": (0, 0, 1, 1, 1, 0, 0, 0, 0, 0),
    "shared_transactions": (0, 0, 1, 2, 4, 0, 0, 0, 0, 0),
    "shared_wavefronts": (0, 0, 1, 4, 15, 0, 0, 0, 0, 0),
    "shared_ideal": (0, 0, 1, 2, 4, 0, 0, 0, 0, 0),
    "shared_conflicts": (0, 0, 0, 2, 11, 0, 0, 0, 0, 0),
    "shared_attributed": (0, 0, 1, 3, 15, 0, 0, 0, 0, 0),
    "global_requests": (0, 1, 0, 0, 1, 0, 0, 0, 1, 0),
    "global_sectors": (0, 4, 0, 0, 20, 0, 0, 0, 4, 0),
    "global_sectors_ideal": (0, 4, 0, 0, 16, 0, 0, 0, 4, 0),
    "barriers": (0,) * 10,
}


class Unsupported(Exception):
    def __init__(self, opcode: str, address: int = -1, detail: str = "") -> None:
        self.opcode, self.address, self.detail = opcode, address, detail
        super().__init__(opcode)


class BadLaunch(ValueError):
    pass


@dataclass
class Buffer:
    name: str
    array: np.ndarray
    written: np.ndarray | None = None


@dataclass
class Limits:
    instructions: int = 0
    seconds: float = 1.0
    working: int = 0
    reverse: bool = False


@dataclass
class Fault:
    kind: str
    index: int = 2
    message: str = "both touch it"
    threads: tuple[Mapping[str, Any], ...] = (
        {"block": [0, 0, 0], "thread": [33, 0, 0]},
        {"block": [0, 0, 0], "thread": [1, 0, 0]},
    )
    addresses: tuple[int, ...] = (0x410,)
    other: int = -1
    count: int = 1


def counts() -> dict[str, np.ndarray]:
    ones = np.full(len(CODE), WARPS, np.int64)
    columns = {"executed": ones, "threads_executed": 32 * ones, "threads_on": 32 * ones}
    return columns | {name: WARPS * np.array(row, np.int64) for name, row in COUNTS.items()}


def product(call: Mapping[str, Any]) -> None:
    """Compute C = alpha A B + beta C of row-major f32 matrices."""
    arguments = dict(zip(call["names"], call["arguments"]))
    m, n, k = (int(arguments[name]) for name in "mnk")
    a, b = arguments["a"].array.reshape(m, k), arguments["b"].array.reshape(k, n)
    c = arguments["c"].array.reshape(m, n)
    alpha, beta = float(arguments["alpha"]), float(arguments["beta"])
    result = alpha * (a.astype(np.float64) @ b.astype(np.float64))
    c[:] = result + beta * c if beta else result


@dataclass
class Machine:
    """An engine (see `execution.engine`): ``act`` does the kernel's work, ``faults`` are reported."""

    names: tuple[str, ...] = ("a", "b", "c", "m", "n", "k", "alpha", "beta")
    act: Callable[[Mapping[str, Any]], None] = product
    faults: tuple[Fault, ...] = ()
    endless: bool = False
    printed: tuple[str, ...] = ()
    refuses: Exception | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    Buffer = Buffer
    Limits = Limits
    Unsupported = Unsupported
    BadLaunch = BadLaunch

    def load(self, cubin: bytes, entry: str, listing: str) -> Any:
        if isinstance(self.refuses, Unsupported):
            raise self.refuses
        instructions = tuple(
            SimpleNamespace(address=address, opcode=text.split()[0], text=text)
            for address, text in CODE
        )
        facts = {"arch": 90, "registers": 40, "shared_size": 5120}
        image = SimpleNamespace(parameter_sizes=None, globals_={}, shared_alignment=1, **facts)
        return SimpleNamespace(instructions=instructions, image=image)

    def execute(self, program: Any, **call: Any) -> Any:
        if self.refuses is not None:
            raise self.refuses
        self.calls.append(call)
        self.act(call | {"names": self.names})
        counted = counts()
        if self.endless:
            counted["executed"] += call["limits"].instructions
        ended = {"faults": self.faults, "counts": counted, "seconds": 0.5, "blocks": 1}
        prints = {"printed": self.printed, "prints": 2 * len(self.printed)}
        return SimpleNamespace(**ended, **prints)

    def predicted(self, program: Any, gpu: Any, footprint: float, **launch: Any) -> Any:
        stalls = np.zeros((len(program.instructions), 2))
        stalls[2:4, 1] = 3, 1
        return SimpleNamespace(cycles=1980.0, stalls=stalls, reasons=("issue", "a busy pipe"))


def listing(entry: str, file: str, first: int = 1, second: int = 2, third: int = 3) -> str:
    return LISTING.format(entry=entry, file=file, first=first, second=second, third=third)
