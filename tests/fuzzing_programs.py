"""Random programs in CUDA C++: compiled, executed here, and held against numpy, bit by bit.

A program has variables of all types, expressions of the rules below, branches, loops, and what the threads of
a block exchange. Whoever adds a rule says what C++ it is and what it computes. Long runs, in the repository's
root, of so many programs from a seed on, for some architectures:

    PYTHONPATH=workflow:tests .venv/bin/python tests/fuzzing_programs.py 1000 0 sm_80 sm_90 sm_100

A program that differs is printed with its seed; `source(seed)` is its text.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import listings
from opcodes import harness
from tilewave.compiling import nvrtc
from tilewave.machine import launch, program

THREADS = 128
LANE = np.arange(THREADS)
TYPES: dict[str, Any] = {
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "i16": np.int16,
    "u16": np.uint16, "i8": np.int8, "u8": np.uint8, "f16": np.float16, "f32": np.float32,
    "f64": np.float64,
}  # fmt: skip
WHOLE, REAL = ("i32", "u32", "i64", "u64"), ("f16", "f32", "f64")
PROLOGUE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef __half f16; typedef float f32; typedef double f64;
template <class To, class From> __device__ To bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
"""
Array = np.ndarray
Values = dict[str, Array]
Term = tuple[str, Callable[[Values], Array]]
"""What C++ it is, and what it is in every thread."""


@dataclass(frozen=True)
class Rule:
    """An expression: the type that comes out, those that go in, its text and what it computes."""

    made: str
    given: tuple[str, ...]
    text: str
    value: Callable[..., Array]
    least: int = 0
    """The least architecture for which C++ says what comes out."""


def unsigned(one: Array) -> Array:
    return one.view(f"u{one.dtype.itemsize}") if one.dtype.kind in "fi" else one


# ------------------------------------------------------------------------------------------- whole numbers


def divided(a: Array, b: Array) -> Array:
    """Towards zero; b is positive."""
    found = np.floor_divide(a, b)
    return found + ((a < 0) & (found * b != a)).astype(a.dtype)


def leading_zeros(a: Array) -> Array:
    return np.array([32 - int(one).bit_length() for one in a], np.uint32)


def first_one(a: Array) -> Array:
    return np.array([(int(one) & -int(one)).bit_length() for one in a], np.uint32)


def turned(a: Array) -> Array:
    return np.array([int(f"{int(one):032b}"[::-1], 2) for one in a], np.uint32)


def funnel(left: bool) -> Callable[..., Array]:
    def value(low: Array, high: Array, by: Array) -> Array:
        both = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        by = (by & 31).astype(np.uint64)
        return (both << by >> np.uint64(32) if left else both >> by).astype(np.uint32)

    return value


def permuted(a: Array, b: Array, which: Array) -> Array:
    pool = np.concatenate([a.copy().view(np.uint8).reshape(-1, 4),
                           b.copy().view(np.uint8).reshape(-1, 4)], axis=1)  # fmt: skip
    picks = which[:, None] >> np.arange(0, 16, 4, dtype=np.uint32) & 7
    return np.take_along_axis(pool, picks.astype(np.int64), 1).copy().view(np.uint32).ravel()


def packed(kind: str, function: Callable[..., Array]) -> Callable[..., Array]:
    """Of two or four numbers in a word."""

    def value(*words: Array) -> Array:
        parts = function(*(one.copy().view(TYPES[kind]) for one in words))
        return parts.astype(TYPES[kind]).view(np.uint32)

    return value


def products_of_bytes(a: Array, b: Array, c: Array) -> Array:
    x, y = (one.copy().view(np.uint8).reshape(-1, 4).astype(np.uint32) for one in (a, b))
    return np.sum(x * y, axis=1, dtype=np.uint32) + c


