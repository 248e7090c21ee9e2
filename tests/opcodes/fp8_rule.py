"""How Hopper may sum FP8, with the numbers of the rule left open, and which of them fit a recording.

    PYTHONPATH=workflow python tests/opcodes/fp8_rule.py FULL.npz

prints for each fixture of sm_90a/qgmma.cu the share of sums that each rule gives bit by bit; FULL.npz is what
``record.py --full`` wrote. `tilewave.machine.fp8` says the rule in words; here it is in f64, by matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opcodes import harness, manifest
from tilewave.dtypes import E4M3, E5M2

KINDS = {"e4m3": (E4M3, -6), "e5m2": (E5M2, -14)}
"""The type, and the exponent of its denormals."""
NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF


@dataclass(frozen=True)
class Rule:
    """places: kept behind the point of the largest exponent. digits: of the mantissa of an f32 sum. step: of
    the depth added at once."""

    places: int = 13
    digits: int = 13
    step: int = 32


def _exponents(numbers: np.ndarray, least: int) -> np.ndarray:
    """Those of numbers as the tensor cores see them; of zeros one that is below all others."""
    found = np.maximum(np.frexp(np.where(np.isfinite(numbers), numbers, 0))[1] - 1, least)
    return np.where(numbers == 0, -10_000, found)


def _cut(values: np.ndarray, unit: np.ndarray) -> np.ndarray:
    return np.trunc(values / unit) * unit


def sums(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: Sequence[str], rule: Rule
) -> np.ndarray:
    """Patterns of A B + C: uint8 (m, 32) and (32, n), and uint32 (f32) or uint16 (f16) of shape (m, n)."""
    for first in range(0, a.shape[1], rule.step):
        part = slice(first, first + rule.step)
        c = _step(a[:, part], b[part], c, kinds, rule)
    return c


def _step(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, kinds: Sequence[str], rule: Rule
) -> np.ndarray:
    wide = c.dtype == np.uint32
    (left, low_a), (right, low_b) = (KINDS[kind] for kind in kinds)
    x, y = left.numbers[a][:, None], right.numbers[b].T[None]
    z = c.view(np.float32 if wide else np.float16).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        terms = np.concatenate([x * y, z[..., None]], axis=2)
        plain = terms.sum(axis=2)
        at = _exponents(x, low_a) + _exponents(y, low_b)
        most = np.maximum(at.max(axis=2), _exponents(z, -126 if wide else -14))
        exact = np.where(np.isfinite(terms), terms, 0)
        unit = np.ldexp(1.0, np.maximum(most, -900) - rule.places)
        total = _cut(exact, unit[..., None]).sum(axis=2)
        if wide:
            least = np.ldexp(1.0, np.maximum(np.frexp(total)[1] - 1, -126) - rule.digits)
            rounded = _cut(total, least).astype(np.float32).view(np.uint32)
            endless = plain.astype(np.float32).view(np.uint32)
        else:
            rounded = total.astype(np.float16).view(np.uint16)
            endless = plain.astype(np.float16).view(np.uint16)
    endless = np.where(np.isnan(plain), NAN32 if wide else NAN16, endless)
    return np.where(np.isfinite(plain), rounded, endless).astype(c.dtype)


def _lanes() -> tuple[np.ndarray, np.ndarray]:
    """First row of each of a block's threads, and its place among four."""
    thread = np.arange(manifest.BLOCK)
    return thread // 32 * 16 + thread % 32 // 4, thread % 4


def _of_results(words: np.ndarray, wide: bool) -> np.ndarray:
    """Registers of a block's threads (128, registers) as a matrix of 64 rows and 16 columns."""
    row, t = _lanes()
    values = words if wide else words.view(np.uint16)
    made = np.zeros((64, 16), values.dtype)
    for e in range(8):
        made[row + e // 2 % 2 * 8, e // 4 * 8 + 2 * t + e % 2] = values[:, e]
    return made


def _of_a(words: np.ndarray) -> np.ndarray:
    row, t = _lanes()
    made = np.zeros((64, 8), np.uint32)
    for i in range(4):
        made[row + i % 2 * 8, t + i // 2 * 4] = words[:, i]
    return made.view(np.uint8)


def expected(kernel: harness.Kernel, results: np.ndarray, rule: Rule) -> tuple[np.ndarray, ...]:
    """What a fixture gave, and what the rule says, as matrices one below the other."""
    a, b, c = (one.reshape(kernel.threads, -1) for one in harness.generate_inputs(kernel))
    words, wide = kernel.name.split("_")[1:], kernel.results == 8
    types = [word for word in words if word in KINDS]
    steps = [(types[0], types[-1])]
    if "chain" in words:
        steps = [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e5m2"), ("e4m3", "e4m3")]
    found, wanted = [], []
    for first in range(0, kernel.threads, manifest.BLOCK):
        block = slice(first, first + manifest.BLOCK)
        left, right = _of_a(a[block]), b[block].reshape(16, 8).view(np.uint8).T
        if "shared" in words:  # there A has the other sign
            left = left ^ np.uint8(0x80)
        out = _of_results(c[block], wide)
        for kinds in steps:
            out = sums(left, right, out, kinds, rule)
        wanted.append(out)
        found.append(_of_results(results[block], wide))
    return np.concatenate(found), np.concatenate(wanted)


def main() -> None:
    _, full = harness.recorded(Path(sys.argv[1]))
    rules = [Rule(), *(Rule(p, d, s) for p in (12, 13, 14, 25) for d in (13, 23) for s in (32, 16))]
    rules = list(dict.fromkeys(rules))
    print("share of equal bits by places/digits/step")
    print(" " * 24, *(f"{one.places}/{one.digits}/{one.step:<3}" for one in rules))
    for name, kernel in harness.kernels().items():
        if name in full and kernel.file.endswith("qgmma.cu"):
            shares = []
            for rule in rules:
                found, wanted = expected(kernel, full[name], rule)
                shares.append(float((found == wanted).mean()))
            print(f"{name:24}", *(f"{share:8.4f}" for share in shares))


if __name__ == "__main__":
    main()
