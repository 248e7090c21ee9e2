"""``tilewave execute KERNEL.cu``: execute a kernel's machine code on the CPU, check it and count.

Exit code 0: the result is correct, or a probe ran; 1: it is wrong, failed, or has a fault such as a race;
2: a mistake on the command line or in the file; 3: nothing checked it, or something is not supported.
"""

import argparse
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewave import execution
from tilewave.basics.columns import columns, count
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, place, relative
from tilewave.basics.progress import say
from tilewave.commands import flags
from tilewave.compiling import nvrtc
from tilewave.execution import case, least, watched
from tilewave.execution.lanes.captured import Diagram
from tilewave.kernel import operations, result, trial
from tilewave.kernel.front_matter import GUESSED, INFERRED, Kernel, load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.result import Result
from tilewave.kernel.variants import Variant, choices
from tilewave.kernel.variants import variant as chosen_variant
from tilewave.pipeline import reference_kernel, single, trials
from tilewave.pipeline.cases import Case
from tilewave.pipeline.target import FALLBACK_ARCH, device
from tilewave.records.counters.instructions import instruction_kind
from tilewave.records.recorded import largest_first
from tilewave.theory import architectures
from tilewave.theory.data_sheets import SHORT, DataSheet

SCHEMA_VERSION = 1
PRINTED = 40
"""Most lines of a kernel's printf that are shown."""
GOOD = (result.CORRECT, result.NOT_CHECKED)
LIMIT_S, BUDGET_S = 600.0, 5.0
ARCHITECTURE = re.compile(r"(?:sm_?|compute_?)?(\d+[af]?)")


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    summary = "execute a kernel's machine code on the CPU, check it and count"
    parser = commands.add_parser("execute", help=summary, description=__doc__)
    _add_options(parser)
    parser.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", type=Path, help="a kernel file: .cu, or .yaml with a cubin")
    parser.add_argument("--shape", help="sizes in the operation's order: 128x128x64, or 128")
    parser.add_argument("--case", help="the case of a probe")
    add_variant(parser)
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="default: %(default)g"
    )
    parser.add_argument(
        "--lanes", metavar="LINE",
        help="draw the line's worst access to shared memory, lane by lane and bank by bank; "
        "FILE:LINE for a line of a header",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="of --lanes (default: KERNEL_line_LINE.svg)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    add_budget(parser)


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add the limit of `pipeline.trials`."""
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, metavar="SECONDS",
        help="for trials with other shapes and inputs (default: %(default)g)",
    )  # fmt: skip


def add_variant(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a variant, its target and its inputs."""
    parser.add_argument(
        "--macro", action="append", default=[], metavar="NAME=VALUE", help="a macro (repeatable)"
    )
    flags.add_operations(parser)
    parser.add_argument("--arch", help=f"default: that of --gpu, else sm_{FALLBACK_ARCH}")
    parser.add_argument(
        "--gpu",
        help=f"the GPU whose shortest possible time is printed ({', '.join(SHORT)}; default: the recorded GPU "
        "of the architecture with the most results)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the inputs (default: 1)")


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of ``execute``, for code that executes a kernel."""
    parser = argparse.ArgumentParser()
    _add_options(parser)
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> int:
    """Execute, print the outcome and return the exit code. Raises UserError."""
    flags.use_operations(options)
    outcome = execute(options, options.machine, options.budget)
    flags.show(json.dumps(outcome, indent=1) if options.json else text(outcome))
    return exit_code(outcome)


# ------------------------------------------------------------------------------ what is executed


def kernel_of(path: Path) -> Kernel:
    """Load a kernel file with machine code. Raises UserError."""
    if not path.is_file():
        raise UserError.because(HERE, f"{path} is not a file", "Give a kernel file")
    kernel = load_kernel(path) if path.suffix in (".cu", ".yaml") else None
    if kernel is None or kernel.provider != "nvrtc":
        remedy = "Give a .cu file, or a .yaml file with a `cubin`: only machine code is executed"
        raise UserError.because(HERE, f"{path} has no machine code", remedy)
    return kernel


def _with_facts(kernel: Kernel) -> Kernel:
    """Return a kernel without what `requires` infers from a failed trial: such a shape is executed."""
    inferred = kernel.marked(INFERRED).get("requires", "")
    kept = {
        key: of
        for key, of in kernel.front.requires.items()
        if key not in re.findall(r"\w+", inferred)
    }
    return replace(kernel, front=kernel.front.model_copy(update={"requires": kept}))


def _macros(definitions: Iterable[str]) -> dict[str, str]:
    macros = {}
    for definition in definitions:
        name, sign, value = definition.partition("=")
        if not sign or not name:
            raise UserError(HERE, "--macro", definition, "NAME=VALUE")
        macros[name] = value
    return macros


def probe_case(kernel: Kernel, name: str) -> Case:
    """Return a case of a probe. Raises UserError."""
    macros = kernel.front.cases[name].macros
    return Case(next(choices(kernel, macros, kernel.path, f"cases.{name}.macros")), None, name)


def variant_of(kernel: Kernel, definitions: Iterable[str]) -> Variant:
    """Return the variant of --macro NAME=VALUE. Raises UserError."""
    return chosen_variant(kernel, _macros(definitions), HERE, "--macro")


def _case(kernel: Kernel, options: argparse.Namespace) -> Case:
    front = kernel.front
    if front.operation == "probe":
        if options.case not in front.cases:
            raise UserError(HERE, "--case", options.case, front.cases)
        for value, name in ((options.shape, "--shape"), (options.macro, "--macro")):
            if value:
                problem = f"{name} is given, but {kernel.name} is a probe: its case decides that"
                raise UserError.because(HERE, problem, f"Remove {name}")
        return probe_case(kernel, options.case)
    dimensions = operations.load(front.operation, kernel.path).dimensions
    if options.case is not None:
        problem = f"--case is given, but {kernel.name} is not a probe and has no cases"
        raise UserError.because(HERE, problem, f"Use --shape: {flags.sizes_of(dimensions)}")
    if options.shape is None:
        raise UserError(HERE, "--shape", None, flags.sizes_of(dimensions))
    shape = flags.shape(options.shape, dimensions, "--shape")
    return Case(variant_of(kernel, options.macro), shape)


def arch_of(options: argparse.Namespace) -> str:
    """Return the architecture of --arch or --gpu as NVRTC names it: ``sm_90`` for ``compute_90``."""
    arch = options.arch
    if arch is None and options.gpu is not None:
        arch = least.gpu_named(options.gpu, HERE).capability.replace(".", "")
    arch = arch or f"sm_{FALLBACK_ARCH}"
    match = ARCHITECTURE.fullmatch(arch)
    return f"sm_{match[1]}" if match else arch


def gpu_of(options: argparse.Namespace) -> DataSheet | None:
    """Return the GPU of --gpu, or the recorded one of the architecture. Raises UserError."""
    if options.gpu is None:
        number = architectures.number(arch_of(options))
        for recorded in largest_first(place(RECORDED)):
            facts = recorded.environments.get(recorded.main_environment, {})
            if sheet := least.gpu_of(number, str(facts.get("gpu") or "")):
                return sheet
        return least.gpu_of(number, "")
    sheet = least.gpu_named(options.gpu, HERE)
    arch = f"sm_{sheet.capability.replace('.', '')}"
    if arch_of(options).rstrip("af") != arch:
        problem = f"--gpu {options.gpu} is {arch}, but --arch is {arch_of(options)}"
        raise UserError.because(HERE, problem, f"Give a GPU of {arch_of(options)}, or no --arch")
    return sheet


def target_of(arch: str, gpu: DataSheet | None = None) -> dict[str, Any]:
    """Return a recorded device of the architecture, for the expressions of front matter.

    If none was recorded, ``sms`` is that of ``gpu``, else that of a device of another architecture.
    """
    why = nvrtc.available()
    if why:
        remedy = "Install the packages of requirements/base.txt"
        raise UserError.because(HERE, f"NVRTC cannot be used: {why}", remedy)
    if arch not in nvrtc.architectures():
        raise UserError(HERE, "--arch", arch, nvrtc.architectures())
    number = architectures.number(arch)
    facts: dict[str, Any] = {} if gpu is None else {"sms": gpu.sms}
    for recorded in largest_first(place(RECORDED)):
        recorded_facts = device(recorded.environments.get(recorded.main_environment, {}))
        if recorded_facts.get("arch") == number:
            return {"device": {**recorded_facts, **facts}, "arch": number}
        facts = facts or {name: recorded_facts[name] for name in ("sms",) if name in recorded_facts}
    return {"device": facts, "arch": number}


def planned(options: argparse.Namespace, folder: Path) -> tuple[Case, Job | Result, dict[str, Any]]:
    """Compile the case of the command line, its files in ``folder``. Raises UserError.

    Returns the case, its job (or its result if no job can run), and the entry of what was compiled.
    """
    kernel = kernel_of(options.kernel)
    selected = _case(kernel, options)
    trial.try_out(selected.variant)
    selected = _case(_with_facts(kernel), options)
    arch = arch_of(options)
    target = target_of(arch, None if options.gpu is None else gpu_of(options))
    return selected, *single.planned(selected, arch, target, folder, options.seed, options.limit)


# ----------------------------------------------------------------------------------- the document


def _sums(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, int]:
    """Sum the columns; rows without hardware wavefronts (wgmma) add no ideal wavefronts."""
    rows = list(rows)
    counted = [row for row in rows if row.get("wavefronts_hardware") is not None]
    return {
        name: sum(int(row.get(name) or 0) for row in (counted if name == IDEAL else rows))
        for name in columns
    }


IDEAL = "wavefronts_shared_ideal"
SHARED = (
    "requests_shared",
    "transactions_shared",
    "wavefronts_hardware",
    "wavefronts_shared",
    IDEAL,
    "conflicts_shared",
)
GLOBAL = ("requests_global", "sectors_hardware", "sectors_global_ideal")
LINE = (
    "executed",
    "threads_executed",
    "wavefronts_hardware",
    "wavefronts_shared",
    IDEAL,
    "sectors_hardware",
)


def _kinds(
    rows: Sequence[Mapping[str, Any]], column: str, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Sum the columns for each kind of instruction whose rows have ``column``."""
    kinds = dict.fromkeys(instruction_kind(str(row["opcode"])) for row in rows if column in row)
    return [
        {"kind": kind, **_sums((r for r in rows if instruction_kind(r["opcode"]) == kind), columns)}
        for kind in kinds
        if any(r["executed"] for r in rows if instruction_kind(r["opcode"]) == kind)
    ]


def _with_excess(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"excess": row["wavefronts_hardware"] - row[IDEAL]}


def _summed(
    rows: Iterable[Mapping[str, Any]], column: str, texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return each line with the sums of the rows whose ``column`` is its number."""
    by_line: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_line.setdefault(int(row[column]), []).append(row)
    return [
        _with_excess({"line": line, "text": text, **_sums(by_line.get(line, ()), LINE)})
        for line, text in texts.items()
    ]


def _lines(kernel: Kernel, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each line after the front matter with its sums, also for what it calls in headers."""
    texts, start = enumerate(kernel.text.splitlines(), 1), kernel.front_lines
    return _summed(rows, "kernel_line", {line: text for line, text in texts if line > start})


def _headers(kernel: Kernel, table: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each header that became instructions, with their sums."""
    by_file: dict[str, list[Mapping[str, Any]]] = {}
    for row in table:
        if row["file"] not in ("", kernel.path.name):
            by_file.setdefault(str(row["file"]), []).append(row)
    return {
        name: _summed(rows, "line", dict(sorted((row["line"], row["text"]) for row in rows)))
        for name, rows in sorted(by_file.items())
    }


def _series(job: Job | None, kernel: Kernel, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kernel, geometry and resources of each launch of a series."""
    if job is None or not job.launch.series:
        return {}
    resources = entry.get("resources", {})
    return {
        "launches": [
            {
                "entry": name,
                "grid": list(step.grid),
                "block": list(step.block),
                "dynamic_shared_bytes": step.shared_bytes,
                "resources": resources.get(name, {}),
            }
            for (name, _), step in zip(kernel.launches, job.launch.steps)
        ]
    }


def document(
    arch: str,
    selected: Case,
    planned: Job | Result,
    entry: Mapping[str, Any],
    done: case.CaseExecution | None,
) -> dict[str, Any]:
    """Return the execution as one JSON document."""
    job = planned if isinstance(planned, Job) else None
    job_result = done.result if done is not None else planned
    assert not isinstance(job_result, Job)
    kernel = selected.variant.kernel
    rows = done.rows() if done is not None else []
    notes = job_result.notes
    check = notes.get("check", {})
    verdict, reason = job_result.verdict or result.NOT_CHECKED, job_result.reason
    guesses = list(kernel.marked(GUESSED))
    if guesses and job and not (job_result.status == result.OK and verdict in GOOD):
        *others, last = guesses
        what = f"{', '.join(others)} and {last}" if others else last
        reason = f"with a guessed {what}, {reason}"
    return {
        "schema_version": SCHEMA_VERSION,
        "kernel": kernel.name,
        "file": relative(kernel.path),
        "title": kernel.front.title,
        "operation": kernel.front.operation,
        "guessed": list(kernel.marked(GUESSED)),
        "variant": selected.variant.id,
        "macros": selected.variant.names,
        "case": selected.id,
        "arch": arch,
        "shape": job.shape if job else {},
        "grid": list(job.launch.grid) if job else [],
        "block": list(job.launch.block) if job else [],
        "dynamic_shared_bytes": job.launch.shared_bytes if job else 0,
        "resources": entry.get("resources", {}).get(kernel.entry, {}),
        **_series(job, kernel, entry),
        "status": job_result.status,
        "reason": reason,
        "warning": entry.get("warning", ""),
        "verdict": verdict,
        "expected": selected.expects(job_result),
        "check": {figure["metric"]: figure["value"] for figure in check.get("figures", [])}
        | {name: value for name, value in check.items() if name != "figures"},
        "faults": notes.get("faults", []),
        "hints": notes.get("hints", []),
        "counters": job_result.by_metric,
        "printed": list(done.printed) if done is not None else [],
        "prints": done.prints if done is not None else 0,
        "classes": case.classes(done) if done is not None else [],
        "shared": [_with_excess(row) for row in _kinds(rows, "wavefronts_hardware", SHARED)],
        "global": _kinds(rows, "sectors_hardware", GLOBAL),
        "lines": _lines(kernel, rows) if rows else [],
        "headers": _headers(kernel, rows),
        "instructions": rows,
        "thread_instructions": notes.get("thread_instructions", 0),
        "seconds": notes.get("seconds", 0.0),
        "launched_seconds": done.launched_s if done is not None else 0.0,
        "versions": notes.get("versions"),
    }


# ---------------------------------------------------------------------------------------- the text


def _headline(outcome: Mapping[str, Any]) -> list[str]:
    ok = outcome["status"] == result.OK
    lines = [f"{outcome['case']}: {outcome['verdict'] if ok else outcome['status']}"]
    if outcome["reason"]:
        lines.append(f"  {outcome['reason']}")
    lines += [f"  {hint}" for hint in outcome.get("hints", ())]
    if outcome["warning"]:
        lines.append(f"  {outcome['warning']}")
    check = outcome["check"]
    if "worst_error" in check:
        scaled = ", ".join(
            f"{name} = {check[name]:g}" for name in ("alpha", "beta") if name in check
        )
        lines.append(
            f"  largest error {check['max_error']:.3g}; nearest to its tolerance: "
            f"{check['worst_error']:.3g} of {check['worst_tolerance']:.3g}; "
            f"relative error {check['relative_error']:.3g}, tolerance "
            f"{check['relative_tolerance']:.3g}"
            + (f" (worst of the runs: {scaled})" if scaled else "")
        )
    for launch in outcome.get("launches", [outcome] if outcome["grid"] else []):
        resources = launch["resources"]
        size = " x ".join(map(str, launch["grid"])), " x ".join(map(str, launch["block"]))
        shared = int(resources.get("static_shared_bytes", 0)) + int(launch["dynamic_shared_bytes"])
        prefix = f"{launch['entry']}: " if launch is not outcome else ""
        lines.append(
            f"  {prefix}{outcome['arch']}, grid {size[0]}, block {size[1]}, {resources.get('registers', '?')} "
            f"registers, {count(shared)} bytes of shared memory"
        )
    if outcome.get("bound"):
        lines.append(f"  {least.sentence(outcome['bound'])}")
    if "tried" in outcome:
        lines.append(f"  {outcome['tried']}")
    return lines


def _printed(outcome: Mapping[str, Any]) -> list[str]:
    """Return the first lines of the kernel's printf."""
    lines = "".join(outcome["printed"]).splitlines()
    if not lines:
        return []
    shown = ["", "Printed", *(f"  {line}" for line in lines[:PRINTED])]
    missing = outcome["prints"] - len(outcome["printed"])
    if len(lines) > PRINTED or missing:
        calls_left = f" and {count(missing)} more calls" if missing else ""
        calls = f"--json has {count(len(outcome['printed']))} calls"
        shown.append(f"  ... ({count(len(lines))} lines{calls_left} in all; {calls})")
    return shown


def source_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a file with their counts, and with ncu's wavefronts where they differ."""
    titles = {"executed": "warp inst.", "wavefronts_hardware": "wavefronts"}
    if any(row["wavefronts_shared"] != row["wavefronts_hardware"] for row in rows):
        titles["wavefronts_shared"] = "by ncu"
    titles |= {"excess": "excess", "sectors_hardware": "sectors"}
    cells_of_lines = []
    for row in rows:
        counted = bool(row["executed"])
        cells = [
            count(row[name]) if counted and (row[name] or name == "executed") else ""
            for name in titles
        ]
        cells_of_lines.append([str(row["line"]), *cells])
    table = columns(["line", *titles.values()], cells_of_lines, text_columns=0)
    width = max(map(len, table))
    texts = ["source", *(row["text"] for row in rows)]
    return [f"{row.ljust(width)}  | {text}".rstrip() for row, text in zip(table, texts)]


def text(outcome: Mapping[str, Any]) -> str:
    """Return the document as text for a terminal."""
    lines = _headline(outcome) + _printed(outcome)
    if "lanes" in outcome:
        drawn = outcome["lanes"]
        return "\n".join([*lines, "", *drawn["text"], "", f"drawn in {drawn['file']}"])
    if not outcome["instructions"]:
        return "\n".join(lines)
    classes = outcome["classes"]
    total = sum(row["executed"] for row in classes) or 1
    lines += ["", "Instructions"]
    rows = [
        [
            row["class"],
            count(row["executed"]),
            count(row["threads_executed"]),
            f"{100 * row['executed'] / total:.1f} %",
        ]
        for row in classes
    ]
    sums = _sums(classes, ("executed", "threads_executed"))
    rows.append(["all", count(sums["executed"]), count(sums["threads_executed"]), "100.0 %"])
    lines += columns(["class", "of warps", "of threads", "share"], rows)
    counted = {
        name: value
        for name, value in outcome["counters"].items()
        if name.startswith(("counted_", "sm__ops_path", "smsp__sass_thread")) and value
    }
    if counted:
        lines += ["", "Operations"]
        rows = [[name, count(value)] for name, value in counted.items()]
        lines += columns(["counter", "value"], rows)
    if outcome["shared"]:
        lines += ["", "Shared memory"]
        head = ["kind", "requests", "transactions", "wavefronts", "ideal", "excess", "conflicts"]
        names = ["requests_shared", "transactions_shared", "wavefronts_hardware"]
        names += [IDEAL, "excess", "conflicts_shared"]
        rows = [[row["kind"], *(count(row[name]) for name in names)] for row in outcome["shared"]]
        lines += columns(head, rows)
    if outcome["global"]:
        lines += ["", "Global memory"]
        rows = [[row["kind"], *(count(row[name]) for name in GLOBAL)] for row in outcome["global"]]
        lines += columns(["kind", "requests", "sectors", "ideal"], rows)
    calls = " (a line that calls a header includes its cost)" if outcome["headers"] else ""
    if outcome["lines"]:
        lines += ["", outcome["file"] + calls, *source_table(outcome["lines"])]
    for name, used in outcome["headers"].items():
        lines += ["", f"{name}, the lines that became instructions", *source_table(used)]
    launched = outcome["launched_seconds"]
    rate = outcome["thread_instructions"] / launched / 1e6 if launched else 0.0
    lines += [
        "",
        f"{count(outcome['thread_instructions'])} thread instructions executed in "
        f"{launched:.2f} s ({rate:.0f} million a second); {outcome['seconds']:.2f} s with inputs and check",
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------- the end


def exit_code(outcome: Mapping[str, Any]) -> int:
    """Return the exit code for a document; a probe that ends as its front matter says is right.

    A failure that rests on a guess of `wrap` is no verdict."""
    if outcome["expected"]:
        return result.RIGHT
    judged = outcome["operation"] != "probe"
    code = result.exit_code(outcome["status"], outcome["verdict"], judged)
    return result.UNCLEAR if outcome["guessed"] and code == result.NOT_RIGHT else code


def trial_row(name: str, outcome: Result) -> dict[str, Any]:
    """Return a trial of the judge as a document."""
    parts = outcome.only("case", "status", "verdict", "reason")
    return {"trial": name, "seconds": outcome.notes.get("seconds"), **parts}


def execute(
    options: argparse.Namespace, machine: Any = None, budget_s: float = 0.0
) -> dict[str, Any]:
    """Compile and execute the case of the command line. Raises UserError.

    budget_s: seconds for the judge's other trials of a correct case; one that is not right decides the verdict.
    """
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        selected, job, entry = planned(options, Path(folder))
        kernel_reference.execute, done = reference_kernel.outputs, None
        if isinstance(job, Job):
            machine = machine or execution.engine(saying=say, processes=os.cpu_count() or 1)
            done = case.run(replace(job, watch=options.lanes is not None), machine)
        outcome = document(arch_of(options), selected, job, entry, done)
        if done is not None and isinstance(job, Job) and (gpu := gpu_of(options)) is not None:
            outcome["bound"] = least.of_execution(done, job, gpu)
        if options.lanes is not None and done is not None:
            outcome["lanes"] = _drawn(watched.watched(done), outcome, options)
        elif budget_s > 0 and done is not None and done.result.verdict == result.CORRECT:
            outcome |= _trials(options, selected, entry, budget_s, machine, done)
        return outcome


def _trials(
    options: argparse.Namespace,
    selected: Case,
    entry: Mapping[str, Any],
    budget_s: float,
    machine: Any,
    done: case.CaseExecution,
) -> dict[str, Any]:
    """Return the parts of the document that the judge's other trials decide."""
    if selected.shape is None:
        return {}
    arch = arch_of(options)
    target = target_of(arch, None if options.gpu is None else gpu_of(options))
    results = trials.judged(
        selected, arch, target, entry, seed=options.seed, limit_s=options.limit,
        budget_s=budget_s, machine=machine, done=done,
        limiting=_case(kernel_of(options.kernel), options).variant,
    )  # fmt: skip
    parts = {
        "trials": [trial_row(tried.trial.name, tried.result) for tried in results],
        "tried": trials.summary(results),
    }
    worst = trials.worst(results)
    if worst.right or worst.result.status not in (result.OK, *result.FAILURES):
        return parts  # a trial without time or an opcode says nothing about this case
    reason = f"{worst.trial.title}: {worst.result.reason}"
    faults = worst.result.notes.get("faults", [])
    return parts | worst.result.only("status", "verdict") | {"reason": reason, "faults": faults}


def _drawn(
    diagrams: Sequence[Diagram], outcome: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Write the diagram of --lanes; return its path and its lines of text."""
    diagram = watched.at_line(diagrams, options.lanes, outcome["file"])
    path = options.output or Path(f"{outcome['kernel']}_line_{options.lanes.replace(':', '_')}.svg")
    try:
        path.write_text(diagram.svg(), encoding="utf-8")
    except OSError as error:
        problem = f"{path} cannot be written ({error.strerror})"
        raise UserError.because(HERE, problem, "Choose another --output FILE") from error
    return {"file": str(path), "text": watched.text_lines(diagram)}
