"""Random programs in CUDA C++, whose optimised and plain machine code must compute the same bits.

A line of fuzzing_rules.yaml is a kind of expression. Long runs take a number of programs, a seed, architectures:

    PYTHONPATH=workflow:tests/support .venv/bin/python tests/support/fuzzing_programs.py 1000 0 sm_80 sm_90 sm_120

The seed of a program that differs is printed; ``written(seed).text`` is its text.
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

import keeping
from opcodes import harness
from tilewave.compiling import nvrtc

THREADS = 128
TYPES: dict[str, Any] = {
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
PLAIN, FAST = ("-Xptxas=-O0", "-fmad=false"), ("-fmad=false",)
"""Options of both compilations. Without -fmad=false ptxas chooses the products that it fuses with sums."""
HERE = Path(__file__).parent
PROLOGUE = (HERE / "fuzzing_prologue.cuh").read_text()
RULES = yaml.safe_load((HERE / "fuzzing_rules.yaml").read_text("utf-8"))
RULES["bool"] += "".join(f"\n{t} {t}: A {sign} B" for t in TYPES for sign in "< <= > == !=".split())


def rules() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    """Return each type's expressions: types of the operands, and text with operands as {}."""
    expressions: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for names, lines in RULES.items():
        for name in names.split():
            size = np.dtype(TYPES.get(name, bool)).itemsize
            letters = {"T": name, "U": f"u{8 * size}", "W": str(8 * size - 1)}
            letters |= {letter: f"{{{i}}}" for i, letter in enumerate("ABC")}
            for line in lines.strip().split("\n"):
                operands, text = line.strip().split(": ", 1)
                text = re.sub(r"\b[TUWABC]\b", lambda match, values=letters: values[match[0]], text)
                types = tuple(letters.get(letter, letter) for letter in operands.split())
                variants = [(types, f"({name})({expression})") for expression in text.split("; ")]
                expressions.setdefault(name, []).extend(variants)
    return expressions


EXPRESSIONS = rules()


def numbers(name: str, count: int, seed: int) -> np.ndarray:
    """Return numbers of a type: ordinary numbers, random bits and edges."""
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
    share, edges = draw.random(count), draw.choice(np.array(edge, kind), count)
    drawn: np.ndarray = np.where(share < 0.45, usual, np.where(share < 0.85, raw, edges))
    return drawn


@dataclass(frozen=True)
class Program:
    """A program's text, and its variables and parameters (name, type)."""

    text: str
    variables: Sequence[tuple[str, str]]
    parameters: Sequence[tuple[str, str]]


class Writer:
    """A writer of a program, statement by statement."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        letters = zip(TYPES, "abcdxyz")
        self.variables = [(f"{letter}{i}", kind) for kind, letter in letters for i in (0, 1)]
        self.parameters = [(f"p{i}", kind) for i, kind in enumerate(TYPES)]
        self.scope = [*self.variables, *self.parameters, ("tid", "u32")]
        self.functions: list[str] = []
        self.named = 0

    def name(self) -> str:
        self.named += 1
        return f"n{self.named}"

    def term(self, kind: str, depth: int) -> str:
        """Return a random expression of a type."""
        draw = self.random
        chosen = [name for name, type_ in self.scope if type_ == kind]
        if kind != "bool" and (depth <= 0 or draw.random() < 0.12):
            if chosen and draw.random() < 0.8:
                return draw.choice(chosen)
            value = numbers(kind, 1, draw.randrange(10**6))[0]
            return f"bits<{kind}>((u{8 * value.itemsize}){value.view(f'u{value.itemsize}')}ull)"
        types, text = draw.choice(EXPRESSIONS[kind])
        return text.format(*(f"({self.term(type_, depth - 1)})" for type_ in types))

    def block(self, depth: int, count: int, together: bool) -> str:
        """Return so many statements. together: all threads of the block execute them."""
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
        self.scope.append((index, "u32"))
        body, ends = self.block(depth - 1, self.random.randrange(1, 3), False), self.term("bool", 1)
        self.scope.remove((index, "u32"))
        return f"{{ {often};\nfor (u32 {index} = 0; {index} < {last}; ++{index}) {{\n{body}\nif ({ends}) break; }} }}"

    def switch(self, depth: int) -> str:
        cases = [self.block(0, 1, False) for _ in range(self.random.choice([3, 8]))]
        text = "\n".join(f"case {i}: {body} break;" for i, body in enumerate(cases))
        return f"switch ({self.term('u32', 2)} % {len(cases) + 1}) {{\n{text}\n}}"

    def indexed(self, depth: int) -> str:
        """Write and read a thread's array at computed indices."""
        (name, kind), array = self.random.choice(self.variables), self.name()
        filled = ", ".join(self.term(kind, 1) for _ in range(4))
        write, read = self.term("u32", 2), self.term("u32", 2)
        return (
            f"{{ {kind} {array}[4] = {{{filled}}}; {array}[{write} & 3] = {self.term(kind, 2)};\n"
            f"{name} = {array}[{read} & 3]; }}"
        )

    def pointed(self, depth: int) -> str:
        """Write and read through a pointer that each thread computes."""
        (name, kind), pointer = self.random.choice(self.variables), self.name()
        place = f"{self.term('bool', 2)} ? tid % 3 ? shared + tid : space + tid : &own"
        return (
            f"{{ u64 own; u64* {pointer} = {place};\n"
            f"*({kind}*){pointer} = {self.term(kind, 3)}; {name} = *({kind}*){pointer}; }}"
        )

    def call(self, depth: int) -> str:
        (target, kind), scope = self.random.choice(self.variables), self.scope
        function = self.name()
        (x, first), (y, second) = self.random.choices(self.variables, k=2)
        self.scope = [("x", first), ("y", second)]
        head = f"__noinline__ __device__ {kind} {function}({first} x, {second} y)"
        self.functions.append(f"{head} {{ return {self.term(kind, 3)}; }}")
        self.scope = scope
        return f"{target} = {function}({x}, {y});"

    def exchange(self, depth: int) -> str:
        """Read another thread's variable through shared memory."""
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
        """Combine values of threads: votes, sums of a warp, atomics."""
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
        """Return a kernel of these statements, which reads all variables and writes them back."""
        rows = enumerate(self.variables)
        at = [(f"+ {row * THREADS}))[tid]", name, kind) for row, (name, kind) in rows]
        lines = [
            PROLOGUE, *self.functions,
            f'extern "C" __global__ void k(u64* in, u64* out, u64* space, '
            f"{', '.join(f'{kind} {name}' for name, kind in self.parameters)}) {{",
            f"__shared__ u64 shared[{THREADS}]; u32 tid = threadIdx.x;",
            *(f"{kind} {name} = (({kind}*)(in {place};" for place, name, kind in at),
            text,
            *(f"(({kind}*)(out {place} = {name};" for place, name, kind in at),
        ]  # fmt: skip
        return Program("\n".join((*lines, "}\n")), self.variables, self.parameters)


