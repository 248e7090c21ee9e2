"""The outcome of an execution: as one JSON document, and as text for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewave.basics.columns import columns, count
from tilewave.basics.paths import relative
from tilewave.commands import SCHEMA_VERSION
from tilewave.execution import case, least, predicted
from tilewave.kernel import result
from tilewave.kernel.front_matter import GUESSED, Kernel
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline.cases import Case
from tilewave.records.counters.instructions import instruction_kind

Row = Mapping[str, Any]
PRINTED = 40
"""Most lines of a kernel's printf that are shown."""
GOOD = (result.CORRECT, result.NOT_CHECKED)
IDEAL = "wavefronts_shared_ideal"
WAVEFRONTS = f"wavefronts_hardware wavefronts_shared {IDEAL}"
SHARED = f"requests_shared transactions_shared {WAVEFRONTS} conflicts_shared".split()
GLOBAL = "requests_global sectors_hardware sectors_global_ideal".split()
LINE = f"executed threads_executed {WAVEFRONTS} sectors_hardware".split()


def _sums(rows: Iterable[Row], names: Sequence[str]) -> dict[str, int]:
    """Sum the columns; rows without hardware wavefronts (wgmma) add no ideal wavefronts."""
    rows = list(rows)
    counted = [row for row in rows if row.get("wavefronts_hardware") is not None]
    summed = {name: counted if name == IDEAL else rows for name in names}
    return {name: sum(int(row.get(name) or 0) for row in of) for name, of in summed.items()}


