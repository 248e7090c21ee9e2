"""``tilewave record``: merge the last report's measurements into this folder's recording."""

from argparse import Namespace
from typing import Any

from tilewave.basics.paths import RECORDED
from tilewave.commands import report


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "record", help="merge measurements into the recorded values of this folder",
        description=f"Merge the measurements of the last `tilewave report` in this folder into {RECORDED}. "
        "A report takes from there what it cannot measure itself.",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Record and return the exit code. Raises UserError."""
    return report.workflow(report.latest(), "record")