def whole_rules() -> list[Rule]:
    found = []
    for name in WHOLE:
        kind, bits = TYPES[name], 8 * TYPES[name]().itemsize
        plain, wide = f"u{bits}", bits == 64

        def wrapped(function: Callable[..., Array], kind: Any = kind) -> Callable[..., Array]:
            return lambda *given: function(*map(unsigned, given)).view(kind)

        for sign, function in {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and,
                               "|": np.bitwise_or, "^": np.bitwise_xor}.items():  # fmt: skip
            text = f"({name})(({plain}){{}} {sign} ({plain}){{}})"
            found.append(Rule(name, (name, name), text, wrapped(function)))
        for least in ("min", "max"):
            smaller = getattr(np, f"{least}imum")
            found.append(Rule(name, (name, name), f"{least}({{}}, {{}})", smaller))
        for sign, shift in (("<<", np.left_shift), (">>", np.right_shift)):
            cast = plain if sign == "<<" else name

            def shifted(a: Array, by: Array, shift: Any = shift, bits: int = bits) -> Array:
                found: Array = shift(a, (by & (bits - 1)).astype(a.dtype))
                return found

            text = f"({name})(({cast}){{}} {sign} ({{}} & {bits - 1}))"
            found.append(Rule(name, (name, "u32"), text, shifted))
        found += [
            Rule(name, (name,), f"({name})(0 - ({plain}){{}})", wrapped(lambda a: 0 - a)),
            Rule(name, (name,), "~{}", np.invert),
            Rule(name, ("bool", name, name), "({} ? {} : {})", np.where),
        ]
        for mask in (0xFF, 2 ** (bits - 1) - 1):
            by = f"({{}} & ({name}){mask}u{'ll' * wide} | 1)"

            def quotient(a: Array, b: Array, mask: Any = kind(mask)) -> Array:
                return divided(a, b & mask | 1)

            def remainder(a: Array, b: Array, mask: Any = kind(mask)) -> Array:
                return a - divided(a, b & mask | 1) * (b & mask | 1)

            found.append(Rule(name, (name, name), f"({{}} / {by})", quotient))
            found.append(Rule(name, (name, name), f"({{}} % {by})", remainder))
        if name[0] == "i":
            text = f"{'ll' * wide}abs({{}} | 1)"
            found.append(Rule(name, (name,), text, lambda a: np.abs(a | 1)))
        for other in (one for one in WHOLE if one != name):
            text = f"({name}){{}}"
            found.append(Rule(name, (other,), text, lambda a, kind=kind: a.astype(kind)))
        for small in ("i8", "u8", "i16", "u16"):

            def narrow(a: Array, small: Any = TYPES[small]) -> Array:
                return a.astype(small).astype(a.dtype)

            found.append(Rule(name, (name,), f"({name})({small}){{}}", narrow))
    for name, half in (("i64", "i32"), ("u64", "u32")):
        kind = TYPES[name]

        def product(a: Array, b: Array, kind: Any = kind) -> Array:
            found: Array = a.astype(kind) * b.astype(kind)
            return found

        found.append(Rule(name, (half, half), f"(({name}){{}} * ({name}){{}})", product))
        high = "__mulhi" if half == "i32" else "__umulhi"
        found.append(Rule(half, (half, half), f"{high}({{}}, {{}})",
                          lambda a, b, kind=kind, half=TYPES[half]: (
                              a.astype(kind) * b.astype(kind) >> kind(32)).astype(half)))  # fmt: skip
    three = ("u32", "u32", "u32")
    found += [
        Rule("u32", ("u32",), "__popc({})", lambda a: np.bitwise_count(a).astype(np.uint32)),
        Rule("u32", ("u32",), "__clz({})", leading_zeros),
        Rule("u32", ("u32",), "__ffs({})", first_one),
        Rule("u32", ("u32",), "__brev({})", turned),
        Rule("u32", three, "__byte_perm({}, {}, {} & 0x7777)", permuted),
        Rule("u32", three, "__funnelshift_l({}, {}, {})", funnel(True)),
        Rule("u32", three, "__funnelshift_r({}, {}, {})", funnel(False)),
        Rule("u32", three, "__usad({}, {}, {})", lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c),
        Rule("u32", three, "__dp4a({}, {}, {})", products_of_bytes),
    ]  # fmt: skip
    for count, sizes in ((2, "16"), (4, "8")):
        for sign, least in (("s", "min"), ("u", "min"), ("s", "max"), ("u", "max")):
            kind = ("i" if sign == "s" else "u") + sizes
            smaller = packed(kind, getattr(np, f"{least}imum"))
            found.append(Rule("u32", ("u32", "u32"), f"__v{least}{sign}{count}({{}}, {{}})", smaller))
        found.append(Rule("u32", ("u32", "u32"), f"__vadd{count}({{}}, {{}})", packed(f"u{sizes}", np.add)))

        def apart(a: Array, b: Array) -> Array:
            return np.maximum(a, b) - np.minimum(a, b)

        found.append(Rule("u32", ("u32", "u32"), f"__vabsdiffu{count}({{}}, {{}})", packed(f"u{sizes}", apart)))
    for least in ("min", "max"):
        smaller = getattr(np, f"{least}imum")
        for name, kind in (("s32", "i32"), ("u32", "u32")):

            def of_sum(a: Array, b: Array, c: Array, smaller: Any = smaller) -> Array:
                found: Array = smaller((unsigned(a) + unsigned(b)).view(a.dtype), c)
                return found

            for ending in ("", "_relu") if name == "s32" else ("",):
                kept = (lambda one: np.maximum(one, 0)) if ending else (lambda one: one)
                arguments = "({}, {}, {})"
                # Before sm_90 the header adds signed numbers, which may not overflow.
                found.append(Rule(kind, (kind,) * 3, f"__viadd{least}_{name}{ending}{arguments}",
                                  lambda *given, kept=kept, of=of_sum: kept(of(*given)), 90))  # fmt: skip
        for name, small in (("s16x2", "i16"), ("u16x2", "u16")):
            text = f"__viadd{least}_{name}({{}}, {{}}, {{}})"
            found.append(Rule("u32", three, text, packed(small, lambda a, b, c, f=smaller: f(a + b, c)), 90))
    return found


