"""Arguments that several subcommands take: ``--operations FOLDER ...``, and a shape."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tilewave.basics.errors import HERE, UserError, printable
from tilewave.kernel import includes, operations
from tilewave.pipeline.shapes import Shape, expand_shapes


def show(text: str) -> None:
    """Print a command's result. Texts of kernels and recordings command no terminal."""
    print(printable(text), end="" if text.endswith("\n") else "\n")


def add_operations(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--operations", nargs="+", action="extend", default=[], metavar="FOLDER",
        help="folders with your own operations (default: the folders in TILEWAVE_OPERATIONS)",
    )  # fmt: skip
    help = "a folder of headers outside the kernel's (repeatable)"
    parser.add_argument("--include", action="append", default=[], metavar="FOLDER", help=help)


class Parser(ArgumentParser):
    """A parser that raises UserError."""

    def __init__(self, **more: Any) -> None:
        """Take no abbreviation: ``--operation`` is not ``--operations``."""
        super().__init__(**more, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        remedy = f"See `{self.prog} --help`"
        raise UserError.because(HERE, f"{self.prog}: {message}", remedy)


PARSERS: dict[Callable[..., Any], Parser] = {}


def options_of(add: Callable[..., Any], arguments: Sequence[str], machine: Any = None) -> Namespace:
    """Parse the name and arguments of a subcommand, for code that runs it. Raises UserError."""
    if add not in PARSERS:
        PARSERS[add] = Parser(prog="tilewave")
        add(PARSERS[add].add_subparsers())
    return PARSERS[add].parse_args(arguments, Namespace(machine=machine))


def allow_headers(options: Namespace) -> list[Path]:
    """Let front matter name the folders of --include, and return them. Raises UserError."""
    for name in options.include:
        if not Path(name).is_dir():
            raise UserError(HERE, "--include", name, "a folder that exists")
    folders = list(map(Path, options.include))
    includes.allow(folders, anew=True)
    return folders


def use_operations(options: Namespace) -> list[str]:
    """Load operations from these folders from now on, and return the folders. Raises UserError."""
    allow_headers(options)
    names: list[str] = options.operations or operations.MODULES.folders()
    for folder in names:
        if not Path(folder).expanduser().is_dir():
            raise UserError(HERE, "--operations", folder, "a folder that exists")
    operations.MODULES.use(Path(folder).expanduser() for folder in names)
    return names


def sizes_of(dimensions: tuple[str, ...]) -> str:
    """Return the form of a shape, for a message."""
    if len(dimensions) == 1:
        return f"a size ({dimensions[0]})"
    return f"{len(dimensions)} sizes separated by x ({', '.join(dimensions)}), or one size for all"


def shape(text: str, dimensions: tuple[str, ...], key: str) -> Shape:
    """Return the shape of a text such as 4096 or 512x256x128. Raises UserError."""
    size: int | str = int(text) if text.isdigit() else text
    try:
        (resolved,) = expand_shapes([size], dimensions, HERE, key)
    except UserError as error:
        parts = text.split("x")
        readable = all(part.isdigit() for part in parts) and len(parts) in (1, len(dimensions))
        allowed = error.allowed if readable else sizes_of(dimensions)
        raise UserError(HERE, key, text, allowed) from error
    return resolved
