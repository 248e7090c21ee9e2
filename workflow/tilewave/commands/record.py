"""``tilewave record``: merge the last report's measurements, or another recording, into this folder."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, relative
from tilewave.commands import flags, report
from tilewave.records.folder import folders
from tilewave.records.recorded import adopt


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "record", help="merge measurements into the recorded values of this folder",
        description="Merge the measurements of the last `tilewave report` in this folder, or another "
        f"recording, into {RECORDED}. A report takes from there what it cannot measure itself.",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FOLDER",
        help="merge the recording in FOLDER: a checkout, a folder of recorded GPUs, or one GPU's folder",
    )  # fmt: skip
    help = "if both hold a case, keep this folder's figures"
    parser.add_argument("--keep", action="store_true", help=help)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Record and return the exit code. Raises UserError."""
    if options.source is None:
        return report.workflow(report.latest(), "record")
    flags.show("\n".join(adopted(options, Path.cwd())))
    return 0


def adopted(options: Namespace, root: Path) -> list[str]:
    """Merge another recording into ``root``'s; return a line for each GPU. Raises UserError without clean figures."""
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
            raise UserError(HERE, "--from", str(source), "another folder than the one merged into")
        counts = adopt(target, recorded, options.keep)
        summary = ", ".join(f"{number} {change}" for change, number in counts.items())
        lines.append(f"{relative(target)}: {summary}")
    return lines