# -------------------------------------------------------------------------------------------- real numbers

MODES = ("rn", "rz", "ru", "rd")


def rounded(exact: Fraction, kind: Any, mode: str) -> Any:
    """The number of a type that a rounding mode makes of one that is not 0."""
    about = np.finfo(kind)
    size, below = abs(exact), exact < 0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, int(about.minexp)) - int(about.nmant))
    count, rest = divmod(size, step)
    nearest = rest > step / 2 or (rest == step / 2 and count % 2 == 1)
    away = {"rn": nearest, "rz": False, "ru": rest > 0 and not below, "rd": rest > 0 and below}[mode]
    found = (count + away) * step
    if found > Fraction(float(about.max)):
        stays = mode == "rz" or mode == ("rd", "ru")[below]
        return kind(-1 if below else 1) * (about.max if stays else kind(np.inf))
    return kind(-float(found) if below else float(found))


def exactly(
    kind: Any, mode: str, exact: Callable[..., Fraction], usual: Callable[..., Any], adds: bool = False
) -> Callable[..., Array]:
    """An operation rounded once; usual: what numpy makes of infinities, NaNs and zeros; adds: whether a sum
    of 0 is negative where it is rounded down, unless both parts are positive zeros."""

    def value(*given: Array) -> Array:
        out = np.empty(THREADS, kind)
        for lane, one in enumerate(zip(*given)):
            out[lane] = usual(*one)
            if not all(map(np.isfinite, one)):
                continue
            if found := exact(*(Fraction(float(x)) for x in one)):
                out[lane] = rounded(found, kind, mode)
            elif adds and mode == "rd" and out[lane] == 0 and not signs_agree(one, usual):
                out[lane] = kind(-0.0)
        return out

    return value


def signs_agree(given: Any, usual: Callable[..., Any]) -> bool:
    """Whether a sum of 0 is one of positive zeros."""
    *factors, last = given
    first = factors[0] * factors[1] if len(factors) == 2 else factors[0]
    if usual is np.subtract:
        last = -last
    return bool(first == 0 and last == 0 and not np.signbit(first) and not np.signbit(last))


def fused(a: Any, b: Any, c: Any) -> Any:
    return c if np.isfinite(a) and np.isfinite(b) and not np.isfinite(c) else a * b + c


def smaller_real(least: bool) -> Callable[..., Array]:
    def value(a: Array, b: Array) -> Array:
        found = (np.fmin if least else np.fmax)(a, b)
        negative = np.signbit(a) | np.signbit(b) if least else np.signbit(a) & np.signbit(b)
        zeros = np.where(negative, a.dtype.type(-0.0), a.dtype.type(0))
        return np.where((a == 0) & (b == 0), zeros, found).astype(a.dtype)

    return value


def to_whole(name: str, mode: str) -> Callable[[Array], Array]:
    kind, about = TYPES[name], np.iinfo(TYPES[name])
    whole = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}[mode]

    def value(a: Array) -> Array:
        # PTX ISA, cvt: a NaN becomes 0 in 32 bits of an f32, else the top bit alone.
        nothing = 0 if a.dtype == np.float32 and about.bits == 32 else 1 << (about.bits - 1)
        nothing = nothing - (1 << about.bits) if about.min < 0 and nothing else nothing
        found = [
            nothing if np.isnan(x) else about.max if x >= 2.0**64 else about.min if x < -(2.0**64) else
            min(max(int(x), about.min), about.max)
            for x in whole(a.astype(np.float64))
        ]  # fmt: skip
        return np.array(found, kind)

    return value


