"""Mutants of the shipped kernels, judged by `tilewave check`: how many of which kind are found.

    python tools/mutants.py --made 300 --sample 60 --seed 1 --output mutants.md

A seed decides on all mutants before any is judged. A mutant with the code of the original is equivalent.
`equivalent_mutants.yaml` has others that are, by the digest of the changed file: a mutant of an edited file
counts as survived until its reason has been read again. Seconds and the budget are CPU time of one core.
"""

import argparse
import hashlib
import itertools
import os
import random
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tilewave import execution
from tilewave.commands import check, flags
from tilewave.kernel import result
from tilewave.kernel.front_matter import Kernel, load_kernel
from tilewave.kernel.variants import variant
from tilewave.pipeline import single

ROOT, ARCH = Path(__file__).parents[1], "sm_90"
KERNELS, EQUIVALENT = ROOT / "kernels", ROOT / "tools" / "equivalent_mutants.yaml"
SKIPPED = re.compile(r"^\s*(?://|#|static_assert|using\b)")
OF = r"(?<![\w.:>])(?:\w+(?:\.|->|::))*"
"""What may stand before a called name: an object or a namespace. A declaration has a type there."""
CALL = r"\([^;(){}]*\);"
SYNCHRONISES = rf"(?<!void ){OF}(?:__syncthreads|__syncwarp|sync\w*|wait\w*|\w*[bB]arrier\w*|arrive\w*|release\w*){CALL}"
FENCE = (
    rf"(?<!void ){OF}(?:__threadfence(?:_block)?|fence\w*|\w+_fence\w*|commit\w*|publish\w*){CALL}"
)
BOUND = r"(?P<left>[\w.\]]+ )(?P<sign><|>=)(?P<right> (?:\w+\.)?(?:m|n|k|rows|columns|size|count|end|chunks|steps|tiles)\b)"
STEPS = r"(?P<left>for \([^;]*;[^;<]*< )(?P<right>(?:\w+\.)?(?:k|chunks|steps|end|last|parts)\b)(?P<rest>;)"
PLACE = re.compile(r'File "([^"]+)", line (\d+)')
ENTRY = "\0entry"
"""Pattern of the kernel's opening brace."""
FIRST_THREAD = "threadIdx.x + threadIdx.y + threadIdx.z + blockIdx.x + blockIdx.y + blockIdx.z == 0"
LAST_BLOCK = (
    "threadIdx.x + threadIdx.y == 0 && blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1"
)
ROUNDED = (
    "static __device__ __forceinline__ float mutant_rounded(float x) "
    "{ return __uint_as_float(__float_as_uint(x) & 0xffff0000u); }\n"
)


@dataclass(frozen=True)
class Rule:
    """A way to make a kernel wrong: text of this pattern becomes another. before: declarations at the top."""

    kind: str
    pattern: str
    replacement: str
    before: str = ""


