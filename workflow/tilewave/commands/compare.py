"""``tilewave compare``: compare kernels of two folders, files or git revisions."""

import json
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewave.commands import flags
from tilewave.kernel import result
from tilewave.records.store import write_atomically
from tilewave.report.comparing import output, sides
from tilewave.report.comparing.changes import Comparison


def add(commands: Any) -> None:
    rules = output.described(output.RULES)
    flags.command(commands, "compare", run, "operations", "texts", rules=rules)


def compared(options: Namespace, work: Path) -> Comparison:
    """Compare the two sides; ``work``: a folder for intermediate files. Raises UserError."""
    chosen = options.kernels, options.shapes, flags.use_operations(options), options.all
    return sides.compared(options.before, options.after, work, *chosen)


def judged(comparison: Comparison, fail_on: str) -> tuple[int, list[str]]:
    """Return the exit code, and a line for each change that breaks a rule. Raises UserError."""
    broken = output.failures(comparison, output.rules(fail_on))
    if broken:
        return result.NOT_RIGHT, broken
    return result.UNCLEAR if output.undecided(comparison) else result.RIGHT, []


def show_broken(fail_on: str, broken: Sequence[str]) -> None:
    """Print the changes that break a rule."""
    if broken:
        flags.show("\n  ".join([f"\nFailed (--fail-on {fail_on}):", *broken]))


def run(options: Namespace) -> int:
    """Compare and return the exit code. Raises UserError."""
    output.rules(options.fail_on)  # a mistake there ends the command before anything runs
    with tempfile.TemporaryDirectory(prefix="tilewave-") as work:
        comparison = compared(options, Path(work))
    flags.show(output.text(comparison))
    if options.json:
        document = json.dumps(comparison.document(), indent=1)
        write_atomically(options.json, f"{document}\n".encode())
    if options.markdown:
        write_atomically(options.markdown, output.markdown(comparison).encode())
    code, broken = judged(comparison, options.fail_on)
    show_broken(options.fail_on, broken)
    if code == result.UNCLEAR:
        print("\nCould not tell: nothing checked any of these cases")
    return code
