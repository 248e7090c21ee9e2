"""A launch of a kernel in whole numbers: geometry, scratch memory and tensor maps."""

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from typing_extensions import TypeAliasType

from tilewave.kernel.expressions import Names
from tilewave.theory import architectures
from tilewave.theory.dtypes import SIZES
from tilewave.theory.occupancy import REGISTERS, WARP, block_registers
from tilewave.theory.tensor_map_limits import broken

Provider = Literal["nvrtc", "cublaslt", "cpu"]
"""Launcher of a kernel: the driver (code from NVRTC), the vendor's library, or Python on the host."""
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
BLOCK_LIMIT = 1024
"""Most threads of a block. These limits hold for compute capability 5.0 to 12.x (CUDA programming guide,
technical specifications per compute capability)."""


@dataclass(frozen=True)
class Typed:
    """A struct's member with a type, one of `MEMBERS`, such as a 64-bit stride."""

    dtype: str
    value: Any  # a name, an expression or a number


MEMBERS = ("i8", "i16", "i32", "i64", "f16", "f32", "f64")
Argument = TypeAliasType(
    "Argument", "str | int | float | bool | Typed | tuple[Argument, ...] | None"
)
"""A kernel's argument: a name, a number, None for a null pointer, or the members of a struct by value."""


def leaves(arguments: Iterable[Argument]) -> Iterator[str | int | float | None]:
    """Yield the names and numbers of these arguments, also those in structs."""
    for item in arguments:
        if isinstance(item, tuple):
            yield from leaves(item)
        else:
            yield item.value if isinstance(item, Typed) else item