def of_real(kind: Any, mode: str) -> Callable[[Array], Array]:
    """Another type's numbers in this one."""
    def value(a: Array) -> Array:
        usual = a.astype(kind)
        exact = [rounded(Fraction(x if isinstance(x, int) else float(x)), kind, mode)
                 if np.isfinite(x) and x != 0 else old for x, old in zip(a.tolist(), usual)]  # fmt: skip
        return np.array(exact, kind)

    return value


def to_bf16(a: Array) -> Array:
    """f32 numbers with the mantissa of a bf16, rounded to the nearest even."""
    bits = a.view(np.uint32)
    kept = bits + np.uint32(0x7FFF) + (bits >> 16 & 1) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(a), a, kept.view(np.float32))


def of_bf16(function: Callable[..., Array]) -> Callable[..., Array]:
    """An operation on bf16 numbers that f64 computes exactly, or so that f32 may round it before."""

    def value(*given: Array) -> Array:
        exact = function(*(to_bf16(one).astype(np.float64) for one in given))
        # To odd, so that the second rounding knows of what the first one cut off.
        near = exact.astype(np.float32)
        off = (near.astype(np.float64) != exact) & np.isfinite(exact) & np.isfinite(near)
        bits = near.view(np.uint32)
        beyond = np.abs(near.astype(np.float64)) > np.abs(exact)
        odd = np.where(bits & 1 == 1, bits, np.where(beyond, bits - 1, bits + 1)).astype(np.uint32)
        return to_bf16(np.where(off, odd.view(np.float32), near))

    return value


def real_rules() -> list[Rule]:
    found = []
    bf16 = "__float2bfloat16_rn({})"
    for text, function in {
        bf16: lambda a: a,
        f"__hadd_rn({bf16}, {bf16})": np.add, f"__hsub_rn({bf16}, {bf16})": np.subtract,
        f"__hmul_rn({bf16}, {bf16})": np.multiply,
        f"__hmin({bf16}, {bf16})": lambda a, b: smaller_real(True)(a, b),
        f"__hmax({bf16}, {bf16})": lambda a, b: smaller_real(False)(a, b),
    }.items():  # fmt: skip
        given = ("f32",) * text.count("{}")
        found.append(Rule("f32", given, f"__bfloat162float({text})", of_bf16(function)))
    letters = {"f32": "f", "f64": "d"}
    exact: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b if b else b,
    }  # fmt: skip
    usual = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
    for name in REAL:
        kind = TYPES[name]
        modes = MODES if name != "f16" else ("rn",)
        letter, fma = ("h", "__hfma") if name == "f16" else (letters[name], "")
        for what, function in exact.items():
            for mode in modes if (name, what) != ("f16", "div") else ():
                text = f"__{letter}{what}_{mode}({{}}, {{}})"
                value = exactly(kind, mode, function, usual[what], what in ("add", "sub"))
                found.append(Rule(name, (name, name), text, value))
        for mode in modes:
            text = fma or f"__fma{'f' * (name == 'f32')}_{mode}"
            value = exactly(kind, mode, lambda a, b, c: a * b + c, fused, True)
            found += [Rule(name, (name,) * 3, f"{text}({{}}, {{}}, {{}})", value)] * 2
        ending = {"f16": "", "f32": "f", "f64": ""}[name]
        prefix = "__h" if name == "f16" else "f"
        found += [
            Rule(name, (name, name), f"{prefix}min{ending}({{}}, {{}})", smaller_real(True)),
            Rule(name, (name, name), f"{prefix}max{ending}({{}}, {{}})", smaller_real(False)),
            Rule(name, (name,), f"{prefix}abs{ending}({{}})", np.abs),
            Rule(name, (name,), "(-{})", np.negative),
            Rule(name, ("bool", name, name), "({} ? {} : {})", np.where),
        ]
        for word, whole in (("rint", np.rint), ("trunc", np.trunc), ("ceil", np.ceil), ("floor", np.floor)):
            text = f"{'h' * (name == 'f16')}{word}{ending}({{}})"
            found.append(Rule(name, (name,), text, whole))
        if name != "f16":
            root = f"__{letter}sqrt_rn({prefix}abs{ending}({{}}))"
            found.append(Rule(name, (name,), root, lambda a: np.sqrt(np.abs(a))))
            bits = f"{'i' if name == 'f64' else 'u'}{8 * kind().itemsize}"
            found.append(Rule(name, (bits,), f"bits<{name}>({{}})", lambda a, kind=kind: a.view(kind)))
            zero = f"({{0}} == {{0}} ? bits<{bits}>({{0}}) : 0)"
            found.append(Rule(bits, (name,), zero, lambda a, to=TYPES[bits]: np.where(
                np.isnan(a), to(0), a.view(to))))  # fmt: skip
            whole = {"i32": "int", "u32": "uint", "i64": "ll", "u64": "ull"}
            real = {"f32": "float", "f64": "double"}[name]
            for integer, word in whole.items():
                for mode in MODES:
                    text = f"__{real}2{word}_{mode}({{}})"
                    found.append(Rule(integer, (name,), text, to_whole(integer, mode)))
                    if name == "f32" or integer in ("i64", "u64") or mode == "rn":
                        text = f"__{word}2{real}_{mode}({{}})"
                        found.append(Rule(name, (integer,), text, of_real(kind, mode)))
    for mode in MODES:
        found.append(Rule("f32", ("f64",), f"__double2float_{mode}({{}})", of_real(np.float32, mode)))
    found += [
        Rule("f16", ("f32",), "__float2half_rn({})", of_real(np.float16, "rn")),
        Rule("f16", ("f64",), "__double2half({})", of_real(np.float16, "rn")),
        Rule("f32", ("f16",), "__half2float({})", lambda a: a.astype(np.float32)),
        Rule("f64", ("f32",), "(f64){}", lambda a: a.astype(np.float64)),
    ]
    return found


