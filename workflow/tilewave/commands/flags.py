"""Arguments of subcommands: their table, folders of operations, and a shape."""

import itertools
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tilewave.basics.errors import HERE, UserError, printable
from tilewave.basics.tables import table_beside
from tilewave.kernel import includes, operations
from tilewave.pipeline.shapes import Shape, expand_shapes

TABLE: Mapping[str, Mapping[str, Mapping[str, Any]]] = table_beside(__file__)
TYPES = {"int": int, "float": float, "path": Path}


def show(text: str) -> None:
    """Print a command's result. Texts of kernels and recordings command no terminal."""
    print(printable(text), end="" if text.endswith("\n") else "\n")


def add(parser: ArgumentParser, *parts: str, **facts: str) -> None:
    """Add the arguments of these parts of flags.yaml. facts: texts for the names in braces there."""
    for names, row in itertools.chain.from_iterable(TABLE[part].items() for part in parts):
        kind = {"type": TYPES[row["type"]]} if "type" in row else {}
        help = row["help"].format(**facts)
        parser.add_argument(*names.split(), **{**row, **kind, "help": help})


def command(commands: Any, name: str, run: Callable[..., int], *parts: str, **facts: str) -> None:
    """Add a subcommand with its texts, its own arguments and those of these parts of flags.yaml."""
    texts = TABLE["commands"][name]
    parser = commands.add_parser(name, **{of: text.format(**facts) for of, text in texts.items()})
    add(parser, *filter(TABLE.__contains__, (name, *parts)), **facts)
    parser.set_defaults(run=run)


class Parser(ArgumentParser):
    """A parser that raises UserError."""

    def __init__(self, **more: Any) -> None:
        """Take no abbreviation: ``--operation`` is not ``--operations``."""
        super().__init__(**more, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UserError.because(HERE, f"{self.prog}: {message}", f"See `{self.prog} --help`")


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
