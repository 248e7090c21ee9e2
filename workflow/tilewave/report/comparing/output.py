"""A comparison as text and as Markdown, and the rules that fail a run."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from tilewave.basics.columns import count, filled
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.tables import table_beside
from tilewave.kernel import result
from tilewave.records.counters.catalogue import EXCESS
from tilewave.report.cells import cell, plural
from tilewave.report.comparing.changes import Comparison
from tilewave.report.rendering import render
from tilewave.theory import ratios

RULES: dict[str, str] = table_beside(__file__)
SHOWN = 40
FIRST = (ratios.SLOWER, ratios.FASTER, ratios.AMBIGUOUS, ratios.SAME)
"""Order of the verdicts in the tables."""
_RULE = re.compile(r"(?P<name>[a-z]+)(?::(?P<percent>\d+(?:\.\d+)?)%?)?")


def described(names: Iterable[str]) -> str:
    """Return what these rules mean, for a help text."""
    return "; ".join(f"{name}: {RULES[name]}" for name in names).replace("%", "%%")


def rules(text: str) -> dict[str, float]:
    """Parse ``slower:3%,excess`` into percentages by rule. Raises UserError for anything else."""
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _RULE.fullmatch(part)
        if match is None or match["name"] not in RULES:
            raise UserError(HERE, "--fail-on", part, sorted(RULES))
        if match["percent"] and match["name"] != "slower":
            problem = f"--fail-on {part} has a percentage, which only slower takes"
            raise UserError.because(HERE, problem, f"Write {match['name']}", "--fail-on")
        limits[match["name"]] = float(match["percent"] or 0)
    return limits


def failures(comparison: Comparison, wanted: dict[str, float]) -> list[str]:
    """Return a line for each change that breaks one of these rules."""

    def grown(name: str) -> list[str]:
        rows = comparison.counts.query("`count` == @name and after > before")
        return [f"{row.case}: {named(name)} {count(row.before)} to {count(row.after)}"
                for row in rows.itertuples()]  # fmt: skip

    def wrong() -> list[str]:
        before, after = comparison.verdicts["before"], comparison.verdicts["after"]
        worse = (before == result.CORRECT) | after.isin([result.WRONG, *result.FINDINGS])
        rows = comparison.verdicts[worse & before.isin([result.CORRECT, result.NOT_CHECKED])]
        lines = [f"{row.case}: {row.before}, now {row.after}" for row in rows.itertuples()]
        return [*lines, *(f"skipped: {why}" for why in comparison.broken)]

    def slower() -> list[str]:
        rows = comparison.times[comparison.times["verdict"] == ratios.SLOWER]
        rows = rows[rows["ratio"] >= 1 + wanted["slower"] / 100]
        return [f"{row.case}: {100 * (row.ratio - 1):.1f} % slower" for row in rows.itertuples()]

    rules: dict[str, Callable[[], list[str]]] = {
        "wrong": wrong, "slower": slower, "excess": lambda: grown(EXCESS),
        "registers": lambda: grown("registers"), "spills": lambda: grown("spill_bytes"),
    }  # fmt: skip
    return [line for name in wanted for line in rules[name]()]


def undecided(comparison: Comparison) -> bool:
    """Return whether nothing checked any case that was compared; probes are not checked."""
    if not comparison.compared:
        return False
    cases = comparison.after.cases
    cases = cases[cases["case"].isin(comparison.before.cases["case"])]
    verdicts = cases[cases["operation"] != "probe"]["verdict"]
    return len(verdicts) > 0 and bool((verdicts == result.NOT_CHECKED).all())


def named(count: str) -> str:
    """Return a count's name with spaces."""
    return count.replace("_", " ")


def times(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the table of times for readers: by verdict, the largest change first."""
    rows = rows.astype(dict.fromkeys(("ratio", "low", "high"), float))
    rows = rows.assign(order=rows["verdict"].map(FIRST.index), far=-(rows["ratio"] - 1).abs())
    rows = rows.sort_values(["order", "far"])
    change, low, high = ((100 * (rows[name] - 1)).round(2) for name in ("ratio", "low", "high"))
    return pd.DataFrame({
        "case": rows["case"], "before (us)": rows["before_us"], "after (us)": rows["after_us"],
        "change (%)": change, "from (%)": low, "to (%)": high, "verdict": rows["verdict"],
    })  # fmt: skip


def predicted(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the table of predicted times for readers, the largest change first."""
    change = (100 * (rows["after_us"].astype(float) / rows["before_us"] - 1)).round(2)
    shown = rows.rename(columns={f"{side}_us": f"{side} (us)" for side in ("before", "after")})
    shown = shown.assign(**{"change (%)": change}).round(2)
    return shown.sort_values("change (%)", key=lambda column: -column.abs(), kind="stable")


def counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the table of counts for readers, with the change in percent, empty from 0."""
    change = 100 * (rows["after"] / rows["before"].where(rows["before"] != 0) - 1)
    return pd.DataFrame({
        "case": rows["case"], "count": rows["count"].map(named), "before": rows["before"],
        "after": rows["after"], "change (%)": change.astype(float),
    })  # fmt: skip


def _parts(comparison: Comparison) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, head and rows of each table with rows."""
    lines = comparison.lines.rename(columns={"before": "excess before", "after": "excess after"})
    tables = {
        "Verdicts that changed": comparison.verdicts,
        "Times": times(comparison.times[comparison.times["verdict"] != ratios.SAME]),
        "Predicted times of cases that were not timed": predicted(comparison.predicted),
        "Counts and resources that differ": counts(comparison.counts),
        "Lines whose excess wavefronts differ": lines,
    }
    return [
        (title, list(table), [[*map(cell, row)] for row in table.itertuples(index=False)])
        for title, table in tables.items()
        if len(table)
    ]


def headline(comparison: Comparison) -> str:
    """Return how many cases are faster, the same, slower, ..., and in how many counts differ."""
    judged = comparison.times["verdict"].value_counts()
    differing = comparison.counts["case"].nunique()
    times = ", ".join(f"{judged[name]} {name}" for name in ratios.VERDICTS if name in judged)
    counts = f"counts differ in {plural(differing, 'case')}" if differing else "no count differs"
    sides = f"{comparison.before.label} to {comparison.after.label}"
    cases = f"{plural(comparison.compared, 'case')} on both sides"
    return f"{sides}: {cases}; {times or 'no case timed on both sides'}; {counts}"


def unmatched(comparison: Comparison) -> list[str]:
    """Return lines on the kernels of one side only, and on files that were skipped."""
    sides = (("only before", comparison.gone), ("only after", comparison.new))
    lines = [f"{word}: {', '.join(names)}" for word, names in sides if names]
    return [*lines, *(f"skipped: {why}" for why in comparison.skipped)]


def _content(comparison: Comparison) -> dict[str, Any]:
    tables = {"unmatched": unmatched(comparison), "parts": _parts(comparison), "shown": SHOWN}
    return {"headline": headline(comparison), **tables}


def text(comparison: Comparison) -> str:
    """Return the comparison for a terminal."""
    return filled(__file__, "output", **_content(comparison)) + "\n"


def markdown(comparison: Comparison) -> str:
    """Return the comparison for a step summary or a pull request."""
    return render("compare.md.j2", _content(comparison))
