"""The outcome of an execution: as one JSON document, and as text for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewave.basics.columns import columns, count, filled
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
CLASS_HEAD = ["class", "of warps", "of threads", "share"]
SHARED_HEAD = "kind requests transactions wavefronts ideal excess conflicts".split()
GLOBAL_HEAD = ["kind", "requests", "sectors", "ideal"]
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


def _cells(rows: Iterable[Row], keys: Sequence[str]) -> list[list[str]]:
    values = [[row[key] for key in keys] for row in rows]
    return [[cell if isinstance(cell, str) else count(cell) for cell in row] for row in values]


def _waits(document: Row) -> list[list[str]]:
    """Return the lines at which the warps wait, by the model of time: place, share, reason, text."""
    rows = document.get("waits", ())
    places = [(f"{row['file']}:{row['line']}", f"{100 * row['share']:.0f} %") for row in rows]
    return [[*at, row["reason"], row["text"]] for at, row in zip(places, rows)]


def time_text(document: Row) -> str:
    return filled(__file__, "time", sentence=predicted.sentence(document), waits=_waits(document))


def text(outcome: Row) -> str:
    names = ["class", "executed", "threads_executed"]
    total = {"class": "all", **_sums(outcome["classes"], names[1:])}
    classes = [
        {**row, "share": f"{100 * row['executed'] / (total['executed'] or 1):.1f} %"}
        for row in (*outcome["classes"], total)
    ]
    counted = [
        [name, count(value)]
        for name, value in outcome["counters"].items()
        if name.startswith(("counted_", "sm__ops_path", "smsp__sass_thread")) and value
    ]
    shared = ["kind", *SHARED[:3], IDEAL, "excess", SHARED[-1]]
    bound, time = outcome.get("bound"), outcome.get("time")
    return filled(
        __file__, "outcome", outcome=outcome, most=PRINTED, source_table=source_table,
        printed="".join(outcome["printed"]).splitlines(), waits=_waits(time or {}),
        bound=least.sentence(bound) if bound else "", time=predicted.sentence(time) if time else "",
        sections=[
            ("Instructions", CLASS_HEAD, _cells(classes, [*names, "share"])),
            ("Operations", ["counter", "value"], counted),
            ("Shared memory", SHARED_HEAD, _cells(outcome["shared"], shared)),
            ("Global memory", GLOBAL_HEAD, _cells(outcome["global"], ["kind", *GLOBAL])),
        ],
    )  # fmt: skip
