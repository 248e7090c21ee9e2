"""``tilewave check FILE|FOLDER``: say whether kernels are right, what to fix first, and how far to trust it.
The judge chooses shapes and inputs. A file without front matter is wrapped first, in a temporary folder.
Exit code 0: right; 1: not right; 2: a mistake on the command line or in a file; 3: it could not tell."""

import json
import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics.columns import filled
from tilewave.basics.errors import HERE, UserError
from tilewave.commands import SCHEMA_VERSION, execute, flags, wrap
from tilewave.commands import outcome as outcomes
from tilewave.commands.checking.doubts import is_mostly_wrong
from tilewave.commands.checking.judging import WORST, otherwise_launched, verdict_on
from tilewave.commands.checking.judging_programs import Programs
from tilewave.commands.checking.sources import GUESSES, checked_kernels
from tilewave.commands.checking.switches import with_switches
from tilewave.commands.checking.tried import Row
from tilewave.execution import least
from tilewave.kernel import operations, result
from tilewave.kernel.operations import kernel_reference
from tilewave.pipeline import reference_kernel
from tilewave.report.cells import plural

LINES = 5
"""Number of costly lines, and of lines that were not reached, that the text shows."""


def add(commands: Any) -> None:
    summary = "say whether kernels are right, what to fix first, and how far to trust it"
    parser = commands.add_parser("check", help=summary, description=__doc__)
    parser.add_argument("path", type=Path, metavar="FILE", help="a kernel file, or a folder")
    parser.add_argument("--kernel", help="a kernel of a file without front matter (default: all)")
    group = parser.add_argument_group("a file without front matter, see `wrap`")
    for flag, metavar, text in wrap.TEXTS:
        if flag in GUESSES:
            group.add_argument(flag, metavar=metavar, help=text)
    execute.add_variant(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.set_defaults(run=run, off="")


def run(options: Namespace) -> int:
    """Check, print the outcome and return the exit code. Raises UserError."""
    outcome = check(options, options.machine)
    print(json.dumps(outcome, indent=1) if options.json else text(outcome))
    return int(outcome["exit_code"])


def check(options: Namespace, machine: Any = None) -> dict[str, Any]:
    """Check a file, or each kernel of a folder, and return one JSON document. Raises UserError."""
    options.operations = [str(Path(name).expanduser()) for name in flags.use_operations(options)]
    kernel_reference.execute = reference_kernel.outputs
    machine = machine or execute.engine_of(options)
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        kernels, skipped, signatures = [], dict[str, str](), list[str]()
        programs = Programs(options, machine, Path(folder))
        try:
            for source in checked_kernels(options, Path(folder), skipped):
                try:
                    document = verdict_on(source, options, machine)
                    document = with_switches(document, source, options, machine, Path(folder))
                    wrapped = source.kernel is None or source.kernel.path != source.path
                    if document["exit_code"] == result.UNCLEAR and wrapped:
                        document = programs.judged(document, source.path)
                    if document["exit_code"] == result.UNCLEAR and source.launches:
                        of_source = document, source, options, machine, Path(folder)
                        document = otherwise_launched(*of_source)
                    kernels.append(document)
                    named = source.kernel.front.operation if source.kernel else ""
                    is_shipped = source.signature and operations.MODULES.file(named) is None
                    signatures.append(f"{named}({source.signature})" if is_shipped else "")
                except UserError as error:
                    if not options.path.is_dir():
                        raise
                    skipped[source.name] = str(error)
        finally:  # the folder's operations end with it
            operations.MODULES.use(map(Path, options.operations))
    for entry, signature in zip(kernels, signatures):
        twins = (of for of, other in zip(kernels, signatures) if other == signature)
        twin = next((of for of in twins if of["exit_code"] == result.RIGHT), None)
        if signature and twin and is_mostly_wrong(entry):
            entry["exit_code"] = result.NOT_RIGHT
            entry["sentence"] = (
                f"{entry['kernel']} is not right as {signature.partition('(')[0]}: {entry['reason']}; "
                f"{twin['kernel']}, which has the same parameters, is"
            )
    if not kernels and not skipped:
        problem = f"{options.path} has no kernel"
        raise UserError.because(HERE, problem, "Give a folder with kernel files")
    codes = [*(entry["exit_code"] for entry in kernels), *([result.USAGE] if skipped else [])]
    sentences = [entry["sentence"] for entry in kernels]
    alike = len(kernels) == 1 or (len({*sentences}) == 1 and codes[0] == result.USAGE)
    return {
        "schema_version": SCHEMA_VERSION,
        "exit_code": min(codes, key=WORST.index),
        "sentence": sentences[0] if alike else _counted(kernels, skipped),
        "kernels": kernels,
        "skipped": skipped,
    }


def _counted(kernels: Sequence[Row], skipped: Mapping[str, str]) -> str:
    """Return the number of kernels by outcome in one sentence."""
    texts = {result.RIGHT: "right", result.NOT_RIGHT: "not right", result.UNCLEAR: "not decided"}
    codes = [entry["exit_code"] for entry in kernels]
    parts = [f"{codes.count(code)} {name}" for code, name in texts.items() if code in codes]
    parts += [f"{len(skipped)} skipped"] if skipped else []
    return f"of {plural(len(kernels) + len(skipped), 'kernel')}: {', '.join(parts)}"


def text(outcome: Row) -> str:
    entry = outcome["kernels"][0] if outcome["kernels"] else {}
    lines, bound = entry.get("counted", {}).get("lines", ()), entry.get("bound")
    costly = sorted(lines, key=lambda row: -row["executed"])[:LINES]
    return filled(
        __file__, "check", outcome=outcome, right=result.RIGHT, usage=result.USAGE, most=LINES,
        source_table=outcomes.source_table, costly=sorted(costly, key=lambda row: row["line"]),
        bound=least.sentence(bound) if bound else "",
    )  # fmt: skip
