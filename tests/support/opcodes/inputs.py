"""Numbers for the fixtures, the same on every computer and with every version of NumPy.
Only PCG64's raw words are drawn (NEP 19 fixes that stream). The arithmetic on them is exact or correctly
rounded."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import yaml

from opcodes import manifest
from opcodes.manifest import Kernel

Words = np.ndarray  # uint32


class Source:
    """Random numbers of one operand of one kernel."""

    def __init__(self, name: str) -> None:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
        self._raw = np.random.PCG64(seed)

    def raw(self, count: int) -> np.ndarray:
        return np.asarray(self._raw.random_raw(count), np.uint64)

    def words(self, count: int) -> Words:
        return (self.raw(count) >> np.uint64(32)).astype(np.uint32)

    def below(self, limit: int, count: int) -> np.ndarray:
        """Return int64 integers 0 .. limit - 1 (a remainder's bias does not matter here)."""
        return (self.raw(count) >> np.uint64(11)).astype(np.int64) % limit

    def unit(self, count: int) -> np.ndarray:
        """Return multiples of 2^-53 in [0, 1)."""
        return (self.raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self, count: int) -> np.ndarray:
        """Return nearly normal numbers: the sum of twelve uniform numbers, less 6."""
        return self.unit(12 * count).reshape(12, count).sum(0) - 6.0

    def choose(self, values: np.ndarray, count: int) -> np.ndarray:
        return values[self.below(len(values), count)]


def _mixed(source: Source, count: int, *parts: tuple[int, np.ndarray]) -> np.ndarray:
    """Mix arrays of `count` elements element by element, with weights in 1/16."""
    order = np.concatenate([np.full(weight, i) for i, (weight, _) in enumerate(parts)])
    which = order[source.below(len(order), count)]
    return np.choose(which, [values for _, values in parts])


EDGES = {
    name: np.array([int(word, 16) for word in words.split()], f"u{8 if '64' in name else 4}")
    for name, words in yaml.safe_load((manifest.HERE / "edges.yaml").read_text()).items()
}
"""Limits and patterns of each type, uint32 or uint64."""


@dataclass(frozen=True)
class Format:
    """A floating-point format: its words, the bits of its mantissa, its exponents' bias, its edges."""

    kind: type[np.unsignedinteger]
    mantissa: int
    bias: int
    edges: np.ndarray

    @property
    def sign(self) -> int:
        return 2 * (self.bias + 1) << self.mantissa

    def raw(self, source: Source, count: int) -> np.ndarray:
        words = source.raw(count) if self.kind is np.uint64 else source.words(count)
        return words & self.kind(2 * self.sign - 1)

    def sized(self, source: Source, count: int, low: int, high: int) -> np.ndarray:
        """Return numbers with random mantissas and exponents low .. high - 1, as words."""
        exponent = (source.below(high - low, count) + self.bias + low).astype(self.kind)
        kept = self.kind(self.sign | (1 << self.mantissa) - 1)
        return self.raw(source, count) & kept | exponent << self.kind(self.mantissa)

    def signed(self, source: Source, count: int) -> np.ndarray:
        """Return edges, half of them with the sign bit set."""
        values = source.choose(self.edges, count)
        return values ^ source.below(2, count).astype(self.kind) * self.kind(self.sign)

    def any(self, size: int) -> Callable[[Source, int], np.ndarray]:
        """Return a source of edges, numbers of exponents -size .. size - 1, and any bits."""

        def drawn(source: Source, count: int) -> np.ndarray:
            edges, sized = self.signed(source, count), self.sized(source, count, -size, size)
            return _mixed(source, count, (8, edges), (4, sized), (4, self.raw(source, count)))

        return drawn

    def integers(self, real: type[np.floating]) -> Callable[[Source, int], np.ndarray]:
        """Return a source of numbers around the limits of the integer types, and of halves."""

        def step(values: np.ndarray, way: int) -> np.ndarray:
            return np.nextafter(values.astype(real), real(way * np.inf)).astype(np.float64)

        def drawn(source: Source, count: int) -> np.ndarray:
            halves = ((source.below(4001, count) - 2000) * 0.5).astype(real)
            sized = self.sized(source, count, -3, 66).view(real)
            edges = self.signed(source, count).view(real)
            limits = _limits(source, count, step).astype(real)
            parts = (6, limits), (3, halves), (5, sized), (2, edges)
            return _mixed(source, count, *parts).view(self.kind)

        return drawn


HALF = Format(np.uint32, 10, 15, EDGES["f16"])
SINGLE = Format(np.uint32, 23, 127, EDGES["f32"])
DOUBLE = Format(np.uint64, 52, 1023, EDGES["f64"])


def _shift(source: Source, count: int) -> Words:
    few = source.below(71, count).astype(np.uint32)
    edges = source.choose(EDGES["shifts"], count)
    return _mixed(source, count, (12, few), (3, edges), (1, source.words(count)))


def _integer(source: Source, count: int) -> Words:
    size = source.below(22, count)
    value = source.below(1 << 22, count) >> size
    return np.where(source.below(2, count) == 1, -value, value).astype(np.int32).view(np.uint32)


def _f32angle(source: Source, count: int) -> Words:
    turns = (source.below(1601, count) - 800) * (np.pi / 4)
    sized = SINGLE.sized(source, count, -12, 10).view(np.float32)
    return _mixed(source, count, (6, turns.astype(np.float32)), (10, sized)).view(np.uint32)


def _limits(
    source: Source, count: int, step: Callable[[np.ndarray, int], np.ndarray]
) -> np.ndarray:
    """Return float64 around powers of two up to 2^65; `step` gives the neighbour in the format."""
    power = 2.0 ** source.choose(np.array([0, 3, 7, 8, 15, 16, 23, 31, 32, 52, 63, 64, 65]), count)
    shifted = power + source.choose(np.array([0, -1, 1, -0.5, 0.5]), count)
    near = np.choose(source.below(3, count), [shifted, step(shifted, 1), step(shifted, -1)])
    return np.where(source.below(2, count) == 1, -near, near)


def _pair(half: Callable[[Source, int], Words]) -> Callable[[Source, int], Words]:
    """Return a source of two 16-bit numbers in a word."""

    def both(source: Source, count: int) -> Words:
        low, high = half(source, 2 * count).reshape(2, count)
        return low & np.uint32(0xFFFF) | high << np.uint32(16)

    return both


def _f32ramp(source: Source, count: int) -> Words:
    """Return floats of both signs and all exponents: a random one in each of equal steps."""
    step = 0x7F800000 // (count // 2)
    at = np.arange(count // 2) * step + source.below(step, count // 2)
    return np.concatenate([at, at + (1 << 31)]).astype(np.uint32)


# Fragments: small integers, normally distributed numbers, numbers of any size.


def _integers(source: Source, count: int) -> np.ndarray:
    return (source.below(17, count) - 8).astype(np.float64)


def _halves(numbers: Callable[[Source, int], np.ndarray]) -> Callable[[Source, int], Words]:
    return _pair(lambda s, n: numbers(s, n).astype(np.float16).view(np.uint16).astype(np.uint32))


def _bhalves(numbers: Callable[[Source, int], np.ndarray]) -> Callable[[Source, int], Words]:
    return _pair(lambda s, n: numbers(s, n).astype(np.float32).view(np.uint32) >> np.uint32(16))


def _rarely(source: Source, values: np.ndarray, special: np.ndarray) -> np.ndarray:
    rare = source.below(256, len(values)) == 0
    return np.where(rare, source.choose(special, len(values)), values)


def _wild(form: Format, low: int, high: int, special: np.ndarray) -> Callable[[Source, int], Words]:
    return lambda s, n: _rarely(s, form.sized(s, n, low, high), special)


SPECIAL16 = np.array([0x7C00, 0xFC00, 0x7E00, 0x0001, 0x83FF, 0x7BFF], np.uint32)
SPECIAL32 = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x807FFFFF, 0x7F7FFFFF], np.uint32)
SPECIAL64 = np.array([0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 1, 0x7FEFFFFFFFFFFFFF], np.uint64)
_f32wild = _wild(SINGLE, -14, 14, SPECIAL32)


