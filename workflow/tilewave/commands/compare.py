"""``tilewave compare``: two runs, two recordings, or the kernels of two folders or git revisions."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from tilewave.commands import HERE
from tilewave.comparing import changes, sides, telling
from tilewave.errors import UserError
from tilewave.records.store import write_atomically


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
        + "; ".join(f"{name}: {told}" for name, told in telling.RULES.items()).replace("%", "%%"),
    )  # fmt: skip
    made.add_argument("--json", type=Path, metavar="FILE", help="write the whole comparison")
    made.add_argument("--markdown", type=Path, metavar="FILE", help="write it for a pull request")
    made.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare; the exit code. Raises UserError."""
    rules = telling.rules(options.fail_on)
    before, dots, after = options.before.partition("..")
    if dots and options.after is not None:
        raise UserError(HERE, "B", options.after, "nothing beside A..B")
    made = _compared(before, (after or "HEAD") if dots else options.after, options)
    print(telling.text(made), end="")
    if options.json:
        text = json.dumps(made.document(), indent=1) + "\n"
        write_atomically(options.json, text.encode())
    if options.markdown:
        write_atomically(options.markdown, telling.markdown(made).encode())
    broken = telling.failures(made, rules)
    if broken:
        print(f"\nFailed (--fail-on {options.fail_on}):")
        print("\n".join(f"  {line}" for line in broken))
    return 1 if broken else 0


def _compared(before: str, after: str | None, options: argparse.Namespace) -> telling.Comparison:
    tables = [_tables(before), _tables(after) if after is not None else None]
    if tables[0] is not None and tables[1] is not None:
        return telling.Comparison.of(tables[0], tables[1])
    for name, known in zip((before, after), tables):
        if known is not None:
            allowed = "kernels or a revision on both sides, or a report or recording on both"
            raise UserError(HERE, "A, B", name, allowed)
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        work = Path(folder)
        found = [
            _kernels(name, options.kernels, work / str(place))
            for place, name in enumerate((before, after))
        ]
        names, gone, new = sides.changed(found[0], found[1], options.all)
        labels = [name or "the working tree" for name in (before, after)]
        if not names:
            nothing = [sides.nothing(label) for label in labels]
            return telling.Comparison.of(nothing[0], nothing[1], gone, new)
        one, other = (
            sides.of_kernels(label, folders, names, options.shapes, work / f"run-{place}")
            for place, (label, folders) in enumerate(zip(labels, found))
        )
        times = changes.times_in_turn(sides.in_turn(one, other))
        return telling.Comparison.of(one.side, other.side, gone, new, times)


def _tables(name: str) -> sides.Side | None:
    """A side whose figures are there already."""
    path = Path(name).expanduser()
    return (sides.of_run(path) or sides.of_recording(path)) if path.is_dir() else None


def _kernels(name: str | None, folders: list[str], where: Path) -> list[Path]:
    """The folders of kernels that a side stands for. Raises UserError."""
    if name is None:
        return [Path(folder) for folder in folders]
    path = Path(name).expanduser()
    if path.exists():
        return [path]
    return sides.revision(name, folders, where)
