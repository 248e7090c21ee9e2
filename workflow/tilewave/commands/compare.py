"""``tilewave compare``: two runs, two recordings, or the kernels of two folders or git revisions."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tilewave.commands import own
from tilewave.records.store import write_atomically
from tilewave.report.comparing import output, pairing


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    made = commands.add_parser(
        "compare", help="what is faster, slower or counted otherwise than before",
        description="Compare two sides: folders in which a report ran, folders of recorded figures, folders "
        "of kernels, or git revisions (A..B, or one for it against the working tree). Kernels are compiled "
        "and, without a GPU, executed on the CPU: those whose code differs.",
    )  # fmt: skip
    made.add_argument("before", metavar="A", help="a folder, a revision, or REVISION..REVISION")
    made.add_argument("after", metavar="B", nargs="?", help="default: the working tree")
    made.add_argument(
        "--kernels", nargs="+", default=["kernels"], metavar="FOLDER",
        help="with revisions: folders of kernels (default: kernels)",
    )  # fmt: skip
    made.add_argument(
        "--shapes",
        nargs="+",
        default=[],
        metavar="SHAPE",
        help="of kernels: default two small ones",
    )
    made.add_argument(
        "--all", action="store_true", help="of kernels: also those whose code does not differ"
    )
    made.add_argument(
        "--fail-on", default="wrong", metavar="RULES",
        help="exit 1 where one of these is broken (default: %(default)s): "
        + "; ".join(f"{name}: {told}" for name, told in output.RULES.items()).replace("%", "%%"),
    )  # fmt: skip
    own.add_operations(made)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the whole comparison")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write it for a pull request")
    made.add_argument(
        "--page", type=Path, metavar="FOLDER", help="write it with figures as FOLDER/index.html"
    )
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; the exit code. Raises UserError."""
    rules = output.rules(options.fail_on)
    asked = pairing.KernelOptions(
        options.kernels, options.shapes, own.use_operations(options), options.all
    )
    with tempfile.TemporaryDirectory(prefix="tilewave-") as work:
        made = pairing.compared(options.before, options.after, asked, Path(work))
        print(output.text(made), end="")
        if options.json:
            write_atomically(options.json, (json.dumps(made.document(), indent=1) + "\n").encode())
        if options.markdown:
            write_atomically(options.markdown, output.markdown(made).encode())
        if options.page:
            from tilewave.report.comparing import page  # draws: matplotlib takes a second to load

            print(f"The page is {page.write(options.page, made).resolve()}")
    broken = output.failures(made, rules)
    if broken:
        print(f"\nFailed (--fail-on {options.fail_on}):")
        print("\n".join(f"  {line}" for line in broken))
    return 1 if broken else 0
