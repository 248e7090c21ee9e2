"""``tilewave explain``: what limits the kernels in anyone's report of Nsight Compute, without a GPU."""

import dataclasses
import json
import re
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tilewave.basics.columns import columns, count
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.tables import table_beside
from tilewave.commands import compare, flags
from tilewave.gpu.ncu.launches import TIME, ProfiledLaunch, of_report
from tilewave.kernel import result
from tilewave.records.counters.catalogue import EXCESS, SAMPLES, STALL_SAMPLES
from tilewave.records.store import write_atomically
from tilewave.report import advice
from tilewave.report.cells import cell
from tilewave.report.comparing import output
from tilewave.report.comparing.changes import TIMES, Comparison, Side
from tilewave.report.comparing.sides import with_occupancy
from tilewave.theory import ratios
from tilewave.theory.data_sheets import data_sheet
from tilewave.theory.occupancy import SmLimits

RULES = ("excess", "registers", "slower")
"""Rules of `tilewave compare` that a report can break."""
MARGIN = 0.05
"""Relative difference of two times, one launch each, from which the verdict is slower or faster."""
TABLES = table_beside(__file__)
SIZES: dict[str, str] = TABLES["sizes"]
LINK, SENTENCE = (re.compile(TABLES[key]) for key in ("link", "sentence"))
SHARED = [f"launch__shared_mem_per_block_{part}" for part in ("static", "dynamic")]
COLUMNS = ("place", "text", "waits for", SAMPLES, "executed", EXCESS, "sectors_global")
STALL = STALL_SAMPLES.format("")
TEXT = 60
"""The most characters of a source line."""
PARAGRAPH = textwrap.TextWrapper(110, initial_indent="  - ", subsequent_indent="    ")


def add(commands: Any) -> None:
    flags.command(commands, "explain", run, rules=output.described(RULES))


def _case(launch: ProfiledLaunch) -> dict[str, Any]:
    """Return a launch as a row of the table of cases."""
    sizes = {name: launch.metrics.get(metric) for name, metric in SIZES.items()}
    shared = [launch.metrics.get(metric, 0) for metric in SHARED]
    case = {"case": launch.name, "operation": "probe", "verdict": result.NOT_CHECKED}
    return case | sizes | {"shared_bytes": sum(shared)}


def subject_of(launch: ProfiledLaunch) -> advice.Subject:
    """Return what the rules of advice need of a launch."""
    counted = [row for row in launch.rows if row["opcode"]]
    sampled = [{**row, "case": "@this launch"} for row in launch.rows if SAMPLES in row]
    subject = advice.Subject(_case(launch), launch.metrics, counted, {}, launch.device, sampled)
    bound = advice.least(launch.metrics, counted, data_sheet(launch.device["gpu"]), subject.case)
    cycles = bound.pipes if bound and subject.elapsed else {}
    busy = {pipe: needed / (subject.elapsed or 1) for pipe, needed in cycles.items()}
    return dataclasses.replace(subject, busy=busy, least=bound)


def lines_of(launch: ProfiledLaunch) -> pd.DataFrame:
    """Return a launch's lines, or its instructions without source, those with most samples first."""
    rows = pd.DataFrame(list(launch.rows))
    if rows.empty:
        return rows
    numbers = [name for name in rows.select_dtypes("number") if name not in ("address", "line")]
    lines = rows.groupby(["file", "line", "text"])[numbers].sum()
    if stalls := [name for name in numbers if name.startswith(STALL)]:
        waits = lines[stalls].idxmax(axis=1).str.removeprefix(STALL)
        lines["waits for"] = waits.where(lines[stalls].max(axis=1) > 0, "")
    order = [name for name in (SAMPLES, EXCESS, "executed") if name in lines]
    return lines.sort_values(order, ascending=False, kind="stable").reset_index()


def _table(lines: pd.DataFrame) -> list[str]:
    if lines.empty:
        return ["  It has no counters of instructions, which --section SourceCounters adds"]
    place = (lines["file"] + ":" + lines["line"].astype(str)).where(lines["line"] > 0, "")
    lines = lines.assign(place=place, text=lines["text"].str.slice(0, TEXT)).map(cell)
    shown = lines[[name for name in COLUMNS if name in lines]]
    return columns([output.named(name) for name in shown], shown.to_numpy().tolist(), 3)


