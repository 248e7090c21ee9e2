"""Fuzzers of what compiling a kernel file brings: SASS listings, the compiler's log.

Listings and logs are damaged. Whatever they are, there is a result. Long runs, in the repository's root:

    PYTHONPATH=workflow:tests .venv/bin/python tests/fuzzing_kernels.py sass 100000
    PYTHONPATH=workflow:tests .venv/bin/python tests/fuzzing_kernels.py log 10000
"""

from __future__ import annotations

import functools
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from samples import ROOT
from tilewave.compiling import nvrtc, sass
from tilewave.errors import UserError
from tilewave.machine import program
from tilewave.records.recorded import Recorded

SLOWEST_S = 10.0
SIGNS = ("[", "]", "{", "}", ":", "'", '"', "\n", "  ", "#", "\t", "\0", "€", "%")


def one_line(error: UserError, path: object) -> None:
    """What every UserError holds to."""
    told = str(error)
    assert "\n" not in told and told.startswith(str(path)) and "; allowed: " in told, told
    assert len(told) < 50_000 and len(told.split("; allowed: ")[0]) < 5_000, len(told)


# --------------------------------------------------------------------------------------------- SASS


@functools.cache
def lines() -> list[str]:
    """Instructions of recorded listings, each once, as nvdisasm prints them."""
    recorded = Recorded(next(iter(sorted((ROOT / "resources" / "recorded").iterdir()))))
    found: dict[str, None] = {}
    for key in sorted(str(one["key"]) for one in recorded.compiled.values() if "key" in one)[:30]:
        listing = recorded.listing(key)
        found |= dict.fromkeys(one.text for one in sass.parse(listing[0] if listing else ""))
    return sorted(found)


WORDS = ("R255", "RZ", "UR63", "UP7", "PT", "!P9", "0x", "-0x80000000", "1e999", "+INF", "QNAN", "c[0x0][0x160]", "desc[UR4]",
         "[R1+0x", "]", "`(.L_x)", ".E.128", ".64", ",", ", ,", ".", "-", "|", "~", "@P0", "ffffffffff", "R0.64", "SR_TID.X",
         "B0", "SB7", "\x00", "é", "(*", "*)", "{", "}", "0f", "1e", "-.5", "a[0x10]", "R-1", "P", "U", "99999999999999999999")  # fmt: skip


def damaged(line: str, chance: random.Random) -> str:
    """A line with a piece cut out, put in, doubled, or taken from another."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, other = sorted(chance.randrange(len(line) + 1) for _ in range(2))
        piece = chance.choice(
            (line[at:other], "", *chance.choices(WORDS, k=4), chance.choice(lines())[at:other])
        )
        line = line[:at] + piece + line[chance.choice((at, other, other)) :]
    return line


def outcome_of_sass(line: str) -> str:
    """Whether an instruction is decoded or unsupported, alone and in a listing; nothing else may happen."""
    begun = time.process_time()
    if not line.strip() or (line.split()[0].startswith("@") and len(line.split()) < 2):
        return "no instruction"
    _, _, row, problem = program._decoded.__wrapped__(line)
    assert len(row) == program.c.COLUMNS * 4
    listing = f"\n\t.section\t.text.k,\n.text.k:\n        /*0000*/                   {line} ;\n\t.section\tx\n"
    sass.parse.__wrapped__(listing)
    for _, text in program._section(listing, "k"):
        if text:
            program._decoded.__wrapped__(text)
    assert time.process_time() - begun < SLOWEST_S
    return "decoded" if problem is None else "unsupported"


# ------------------------------------------------------------------------------------ the compiler's log

LOG = """\
kernels/k.cu(12): warning #177-D: variable "x" was declared but never referenced
kernels/k.cu(14): error: identifier "y" is undefined
      a[0] = y;
             ^
In file included from kernels/k.cu:3:
own.cuh(3): catastrophic error: cannot open source file "z.h"
1 error detected in the compilation of "kernels/k.cu".
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
"""


def outcome_of_log(text: str) -> str:
    """What is read from a log: a message of one line, and whole numbers."""
    begun = time.process_time()
    assert "\n" not in nvrtc._message(text, None)
    used = nvrtc._resources(text)
    assert all(isinstance(number, int) for one in used.values() for number in one.values())
    assert time.process_time() - begun < SLOWEST_S
    return "resources" if used else "none"


# ----------------------------------------------------------------------------------------- running them


def counted(
    strategy: st.SearchStrategy[Any], judge: Callable[[Any], str], examples: int
) -> Counter[str]:
    """Judge so many examples; how often each outcome came. Raises what a judgement raises, on the smallest
    example that shows it."""
    found: Counter[str] = Counter()

    @settings(
        max_examples=examples, deadline=None, database=None, derandomize=examples < 1000,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def run(one: Any) -> None:
        found[judge(one)] += 1

    run()
    return found


def sass_lines(examples: int) -> Counter[str]:
    many, each = 50, Counter[str]()

    def judge(seed: int) -> str:
        chance = random.Random(seed)
        for line in chance.choices(lines(), k=many):
            each[outcome_of_sass(damaged(line, chance))] += 1
        return "all"

    counted(st.integers(0, 2**64), judge, -(-examples // many))
    return each


@st.composite
def logs(draw: st.DrawFn) -> str:
    """A damaged log."""
    text = LOG
    for _ in range(draw(st.integers(1, 4))):
        at, gone = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
        text = (
            text[:at]
            + draw(st.sampled_from((*SIGNS, "(", "9" * 5000, "'k'")) | st.text())
            + text[at + gone :]
        )
    return text


FUZZERS: dict[str, Callable[[int], Counter[str]]] = {
    "sass": sass_lines,
    "log": lambda examples: counted(logs(), outcome_of_log, examples),
}

if __name__ == "__main__":
    name, number = sys.argv[1], int(sys.argv[2])
    started = time.monotonic()
    told = FUZZERS[name](number)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {dict(told)} in {time.monotonic() - started:.0f} s, {peak:.2f} GB at most")