def truth_rules() -> list[Rule]:
    signs = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
             "==": np.equal, "!=": np.not_equal}  # fmt: skip
    found = [
        Rule("bool", (name, name), f"({{}} {sign} {{}})", compare)
        for name in (*WHOLE, *REAL)
        for sign, compare in signs.items()
    ]
    both = ("bool", "bool")
    found += 6 * [Rule("bool", both, "({} && {})", np.logical_and),
                  Rule("bool", both, "({} || {})", np.logical_or),
                  Rule("bool", both, "({} != {})", np.not_equal)]  # fmt: skip
    return found + 4 * [Rule("bool", (name,), "isnan({})", np.isnan) for name in ("f32", "f64")]


RULES: dict[str, list[Rule]] = {}
for _rule in (*whole_rules(), *real_rules(), *truth_rules()):
    RULES.setdefault(_rule.made, []).append(_rule)


# ------------------------------------------------------------------------------------------------ programs


def numbers(name: str, count: int, seed: int) -> Array:
    """Numbers of a type, small ones, random bits and edges."""
    draw = np.random.default_rng(seed)
    kind = np.dtype(TYPES[name])
    raw = draw.integers(0, 1 << 64, count, dtype=np.uint64).astype(f"u{kind.itemsize}").view(kind)
    if name in REAL:
        about = np.finfo(kind)
        usual = (draw.standard_normal(count) * 10.0 ** draw.integers(-3, 4, count)).astype(kind)
        tiny = about.smallest_subnormal
        edges = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, about.max, about.tiny, tiny, -tiny]
    else:
        info = np.iinfo(kind)
        usual = draw.integers(-50 if info.min else 0, 100, count).astype(kind)
        edges = [0, 1, info.max, info.min, info.max // 2, info.max - 1, 31, 32]
    edge = np.array(edges).astype(kind) if name in REAL else np.array(edges, kind)
    place = draw.random(count)
    found = np.where(place < 0.45, usual, np.where(place < 0.85, raw, draw.choice(edge, count)))
    return found.astype(kind)


def literal(name: str, value: Any) -> str:
    """A number with all its bits."""
    if name in WHOLE:
        return f"({name}){int(value) & (1 << 8 * value.itemsize) - 1}u{'ll' * (value.itemsize == 8)}"
    word = value.view(f"u{value.itemsize}")
    return f"bits<{name}>((u{8 * value.itemsize}){word}u{'ll' * (name == 'f64')})"


class Writer:
    """Writes a program, statement by statement, and what each does to the variables' values."""

    def __init__(self, seed: int, arch: int) -> None:
        self.random, self.arch = random.Random(seed), arch
        self.mutable = [
            (f"{letter}{i}", name)
            for name, letter in zip((*WHOLE, *REAL), "abcdxyz")
            for i in range(1 + (name not in ("i64", "u64")))
        ]
        self.given = [(f"p{i}", name) for i, name in enumerate((*WHOLE, "f32", "f64"))]
        self.known = [*self.mutable, *self.given, ("tid", "u32")]
        self.named = 0
        self.functions: list[str] = []

    def term(self, name: str, depth: int) -> Term:
        """A random expression of a type."""
        draw = self.random
        if name != "bool" and (depth <= 0 or draw.random() < 0.12):
            chosen = [one for one, kind in self.known if kind == name]
            if draw.random() < 0.8:
                variable = draw.choice(chosen)
                return variable, lambda values: values[variable]
            value = draw.choice(numbers(name, 8, draw.randrange(1000)))
            return literal(name, value), lambda values: np.full(THREADS, value)
        rule = draw.choice([one for one in RULES[name] if one.least <= self.arch])
        parts = [self.term(one, depth - 1) for one in rule.given]
        text = rule.text.format(*(one for one, _ in parts))
        return f"({name})({text})", lambda values: rule.value(*(part(values) for _, part in parts))

    def name(self) -> str:
        self.named += 1
        return f"n{self.named}"

    def block(self, depth: int, count: int, together: bool) -> tuple[str, Callable[[Values, Array], None]]:
        """So many statements; together: whether all threads of the block come here."""
        kinds = [self.assign] * 6
        if depth:
            kinds += [self.branch] * 2 + [self.loop, self.switch]
        kinds += [self.indexed, self.pointed, self.call] + ([self.exchange, self.shuffle, self.count] if together else [])
        made = [self.random.choice(kinds)(depth) for _ in range(count)]

        def run(values: Values, active: Array) -> None:
            for _, one in made:
                one(values, active)

        return "\n".join(text for text, _ in made), run

    def assign(self, depth: int) -> Any:
        name, kind = self.random.choice(self.mutable)
        text, value = self.term(kind, self.random.randrange(2, 5))

        def run(values: Values, active: Array) -> None:
            values[name] = np.where(active, value(values), values[name])

        return f"{name} = {text};", run

    def branch(self, depth: int) -> Any:
        condition, holds = self.term("bool", 3)
        (yes, run_yes), (no, run_no) = (self.block(depth - 1, self.random.randrange(1, 3), False) for _ in "yn")

        def run(values: Values, active: Array) -> None:
            true = holds(values).astype(bool)
            run_yes(values, active & true)
            run_no(values, active & ~true)

        return f"if ({condition}) {{\n{yes}\n}} else {{\n{no}\n}}", run

    def loop(self, depth: int) -> Any:
        index, last, limit = self.name(), self.name(), self.random.choice([1, 3, 7])
        often, times = self.term("u32", 2)
        self.known.append((index, "u32"))
        text, body = self.block(depth - 1, self.random.randrange(1, 3), False)
        condition, ends = self.term("bool", 1)
        self.known.remove((index, "u32"))

        def run(values: Values, active: Array) -> None:
            rounds = times(values) & limit
            for number in range(limit):
                active = active & (number < rounds)
                values[index] = np.full(THREADS, number, np.uint32)
                body(values, active)
                active = active & ~ends(values).astype(bool)

        return (
            f"{{ u32 {last} = {often} & {limit};\nfor (u32 {index} = 0; {index} < {last}; ++{index}) {{\n"
            f"{text}\nif ({condition}) break; }} }}", run,
        )  # fmt: skip

    def switch(self, depth: int) -> Any:
        selector, which = self.term("u32", 2)
        cases = [self.block(0, 1, False) for _ in range(self.random.choice([3, 6]))]
        count = len(cases) + 1

        def run(values: Values, active: Array) -> None:
            chosen = which(values) % count
            for number, (_, body) in enumerate(cases):
                body(values, active & (chosen == number))

        text = "\n".join(f"case {i}: {body} break;" for i, (body, _) in enumerate(cases))
        return f"switch ({selector} % {count}) {{\n{text}\n}}", run

    def indexed(self, depth: int) -> Any:
        """An array of a thread's own, read and written at computed places."""
        target, kind = self.random.choice(self.mutable)
        array, (read, source), (write, to) = self.name(), self.term("u32", 2), self.term("u32", 2)
        fill = [self.term(kind, 1) for _ in range(4)]
        text, value = self.term(kind, 2)

        def run(values: Values, active: Array) -> None:
            held = np.stack([one(values) for _, one in fill])
            held[to(values) & 3, LANE] = value(values)
            values[target] = np.where(active, held[source(values) & 3, LANE], values[target])

        filled = ", ".join(one for one, _ in fill)
        return (
            f"{{ {kind} {array}[4] = {{{filled}}}; {array}[{write} & 3] = {text};\n"
            f"{target} = {array}[{read} & 3]; }}", run,
        )  # fmt: skip

    def pointed(self, depth: int) -> Any:
        """Through a pointer of which only the thread knows where it leads."""
        name, kind = self.random.choice(self.mutable)
        condition, _ = self.term("bool", 2)
        text, value = self.term(kind, 3)
        pointer = self.name()

        def run(values: Values, active: Array) -> None:
            values[name] = np.where(active, value(values), values[name])

        return (
            f"{{ u64 own; u64* {pointer} = ({condition}) ? tid % 3 ? shared + tid : space + tid : &own;\n"
            f"*({kind}*){pointer} = {text}; {name} = *({kind}*){pointer}; }}", run,
        )  # fmt: skip

    def call(self, depth: int) -> Any:
        """A function that is not inlined."""
        (target, kind), given = self.random.choice(self.mutable), self.random.choices(self.mutable, k=2)
        function, known = self.name(), self.known
        self.known = [("x", given[0][1]), ("y", given[1][1])]
        self.known += [(f"({one})1", one) for one in (*WHOLE, *REAL)]
        text, value = self.term(kind, 3)
        self.known = known
        self.functions.append(
            f"__noinline__ __device__ {kind} {function}({given[0][1]} x, {given[1][1]} y) {{ "
            f"return {text}; }}"
        )

        def run(values: Values, active: Array) -> None:
            ones = {f"({one})1": np.ones(THREADS, TYPES[one]) for one in (*WHOLE, *REAL)}
            inside = {"x": values[given[0][0]], "y": values[given[1][0]], **ones}
            values[target] = np.where(active, value(inside), values[target])

        return f"{target} = {function}({given[0][0]}, {given[1][0]});", run

    def exchange(self, depth: int) -> Any:
        """What the thread in another place of the block has, through shared memory."""
        name, kind = self.random.choice(self.mutable)
        factor, offset = 2 * self.random.randrange(64) + 1, self.random.randrange(THREADS)
        place = (LANE * factor + offset) % THREADS

        def run(values: Values, active: Array) -> None:
            values[name] = values[name][place]

        return (
            f"__syncthreads(); (({kind}*)shared)[tid] = {name}; __syncthreads();\n"
            f"{name} = (({kind}*)shared)[(tid * {factor} + {offset}) % {THREADS}]; __syncthreads();", run,
        )  # fmt: skip

    def shuffle(self, depth: int) -> Any:
        name, _ = self.random.choice([one for one in self.mutable if one[1] in ("i32", "u32", "f32", "i64")])
        by, how = self.random.randrange(1, 32), self.random.choice(["xor", "down", "up", ""])
        inside = LANE % 32
        place = {"xor": LANE ^ by, "down": LANE + by * (inside + by < 32), "up": LANE - by * (inside >= by),
                 "": LANE - inside + by}[how]  # fmt: skip

        def run(values: Values, active: Array) -> None:
            values[name] = values[name][place]

        return f"{name} = __shfl{'_' * bool(how)}{how}_sync(~0u, {name}, {by});", run

    def count(self, depth: int) -> Any:
        """What the threads add up: votes, sums of a warp, atomics on shared memory."""
        name = self.random.choice([one for one, kind in self.mutable if kind == "u32"])
        text, value = self.term("u32", 2)
        how = self.random.choice(["ballot", "match", "add", "max", "or", "atomicAdd", "atomicMax", "atomicXor"])
        warp = LANE // 32
        gathered = {"add": np.add, "max": np.maximum, "or": np.bitwise_or, "atomicAdd": np.add,
                    "atomicMax": np.maximum, "atomicXor": np.bitwise_xor}  # fmt: skip

        def run(values: Values, active: Array) -> None:
            given, lane = value(values), np.uint32(1) << (LANE % 32).astype(np.uint32)
            if how in ("ballot", "match"):
                same = given[:, None] == given[None] if how == "match" else (given & 1 == 1)[None]
                told = np.where(same & (warp[:, None] == warp[None]), lane[None], np.uint32(0))
                values[name] = np.bitwise_or.reduce(told, axis=1)
                return
            cell, cells = (warp, 4) if how in ("add", "max", "or") else (LANE % 8, 8)
            sums = np.zeros(cells, np.uint32)
            gathered[how].at(sums, cell, given)
            values[name] = sums[cell]

        if how == "ballot":
            return f"{name} = __ballot_sync(~0u, {text} & 1);", run
        if how == "match":
            return f"{name} = __match_any_sync(~0u, {text});", run
        if how in ("add", "max", "or"):
            return f"{name} = __reduce_{how}_sync(~0u, {text});", run
        place = self.random.choice(["(u32*)shared", "(u32*)space"])
        return (
            f"__syncthreads(); if (tid < 8) ({place})[tid] = 0; __syncthreads();\n{how}({place} + tid % 8, {text});\n"
            f"__syncthreads(); {name} = ({place})[tid % 8]; __syncthreads();", run,
        )  # fmt: skip


def written(seed: int, arch: int) -> tuple[str, Writer, Callable[[Values, Array], None]]:
    """A program's text, who wrote it, and what it does to the variables."""
    writer = Writer(seed, arch)
    text, run = writer.block(2, writer.random.randrange(3, 8), True)
    at = range(len(writer.mutable))
    parameters = ", ".join(f"{kind} {name}" for name, kind in writer.given)
    load = "\n".join(f"{kind} {name} = (({kind}*)(in + {i * THREADS}))[tid];"
                     for i, (name, kind) in zip(at, writer.mutable))  # fmt: skip
    store = "\n".join(f"(({kind}*)(out + {i * THREADS}))[tid] = {name};"
                      for i, (name, kind) in zip(at, writer.mutable))  # fmt: skip
    return (
        f"{PROLOGUE}{chr(10).join(writer.functions)}\n"
        f'extern "C" __global__ void k(u64* in, u64* out, u64* space, {parameters}) {{\n'
        f"__shared__ u64 shared[{THREADS}]; u32 tid = threadIdx.x;\n{load}\n{text}\n{store}\n}}\n"
    ), writer, run  # fmt: skip


def source(seed: int, arch: str = "sm_90") -> str:
    """The text of a program."""
    return written(seed, int(arch[3:]))[0]


def difference(seed: int, arch: str) -> str:
    """Empty where a program computes what it should; else what it does instead."""
    text, writer, run = written(seed, int(arch[3:]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cu"
        path.write_text(text)
        cubin = harness.compile_file(path, arch).cubin
    listing = listings.of_cubin(cubin)
    if misread(listing):
        return ""
    values: Values = {"tid": LANE.astype(np.uint32)}
    memory = np.zeros((len(writer.mutable), THREADS), np.uint64)
    for number, (name, kind) in enumerate(writer.mutable):
        values[name] = numbers(kind, THREADS, 100 * seed + number)
        memory[number].view(TYPES[kind])[:THREADS] = values[name]
    scalars = [numbers(kind, 1, 100 * seed + 50 + i)[0] for i, (_, kind) in enumerate(writer.given)]
    for (name, _), scalar in zip(writer.given, scalars):
        values[name] = np.full(THREADS, scalar)
    out = np.zeros_like(memory)
    places = {"in": memory.ravel(), "out": out.ravel(), "space": np.zeros(THREADS, np.uint64)}
    arguments = [*(launch.Buffer(name, one) for name, one in places.items()), *scalars]
    done = launch.execute(
        program.load(cubin, "k", listing),
        grid=(1, 1, 1), block=(THREADS, 1, 1), arguments=arguments, limits=launch.Limits(seconds=60),
    )  # fmt: skip
    if done.faults:
        return done.faults[0].message
    with np.errstate(all="ignore"):
        run(values, np.ones(THREADS, bool))
    for number, (name, kind) in enumerate(writer.mutable):
        got, want = out[number].view(TYPES[kind])[:THREADS], np.asarray(values[name])
        same = unsigned(got) == unsigned(want)
        if kind in REAL:
            same |= np.isnan(got) & np.isnan(want)
        if not np.all(same):
            thread = int(np.argmin(same))
            return f"{name} of thread {thread} is {got[thread]!r}, not {want[thread]!r}"
    return ""


def misread(listing: str) -> bool:
    """Whether the compiler may have lost a sign: max(max(-p, q), r) of NVRTC 12.9 to 13.3 forgets the minus
    where it makes one instruction of it, VIMNMX3."""
    return "VIMNMX3" in listing and tuple(map(int, nvrtc.version().split("."))) < (13, 4)


def main(count: int, first: int, architectures: list[str]) -> int:
    """Exit code: 0 where no program differs."""
    began, wrong = time.monotonic(), 0
    for seed in range(first, first + count):
        for arch in architectures:
            if said := difference(seed, arch):
                wrong += 1
                print(f"{seed} {arch}: {said}", flush=True)
    spent = time.monotonic() - began
    print(f"{count} programs for {', '.join(architectures)}: {wrong} differ, {spent:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or ["sm_90"]))