CLUSTER_LIMIT = 16
"""Most blocks of a cluster on Hopper; over 8 are not portable (CUDA programming guide, thread block clusters)."""


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel needs beside its operands; ``zeroed`` before and after each launch."""

    name: str
    nbytes: int
    zeroed: bool


@dataclass(frozen=True)
class MapPlan:
    """A tensor map of one launch, the contiguous dimension first; sizes and box in elements. strides: bytes
    along each dimension but the first, empty without gaps. element_strides: of the box, empty if 1."""

    name: str
    of: str
    dtype: str
    sizes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    l2: int
    strides: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()

    @property
    def pitches(self) -> tuple[int, ...]:
        """Strides in bytes, also of an array without gaps."""
        if self.strides:
            return self.strides
        rows = itertools.accumulate(self.sizes[:-1], operator.mul)
        return tuple(size * SIZES[self.dtype] for size in rows)

    @property
    def steps(self) -> tuple[int, ...]:
        """Element strides, also where each is 1."""
        return self.element_strides or (1,) * len(self.sizes)

    def broken_rule(self) -> str:
        """Return the rule of cuTensorMapEncodeTiled that the map breaks; empty if it breaks none."""
        element = SIZES[self.dtype]
        rule = broken(element, self.sizes, self.box, self.steps, self.pitches, self.swizzle)
        return rule and f"{self.name}: {rule}"

    def document(self) -> dict[str, Any]:
        """Return the map as a job's key has it, under the map's name."""
        document = {name: getattr(self, name) for name in ("of", "dtype", "swizzle", "l2")}
        document |= {"sizes": list(self.sizes), "box": list(self.box)}
        if len(self.sizes) == 2:
            document["pitch"] = self.pitches[0]
        else:
            document["strides"] = list(self.pitches)
        return document | ({"element_strides": list(self.steps)} if self.element_strides else {})


@dataclass(frozen=True)
class Step:
    """A launch of a series: kernel, arguments and geometry."""

    entry: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cluster: tuple[int, int, int] | None


@dataclass(frozen=True)
class LaunchPlan:
    """Geometry of one launch.

    shared_bytes: dynamic shared memory of a block. grid: blocks, with a cluster too. cluster: None where a block stands
    alone. programmatic: it, or each launch of a series, may begin before the one before it ends (CUDA programming
    guide, programmatic dependent launch). The kernel waits itself. cooperative: all blocks of it, or of each launch of
    a series, are resident at a time, for grid.sync(). series: all launches of a case of several, in their order. The
    geometry is then that of the leading one. They share scratch and tensor maps."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    tile: tuple[int, ...] | None
    working_blocks: int
    scratch: tuple[Scratch, ...] = ()
    cluster: tuple[int, int, int] | None = None
    tensor_maps: tuple[MapPlan, ...] = ()
    programmatic: bool = False
    cooperative: bool = False
    series: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Self, ...]:
        """Launches of the case in their order, each as a plan."""
        return tuple(map(self._alone, self.series)) or (self,)

    def _alone(self, step: Step) -> Self:
        names = set(leaves(step.arguments))
        maps = tuple(map_plan for map_plan in self.tensor_maps if map_plan.name in names)
        geometry: dict[str, Any] = {**vars(step)}
        del geometry["entry"], geometry["arguments"]
        return replace(self, **geometry, tensor_maps=maps, series=())

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def scratch_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in self.scratch)

    @property
    def cluster_blocks(self) -> int:
        return math.prod(self.cluster or ())

    def exceeded_limit(self, device: Names) -> str:
        """Return the limit of CUDA that the launch exceeds (programming guide, compute capabilities), or "".
        Compiled code has further limits: `exceeded_code_limit`. ptxas refuses too many arguments of a ``__global__``
        function: over 4,096 bytes before compute capability 7.0 or CUDA 12.1, over 32,764 since."""
        reasons = [step._exceeded_limit(device) for step in self.steps]
        if self.series:
            reasons = [why and f"{step.entry}: {why}" for step, why in zip(self.series, reasons)]
        return next(filter(None, reasons), "")

    def _exceeded_limit(self, device: Names) -> str:
        limits = {"grid": (self.grid, GRID_LIMITS), "block": (self.block, BLOCK_LIMITS)}
        for name, sides in limits.items():
            for axis, size, limit in zip("xyz", *sides):
                if size > limit:
                    return f"{name} {axis} = {size} exceeds {limit}"
        threads = self.block[0] * self.block[1] * self.block[2]
        if threads > BLOCK_LIMIT:
            return f"a block of {threads} threads exceeds {BLOCK_LIMIT}"
        if self.shared_bytes < 0:
            return f"{self.shared_bytes} bytes of shared memory are less than 0"
        most = _most_shared(device)
        if most is not None and self.shared_bytes > most:
            return f"{self.shared_bytes} bytes of shared memory exceed this device's {most}"
        for axis, size, blocks in zip("xyz", self.grid, self.cluster or (1, 1, 1)):
            if size % blocks:
                return f"grid {axis} = {size} is not a multiple of {blocks}, the cluster's"
        together = math.prod(self.cluster or ())
        if together > CLUSTER_LIMIT:
            return f"a cluster of {together} blocks exceeds {CLUSTER_LIMIT}"
        return next(filter(None, (map_plan.broken_rule() for map_plan in self.tensor_maps)), "")

    def exceeded_code_limit(
        self, used: Mapping[str, Mapping[str, int]], entries: Sequence[str], device: Names
    ) -> str:
        """Return the limit that a block of the code exceeds, else empty. used: each kernel's registers and static bytes."""
        for entry, step in zip(entries, self.steps):
            before = f"{entry}: " if self.series else ""
            resources = used.get(entry, {})
            registers = resources.get("registers", 0)
            static = resources.get("static_shared_bytes", 0)
            warps = -(-math.prod(step.block) // WARP)
            if block_registers(warps, registers) > REGISTERS:
                return f"{before}{registers} registers in each of {warps} warps exceed {REGISTERS} of a block"
            most = _most_shared(device)
            if most is not None and static + step.shared_bytes > most:
                total = f"{static} + {step.shared_bytes} bytes of shared memory"
                return f"{before}{total} exceed this device's {most}"
        return ""


def _most_shared(device: Names) -> int | None:
    """Return the most bytes of shared memory of a block; None for an unknown device."""
    limit: int | None = device.get("shared_per_block_optin")
    row = architectures.ARCHITECTURES.get(device.get("arch", 0))  # its neighbours may have more
    return limit if limit is not None or row is None else row.shared_per_block