def _kinds(rows: Sequence[Row], column: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Sum the columns for each kind of instruction whose rows have ``column``."""
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(instruction_kind(str(row["opcode"])), []).append(row)
    return [
        {"kind": kind, **_sums(of_kind, names)}
        for kind, of_kind in by_kind.items()
        if any(column in row for row in of_kind) and any(row["executed"] for row in of_kind)
    ]


def _with_excess(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"excess": row["wavefronts_hardware"] - row[IDEAL]}


def _summed(rows: Iterable[Row], column: str, texts: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return each line with the sums of the rows whose ``column`` is its number."""
    by_line: dict[int, list[Row]] = {}
    for row in rows:
        by_line.setdefault(int(row[column]), []).append(row)
    sums = {line: _sums(by_line.get(line, ()), LINE) for line in texts}
    return [_with_excess({"line": line, "text": texts[line], **of}) for line, of in sums.items()]


def _lines(kernel: Kernel, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each line after the front matter with its sums, also for what it calls in headers."""
    texts, start = enumerate(kernel.text.splitlines(), 1), kernel.front_lines
    return _summed(rows, "kernel_line", {line: text for line, text in texts if line > start})


def _headers(kernel: Kernel, table: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each header that became instructions, with their sums."""
    names = sorted({str(row["file"]) for row in table} - {"", kernel.path.name})
    by_file = {name: [row for row in table if row["file"] == name] for name in names}
    return {
        name: _summed(rows, "line", dict(sorted((row["line"], row["text"]) for row in rows)))
        for name, rows in by_file.items()
    }


def _geometry(launch: Any, resources: Row) -> dict[str, Any]:
    """Return the sides of a launch, or none of a case that cannot run."""
    return {
        "grid": list(launch.grid) if launch else [],
        "block": list(launch.block) if launch else [],
        "dynamic_shared_bytes": launch.shared_bytes if launch else 0,
        "resources": resources,
    }


def document(
    arch: str, selected: Case, planned: Job | Result, entry: Row, done: case.CaseExecution | None
) -> dict[str, Any]:
    job = planned if isinstance(planned, Job) else None
    launch = job.launch if job else None
    job_result = done.result if done is not None else planned
    assert not isinstance(job_result, Job)
    kernel, resources = selected.variant.kernel, entry.get("resources", {})
    rows = done.rows() if done is not None else []
    launches = [
        {"entry": name, **_geometry(step, resources.get(name, {}))}
        for (name, _), step in zip(kernel.launches, launch.steps if launch else ())
    ]
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
        "guessed": guesses,
        "variant": selected.variant.id,
        "macros": selected.variant.names,
        "case": selected.id,
        "arch": arch,
        "shape": job.shape if job else {},
        **_geometry(launch, resources.get(kernel.entry, {})),
        **({"launches": launches} if launch and launch.series else {}),
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


def trial_row(name: str, outcome: Result) -> dict[str, Any]:
    parts = outcome.only("case", "status", "verdict", "reason")
    return {"trial": name, "seconds": outcome.notes.get("seconds"), **parts}


def rests_on(guesses: Iterable[str], status: str, verdict: str | None) -> list[str]:
    """Return the guesses of `wrap` that make a failure no verdict; a race is one whatever the kernel computes."""
    if status == result.FAILED_TO_COMPILE:
        return [key for key in guesses if key in ("entry", "macros")]
    return [key for key in guesses if key != "operation" or verdict not in result.FINDINGS]


def exit_code(outcome: Row) -> int:
    """Return the exit code for a document; a probe that ends as its front matter says is right."""
    if outcome["expected"]:
        return result.RIGHT
    judged = outcome["operation"] != "probe"
    code = result.exit_code(outcome["status"], outcome["verdict"], judged)
    failed = code in (result.NOT_RIGHT, result.USAGE)
    rests = failed and rests_on(outcome["guessed"], outcome["status"], outcome["verdict"])
    return result.UNCLEAR if rests else code


def _headline(outcome: Row) -> list[str]:
    ok = outcome["status"] == result.OK
    lines = [f"{outcome['case']}: {outcome['verdict'] if ok else outcome['status']}"]
    texts = [outcome["reason"], *outcome.get("hints", ()), outcome["warning"]]
    check = outcome["check"]
    if "worst_error" in check:
        scaled = ", ".join(f"{key} = {check[key]:g}" for key in ("alpha", "beta") if key in check)
        texts.append(
            f"largest error {check['max_error']:.3g}; nearest to its tolerance: "
            f"{check['worst_error']:.3g} of {check['worst_tolerance']:.3g}; relative error "
            f"{check['relative_error']:.3g}, tolerance {check['relative_tolerance']:.3g}"
            + (f" (worst of the runs: {scaled})" if scaled else "")
        )
    for launch in outcome.get("launches", [outcome] if outcome["grid"] else []):
        resources = launch["resources"]
        grid, block = (" x ".join(map(str, launch[name])) for name in ("grid", "block"))
        shared = int(resources.get("static_shared_bytes", 0)) + int(launch["dynamic_shared_bytes"])
        prefix = f"{launch['entry']}: " if launch is not outcome else ""
        texts.append(
            f"{prefix}{outcome['arch']}, grid {grid}, block {block}, {resources.get('registers', '?')} "
            f"registers, {count(shared)} bytes of shared memory"
        )
    texts.append(least.sentence(outcome["bound"]) if outcome.get("bound") else "")
    texts.append(predicted.sentence(outcome["time"]) if outcome.get("time") else "")
    return [*lines, *(f"  {text}" for text in (*texts, outcome.get("tried")) if text)]


def _printed(outcome: Row) -> list[str]:
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


def source_table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a file with their counts, and with ncu's wavefronts where they differ."""
    titles = {"executed": "warp inst.", "wavefronts_hardware": "wavefronts"}
    if any(row["wavefronts_shared"] != row["wavefronts_hardware"] for row in rows):
        titles["wavefronts_shared"] = "by ncu"
    titles |= {"excess": "excess", "sectors_hardware": "sectors"}
    cells_of_lines = []
    for row in rows:
        cells = [count(row[name]) if row["executed"] and row[name] else "" for name in titles]
        cells_of_lines.append([str(row["line"]), *cells])
    table = columns(["line", *titles.values()], cells_of_lines, text_columns=0)
    width = max(map(len, table))
    texts = ["source", *(row["text"] for row in rows)]
    return [f"{row.ljust(width)}  | {text}".rstrip() for row, text in zip(table, texts)]


def _section(name: str, head: Sequence[str], rows: Iterable[Row], keys: Sequence[str]) -> list[str]:
    """Return a table whose first column is text; nothing without rows."""
    values = [[row[key] for key in keys] for row in rows]
    cells = [[cell if isinstance(cell, str) else count(cell) for cell in row] for row in values]
    return ["", name, *columns(head, cells)] if cells else []


def _waits(outcome: Row) -> list[str]:
    """Return the lines at which the warps wait, by the model of time."""
    head, keys = ["line", "share", "for", "source"], ["where", "percent", "reason", "text"]
    rows = [
        {**row, "where": f"{row['file']}:{row['line']}", "percent": f"{100 * row['share']:.0f} %"}
        for row in outcome.get("waits", ())
    ]
    return _section("Where the warps' time goes (predicted)", head, rows, keys)


def time_text(document: Row) -> str:
    return "\n".join([predicted.sentence(document), *_waits(document)])


def text(outcome: Row) -> str:
    lines = _headline(outcome) + _printed(outcome)
    if not outcome["instructions"]:
        return "\n".join(lines)
    names = ["class", "executed", "threads_executed"]
    total = {"class": "all", **_sums(outcome["classes"], names[1:])}
    rows = [
        {**row, "share": f"{100 * row['executed'] / (total['executed'] or 1):.1f} %"}
        for row in (*outcome["classes"], total)
    ]
    head = ["class", "of warps", "of threads", "share"]
    lines += _section("Instructions", head, rows, [*names, "share"])
    counted = [
        {"counter": name, "value": value}
        for name, value in outcome["counters"].items()
        if name.startswith(("counted_", "sm__ops_path", "smsp__sass_thread")) and value
    ]
    lines += _section("Operations", ["counter", "value"], counted, ["counter", "value"])
    head = "kind requests transactions wavefronts ideal excess conflicts".split()
    names = ["kind", *SHARED[:3], IDEAL, "excess", SHARED[-1]]
    lines += _section("Shared memory", head, outcome["shared"], names)
    head = ["kind", "requests", "sectors", "ideal"]
    lines += _section("Global memory", head, outcome["global"], ["kind", *GLOBAL])
    lines += _waits(outcome.get("time") or {})
    calls = " (a line that calls a header includes its cost)" if outcome["headers"] else ""
    if outcome["lines"]:
        lines += ["", outcome["file"] + calls, *source_table(outcome["lines"])]
    for name, used in outcome["headers"].items():
        lines += ["", f"{name}, the lines that became instructions", *source_table(used)]
    launched = outcome["launched_seconds"]
    rate = outcome["thread_instructions"] / launched / 1e6 if launched else 0.0
    executed = f"{count(outcome['thread_instructions'])} thread instructions in {launched:.2f} s"
    seconds = f"({rate:.0f} million a second); {outcome['seconds']:.2f} s with inputs and check"
    return "\n".join([*lines, "", f"{executed} {seconds}"])
