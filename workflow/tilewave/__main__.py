"""The command line of Tilewave: profile CUDA kernels, or execute their machine code on the CPU.

    tilewave check FILE|FOLDER [--macro NAME=VALUE ...] [--json]
    tilewave execute KERNEL.cu --shape 128x128x64 [--macro NAME=VALUE ...] [--arch sm_90]
    tilewave execute PROBE.cu --case NAME
    tilewave execute KERNEL.cu --shape 128 --lanes LINE [--output FILE.svg]
    tilewave wrap FILE.cu [--kernel NAME] [--operation NAME] [-o NAME.cu]
    tilewave report [--kernels FOLDER ...] [--shapes SHAPE ...] [--only NAMES]
    tilewave record [--from FOLDER [--keep]]
    tilewave compare A [B]
    tilewave pick SHAPE --dtype DTYPE [--gpu NAME]
    tilewave mcp

All but ``record`` take ``--operations FOLDER ...`` with user-defined operations. Exit code 2 is a mistake
on the command line or in a file.
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
from typing import Any

from tilewave.basics.errors import HERE, UserError
from tilewave.commands import (
    check,
    compare,
    execute,
    flags,
    mcp_server,
    pick,
    record,
    report,
    wrap,
)
from tilewave.kernel import result

SUBCOMMANDS = (check, execute, wrap, report, record, compare, pick, mcp_server)
"""The module of each subcommand, in the order of the help."""
MISTAKE = "usage error"
"""The status in the JSON document when nothing was compiled or executed."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of all subcommands; each sets ``run``."""
    command_line = flags.Parser(prog="tilewave", description=__doc__.split("\n")[0])
    commands = command_line.add_subparsers(dest="command", required=True)
    for subcommand in SUBCOMMANDS:
        subcommand.add(commands)
    return command_line


@contextlib.contextmanager
def _leave_with_the_reader() -> Iterator[None]:
    """Exit silently with the status of SIGPIPE when the output's reader has left (`| head`).

    A BrokenPipeError of any other pipe is raised again.
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
        if not output.poll(0):  # poll reports errors only
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again
        raise SystemExit(128 + signal.SIGPIPE) from None


@_leave_with_the_reader()
def main(arguments: Sequence[str] | None = None, machine: Any = None) -> int:
    """Run ``tilewave``, or ``python -m tilewave``, and return the exit code.

    machine: what executes kernels instead of this CPU.
    """
    command = sys.argv[1:] if arguments is None else arguments
    try:
        options, rest = parser().parse_known_args(command, argparse.Namespace(machine=machine))
        if rest:
            problem = f"unrecognized arguments: {' '.join(rest)}"
            raise UserError.because(HERE, problem, f"See `tilewave {options.command} --help`")
        return int(options.run(options))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        if "--json" in command:
            version = execute.SCHEMA_VERSION
            document = {"schema_version": version, "status": MISTAKE, "reason": str(error)}
            print(json.dumps(document, indent=1))
        return result.USAGE


if __name__ == "__main__":
    sys.exit(main())
