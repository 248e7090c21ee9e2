"""Fuzzers of what a kernel file brings: front matter, SASS listings, the compiler's log.

Front matter begins with that of a kernel file here, or with any keys of the model, and is then damaged; so are
listings and logs. Whatever it is, there is a result, or a UserError of one line that names the file. Long
runs, in the repository's root:

    PYTHONPATH=workflow:tests .venv/bin/python tests/fuzzing_kernels.py front 10000
    PYTHONPATH=workflow:tests .venv/bin/python tests/fuzzing_kernels.py sass 100000
    PYTHONPATH=workflow:tests .venv/bin/python tests/fuzzing_kernels.py log 10000
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import yaml
from hypothesis import HealthCheck, given, settings

from samples import ROOT
from tilewave import operations
from tilewave.cases import Case, Request, Shape
from tilewave.compiling import nvrtc, sass
from tilewave.config import Config
from tilewave.errors import UserError
from tilewave.kernels import (
    FENCES,
    Buffer,
    FrontMatter,
    Launched,
    ProbeCase,
    TensorMap,
    load_kernel,
)
from tilewave.machine import program
from tilewave.project import known_by
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.stages import jobs
from tilewave.stages.resolving import resolve
from tilewave.trial import try_out
from tilewave.variants import choices

SLOWEST_S = 10.0
CONFIG = {"studies": {"one": {"plot": "correctness", "title": "-", "cases": [{"shapes": [1]}]}}}
DEVICE = {"sms": 132, "shared_per_block_optin": 232448, "shared_per_sm": 233472, "l2_bytes": 2**25}
ODD = (
    "1 << 40", "9 ** 9 ** 9", "1 << (1 << 40)", "ceil(n / 0)", "[1] * 3", "max()", "'a'", "f'{m:>999999999}'",
    "'%99999999d' % 1", "n" * 300, "(" * 500, "-" * 5000, "a\nb", "../../x", "/etc/passwd", "<T>", "row", "f32",
    "x\x1b[2J", "m", "TILE", "null", "", "0", "1e400", "{REGISTERS}", "--pre-include=/etc/passwd", "all", -1, 0,
    1, 65, 2**31, 2**40, 2**63 - 1, 2**64, -(2**70), 10**4000, 0.5, 1e300, float("nan"), float("inf"), True, None,
)  # fmt: skip
FIELDS = [
    name
    for one in (FrontMatter, Launched, Buffer, TensorMap, ProbeCase)
    for name in one.model_fields
]
SIGNS = (
    "[",
    "]",
    "{",
    "}",
    ":",
    "- ",
    "&a ",
    "*a",
    "!!int ",
    "<<: ",
    "'",
    '"',
    "\n",
    "  ",
    "#",
    "\t",
    "\0",
    "€",
    "%",
)


def one_line(error: UserError, path: object) -> None:
    """What every UserError holds to."""
    told = str(error)
    assert "\n" not in told and told.startswith(str(path)) and "; allowed: " in told, told
    assert len(told) < 50_000 and len(told.split("; allowed: ")[0]) < 5_000, len(told)


# ------------------------------------------------------------------------------------- front matter


@functools.cache
def fronts() -> list[dict[str, Any]]:
    """The front matter of kernel files here."""
    found = []
    for path in sorted((*(ROOT / "kernels").glob("*/*.cu"), *(ROOT / "tests").glob("*/*.cu"))):
        opening, closing, _ = FENCES[".cu"]
        block = path.read_text().partition(opening)[2].partition(closing)[0]
        if block:
            found.append(yaml.safe_load(block))
    return found


def anything() -> st.SearchStrategy[Any]:
    """A value that a YAML document may hold."""
    plain = st.one_of(st.sampled_from(ODD), st.integers(), st.floats(), st.text(max_size=8))
    keys = st.one_of(st.sampled_from(FIELDS), st.text(max_size=4), st.integers(0, 9))
    return st.recursive(
        plain,
        lambda one: st.lists(one, max_size=4) | st.dictionaries(keys, one, max_size=3),
        max_leaves=6,
    )


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and mapping of a document, with each of its keys."""
    inside = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(inside):
        yield document, key
        if isinstance(value, (dict, list)):
            yield from places(value)


