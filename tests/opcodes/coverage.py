"""Which opcodes the fixtures make ptxas emit, with an example of each.

    PYTHONPATH=workflow python tests/opcodes/coverage.py FOLDER [--arch sm_90 ...] [--against FILE]

writes ``opcodes_<arch>.txt`` into FOLDER, one line an opcode with its modifiers: how often it
occurs, in which kernel first, and that instruction. ``--against`` names a listing whose lines begin
with an opcode; those that the fixtures lack on the first architecture are printed.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from opcodes import harness  # noqa: E402
from tilewave.compiling import sass  # noqa: E402

ARCHITECTURES = ("sm_90", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120")


def opcodes(arch: str) -> dict[str, tuple[int, str, str]]:
    """Opcode with modifiers -> how often, the first kernel that has it, that instruction."""
    counts: collections.Counter[str] = collections.Counter()
    examples: dict[str, tuple[str, str]] = {}
    for path in harness.files():
        cubin = harness.compile_file(path, arch).cubin
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            instructions = sass.parse(sass.as_text(Path(file.name)))
        for one in instructions:
            counts[one.opcode] += 1
            examples.setdefault(one.opcode, (one.function, one.text))
    return {name: (counts[name], *examples[name]) for name in sorted(counts)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    for arch in options.arch:
        found = opcodes(arch)
        rows = [
            f"{name:42} {count:5}  {kernel:26} {text}"
            for name, (count, kernel, text) in found.items()
        ]
        (options.folder / f"opcodes_{arch}.txt").write_text("\n".join(rows) + "\n")
        print(f"{arch}: {len(found)} opcodes")
        if options.against and arch == options.arch[0]:
            wanted = [line.split()[0] for line in options.against.read_text().splitlines() if line]
            print("lacking:", " ".join(name for name in wanted if name not in found) or "nothing")


if __name__ == "__main__":
    main()
