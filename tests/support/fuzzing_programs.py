"""Random programs in CUDA C++, of which optimised and plain machine code must compute the same bits.

Whoever adds a line to fuzzing_rules.yaml adds a kind of expression. Long runs, of so many programs from a seed on:

    PYTHONPATH=workflow:tests/support .venv/bin/python tests/support/fuzzing_programs.py 1000 0 sm_80 sm_90 sm_120

A program that differs is printed with its seed; ``written(seed).text`` is its text.
"""

import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import listings
from opcodes import harness
from tilewave.compiling import nvrtc

THREADS = 128
TYPES: dict[str, Any] = {
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
PLAIN, FAST = ("-Xptxas=-O0", "-fmad=false"), ("-fmad=false",)
"""Options of both compilations: which products are fused with which sums is ptxas' own choice otherwise."""
PROLOGUE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned short u16; typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;
typedef __half f16; typedef float f32; typedef double f64;
template <class To, class From> __device__ To bits(From from) { To to; memcpy(&to, &from, sizeof to); return to; }
template <class T> __device__ bool nan(T x) { return x != x; }
"""

RULES = yaml.safe_load(Path(__file__).with_name("fuzzing_rules.yaml").read_text("utf-8"))
RULES["bool"] += "".join(f"\n{t} {t}: A {sign} B" for t in TYPES for sign in "< <= > == !=".split())


def rules() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Type -> (types of the operands, text with operands as {}) of what makes it."""
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for names, lines in RULES.items():
        for name in names.split():
            size = np.dtype(TYPES.get(name, bool)).itemsize
            letters = {"T": name, "U": f"u{8 * size}", "W": str(8 * size - 1)}
            letters |= {letter: f"{{{i}}}" for i, letter in enumerate("ABC")}
            for line in lines.strip().split("\n"):
                given, text = line.strip().split(": ", 1)
                text = re.sub(r"\b[TUWABC]\b", lambda found, known=letters: known[found[0]], text)
                types = tuple(letters.get(one, one) for one in given.split())
                made = [(types, f"({name})({one})") for one in text.split("; ")]
                found.setdefault(name, []).extend(made)
    return found


MADE = rules()


def numbers(name: str, count: int, seed: int) -> np.ndarray:
    """Numbers of a type: ordinary ones, random bits and edges."""
    draw, kind = np.random.default_rng(seed), np.dtype(TYPES[name])
    raw = draw.integers(0, 1 << 64, count, dtype=np.uint64).astype(f"u{kind.itemsize}").view(kind)
    if kind.kind == "f":
        about = np.finfo(kind)
        usual = (draw.standard_normal(count) * 10.0 ** draw.integers(-3, 4, count)).astype(kind)
        edge = [0, -0.0, 1, -1, np.inf, np.nan, about.max, about.tiny, about.smallest_subnormal]
    else:
        info = np.iinfo(kind)
        usual = draw.integers(-50 if info.min else 0, 100, count).astype(kind)
        edge = [0, 1, info.max, info.min, info.max // 2, info.max - 1, 31, 32]
    place, edges = draw.random(count), draw.choice(np.array(edge, kind), count)
    found: np.ndarray = np.where(place < 0.45, usual, np.where(place < 0.85, raw, edges))
    return found


@dataclass(frozen=True)
class Program:
    """A program's text, and its variables and parameters (name, type)."""

    text: str
    variables: Sequence[tuple[str, str]]
    given: Sequence[tuple[str, str]]


class Writer:
    """Writes a program, statement by statement."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        letters = zip(TYPES, "abcdxyz")
        self.variables = [(f"{letter}{i}", kind) for kind, letter in letters for i in (0, 1)]
        self.given = [(f"p{i}", kind) for i, kind in enumerate(TYPES)]
        self.known = [*self.variables, *self.given, ("tid", "u32")]
        self.functions: list[str] = []
        self.named = 0

    def name(self) -> str:
        self.named += 1
        return f"n{self.named}"

    def term(self, kind: str, depth: int) -> str:
        """A random expression of a type."""
        draw = self.random
        chosen = [name for name, known in self.known if known == kind]
        if kind != "bool" and (depth <= 0 or draw.random() < 0.12):
            if chosen and draw.random() < 0.8:
                return draw.choice(chosen)
            value = numbers(kind, 1, draw.randrange(10**6))[0]
            return f"bits<{kind}>((u{8 * value.itemsize}){value.view(f'u{value.itemsize}')}ull)"
        types, text = draw.choice(MADE[kind])
        return text.format(*(f"({self.term(one, depth - 1)})" for one in types))

    def block(self, depth: int, count: int, together: bool) -> str:
        """So many statements; together: whether all threads of the block come here."""
        kinds = [self.assign] * 6 + [self.indexed, self.pointed, self.call]
        if depth:
            kinds += [self.branch, self.branch, self.loop, self.switch]
        if together:
            kinds += [self.exchange, self.shuffle, self.count]
        return "\n".join(self.random.choice(kinds)(depth) for _ in range(count))

    def assign(self, depth: int) -> str:
        name, kind = self.random.choice(self.variables)
        return f"{name} = {self.term(kind, self.random.randrange(2, 5))};"

    def branch(self, depth: int) -> str:
        yes, no = (self.block(depth - 1, self.random.randrange(1, 3), False) for _ in "yn")
        return f"if ({self.term('bool', 3)}) {{\n{yes}\n}} else {{\n{no}\n}}"

    def loop(self, depth: int) -> str:
        index, last = self.name(), self.name()
        often = f"u32 {last} = {self.term('u32', 2)} & {self.random.choice([1, 3, 7])}"
        self.known.append((index, "u32"))
        body, ends = self.block(depth - 1, self.random.randrange(1, 3), False), self.term("bool", 1)
        self.known.remove((index, "u32"))
        return f"{{ {often};\nfor (u32 {index} = 0; {index} < {last}; ++{index}) {{\n{body}\nif ({ends}) break; }} }}"

    def switch(self, depth: int) -> str:
        cases = [self.block(0, 1, False) for _ in range(self.random.choice([3, 8]))]
        text = "\n".join(f"case {i}: {body} break;" for i, body in enumerate(cases))
        return f"switch ({self.term('u32', 2)} % {len(cases) + 1}) {{\n{text}\n}}"

    def indexed(self, depth: int) -> str:
        """An array of a thread's own, written and read at computed places."""
        (name, kind), array = self.random.choice(self.variables), self.name()
        filled = ", ".join(self.term(kind, 1) for _ in range(4))
        write, read = self.term("u32", 2), self.term("u32", 2)
        return (
            f"{{ {kind} {array}[4] = {{{filled}}}; {array}[{write} & 3] = {self.term(kind, 2)};\n"
            f"{name} = {array}[{read} & 3]; }}"
        )

    def pointed(self, depth: int) -> str:
        """Through a pointer of which only the thread knows where it leads."""
        (name, kind), pointer = self.random.choice(self.variables), self.name()
        place = f"{self.term('bool', 2)} ? tid % 3 ? shared + tid : space + tid : &own"
        return (
            f"{{ u64 own; u64* {pointer} = {place};\n"
            f"*({kind}*){pointer} = {self.term(kind, 3)}; {name} = *({kind}*){pointer}; }}"
        )

    def call(self, depth: int) -> str:
        """A function that is not inlined."""
        (target, kind), known = self.random.choice(self.variables), self.known
        function = self.name()
        (x, first), (y, second) = self.random.choices(self.variables, k=2)
        self.known = [("x", first), ("y", second)]
        head = f"__noinline__ __device__ {kind} {function}({first} x, {second} y)"
        self.functions.append(f"{head} {{ return {self.term(kind, 3)}; }}")
        self.known = known
        return f"{target} = {function}({x}, {y});"

    def exchange(self, depth: int) -> str:
        """What the thread in another place of the block has, through shared memory."""
        name, kind = self.random.choice(self.variables)
        place = f"tid * {2 * self.random.randrange(64) + 1} + {self.random.randrange(THREADS)}"
        return (
            f"__syncthreads(); (({kind}*)shared)[tid] = {name}; __syncthreads();\n"
            f"{name} = (({kind}*)shared)[({place}) % {THREADS}]; __syncthreads();"
        )

    def shuffle(self, depth: int) -> str:
        name = self.random.choice([name for name, _ in self.variables])
        how, by = self.random.choice(["_xor", "_down", "_up", ""]), self.random.randrange(1, 32)
        return f"{name} = __shfl{how}_sync(~0u, {name}, {by});"

    def count(self, depth: int) -> str:
        """What the threads add up: votes, sums of a warp, atomics."""
        name, text = self.random.choice(["b0", "b1"]), self.term("u32", 2)
        ways = "ballot match_any reduce_add reduce_max atomicAdd atomicXor".split()
        how = self.random.choice(ways)
        if not how.startswith("atomic"):
            return f"{name} = __{how}_sync(~0u, {text});"
        place = f"((u32*){self.random.choice(['shared', 'space'])})"
        return (
            f"__syncthreads(); if (tid < 8) {place}[tid] = 0; __syncthreads();\n"
            f"{how}({place} + tid % 8, {text}); __syncthreads(); {name} = {place}[tid % 8]; __syncthreads();"
        )

    def program(self, text: str) -> Program:
        """A kernel of these statements: it reads all variables, and writes them back."""
        rows = enumerate(self.variables)
        at = [(f"+ {row * THREADS}))[tid]", name, kind) for row, (name, kind) in rows]
        lines = [
            PROLOGUE, *self.functions,
            f'extern "C" __global__ void k(u64* in, u64* out, u64* space, '
            f"{', '.join(f'{kind} {name}' for name, kind in self.given)}) {{",
            f"__shared__ u64 shared[{THREADS}]; u32 tid = threadIdx.x;",
            *(f"{kind} {name} = (({kind}*)(in {place};" for place, name, kind in at),
            text,
            *(f"(({kind}*)(out {place} = {name};" for place, name, kind in at),
        ]  # fmt: skip
        return Program("\n".join((*lines, "}\n")), self.variables, self.given)


def written(seed: int) -> Program:
    """A random program."""
    writer = Writer(seed)
    return writer.program(writer.block(2, writer.random.randrange(3, 8), True))


@dataclass(frozen=True)
class Source(harness.Source):
    """A text to compile with options."""

    options: Sequence[str] = ()

    def compiler_options(self, macros: object) -> list[str]:
        return list(self.options)


def inputs(made: Program, seed: int) -> dict[str, np.ndarray]:
    """What variables hold in each thread at first, and parameters in all of them."""
    found = {}
    for number, (name, kind) in enumerate((*made.variables, *made.given)):
        count = THREADS if number < len(made.variables) else 1
        found[name] = np.broadcast_to(numbers(kind, count, 100 * seed + number), THREADS)
    return found


def executed(
    made: Program, arch: str, seed: int, options: Sequence[str] = FAST
) -> dict[str, np.ndarray]:
    """What the variables hold at the end. Raises ValueError for what ends the execution or is found."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cu"
        path.write_text(made.text)
        done = nvrtc.compile_kernel(Source(path, made.text, options=options), arch, {})  # type: ignore[arg-type]
    if done.cubin is None:
        raise ValueError(done.log)
    given, rows = inputs(made, seed), len(made.variables)
    memory, out = np.zeros((rows, THREADS), np.uint64), np.zeros((rows, THREADS), np.uint64)
    for row, (name, _) in zip(memory, made.variables):
        row.view(given[name].dtype)[:THREADS] = given[name]
    arguments = [memory.ravel(), out.ravel(), np.zeros(THREADS, np.uint64)]
    arguments += [given[name][0] for name, _ in made.given]
    code = done.cubin, "k", listings.of_cubin(done.cubin)
    ended = harness.launched(*code, arguments, 1, THREADS, seconds=60)
    if ended.faults:
        raise ValueError(ended.faults[0].message)
    return {name: row.view(TYPES[kind])[:THREADS] for row, (name, kind) in zip(out, made.variables)}


def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which elements have the same bits, or are both no number."""
    bits = [np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}") for x in (one, other)]
    found: np.ndarray = (bits[0] == bits[1]) | (np.isnan(one) & np.isnan(other))
    return found


def difference(made: Program, arch: str, seed: int) -> str:
    """Empty where both ways to compile a program compute the same; else what they do instead."""
    try:
        fast, plain = (executed(made, arch, seed, options) for options in (FAST, PLAIN))
    except ValueError as error:
        return str(error)
    for name, values in fast.items():
        if not np.all(right := same(values, plain[name])):
            thread = int(np.argmin(right))
            return f"{name} of thread {thread} is {values[thread]!r}, plainly compiled {plain[name][thread]!r}"
    return ""


def main(count: int, first: int, architectures: Sequence[str]) -> int:
    """Exit code: 0 where no program differs."""
    began, wrong = time.monotonic(), 0
    for seed in range(first, first + count):
        for arch in architectures:
            if said := difference(written(seed), arch, seed):
                wrong += 1
                print(f"{seed} {arch}: {said}", flush=True)
    spent = time.monotonic() - began
    print(f"{count} programs for {', '.join(architectures)}: {wrong} differ, {spent:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or ["sm_90"]))
