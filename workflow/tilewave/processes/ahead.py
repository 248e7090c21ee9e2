"""What `make` does before it starts Snakemake: look at the config files, clear the lock of a killed run.

Snakemake reads its `--configfile` before the Snakefile, and has a traceback for what it cannot read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewave.processes.unlock import unlock

OPTION = "--configfile"
"""As Snakemake has it: `--configfiles` is the same, `=` may join it to the first of its files."""


def config_files(words: Sequence[str]) -> Iterator[str]:
    """The files that Snakemake's command line names as configs."""
    named = False
    for word in words:
        if word.startswith("-"):
            option, _, first = word.partition("=")
            named = option in (OPTION, f"{OPTION}s")
            yield from filter(None, [first if named else ""])
        elif named:
            yield word


def main(words: Sequence[str]) -> int:
    """Exit code: 0 where Snakemake may start here; `words` is what it will be told."""
    named = list(config_files(words))
    if named:  # a run of the shipped config need not wait for these imports
        from tilewave.config import read
        from tilewave.errors import UserError

        try:
            for name in named:
                read(Path(name), name)
        except UserError as error:
            print(f"Error: {error}", file=sys.stderr)
            return 2
    return unlock(Path.cwd())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
