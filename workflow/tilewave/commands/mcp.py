"""``tilewave mcp``: the judge as tools for an agent: check, execute, compare, over standard input and output.

It needs the package of the extra: ``pip install 'tilewave[mcp]'``. There is no network. A tool's result is the
JSON document of the command; a mistake in the arguments is a document with exit code 2 and the reason."""

import functools
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewave.basics.errors import HERE, UserError
from tilewave.commands import check as checking
from tilewave.commands import compare as comparing
from tilewave.commands import execute as executing
from tilewave.commands import flags
from tilewave.commands import outcome as outcomes
from tilewave.kernel import result

INSTRUCTIONS = """Judge CUDA kernels without a GPU: the machine code is executed on the CPU. `check` says whether a kernel
is right, at which line it is not, what to fix first and how far to trust that. `execute` does one shape and counts
by line. `compare` says what changed between two kernels, folders or git revisions.
exit_code: 0 right, 1 not right, 2 a mistake in the arguments or a file, 3 could not tell."""
LARGE = ("instructions",)
"""Parts of a document that are too long for an agent; `lines` has their sums."""

Document = dict[str, Any]


def add(commands: Any) -> None:
    summary = "serve check, execute and compare to an agent (Model Context Protocol, stdio)"
    commands.add_parser("mcp", help=summary, description=__doc__).set_defaults(run=run)


def run(options: Namespace) -> int:
    """Serve until the agent closes standard input. Raises UserError without the package."""
    server(options.machine).run("stdio")
    return result.RIGHT


def _reported(tool: Callable[..., Document]) -> Callable[..., Document]:
    """Return a tool whose document is also that of a mistake of the caller."""

    @functools.wraps(tool)
    def reported(*arguments: Any, **named: Any) -> Document:
        try:
            return tool(*arguments, **named)
        except UserError as error:
            return {"exit_code": result.USAGE, "status": "usage error", "reason": str(error)}

    return reported


def _variant(macros: dict[str, str] | None, arch: str | None) -> list[str]:
    """Return the arguments that choose a variant and its architecture."""
    definitions = [f"--macro={name}={value}" for name, value in (macros or {}).items()]
    return [*definitions, *([f"--arch={arch}"] if arch else [])]


def server(machine: Any = None) -> Any:
    """Return the server with its tools. machine: see `__main__.main`. Raises UserError without the package."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError as error:
        remedy = "Install it with: pip install 'tilewave[mcp]'"
        raise UserError.because(HERE, f"the package mcp is missing ({error})", remedy) from error
    service = MCPServer("tilewave", instructions=INSTRUCTIONS)

    def check(
        path: str,
        macros: dict[str, str] | None = None,
        arch: str | None = None,
        budget_s: float = executing.BUDGET_S,
    ) -> Document:
        """Say whether a kernel file, or each kernel of a folder, is right, and how far to trust that.

        path: a .cu file with or without front matter, a .yaml file, a cubin or a folder. macros: of the
        variant. arch: such as sm_90. budget_s: seconds for the trials of a kernel."""
        arguments = ["check", *_variant(macros, arch), f"--budget={budget_s}", "--", path]
        return checking.check(flags.options_of(checking.add, arguments), machine)

    def execute(
        path: str,
        shape: str | None = None,
        case: str | None = None,
        macros: dict[str, str] | None = None,
        arch: str | None = None,
    ) -> Document:
        """Execute a kernel file at a shape (128x128x64), or a probe's case, and count by line."""
        chosen = [f"--shape={shape}"] if shape else []
        chosen += [f"--case={case}"] if case else []
        options = executing.options_of([*chosen, *_variant(macros, arch), "--", path], machine)
        flags.use_operations(options)
        outcome = executing.execute(options)
        kept = {name: value for name, value in outcome.items() if name not in LARGE}
        return {"exit_code": outcomes.exit_code(outcome), **kept}

    def compare(
        before: str,
        after: str | None = None,
        kernels: list[str] | None = None,
        shapes: list[str] | None = None,
        fail_on: str = "wrong",
    ) -> Document:
        """Compare two kernel files, folders of kernels or git revisions; `after` is the working tree if missing.

        kernels: folders of kernels in both revisions. fail_on: rules that make the exit code 1, of wrong, slower,
        excess, registers and spills, separated by commas."""
        arguments = ["compare", f"--fail-on={fail_on}", "--kernels", *(kernels or ["kernels"])]
        arguments += ["--shapes", *shapes] if shapes else []
        sides = [before, *([after] if after else [])]
        options = flags.options_of(comparing.add, [*arguments, "--", *sides])
        with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
            comparison = comparing.compared(options, Path(folder))
            code, broken = comparing.judged(comparison, fail_on)
        return {"exit_code": code, "broken": broken, **comparison.document()}

    for tool in (check, execute, compare):
        service.add_tool(_reported(tool))
    return service
