"""``tilewave record``: merge the last report's measurements into this folder's recording."""

from argparse import Namespace
from typing import Any

from tilewave.basics.paths import RECORDED
from tilewave.commands import flags, report


def add(commands: Any) -> None:
    flags.command(commands, "record", run, recorded=str(RECORDED))


def run(options: Namespace) -> int:
    """Record and return the exit code. Raises UserError."""
    return report.workflow(report.latest(), "record")