def written(seed: int) -> Program:
    writer = Writer(seed)
    return writer.program(writer.block(2, writer.random.randrange(3, 8), True))


@dataclass(frozen=True)
class Source(harness.Source):
    """A text to compile with options."""

    options: Sequence[str] = ()

    def compiler_options(self, macros: object) -> list[str]:
        return list(self.options)


def inputs(program: Program, seed: int) -> dict[str, np.ndarray]:
    """Return the initial variables of each thread, and the parameters."""
    values = {}
    for number, (name, kind) in enumerate((*program.variables, *program.parameters)):
        count = THREADS if number < len(program.variables) else 1
        values[name] = np.broadcast_to(numbers(kind, count, 100 * seed + number), THREADS)
    return values


def executed(
    program: Program, arch: str, seed: int, options: Sequence[str] = FAST
) -> dict[str, np.ndarray]:
    """Return the final variables. Raises ValueError for a failed compilation or a fault."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cu"
        path.write_text(program.text)
        done = nvrtc.compile_kernel(Source(path, program.text, options=options), arch, {})  # type: ignore[arg-type]
    if done.cubin is None:
        raise ValueError(done.log)
    values, rows = inputs(program, seed), len(program.variables)
    memory, out = np.zeros((rows, THREADS), np.uint64), np.zeros((rows, THREADS), np.uint64)
    for row, (name, _) in zip(memory, program.variables):
        row.view(values[name].dtype)[:THREADS] = values[name]
    arguments = [memory.ravel(), out.ravel(), np.zeros(THREADS, np.uint64)]
    arguments += [values[name][0] for name, _ in program.parameters]
    code = done.cubin, "k", keeping.of_cubin(done.cubin)
    ended = harness.launched(*code, arguments, 1, THREADS, seconds=60)
    if ended.faults:
        raise ValueError(ended.faults[0].message)
    variables = zip(program.variables, out)
    return {name: row.view(TYPES[kind])[:THREADS] for (name, kind), row in variables}


def same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return which elements have the same bits, or are both NaN."""
    bits = [np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}") for x in (first, second)]
    equal: np.ndarray = (bits[0] == bits[1]) | (np.isnan(first) & np.isnan(second))
    return equal


def difference(program: Program, arch: str, seed: int) -> str:
    """Return how the results of both compilations differ; empty if they are equal."""
    try:
        fast, plain = (executed(program, arch, seed, options) for options in (FAST, PLAIN))
    except ValueError as error:
        return str(error)
    for name, values in fast.items():
        if not np.all(right := same(values, plain[name])):
            thread = int(np.argmin(right))
            return f"{name} of thread {thread} is {values[thread]!r}, plainly compiled {plain[name][thread]!r}"
    return ""


def main(count: int, first: int, architectures: Sequence[str]) -> int:
    """Compare so many programs. Return 0 if none differs."""
    began, wrong = time.monotonic(), 0
    for seed in range(first, first + count):
        for arch in architectures:
            if message := difference(written(seed), arch, seed):
                wrong += 1
                print(f"{seed} {arch}: {message}", flush=True)
    spent = time.monotonic() - began
    print(f"{count} programs for {', '.join(architectures)}: {wrong} differ, {spent:.0f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or ["sm_90"]))
