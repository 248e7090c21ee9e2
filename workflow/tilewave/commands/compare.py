"""``tilewave compare``: two runs, two recordings, or the kernels of two folders or git revisions."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tilewave.commands import flags
from tilewave.records.store import write_atomically
from tilewave.report.comparing import pairing, telling


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    parser = commands.add_parser(
        "compare", help="what is faster, slower or counted otherwise than before",
        description="Compare two sides: folders in which a report ran, folders of recorded figures, folders "
        "of kernels, or git revisions (A..B, or one for it against the working tree). Kernels are compiled "
        "and, without a GPU, executed on the CPU: those whose code differs.",
    )  # fmt: skip
    parser.add_argument("before", metavar="A", help="a folder, a revision, or REVISION..REVISION")
    parser.add_argument("after", metavar="B", nargs="?", help="default: the working tree")
    parser.add_argument(
        "--kernels", nargs="+", default=["kernels"], metavar="FOLDER",
        help="with revisions: folders of kernels (default: kernels)",
    )  # fmt: skip
    parser.add_argument(
        "--shapes",
        nargs="+",
        default=[],
        metavar="SHAPE",
        help="of kernels: default two small ones",
    )
    parser.add_argument(
        "--all", action="store_true", help="of kernels: also those whose code does not differ"
    )
    parser.add_argument(
        "--fail-on", default="wrong", metavar="RULES",
        help="exit 1 where one of these is broken (default: %(default)s): "
        + "; ".join(f"{name}: {description}" for name, description in telling.RULES.items()).replace("%", "%%"),
    )  # fmt: skip
    flags.add_operations(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole comparison")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it for a pull request")
    parser.add_argument(
        "--page", type=Path, metavar="FOLDER", help="write it with figures as FOLDER/index.html"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; the exit code. Raises UserError."""
    rules = telling.rules(options.fail_on)
    request = pairing.Asked(
        options.kernels, options.shapes, flags.use_operations(options), options.all
    )
    with tempfile.TemporaryDirectory(prefix="tilewave-") as work:
        comparison = pairing.compared(options.before, options.after, request, Path(work))
        print(telling.text(comparison), end="")
        if options.json:
            write_atomically(
                options.json, (json.dumps(comparison.document(), indent=1) + "\n").encode()
            )
        if options.markdown:
            write_atomically(options.markdown, telling.markdown(comparison).encode())
        if options.page:
            from tilewave.report.comparing import page  # draws: matplotlib takes a second to load

            print(f"The page is {page.write(options.page, comparison).resolve()}")
    broken = telling.failures(comparison, rules)
    if broken:
        print(f"\nFailed (--fail-on {options.fail_on}):")
        print("\n".join(f"  {line}" for line in broken))
    return 1 if broken else 0