def _in_fours(values: np.ndarray) -> Words:
    """Return bytes, four in a word."""
    return np.ascontiguousarray(values.astype(np.uint8)).view(np.uint32)


def _e4m3_integers(source: Source, count: int) -> Words:
    """Return -8 .. 8 as bytes with four bits of exponent (bias 7) and three of mantissa."""
    sizes = np.array([0, 0x38, 0x40, 0x44, 0x48, 0x4A, 0x4C, 0x4E, 0x50], np.uint32)
    size = source.choose(sizes, 4 * count)
    return _in_fours(size | source.below(2, 4 * count).astype(np.uint32) << 7)


def _fp8near(source: Source, count: int) -> Words:
    exponent = (source.below(7, 4 * count) + 4).astype(np.uint32)
    return _in_fours(source.words(4 * count) & np.uint32(0x87) | exponent << np.uint32(3))


def _fp8wild(source: Source, count: int) -> Words:
    """Return any bytes; infinities and NaNs of either type are rare."""
    value = source.words(4 * count) & np.uint32(0xFF)
    value = np.where((value & 0x7C) == 0x7C, value & np.uint32(0xBF), value)
    special = np.array([0x7C, 0xFC, 0x7F, 0x00, 0x01, 0x80], np.uint32)
    return _in_fours(_rarely(source, _rarely(source, value, special), value))


