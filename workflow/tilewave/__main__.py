"""The command line of Tilewave: profile CUDA kernels, or execute their machine code on the CPU.

    tilewave check FILE|FOLDER [--macro NAME=VALUE ...] [--json]
    tilewave execute KERNEL.cu --shape 128x128x64 [--macro NAME=VALUE ...] [--arch sm_90]
    tilewave execute PROBE.cu --case NAME
    tilewave execute KERNEL.cu --shape 128 --lanes LINE [--output FILE.svg]
    tilewave wrap FILE.cu [--kernel NAME] [--operation NAME] [-o NAME.cu]
    tilewave report [--kernels FOLDER ...] [--shapes SHAPE ...] [--only NAMES]
    tilewave record
    tilewave compare A [B]
    tilewave explain A.ncu-rep [B.ncu-rep] [--fail-on RULES]
    tilewave figure STUDY [--dtypes NAMES] [--variants NAMES] [--width 85mm] -o FILE
    tilewave mcp

All but ``record`` and ``explain`` take ``--operations FOLDER ...`` with user-defined operations. Exit code 2 is a mistake
on the command line or in a file.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, cast

from tilewave.basics.errors import HERE, UserError
from tilewave.commands import SCHEMA_VERSION
from tilewave.kernel.result import USAGE
from tilewave.records.store import not_written

MEMORY = 4 << 30
"""Address space in bytes below which a failure is put down to its limit (`ulimit -v`)."""


def _explained(error: BaseException) -> str:
    """Return one line about an error that the machine causes; empty for any other."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    narrow = 0 <= limit < MEMORY and isinstance(error, ImportError | OSError | RuntimeError)
    if isinstance(error, MemoryError | SystemError) or narrow:
        allowed = f" (ulimit -v allows {limit / 2**30:.1f} GiB)" if limit >= 0 else ""
        return f"memory ran out{allowed}. Allow more, or choose smaller sizes"
    if isinstance(error, FileNotFoundError) and not _has_folder():
        return "the working folder no longer exists. Change to another folder"
    return str(error if isinstance(error, UserError) else not_written(error) or "")


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _drop_output() -> None:
    """Send what Python writes at its end to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _leaving() -> Iterator[None]:
    """Exit with one line where the machine ends the command, silently where the reader has left.
    The status is that of SIGPIPE for a reader that has left (`| head`), that of SIGINT for Ctrl-C, 3 for an internal
    error, else 2. A BrokenPipeError of any other pipe is raised again."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # closed before Python began
                sys.stdout.flush()
    except BrokenPipeError:
        output = select.poll()
        output.register(sys.stdout, 0)
        if not output.poll(0):  # poll reports errors only
            raise
        _drop_output()
        raise SystemExit(128 + signal.SIGPIPE) from None
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT) from None
    except Exception as error:
        explanation = _explained(error)
        *_, at = traceback.extract_tb(error.__traceback__)
        failure = f"Tilewave failed ({error!r}, line {at.lineno} of {at.name})"
        with contextlib.suppress(OSError):
            print(f"Error: {explanation or f'{failure}. Report it with the file'}", file=sys.stderr)
        if isinstance(error, OSError) and sys.stdout is not None:
            _drop_output()
        raise SystemExit(2 if explanation else 3) from None


SUBCOMMANDS = (
    "check", "execute", "wrap", "report", "record", "compare", "explain", "figure", "mcp",
)  # fmt: skip
"""Each is a module of `commands`, in the order of the help."""
MISTAKE = "usage error"
"""The status in the JSON document when nothing was compiled or executed."""


def parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the subcommand that the arguments begin with, else of all; each sets ``run``."""
    flags = importlib.import_module("tilewave.commands.flags")
    command_line = flags.Parser(prog="tilewave", description=__doc__.split("\n")[0])
    commands = command_line.add_subparsers(dest="command", required=True)
    named = [name for name in arguments[:1] if name in SUBCOMMANDS]
    for name in named or SUBCOMMANDS:  # each loads much that the others do not need
        importlib.import_module(f"tilewave.commands.{name}").add(commands)
    return cast(argparse.ArgumentParser, command_line)


@_leaving()
def main(arguments: Sequence[str] | None = None, machine: Any = None) -> int:
    """Run ``tilewave``, or ``python -m tilewave``, and return the exit code.
    machine: what executes kernels instead of this CPU."""
    command = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a character
    try:
        named = argparse.Namespace(machine=machine)
        options, rest = parser(command).parse_known_args(command, named)
        if rest:
            problem = f"unrecognized arguments: {' '.join(rest)}"
            raise UserError.because(HERE, problem, f"See `tilewave {options.command} --help`")
        return int(options.run(options))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        if "--json" in command:
            document = {"schema_version": SCHEMA_VERSION, "status": MISTAKE, "reason": str(error)}
            print(json.dumps(document, indent=1))
        return USAGE


if __name__ == "__main__":
    sys.exit(main())