def findings(launch: ProfiledLaunch, subject: advice.Subject) -> list[str]:
    """Return the findings of the advice, then the first sentence of each of ncu's rules."""
    sentences = []
    for finding in advice.for_case(subject):
        saved = f"{100 * (finding.bound or 0):.0f} % of the time"
        bound = f" (fixing it saves at most {saved})" if finding.bound else ""
        sentences.append(f"{finding.rule}: {finding.sentence}{bound}")
    rules = [rule for rule in launch.rules if rule["kind"] in ("optimization", "warning", "error")]
    for rule in sorted(rules, key=lambda rule: -rule.get("speedup", 0.0)):
        speedup = f" (ncu: {rule['speedup']:.0f} %)" if "speedup" in rule else ""
        message = LINK.sub(r"\1", rule["message"])
        first = SENTENCE.split(message, maxsplit=1)[0].rstrip(".")
        sentences.append(": ".join(filter(None, (rule["title"], first))) + speedup)
    return sentences


def explained(launch: ProfiledLaunch, most: int) -> tuple[str, dict[str, Any]]:
    """Return a launch's time and sizes, its limit, findings and lines as text, and everything as a document."""
    subject, rows = subject_of(launch), lines_of(launch)
    sentences = findings(launch, subject)
    sizes = [f"{count(launch.metrics[TIME])} ns"] if TIME in launch.metrics else []
    case = {name: value for name, value in _case(launch).items() if isinstance(value, float)}
    sizes += [f"{count(value)} {output.named(name)}" for name, value in case.items()]
    lines = [f"{launch.name}: {', '.join(sizes)}", f"  {subject.limit}".rstrip()]
    for sentence in sentences:
        lines += PARAGRAPH.wrap(" ".join(sentence.split()))
    text = "\n".join([*filter(None, lines), *_table(rows.head(most))])
    more = {"rows": rows.to_dict("records"), "findings": sentences}
    return text, dataclasses.asdict(launch) | more


def side(label: str, launches: Sequence[ProfiledLaunch]) -> Side:
    times = [launch.metrics.get(TIME, np.nan) / 1e3 for launch in launches]
    cases = pd.DataFrame([_case(launch) for launch in launches]).assign(us=times)
    cases = with_occupancy(cases, SmLimits.if_known(launches[0].device))
    rows = [{**row, "case": launch.name} for launch in launches for row in launch.rows]
    return Side(label, cases, instructions=pd.DataFrame(rows).assign(stage="counters"))


def compared(before: Side, after: Side) -> Comparison:
    """Compare two reports by their counts, and by the time of one launch each."""
    names = [list(side.cases["case"]) for side in (before, after)]
    gone, new = ([name for name in names[at] if name not in names[1 - at]] for at in (0, 1))
    both = before.cases.merge(after.cases, on="case", suffixes=("_before", "_after"))
    times = both.rename(columns={"us_before": "before_us", "us_after": "after_us"})
    times["ratio"] = times["after_us"] / times["before_us"]
    changed = times["ratio"] > 1 + MARGIN, times["ratio"] < 1 - MARGIN
    times["verdict"] = np.select(changed, [ratios.SLOWER, ratios.FASTER], ratios.SAME)
    times = times.dropna(subset="ratio").reindex(columns=TIMES).assign(margin=MARGIN)
    comparison = Comparison(before, after, gone, new)
    comparison.times = times
    return comparison


def run(options: Namespace) -> int:
    """Explain and return the exit code. Raises UserError."""
    rules = output.rules(options.fail_on)
    for name in rules.keys() - set(RULES):
        raise UserError(HERE, "--fail-on", name, RULES)
    if len(options.reports) > 2 or (rules and len(options.reports) < 2):
        problem = f"there are {len(options.reports)} reports"
        raise UserError.because(HERE, problem, "Name one or two; --fail-on compares two")
    reports = [of_report(path, options.kernel) for path in options.reports]
    texts, kernels = zip(*(explained(launch, options.lines) for launch in reports[-1]))
    flags.show("\n\n".join(texts))
    document: dict[str, Any] = {"schema_version": 1, "kernels": list(kernels)}
    broken: list[str] = []
    if len(reports) > 1:
        sides = [side(path.name, report) for path, report in zip(options.reports, reports)]
        comparison = compared(*sides)
        broken = output.failures(comparison, rules)
        flags.show("\n" + output.text(comparison))
        document["comparison"] = comparison.document()
    if options.json:
        write_atomically(options.json, f"{json.dumps(document, indent=1)}\n".encode())
    compare.show_broken(options.fail_on, broken)
    return result.NOT_RIGHT if broken else result.RIGHT
