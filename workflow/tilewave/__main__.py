"""The command line: execute one kernel file on the CPU, write a report, record what was measured.

    tilewave execute KERNEL.cu --shape 128x128x64 [--macro NAME=VALUE ...] [--arch sm_90]
    tilewave execute PROBE.cu --case NAME
    tilewave execute KERNEL.cu --shape 128 --lanes LINE [--output FILE.svg]
    tilewave wrap FILE.cu [--kernel NAME] [--operation NAME] [-o NAME.cu]
    tilewave report [--kernels FOLDER ...] [--shapes SHAPE ...] [--only WORDS]
    tilewave record [--from FOLDER [--keep]]
    tilewave pick SHAPE --dtype DTYPE [--gpu NAME]

The first three take ``--operations FOLDER ...`` with operations of one's own. Exit code 2 is a mistake on the
command line or in a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from tilewave.basics.errors import HERE, UserError
from tilewave.commands import compare, execute, pick, record, report, wrap

SUBCOMMANDS = (execute, wrap, report, record, compare, pick)
"""A module each, in the order of the help."""
MISTAKE = "usage error"
"""Status of the document where nothing was compiled or executed."""


class Parser(argparse.ArgumentParser):
    """Its mistakes are told like all others."""

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().split()[1:])
        raise UserError(HERE, self.prog, message, usage)


def parser() -> argparse.ArgumentParser:
    """Of all subcommands; each sets ``run``."""
    command_line = Parser(prog="tilewave", description=__doc__.split("\n")[0])
    commands = command_line.add_subparsers(dest="command", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add(commands)
    return command_line


@contextlib.contextmanager
def _leave_with_the_reader() -> Iterator[None]:
    """Ends without a word, with the status of SIGPIPE, where whoever reads the output has left (`| head`).

    Other pipes than the output may break, too: that is told as ever.
    """
    if sys.stdout is None:  # closed before Python began
        yield
        return
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        output = select.poll()
        output.register(sys.stdout, 0)
        if not output.poll(0):  # which tells of errors alone
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more
        raise SystemExit(128 + signal.SIGPIPE) from None


@_leave_with_the_reader()
def main(arguments: Sequence[str] | None = None, machine: Any = None) -> int:
    """Entry of ``tilewave``, which is ``python -m tilewave``, too; the exit code.

    machine: what executes, where it is not this CPU.
    """
    command = sys.argv[1:] if arguments is None else arguments
    try:
        options = parser().parse_args(command, argparse.Namespace(machine=machine))
        return int(options.run(options))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        if "--json" in command:
            version = execute.SCHEMA_VERSION
            document = {"schema_version": version, "status": MISTAKE, "reason": str(error)}
            print(json.dumps(document, indent=1))
        return execute.USAGE


if __name__ == "__main__":
    sys.exit(main())