RULES = (
    Rule("barrier removed", SYNCHRONISES, ";"),
    Rule("barrier moved", rf"(?P<a>{SYNCHRONISES})(?P<b>\s*\n[^\n;{{}}#]+;)(?=\s*\n)", r"\g<b>\n\g<a>"),
    Rule("barrier moved", rf"(?P<b>\n[^\n;{{}}#/]+;)(?P<c>\s*\n\s*)(?P<a>{SYNCHRONISES})", r"\g<c>\g<a>\g<b>"),
    Rule("fence removed", FENCE, ";"),
    Rule("fence removed", r"asm volatile\(\"(?:fence|membar|wgmma\.fence)[^;]*;[^;]*;", ";"),
    Rule("bound off by one", BOUND, r"\g<left>\g<sign>\g<right> - 1"),
    Rule("bound off by one", BOUND, r"\g<left>\g<sign>\g<right> + 1"),
    Rule("index off by one", r"(?P<a>\[(?:\w+ [-+*] )*\w+)\](?= ?[=;])", r"\g<a> + 1]"),
    Rule("index off by one", r"\[(?P<a>[a-z]\w*)\]\[(?P<b>[a-z]\w*)\]", r"[\g<b>][\g<a>]"),
    Rule("alpha dropped", r"(?:\w+\.)?alpha \* ", ""),
    Rule("beta dropped", r" \+ (?:\w+\.)?beta \* [*\w\[\].]+", ""),
    Rule("beta dropped", r"fmaf\(beta, old, ", "fmaf(0.0f, old, "),
    Rule("last k step dropped", STEPS, r"\g<left>\g<right> - 1\g<rest>"),
    Rule("operand overwritten", ENTRY,
         f"if ({LAST_BLOCK}) *reinterpret_cast<volatile unsigned short*>((unsigned long long)(%a)) = 0;"),
    Rule("rounding to a smaller type", r"alpha \* (?P<a>\w+(?:\[\w+\])*)", r"alpha * mutant_rounded(\g<a>)", ROUNDED),
    Rule("rounding to a smaller type", r"(?P<a>\bsum\w*(?:\[\w+\])*) \+= (?P<b>[^;]+);", r"\g<a> = mutant_rounded(\g<a> + (\g<b>));", ROUNDED),
    *(Rule("work skipped above a size", ENTRY, f"if (%{size} > {limit}) return;")
      for size, limit in (("m", 512), ("n", 256), ("k", 1024), ("k", 2048))),
    Rule("atomic removed", r"atomicAdd\((?P<a>\w+), (?P<b>[^;()]+)\);", r"*\g<a> += \g<b>;"),
    Rule("atomic removed", r"atomicAdd\((?P<a>\w+), (?P<b>\w+)\) ==", r"((*\g<a> += \g<b>) - \g<b>) =="),
    Rule("results kept from a launch before", ENTRY,
         f"if (mutant_launches > 1) return; if ({FIRST_THREAD}) mutant_launches += 1;", "static __device__ int mutant_launches;\n"),
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A changed text of a file. file: relative to the folder of kernels."""

    kind: str
    kernel: Path
    file: Path
    line: int
    text: str = field(repr=False)
    before: str
    after: str

    @property
    def key(self) -> str:
        """A digest of the changed file, in this kernel."""
        content = f"{self.kernel}\n{self.file}\n{self.text}"
        return hashlib.sha256(content.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Outcome:
    """The judge's answer, one of `COLUMNS`."""

    mutant: Mutant
    name: str
    seconds: float
    sentence: str


def _kernels() -> list[Kernel]:
    paths = sorted([*KERNELS.glob("ladder/*.cu"), *KERNELS.glob("operations/*.cu")])
    return [load_kernel(path) for path in paths]


def _entry(text: str, kernel: Kernel) -> tuple[int, dict[str, str]] | None:
    """Return the position behind the kernel's opening brace, and its parameters by name."""
    match = re.search(rf"__global__[^;{{]*?\b{kernel.entry}\s*\((?P<list>[^)]*)\)\s*\{{", text)
    if match is None:
        return None
    names = re.findall(r"(\w+)\s*(?:,|$)", match["list"].strip() + ",")
    pointers = re.findall(r"const [^,]*\*[^,]*?(\w+)\s*(?:,|$)", match["list"])
    return match.end(), {
        **{name: name for name in names},
        **({"a": pointers[0]} if pointers else {}),
    }


def _at(text: str, kernel: Kernel, rule: Rule) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of each place where the rule changes a text."""
    if rule.pattern == ENTRY:
        entry = _entry(text, kernel)
        wanted = re.findall(r"%(\w)", rule.replacement)
        if entry is not None and all(name in entry[1] for name in wanted):
            new = re.sub(r"%(\w)", lambda name: entry[1][name[1]], rule.replacement)
            yield entry[0], entry[0], f"\n{new}"
        return
    front = kernel.front_lines if kernel.text == text else 0
    start = sum(len(line) for line in text.splitlines(keepends=True)[:front])
    for match in re.finditer(rule.pattern, text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if match.start() >= start and not SKIPPED.match(line) and "//" not in line:
            yield match.start(), match.end(), match.expand(rule.replacement)


def _compiled(kernel: Kernel, folder: Path) -> dict[str, Any]:
    """Compile the default variant of a kernel, with its files in a folder; return its entry."""
    return single.compiled(variant(kernel, {}, kernel.path, "macros"), ARCH, folder)


def _lines(kernel: Kernel) -> set[tuple[str, int]]:
    """Return the names and numbers of the lines that became instructions of the default variant."""
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        listing = Path(_compiled(kernel, Path(folder))["sass"]).read_text()
    return {(Path(name).name, int(line)) for name, line in PLACE.findall(listing)}


def _of_kernel(kernel: Kernel) -> Iterator[Mutant]:
    """Yield every mutant of a kernel: each place of each rule on a line that became instructions."""
    lines, texts = _lines(kernel), {kernel.path: kernel.text}
    texts |= {KERNELS / "include" / Path(name).name: text for name, text in kernel.headers.items()}
    places = (
        (path, text, rule, *change)
        for path, text in texts.items()
        if path.is_file()
        for rule in RULES
        for change in _at(text, kernel, rule)
    )
    for path, text, rule, start, end, new in places:
        first, last = (text.count("\n", 0, at) + 1 for at in (start, end))
        if rule.pattern == ENTRY or any((path.name, at) in lines for at in range(first, last + 1)):
            mark = "*/" if path == kernel.path else "#pragma once"
            top = text.find(mark) + len(mark)
            yield Mutant(
                rule.kind,
                kernel.path.relative_to(KERNELS),
                path.relative_to(KERNELS),
                last,
                f"{text[:top]}\n{rule.before}{text[top:start]}{new}{text[end:]}",
                " ".join(text[start:end].split()),
                " ".join(new.split()),
            )


def mutants(seed: int, most: int) -> list[Mutant]:
    """Return mutants: in turn one of each kind, and of each kind in an order that the seed decides."""
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in itertools.chain.from_iterable(map(_of_kernel, _kernels())):
        by_kind.setdefault(mutant.kind, []).append(mutant)
    chooser = random.Random(seed)
    for kind in sorted(by_kind):
        chooser.shuffle(by_kind[kind])
        # A place of a header is changed in one of the kernels that include it.
        places = {
            (mutant.file, mutant.line, mutant.before, mutant.after): mutant
            for mutant in by_kind[kind]
        }
        by_kind[kind] = list(places.values())
    rows = itertools.zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    return [mutant for row in rows for mutant in row if mutant is not None][:most]


class Judge:
    """Runs `tilewave check` on mutants in a copy of the folder of kernels."""

    def __init__(self, folder: Path, budget_s: float) -> None:
        self.budget_s = budget_s
        self.folder = folder / "kernels"
        shutil.copytree(KERNELS, self.folder)
        # Other work on this computer decides nothing.
        time.monotonic = time.perf_counter = time.process_time
        self.machine = execution.engine()
        self.codes: dict[Path, str] = {}
        rows = yaml.safe_load(EQUIVALENT.read_text())
        self.equivalent = {
            line.split()[0]: row["reason"] for row in rows for line in row["mutants"]
        }

    def _code(self, kernel: Path) -> str:
        """Return the digest of a kernel's code, empty if it does not compile."""
        with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
            entry = _compiled(load_kernel(self.folder / kernel), Path(folder))
        return str(entry.get("code", "")) if entry["status"] == result.OK else ""

    def outcome(self, mutant: Mutant) -> Outcome:
        """Judge a mutant."""
        if mutant.kernel not in self.codes:
            self.codes[mutant.kernel] = self._code(mutant.kernel)
        path = self.folder / mutant.file
        original = path.read_text()
        path.write_text(mutant.text)
        begun = sum(os.times()[:4])
        try:
            name, sentence = self._judged(mutant)
        finally:
            path.write_text(original)
        if name == "survived" and mutant.key in self.equivalent:
            name, sentence = "listed", self.equivalent[mutant.key]
        return Outcome(mutant, name, sum(os.times()[:4]) - begun, sentence)

    def _judged(self, mutant: Mutant) -> tuple[str, str]:
        code = self._code(mutant.kernel)
        if not code:
            return "does not compile", ""
        if code == self.codes[mutant.kernel]:
            return "same code", ""
        arguments = ["check", f"--budget={self.budget_s}", str(self.folder / mutant.kernel)]
        document = check.check(flags.options_of(check.add, arguments), self.machine)
        names = {result.RIGHT: "survived", result.NOT_RIGHT: "killed"}
        return names.get(document["exit_code"], "undecided"), str(document["sentence"])


COLUMNS = ("killed", "survived", "undecided", "same code", "listed", "does not compile")


def table(mutated: Sequence[Mutant], outcomes: Sequence[Outcome]) -> str:
    """Return the table by kind and the survivors as Markdown."""
    head = ["kind", "made", "judged", *COLUMNS, "seconds (median)"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for kind in [*dict.fromkeys(sorted(mutant.kind for mutant in mutated)), ""]:
        rows = [outcome for outcome in outcomes if kind in ("", outcome.mutant.kind)]
        number = sum(kind in ("", mutant.kind) for mutant in mutated)
        names = [outcome.name for outcome in rows]
        seconds = f"{statistics.median(outcome.seconds for outcome in rows):.1f}" if rows else ""
        counts = [number, len(rows), *(names.count(name) for name in COLUMNS)]
        lines.append("| " + " | ".join([kind or "all", *map(str, counts), seconds]) + " |")
    lines += ["", "Not killed:", ""]
    for outcome in outcomes:
        if outcome.name in ("survived", "undecided", "listed"):
            mutant = outcome.mutant
            lines.append(f"* {mutant.kind}, {outcome.name} ({mutant.key}): {mutant.kernel}, {mutant.file}:{mutant.line}: "
                         f"`{mutant.before}` becomes `{mutant.after}`: {outcome.sentence[:300]}")  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--made", type=int, default=300, help="mutants (default: %(default)s)")
    parser.add_argument("--sample", type=int, help="judge only the first of these (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--budget", type=float, default=5.0, help="CPU seconds (default: %(default)g)"
    )
    parser.add_argument("--output", type=Path, help="a Markdown file")
    options = parser.parse_args()
    mutated, outcomes = mutants(options.seed, options.made), []
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        judge = Judge(Path(folder), options.budget)
        for mutant in mutated[: options.sample]:
            outcomes.append(judge.outcome(mutant))
            print(f"{outcomes[-1].name}, {outcomes[-1].seconds:.1f} s: {mutant.kind}: {mutant.kernel}, "
                  f"{mutant.file}:{mutant.line}: {outcomes[-1].sentence[:160]}", flush=True)  # fmt: skip
            if options.output:
                options.output.write_text(table(mutated, outcomes))
    print(table(mutated, outcomes))


if __name__ == "__main__":
    main()
