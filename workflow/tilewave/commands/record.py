"""``tilewave record``: keep what the last report measured, or take over what was recorded elsewhere."""

import argparse
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, relative
from tilewave.commands import report
from tilewave.records.recorded import adopt, folders


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    parser = commands.add_parser(
        "record", help="merge measurements into the recorded figures of this folder",
        description="Merge what the last `tilewave report` of this folder measured on its GPU into "
        f"{RECORDED}, from which a report takes what it cannot measure; or what was recorded elsewhere.",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FOLDER",
        help="take over the figures of a checkout, a folder of recorded GPUs, or that of one GPU",
    )  # fmt: skip
    parser.add_argument(
        "--keep", action="store_true", help="where both hold a case, keep the figures of this one"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Record; the exit code. Raises UserError."""
    if options.source is None:
        return report.workflow(report.latest(), "record")
    print("\n".join(adopted(options, Path.cwd())))
    return 0


def adopted(options: argparse.Namespace, root: Path) -> list[str]:
    """Merge recorded figures of another place into those of the folder ``root``; a line for each GPU.

    Raises UserError where FOLDER holds none, or figures that name no clean commit.
    """
    source: Path = options.source
    single = [source] if (source / "environments.json").is_file() else []
    sources = single or folders(source) or folders(source / RECORDED)
    if not sources:
        allowed = "a checkout, or a folder with environments.json and results.parquet"
        raise UserError(HERE, "--from", str(source), allowed)
    lines = []
    for recorded in sources:
        target = root / RECORDED / recorded.resolve().name
        if target.resolve() == recorded.resolve():
            raise UserError(HERE, "--from", str(source), "another folder than this one's own")
        counts = adopt(target, recorded, options.keep)
        summary = ", ".join(f"{number} {what}" for what, number in counts.items())
        lines.append(f"{relative(target)}: {summary}")
    return lines