@st.composite
def front_matter(draw: st.DrawFn) -> str:
    """Damaged front matter, as text."""
    if draw(st.integers(0, 4)):
        document = copy.deepcopy(draw(st.sampled_from(fronts())))
    else:
        names = st.sampled_from(operations.names())
        optional = {
            name: anything()
            for name in sorted({*FrontMatter.model_fields} - {"title", "operation"})
        }
        document = draw(
            st.fixed_dictionaries({"title": st.just("t"), "operation": names}, optional=optional)
        )
    for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2, 3)))):
        where, key = draw(st.sampled_from(list(places(document))))
        what = draw(st.integers(0, 9))
        if what == 0:
            del where[key]
            if not document:
                break
        elif what == 1 and isinstance(where, dict):
            where[draw(st.sampled_from(FIELDS) | st.text(max_size=6))] = where.pop(key)
        elif what == 2 and isinstance(where, dict):
            where[draw(st.sampled_from(FIELDS))] = draw(anything())
        elif what == 3 and isinstance(where[key], str):
            where[key] += draw(
                st.sampled_from((" + 1", " << 60", " / 0", " ** 2", " if m else", "\n", " * m * n"))
            )
        else:
            where[key] = draw(anything())
    text = yaml.dump(document, allow_unicode=True)
    for _ in range(draw(st.sampled_from((0, 0, 0, 0, 0, 1, 3)))):
        at, gone = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
        text = text[:at] + draw(st.sampled_from(SIGNS)) + text[at + gone :]
    return text


def outcome_of_front_matter(text: str, folder: Path) -> str:
    """What becomes of a kernel file with this front matter, short of compiling it: the status of its last case,
    or that it is refused. Raises AssertionError for what is neither."""
    path, begun = folder / "sample.cu", time.process_time()
    path.write_text(f"/*---\n{text}\n---*/\n__global__ void sample() {{}}\n", encoding="utf-8")
    try:
        return _carried_through(path)
    except UserError as error:
        one_line(error, path)
        return "refused"
    finally:
        assert time.process_time() - begun < SLOWEST_S


def _carried_through(path: Path) -> str:
    kernel = load_kernel(path)
    json.dumps(known_by(kernel))
    config, status = Config.model_validate(CONFIG), "no case"
    wanted = itertools.chain(
        choices(kernel, "one_at_a_time", path, "macros"),
        choices(kernel, "each_dtype", path, "macros"),
    )
    for one in itertools.islice(wanted, 4):
        try_out(one)
        sizes = operations.load(kernel.front.operation, path).dimensions
        shape = Shape(tuple((name, 96) for name in sizes))
        named = list(kernel.front.cases)[:2] if kernel.front.operation == "probe" else [None]
        for name in named:
            case = Case(one, None if name else shape, name)
            if name:
                macros = kernel.front.cases[name].macros
                case = Case(next(choices(kernel, macros, path, f"cases.{name}.macros")), None, name)
            found = resolve(Request(case), {"device": DEVICE, "arch": 90})
            compiled = {"status": model.OK, "code": "c", "cubin": "x"}
            made = jobs.of_case("execute", found, {"sm_90": compiled}, "sm_90", config)
            json.dumps(made.result or made.job, default=vars)
            status = made.result["status"] if made.result else model.OK
            (path.parent / f"{case.variant.id}.sm_90.cubin").touch()  # its name is one of a file
    return status


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


def front(examples: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        return counted(
            front_matter(), lambda text: outcome_of_front_matter(text, Path(folder)), examples
        )


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
    "front": front,
    "sass": sass_lines,
    "log": lambda examples: counted(logs(), outcome_of_log, examples),
}

if __name__ == "__main__":
    name, number = sys.argv[1], int(sys.argv[2])
    started = time.monotonic()
    told = FUZZERS[name](number)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {dict(told)} in {time.monotonic() - started:.0f} s, {peak:.2f} GB at most")