KINDS: dict[str, Callable[[Source, int], np.ndarray]] = {
    "bits": lambda s, n: _mixed(s, n, (8, s.choose(EDGES["bits"], n)), (8, s.words(n))),
    "bits64": lambda s, n: _mixed(s, n, (8, s.choose(EDGES["bits64"], n)), (8, s.raw(n))),
    "shift": _shift,
    "small": lambda s, n: s.below(256, n).astype(np.uint32),
    "integer": _integer,
    "f32": SINGLE.any(12),
    "f32near": lambda s, n: SINGLE.sized(s, n, -4, 5),
    "f32angle": _f32angle,
    "f32integer": SINGLE.integers(np.float32),
    "f32ramp": _f32ramp,
    "f64": DOUBLE.any(12),
    "f64integer": DOUBLE.integers(np.float64),
    "f16x2": _pair(HALF.any(6)),
    "bf16x2": _pair(lambda s, n: SINGLE.any(6)(s, n) >> 16),
    "f16x2near": _pair(lambda s, n: HALF.sized(s, n, -3, 4)),
    "bf16x2near": _pair(lambda s, n: SINGLE.sized(s, n, -3, 4) >> np.uint32(16)),
    "f16exact": _halves(_integers),
    "f16near": _halves(Source.normal),
    "f16wild": _pair(_wild(HALF, -14, 10, SPECIAL16)),
    "bf16exact": _bhalves(_integers),
    "bf16near": _bhalves(Source.normal),
    "bf16wild": _pair(lambda s, n: _f32wild(s, n) >> np.uint32(16)),
    "fp8exact": _e4m3_integers,
    "fp8near": _fp8near,
    "fp8wild": _fp8wild,
    "f32exact": lambda s, n: _integers(s, n).astype(np.float32).view(np.uint32),
    "f32normal": lambda s, n: s.normal(n).astype(np.float32).view(np.uint32),
    "f32wild": _f32wild,
    "f64exact": lambda s, n: _integers(s, n).view(np.uint64),
    "f64normal": lambda s, n: s.normal(n).view(np.uint64),
    "f64wild": _wild(DOUBLE, -30, 30, SPECIAL64),
}
"""Kind -> function of a source and a count that gives uint32 or uint64."""


def operand(kernel: Kernel, which: int, threads: int) -> np.ndarray:
    """Return an operand, uint32 or uint64 of shape (threads, numbers a thread reads)."""
    kind = kernel.kinds[which]
    match = re.fullmatch(r"(\w+?)(?:_(\d))?", kind)
    assert match is not None
    each = int(match[2] or 1)
    values = KINDS[match[1]](Source(f"{kernel.name} {'abc'[which]}"), threads * each)
    return np.ascontiguousarray(values).reshape(threads, each)


def generate_inputs(
    kernel: Kernel, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the operands a, b, c as flat uint32 arrays; 64-bit numbers are two words, the low one first.
    Operands of the same kind are equal in one thread of eight, as cases for comparisons."""
    count = threads or kernel.threads
    a, b, c = (operand(kernel, which, count) for which in range(3))
    equal = Source(f"{kernel.name} equal").below(24, count)[:, None]
    of_a, of_b, of_c = kernel.kinds
    b = np.where(equal == 0, a, b) if of_a == of_b else b
    c = np.where(equal == 1, a, c) if of_a == of_c else c
    c = np.where(equal == 2, b, c) if of_b == of_c else c
    return tuple(np.ascontiguousarray(x).reshape(-1).view(np.uint32) for x in (a, b, c))  # type: ignore[return-value]
