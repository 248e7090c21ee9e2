"""What several subcommands take: ``--operations FOLDER ...``, operations of one's own, and a shape."""

import argparse
from pathlib import Path

from tilewave.basics.errors import HERE, UserError
from tilewave.kernel import operations
from tilewave.pipeline.cases import Shape, expand_shapes


def add_operations(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--operations", nargs="+", action="extend", default=[], metavar="FOLDER",
        help="folders of operations of your own; default: those that TILEWAVE_OPERATIONS names",
    )  # fmt: skip


def use_operations(options: argparse.Namespace) -> list[str]:
    """The folders that are named, which are looked in from now on. Raises UserError."""
    named: list[str] = options.operations or operations.MODULES.folders()
    for folder in named:
        if not Path(folder).expanduser().is_dir():
            raise UserError(HERE, "--operations", folder, "a folder that exists")
    operations.MODULES.use(Path(folder).expanduser() for folder in named)
    return named


def shape(text: str, dimensions: tuple[str, ...], key: str) -> Shape:
    """The one shape that a word says: 4096, or 512x256x128. Raises UserError."""
    size: int | str = int(text) if text.isdigit() else text
    try:
        (resolved,) = expand_shapes([size], dimensions, HERE, key)
    except UserError as error:  # which names the place in a list
        raise UserError(HERE, key, text, error.allowed) from error
    return resolved
